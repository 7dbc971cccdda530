//! The objects of one shard: making, opening and removing them.

use std::ops::ControlFlow;
use std::sync::Arc;

use onefold_backend::rados::{RadosPool, Refusal, Step, Update};
use onefold_backend::{BackendError, Folder, Operation};
use onefold_seal::ObjectId;
use onefold_volume::{Hash, Options, Pool, Shard, VolumeError};

use crate::error::failed;
use crate::folder::RadosFolder;
use crate::journal::shards::{JournalSizes, RadosJournals};

/// Objects of containers are closed before this length: an engine keeps objects of 128 MiB at most.
pub(crate) const CONTAINER_LEN: u64 = 64 << 20;

/// What a shard alone uses: these objects go with it. Guards and containers that shards share do not.
const OWN: [&str; 6] = ["head", "segment.", "checkpoint.", "files", "file.", "lease"];

/// Fails unless shards can be kept in `pool`: it must be replicated.
pub(crate) fn ensure_fitting(pool: &Arc<dyn RadosPool>) -> Result<(), VolumeError> {
    journals(pool).map(|_| ())
}

/// Makes the objects of the empty shard `id`, whose pages are named by `hash`.
///
/// # Errors
/// If there is one of this id. After any other error the call may be repeated with another id.
pub fn create(pool: &Arc<dyn RadosPool>, id: ObjectId, hash: Hash) -> Result<(), VolumeError> {
    journals(pool)?.create(Shard::of(id))?;
    Pool::create_for(&RadosFolder::take(Arc::clone(pool), id)?, id, hash)
}

/// Opens the shard `id` and supersedes any other writer of it. Also returned is what is damaged.
///
/// # Errors
/// If there is no such shard, or it cannot be read.
pub fn open(
    pool: &Arc<dyn RadosPool>,
    id: ObjectId,
    options: Options,
) -> Result<(Pool, Vec<VolumeError>), VolumeError> {
    let folder: Arc<dyn Folder> = Arc::new(RadosFolder::take(Arc::clone(pool), id)?);
    let container_len = options.container_len.min(CONTAINER_LEN);
    Pool::open_with(folder, Arc::new(journals(pool)?), Options { container_len, ..options })
}

/// Removes the objects that the shard `id` alone uses, as far as they exist. No gateway may have it open.
pub(crate) fn remove(pool: &Arc<dyn RadosPool>, id: ObjectId) -> Result<(), VolumeError> {
    let (prefix, mut found) = (format!("{id}."), Vec::new());
    let listed = pool.list(&mut |name| {
        if let Some(rest) = name.strip_prefix(&prefix)
            && OWN.iter().any(|own| rest.starts_with(own))
        {
            found.push(name.to_owned());
        }
        ControlFlow::Continue(())
    });
    listed.map_err(|error| failed(Operation::List, error))?;
    for name in found {
        match pool.update(&name, Update::existing().then(Step::Remove)) {
            Err(error) if error.refusal() != Some(Refusal::Absent) => {
                return Err(failed(Operation::Delete, error));
            }
            _ => {}
        }
    }
    Ok(())
}

pub(crate) fn journals(pool: &Arc<dyn RadosPool>) -> Result<RadosJournals, VolumeError> {
    let journals = RadosJournals::new(Arc::clone(pool), JournalSizes::default());
    journals.map_err(|error| {
        let (name, place) = ("the journals".to_owned(), format!("pool {}", pool.kind().name));
        BackendError::Io { name, operation: Operation::Open, place, source: error.into() }.into()
    })
}
