//! Who takes part, and with what.

use onefold_bench::Contender;
use onefold_cdc::ChunkSizes;

/// A contender and what a table says of it besides its times.
pub(crate) struct Entry<'a> {
    pub(crate) contender: Contender<'a>,
    /// `onefold`, or the crate.
    pub(crate) by: &'static str,
    /// The kernel that runs; what other crates choose is theirs.
    pub(crate) kernel: String,
    /// What it was asked for: min, average and max, and whatever else there is to say.
    pub(crate) parameters: String,
}

/// Bounds at which hashes are compared: those that the crate fastcdc is mostly measured with.
pub(crate) fn hash_sizes() -> ChunkSizes {
    ChunkSizes::new(2 << 10, 8 << 10, 64 << 10).expect("in order")
}

/// Bounds of MinCDC, whose mean is the middle of them.
pub(crate) fn min_cdc_sizes() -> ChunkSizes {
    ChunkSizes::new(4 << 10, 8 << 10, 12 << 10).expect("in order")
}

/// Bounds of SeqCDC: those of the crate cdc-chunkers.
pub(crate) fn seq_cdc_sizes() -> ChunkSizes {
    ChunkSizes::new(4 << 10, 8 << 10, 16 << 10).expect("in order")
}

/// What restic cuts by.
pub(crate) fn restic_sizes() -> ChunkSizes {
    ChunkSizes::new(512 << 10, 1 << 20, 8 << 20).expect("in order")
}

/// `2048 / 8192 / 65536`
pub(crate) fn shown(sizes: ChunkSizes) -> String {
    format!("{} / {} / {}", sizes.min(), sizes.avg(), sizes.max())
}
