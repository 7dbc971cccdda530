//! What a client keeps of repositories on this machine: the same folders that the command uses, so that
//! what one of them saw, the other knows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use onefold_backend::{LocalFolder, own_place};
use onefold_index::Memory;
use onefold_seal::ObjectId;
use onefold_store::{IndexPlace, KnownRepositories, ObjectCache, Sighting, StoreError};

use super::errors::told;

/// Below the state folder: which repositories were used at which location.
const LOCATIONS: &str = "locations";

/// Bytes of copies of remote objects that are kept.
const CACHE_SIZE: u64 = 1 << 30;

/// What a client remembers, in a folder of its own.
pub(super) struct Memories {
    folder: Option<LocalFolder>,
}

impl Memories {
    /// Opens the memory in `state_dir`, or in the user's own place. Notes in `warnings` why nothing is
    /// remembered, if so.
    pub(super) fn open(state_dir: Option<&Path>, warnings: &mut Vec<String>) -> Self {
        let path = match state_dir {
            Some(path) => Ok(path.to_owned()),
            None => own_place("XDG_STATE_HOME", ".local/state"),
        };
        let opened = path
            .and_then(|path| LocalFolder::create_private(&path).map_err(|error| told(&error)))
            .map_err(|why| warnings.push(format!("the repository is not remembered: {why}")));
        Self { folder: opened.ok() }
    }

    /// The memory of one repository.
    pub(super) fn of(
        &self,
        repository: ObjectId,
        warnings: &mut Vec<String>,
    ) -> Option<Arc<LocalFolder>> {
        let folder = self.folder.as_ref()?.folder(&repository.to_string());
        folder.map(Arc::new).map_err(|error| warnings.push(told(&error))).ok()
    }

    /// Whether `found` is yet to be noted for `location`. Fails if another repository was there, unless
    /// `found` is `accepted`.
    pub(super) fn ensure_known(
        &self,
        location: &[u8],
        found: Sighting,
        accepted: Option<ObjectId>,
        warnings: &mut Vec<String>,
    ) -> Result<bool, StoreError> {
        match self.known(warnings) {
            Some(known) => known.ensure_known(location, found, accepted),
            None => Ok(false),
        }
    }

    /// Notes that `found` may be at `location` from now on.
    pub(super) fn note(&self, location: &[u8], found: Sighting, warnings: &mut Vec<String>) {
        if let Some(mut known) = self.known(warnings)
            && let Err(error) = known.note(location, found)
        {
            warnings.push(told(&error));
        }
    }

    fn known(&self, warnings: &mut Vec<String>) -> Option<KnownRepositories> {
        let folder = self.folder.as_ref()?.folder(LOCATIONS);
        let folder = folder.map_err(|error| warnings.push(told(&error))).ok()?;
        KnownRepositories::open(&folder).map_err(|error| warnings.push(told(&error))).ok()
    }
}

/// Where the index of a repository is kept, and copies of what is far away.
pub(super) fn cache(
    directory: Option<&Path>,
    repository: ObjectId,
    is_far: bool,
    warnings: &mut Vec<String>,
) -> (IndexPlace, Option<ObjectCache>) {
    let directory: Result<PathBuf, String> = match directory {
        Some(path) => Ok(path.to_owned()),
        None => own_place("XDG_CACHE_HOME", ".cache"),
    };
    let directory = match directory {
        Ok(directory) => directory,
        Err(why) => {
            warnings.push(format!("the index is kept in memory: {why}"));
            return (IndexPlace::Memory, None);
        }
    };
    let copies = is_far
        .then(|| ObjectCache::open(&directory, repository, CACHE_SIZE))
        .and_then(|copies| copies.map_err(|error| warnings.push(told(&error))).ok());
    (IndexPlace::Directory(directory, Memory::DEFAULT), copies)
}
