//! The file `pool`: it says what the folder holds, and its open handle is the lock of the pool.

use onefold_backend::{Folder, Log};
use onefold_container::Codec;
use onefold_fingerprint::{FingerprintAlgorithm, Fingerprinter};
use onefold_seal::wire::{Put, Reader, WireError};
use onefold_seal::{CHECK_LEN, Check, ObjectId};

use crate::error::VolumeError;
use crate::ids::{Version, is_container};
use crate::journal::journals::Journals;

/// The file that says what the folder is. Who has it open has the pool.
pub(super) const NAME: &str = "pool";

/// The file that is about to take its place. A crash may leave it.
const NEW: &str = "pool-new";

/// What it begins with.
const MAGIC: &[u8; 12] = b"onefold pool";

/// Magic, version, id, hash, codec, check.
const HEAD_LEN: usize = MAGIC.len() + 4 + ObjectId::LEN + 2 + CHECK_LEN;

/// What names the pages of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hash {
    /// SHA3-256, as StreamDedup has it.
    Sha3,
    /// BLAKE3.
    Blake3,
}

impl Hash {
    pub(crate) fn fingerprinter(self) -> Fingerprinter {
        match self {
            Self::Sha3 => Fingerprinter::sha3(),
            Self::Blake3 => Fingerprinter::blake3(),
        }
    }

    /// Its code in stored bytes.
    pub fn code(self) -> u8 {
        match self {
            Self::Sha3 => FingerprintAlgorithm::Sha3.code(),
            Self::Blake3 => FingerprintAlgorithm::Blake3.code(),
        }
    }

    /// The hash with this code.
    pub fn from_code(code: u8) -> Option<Self> {
        [Self::Sha3, Self::Blake3].into_iter().find(|one| one.code() == code)
    }
}

/// Whether a pool was never made here, or making it was cut short: then its check is not there.
pub(super) fn is_unfinished(own: &dyn Log) -> Result<bool, VolumeError> {
    if own.len() > HEAD_LEN as u64 {
        return Ok(false);
    }
    match read_head(own) {
        // also of a later version, or with a code that is not known here
        Ok(_) | Err(VolumeError::NewerVersion { .. }) => Ok(false),
        Err(VolumeError::Malformed { .. }) => Ok(own.len() < HEAD_LEN as u64),
        Err(VolumeError::NoPool | VolumeError::Damaged { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

/// The pool's own log, which is whose the pool is, and what it says. Removes what was left of replacing it.
pub(crate) fn open_head(folder: &dyn Folder) -> Result<(Box<dyn Log + Sync>, Head), VolumeError> {
    let names = folder.names()?;
    let none = || match names.iter().find(|name| is_of_used(name)) {
        Some(found) => VolumeError::HeadMissing { found: found.clone() },
        None => VolumeError::NoPool,
    };
    if !names.iter().any(|name| name == NAME) {
        return Err(none());
    }
    let own = folder.log(NAME)?;
    match read_head(&*own) {
        Ok(head) => {
            if names.iter().any(|name| name == NEW) {
                folder.remove(NEW)?;
            }
            Ok((own, head))
        }
        Err(VolumeError::NoPool) => Err(none()),
        Err(error) => Err(error),
    }
}

/// Whether `name` is one that a pool has once it was opened, and not before.
fn is_of_used(name: &str) -> bool {
    is_container(name) || Journals::is_of_writer(name)
}

/// Makes the pool's own log anew, in a folder whose log is lost or damaged.
pub(crate) fn write_head(folder: &dyn Folder, head: &Head) -> Result<(), VolumeError> {
    let mut own = folder.log(NAME)?;
    own.truncate(0)?;
    own.append(&head.encode())?;
    Ok(own.sync()?)
}

/// Lets the pool's own log be another one, durably and at once: a crash leaves the one or the other, whole.
/// The caller must have the one that there is, so that nobody else does this, and must keep both until
/// nobody may have the pool but through the new one, which is returned.
///
/// # Errors
/// After an error the pool's own log is either of the two.
pub(crate) fn replace_head(
    folder: &dyn Folder,
    head: &Head,
) -> Result<Box<dyn Log + Sync>, VolumeError> {
    let mut own = folder.log(NEW)?;
    own.truncate(0)?;
    own.append(&head.encode())?;
    own.sync()?;
    folder.rename(NEW, NAME)?;
    Ok(own)
}

/// Whether `error` says that the pool's own log is lost or damaged.
pub(crate) fn is_head_lost(error: &VolumeError) -> bool {
    match error {
        VolumeError::HeadMissing { .. } => true,
        VolumeError::Damaged { object, .. } | VolumeError::Malformed { object, .. } => {
            object == NAME
        }
        _ => false,
    }
}

/// What a pool's own log says.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) id: ObjectId,
    pub(crate) hash: Hash,
    pub(crate) codec: Codec,
    pub(crate) version: Version,
}

impl Head {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.put_u32(self.version.code());
        bytes.extend_from_slice(self.id.as_bytes());
        bytes.put_u8(self.hash.code());
        bytes.put_u8(self.codec.code());
        let check = Check::of(&[&bytes]);
        bytes.extend_from_slice(check.as_bytes());
        bytes
    }
}

fn read_head(own: &dyn Log) -> Result<Head, VolumeError> {
    let mut bytes = vec![0; own.len().min(HEAD_LEN as u64) as usize];
    own.read(0, &mut bytes)?;
    if bytes.get(..MAGIC.len()) != Some(MAGIC) {
        return Err(VolumeError::NoPool);
    }
    // A damaged version is not taken for a later one; in a head of another length nobody knows where
    // the check is.
    if own.len() == HEAD_LEN as u64 {
        verify_head(&bytes)?;
    }
    let malformed = |source| VolumeError::Malformed { object: NAME.to_owned(), source };
    let mut reader = Reader::new(&bytes);
    reader.take(MAGIC.len(), "the magic").map_err(malformed)?;
    let version = reader.u32("a version").map_err(malformed)?;
    if version > Version::LAST {
        return Err(VolumeError::NewerVersion { found: version, newest: Version::LAST });
    }
    let version = Version::from_code(version);
    let version = version.ok_or(reader.error("version 1 or 2")).map_err(malformed)?;
    let fields = |reader: &mut Reader<'_>| -> Result<(ObjectId, u8, u8), WireError> {
        let id = ObjectId::from_bytes(reader.array("an id")?);
        let (hash, codec) = (reader.u8("a hash")?, reader.u8("a codec")?);
        reader.take(CHECK_LEN, "a check")?;
        Ok((id, hash, codec))
    };
    let (id, hash, codec) = fields(&mut reader).map_err(malformed)?;
    verify_head(&bytes)?;
    let hash =
        Hash::from_code(hash).ok_or(reader.error("SHA3-256 or BLAKE3")).map_err(malformed)?;
    let codec = Codec::from_code(codec).ok_or(reader.error("a codec")).map_err(malformed)?;
    Ok(Head { id, hash, codec, version })
}

/// Fails unless the check at the end of `bytes` fits those before.
fn verify_head(bytes: &[u8]) -> Result<(), VolumeError> {
    let is_whole = bytes
        .split_last_chunk()
        .is_some_and(|(covered, check)| Check::from_bytes(*check).verify(&[covered]).is_ok());
    if is_whole {
        return Ok(());
    }
    let problem = "its check does not fit its bytes".into();
    Err(VolumeError::Damaged { object: NAME.to_owned(), at: 0, problem })
}
