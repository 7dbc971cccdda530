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

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use onefold_container::{Codec, Directory};
use onefold_fingerprint::Fingerprint;
use onefold_index::Table;
use onefold_seal::{CHECK_LEN, Check};

use crate::containers::append::Appender;
use crate::containers::entry::{ContainerImage, MAX_PAGE, PageEntry, entries};
use crate::containers::files::{Files, PageFile};
use crate::containers::located::{Located, short};
use crate::error::VolumeError;
use crate::ids::Handle;
use crate::journal::record::Record;
use crate::nodes::files::{NODE, Node};
use crate::seeded::fault;
use crate::sharing::PageHint;
use crate::state::bits::Bits;
use crate::state::map::References;
use crate::state::nodes::{Missing, NodeId, Nodes};
use crate::state::pending::Pending;
use crate::state::registrations::Registrations;
use crate::state::sparse::Sparse;
use crate::state::waiting::Waiting;

/// Where a page begins in its container, and its codec: 30 bits and two.
///
/// No container is closed later than at 2^30 bytes, so every page begins before.
#[derive(Clone, Copy)]
struct Place(u32);

impl Place {
    const OFFSET_BITS: u32 = 30;

    fn new(offset: u64, codec: Codec) -> Option<Self> {
        let is_within = offset < 1 << Self::OFFSET_BITS;
        is_within.then(|| Self(u32::from(codec.code()) << Self::OFFSET_BITS | offset as u32))
    }

    fn offset(self) -> u32 {
        self.0 & ((1 << Self::OFFSET_BITS) - 1)
    }

    fn codec(self) -> Codec {
        Codec::from_code((self.0 >> Self::OFFSET_BITS) as u8).expect("every code of two bits")
    }
}

/// Where a page begins, in a container that shards share, of which that is not known any more. No page of a container
/// begins there.
pub(crate) const LOST_OFFSET: u32 = (1 << Place::OFFSET_BITS) - 1;

/// A page's entry in a node of places: where it begins, its codec, and four bytes of its check.
fn place_entry(place: Place, check: u32) -> u64 {
    u64::from(place.0) << 32 | u64::from(check)
}

fn place_of(entry: u64) -> (Place, u32) {
    (Place((entry >> 32) as u32), entry as u32)
}

/// A page's entry in a node of references: how long it is, and how often it is referred to.
fn reference_entry(stored_len: u32, references: u32) -> u64 {
    u64::from(stored_len) << 32 | u64::from(references)
}

fn references_of(entry: u64) -> (u32, u32) {
    ((entry >> 32) as u32, entry as u32)
}

/// In which node of a container a slot is, and where there.
fn split(slot: u32) -> (usize, usize) {
    (slot as usize / NODE, slot as usize % NODE)
}

/// The pages of a container, in nodes.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    pub(crate) count: u32,
    pub(crate) places: Vec<NodeId>,
    pub(crate) references: Vec<NodeId>,
    /// What has to be added to references whose nodes were not in memory.
    pub(crate) pending: Pending,
}

impl Slots {
    fn push(
        &mut self,
        place: Place,
        stored_len: u32,
        check: u32,
        is_pinned: bool,
        nodes: &mut Nodes,
    ) -> u32 {
        let slot = self.count;
        let (node, at) = split(slot);
        if node == self.places.len() {
            for all in [&mut self.places, &mut self.references] {
                let id = nodes.add([0; NODE]);
                if is_pinned {
                    nodes.pin(id).expect("just added");
                }
                all.push(id);
            }
        }
        let here = "the nodes of an open container are pinned, and others are here";
        nodes.get_mut(self.places[node]).expect(here)[at] = place_entry(place, check);
        nodes.get_mut(self.references[node]).expect(here)[at] = reference_entry(stored_len, 0);
        self.count += 1;
        slot
    }

    /// Fails unless the nodes are here into which the next page goes.
    pub(super) fn ensure_next_here(&self, nodes: &Nodes) -> Result<(), Missing> {
        let (node, _) = split(self.count);
        let all = [&self.places, &self.references];
        all.iter().filter_map(|all| all.get(node)).try_for_each(|id| nodes.ensure_here(*id))
    }

    fn has(&self, slot: u32) -> bool {
        slot < self.count
    }

    /// The slots of node `at`.
    fn range(&self, at: usize) -> Range<u32> {
        let first = (at * NODE) as u32;
        first.min(self.count)..(first + NODE as u32).min(self.count)
    }

    /// Where all pages begin.
    pub(super) fn offsets(&self, nodes: &Nodes) -> Result<Vec<u32>, Missing> {
        (0..self.count).map(|slot| Ok(self.place(slot, nodes)?.0.offset())).collect()
    }

    /// Where the page in `slot`, which is there, begins, and its check.
    fn place(&self, slot: u32, nodes: &Nodes) -> Result<(Place, u32), Missing> {
        let (node, at) = split(slot);
        Ok(place_of(nodes.get(self.places[node])?[at]))
    }

    /// How long the page in `slot`, which is there, is, and how often it is referred to, but for what is
    /// pending.
    fn references(&self, slot: u32, nodes: &Nodes) -> Result<(u32, u32), Missing> {
        let (node, at) = split(slot);
        Ok(references_of(nodes.get(self.references[node])?[at]))
    }

    fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.places.iter().chain(&self.references).copied()
    }

    /// Lets go of all of its pages.
    fn clear(&mut self, is_pinned: bool, nodes: &mut Nodes) {
        for id in std::mem::take(self).nodes() {
            if is_pinned {
                nodes.unpin(id);
            }
            nodes.remove(id);
        }
    }
}

/// What a checkpoint of a paged pool tells of a container.
pub(crate) struct Told {
    pub(crate) begin: u32,
    pub(crate) end: u32,
    pub(crate) live: u32,
    pub(crate) live_bytes: u64,
    pub(crate) lost_references: u64,
    pub(crate) slots: Slots,
}

pub(crate) struct Container {
    pub(crate) file: Arc<PageFile>,
    pub(crate) slots: Slots,
    /// Where the first page begins.
    pub(crate) begin: u32,
    /// Where the last page ends.
    pub(crate) end: u32,
    pub(crate) is_sealed: bool,
    /// Whether its footer cannot be read. Its pages cannot either, and it is kept for who can.
    pub(crate) is_damaged: bool,
    /// Whether its footer could not be read since the pool was opened, though its pages are known.
    is_unread: bool,
    /// Whether a page of it cannot be read, so that it cannot be emptied.
    is_stuck: bool,
    /// Whether it could not be emptied a moment ago, and others come first.
    is_left: bool,
    /// Whether shards share it, and all of them are to do without it.
    pub(crate) is_closing: bool,
    /// The pages of one that is damaged and has no footer.
    pub(crate) lost: Vec<PageEntry>,
    /// References to pages of one that is damaged, whose slots nobody knows.
    pub(crate) lost_references: u64,
    /// Stored bytes of pages that are referred to, but for what is pending.
    pub(crate) live_bytes: u64,
    /// How many those are.
    pub(crate) live: u32,
}

impl Container {
    /// One without pages, of which `end` bytes are there.
    pub(crate) fn new(file: Arc<PageFile>, end: u32) -> Self {
        Self {
            file,
            slots: Slots::default(),
            begin: end,
            end,
            is_sealed: false,
            is_damaged: false,
            is_unread: false,
            is_stuck: false,
            is_left: false,
            is_closing: false,
            lost: Vec::new(),
            lost_references: 0,
            live_bytes: 0,
            live: 0,
        }
    }

    /// Takes up the page that comes next; its slot.
    fn push(
        &mut self,
        offset: u64,
        stored_len: u32,
        codec: Codec,
        check: &Check,
        nodes: &mut Nodes,
    ) -> Result<u32, VolumeError> {
        let Some(place) = Place::new(offset, codec) else {
            let problem = format!("a page begins here, expected all of them before {}", 1 << 30);
            return Err(self.file.damaged(offset, problem));
        };
        let check = short(check.as_bytes());
        let slot = self.slots.push(place, stored_len, check, !self.is_sealed, nodes);
        if slot == 0 {
            self.begin = place.offset();
        }
        let end = place.offset().saturating_add(stored_len);
        self.end = if self.file.is_foreign() { end.max(self.end) } else { end };
        Ok(slot)
    }

    /// The same of a page that a record tells of.
    pub(crate) fn push_entry(
        &mut self,
        page: &PageEntry,
        nodes: &mut Nodes,
    ) -> Result<u32, VolumeError> {
        self.push(page.offset.into(), page.stored_len, page.codec, &page.check, nodes)
    }

    /// Takes up what the footer says, and enters the pages into `table`.
    fn read_footer(&mut self, table: &dyn Table, nodes: &mut Nodes) -> Result<(), VolumeError> {
        let directory = self.file.directory()?;
        // slots are positions of groups and of chunks alike
        let chunks = directory.chunks.iter().map(|chunk| chunk.group);
        if !chunks.eq(0..directory.groups.len() as u32) {
            let problem = "a footer, expected one page in each group".into();
            return Err(self.file.damaged(0, problem));
        }
        for group in &directory.groups {
            if group.stored_len > MAX_PAGE || group.len > MAX_PAGE {
                let (stored_len, len) = (group.stored_len, group.len);
                let problem = format!(
                    "a page of {len} bytes, stored in {stored_len}, expected at most {MAX_PAGE}"
                );
                return Err(self.file.damaged(group.offset, problem));
            }
            self.push(group.offset, group.stored_len, group.codec, &group.check, nodes)?;
        }
        enter(table, self.file.number(), &directory);
        Ok(())
    }

    /// Takes up what records tell of, enters it into `table`, and lets `appender` go on.
    fn go_on(
        &mut self,
        appender: &mut Appender,
        image: &ContainerImage,
        table: &dyn Table,
        nodes: &mut Nodes,
    ) -> Result<(), VolumeError> {
        for page in &image.pages {
            self.push_entry(page, nodes)?;
        }
        appender.go_on(&self.file, image)?;
        if let Some(directory) = appender.directory() {
            enter(table, self.file.number(), directory);
        }
        Ok(())
    }

    /// No page comes into it any more: its nodes need not be in memory.
    fn close(&mut self, nodes: &mut Nodes) {
        if !std::mem::replace(&mut self.is_sealed, true) {
            self.slots.nodes().for_each(|id| nodes.unpin(id));
        }
    }

    /// It cannot be read just now, and nobody adds to it or empties it.
    fn keep(&mut self, image: &ContainerImage, nodes: &mut Nodes) {
        self.close(nodes);
        self.is_unread = true;
        if !image.is_sealed {
            self.lost.clone_from(&image.pages);
        }
    }

    /// Whether nothing in it is referred to, and nothing more comes into it.
    fn is_dead(&self) -> bool {
        self.is_sealed
            && self.live == 0
            && self.lost_references == 0
            && self.slots.pending.is_empty()
    }

    fn can_be_emptied(&self) -> bool {
        let may_be = self.is_closing || !self.file.is_foreign();
        self.is_sealed && may_be && !self.is_damaged && !self.is_unread && !self.is_stuck
    }

    /// Whether what is left in it is worth being moved, so that the rest is given back.
    fn is_worth_emptying(&self) -> bool {
        self.can_be_emptied() && self.fill() < MIN_FILL
    }

    /// The share of its bytes that are referred to.
    fn fill(&self) -> f64 {
        if self.is_closing {
            return 0.0;
        }
        self.live_bytes as f64 / f64::from(self.end.max(1))
    }

    fn located(&self, slot: u32, nodes: &Nodes) -> Result<Option<Located>, Missing> {
        if !self.slots.has(slot) {
            return Ok(None);
        }
        let (place, check) = self.slots.place(slot, nodes)?;
        let stored_len = match self.slots.has(slot + 1) {
            _ if self.file.has_gaps() => self.slots.references(slot, nodes)?.0,
            true => self.slots.place(slot + 1, nodes)?.0.offset() - place.offset(),
            false => self.end - place.offset(),
        };
        Ok(Some(Located {
            page: Handle::new(self.file.number(), slot),
            file: Arc::clone(&self.file),
            offset: place.offset(),
            stored_len,
            check,
            codec: place.codec(),
        }))
    }

    /// Adds `times` to the references of a page that is there; whether it may be dead now.
    fn add(&mut self, slot: u32, times: i64, nodes: &mut Nodes) -> Result<Change, Missing> {
        let (node, at) = split(slot);
        let entry = &mut nodes.get_mut(self.slots.references[node])?[at];
        let (stored_len, before) = references_of(*entry);
        // one that has had so many keeps them: nobody knows how many there are beyond
        let after = match before {
            MOST => MOST,
            _ => u32::try_from(i64::from(before) + times).unwrap_or(MOST),
        };
        *entry = reference_entry(stored_len, after);
        Ok(match (before, after) {
            (0, 1..) => {
                self.live += 1;
                self.live_bytes += u64::from(stored_len);
                Change::Found
            }
            (1.., 0) => {
                self.live -= 1;
                self.live_bytes -= u64::from(stored_len);
                Change::LetGo
            }
            _ => Change::Counted,
        })
    }
}

/// What became of a page whose references changed.
#[derive(PartialEq, Eq)]
enum Change {
    /// It is referred to for the first time.
    Found,
    /// Nothing refers to it any more.
    LetGo,
    Counted,
}

/// The number of the first container of a pool.
pub(crate) const FIRST_CONTAINER: u32 = 1;

/// References of a page that are counted. One that has had so many is kept for good.
pub(crate) const MOST: u32 = u32::MAX;

/// A container of which a smaller share is referred to is worth compacting.
pub(crate) const MIN_FILL: f64 = 0.5;

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

    /// Takes up a container that was there before, and enters its pages into `table`; `appender` goes
    /// on with one that has no footer. Returns what is wrong with one that cannot be read: its pages
    /// are lost, the others are not. Where it `keeps_pages`, those that records tell of stay known.
    pub(crate) fn load(
        &mut self,
        appender: &mut Appender,
        table: &dyn Table,
        number: u32,
        image: &ContainerImage,
        keeps_pages: bool,
    ) -> Result<Option<VolumeError>, VolumeError> {
        let (file, missing) = match image.is_sealed {
            true => appender.files.open_sealed(number)?,
            false => (appender.files.open(number)?, None),
        };
        let mut container = Container::new(file, 0);
        let loaded = match (missing, image.is_sealed) {
            (Some(missing), _) => Err(missing.into()),
            (None, true) => container.read_footer(table, &mut self.nodes),
            (None, false) => container.go_on(appender, image, table, &mut self.nodes),
        };
        if loaded.is_err() && keeps_pages && !image.pages.is_empty() {
            container.slots.clear(true, &mut self.nodes);
            for page in &image.pages {
                container.push_entry(page, &mut self.nodes)?;
            }
            container.keep(image, &mut self.nodes);
        } else if loaded.is_err() {
            container.is_damaged = true;
            // of one with a footer, that tells of them, whoever can read it again
            if !image.is_sealed {
                container.lost = image.pages.clone();
            }
            container.slots.clear(true, &mut self.nodes);
        }
        // one that cannot be gone on with takes no more pages either
        if image.is_sealed || loaded.is_err() {
            container.close(&mut self.nodes);
        }
        self.bytes += container.file.own_len();
        if container.is_sealed {
            // what it holds was durable when a record said so, or when it was opened
            container.file.let_close();
        }
        self.all.insert(number, container);
        self.maybe_dead.push(number);
        self.next = self.next.max(number + 1);
        Ok(loaded.err())
    }

    /// Takes up a container of which a checkpoint of a paged pool tells; `file` is not opened. Without
    /// nodes for its pages it is one that cannot be read.
    pub(crate) fn add_told(&mut self, file: Arc<PageFile>, told: Told) {
        let number = file.number();
        let mut container = Container::new(file, told.end);
        // one that was given up has its nodes, and takes no part in anything until a repair
        container.is_damaged = told.lost_references > 0 && told.slots.count == 0;
        container.is_stuck = told.lost_references > 0;
        container.is_sealed = true;
        (container.begin, container.end) = (told.begin, told.end);
        (container.live, container.live_bytes) = (told.live, told.live_bytes);
        container.lost_references = told.lost_references;
        container.slots = told.slots;
        self.next = self.next.max(number + 1);
        self.maybe_dead.push(number);
        self.all.insert(number, container);
    }

    /// Adds `count` pages that nobody can read to container `number`, which has no file: the first. Nothing
    /// refers to them before [`set_references`](Self::set_references).
    pub(crate) fn add_lost(&mut self, files: &Arc<Files>, number: u32, count: u32) -> Handle {
        let new = || Container { is_unread: true, ..Container::new(files.closed(number, 0), 0) };
        let container = self.all.get_or_insert(number, new);
        let first = container.slots.count;
        for _ in 0..count {
            let check = Check::from_bytes([0; CHECK_LEN]);
            container.push(0, 0, Codec::Raw, &check, &mut self.nodes).expect("it begins at 0");
        }
        Handle::new(number, first)
    }

    /// No pages are added to container `number`, which has none that can be read, any more.
    pub(crate) fn close_lost(&mut self, number: u32) {
        if let Some(container) = self.all.get_mut(number) {
            container.close(&mut self.nodes);
        }
    }

    /// Whether container `number` has no file, and stands for pages that a repair gave up.
    pub(crate) fn is_lost(&self, number: u32) -> bool {
        self.all.get(number).is_some_and(|one| one.end == 0 && one.slots.count > 0)
    }

    /// The nodes of container `number` that `is_unread` is true of: which of those with places, and which
    /// of those with references.
    pub(crate) fn unread_nodes(
        &self,
        number: u32,
        is_unread: impl Fn(&NodeId) -> bool,
    ) -> (Vec<usize>, Vec<usize>) {
        let Some(container) = self.all.get(number) else { return Default::default() };
        let of = |nodes: &[NodeId]| {
            nodes.iter().enumerate().filter(|(_, id)| is_unread(id)).map(|(at, _)| at).collect()
        };
        (of(&container.slots.places), of(&container.slots.references))
    }

    /// Makes nodes `at` with places of container `number` anew, as `known` says of all of its pages.
    pub(crate) fn replace_places(&mut self, number: u32, at: &[usize], known: &[PageEntry]) {
        let Some(container) = self.all.get(number) else { return };
        for &at in at {
            let mut node = Box::new([0; NODE]);
            let known = container.slots.range(at).map(|slot| &known[slot as usize]);
            for (entry, page) in node.iter_mut().zip(known) {
                let place = Place::new(page.offset.into(), page.codec);
                let place = place.expect("who knows the pages made sure of that");
                *entry = place_entry(place, short(page.check.as_bytes()));
            }
            self.nodes.replace(container.slots.places[at], node);
        }
    }

    /// Makes nodes `at` with places of container `number` anew, neighbours in it, as those of pages that
    /// nobody can read; `is_len_known` is whether how long the page before them is can be read. All
    /// others keep their places.
    pub(crate) fn lose_places(
        &mut self,
        number: u32,
        at: Range<usize>,
        is_len_known: bool,
    ) -> Result<(), Missing> {
        let Some(container) = self.all.get(number) else { return Ok(()) };
        let slots = &container.slots;
        let (first, end_slot) = (slots.range(at.start).start, slots.range(at.end - 1).end);
        let end = match slots.has(end_slot) {
            true => slots.place(end_slot, &self.nodes)?.0.offset(),
            false => container.end,
        };
        let begin = match first.checked_sub(1) {
            None => container.begin,
            Some(before) => {
                let offset = slots.place(before, &self.nodes)?.0.offset();
                let len = if is_len_known { slots.references(before, &self.nodes)?.0 } else { 0 };
                offset.saturating_add(len)
            }
        };
        // The others take no bytes, whose check is another one. What the first takes is longer than any
        // page, or has another check as far as four bytes of one tell.
        let unfit = !short(Check::of(&[]).as_bytes());
        let entry = |offset: u32| {
            let offset = offset.min(end).min((1 << Place::OFFSET_BITS) - 1);
            place_entry(Place::new(offset.into(), Codec::Raw).expect("it is below"), unfit)
        };
        for at in at {
            let mut node = Box::new([entry(end); NODE]);
            if slots.range(at).start == first {
                node[0] = entry(begin);
            }
            self.nodes.replace(slots.places[at], node);
        }
        Ok(())
    }

    /// Makes node `at` with places of container `number` anew, which shards share, as those of pages of which nobody
    /// knows where they begin.
    pub(crate) fn forget_places(&mut self, number: u32, at: usize) {
        let Some(container) = self.all.get(number) else { return };
        let place = Place::new(LOST_OFFSET.into(), Codec::Raw).expect("it is below");
        // that of bytes which are none: whatever is read there does not fit
        let unfit = !short(Check::of(&[]).as_bytes());
        self.nodes.replace(container.slots.places[at], Box::new([place_entry(place, unfit); NODE]));
    }

    /// Makes node `at` with references of container `number` anew, whose pages are as long as their places
    /// say, or `lens` by where they begin, if shards share it: one that begins elsewhere is lost. Nothing refers to
    /// them before [`set_references`](Self::set_references).
    pub(crate) fn clear_references(
        &mut self,
        number: u32,
        at: usize,
        lens: &BTreeMap<u32, u32>,
    ) -> Result<(), Missing> {
        let Some(container) = self.all.get(number) else { return Ok(()) };
        let mut node = Box::new([0; NODE]);
        for (entry, slot) in node.iter_mut().zip(container.slots.range(at)) {
            let stored_len = if container.file.has_gaps() {
                let offset = container.slots.place(slot, &self.nodes)?.0.offset();
                lens.get(&offset).copied().unwrap_or(0)
            } else {
                container.located(slot, &self.nodes)?.expect("it has this slot").stored_len
            };
            *entry = reference_entry(stored_len, 0);
        }
        self.nodes.replace(container.slots.references[at], node);
        Ok(())
    }

    /// The pages of node `at` of container `number` are referred to so often, whatever was noted before.
    /// Returns how many of them are at all, and how many bytes these take.
    pub(crate) fn set_references(
        &mut self,
        number: u32,
        at: usize,
        references: &[u32],
    ) -> Result<(u32, u64), Missing> {
        let Some(container) = self.all.get(number) else { return Ok((0, 0)) };
        let (id, range) = (container.slots.references[at], container.slots.range(at));
        let (mut changed, mut live, mut live_bytes) = (*self.nodes.get(id)?, 0, 0);
        for ((entry, _), references) in changed.iter_mut().zip(range).zip(references) {
            let (stored_len, _) = references_of(*entry);
            *entry = reference_entry(stored_len, *references);
            if *references > 0 {
                live += 1;
                live_bytes += u64::from(stored_len);
            }
        }
        if changed != *self.nodes.get(id)? {
            *self.nodes.get_mut(id)? = changed;
        }
        Ok((live, live_bytes))
    }

    /// So many pages of container `number` are referred to, and take so many bytes, and so many references
    /// are to pages that nobody knows: they were counted.
    pub(crate) fn set_live(&mut self, number: u32, live: u32, live_bytes: u64, lost: u64) {
        let Some(container) = self.all.get_mut(number) else { return };
        (container.live, container.live_bytes) = (live, live_bytes);
        (container.lost_references, container.is_stuck) = (lost, false);
        self.pending -= std::mem::take(&mut container.slots.pending).len();
        self.unsettled.remove(&number);
        self.maybe_dead.push(number);
    }

    /// What container `number` is, and how many pages it has.
    pub(crate) fn file_and_count(&self, number: u32) -> Option<(Arc<PageFile>, u32)> {
        let container = self.all.get(number)?;
        Some((Arc::clone(&container.file), container.slots.count))
    }

    /// Container `number` has no footer yet: its nodes are pinned, and more pages come into it.
    pub(crate) fn reopen(&mut self, number: u32) -> Result<(), Missing> {
        let Some(container) = self.all.get_mut(number) else { return Ok(()) };
        if container.is_sealed {
            container.slots.nodes().try_for_each(|id| self.nodes.ensure_here(id))?;
            container.slots.nodes().for_each(|id| self.nodes.pin(id).expect("it is here"));
            container.is_sealed = false;
        }
        Ok(())
    }

    /// Takes up a page that a record of a journal tells of, in a container whose file is not opened yet.
    pub(crate) fn replay_page(
        &mut self,
        files: &Arc<Files>,
        number: u32,
        page: &PageEntry,
    ) -> Result<(), VolumeError> {
        self.next = self.next.max(number + 1);
        let new = || Container::new(files.closed(number, 0), page.offset);
        let container = self.all.get_or_insert(number, new);
        container.push_entry(page, &mut self.nodes).map(drop)
    }

    /// Container `number` has its footer, as a record of a journal says.
    pub(crate) fn replay_sealed(&mut self, number: u32) {
        if let Some(container) = self.all.get_mut(number) {
            container.close(&mut self.nodes);
            self.maybe_dead.push(number);
        }
    }

    /// Container `number` is gone, as a record of a journal says.
    pub(crate) fn replay_dropped(&mut self, number: u32) {
        if let Some(mut container) = self.all.remove(number) {
            self.pending -= container.slots.pending.len();
            container.slots.clear(!container.is_sealed, &mut self.nodes);
        }
        self.unsettled.remove(&number);
    }

    /// A page was moved with all of its references, as a record of a journal says.
    pub(crate) fn replay_moved(&mut self, from: Handle, to: Handle) -> Result<(), Missing> {
        self.settle(from.container())?;
        if let Some((references, _)) = self.footprint(from)? {
            self.release_times(from, references);
            self.gain_times(to, references);
        }
        self.note_moved(from, to);
        Ok(())
    }

    /// Maps may name a page where it was.
    pub(crate) fn note_moved(&mut self, from: Handle, to: Handle) {
        self.forwards.insert(from, to);
        self.moved_from.insert(from.container());
    }

    /// Where pages went that maps may name where they were.
    pub(crate) fn forwards(&self) -> impl Iterator<Item = (Handle, Handle)> {
        self.forwards.iter().map(|(from, to)| (*from, *to))
    }

    /// What is to be added to references of a page once its node is here.
    pub(crate) fn add_pending(&mut self, page: Handle, times: i32) {
        let Some(container) = self.all.get_mut(page.container()) else { return };
        if container.slots.has(page.slot()) {
            container.slots.pending.push(page.slot(), times);
            self.pending += 1;
            if container.slots.pending.len() >= container.live.max(1) as usize {
                self.unsettled.insert(page.container());
            }
        }
    }

    /// Gives a container that was replayed its file, of which `appender` goes on with one that has no
    /// footer. Returns what is wrong with one that cannot be read; its pages stay known, and none more
    /// comes into it.
    pub(crate) fn take_file(
        &mut self,
        appender: &mut Appender,
        table: &dyn Table,
        number: u32,
        image: &ContainerImage,
    ) -> Result<Option<VolumeError>, VolumeError> {
        let (file, missing) = match image.is_sealed {
            true => appender.files.open_sealed(number)?,
            false => (appender.files.open(number)?, None),
        };
        let Some(container) = self.all.get_mut(number) else {
            let problem = "pages of it are known, and none of its table".to_owned();
            return Err(file.damaged(0, problem));
        };
        container.file = Arc::clone(&file);
        if !image.is_sealed && container.slots.count as usize != image.pages.len() {
            // whose references were lost: they are kept for who can read them
            container.keep(image, &mut self.nodes);
            let problem = "nobody knows what refers to its pages".to_owned();
            return Ok(Some(file.damaged(0, problem)));
        }
        let went_on = match (missing, image.is_sealed) {
            (Some(missing), _) => Err(missing.into()),
            (None, true) => Ok(()),
            (None, false) => appender.go_on(&file, image).map(|()| {
                if let Some(directory) = appender.directory() {
                    enter(table, number, directory);
                }
            }),
        };
        if let Err(error) = went_on {
            container.keep(image, &mut self.nodes);
            return Ok(Some(error));
        }
        if image.is_sealed {
            file.let_close();
        }
        Ok(None)
    }

    /// The bytes of all containers are those of their files.
    pub(crate) fn count_bytes(&mut self) {
        self.bytes = self.all.values().map(|container| container.file.own_len()).sum();
    }

    pub(crate) fn has_container(&self, number: u32) -> bool {
        self.all.get(number).is_some()
    }

    /// Containers whose files were shorter than their pages when a checkpoint told of them.
    pub(crate) fn too_short(&self) -> Vec<u32> {
        let is_short = |one: &Container| !one.file.is_foreign() && one.file.len() < one.end.into();
        self.all.iter().filter(|(_, one)| is_short(one)).map(|(number, _)| number).collect()
    }

    /// The file of container `number` is this one.
    pub(crate) fn replace_file(&mut self, number: u32, file: Arc<PageFile>) {
        if let Some(container) = self.all.get_mut(number) {
            container.file = file;
        }
    }

    /// The footer of container `number` cannot be read; whether nobody knew that.
    pub(crate) fn note_unread(&mut self, number: u32) -> bool {
        let Some(container) = self.all.get_mut(number) else { return false };
        !std::mem::replace(&mut container.is_unread, true)
    }

    /// Gives the open container its footer before another one is taken up: it could not be read once,
    /// so that another one was begun. If that fails it is as one that cannot be read, until the pool
    /// is opened again.
    pub(crate) fn close_open(
        &mut self,
        appender: &mut Appender,
        waiting: &mut Waiting,
    ) -> Option<VolumeError> {
        let (number, pages) = (appender.number()?, appender.directory().map(entries)?);
        match appender.seal() {
            Ok((container, len)) => {
                self.seal(container, len);
                waiting.push(&Record::Sealed { container });
                None
            }
            Err(error) => {
                appender.abandon();
                let container = self.all.get_mut(number).expect("the open one is one of all");
                container.slots.clear(true, &mut self.nodes);
                container.lost = pages;
                container.close(&mut self.nodes);
                container.is_damaged = true;
                Some(error)
            }
        }
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

    /// As many more segment entries have the page, which is where it says.
    fn gain_times(&mut self, page: Handle, times: u32) {
        if let Some(container) = self.all.get_mut(page.container())
            && container.is_damaged
        {
            container.lost_references += u64::from(times);
        }
        self.add(page, times.into());
    }

    /// As many less have it.
    fn release_times(&mut self, page: Handle, times: u32) {
        if let Some(container) = self.all.get_mut(page.container())
            && container.is_damaged
        {
            // of one that could not get its footer when the pool was opened nobody counted them
            container.lost_references = container.lost_references.saturating_sub(times.into());
            if container.lost_references == 0 {
                self.maybe_dead.push(page.container());
            }
        }
        self.add(page, -i64::from(times));
    }

    /// Adds to the references of a page, at once or, where they are not in memory, once they are.
    fn add(&mut self, page: Handle, times: i64) {
        let number = page.container();
        let Some(container) = self.all.get_mut(number) else { return };
        if !container.slots.has(page.slot()) {
            return;
        }
        if let Some(watched) = &mut self.watched {
            watched.set(page);
        }
        let added = self.settle_node(number, Pending::node_of(page.slot())).and_then(|()| {
            let container = self.all.get_mut(number).expect("just found");
            container.add(page.slot(), times, &mut self.nodes)
        });
        match added {
            Ok(change) => self.note_change(page, &change),
            Err(Missing(_)) => {
                let container = self.all.get_mut(number).expect("just found");
                // more than an i32 is as many additions
                let mut left = times;
                while left != 0 {
                    let some = left.clamp(i32::MIN.into(), i32::MAX.into());
                    container.slots.pending.push(page.slot(), some as i32);
                    (self.pending, left) = (self.pending + 1, left - some);
                }
                if container.slots.pending.len() >= container.live.max(1) as usize {
                    self.unsettled.insert(number);
                }
            }
        }
    }

    fn note_change(&mut self, page: Handle, change: &Change) {
        if *change != Change::LetGo {
            return;
        }
        let container = self.all.get_mut(page.container()).expect("its page was there");
        if self.bad.contains(&page) {
            // nobody has to move it any more
            container.is_stuck = false;
        }
        if container.live == 0 {
            self.maybe_dead.push(page.container());
        }
    }

    /// Adds what is pending beside a node of container `number`, unless the node is not in memory.
    fn settle_node(&mut self, number: u32, node: u32) -> Result<(), Missing> {
        let Some(container) = self.all.get_mut(number) else { return Ok(()) };
        if container.slots.pending.is_empty() {
            return Ok(());
        }
        self.nodes.get(container.slots.references[node as usize])?;
        let before = container.slots.pending.len();
        let taken = container.slots.pending.take(node);
        let (left, is_all) = (container.slots.pending.len(), container.slots.pending.is_empty());
        self.pending -= before - left;
        for (slot, times) in taken {
            let container = self.all.get_mut(number).expect("just found");
            let change = container.add(slot, times, &mut self.nodes)?;
            self.note_change(Handle::new(number, slot), &change);
        }
        if is_all {
            self.unsettled.remove(&number);
            // it may have been dead but for what was pending
            self.maybe_dead.push(number);
        }
        Ok(())
    }

    /// Adds what is pending beside container `number` and whose nodes are in memory.
    ///
    /// # Errors
    /// The first node that is not.
    pub(crate) fn settle(&mut self, number: u32) -> Result<(), Missing> {
        let Some(container) = self.all.get(number) else { return Ok(()) };
        let nodes: Vec<u32> = container.slots.pending.nodes().collect();
        let settled = nodes.into_iter().map(|node| self.settle_node(number, node));
        let settled: Vec<Result<(), Missing>> = settled.collect();
        settled.into_iter().collect()
    }

    /// Nobody can tell how often pages of container `number` are referred to: it is kept for good.
    pub(crate) fn give_up(&mut self, number: u32) {
        if let Some(container) = self.all.get_mut(number) {
            self.pending -= std::mem::take(&mut container.slots.pending).len();
            // what nobody lets go of any more
            container.lost_references += 1;
            container.is_stuck = true;
        }
        self.unsettled.remove(&number);
    }

    /// A container beside which so much is pending that it may be dead, or, if `most` is exceeded in
    /// all, the one beside which most is.
    pub(crate) fn to_settle(&self, most: usize) -> Option<u32> {
        let with_most = || {
            let all = self.all.iter().max_by_key(|(_, one)| one.slots.pending.len());
            all.map(|(number, _)| number)
        };
        match self.unsettled.first() {
            Some(first) => Some(*first),
            None if self.pending > most => with_most(),
            None => None,
        }
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

/// Enters the pages of a container into a table.
fn enter(table: &dyn Table, container: u32, directory: &Directory) {
    for (slot, chunk) in (0..).zip(&directory.chunks) {
        table.insert(&chunk.fingerprint, Handle::new(container, slot).to_u64());
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
    use onefold_fingerprint::Fingerprint;
    use onefold_seal::Envelope;
    use onefold_seal::ObjectId;
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
