//! The table in memory.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::RwLock;

use onefold_fingerprint::Fingerprint;

/// A location that may be stale: verify the bytes before sharing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hint<L>(pub L);

/// What [`Index::claim`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim<L> {
    /// The chunk was unknown. The caller now owes its bytes: it stores them and publishes where.
    New,
    /// Someone claimed the chunk and has not published it yet.
    Pending,
    /// The chunk lies there.
    Known(Hint<L>),
}

/// Fingerprints are uniform, so eight of their bytes are hash enough.
#[derive(Default)]
struct PrefixHasher(u64);

impl Hasher for PrefixHasher {
    fn write(&mut self, bytes: &[u8]) {
        // A fingerprint is hashed as a length and 32 bytes; only the latter say anything.
        if let Some(head) = bytes.first_chunk::<8>() {
            self.0 = u64::from_le_bytes(*head);
        }
    }

    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

type Shard<L> = HashMap<Fingerprint, Option<L>, BuildHasherDefault<PrefixHasher>>;

/// Shards keep threads out of each other's way; far more of them than threads.
const SHARDS: usize = 64;

/// Fingerprint → location, shared by all threads of a process.
///
/// Holds every fingerprint in memory: about 60 bytes each.
pub struct Index<L> {
    shards: Vec<RwLock<Shard<L>>>,
}

impl<L: Copy> Index<L> {
    /// An empty index.
    pub fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| RwLock::default()).collect() }
    }

    /// Where `fingerprint` lies, if that is known.
    pub fn get(&self, fingerprint: &Fingerprint) -> Option<Hint<L>> {
        let shard = self.shard(fingerprint).read().expect("no thread panics with a shard locked");
        shard.get(fingerprint).copied().flatten().map(Hint)
    }

    /// Looks `fingerprint` up and, if nobody has it, marks it as the caller's to store.
    ///
    /// Of any number of threads that claim the same fingerprint, exactly one gets [`Claim::New`].
    pub fn claim(&self, fingerprint: &Fingerprint) -> Claim<L> {
        let mut shard =
            self.shard(fingerprint).write().expect("no thread panics with a shard locked");
        match shard.entry(*fingerprint) {
            Entry::Occupied(entry) => match entry.get() {
                Some(location) => Claim::Known(Hint(*location)),
                None => Claim::Pending,
            },
            Entry::Vacant(entry) => {
                entry.insert(None);
                Claim::New
            }
        }
    }

    /// Says where `fingerprint` lies from now on.
    pub fn publish(&self, fingerprint: Fingerprint, location: L) {
        let mut shard =
            self.shard(&fingerprint).write().expect("no thread panics with a shard locked");
        shard.insert(fingerprint, Some(location));
    }

    /// Forgets where `fingerprint` was said to lie, because it is not there. A claim stays.
    pub fn retract(&self, fingerprint: &Fingerprint) {
        let mut shard =
            self.shard(fingerprint).write().expect("no thread panics with a shard locked");
        if let Entry::Occupied(entry) = shard.entry(*fingerprint)
            && entry.get().is_some()
        {
            entry.remove();
        }
    }

    /// Gives up every claim that was not published: whoever owed those chunks will not store them.
    pub fn forget_claims(&self) {
        for shard in &self.shards {
            let mut shard = shard.write().expect("no thread panics with a shard locked");
            shard.retain(|_, location| location.is_some());
        }
    }

    /// How many fingerprints are known or claimed.
    pub fn len(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.read().expect("no thread panics with a shard locked").len())
            .sum()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `visit` for every published fingerprint, in no particular order.
    pub fn for_each(&self, mut visit: impl FnMut(&Fingerprint, L)) {
        for shard in &self.shards {
            let shard = shard.read().expect("no thread panics with a shard locked");
            for (fingerprint, location) in shard.iter() {
                if let Some(location) = location {
                    visit(fingerprint, *location);
                }
            }
        }
    }

    fn shard(&self, fingerprint: &Fingerprint) -> &RwLock<Shard<L>> {
        // A byte that the hash does not use, so that a shard's map still spreads over its buckets.
        &self.shards[fingerprint.as_bytes()[8] as usize % SHARDS]
    }
}

impl<L: Copy> Default for Index<L> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn fingerprint(n: u64) -> Fingerprint {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&n.to_le_bytes());
        bytes[8] = n as u8;
        Fingerprint::from_bytes(bytes)
    }

    #[test]
    fn a_claim_is_new_then_pending_then_known() {
        let index = Index::new();
        let f = fingerprint(1);
        assert_eq!(index.get(&f), None);
        assert_eq!(index.claim(&f), Claim::New);
        assert_eq!(index.get(&f), None, "a claim is no location");
        assert_eq!(index.claim(&f), Claim::Pending);
        index.publish(f, 7u32);
        assert_eq!(index.claim(&f), Claim::Known(Hint(7)));
        assert_eq!(index.get(&f), Some(Hint(7)));
        assert_eq!(index.len(), 1);
    }

    #[test]
    fn what_was_retracted_is_new_again_and_a_claim_stays() {
        let index = Index::new();
        index.publish(fingerprint(1), 7u32);
        index.claim(&fingerprint(2));
        index.retract(&fingerprint(1));
        index.retract(&fingerprint(2));
        assert_eq!(index.claim(&fingerprint(1)), Claim::New);
        assert_eq!(index.claim(&fingerprint(2)), Claim::Pending);
    }

    #[test]
    fn a_forgotten_claim_is_new_again_and_what_is_known_stays() {
        let index = Index::new();
        index.claim(&fingerprint(1));
        index.publish(fingerprint(2), 7u32);
        index.forget_claims();
        assert_eq!(index.len(), 1);
        assert_eq!(index.claim(&fingerprint(1)), Claim::New);
        assert_eq!(index.claim(&fingerprint(2)), Claim::Known(Hint(7)));
    }

    #[test]
    fn each_fingerprint_is_new_to_exactly_one_of_many_threads() {
        let index = Index::<u32>::new();
        let new = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for n in 0..10_000 {
                        if index.claim(&fingerprint(n)) == Claim::New {
                            new.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(new.into_inner(), 10_000);
        assert_eq!(index.len(), 10_000);
    }
}
