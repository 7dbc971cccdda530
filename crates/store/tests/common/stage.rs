//! A stage on which backups, prunes and restores take turns, one call of the storage at a time, in
//! an order drawn from a seed; its listings may lag behind.
//!
//! Whoever wants to make a call waits until it is chosen. Between calls all run freely. Someone may
//! be sent to sleep for many turns, or die: then every further call fails. Names are drawn at
//! random, so a seed gives the same turns only as far as they do not depend on names.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use onefold_backend::{BackendError, MemoryObjects, ObjectInfo, Objects, Operation};
use onefold_testkit::SplitMix64;

/// Nobody computes so long between two calls, unless threads wait for each other.
const PATIENCE: Duration = Duration::from_secs(240);

/// Objects in memory, and who may call next.
pub struct Stage {
    objects: Arc<MemoryObjects>,
    state: Mutex<State>,
    changed: Condvar,
    /// How many turns a listing may lag behind.
    lag: u64,
}

struct State {
    numbers: SplitMix64,
    players: Vec<Player>,
    /// Whose turn it is, until it takes it.
    chosen: Option<usize>,
    /// Turns so far.
    turns: u64,
    /// When an object that was put is listed.
    shown_from: HashMap<String, u64>,
    /// Objects that were deleted and are still listed, and until when.
    ghosts: HashMap<String, (ObjectInfo, u64)>,
}

#[derive(Default)]
struct Player {
    /// Threads that wait for a turn.
    waiting: usize,
    has_left: bool,
    sleeps_until: u64,
    dies_after: Option<u64>,
    calls: u64,
}

impl Stage {
    /// A stage for `players`, whose listings show changes up to `lag` turns late.
    pub fn new(seed: u64, players: usize, lag: u64) -> Arc<Self> {
        let state = State {
            numbers: SplitMix64::new(seed),
            players: (0..players).map(|_| Player::default()).collect(),
            chosen: None,
            turns: 0,
            shown_from: HashMap::new(),
            ghosts: HashMap::new(),
        };
        Arc::new(Self {
            objects: Arc::new(MemoryObjects::new()),
            state: Mutex::new(state),
            changed: Condvar::new(),
            lag,
        })
    }

    /// The objects without turns and lag, for what comes before and after.
    pub fn objects(&self) -> Arc<dyn Objects> {
        Arc::clone(&self.objects) as Arc<dyn Objects>
    }

    /// The objects as player `number` sees them.
    pub fn player(self: &Arc<Self>, number: usize) -> Arc<dyn Objects> {
        Arc::new(Seat { stage: Arc::clone(self), number })
    }

    /// Lets every call of a player fail after so many.
    pub fn dies_after(&self, number: usize, calls: u64) {
        self.lock().players[number].dies_after = Some(calls);
    }

    /// Whether a call of a player has failed because it is dead.
    pub fn has_died(&self, number: usize) -> bool {
        let player = &self.lock().players[number];
        player.dies_after.is_some_and(|calls| player.calls > calls)
    }

    /// Says that a player will call no more.
    pub fn leave(&self, number: usize) {
        self.lock().players[number].has_left = true;
        self.changed.notify_all();
    }

    /// Gives turns until all players have left.
    pub fn direct(&self) {
        let mut state = self.lock();
        loop {
            while !state.is_settled() {
                let (next, timeout) = self.changed.wait_timeout(state, PATIENCE).unwrap();
                assert!(!timeout.timed_out(), "someone neither calls nor leaves");
                state = next;
            }
            if state.players.iter().all(|player| player.has_left) {
                return;
            }
            state.choose();
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Waits for a turn of player `number` and makes a call in it.
    fn turn<T>(
        &self,
        number: usize,
        operation: Operation,
        name: &str,
        call: impl FnOnce(&mut State) -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        let mut state = self.lock();
        state.players[number].waiting += 1;
        self.changed.notify_all();
        while state.chosen != Some(number) {
            let (next, timeout) = self.changed.wait_timeout(state, PATIENCE).unwrap();
            assert!(!timeout.timed_out(), "nobody gives turns");
            state = next;
        }
        state.chosen = None;
        state.turns += 1;
        let player = &mut state.players[number];
        player.waiting -= 1;
        player.calls += 1;
        let is_dead = player.dies_after.is_some_and(|calls| player.calls > calls);
        let result = match is_dead {
            true => Err(BackendError::Crashed { name: name.to_owned(), operation }),
            false => call(&mut state),
        };
        self.changed.notify_all();
        result
    }

    fn put(&self, state: &mut State, name: &str, bytes: Bytes) -> Result<(), BackendError> {
        let is_new = self.objects.size(name).is_err();
        self.objects.put(name, bytes)?;
        if is_new {
            let shown_from = state.turns + state.below(self.lag + 1);
            state.shown_from.insert(name.to_owned(), shown_from);
        }
        Ok(())
    }

    fn delete(&self, state: &mut State, name: &str) -> Result<(), BackendError> {
        if let Ok(size) = self.objects.size(name) {
            let until = state.turns + state.below(self.lag + 1);
            let info = ObjectInfo { name: name.to_owned(), size };
            let was_shown = state.shown_from.get(name).is_none_or(|from| *from <= state.turns);
            if was_shown {
                state.ghosts.insert(name.to_owned(), (info, until));
            }
        }
        self.objects.delete(name)
    }

    fn list(&self, state: &State, prefix: &str) -> Result<Vec<ObjectInfo>, BackendError> {
        let now = state.turns;
        let mut listed = self.objects.list(prefix)?;
        listed.retain(|info| state.shown_from.get(&info.name).is_none_or(|from| *from <= now));
        let is_below = |info: &ObjectInfo| info.name.starts_with(prefix);
        let ghosts = state.ghosts.values().filter(|(info, until)| is_below(info) && *until > now);
        listed.extend(ghosts.map(|(info, _)| info.clone()));
        listed.sort();
        listed.dedup();
        Ok(listed)
    }
}

impl State {
    /// Whether everyone who has not left waits for a turn.
    fn is_settled(&self) -> bool {
        self.chosen.is_none()
            && self.players.iter().all(|player| player.has_left || player.waiting > 0)
    }

    fn choose(&mut self) {
        let present = |state: &Self, number: &usize| !state.players[*number].has_left;
        let all: Vec<usize> = (0..self.players.len()).filter(|one| present(self, one)).collect();
        let turns = self.turns;
        let mut awake: Vec<usize> = all
            .iter()
            .copied()
            .filter(|number| self.players[*number].sleeps_until <= turns)
            .collect();
        if awake.is_empty() {
            awake = all;
        }
        let chosen = awake[self.below(awake.len() as u64) as usize];
        self.chosen = Some(chosen);
        // Now and then someone falls asleep, for a moment or through whole prunes.
        if self.below(12) == 0 {
            let bound = [5, 40, 300][self.below(3) as usize];
            self.players[chosen].sleeps_until = turns + 1 + self.below(bound);
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.numbers.below(bound as usize) as u64
    }
}

/// The objects as a player sees them.
struct Seat {
    stage: Arc<Stage>,
    number: usize,
}

impl Objects for Seat {
    fn put(&self, name: &str, bytes: Bytes) -> Result<(), BackendError> {
        let Self { stage, number } = self;
        stage.turn(*number, Operation::Put, name, |state| {
            // Between its snapshot and what acknowledges it a backup may sleep through a forget.
            if name.starts_with("snapshots/") && state.below(3) == 0 {
                state.players[*number].sleeps_until = state.turns + state.below(300);
            }
            stage.put(state, name, bytes)
        })
    }

    fn get(&self, name: &str) -> Result<Bytes, BackendError> {
        let Self { stage, number } = self;
        stage.turn(*number, Operation::Get, name, |_| stage.objects.get(name))
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> Result<Bytes, BackendError> {
        let Self { stage, number } = self;
        stage.turn(*number, Operation::Get, name, |_| stage.objects.get_range(name, range))
    }

    fn size(&self, name: &str) -> Result<u64, BackendError> {
        let Self { stage, number } = self;
        stage.turn(*number, Operation::Size, name, |_| stage.objects.size(name))
    }

    fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, BackendError> {
        let Self { stage, number } = self;
        stage.turn(*number, Operation::List, prefix, |state| stage.list(state, prefix))
    }

    fn delete(&self, name: &str) -> Result<(), BackendError> {
        let Self { stage, number } = self;
        stage.turn(*number, Operation::Delete, name, |state| stage.delete(state, name))
    }

    fn settle(&self) -> Result<(), BackendError> {
        let Self { stage, number } = self;
        let end = stage.lock().turns + stage.lag;
        while stage.lag > 0 && stage.lock().turns <= end {
            stage.turn(*number, Operation::List, "", |_| Ok(()))?;
        }
        Ok(())
    }
}
