//! What is restored together: files, and where the chunks lie that they want.
//!
//! A group of chunks is fetched and decoded as a whole. Versions of a tree have most chunks in common,
//! and each has a few in groups of every version before it: in the order of the tree, its files would
//! ask for nearly every group once for each version. So files wait until there is a window of them,
//! and then each group is fetched once for all of them.

use std::ops::Range;
use std::sync::Arc;

use onefold_seal::wire::Reader;

use super::context::Context;
use super::file::RestoredFile;
use super::target::Components;
use super::wanted::{FileNumber, WantedChunk};
use crate::tree::{self, Detail, Entry, Meta, Node};
use crate::{Place, Recipe};

/// A file with more bytes is open from its first chunk to its last. A shorter one is written at once,
/// when all its chunks are there.
pub(super) const MAX_SHORT: u64 = 1 << 20;
/// Bytes of a window: encoded entries, chunks, and what is kept beside them. While one is written
/// another is collected. The first is smaller, so that writing begins soon.
const FIRST_LEN: usize = 4 << 20;
const LEN: usize = 28 << 20;
/// Bytes of long files that are unfinished at a time, about, and their chunks.
const MAX_UNFINISHED: u64 = 4 << 30;
const MAX_LONG_CHUNKS: usize = 1 << 16;
/// What a long file takes in memory, about.
const LONG_FILE_LEN: usize = 1 << 10;

/// Descriptors that are left for other than long files, of those that the process may have.
const OTHER_DESCRIPTORS: u64 = 400;

/// Files that wait, and their chunks.
pub(super) struct Window {
    /// Encoded, of short files.
    entries: Vec<u8>,
    pub(super) short: Vec<ShortFile>,
    pub(super) long: Vec<Arc<RestoredFile>>,
    pub(super) chunks: Vec<WantedChunk>,
    /// Which of them replace a file that may have some of their chunks.
    pub(super) standing: Vec<FileNumber>,
    /// Bytes of chunks of long files, and how many there are.
    unfinished: u64,
    long_chunks: usize,
    /// The bounds of its bytes and of its long files.
    max_len: usize,
    max_long: usize,
}

/// A file that is written at once.
pub(super) struct ShortFile {
    /// Where its entry is encoded.
    entry: Range<usize>,
    pub(super) directory: Arc<Components>,
    /// How many chunks it has.
    pub(super) chunks: u32,
}

impl Window {
    /// The first window.
    pub(super) fn first() -> Self {
        Self::with_bounds(FIRST_LEN, max_long_files())
    }

    /// The one after.
    pub(super) fn next(&self) -> Self {
        Self::with_bounds(LEN, self.max_long)
    }

    /// Whether no window came before it.
    pub(super) fn is_first(&self) -> bool {
        self.max_len == FIRST_LEN
    }

    fn with_bounds(max_len: usize, max_long: usize) -> Self {
        let (entries, short, long, chunks, standing) = Default::default();
        let (unfinished, long_chunks) = (0, 0);
        Self { entries, short, long, chunks, standing, unfinished, long_chunks, max_len, max_long }
    }

    /// Whether the file `entry` is written at once.
    pub(super) const fn is_short(size: u64) -> bool {
        size <= MAX_SHORT
    }

    /// Lets a short file of `directory` wait, of the chunks that `leaves` gives with their places.
    pub(super) fn push_short(
        &mut self,
        directory: &Arc<Components>,
        entry: &Entry,
        leaves: Vec<(Option<Place>, Recipe)>,
    ) -> FileNumber {
        let start = self.entries.len();
        // of the rest nothing is restored
        let Meta { mode, uid, gid, mtime, .. } = entry.meta;
        let xattrs = entry.meta.xattrs.clone();
        let meta = Meta { mode, uid, gid, mtime, xattrs, ..Meta::default() };
        let (name, node) = (entry.name.clone(), entry.node.clone());
        tree::encode_entry(&Entry { name, meta, node }, &mut self.entries);
        let (entry, chunks) = (start..self.entries.len(), leaves.len() as u32);
        let file = FileNumber::Short(self.short.len() as u32);
        self.short.push(ShortFile { entry, directory: Arc::clone(directory), chunks });
        let mut start = 0;
        for (place, leaf) in leaves {
            self.chunks.push(WantedChunk { place, leaf, file, start });
            start += leaf.len;
        }
        file
    }

    /// Adds a long file, of which some chunks follow.
    pub(super) fn push_long(&mut self, file: &Arc<RestoredFile>) -> FileNumber {
        self.long.push(Arc::clone(file));
        FileNumber::Long(self.long.len() as u32 - 1)
    }

    /// Lets a chunk of a long file wait.
    pub(super) fn push_chunk(
        &mut self,
        file: FileNumber,
        start: u64,
        leaf: Recipe,
        place: Option<Place>,
    ) {
        self.unfinished += leaf.len;
        self.long_chunks += 1;
        self.chunks.push(WantedChunk { place, leaf, file, start });
    }

    /// Whether it is time to write them.
    pub(super) fn is_full(&self) -> bool {
        let len = self.entries.len()
            + self.short.len() * size_of::<ShortFile>()
            + self.chunks.len() * size_of::<WantedChunk>()
            + self.standing.len() * size_of::<FileNumber>()
            + self.long.len() * LONG_FILE_LEN;
        len >= self.max_len
            || self.unfinished >= MAX_UNFINISHED
            || self.long_chunks >= MAX_LONG_CHUNKS
            || self.long.len() >= self.max_long
    }

    /// The numbers of the containers that hold its chunks, in order.
    pub(super) fn containers(&self) -> Vec<u32> {
        let places = self.chunks.iter().filter_map(|chunk| chunk.place);
        let mut numbers: Vec<u32> = places.map(|place| place.container).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Gives up those of its long files that are not finished.
    pub(super) fn give_up(&self, context: &Context<'_>) {
        let unfinished = self.long.iter().filter(|file| file.is_unfinished());
        unfinished.for_each(|file| file.give_up(context));
    }

    /// The entry of a short file.
    pub(super) fn entry(&self, file: &ShortFile) -> Entry {
        let mut reader = Reader::new(&self.entries[file.entry.clone()]);
        tree::decode_entry(&mut reader, Detail::All).expect("it was encoded here")
    }
}

/// The size of the file `entry`, in bytes, and its content; nothing of what is no file.
pub(super) fn content_of(entry: &Entry) -> Option<(u64, &Recipe)> {
    match &entry.node {
        Node::File { size, content, .. } => Some((*size, content)),
        _ => None,
    }
}

/// How many long files may be open at a time.
fn max_long_files() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    // Those of the window at hand, and of the one that is written.
    limit.map_or(usize::MAX, |limit| (limit.saturating_sub(OTHER_DESCRIPTORS) / 2).max(8) as usize)
}

#[cfg(test)]
mod tests {
    use onefold_fingerprint::Fingerprint;

    use super::*;

    #[test]
    fn a_file_longer_than_a_window_fills_it_with_chunks() {
        let mut window = Window::first();
        let mut pushed = 0;
        while !window.is_full() {
            let leaf = Recipe { root: Fingerprint::from_bytes([1; 32]), len: 1 << 20, depth: 0 };
            window.push_chunk(FileNumber::Long(0), pushed << 20, leaf, None);
            pushed += 1;
        }
        assert_eq!(pushed << 20, MAX_UNFINISHED);
    }
}
