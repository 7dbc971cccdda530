//! Directories of containers of other shards, by which hints are verified.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::containers::entry::PageEntry;
use crate::ids::SharedName;

/// Directories of containers of other shards that are in memory at most. One of 16,384 pages takes about
/// two MiB.
const DIRECTORIES: usize = 8;

/// The pages of a sealed container, by offset, with their places in its directory.
pub(crate) type Offsets = HashMap<u32, (u32, PageEntry)>;

/// Directories of containers of other shards, the ones used last at the end.
#[derive(Default)]
pub(crate) struct ForeignDirectories(VecDeque<(SharedName, Arc<Offsets>)>);

impl ForeignDirectories {
    /// The directory of container `name`, if it is known.
    pub(crate) fn get(&mut self, name: &SharedName) -> Option<Arc<Offsets>> {
        let place = self.0.iter().position(|(one, _)| one == name)?;
        let found = self.0.remove(place)?;
        let offsets = Arc::clone(&found.1);
        self.0.push_back(found);
        Some(offsets)
    }

    /// Keeps the directory of container `name`.
    pub(crate) fn add(&mut self, name: SharedName, offsets: Arc<Offsets>) {
        self.0.retain(|(one, _)| *one != name);
        self.0.push_back((name, offsets));
        if self.0.len() > DIRECTORIES {
            self.0.pop_front();
        }
    }
}
