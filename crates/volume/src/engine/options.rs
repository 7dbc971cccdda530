//! What the user of a pool may choose each time it is opened.

use std::sync::Arc;

use onefold_container::Codec;
use onefold_index::{ChainedTable, CompactTable, HookTable, Table};

use crate::error::VolumeError;

/// How the table of fingerprints is laid out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IndexLayout {
    /// StreamDedup's: whole fingerprints, 66 bytes for each. Pages for which it has no room are not found
    /// again.
    #[default]
    Chained,
    /// Half of each fingerprint, 26 bytes for each. Pages for which it has no room are not found again.
    Compact,
    /// The compact one in seven eighths of the memory. If it is full it keeps a sample of the fingerprints,
    /// and pages that lie beside those are found through directories of containers, which are read when they
    /// are needed and have the rest of the memory.
    Hooks,
}

/// How a pool works; none of it changes what is kept.
#[derive(Debug, Clone)]
pub struct Options {
    /// By which codec new pages are compressed, instead of the pool's own. Pages of all codecs can be
    /// read side by side.
    pub codec: Option<Codec>,
    /// Bytes of memory for the table of fingerprints, with what belongs to it.
    pub table_bytes: usize,
    /// How that memory is used.
    pub index: IndexLayout,
    /// Bytes of memory for the nodes of maps and tables of pages, of a paged pool.
    pub node_bytes: u64,
    /// No fewer of them are in memory: some steps need all of those of a container. For tests.
    #[doc(hidden)]
    pub least_nodes: usize,
    /// Whether the table of fingerprints of a paged pool is filled after it was opened, by
    /// [`Pool::fill_index`](crate::Pool::fill_index): until then pages are kept that are there already.
    pub fills_later: bool,
    /// Whether a page that seems to be known is compared with the one that is kept.
    pub verify: bool,
    /// Bytes that containers may have together. Who writes new pages beyond them is told that there is
    /// no space. Compacting may take a container more while it works.
    pub quota: Option<u64>,
    /// Length in bytes from which on a container is closed.
    pub container_len: u64,
    /// Bytes of records that may wait before they are written without a flush.
    pub commit_len: usize,
    /// Containers whose files are open at most, at least one; further ones are opened when they are
    /// read. Beside them are those with bytes that are not durable yet, as many as fill between two
    /// commits.
    pub open_files: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            codec: None,
            table_bytes: 256 << 20,
            index: IndexLayout::default(),
            node_bytes: u64::MAX,
            least_nodes: 4096,
            fills_later: false,
            verify: false,
            quota: None,
            container_len: 16 << 20,
            commit_len: 1 << 20,
            open_files: 512,
        }
    }
}

/// The share of a sampled table's memory that directories of containers may take.
const DIRECTORIES: usize = 8;

impl Options {
    /// Bytes of memory for directories of containers beside a table that keeps a sample.
    pub(crate) fn directory_bytes(&self) -> usize {
        self.table_bytes / DIRECTORIES
    }

    pub(crate) fn table(&self) -> Result<Arc<dyn Table>, VolumeError> {
        let bytes = self.table_bytes;
        Ok(match self.index {
            IndexLayout::Chained => Arc::new(ChainedTable::new(bytes)?),
            IndexLayout::Compact => Arc::new(CompactTable::new(bytes)?),
            IndexLayout::Hooks => Arc::new(HookTable::new(bytes - self.directory_bytes())?),
        })
    }
}
