//! Where chunks lie.

use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

use onefold_container::Directory;
use onefold_fingerprint::Fingerprint;
use onefold_index::Listed;
pub use onefold_index::Place;
use onefold_seal::ObjectId;

/// The live containers of an open repository: number ↔ id, with sizes.
#[derive(Debug, Default)]
pub(crate) struct Containers(RwLock<Vec<LiveContainer>>);

/// A container that was seen on the backend, or put there, since the repository was opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LiveContainer {
    pub(crate) id: ObjectId,
    pub(crate) size: u64,
}

impl Containers {
    /// Numbers a container.
    pub(crate) fn add(&self, id: ObjectId, size: u64) -> u32 {
        let mut list = self.0.write().expect("no thread panics with the list locked");
        list.push(LiveContainer { id, size });
        (list.len() - 1) as u32
    }

    /// Every container, by number.
    pub(crate) fn all(&self) -> Vec<LiveContainer> {
        self.0.read().expect("no thread panics with the list locked").clone()
    }

    /// The container with this number.
    pub(crate) fn get(&self, number: u32) -> Option<LiveContainer> {
        self.0.read().expect("no thread panics with the list locked").get(number as usize).copied()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.read().expect("no thread panics with the list locked").len()
    }
}

/// Which containers a backup found chunks in that it did not store itself.
#[derive(Debug)]
pub(crate) struct Used(Vec<AtomicBool>);

impl Used {
    /// None yet of the containers that there are now. What is added later is the backup's own.
    pub(crate) fn of(containers: &Containers) -> Self {
        Self((0..containers.len()).map(|_| AtomicBool::new(false)).collect())
    }

    /// Notes that a chunk in this container will be relied on.
    pub(crate) fn note(&self, place: Place) {
        if let Some(is_used) = self.0.get(place.container as usize) {
            is_used.store(true, Ordering::Relaxed);
        }
    }

    /// The numbers of those that were noted.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..).zip(&self.0).filter(|(_, used)| used.load(Ordering::Relaxed)).map(|(n, _)| n)
    }
}

/// What a container's footer lists, with places.
pub(crate) fn places(
    directory: &Directory,
    container: u32,
) -> impl Iterator<Item = (Fingerprint, Place)> + '_ {
    (0u32..)
        .zip(&directory.chunks)
        .map(move |(slot, chunk)| (chunk.fingerprint, Place { container, slot, len: chunk.len }))
}

/// What a container's footer lists, as the index takes it.
pub(crate) fn listed(directory: &Directory) -> Vec<Listed> {
    directory.chunks.iter().map(|chunk| (chunk.fingerprint, chunk.len)).collect()
}
