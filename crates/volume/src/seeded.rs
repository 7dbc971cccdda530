//! Errors built in on purpose.
//!
//! Each [`Bug`] breaks one rule of the order in which a pool becomes durable; a test switches them on
//! one by one and fails unless the crash simulator notices. Without the feature `seeded-bugs` none of
//! them can be switched on and the compiler removes them.

onefold_backend::seeded_bugs! {
    /// A rule of the order, broken.
    pub enum Bug {
        /// The journal tells of pages whose bytes are not durable.
        ContainersUnsynced,
        /// A flush returns before the journal is durable.
        JournalUnsynced,
        /// A container's file goes before the journal says so.
        RemovedBeforeDropped,
        /// What came before a checkpoint goes before that is durable.
        CheckpointUnsynced,
        /// A batch that was not acknowledged is handed over again with what came since.
        RetryGrown,
        /// The journal does not tell that pages were moved.
        MovesUntold,
        /// What waits when a checkpoint is taken is in no journal.
        WaitingLost,
        /// A page that the quota refuses leaves a hole behind.
        RefusedErased,
        /// A container that has its footer is not synced any more.
        SealedUnsynced,
        /// A container that has its footer may be closed before that is durable.
        ClosedUnsynced,
        /// A batch is acknowledged though another process has the pool by then.
        SupersededUnseen,
        /// Which frames of earlier writers count is not written down.
        CutUntold,
        /// Who opens a pool says so in one copy of the mark, over which another one may be writing.
        ClaimedOnce,
        /// Who opens a pool removes containers without looking whether it still has it.
        RemovedUnseen,
        /// What a volume had is let go before the journal tells that it no longer has it.
        ReleasedUntold,
        /// A checkpoint names nodes that are not durable.
        NodesUnsynced,
        /// Files of nodes that the checkpoint before needs go before the next one is durable.
        NodesRemovedEarly,
        /// References that are pending are in no checkpoint.
        PendingUntold,
        /// A compaction passes by what volumes no longer have and still refer to.
        DyingUnforwarded,
        /// A page of another shard is mapped before the registration in its container was sent.
        MappedUnregistered,
        /// A page of another shard is mapped although no answer to the registration came.
        MappedUnanswered,
        /// Who takes a shard over goes on with a registration whose drop was announced.
        DropsForgotten,
        /// A hint is believed without a look at the container.
        HintBelieved,
    }
}

pub(crate) use onefold_backend::seeded_fault as fault;
