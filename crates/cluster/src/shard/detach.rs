//! A volume that becomes one of another shard.

use std::collections::HashSet;

use onefold_block::{BlockDevice, BlockError, Durability};
use onefold_volume::{Volume, VolumeError};

use super::SharedShard;

/// Blocks that are copied at a time.
const COPIED: u64 = 4096;

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
    detach_while(source, snapshot, target, name, &|| true)
}

/// The same as long as `go_on` says so, which is asked every 4,096 blocks.
///
/// # Errors
/// Those of [`detach`], and [`VolumeError::Stopped`] if `go_on` says no.
pub fn detach_while(
    source: &SharedShard,
    snapshot: &str,
    target: &SharedShard,
    name: &str,
    go_on: &dyn Fn() -> bool,
) -> Result<u64, VolumeError> {
    let from = source.pool.volume(snapshot)?;
    if !from.is_read_only() {
        return Err(VolumeError::NotASnapshot { name: snapshot.to_owned() });
    }
    // so that directories list all of its pages
    source.pool.seal_open()?;
    target.pool.create_volume(name, from.size(), from.block_size())?;
    let copied = copy(source, &from, snapshot, target, name, go_on);
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
    go_on: &dyn Fn() -> bool,
) -> Result<u64, VolumeError> {
    let block_len = u64::from(from.block_size().bytes());
    let (blocks, to) = (from.size() / block_len, target.pool.volume(name)?);
    let mut written = 0;
    for first in (0..blocks).step_by(COPIED as usize) {
        if !go_on() {
            let why = "the caller stopped the copy, or the gateway ends".to_owned();
            return Err(VolumeError::Stopped { why });
        }
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
