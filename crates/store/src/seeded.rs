//! Errors built in on purpose.
//!
//! A crash simulator that has never caught anything proves nothing. Each [`Bug`] breaks one rule
//! of the order in which backup, forget, prune and repair make and delete things; the tests switch them on one by one and
//! fail unless the simulator notices. Without the feature `seeded-bugs` none of them can be
//! switched on and the compiler removes them.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// A rule of the write order, broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// The snapshot is put while its trees and chunks are still on their way.
    SnapshotBeforeTree = 2,
    /// The receipt is put before the snapshot that it acknowledges.
    ReceiptBeforeSnapshot = 3,
    /// A container whose put failed is taken for stored.
    ContainerErrorSwallowed = 4,
    /// The last open container is never put.
    LastContainerForgotten = 5,
    /// The backup is acknowledged before its snapshot is put.
    AcknowledgedBeforeSnapshot = 6,
    /// The configuration of an encrypted repository is put before its first key.
    ConfigBeforeKey = 7,
    /// A receipt is deleted after the snapshot that it acknowledges.
    ReceiptForgottenLast = 16,
    /// A backup gives no notice that it relies on what is there.
    IntentLost = 8,
    /// A backup that finds a fence in its snapshot's place removes it.
    FenceIgnored = 9,
    /// A backup relies on containers that are condemned.
    CondemnedReused = 10,
    /// Containers are deleted before the mark that condemns them is put.
    DeletedBeforeMark = 11,
    /// Containers are deleted by what intents there were before they were condemned.
    IntentsListedEarly = 12,
    /// The copies of live chunks are put after the containers that they were copied from are gone.
    CopiedAfterDelete = 13,
    /// Snapshots that were made while containers were condemned are not looked at.
    SnapshotsListedEarly = 14,
    /// Two prunes that run at once do not look at each other's marks.
    OtherMarksIgnored = 15,
    /// A repair puts rewritten snapshots before what they refer to.
    RewrittenBeforeChunks = 17,
    /// A repair forgets the snapshots that it is about to rewrite.
    BrokenForgotten = 18,
    /// A repair deletes damaged containers before it saves what is good in them.
    DamagedDeleted = 19,
    /// A repair keeps files of which chunks are lost in the snapshots that it writes.
    LostFilesKept = 20,
    /// A copy puts a snapshot before what it refers to.
    CopyCommittedEarly = 21,
    /// A snapshot is entered in the log before it is there.
    LoggedBeforeSnapshot = 22,
    /// A snapshot is forgotten before the log says so.
    ForgottenLoggedLast = 23,
    /// What a client remembers is written over, so that a crash loses it.
    MemoryOverwritten = 24,
    /// A client that sees a contradiction says so, and believes what it is shown from then on.
    ContradictionBelieved = 25,
    /// Whoever takes a client's key back looks for its snapshots before he says so.
    ClientListedEarly = 26,
    /// The last word on a client is put before the parts that name its snapshots.
    PartsPutLast = 27,
    /// Intents are listed before those that were put before the marks are sure to be shown.
    IntentsUnsettled = 29,
    /// A backup does not look whether its snapshot was forgotten before it acknowledges it.
    ForgottenAcknowledged = 30,
    /// No group can be compressed. Not ours, but no compressor fails when asked to.
    CompressorFails = 28,
}

impl Bug {
    /// The bugs of a backup by itself, for the tests to go through.
    pub const OF_BACKUP: &[Bug] = &[
        Bug::SnapshotBeforeTree,
        Bug::ReceiptBeforeSnapshot,
        Bug::ContainerErrorSwallowed,
        Bug::LastContainerForgotten,
        Bug::AcknowledgedBeforeSnapshot,
        Bug::ConfigBeforeKey,
        Bug::LoggedBeforeSnapshot,
    ];

    /// The bugs of forget and prune, and of backups beside them.
    pub const OF_PRUNE: &[Bug] = &[
        Bug::ReceiptForgottenLast,
        Bug::IntentLost,
        Bug::FenceIgnored,
        Bug::CondemnedReused,
        Bug::DeletedBeforeMark,
        Bug::IntentsListedEarly,
        Bug::CopiedAfterDelete,
        Bug::SnapshotsListedEarly,
        Bug::OtherMarksIgnored,
        Bug::ForgottenLoggedLast,
        Bug::IntentsUnsettled,
        Bug::ForgottenAcknowledged,
    ];

    /// The bug of taking a client's key back beside its backups.
    pub const OF_CLIENTS: &[Bug] = &[Bug::ClientListedEarly];

    /// The bug of taking a key back that is cut off.
    pub const OF_PARTS: &[Bug] = &[Bug::PartsPutLast];

    /// The bug of a copy.
    pub const OF_COPY: &[Bug] = &[Bug::CopyCommittedEarly];

    /// The bugs of a client's memory.
    pub const OF_MEMORY: &[Bug] = &[Bug::MemoryOverwritten, Bug::ContradictionBelieved];

    /// The bugs of a repair.
    pub const OF_REPAIR: &[Bug] = &[
        Bug::RewrittenBeforeChunks,
        Bug::BrokenForgotten,
        Bug::DamagedDeleted,
        Bug::LostFilesKept,
    ];
}

static ACTIVE: AtomicU8 = AtomicU8::new(0);

/// Switches `bug` on for the whole process, and any other off.
#[cfg(feature = "seeded-bugs")]
pub fn activate(bug: Option<Bug>) {
    ACTIVE.store(bug.map_or(0, |bug| bug as u8), Ordering::SeqCst);
}

pub(crate) fn active(bug: Bug) -> bool {
    cfg!(feature = "seeded-bugs") && ACTIVE.load(Ordering::SeqCst) == bug as u8
}

static WORDS_ARE_SHORT: AtomicBool = AtomicBool::new(false);

/// Lets one object name one snapshot of a client at most, for the whole process.
#[cfg(feature = "seeded-bugs")]
pub fn shorten_words() {
    WORDS_ARE_SHORT.store(true, Ordering::SeqCst);
}

pub(crate) fn are_words_short() -> bool {
    cfg!(feature = "seeded-bugs") && WORDS_ARE_SHORT.load(Ordering::SeqCst)
}
