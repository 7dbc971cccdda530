//! Another table of fingerprints, filled from the footers of containers.

use std::sync::Arc;

use onefold_index::Table;

use crate::engine::parts::Engine;
use crate::error::VolumeError;
use crate::ids::Handle;

impl Engine {
    /// Goes on with `table`, which gets all pages first if it is to be filled.
    pub(crate) fn use_table(&self, table: Arc<dyn Table>, fill: bool) {
        self.table.replace(table);
        self.neighbours.clear();
        if fill {
            self.fill_table(|| true);
        }
    }

    /// Enters all pages into the table, until `go_on` says no, which is asked for each container. Of a
    /// page that is kept twice the one that is referred to: the other one may go with its container any
    /// time. Returns why the pages of other containers could not be entered.
    pub(crate) fn fill_table(&self, go_on: impl Fn() -> bool) -> Vec<VolumeError> {
        let mut unread = Vec::new();
        let table = self.table.get();
        let numbers = self.state().pages.numbers();
        for number in numbers {
            if !go_on() {
                break;
            }
            // A container that cannot be read has no pages to offer.
            let directory = match self.directory(number) {
                Ok(Some(directory)) => directory,
                Ok(None) => continue,
                Err(error) => {
                    // one that may pass says nothing of the container
                    let is_told = error.may_pass() || self.state().pages.note_unread(number);
                    unread.extend(is_told.then_some(error));
                    continue;
                }
            };
            let references = self.paged(|state| state.pages.references(number));
            let Ok(Some(references)) = references else { continue };
            for ((slot, chunk), references) in (0..).zip(&directory.chunks).zip(references) {
                if references > 0 || table.get(&chunk.fingerprint).is_none() {
                    table.insert(&chunk.fingerprint, Handle::new(number, slot).to_u64());
                }
            }
        }
        self.table.note_entered();
        unread
    }
}
