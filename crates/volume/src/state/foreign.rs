//! Pages in containers that shards share.

use std::sync::Arc;

use onefold_fingerprint::Fingerprint;

use crate::containers::entry::{MOST_PAGES, PageEntry};
use crate::containers::files::PageFile;
use crate::ids::{Handle, SharedName};
use crate::journal::record::{Announced, Record};
use crate::sharing::PageHint;
use crate::state::container::Container;
use crate::state::nodes::Missing;
use crate::state::pages::Pages;
use crate::state::registrations::{Registration, Stage};

impl Pages {
    /// The pool does without the registration that `file` stands for; what the journal has to know.
    pub(crate) fn give_up_registration(&mut self, file: Arc<PageFile>) -> Record {
        let (number, what) = (file.number(), Announced::Drop);
        let own = file.shared().expect("it is registered").shard;
        self.registrations.announce(own, number, what);
        self.doomed.push(file);
        Record::Announce { container: number, what }
    }

    /// Takes up container `file`, which is foreign and registered, without pages.
    pub(crate) fn add_foreign(&mut self, file: Arc<PageFile>) {
        let number = file.number();
        self.next = self.next.max(number + 1);
        self.maybe_dead.push(number);
        let mut container = Container::new(file, 0);
        container.is_sealed = true;
        self.all.insert(number, container);
    }

    /// Whether a page of foreign container `number` can be taken up, and its nodes are here.
    pub(crate) fn takes_foreign(&self, number: u32) -> Result<bool, Missing> {
        let is_answered = |one: &Registration| {
            one.stage == Stage::Registered || one.stage == Stage::Registering && one.is_answered
        };
        if !self.registrations.get(number).is_some_and(is_answered) {
            return Ok(false);
        }
        let Some(container) = self.all.get(number) else { return Ok(true) };
        container.slots.ensure_next_here(&self.nodes)?;
        Ok(!container.is_closing && container.slots.count < MOST_PAGES)
    }

    /// Takes up a page of foreign container `number`; its first reference has to follow before anyone else has
    /// the state.
    ///
    /// # Panics
    ///
    /// Unless the container takes pages.
    pub(crate) fn push_foreign(&mut self, number: u32, page: &PageEntry) -> Handle {
        let container = self.all.get_mut(number).expect("it takes pages");
        let slot = container.push_entry(page, &mut self.nodes).expect("it was looked at");
        Handle::new(number, slot)
    }

    /// Where each page of container `number` begins; `None` if it is gone.
    pub(crate) fn offsets(&self, number: u32) -> Result<Option<Vec<u32>>, Missing> {
        let Some(container) = self.all.get(number) else { return Ok(None) };
        container.slots.offsets(&self.nodes).map(Some)
    }

    /// Container `name` is to be emptied, if there is such a one; its number.
    pub(crate) fn note_closing(&mut self, name: &SharedName) -> Option<u32> {
        let (number, _) = self.registrations.of(name)?;
        let container = self.all.get_mut(number)?;
        container.is_closing = true;
        Some(number)
    }

    /// The pages for the others that came since this was last asked.
    pub(crate) fn take_added(&mut self) -> Vec<(Fingerprint, PageHint)> {
        std::mem::take(&mut self.added)
    }
}
