//! The power goes while what volumes no longer have is let go, and between the steps of that others
//! write, compact, check and make checkpoints: a volume is there whole, or it is gone; it has the one
//! size or the other; and everybody else's blocks are as they were.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use onefold_backend::Folder;
use onefold_backend::crash::CrashDisk;
use onefold_block::{BlockDevice, BlockError, BlockSize, Durability};
use onefold_testkit::SplitMix64;
use onefold_volume::{Between, Hash, Options, Pool, VolumeError};

const BLOCKS: u64 = 24;
const BLOCK: u64 = 4096;

/// Places that have a page lie a segment apart, so that letting go of all takes several steps.
const STRIDE: u64 = 512 * BLOCK;

fn options() -> Options {
    Options {
        table_bytes: 16 << 10,
        container_len: 24_000,
        node_bytes: 0,
        least_nodes: 60,
        ..Options::default()
    }
}

/// A block is known by its number; 0 is zeros.
fn block(n: u64) -> Vec<u8> {
    match n {
        0 => vec![0; BLOCK as usize],
        _ => {
            let mut numbers = SplitMix64::new(n);
            (0..BLOCK / 8).flat_map(|_| numbers.next_u64().to_le_bytes()).collect()
        }
    }
}

/// What a block of a volume may be: what it was at the last acknowledged flush, or anything that
/// was begun to be written since.
#[derive(Default)]
struct Registers {
    /// Whether the pool's creation was acknowledged.
    is_made: bool,
    /// By volume and block.
    allowed: BTreeMap<(String, u64), BTreeSet<u64>>,
    /// What each block is if nothing is lost.
    now: BTreeMap<(String, u64), u64>,
    /// Volumes whose creation or deletion was acknowledged, or only begun.
    sure: BTreeSet<String>,
    unsure: BTreeSet<String>,
}

impl Registers {
    fn writes(&mut self, volume: &str, at: u64, n: u64) {
        let place = (volume.to_owned(), at);
        self.now.insert(place.clone(), n);
        self.allowed.entry(place).or_insert_with(|| BTreeSet::from([0])).insert(n);
    }

    /// All that was done before is durable.
    fn flushed(&mut self) {
        for (place, n) in &self.now {
            self.allowed.insert(place.clone(), BTreeSet::from([*n]));
        }
    }

    fn begins(&mut self, volume: &str) {
        self.sure.remove(volume);
        self.unsure.insert(volume.into());
    }

    fn is_there(&mut self, volume: &str) {
        self.unsure.remove(volume);
        self.sure.insert(volume.into());
        self.flushed();
    }

    fn is_gone(&mut self, volume: &str) {
        self.unsure.remove(volume);
        self.now.retain(|(name, _), _| name != volume);
        self.allowed.retain(|(name, _), _| name != volume);
        self.flushed();
    }

    fn copies(&mut self, from: &str, to: &str) {
        for at in 0..BLOCKS {
            let place = (from.to_owned(), at);
            let now = self.now.get(&place).copied().unwrap_or(0);
            // made at one moment, from what is there then
            self.now.insert((to.to_owned(), at), now);
            self.allowed.insert((to.to_owned(), at), BTreeSet::from([now]));
        }
    }

    /// These are the volumes that were found.
    fn expect_volumes(&self, found: impl Iterator<Item = String>, context: &str) {
        let found: BTreeSet<String> = found.collect();
        assert!(self.sure.is_subset(&found), "{context}: {found:?}");
        let may_be: BTreeSet<_> = self.sure.union(&self.unsure).cloned().collect();
        assert!(found.is_subset(&may_be), "{context}: {found:?}");
    }

    /// A block was found to be `bytes`.
    fn expect_block(&self, volume: &str, at: u64, bytes: &[u8], context: &str) {
        let none = BTreeSet::from([0]);
        let allowed = self.allowed.get(&(volume.to_owned(), at)).unwrap_or(&none);
        let is_allowed = allowed.iter().any(|n| block(*n) == bytes);
        assert!(is_allowed, "{context}: block {at} of '{volume}' is none of {allowed:?}");
    }
}

/// What volumes may be, and in which sizes.
#[derive(Default)]
struct Told {
    registers: Registers,
    sizes: BTreeMap<String, BTreeSet<u64>>,
    /// So many calls came between steps.
    calls: u64,
}

/// Who writes, and what is told of it.
#[derive(Clone)]
struct Scene {
    told: Arc<Mutex<Told>>,
    numbers: Arc<Mutex<SplitMix64>>,
    /// Whether a compaction is under way, beside which no other one can be begun.
    is_moving: Arc<AtomicBool>,
    /// Whether the power is gone.
    is_over: Arc<AtomicBool>,
}

fn io(result: Result<(), BlockError>) -> Result<(), VolumeError> {
    result.map_err(|error| VolumeError::Stopped { why: error.to_string() })
}

impl Scene {
    fn new(seed: u64) -> Self {
        Self {
            told: Arc::default(),
            numbers: Arc::new(Mutex::new(SplitMix64::new(seed))),
            is_moving: Arc::default(),
            is_over: Arc::default(),
        }
    }

    fn below(&self, bound: u64) -> u64 {
        self.numbers.lock().unwrap().next_u64() % bound
    }

    fn tell<T>(&self, what: impl FnOnce(&mut Told) -> T) -> T {
        what(&mut self.told.lock().unwrap())
    }

    fn open(&self, folder: &Arc<dyn Folder>) -> Result<Pool, VolumeError> {
        let (pool, _) = Pool::open(Arc::clone(folder), options())?;
        let scene = self.clone();
        pool.between_steps(move |pool, between| scene.between(pool, between));
        Ok(pool)
    }

    /// What others do between two steps.
    fn between(&self, pool: &Pool, between: Between) {
        self.tell(|told| told.calls += 1);
        expect_sound(pool);
        if self.is_over.load(Ordering::Relaxed) {
            return;
        }
        let can_move = !self.is_moving.load(Ordering::Relaxed) && between == Between::Releases;
        let done = match self.below(6) {
            0 => self.write(pool, "kept"),
            1 => self.flush(pool),
            2 | 3 if can_move => self.compact(pool),
            4 if can_move => pool.checkpoint(),
            _ => Ok(()),
        };
        self.is_over.store(done.is_err(), Ordering::Relaxed);
        expect_sound(pool);
    }

    /// What had nothing to write may succeed without power, and what was written before that failed.
    fn expect_power(&self) -> Result<(), VolumeError> {
        match self.is_over.load(Ordering::Relaxed) {
            true => Err(VolumeError::Stopped { why: "the power is gone".into() }),
            false => Ok(()),
        }
    }

    fn compact(&self, pool: &Pool) -> Result<(), VolumeError> {
        self.is_moving.store(true, Ordering::Relaxed);
        let compacted = pool.compact();
        self.is_moving.store(false, Ordering::Relaxed);
        compacted.map(drop)
    }

    fn flush(&self, pool: &Pool) -> Result<(), VolumeError> {
        pool.flush()?;
        self.tell(|told| told.registers.flushed());
        Ok(())
    }

    fn write(&self, pool: &Pool, name: &str) -> Result<(), VolumeError> {
        let volume = pool.volume(name)?;
        for _ in 0..16 {
            // few different ones, so that pages are shared, dropped and found again
            let (place, n) = (self.below(BLOCKS), self.below(30));
            if place * STRIDE < volume.size() {
                self.tell(|told| told.registers.writes(name, place, n));
                io(volume.write(place * STRIDE, &block(n), Durability::OnFlush))?;
            }
        }
        Ok(())
    }

    fn create(&self, pool: &Pool, name: &str) -> Result<(), VolumeError> {
        self.tell(|told| {
            told.registers.begins(name);
            told.sizes.insert(name.into(), BTreeSet::from([BLOCKS * STRIDE]));
        });
        pool.create_volume(name, BLOCKS * STRIDE, BlockSize::B4096)?;
        self.tell(|told| told.registers.is_there(name));
        Ok(())
    }

    fn copy(&self, pool: &Pool, from: &str, to: &str) -> Result<(), VolumeError> {
        self.tell(|told| {
            told.registers.begins(to);
            told.registers.copies(from, to);
            told.sizes.insert(to.into(), told.sizes[from].clone());
        });
        pool.clone_volume(from, to, true)?;
        self.tell(|told| told.registers.is_there(to));
        Ok(())
    }

    fn delete(&self, pool: &Pool, name: &str) -> Result<(), VolumeError> {
        self.tell(|told| told.registers.begins(name));
        pool.delete_volume(name)?;
        self.expect_power()?;
        self.tell(|told| told.registers.is_gone(name));
        Ok(())
    }

    fn resize(&self, pool: &Pool, name: &str) -> Result<(), VolumeError> {
        // at the end of a segment or within one
        let size = STRIDE * self.below(BLOCKS) + BLOCK * (1 + self.below(512));
        self.tell(|told| told.sizes.get_mut(name).expect("it is there").insert(size));
        io(pool.volume(name)?.resize(size))?;
        self.expect_power()?;
        self.tell(|told| {
            told.sizes.insert(name.into(), BTreeSet::from([size]));
            for place in size.div_ceil(STRIDE)..BLOCKS {
                told.registers.writes(name, place, 0);
            }
            told.registers.flushed();
        });
        Ok(())
    }

    /// Goes on until the disk fails.
    fn script(&self, folder: &Arc<dyn Folder>) -> Result<(), VolumeError> {
        Pool::create(folder, Hash::Blake3)?;
        self.tell(|told| told.registers.is_made = true);
        let mut pool = self.open(folder)?;
        self.create(&pool, "kept")?;
        self.create(&pool, "a")?;
        for _ in 0..28 {
            let has_copy = pool.volume("s").is_ok();
            match self.below(8) {
                0 | 1 => self.write(&pool, "a")?,
                2 => self.write(&pool, "kept")?,
                3 | 4 => self.resize(&pool, "a")?,
                5 if has_copy => self.delete(&pool, "s")?,
                5 => self.copy(&pool, "a", "s")?,
                6 => {
                    self.delete(&pool, "a")?;
                    self.create(&pool, "a")?;
                }
                _ => {
                    self.flush(&pool)?;
                    drop(pool);
                    pool = self.open(folder)?;
                }
            }
        }
        self.flush(&pool)
    }

    /// Opens what is left, and holds it against what it may be.
    fn verify(&self, state: &CrashDisk, context: &str) {
        let told = self.told.lock().unwrap();
        let registers = &told.registers;
        let folder: Arc<dyn Folder> = Arc::new(state.folder());
        let (pool, damage) = match Pool::open(Arc::clone(&folder), options()) {
            Ok(opened) => opened,
            Err(error) => return assert!(!registers.is_made, "{context}: {error}"),
        };
        assert!(damage.is_empty(), "{context}: {damage:?}");
        assert_eq!(pool.check(), Vec::<String>::new(), "{context}");
        let scrubbed = pool.scrub();
        assert!(scrubbed.is_good(), "{context}: {scrubbed:?}");
        let found = pool.volumes();
        registers.expect_volumes(found.iter().map(|one| one.name.clone()), context);
        for one in &found {
            let sizes = &told.sizes[&one.name];
            assert!(sizes.contains(&one.size), "{context}: '{}' has {}", one.name, one.size);
            let volume = pool.volume(&one.name).unwrap();
            for place in 0..one.size.div_ceil(STRIDE) {
                let mut bytes = vec![1; BLOCK as usize];
                volume.read(place * STRIDE, &mut bytes).unwrap();
                registers.expect_block(&one.name, place, &bytes, context);
            }
        }
        // and nothing is left of it once all of them are deleted
        found.iter().for_each(|one| pool.delete_volume(&one.name).unwrap());
        drop(pool);
        let (pool, _) = Pool::open(folder, options()).unwrap();
        pool.flush().unwrap();
        let left = pool.statistics();
        assert_eq!((left.pages, left.container_bytes), (0, 0), "{context}");
    }
}

/// Cuts the power after every step of the script of `seed`, and opens so many states each time. Returns how
/// many calls came between steps.
pub(crate) fn cut_everywhere(seed: u64, states: usize) -> u64 {
    let whole = CrashDisk::new();
    let folder: Arc<dyn Folder> = Arc::new(whole.folder());
    let scene = Scene::new(seed);
    scene.script(&folder).unwrap();
    drop(folder);
    for steps in 0..=whole.operations() {
        let disk = CrashDisk::new();
        disk.crash_after(steps);
        let folder: Arc<dyn Folder> = Arc::new(disk.folder());
        let scene = Scene::new(seed);
        let _ = scene.script(&folder);
        drop(folder);
        for (i, state) in disk.durable_states(states, seed).enumerate() {
            scene.verify(&state, &format!("seed {seed}, cut at {steps}, state {i}"));
        }
    }
    scene.tell(|told| told.calls)
}

/// Checks a pool, as far as its disk can be read.
fn expect_sound(pool: &Pool) {
    let problems = pool.check();
    let is_crash = |problem: &String| problem.contains("the simulated disk has crashed");
    assert!(problems.iter().all(is_crash), "{problems:?}");
}
