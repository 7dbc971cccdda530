//! The pages that are kept, in containers, and how often each is referred to.
//!
//! A container is a log that takes one page after another, each a group of its own, until it is
//! long enough and gets its footer. From then on it is what a repository's container is. Of each
//! page three numbers are in memory: where it begins, the first four bytes of its check, and its
//! references; how long it is follows from where the next begins.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use onefold_container::{Codec, Directory};
use onefold_index::{Table, prefetch};
use onefold_seal::{Check, Envelope};

use crate::containers::append::Appender;
use crate::containers::entry::{ContainerImage, MAX_PAGE, PageEntry, entries};
use crate::containers::files::PageFile;
use crate::containers::located::{Located, short};
use crate::error::VolumeError;
use crate::ids::Handle;
use crate::journal::record::Record;
use crate::seeded::fault;
use crate::state::bits::Bits;
use crate::state::map::References;
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

struct Slot {
    place: Place,
    check: u32,
    references: u32,
}

struct Container {
    file: Arc<PageFile>,
    slots: Vec<Slot>,
    /// Where the last page ends.
    end: u32,
    is_sealed: bool,
    /// Whether its footer cannot be read. Its pages cannot either, and it is kept for who can.
    is_damaged: bool,
    /// Whether a page of it cannot be read, so that it cannot be emptied.
    is_stuck: bool,
    /// Whether it could not be emptied a moment ago, and others come first.
    is_left: bool,
    /// The pages of one that is damaged and has no footer.
    lost: Vec<PageEntry>,
    /// References to pages of one that is damaged, whose slots nobody knows.
    lost_references: u64,
    /// Stored bytes of pages that are referred to.
    live_bytes: u64,
    /// How many those are.
    live: u32,
}

impl Container {
    /// One without pages, of which `end` bytes are there.
    fn new(file: Arc<PageFile>, end: u32) -> Self {
        Self {
            file,
            slots: Vec::new(),
            end,
            is_sealed: false,
            is_damaged: false,
            is_stuck: false,
            is_left: false,
            lost: Vec::new(),
            lost_references: 0,
            live_bytes: 0,
            live: 0,
        }
    }

    /// Bytes that the page in `slot`, which is there, takes.
    fn stored_len(&self, slot: u32) -> u64 {
        let next = self.slots.get(slot as usize + 1);
        let end = next.map_or(self.end, |next| next.place.offset());
        u64::from(end - self.slots[slot as usize].place.offset())
    }

    /// Takes up the page that comes next; its slot.
    fn push(
        &mut self,
        offset: u64,
        stored_len: u32,
        codec: Codec,
        check: &Check,
    ) -> Result<u32, VolumeError> {
        let Some(place) = Place::new(offset, codec) else {
            let problem = format!("a page begins here, expected all of them before {}", 1 << 30);
            return Err(self.file.damaged(offset, problem));
        };
        let slot = self.slots.len() as u32;
        self.slots.push(Slot { place, check: short(check.as_bytes()), references: 0 });
        self.end = place.offset().saturating_add(stored_len);
        Ok(slot)
    }

    /// The same of a page that a record tells of.
    fn push_entry(&mut self, page: &PageEntry) -> Result<u32, VolumeError> {
        self.push(page.offset.into(), page.stored_len, page.codec, &page.check)
    }

    /// Takes up what the footer says, and enters the pages into `table`.
    fn read_footer(&mut self, envelope: &Envelope, table: &dyn Table) -> Result<(), VolumeError> {
        let directory = self.file.directory(envelope)?;
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
            self.push(group.offset, group.stored_len, group.codec, &group.check)?;
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
    ) -> Result<(), VolumeError> {
        for page in &image.pages {
            self.push_entry(page)?;
        }
        appender.go_on(&self.file, image)?;
        if let Some(directory) = appender.directory() {
            enter(table, self.file.number(), directory);
        }
        Ok(())
    }

    /// Whether nothing in it is referred to, and nothing more comes into it.
    fn is_dead(&self) -> bool {
        self.is_sealed && self.live == 0 && self.lost_references == 0
    }

    fn can_be_emptied(&self) -> bool {
        self.is_sealed && !self.is_damaged && !self.is_stuck
    }

    /// Whether what is left in it is worth being moved, so that the rest is given back.
    fn is_worth_emptying(&self) -> bool {
        self.can_be_emptied() && self.fill() < MIN_FILL
    }

    /// The share of its bytes that are referred to.
    fn fill(&self) -> f64 {
        self.live_bytes as f64 / f64::from(self.end.max(1))
    }

    fn located(&self, slot: u32) -> Option<Located> {
        let one = self.slots.get(slot as usize)?;
        Some(Located {
            page: Handle::new(self.file.number(), slot),
            file: Arc::clone(&self.file),
            offset: one.place.offset(),
            stored_len: self.stored_len(slot) as u32,
            check: one.check,
            codec: one.place.codec(),
        })
    }
}

/// The number of the first container of a pool.
pub(crate) const FIRST_CONTAINER: u32 = 1;

/// References of a page that are counted. One that has had so many is kept for good.
pub(crate) const MOST: u32 = u32::MAX;

/// A container of which a smaller share is referred to is worth compacting.
pub(crate) const MIN_FILL: f64 = 0.5;

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
    all: Sparse<Container>,
    /// The number of the next container.
    pub(crate) next: u32,
    /// Containers with bytes that may not be durable.
    unsynced: Vec<Arc<PageFile>>,
    /// Containers that may have become dead.
    maybe_dead: Vec<u32>,
    /// Containers that are dead, whose files go once the journal says so.
    doomed: Vec<Arc<PageFile>>,
    /// Pages that could not be read.
    bad: HashSet<Handle>,
    /// Where pages went that a compaction moved, until all maps know.
    forwards: HashMap<Handle, Handle>,
    /// Bytes of all containers, those that are doomed among them.
    bytes: u64,
    /// Pages that got or lost a reference, while that is noted.
    watched: Option<Bits>,
}

impl Pages {
    pub(crate) fn new() -> Self {
        Self {
            all: Sparse::default(),
            next: FIRST_CONTAINER,
            unsynced: Vec::new(),
            maybe_dead: Vec::new(),
            doomed: Vec::new(),
            bad: HashSet::new(),
            forwards: HashMap::new(),
            bytes: 0,
            watched: None,
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
    /// are lost, the others are not.
    pub(crate) fn load(
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
        let mut container = Container::new(file, 0);
        let loaded = match (missing, image.is_sealed) {
            (Some(missing), _) => Err(missing.into()),
            (None, true) => container.read_footer(&appender.envelope, table),
            (None, false) => container.go_on(appender, image, table),
        };
        if loaded.is_err() {
            container.is_damaged = true;
            // of one with a footer, that tells of them, whoever can read it again
            if !image.is_sealed {
                container.lost = image.pages.clone();
            }
            container.slots.clear();
        }
        // one that cannot be gone on with takes no more pages either
        container.is_sealed = image.is_sealed || loaded.is_err();
        self.bytes += container.file.len();
        if container.is_sealed {
            // what it holds was durable when a record said so, or when it was opened
            container.file.let_close();
        }
        self.all.insert(number, container);
        self.maybe_dead.push(number);
        self.next = self.next.max(number + 1);
        Ok(loaded.err())
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
                container.slots.clear();
                container.lost = pages;
                (container.is_sealed, container.is_damaged) = (true, true);
                Some(error)
            }
        }
    }

    /// Takes up container `next`, which was begun and has `len` bytes.
    pub(crate) fn begin(&mut self, file: Arc<PageFile>, len: u32) {
        self.next = file.number() + 1;
        self.bytes += u64::from(len);
        self.all.insert(file.number(), Container::new(file, len));
    }

    /// A page was appended to container `number`; its first reference has to follow before anyone
    /// else has the state.
    pub(crate) fn push(&mut self, number: u32, page: &PageEntry) -> Handle {
        let container = self.all.get_mut(number).expect("the open one is one of all");
        let slot = container.push_entry(page).expect("it is closed before 2^30 bytes");
        self.bytes += u64::from(page.stored_len);
        let is_noted = self.unsynced.last().is_some_and(|last| last.number() == number);
        if !is_noted {
            self.unsynced.push(Arc::clone(&container.file));
        }
        Handle::new(number, slot)
    }

    /// Container `number` has its footer, of so many bytes.
    pub(crate) fn seal(&mut self, number: u32, len: u64) {
        self.bytes += len;
        let container = self.all.get_mut(number).expect("the open one is one of all");
        container.is_sealed = true;
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

    /// Where a page is that a map or a table names; `None` if its container is gone.
    pub(crate) fn locate(&self, page: Handle) -> Option<Located> {
        let page = self.resolve(page);
        self.all.get(page.container())?.located(page.slot())
    }

    /// Where a page is now: elsewhere, if it was moved.
    pub(crate) fn resolve(&self, page: Handle) -> Handle {
        self.forwards.get(&page).copied().unwrap_or(page)
    }

    /// Whether a page is there, referred to or not, and can be referred to once more.
    pub(crate) fn has(&self, page: Handle) -> bool {
        let container = self.all.get(page.container());
        let slot = container.and_then(|container| container.slots.get(page.slot() as usize));
        slot.is_some_and(|slot| slot.references < MOST) && !self.bad.contains(&page)
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
        if self.footprint(page).is_some_and(|(references, _)| references > 0) {
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
            record(&Record::Dropped { container: number });
            self.doomed.extend(self.all.remove(number).map(|container| container.file));
        }
        let all = &self.all;
        self.bad.retain(|page| all.get(page.container()).is_some());
    }

    /// Dooms the open container `number` as well, if nothing in it is referred to; whether it did.
    pub(crate) fn doom_open(&mut self, number: u32, mut record: impl FnMut(&Record)) -> bool {
        if self.all.get(number).is_some_and(|container| container.live > 0) {
            return false;
        }
        record(&Record::Dropped { container: number });
        self.doomed.extend(self.all.remove(number).map(|container| container.file));
        true
    }

    /// The files of all that is doomed.
    pub(crate) fn take_doomed(&mut self) -> Vec<Arc<PageFile>> {
        let files = std::mem::take(&mut self.doomed);
        self.bytes -= files.iter().map(|file| file.len()).sum::<u64>();
        files
    }

    /// Files that could not be removed, for another time.
    pub(crate) fn put_back_doomed(&mut self, files: Vec<Arc<PageFile>>) {
        self.bytes += files.iter().map(|file| file.len()).sum::<u64>();
        self.doomed.extend(files);
    }

    /// The share of the bytes of its pages that are referred to, if container `number` has any.
    pub(crate) fn share(&self, number: u32) -> Option<f64> {
        let container = self.all.get(number)?;
        // without what stands before the pages: one that has just taken a short one is full
        let bytes = container.end - container.slots.first()?.place.offset();
        Some(container.live_bytes as f64 / f64::from(bytes))
    }

    /// Whether nothing in container `number` is referred to.
    pub(crate) fn is_unused(&self, number: u32) -> bool {
        self.all.get(number).is_some_and(|container| container.live == 0)
    }

    /// The container with the smallest share of bytes that are referred to, if that is below `most`
    /// and it was not left: its number, its file and the slots to move.
    pub(crate) fn emptiest(&self, most: f64) -> Option<(u32, Arc<PageFile>, Vec<u32>)> {
        let sealed = self.all.iter().filter(|(_, one)| one.can_be_emptied() && !one.is_left);
        let least = sealed.min_by(|(_, a), (_, b)| a.fill().total_cmp(&b.fill()));
        let (number, container) = least.filter(|(_, one)| one.fill() < most)?;
        let slots = container.slots.iter().enumerate();
        let live = slots.filter(|(_, slot)| slot.references > 0).map(|(slot, _)| slot as u32);
        Some((number, Arc::clone(&container.file), live.collect()))
    }

    /// How often a page is referred to, and what it takes; `None` if its container is gone.
    pub(crate) fn footprint(&self, page: Handle) -> Option<(u32, u64)> {
        let page = self.resolve(page);
        let container = self.all.get(page.container())?;
        let slot = container.slots.get(page.slot() as usize)?;
        Some((slot.references, container.stored_len(page.slot())))
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
        let references = container.slots[from.slot() as usize].references;
        container.is_stuck |= references == MOST;
        if references == 0 || references == MOST {
            return None;
        }
        self.release_times(from, references);
        self.gain_times(to, references);
        self.forwards.insert(from, to);
        Some(Record::Moved { from, to })
    }

    /// As many more segment entries have the page, which is where it says.
    fn gain_times(&mut self, page: Handle, times: u32) {
        let Some(container) = self.all.get_mut(page.container()) else { return };
        if container.is_damaged {
            container.lost_references += u64::from(times);
        }
        let Some(slot) = container.slots.get_mut(page.slot() as usize) else { return };
        if let Some(watched) = &mut self.watched {
            watched.set(page);
        }
        let before = slot.references;
        // one that has had so many keeps them
        slot.references = before.saturating_add(times);
        if before == 0 {
            container.live += 1;
            container.live_bytes += container.stored_len(page.slot());
        }
    }

    /// As many less have it.
    fn release_times(&mut self, page: Handle, times: u32) {
        let Some(container) = self.all.get_mut(page.container()) else { return };
        if container.is_damaged {
            container.lost_references -= u64::from(times);
            if container.lost_references == 0 {
                self.maybe_dead.push(page.container());
            }
        }
        let Some(slot) = container.slots.get_mut(page.slot() as usize) else { return };
        if let Some(watched) = &mut self.watched {
            watched.set(page);
        }
        // nobody knows how many there are beyond
        if slot.references == MOST {
            return;
        }
        slot.references -= times;
        if slot.references == 0 {
            container.live -= 1;
            container.live_bytes -= container.stored_len(page.slot());
            if self.bad.contains(&page) {
                // nobody has to move it any more
                container.is_stuck = false;
            }
            if container.live == 0 {
                self.maybe_dead.push(page.container());
            }
        }
    }

    /// Nobody asks for pages where they were any more.
    pub(crate) fn forget_forwards(&mut self) {
        self.forwards.clear();
    }

    pub(crate) fn is_moving(&self) -> bool {
        !self.forwards.is_empty()
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
        let container = self.all.get(page.container());
        if let Some(slot) =
            container.and_then(|container| container.slots.get(page.slot() as usize))
        {
            prefetch(slot);
        }
    }

    /// How many pages each container has, by its number.
    pub(crate) fn counts(&self) -> Vec<(u32, u32)> {
        self.all.iter().map(|(number, one)| (number, one.slots.len() as u32)).collect()
    }

    /// The references of the pages of container `number`; `None` if it is gone.
    pub(crate) fn references(&self, number: u32) -> Option<impl Iterator<Item = u32>> {
        Some(self.all.get(number)?.slots.iter().map(|slot| slot.references))
    }

    /// Whether there is such a page, whoever refers to it.
    pub(crate) fn is_there(&self, page: Handle) -> bool {
        self.footprint(page).is_some()
    }

    /// Notes from now on which pages get or lose references.
    pub(crate) fn watch(&mut self) {
        let mut watched = Bits::default();
        // maps have them where they were, references where they are
        for (from, to) in &self.forwards {
            watched.set(*from);
            watched.set(*to);
        }
        self.watched = Some(watched);
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
        let is_damaged =
            |(number, one): &(u32, &Container)| one.is_damaged || with_lost.contains(number);
        self.all.iter().filter(is_damaged).count() as u64
    }

    /// What there is of all containers together.
    pub(crate) fn sums(&self) -> Sums {
        let mut sums = Sums { container_bytes: self.bytes, ..Sums::default() };
        for (number, container) in self.all.iter() {
            sums.pages += u64::from(container.live);
            sums.page_bytes += container.live_bytes;
            let is_open_and_unused =
                !container.is_sealed && !container.slots.is_empty() && self.is_unused(number);
            if container.is_dead() || is_open_and_unused {
                sums.reclaimable_bytes += container.file.len();
            } else if container.is_worth_emptying() {
                sums.reclaimable_bytes += u64::from(container.end) - container.live_bytes;
            }
        }
        // those whose files could not be removed are tried again
        sums.reclaimable_bytes += self.doomed.iter().map(|file| file.len()).sum::<u64>();
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
    use onefold_seal::{CHECK_LEN, ObjectId};
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
        pages.all.get_mut(1).unwrap().slots[0].references = MOST - 1;
        pages.watch();
        let before = pages.sums();
        assert_eq!(pages.move_page(from, to), Some(Record::Moved { from, to }));
        assert_eq!(pages.references(1).unwrap().collect::<Vec<_>>(), [0]);
        assert_eq!(pages.references(2).unwrap().collect::<Vec<_>>(), [MOST - 1]);
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
        pages.all.get_mut(1).unwrap().slots[0].references = MOST - 1;
        assert!(pages.has(page));
        pages.gain(page);
        assert!(!pages.has(page));
        pages.gain(page);
        assert_eq!(pages.move_page(page, other), None);
        assert!(pages.emptiest(1.0).is_none());
        for _ in 0..3 {
            pages.release(page);
        }
        assert_eq!(pages.references(1).unwrap().collect::<Vec<_>>(), [MOST]);
        assert_eq!(pages.references(2).unwrap().collect::<Vec<_>>(), [0]);
        pages.maybe_dead.push(1);
        pages.doom_dead(|record| panic!("{record:?}"));
        assert_eq!(pages.footprint(page), Some((MOST, 100)));
    }
}
