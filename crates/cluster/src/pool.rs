//! A pool of volumes in a namespace: its files, and what it durably knows.
//!
//! The object `onefold` says which shard the namespace holds. It is made last, so that what it names is
//! whole; what an earlier attempt left is never named.

use std::sync::Arc;

use bytes::Bytes;
use onefold_backend::rados::{Query, RadosPool, Refusal, Update};
use onefold_backend::{BackendError, Folder, Operation};
use onefold_seal::ObjectId;
use onefold_volume::{Hash, Options, Pool, Shard, VolumeError};

use crate::error::failed;
use crate::folder::RadosFolder;
use crate::journal::shards::{JournalSizes, RadosJournals};
use crate::peers::Authority;

/// The object that says what the namespace holds.
const ROOT: &str = "onefold";
/// Attribute: the version of the format, one byte.
const FORMAT: &str = "format";
/// Attribute: the id of the shard.
const SHARD: &str = "shard";

/// The version that is written.
const VERSION: u8 = 1;

/// Objects of containers are closed before this length: an engine keeps objects of 128 MiB at most.
const CONTAINER_LEN: u64 = 64 << 20;

/// Makes a pool of volumes in the empty namespace `pool`, whose pages are named by `hash`; its shard.
///
/// # Errors
/// [`BackendError::AlreadyExists`] if there is one. After any other error the call may be repeated; it may
/// leave objects that nothing names.
pub fn create(pool: &Arc<dyn RadosPool>, hash: Hash) -> Result<ObjectId, VolumeError> {
    let exists = || -> VolumeError {
        let place = format!("pool {}", pool.kind().name);
        BackendError::AlreadyExists { name: ROOT.to_owned(), place }.into()
    };
    if find(&**pool)?.is_some() {
        return Err(exists());
    }
    Authority::create(&**pool)?;
    let id = ObjectId::random();
    journals(pool)?.create(Shard::of(id))?;
    Pool::create_for(&RadosFolder::take(Arc::clone(pool), id)?, id, hash)?;
    let named = Update::creating()
        .set(FORMAT, vec![VERSION])
        .set(SHARD, Bytes::copy_from_slice(id.as_bytes()));
    match pool.update(ROOT, named) {
        Ok(_) => Ok(id),
        // an update whose answer was lost may have made it
        Err(_) if find(&**pool)? == Some(id) => Ok(id),
        Err(error) if error.refusal() == Some(Refusal::Exists) => Err(exists()),
        Err(error) => Err(failed(Operation::Put, error)),
    }
}

/// The shard that the namespace `pool` holds, if any.
///
/// # Errors
/// [`VolumeError::NewerVersion`] if a later version made it; [`VolumeError::Damaged`] if the object that
/// names it has not the attributes that it must have.
pub fn find(pool: &dyn RadosPool) -> Result<Option<ObjectId>, VolumeError> {
    let answer = match pool.query(ROOT, &Query { xattrs: true, ..Query::default() }) {
        Ok(answer) => answer,
        Err(error) if error.refusal() == Some(Refusal::Absent) => return Ok(None),
        Err(error) => return Err(failed(Operation::Read, error)),
    };
    let damaged =
        |problem: String| VolumeError::Damaged { object: ROOT.to_owned(), at: 0, problem };
    let of = |name: &str| answer.xattrs.get(name).map_or(&b""[..], |value| value);
    match of(FORMAT) {
        &[VERSION] => {}
        &[found] if found > VERSION => {
            return Err(VolumeError::NewerVersion { found: found.into(), newest: VERSION.into() });
        }
        found => {
            return Err(damaged(format!(
                "attribute '{FORMAT}' is {found:?}, expected [{VERSION}]"
            )));
        }
    }
    let found = of(SHARD);
    let id = <[u8; ObjectId::LEN]>::try_from(found).map_err(|_| {
        let len = ObjectId::LEN;
        damaged(format!("attribute '{SHARD}' has {} bytes, expected {len}", found.len()))
    })?;
    Ok(Some(ObjectId::from_bytes(id)))
}

/// Opens the pool of volumes in the namespace `pool` and supersedes whoever has it open. Also returned is
/// what is damaged.
///
/// # Errors
/// [`VolumeError::NoPool`] if there is none.
pub fn open(
    pool: &Arc<dyn RadosPool>,
    options: Options,
) -> Result<(Pool, Vec<VolumeError>), VolumeError> {
    let id = find(&**pool)?.ok_or(VolumeError::NoPool)?;
    let folder: Arc<dyn Folder> = Arc::new(RadosFolder::take(Arc::clone(pool), id)?);
    let container_len = options.container_len.min(CONTAINER_LEN);
    Pool::open_with(folder, Arc::new(journals(pool)?), Options { container_len, ..options })
}

fn journals(pool: &Arc<dyn RadosPool>) -> Result<RadosJournals, VolumeError> {
    let journals = RadosJournals::new(Arc::clone(pool), JournalSizes::default());
    journals.map_err(|error| {
        let (name, place) = (ROOT.to_owned(), format!("pool {}", pool.kind().name));
        BackendError::Io { name, operation: Operation::Open, place, source: error.into() }.into()
    })
}
