//! Giving back the space of containers of which little is referred to: what is left in one is appended
//! anew, and the container goes.
//!
//! Each page moves for all who refer to it at one moment. Maps that name it where it was mean where
//! it is (`forwards` in state/pages.rs) until each of them has been told, some segments at a time:
//! others go on in between. What is mapped meanwhile is mapped to where pages are.

use std::borrow::Cow;
use std::collections::HashSet;

use onefold_container::Directory;
use onefold_index::Table;

use crate::containers::entry::{PageEntry, entry};
use crate::containers::located::{Wanted, read_all};
use crate::containers::new_pages::{NewPage, Packer};
use crate::engine::adopt::Sought;
use crate::engine::hook::Between;
use crate::engine::parts::Engine;
use crate::engine::room::Purpose;
use crate::error::VolumeError;
use crate::ids::Handle;
use crate::seeded::fault;
use crate::state::State;
use crate::state::container::MIN_FILL;
use crate::sync::maintenance::Maintaining;

/// Pages that are moved at a time.
const MOVED: usize = 64;

/// What came of a compaction.
pub(crate) enum Compaction {
    /// All that could be moved was.
    Done,
    /// A container could not be emptied, and others come first.
    Left(VolumeError),
    /// No container is worth it.
    Nothing,
}

/// Of which containers what is left is worth being moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Worth {
    /// Those of which less than half is referred to: to move a byte gives back more than one.
    Sparse,
    /// Those that give back an eighth at least, where a write would be refused otherwise.
    Any,
}

impl Worth {
    /// The share of a container that is referred to must be smaller.
    pub(crate) fn most(self) -> f64 {
        match self {
            Self::Sparse => MIN_FILL,
            Self::Any => 0.875,
        }
    }
}

impl Engine {
    /// Closes the open container, so that it can be compacted, if that is worth it and the rest is
    /// wanted; or if all of it is the rest. One for whose footer there is no room stays open: it
    /// keeps no other one from being compacted, which may make room.
    fn close_sparse(&self, worth: Worth) -> Result<(), VolumeError> {
        let mut appender = self.appender();
        let Some(number) = appender.number() else { return Ok(()) };
        let (len, quota) = (appender.container_len(), self.options.quota);
        let is_worth_it = {
            let state = self.state();
            let pages = &state.pages;
            let is_wanted = match worth {
                Worth::Sparse => quota.is_some_and(|quota| pages.room(quota) < len),
                // all others come first, which take no footer
                Worth::Any => pages.emptiest(worth.most()).is_none(),
            };
            let is_sparse = pages.share(number).is_some_and(|share| share < worth.most());
            is_sparse && (is_wanted || pages.is_unused(number))
        };
        if !is_worth_it {
            return Ok(());
        }
        self.shard.ensure_current()?;
        match self.room.with_reserve(|| self.seal(&mut appender)) {
            Err(error) if error.is_full() => Ok(()),
            sealed => sealed,
        }
    }

    /// Moves what is left in a container of which less than half is referred to. It is dropped with the
    /// next commit. One that cannot be emptied is set aside: until all others had their turn if that
    /// may pass, else for good.
    pub(crate) fn compact(&self) -> Result<Compaction, VolumeError> {
        self.compact_with(&self.maintenance.lock(), Worth::Sparse)
    }

    /// Whether emptying container `number` gives nothing back, as other shards need it. One that all of them
    /// are to do without is emptied all the same.
    fn is_kept_by_others(&self, number: u32) -> Result<bool, VolumeError> {
        let Some(sharing) = self.sharing() else { return Ok(false) };
        let name = {
            let state = self.state();
            let is_closing = state.pages.all.get(number).is_none_or(|one| one.is_closing);
            state.pages.file(number).filter(|_| !is_closing).and_then(|file| file.shared())
        };
        name.map_or(Ok(false), |name| sharing.has_others(name))
    }

    /// Does the same for a thread that has maintenance, where compacting is worth as much as
    /// `worth` says.
    pub(crate) fn compact_with(
        &self,
        _only: &Maintaining<'_>,
        worth: Worth,
    ) -> Result<Compaction, VolumeError> {
        let compacted = self.compact_emptiest(worth);
        self.room.refill_reserve();
        compacted
    }

    fn compact_emptiest(&self, worth: Worth) -> Result<Compaction, VolumeError> {
        self.shard.ensure_running()?;
        // how full containers are is not known before
        self.settle_all()?;
        self.close_sparse(worth)?;
        if worth == Worth::Any {
            // what is dead already takes no work
            let seen = self.room.made();
            self.commit()?;
            if self.room.made() != seen {
                return Ok(Compaction::Done);
            }
        }
        let number = loop {
            let emptiest = self.state().pages.emptiest(worth.most());
            let Some(number) = emptiest else {
                self.state().pages.take_up_left();
                return Ok(Compaction::Nothing);
            };
            if !self.is_kept_by_others(number)? {
                break number;
            }
            self.state().pages.leave(number);
        };
        let pinned = self.paged(|state| state.pages.pin(number))?;
        let Some((_, slots)) = pinned else { return Ok(Compaction::Done) };
        let left = self.move_pages(number, &slots);
        self.state().pages.unpin(number);
        // also those that were moved before an error
        if self.state().is_worth_forwarding() {
            self.forward_maps()?;
        }
        let left = left?;
        self.commit()?;
        Ok(left.map_or(Compaction::Done, Compaction::Left))
    }

    /// Appends the pages in `slots` of a container anew, and notes where they went. One that cannot be
    /// read stays, and with it the container. Returns why nothing more could be moved, if so: the
    /// container is left until later then, if that may pass.
    fn move_pages(&self, number: u32, slots: &[u32]) -> Result<Option<VolumeError>, VolumeError> {
        let directory = match self.directory(number) {
            Ok(Some(directory)) => directory,
            Ok(None) => {
                self.state().pages.leave(number);
                return Ok(None);
            }
            Err(error) => {
                let mut state = self.state();
                match error.may_pass() {
                    true => state.pages.leave(number),
                    false => state.pages.keep_for_good(number),
                }
                return Ok(Some(error));
            }
        };
        let table = self.table.get();
        for slots in slots.chunks(MOVED) {
            let slots = &*self.move_to_others(number, slots, &directory, &*table)?;
            let mut packer = Packer::new(slots.len());
            for &slot in slots {
                let from = Handle::new(number, slot);
                let located = {
                    let mut state = self.state();
                    // where it went nobody would know that it is lost
                    if state.pages.is_bad(from) {
                        state.pages.note_stuck(from);
                        continue;
                    }
                    state.pages.locate(from).expect("its container is pinned")
                };
                let Some(located) = located else { continue };
                // what lies under its name may be another file than the one that was opened first
                let said = entry(&directory, slot).filter(|said| located.is(said));
                let stored = said.map(|said| located.read_stored().map(|stored| (said, stored)));
                match stored {
                    Some(Ok((said, stored))) => {
                        let PageEntry { fingerprint, codec, len, check, .. } = said;
                        packer.push_stored(fingerprint, &stored, codec, len, (from, check));
                    }
                    Some(Err(error)) if error.may_pass() => {
                        self.state().pages.leave(number);
                        return Ok(Some(error));
                    }
                    Some(Err(_)) | None => self.state().pages.note_stuck(from),
                }
            }
            let mut new = packer.finish();
            // so far four bytes of each check were compared
            new.retain(|one| {
                let (from, check) = one.of;
                let is_it = one.check == check;
                if !is_it {
                    self.state().pages.note_stuck(from);
                }
                is_it
            });
            let (mut appender, here) = (self.held_appender(), |_: &State, _: &NewPage<_>| Ok(()));
            let purpose = Purpose::Move { from: number };
            self.append(&mut appender, &new, purpose, &*table, here, |state, to, one| {
                let record = state.pages.move_page(one.of.0, to);
                if let Some(record) = record.filter(|_| !fault!(MovesUntold)) {
                    state.waiting.push(&record);
                }
            })?;
        }
        Ok(None)
    }

    /// Moves those pages in `slots` of a container that is closing to where another shard has stored them by
    /// now. Returns the other slots.
    fn move_to_others<'a>(
        &self,
        number: u32,
        slots: &'a [u32],
        directory: &Directory,
        table: &dyn Table,
    ) -> Result<Cow<'a, [u32]>, VolumeError> {
        let mut found = Vec::with_capacity(slots.len());
        {
            let state = self.state();
            if !state.pages.all.get(number).is_some_and(|one| one.is_closing) {
                return Ok(Cow::Borrowed(slots));
            }
            for &slot in slots {
                let page = Handle::new(number, slot);
                let located = state.pages.locate(page).expect("its container is pinned");
                let said = entry(directory, slot).filter(|_| !state.pages.is_bad(page));
                found.extend(located.zip(said));
            }
        }
        let mut bytes: Vec<Vec<u8>> =
            found.iter().map(|(_, said)| vec![0; said.len as usize]).collect();
        let wanted = found.iter().zip(&mut bytes).enumerate();
        let wanted = wanted.map(|(at, ((located, _), into))| Wanted { at, located, into });
        let unread: HashSet<usize> =
            read_all(wanted.collect()).into_iter().map(|(at, _)| at).collect();
        let fingerprints: Vec<_> = found.iter().map(|(_, said)| said.fingerprint).collect();
        let hints = self.sharing().map(|sharing| sharing.find(&fingerprints)).unwrap_or_default();
        let sought = found.iter().zip(&bytes).zip(hints).enumerate();
        let sought = sought.filter(|(at, _)| !unread.contains(at));
        let sought = sought.filter_map(|(at, (((_, said), page), hint))| {
            let (fingerprint, len, page) = (said.fingerprint, said.len, Some(&page[..]));
            Some((Sought { at, page, len, fingerprint }, hint?))
        });
        let here = |_: &State, _| Ok(());
        let moved = self.adopt_pages(sought.collect(), number, table, here, |state, to, at| {
            let record = state.pages.move_page(found[at].0.page, to);
            if let Some(record) = record {
                state.waiting.push(&record);
            }
        })?;
        let moved: HashSet<u32> = moved.into_iter().map(|at| found[at].0.page.slot()).collect();
        Ok(Cow::Owned(slots.iter().copied().filter(|slot| !moved.contains(slot)).collect()))
    }

    /// Lets every map know where pages were moved. Others have their turns meanwhile.
    fn forward_maps(&self) -> Result<(), VolumeError> {
        let mut next = Some(0);
        while let Some(index) = next {
            next = self.paged(|state| state.forward_some(index))?;
            self.let_others();
            self.between(Between::Forwards);
        }
        self.state().pages.forget_forwards();
        Ok(())
    }
}
