//! The files of nodes that a process knows: how many nodes each has, and which are open.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use onefold_backend::LogReader;

use crate::nodes::format::{NodeFile, slots_in};

/// Where a node is stored, within this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeAddress {
    /// One more than the place of the file in the table, so that no address takes no memory of its own.
    file: NonZeroU32,
    pub(super) index: u32,
}

impl NodeAddress {
    pub(super) fn new(place: u32, index: u32) -> Self {
        Self { file: NonZeroU32::MIN.saturating_add(place), index }
    }

    /// The place of the file in the table: the same for all nodes of a file.
    pub(crate) const fn file(self) -> u32 {
        self.file.get() - 1
    }
}

/// The files that this process knows.
#[derive(Default)]
pub(super) struct Table {
    /// By the file of a [`NodeAddress`].
    pub(super) entries: Vec<Entry>,
    places: HashMap<NodeFile, u32>,
    /// The places of the files that are open for reading. The clock's hand comes to the first next.
    pub(super) hand: VecDeque<u32>,
}

pub(super) struct Entry {
    pub(super) file: NodeFile,
    pub(super) len: Len,
    pub(super) reader: Option<Arc<Reader>>,
}

/// How many nodes a file has.
#[derive(Clone, Copy)]
pub(super) enum Len {
    /// The file was not opened yet.
    Unknown,
    /// The file was found, and has room for this many.
    Found(u32),
    /// This process made the file, and appended this many.
    Appended(u32),
    /// The file is removed.
    Removed,
}

/// A file that is open for reading, whose header was verified.
pub(super) struct Reader {
    pub(super) log: Box<dyn LogReader>,
    /// Whether it was looked up since it was opened or the hand passed it.
    pub(super) is_used: AtomicBool,
}

impl Table {
    /// The place of `file`, if it is known.
    pub(super) fn known(&self, file: NodeFile) -> Option<u32> {
        self.places.get(&file).copied()
    }

    /// The place of `file`, which is entered if it is not known.
    pub(super) fn place_of(&mut self, file: NodeFile) -> u32 {
        *self.places.entry(file).or_insert_with(|| {
            let place = self.entries.len().try_into().expect("there are fewer files than 2^32");
            self.entries.push(Entry { file, len: Len::Unknown, reader: None });
            place
        })
    }

    /// The file at `place` was found with `len` bytes.
    pub(super) fn found(&mut self, place: u32, len: u64) {
        let known = &mut self.entries[place as usize].len;
        if matches!(known, Len::Unknown | Len::Found(_)) {
            *known = Len::Found(slots_in(len));
        }
    }

    /// Keeps `reader` of the file at `place` open, unless one of more bytes is open or the file is
    /// removed. Returns what is closed for it, so that at most `most` files are open.
    pub(super) fn keep_open(
        &mut self,
        place: u32,
        reader: &Arc<Reader>,
        most: usize,
    ) -> Vec<Arc<Reader>> {
        self.found(place, reader.log.len());
        let entry = &mut self.entries[place as usize];
        let has_longer = |open: &Arc<Reader>| open.log.len() >= reader.log.len();
        if matches!(entry.len, Len::Removed) || entry.reader.as_ref().is_some_and(has_longer) {
            return Vec::new();
        }
        let mut closed = Vec::new();
        match entry.reader.replace(Arc::clone(reader)) {
            Some(shorter) => closed.push(shorter),
            None => self.hand.push_back(place),
        }
        // Each gets one more round if it was used. Without a bound, threads that read all the while
        // would keep every file open.
        let mut rounds = self.hand.len();
        while self.hand.len() > most
            && let Some(next) = self.hand.pop_front()
        {
            let open = &mut self.entries[next as usize].reader;
            let is_used = |open: &Arc<Reader>| open.is_used.swap(false, Ordering::Relaxed);
            if rounds > 0 && open.as_ref().is_some_and(is_used) {
                rounds -= 1;
                self.hand.push_back(next);
            } else {
                closed.extend(open.take());
            }
        }
        closed
    }

    /// Marks all files as removed but those that are kept, and returns those that were open.
    pub(super) fn close_unless(&mut self, is_kept: impl Fn(&NodeFile) -> bool) -> Vec<Arc<Reader>> {
        let mut closed = Vec::new();
        for entry in self.entries.iter_mut().filter(|entry| !is_kept(&entry.file)) {
            entry.len = Len::Removed;
            closed.extend(entry.reader.take());
        }
        let Self { entries, hand, .. } = self;
        hand.retain(|place| entries[*place as usize].reader.is_some());
        closed
    }
}
