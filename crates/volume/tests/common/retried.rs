//! Pools whose batches get no answer now and then: each is asked for again until one comes, and what
//! is kept then is what was done.

use std::sync::Arc;

use onefold_backend::{Folder, MemoryFolder};
use onefold_block::{BlockDevice, BlockSize, Durability};
use onefold_testkit::SplitMix64;
use onefold_volume::{Hash, Metadata, Options, Pool, VolumeError};

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 64;

fn options() -> Options {
    Options { table_bytes: 64 << 10, container_len: 30_000, commit_len: 800, ..Options::default() }
}

/// Tries again until there is an answer; panics at any other error.
pub(crate) fn until_answered<T>(mut call: impl FnMut() -> Result<T, VolumeError>) -> T {
    loop {
        match call() {
            Ok(done) => return done,
            Err(VolumeError::Unanswered { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// A pool and what its only volume has to hold.
struct One {
    folder: Arc<dyn Folder>,
    shards: Arc<dyn Metadata>,
    pool: Option<Pool>,
    blocks: Vec<u64>,
    numbers: SplitMix64,
}

fn page(n: u64) -> Vec<u8> {
    if n == 0 { vec![0; BLOCK as usize] } else { onefold_testkit::random(n, BLOCK as usize) }
}

impl One {
    fn new(seed: u64, shards: &Arc<dyn Metadata>) -> Self {
        let folder: Arc<dyn Folder> = Arc::new(MemoryFolder::new());
        Pool::create(&folder, Hash::Blake3).unwrap();
        let mut one = Self {
            folder,
            shards: Arc::clone(shards),
            pool: None,
            blocks: vec![0; BLOCKS as usize],
            numbers: SplitMix64::new(seed),
        };
        one.open();
        // it is there as soon as an answer came, whoever asked
        let _ = one.pool().create_volume("a", BLOCKS * BLOCK, BlockSize::B4096);
        until_answered(|| one.pool().flush());
        one
    }

    fn pool(&self) -> &Pool {
        self.pool.as_ref().expect("it is open")
    }

    fn open(&mut self) {
        self.pool = None;
        let open =
            || Pool::open_with(Arc::clone(&self.folder), Arc::clone(&self.shards), options());
        let (pool, damage) = until_answered(open);
        assert!(damage.is_empty(), "{damage:?}");
        self.pool = Some(pool);
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.numbers.next_u64() % bound
    }

    /// Volumes and references, as far as they can be told apart.
    fn seen(&self) -> [u64; 6] {
        assert_eq!(self.pool().check(), Vec::<String>::new());
        let found = self.pool().statistics();
        [
            found.volumes,
            found.snapshots,
            found.mapped_blocks,
            found.mapped_bytes,
            found.pages,
            found.page_bytes,
        ]
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        let volume = self.pool().volume("a").unwrap();
        while volume.write(at * BLOCK, bytes, Durability::OnFlush).is_err() {
            assert_eq!(self.pool().stopped(), None);
        }
    }

    fn reopen(&mut self) {
        until_answered(|| self.pool().flush());
        let before = self.seen();
        self.open();
        assert_eq!(self.seen(), before);
        let volume = self.pool().volume("a").unwrap();
        for (at, n) in (0..).zip(&self.blocks) {
            let mut found = vec![1; BLOCK as usize];
            volume.read(at * BLOCK, &mut found).unwrap();
            assert!(found == page(*n), "block {at}");
        }
        let scrubbed = self.pool().scrub();
        assert!(scrubbed.is_good(), "{scrubbed:?}");
        // the table knows each page that there is
        (0..).zip(&self.blocks).for_each(|(at, n)| self.write(at, &page(*n)));
        assert_eq!(self.pool().statistics().new_pages, 0);
    }

    fn step(&mut self) {
        match self.below(12) {
            0..7 => {
                let (at, count) = (self.below(BLOCKS), 1 + self.below(5));
                let count = count.min(BLOCKS - at);
                let ns: Vec<u64> = (0..count).map(|_| self.below(30)).collect();
                let bytes: Vec<u8> = ns.iter().flat_map(|n| page(*n)).collect();
                self.write(at, &bytes);
                self.blocks[at as usize..][..count as usize].copy_from_slice(&ns);
            }
            7 | 8 => {
                // not asked again now: what is written next comes behind it
                let _ = self.pool().flush();
            }
            9 => {
                let name = "s";
                let _ = match self.pool().volume(name) {
                    Ok(_) => self.pool().delete_volume(name),
                    Err(_) => self.pool().clone_volume("a", name, true),
                };
            }
            10 => match self.below(2) {
                0 => drop(until_answered(|| self.pool().compact())),
                _ => until_answered(|| self.pool().checkpoint()),
            },
            _ => self.reopen(),
        }
    }
}

/// Two pools take turns at the same shards, of which they get answers or not.
pub(crate) fn take_turns(seed: u64, shards: &Arc<dyn Metadata>) {
    let mut pools = [One::new(seed, shards), One::new(seed + 1000, shards)];
    for step in 0..150 {
        pools[step % 2].step();
    }
    pools.iter_mut().for_each(One::reopen);
}
