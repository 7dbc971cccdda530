//! Errors built in on purpose.
//!
//! Each [`Bug`] breaks one rule of a protocol; a test switches them on one by one and fails unless the
//! simulation notices. Without the feature `seeded-bugs` none of them can be switched on and the compiler
//! removes them.

onefold_backend::seeded_bugs! {
    /// A rule, broken.
    pub enum Bug {
        /// A take-over passes a sealed segment by.
        SegmentSkipped,
        /// A take-over reads the segment that takes batches before it raises the writer on it.
        RaisedLate,
        /// A batch whose answer was lost is applied again, as the next one.
        BatchTwice,
        /// A batch is appended to a segment that may be sealed.
        SealUnseen,
        /// A segment is sealed though its writer may have been superseded.
        SealedUnguarded,
        /// A head names a checkpoint before all of it is durable.
        CheckpointNamedEarly,
        /// What a late update of the head may still name is removed.
        RemovedEarly,
        /// The head is changed though another writer may have it.
        HeadUnguarded,
        /// What a late update may yet name is taken for leaked.
        OwnRemoved,
        /// A shard of a silent gateway is taken though its lease was not broken.
        TakenUnbroken,
        /// A record of a gateway, a shard or a name is changed though it is not as it was read.
        RecordUnguarded,
        /// Whether a gateway has a lease is looked up before it is read that it has a shard.
        LeasesSeenEarlier,
        /// Reads are answered though the lease may be over.
        ReadWithoutLease,
        /// Reads show writes that are not durable.
        ReadUnsettled,
        /// A drop removes the registration whatever its value is.
        DroppedAnyValue,
        /// A registration takes the place of any value.
        RegisteredOverAnyValue,
        /// A guard is removed whatever happened since its set was read as empty.
        RemovedUnversioned,
        /// A creation without an answer is sent again.
        CreatedAgain,
        /// A guard takes registrations from its creation on.
        CreatedOpen,
        /// A guard is opened whatever its version is.
        OpenedAnyVersion,
        /// A sweep looks at the shard's registrations before it reads the guard.
        SweptByOldMemory,
        /// A gateway that was superseded takes what its successor has registered for leaked.
        SuccessorTakenForLeak,
        /// No shard looks for registrations of its own that it does not know of.
        NeverSwept,
        /// A gateway tells the others nothing of what it has stored.
        StoredUntold,
        /// What was stored while containers were counted is taken for counted.
        CountedEarly,
        /// Several gateways look over all containers at the same time.
        TurnTaken,
        /// A container counts as scrubbed before its damage is noted.
        DamageNotedLate,
        /// What a living gateway has begun to scrub another one begins again.
        ScrubbedTwice,
        /// Damage is forgotten though its container exists.
        DamageForgotten,
        /// A shard is taken for its containers though another gateway has it.
        ServedTended,
        /// A shard that was taken for its containers is given back though a client asked for it.
        GivenBackAsked,
    }
}

pub(crate) use onefold_backend::seeded_fault as fault;
