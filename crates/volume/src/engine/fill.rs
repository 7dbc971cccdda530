//! Another table of fingerprints, filled from the footers of containers.

use std::sync::Arc;

use onefold_index::Table;

use crate::engine::parts::Engine;
use crate::ids::Handle;

impl Engine {
    /// Goes on with `table`, which gets all pages first if it is to be filled.
    pub(crate) fn use_table(&self, table: Arc<dyn Table>, fill: bool) {
        self.table.replace(Arc::clone(&table));
        self.neighbours.clear();
        if fill {
            self.fill_table(&*table);
        }
    }

    /// Enters all pages into an empty table. Of a page that is kept twice the one that is referred to:
    /// the other one may go with its container any time.
    fn fill_table(&self, table: &dyn Table) {
        let numbers = self.state().pages.numbers();
        for number in numbers {
            // A container that cannot be read has no pages to offer.
            let Ok(Some(directory)) = self.directory(number) else { continue };
            let references: Vec<u32> = match self.state().pages.references(number) {
                Some(references) => references.collect(),
                None => continue,
            };
            for ((slot, chunk), references) in (0..).zip(&directory.chunks).zip(references) {
                if references > 0 || table.get(&chunk.fingerprint).is_none() {
                    table.insert(&chunk.fingerprint, Handle::new(number, slot).to_u64());
                }
            }
        }
        self.table.note_entered();
    }
}
