//! Deliberate bugs: a test that passes with one of them tests nothing.

/// A bug that a storage layer may have, and that a crash reveals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    not(feature = "seeded-bugs"),
    expect(unreachable_pub, reason = "without the feature nobody can ask for an error")
)]
pub enum DiskBug {
    /// A put does not sync the object's bytes.
    SkipFileSync,
    /// A put does not sync the directory of the object's name.
    SkipDirectorySync,
    /// A put gives the object its name before it syncs the bytes.
    NameBeforeBytes,
    /// Syncing a log does nothing.
    LogSyncDoesNothing,
    /// Syncing pages does nothing.
    PagesSyncDoesNothing,
}

#[cfg(feature = "seeded-bugs")]
impl DiskBug {
    /// All bugs.
    pub const ALL: [Self; 5] = [
        Self::SkipFileSync,
        Self::SkipDirectorySync,
        Self::NameBeforeBytes,
        Self::LogSyncDoesNothing,
        Self::PagesSyncDoesNothing,
    ];
}
