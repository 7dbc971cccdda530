//! Short files, in the order of where their bytes lie.
//!
//! A group of chunks is read and decompressed as a whole. Versions of a tree have most chunks in
//! common, and each has a few in groups of every version before it: in the order of the tree, its
//! files would ask for nearly every group once for each version. So short files wait until there
//! is a window of them, and are then written by the place of their first chunk.

use std::convert::Infallible;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use crossbeam_channel::Sender;
use onefold_seal::wire::Reader;

use super::file::{Piece, RestoredFile};
use super::target::Target;
use super::{Components, Context};
use crate::tree::{self, Detail, Entry, Meta, Node};
use crate::{Place, Recipe};

/// A file with more bytes is worth pieces of its own.
const MAX_FILE: u64 = 1 << 20;
/// Bytes of a window, encoded entries and what is kept beside them. While one is written another is
/// collected.
const WINDOW_LEN: usize = 6 << 20;
/// Files that go to a thread at once. Neighbours have their bytes in the same groups, and often
/// their names in the same directories.
const BATCH_FILES: usize = 256;
/// Directories that a thread keeps open.
const OPEN_DIRECTORIES: usize = 32;

/// Files that wait.
#[derive(Default)]
pub(super) struct Window {
    entries: Vec<u8>,
    waiting: Vec<Waiting>,
}

struct Waiting {
    place: Option<Place>,
    /// Where its entry is encoded.
    entry: Range<usize>,
    directory: Arc<Components>,
}

/// Files that one thread writes, one after another.
pub(super) struct Batch {
    entries: Vec<u8>,
    directories: Vec<Arc<Components>>,
    /// Dropped with the batch.
    _written: Written,
}

/// Dropped when a window is written: who has the other end sees it.
type Written = Sender<Infallible>;

impl Window {
    /// The content of the file `entry`, if it is short enough to wait.
    pub(super) fn takes(entry: &Entry) -> Option<&Recipe> {
        match &entry.node {
            Node::File { size, content, .. } if *size <= MAX_FILE => Some(content),
            _ => None,
        }
    }

    /// Lets a file of `directory` wait; its first chunk is at `place`, if that is known.
    pub(super) fn push(
        &mut self,
        place: Option<Place>,
        directory: &Arc<Components>,
        entry: &Entry,
    ) {
        let start = self.entries.len();
        // of the rest nothing is restored
        let Meta { mode, uid, gid, mtime, .. } = entry.meta;
        let xattrs = entry.meta.xattrs.clone();
        let meta = Meta { mode, uid, gid, mtime, xattrs, ..Meta::default() };
        let (name, node) = (entry.name.clone(), entry.node.clone());
        tree::encode_entry(&Entry { name, meta, node }, &mut self.entries);
        let entry = start..self.entries.len();
        self.waiting.push(Waiting { place, entry, directory: Arc::clone(directory) });
    }

    /// Whether it is time to write them.
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() + self.waiting.len() * size_of::<Waiting>() >= WINDOW_LEN
    }

    /// All that wait, in batches; once the last is taken nothing waits any more.
    pub(super) fn batches(&mut self, written: Written) -> impl Iterator<Item = Batch> + '_ {
        let place = |one: &Waiting| one.place.map(|place| (place.container, place.slot));
        self.waiting.sort_by_key(place);
        let mut start = 0;
        std::iter::from_fn(move || {
            let end = self.waiting.len().min(start + BATCH_FILES);
            if start == end {
                self.entries.clear();
                self.waiting.clear();
                return None;
            }
            let files = &self.waiting[start..end];
            start = end;
            Some(Batch::of(files, &self.entries, written.clone()))
        })
    }
}

impl Batch {
    fn of(files: &[Waiting], entries: &[u8], written: Written) -> Self {
        let parts: Vec<&[u8]> = files.iter().map(|one| &entries[one.entry.clone()]).collect();
        let directories = files.iter().map(|one| Arc::clone(&one.directory)).collect();
        Self { entries: parts.concat(), directories, _written: written }
    }
}

/// What a thread writes batches with.
pub(super) struct Writer<'a> {
    context: &'a Context<'a>,
    root: &'a Target,
    /// Directories that were used lately.
    open: Vec<(Arc<Components>, Arc<Target>)>,
    /// Which of them goes next.
    oldest: usize,
}

impl<'a> Writer<'a> {
    pub(super) fn new(context: &'a Context<'a>, root: &'a Target) -> Self {
        Self { context, root, open: Vec::with_capacity(OPEN_DIRECTORIES), oldest: 0 }
    }

    /// Writes the files, unless the restore is stopped, which who walks notices too. What fails is
    /// reported.
    pub(super) fn write(&mut self, batch: &Batch) {
        let mut reader = Reader::new(&batch.entries);
        for directory in &batch.directories {
            if self.context.go_on().is_err() {
                return;
            }
            let decoded = tree::decode_entry(&mut reader, Detail::All);
            let entry = decoded.expect("it was encoded here");
            let mut path = Components::clone(directory);
            path.push(entry.name[..].into());
            match self.open(directory) {
                Ok(target) => {
                    let write = &mut |piece: Piece| {
                        piece.write(self.context);
                        Ok(())
                    };
                    let _ = RestoredFile::plan(self.context, &target, &entry, &path, write);
                }
                Err(error) => self.context.failed(&path, format!("its directory: {error}")),
            }
        }
    }

    fn open(&mut self, directory: &Arc<Components>) -> io::Result<Arc<Target>> {
        if let Some((_, target)) = self.open.iter().find(|(known, _)| Arc::ptr_eq(known, directory))
        {
            return Ok(Arc::clone(target));
        }
        let target = Arc::new(self.root.descend(directory)?);
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

#[cfg(test)]
mod tests {
    use crossbeam_channel::bounded;
    use onefold_fingerprint::Fingerprint;

    use super::*;

    fn file(name: &str, size: u64) -> Entry {
        let content = Recipe::chunk(Fingerprint::from_bytes([size as u8; 32]), size);
        let node = Node::File { size, content, extents: None };
        Entry { name: name.into(), meta: Meta::default(), node }
    }

    #[test]
    fn files_leave_a_window_once_and_by_their_places() {
        let directory = Arc::new(vec![Arc::from(&b"folder"[..])]);
        let count = 3 * BATCH_FILES + 1;
        let mut window = Window::default();
        for i in 0..count {
            // 7919 is prime to the count, so every place comes once
            let place = (i * 7919 % count) as u32;
            let place = Place { container: place / 100, slot: place % 100, len: 1 };
            window.push(Some(place), &directory, &file(&format!("{i}"), 1 + i as u64));
        }
        window.push(None, &directory, &file("nowhere", 5));
        let batches: Vec<Batch> = window.batches(bounded(0).0).collect();
        assert_eq!(batches.iter().map(|batch| batch.directories.len()).sum::<usize>(), count + 1);
        assert!(batches.iter().all(|batch| batch.directories.len() <= BATCH_FILES));
        let mut left = Vec::new();
        for batch in &batches {
            let mut reader = Reader::new(&batch.entries);
            for _ in &batch.directories {
                left.push(tree::decode_entry(&mut reader, Detail::All).unwrap());
            }
            assert_eq!(reader.remaining(), 0);
        }
        assert_eq!(left[0], file("nowhere", 5));
        for (place, entry) in left[1..].iter().enumerate() {
            let i = (0..count).find(|i| i * 7919 % count == place).unwrap();
            assert_eq!(*entry, file(&format!("{i}"), 1 + i as u64));
        }
        assert!(window.batches(bounded(0).0).next().is_none());
    }

    #[test]
    fn long_files_do_not_wait_and_a_window_fills() {
        assert!(Window::takes(&file("short", MAX_FILE)).is_some());
        assert!(Window::takes(&file("long", MAX_FILE + 1)).is_none());
        let directory = Arc::default();
        let mut window = Window::default();
        let mut pushed = 0;
        while !window.is_full() {
            window.push(None, &directory, &file("name", 1));
            pushed += 1;
        }
        assert!((30_000..120_000).contains(&pushed), "{pushed}");
    }
}
