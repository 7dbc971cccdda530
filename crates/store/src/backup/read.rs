//! Reading files and cutting them into chunks.
//!
//! Readers fill *batches*: a buffer of about a mebibyte with the chunks of many small files, or of
//! a stretch of a large one. A batch is what passes to the storing threads, so that their work
//! comes in portions worth a hand-over and one large file keeps all of them busy. Buffers come
//! from a pool of fixed size: when storing falls behind, readers wait.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, select_biased};
use onefold_cdc::Chunker;
use onefold_fingerprint::Fingerprint;
use rustix::fs::CWD;

use super::accelerator::{AcceleratorError, Input, Turns};
use super::assemble::{LastSegment, OpenDirectory, OpenFile};
use super::batch::{BATCH_LEN, Batch, Done, Segment};
use super::beneath::{Directory, Held};
use super::opened::Opened;
use super::options::Stream;
use super::share::Large;
use super::source;
use super::stamps::{self, KnownStamps};
use super::stop::Stop;
use crate::chunks::place::Used;
use crate::chunks::reader::ChunkReader;
use crate::tree::{Entry, Meta, Node, Time};
use crate::{IssueKind, Outcome, Progress, Recipe, StoreError};

/// A batch is handed over as well once it holds this many entries that need no storing.
const BATCH_ENTRIES: usize = 512;

/// Something for a reader to do.
pub(super) enum Job {
    /// Back up what is at `path`, anything but a directory.
    Entry {
        path: PathBuf,
        /// The directory that it is read in; none if `path` is where the user said it is.
        beneath: Option<Arc<Directory>>,
        directory: Arc<OpenDirectory>,
        slot: usize,
        name: Vec<u8>,
        /// What the parent snapshot has under this name.
        before: Option<Box<Entry>>,
        /// Whether a block device stands for the bytes that it holds.
        is_device: bool,
    },
    /// Read the stream; it is the only entry of this directory and dates from this moment.
    Stream(Arc<OpenDirectory>, Time),
    /// The directory's listing is complete.
    Listed(Arc<OpenDirectory>),
    /// The directory in this slot could not be listed.
    Dropped(Arc<OpenDirectory>, usize),
}

/// What was attempted on a file and what the operating system said.
type FileError = (&'static str, io::Error);

/// What all readers share.
pub(super) struct Shared<'a> {
    pub(super) chunker: &'a Chunker,
    pub(super) chunks: &'a ChunkReader<'a>,
    pub(super) progress: &'a Progress,
    pub(super) stop: &'a Stop<'a>,
    /// Where chunks are noted that files taken over unread rely on.
    pub(super) used: &'a Used,
    pub(super) force: bool,
    /// What [`Job::Stream`] reads.
    pub(super) stream: Option<&'a Stream>,
    /// When the parent snapshot's backup began.
    pub(super) parent_time: Option<Time>,
    /// What cuts and fingerprints large files and streams, if anything.
    pub(super) accelerated: Option<Turns<'a>>,
    /// Empty buffers, for whoever starts a batch.
    pub(super) pool: Receiver<Vec<u8>>,
    pub(super) batches: Sender<Batch>,
    /// How many readers there are.
    pub(super) readers: usize,
}

/// Takes jobs and fills batches, one of these a thread.
pub(super) struct Reader<'a> {
    pub(super) shared: &'a Shared<'a>,
    /// Large files for any reader that has nothing else to do; none once this has no more jobs.
    offers: Option<Sender<Arc<Large>>>,
    pub(super) batch: Batch,
    /// How much of the batch's buffer is filled.
    pub(super) filled: usize,
    stamps: KnownStamps,
}

/// The file at hand, while it passes through batches.
pub(super) struct Reading {
    file: Arc<OpenFile>,
    /// Where in the buffer the bytes begin that are not cut yet.
    pub(super) start: usize,
    /// How many chunks were cut, and how many before this batch.
    pub(super) chunks: u64,
    chunks_before: u64,
    pub(super) segments: usize,
}

impl Reading {
    /// A file of which so many chunks and segments were cut, and whose next byte is at `start`.
    pub(super) fn at(file: Arc<OpenFile>, start: usize, chunks: u64, segments: usize) -> Self {
        Self { file, start, chunks, chunks_before: chunks, segments }
    }
}

/// Works until no jobs are left and no other reader has a file to share. What goes into `offers`
/// comes out of `offered`, which all readers have.
pub(super) fn run(
    shared: &Shared<'_>,
    jobs: &Receiver<Vec<Job>>,
    offers: Sender<Arc<Large>>,
    offered: &Receiver<Arc<Large>>,
) -> Result<(), StoreError> {
    let batch = new_batch(shared)?;
    let stamps = KnownStamps::default();
    let mut reader = Reader { shared, offers: Some(offers), batch, filled: 0, stamps };
    loop {
        select_biased! {
            recv(offered) -> large => {
                reader.take_part(&large.expect("this reader may offer"))?;
            }
            recv(jobs) -> several => match several {
                Ok(several) => several.into_iter().try_for_each(|job| reader.work(job))?,
                Err(_) => break,
            },
        }
    }
    reader.send()?;
    // The offers end when the last reader has no more jobs.
    reader.offers = None;
    offered.iter().try_for_each(|large| reader.take_part(&large))
}

impl Reader<'_> {
    fn work(&mut self, job: Job) -> Result<(), StoreError> {
        self.shared.stop.check()?;
        self.job(job)?;
        if self.filled >= BATCH_LEN || self.batch.entries.len() >= BATCH_ENTRIES {
            self.send()?;
        }
        Ok(())
    }

    /// Reads a large file together with all readers that have time.
    fn share(&mut self, large: Large) -> Result<(), StoreError> {
        let large = Arc::new(large);
        let offers = self.offers.as_ref().expect("only jobs bring files");
        for _ in 1..self.shared.readers {
            // Where there is no room for another offer everybody has enough to do.
            let _ = offers.try_send(Arc::clone(&large));
        }
        self.take_part(&large)
    }

    fn job(&mut self, job: Job) -> Result<(), StoreError> {
        match job {
            Job::Entry { path, beneath, directory, slot, name, before, is_device } => {
                let held = beneath.map(|beneath| beneath.hold()).transpose();
                let own = OsStr::from_bytes(&name);
                let mut before = before;
                if let (Ok(held), Some(entry)) = (&held, &mut before)
                    && let Some((meta, size)) = self.unchanged(held.as_ref(), &path, own, entry)
                {
                    // All else was compared, or has not changed if the ctime has not.
                    entry.meta.dev = meta.dev;
                    self.reuse(&path, directory, slot, *before.expect("it was just there"), size);
                    return Ok(());
                }
                let done = match held {
                    Ok(held) => {
                        let at = held.as_ref().map(|held| held.path_of(own));
                        let at = (at.as_deref().unwrap_or(&path), &*path);
                        self.entry(at, &directory, slot, &name, before, is_device)?
                    }
                    Err(error) => Err(("stat", error)),
                };
                if let Err(issue) = done {
                    let (action, source) = issue;
                    self.shared.progress.issue(path, IssueKind::Unreadable { action, source });
                    self.done(directory, slot, None);
                }
            }
            Job::Stream(directory, time) => {
                let stream = self.shared.stream.expect("only a stream's backup sends the job");
                self.stream(stream, &directory, time)?;
            }
            Job::Listed(directory) => self.batch.entries.push(Done::Listed(directory)),
            Job::Dropped(directory, slot) => self.done(directory, slot, None),
        }
        Ok(())
    }

    fn done(&mut self, directory: Arc<OpenDirectory>, slot: usize, entry: Option<Entry>) {
        self.batch.entries.push(Done::Entry(directory, slot, entry.map(Box::new)));
    }

    /// Backs up one entry, which is read at the first path and called by the second. The inner error
    /// is the file's, the outer one the repository's.
    fn entry(
        &mut self,
        (at, path): (&Path, &Path),
        directory: &Arc<OpenDirectory>,
        slot: usize,
        name: &[u8],
        before: Option<Box<Entry>>,
        is_device: bool,
    ) -> Result<Result<(), FileError>, StoreError> {
        let metadata = match at.symlink_metadata() {
            Ok(metadata) => metadata,
            Err(error) => return Ok(Err(("stat", error))),
        };
        if metadata.is_file() || is_device {
            let outcome = if before.is_some() { Outcome::Changed } else { Outcome::New };
            return self.file((at, path), directory, slot, name, outcome, is_device);
        }
        let special = || -> io::Result<Entry> {
            let no_node =
                || io::Error::other("it became a directory while the directory above was listed");
            let node = source::special_node(at, &metadata)?.ok_or_else(no_node)?;
            let meta = source::meta_of(at, &metadata)?;
            Ok(Entry { name: name.to_vec(), meta, node })
        };
        match special() {
            Ok(entry) => {
                let outcome = match before {
                    None => Outcome::New,
                    Some(before) if *before == entry => Outcome::Unchanged,
                    Some(_) => Outcome::Changed,
                };
                self.shared.progress.entry(path, outcome);
                self.done(Arc::clone(directory), slot, Some(entry));
            }
            Err(error) => return Ok(Err(("read", error))),
        }
        Ok(Ok(()))
    }

    /// Metadata and size of the file `name` in the directory `held`, or else at `path`, if the parent
    /// snapshot's entry `before` can stand for it.
    fn unchanged(
        &mut self,
        held: Option<&Held>,
        path: &Path,
        name: &OsStr,
        before: &Entry,
    ) -> Option<(Meta, u64)> {
        let Node::File { content, .. } = &before.node else { return None };
        let begun = self.shared.parent_time.filter(|_| !self.shared.force)?;
        // What cannot be looked at is told of by whoever reads it.
        let looked = match held {
            Some(held) => source::look_at_file(held.file(), name),
            None => source::look_at_file(CWD, path.as_os_str()),
        };
        let (meta, size) = looked.ok().flatten()?;
        if !source::is_unchanged(before, &meta, size) {
            return None;
        }
        let stamps = self
            .stamps
            .of(meta.dev, || held.map_or_else(|| path.to_owned(), |held| held.path_of(name)));
        // A container may have been lost since: what is gone is read again.
        let can_stand = stamps::is_settled(before, begun, stamps)
            && self.shared.chunks.has_all(content, self.shared.used);
        can_stand.then_some((meta, size))
    }

    /// Takes `entry`, of which all chunks are stored, for the file of `size` bytes at `path`.
    fn reuse(
        &mut self,
        path: &Path,
        directory: Arc<OpenDirectory>,
        slot: usize,
        entry: Entry,
        size: u64,
    ) {
        let progress = self.shared.progress;
        progress.entry(path, Outcome::Unchanged);
        Progress::add(&progress.files, 1);
        Progress::add(&progress.unchanged_files, 1);
        Progress::add(&progress.bytes, size);
        self.done(directory, slot, Some(entry));
    }

    fn file(
        &mut self,
        paths: (&Path, &Path),
        directory: &Arc<OpenDirectory>,
        slot: usize,
        name: &[u8],
        outcome: Outcome,
        is_device: bool,
    ) -> Result<Result<(), FileError>, StoreError> {
        let opened = match Opened::new(paths, name, outcome, is_device) {
            Ok(opened) => opened,
            Err(error) => return Ok(Err(("open", error))),
        };
        let file = OpenFile::new(Arc::clone(directory), slot);
        let chunker = self.shared.chunker;
        let len = opened.content_len();
        let read_next = |buffer: &mut [u8], done| opened.read_next(buffer, done);
        if let Some(reading) = self.accelerated(len, &file, read_next) {
            let (reading, content) = reading?;
            self.finish(reading, &opened, content);
            self.send()?;
            return Ok(Ok(()));
        }
        if self.shared.readers > 1 && Large::is_large(&opened, chunker) {
            self.share(Large::new(opened, file, chunker))?;
            return Ok(Ok(()));
        }
        let mut reading = Reading::at(file, self.filled, 0, 0);
        let content = self.content(len, &mut reading, read_next)?;
        self.finish(reading, &opened, content);
        Ok(Ok(()))
    }

    /// Ends a file of which `content` bytes were read and cut, if it could be read.
    pub(super) fn finish(&mut self, reading: Reading, opened: &Opened, content: io::Result<u64>) {
        let progress = self.shared.progress;
        let entry = match content {
            Ok(content) => {
                let (entry, has_changed) = opened.entry(content);
                if has_changed {
                    progress.issue(&opened.path, IssueKind::Changed);
                }
                Progress::add(&progress.files, 1);
                progress.entry(&opened.path, opened.outcome);
                Some(entry)
            }
            Err(source) => {
                let kind = IssueKind::Unreadable { action: "read", source };
                progress.issue(&opened.path, kind);
                None
            }
        };
        self.finish_file(reading, entry);
    }

    /// Backs up what comes from `stream`; all of it or the backup fails.
    fn stream(
        &mut self,
        stream: &Stream,
        directory: &Arc<OpenDirectory>,
        time: Time,
    ) -> Result<(), StoreError> {
        let failed = |reason| StoreError::Stream {
            name: String::from_utf8_lossy(&stream.name).into_owned(),
            reason,
        };
        let file = OpenFile::new(Arc::clone(directory), 0);
        let read_next = |buffer: &mut [u8], _| (&stream.input).read(buffer);
        let (reading, size) = match self.accelerated(u64::MAX, &file, read_next) {
            Some(read) => read?,
            None => {
                let mut reading = Reading::at(file, self.filled, 0, 0);
                let size = self.content(u64::MAX, &mut reading, read_next)?;
                (reading, size)
            }
        };
        let size = size.map_err(|error| failed(error.to_string()))?;
        // A signal that stops the program on the other side as well looks like an end.
        self.shared.stop.check()?;
        (stream.expect_whole)().map_err(failed)?;
        let meta = source::meta_of_stream(time);
        let content = Recipe { len: size, ..Recipe::EMPTY };
        let node = Node::File { size, content, extents: None };
        self.finish_file(reading, Some(Entry { name: stream.name.clone(), meta, node }));
        Progress::add(&self.shared.progress.files, 1);
        self.send()
    }

    /// Has the accelerator read, cut and fingerprint what [`content`](Self::content) would; `None` if it is
    /// not for this file. The batch after it holds no chunks but those of `file`.
    fn accelerated(
        &mut self,
        len: u64,
        file: &Arc<OpenFile>,
        read_next: impl Fn(&mut [u8], u64) -> io::Result<usize> + Send,
    ) -> Option<Result<(Reading, io::Result<u64>), StoreError>> {
        let shared = self.shared;
        shared.accelerated.as_ref()?.with(len, |turns| {
            self.send()?;
            let mut reading = Reading::at(Arc::clone(file), 0, 0, 0);
            let mut input = Input::new(len, shared.progress, shared.stop, read_next);
            let mut stored = Ok(());
            let ran =
                turns.accelerator.run(shared.chunker, &mut input, &mut |chunk, fingerprint| {
                    stored = self.push_known(&mut reading, chunk, fingerprint);
                    stored.is_ok().then_some(()).ok_or_else(|| io::Error::other("stopped"))
                });
            shared.stop.check()?;
            stored?;
            let content = match ran {
                Ok(()) => Ok(input.done),
                Err(AcceleratorError::Read(error)) => Err(error),
                Err(AcceleratorError::Lost(error)) => return Err(StoreError::Accelerator(error)),
                Err(AcceleratorError::Store) => return Err(StoreError::Stopped),
            };
            Ok((reading, content))
        })
    }

    /// Adds a copy of `chunk`, whose fingerprint is known, to the batch.
    fn push_known(
        &mut self,
        reading: &mut Reading,
        chunk: &[u8],
        fingerprint: Fingerprint,
    ) -> Result<(), StoreError> {
        if self.filled + chunk.len() > self.batch.buffer.len() {
            self.hand_over(reading)?;
        }
        let end = self.filled + chunk.len();
        self.batch.buffer[self.filled..end].copy_from_slice(chunk);
        self.filled = end;
        self.batch.fingerprints.push(fingerprint);
        self.push_chunks(reading, &[end]);
        Ok(())
    }

    /// Reads and cuts `len` bytes, or as many as come before `read_next` gives none; how many that
    /// were. `read_next` is told how many it has read before.
    fn content(
        &mut self,
        len: u64,
        reading: &mut Reading,
        read_next: impl Fn(&mut [u8], u64) -> io::Result<usize>,
    ) -> Result<io::Result<u64>, StoreError> {
        let mut done = 0;
        while done < len {
            if self.filled == self.batch.buffer.len() {
                self.cut(reading, false);
                self.hand_over(reading)?;
            }
            let room = self.batch.buffer.len() - self.filled;
            let wanted = room.min(usize::try_from(len - done).unwrap_or(room));
            match read_next(&mut self.batch.buffer[self.filled..self.filled + wanted], done) {
                Ok(0) => break,
                Ok(read) => {
                    self.filled += read;
                    done += read as u64;
                    Progress::add(&self.shared.progress.bytes, read as u64);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Ok(Err(error)),
            }
        }
        self.cut(reading, true);
        Ok(Ok(done))
    }

    /// Cuts what is filled and not cut yet; with `is_end` to the last byte, else as far as the
    /// bytes decide.
    pub(super) fn cut(&mut self, reading: &mut Reading, is_end: bool) {
        let chunker = self.shared.chunker;
        while reading.start < self.filled {
            let rest = &self.batch.buffer[reading.start..self.filled];
            let len = match is_end {
                true => chunker.last_cut(rest),
                false => chunker.next_cut(rest),
            };
            let Some(len) = len else { return };
            self.push_chunks(reading, &[reading.start + len]);
        }
    }

    /// Adds the chunks that end at `ends` in the buffer.
    pub(super) fn push_chunks(&mut self, reading: &mut Reading, ends: &[usize]) {
        for end in ends {
            self.batch.chunks.push(reading.start..*end);
            reading.start = *end;
        }
        reading.chunks += ends.len() as u64;
    }

    /// Sends the batch while a file is being read, and goes on with what is not cut yet at the
    /// start of the next one.
    fn hand_over(&mut self, reading: &mut Reading) -> Result<(), StoreError> {
        self.shared.stop.check()?;
        self.keep_pace(&reading.file, reading.chunks_before)?;
        self.push_segment(reading, None);
        let mut next = new_batch(self.shared)?;
        let uncut = reading.start..self.filled;
        let kept = uncut.len();
        next.buffer[..kept].copy_from_slice(&self.batch.buffer[uncut]);
        let full = std::mem::replace(&mut self.batch, next);
        self.shared.batches.send(full).map_err(|_| StoreError::Stopped)?;
        (reading.start, self.filled) = (0, kept);
        Ok(())
    }

    /// Waits until storing has come near chunk number `next` of `file`, so that the chunks whose
    /// place in the recipe has not come take bounded memory. It hardly ever has to.
    pub(super) fn keep_pace(&self, file: &OpenFile, next: u64) -> Result<(), StoreError> {
        while file.is_far_behind(next) {
            self.shared.stop.check()?;
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn finish_file(&mut self, mut reading: Reading, entry: Option<Entry>) {
        let last = LastSegment { segments: reading.segments + 1, entry };
        self.push_segment(&mut reading, Some(last));
        // Bytes of a file that failed are not cut; the next file begins after them.
    }

    pub(super) fn push_segment(&mut self, reading: &mut Reading, last: Option<LastSegment>) {
        self.batch.segments.push(Segment {
            file: Arc::clone(&reading.file),
            first: reading.chunks_before,
            count: (reading.chunks - reading.chunks_before) as usize,
            last,
        });
        reading.chunks_before = reading.chunks;
        reading.segments += 1;
    }

    /// Sends what is in the batch, if anything is, and begins the next one.
    pub(super) fn send(&mut self) -> Result<(), StoreError> {
        if self.batch.segments.is_empty() && self.batch.entries.is_empty() {
            return Ok(());
        }
        let full = std::mem::replace(&mut self.batch, new_batch(self.shared)?);
        self.filled = 0;
        self.shared.batches.send(full).map_err(|_| StoreError::Stopped)
    }
}

fn new_batch(shared: &Shared<'_>) -> Result<Batch, StoreError> {
    let buffer = shared.pool.recv().map_err(|_| StoreError::Stopped)?;
    Ok(Batch {
        buffer,
        chunks: Vec::new(),
        fingerprints: Vec::new(),
        segments: Vec::new(),
        entries: Vec::new(),
    })
}
