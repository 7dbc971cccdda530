//! Nodes in files: read when they are missing, stored to make room for others.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::error::VolumeError;
use crate::nodes::files::NodeFiles;
use crate::nodes::format::{NODE, Node, NodeFile};
use crate::nodes::table::NodeAddress;
use crate::state::nodes::{NodeId, Nodes, Taken};

/// Nodes that are stored with one write, to make room.
pub(crate) const STORED: usize = 256;

/// Bytes of a node in memory, with what the allocator needs.
const NODE_BYTES: u64 = (NODE * size_of::<u64>()) as u64 + 32;

/// Bytes in memory for each node that there is: its entry, its share of its container's, and of what a
/// checkpoint copies.
const KNOWN: u64 = 64;

/// For a step that missed nodes so many times no room is made any more: it may need more of them than
/// there is room for.
pub(crate) const PATIENCE: u32 = 8;

/// Where a pool keeps the nodes that memory does not hold, and how many it may hold.
pub(crate) struct Paging {
    pub(crate) files: NodeFiles,
    /// Bytes for nodes, and for what is known of those that are not in memory.
    bytes: u64,
    /// How many of these something else has for a while.
    lent: AtomicU64,
    least: usize,
    /// Held from when nodes are appended until the state knows where they are.
    storing: Mutex<()>,
}

/// Bytes that nodes lack until this is dropped.
pub(crate) struct Lent<'a> {
    paging: &'a Paging,
    bytes: u64,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.paging.lent.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Paging {
    /// About `bytes` of nodes are in memory, and never fewer nodes than `least`.
    pub(crate) fn new(files: NodeFiles, bytes: u64, least: usize) -> Arc<Self> {
        Arc::new(Self { files, bytes, lent: AtomicU64::new(0), least, storing: Mutex::default() })
    }

    /// Bytes for nodes, and for what is known of them, where nothing else has any.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that something else has now.
    #[cfg(test)]
    pub(crate) fn lent(&self) -> u64 {
        self.lent.load(Ordering::Relaxed)
    }

    /// Lets something else have `bytes` of those for nodes, as long as it keeps what this returns.
    pub(crate) fn lend(&self, bytes: u64) -> Lent<'_> {
        self.lent.fetch_add(bytes, Ordering::Relaxed);
        Lent { paging: self, bytes }
    }

    /// How many of `count` nodes may be in memory.
    pub(crate) fn most(&self, count: usize) -> usize {
        let taken = self.lent.load(Ordering::Relaxed).saturating_add(count as u64 * KNOWN);
        let left = self.bytes.saturating_sub(taken);
        usize::try_from(left / NODE_BYTES).unwrap_or(usize::MAX).max(self.least)
    }

    pub(crate) fn storing(&self) -> MutexGuard<'_, ()> {
        self.storing.lock().expect("nobody panics with it")
    }

    /// Reads nodes; those before the first that cannot be read, and why that one cannot.
    pub(crate) fn read(
        &self,
        wanted: &[(NodeId, NodeAddress)],
    ) -> (Vec<Box<Node>>, Option<VolumeError>) {
        let addresses: Vec<NodeAddress> = wanted.iter().map(|(_, address)| *address).collect();
        let mut read = Vec::with_capacity(wanted.len());
        for node in self.files.read_many(&addresses) {
            match node {
                Ok(node) => read.push(node),
                Err(error) => return (read, Some(error)),
            }
        }
        (read, None)
    }

    /// Stores nodes; where each is.
    pub(crate) fn store(&self, taken: &[Taken]) -> Result<Vec<NodeAddress>, VolumeError> {
        let mut addresses = Vec::with_capacity(taken.len());
        for taken in taken.chunks(STORED) {
            let contents: Vec<&Node> = taken.iter().map(|one| &*one.content).collect();
            addresses.extend(self.files.append(&contents)?);
        }
        Ok(addresses)
    }

    /// The files that have nodes of these addresses.
    pub(crate) fn files_of(
        &self,
        addresses: impl Iterator<Item = NodeAddress>,
    ) -> HashSet<NodeFile> {
        let mut last = None;
        let mut files = HashSet::new();
        for address in addresses {
            if last.replace(address.file()) != Some(address.file()) {
                files.insert(self.files.place(address).0);
            }
        }
        files
    }

    /// Makes room in `nodes`, which nobody else has meanwhile.
    pub(crate) fn fit(&self, nodes: &mut Nodes, may_store: bool) -> Result<(), VolumeError> {
        loop {
            let taken = nodes.evict(self.most(nodes.len()), if may_store { STORED } else { 0 });
            if taken.is_empty() {
                return Ok(());
            }
            let stored = match self.store(&taken) {
                // a pool on a full disk is opened in more memory
                Err(error) if error.is_full() => return Ok(()),
                stored => stored?,
            };
            taken.iter().zip(stored).for_each(|(one, address)| nodes.note_stored(one, address));
        }
    }
}
