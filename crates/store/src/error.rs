use std::io;
use std::path::{Path, PathBuf};

use onefold_backend::{BackendError, ErrorKind};
use onefold_cdc::ParamError;
use onefold_container::ContainerError;
use onefold_fingerprint::Fingerprint;
use onefold_index::IndexError;
use onefold_seal::wire::WireError;
use onefold_seal::{ObjectId, SealError};

use crate::finding::{Warning, describe};
use crate::sighting::Sighting;

/// What can go wrong with a repository.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no repository here.
    #[error("there is no repository: it has no object 'config'")]
    NoRepository,
    /// There is a repository's content without its configuration.
    #[error("'config' is missing, but '{found}' is there: a repository lost its configuration")]
    LostConfig {
        /// An object that was found.
        found: String,
    },
    /// A repository cannot be made where something is already.
    #[error("cannot make a repository: '{found}' is already there")]
    NotEmpty {
        /// An object that was found.
        found: String,
    },
    /// There is a repository already.
    #[error("there is a repository already")]
    Exists,
    /// The repository is none of those that this client has used at its location.
    #[error(
        "another repository is in '{location}' than this client has used there: found was {found}, \
         known is {}",
        known.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    OtherRepository {
        /// Where.
        location: String,
        /// The repositories that were used there.
        known: Vec<Sighting>,
        /// The one that is there now.
        found: Sighting,
    },
    /// The repository is encrypted and no password was given.
    #[error("the repository is encrypted; it takes a password to open it")]
    Locked,
    /// No key unwraps with the password.
    #[error("wrong password: none of {tried} keys opens with it")]
    WrongPassword {
        /// How many keys were tried.
        tried: usize,
    },
    /// No key was wrapped for the private key.
    #[error("the private key opens none of {tried} keys for key pairs")]
    WrongPair {
        /// How many were tried.
        tried: usize,
    },
    /// A private key opens the repository, and was not told of it.
    #[error(
        "the private key opens repository {repository}, of which its file says nothing: whoever \
         knows the public key can make such a one, and could read what is backed up to it"
    )]
    StrangeRepository {
        /// Which repository.
        repository: ObjectId,
    },
    /// No key of the repository is left.
    #[error(
        "there is no key of repository {repository}, which 'config' names, in 'keys/' ({others} of \
         other repositories): nobody can open it, whatever the password"
    )]
    NoKeys {
        /// The repository.
        repository: ObjectId,
        /// How many keys of other repositories there are.
        others: usize,
    },
    /// There is more among the keys than anybody looks at.
    #[error(
        "none of {tried} keys opens, and {left} more that lie in 'keys/' were not tried, '{first}' \
         among them: a repository has no more than 64, so somebody put garbage there"
    )]
    UntriedKeys {
        /// How many keys were tried.
        tried: usize,
        /// How many were not.
        left: usize,
        /// One of those.
        first: String,
    },
    /// There would be more keys than a repository may have.
    #[error("there are {found} keys in 'keys/', expected at most {max}")]
    TooManyKeys {
        /// How many there are, or would be.
        found: usize,
        /// How many there may be.
        max: usize,
    },
    /// The key is the one that the repository was opened with.
    #[error("key {key} is the one that the repository was opened with, or the last one")]
    KeyInUse {
        /// Which key.
        key: ObjectId,
    },
    /// No key fits the description, or several do.
    #[error("'{spec}' fits {count} keys, expected the first digits of one key's id")]
    NoKey {
        /// What was asked for.
        spec: String,
        /// How many fit.
        count: usize,
    },
    /// Another process rotated the keys at the same time.
    #[error("key epoch {epoch} was begun by another process a moment ago")]
    EpochTaken {
        /// Which epoch.
        epoch: u32,
    },
    /// There are no more epochs.
    #[error("the last key epoch has begun: there is no other")]
    LastEpoch,
    /// The sealing key of an epoch is missing, though a later one is there.
    #[error("{object} is missing: what was sealed in this key epoch cannot be read")]
    MissingEpoch {
        /// The object's name.
        object: String,
    },
    /// Something was asked for that only an encrypted repository has.
    #[error("the repository is not encrypted and has no keys")]
    NotEncrypted,
    /// The storage below failed.
    #[error(transparent)]
    Backend(BackendError),
    /// Nothing can be remembered of the repository.
    #[error("what was seen of the repository cannot be remembered")]
    Memory(#[source] BackendError),
    /// A container is damaged.
    #[error(transparent)]
    Container(ContainerError),
    /// A run of the index is damaged.
    #[error(transparent)]
    Index(IndexError),
    /// The chunker's parameters are not usable.
    #[error("chunking parameters: {0}")]
    Params(#[from] ParamError),
    /// An object's header or check is wrong.
    #[error("{object} {source}")]
    Envelope {
        /// The object's name.
        object: String,
        /// What is wrong.
        source: SealError,
    },
    /// An object passes its check and still makes no sense.
    #[error("{object} is {source}")]
    Malformed {
        /// The object's name, or what was decoded.
        object: String,
        /// Where decoding failed.
        source: WireError,
    },
    /// An object or a tree is longer than any that this program writes.
    #[error("{object} has {len} bytes, expected at most {max}")]
    TooLong {
        /// The object's name, or what was to be read.
        object: String,
        /// Its length in bytes.
        len: u64,
        /// The longest that is read.
        max: u64,
    },
    /// The key at hand can back up and not read.
    #[error("the key at hand can back up and do nothing else")]
    WriteOnly,
    /// The key of a write-only client was taken back.
    #[error(
        "the key of write-only client {client:08x} was revoked: all that is stored with it is ignored"
    )]
    KeyTakenBack {
        /// Which client.
        client: u32,
    },
    /// A write-only client's snapshot lies where somebody else committed one.
    #[error(
        "snapshots/{snapshot} was put by write-only client {client:08x}, and {by} says that somebody \
         else committed it: the snapshot that was there was taken away"
    )]
    Replaced {
        /// Which snapshot.
        snapshot: ObjectId,
        /// Which client.
        client: u32,
        /// The log entry or receipt that tells.
        by: String,
    },
    /// Two write-only clients say that a snapshot is theirs.
    #[error(
        "snapshots/{snapshot} was put by write-only client {client:08x}, and {by} says that write-only \
         client {other:08x} committed it: either the snapshot was put in the place of another, or \
         the entry names what is not its client's"
    )]
    Disputed {
        /// Which snapshot.
        snapshot: ObjectId,
        /// Which client sealed what is there.
        client: u32,
        /// The log entry that tells otherwise.
        by: String,
        /// Which client sealed that.
        other: u32,
    },
    /// The removal of a write-only client's key was seen and is not there any more.
    #[error(
        "{object} is missing: this client has seen that the key of write-only client {client:08x} was \
         revoked, and all that was put with it since counts again"
    )]
    RemovalHidden {
        /// What said so.
        object: String,
        /// Which client.
        client: u32,
    },
    /// Snapshots of a write-only client cannot be read.
    #[error(
        "{count} snapshots of write-only client {client:08x} cannot be read, {first} first; without \
         them its key would be revoked for ever, and nothing would bring them back"
    )]
    UnreadSnapshots {
        /// Which client.
        client: u32,
        /// How many.
        count: usize,
        /// One of them.
        first: String,
    },
    /// A write-only key is of another repository.
    #[error("the key is of repository {key}, this is repository {repository}")]
    ForeignKey {
        /// Of which repository the key is.
        key: ObjectId,
        /// Which repository this is.
        repository: ObjectId,
    },
    /// Directories are nested deeper than any path can name.
    #[error("directories are nested more than {max} deep")]
    TooDeep {
        /// The deepest that is followed.
        max: usize,
    },
    /// A chunk that something refers to is not in the index.
    #[error("chunk {fingerprint} is in no container")]
    MissingChunk {
        /// Which chunk.
        fingerprint: Fingerprint,
    },
    /// The bytes at a chunk's place are not the chunk.
    #[error(
        "chunk {fingerprint} is not at its place (container {container}, slot {slot}): {reason}"
    )]
    WrongChunk {
        /// Which chunk.
        fingerprint: Fingerprint,
        /// Where it should be.
        container: ObjectId,
        /// Where it should be.
        slot: u32,
        /// What is there instead.
        reason: String,
    },
    /// A recipe's chunk has another length than the recipe says.
    #[error("recipe says {expected} bytes, its chunks have {found}")]
    RecipeLength {
        /// Length that the recipe gives.
        expected: u64,
        /// Length of its chunks.
        found: u64,
    },
    /// No snapshot fits.
    #[error("no snapshot '{spec}'{hint}")]
    NoSnapshot {
        /// What was asked for.
        spec: String,
        /// Which snapshots there are, or where to look.
        hint: String,
    },
    /// Several snapshots begin with the same digits.
    #[error("'{spec}' fits {count} snapshots; give more digits")]
    AmbiguousSnapshot {
        /// What was asked for.
        spec: String,
        /// How many fit.
        count: usize,
    },
    /// A snapshot has no such path.
    #[error("snapshot {snapshot} has no '{path}'")]
    NoPath {
        /// Which snapshot.
        snapshot: ObjectId,
        /// What was asked for, lossily shown.
        path: String,
    },
    /// A device lies in a directory that is backed up with it, where it would be a node.
    #[error(
        "'{}' cannot be backed up as a device together with '{}', which it lies in; back it up on \
         its own", device.display(), source_path.display()
    )]
    DeviceInSource {
        /// The device.
        device: PathBuf,
        /// The directory, or the same path named without `--device`.
        source_path: PathBuf,
    },
    /// A prune took the backup for dead and put a fence where its snapshot was to be.
    #[error(
        "a prune revoked this backup, which had been running for too long; nothing that was there \
         is lost, and what it stored may be used by the next backup"
    )]
    Revoked,
    /// Another client forgot the snapshot before its backup could acknowledge it.
    #[error("snapshot {snapshot} was forgotten before its backup had ended")]
    Forgotten {
        /// Which snapshot.
        snapshot: ObjectId,
    },
    /// The snapshot is there, and not all that tells of it.
    #[error(
        "snapshot {snapshot} is there and whole, but it could not be acknowledged: {missing} could \
         not be put"
    )]
    Unacknowledged {
        /// Which snapshot.
        snapshot: ObjectId,
        /// What is missing.
        missing: &'static str,
        /// Why.
        source: Box<StoreError>,
    },
    /// A copy or a repair stopped where it had to tell of a snapshot that it made.
    #[error("it stopped half-way")]
    HalfWay {
        /// Why.
        source: Box<StoreError>,
    },
    /// A container that a backup reused is gone.
    #[error("container {container}, in which this backup found chunks, was removed meanwhile")]
    Vanished {
        /// Which container.
        container: ObjectId,
    },
    /// A mark cannot be read, so that nobody knows which containers it condemns.
    #[error("a list of containers to be deleted cannot be read: {damage}")]
    DamagedMark {
        /// What is wrong, and with which mark.
        damage: String,
    },
    /// A snapshot is damaged, or something that it needs is missing or damaged.
    #[error("snapshot {snapshot} is not whole")]
    Broken {
        /// Which snapshot.
        snapshot: ObjectId,
        /// What is wrong.
        source: Box<StoreError>,
    },
    /// A file operation on the source or the target failed.
    #[error("cannot {action} '{}'", path.display())]
    File {
        /// What was attempted.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// What was to be backed up from a stream did not come whole.
    #[error("'{name}' could not be read to its end: {reason}; no snapshot was made")]
    Stream {
        /// What it was to be called.
        name: String,
        /// What went wrong.
        reason: String,
    },
    /// What was to cut and fingerprint in place of the CPU failed; no snapshot was made.
    #[error("the device that cuts and fingerprints failed; no snapshot was made")]
    Accelerator(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// An archive that was to be imported is malformed, or ends early; no snapshot was made.
    #[error("the archive cannot be imported; no snapshot was made")]
    Archive(#[from] TarError),
    /// A path or option cannot be used as given.
    #[error("{0}")]
    Unusable(String),
    /// A pattern is not a glob.
    #[error(transparent)]
    Pattern(#[from] crate::PatternError),
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// Another thread of the same operation failed; its error is the one reported.
    #[error("stopped because another part of the operation failed")]
    Stopped,
}

/// Why an archive cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TarError {
    /// The bytes are no archive.
    #[error("byte {offset} of the archive: expected {expected}")]
    Malformed {
        /// Where in the archive.
        offset: u64,
        /// What should be there.
        expected: &'static str,
    },
    /// The archive ends in its middle.
    #[error("the archive ends after {offset} bytes, in its middle")]
    CutOff {
        /// How many bytes there were.
        offset: u64,
    },
    /// Its source failed.
    #[error("cannot read the archive after {offset} bytes")]
    Read {
        /// How many bytes were read.
        offset: u64,
        /// The error of the source.
        source: io::Error,
    },
}

impl From<BackendError> for StoreError {
    fn from(error: BackendError) -> Self {
        match error.kind() {
            ErrorKind::Interrupted => Self::Interrupted,
            _ => Self::Backend(error),
        }
    }
}

impl From<ContainerError> for StoreError {
    fn from(error: ContainerError) -> Self {
        match error {
            ContainerError::Backend { source, .. } if is_interrupted(&source) => Self::Interrupted,
            error => Self::Container(error),
        }
    }
}

impl From<IndexError> for StoreError {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Backend { source, .. } if is_interrupted(&source) => Self::Interrupted,
            error => Self::Index(error),
        }
    }
}

fn is_interrupted(error: &BackendError) -> bool {
    error.kind() == ErrorKind::Interrupted
}

impl StoreError {
    /// For `map_err` on file operations.
    pub(crate) fn file(
        action: &'static str,
        path: &Path,
    ) -> impl FnOnce(io::Error) -> StoreError + use<> {
        let path = path.to_owned();
        move |source| StoreError::File { action, path, source }
    }

    /// Names the path of a directory in which something is too long.
    pub(crate) fn at_path(self, path: &[u8]) -> Self {
        match self {
            Self::TooLong { object, len, max } => {
                let object = format!("'{}': {object}", String::from_utf8_lossy(path));
                Self::TooLong { object, len, max }
            }
            other => other,
        }
    }

    /// For `map_err` where more was to be done than to make one snapshot.
    pub(crate) fn half_way(self) -> Self {
        match self {
            source @ Self::Unacknowledged { .. } => Self::HalfWay { source: Box::new(source) },
            other => other,
        }
    }

    /// Whether an object was written by a version of the format that this program does not know.
    ///
    /// Such an object is not damaged, and must not be taken for lost.
    pub(crate) fn is_unknown_version(&self) -> bool {
        self.unknown_version().is_some()
    }

    /// The version of the format that an object has, if this program does not know it.
    pub fn unknown_version(&self) -> Option<u8> {
        match self.sealed() {
            Some(SealError::Version { found, .. }) => Some(*found),
            _ => None,
        }
    }

    /// The key epoch of an object, if it is none that was there when this program read the keys.
    /// Nothing vouches for the number.
    pub(crate) fn unknown_epoch(&self) -> Option<u32> {
        match self.sealed() {
            Some(SealError::UnknownEpoch { found, .. }) => Some(*found),
            _ => None,
        }
    }

    /// What is wrong with an object's envelope, if it is that.
    fn sealed(&self) -> Option<&SealError> {
        match self {
            StoreError::Envelope { source, .. }
            | StoreError::Container(ContainerError::Envelope { source, .. })
            | StoreError::Index(IndexError::Envelope { source, .. }) => Some(source),
            StoreError::Broken { source, .. } => source.sealed(),
            _ => None,
        }
    }

    /// What the storage's error says of the object that was asked for, if it is the storage that
    /// failed.
    pub fn kind(&self) -> Option<ErrorKind> {
        match self {
            Self::Interrupted => Some(ErrorKind::Interrupted),
            error => error.backend().map(BackendError::kind),
        }
    }

    /// Whether the error says nothing of what is stored: the storage could not be reached or
    /// refused, or the caller was asked to stop. Such an error never means that something is missing
    /// or damaged, or that it should be looked for elsewhere.
    pub fn is_no_answer(&self) -> bool {
        self.kind().is_some_and(|kind| kind != ErrorKind::Lost)
    }

    /// Whether the storage could not be reached, or the caller was asked to stop. Such an error ends
    /// the whole operation, for the next object cannot be had either. A refusal may concern one
    /// object.
    pub fn is_unreachable(&self) -> bool {
        matches!(self.kind(), Some(ErrorKind::Unreachable | ErrorKind::Interrupted))
    }

    /// Whether an object that was asked for is not there.
    pub(crate) fn is_not_found(&self) -> bool {
        self.backend().is_some_and(BackendError::is_not_found)
    }

    /// What the storage below reported, if it is what failed.
    pub fn backend(&self) -> Option<&BackendError> {
        match self {
            StoreError::Backend(source)
            | StoreError::Container(ContainerError::Backend { source, .. })
            | StoreError::Index(IndexError::Backend { source, .. }) => Some(source),
            StoreError::Unacknowledged { source, .. }
            | StoreError::HalfWay { source }
            | StoreError::Broken { source, .. } => source.backend(),
            _ => None,
        }
    }

    /// Whether the target of restore, or the repository, has no room left.
    pub fn is_full(&self) -> bool {
        match self {
            StoreError::File { source, .. } => is_lack_of_space(source),
            other => other.backend().is_some_and(BackendError::is_full),
        }
    }
}

/// Whether no space, or no quota, was left.
pub(crate) fn is_lack_of_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// What is wrong with an object that can be done without, or the error if it cannot.
pub(crate) fn damage(error: StoreError) -> Result<Warning, StoreError> {
    match error.is_unreachable() || error.is_unknown_version() {
        true => Err(error),
        false => Ok(describe(&error)),
    }
}
