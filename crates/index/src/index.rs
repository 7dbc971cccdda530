//! Fingerprint → place, in bounded memory.

use std::collections::{BTreeSet, HashSet};
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

use onefold_backend::{Folder, MemoryFolder};
use onefold_fingerprint::Fingerprint;
use onefold_seal::ObjectId;

use crate::claims::{Claims, State};
use crate::filter::Shape;
use crate::journal::{self, Commit, Journal, KnownRun, Object, Opened};
use crate::lists::{self, ListPage, Listed, Lists, ROOM};
use crate::page::{PAGE, Sealed};
use crate::recent::{Found, Recent};
use crate::segment::{self, Entry, Merged, Segment, file_name};
use crate::{Claim, Hint, IndexError, Memory, Place};

/// The number of an object that is not admitted.
const ABSENT: u32 = u32::MAX;

/// Pages of lists that are read together when a stream is followed.
const STRETCH: u32 = 8;

/// A segment is merged with the newer ones unless it has more than this many times their entries. So there
/// are few segments, and each entry is rarely rewritten.
const RATIO: u64 = 3;

/// The maximum number of entries of one key that are examined in a segment. Only keys that an attacker made
/// equal, or a chunk in nearly every object, have more.
const MAX_CANDIDATES: u32 = 64;

/// The number of read pages that are remembered; a page is cached when it is read again.
const SEEN: usize = 256;

/// Fingerprint → place, shared by all threads of a process.
///
/// Each object is added with the *list* of its chunks. Lists are stored in a file, in the order in which
/// they were added. *Segments* map fingerprints to pages of the lists. Memory holds filters of the
/// segments, recently read pages and the newest entries, all within a [`Memory`], whatever the number of
/// entries. If filters over all entries do not fit, they cover only *hooks*, a part of the entries selected
/// by value. A chunk that is not a hook is then found only near a hook that was looked up.
///
/// The folder is a cache that can be rebuilt. Any problem with it is reported as
/// [trouble](Self::trouble), and only makes answers missing.
pub struct Index {
    memory: Memory,
    claims: Claims,
    recent: Recent,
    seen: Vec<AtomicU32>,
    /// Entries that are in no segment yet.
    fresh: RwLock<BTreeSet<Entry>>,
    /// Oldest first.
    segments: RwLock<Vec<Arc<Segment>>>,
    /// One in 2 to this power of the entries is a hook, in the sparsest segment.
    sparsity: AtomicU32,
    lists: Lists,
    /// The number of pages of the lists.
    list_end: AtomicU32,
    objects: RwLock<Objects>,
    /// Keys with several entries, in ascending order; none until they are first needed.
    repeated: RwLock<Vec<u64>>,
    /// Incremented whenever an entry was added.
    published: AtomicU64,
    writer: Mutex<Writer>,
    trouble: Mutex<Option<IndexError>>,
    /// Whether the files are damaged.
    is_damaged: Arc<AtomicBool>,
}

/// The objects that have a list.
#[derive(Default)]
struct Objects {
    listed: Vec<Object>,
    /// The caller's number of each object, or [`ABSENT`].
    numbers: Vec<u32>,
}

/// State of the one thread that changes the files.
struct Writer {
    folder: Arc<dyn Folder>,
    /// None only while the writer is dismantled.
    journal: Option<Journal>,
    is_damaged: Arc<AtomicBool>,
    runs: Vec<KnownRun>,
    next_segment: u64,
    /// The numbers of objects, runs and segments at the last commit.
    committed: Committed,
    /// Segments that the last commit names and that are no longer used.
    obsolete: Vec<u64>,
    /// Whether a write failed, after which nothing is written.
    is_frozen: bool,
}

const ONE_JOURNAL: &str = "a writer has its journal until it is taken apart";

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(journal) = &mut self.journal
            && self.is_damaged.load(Ordering::Relaxed)
        {
            // If even this fails, the damage is met again.
            let _ = journal.give_up();
        }
    }
}

#[derive(Default)]
struct Committed {
    objects: usize,
    runs: usize,
    next_segment: u64,
}

/// An object that the index loaded from its folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownObject {
    /// Which object.
    pub id: ObjectId,
    /// How many chunks it has.
    pub chunks: u32,
    /// Bytes of its chunks.
    pub bytes: u64,
}

impl Index {
    /// An empty index whose files are also in memory: about 50 bytes per entry.
    pub fn in_memory() -> Self {
        let folder = Arc::new(MemoryFolder::new());
        let (index, _) = Self::open(folder, ObjectId::from_bytes([0; 16]), Memory::DEFAULT)
            .expect("memory does not fail");
        index
    }

    /// The index of `repository` in `folder`, which this process then owns. If it cannot be used, an empty
    /// index replaces it, and the reason is returned.
    ///
    /// None of its objects is [admitted](Self::admit) yet.
    pub fn open(
        folder: Arc<dyn Folder>,
        repository: ObjectId,
        memory: Memory,
    ) -> Result<(Self, Option<IndexError>), IndexError> {
        let log = folder.log(journal::NAME).map_err(IndexError::Local)?;
        let (journal, why) = match Journal::open(log, repository)? {
            Opened::Whole(journal, commit) => match Files::open(&*folder, &journal, &commit) {
                Ok(files) => {
                    return Ok((Self::restore(folder, journal, commit, files, memory), None));
                }
                Err(error) => (journal.begin_anew()?, Some(error)),
            },
            Opened::Other(log) => {
                let why = (!log.is_empty()).then_some(IndexError::Unfit("it has another form"));
                (Journal::begin(log, repository)?, why)
            }
        };
        let commit = Commit::default();
        // No existing file belongs to the new journal.
        remove_others(&*folder, &[journal::NAME.to_owned()])?;
        let files = Files::open(&*folder, &journal, &commit)?;
        Ok((Self::restore(folder, journal, commit, files, memory), why))
    }

    fn restore(
        folder: Arc<dyn Folder>,
        journal: Journal,
        commit: Commit,
        files: Files,
        memory: Memory,
    ) -> Self {
        let objects =
            Objects { numbers: vec![ABSENT; commit.objects.len()], listed: commit.objects };
        let committed = Committed {
            objects: objects.listed.len(),
            runs: commit.runs.len(),
            next_segment: commit.next_segment,
        };
        let is_damaged = Arc::new(AtomicBool::new(false));
        let index = Self {
            memory,
            claims: Claims::new(),
            recent: Recent::new(memory.recent_pages()),
            seen: (0..SEEN).map(|_| AtomicU32::new(u32::MAX)).collect(),
            fresh: RwLock::default(),
            segments: RwLock::new(files.segments),
            sparsity: AtomicU32::new(0),
            lists: files.lists,
            list_end: AtomicU32::new(commit.list_pages),
            objects: RwLock::new(objects),
            repeated: RwLock::default(),
            published: AtomicU64::new(0),
            writer: Mutex::new(Writer {
                folder,
                journal: Some(journal),
                is_damaged: Arc::clone(&is_damaged),
                runs: commit.runs,
                next_segment: commit.next_segment,
                committed,
                obsolete: Vec::new(),
                is_frozen: false,
            }),
            trouble: Mutex::default(),
            is_damaged,
        };
        index.load_filters();
        index
    }

    /// Reads the filters of all segments, or rebuilds them if their size does not suit the memory.
    fn load_filters(&self) {
        let segments = self.segments.read().expect("no thread panics with segments locked").clone();
        let entries = segments.iter().map(|segment| segment.outline.entries).sum();
        let len: u64 = segments.iter().map(|segment| segment.outline.filter.len()).sum();
        let fitting = Shape::fitting(entries, share(self.memory.filters()));
        let is_sparser =
            |segment: &Arc<Segment>| segment.outline.filter.sparsity > fitting.sparsity;
        if len > self.memory.filters() || segments.iter().any(is_sparser) {
            drop(segments);
            let mut writer = self.writer();
            let merged = self.merge(&mut writer, 0);
            self.freeze_on_error(&mut writer, merged);
            return;
        }
        self.note_sparsity(&segments);
        self.note_error(segments.iter().try_for_each(|segment| segment.load_filter()));
    }

    /// The objects that have lists, by this index's numbers.
    pub fn objects(&self) -> Vec<KnownObject> {
        let objects = self.objects.read().expect("no thread panics with objects locked");
        let known = |object: &Object| KnownObject {
            id: object.id,
            chunks: object.chunks,
            bytes: object.bytes,
        };
        objects.listed.iter().map(known).collect()
    }

    /// Allows answers in object `object`, under the caller's number `number`.
    pub fn admit(&self, object: u32, number: u32) {
        let mut objects = self.objects.write().expect("no thread panics with objects locked");
        objects.numbers[object as usize] = number;
    }

    /// Stops answers in the objects that were admitted or published under one of these numbers.
    pub fn dismiss(&self, is_gone: impl Fn(u32) -> bool) {
        let mut objects = self.objects.write().expect("no thread panics with objects locked");
        for number in &mut objects.numbers {
            if *number != ABSENT && is_gone(*number) {
                *number = ABSENT;
            }
        }
        drop(objects);
        self.claims.dismiss(|place| is_gone(place.container));
    }

    /// The [noted](Self::note_run) runs, with the objects that they cover.
    pub fn runs(&self) -> Vec<(ObjectId, Vec<u32>)> {
        self.writer().runs.iter().map(|run| (run.id, run.covers.clone())).collect()
    }

    /// Records that the index has all entries of run `id`, which covers these objects and perhaps deleted
    /// ones.
    pub fn note_run(&self, id: ObjectId, covers: Vec<u32>) {
        self.writer().runs.push(KnownRun { id, covers });
    }

    /// The chunks of object `object`, by slot.
    pub fn list(&self, object: u32) -> Result<Vec<Listed>, IndexError> {
        let object = self.objects.read().expect("no thread panics with objects locked").listed
            [object as usize];
        let mut chunks = Vec::with_capacity(object.chunks as usize);
        let mut bytes = [0; PAGE];
        for page in object.first..object.first + pages_of(object.chunks) {
            self.lists.read(page, &mut bytes)?;
            chunks.extend(ListPage::new(&bytes).chunks());
        }
        Ok(chunks)
    }

    /// A hint of the place of `fingerprint`, if known.
    pub fn get(&self, fingerprint: &Fingerprint) -> Option<Hint> {
        match self.claims.get(fingerprint) {
            Some(State::Moved(place)) => Some(Hint(place)),
            Some(State::Owed { .. } | State::Wrong) => None,
            None => self.find(fingerprint, true).map(Hint),
        }
    }

    /// From now on, if a chunk is in several of the present objects, answers give the object that was added
    /// last. Reads all segments.
    pub fn prefer_last(&self) {
        let writer = self.writer();
        let segments = self.segments.read().expect("no thread panics with segments locked").clone();
        let fresh = self.fresh.read().expect("no thread panics with entries locked");
        let mut repeated = Vec::new();
        let mut last = None;
        for entry in merged(&fresh, &segments) {
            let Some((key, _)) = self.note_error(entry) else { break };
            if last == Some(key) && repeated.last() != Some(&key) {
                repeated.push(key);
            }
            last = Some(key);
        }
        drop((fresh, writer));
        *self.repeated.write().expect("no thread panics with keys locked") = repeated;
    }

    fn is_repeated(&self, key: u64) -> bool {
        let repeated = self.repeated.read().expect("no thread panics with keys locked");
        repeated.binary_search(&key).is_ok()
    }

    /// Looks `fingerprint` up. If it is unknown, the caller claims it and must store it.
    ///
    /// Of any number of threads that claim the same fingerprint, exactly one gets [`Claim::New`]. If filters
    /// cover only hooks, a chunk that was stored before may be reported as new.
    pub fn claim(&self, fingerprint: &Fingerprint) -> Claim {
        loop {
            let before = self.published.load(Ordering::Acquire);
            match self.claims.get(fingerprint) {
                Some(State::Moved(place)) => return Claim::Known(Hint(place)),
                Some(State::Owed { .. }) => return Claim::Pending,
                Some(State::Wrong) => {}
                None => {
                    if let Some(place) = self.find(fingerprint, false) {
                        return Claim::Known(Hint(place));
                    }
                }
            }
            // What was published since the search began may be what was searched for.
            let is_current = || self.published.load(Ordering::Acquire) == before;
            if self.claims.claim(fingerprint, is_current) {
                return Claim::New;
            }
        }
    }

    /// Looks up the hooks among `fingerprints`, which are about to be claimed, so that chunks before a hook
    /// are found as well as chunks after it.
    pub fn prepare(&self, fingerprints: &[Fingerprint]) {
        if !self.is_sparse() {
            return;
        }
        for fingerprint in fingerprints {
            if self.claims.get(fingerprint).is_none() {
                self.find(fingerprint, false);
            }
        }
    }

    /// Whether some chunks are covered by no filter.
    fn is_sparse(&self) -> bool {
        self.sparsity.load(Ordering::Relaxed) > 0
    }

    fn note_sparsity(&self, segments: &[Arc<Segment>]) {
        let sparsity = segments.iter().map(|one| one.outline.filter.sparsity).max();
        self.sparsity.store(sparsity.unwrap_or(0), Ordering::Relaxed);
    }

    /// Adds object `id` with the caller's number `number` and its chunks by slot. Returns the index's own
    /// number, or none if the object could not be added.
    pub fn publish(&self, id: ObjectId, number: u32, chunks: &[Listed]) -> Option<u32> {
        let mut writer = self.writer();
        let taken_up = match writer.is_frozen {
            true => None,
            false => {
                let appended = self.append(id, number, chunks);
                self.freeze_on_error(&mut writer, appended)
            }
        };
        self.published.fetch_add(1, Ordering::Release);
        for (slot, (fingerprint, len)) in (0..).zip(chunks) {
            self.claims.settle(fingerprint, Place { container: number, slot, len: *len });
        }
        if self.fresh_len() >= self.memory.fresh_entries() {
            let flushed = self.flush(&mut writer);
            self.freeze_on_error(&mut writer, flushed);
        }
        taken_up
    }

    fn append(&self, id: ObjectId, number: u32, chunks: &[Listed]) -> Result<u32, IndexError> {
        let first = self.list_end.load(Ordering::Relaxed);
        let object = {
            let mut objects = self.objects.write().expect("no thread panics with objects locked");
            let bytes = chunks.iter().map(|(_, len)| u64::from(*len)).sum();
            objects.listed.push(Object { id, first, chunks: chunks.len() as u32, bytes });
            objects.numbers.push(number);
            (objects.listed.len() - 1) as u32
        };
        let pages = match self.lists.write(first, object, chunks) {
            Ok(pages) => pages,
            Err(error) => {
                let mut objects =
                    self.objects.write().expect("no thread panics with objects locked");
                objects.listed.pop();
                objects.numbers.pop();
                return Err(error);
            }
        };
        self.list_end.store(first + pages, Ordering::Release);
        let mut fresh = self.fresh.write().expect("no thread panics with entries locked");
        let mut entered = HashSet::with_capacity(chunks.len());
        for (at, (fingerprint, len)) in chunks.iter().enumerate() {
            // Once is enough for a chunk that is in the object many times. Others may begin alike.
            if *len > 0 && entered.insert(fingerprint) {
                fresh.insert((fingerprint.prefix_u64(), first + (at / ROOM) as u32));
            }
        }
        Ok(object)
    }

    /// Forgets the place of `fingerprint`, because the chunk is not there. A claim stays.
    pub fn retract(&self, fingerprint: &Fingerprint) {
        self.claims.refute(fingerprint);
    }

    /// Releases all claims that were not published, because their chunks will not be stored.
    pub fn forget_claims(&self) {
        self.claims.forget_owed();
    }

    /// Commits all additions since the index was opened, for the next process that opens the folder.
    /// Returns whether they are durable; if not, the last successful commit still is.
    pub fn commit(&self) -> bool {
        let mut writer = self.writer();
        // After a failed write the files are not what memory says.
        if writer.is_frozen || self.is_damaged.load(Ordering::Relaxed) {
            return false;
        }
        let kept = self.keep(&mut writer);
        self.freeze_on_error(&mut writer, kept).is_some()
    }

    fn keep(&self, writer: &mut Writer) -> Result<(), IndexError> {
        if self.fresh_len() > 0 {
            self.flush(writer)?;
        }
        let objects = self.objects.read().expect("no thread panics with objects locked");
        let committed = Committed {
            objects: objects.listed.len(),
            runs: writer.runs.len(),
            next_segment: writer.next_segment,
        };
        let is_new = |new: &Committed, old: &Committed| {
            new.objects > old.objects || new.runs > old.runs || new.next_segment > old.next_segment
        };
        if !is_new(&committed, &writer.committed) {
            return Ok(());
        }
        let segments = self.segments.read().expect("no thread panics with segments locked");
        let commit = Commit {
            objects: objects.listed[writer.committed.objects..].to_vec(),
            runs: writer.runs[writer.committed.runs..].to_vec(),
            segments: segments.iter().map(|segment| segment.outline).collect(),
            list_pages: self.list_end.load(Ordering::Relaxed),
            next_segment: writer.next_segment,
        };
        drop((objects, segments));
        self.lists.sync()?;
        writer.journal.as_mut().expect(ONE_JOURNAL).commit(&commit)?;
        writer.committed = committed;
        let Writer { folder, obsolete, .. } = writer;
        obsolete
            .drain(..)
            .try_for_each(|number| folder.remove(&file_name(number)))
            .map_err(IndexError::Local)
    }

    /// Forgets everything, also on disk.
    pub fn clear(self) -> Result<Self, IndexError> {
        let Self { memory, writer, segments, lists, .. } = self;
        drop((segments, lists));
        let mut writer = writer.into_inner().expect("no thread panics with the writer locked");
        let folder = Arc::clone(&writer.folder);
        let journal = writer.journal.take().expect(ONE_JOURNAL).begin_anew()?;
        remove_others(&*folder, &[journal::NAME.to_owned()])?;
        let commit = Commit::default();
        let files = Files::open(&*folder, &journal, &commit)?;
        Ok(Self::restore(folder, journal, commit, files, memory))
    }

    /// The first problem with the folder, if any; returned once.
    pub fn trouble(&self) -> Option<IndexError> {
        self.trouble.lock().expect("no thread panics with trouble locked").take()
    }

    /// Statistics of the index.
    pub fn shape(&self) -> IndexShape {
        let segments = self.segments.read().expect("no thread panics with segments locked");
        let sum = |of: fn(&Segment) -> u64| segments.iter().map(|segment| of(segment)).sum();
        IndexShape {
            entries: sum(|segment| segment.outline.entries) + self.fresh_len() as u64,
            segments: segments.len(),
            filter_bytes: sum(|segment| segment.outline.filter.len()),
            sparsity: self.sparsity.load(Ordering::Relaxed),
            list_pages: self.list_end.load(Ordering::Relaxed),
            table_pages: sum(|segment| u64::from(segment.outline.pages)),
        }
    }

    /// Searches `fingerprint`. If its key is not a hook, searches the files only if `all`, else only memory.
    fn find(&self, fingerprint: &Fingerprint, all: bool) -> Option<Place> {
        let key = fingerprint.prefix_u64();
        let is_repeated = self.is_repeated(key);
        if !is_repeated && let Some(found) = self.recent.find(fingerprint) {
            if let Some(next) = found.next {
                self.note_error(self.follow(next));
            }
            if let Some(place) = self.place(found) {
                return Some(place);
            }
        }
        self.find_fresh(key, fingerprint, all).or_else(|| {
            let segments = self.segments.read().expect("no thread panics with segments locked");
            // What came last is likelier to be right.
            let candidates = segments.iter().rev().filter(|segment| segment.may_have(key, all));
            let mut found = candidates.map(|segment| {
                let (mut found, mut left) = (None, MAX_CANDIDATES);
                let searched = segment.find(key, |page| {
                    found = self.look_at(page, fingerprint, all).or(found);
                    left -= 1;
                    match left == 0 || (found.is_some() && !is_repeated) {
                        true => ControlFlow::Break(()),
                        false => ControlFlow::Continue(()),
                    }
                });
                self.note_error(searched);
                found
            });
            found.find_map(|place| place)
        })
    }

    fn find_fresh(&self, key: u64, fingerprint: &Fingerprint, all: bool) -> Option<Place> {
        let mut last = u32::MAX;
        for _ in 0..MAX_CANDIDATES {
            let (_, page) = {
                let fresh = self.fresh.read().expect("no thread panics with entries locked");
                *fresh.range((key, 0)..=(key, last)).next_back()?
            };
            if let Some(place) = self.look_at(page, fingerprint, all) {
                return Some(place);
            }
            last = page.checked_sub(1)?;
        }
        None
    }

    /// Searches `fingerprint` on a page of the lists; `all` as in [`find`](Self::find).
    fn look_at(&self, page: u32, fingerprint: &Fingerprint, all: bool) -> Option<Place> {
        let range = self.range_around(page, all);
        // Most often it is one page, and clearing eight would take as long as reading it.
        let (mut one, mut many);
        let bytes = match range.len() {
            1 => {
                one = [0; PAGE];
                &mut one[..]
            }
            len => {
                many = [0; STRETCH as usize * PAGE];
                &mut many[..len * PAGE]
            }
        };
        self.note_error(self.lists.read(range.start, bytes))?;
        if range.len() > 1 {
            self.recent.add(range.start, bytes);
        }
        let start = (page - range.start) as usize * PAGE;
        let list = ListPage::new(&bytes[start..start + PAGE]);
        let (slot, len) = list.find(fingerprint)?;
        self.place(Found { object: list.object(), slot, len, next: None })
    }

    /// The pages to read if `page` is needed: only that one, unless a stream reached it, or its neighbours
    /// can be found only by reading them now.
    fn range_around(&self, page: u32, all: bool) -> Range<u32> {
        let end = self.list_end.load(Ordering::Acquire).max(page + 1);
        let seen = |page: u32| &self.seen[page as usize % SEEN];
        let is_seen = |page: u32| seen(page).load(Ordering::Relaxed) == page;
        let before = page.saturating_sub(1);
        if self.is_sparse() && !all {
            // What is known at all is known from here.
            return before..(before + STRETCH).min(end);
        }
        let is_stream = is_seen(page) || is_seen(before) || self.recent.has(before);
        seen(page).store(page, Ordering::Relaxed);
        match is_stream && !self.recent.has(page) {
            true => page..(page + STRETCH).min(end),
            false => page..page + 1,
        }
    }

    /// Reads ahead from page `next`, because a stream continues there.
    fn follow(&self, next: u32) -> Result<(), IndexError> {
        let end = self.list_end.load(Ordering::Acquire);
        let pages = STRETCH.min(end.saturating_sub(next));
        if pages == 0 {
            return Ok(());
        }
        let mut buffer = [0; STRETCH as usize * PAGE];
        let bytes = &mut buffer[..pages as usize * PAGE];
        self.lists.read(next, bytes)?;
        self.recent.add(next, bytes);
        Ok(())
    }

    /// The found place, unless its object is no longer admitted.
    fn place(&self, found: Found) -> Option<Place> {
        let objects = self.objects.read().expect("no thread panics with objects locked");
        let number = *objects.numbers.get(found.object as usize)?;
        (number != ABSENT).then_some(Place { container: number, slot: found.slot, len: found.len })
    }

    /// Writes the entries that are in no segment to a new one.
    fn flush(&self, writer: &mut Writer) -> Result<(), IndexError> {
        let mut entries = self.fresh_len() as u64;
        let segments = self.segments.read().expect("no thread panics with segments locked").clone();
        let mut keep = segments.len();
        while keep > 0 && segments[keep - 1].outline.entries <= RATIO * entries {
            keep -= 1;
            entries += segments[keep].outline.entries;
        }
        drop(segments);
        self.merge(writer, keep)
    }

    /// Merges the entries that are in no segment and all segments except the oldest `keep` into one.
    fn merge(&self, writer: &mut Writer, keep: usize) -> Result<(), IndexError> {
        let segments = self.segments.read().expect("no thread panics with segments locked").clone();
        let number = writer.next_segment;
        let name = file_name(number);
        let merged = {
            let (kept, old) = segments.split_at(keep);
            let fresh = self.fresh.read().expect("no thread panics with entries locked");
            let entries = old.iter().map(|segment| segment.outline.entries).sum::<u64>();
            let entries = entries + fresh.len() as u64;
            let taken: u64 = kept.iter().map(|segment| segment.outline.filter.len()).sum();
            let left = self.memory.filters().saturating_sub(taken);
            let file = writer.folder.pages(&name, PAGE).map_err(IndexError::Local)?;
            let file = Sealed::new(file, writer.journal.as_ref().expect(ONE_JOURNAL).index(), name);
            let shape = Shape::fitting(entries, share(left));
            writer.next_segment += 1;
            Arc::new(segment::write(file, number, entries, shape, merged(&fresh, old))?)
        };
        {
            let mut now = self.segments.write().expect("no thread panics with segments locked");
            now.truncate(keep);
            now.push(Arc::clone(&merged));
            self.note_sparsity(&now);
        }
        // In this order: a look-up that misses an entry here finds it in the segment.
        self.fresh.write().expect("no thread panics with entries locked").clear();
        let old: Vec<u64> = segments[keep..].iter().map(|one| one.outline.number).collect();
        // Their filters go before the new one comes.
        drop(segments);
        for number in old {
            match number < writer.committed.next_segment {
                true => writer.obsolete.push(number),
                false => writer.folder.remove(&file_name(number)).map_err(IndexError::Local)?,
            }
        }
        merged.load_filter()
    }

    fn fresh_len(&self) -> usize {
        self.fresh.read().expect("no thread panics with entries locked").len()
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().expect("no thread panics with the writer locked")
    }

    /// After a failed write nothing more is written, and memory is freed: some chunks will be stored again.
    fn freeze_on_error<T>(&self, writer: &mut Writer, result: Result<T, IndexError>) -> Option<T> {
        if let Err(error) = &result {
            if is_damage(error) {
                self.is_damaged.store(true, Ordering::Relaxed);
            }
            writer.is_frozen = true;
            self.fresh.write().expect("no thread panics with entries locked").clear();
        }
        self.note_error(result)
    }

    /// The result, or none and trouble on error. After damage, the next process that opens the folder
    /// rebuilds the index.
    fn note_error<T>(&self, result: Result<T, IndexError>) -> Option<T> {
        result
            .map_err(|error| {
                if is_damage(&error) {
                    self.is_damaged.store(true, Ordering::Relaxed);
                }
                let mut trouble =
                    self.trouble.lock().expect("no thread panics with trouble locked");
                trouble.get_or_insert(error);
            })
            .ok()
    }
}

impl Default for Index {
    fn default() -> Self {
        Self::in_memory()
    }
}

/// Statistics of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexShape {
    /// The number of entries, including those of deleted objects.
    pub entries: u64,
    /// The number of segments that a look-up may have to search.
    pub segments: usize,
    /// Bytes of their filters.
    pub filter_bytes: u64,
    /// One in 2 to this power of the entries is a hook, in the sparsest segment.
    pub sparsity: u32,
    /// Pages of 4 KiB of the lists.
    pub list_pages: u32,
    /// Pages of 4 KiB of the tables of segments.
    pub table_pages: u64,
}

fn is_damage(error: &IndexError) -> bool {
    matches!(error, IndexError::DamagedPage { .. } | IndexError::Unfit(_))
}

/// The entries in no segment and those in these segments, in ascending order.
fn merged<'a>(
    fresh: &'a BTreeSet<Entry>,
    segments: &'a [Arc<Segment>],
) -> impl Iterator<Item = Result<Entry, IndexError>> + 'a {
    type Source<'a> = Box<dyn Iterator<Item = Result<Entry, IndexError>> + 'a>;
    let mut sources: Vec<Source<'_>> = vec![Box::new(fresh.iter().copied().map(Ok))];
    sources.extend(segments.iter().map(|segment| Box::new(segment.entries()) as Source<'_>));
    Merged::new(sources)
}

/// The share of the filter memory for the largest of several segments: as much as it gets when the later
/// segments, each at most a third of the one before it, have theirs.
fn share(left: u64) -> u64 {
    left / 4 * RATIO
}

/// The number of pages of a list of this many chunks.
fn pages_of(chunks: u32) -> u32 {
    chunks.div_ceil(ROOM as u32)
}

/// The files of a commit.
struct Files {
    lists: Lists,
    segments: Vec<Arc<Segment>>,
}

impl Files {
    /// Opens them, and removes all others.
    fn open(folder: &dyn Folder, journal: &Journal, commit: &Commit) -> Result<Self, IndexError> {
        let open = |name: &str| {
            let file = folder.pages(name, PAGE).map_err(IndexError::Local)?;
            Ok(Sealed::new(file, journal.index(), name.to_owned()))
        };
        let lists = open(lists::NAME)?;
        let is_inside = |object: &Object| {
            u64::from(object.first) + u64::from(pages_of(object.chunks))
                <= u64::from(commit.list_pages)
        };
        if lists.count() < u64::from(commit.list_pages) || !commit.objects.iter().all(is_inside) {
            return Err(IndexError::Unfit("the lists are shorter than they were"));
        }
        let mut names = vec![journal::NAME.to_owned(), lists::NAME.to_owned()];
        names.extend(commit.segments.iter().map(|outline| file_name(outline.number)));
        remove_others(folder, &names)?;
        let segments = commit.segments.iter().map(|outline| {
            let file = open(&file_name(outline.number))?;
            Segment::open(file, *outline).map(Arc::new)
        });
        Ok(Self { segments: segments.collect::<Result<_, _>>()?, lists: Lists::new(lists) })
    }
}

/// Removes all other files of the folder, which were begun and never committed.
fn remove_others(folder: &dyn Folder, names: &[String]) -> Result<(), IndexError> {
    let there = folder.names().map_err(IndexError::Local)?;
    there
        .iter()
        .filter(|name| !names.contains(name))
        .try_for_each(|name| folder.remove(name))
        .map_err(IndexError::Local)
}
