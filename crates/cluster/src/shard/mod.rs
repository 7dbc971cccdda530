//! One shard of a namespace: a pool of volumes that shares its containers with the other shards.

mod detach;
mod objects;

use std::sync::Arc;

use onefold_backend::Folder;
use onefold_backend::rados::RadosPool;
use onefold_seal::ObjectId;
use onefold_volume::{
    Hash, Maintained, Metadata, Options, Pool, Repaired, Shard, Sharing, VolumeError,
};

use crate::containers::{Closed, SharedContainers, Swept, Usage};
use crate::folder::RadosFolder;
use crate::hints::{ContainerName, Hints};
use crate::journal::cut::Cut;

pub use self::detach::{detach, detach_while};
use self::objects::{CONTAINER_LEN, journals};
pub(crate) use self::objects::{ensure_fitting, remove};

/// A shard that this gateway serves.
pub struct SharedShard {
    id: ObjectId,
    pool: Pool,
    containers: Arc<SharedContainers>,
}

/// Makes shard `id` in `meta`, empty, whose pages are named by `hash`.
///
/// # Errors
/// If there is one of this id. After any other error the call may be repeated with another id.
pub fn create_shard(
    meta: &Arc<dyn RadosPool>,
    id: ObjectId,
    hash: Hash,
) -> Result<(), VolumeError> {
    journals(meta)?.create(Shard::of(id))?;
    Pool::create_for(&RadosFolder::take(Arc::clone(meta), id)?, id, hash)
}

/// Opens shard `id`, whose journal, nodes and guards are in `meta` and whose containers are in `data`, and
/// supersedes whoever has it open. It looks for pages of other shards by `hints`. Also returned is what is
/// damaged.
///
/// # Errors
/// [`VolumeError::NoPool`] if there is none.
pub fn open_shard(
    meta: &Arc<dyn RadosPool>,
    data: &Arc<dyn RadosPool>,
    id: ObjectId,
    hints: Arc<dyn Hints>,
    options: Options,
) -> Result<(SharedShard, Vec<VolumeError>), VolumeError> {
    open_counted(meta, data, id, hints, Arc::default(), options)
}

/// The same, whose use of containers `usage` counts and bounds.
pub(crate) fn open_counted(
    meta: &Arc<dyn RadosPool>,
    data: &Arc<dyn RadosPool>,
    id: ObjectId,
    hints: Arc<dyn Hints>,
    usage: Arc<Usage>,
    options: Options,
) -> Result<(SharedShard, Vec<VolumeError>), VolumeError> {
    let (folder, containers) = take_files(meta, data, id, hints, usage)?;
    let sharing = Arc::<SharedContainers>::clone(&containers);
    let container_len = options.container_len.min(CONTAINER_LEN);
    let options = Options { container_len, ..options };
    let (pool, damage) = Pool::open_shared(folder, Arc::new(journals(meta)?), sharing, options)?;
    Ok((SharedShard { id, pool, containers }, damage))
}

/// The files of shard `id`, which nobody else changes from now on, and the containers that it shares.
fn take_files(
    meta: &Arc<dyn RadosPool>,
    data: &Arc<dyn RadosPool>,
    id: ObjectId,
    hints: Arc<dyn Hints>,
    usage: Arc<Usage>,
) -> Result<(Arc<dyn Folder>, Arc<SharedContainers>), VolumeError> {
    let folder = RadosFolder::take(Arc::clone(meta), id)?;
    let (meta, data, may_grow) = (Arc::clone(meta), Arc::clone(data), folder.reserve_spent());
    let containers = SharedContainers::new(meta, data, id, hints, may_grow, usage);
    Ok((Arc::new(folder), Arc::new(containers)))
}

/// Makes shard `id`, whose pages are named by `hash`, one that can be opened, and supersedes
/// whoever has it open: gives up batches from the first on that cannot be read, and what only nodes
/// knew that cannot be read. Then it registers the shard in containers where the given-up batches
/// had dropped it, or moves its pages if a container takes no registrations any more. A shard with
/// nothing wrong stays as it is. No container is repaired. What was done is added to `done`, also
/// before an error: copies of what was given up exist then, and a call that is repeated no longer
/// finds out about them.
///
/// # Errors
/// [`VolumeError::Damaged`] if its head, its checkpoint or its first batch cannot be read: then
/// nothing can be restored. After any error the call can be repeated.
pub fn repair_shard(
    meta: &Arc<dyn RadosPool>,
    data: &Arc<dyn RadosPool>,
    (id, hash): (ObjectId, Hash),
    options: Options,
    done: &mut Repaired,
) -> Result<(), VolumeError> {
    let (folder, containers) = take_files(meta, data, id, Arc::new(()), Arc::default())?;
    let journals = journals(meta)?.outdated();
    if let Some(Cut { next, problem, kept }) = journals.cut(Shard::of(id), &*folder)? {
        done.settled.push(format!("gave up changes from batch {next} on: {problem}"));
        done.kept.extend(kept);
    }
    let (journals, sharing) =
        (Arc::new(journals) as Arc<dyn Metadata>, containers as Arc<dyn Sharing>);
    Pool::repair_shared(&folder, (id, hash), &journals, &sharing, options.clone(), done)?;
    // also if nothing was given up now: an earlier repair may have been stopped here
    let (shard, _) = open_shard(meta, data, id, Arc::new(()), options)?;
    shard.containers.protect(&shard.pool, done)
}

impl SharedShard {
    /// Its id.
    pub fn id(&self) -> ObjectId {
        self.id
    }

    pub(crate) fn containers(&self) -> &SharedContainers {
        &self.containers
    }

    /// Its volumes.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Drops registrations of this shard that it does not know, removes what nobody needs, and finds out which
    /// containers are closing.
    ///
    /// # Errors
    /// [`VolumeError::Superseded`], or if a pool of RADOS refuses something or gives no answer.
    pub fn sweep(&self) -> Result<Swept, VolumeError> {
        self.pool.drop_unused()?;
        self.containers.sweep(&self.pool)
    }

    /// Sweeps, gives back the space of containers of which little is used and of those that are closing, and
    /// stores how much of each is in use.
    ///
    /// # Errors
    /// As [`sweep`](Self::sweep), or as [`Pool::maintain`].
    pub fn maintain(&self) -> Result<Maintained, VolumeError> {
        self.sweep()?;
        let maintained = self.pool.maintain()?;
        self.settle_uses()?;
        Ok(maintained)
    }

    /// Drops registrations that none of its volumes needs, and stores how much of each container is in use if
    /// that changed: what a gateway does in the background between [`fsck`](crate::containers::fsck)s, beside
    /// [`Pool::maintain_while`]. Takes a few updates.
    ///
    /// # Errors
    /// As [`sweep`](Self::sweep).
    pub fn settle_uses(&self) -> Result<(), VolumeError> {
        self.pool.drop_unused()?;
        self.containers.store_live(&self.pool)
    }

    /// Lets the containers `names` go that this shard needs no longer, or that are closing, compacts, and stores how
    /// much of each container is in use, as long as `go_on` says so: what a gateway does with a shard that it opens for
    /// that.
    ///
    /// # Errors
    /// As [`maintain`](Self::maintain).
    pub fn tend<'a>(
        &self,
        names: impl IntoIterator<Item = &'a ContainerName>,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Swept, VolumeError> {
        let swept = self.containers.sweep_own(&self.pool, names)?;
        self.pool.maintain_while(go_on)?;
        // so that it is not opened for what it wrote now
        self.pool.seal_open()?;
        self.settle_uses()?;
        Ok(swept)
    }

    /// Stores how much of each container is in use, if that changed.
    ///
    /// # Errors
    /// If the pool of RADOS refuses it or gives no answer.
    pub fn store_uses(&self) -> Result<(), VolumeError> {
        self.containers.store_live(&self.pool)
    }

    /// Drops all that this shard is registered in, as far as none of its volumes needs it: before a shard without
    /// volumes is removed.
    ///
    /// # Errors
    /// As [`maintain`](Self::maintain).
    pub fn vacate(&self) -> Result<(), VolumeError> {
        self.pool.seal_open()?;
        self.maintain().map(drop)
    }

    /// Closes containers of all shards of which little is used, so that at most `waste` of their bytes are
    /// unused. The shards' next [`maintain`](Self::maintain) empties them.
    ///
    /// # Errors
    /// If a pool of RADOS refuses something or gives no answer.
    pub fn close_sparse(&self, waste: f64) -> Result<Closed, VolumeError> {
        self.containers.close_sparse(waste, &|| true)
    }
}
