//! What is known of single fingerprints beside the lists: who owes them, and where lists are wrong.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::RwLock;

use onefold_fingerprint::Fingerprint;

use crate::Place;

/// What is known of a fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Someone owes it. What the lists say of it was wrong before if `was_wrong`.
    Owed { was_wrong: bool },
    /// What the lists say of it is wrong.
    Wrong,
    /// What the lists say of it may be wrong; it is here.
    Moved(Place),
}

/// A fingerprint that hashes as its first eight bytes: it is uniform.
#[derive(PartialEq, Eq)]
struct Key(Fingerprint);

impl Hash for Key {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.0.prefix_u64());
    }
}

#[derive(Default)]
struct PrefixHasher(u64);

impl Hasher for PrefixHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are hashed as integers");
    }

    fn write_u64(&mut self, prefix: u64) {
        self.0 = prefix;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type Shard = HashMap<Key, State, BuildHasherDefault<PrefixHasher>>;

/// Shards keep threads out of each other's way; far more of them than threads.
const SHARDS: usize = 64;

/// The states of those fingerprints that have one. They are few: chunks on their way into
/// containers, and damaged ones.
pub(crate) struct Claims {
    shards: Vec<RwLock<Shard>>,
}

impl Claims {
    pub(crate) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| RwLock::default()).collect() }
    }

    /// The state of `fingerprint`.
    pub(crate) fn get(&self, fingerprint: &Fingerprint) -> Option<State> {
        let shard = self.shard(fingerprint).read().expect("no thread panics with a shard locked");
        shard.get(&Key(*fingerprint)).copied()
    }

    /// Makes `fingerprint` owed if it has no state and `may_claim`, or if the lists are wrong about
    /// it. Whether it did.
    pub(crate) fn claim(
        &self,
        fingerprint: &Fingerprint,
        may_claim: impl FnOnce() -> bool,
    ) -> bool {
        let mut shard = self.write(fingerprint);
        match shard.entry(Key(*fingerprint)) {
            Entry::Vacant(entry) => {
                let may_claim = may_claim();
                if may_claim {
                    entry.insert(State::Owed { was_wrong: false });
                }
                may_claim
            }
            Entry::Occupied(mut entry) => {
                let is_wrong = *entry.get() == State::Wrong;
                if is_wrong {
                    entry.insert(State::Owed { was_wrong: true });
                }
                is_wrong
            }
        }
    }

    /// Notes that `fingerprint` is at `place` now, of which the lists know.
    pub(crate) fn settle(&self, fingerprint: &Fingerprint, place: Place) {
        let mut shard = self.write(fingerprint);
        if let Entry::Occupied(mut entry) = shard.entry(Key(*fingerprint)) {
            match *entry.get() {
                State::Owed { was_wrong: false } => {
                    entry.remove();
                }
                // Lists name the old place as well.
                _ => {
                    entry.insert(State::Moved(place));
                }
            }
        }
    }

    /// Notes that what is known of `fingerprint` is wrong. What is owed stays owed.
    pub(crate) fn refute(&self, fingerprint: &Fingerprint) {
        let mut shard = self.write(fingerprint);
        let state = shard.entry(Key(*fingerprint)).or_insert(State::Wrong);
        if matches!(state, State::Moved(_)) {
            *state = State::Wrong;
        }
    }

    /// Takes back the places that `is_gone`.
    pub(crate) fn dismiss(&self, is_gone: impl Fn(Place) -> bool) {
        for shard in &self.shards {
            let mut shard = shard.write().expect("no thread panics with a shard locked");
            for state in shard.values_mut() {
                if matches!(state, State::Moved(place) if is_gone(*place)) {
                    *state = State::Wrong;
                }
            }
        }
    }

    /// Nothing is owed any more.
    pub(crate) fn forget_owed(&self) {
        for shard in &self.shards {
            let mut shard = shard.write().expect("no thread panics with a shard locked");
            shard.retain(|_, state| *state != State::Owed { was_wrong: false });
            for state in shard.values_mut() {
                if let State::Owed { .. } = state {
                    *state = State::Wrong;
                }
            }
        }
    }

    fn write(&self, fingerprint: &Fingerprint) -> std::sync::RwLockWriteGuard<'_, Shard> {
        self.shard(fingerprint).write().expect("no thread panics with a shard locked")
    }

    fn shard(&self, fingerprint: &Fingerprint) -> &RwLock<Shard> {
        // A byte that the hash does not use, so that a shard's map still spreads over its buckets.
        &self.shards[fingerprint.as_bytes()[8] as usize % SHARDS]
    }
}
