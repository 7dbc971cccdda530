//! What a pool is whose own file is lost, as its other files tell.

use std::sync::Arc;

use onefold_backend::Folder;
use onefold_container::{Codec, GroupEntry, decompress_into};
use onefold_fingerprint::Fingerprint;
use onefold_seal::{Envelope, ObjectId};

use crate::containers::files::{Files, PageFile};
use crate::error::VolumeError;
use crate::ids::{Version, container_of};
use crate::journal::journals::Journals;
use crate::journal::mark::Mark;
use crate::pool::head::{Hash, Head};
use crate::recovery::replay::Replayed;

/// Where a container's header has the id of its pool, in bytes.
const ID_AT: usize = 16;

/// What the pool in `folder` is: a container names it, its mark confirms the name, and a page shows
/// what names pages. New pages will be compressed by zstd.
///
/// # Errors
/// [`VolumeError::HeadMissing`] if no container has a page that can be read and the pool of the mark.
pub(crate) fn find_head(folder: &Arc<dyn Folder>) -> Result<Head, VolumeError> {
    let names = folder.names()?;
    for (name, number) in names.iter().filter_map(|name| Some((name, container_of(name)?))) {
        let Some(id) = id_in(&**folder, name)? else { continue };
        if Mark::is_lost(&**folder, id)? {
            continue;
        }
        if let Some(hash) = hash_of(folder, id, number)? {
            return Ok(Head { id, hash, codec: Codec::Zstd, version: version_of(folder, id)? });
        }
    }
    let found =
        names.into_iter().find(|name| Journals::is_of_writer(name) || container_of(name).is_some());
    Err(VolumeError::HeadMissing { found: found.unwrap_or_default() })
}

/// The first version, if the pool has a checkpoint with maps of that version. A later one reads that
/// too, and may be the pool's.
fn version_of(folder: &Arc<dyn Folder>, id: ObjectId) -> Result<Version, VolumeError> {
    let mut replayed = Replayed::of_version(Version::Paged, folder, id);
    let mark = Mark::claim(&**folder, id)?;
    // what is wrong with journals is told by who repairs them
    let _ = Journals::new(Arc::clone(folder), id).read(&mark, &mut |known| replayed.take(known))?;
    Ok(replayed.version())
}

/// The id of the pool in the header of a container.
fn id_in(folder: &dyn Folder, name: &str) -> Result<Option<ObjectId>, VolumeError> {
    let reader = folder.reader(name)?;
    let mut start = [0; ID_AT + ObjectId::LEN];
    if reader.len() < start.len() as u64 {
        return Ok(None);
    }
    reader.read(0, &mut start)?;
    Ok(Some(ObjectId::from_bytes(*start.last_chunk().expect("it ends with an id"))))
}

/// What names the pages of container `number` of pool `id`, if its first page can be read.
fn hash_of(
    folder: &Arc<dyn Folder>,
    id: ObjectId,
    number: u32,
) -> Result<Option<Hash>, VolumeError> {
    let files = Files::new(Arc::clone(folder), Envelope::plain(id), 1);
    let (file, _) = files.open_sealed(number)?;
    let Some((group, fingerprint)) = first_page(folder, id, &file)? else { return Ok(None) };
    let (mut stored, mut page) = (vec![0; group.stored_len as usize], vec![0; group.len as usize]);
    if group.offset + stored.len() as u64 > file.len() {
        return Ok(None);
    }
    file.read(group.offset, &mut stored)?;
    if decompress_into(group.codec, &stored, &mut page).is_err() {
        return Ok(None);
    }
    let is_it = |hash: &Hash| hash.fingerprinter().fingerprint(&page) == fingerprint;
    Ok([Hash::Sha3, Hash::Blake3].into_iter().find(is_it))
}

/// The first page of a container, by its footer or, if it has none, by the journal.
fn first_page(
    folder: &Arc<dyn Folder>,
    id: ObjectId,
    file: &Arc<PageFile>,
) -> Result<Option<(GroupEntry, Fingerprint)>, VolumeError> {
    match file.directory() {
        Ok(directory) => {
            let first = directory.groups.into_iter().zip(directory.chunks).next();
            return Ok(first.map(|(group, chunk)| (group, chunk.fingerprint)));
        }
        Err(error) if error.may_pass() => return Err(error),
        Err(_) => {}
    }
    let mut replayed = Replayed::of_version(Version::Paged, folder, id);
    let mark = Mark::claim(&**folder, id)?;
    Journals::new(Arc::clone(folder), id).read(&mark, &mut |known| replayed.take(known))?;
    let first = replayed.containers.get(&file.number()).and_then(|image| image.pages.first());
    Ok(first.map(|page| (page.group(), page.fingerprint)))
}
