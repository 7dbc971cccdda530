use std::error::Error;
use std::{fmt, io};

use onefold_backend::{BackendError, Operation};
use onefold_block::BlockError;
use onefold_container::ContainerError;
use onefold_index::TableError;
use onefold_seal::wire::WireError;
use thiserror::Error as ThisError;

use crate::ids::{Writer, container_name, number_of};

/// What can go wrong with a pool and its volumes.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum VolumeError {
    /// The folder failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// There is no table of fingerprints.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A container cannot be written or read.
    #[error(transparent)]
    Container(ContainerFileError),
    /// A volume cannot be read or written.
    #[error("volume '{name}': {source}")]
    Volume {
        /// Its name.
        name: String,
        /// Why.
        source: BlockError,
    },
    /// A stream cannot be read or written.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// A volume has all of a stream, and its name could not be made durable.
    #[error(
        "volume '{name}' is there with all of the stream, but not durably: a crash may leave it \
         without this name"
    )]
    NotDurable {
        /// Its name.
        name: String,
        /// Why.
        source: Box<VolumeError>,
    },
    /// A stream has the changes to another content.
    #[error("'{name}' is not what the stream was made from: its content is another")]
    OtherBase {
        /// The volume to which the changes were to be applied.
        name: String,
    },
    /// A stream has the changes to a base, and none was named.
    #[error("the stream has what changed since a base, expected the volume that is this base")]
    NoBase,
    /// A stream has all of a volume, and a base was named.
    #[error("the stream has all of a volume, expected no base")]
    NeedlessBase,
    /// Something is not as it was written.
    #[error("{object}, byte {at}: {problem}")]
    Damaged {
        /// The file.
        object: String,
        /// Where in it, in bytes.
        at: u64,
        /// What is wrong.
        problem: String,
    },
    /// Frames of a journal are damaged or missing, and some of them may have been acknowledged. Nothing
    /// was changed but the mark.
    #[error(
        "{journal}, byte {at}: {problem}: what was flushed may be missing, and the pool is left as it is"
    )]
    Incomplete {
        /// The journal.
        journal: String,
        /// Where its whole frames end, in bytes.
        at: u64,
        /// What is wrong.
        problem: String,
    },
    /// The record of the last acknowledged frame cannot be read. Volumes are not affected.
    #[error(
        "{object}: {problem}, so it was not found out whether the last frame of the journal is there"
    )]
    UnreadRecord {
        /// The file.
        object: &'static str,
        /// Why it cannot be read.
        problem: String,
    },
    /// A record has not the form it must have, though its check holds.
    #[error("{object}: {source}")]
    Malformed {
        /// The file.
        object: String,
        /// What is wrong.
        source: WireError,
    },
    /// The folder holds no pool.
    #[error("there is no pool here")]
    NoPool,
    /// The folder has a pool whose own file is lost.
    #[error(
        "the file 'pool', which says what pool this is, is missing or empty, though '{found}' is here"
    )]
    HeadMissing {
        /// The first file of the pool there.
        found: String,
    },
    /// The folder holds something.
    #[error("a pool is made in an empty folder, and '{found}' is in this one")]
    NotEmpty {
        /// The first name there.
        found: String,
    },
    /// A later program made the pool.
    #[error("the pool has format version {found}, this program reads up to {newest}")]
    NewerVersion {
        /// Its version.
        found: u32,
        /// The newest that is known.
        newest: u32,
    },
    /// The pool is part of a cluster: it has containers that other pools made, and a folder does not.
    #[error(
        "the pool is of a cluster: its container {container} is object {number} of writer {writer}, \
         and a pool in a folder has no containers of other writers"
    )]
    OfCluster {
        /// Its number in this pool.
        container: u32,
        /// As whose container the object was made.
        writer: Writer,
        /// The number of the object among those of that writer.
        number: u64,
    },
    /// A damaged pool was to be upgraded. It is of the version that it was.
    #[error("the pool is damaged, and was not upgraded: {first}")]
    NotUpgraded {
        /// What is damaged, or the first of it.
        first: Box<VolumeError>,
    },
    /// A container of another shard has no directory yet, by which a repair finds how long pages are.
    #[error(
        "container {container} is not sealed yet, expected its directory: repeat the repair once the shard that fills \
         it has sealed it"
    )]
    NotSealed {
        /// The container.
        container: String,
    },
    /// The pool has containers, and whoever keeps what is known of it knows nothing.
    #[error(
        "nothing is known of the pool, though it has '{found}': open it with what keeps its volumes, \
         or, if none of them is wanted, remove its containers first"
    )]
    NothingKnown {
        /// The first container there.
        found: String,
    },
    /// No volume has this name.
    #[error("there is no volume '{name}'")]
    NoVolume {
        /// As given.
        name: String,
    },
    /// The volume was deleted or rolled back while it was used.
    #[error("the volume was deleted, or rolled back to a snapshot, since it was opened")]
    Deleted,
    /// The pool was opened to be read alone.
    #[error("the pool was opened read-only, and nothing changes it")]
    ReadOnlyPool,
    /// A volume has this name already.
    #[error("there is a volume '{name}' already")]
    VolumeExists {
        /// As given.
        name: String,
    },
    /// What was to be a snapshot can be written.
    #[error("'{name}' is a volume that can be written, expected a snapshot")]
    NotASnapshot {
        /// As given.
        name: String,
    },
    /// What was to be changed is a snapshot.
    #[error("'{name}' is a snapshot, which nothing changes")]
    ReadOnly {
        /// As given.
        name: String,
    },
    /// The blocks of two volumes have different sizes.
    #[error("blocks of {found} bytes, expected {expected} as the volume has")]
    OtherBlocks {
        /// In bytes.
        found: u32,
        /// In bytes.
        expected: u32,
    },
    /// A name that no volume can have.
    #[error("'{name}' is no name for a volume: {expected}")]
    BadName {
        /// As given.
        name: String,
        /// What a name must be.
        expected: &'static str,
    },
    /// A size that no volume can have.
    #[error("a volume of {size} bytes, expected {expected}")]
    BadSize {
        /// As given, in bytes.
        size: u64,
        /// What it must be.
        expected: String,
    },
    /// New pages would take more than the pool may have.
    #[error("the containers of the pool have {bytes} bytes, and its quota is {quota}")]
    Quota {
        /// What they have, in bytes.
        bytes: u64,
        /// What they may have, in bytes.
        quota: u64,
    },
    /// New pages would take more than all that share containers may have.
    #[error("the containers of all shards have {stored} bytes, and their quota is {quota}")]
    SharedQuota {
        /// What the next page needs, in bytes.
        needed: u64,
        /// What containers have, in bytes.
        stored: u64,
        /// What they may have, in bytes.
        quota: u64,
    },
    /// The disk is full but for what compactions need.
    #[error("the disk has no room beside {kept} bytes that are kept for compactions")]
    Full {
        /// How many bytes are kept.
        kept: u64,
    },
    /// Another process has the pool by now; what this one had not made durable is lost.
    #[error(
        "another process opened the pool: writer {by} has it, and takes nothing more of writer \
         {writer}, which this one is"
    )]
    Superseded {
        /// Who was refused.
        writer: Writer,
        /// Who has the pool, or had it after.
        by: Writer,
    },
    /// A batch or checkpoint that does not follow the last batch.
    #[error("batch {sequence} was handed over, expected batch {expected}")]
    OutOfOrder {
        /// The number of the batch.
        sequence: u64,
        /// That of the next.
        expected: u64,
    },
    /// Who keeps what pools know did not answer, or not as it should.
    #[error("it is not known whether what happened to the pool was kept: {source}")]
    Unanswered {
        /// What was wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Something failed before, so that it is not known what is durable.
    #[error("the pool stopped taking changes when {why}; open it again")]
    Stopped {
        /// What failed.
        why: String,
    },
}

/// What is wrong with a stream.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum StreamError {
    /// It could not be read, or written.
    #[error("the stream: {0}")]
    Io(#[from] io::Error),
    /// It does not begin as one.
    #[error("this is no stream of a volume: it does not begin as one")]
    NoStream,
    /// A later program made it.
    #[error("the stream has format version {found}, this program reads up to {newest}")]
    NewerVersion {
        /// Its version.
        found: u32,
        /// The newest that is known.
        newest: u32,
    },
    /// It ends before its end record.
    #[error("the stream is cut off in record {record}: nothing of it was kept")]
    CutOff {
        /// Which record, counted from 0.
        record: u64,
    },
    /// A record is not as it was written.
    #[error("record {record} of the stream is damaged: its check does not fit its bytes")]
    Damaged {
        /// Which record, counted from 0.
        record: u64,
    },
    /// A record says what it must not, though its check holds.
    #[error("record {record} of the stream: {source}")]
    Malformed {
        /// Which record, counted from 0.
        record: u64,
        /// What is wrong.
        source: WireError,
    },
}

/// What is wrong with a container, told with the name of its file.
#[derive(Debug)]
pub struct ContainerFileError(ContainerError);

impl fmt::Display for ContainerFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(container) = self.0.container() {
            write!(f, "{}: ", container_name(number_of(container)))?;
        }
        self.0.fmt(f)
    }
}

impl Error for ContainerFileError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

impl From<ContainerError> for VolumeError {
    fn from(error: ContainerError) -> Self {
        Self::Container(ContainerFileError(error))
    }
}

/// An error and its sources in one line, without those that it tells of itself.
pub(crate) fn told(error: &dyn Error) -> String {
    let sources = std::iter::successors(error.source(), |&error: &&dyn Error| error.source());
    sources.map(ToString::to_string).fold(error.to_string(), |told, source| {
        if told.ends_with(&source) { told } else { format!("{told}: {source}") }
    })
}

impl VolumeError {
    /// Whether it says that there is no room for what was to be written.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Self::Quota { .. } | Self::SharedQuota { .. } | Self::Full { .. } => true,
            Self::Backend(error) => error.is_full(),
            _ => false,
        }
    }

    /// Whether the same may go well a little later, so that it says nothing of what was to be read:
    /// the system opened no file, for want of descriptors or memory, or let something time out, or
    /// there was no answer.
    ///
    /// A file that is gone, or is another one, or of which the disk gives nothing back, does not pass.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Backend(error)
            | Self::Container(ContainerFileError(ContainerError::Backend {
                source: error, ..
            })) => match error {
                BackendError::Io { operation: Operation::Open, source, .. }
                    if source.is::<io::Error>() =>
                {
                    true
                }
                error => error.may_retry(),
            },
            Self::Unanswered { .. } => true,
            _ => false,
        }
    }

    /// Whether it says that what was to be read is missing, or is not as it was written. A repair gives nothing up
    /// after any other error: the next attempt may find what was to be read.
    pub(crate) fn is_of_content(&self) -> bool {
        match self {
            Self::Backend(error)
            | Self::Container(ContainerFileError(ContainerError::Backend {
                source: error, ..
            })) => {
                matches!(error, BackendError::NotFound { .. } | BackendError::OutOfRange { .. })
            }
            Self::Container(_) | Self::Damaged { .. } | Self::Malformed { .. } => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::container_id;

    #[test]
    fn a_container_is_named_by_its_file_and_the_cause_of_its_error_is_told_once() {
        let cause = io::Error::from_raw_os_error(5);
        let read = BackendError::Io {
            name: "container-0000002a".into(),
            operation: Operation::Read,
            place: "/pool".into(),
            source: cause.into(),
        };
        let container = container_id(42);
        let error = VolumeError::from(ContainerError::Backend { container, source: read });
        let text = told(&error);
        assert!(text.starts_with("container-0000002a: "), "{text}");
        assert_eq!(text.matches("os error 5").count(), 1, "{text}");
        let error = VolumeError::from(ContainerError::NoSuchSlot { container, chunks: 3, slot: 7 });
        assert!(error.to_string().starts_with("container-0000002a: "), "{error}");
    }
}
