//! The pages that are kept, in containers, and how often each is referred to.
//!
//! A container is a log that takes one page after another, each a group of its own, until it is
//! long enough and gets its footer. From then on it is what a repository's container is. Of each
//! page three numbers are in memory: where it begins, the first four bytes of its check, and its
//! references; how long it is follows from where the next begins.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, RwLock};

use onefold_backend::{BackendError, Folder, Log};
use onefold_container::{
    AppendedContainer, ChunkEntry, Codec, CompressedGroup, Content, Directory, GroupEntry,
    decompress_into,
};
use onefold_fingerprint::Fingerprint;
use onefold_seal::{Check, Envelope, ObjectId};

use crate::VolumeError;
use crate::handle::Handle;
use crate::map::References;
use crate::record::{PageEntry, Record};

/// The file of container `number`.
pub(crate) fn container_name(number: u32) -> String {
    format!("container-{number:08x}")
}

/// The id in a container's header.
fn container_id(number: u32) -> ObjectId {
    let mut id = [0; ObjectId::LEN];
    id[12..].copy_from_slice(&number.to_be_bytes());
    ObjectId::from_bytes(id)
}

/// The bytes of one container.
pub(crate) struct PageFile {
    pub(crate) name: String,
    number: u32,
    log: RwLock<Box<dyn Log + Sync>>,
}

impl PageFile {
    fn open(folder: &dyn Folder, number: u32) -> Result<Arc<Self>, BackendError> {
        let name = container_name(number);
        let log = RwLock::new(folder.log(&name)?);
        Ok(Arc::new(Self { name, number, log }))
    }

    fn append(&self, bytes: &[u8]) -> Result<u64, BackendError> {
        self.log.write().expect("nobody panics with it").append(bytes)
    }

    pub(crate) fn sync(&self) -> Result<(), BackendError> {
        self.log.write().expect("nobody panics with it").sync()
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
        self.log.read().expect("nobody panics with it").read(offset, into)
    }

    fn len(&self) -> u64 {
        self.log.read().expect("nobody panics with it").len()
    }

    /// What the footer says; nothing else is read.
    pub(crate) fn directory(&self, envelope: &Envelope) -> Result<Directory, VolumeError> {
        let read = |range: Range<u64>| {
            let mut bytes = vec![0; (range.end - range.start) as usize];
            self.read(range.start, &mut bytes).map(|()| bytes)
        };
        Ok(Directory::read_by(envelope, container_id(self.number), self.len(), read)?)
    }
}

/// A page that can be read without anybody's lock.
#[derive(Clone)]
pub(crate) struct Located {
    file: Arc<PageFile>,
    offset: u32,
    stored_len: u32,
    check: u32,
    codec: Codec,
}

impl Located {
    /// The stored bytes, as their check in memory says.
    pub(crate) fn read_stored(&self) -> Result<Vec<u8>, VolumeError> {
        let mut stored = vec![0; self.stored_len as usize];
        self.file.read(self.offset.into(), &mut stored)?;
        if short(&Check::of(&[&stored])) != self.check {
            return Err(self.damaged("the page's bytes are not those that were written".into()));
        }
        Ok(stored)
    }

    /// Fills `page` with the page, which is as long.
    pub(crate) fn read(&self, page: &mut [u8]) -> Result<(), VolumeError> {
        let stored = self.read_stored()?;
        decompress_into(self.codec, &stored, page).map_err(|problem| {
            self.damaged(format!("expected a page of {} bytes: {problem}", page.len()))
        })
    }

    fn damaged(&self, problem: String) -> VolumeError {
        VolumeError::Damaged { object: self.file.name.clone(), at: self.offset.into(), problem }
    }
}

fn short(check: &Check) -> u32 {
    u32::from_le_bytes(*check.as_bytes().first_chunk().expect("16 bytes"))
}

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
    /// The pages of one that is damaged and has no footer.
    lost: Vec<PageEntry>,
    /// Stored bytes of pages that are referred to.
    live_bytes: u64,
    /// How many those are.
    live: u32,
}

impl Container {
    fn end_of(&self, slot: usize) -> u32 {
        self.slots.get(slot + 1).map_or(self.end, |next| next.place.offset())
    }

    fn push(&mut self, group: &GroupEntry) -> Result<(), VolumeError> {
        let Some(place) = Place::new(group.offset, group.codec) else {
            let problem = format!("a page begins here, expected all of them before {}", 1 << 30);
            let object = self.file.name.clone();
            return Err(VolumeError::Damaged { object, at: group.offset, problem });
        };
        self.slots.push(Slot { place, check: short(&group.check), references: 0 });
        self.end = place.offset().saturating_add(group.stored_len);
        Ok(())
    }

    fn read_footer(&mut self, envelope: &Envelope) -> Result<(), VolumeError> {
        let directory = self.file.directory(envelope)?;
        directory.groups.iter().try_for_each(|group| self.push(group))
    }

    fn can_be_emptied(&self) -> bool {
        self.is_sealed && !self.is_damaged && !self.is_stuck
    }

    /// The share of its bytes that are referred to.
    fn fill(&self) -> f64 {
        self.live_bytes as f64 / f64::from(self.end.max(1))
    }

    fn located(&self, slot: u32) -> Option<Located> {
        let one = self.slots.get(slot as usize)?;
        Some(Located {
            file: Arc::clone(&self.file),
            offset: one.place.offset(),
            stored_len: self.end_of(slot as usize) - one.place.offset(),
            check: one.check,
            codec: one.place.codec(),
        })
    }
}

/// A container of which a smaller share is referred to is worth compacting.
pub(crate) const MIN_FILL: f64 = 0.5;

/// A page and its fingerprint take at most so many bytes in a footer, and so does all else there.
const FOOTER_ENTRY: u64 = 64;

/// Sums over containers.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    /// Pages that are referred to.
    pub(crate) pages: u64,
    /// What they take.
    pub(crate) page_bytes: u64,
    /// What containers take.
    pub(crate) container_bytes: u64,
    /// What compacting would give back.
    pub(crate) reclaimable_bytes: u64,
}

/// Where the directory of a container is.
pub(crate) enum Held {
    /// Here: it has no footer yet.
    Open(Directory),
    /// In its footer.
    Sealed(Arc<PageFile>),
}

/// What a checkpoint says of a container.
#[derive(Debug, Clone, Default)]
pub(crate) struct ContainerImage {
    pub(crate) is_sealed: bool,
    /// Of a container without a footer.
    pub(crate) pages: Vec<PageEntry>,
}

/// All pages of a pool.
pub(crate) struct Pages {
    folder: Arc<dyn Folder>,
    envelope: Envelope,
    all: BTreeMap<u32, Container>,
    /// The container that takes new pages.
    open: Option<(u32, AppendedContainer)>,
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
    /// Length in bytes from which on a container gets its footer.
    container_len: u64,
    /// Bytes of all containers, those that are doomed among them.
    bytes: u64,
}

impl Pages {
    pub(crate) fn new(folder: Arc<dyn Folder>, envelope: Envelope, container_len: u64) -> Self {
        Self {
            folder,
            envelope,
            all: BTreeMap::new(),
            open: None,
            next: 1,
            unsynced: Vec::new(),
            maybe_dead: Vec::new(),
            doomed: Vec::new(),
            bad: HashSet::new(),
            forwards: HashMap::new(),
            container_len,
            bytes: 0,
        }
    }

    /// Takes up a container that was there before. One without a footer gets it now. Returns what is
    /// wrong with one that cannot be read: its pages are lost, the others are not.
    pub(crate) fn load(
        &mut self,
        number: u32,
        image: &ContainerImage,
    ) -> Result<Option<VolumeError>, VolumeError> {
        let file = PageFile::open(&*self.folder, number)?;
        let mut container = Container {
            file,
            slots: Vec::new(),
            end: 0,
            is_sealed: true,
            is_damaged: false,
            is_stuck: false,
            lost: Vec::new(),
            live_bytes: 0,
            live: 0,
        };
        let loaded = match image.is_sealed {
            true => container.read_footer(&self.envelope),
            false => self.go_on(&mut container, image),
        };
        if loaded.is_err() {
            container.is_damaged = true;
            container.lost = image.pages.clone();
            container.slots.clear();
        }
        self.bytes += container.file.len();
        self.all.insert(number, container);
        self.maybe_dead.push(number);
        self.next = self.next.max(number + 1);
        Ok(loaded.err())
    }

    /// Cuts off what no record tells of, and lets the container take further pages. There is no other
    /// that does: one is begun only when the one before has its footer.
    fn go_on(
        &mut self,
        container: &mut Container,
        image: &ContainerImage,
    ) -> Result<(), VolumeError> {
        let file = Arc::clone(&container.file);
        let (mut writer, start) =
            AppendedContainer::new(&self.envelope, container_id(file.number), Content::Data);
        for page in &image.pages {
            let group = GroupEntry {
                offset: page.offset.into(),
                stored_len: page.stored_len,
                len: page.len,
                codec: page.codec,
                check: page.check,
            };
            if group.offset != writer.len() {
                return Err(VolumeError::Damaged {
                    object: file.name.clone(),
                    at: group.offset,
                    problem: format!("a page is said to be here, expected one at {}", writer.len()),
                });
            }
            container.push(&group)?;
            writer.enter(group, [(page.fingerprint, page.len)]);
        }
        if file.len() < writer.len() {
            return Err(VolumeError::Damaged {
                object: file.name.clone(),
                at: file.len(),
                problem: format!("it ends here, expected {} bytes that were synced", writer.len()),
            });
        }
        let mut log = file.log.write().expect("nobody panics with it");
        let mut found = vec![0; start.len()];
        log.read(0, &mut found)?;
        if found != start {
            return Err(VolumeError::Damaged {
                object: file.name.clone(),
                at: 0,
                problem: "it does not begin as a container of this pool".into(),
            });
        }
        log.truncate(writer.len())?;
        drop(log);
        container.is_sealed = false;
        self.open = Some((container.file.number, writer));
        Ok(())
    }

    /// Appends a page, whose first reference has to follow. `record` gets what the journal has to
    /// know. After an error nothing has changed.
    pub(crate) fn append(
        &mut self,
        page: CompressedGroup,
        fingerprint: Fingerprint,
        mut record: impl FnMut(&Record),
    ) -> Result<Handle, VolumeError> {
        if self.open.as_ref().is_some_and(|(_, writer)| writer.len() >= self.container_len) {
            record(&self.seal()?);
        }
        if self.open.is_none() {
            self.begin()?;
        }
        let (number, writer) = self.open.as_mut().expect("there is one now");
        let container = self.all.get_mut(number).expect("the open one is one of all");
        let bytes = writer.push(page);
        if let Err(error) = container.file.append(&bytes) {
            writer.pop();
            return Err(error.into());
        }
        self.bytes += bytes.len() as u64;
        let group = writer.directory().groups.last().expect("just pushed");
        let slot = container.slots.len() as u32;
        container.push(group).expect("it would have been closed before 2^30 bytes");
        let page = PageEntry {
            offset: group.offset as u32,
            stored_len: group.stored_len,
            len: group.len,
            codec: group.codec,
            check: group.check,
            fingerprint,
        };
        record(&Record::Page { container: *number, page });
        Ok(Handle::new(*number, slot))
    }

    /// Begins a container.
    fn begin(&mut self) -> Result<(), VolumeError> {
        let number = self.next;
        let file = PageFile::open(&*self.folder, number)?;
        let (writer, start) =
            AppendedContainer::new(&self.envelope, container_id(number), Content::Data);
        // what a crash, or a full disk, may have left under this name
        file.log.write().expect("nobody panics with it").truncate(0)?;
        file.append(&start)?;
        self.bytes += start.len() as u64;
        self.next += 1;
        let container = Container {
            file,
            slots: Vec::new(),
            end: start.len() as u32,
            is_sealed: false,
            is_damaged: false,
            is_stuck: false,
            lost: Vec::new(),
            live_bytes: 0,
            live: 0,
        };
        self.all.insert(number, container);
        self.open = Some((number, writer));
        Ok(())
    }

    /// Gives the open container its footer.
    fn seal(&mut self) -> Result<Record, VolumeError> {
        let (number, writer) = self.open.as_ref().expect("there is one");
        let number = *number;
        let container = self.all.get_mut(&number).expect("the open one is one of all");
        let footer = writer.clone().finish();
        container.file.append(&footer)?;
        self.bytes += footer.len() as u64;
        container.is_sealed = true;
        self.maybe_dead.push(number);
        self.unsynced.push(Arc::clone(&container.file));
        self.open = None;
        Ok(Record::Sealed { container: number })
    }

    /// The files that have to be synced before the journal may tell of what is in them.
    pub(crate) fn take_unsynced(&mut self) -> Vec<Arc<PageFile>> {
        let mut files = std::mem::take(&mut self.unsynced);
        if let Some((number, _)) = &self.open {
            files.push(Arc::clone(&self.all[number].file));
        }
        files
    }

    /// Where a page is that a map or a table names; `None` if its container is gone.
    pub(crate) fn locate(&self, page: Handle) -> Option<Located> {
        let page = self.resolve(page);
        self.all.get(&page.container())?.located(page.slot())
    }

    /// Where a page is now: elsewhere, if it was moved.
    pub(crate) fn resolve(&self, page: Handle) -> Handle {
        self.forwards.get(&page).copied().unwrap_or(page)
    }

    /// Whether a page is there, referred to or not, and can be referred to once more.
    pub(crate) fn has(&self, page: Handle) -> bool {
        let container = self.all.get(&page.container());
        let slot = container.and_then(|container| container.slots.get(page.slot() as usize));
        slot.is_some_and(|slot| slot.references < u32::MAX) && !self.bad.contains(&page)
    }

    /// A page could not be read: who writes it again has it kept anew.
    pub(crate) fn note_bad(&mut self, page: Handle) {
        self.bad.insert(self.resolve(page));
    }

    /// A page of container `number` cannot be moved.
    pub(crate) fn keep_for_good(&mut self, number: u32) {
        if let Some(container) = self.all.get_mut(&number) {
            container.is_stuck = true;
        }
    }

    /// Dooms the sealed containers of which nothing is referred to: nobody can find them any more.
    /// `record` gets what the journal has to know.
    pub(crate) fn doom_dead(&mut self, mut record: impl FnMut(&Record)) {
        for number in std::mem::take(&mut self.maybe_dead) {
            let is_dead = |one: &Container| one.is_sealed && !one.is_damaged && one.live == 0;
            if !self.all.get(&number).is_some_and(is_dead) {
                continue;
            }
            record(&Record::Dropped { container: number });
            self.doomed.extend(self.all.remove(&number).map(|container| container.file));
        }
    }

    /// Dooms the open container as well, if nothing in it is referred to.
    pub(crate) fn doom_open(&mut self, mut record: impl FnMut(&Record)) {
        let Some((number, _)) = &self.open else { return };
        let number = *number;
        if self.all[&number].live == 0 {
            self.open = None;
            record(&Record::Dropped { container: number });
            self.doomed.extend(self.all.remove(&number).map(|container| container.file));
        }
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

    /// Fails if containers would have more than `quota` bytes with `stored_len` bytes of a page, once
    /// they have their footers.
    pub(crate) fn expect_quota(
        &self,
        stored_len: usize,
        quota: Option<u64>,
    ) -> Result<(), VolumeError> {
        let Some(quota) = quota else { return Ok(()) };
        let pages = self.open.as_ref().map_or(0, |(number, _)| self.all[number].slots.len());
        let needed = stored_len as u64 + FOOTER_ENTRY * (pages as u64 + 2);
        match self.bytes.checked_add(needed) {
            Some(bytes) if bytes <= quota => Ok(()),
            _ => Err(VolumeError::Quota { bytes: self.bytes, quota }),
        }
    }

    /// Closes the open container if less than half of it is referred to and the rest is wanted, so
    /// that it can be compacted. `record` gets what the journal has to know.
    pub(crate) fn close_sparse(
        &mut self,
        quota: Option<u64>,
        mut record: impl FnMut(&Record),
    ) -> Result<(), VolumeError> {
        let is_short = quota.is_some_and(|quota| self.bytes + self.container_len > quota);
        let is_sparse = |(number, _): &(u32, AppendedContainer)| {
            let container = &self.all[number];
            let Some(first) = container.slots.first() else { return false };
            // without what stands before the pages: one that has just taken a short one is not sparse
            let bytes = u64::from(container.end - first.place.offset());
            container.live_bytes < bytes - container.live_bytes
        };
        if is_short && self.open.as_ref().is_some_and(is_sparse) {
            record(&self.seal()?);
        }
        Ok(())
    }

    /// The container with the smallest share of bytes that are referred to, if it is worth
    /// compacting: its number, its file and the slots to move.
    pub(crate) fn emptiest(&self) -> Option<(u32, Arc<PageFile>, Vec<u32>)> {
        let sealed = self.all.iter().filter(|(_, one)| one.can_be_emptied());
        let least = sealed.min_by(|(_, a), (_, b)| a.fill().total_cmp(&b.fill()));
        let (number, container) = least.filter(|(_, one)| one.fill() < MIN_FILL)?;
        let slots = container.slots.iter().enumerate();
        let live = slots.filter(|(_, slot)| slot.references > 0).map(|(slot, _)| slot as u32);
        Some((*number, Arc::clone(&container.file), live.collect()))
    }

    /// How often a page is referred to, and what it takes; `None` if its container is gone.
    pub(crate) fn footprint(&self, page: Handle) -> Option<(u32, u64)> {
        let page = self.resolve(page);
        let container = self.all.get(&page.container())?;
        let slot = container.slots.get(page.slot() as usize)?;
        let len = container.end_of(page.slot() as usize) - slot.place.offset();
        Some((slot.references, len.into()))
    }

    /// The page is at `to` from now on, for all who refer to it. Nothing if nobody does any more.
    pub(crate) fn move_page(&mut self, from: Handle, to: Handle) -> Option<Record> {
        let slot = &mut self.all.get_mut(&from.container())?.slots[from.slot() as usize];
        let references = slot.references;
        if references == 0 {
            return None;
        }
        for _ in 0..references {
            self.release(from);
            self.gain(to);
        }
        self.forwards.insert(from, to);
        Some(Record::Moved { from, to })
    }

    /// Nobody asks for pages where they were any more.
    pub(crate) fn forget_forwards(&mut self) {
        self.forwards.clear();
    }

    pub(crate) fn is_moving(&self) -> bool {
        !self.forwards.is_empty()
    }

    /// What a checkpoint has to say of each container.
    pub(crate) fn images(&self) -> BTreeMap<u32, ContainerImage> {
        let image = |(number, container): (&u32, &Container)| {
            let pages = match &self.open {
                Some((open, writer)) if open == number => entries(writer.directory()),
                _ => container.lost.clone(),
            };
            let is_sealed = container.is_sealed && container.lost.is_empty();
            (*number, ContainerImage { is_sealed, pages })
        };
        self.all.iter().map(image).collect()
    }

    /// The numbers of all containers.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        self.all.keys().copied().collect()
    }

    /// What there is of container `number` to read its directory from.
    pub(crate) fn directory(&self, number: u32) -> Option<Held> {
        match &self.open {
            Some((open, writer)) if *open == number => Some(Held::Open(writer.directory().clone())),
            _ => Some(Held::Sealed(Arc::clone(&self.all.get(&number)?.file))),
        }
    }

    /// References of every page that has any.
    pub(crate) fn references(&self) -> BTreeMap<Handle, u32> {
        let mut all = BTreeMap::new();
        for (number, container) in &self.all {
            for (slot, one) in container.slots.iter().enumerate().filter(|(_, s)| s.references > 0)
            {
                all.insert(Handle::new(*number, slot as u32), one.references);
            }
        }
        all
    }

    /// What there is of all containers together.
    pub(crate) fn sums(&self) -> Sums {
        let mut sums = Sums { container_bytes: self.bytes, ..Sums::default() };
        for container in self.all.values() {
            sums.pages += u64::from(container.live);
            sums.page_bytes += container.live_bytes;
            if container.can_be_emptied() && container.fill() < MIN_FILL {
                sums.reclaimable_bytes += u64::from(container.end) - container.live_bytes;
            }
        }
        sums
    }
}

fn entries(directory: &Directory) -> Vec<PageEntry> {
    let pages = directory.groups.iter().zip(&directory.chunks);
    let entry = |(group, chunk): (&GroupEntry, &ChunkEntry)| PageEntry {
        offset: group.offset as u32,
        stored_len: group.stored_len,
        len: group.len,
        codec: group.codec,
        check: group.check,
        fingerprint: chunk.fingerprint,
    };
    pages.map(entry).collect()
}

impl References for Pages {
    fn gain(&mut self, page: Handle) {
        let page = self.resolve(page);
        let Some(container) = self.all.get_mut(&page.container()) else { return };
        let len = container.end_of(page.slot() as usize);
        let Some(slot) = container.slots.get_mut(page.slot() as usize) else { return };
        slot.references += 1;
        if slot.references == 1 {
            container.live += 1;
            container.live_bytes += u64::from(len - slot.place.offset());
        }
    }

    fn release(&mut self, page: Handle) {
        let page = self.resolve(page);
        let Some(container) = self.all.get_mut(&page.container()) else { return };
        let len = container.end_of(page.slot() as usize);
        let Some(slot) = container.slots.get_mut(page.slot() as usize) else { return };
        slot.references -= 1;
        if slot.references == 0 {
            container.live -= 1;
            container.live_bytes -= u64::from(len - slot.place.offset());
            if container.live == 0 {
                self.maybe_dead.push(page.container());
            }
        }
    }
}
