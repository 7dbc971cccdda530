//! A chunk that a file wants.

use std::ops::Range;

use onefold_fingerprint::Fingerprint;

use crate::reading::bring::Wanted;
use crate::{Place, Recipe};

/// A chunk that a file wants.
pub(super) struct WantedChunk {
    /// Where it lies, as far as the index knows.
    pub(super) place: Option<Place>,
    pub(super) leaf: Recipe,
    pub(super) file: FileNumber,
    /// Where it belongs, in bytes after the beginning of the file's content.
    pub(super) start: u64,
}

impl Wanted for WantedChunk {
    fn place(&self) -> Option<Place> {
        self.place
    }

    fn fingerprint(&self) -> &Fingerprint {
        &self.leaf.root
    }
}

impl WantedChunk {
    /// Where its bytes belong in the file's content.
    pub(super) fn range(&self) -> Range<u64> {
        self.start..self.start + self.leaf.len
    }
}

/// Which of a window's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum FileNumber {
    Short(u32),
    Long(u32),
}
