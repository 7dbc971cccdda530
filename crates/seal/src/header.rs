//! The header that every stored object begins with (docs/format.md, "Envelope").

use std::fmt;

use crate::{ObjectId, SealError};

/// The version of the format of all objects but [bundles](Kind::Bundle). It is frozen: what a later
/// program may add is in docs/format.md, "Versions".
pub const FORMAT_VERSION: u8 = 1;

/// Length in bytes of the header that every object begins with.
pub const HEADER_LEN: usize = 48;

pub(crate) const MARK: &[u8; 4] = b"1FLD";

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The repository's configuration.
    Config,
    /// A container of chunks.
    Container,
    /// A sorted run of the index.
    Run,
    /// A snapshot.
    Snapshot,
    /// The receipt of an acknowledged backup.
    Receipt,
    /// The master key, wrapped by a password.
    Key,
    /// The sealing key of an epoch.
    Epoch,
    /// A backup's notice that it relies on what the repository holds.
    Intent,
    /// A prune's list of containers that it is about to delete.
    Mark,
    /// What stands in a snapshot's place so that its backup can no longer commit.
    Fence,
    /// An entry of a writer's log.
    LogEntry,
    /// The master key, wrapped for a public key.
    KeyForPair,
    /// What became of a write-only client.
    Client,
    /// Copies of log entries or snapshots.
    Bundle,
    /// Copies of index runs.
    RunBundle,
}

impl Kind {
    /// Every kind, for tests and listings.
    pub const ALL: &[Kind] = &[
        Kind::Config,
        Kind::Container,
        Kind::Run,
        Kind::Snapshot,
        Kind::Receipt,
        Kind::Key,
        Kind::Epoch,
        Kind::Intent,
        Kind::Mark,
        Kind::Fence,
        Kind::LogEntry,
        Kind::KeyForPair,
        Kind::Client,
        Kind::Bundle,
        Kind::RunBundle,
    ];

    /// The number that stands for this kind on disk.
    pub const fn code(self) -> u8 {
        match self {
            Kind::Config => 1,
            Kind::Container => 2,
            Kind::Run => 3,
            Kind::Snapshot => 4,
            Kind::Receipt => 5,
            Kind::Key => 6,
            Kind::Epoch => 7,
            Kind::Intent => 8,
            Kind::Mark => 9,
            Kind::Fence => 10,
            Kind::LogEntry => 11,
            Kind::KeyForPair => 12,
            Kind::Client => 13,
            // Told apart by their ids, and by the key that seals them.
            Kind::Bundle | Kind::RunBundle => 14,
        }
    }

    /// The version of the format that has such objects.
    pub const fn version(self) -> u8 {
        match self {
            Kind::Bundle | Kind::RunBundle => 2,
            _ => FORMAT_VERSION,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.code() == code)
    }

    /// Whether the key that seals such objects is the root sealing key: they belong to no epoch.
    pub(crate) const fn is_under_root(self) -> bool {
        matches!(self, Kind::Config | Kind::Key | Kind::KeyForPair | Kind::Epoch | Kind::Client)
    }

    /// Whether the index key seals such objects, which everybody who writes has to read. Their epoch
    /// says only which key opens what they tell of.
    pub(crate) const fn is_under_index(self) -> bool {
        matches!(self, Kind::Run | Kind::Mark | Kind::RunBundle)
    }

    /// Whether the sealing key of an epoch seals such objects, if no write-only client does.
    pub(crate) const fn has_epoch(self) -> bool {
        !self.is_under_root() && !self.is_under_index()
    }

    /// Whether write-only clients seal such objects in a suite of their own.
    pub(crate) const fn has_writers(self) -> bool {
        self.has_epoch() && !matches!(self, Kind::Bundle)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Config => "config",
            Kind::Container => "container",
            Kind::Run => "index run",
            Kind::Snapshot => "snapshot",
            Kind::Receipt => "receipt",
            Kind::Key => "key",
            Kind::Epoch => "key epoch",
            Kind::Intent => "intent",
            Kind::Mark => "mark",
            Kind::Fence => "fence",
            Kind::LogEntry => "log entry",
            Kind::KeyForPair => "key for a pair",
            Kind::Client => "word on a write-only client",
            Kind::Bundle => "bundle",
            Kind::RunBundle => "bundle of index runs",
        })
    }
}

/// The flag of a body that ends in padding.
const PADDED: u8 = 1;

/// How the bodies of objects are protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Suite {
    /// Stored as they are; checks find damage, not malice.
    Plain,
    /// Sealed by AES-256-GCM.
    Aes256Gcm,
    /// The same, by a client that can write and not read.
    Writer,
}

impl Suite {
    const fn code(self) -> u8 {
        match self {
            Suite::Plain => 0,
            Suite::Aes256Gcm => 1,
            Suite::Writer => 2,
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Suite::Plain),
            1 => Some(Suite::Aes256Gcm),
            2 => Some(Suite::Writer),
            _ => None,
        }
    }
}

/// What a header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) suite: Suite,
    /// Which key sealed it: a key epoch, or the number of a write-only client.
    pub(crate) epoch: u32,
    /// Whether the body ends in padding.
    pub(crate) is_padded: bool,
    pub(crate) repository: ObjectId,
    pub(crate) id: ObjectId,
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER_LEN] {
        let mut header = [0; HEADER_LEN];
        header[0..4].copy_from_slice(MARK);
        header[4] = self.kind.version();
        header[5] = self.kind.code();
        header[6] = self.suite.code();
        // Byte 7 is reserved, and all other flags.
        header[12] = if self.is_padded { PADDED } else { 0 };
        header[8..12].copy_from_slice(&self.epoch.to_le_bytes());
        header[16..32].copy_from_slice(self.repository.as_bytes());
        header[32..48].copy_from_slice(self.id.as_bytes());
        header
    }

    /// Reads a header that belongs to an object of `kind`.
    pub(crate) fn read(kind: Kind, header: &[u8; HEADER_LEN]) -> Result<Self, SealError> {
        if header[0..4] != *MARK {
            return Err(SealError::NotOnefold);
        }
        if header[4] != kind.version() {
            return Err(SealError::Version { found: header[4], known: kind.version() });
        }
        if header[5] != kind.code() {
            let found = Kind::from_code(header[5])
                .map_or_else(|| format!("kind {}", header[5]), |k| k.to_string());
            return Err(SealError::WrongKind { found, expected: kind });
        }
        let suite = suite(header)?;
        let epoch = epoch(header);
        let flags = word(header, 12);
        let may_pad = suite != Suite::Plain && !kind.is_under_root() && kind != Kind::Container;
        let is_padded = may_pad && flags == u32::from(PADDED);
        let unknown = if is_padded { 0 } else { flags };
        for (field, found) in [("reserved", u32::from(header[7])), ("flags", unknown)] {
            if found != 0 {
                return Err(SealError::Reserved { field, found });
            }
        }
        if suite == Suite::Writer && !kind.has_writers() {
            return Err(SealError::Reserved { field: "suite", found: suite.code().into() });
        }
        let is_right = match suite {
            Suite::Plain => epoch == 0,
            Suite::Aes256Gcm => epoch == 0 || !kind.is_under_root(),
            Suite::Writer => epoch != 0,
        };
        if !is_right {
            return Err(SealError::Reserved { field: "key epoch", found: epoch });
        }
        let id = |at: usize| ObjectId::from_bytes(header[at..at + 16].try_into().expect("16"));
        Ok(Self { kind, suite, epoch, is_padded, repository: id(16), id: id(32) })
    }
}

/// The header of `object`, if it has one and bears Onefold's mark.
pub(crate) fn header_of(object: &[u8]) -> Result<&[u8; HEADER_LEN], SealError> {
    if object.len() >= MARK.len() && !object.starts_with(MARK) {
        return Err(SealError::NotOnefold);
    }
    let (found, expected) = (object.len() as u64, HEADER_LEN as u64);
    object.first_chunk().ok_or(SealError::Truncated { found, expected })
}

/// The suite that a header names, before anything vouches for it.
pub(crate) fn suite(header: &[u8; HEADER_LEN]) -> Result<Suite, SealError> {
    let found = u32::from(header[6]);
    Suite::from_code(header[6]).ok_or(SealError::Reserved { field: "suite", found })
}

/// That a header names a later version than this program knows of `kind`, before anything vouches for it.
pub(crate) fn later(kind: Kind, header: &[u8; HEADER_LEN]) -> Option<SealError> {
    let (found, known) = (header[4], kind.version());
    (found > known).then_some(SealError::Version { found, known })
}

/// The key epoch that a header names, or the write-only client, before anything vouches for it.
pub(crate) fn epoch(header: &[u8; HEADER_LEN]) -> u32 {
    word(header, 8)
}

/// The repository that a header names, before anything vouches for it.
pub(crate) fn repository(header: &[u8; HEADER_LEN]) -> ObjectId {
    ObjectId::from_bytes(header[16..32].try_into().expect("16 bytes"))
}

fn word(header: &[u8; HEADER_LEN], at: usize) -> u32 {
    u32::from_le_bytes(header[at..at + 4].try_into().expect("4 bytes"))
}
