//! The nodes of which maps and tables of pages consist: in memory, or stored and brought in when they
//! are needed.
//!
//! A node is changed in memory only. One that was changed since it was stored is *dirty*; it is stored
//! anew elsewhere, by a checkpoint or to make room, and never written over. Nothing here reads or
//! writes a file: a function that needs a node that is not in memory says so by [`Missing`], and its
//! caller brings the node in without the pool's lock and calls again.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use onefold_index::prefetch;

use crate::nodes::format::{NODE, Node};
use crate::nodes::table::NodeAddress;

/// Which node; used again once the node is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(NonZeroU32);

impl NodeId {
    fn new(at: usize) -> Self {
        let number = u32::try_from(at + 1).ok().and_then(NonZeroU32::new);
        Self(number.expect("a pool has fewer nodes than 2^32"))
    }

    /// Its position among all entries of [`Nodes`].
    pub(crate) fn at(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// A node is needed that is not in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Missing(pub(crate) NodeId);

/// A node, in memory or not.
struct Entry {
    /// Its numbers, if they are in memory.
    content: Option<Arc<Node>>,
    /// Where its numbers were stored last, if ever.
    stored: Option<NodeAddress>,
    /// Maps that have it.
    owners: u32,
    /// How many of its blocks are no holes, if it is a segment of a map.
    mapped: u16,
    /// How many keep it in memory.
    pins: u8,
    /// Whether it was changed since it was stored.
    is_dirty: bool,
    /// Whether it was used since the clock's hand passed.
    is_used: AtomicBool,
    /// How many nodes had been let go of when it was, if ever.
    evicted: u32,
}

/// A node that was taken to be stored: it is stored as it was then.
pub(crate) struct Taken {
    pub(crate) id: NodeId,
    pub(crate) content: Arc<Node>,
}

/// How nodes are kept, and what became of look-ups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct NodeCounts {
    /// Nodes that there are.
    pub(crate) nodes: u64,
    /// Those that are in memory.
    pub(crate) resident: u64,
    /// Those that were changed since they were stored.
    pub(crate) dirty: u64,
    /// How often a node was read because it was not in memory.
    pub(crate) read: u64,
    /// How many of these would have been in memory if twice as many nodes could be.
    pub(crate) read_for_want: u64,
}

/// All nodes of a pool.
#[derive(Default)]
pub(crate) struct Nodes {
    all: Vec<Entry>,
    /// Entries that no node has.
    free: Vec<NodeId>,
    resident: usize,
    dirty: usize,
    /// How often a node became dirty since the last checkpoint.
    changed: u64,
    read: u64,
    read_for_want: u64,
    /// How often a node was let go of.
    evicted: u32,
    /// Where the clock's hand is.
    hand: usize,
}

impl Nodes {
    /// A node with these numbers, which is stored nowhere.
    pub(crate) fn add(&mut self, content: Node) -> NodeId {
        (self.resident, self.dirty) = (self.resident + 1, self.dirty + 1);
        self.changed += 1;
        self.put(Entry {
            content: Some(Arc::new(content)),
            stored: None,
            owners: 0,
            mapped: 0,
            pins: 0,
            is_dirty: true,
            is_used: AtomicBool::new(true),
            evicted: 0,
        })
    }

    /// A node that is stored at `address`, and not in memory.
    pub(crate) fn add_stored(&mut self, address: NodeAddress) -> NodeId {
        self.put(Entry {
            content: None,
            stored: Some(address),
            owners: 0,
            mapped: 0,
            pins: 0,
            is_dirty: false,
            is_used: AtomicBool::new(false),
            evicted: 0,
        })
    }

    fn put(&mut self, entry: Entry) -> NodeId {
        match self.free.pop() {
            Some(id) => {
                self.all[id.at()] = entry;
                id
            }
            None => {
                self.all.push(entry);
                NodeId::new(self.all.len() - 1)
            }
        }
    }

    /// Nothing has the node any more.
    pub(crate) fn remove(&mut self, id: NodeId) {
        let entry = &mut self.all[id.at()];
        self.resident -= usize::from(entry.content.take().is_some());
        self.dirty -= usize::from(std::mem::take(&mut entry.is_dirty));
        entry.stored = None;
        self.free.push(id);
    }

    /// The node's numbers.
    pub(crate) fn get(&self, id: NodeId) -> Result<&Node, Missing> {
        let entry = &self.all[id.at()];
        let content = entry.content.as_deref().ok_or(Missing(id))?;
        // looked at first, so that what is read all the time is not written
        if !entry.is_used.load(Ordering::Relaxed) {
            entry.is_used.store(true, Ordering::Relaxed);
        }
        Ok(content)
    }

    /// The same, to be kept: who changes the node afterwards changes a copy.
    pub(crate) fn share(&self, id: NodeId) -> Result<Arc<Node>, Missing> {
        self.get(id)?;
        self.all[id.at()].content.clone().ok_or(Missing(id))
    }

    /// The node's numbers, to be changed.
    pub(crate) fn get_mut(&mut self, id: NodeId) -> Result<&mut Node, Missing> {
        let entry = &mut self.all[id.at()];
        let content = entry.content.as_mut().ok_or(Missing(id))?;
        if !std::mem::replace(&mut entry.is_dirty, true) {
            (self.dirty, self.changed) = (self.dirty + 1, self.changed + 1);
        }
        *entry.is_used.get_mut() = true;
        Ok(Arc::make_mut(content))
    }

    /// Fails if the node is not in memory.
    pub(crate) fn ensure_here(&self, id: NodeId) -> Result<(), Missing> {
        self.get(id).map(drop)
    }

    /// Keeps the node in memory until [`unpin`](Self::unpin).
    pub(crate) fn pin(&mut self, id: NodeId) -> Result<(), Missing> {
        self.ensure_here(id)?;
        self.all[id.at()].pins += 1;
        Ok(())
    }

    pub(crate) fn unpin(&mut self, id: NodeId) {
        self.all[id.at()].pins -= 1;
    }

    pub(crate) fn owners(&self, id: NodeId) -> u32 {
        self.all[id.at()].owners
    }

    pub(crate) fn set_owners(&mut self, id: NodeId, owners: u32) {
        self.all[id.at()].owners = owners;
    }

    /// Blocks of a segment that are no holes.
    pub(crate) fn mapped(&self, id: NodeId) -> u32 {
        self.all[id.at()].mapped.into()
    }

    pub(crate) fn set_mapped(&mut self, id: NodeId, mapped: u32) {
        self.all[id.at()].mapped = u16::try_from(mapped).expect("a segment has 512 blocks");
    }

    /// Where to read the node, if it is not in memory.
    pub(crate) fn to_read(&self, id: NodeId) -> Option<NodeAddress> {
        let entry = self.all.get(id.at())?;
        entry.stored.filter(|_| entry.content.is_none())
    }

    /// Takes in what was read at `address`, unless the node is elsewhere by now, or here.
    pub(crate) fn bring(&mut self, id: NodeId, address: NodeAddress, content: Box<Node>) {
        if self.to_read(id) == Some(address) {
            let entry = &mut self.all[id.at()];
            entry.content = Some(Arc::from(content));
            *entry.is_used.get_mut() = true;
            // of those that were let go of since, as many as there is room for would be here still
            let since = self.evicted.wrapping_sub(entry.evicted) as usize;
            let would_be_here = entry.evicted > 0 && since <= self.resident;
            self.read_for_want += u64::from(would_be_here);
            self.resident += 1;
            self.read += 1;
        }
    }

    /// Gives a node other numbers. What was stored of it is of no use any more.
    pub(crate) fn replace(&mut self, id: NodeId, content: Box<Node>) {
        let entry = &mut self.all[id.at()];
        self.resident += usize::from(entry.content.is_none());
        if !std::mem::replace(&mut entry.is_dirty, true) {
            (self.dirty, self.changed) = (self.dirty + 1, self.changed + 1);
        }
        (entry.content, entry.stored) = (Some(Arc::from(content)), None);
        *entry.is_used.get_mut() = true;
    }

    /// Prefetches memory that [`get`](Self::get) and a look at the number at `place` will read.
    pub(crate) fn prefetch(&self, id: NodeId, place: usize) {
        if let Some(content) = &self.all[id.at()].content {
            prefetch(&content[place % NODE]);
        }
    }

    /// All nodes that are dirty, as they are now.
    pub(crate) fn take_dirty(&self) -> Vec<Taken> {
        let dirty = self.all.iter().enumerate().filter(|(_, entry)| entry.is_dirty);
        dirty.filter_map(|(at, entry)| Taken::of(NodeId::new(at), entry)).collect()
    }

    /// Lets go of nodes that are not dirty and were not used lately until `most` are in memory. Where
    /// that is not enough, returns at most `batch` dirty ones that have to be stored first.
    pub(crate) fn evict(&mut self, most: usize, batch: usize) -> Vec<Taken> {
        let mut taken = Vec::new();
        // Once around to forget that they were used, and once more to let go.
        for _ in 0..2 * self.all.len() {
            if self.resident - taken.len() <= most {
                break;
            }
            self.hand = if self.hand + 1 < self.all.len() { self.hand + 1 } else { 0 };
            let at = self.hand;
            let entry = &mut self.all[at];
            let is_used = std::mem::take(entry.is_used.get_mut());
            if entry.content.is_none() || is_used || entry.pins > 0 {
                continue;
            }
            if entry.is_dirty {
                if taken.len() >= batch {
                    continue;
                }
                taken.extend(Taken::of(NodeId::new(at), entry));
            } else {
                entry.content = None;
                self.resident -= 1;
                self.evicted = self.evicted.checked_add(1).unwrap_or(1);
                entry.evicted = self.evicted;
            }
        }
        taken
    }

    /// A node was stored at `address` as it was when it was taken. Unless it was changed since, it is
    /// not dirty any more.
    pub(crate) fn note_stored(&mut self, taken: &Taken, address: NodeAddress) {
        let Some(entry) = self.all.get_mut(taken.id.at()) else { return };
        let is_same = entry.content.as_ref().is_some_and(|now| Arc::ptr_eq(now, &taken.content));
        if is_same && entry.is_dirty {
            (entry.stored, entry.is_dirty) = (Some(address), false);
            self.dirty -= 1;
        }
    }

    /// Where each node is stored, and of a segment how many blocks are no holes, as an image of a
    /// checkpoint begins.
    pub(crate) fn image(&self) -> NodesImage {
        let of = |entry: &Entry| NodeImage {
            stored: entry.stored,
            mapped: entry.mapped,
            number: u32::MAX,
        };
        NodesImage { all: self.all.iter().map(of).collect(), numbered: 0 }
    }

    /// A node that is stored at `from` is stored at `to` as well, and there from now on.
    pub(crate) fn note_copied(&mut self, id: NodeId, from: NodeAddress, to: NodeAddress) {
        if let Some(entry) = self.all.get_mut(id.at())
            && entry.stored == Some(from)
        {
            entry.stored = Some(to);
        }
    }

    /// Where nodes are stored that are not dirty, or were before they were changed.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = NodeAddress> {
        self.stored().map(|(_, address)| address)
    }

    /// The same with the node that each is.
    pub(crate) fn stored(&self) -> impl Iterator<Item = (NodeId, NodeAddress)> {
        let all = self.all.iter().enumerate();
        all.filter_map(|(at, entry)| Some((NodeId::new(at), entry.stored?)))
    }

    /// Whether no node is missing.
    pub(crate) fn are_all_here(&self) -> bool {
        self.resident + self.free.len() == self.all.len()
    }

    /// Nodes that there are, and entries that none has.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// How often a node became dirty since the last checkpoint. The next opening reads at most so many nodes.
    pub(crate) fn changed(&self) -> u64 {
        self.changed
    }

    /// Subtracts `changed`, which a checkpoint that is durable covers.
    pub(crate) fn forget_changed(&mut self, changed: u64) {
        self.changed -= changed;
    }

    /// Nodes in memory.
    pub(crate) fn resident(&self) -> usize {
        self.resident
    }

    pub(crate) fn counts(&self) -> NodeCounts {
        NodeCounts {
            nodes: (self.all.len() - self.free.len()) as u64,
            resident: self.resident as u64,
            dirty: self.dirty as u64,
            read: self.read,
            read_for_want: self.read_for_want,
        }
    }
}

/// Where nodes were stored at one moment.
pub(crate) struct NodesImage {
    all: Vec<NodeImage>,
    /// Segments that have a number.
    numbered: u32,
}

struct NodeImage {
    stored: Option<NodeAddress>,
    mapped: u16,
    /// Of a segment, in the order in which a checkpoint tells of them.
    number: u32,
}

impl NodesImage {
    /// Where the node was stored, or is by now.
    pub(crate) fn stored(&self, id: NodeId) -> NodeAddress {
        self.all[id.at()].stored.expect("all nodes of an image are stored")
    }

    /// Blocks of a segment that were no holes.
    pub(crate) fn mapped(&self, id: NodeId) -> u32 {
        self.all[id.at()].mapped.into()
    }

    /// The node, as it was at that moment, is stored at `address`.
    pub(crate) fn put(&mut self, id: NodeId, address: NodeAddress) {
        self.all[id.at()].stored = Some(address);
    }

    /// All nodes, and where they are.
    pub(crate) fn all(&self) -> impl Iterator<Item = (NodeId, NodeAddress)> {
        let all = self.all.iter().enumerate();
        all.filter_map(|(at, node)| Some((NodeId::new(at), node.stored?)))
    }

    /// Gives a segment the next number, unless it has one; whether it had none.
    pub(crate) fn number(&mut self, id: NodeId) -> bool {
        let node = &mut self.all[id.at()];
        let is_new = node.number == u32::MAX;
        if is_new {
            node.number = self.numbered;
            self.numbered += 1;
        }
        is_new
    }

    /// The number of a segment that has one.
    pub(crate) fn number_of(&self, id: NodeId) -> u32 {
        self.all[id.at()].number
    }
}

impl Taken {
    fn of(id: NodeId, entry: &Entry) -> Option<Self> {
        Some(Self { id, content: Arc::clone(entry.content.as_ref()?) })
    }
}
