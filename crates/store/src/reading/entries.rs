//! The entries of a directory, one after another.
//!
//! A tree may have a gibibyte, and its entries several times as much once they are decoded. So a tree
//! is read through a window: memory holds the bytes around the entry at hand, not the tree. Whoever
//! descends into a directory [parks](Entries::park) what it has of the directory above, because paths
//! may have 2,048 components.

use bytes::Bytes;
use onefold_seal::wire::Reader;

use crate::chunks::reader::{Chunks, part_of};
use crate::tree::{self, Detail, Entry, Node, Tree};
use crate::{Recipe, StoreError};

/// The longest tree that is read: some ten million entries in one directory.
const MAX_TREE_LEN: u64 = 1 << 30;

/// The longest entry of a tree that is read: a file of some ten million extents, or 64 MiB of
/// extended attributes.
const MAX_ENTRY_LEN: usize = 64 << 20;

/// Bytes that are taken from a tree at a time.
const WINDOW: usize = 64 << 10;

/// Bytes of a tree that are kept while a directory in it is walked.
const PARKED: usize = 8 << 10;

/// A tree that is read from its beginning to its end.
pub(crate) struct Entries {
    /// Where more bytes are; nothing if all are here.
    stored: Option<Recipe>,
    /// Bytes of the tree that were taken. Those before `next` are done with.
    window: Vec<u8>,
    /// Where in the window the next entry begins.
    next: usize,
    /// Where in the tree the window begins.
    begins: u64,
    /// The chunk at the window's end, if more is to come of it, and where in the tree it begins.
    chunk: Option<(u64, Bytes)>,
    /// Where in the window the entry begins that was decoded last.
    entry: usize,
    /// Its name.
    last: Vec<u8>,
}

impl Entries {
    /// The entries of `tree`. Fails if the tree is longer than any that is read.
    pub(crate) fn of(tree: &Tree) -> Result<Self, StoreError> {
        let (stored, window) = match tree {
            Tree::Stored(recipe) if recipe.len > MAX_TREE_LEN => {
                let (object, len) = (tree.describe(), recipe.len);
                return Err(StoreError::TooLong { object, len, max: MAX_TREE_LEN });
            }
            Tree::Stored(recipe) => (Some(*recipe), Vec::new()),
            Tree::Inline(bytes) => (None, bytes.clone()),
        };
        let (next, begins, chunk, entry, last) = (0, 0, None, 0, Vec::new());
        Ok(Self { stored, window, next, begins, chunk, entry, last })
    }

    /// The entries of a directory, which `entry` must be; none if it is something else.
    pub(crate) fn of_directory(entry: &Entry) -> Result<Self, StoreError> {
        match &entry.node {
            Node::Directory { tree } => Self::of(tree),
            _ => Self::of(&Tree::EMPTY),
        }
    }

    /// The next entry; nothing behind the last one.
    ///
    /// Fails as [`tree::decode`] does, and where an entry is longer than any that is read. Those
    /// before it were given by then.
    pub(crate) fn next(
        &mut self,
        chunks: &dyn Chunks,
        detail: Detail,
    ) -> Result<Option<Entry>, StoreError> {
        while self.next < self.window.len() || self.missing() > 0 {
            let mut reader = Reader::new(&self.window[self.next..]);
            match tree::decode_next(&mut reader, &self.last, detail) {
                Ok(entry) => {
                    self.entry = self.next;
                    self.next = self.window.len() - reader.remaining();
                    self.last.clone_from(&entry.name);
                    return Ok(Some(entry));
                }
                Err(_) if reader.ran_out() && self.missing() > 0 => self.take(chunks)?,
                Err(mut source) => {
                    source.at += self.begins as usize + self.next;
                    return Err(StoreError::Malformed { object: self.describe(), source });
                }
            }
        }
        Ok(None)
    }

    /// The encoding of the entry that was given last, until the next one or [`park`](Self::park).
    pub(crate) fn encoded(&self) -> &[u8] {
        &self.window[self.entry..self.next]
    }

    /// [Parks](Self::park) if `child` is a directory, into which the caller descends next.
    pub(crate) fn park_before(&mut self, child: &Entry) {
        if matches!(child.node, Node::Directory { .. }) {
            self.park();
        }
    }

    /// [Parks](Self::park) before the entry that was given last, which is the next one again.
    pub(crate) fn rewind(&mut self) {
        self.next = self.entry;
        self.last.clear();
        self.park();
    }

    /// Gives back memory until the next entry is asked for.
    pub(crate) fn park(&mut self) {
        self.drop_done();
        if self.stored.is_some() {
            self.chunk = None;
            self.window.truncate(PARKED);
        }
        self.window.shrink_to(PARKED);
    }

    /// Bytes of the tree behind the window.
    fn missing(&self) -> u64 {
        let end = self.begins + self.window.len() as u64;
        self.stored.map_or(0, |recipe| recipe.len.saturating_sub(end))
    }

    /// Takes more bytes, twice as many as there are if an entry is long.
    fn take(&mut self, chunks: &dyn Chunks) -> Result<(), StoreError> {
        self.drop_done();
        let here = self.window.len();
        if here >= MAX_ENTRY_LEN {
            let object = format!("the entry at byte {} of {}", self.begins, self.describe());
            let len = here as u64 + self.missing();
            return Err(StoreError::TooLong { object, len, max: MAX_ENTRY_LEN as u64 });
        }
        let Some(recipe) = self.stored else { return Ok(()) };
        let more = here.max(WINDOW).min(MAX_ENTRY_LEN - here).min(self.missing() as usize);
        let start = self.begins + here as u64;
        let range = start..start + more as u64;
        self.window.reserve_exact(more);
        if let Some((begins, chunk)) = self.chunk.take() {
            self.window.extend_from_slice(part_of(begins, &chunk, &range));
            if begins + chunk.len() as u64 > range.end {
                self.chunk = Some((begins, chunk));
            }
        }
        let range = self.begins + self.window.len() as u64..range.end;
        let (window, kept) = (&mut self.window, &mut self.chunk);
        chunks.visit_range(&recipe, 0, &range, &mut |begins, chunk| {
            window.extend_from_slice(part_of(begins, &chunk, &range));
            if begins + chunk.len() as u64 > range.end {
                *kept = Some((begins, chunk));
            }
        })
    }

    /// How messages call the tree.
    fn describe(&self) -> String {
        self.stored.map_or(Tree::EMPTY, Tree::Stored).describe()
    }

    fn drop_done(&mut self) {
        self.window.drain(..self.next);
        self.begins += self.next as u64;
        (self.next, self.entry) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use onefold_fingerprint::{Fingerprint, Fingerprinter};
    use onefold_seal::wire::Put;
    use proptest::prelude::*;

    use super::*;
    use crate::tree::Meta;

    #[derive(Default)]
    struct Stored(HashMap<Fingerprint, Bytes>);

    impl Chunks for Stored {
        fn chunk(&self, fingerprint: &Fingerprint) -> Result<Bytes, StoreError> {
            Ok(self.0[fingerprint].clone())
        }
    }

    impl Stored {
        fn put(&mut self, bytes: &[u8]) -> Recipe {
            let name = Fingerprinter::blake3().fingerprint(bytes);
            self.0.insert(name, Bytes::copy_from_slice(bytes));
            Recipe::chunk(name, bytes.len() as u64)
        }

        /// `bytes` in chunks of these lengths, in turn, under two levels of nodes.
        fn cut(&mut self, mut bytes: &[u8], lens: &[usize]) -> Recipe {
            let mut parts = Vec::new();
            let mut lens = lens.iter().cycle();
            while !bytes.is_empty() {
                let (part, rest) = bytes.split_at(bytes.len().min(*lens.next().unwrap()));
                parts.push(self.put(part));
                bytes = rest;
            }
            let lowest: Vec<_> = parts.chunks(100).map(|parts| self.node(parts)).collect();
            self.node(&lowest)
        }

        fn node(&mut self, children: &[Recipe]) -> Recipe {
            let mut bytes = Vec::new();
            bytes.put_varint(children.len() as u64);
            for child in children {
                bytes.extend_from_slice(child.root.as_bytes());
                bytes.put_varint(child.len);
            }
            let len = children.iter().map(|child| child.len).sum();
            Recipe { len, depth: children[0].depth + 1, root: self.put(&bytes).root }
        }
    }

    fn link(number: usize, target: usize) -> Entry {
        let node = Node::Symlink { target: vec![b't'; target.max(1)] };
        Entry { name: format!("{number:06}").into_bytes(), meta: Meta::default(), node }
    }

    /// What is read of `tree`, parked and rewound after every so many entries, up to an error.
    fn read(
        tree: &Tree,
        chunks: &Stored,
        parked: usize,
        rewound: usize,
    ) -> (Vec<Entry>, Option<String>) {
        let (mut entries, mut read) = (Entries::of(tree).unwrap(), Vec::new());
        loop {
            match entries.next(chunks, Detail::All) {
                Ok(Some(entry)) => {
                    assert_eq!(entries.encoded(), tree::encode([&entry]));
                    read.push(entry);
                }
                Ok(None) => return (read, None),
                Err(error) => return (read, Some(error.to_string())),
            }
            assert!(entries.window.len() <= 4 * WINDOW + read.last().unwrap().name.len());
            if read.len().is_multiple_of(rewound) {
                entries.rewind();
                assert!(entries.window.capacity() <= PARKED && entries.chunk.is_none());
                let again = entries.next(chunks, Detail::All).unwrap().unwrap();
                assert_eq!(*read.last().unwrap(), again);
            }
            if read.len().is_multiple_of(parked) {
                entries.park();
                assert!(entries.window.capacity() <= PARKED && entries.chunk.is_none());
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn a_tree_reads_as_it_decodes_however_it_is_cut_and_parked(
            targets in proptest::collection::vec(
                prop_oneof![9 => 1..90usize, 1 => 1..70_000usize], 1..300
            ),
            lens in proptest::collection::vec(prop_oneof![99..999usize, 1..300_000usize], 1..9),
            parked in 1..50usize,
            rewound in 1..50usize,
            flip in proptest::option::of(any::<(prop::sample::Index, u8)>()),
        ) {
            let all: Vec<_> = targets.iter().enumerate().map(|(n, len)| link(n, *len)).collect();
            let mut bytes = tree::encode(&all);
            if let Some((at, flip)) = flip {
                let at = at.index(bytes.len());
                bytes[at] ^= flip;
            }
            let mut stored = Stored::default();
            let tree = Tree::Stored(stored.cut(&bytes, &lens));
            let (read, refused) = read(&tree, &stored, parked, rewound);
            match tree::decode(&bytes, Detail::All) {
                Ok(decoded) => {
                    prop_assert_eq!(refused, None);
                    prop_assert_eq!(read, decoded);
                }
                Err(source) => {
                    let malformed = StoreError::Malformed { object: tree.describe(), source };
                    prop_assert_eq!(refused, Some(malformed.to_string()));
                }
            }
        }
    }

    #[test]
    fn an_entry_that_is_too_long_is_refused_with_its_place_and_the_limit() {
        let mut stored = Stored::default();
        let (first, last) = (link(0, 9), link(1, MAX_ENTRY_LEN));
        let bytes = tree::encode([&first, &last]);
        let tree = Tree::Stored(stored.cut(&bytes, &[1 << 20]));
        let (read, refused) = read(&tree, &stored, 9, 9);
        assert_eq!(read, std::slice::from_ref(&first));
        let at = tree::encode([&first]).len();
        let expected = format!(
            "the entry at byte {at} of {} has {} bytes, expected at most 67108864",
            tree.describe(),
            bytes.len() - at
        );
        assert_eq!(refused, Some(expected));
    }
}
