//! Putting files and directories together as their parts become known, in any order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use super::sink::Sink;
use crate::tree::recipe::Joiner;
use crate::tree::{self, Entry, Meta, Node, Tree};
use crate::{Recipe, StoreError};

/// How many chunks of a file may be read ahead of the first that is not stored: 6 MB of memory.
/// The queues hold fewer, unless chunks are tiny or one storing thread waits while others go on.
const CHUNKS_AHEAD: u64 = 1 << 17;

/// A directory of which some entries are still on their way.
///
/// Whoever adds the last entry stores the tree and adds the directory to the one above.
pub(super) struct OpenDirectory {
    name: Vec<u8>,
    meta: Meta,
    above: Above,
    entries: Mutex<Vec<Option<Entry>>>,
    /// Entries that are still to come, and one for the listing itself.
    pending: AtomicUsize,
}

/// What a finished directory belongs to.
pub(super) enum Above {
    /// It is the root: its entry goes here.
    Root(Arc<OnceLock<Entry>>),
    /// It is an entry of another one.
    Directory(Arc<OpenDirectory>, usize),
}

impl OpenDirectory {
    /// A directory whose `slots` entries, in ascending order of names, are to come.
    pub(super) fn new(name: Vec<u8>, meta: Meta, above: Above, slots: usize) -> Arc<Self> {
        let mut entries = Vec::new();
        entries.resize_with(slots, || None);
        let (entries, pending) = (Mutex::new(entries), AtomicUsize::new(slots + 1));
        Arc::new(Self { name, meta, above, entries, pending })
    }

    /// Fills `slot`; `None` if the entry could not be read and is left out.
    pub(super) fn fill(
        self: &Arc<Self>,
        slot: usize,
        entry: Option<Entry>,
        sink: &mut Sink<'_>,
    ) -> Result<(), StoreError> {
        self.entries.lock().expect("no thread panics with entries locked")[slot] = entry;
        self.arrived(sink)
    }

    /// Says that the directory was listed: no slot will be asked for that is not there.
    pub(super) fn listed(self: &Arc<Self>, sink: &mut Sink<'_>) -> Result<(), StoreError> {
        self.arrived(sink)
    }

    fn arrived(self: &Arc<Self>, sink: &mut Sink<'_>) -> Result<(), StoreError> {
        let mut directory = Arc::clone(self);
        // A loop, because the last file of a deep tree finishes every directory above it.
        loop {
            if directory.pending.fetch_sub(1, Ordering::AcqRel) > 1 {
                return Ok(());
            }
            let entry = directory.store(sink)?;
            let above = match &directory.above {
                Above::Root(root) => {
                    root.set(entry).expect("a directory is finished once");
                    return Ok(());
                }
                Above::Directory(above, slot) => {
                    above.entries.lock().expect("no thread panics with entries locked")[*slot] =
                        Some(entry);
                    Arc::clone(above)
                }
            };
            directory = above;
        }
    }

    fn store(&self, sink: &mut Sink<'_>) -> Result<Entry, StoreError> {
        let entries = std::mem::take(
            &mut *self.entries.lock().expect("no thread panics with entries locked"),
        );
        entries.iter().flatten().for_each(|entry| sink.tally().count(entry));
        let encoded = tree::encode(entries.iter().flatten());
        // A snapshot holds its root's entry, and is not compressed.
        let is_root = matches!(self.above, Above::Root(_));
        let tree = match encoded.len() > Tree::INLINE_MAX || is_root {
            true => Tree::Stored(sink.store_metadata(&encoded)?),
            false => Tree::Inline(encoded),
        };
        Ok(Entry {
            name: self.name.clone(),
            meta: self.meta.clone(),
            node: Node::Directory { tree },
        })
    }
}

/// A file whose chunks are being stored, by several threads if it is long.
pub(super) struct OpenFile {
    directory: Arc<OpenDirectory>,
    slot: usize,
    parts: Mutex<Parts>,
}

/// What is known of a file: its recipe as far as all chunks before are stored, and what came early.
#[derive(Default)]
struct Parts {
    recipe: Joiner,
    /// How many chunks the recipe has.
    chunks: u64,
    /// The chunks of segments of which one before is missing, by the number of the first.
    early: BTreeMap<u64, Vec<Recipe>>,
    /// How many segments were stored.
    stored: usize,
    /// How many there are and what the file became; known once it was read to its end.
    whole: Option<(usize, Option<Entry>)>,
}

impl Parts {
    /// Adds the `leaves` of a segment, whose first is the file's chunk number `first`.
    fn add(
        &mut self,
        first: u64,
        leaves: Vec<Recipe>,
        sink: &mut Sink<'_>,
    ) -> Result<(), StoreError> {
        if !leaves.is_empty() {
            self.early.insert(first, leaves);
        }
        while let Some(next) = self.early.first_entry().filter(|next| *next.key() == self.chunks) {
            let leaves = next.remove();
            self.chunks += leaves.len() as u64;
            for leaf in leaves {
                self.recipe.push(leaf, &mut |node| sink.store_node(node))?;
            }
        }
        Ok(())
    }
}

/// How a file's reading ended, sent along with its last segment.
pub(super) struct LastSegment {
    /// How many segments the file was sent in, this one included.
    pub(super) segments: usize,
    /// The file's entry without its content; `None` if reading failed.
    pub(super) entry: Option<Entry>,
}

impl OpenFile {
    pub(super) fn new(directory: Arc<OpenDirectory>, slot: usize) -> Arc<Self> {
        Arc::new(Self { directory, slot, parts: Mutex::default() })
    }

    /// Whether chunk number `next` is so far ahead of what is stored that too many chunks might
    /// come early.
    pub(super) fn is_far_behind(&self, next: u64) -> bool {
        let parts = self.parts.lock().expect("no thread panics with parts locked");
        next > parts.chunks + CHUNKS_AHEAD
    }

    /// Adds the stored chunks of a segment, whose first is the file's chunk number `first`.
    ///
    /// Whoever adds the segment that was missing stores the recipe and fills the directory's slot.
    pub(super) fn add_segment(
        &self,
        first: u64,
        leaves: impl Iterator<Item = Recipe>,
        last: Option<LastSegment>,
        sink: &mut Sink<'_>,
    ) -> Result<(), StoreError> {
        let mut parts = self.parts.lock().expect("no thread panics with parts locked");
        parts.add(first, leaves.collect(), sink)?;
        parts.stored += 1;
        if let Some(LastSegment { segments, entry }) = last {
            parts.whole = Some((segments, entry));
        }
        let is_complete = matches!(&parts.whole, Some((segments, _)) if *segments == parts.stored);
        if !is_complete {
            return Ok(());
        }
        let Parts { recipe, whole, .. } = std::mem::take(&mut *parts);
        drop(parts);
        let mut entry = whole.and_then(|(_, entry)| entry);
        if let Some(Entry { node: Node::File { content, .. }, .. }) = &mut entry {
            *content = recipe.finish(&mut |node| sink.store_node(node))?;
        }
        self.directory.fill(self.slot, entry, sink)
    }
}
