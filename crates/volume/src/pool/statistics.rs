//! What a pool holds and did, in numbers.

use std::sync::atomic::Ordering;

use onefold_container::Codec;
use onefold_fingerprint::FingerprintAlgorithm;
use onefold_index::TableCounters;

use crate::error::VolumeError;
use crate::ids::Version;
use crate::pool::head::Hash;
use crate::pool::open::Pool;
use crate::pool::volumes::{VolumeInfo, info};

/// What a pool holds, and what happened since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statistics {
    /// Volumes, snapshots among them.
    pub volumes: u64,
    /// How many of them are snapshots.
    pub snapshots: u64,
    /// Blocks that are no holes, of all volumes.
    pub mapped_blocks: u64,
    /// Their bytes.
    pub mapped_bytes: u64,
    /// Distinct pages that are referred to, also by what of a deleted volume is not let go yet; but for
    /// what is [pending](Self::pending_references).
    pub pages: u64,
    /// Nodes of maps and tables of pages, 4 KiB each.
    pub nodes: u64,
    /// How many of them are in memory.
    pub resident_nodes: u64,
    /// How many of those are in memory alone, or were changed since they were stored.
    pub dirty_nodes: u64,
    /// How many may be in memory; `None` if all.
    pub most_nodes: Option<u64>,
    /// How often a step needed nodes that were all in memory.
    pub node_hits: u64,
    /// How often a node was read because it was not in memory.
    pub node_misses: u64,
    /// How many of these would have been in memory if twice as many could be.
    pub node_misses_for_want: u64,
    /// References that are not added to their pages yet, whose nodes are not in memory.
    pub pending_references: u64,
    /// What they take in containers.
    pub page_bytes: u64,
    /// What containers take, with what nothing refers to any more.
    pub container_bytes: u64,
    /// How much of that compacting would give back now.
    pub reclaimable_bytes: u64,
    /// Containers that cannot be read, or of which a page is known to be lost.
    pub damaged_containers: u64,
    /// Bytes of the batches since the checkpoint, which are read when the pool is opened.
    pub journal_bytes: u64,
    /// Pages written that were known.
    pub known_pages: u64,
    /// Pages written that were new.
    pub new_pages: u64,
    /// Pages written that were zeros.
    pub zero_pages: u64,
    /// New pages that were refused because of the quota.
    pub over_quota_pages: u64,
    /// The quota in bytes, if there is one.
    pub quota: Option<u64>,
    /// New pages for which the table had no room: they are kept, and not found again.
    pub unindexed_pages: u64,
    /// Pages that the table did not know and that were found beside one that it knew.
    pub neighbour_pages: u64,
    /// Directories of containers that were read to find them.
    pub directories_read: u64,
    /// Directories that are in memory to find more.
    pub cached_directories: usize,
    /// Bytes that they take.
    pub cached_directory_bytes: usize,
    /// Bytes of new pages, before they were compressed.
    pub new_bytes: u64,
    /// What they took in containers.
    pub new_stored_bytes: u64,
    /// Commits to the journal.
    pub commits: u64,
    /// Bytes of the table of fingerprints.
    pub table_bytes: usize,
    /// Entries that the table has room for.
    pub table_capacity: usize,
    /// Its buckets: entries divided by them are the mean length of a chain.
    pub table_buckets: usize,
    /// Of so many pages the table keeps about one; 1 while it keeps all.
    pub table_one_in: u64,
    /// What the table counted.
    pub table_counters: TableCounters,
}

impl Pool {
    /// What names the pages.
    pub fn hash(&self) -> Hash {
        match self.0.fingerprinter.algorithm() {
            FingerprintAlgorithm::Sha3 => Hash::Sha3,
            _ => Hash::Blake3,
        }
    }

    /// The version of its format.
    pub fn version(&self) -> Version {
        match self.0.paging {
            None => Version::Whole,
            Some(_) => Version::Paged,
        }
    }

    /// By which codec new pages are compressed if no option says otherwise.
    pub fn own_codec(&self) -> Codec {
        self.0.own_codec
    }

    /// Pages that were refused because of the quota, since the pool was opened.
    pub fn over_quota_pages(&self) -> u64 {
        self.0.counters.over_quota.load(Ordering::Relaxed)
    }

    /// How many of `sample` chains of the table of fingerprints have 0, 1, 2 and so on entries; `None`
    /// if it has no chains.
    pub fn chain_lengths(&self, sample: usize) -> Option<Vec<u64>> {
        self.0.table.get().chain_lengths(sample)
    }

    /// Entries of the table of fingerprints, by a pass over all of it.
    pub fn table_entries(&self) -> usize {
        self.0.table.get().count()
    }

    /// Adds all references that are [pending](Statistics::pending_references), so that sums are exact: reads
    /// nodes that are not in memory.
    pub fn settle(&self) -> Result<(), VolumeError> {
        self.0.settle_all()
    }

    /// Sums and counters. Takes a moment for each volume and each container, however much is in them.
    pub fn statistics(&self) -> Statistics {
        let (volumes, sums, damaged_containers, nodes, pending) = {
            let state = self.0.state();
            let volumes: Vec<VolumeInfo> = state.volumes.values().map(info).collect();
            let pages = &state.pages;
            (volumes, pages.sums(), pages.damaged(), pages.nodes.counts(), pages.pending())
        };
        let counters = &self.0.counters;
        let table = self.0.table.get();
        let (cached_directories, cached_directory_bytes) = self.0.neighbours.size();
        Statistics {
            mapped_blocks: volumes.iter().map(|one| one.mapped_blocks).sum(),
            mapped_bytes: volumes
                .iter()
                .map(|one| one.mapped_blocks * u64::from(one.block_size))
                .sum(),
            volumes: volumes.len() as u64,
            snapshots: volumes.iter().filter(|one| one.is_read_only).count() as u64,
            pages: sums.pages,
            nodes: nodes.nodes,
            resident_nodes: nodes.resident,
            dirty_nodes: nodes.dirty,
            most_nodes: self
                .0
                .paging
                .as_ref()
                .map(|paging| paging.most(nodes.nodes as usize) as u64),
            node_hits: counters.node_hits.load(Ordering::Relaxed),
            node_misses: nodes.read,
            node_misses_for_want: nodes.read_for_want,
            pending_references: pending as u64,
            page_bytes: sums.page_bytes,
            container_bytes: sums.container_bytes,
            reclaimable_bytes: sums.reclaimable_bytes,
            damaged_containers,
            journal_bytes: counters.journal_bytes.load(Ordering::Relaxed),
            known_pages: counters.known.load(Ordering::Relaxed),
            new_pages: counters.new.load(Ordering::Relaxed),
            over_quota_pages: counters.over_quota.load(Ordering::Relaxed),
            quota: self.0.options.quota,
            zero_pages: counters.zero.load(Ordering::Relaxed),
            unindexed_pages: counters.unindexed.load(Ordering::Relaxed),
            neighbour_pages: counters.neighbours.load(Ordering::Relaxed),
            directories_read: counters.directories_read.load(Ordering::Relaxed),
            cached_directories,
            cached_directory_bytes,
            new_bytes: counters.new_bytes.load(Ordering::Relaxed),
            new_stored_bytes: counters.new_stored_bytes.load(Ordering::Relaxed),
            commits: counters.commits.load(Ordering::Relaxed),
            table_bytes: table.bytes(),
            table_capacity: table.capacity(),
            table_buckets: table.bucket_count(),
            table_one_in: table.one_in(),
            table_counters: table.counters(),
        }
    }
}
