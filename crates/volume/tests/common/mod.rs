//! The power goes at every step, and the disk has lost, torn or reordered what was not synced: a
//! pool opens, no acknowledged flush is lost, and each block is one that was written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use onefold_backend::crash::CrashDisk;
use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
use onefold_backend::{Folder, Operation};
use onefold_block::{BlockDevice, BlockError, BlockSize, Durability};
use onefold_testkit::SplitMix64;
use onefold_volume::{Hash, Options, Pool, Volume, VolumeError};

const BLOCKS: u64 = 24;
const BLOCK: u64 = 4096;

fn options() -> Options {
    Options {
        table_bytes: 16 << 10,
        container_len: 24_000,
        commit_len: 1500,
        open_files: 1,
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
#[derive(Default, Clone)]
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
    /// Writes that the quota had no room for.
    refused: u64,
}

impl Registers {
    fn writes(&mut self, volume: &str, at: u64, n: u64) {
        let place = (volume.to_owned(), at);
        self.now.insert(place.clone(), n);
        self.allowed.entry(place).or_insert_with(|| BTreeSet::from([0])).insert(n);
    }

    /// Some blocks of a write that was refused may be what they were.
    fn looks(
        &mut self,
        volume: &str,
        range: std::ops::Range<u64>,
        device: &Volume,
    ) -> Result<(), BlockError> {
        for at in range {
            let place = (volume.to_owned(), at);
            let mut bytes = vec![1; BLOCK as usize];
            device.read(at * BLOCK, &mut bytes)?;
            let mut allowed = self.allowed[&place].iter();
            let now = allowed.find(|n| block(**n) == bytes).expect("what was there or was written");
            self.now.insert(place, *now);
        }
        Ok(())
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
}

/// No container has more bytes: it is closed once it is as long as it was asked to be, and an entry
/// of its footer has 64 bytes at most.
const CONTAINER: u64 = 24_000 + BLOCK + 64 * (24_000 / BLOCK + 3);

/// Containers have what the quota lets them, and one more while a compaction works.
fn expect_quota(pool: &Pool, quota: Option<u64>, context: &str) {
    let Some(quota) = quota else { return };
    let bytes = pool.statistics().container_bytes;
    assert!(bytes <= quota + CONTAINER, "{context}: {bytes} bytes, the quota is {quota}");
}

/// Does what `seed` says until the disk fails; a quota only fails the write that meets it. Without one
/// some reads fail while containers are compacted or opened, which costs nothing that lasts.
fn script(
    folder: &Arc<dyn Folder>,
    seed: u64,
    options: &Options,
    registers: &mut Registers,
) -> Result<(), VolumeError> {
    let faults = Faults::none();
    let folder: Arc<dyn Folder> = Arc::new(Faulty::new(Arc::clone(folder), "pool", &faults));
    let folder = &folder;
    Pool::create(folder, Hash::Blake3)?;
    registers.is_made = true;
    let (mut pool, _) = Pool::open(Arc::clone(folder), options.clone())?;
    registers.begins("a");
    pool.create_volume("a", BLOCKS * BLOCK, BlockSize::B4096)?;
    registers.is_there("a");
    let mut numbers = SplitMix64::new(seed);
    let mut below = |bound: u64| numbers.next_u64() % bound;
    let io = |result: Result<(), BlockError>| {
        result.map_err(|error| VolumeError::Stopped { why: error.to_string() })
    };
    for step in 0..26 {
        expect_quota(&pool, options.quota, &format!("seed {seed}, step {step}"));
        let volume = pool.volume("a")?;
        match below(14) {
            0..6 => {
                let (at, count) = (below(BLOCKS), 1 + below(6));
                let count = count.min(BLOCKS - at);
                // few different ones, so that pages are shared, dropped and found again
                let ns: Vec<u64> = (0..count).map(|_| below(14)).collect();
                let bytes: Vec<u8> = ns.iter().flat_map(|n| block(*n)).collect();
                for (i, n) in ns.iter().enumerate() {
                    registers.writes("a", at + i as u64, *n);
                }
                let forced = below(4) == 0;
                let durability = if forced { Durability::OnReturn } else { Durability::OnFlush };
                let written = volume.write(at * BLOCK, &bytes, durability);
                if options.quota.is_some() && matches!(written, Err(BlockError::NoSpace { .. })) {
                    registers.refused += 1;
                    io(registers.looks("a", at..at + count, &volume))?;
                    continue;
                }
                io(written)?;
                if forced {
                    registers.flushed();
                }
            }
            6 => {
                let at = below(BLOCKS);
                let count = (1 + below(8)).min(BLOCKS - at);
                (at..at + count).for_each(|at| registers.writes("a", at, 0));
                io(volume.erase(at * BLOCK..(at + count) * BLOCK, Durability::OnFlush))?;
            }
            7 | 8 => {
                io(volume.flush())?;
                registers.flushed();
            }
            9 if registers.sure.contains("s") => {
                registers.begins("s");
                pool.delete_volume("s")?;
                registers.is_gone("s");
            }
            9 => {
                registers.begins("s");
                registers.copies("a", "s");
                pool.clone_volume("a", "s", true)?;
                registers.is_there("s");
            }
            10 | 11 => {
                if options.quota.is_none() && below(2) == 0 {
                    // of this compaction, or of what is read after it
                    let fault = Fault::new(Failure::Io).on(Operation::Read).named("container-");
                    faults.add(fault.skip(below(6)));
                }
                let before = faults.failed();
                let compacted = pool.compact();
                if faults.failed() == before {
                    compacted?;
                }
            }
            12 => {
                io(volume.flush())?;
                registers.flushed();
                drop((volume, pool));
                pool = Pool::open(Arc::clone(folder), options.clone())?.0;
            }
            _ if step % 2 == 0 => pool.checkpoint()?,
            _ => pool.drop_table(false)?,
        }
    }
    io(pool.volume("a")?.flush())?;
    registers.flushed();
    Ok(())
}

fn read(volume: &Volume, at: u64) -> Vec<u8> {
    let mut bytes = vec![1; BLOCK as usize];
    volume.read(at * BLOCK, &mut bytes).unwrap();
    bytes
}

/// Opens what is left, and holds it against what it may be.
fn verify(state: &CrashDisk, registers: &Registers, quota: Option<u64>, context: &str) {
    let folder: Arc<dyn Folder> = Arc::new(state.folder());
    let limited = Options { quota, ..options() };
    let (pool, damage) = match Pool::open(Arc::clone(&folder), limited) {
        Ok(opened) => opened,
        Err(error) => {
            assert!(!registers.is_made, "{context}: {error}");
            // it can be made now
            Pool::create(&folder, Hash::Blake3).unwrap();
            Pool::open(folder, options()).unwrap();
            return;
        }
    };
    assert!(damage.is_empty(), "{context}: {damage:?}");
    assert_eq!(pool.check(), Vec::<String>::new(), "{context}");
    assert_eq!(pool.scrub().unwrap().bad, [], "{context}");
    expect_quota(&pool, quota, context);
    let found: BTreeSet<String> = pool.volumes().into_iter().map(|one| one.name).collect();
    assert!(registers.sure.is_subset(&found), "{context}: {found:?}");
    let may_be: BTreeSet<_> = registers.sure.union(&registers.unsure).cloned().collect();
    assert!(found.is_subset(&may_be), "{context}: {found:?}");
    for name in &found {
        let volume = pool.volume(name).unwrap();
        for at in 0..BLOCKS {
            let bytes = read(&volume, at);
            let none = BTreeSet::from([0]);
            let allowed = registers.allowed.get(&(name.clone(), at)).unwrap_or(&none);
            let is_allowed = allowed.iter().any(|n| block(*n) == bytes);
            assert!(is_allowed, "{context}: block {at} of '{name}' is none of {allowed:?}");
        }
    }
    // the pool goes on, if it has room
    drop(pool);
    let (pool, _) = Pool::open(Arc::clone(&folder), options()).unwrap();
    if found.contains("a") {
        let volume = pool.volume("a").unwrap();
        volume.write(0, &block(77), Durability::OnReturn).unwrap();
        drop((volume, pool));
        let (pool, _) = Pool::open(folder, options()).unwrap();
        assert!(read(&pool.volume("a").unwrap(), 0) == block(77), "{context}");
        assert_eq!(pool.check(), Vec::<String>::new(), "{context}");
    }
}

/// Cuts the power after every step of what `seed` says, and looks at so many states each time.
/// Returns how many writes the quota refused, if there is one.
pub(crate) fn cut_everywhere(seed: u64, states: usize, quota: Option<u64>) -> u64 {
    let options = Options { quota, ..options() };
    let mut refused = 0;
    let whole = CrashDisk::new();
    let folder: Arc<dyn Folder> = Arc::new(whole.folder());
    script(&folder, seed, &options, &mut Registers::default()).unwrap();
    drop(folder);
    for steps in 0..=whole.operations() {
        let disk = CrashDisk::new();
        disk.crash_after(steps);
        let folder: Arc<dyn Folder> = Arc::new(disk.folder());
        let mut registers = Registers::default();
        let _ = script(&folder, seed, &options, &mut registers);
        refused = registers.refused;
        drop(folder);
        for (i, state) in disk.durable_states(states, seed).enumerate() {
            verify(&state, &registers, quota, &format!("seed {seed}, cut at {steps}, state {i}"));
        }
    }
    refused
}
