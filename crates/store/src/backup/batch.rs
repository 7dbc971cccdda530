//! What passes from the readers to the storing threads.

use std::ops::Range;
use std::sync::Arc;

use onefold_cdc::Chunker;
use onefold_fingerprint::Fingerprint;

use super::assemble::{LastSegment, OpenDirectory, OpenFile};
use crate::tree::Entry;

/// A batch is handed over once it holds this many bytes
pub(super) const BATCH_LEN: usize = 1 << 20;

/// What passes from a reader to the storing threads.
pub(super) struct Batch {
    /// The chunks' bytes; as long as the pool's buffers, of which a part is used.
    pub(super) buffer: Vec<u8>,
    /// Where each chunk lies in the buffer, file after file.
    pub(super) chunks: Vec<Range<usize>>,
    /// The fingerprint of each chunk, if the reader knows them; else none.
    pub(super) fingerprints: Vec<Fingerprint>,
    /// Which files the chunks belong to.
    pub(super) segments: Vec<Segment>,
    /// Entries that are complete as they are.
    pub(super) entries: Vec<Done>,
}

/// The chunks of a batch that belong to one file.
pub(super) struct Segment {
    pub(super) file: Arc<OpenFile>,
    /// Which chunk of the file the segment's first is.
    pub(super) first: u64,
    /// How many chunks.
    pub(super) count: usize,
    /// Set on the file's last segment.
    pub(super) last: Option<LastSegment>,
}

/// An entry that needs no storing.
pub(super) enum Done {
    Entry(Arc<OpenDirectory>, usize, Option<Box<Entry>>),
    Listed(Arc<OpenDirectory>),
}

/// How long a batch's buffer must be so that a chunk always fits.
pub(super) fn buffer_len(chunker: &Chunker) -> usize {
    BATCH_LEN + 2 * chunker.sizes().max()
}
