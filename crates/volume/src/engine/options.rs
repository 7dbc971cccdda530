//! What the user of a pool may choose each time it is opened.

use std::sync::Arc;

use onefold_container::Codec;
use onefold_index::{ChainedTable, CompactTable, Table};

use crate::error::VolumeError;

/// How a pool works; none of it changes what is kept.
#[derive(Debug, Clone)]
pub struct Options {
    /// By which codec new pages are compressed, instead of the pool's own. Pages of all codecs can be
    /// read side by side.
    pub codec: Option<Codec>,
    /// Bytes of memory for the table of fingerprints.
    pub table_bytes: usize,
    /// Whether the table has entries of a third of the size, which hold half a fingerprint.
    pub is_compact: bool,
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
            is_compact: false,
            verify: false,
            quota: None,
            container_len: 16 << 20,
            commit_len: 1 << 20,
            open_files: 512,
        }
    }
}

impl Options {
    pub(crate) fn table(&self) -> Result<Arc<dyn Table>, VolumeError> {
        Ok(match self.is_compact {
            true => Arc::new(CompactTable::new(self.table_bytes)?),
            false => Arc::new(ChainedTable::new(self.table_bytes)?),
        })
    }
}
