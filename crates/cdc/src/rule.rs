/// Where a chunk that starts at the first byte of `data` ends. Called once a chunk.
pub(crate) trait Rule: Send + Sync {
    /// The cut-point, or `None` if the bytes after `data` may still decide it; then `data` is
    /// shorter than max.
    fn next_cut(&self, data: &[u8]) -> Option<usize>;

    /// The cut-point if nothing follows `data`, which is not empty.
    fn last_cut(&self, data: &[u8]) -> usize {
        self.next_cut(data).unwrap_or(data.len())
    }

    /// Bytes of the first chunk of `reach` that are neither compared nor compared with.
    fn jumped(&self, _reach: &[u8]) -> usize {
        0
    }
}
