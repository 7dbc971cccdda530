//! What an open pool can be told to do.

use std::sync::Arc;

use onefold_index::Table;

use crate::engine::hook::Between;
use crate::error::VolumeError;
use crate::pool::open::Pool;
use crate::space::compact::Compaction;

impl Pool {
    /// Why the pool takes no more changes, if it does not.
    pub fn stopped(&self) -> Option<&str> {
        self.0.shard.stopped()
    }

    /// Makes durable whatever was done before.
    pub fn flush(&self) -> Result<(), VolumeError> {
        self.0.flush()
    }

    /// Lets a test do something between steps, with the first `call` that this gets.
    #[doc(hidden)]
    pub fn between_steps(&self, call: impl Fn(&Pool, Between) + Send + Sync + 'static) {
        let engine = Arc::downgrade(&self.0);
        self.0.set_hook(move |steps| {
            if let Some(engine) = engine.upgrade() {
                call(&Pool(engine), steps);
            }
        });
    }

    /// Notes durably how far changes were acknowledged, so that the next opening finds out if they were
    /// lost since. Closing a pool does so too.
    ///
    /// # Errors
    /// Whatever kept it from being noted. No volume is affected, and a later call may succeed.
    pub fn note_acknowledged(&self) -> Result<(), VolumeError> {
        self.0.shard.note_acknowledged()
    }

    /// Shortens what has to be read when the pool is opened again.
    pub fn checkpoint(&self) -> Result<(), VolumeError> {
        self.0.checkpoint()
    }

    /// Gives back the space of one container of which less than half is used; false if there is
    /// none that can be emptied. After an error with one of them the next call takes another.
    pub fn compact(&self) -> Result<bool, VolumeError> {
        match self.0.compact()? {
            Compaction::Done => Ok(true),
            Compaction::Left(error) => Err(error),
            Compaction::Nothing => Ok(false),
        }
    }

    /// Empties the table of fingerprints, and fills it again if that is wanted. Nothing is lost but
    /// that pages are kept twice while it is not full.
    pub fn drop_table(&self, refill: bool) -> Result<(), VolumeError> {
        self.use_table(self.0.options.table()?, refill);
        Ok(())
    }

    /// Goes on with `table`, which gets all pages first if it is to be filled. What it leads to is
    /// believed as far as it fits: for tables that were filled before, and for measuring.
    pub fn use_table(&self, table: Arc<dyn Table>, fill: bool) {
        self.0.use_table(table, fill);
    }

    /// Has the system give the table of fingerprints all of its memory now: else the first writes wait
    /// for it, each for a part. A hint, for who is going to write much.
    pub fn populate_table(&self) {
        self.0.table.get().populate();
    }

    /// Lets no write wait for room any more, as before a shutdown: one that has none is refused at
    /// once.
    pub fn let_no_write_wait(&self) {
        self.0.maintenance.end();
    }
}
