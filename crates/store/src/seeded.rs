//! Errors built in on purpose.
//!
//! A crash simulator that has never caught anything proves nothing. Each [`Bug`] breaks one rule
//! of the order in which backup, forget, prune and repair make and delete things; the tests switch them on one by one and
//! fail unless the simulator notices. Without the feature `seeded-bugs` none of them can be
//! switched on and the compiler removes them.

use std::sync::atomic::{AtomicBool, Ordering};

onefold_backend::seeded_bugs! {
    /// A rule of the write order, broken.
    pub enum Bug {
        /// The snapshot is put while its trees and chunks are still on their way.
        SnapshotBeforeTree,
        /// The receipt is put before the snapshot that it acknowledges.
        ReceiptBeforeSnapshot,
        /// A container whose put failed is taken for stored.
        ContainerErrorSwallowed,
        /// The last open container is never put.
        LastContainerForgotten,
        /// The backup is acknowledged before its snapshot is put.
        AcknowledgedBeforeSnapshot,
        /// The configuration of an encrypted repository is put before its first key.
        ConfigBeforeKey,
        /// A receipt is deleted after the snapshot that it acknowledges.
        ReceiptForgottenLast,
        /// A backup gives no notice that it relies on what is there.
        IntentLost,
        /// A backup that finds a fence in its snapshot's place removes it.
        FenceIgnored,
        /// A backup relies on containers that are condemned.
        CondemnedReused,
        /// Containers are deleted before the mark that condemns them is put.
        DeletedBeforeMark,
        /// Containers are deleted though a backup is running that may not know that they are condemned.
        IntentsIgnored,
        /// The copies of live chunks are put after the containers that they were copied from are gone.
        CopiedAfterDelete,
        /// Snapshots that were made while containers were condemned are not looked at.
        SnapshotsListedEarly,
        /// Two prunes that run at once do not look at each other's marks.
        OtherMarksIgnored,
        /// A repair puts rewritten snapshots before what they refer to.
        RewrittenBeforeChunks,
        /// A repair forgets the snapshots that it is about to rewrite.
        BrokenForgotten,
        /// A repair deletes damaged containers before it saves what is good in them.
        DamagedDeleted,
        /// A repair keeps files of which chunks are lost in the snapshots that it writes.
        LostFilesKept,
        /// A copy puts a snapshot before what it refers to.
        CopyCommittedEarly,
        /// A snapshot is entered in the log before it is there.
        LoggedBeforeSnapshot,
        /// A snapshot is forgotten before the log says so.
        ForgottenLoggedLast,
        /// What a client remembers is written over, so that a crash loses it.
        MemoryOverwritten,
        /// A client that sees a contradiction says so, and believes what it is shown from then on.
        ContradictionBelieved,
        /// Whoever takes a client's key back looks for its snapshots before he says so.
        ClientListedEarly,
        /// The last record of a client is put before the parts that name its snapshots.
        PartsPutLast,
        /// Intents are listed before those that were put before the marks are sure to be shown.
        IntentsUnsettled,
        /// A backup does not look whether its snapshot was forgotten before it acknowledges it.
        ForgottenAcknowledged,
        /// No group can be compressed. Not ours, but no compressor fails when asked to.
        CompressorFails,
    }
}

pub(crate) use onefold_backend::seeded_fault as fault;

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
        Bug::IntentsIgnored,
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

static WORDS_ARE_SHORT: AtomicBool = AtomicBool::new(false);

/// Lets one object name one snapshot of a client at most, for the whole process, or as many as ever.
#[cfg(feature = "seeded-bugs")]
pub fn shorten_words(are_short: bool) {
    WORDS_ARE_SHORT.store(are_short, Ordering::SeqCst);
}

pub(crate) fn are_words_short() -> bool {
    cfg!(feature = "seeded-bugs") && WORDS_ARE_SHORT.load(Ordering::SeqCst)
}
