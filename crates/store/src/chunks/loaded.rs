//! What an open repository knows of its chunks.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use onefold_backend::Folder;
use onefold_index::{Index, Memory};
use onefold_seal::ObjectId;

use crate::StoreError;
use crate::chunks::place::Containers;
use crate::finding::Warning;
use crate::objects::mark::Marks;

/// Where an open repository keeps its index besides the repository itself.
#[derive(Clone, Default)]
pub enum IndexPlace {
    /// In memory: about 50 bytes a chunk.
    #[default]
    Memory,
    /// In a folder of the repository's name below this directory, which may be deleted at any time.
    ///
    /// What another user owns there, or put there as a link, is not used. A folder serves one process
    /// at a time; another one makes its own beside it.
    Directory(PathBuf, Memory),
    /// In this folder.
    Folder(Arc<dyn Folder>, Memory),
}

/// What the repository held when the index was first needed, and what was added since.
pub(crate) struct Loaded {
    /// When loading began: of what happened since, nothing is known.
    pub(crate) since: Instant,
    pub(crate) index: Index,
    pub(crate) containers: Containers,
    /// Held by the backup whose claims are in the index.
    pub(crate) backing_up: Mutex<()>,
    /// The marks that there were. Condemned containers are neither in the index nor numbered.
    pub(crate) marks: Marks,
    /// Which containers each run covers, by number; nothing in place of those that are gone.
    pub(crate) runs: Vec<(ObjectId, Vec<Option<u32>>)>,
    /// By number of a container, bytes of its chunks; 0 if its footer could not be read.
    pub(crate) chunk_bytes: Vec<u64>,
    /// By number of a container, whether a run covers it.
    pub(crate) covered: Vec<bool>,
    /// What was wrong with runs and containers; each is then read another way or done without.
    pub(crate) warnings: Vec<Warning>,
}

impl Loaded {
    /// Keeps what the index has learnt, for whoever opens the repository next. If that cannot be,
    /// it is learnt again.
    pub(crate) fn keep_index(&self) {
        self.index.commit();
    }

    /// Fails if the index could not say something that it knew, for whoever deletes what the index
    /// is silent about.
    pub(crate) fn expect_answers(&self) -> Result<(), StoreError> {
        match self.index.trouble() {
            Some(trouble) => Err(trouble.into()),
            None => Ok(()),
        }
    }
}
