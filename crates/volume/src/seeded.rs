//! Errors built in on purpose.
//!
//! A crash simulator that has never caught anything proves nothing. Each [`Bug`] breaks one rule of
//! the order in which a pool becomes durable; a test switches them on one by one and fails unless
//! the simulator notices. Without the feature `seeded-bugs` none of them can be switched on and the
//! compiler removes them.

use std::sync::atomic::{AtomicU8, Ordering};

/// A rule of the order, broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// The journal tells of pages whose bytes are not durable.
    ContainersUnsynced = 1,
    /// A flush returns before the journal is durable.
    JournalUnsynced = 2,
    /// A container's file goes before the journal says so.
    RemovedBeforeDropped = 3,
    /// What came before a checkpoint goes before that is durable.
    CheckpointUnsynced = 4,
    /// A batch that was not acknowledged is handed over again with what came since.
    RetryGrown = 5,
    /// The journal does not tell that pages were moved.
    MovesUntold = 6,
    /// What waits when a checkpoint is taken is in no journal.
    WaitingLost = 7,
    /// A page that the quota refuses leaves a hole behind.
    RefusedErased = 8,
    /// A container that has its footer is not synced any more.
    SealedUnsynced = 9,
    /// A container that has its footer may be closed before that is durable.
    ClosedUnsynced = 10,
    /// A batch is acknowledged though another process has the pool by then.
    SupersededUnseen = 11,
    /// Which frames of earlier writers count is not written down.
    CutUntold = 12,
    /// Who opens a pool says so in one copy of the mark, over which another one may be writing.
    ClaimedOnce = 13,
    /// Who opens a pool removes containers without looking whether it still has it.
    RemovedUnseen = 14,
    /// What a volume had is let go before the journal tells that it no longer has it.
    ReleasedUntold = 15,
    /// A compaction passes by what volumes no longer have and still refer to.
    DyingUnforwarded = 16,
}

impl Bug {
    /// All of them, for the test to go through.
    pub const ALL: &[Bug] = &[
        Bug::ContainersUnsynced,
        Bug::JournalUnsynced,
        Bug::RemovedBeforeDropped,
        Bug::CheckpointUnsynced,
        Bug::RetryGrown,
        Bug::MovesUntold,
        Bug::WaitingLost,
        Bug::RefusedErased,
        Bug::SealedUnsynced,
        Bug::ClosedUnsynced,
        Bug::SupersededUnseen,
        Bug::CutUntold,
        Bug::ClaimedOnce,
        Bug::RemovedUnseen,
        Bug::ReleasedUntold,
        Bug::DyingUnforwarded,
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
