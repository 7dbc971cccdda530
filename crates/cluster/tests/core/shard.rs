//! What a shard's journal says, and what the gateway that serves the shard remembers.

use crate::objects::{CONTAINERS, Operation, PAGES, Value};

/// What a journal says of the shard's registration in a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Registration {
    /// There is none, or one that arrived too late to count.
    #[default]
    None,
    /// Announced: the shard makes the container, with itself registered.
    Creating(Value),
    /// Announced: the shard registers.
    Registering(Value),
    /// Known to be registered. Only now may the map name pages of the container.
    Registered(Value),
    /// Announced: the shard drops its registration. The map names no page of the container.
    Dropping(Value),
}

impl Registration {
    /// Its value.
    pub(crate) fn value(self) -> Option<Value> {
        match self {
            Self::None => None,
            Self::Creating(value)
            | Self::Registering(value)
            | Self::Registered(value)
            | Self::Dropping(value) => Some(value),
        }
    }
}

/// Where a block's page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// The container.
    pub(crate) container: usize,
    /// The page's offset in it.
    pub(crate) offset: u8,
}

/// What a journal says. A batch changes it as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Journal {
    /// The registration in each container.
    pub(crate) registrations: [Registration; CONTAINERS],
    /// The number of the last registration of the present writer in each container.
    pub(crate) numbers: [u8; CONTAINERS],
    /// The container into which the shard writes, and how many pages of it are known.
    pub(crate) open: Option<(usize, u8)>,
    /// The map. A volume of one block is enough: what protects a page does not depend on others.
    pub(crate) map: Option<Place>,
}

/// What is known of the operation that the journal announces for a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Reply {
    /// It was not sent.
    #[default]
    Unsent,
    /// It was sent, and no answer came: it was done, or may be done later, or never.
    Unknown,
    /// For a container that is made: the guard exists and is new, and its version is known.
    Made,
    /// It was done.
    Done,
    /// It was not done and never will be.
    Refused,
}

/// The page that a client writes and that is stored anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Write {
    /// None.
    #[default]
    None,
    /// Not sent.
    Pending,
    /// Sent, and no answer came.
    Unknown,
    /// In the container, durably.
    Written,
}

/// A shard.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shard {
    /// Whether anything ever happened to it.
    pub(crate) begun: bool,
    /// The last writer by the object `head`.
    pub(crate) head: u8,
    /// The writer whose batches the journal's segment accepts.
    pub(crate) writer: u8,
    /// What the journal says.
    pub(crate) journal: Journal,
    /// What the gateway that serves the shard takes for the journal. A gateway that was superseded is
    /// not in the model: its batches are refused, and the operations that it may still send are late
    /// ones from the moment of the take-over.
    pub(crate) memory: Journal,
    /// For [`ReadsBeforeRaising`](crate::seeded::Seeded::ReadsBeforeRaising): the journal as it was read.
    pub(crate) read_early: Option<Journal>,
    /// Whether an earlier gateway filled the open container. Then this one seals it and never writes there.
    pub(crate) inherited: bool,
    /// What is known of the operations that are announced.
    pub(crate) replies: [Reply; CONTAINERS],
    /// The page that is being stored.
    pub(crate) write: Write,
    /// The page that was acknowledged to the client last, by its content.
    pub(crate) acknowledged: Option<u8>,
}

impl Default for Shard {
    /// One that a first writer serves and that has nothing.
    fn default() -> Self {
        Self {
            begun: false,
            head: 1,
            writer: 1,
            journal: Journal::default(),
            memory: Journal::default(),
            read_early: None,
            inherited: false,
            replies: Default::default(),
            write: Write::None,
            acknowledged: None,
        }
    }
}

impl Shard {
    /// The container that the shard makes.
    pub(crate) fn creating(&self) -> Option<(usize, Value)> {
        self.memory.registrations.iter().enumerate().find_map(|(container, of)| match of {
            Registration::Creating(value) => Some((container, *value)),
            _ => None,
        })
    }

    /// Where the next page goes: a container that is known to exist, and the offset.
    pub(crate) fn target(&self) -> Option<(usize, u8)> {
        self.memory.open.or_else(|| {
            let (container, _) = self.creating()?;
            (self.replies[container] == Reply::Done).then_some((container, 0))
        })
    }

    /// The operations that the present gateway may still send if it does not notice that it is
    /// superseded: those its journal announces, and writes into the container that it fills.
    pub(crate) fn may_send(&self, shard: usize, creates_again: bool) -> Vec<Operation> {
        let mut sent = Vec::new();
        for (container, registration) in self.memory.registrations.iter().enumerate() {
            let unanswered = matches!(self.replies[container], Reply::Unsent | Reply::Unknown);
            match *registration {
                Registration::Creating(value)
                    if creates_again || self.replies[container] != Reply::Unknown =>
                {
                    let reads_later = unanswered;
                    if reads_later {
                        sent.push(Operation::Create { container, shard, value });
                    }
                    if self.replies[container] != Reply::Done {
                        sent.push(Operation::Open { container, reads_later });
                    }
                    sent.push(Operation::Write { container, offset: 0, content: self.writer });
                }
                Registration::Registering(value) if unanswered => {
                    sent.push(Operation::Register { container, shard, value });
                }
                Registration::Dropping(value) if unanswered => {
                    sent.push(Operation::Drop { container, shard, value });
                }
                _ => {}
            }
        }
        if let Some((container, offset)) = self.memory.open
            && (offset as usize) < PAGES
        {
            sent.push(Operation::Write { container, offset, content: self.writer });
        }
        sent
    }
}
