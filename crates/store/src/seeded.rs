//! Errors built in on purpose.
//!
//! A crash simulator that has never caught anything proves nothing. Each [`Bug`] breaks one rule
//! of the order in which a backup makes things durable; the tests switch them on one by one and
//! fail unless the simulator notices. Without the feature `seeded-bugs` none of them can be
//! switched on and the compiler removes them.

use std::sync::atomic::{AtomicU8, Ordering};

/// A rule of the write order, broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// The index run is put before the containers it covers.
    IndexBeforeContainer = 1,
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
}

impl Bug {
    /// Every bug, for the tests to go through.
    pub const ALL: &[Bug] = &[
        Bug::IndexBeforeContainer,
        Bug::SnapshotBeforeTree,
        Bug::ReceiptBeforeSnapshot,
        Bug::ContainerErrorSwallowed,
        Bug::LastContainerForgotten,
        Bug::AcknowledgedBeforeSnapshot,
        Bug::ConfigBeforeKey,
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
