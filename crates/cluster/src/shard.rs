//! One shard of a namespace: a pool of volumes that shares its containers with the other shards.

use std::collections::HashSet;
use std::sync::Arc;

use onefold_backend::Folder;
use onefold_backend::rados::RadosPool;
use onefold_block::{BlockDevice, BlockError, Durability};
use onefold_seal::ObjectId;
use onefold_volume::{Hash, Maintained, Options, Pool, Shard, Volume, VolumeError};

use crate::containers::{Closed, SharedContainers, Swept};
use crate::folder::RadosFolder;
use crate::hints::Hints;
use crate::pool::{CONTAINER_LEN, journals};

/// A shard that this gateway serves.
pub struct SharedShard {
    id: ObjectId,
    pool: Pool,
    containers: Arc<SharedContainers>,
}

/// Blocks that are copied at a time.
const COPIED: u64 = 4096;

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
    let folder: Arc<dyn Folder> = Arc::new(RadosFolder::take(Arc::clone(meta), id)?);
    let containers = SharedContainers::new(Arc::clone(meta), Arc::clone(data), id, hints);
    let containers = Arc::new(containers);
    let sharing = Arc::<SharedContainers>::clone(&containers);
    let container_len = options.container_len.min(CONTAINER_LEN);
    let options = Options { container_len, ..options };
    let (pool, damage) = Pool::open_shared(folder, Arc::new(journals(meta)?), sharing, options)?;
    Ok((SharedShard { id, pool, containers }, damage))
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
        self.pool.drop_unused()?;
        self.containers.store_live(&self.pool)?;
        Ok(maintained)
    }

    /// Closes containers of all shards of which little is used, so that at most `waste` of their bytes are
    /// unused. The shards' next [`maintain`](Self::maintain) empties them.
    ///
    /// # Errors
    /// If a pool of RADOS refuses something or gives no answer.
    pub fn close_sparse(&self, waste: f64) -> Result<Closed, VolumeError> {
        self.containers.close_sparse(waste)
    }
}

/// Makes volume `name` of shard `target` as `snapshot` of shard `source` is. No page is stored again that is in
/// a sealed container: `target` registers in each container once, and only the map is copied. The snapshot must stay
/// until this returns. Blocks in containers that are not sealed yet are read and written, and found in the index or
/// by hints; returns how many.
///
/// # Errors
/// [`VolumeError::NotASnapshot`], if `target` has a volume of this name, or if either cannot be read or changed.
/// Then `target` has no such volume.
pub fn detach(
    source: &SharedShard,
    snapshot: &str,
    target: &SharedShard,
    name: &str,
) -> Result<u64, VolumeError> {
    let from = source.pool.volume(snapshot)?;
    if !from.is_read_only() {
        return Err(VolumeError::NotASnapshot { name: snapshot.to_owned() });
    }
    // so that directories list all of its pages
    source.pool.seal_open()?;
    target.pool.create_volume(name, from.size(), from.block_size())?;
    let copied = copy(source, &from, snapshot, target, name);
    if copied.is_err() {
        // what made it fail is worth more to the caller than why this does
        let _ = target.pool.delete_volume(name);
    }
    copied
}

fn copy(
    source: &SharedShard,
    from: &Volume,
    snapshot: &str,
    target: &SharedShard,
    name: &str,
) -> Result<u64, VolumeError> {
    let block_len = u64::from(from.block_size().bytes());
    let (blocks, to) = (from.size() / block_len, target.pool.volume(name)?);
    let mut written = 0;
    for first in (0..blocks).step_by(COPIED as usize) {
        let range = first..(first + COPIED).min(blocks);
        let (pages, is_all) = source.pool.shared_pages(snapshot, range.clone())?;
        let mapped = target.pool.map_shared(name, &pages)?;
        if is_all && mapped.len() == pages.len() {
            continue;
        }
        let mapped: HashSet<u64> = mapped.into_iter().map(|at| pages[at].block).collect();
        let mut page = vec![0; block_len as usize];
        for block in range.filter(|block| !mapped.contains(block)) {
            from.read(block * block_len, &mut page).map_err(passed_on)?;
            if page.iter().any(|byte| *byte != 0) {
                to.write(block * block_len, &page, Durability::OnFlush).map_err(passed_on)?;
                written += 1;
            }
        }
    }
    target.pool.flush()?;
    Ok(written)
}

/// The error of a volume whose blocks are copied.
fn passed_on(error: BlockError) -> VolumeError {
    VolumeError::Unanswered { source: error.into() }
}
