//! How a long measurement shows what it does, and hears that it should stop.

/// Whoever waits for a measurement. Called by several threads.
pub trait Watch: Sync {
    /// Something begins that takes `total` steps: bytes to cut, or runs to time.
    fn begin(&self, what: &str, total: u64);
    /// So many of the steps are done.
    fn advance(&self, steps: u64);
    /// Whether to stop; what was measured until then counts.
    fn is_cancelled(&self) -> bool;
}

/// Nobody waits.
impl Watch for () {
    fn begin(&self, _what: &str, _total: u64) {}
    fn advance(&self, _steps: u64) {}
    fn is_cancelled(&self) -> bool {
        false
    }
}
