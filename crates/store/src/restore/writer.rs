//! Writing a window: each group is fetched and decoded once, and its chunks go to all files that want
//! them.
//!
//! A short file waits in memory until all its chunks are there, and is then written in one go. A long
//! one takes its chunks as they come. What was not written in order is synced before it gets its name:
//! all such files of a window together.

use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use onefold_container::MAX_GROUP_LEN;

use super::context::Context;
use super::file::RestoredFile;
use super::nameless;
use super::report::Counts;
use super::standing::{self, Content, Sought, Standing};
use super::target::{Components, Target};
use super::wanted::{FileNumber, WantedChunk};
use super::window::{ShortFile, Window};
use crate::finding::describe;
use crate::reading::bring::Bring;
use crate::reading::fetch::{Keep, SHORTEST};
use crate::reading::scratch::Scratch;
use crate::system;
use crate::threads::each;
use crate::{Recipe, StoreError};

/// Directories that a thread keeps open.
const OPEN_DIRECTORIES: usize = 32;
/// Bytes of chunks that wait for others of their files, at most.
const MAX_PARKED: usize = 32 << 20;
/// Files that are synced one by one; more of them by one call for the whole file system.
const SYNCED_ONE_BY_ONE: usize = 8;

/// Bytes of groups that are kept for later windows, at most; and of what is free beside the target, one
/// in so many.
const MAX_SCRATCH: u64 = 1 << 30;
const SCRATCH_SHARE: u64 = 16;

/// What writes windows.
pub(super) struct Writer<'a> {
    context: &'a Context<'a>,
    root: &'a Target,
    threads: usize,
    /// What later windows may want again.
    scratch: Option<Scratch>,
}

/// What the threads that write a window share.
struct Writing<'a> {
    context: &'a Context<'a>,
    root: &'a Target,
    scratch: Option<&'a Scratch>,
    window: &'a Window,
    parked: Mutex<Parked>,
    /// What threads that pause have open.
    directories: Mutex<Vec<Directories>>,
    /// Files that are whole and must be synced before they get their names.
    unsynced: Mutex<Vec<Arc<RestoredFile>>>,
}

/// Chunks that wait for others of their short files.
#[derive(Default)]
struct Parked {
    files: HashMap<u32, Waiting>,
    /// Bytes of all chunks that wait.
    len: usize,
}

/// A short file of which chunks are missing.
struct Waiting {
    missing: u32,
    chunks: Chunks,
}

enum Chunks {
    /// In memory, each with its start.
    Kept(Vec<(u64, Bytes)>),
    /// In the file: there was no room for them.
    Written(Arc<RestoredFile>),
    /// One of them cannot be had.
    Lost(String),
}

impl<'a> Writer<'a> {
    pub(super) fn new(context: &'a Context<'a>, root: &'a Target, threads: usize) -> Self {
        let scratch = context.chunks.is_far().then(|| scratch(root)).flatten();
        Self { context, root, threads, scratch }
    }

    /// Writes a window. Whatever fails is reported; a restore that is to stop leaves the rest.
    pub(super) fn write(&self, window: Window) {
        let writing = Writing {
            context: self.context,
            root: self.root,
            scratch: self.scratch.as_ref(),
            window: &window,
            parked: Mutex::default(),
            directories: Mutex::default(),
            unsynced: Mutex::default(),
        };
        let flow = writing.write(self.threads);
        writing.finish(flow.is_break());
    }
}

impl Writing<'_> {
    fn write(&self, threads: usize) -> ControlFlow<()> {
        self.go_on()?;
        let Window { short, chunks, .. } = self.window;
        let empty: Vec<&ShortFile> = short.iter().filter(|file| file.chunks == 0).collect();
        each(threads, &empty, |file| {
            self.with_directories(|directories| self.write_short(file, &[], directories))
        })?;
        let mut wanted: Vec<&WantedChunk> = chunks.iter().collect();
        self.take_from_standing(&mut wanted, threads)?;
        self.take_from_seeds(&mut wanted, threads)?;
        let keep = self.scratch.map_or(Keep::Nothing, Keep::Stored);
        let bring = Bring { reader: self.context.chunks, threads, shortest: SHORTEST, keep };
        bring.bring(&wanted, &|chunk, found| {
            self.with_directories(|directories| self.take(chunk, found, directories))
        })
    }

    /// Writes those of the chunks that files have in whose place others are restored, and takes them out
    /// of `wanted`.
    fn take_from_standing(
        &self,
        wanted: &mut Vec<&WantedChunk>,
        threads: usize,
    ) -> ControlFlow<()> {
        let files = standing::files(self.window);
        if files.is_empty() {
            return ControlFlow::Continue(());
        }
        let sought = Sought::new(std::mem::take(wanted));
        each(threads, &files, |standing| self.cut_standing(standing, &sought))?;
        *wanted = self.compare_standing(&files, sought.left(), threads)?;
        ControlFlow::Continue(())
    }

    fn go_on(&self) -> ControlFlow<()> {
        match self.context.go_on() {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }

    /// Writes what a file has of the chunks `sought`. One that cannot be read has nothing.
    fn cut_standing(&self, standing: &Standing, sought: &Sought<'_>) -> ControlFlow<()> {
        let Ok(content) = self.open_standing(standing.file) else {
            return ControlFlow::Continue(());
        };
        let Context { chunks, chunker, .. } = self.context;
        let mut flow = ControlFlow::Continue(());
        // As far as it can be read.
        let _ = content.cut(standing, chunker, &mut |bytes| {
            let found = sought.find(&chunks.fingerprint(bytes));
            flow = self.go_on();
            if flow.is_continue() {
                flow = self.deliver_here(found, bytes);
            }
            flow
        });
        flow
    }

    /// Writes those of the chunks `left` that lie where they belong in what stands in the place of their
    /// file, and gives the others.
    fn compare_standing<'w>(
        &self,
        files: &[Standing],
        left: Vec<&'w WantedChunk>,
        threads: usize,
    ) -> ControlFlow<(), Vec<&'w WantedChunk>> {
        let standing: HashSet<FileNumber> = files.iter().map(|standing| standing.file).collect();
        let (mut compared, others): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|chunk| standing.contains(&chunk.file));
        compared.sort_unstable_by_key(|chunk| (chunk.file, chunk.start));
        let of_files: Vec<_> = compared.chunk_by(|a, b| a.file == b.file).collect();
        let missing = Mutex::new(others);
        each(threads, &of_files, |compared| {
            let content = self.open_standing(compared[0].file).ok();
            compared.iter().try_for_each(|chunk| {
                let Recipe { root, len, .. } = chunk.leaf;
                // A recipe that lies about a length is no reason to take memory for it.
                let content = content.as_ref().filter(|_| len <= u64::from(MAX_GROUP_LEN));
                let bytes =
                    content.and_then(|content| content.bytes(chunk.start, len as usize).ok());
                match bytes.filter(|bytes| self.context.chunks.fingerprint(bytes) == root) {
                    Some(bytes) => self.deliver_here(&[chunk], &bytes),
                    None => {
                        missing.lock().expect("no thread panics with it locked").push(chunk);
                        self.go_on()
                    }
                }
            })
        })?;
        ControlFlow::Continue(missing.into_inner().expect("no thread panics with it locked"))
    }

    fn open_standing(&self, file: FileNumber) -> io::Result<Content> {
        match file {
            FileNumber::Long(number) => {
                let (target, entry) = self.window.long[number as usize].place();
                Content::open(target, entry)
            }
            FileNumber::Short(number) => {
                let file = &self.window.short[number as usize];
                let opened = self.with_directories(|open| open.open(self.root, &file.directory))?;
                Content::open(&opened, &self.window.entry(file))
            }
        }
    }

    /// Writes `bytes`, which were here, to all `chunks`, which they are.
    fn deliver_here(&self, chunks: &[&WantedChunk], bytes: &[u8]) -> ControlFlow<()> {
        if chunks.is_empty() {
            return ControlFlow::Continue(());
        }
        let bytes = Bytes::copy_from_slice(bytes);
        self.with_directories(|directories| {
            chunks.iter().try_for_each(|chunk| {
                Counts::add(&self.context.counts.seeded, chunk.leaf.len);
                self.deliver(chunk, Ok(bytes.clone()), directories)
            })
        })
    }

    /// Writes those of the chunks that seeds have, and takes them out of `wanted`.
    fn take_from_seeds(&self, wanted: &mut Vec<&WantedChunk>, threads: usize) -> ControlFlow<()> {
        let Context { seeds, chunks, counts, .. } = self.context;
        seeds.serve(wanted, chunks, threads, &|chunk, bytes| {
            Counts::add(&counts.seeded, chunk.leaf.len);
            self.with_directories(|directories| self.deliver(chunk, Ok(bytes), directories))
        })?;
        ControlFlow::Continue(())
    }

    /// Writes a chunk that came from the repository.
    fn take(
        &self,
        chunk: &WantedChunk,
        found: Result<Bytes, StoreError>,
        directories: &mut Directories,
    ) -> ControlFlow<()> {
        if found.is_ok() {
            Counts::add(&self.context.counts.fetched, chunk.leaf.len);
        }
        self.deliver(chunk, found.map_err(|error| self.context.reason(error)), directories)
    }

    /// Writes a chunk to its file, or lets it wait for the file's others.
    fn deliver(
        &self,
        chunk: &WantedChunk,
        found: Result<Bytes, String>,
        directories: &mut Directories,
    ) -> ControlFlow<()> {
        self.go_on()?;
        let found = found.and_then(|bytes| match bytes.len() as u64 == chunk.leaf.len {
            true => Ok(bytes),
            false => {
                let (expected, found) = (chunk.leaf.len, bytes.len() as u64);
                Err(describe(&StoreError::RecipeLength { expected, found }))
            }
        });
        match chunk.file {
            FileNumber::Long(number) => {
                self.take_long(&self.window.long[number as usize], chunk.start, found);
            }
            FileNumber::Short(number) => {
                let file = &self.window.short[number as usize];
                match (found, file.chunks) {
                    (Ok(bytes), 1) => {
                        return self.write_short(file, &[(chunk.start, bytes)], directories);
                    }
                    (found, _) => return self.park(number, chunk.start, found, directories),
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Writes a chunk of a file that takes them as they come.
    fn take_long(&self, file: &Arc<RestoredFile>, start: u64, found: Result<Bytes, String>) {
        match found {
            Ok(bytes) => file.write(start, &bytes, self.context),
            Err(reason) => file.fail(reason),
        }
        if file.is_done() {
            self.finish_file(file);
        }
    }

    /// Lets a chunk of a short file wait, or writes the file if it was the last.
    fn park(
        &self,
        number: u32,
        start: u64,
        found: Result<Bytes, String>,
        directories: &mut Directories,
    ) -> ControlFlow<()> {
        let file = &self.window.short[number as usize];
        let mut parked = self.parked.lock().expect("no thread panics with it locked");
        let Parked { files, len } = &mut *parked;
        let new = || Waiting { missing: file.chunks, chunks: Chunks::Kept(Vec::new()) };
        let waiting = files.entry(number).or_insert_with(new);
        waiting.missing -= 1;
        let is_last = waiting.missing == 0;
        match (&mut waiting.chunks, found) {
            (Chunks::Lost(_), _) => {}
            (Chunks::Kept(chunks), Ok(bytes)) => {
                *len += bytes.len();
                // A slice would keep all of its group.
                let bytes = if is_last { bytes } else { Bytes::copy_from_slice(&bytes) };
                chunks.push((start, bytes));
            }
            (Chunks::Written(written), Ok(bytes)) => written.write(start, &bytes, self.context),
            (chunks, Err(reason)) => {
                if let Chunks::Kept(kept) = chunks {
                    *len -= kept.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
                }
                if let Chunks::Written(written) = chunks {
                    written.give_up(self.context);
                }
                *chunks = Chunks::Lost(reason);
            }
        }
        if is_last {
            let waiting = files.remove(&number).expect("it was just there");
            if let Chunks::Kept(chunks) = &waiting.chunks {
                *len -= chunks.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
            }
            drop(parked);
            return self.complete(file, waiting.chunks, directories);
        }
        if *len > MAX_PARKED
            && let Chunks::Kept(chunks) = &mut waiting.chunks
        {
            *len -= chunks.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
            let chunks = std::mem::take(chunks);
            waiting.chunks = self.spill(file, &chunks, directories);
        }
        ControlFlow::Continue(())
    }

    /// Writes the chunks of a file that are there to the file, to make room.
    fn spill(
        &self,
        file: &ShortFile,
        chunks: &[(u64, Bytes)],
        directories: &mut Directories,
    ) -> Chunks {
        match self.restored(file, directories) {
            Ok(restored) => {
                let restored = Arc::new(restored);
                chunks
                    .iter()
                    .for_each(|(start, bytes)| restored.write(*start, bytes, self.context));
                Chunks::Written(restored)
            }
            Err((_, reason)) => Chunks::Lost(reason),
        }
    }

    /// Finishes a short file of which all chunks came.
    fn complete(
        &self,
        file: &ShortFile,
        chunks: Chunks,
        directories: &mut Directories,
    ) -> ControlFlow<()> {
        match chunks {
            Chunks::Kept(mut chunks) => {
                chunks.sort_unstable_by_key(|(start, _)| *start);
                return self.write_short(file, &chunks, directories);
            }
            Chunks::Written(restored) => self.finish_file(&restored),
            Chunks::Lost(reason) => {
                let entry = self.window.entry(file);
                let mut path = Components::clone(&file.directory);
                path.push(entry.name[..].into());
                self.context.failed(&path, reason);
            }
        }
        ControlFlow::Continue(())
    }

    /// Writes a short file of `chunks`, which are all it has, in order.
    fn write_short(
        &self,
        file: &ShortFile,
        chunks: &[(u64, Bytes)],
        directories: &mut Directories,
    ) -> ControlFlow<()> {
        self.go_on()?;
        match self.restored(file, directories) {
            Ok(restored) => {
                chunks
                    .iter()
                    .for_each(|(start, bytes)| restored.write(*start, bytes, self.context));
                match restored.must_be_synced(self.context) {
                    true => self.finish_file(&Arc::new(restored)),
                    false => restored.finish(self.context),
                }
            }
            Err((path, reason)) => self.context.failed(&path, reason),
        }
        ControlFlow::Continue(())
    }

    fn restored(
        &self,
        file: &ShortFile,
        directories: &mut Directories,
    ) -> Result<RestoredFile, (Components, String)> {
        let entry = self.window.entry(file);
        let mut path = Components::clone(&file.directory);
        path.push(entry.name[..].into());
        match directories.open(self.root, &file.directory) {
            Ok(target) => Ok(RestoredFile::new(target, path, entry)),
            Err(error) => Err((path, format!("its directory: {error}"))),
        }
    }

    /// Finishes a file that is whole, or lets it wait until it is synced with the others.
    fn finish_file(&self, file: &Arc<RestoredFile>) {
        if !file.must_be_synced(self.context) {
            return file.finish(self.context);
        }
        let mut unsynced = self.unsynced.lock().expect("no thread panics with it locked");
        unsynced.push(Arc::clone(file));
    }

    /// Syncs and finishes what waits for that; what is not whole because the restore `is_stopped` is
    /// removed, unless it is worth to be gone on with.
    fn finish(self, is_stopped: bool) {
        let unsynced = self.unsynced.into_inner().expect("no thread panics with it locked");
        sync(&unsynced, self.root, self.context);
        unsynced.iter().for_each(|file| file.finish(self.context));
        if is_stopped {
            let parked = self.parked.into_inner().expect("no thread panics with it locked");
            for waiting in parked.files.into_values() {
                if let Chunks::Written(file) = waiting.chunks {
                    file.give_up(self.context);
                }
            }
            self.window.give_up(self.context);
        }
    }

    /// Calls `work` with directories that no other thread uses now.
    fn with_directories<T>(&self, work: impl FnOnce(&mut Directories) -> T) -> T {
        let pool = || self.directories.lock().expect("no thread panics with it locked");
        let mut directories = pool().pop().unwrap_or_default();
        let result = work(&mut directories);
        pool().push(directories);
        result
    }
}

/// Room beside the target for what windows want in common; none where the file system has no files
/// without names.
fn scratch(root: &Target) -> Option<Scratch> {
    let free = rustix::fs::fstatvfs(root.descriptor()).ok()?;
    let free = free.f_bavail.saturating_mul(free.f_frsize);
    let capacity = MAX_SCRATCH.min(free / SCRATCH_SHARE);
    Some(Scratch::new(nameless::create(root).ok()?, capacity))
}

/// Makes the bytes of `files` durable.
fn sync(files: &[Arc<RestoredFile>], root: &Target, context: &Context<'_>) {
    if files.len() > SYNCED_ONE_BY_ONE && system::sync_file_system(root.descriptor()).is_ok() {
        return;
    }
    files.iter().for_each(|file| file.sync(context));
}

/// Directories that were used lately.
#[derive(Default)]
struct Directories {
    open: Vec<(Arc<Components>, Arc<Target>)>,
    /// Which of them goes next.
    oldest: usize,
}

impl Directories {
    fn open(&mut self, root: &Target, directory: &Arc<Components>) -> io::Result<Arc<Target>> {
        if let Some((_, target)) = self.open.iter().find(|(known, _)| Arc::ptr_eq(known, directory))
        {
            return Ok(Arc::clone(target));
        }
        let target = Arc::new(root.descend(directory)?);
        let opened = (Arc::clone(directory), Arc::clone(&target));
        if self.open.len() < OPEN_DIRECTORIES {
            self.open.push(opened);
        } else {
            self.open[self.oldest] = opened;
            self.oldest = (self.oldest + 1) % OPEN_DIRECTORIES;
        }
        Ok(target)
    }
}
