//! Pages that other shards stored: found by hints, verified, and mapped once the pool is registered in their
//! container.
//!
//! A hint may be wrong, late, or lead to a container that is gone; then the page is stored anew. What is
//! mapped was verified against the container's directory, which never changes, or, while the container has
//! none, by the stored bytes, which never change either. The order is that of
//! docs/decisions/0053-cluster-core.md: announced by a durable batch, registered, and then settled and mapped
//! by one batch.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, MutexGuard};

use onefold_backend::LogReader;
use onefold_container::{ChunkEntry, Codec, Directory, GroupEntry, decompress_into};
use onefold_fingerprint::Fingerprint;
use onefold_index::Table;
use onefold_seal::{CHECK_LEN, Check};

use crate::containers::entry::{MAX_PAGE, PageEntry, entries};
use crate::containers::files::PageFile;
use crate::containers::foreign::{ForeignDirectories, Offsets};
use crate::containers::located::short;
use crate::engine::counters::count;
use crate::engine::parts::Engine;
use crate::error::VolumeError;
use crate::ids::{Handle, SharedName};
use crate::journal::record::{Announced, Record};
use crate::seeded::fault;
use crate::sharing::{PageHint, RegisteredAs};
use crate::state::State;
use crate::state::container::LOST_OFFSET;
use crate::state::nodes::Missing;
use crate::state::registrations::Stage;

/// Bytes that are read together where a container has no directory yet.
const RUN: u32 = 1 << 20;

/// A page that is wanted.
pub(crate) struct Sought<'a> {
    /// Which one of those that the caller wants.
    pub(crate) at: usize,
    /// Its bytes. Without them it is found only where a directory lists it.
    pub(crate) page: Option<&'a [u8]>,
    /// In bytes.
    pub(crate) len: u32,
    pub(crate) fingerprint: Fingerprint,
}

/// A page that is wanted and where it is said to be.
#[derive(Clone, Copy)]
struct Hinted<'a> {
    at: usize,
    page: Option<&'a [u8]>,
    len: u32,
    fingerprint: Fingerprint,
    hint: PageHint,
}

/// A page that is where it was said to be.
struct Verified<'a> {
    of: Hinted<'a>,
    /// Its place in the container's directory, if there is one.
    slot: Option<u32>,
    entry: PageEntry,
}

impl Hinted<'_> {
    /// Whether the hint is of this page of the container.
    fn is(&self, entry: &PageEntry) -> bool {
        (entry.fingerprint == self.fingerprint || fault!(HintBelieved))
            && entry.stored_len == self.hint.stored_len
            && entry.len == self.len
            && short(entry.check.as_bytes()) == self.hint.check
            && entry.is_within()
    }

    /// The page, if these are its stored bytes.
    fn entry(&self, stored: &[u8]) -> Option<PageEntry> {
        let (page, check) = (self.page?, Check::of(&[stored]));
        if short(check.as_bytes()) != self.hint.check {
            return None;
        }
        let mut found = vec![0; page.len()];
        let is_it = |codec: &Codec| match codec {
            Codec::Raw => stored == page,
            codec => decompress_into(*codec, stored, &mut found).is_ok() && found == page,
        };
        let codec = Codec::ALL.into_iter().find(is_it)?;
        Some(PageEntry {
            offset: self.hint.offset,
            stored_len: self.hint.stored_len,
            len: self.len,
            codec,
            check,
            fingerprint: self.fingerprint,
        })
    }
}

/// Whose container it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// This pool made it, under this number.
    Own(u32),
    /// Another one did, or this one that did without it since.
    Foreign,
    /// Pages of it cannot be mapped now.
    Unusable,
}

/// The entry in a directory for a page whose place is lost. It is longer than any page can be, and no page
/// has its fingerprint, so nothing takes it for a page.
fn lost_page(slot: u32) -> (GroupEntry, ChunkEntry) {
    let check = Check::from_bytes([0; CHECK_LEN]);
    let offset = LOST_OFFSET.into();
    let group = GroupEntry { offset, stored_len: 0, len: 0, codec: Codec::Raw, check };
    let fingerprint = Fingerprint::from_bytes([0; Fingerprint::LEN]);
    (group, ChunkEntry { fingerprint, group: slot, offset: 0, len: MAX_PAGE + 1 })
}

impl Engine {
    /// Verifies those of `sought` that other shards are said to have stored, registers in their containers, and
    /// takes them up in containers of numbers above `above`. `settle` gets each page's handle and must take its first reference;
    /// `here` fails for a node that it needs and that is not in memory. Returns which ones, sorted.
    ///
    /// On error this is done for some.
    pub(crate) fn adopt_pages(
        &self,
        sought: Vec<(Sought<'_>, PageHint)>,
        above: u32,
        table: &dyn Table,
        here: impl Fn(&State, usize) -> Result<(), Missing>,
        mut settle: impl FnMut(&mut State, Handle, usize),
    ) -> Result<Vec<usize>, VolumeError> {
        let mut hinted: BTreeMap<SharedName, Vec<Hinted<'_>>> = BTreeMap::new();
        for (Sought { at, page, len, fingerprint }, hint) in sought {
            if (1..=MAX_PAGE).contains(&hint.stored_len) {
                let one = Hinted { at, page, len, fingerprint, hint };
                hinted.entry(hint.container).or_default().push(one);
            }
        }
        let mut adopted = Vec::new();
        for (name, hinted) in hinted {
            let origin = self.origin(&name, above);
            if origin == Origin::Unusable {
                continue;
            }
            let verified = self.verify(name, hinted);
            if verified.is_empty() {
                continue;
            }
            if let Origin::Own(number) = origin {
                self.refer(number, &verified, &here, &mut settle, &mut adopted)?;
                continue;
            }
            // others wait for an answer rather than store the pages anew
            let _only = self.adopting.lock().expect("nobody panics with it");
            let Some((number, is_new)) = self.registered(name)? else { continue };
            let before = adopted.len();
            let taken = self.take_up(number, &verified, table, &here, &mut settle, &mut adopted);
            if is_new && adopted.len() == before {
                self.give_up_number(number);
            }
            taken?;
        }
        if !adopted.is_empty() {
            self.table.note_entered();
        }
        adopted.sort_unstable();
        Ok(adopted)
    }

    /// Whether pages of this container may be mapped now, in a container of a number above `above`.
    fn origin(&self, name: &SharedName, above: u32) -> Origin {
        let state = self.state();
        match state.pages.registrations.of(name) {
            None => Origin::Foreign,
            Some((number, _)) if number <= above => Origin::Unusable,
            Some((number, one)) => match (one.is_foreign, one.stage) {
                (false, Stage::Registered) => Origin::Own(number),
                (true, Stage::Registered | Stage::Registering) => Origin::Foreign,
                _ => Origin::Unusable,
            },
        }
    }

    /// Refers to pages of container `number`, which this pool made and of which its table did not know, and
    /// notes in `adopted` which.
    fn refer(
        &self,
        number: u32,
        verified: &[Verified<'_>],
        here: impl Fn(&State, usize) -> Result<(), Missing>,
        settle: &mut impl FnMut(&mut State, Handle, usize),
        adopted: &mut Vec<usize>,
    ) -> Result<(), VolumeError> {
        for Verified { of: one, slot, .. } in verified {
            let Some(slot) = slot else { continue };
            let mut state = self.state_with(|state| here(state, one.at))?;
            let page = state.found(Some(Handle::new(number, *slot).to_u64()));
            if let Some(page) = page {
                settle(&mut state, page, one.at);
                adopted.push(one.at);
            }
        }
        Ok(())
    }

    /// Those of `hinted` that are where they are said to be, and what they are there. What cannot be read
    /// is none of them.
    fn verify<'a>(&self, name: SharedName, hinted: Vec<Hinted<'a>>) -> Vec<Verified<'a>> {
        let (known, mut bytes) = (self.foreign().get(&name), None);
        let offsets = known.or_else(|| {
            let sharing = self.sharing().expect("it shares");
            let (state, found) = sharing.look(name).ok().flatten()?;
            if !state.is_sealed {
                bytes = Some(found);
                return None;
            }
            let directory = self.files.shared_file(name).directory().ok()?;
            let entries = (0..).zip(entries(&directory)).map(|(slot, of)| (of.offset, (slot, of)));
            let offsets: Arc<Offsets> = Arc::new(entries.collect());
            count(&self.counters.directories_read, 1);
            self.foreign().add(name, Arc::clone(&offsets));
            Some(offsets)
        });
        let Some(offsets) = offsets.filter(|_| !self.options.verify) else {
            let bytes = bytes.or_else(|| self.sharing().expect("it shares").reader(name).ok());
            return bytes.map_or_else(Vec::new, |bytes| self.verify_bytes(&*bytes, hinted));
        };
        let found = hinted.into_iter().filter_map(|of| {
            let (slot, entry) = offsets.get(&of.hint.offset).filter(|(_, entry)| of.is(entry))?;
            Some(Verified { of, slot: Some(*slot), entry: entry.clone() })
        });
        found.collect()
    }

    fn foreign(&self) -> MutexGuard<'_, ForeignDirectories> {
        self.foreign.lock().expect("nobody panics with it")
    }

    /// The same by the bytes that `reader` reads of the container.
    fn verify_bytes<'a>(
        &self,
        reader: &dyn LogReader,
        mut hinted: Vec<Hinted<'a>>,
    ) -> Vec<Verified<'a>> {
        hinted.sort_unstable_by_key(|one| one.hint.offset);
        let is_within = |one: &Hinted<'_>| {
            let end = u64::from(one.hint.offset) + u64::from(one.hint.stored_len);
            end <= reader.len().min(1 << 30)
        };
        hinted.retain(is_within);
        let mut verified = Vec::with_capacity(hinted.len());
        let end_of = |one: &Hinted<'_>| one.hint.offset + one.hint.stored_len;
        let mut rest = &hinted[..];
        while let Some(first) = rest.first() {
            let begin = first.hint.offset;
            let together = rest.iter().take_while(|one| end_of(one) - begin <= RUN).count().max(1);
            let (run, others) = rest.split_at(together);
            rest = others;
            let end = run.iter().map(end_of).max().unwrap_or(begin);
            let mut stored = vec![0; (end - begin) as usize];
            if reader.read(begin.into(), &mut stored).is_err() {
                continue;
            }
            for one in run {
                let from = (one.hint.offset - begin) as usize;
                let stored = &stored[from..from + one.hint.stored_len as usize];
                let entry = one.entry(stored);
                verified.extend(entry.map(|entry| Verified { of: *one, slot: None, entry }));
            }
        }
        verified
    }

    /// Takes up pages of one container, and notes in `adopted` which.
    fn take_up(
        &self,
        number: u32,
        verified: &[Verified<'_>],
        table: &dyn Table,
        here: impl Fn(&State, usize) -> Result<(), Missing>,
        settle: &mut impl FnMut(&mut State, Handle, usize),
        adopted: &mut Vec<usize>,
    ) -> Result<(), VolumeError> {
        for Verified { of: one, entry, .. } in verified {
            let mut state = self.state_with(|state| {
                state.pages.takes_foreign(number)?;
                here(state, one.at)
            })?;
            if state.pages.takes_foreign(number) != Ok(true) {
                return Ok(());
            }
            self.settle_registered(&mut state, number);
            let page = state.pages.push_foreign(number, entry);
            state.waiting.push(&Record::Page { container: number, page: entry.clone() });
            settle(&mut state, page, one.at);
            drop(state);
            let unindexed = table.insert_many(&[(one.fingerprint, page.to_u64())]);
            count(&self.counters.unindexed, unindexed);
            adopted.push(one.at);
        }
        Ok(())
    }

    /// Lets the registration by `number`, which is known to be there, count.
    fn settle_registered(&self, state: &mut State, number: u32) {
        if state.pages.has_container(number) {
            return;
        }
        state.pages.registrations.settle(number, true);
        state.waiting.push(&Record::Settle { container: number, is_registered: true });
        state.pages.add_foreign(self.files.closed(number, 0));
    }

    /// The number by which the pool is registered in foreign container `name`, and whether it was not before;
    /// nothing if it cannot be. The caller must hold `adopting`.
    fn registered(&self, name: SharedName) -> Result<Option<(u32, bool)>, VolumeError> {
        let found = self.state().pages.registrations.of(&name).map(|(number, one)| (number, *one));
        if let Some((number, one)) = found {
            let counts = one.is_foreign && one.stage == Stage::Registered;
            return Ok(counts.then_some((number, false)));
        }
        let writer = self.shard.writer();
        let (number, _) = self.announce_new(Announced::Register(writer, name));
        self.commit().inspect_err(|_| self.give_up_number(number))?;
        let sharing = self.sharing().expect("it shares");
        let value = RegisteredAs { writer, number };
        let registered =
            if fault!(MappedUnregistered) { Ok(true) } else { sharing.register(name, value) };
        match registered {
            Err(_) if fault!(MappedUnanswered) => {
                self.state().pages.registrations.note_answered(number);
                Ok(Some((number, true)))
            }
            Ok(true) => {
                self.state().pages.registrations.note_answered(number);
                Ok(Some((number, true)))
            }
            Ok(false) => {
                let mut state = self.state();
                state.pages.registrations.settle(number, false);
                state.waiting.push(&Record::Settle { container: number, is_registered: false });
                drop(state);
                self.files.forget_shared(number);
                Ok(None)
            }
            Err(error @ VolumeError::Superseded { .. }) => Err(error),
            Err(_) => {
                self.give_up_number(number);
                Ok(None)
            }
        }
    }

    /// What foreign container `file` holds, in the order of this pool's slots; nothing if its pool has not
    /// sealed it yet, or this one does without it by now.
    pub(super) fn foreign_directory(
        &self,
        file: &Arc<PageFile>,
    ) -> Result<Option<Directory>, VolumeError> {
        let (Some(name), Some(sharing)) = (file.shared(), self.sharing()) else { return Ok(None) };
        if sharing.look(name)?.is_some_and(|(state, _)| !state.is_sealed) {
            return Ok(None);
        }
        let mut directory = file.directory()?;
        let Some(offsets) = self.paged(|state| state.pages.offsets(file.number()))? else {
            return Ok(None);
        };
        let places: HashMap<u64, usize> =
            directory.groups.iter().map(|group| group.offset).zip(0..).collect();
        let (mut groups, mut chunks) = (Vec::with_capacity(offsets.len()), Vec::new());
        for (slot, offset) in (0..).zip(offsets) {
            if offset == LOST_OFFSET {
                let (group, chunk) = lost_page(slot);
                groups.push(group);
                chunks.push(chunk);
                continue;
            }
            let Some(&place) = places.get(&u64::from(offset)) else {
                let problem = format!("slot {slot} is here, expected a page of its directory");
                return Err(file.damaged(offset.into(), problem));
            };
            groups.push(directory.groups[place].clone());
            let mut chunk = directory.chunks[place].clone();
            chunk.group = slot;
            chunks.push(chunk);
        }
        (directory.groups, directory.chunks) = (groups, chunks);
        Ok(Some(directory))
    }
}
