//! Several shards of one namespace in memory, all open in this process.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use onefold_backend::rados::{MemoryRados, Query, RadosPool};
use onefold_block::{BlockDevice, BlockSize, Durability};
use onefold_cluster::containers::{Containers, Guards};
use onefold_cluster::hints::{Hint, Hints};
use onefold_cluster::{SharedShard, create_shard, open_shard};
use onefold_fingerprint::Fingerprint;
use onefold_seal::ObjectId;
use onefold_testkit::{random, text};
use onefold_volume::{Hash, Options, VolumeError};

/// Hints that all shards of a process have.
#[derive(Default)]
pub(crate) struct MemoryHints(Mutex<HashMap<Fingerprint, Hint>>);

impl MemoryHints {
    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Changes all hints.
    pub(crate) fn spoil(&self, mut change: impl FnMut(&mut Hint)) {
        self.0.lock().unwrap().values_mut().for_each(&mut change);
    }
}

impl Hints for MemoryHints {
    fn find(&self, fingerprints: &[Fingerprint]) -> Vec<Option<Hint>> {
        let all = self.0.lock().unwrap();
        fingerprints.iter().map(|one| all.get(one).copied()).collect()
    }

    fn add(&self, pages: &[(Fingerprint, Hint)]) {
        self.0.lock().unwrap().extend(pages.iter().copied());
    }
}

/// A namespace.
pub(crate) struct Space {
    pub(crate) meta: Arc<dyn RadosPool>,
    pub(crate) data: Arc<dyn RadosPool>,
    pub(crate) hints: Arc<MemoryHints>,
}

pub(crate) fn id(n: u8) -> ObjectId {
    ObjectId::from_bytes([n; ObjectId::LEN])
}

pub(crate) fn options() -> Options {
    Options { table_bytes: 4 << 20, container_len: 256 << 10, ..Options::default() }
}

impl Space {
    pub(crate) fn new() -> Self {
        let pool: Arc<dyn RadosPool> = Arc::new(MemoryRados::replicated());
        Self::over(Arc::clone(&pool), pool)
    }

    pub(crate) fn over(meta: Arc<dyn RadosPool>, data: Arc<dyn RadosPool>) -> Self {
        Self { meta, data, hints: Arc::default() }
    }

    /// Makes shard `n` and opens it.
    pub(crate) fn add(&self, n: u8) -> SharedShard {
        create_shard(&self.meta, id(n), Hash::Blake3).unwrap();
        self.open(n)
    }

    pub(crate) fn try_open(&self, n: u8) -> Result<(SharedShard, Vec<VolumeError>), VolumeError> {
        open_shard(&self.meta, &self.data, id(n), Arc::clone(&self.hints) as _, options())
    }

    pub(crate) fn open(&self, n: u8) -> SharedShard {
        let (shard, damage) = self.try_open(n).unwrap();
        assert!(damage.is_empty(), "{damage:?}");
        shard
    }

    /// Bytes of all containers.
    pub(crate) fn stored(&self) -> u64 {
        let containers = Containers::new(Arc::clone(&self.data));
        let mut names = Vec::new();
        let listed = self.data.list(&mut |object| {
            names.extend(Containers::name_of(object));
            ControlFlow::Continue(())
        });
        listed.unwrap();
        names.iter().map(|name| containers.look(name).unwrap().unwrap().length).sum()
    }

    /// Objects of guards and containers.
    pub(crate) fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for pool in [&self.meta, &self.data] {
            let listed = pool.list(&mut |object| {
                let is_left =
                    Guards::name_of(object).is_some() || Containers::name_of(object).is_some();
                left.extend(is_left.then(|| object.to_owned()));
                ControlFlow::Continue(())
            });
            listed.unwrap();
        }
        left.sort_unstable();
        left.dedup();
        left
    }

    /// Who is registered where, for messages.
    #[allow(dead_code, reason = "for a test that fails")]
    pub(crate) fn guards(&self) -> Vec<String> {
        let guards = Guards::new(Arc::clone(&self.meta), id(0));
        let names = self.left();
        let names = names.iter().filter_map(|object| Guards::name_of(object));
        names.map(|name| format!("{name:?}: {:?}", guards.read(&name).unwrap())).collect()
    }

    #[allow(dead_code, reason = "not in every test")]
    pub(crate) fn has(&self, object: &str) -> bool {
        self.meta.query(object, &Query::default()).is_ok()
    }
}

/// Bytes of pages that compress and of others that do not.
pub(crate) fn image(seed: u64, pages: usize) -> Vec<u8> {
    let page = |n: usize| {
        let seed = seed << 32 | n as u64;
        if n.is_multiple_of(3) { text(seed, 4096) } else { random(seed, 4096) }
    };
    (0..pages).flat_map(page).collect()
}

/// Makes volume `name` with these bytes, durably.
pub(crate) fn put(shard: &SharedShard, name: &str, bytes: &[u8]) {
    shard.pool().create_volume(name, bytes.len() as u64, BlockSize::B4096).unwrap();
    let volume = shard.pool().volume(name).unwrap();
    for (at, part) in (0..).step_by(64 << 12).zip(bytes.chunks(64 << 12)) {
        volume.write(at, part, Durability::OnReturn).unwrap();
    }
}

#[track_caller]
pub(crate) fn expect(shard: &SharedShard, name: &str, bytes: &[u8]) {
    let mut found = vec![0; bytes.len()];
    shard.pool().volume(name).unwrap().read(0, &mut found).unwrap();
    assert!(found == bytes, "{name} has other bytes");
}

/// Whether all that the shard knows is so.
#[track_caller]
pub(crate) fn expect_sound(shard: &SharedShard) {
    assert_eq!(shard.pool().check(), Vec::<String>::new());
    let scrubbed = shard.pool().scrub();
    assert!(scrubbed.is_good(), "{scrubbed:?}");
}
