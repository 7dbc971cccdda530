//! How the memory of an index is shared out.

use crate::recent::PAGE_COST;

/// How much memory an index may take, whatever the number of its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    bytes: usize,
}

/// Bytes that an entry takes in a set of those that are in no segment yet, about.
const FRESH_COST: usize = 32;

impl Memory {
    /// The least that an index works with.
    pub const MIN: Self = Self { bytes: 64 << 10 };

    /// Of which 24 MiB hold the filters of ten million entries or so; beyond that they thin out.
    pub const DEFAULT: Self = Self { bytes: 24 << 20 };

    /// So many bytes, [`MIN`](Self::MIN) at least.
    pub fn new(bytes: usize) -> Self {
        Self { bytes: bytes.max(Self::MIN.bytes) }
    }

    /// In bytes.
    pub fn bytes(self) -> usize {
        self.bytes
    }

    /// Bytes for filters: a half.
    pub(crate) fn filters(self) -> u64 {
        self.bytes as u64 / 2
    }

    /// Entries that wait for a segment: a quarter.
    pub(crate) fn fresh_entries(self) -> usize {
        self.bytes / 4 / FRESH_COST
    }

    /// Pages of lists that were read lately: a quarter.
    pub(crate) fn recent_pages(self) -> usize {
        self.bytes / 4 / PAGE_COST
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::DEFAULT
    }
}
