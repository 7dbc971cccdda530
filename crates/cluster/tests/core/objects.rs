//! The objects that shards share, and the guarded operations on them.
//!
//! A container stands for two objects: its guard in the replicated pool and its pages in the data pool.
//! From the moment its guard is removed the pages may vanish at any time, so the model takes them for
//! removed then.

use crate::seeded::Seeded;

/// How many shards there are.
pub(crate) const SHARDS: usize = 3;
/// How many containers are ever made.
pub(crate) const CONTAINERS: usize = 2;
/// How many pages a container holds.
pub(crate) const PAGES: usize = 2;

/// What a shard writes under its name into a guard object: the writer that registers, then the number
/// of the registration, which no writer uses twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Value {
    /// The writer.
    pub(crate) writer: u8,
    /// Counts from 1 in each writer and container.
    pub(crate) number: u8,
}

/// Whether a guard takes registrations. It only ever moves on to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Access {
    /// Not yet.
    #[default]
    New,
    /// It does.
    Open,
    /// No longer.
    Closing,
}

/// The guard object of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Guard {
    /// The omap: a shard that may have live pages in the container, and the value it registered.
    pub(crate) users: [Option<Value>; SHARDS],
    /// Whether it takes registrations: from when it is opened until it is closed.
    pub(crate) access: Access,
    /// Whether nothing changed since it was made. So its version is that of its creation.
    pub(crate) is_new: bool,
}

/// A container: its guard and its pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Container {
    /// The guard, while it exists.
    pub(crate) guard: Option<Guard>,
    /// Whether the guard was ever removed, after which the pages vanish.
    pub(crate) removed: bool,
    /// The pages by offset; each is known by the writer that wrote it, as only one shard writes here.
    pub(crate) pages: [u8; PAGES],
    /// How many pages it holds.
    pub(crate) length: u8,
    /// Whether writes are refused.
    pub(crate) sealed: bool,
}

/// A guarded operation, as it travels to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Operation {
    /// Makes the guard, with its creator registered; refused if it exists.
    Create { container: usize, shard: usize, value: Value },
    /// Writes a page at `offset`, which must be the length; refused if sealed or absent.
    Write { container: usize, offset: u8, content: u8 },
    /// Opens the guard; refused if it changed since it was made.
    ///
    /// A superseded gateway may read the version of a guard that it makes later: `reads_later`.
    Open { container: usize, reads_later: bool },
    /// Registers; refused if the guard is absent, new or closing, or has a value of the shard.
    Register { container: usize, shard: usize, value: Value },
    /// Drops the registration; refused if its value is another one.
    Drop { container: usize, shard: usize, value: Value },
    /// Removes the guard; refused if it changed since its set was read as empty.
    Remove { container: usize },
}

impl Operation {
    /// The container whose objects it changes.
    pub(crate) fn container(self) -> usize {
        match self {
            Self::Create { container, .. }
            | Self::Write { container, .. }
            | Self::Open { container, .. }
            | Self::Register { container, .. }
            | Self::Drop { container, .. }
            | Self::Remove { container } => container,
        }
    }
}

/// All containers, and the operations that may still arrive, each at most once, in any order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Objects {
    /// The containers, by the order in which they were named.
    pub(crate) containers: [Container; CONTAINERS],
    /// Operations on their way whose sender does not wait for them any more, in order.
    pub(crate) late: Vec<Operation>,
}

impl Objects {
    /// Lets `operation` arrive at any later time, or never.
    pub(crate) fn delay(&mut self, operation: Operation) {
        if let Err(place) = self.late.binary_search(&operation) {
            self.late.insert(place, operation);
        }
    }

    /// The value that `shard` has in the guard of `container`.
    pub(crate) fn registered(&self, container: usize, shard: usize) -> Option<Value> {
        self.containers[container].guard.as_ref()?.users[shard]
    }

    /// Applies `operation` if its guards hold. Answers whether they did.
    pub(crate) fn apply(&mut self, operation: Operation, seeded: Option<Seeded>) -> bool {
        let object = &mut self.containers[operation.container()];
        let applied = match operation {
            Operation::Create { shard, value, .. } => {
                let absent = object.guard.is_none();
                if absent {
                    let mut guard = Guard { is_new: true, ..Guard::default() };
                    guard.users[shard] = Some(value);
                    if seeded == Some(Seeded::CreatesOpen) {
                        guard.access = Access::Open;
                    }
                    object.guard = Some(guard);
                }
                absent
            }
            Operation::Write { offset, content, .. } => {
                // The container is made once the guard is open.
                let exists = object.guard.as_ref().is_some_and(|it| it.access != Access::New);
                let fits = exists && !object.sealed && object.length == offset;
                if fits {
                    object.pages[offset as usize] = content;
                    object.length += 1;
                }
                fits
            }
            Operation::Open { .. } => match &mut object.guard {
                Some(guard)
                    if guard.access == Access::New
                        && (guard.is_new || seeded == Some(Seeded::OpensAnyVersion)) =>
                {
                    guard.access = Access::Open;
                    true
                }
                _ => false,
            },
            Operation::Register { shard, value, .. } => match &mut object.guard {
                Some(guard)
                    if guard.access == Access::Open
                        && (guard.users[shard].is_none()
                            || seeded == Some(Seeded::RegistersOverAnyValue)) =>
                {
                    guard.users[shard] = Some(value);
                    true
                }
                _ => false,
            },
            Operation::Drop { shard, value, .. } => match &mut object.guard {
                Some(guard)
                    if guard.users[shard] == Some(value)
                        || (seeded == Some(Seeded::DropsAnyValue)
                            && guard.users[shard].is_some()) =>
                {
                    guard.users[shard] = None;
                    true
                }
                _ => false,
            },
            Operation::Remove { .. } => {
                object.removed |= object.guard.is_some();
                object.guard.take().is_some()
            }
        };
        if applied {
            if !matches!(operation, Operation::Create { .. })
                && let Some(guard) = &mut object.guard
            {
                guard.is_new &= matches!(operation, Operation::Write { .. });
            }
            self.forget_refused(operation, seeded);
        }
        applied
    }

    /// Refuses new users of `container` from now on.
    pub(crate) fn close(&mut self, container: usize, seeded: Option<Seeded>) {
        if let Some(guard) = &mut self.containers[container].guard {
            guard.access = Access::Closing;
            guard.is_new = false;
            self.forget_refused(Operation::Remove { container }, seeded);
        }
    }

    /// Refuses writes into `container` from now on.
    pub(crate) fn seal(&mut self, container: usize) {
        self.containers[container].sealed = true;
        self.forget_writes(container);
    }

    /// Forgets late operations that the engine is sure to refuse, so that equal futures are one state.
    ///
    /// `applied` changed the object's version, so operations that assert an earlier one are among them.
    fn forget_refused(&mut self, applied: Operation, seeded: Option<Seeded>) {
        let container = applied.container();
        if matches!(applied, Operation::Write { .. }) {
            self.forget_writes(container);
            return;
        }
        let object = &self.containers[container];
        let recreated = self.late.iter().any(
            |late| matches!(late, Operation::Create { container: other, .. } if *other == container),
        );
        let closing = object.guard.as_ref().is_some_and(|guard| guard.access == Access::Closing);
        let is_new = object.guard.as_ref().is_some_and(|guard| guard.is_new);
        let gone = object.guard.is_none() && !recreated;
        self.late.retain(|late| {
            if late.container() != container {
                return true;
            }
            match late {
                Operation::Remove { .. } => {
                    seeded == Some(Seeded::RemovesWithoutVersion) && object.guard.is_some()
                }
                Operation::Open { reads_later, .. } => {
                    *reads_later && (is_new || recreated) || seeded == Some(Seeded::OpensAnyVersion)
                }
                Operation::Register { .. } => !closing && !gone,
                Operation::Drop { .. } | Operation::Write { .. } => !gone,
                Operation::Create { .. } => true,
            }
        });
    }

    /// Forgets late writes into `container` that its length or its seal refuses.
    pub(crate) fn forget_writes(&mut self, container: usize) {
        let Container { sealed, length, .. } = self.containers[container];
        self.late.retain(|late| match late {
            Operation::Write { container: other, offset, .. } if *other == container => {
                !sealed && *offset >= length
            }
            _ => true,
        });
    }
}
