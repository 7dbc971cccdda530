//! Files that stand where others are to be restored: often they are older versions of them.
//!
//! A window cuts them as the repository cuts, and takes from them what any of its files wants. Beside
//! what changed, chunks may end elsewhere than in the repository; so what is missing then is compared
//! where it belongs. A chunk is verified by its fingerprint in memory and written from there, so a file
//! that changes meanwhile gives less and harms nothing. Only places where the snapshot's file has bytes
//! are read: holes cost nothing.
//!
//! This is done only where the repository is far away. Near, a group is decoded once for all files that
//! want it, while every file would be read, cut and fingerprinted.

use std::fs::File;
use std::io::{self, Read};
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

use onefold_cdc::Chunker;
use onefold_fingerprint::Fingerprint;

use super::seed;
use super::target::Target;
use super::wanted::{FileNumber, WantedChunk};
use super::window::{MAX_SHORT, Window};
use crate::tree::layout::Layout;
use crate::tree::{Entry, Node};

/// A long file is read this many bytes in front of what a window wants of it, and as many behind: its
/// bytes may have moved, and cuts that begin anywhere must meet those of the repository. A multiple of
/// the usual sizes of fixed chunks.
const SLACK: u64 = 16 << 20;

/// A file of a window in whose place another stands.
pub(super) struct Standing {
    pub(super) file: FileNumber,
    /// Bytes of the content that are cut.
    stretch: Range<u64>,
}

/// The files of `window` in whose place others stand.
pub(super) fn files(window: &Window) -> Vec<Standing> {
    if window.standing.is_empty() {
        return Vec::new();
    }
    let mut wanted: Vec<Option<Range<u64>>> = vec![None; window.long.len()];
    for WantedChunk { file, start, leaf, .. } in &window.chunks {
        if let FileNumber::Long(number) = file {
            let all = wanted[*number as usize].get_or_insert(*start..*start);
            *all = all.start.min(*start)..all.end.max(start + leaf.len);
        }
    }
    let stretch = |file: FileNumber| match file {
        FileNumber::Short(_) => Some(0..MAX_SHORT + SLACK),
        FileNumber::Long(number) => wanted[number as usize]
            .as_ref()
            .map(|all| all.start.saturating_sub(SLACK)..all.end.saturating_add(SLACK)),
    };
    let files = window.standing.iter();
    files.filter_map(|file| Some(Standing { file: *file, stretch: stretch(*file)? })).collect()
}

/// What stands in the place of a file, by the content of that file.
pub(super) struct Content {
    file: File,
    layout: Layout,
}

impl Content {
    /// Opens what stands in the place of `entry` in `target`, if it is a regular file.
    pub(super) fn open(target: &Target, entry: &Entry) -> io::Result<Self> {
        let file = target.open_file(&entry.name)?;
        let Node::File { extents, .. } = &entry.node else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        match file.metadata()?.is_file() {
            true => Ok(Self { file, layout: Layout::new(extents.as_deref()) }),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Cuts what is wanted of it and gives each chunk to `take`.
    pub(super) fn cut(
        &self,
        standing: &Standing,
        chunker: &Chunker,
        take: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> io::Result<()> {
        let Range { start, end } = standing.stretch;
        let stretch = Stretch { content: self, at: start, end };
        seed::cut(stretch, chunker, &mut |_, bytes| take(bytes))
    }

    /// The `len` bytes from `start` on.
    pub(super) fn bytes(&self, start: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.layout
            .place(start, len, |offset, part| self.file.read_exact_at(&mut bytes[part], offset))?;
        Ok(bytes)
    }
}

/// Reads a stretch of content from its beginning to its end.
struct Stretch<'a> {
    content: &'a Content,
    at: u64,
    end: u64,
}

impl Read for Stretch<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = (self.end - self.at).min(buffer.len() as u64) as usize;
        // The first bytes that lie together end the search.
        let first = self.content.layout.place(self.at, len, |offset, part| Err((offset, part)));
        let Err((offset, part)) = first else { return Ok(0) };
        let read = self.content.file.read_at(&mut buffer[part], offset)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Chunks that are wanted, by their fingerprints.
pub(super) struct Sought<'w> {
    /// In ascending order of fingerprints.
    chunks: Vec<&'w WantedChunk>,
    /// Whether a chunk was found, at the position of the first that wants it.
    is_found: Vec<AtomicBool>,
}

impl<'w> Sought<'w> {
    pub(super) fn new(mut chunks: Vec<&'w WantedChunk>) -> Self {
        chunks.sort_unstable_by_key(|chunk| chunk.leaf.root);
        let is_found = chunks.iter().map(|_| AtomicBool::new(false)).collect();
        Self { chunks, is_found }
    }

    /// All that want the chunk `fingerprint`; none if it was found before.
    pub(super) fn find(&self, fingerprint: &Fingerprint) -> &[&'w WantedChunk] {
        let first = self.chunks.partition_point(|chunk| chunk.leaf.root < *fingerprint);
        let same = self.chunks[first..].partition_point(|chunk| chunk.leaf.root == *fingerprint);
        match same == 0 || self.is_found[first].swap(true, Ordering::Relaxed) {
            true => &[],
            false => &self.chunks[first..first + same],
        }
    }

    /// Those that were not found.
    pub(super) fn left(self) -> Vec<&'w WantedChunk> {
        let mut left = Vec::new();
        let mut first = 0;
        for same in self.chunks.chunk_by(|a, b| a.leaf.root == b.leaf.root) {
            if !self.is_found[first].load(Ordering::Relaxed) {
                left.extend_from_slice(same);
            }
            first += same.len();
        }
        left
    }
}
