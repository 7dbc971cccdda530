//! A hook for tests between steps.

/// Between which steps something may be done.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Between {
    /// Those in which a map is let go. The first call is before all of them.
    Releases,
    /// Those in which maps are told where pages were moved. The last call is behind all of them.
    /// Whoever is called must not begin a compaction or a checkpoint.
    Forwards,
}

/// What a test does between steps. No lock is held but maintenance, while pages are moved.
pub(crate) type Hook = dyn Fn(Between) + Send + Sync;
