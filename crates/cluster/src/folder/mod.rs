//! The files of a shard, as objects of a pool: containers, nodes, the head.
//!
//! A file is an object with two attributes: the writer that may change it, and how often it has changed.
//! Whoever opens a folder takes a writer's number above all before. Opening a file to append raises the
//! number on the object, so that the engine refuses every later append of an earlier writer; every append
//! compares and raises the count, so that one whose answer was lost is done once. Appends wait in memory until a sync
//! or until [`WAITING`] bytes wait.
//!
//! 1. *Take.* The number on the object `S.files` is raised by one.
//! 2. *Open.* A file that is there gets the number by an update that compares the one it had; a new one is
//!    made with it. One with a higher number is in use by a successor.
//! 3. *Append, truncate.* The update compares the writer and the count, and raises the count.
//! 4. *Remove.* The update compares the version. A file that is open here is removed when its last handle is
//!    dropped; if that fails it is left over, and the next opening of the shard removes it.

mod log;
mod objects;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use onefold_backend::rados::RadosPool;
use onefold_backend::{BackendError, Folder, Log, LogReader, Operation, Pages};
use onefold_seal::ObjectId;

use self::log::{RadosLog, RadosReader};
use self::objects::{Files, is_ours};

/// Bytes of appends that wait for a sync at most; more are sent at once.
pub const WAITING: usize = 4 << 20;

/// The files of one shard in a pool of RADOS.
///
/// Files of pages are not kept there: what a shard durably knows is in [`RadosJournals`](crate::RadosJournals).
pub struct RadosFolder(Arc<Files>);

impl RadosFolder {
    /// Takes the files of `shard` over: earlier folders of it can change none any more that this one
    /// opened. The shard has no files if nobody has taken it before.
    ///
    /// # Errors
    /// If the pool refuses it or gives no answer.
    pub fn take(pool: Arc<dyn RadosPool>, shard: ObjectId) -> Result<Self, BackendError> {
        Files::take(pool, shard).map(|files| Self(Arc::new(files)))
    }

    /// Whether the shard's reserve is spent: containers may grow in a full pool then.
    pub(crate) fn reserve_spent(&self) -> Arc<AtomicBool> {
        Arc::clone(self.0.reserve_spent())
    }
}

impl Folder for RadosFolder {
    fn log(&self, name: &str) -> Result<Box<dyn Log + Sync>, BackendError> {
        is_ours(name)?;
        RadosLog::open(&self.0, name).map(|log| Box::new(log) as Box<dyn Log + Sync>)
    }

    fn reader(&self, name: &str) -> Result<Box<dyn LogReader>, BackendError> {
        is_ours(name)?;
        RadosReader::open(&self.0, name).map(|reader| Box::new(reader) as Box<dyn LogReader>)
    }

    fn pages(&self, name: &str, _size: usize) -> Result<Box<dyn Pages + Sync>, BackendError> {
        let problem = "files of pages are not kept in RADOS";
        Err(self.0.failed(name, Operation::Open, problem.into()))
    }

    fn names(&self) -> Result<Vec<String>, BackendError> {
        self.0.names()
    }

    fn remove(&self, name: &str) -> Result<(), BackendError> {
        is_ours(name)?;
        self.0.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), BackendError> {
        is_ours(from)?;
        is_ours(to)?;
        let reader = RadosReader::open(&self.0, from)?;
        let mut bytes = vec![0; reader.len() as usize];
        reader.read(0, &mut bytes)?;
        self.0.replace(to, bytes)?;
        drop(reader);
        self.0.remove(from)
    }
}
