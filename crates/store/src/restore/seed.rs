//! Seeds: files, and directories of files, that the user names and that may hold what is to be restored.
//!
//! Their files are cut as the repository cuts, so whatever they have in common with what was backed up
//! is found wherever it moved. What is taken is verified by its fingerprint when it is read, so files
//! that change meanwhile, or that somebody made for it, harm nothing. No symbolic link is followed.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use onefold_cdc::Chunker;
use onefold_fingerprint::Fingerprint;
use rustix::fs::FileType;

use super::target::{Components, Target};
use super::wanted::WantedChunk;
use crate::chunks::reader::ChunkReader;
use crate::contents::expect_contents;
use crate::threads::each;
use crate::{Cancel, Progress, StoreError};

/// So many chunks of seeds are remembered at most, 64 bytes each or so.
const MAX_CHUNKS: usize = 1 << 21;
/// Bytes that are read at a time.
const READ_LEN: usize = 1 << 20;
/// Chunks of a file that a thread takes at a time.
const RUN: usize = 256;

/// Where chunks lie in seeds.
#[derive(Default)]
pub(super) struct Seeds {
    roots: Vec<Target>,
    files: Vec<SeedFile>,
    chunks: HashMap<Fingerprint, SeedPlace>,
}

/// A file of a seed.
struct SeedFile {
    /// Which seed.
    root: usize,
    directory: Arc<Components>,
    name: Vec<u8>,
}

/// Where a chunk lies in seeds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SeedPlace {
    file: u32,
    start: u64,
}

/// Chunks of one file of a seed that are wanted.
struct Run<'w> {
    file: u32,
    chunks: Vec<(u64, &'w WantedChunk)>,
}

impl Seeds {
    /// Cuts all files below `paths`, on `threads` threads, and remembers those of their chunks that the
    /// repository has. A file that cannot be read is no seed.
    pub(super) fn read(
        paths: &[PathBuf],
        chunker: &Chunker,
        reader: &ChunkReader<'_>,
        threads: usize,
        (progress, cancel): (&Progress, &Cancel),
    ) -> Result<Self, StoreError> {
        let mut seeds = Self::default();
        for path in paths {
            seeds.add(path).map_err(StoreError::file("open seed", path))?;
        }
        let found = Mutex::new(HashMap::new());
        let numbered: Vec<u32> = (0..seeds.files.len() as u32).collect();
        let flow = each(threads, &numbered, |number| {
            let Ok(file) = seeds.open(*number) else { return ControlFlow::Continue(()) };
            progress.at(|| seeds.show(paths, *number));
            // As far as it can be read.
            let _ = cut(file, chunker, &mut |start, bytes| {
                let fingerprint = reader.fingerprint(bytes);
                Progress::add(&progress.seed_bytes, bytes.len() as u64);
                if reader.knows(&fingerprint) {
                    let mut found = found.lock().expect("no thread panics with it locked");
                    if found.len() < MAX_CHUNKS {
                        found.entry(fingerprint).or_insert(SeedPlace { file: *number, start });
                    }
                }
                match cancel.is_cancelled() {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
            match cancel.is_cancelled() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        if flow.is_break() {
            return Err(StoreError::Interrupted);
        }
        seeds.chunks = found.into_inner().expect("no thread panics with it locked");
        Ok(seeds)
    }

    /// Adds the files below `path`, or the file or block device that it leads to.
    fn add(&mut self, path: &Path) -> io::Result<()> {
        let real = path.canonicalize()?;
        let root = self.roots.len();
        if let (false, Some(above), Some(name)) = (real.is_dir(), real.parent(), real.file_name()) {
            self.roots.push(Target::open_nearest(above)?.0);
            let name = name.as_bytes().to_vec();
            self.files.push(SeedFile { root, directory: Arc::default(), name });
            return expect_contents(&real.metadata()?);
        }
        self.roots.push(Target::open_nearest(&real)?.0);
        self.list(root);
        Ok(())
    }

    /// Lists the regular files of a seed. What cannot be listed is passed over.
    fn list(&mut self, root: usize) {
        let mut left = vec![Components::new()];
        while let Some(path) = left.pop() {
            let Ok(directory) = self.roots[root].descend(&path) else { continue };
            let path = Arc::new(path);
            for name in directory.names().unwrap_or_default() {
                let Ok(Some(stat)) = directory.stat(&name) else { continue };
                match FileType::from_raw_mode(stat.st_mode) {
                    FileType::Directory => {
                        let mut below = Components::clone(&path);
                        below.push(name.into());
                        left.push(below);
                    }
                    FileType::RegularFile => {
                        self.files.push(SeedFile { root, directory: Arc::clone(&path), name });
                    }
                    _ => {}
                }
            }
        }
    }

    /// The path of a file, for messages only.
    fn show(&self, paths: &[PathBuf], number: u32) -> PathBuf {
        let SeedFile { root, directory, name } = &self.files[number as usize];
        let mut shown = paths[*root].clone();
        if !shown.is_dir() {
            return shown;
        }
        shown.extend(directory.iter().map(|name| OsStr::from_bytes(name)));
        shown.join(OsStr::from_bytes(name))
    }

    fn open(&self, number: u32) -> io::Result<File> {
        let SeedFile { root, directory, name } = &self.files[number as usize];
        self.roots[*root].descend(directory)?.open_file(name)
    }

    /// Gives each chunk of `wanted` that seeds have to `take`, on `threads` threads, and leaves the
    /// others there.
    pub(super) fn serve<'w>(
        &self,
        wanted: &mut Vec<&'w WantedChunk>,
        reader: &ChunkReader<'_>,
        threads: usize,
        take: &(dyn Fn(&'w WantedChunk, Bytes) -> ControlFlow<()> + Sync),
    ) -> ControlFlow<()> {
        let runs = self.take(wanted);
        let gone = Mutex::new(Vec::new());
        each(threads, &runs, |run| {
            self.chunks(run, reader, &mut |chunk, found| match found {
                Some(bytes) => take(chunk, bytes),
                None => {
                    gone.lock().expect("no thread panics with it locked").push(chunk);
                    ControlFlow::Continue(())
                }
            })
        })?;
        wanted.extend(gone.into_inner().expect("no thread panics with it locked"));
        ControlFlow::Continue(())
    }

    /// Takes the chunks that seeds have out of `wanted`, those of one file together.
    fn take<'w>(&self, wanted: &mut Vec<&'w WantedChunk>) -> Vec<Run<'w>> {
        if self.chunks.is_empty() {
            return Vec::new();
        }
        let mut seeded = Vec::new();
        wanted.retain(|chunk| match self.chunks.get(&chunk.leaf.root) {
            Some(place) => {
                seeded.push((*place, *chunk));
                false
            }
            None => true,
        });
        seeded.sort_unstable_by_key(|(place, _)| *place);
        let mut runs: Vec<Run<'_>> = Vec::new();
        for (place, chunk) in seeded {
            match runs.last_mut() {
                Some(run) if run.file == place.file && run.chunks.len() < RUN => {
                    run.chunks.push((place.start, chunk));
                }
                _ => runs.push(Run { file: place.file, chunks: vec![(place.start, chunk)] }),
            }
        }
        runs
    }

    /// Reads the chunks of `run` and gives each to `take`, or nothing where the seed no longer has it.
    fn chunks<'w>(
        &self,
        run: &Run<'w>,
        reader: &ChunkReader<'_>,
        take: &mut dyn FnMut(&'w WantedChunk, Option<Bytes>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let file = self.open(run.file).ok();
        run.chunks.iter().try_for_each(|(start, chunk)| {
            let read = |file: &File| {
                let mut bytes = vec![0; chunk.leaf.len as usize];
                file.read_exact_at(&mut bytes, *start).ok()?;
                (reader.fingerprint(&bytes) == chunk.leaf.root).then(|| Bytes::from(bytes))
            };
            // A recipe that lies about a length is no reason to take memory for it.
            let is_sane = chunk.leaf.len <= u64::from(onefold_container::MAX_GROUP_LEN);
            take(chunk, file.as_ref().filter(|_| is_sane).and_then(read))
        })
    }
}

/// Cuts what `content` gives, and gives each chunk to `take`, with its start.
pub(super) fn cut(
    mut content: impl Read,
    chunker: &Chunker,
    take: &mut dyn FnMut(u64, &[u8]) -> ControlFlow<()>,
) -> io::Result<()> {
    let (mut bytes, mut start, mut is_end) = (Vec::new(), 0, false);
    while !is_end {
        is_end = content.by_ref().take(READ_LEN as u64).read_to_end(&mut bytes)? == 0;
        let mut at = 0;
        while at < bytes.len() {
            let len = match is_end {
                true => chunker.last_cut(&bytes[at..]),
                false => chunker.next_cut(&bytes[at..]),
            };
            let Some(len) = len else { break };
            if take(start + at as u64, &bytes[at..at + len]).is_break() {
                return Ok(());
            }
            at += len;
        }
        bytes.drain(..at);
        start += at as u64;
    }
    Ok(())
}
