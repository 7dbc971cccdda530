//! The memory budget of an index and its shares.

use crate::recent::PAGE_COST;

/// The maximum memory of an index, whatever the number of its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    bytes: usize,
}

/// The approximate bytes of an entry in the set of those that are in no segment yet.
const FRESH_COST: usize = 32;

impl Memory {
    /// The minimum with which an index works.
    pub const MIN: Self = Self { bytes: 64 << 10 };

    /// The default, 24 MiB, holds filters of about ten million entries; with more entries filters become
    /// sparser.
    pub const DEFAULT: Self = Self { bytes: 24 << 20 };

    /// This many bytes, but at least [`MIN`](Self::MIN).
    pub fn new(bytes: usize) -> Self {
        Self { bytes: bytes.max(Self::MIN.bytes) }
    }

    /// The budget in bytes.
    pub fn bytes(self) -> usize {
        self.bytes
    }

    /// Bytes for filters: half of the budget.
    pub(crate) fn filters(self) -> u64 {
        self.bytes as u64 / 2
    }

    /// Entries that are in no segment yet: a quarter.
    pub(crate) fn fresh_entries(self) -> usize {
        self.bytes / 4 / FRESH_COST
    }

    /// Recently read pages of lists: a quarter.
    pub(crate) fn recent_pages(self) -> usize {
        self.bytes / 4 / PAGE_COST
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::DEFAULT
    }
}
