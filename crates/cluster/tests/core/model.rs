//! The protocol's steps.
//!
//! A gateway that serves a shard does one step at a time, and a step changes one object or appends one
//! batch. A batch and its answer are one step: a batch compares writer and sequence, so a gateway sends
//! it again until it knows. Any other operation may lose its answer. Then it is a *late* one, which
//! arrives at any later time or never, and the gateway goes on without knowing.

use stateright::{Model, Property};

use crate::objects::{Access, CONTAINERS, Objects, Operation, PAGES, SHARDS, Value};
use crate::properties;
use crate::seeded::Seeded;
use crate::shard::{Journal, Place, Registration, Reply, Shard, Write};

/// How much happens at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bound {
    /// Writes that clients ask for; each stores a page or shares one.
    pub(crate) writes: u8,
    /// Take-overs of any shard.
    pub(crate) take_overs: u8,
    /// Answers that are lost, those of superseded gateways not counted.
    pub(crate) lost: u8,
}

/// The protocol, or the protocol with an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Core {
    /// What may happen.
    pub(crate) bound: Bound,
    /// The error.
    pub(crate) seeded: Option<Seeded>,
}

/// A state of the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// The shards.
    pub(crate) shards: [Shard; SHARDS],
    /// The objects that they share.
    pub(crate) objects: Objects,
    /// How many containers have a name, which is never given again.
    pub(crate) named: usize,
    /// What may still happen.
    pub(crate) left: Bound,
}

/// Whether an operation's answer arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The operation is applied or refused, and the gateway knows.
    Arrives,
    /// The gateway gives up waiting. The operation is applied later, or never.
    Lost,
    /// As [`Arrives`](Self::Arrives), and the operation arrives once more later, or never. Only a
    /// creation: any other that is lost and sent again does the same.
    Repeated,
}

/// What can happen. The first number is a shard, the second a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A client writes a new page. If the shard has no container for it, a batch announces one.
    Store(usize),
    /// The announced container is made. This is sent once: without an answer the container is given up.
    Create(usize, usize, Answer),
    /// The guard that was made is opened. If the engine refuses it, the gateway reads that it is open.
    Open(usize, usize, Answer),
    /// The new page is written into it.
    Write(usize, Answer),
    /// A batch maps the new page, with the registration if it is new, and the write is acknowledged.
    MapStored(usize),
    /// A client writes a page of which a hint says that it is in a container in which the shard is not
    /// registered. A batch announces the registration.
    Announce(usize, usize),
    /// The announced registration is sent. If the engine refuses it, the gateway reads which value
    /// the shard has there.
    Register(usize, usize, Answer),
    /// A batch maps the page at an offset of the container, with the registration if it is new, and the
    /// write is acknowledged.
    MapShared(usize, usize, u8),
    /// A batch tells what became of an announced operation: it was done, or it never will be.
    Settle(usize, usize),
    /// A batch announces that a registration whose answer does not come is dropped.
    GiveUp(usize, usize),
    /// A client discards the block.
    Discard(usize),
    /// The shard seals the container that it fills.
    Seal(usize),
    /// A batch announces the drop of a registration whose container the map does not need.
    AnnounceDrop(usize, usize),
    /// The announced drop is sent.
    Drop(usize, usize, Answer),
    /// The gateway finds a registration of its shard that it does not know, and drops it.
    Sweep(usize, usize, Answer),
    /// A container is marked as closing.
    Close(usize),
    /// A guard's set is read as empty, and the removal is sent.
    Remove(usize),
    /// A late operation arrives.
    Arrive(Operation),
    /// A gateway takes the next writer's number from the shard's head.
    RaiseHead(usize),
    /// The gateway with that number raises the writer on the journal, and reads it. The gateway before
    /// it crashed, or does not know yet.
    RaiseJournal(usize, u8),
}

impl Core {
    fn has(&self, seeded: Seeded) -> bool {
        self.seeded == Some(seeded)
    }

    /// Pushes the operations that the gateway of `shard` can send, with and without their answers.
    fn operations(&self, state: &State, shard: usize, steps: &mut Vec<Step>) {
        let of = &state.shards[shard];
        let mut repeated = Vec::new();
        let mut offer = |step: fn(usize, usize, Answer) -> Step, container| {
            steps.push(step(shard, container, Answer::Arrives));
            if state.left.lost > 0 {
                steps.push(step(shard, container, Answer::Lost));
            }
        };
        for container in 0..CONTAINERS {
            let registration = of.memory.registrations[container];
            match (registration, of.replies[container]) {
                (Registration::Creating(_), Reply::Unsent) => {
                    offer(Step::Create, container);
                    if state.left.lost > 0 {
                        repeated.push(Step::Create(shard, container, Answer::Repeated));
                    }
                }
                (Registration::Creating(_), Reply::Unknown) if self.has(Seeded::CreatesAgain) => {
                    offer(Step::Create, container);
                }
                (Registration::Creating(_), Reply::Made) => offer(Step::Open, container),
                (Registration::Registering(_), Reply::Unsent | Reply::Unknown) => {
                    offer(Step::Register, container);
                }
                (Registration::Dropping(_), Reply::Unsent | Reply::Unknown) => {
                    offer(Step::Drop, container);
                }
                _ => {}
            }
            let found = state.objects.registered(container, shard);
            let is_unknown = found != registration.value() || self.has(Seeded::SweepsByOldMemory);
            if found.is_some() && is_unknown && !self.has(Seeded::NeverSweeps) {
                offer(Step::Sweep, container);
            }
        }
        if of.write == Write::Pending || of.write == Write::Unknown {
            offer(|shard, _, answer| Step::Write(shard, answer), 0);
        }
        steps.append(&mut repeated);
    }

    /// Pushes the batches by which the gateway of `shard` ends what began.
    fn endings(&self, state: &State, shard: usize, steps: &mut Vec<Step>) {
        let of = &state.shards[shard];
        if of.memory.open.is_some() && of.write == Write::None {
            steps.push(Step::Seal(shard));
        }
        for container in 0..CONTAINERS {
            match (of.memory.registrations[container], of.replies[container]) {
                (Registration::Creating(_) | Registration::Registering(_), Reply::Unknown) => {
                    steps.push(Step::GiveUp(shard, container));
                }
                (Registration::Registering(_) | Registration::Dropping(_), Reply::Done)
                | (Registration::Registering(_), Reply::Refused) => {
                    steps.push(Step::Settle(shard, container));
                }
                _ => {}
            }
        }
    }

    /// Pushes what the gateway of `shard` does of its own accord or for a client.
    fn service(&self, state: &State, shard: usize, steps: &mut Vec<Step>) {
        let of = &state.shards[shard];
        let writes = state.left.writes > 0;
        for (container, object) in state.objects.containers.iter().enumerate() {
            // A page that was ever in a container may be in a hint and in a cached directory.
            let (may_map, may_announce) = match of.memory.registrations[container] {
                Registration::None => (false, writes && object.length > 0),
                Registration::Registered(_) => (writes, false),
                Registration::Registering(_) => match of.replies[container] {
                    Reply::Done => (true, false),
                    Reply::Unknown => (self.has(Seeded::MapsWithoutAsking), false),
                    Reply::Unsent => (self.has(Seeded::MapsBeforeRegistering), false),
                    Reply::Made | Reply::Refused => (false, false),
                },
                Registration::Creating(_) | Registration::Dropping(_) => (false, false),
            };
            if may_announce {
                steps.push(Step::Announce(shard, container));
            }
            if may_map {
                let maps = (0..object.length)
                    .filter(|offset| of.memory.map != Some(Place { container, offset: *offset }));
                steps.extend(maps.map(|offset| Step::MapShared(shard, container, offset)));
            }
            if matches!(of.memory.registrations[container], Registration::Registered(_))
                && of.memory.map.is_none_or(|place| place.container != container)
                && of.memory.open.is_none_or(|(open, _)| open != container)
            {
                steps.push(Step::AnnounceDrop(shard, container));
            }
        }
        let has_room = match of.memory.open {
            Some((_, length)) => !of.inherited && (length as usize) < PAGES,
            None => of.creating().is_none() && state.named < CONTAINERS,
        };
        if writes && of.write == Write::None && has_room {
            steps.push(Step::Store(shard));
        }
        if of.write == Write::Written {
            steps.push(Step::MapStored(shard));
        }
        if of.memory.map.is_some() {
            steps.push(Step::Discard(shard));
        }
    }

    /// Does `step`, or answers that it changes nothing.
    fn happen(&self, state: &mut State, step: Step) -> bool {
        match step {
            Step::Store(shard) => {
                state.left.writes -= 1;
                state.shards[shard].write = Write::Pending;
                if state.shards[shard].memory.open.is_none() {
                    let container = state.named;
                    state.named += 1;
                    let value = self.next_value(state, shard, container);
                    self.announce(state, shard, container, Registration::Creating(value));
                }
            }
            Step::Create(shard, container, answer) => {
                let (_, value) = state.shards[shard].creating().expect("it makes one");
                let create = Operation::Create { container, shard, value };
                let sent = self.send(state, create, answer);
                state.shards[shard].replies[container] = match sent {
                    None => Reply::Unknown,
                    Some(_) if self.has(Seeded::CreatesOpen) => Reply::Done,
                    Some(_) => Reply::Made,
                };
            }
            Step::Open(shard, container, answer) => {
                let open = Operation::Open { container, reads_later: false };
                let sent = self.send(state, open, answer);
                let guard = state.objects.containers[container].guard.as_ref();
                if sent.is_some() && guard.is_some_and(|guard| guard.access != Access::New) {
                    state.shards[shard].replies[container] = Reply::Done;
                }
            }
            Step::Write(shard, answer) => {
                let of = &state.shards[shard];
                let Some((container, offset)) = of.target() else { return false };
                let (content, before) = (of.writer, of.write);
                let write = Operation::Write { container, offset, content };
                // No other writer writes into the container, so a greater length proves that it was applied.
                state.shards[shard].write = match self.send(state, write, answer) {
                    None => Write::Unknown,
                    Some(true) => Write::Written,
                    Some(false)
                        if before == Write::Unknown
                            && state.objects.containers[container].length > offset =>
                    {
                        Write::Written
                    }
                    Some(false) => return false,
                };
            }
            Step::MapStored(shard) => {
                let of = &mut state.shards[shard];
                let (container, offset) = of.target().expect("it was written there");
                if let Registration::Creating(value) = of.memory.registrations[container] {
                    of.memory.registrations[container] = Registration::Registered(value);
                    of.replies[container] = Reply::Unsent;
                }
                of.memory.open = Some((container, offset + 1));
                of.memory.map = Some(Place { container, offset });
                of.acknowledged = Some(of.writer);
                of.write = Write::None;
                self.append(state, shard);
            }
            Step::Announce(shard, container) => {
                state.left.writes -= 1;
                let value = self.next_value(state, shard, container);
                self.announce(state, shard, container, Registration::Registering(value));
            }
            Step::Register(shard, container, answer) => {
                let registration = state.shards[shard].memory.registrations[container];
                let value = registration.value().expect("it is announced");
                let register = Operation::Register { container, shard, value };
                let sent = self.send(state, register, answer);
                let guard = state.objects.containers[container].guard.as_ref();
                state.shards[shard].replies[container] = match (sent, guard) {
                    (None, _) => Reply::Unknown,
                    (_, Some(guard)) if guard.users[shard] == Some(value) => Reply::Done,
                    // A late registration is in the way, which the sweep removes.
                    (_, Some(guard)) if guard.access == Access::Open => Reply::Unknown,
                    _ => Reply::Refused,
                };
            }
            Step::MapShared(shard, container, offset) => {
                let of = &mut state.shards[shard];
                match of.memory.registrations[container] {
                    Registration::Registering(_) if of.replies[container] == Reply::Unsent => {}
                    Registration::Registering(value) => {
                        of.memory.registrations[container] = Registration::Registered(value);
                        of.replies[container] = Reply::Unsent;
                    }
                    _ => state.left.writes -= 1,
                }
                of.memory.map = Some(Place { container, offset });
                of.acknowledged = Some(state.objects.containers[container].pages[offset as usize]);
                self.append(state, shard);
            }
            Step::Settle(shard, container) => {
                let of = &mut state.shards[shard];
                let registration = &mut of.memory.registrations[container];
                *registration = match *registration {
                    Registration::Registering(value) if of.replies[container] == Reply::Done => {
                        Registration::Registered(value)
                    }
                    _ => Registration::None,
                };
                of.replies[container] = Reply::Unsent;
                self.append(state, shard);
            }
            Step::GiveUp(shard, container) | Step::AnnounceDrop(shard, container) => {
                let of = &mut state.shards[shard];
                if of.creating().is_some_and(|(creating, _)| creating == container) {
                    // The client's write fails, or goes into another container.
                    of.write = Write::None;
                }
                let value = of.memory.registrations[container].value().expect("it has one");
                self.announce(state, shard, container, Registration::Dropping(value));
            }
            Step::Discard(shard) => {
                state.shards[shard].memory.map = None;
                state.shards[shard].acknowledged = None;
                self.append(state, shard);
            }
            Step::Seal(shard) => {
                let (container, known) =
                    state.shards[shard].memory.open.take().expect("it is open");
                if state.shards[shard].inherited && self.has(Seeded::CutsWhenSealing) {
                    state.objects.containers[container].length = known;
                }
                state.objects.seal(container);
                self.append(state, shard);
            }
            Step::Drop(shard, container, answer) => {
                let registration = state.shards[shard].memory.registrations[container];
                let value = registration.value().expect("it is announced");
                let drop = Operation::Drop { container, shard, value };
                let sent = self.send(state, drop, answer);
                // Refused says that the value is not there, and it never will be again unless the
                // registration is late; the sweep finds that one.
                state.shards[shard].replies[container] =
                    sent.map_or(Reply::Unknown, |_| Reply::Done);
            }
            Step::Sweep(shard, container, answer) => {
                let value = state.objects.registered(container, shard).expect("it was found");
                self.send(state, Operation::Drop { container, shard, value }, answer);
            }
            Step::Close(container) => state.objects.close(container, self.seeded),
            Step::Remove(container) => state.objects.delay(Operation::Remove { container }),
            Step::Arrive(operation) => {
                state.objects.late.retain(|late| *late != operation);
                state.objects.apply(operation, self.seeded);
            }
            Step::RaiseHead(shard) => {
                state.left.take_overs -= 1;
                let of = &mut state.shards[shard];
                of.head += 1;
                of.begun = true;
                if self.has(Seeded::ReadsBeforeRaising) {
                    of.read_early = Some(of.journal.clone());
                }
            }
            Step::RaiseJournal(shard, writer) => self.raise_journal(state, shard, writer),
        }
        if let Some(shard) = step.shard() {
            let of = &mut state.shards[shard];
            of.begun = true;
            of.inherited &= of.memory.open.is_some();
        }
        true
    }

    /// Supersedes the gateway of `shard` and takes over what its journal says. The new gateway serves
    /// immediately. It only seals what is open, and drops whatever was announced: until such a drop is
    /// settled, the shard neither maps pages of that container nor registers in it again.
    fn raise_journal(&self, state: &mut State, shard: usize, writer: u8) {
        for operation in state.shards[shard].may_send(shard, self.has(Seeded::CreatesAgain)) {
            state.objects.delay(operation);
        }
        for container in 0..CONTAINERS {
            state.objects.forget_writes(container);
        }
        let of = &mut state.shards[shard];
        let mut memory = of.read_early.take().unwrap_or_else(|| of.journal.clone());
        for registration in &mut memory.registrations {
            *registration = match *registration {
                Registration::Dropping(value) if self.has(Seeded::LeavesIntents) => {
                    Registration::Registered(value)
                }
                Registration::Creating(_) | Registration::Registering(_)
                    if self.has(Seeded::LeavesIntents) =>
                {
                    Registration::None
                }
                Registration::Creating(value)
                | Registration::Registering(value)
                | Registration::Dropping(value) => Registration::Dropping(value),
                other => other,
            };
        }
        memory.numbers = Default::default();
        *of = Shard {
            begun: true,
            head: of.head,
            writer,
            journal: of.journal.clone(),
            memory,
            read_early: None,
            inherited: !self.has(Seeded::LeavesOpen),
            replies: Default::default(),
            write: Write::None,
            acknowledged: of.acknowledged,
        };
    }

    /// Sends `operation`: answers whether it was applied, or `None` if the answer is lost.
    fn send(&self, state: &mut State, operation: Operation, answer: Answer) -> Option<bool> {
        match answer {
            Answer::Arrives => Some(state.objects.apply(operation, self.seeded)),
            Answer::Lost => {
                state.left.lost -= 1;
                state.objects.delay(operation);
                None
            }
            Answer::Repeated => {
                state.left.lost -= 1;
                let applied = state.objects.apply(operation, self.seeded);
                state.objects.delay(operation);
                Some(applied)
            }
        }
    }

    /// The value of the next registration of `shard` in `container`.
    fn next_value(&self, state: &mut State, shard: usize, container: usize) -> Value {
        let of = &mut state.shards[shard];
        if !self.has(Seeded::ValueIsWriterAlone) {
            of.memory.numbers[container] += 1;
        }
        Value { writer: of.writer, number: of.memory.numbers[container] }
    }

    /// Appends a batch that announces an operation.
    fn announce(&self, state: &mut State, shard: usize, container: usize, what: Registration) {
        let of = &mut state.shards[shard];
        of.memory.registrations[container] = what;
        of.replies[container] = Reply::Unsent;
        self.append(state, shard);
    }

    /// Appends a batch with what the gateway of `shard` changed.
    fn append(&self, state: &mut State, shard: usize) {
        state.shards[shard].journal = state.shards[shard].memory.clone();
    }

    /// Lets everything end that began, without faults and without clients, and removes what it can.
    pub(crate) fn drain(&self, state: &State) -> State {
        let mut state = state.clone();
        // Each step ends something, so this many are enough by far.
        for _ in 0..200 {
            let mut steps = Vec::new();
            self.actions(&state, &mut steps);
            let Some(next) = steps
                .into_iter()
                .filter(|step| step.is_progress())
                .filter_map(|step| self.next_state(&state, step))
                .find(|next| *next != state)
            else {
                return state;
            };
            state = next;
        }
        panic!("progress without an end: {state:?}");
    }
}

impl Step {
    /// The shard whose gateway does it.
    fn shard(self) -> Option<usize> {
        match self {
            Self::Store(shard)
            | Self::Create(shard, ..)
            | Self::Open(shard, ..)
            | Self::Write(shard, _)
            | Self::MapStored(shard)
            | Self::Announce(shard, _)
            | Self::Register(shard, ..)
            | Self::MapShared(shard, ..)
            | Self::Settle(shard, _)
            | Self::GiveUp(shard, _)
            | Self::Discard(shard)
            | Self::Seal(shard)
            | Self::AnnounceDrop(shard, _)
            | Self::Drop(shard, ..)
            | Self::Sweep(shard, ..)
            | Self::RaiseJournal(shard, _) => Some(shard),
            Self::Close(_) | Self::Remove(_) | Self::Arrive(_) | Self::RaiseHead(_) => None,
        }
    }

    /// Whether it ends what began, and is no fault and nothing that a client asks for.
    fn is_progress(self) -> bool {
        match self {
            Self::Create(.., answer)
            | Self::Open(.., answer)
            | Self::Write(_, answer)
            | Self::Register(.., answer)
            | Self::Drop(.., answer)
            | Self::Sweep(.., answer) => answer == Answer::Arrives,
            Self::Settle(..)
            | Self::GiveUp(..)
            | Self::Seal(_)
            | Self::AnnounceDrop(..)
            | Self::Remove(_)
            | Self::Arrive(Operation::Remove { .. }) => true,
            _ => false,
        }
    }
}

impl Model for Core {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            shards: Default::default(),
            objects: Objects::default(),
            named: 0,
            left: self.bound,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for shard in 0..SHARDS {
            // The shards are alike: they are numbered in the order in which they begin.
            if shard > 0 && !state.shards[shard - 1].begun {
                break;
            }
            let of = &state.shards[shard];
            self.operations(state, shard, steps);
            self.endings(state, shard, steps);
            self.service(state, shard, steps);
            if state.left.take_overs > 0 {
                steps.push(Step::RaiseHead(shard));
            }
            steps.extend((of.writer + 1..=of.head).map(|next| Step::RaiseJournal(shard, next)));
        }
        for (container, object) in state.objects.containers.iter().enumerate() {
            let Some(guard) = &object.guard else { continue };
            if guard.access == Access::Open && object.sealed {
                steps.push(Step::Close(container));
            }
            let remove = Operation::Remove { container };
            if guard.users.iter().all(Option::is_none) && !state.objects.late.contains(&remove) {
                steps.push(Step::Remove(container));
            }
        }
        steps.extend(state.objects.late.iter().map(|late| Step::Arrive(*late)));
    }

    fn next_state(&self, before: &State, step: Step) -> Option<State> {
        let mut state = before.clone();
        self.happen(&mut state, step).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}

impl State {
    /// Each shard's map as its journal has it, with the journal.
    pub(crate) fn maps(&self) -> impl Iterator<Item = (usize, &Journal, Place)> {
        self.shards
            .iter()
            .enumerate()
            .filter_map(|(shard, of)| of.journal.map.map(|place| (shard, &of.journal, place)))
    }
}
