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

/// The number of an object that nobody asks for.
const ABSENT: u32 = u32::MAX;

/// Pages of lists that are read at once where a stream is followed.
const STRETCH: u32 = 8;

/// A segment is merged with the newer ones unless it has more than so many times their entries. So
/// there are few segments, and each entry is seldom written again.
const RATIO: u64 = 3;

/// So many entries of one key are looked at in a segment. More have only keys that were made equal,
/// or a chunk that is nearly everywhere.
const MAX_CANDIDATES: u32 = 64;

/// Pages that are remembered to have been read; a page is kept when it is read again.
const SEEN: usize = 256;

/// Fingerprint → place, shared by all threads of a process.
///
/// Objects come in with the *list* of their chunks. Lists are kept in a file, in the order in which
/// they came. *Segments* say which page of the lists has a fingerprint. In memory are filters over
/// the segments, pages that were read lately, and what came last; all of it within a
/// [`Memory`], whatever the number of entries. Where filters over all entries do not fit, there are
/// filters over *hooks*, a part of them chosen by their value: a chunk that is no hook is then
/// known only if it lies near one that was met.
///
/// The folder is a copy of what can be learnt elsewhere. Whatever is wrong with it is
/// [trouble](Self::trouble), and answers are then missing.
pub struct Index {
    memory: Memory,
    claims: Claims,
    recent: Recent,
    seen: Vec<AtomicU32>,
    /// What is in no segment yet.
    fresh: RwLock<BTreeSet<Entry>>,
    /// Oldest first.
    segments: RwLock<Vec<Arc<Segment>>>,
    /// Of 2 to this power entries one is a hook, in the sparsest segment.
    sparsity: AtomicU32,
    lists: Lists,
    /// How many pages the lists have.
    list_end: AtomicU32,
    objects: RwLock<Objects>,
    /// Keys that stand more than once, in ascending order; nothing until someone asked for them.
    repeated: RwLock<Vec<u64>>,
    /// Raised whenever something became known.
    published: AtomicU64,
    writer: Mutex<Writer>,
    trouble: Mutex<Option<IndexError>>,
    /// Whether the files are not what was written.
    is_damaged: Arc<AtomicBool>,
}

/// What has a list.
#[derive(Default)]
struct Objects {
    listed: Vec<Object>,
    /// What the user calls each, [`ABSENT`] if he does not.
    numbers: Vec<u32>,
}

/// What only the one thread needs that changes the files.
struct Writer {
    folder: Arc<dyn Folder>,
    /// Missing only while the writer is taken apart.
    journal: Option<Journal>,
    is_damaged: Arc<AtomicBool>,
    runs: Vec<KnownRun>,
    next_segment: u64,
    /// How much of objects, runs and segments the last commit knew.
    committed: Committed,
    /// Segments that the last commit names and that are in none any more.
    obsolete: Vec<u64>,
    /// Nothing is written any more, because it failed once.
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

/// An object that an index knows from earlier.
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
    /// An empty index whose files are in memory too: about 50 bytes an entry.
    pub fn in_memory() -> Self {
        let folder = Arc::new(MemoryFolder::new());
        let (index, _) = Self::open(folder, ObjectId::from_bytes([0; 16]), Memory::DEFAULT)
            .expect("memory does not fail");
        index
    }

    /// The index of `repository` in `folder`, which this process has alone from now on; begun anew
    /// if it cannot be used, and why.
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
        // Nothing of what is there belongs to the new journal.
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

    /// Reads the filters of all segments, or makes others if these do not fit the memory as they
    /// should.
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

    /// The objects that have lists, by the numbers that this index gives them.
    pub fn objects(&self) -> Vec<KnownObject> {
        let objects = self.objects.read().expect("no thread panics with objects locked");
        let known = |object: &Object| KnownObject {
            id: object.id,
            chunks: object.chunks,
            bytes: object.bytes,
        };
        objects.listed.iter().map(known).collect()
    }

    /// Lets the index answer with object `object`, and `number` for its number.
    pub fn admit(&self, object: u32, number: u32) {
        let mut objects = self.objects.write().expect("no thread panics with objects locked");
        objects.numbers[object as usize] = number;
    }

    /// Answers no more with the objects that were admitted or published as one of these numbers.
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

    /// The runs that were [noted](Self::note_run), with the objects that they cover.
    pub fn runs(&self) -> Vec<(ObjectId, Vec<u32>)> {
        self.writer().runs.iter().map(|run| (run.id, run.covers.clone())).collect()
    }

    /// Remembers that all that run `id` says is known: it covers these objects, and perhaps some
    /// that are gone.
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

    /// Where `fingerprint` lies, if that is known.
    pub fn get(&self, fingerprint: &Fingerprint) -> Option<Hint> {
        match self.claims.get(fingerprint) {
            Some(State::Moved(place)) => Some(Hint(place)),
            Some(State::Owed { .. } | State::Wrong) => None,
            None => self.find(fingerprint, true).map(Hint),
        }
    }

    /// Sees to it that of a chunk that is in several objects always the one that came last is given,
    /// among those that came until now. Reads all segments.
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

    /// Looks `fingerprint` up and, if nobody has it, marks it as the caller's to store.
    ///
    /// Of any number of threads that claim the same fingerprint, exactly one gets [`Claim::New`].
    /// Where filters speak of hooks only, a chunk that was stored before may be new.
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

    /// Looks for the hooks among `fingerprints`, which are about to be claimed, so that those
    /// before a hook are known as well as those behind it.
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

    /// Whether there are chunks of which no filter speaks.
    fn is_sparse(&self) -> bool {
        self.sparsity.load(Ordering::Relaxed) > 0
    }

    fn note_sparsity(&self, segments: &[Arc<Segment>]) {
        let sparsity = segments.iter().map(|one| one.outline.filter.sparsity).max();
        self.sparsity.store(sparsity.unwrap_or(0), Ordering::Relaxed);
    }

    /// Says that object `id`, called `number`, has these chunks, by slot. The index's own number of
    /// it; nothing if it could not be taken up.
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

    /// Forgets where `fingerprint` was said to lie, because it is not there. A claim stays.
    pub fn retract(&self, fingerprint: &Fingerprint) {
        self.claims.refute(fingerprint);
    }

    /// Gives up every claim that was not published: whoever owed those chunks will not store them.
    pub fn forget_claims(&self) {
        self.claims.forget_owed();
    }

    /// Keeps what was learnt since it was opened for whoever opens the folder next. Whether it is
    /// durable now; if not, what an earlier commit kept still is.
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

    /// Forgets everything, on disk too.
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

    /// What went wrong with the folder first, if anything did. It is said once.
    pub fn trouble(&self) -> Option<IndexError> {
        self.trouble.lock().expect("no thread panics with trouble locked").take()
    }

    /// How it is laid out.
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

    /// Searches; of keys that are no hooks, `all` the files or only what is in memory.
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

    /// Looks for `fingerprint` on a page of the lists; `all` as in [`find`](Self::find).
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

    /// Which pages to read where `page` is needed: that one alone, unless a stream is there, or
    /// neighbours are known only if they are read now.
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

    /// Reads the pages from `next` on, because a stream goes there.
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

    /// The place that was found, unless its object is not there any more.
    fn place(&self, found: Found) -> Option<Place> {
        let objects = self.objects.read().expect("no thread panics with objects locked");
        let number = *objects.numbers.get(found.object as usize)?;
        (number != ABSENT).then_some(Place { container: number, slot: found.slot, len: found.len })
    }

    /// Makes a segment of what is in none.
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

    /// Merges what is in no segment and all segments but the oldest `keep` into one.
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
        // In this order: whoever misses an entry here finds it in the segment.
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

    /// After a write that failed nothing more is written, and memory is given back: some chunks
    /// will be stored again.
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

    /// What was asked for, or nothing and trouble. After damage the next to open the folder begins
    /// anew.
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

/// What an index consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexShape {
    /// Entries, those of objects that are gone included.
    pub entries: u64,
    /// Segments that a look-up may have to search.
    pub segments: usize,
    /// Bytes of their filters.
    pub filter_bytes: u64,
    /// Of 2 to this power entries one is a hook, in the sparsest segment.
    pub sparsity: u32,
    /// Pages of 4 KiB that the lists take.
    pub list_pages: u32,
    /// Pages of 4 KiB that the tables of segments take.
    pub table_pages: u64,
}

fn is_damage(error: &IndexError) -> bool {
    matches!(error, IndexError::DamagedPage { .. } | IndexError::Unfit(_))
}

/// What is in no segment and what is in these, in ascending order.
fn merged<'a>(
    fresh: &'a BTreeSet<Entry>,
    segments: &'a [Arc<Segment>],
) -> impl Iterator<Item = Result<Entry, IndexError>> + 'a {
    type Source<'a> = Box<dyn Iterator<Item = Result<Entry, IndexError>> + 'a>;
    let mut sources: Vec<Source<'_>> = vec![Box::new(fresh.iter().copied().map(Ok))];
    sources.extend(segments.iter().map(|segment| Box::new(segment.entries()) as Source<'_>));
    Merged::new(sources)
}

/// How much of the memory for filters the largest of a row of segments may take: as much as it will
/// have when the ones behind it, each at most a third of those before it, have theirs.
fn share(left: u64) -> u64 {
    left / 4 * RATIO
}

/// Pages that a list of so many chunks takes.
fn pages_of(chunks: u32) -> u32 {
    chunks.div_ceil(ROOM as u32)
}

/// The files that a commit names.
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

/// Removes what is in the folder under other names: it was begun and never committed.
fn remove_others(folder: &dyn Folder, names: &[String]) -> Result<(), IndexError> {
    let there = folder.names().map_err(IndexError::Local)?;
    there
        .iter()
        .filter(|name| !names.contains(name))
        .try_for_each(|name| folder.remove(name))
        .map_err(IndexError::Local)
}
