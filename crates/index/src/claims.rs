//! States of single fingerprints in addition to the lists: claims, and corrections of the lists.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::RwLock;

use onefold_fingerprint::Fingerprint;

use crate::Place;

/// The state of a fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Claimed and not published yet. If `was_wrong`, the lists were wrong about it before.
    Owed { was_wrong: bool },
    /// The lists are wrong about it.
    Wrong,
    /// The lists may be wrong about it; its place is this.
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

/// The number of shards, far more than threads, so that threads rarely contend for one.
const SHARDS: usize = 64;

/// The states of the few fingerprints that have one: claimed chunks that are not in containers yet, and
/// damaged chunks.
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

    /// Claims `fingerprint` if it has no state and `may_claim`, or if the lists are wrong about it. Returns
    /// whether it did.
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

    /// Records that `fingerprint` is now at `place`, which the lists have.
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

    /// Records that the known place of `fingerprint` is wrong. A claim stays.
    pub(crate) fn refute(&self, fingerprint: &Fingerprint) {
        let mut shard = self.write(fingerprint);
        let state = shard.entry(Key(*fingerprint)).or_insert(State::Wrong);
        if matches!(state, State::Moved(_)) {
            *state = State::Wrong;
        }
    }

    /// Removes the places for which `is_gone` is true.
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

    /// Releases all claims.
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
