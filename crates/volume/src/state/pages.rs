//! The pages that are kept, in containers, and how often each is referred to.
//!
//! A container is a log that takes one page after another, each a group of its own, until it is
//! long enough and gets its footer. From then on it is what a repository's container is. Of each
//! page nodes have four numbers: where it begins, the first four bytes of its check, its references,
//! and how long it is.
//!
//! References are counted in nodes too. Where the node is not in memory, what has to be added is
//! noted beside the container and added once the node is here: so nobody who gains or lets go of a
//! reference waits for a file.

mod recovered;
mod references;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use onefold_container::Directory;
use onefold_fingerprint::Fingerprint;

use crate::containers::entry::{ContainerImage, PageEntry, entries};
use crate::containers::files::PageFile;
use crate::containers::located::{Located, short};
use crate::ids::Handle;
use crate::journal::record::Record;
use crate::nodes::format::Node;
use crate::seeded::fault;
use crate::sharing::PageHint;
use crate::state::bits::Bits;
use crate::state::container::{Container, MOST, references_of, split};
use crate::state::map::References;
use crate::state::nodes::{Missing, NodeId, Nodes};
use crate::state::registrations::Registrations;
use crate::state::sparse::Sparse;

/// The number of the first container of a pool.
pub(crate) const FIRST_CONTAINER: u32 = 1;

/// The file of a container whose nodes stay in memory, and the slots of pages that are referred to.
pub(crate) type Pinned = (Arc<PageFile>, Vec<u32>);

/// Sums over containers.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    /// Pages that are referred to.
    pub(crate) pages: u64,
    /// What they take.
    pub(crate) page_bytes: u64,
    /// What containers take.
    pub(crate) container_bytes: u64,
    /// What compacting would give back, but for footers: that of a container of which something is left
    /// counts as kept, and nobody knows which containers become full meanwhile.
    pub(crate) reclaimable_bytes: u64,
}

/// All pages of a pool.
pub(crate) struct Pages {
    /// Of the tables of pages, and of maps.
    pub(crate) nodes: Nodes,
    pub(crate) all: Sparse<Container>,
    /// The number of the next container.
    pub(crate) next: u32,
    /// Containers with bytes that may not be durable.
    unsynced: Vec<Arc<PageFile>>,
    /// Containers that may have become dead.
    pub(super) maybe_dead: Vec<u32>,
    /// Containers that are dead, whose files go once the journal says so.
    pub(super) doomed: Vec<Arc<PageFile>>,
    /// Pages that could not be read.
    bad: HashSet<Handle>,
    /// Where pages went that a compaction moved, until all maps know.
    forwards: HashMap<Handle, Handle>,
    /// How much is pending beside all containers.
    pending: usize,
    /// Containers that would be dead, or nearly, with what is pending beside them.
    unsettled: BTreeSet<u32>,
    /// The containers that these were in.
    moved_from: BTreeSet<u32>,
    /// Bytes of all containers, those that are doomed among them.
    bytes: u64,
    /// Pages that got or lost a reference, while that is noted.
    watched: Option<Bits>,
    /// In containers that shards share.
    pub(crate) registrations: Registrations,
    /// Pages in those of which no batch tells yet, for the others.
    pub(super) added: Vec<(Fingerprint, PageHint)>,
}

impl Pages {
    pub(crate) fn new() -> Self {
        Self {
            nodes: Nodes::default(),
            all: Sparse::default(),
            pending: 0,
            unsettled: BTreeSet::new(),
            next: FIRST_CONTAINER,
            unsynced: Vec::new(),
            maybe_dead: Vec::new(),
            doomed: Vec::new(),
            bad: HashSet::new(),
            forwards: HashMap::new(),
            moved_from: BTreeSet::new(),
            bytes: 0,
            watched: None,
            registrations: Registrations::default(),
            added: Vec::new(),
        }
    }

    /// Bytes of the files of all containers.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that a quota leaves.
    pub(crate) fn room(&self, quota: u64) -> u64 {
        quota.saturating_sub(self.bytes)
    }

    /// Takes up container `next`, which was begun and has `len` bytes.
    pub(crate) fn begin(&mut self, file: Arc<PageFile>, len: u32) {
        self.next = self.next.max(file.number() + 1);
        self.bytes += u64::from(len);
        self.all.insert(file.number(), Container::new(file, len));
    }

    /// A page was appended to container `number`; its first reference has to follow before anyone
    /// else has the state.
    pub(crate) fn push(&mut self, number: u32, page: &PageEntry) -> Handle {
        let container = self.all.get_mut(number).expect("the open one is one of all");
        let before = container.end;
        let slot =
            container.push_entry(page, &mut self.nodes).expect("it is closed before 2^30 bytes");
        // with what lies unused before it
        self.bytes += u64::from(container.end - before);
        if let Some(name) = container.file.shared() {
            let PageEntry { offset, stored_len, fingerprint, .. } = *page;
            let check = short(page.check.as_bytes());
            self.added.push((fingerprint, PageHint { container: name, offset, stored_len, check }));
        }
        let is_noted = self.unsynced.last().is_some_and(|last| last.number() == number);
        if !is_noted {
            self.unsynced.push(Arc::clone(&container.file));
        }
        Handle::new(number, slot)
    }

    /// Container `number` has its footer, of so many bytes with what lies unused before it.
    pub(crate) fn seal(&mut self, number: u32, len: u64) {
        let container = self.all.get_mut(number).expect("the open one is one of all");
        self.bytes += len;
        container.close(&mut self.nodes);
        container.file.complete();
        self.maybe_dead.push(number);
        fault!(ClosedUnsynced => container.file.let_close());
        fault!(SealedUnsynced => return self.unsynced.retain(|file| file.number() != number));
        self.unsynced.push(Arc::clone(&container.file));
    }

    /// The files that have to be synced before the journal may tell of what is in them.
    pub(crate) fn take_unsynced(&mut self) -> Vec<Arc<PageFile>> {
        let mut files = std::mem::take(&mut self.unsynced);
        files.dedup_by_key(|file| file.number());
        files
    }

    /// Puts back what [`take_unsynced`](Self::take_unsynced) took, and was not synced.
    pub(crate) fn put_back_unsynced(&mut self, files: &[Arc<PageFile>]) {
        self.unsynced.splice(..0, files.iter().cloned());
    }

    /// Where a page is that a map or a table names; `None` if its container is gone.
    pub(crate) fn locate(&self, page: Handle) -> Result<Option<Located>, Missing> {
        let page = self.resolve(page);
        match self.all.get(page.container()) {
            Some(container) => container.located(page.slot(), &self.nodes),
            None => Ok(None),
        }
    }

    /// Where a page is now: elsewhere, if it was moved.
    pub(crate) fn resolve(&self, page: Handle) -> Handle {
        self.moved(page).unwrap_or(page)
    }

    /// Where a page is now that maps name where it was; `None` if it was not moved.
    pub(crate) fn moved(&self, page: Handle) -> Option<Handle> {
        let step = |page: Handle| match self.moved_from.contains(&page.container()) {
            true => self.forwards.get(&page).copied(),
            false => None,
        };
        // pages move to later places only, so this ends
        std::iter::successors(step(page), |page| step(*page)).last()
    }

    /// The pages of a segment, where they are.
    pub(crate) fn resolved(&self, segment: Arc<Node>) -> Arc<Node> {
        let moved = |page: &u64| self.moved(Handle::from_u64(*page));
        if self.forwards.is_empty() || segment.iter().all(|page| moved(page).is_none()) {
            return segment;
        }
        Arc::new(segment.map(|page| moved(&page).map_or(page, Handle::to_u64)))
    }

    /// Whether a page is there, referred to or not, and can be referred to once more. Pages of a container
    /// that is closing are stored elsewhere.
    pub(crate) fn has(&self, page: Handle) -> bool {
        let container = self.all.get(page.container()).filter(|container| !container.is_closing);
        let slots = container.map(|container| &container.slots);
        let Some(slots) = slots.filter(|slots| slots.has(page.slot())) else { return false };
        // of one that is not in memory nobody knows that it has so many, and it keeps them
        let is_full = slots.references(page.slot(), &self.nodes).is_ok_and(|(_, n)| n == MOST);
        !is_full && !self.bad.contains(&page)
    }

    /// A page could not be read: who writes it again has it kept anew.
    pub(crate) fn note_bad(&mut self, page: Handle) {
        // one that went meanwhile concerns nobody
        if self.is_there(page) {
            self.bad.insert(self.resolve(page));
        }
    }

    /// Whether a page is known to be lost where it is.
    pub(crate) fn is_bad(&self, page: Handle) -> bool {
        self.bad.contains(&page)
    }

    /// A page is as it should be, whatever was noted of it.
    pub(crate) fn note_good(&mut self, page: Handle) {
        let page = self.resolve(page);
        if self.bad.remove(&page)
            && let Some(container) = self.all.get_mut(page.container())
        {
            // who cannot move another page of it finds that out again
            container.is_stuck = false;
        }
    }

    /// A page is lost where it is, and keeps its container as long as somebody has it.
    pub(crate) fn note_stuck(&mut self, page: Handle) {
        self.note_bad(page);
        // it may have been let go since it was to be moved
        if !matches!(self.footprint(page), Ok(None | Some((0, _)))) {
            self.keep_for_good(page.container());
        }
    }

    /// Container `number` cannot be emptied.
    pub(crate) fn keep_for_good(&mut self, number: u32) {
        if let Some(container) = self.all.get_mut(number) {
            container.is_stuck = true;
        }
    }

    /// Container `number` could not be emptied just now: others come first.
    pub(crate) fn leave(&mut self, number: u32) {
        if let Some(container) = self.all.get_mut(number) {
            container.is_left = true;
        }
    }

    /// What was left comes next.
    pub(crate) fn take_up_left(&mut self) {
        self.all.values_mut().for_each(|container| container.is_left = false);
    }

    /// Dooms the sealed containers of which nothing is referred to: nobody can find them any more.
    /// `record` gets what the journal has to know.
    pub(crate) fn doom_dead(&mut self, mut record: impl FnMut(&Record)) {
        for number in std::mem::take(&mut self.maybe_dead) {
            if !self.all.get(number).is_some_and(Container::is_dead) {
                continue;
            }
            record(&self.doom(number));
        }
        let all = &self.all;
        self.bad.retain(|page| all.get(page.container()).is_some());
    }

    /// Dooms the open container `number` as well, if nothing in it is referred to; whether it did.
    pub(crate) fn doom_open(&mut self, number: u32, mut record: impl FnMut(&Record)) -> bool {
        if self.all.get(number).is_some_and(|container| container.live > 0) {
            return false;
        }
        record(&self.doom(number));
        true
    }

    /// Dooms container `number`; what the journal has to know.
    fn doom(&mut self, number: u32) -> Record {
        let Some(mut container) = self.all.remove(number) else {
            return Record::Dropped { container: number };
        };
        self.unsettled.remove(&number);
        self.pending -= container.slots.pending.len();
        container.slots.clear(!container.is_sealed, &mut self.nodes);
        if container.file.shared().is_none() {
            self.doomed.push(container.file);
            return Record::Dropped { container: number };
        }
        self.give_up_registration(container.file)
    }

    /// The files of all that is doomed.
    pub(crate) fn take_doomed(&mut self) -> Vec<Arc<PageFile>> {
        let files = std::mem::take(&mut self.doomed);
        self.bytes -= files.iter().map(|file| file.own_len()).sum::<u64>();
        files
    }

    /// Files that could not be removed, for another time.
    pub(crate) fn put_back_doomed(&mut self, files: Vec<Arc<PageFile>>) {
        self.bytes += files.iter().map(|file| file.own_len()).sum::<u64>();
        self.doomed.extend(files);
    }

    /// The share of the bytes of its pages that are referred to, if container `number` has any.
    pub(crate) fn share(&self, number: u32) -> Option<f64> {
        let container = self.all.get(number)?;
        // without what stands before the pages: one that has just taken a short one is full
        let bytes = container.end - container.begin;
        if container.slots.count == 0 {
            return None;
        }
        Some(container.live_bytes as f64 / f64::from(bytes))
    }

    /// Whether nothing in container `number` is referred to.
    pub(crate) fn is_unused(&self, number: u32) -> bool {
        self.all.get(number).is_some_and(|container| container.live == 0)
    }

    /// The container with the smallest share of bytes that are referred to, if that is below `most`
    /// and it was not left.
    pub(crate) fn emptiest(&self, most: f64) -> Option<u32> {
        let sealed = self.all.iter().filter(|(_, one)| one.can_be_emptied() && !one.is_left);
        let least = sealed.min_by(|(_, a), (_, b)| a.fill().total_cmp(&b.fill()));
        least.filter(|(_, one)| one.fill() < most).map(|(number, _)| number)
    }

    /// The file of container `number` and the slots of pages that are referred to; its nodes stay in
    /// memory until [`unpin`](Self::unpin). `None` if it is gone.
    pub(crate) fn pin(&mut self, number: u32) -> Result<Option<Pinned>, Missing> {
        let Some(references) = self.references(number)? else { return Ok(None) };
        let container = self.all.get(number).expect("just found");
        container.slots.nodes().try_for_each(|id| self.nodes.ensure_here(id))?;
        container.slots.nodes().for_each(|id| self.nodes.pin(id).expect("it is here"));
        let live = (0..).zip(references).filter(|(_, references)| *references > 0);
        Ok(Some((Arc::clone(&container.file), live.map(|(slot, _)| slot).collect())))
    }

    /// Nobody needs the nodes of container `number` in memory any more.
    pub(crate) fn unpin(&mut self, number: u32) {
        if let Some(container) = self.all.get(number) {
            container.slots.nodes().for_each(|id| self.nodes.unpin(id));
        }
    }

    /// How often a page is referred to, and what it takes; `None` if its container is gone.
    pub(crate) fn footprint(&self, page: Handle) -> Result<Option<(u32, u64)>, Missing> {
        let page = self.resolve(page);
        let slots = self.all.get(page.container()).map(|container| &container.slots);
        let Some(slots) = slots.filter(|slots| slots.has(page.slot())) else { return Ok(None) };
        let (stored_len, references) = slots.references(page.slot(), &self.nodes)?;
        let pending = slots.pending.of(page.slot());
        let references = (i64::from(references) + pending).clamp(0, MOST.into()) as u32;
        Ok(Some((references, stored_len.into())))
    }

    /// The page is at `to` from now on, for all who refer to it. Nothing if nobody does any more, or
    /// more than can be counted: then it stays, and with it the container.
    ///
    /// # Panics
    ///
    /// If that is not a later place: no journal that says so is read again.
    pub(crate) fn move_page(&mut self, from: Handle, to: Handle) -> Option<Record> {
        assert!(from < to, "{from:?} would move to {to:?}");
        // it was noted while its bytes were on their way
        if self.bad.contains(&from) {
            self.bad.insert(to);
        }
        let container = self.all.get_mut(from.container())?;
        let (_, references) = container
            .slots
            .references(from.slot(), &self.nodes)
            .expect("who moves pages has pinned the container");
        container.is_stuck |= references == MOST;
        if references == 0 || references == MOST {
            return None;
        }
        self.release_times(from, references);
        self.gain_times(to, references);
        self.note_moved(from, to);
        Some(Record::Moved { from, to })
    }

    /// Nobody asks for pages where they were any more.
    pub(crate) fn forget_forwards(&mut self) {
        self.forwards.clear();
        self.moved_from.clear();
    }

    /// Pages that maps may name where they were.
    pub(crate) fn forwarded(&self) -> usize {
        self.forwards.len()
    }

    /// What a checkpoint has to say of each container; `open` is the one without a footer.
    ///
    /// # Panics
    ///
    /// If it would say nothing of one, so that its file would go.
    pub(crate) fn images(&self, open: Option<(u32, &Directory)>) -> BTreeMap<u32, ContainerImage> {
        let image = |(number, container): (u32, &Container)| {
            let pages = match open {
                Some((open, directory)) if open == number => entries(directory),
                _ => {
                    let is_told = container.is_sealed || !container.lost.is_empty();
                    assert!(is_told, "container {number} has no footer and is not open");
                    container.lost.clone()
                }
            };
            let is_sealed = container.is_sealed && container.lost.is_empty();
            (number, ContainerImage { is_sealed, pages })
        };
        self.all.iter().map(image).collect()
    }

    /// The numbers of all containers.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        self.all.iter().map(|(number, _)| number).collect()
    }

    /// The file of container `number`.
    pub(crate) fn file(&self, number: u32) -> Option<Arc<PageFile>> {
        Some(Arc::clone(&self.all.get(number)?.file))
    }

    /// Asks memory for what referring to a page will read.
    pub(crate) fn prefetch(&self, page: Handle) {
        let slots = self.all.get(page.container()).map(|container| &container.slots);
        if let Some(slots) = slots.filter(|slots| slots.has(page.slot())) {
            let (node, at) = split(page.slot());
            self.nodes.prefetch(slots.references[node], at);
        }
    }

    /// How many pages each container has, by its number.
    pub(crate) fn counts(&self) -> Vec<(u32, u32)> {
        self.all.iter().map(|(number, one)| (number, one.slots.count)).collect()
    }

    /// The references of the pages of container `number`; `None` if it is gone.
    pub(crate) fn references(&mut self, number: u32) -> Result<Option<Vec<u32>>, Missing> {
        self.settle(number)?;
        let Some(container) = self.all.get(number) else { return Ok(None) };
        let slots = &container.slots;
        let mut all = Vec::with_capacity(slots.count as usize);
        for node in &slots.references {
            let entries = self.nodes.get(*node)?.iter().take(slots.count as usize - all.len());
            all.extend(entries.map(|entry| references_of(*entry).1));
        }
        Ok(Some(all))
    }

    /// The references of the pages in node `at` of container `number`, with what is pending; `None` if it
    /// has no such node.
    pub(crate) fn references_in(
        &self,
        number: u32,
        at: usize,
    ) -> Result<Option<Vec<u32>>, Missing> {
        let slots = self.all.get(number).map(|container| &container.slots);
        let node = slots.and_then(|slots| Some((slots, slots.references.get(at)?)));
        let Some((slots, node)) = node else { return Ok(None) };
        let range = slots.range(at);
        let entries = self.nodes.get(*node)?.iter().take(range.len());
        let mut all: Vec<i64> = entries.map(|entry| references_of(*entry).1.into()).collect();
        for (slot, times) in slots.pending.iter().filter(|(slot, _)| range.contains(slot)) {
            let references = &mut all[(slot - range.start) as usize];
            if *references != i64::from(MOST) {
                *references += i64::from(times);
            }
        }
        Ok(Some(all.into_iter().map(|all| all.clamp(0, MOST.into()) as u32).collect()))
    }

    /// The nodes with places of pages of container `number`, and which one each is.
    pub(crate) fn places(&self, number: u32) -> Vec<(usize, NodeId)> {
        let places = self.all.get(number).map(|container| &container.slots.places);
        places.into_iter().flatten().copied().enumerate().collect()
    }

    /// The same of those with references.
    pub(crate) fn reference_nodes(&self, number: u32) -> Vec<NodeId> {
        self.all.get(number).map_or(Vec::new(), |container| container.slots.references.clone())
    }

    /// The slots of node `at` of container `number`.
    pub(crate) fn slots_of(&self, number: u32, at: usize) -> Range<u32> {
        self.all.get(number).map_or(0..0, |container| container.slots.range(at))
    }

    /// Whether there is such a page, whoever refers to it.
    pub(crate) fn is_there(&self, page: Handle) -> bool {
        let page = self.resolve(page);
        self.all.get(page.container()).is_some_and(|one| one.slots.has(page.slot()))
    }

    /// Notes from now on which pages get or lose references.
    pub(crate) fn watch(&mut self) {
        self.watched = Some(Bits::default());
    }

    /// What was noted since; `None` if nothing is.
    pub(crate) fn watched(&self) -> Option<&Bits> {
        self.watched.as_ref()
    }

    /// Notes nothing any more.
    pub(crate) fn unwatch(&mut self) {
        self.watched = None;
    }

    /// Containers that cannot be read, or of which a page is known to be lost.
    pub(crate) fn damaged(&self) -> u64 {
        let with_lost: HashSet<u32> = self.bad.iter().map(|page| page.container()).collect();
        let is_damaged = |(number, one): &(u32, &Container)| {
            one.is_damaged || one.is_unread || with_lost.contains(number)
        };
        self.all.iter().filter(is_damaged).count() as u64
    }

    /// References that are not added to their pages yet.
    pub(crate) fn pending(&self) -> usize {
        self.pending
    }

    /// What there is of all containers together.
    pub(crate) fn sums(&self) -> Sums {
        let mut sums = Sums { container_bytes: self.bytes, ..Sums::default() };
        for (number, container) in self.all.iter() {
            sums.pages += u64::from(container.live);
            sums.page_bytes += container.live_bytes;
            let is_open_and_unused =
                !container.is_sealed && container.slots.count > 0 && self.is_unused(number);
            if container.is_dead() || is_open_and_unused {
                sums.reclaimable_bytes += container.file.own_len();
            } else if container.is_worth_emptying() {
                sums.reclaimable_bytes += u64::from(container.end) - container.live_bytes;
            }
        }
        // those whose files could not be removed are tried again
        sums.reclaimable_bytes += self.doomed.iter().map(|file| file.own_len()).sum::<u64>();
        sums
    }
}

impl References for Pages {
    fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    fn nodes_mut(&mut self) -> &mut Nodes {
        &mut self.nodes
    }

    fn gain(&mut self, page: Handle) {
        self.gain_times(self.resolve(page), 1);
    }

    fn release(&mut self, page: Handle) {
        self.release_times(self.resolve(page), 1);
    }
}

#[cfg(test)]
mod tests {
    use onefold_backend::MemoryFolder;
    use onefold_block::{BlockDevice, BlockSize, Durability};
    use onefold_container::Codec;
    use onefold_fingerprint::Fingerprint;
    use onefold_seal::{CHECK_LEN, Check, Envelope, ObjectId};
    use onefold_testkit::random;

    use super::*;
    use crate::containers::files::Files;
    use crate::{Hash, Options, Pool};

    /// Container 1, which is sealed, and 2, with a page each.
    fn two_containers() -> (Pages, Handle, Handle) {
        let mut pages = Pages::new();
        let entry = PageEntry {
            offset: 36,
            stored_len: 100,
            len: 4096,
            codec: Codec::Zstd,
            check: Check::from_bytes([3; CHECK_LEN]),
            fingerprint: Fingerprint::from_bytes([5; 32]),
        };
        let envelope = Envelope::plain(ObjectId::from_bytes([1; ObjectId::LEN]));
        let files = Files::new(Arc::new(MemoryFolder::new()), envelope, 1);
        for number in [1, 2] {
            pages.begin(files.open(number).unwrap(), 36);
            assert_eq!(pages.push(number, &entry), Handle::new(number, 0));
        }
        pages.seal(1, 100);
        (pages, Handle::new(1, 0), Handle::new(2, 0))
    }

    #[test]
    fn a_page_that_turns_out_to_be_lost_while_it_is_moved_is_lost_where_it_went() {
        let (mut pages, from, to) = two_containers();
        pages.gain(from);
        assert!(pages.has(from) && pages.has(to));
        pages.note_bad(from);
        assert_eq!(pages.move_page(from, to), Some(Record::Moved { from, to }));
        assert!(pages.is_bad(to) && !pages.has(to));
        // a map that names it where it was means the same page
        pages.note_good(from);
        assert!(!pages.is_bad(to) && pages.has(to));
        pages.note_bad(from);
        assert!(!pages.has(to));
    }

    #[test]
    fn nothing_is_kept_of_a_lost_page_whose_container_is_gone() {
        let (mut pages, page, other) = two_containers();
        for page in [page, other] {
            pages.gain(page);
            pages.note_stuck(page);
        }
        assert!(pages.all.get(1).is_some_and(|one| one.is_stuck));
        pages.release(page);
        assert!(pages.all.get(1).is_some_and(|one| !one.is_stuck));
        // nobody has it any more, who could want it moved
        pages.note_stuck(page);
        assert!(pages.all.get(1).is_some_and(|one| !one.is_stuck));
        let mut dropped = Vec::new();
        pages.doom_dead(|record| dropped.push(record.clone()));
        assert_eq!(dropped, [Record::Dropped { container: 1 }]);
        assert_eq!(pages.bad, HashSet::from([other]));
        // a read that began before has nothing to tell
        pages.note_bad(page);
        assert_eq!(pages.bad, HashSet::from([other]));
    }

    #[test]
    fn compacting_gives_back_what_is_told_before() {
        // containers are as long as ten pages and what stands before them
        const FIRST: u64 = 10;
        for (erased, is_all) in [(2..FIRST, false), (0..FIRST, false), (0..15, true)] {
            let folder = Arc::new(MemoryFolder::new());
            Pool::create_with(&folder, Hash::Blake3, Codec::Raw).unwrap();
            let options =
                Options { container_len: 40_000, table_bytes: 1 << 20, ..Options::default() };
            let (pool, _) = Pool::open(folder, options).unwrap();
            pool.create_volume("a", 1 << 20, BlockSize::B4096).unwrap();
            let volume = pool.volume("a").unwrap();
            volume.write(0, &random(1, 15 * 4096), Durability::OnReturn).unwrap();
            assert_eq!(pool.statistics().reclaimable_bytes, 0);
            volume.erase(erased.start * 4096..erased.end * 4096, Durability::OnFlush).unwrap();
            let before = pool.statistics();
            pool.maintain().unwrap();
            let after = pool.statistics();
            let gave_back = before.container_bytes - after.container_bytes;
            assert!(gave_back > 8 * 4096, "{erased:?}: {gave_back}");
            // with the footer of ten pages, of which two are left
            let of_footer = if erased.start == 0 { 0..=0 } else { 1..=64 * 12 };
            let more = gave_back - before.reclaimable_bytes;
            assert!(of_footer.contains(&more), "{erased:?}: {more}");
            assert_eq!((after.reclaimable_bytes, after.container_bytes == 0), (0, is_all));
        }
    }

    #[test]
    fn a_page_moves_with_all_of_its_references_at_once() {
        let (mut pages, from, to) = two_containers();
        pages.gain(from);
        // one by one that would take a minute
        pages.add(from, i64::from(MOST) - 2);
        pages.watch();
        let before = pages.sums();
        assert_eq!(pages.move_page(from, to), Some(Record::Moved { from, to }));
        assert_eq!(pages.references(1).unwrap().unwrap(), [0]);
        assert_eq!(pages.references(2).unwrap().unwrap(), [MOST - 1]);
        assert_eq!(pages.footprint(from), pages.footprint(to));
        let after = pages.sums();
        assert_eq!((after.pages, after.page_bytes), (before.pages, before.page_bytes));
        let watched = pages.watched().unwrap();
        assert!(watched.has(from) && watched.has(to));
        let mut dropped = Vec::new();
        pages.doom_dead(|record| dropped.push(record.clone()));
        assert_eq!(dropped, [Record::Dropped { container: 1 }]);
    }

    #[test]
    fn a_page_that_has_more_references_than_can_be_counted_is_kept() {
        let (mut pages, page, other) = two_containers();
        pages.gain(page);
        pages.add(page, i64::from(MOST) - 2);
        assert!(pages.has(page));
        pages.gain(page);
        assert!(!pages.has(page));
        pages.gain(page);
        assert_eq!(pages.move_page(page, other), None);
        assert!(pages.emptiest(1.0).is_none());
        for _ in 0..3 {
            pages.release(page);
        }
        assert_eq!(pages.references(1).unwrap().unwrap(), [MOST]);
        assert_eq!(pages.references(2).unwrap().unwrap(), [0]);
        pages.maybe_dead.push(1);
        pages.doom_dead(|record| panic!("{record:?}"));
        assert_eq!(pages.footprint(page), Ok(Some((MOST, 100))));
    }
}
