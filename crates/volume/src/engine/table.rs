//! The table of fingerprints, which can be replaced while the pool is used.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use onefold_index::Table;

pub(crate) struct CurrentTable {
    table: RwLock<Arc<dyn Table>>,
    /// How often pages were entered.
    entered: AtomicU64,
}

impl CurrentTable {
    pub(crate) fn new(table: Arc<dyn Table>) -> Self {
        Self { table: RwLock::new(table), entered: AtomicU64::new(0) }
    }

    pub(crate) fn get(&self) -> Arc<dyn Table> {
        Arc::clone(&self.table.read().expect("nobody panics with it"))
    }

    pub(super) fn replace(&self, table: Arc<dyn Table>) {
        *self.table.write().expect("nobody panics with it") = table;
    }

    /// How often pages were entered. A thread that has the appender and finds this number as it was
    /// before a look-up would find nothing new by another one.
    pub(super) fn entered(&self) -> u64 {
        self.entered.load(Ordering::Acquire)
    }

    /// Pages were entered.
    pub(super) fn note_entered(&self) {
        self.entered.fetch_add(1, Ordering::Release);
    }
}
