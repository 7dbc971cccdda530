//! Errors built in on purpose: the checker must find each.

/// An error in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seeded {
    /// A page of another shard is mapped before its container's registration was sent.
    MapsBeforeRegistering,
    /// A page of another shard is mapped although no answer to its registration came.
    MapsWithoutAsking,
    /// A drop removes the registration whatever its value is.
    DropsAnyValue,
    /// A registration takes the place of any value.
    RegistersOverAnyValue,
    /// The value of a registration is the writer alone, so two registrations of a writer are alike.
    ValueIsWriterAlone,
    /// A take-over goes on writing into the containers that it finds open.
    LeavesOpen,
    /// A take-over seals a container by cutting it at the length that the journal knows.
    CutsWhenSealing,
    /// A take-over goes on with the registrations whose drops were announced, and forgets the others
    /// that were announced.
    LeavesIntents,
    /// A guard is removed whatever happened since its set was read as empty.
    RemovesWithoutVersion,
    /// A creation without an answer is sent again. So a superseded gateway can make a container again
    /// whose removal is on its way.
    CreatesAgain,
    /// A guard takes registrations from its creation on, so a late creation brings a removed one back.
    CreatesOpen,
    /// A guard is opened whatever its version is, so it is opened again if it comes back.
    OpensAnyVersion,
    /// A take-over reads the journal before it raises the writer on it, and no batch compares the
    /// sequence.
    ReadsBeforeRaising,
    /// A sweep looks at the shard's registrations before it reads the guard, so that it does not know
    /// of the last one.
    SweepsByOldMemory,
    /// No shard looks for registrations of its own that it does not know of.
    NeverSweeps,
}
