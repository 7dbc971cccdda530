//! The power goes at every step, and the disk has lost, torn or reordered what was not synced: a
//! pool opens, no acknowledged flush is lost, and each block is one that was written. And it goes
//! once more, at every step of opening what it left.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use onefold_backend::crash::CrashDisk;
use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
use onefold_backend::{Folder, Operation};
use onefold_block::{BlockDevice, BlockError, BlockSize, Durability, Zeroes};
use onefold_testkit::{SplitMix64, random, text};
use onefold_volume::{Codec, Hash, Options, Pool, VolumeError};

use super::registers::{Register, Registers, whole};

pub(crate) use super::registers::Contents;

/// Of each volume when it is made.
const BLOCKS: u64 = 24;
const BLOCK: u64 = 4096;

fn options() -> Options {
    Options {
        table_bytes: 16 << 10,
        container_len: 24_000,
        commit_len: 1500,
        open_files: 1,
        node_bytes: 0,
        least_nodes: 5,
        ..Options::default()
    }
}

/// The first is zeros. Half of the others cannot be compressed.
static PAGES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let page = |n: u64| match n {
        0 => vec![0; BLOCK as usize],
        n if n.is_multiple_of(2) => random(n, BLOCK as usize),
        n => text(n, BLOCK as usize),
    };
    (0..14).map(page).collect()
});

/// No page of 512 bytes becomes shorter.
const SHORTEST: u64 = 128;

/// No container has more bytes: it is closed once it is as long as it was asked to be, and an entry
/// of its footer has 64 bytes at most.
const CONTAINER: u64 = 24_000 + BLOCK + 64 * (24_000 / SHORTEST + 3);

/// Containers have what the quota lets them, and one more while a compaction works.
fn expect_quota(pool: &Pool, quota: Option<u64>, context: &str) {
    let Some(quota) = quota else { return };
    let bytes = pool.statistics().container_bytes;
    assert!(bytes <= quota + CONTAINER, "{context}: {bytes} bytes, the quota is {quota}");
}

fn io(result: Result<(), BlockError>) -> Result<(), VolumeError> {
    result.map_err(|error| VolumeError::Stopped { why: error.to_string() })
}

/// A pool that things are done to, until the disk fails.
struct Play<'a> {
    folder: Arc<dyn Folder>,
    faults: Faults,
    options: &'a Options,
    pool: Option<Pool>,
    /// Whether a container could not be read when the pool was opened: until it is opened again
    /// nobody can change a part of a block that is in there.
    is_damaged: bool,
    numbers: SplitMix64,
    registers: &'a mut Registers,
}

impl Play<'_> {
    fn below(&mut self, bound: u64) -> u64 {
        self.numbers.next_u64() % bound
    }

    fn pool(&self) -> &Pool {
        self.pool.as_ref().expect("it is open")
    }

    /// Opens the pool, with pages compressed in one way or another from here on.
    fn open(&mut self) -> Result<(), VolumeError> {
        self.pool = None;
        let codec = Codec::ALL[self.below(4) as usize];
        let options = Options { codec: Some(codec), ..self.options.clone() };
        let (pool, damage) = Pool::open(Arc::clone(&self.folder), options)?;
        (self.pool, self.is_damaged) = (Some(pool), !damage.is_empty());
        Ok(())
    }

    fn create(&mut self, name: &str, block_size: BlockSize) -> Result<(), VolumeError> {
        let block_len = u64::from(block_size.bytes());
        self.registers.begins(name, Register::new(block_len, BLOCKS));
        self.pool().create_volume(name, BLOCKS * block_len, block_size)?;
        self.registers.is_there(name);
        Ok(())
    }

    /// One of the volumes, of those that can be written if that is wanted.
    fn any(&mut self, is_written: bool) -> String {
        let mut names = self.registers.names();
        names.retain(|name| !is_written || !self.registers.get(name).is_read_only);
        let nth = self.below(names.len() as u64) as usize;
        names.swap_remove(nth)
    }

    /// Some neighbouring blocks of a volume; and in one of four cases without a part of the first and
    /// of the last of them. In bytes.
    fn range(&mut self, name: &str) -> Range<u64> {
        let (len, blocks) = (self.registers.get(name).block_len, self.registers.get(name).size());
        let at = self.below(blocks);
        let count = (1 + self.below(6)).min(blocks - at);
        let (mut head, mut tail) = (0, 0);
        if self.below(4) == 0 && !self.is_damaged {
            (head, tail) = (self.below(len / 2), self.below(len / 2));
        }
        at * len + head..(at + count) * len - tail
    }

    fn step(&mut self) -> Result<(), VolumeError> {
        match self.below(20) {
            0..8 => self.write(),
            8 => self.erase(),
            9 => self.write_zeroes(),
            10 | 11 => self.flush(),
            12 | 13 => self.copy_or_delete(),
            14 => self.resize(),
            15 | 16 => self.compact(),
            17 => {
                self.flush()?;
                self.open()
            }
            18 => self.pool().checkpoint(),
            _ => self.pool().drop_table(false),
        }
    }

    fn write(&mut self) -> Result<(), VolumeError> {
        let name = self.any(true);
        let range = self.range(&name);
        let block_len = self.registers.get(&name).block_len as usize;
        let len = (range.end - range.start) as usize;
        // few different ones, so that pages are shared, dropped and found again
        let mut bytes = Vec::with_capacity(len + block_len);
        while bytes.len() < len {
            let page = self.below(PAGES.len() as u64) as usize;
            bytes.extend_from_slice(&PAGES[page][..block_len]);
        }
        bytes.truncate(len);
        // in one piece or in two, the second first
        let split = if self.below(4) == 0 && !self.is_damaged {
            1 + self.below(len as u64 - 1) as usize
        } else {
            0
        };
        let pieces =
            [(range.start + split as u64, &bytes[split..]), (range.start, &bytes[..split])];
        let is_forced = self.below(4) == 0;
        let durability = if is_forced { Durability::OnReturn } else { Durability::OnFlush };
        for (offset, piece) in pieces {
            self.registers.get_mut(&name).writes(offset, piece);
        }
        let volume = self.pool().volume(&name)?;
        let written = self.despite_faults(|| match split {
            0 => volume.write(range.start, &bytes, durability),
            _ => volume.write_many(&pieces, durability),
        });
        if self.is_done(&name, range, written)? && is_forced {
            self.registers.flushed();
        }
        Ok(())
    }

    fn erase(&mut self) -> Result<(), VolumeError> {
        let name = self.any(true);
        let range = self.range(&name);
        let register = self.registers.get_mut(&name);
        let erased = whole(range.clone(), register.block_len);
        register.writes(erased.start, &vec![0; (erased.end - erased.start) as usize]);
        io(self.pool().volume(&name)?.erase(range, Durability::OnFlush))
    }

    fn write_zeroes(&mut self) -> Result<(), VolumeError> {
        let name = self.any(true);
        let range = self.range(&name);
        let zeros = vec![0; (range.end - range.start) as usize];
        self.registers.get_mut(&name).writes(range.start, &zeros);
        let (volume, zeroes) = (self.pool().volume(&name)?, Zeroes::default());
        let written =
            self.despite_faults(|| volume.write_zeroes(range.clone(), zeroes, Durability::OnFlush));
        self.is_done(&name, range, written).map(drop)
    }

    /// Tries again what met a read that was made to fail: a part of a block is changed by reading it.
    fn despite_faults<T>(
        &self,
        mut call: impl FnMut() -> Result<T, BlockError>,
    ) -> Result<T, BlockError> {
        loop {
            let before = self.faults.failed();
            match call() {
                Err(_) if self.faults.failed() > before => {}
                done => return done,
            }
        }
    }

    /// Whether what changes blocks was done. If the quota had no room for it some blocks may be what
    /// they were.
    fn is_done(
        &mut self,
        name: &str,
        range: Range<u64>,
        done: Result<(), BlockError>,
    ) -> Result<bool, VolumeError> {
        let is_limited = self.options.quota.is_some();
        if !(is_limited && matches!(done, Err(BlockError::NoSpace { .. }))) {
            return io(done).map(|()| true);
        }
        self.registers.refused += 1;
        let volume = self.pool().volume(name)?;
        let register = self.registers.get_mut(name);
        let len = register.block_len;
        for block in range.start / len..range.end.div_ceil(len) {
            let mut page = vec![1; len as usize];
            io(volume.read(block * len, &mut page))?;
            register.is_now(block, &page);
        }
        Ok(false)
    }

    fn flush(&mut self) -> Result<(), VolumeError> {
        self.pool().flush()?;
        self.registers.flushed();
        Ok(())
    }

    /// Makes a snapshot or a clone of any volume, or deletes the one that there is.
    fn copy_or_delete(&mut self) -> Result<(), VolumeError> {
        let is_snapshot = self.below(2) == 0;
        let name = if is_snapshot { "snapshot" } else { "clone" };
        if self.registers.has(name) {
            self.registers.goes(name);
            self.pool().delete_volume(name)?;
            self.registers.is_gone(name);
            return Ok(());
        }
        let source = self.any(false);
        // made at one moment, from what is there then
        self.registers.begins(name, self.registers.get(&source).copy(is_snapshot));
        self.pool().clone_volume(&source, name, is_snapshot)?;
        self.registers.is_there(name);
        Ok(())
    }

    fn resize(&mut self) -> Result<(), VolumeError> {
        let name = self.any(true);
        let size = 8 + self.below(BLOCKS);
        let register = self.registers.get_mut(&name);
        register.begins_to_resize(size);
        let bytes = size * register.block_len;
        io(self.pool().volume(&name)?.resize(bytes))?;
        self.registers.flushed();
        Ok(())
    }

    /// Without a quota some reads fail meanwhile, or after it, which costs nothing that lasts.
    fn compact(&mut self) -> Result<(), VolumeError> {
        if self.options.quota.is_none() && self.below(2) == 0 {
            let fault = Fault::new(Failure::Io).on(Operation::Read).named("container-");
            let skipped = self.below(6);
            self.faults.add(fault.skip(skipped));
        }
        let before = self.faults.failed();
        let compacted = self.pool().compact();
        if self.faults.failed() == before {
            compacted?;
        }
        Ok(())
    }
}

/// Does what `seed` says until the disk fails; a quota only fails the write that meets it.
fn script(
    folder: &Arc<dyn Folder>,
    seed: u64,
    options: &Options,
    registers: &mut Registers,
) -> Result<(), VolumeError> {
    let faults = Faults::none();
    let folder: Arc<dyn Folder> = Arc::new(Faulty::new(Arc::clone(folder), "pool", &faults));
    Pool::create(&folder, if seed % 3 == 2 { Hash::Sha3 } else { Hash::Blake3 })?;
    registers.is_made = true;
    let numbers = SplitMix64::new(seed);
    let mut play =
        Play { folder, faults, options, pool: None, is_damaged: false, numbers, registers };
    play.open()?;
    play.create("a", BlockSize::B4096)?;
    play.create("small", BlockSize::B512)?;
    for step in 0..36 {
        expect_quota(play.pool(), options.quota, &format!("seed {seed}, step {step}"));
        play.step()?;
    }
    play.flush()
}

/// The bytes of all volumes.
fn contents(pool: &Pool) -> Contents {
    let read = |name: String| {
        let volume = pool.volume(&name).unwrap();
        let mut bytes = vec![1; volume.size() as usize];
        volume.read(0, &mut bytes).unwrap();
        (name, bytes)
    };
    pool.volumes().into_iter().map(|one| read(one.name)).collect()
}

/// Opens what is left, and holds it against what it may be. What was found, if there is a pool.
fn verify(
    state: &CrashDisk,
    registers: &Registers,
    quota: Option<u64>,
    context: &str,
) -> Option<Contents> {
    let folder: Arc<dyn Folder> = Arc::new(state.folder());
    let limited = Options { quota, ..options() };
    let (pool, damage) = match Pool::open(Arc::clone(&folder), limited) {
        Ok(opened) => opened,
        Err(error) => {
            assert!(!registers.is_made, "{context}: {error}");
            // it can be made now
            Pool::create(&folder, Hash::Blake3).unwrap();
            Pool::open(folder, options()).unwrap();
            return None;
        }
    };
    assert!(damage.is_empty(), "{context}: {damage:?}");
    assert_eq!(pool.check(), Vec::<String>::new(), "{context}");
    let scrubbed = pool.scrub();
    assert!(scrubbed.is_good(), "{context}: {scrubbed:?}");
    expect_quota(&pool, quota, context);
    let found = contents(&pool);
    registers.expect(&found, context);
    // the pool goes on, if it has room
    drop(pool);
    let (pool, _) = Pool::open(Arc::clone(&folder), options()).unwrap();
    if found.contains_key("a") {
        let page = random(77, BLOCK as usize);
        pool.volume("a").unwrap().write(0, &page, Durability::OnReturn).unwrap();
        drop(pool);
        let (pool, _) = Pool::open(folder, options()).unwrap();
        assert!(contents(&pool)["a"][..BLOCK as usize] == page, "{context}");
        assert_eq!(pool.check(), Vec::<String>::new(), "{context}");
    }
    Some(found)
}

/// Another disk with the same files, all of which are durable.
fn copy(state: &CrashDisk) -> CrashDisk {
    state.durable_states(2, 0).next().expect("there is always one")
}

/// Opens a pool, and makes durable what was found.
fn recover(disk: &CrashDisk) -> Result<(), VolumeError> {
    let (pool, _) = Pool::open(Arc::new(disk.folder()), options())?;
    pool.flush()?;
    pool.compact()?;
    pool.checkpoint()
}

/// Cuts the power at every step of opening what a power cut left: what was found there is found
/// again. How many states that were.
fn cut_again(state: &CrashDisk, found: &Contents, context: &str) -> u64 {
    let whole = copy(state);
    recover(&whole).unwrap();
    let mut states = 0;
    for steps in 0..=whole.operations() {
        let disk = copy(state);
        disk.crash_after(steps);
        // it fails, unless that is after the last step
        let _ = recover(&disk);
        for state in disk.durable_states(3, steps) {
            let context = format!("{context}, then at {steps}");
            let opened = Pool::open(Arc::new(state.folder()), options());
            let (pool, damage) = opened.unwrap_or_else(|error| panic!("{context}: {error}"));
            assert!(damage.is_empty(), "{context}: {damage:?}");
            assert!(contents(&pool) == *found, "{context}: it is another pool");
            assert_eq!(pool.check(), Vec::<String>::new(), "{context}");
            states += 1;
        }
    }
    states
}

/// What was tried.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) cuts: u64,
    pub(crate) states: u64,
    /// Of second cuts.
    pub(crate) states_again: u64,
    /// Writes that the quota refused, if there is one.
    pub(crate) refused: u64,
}

/// Cuts the power after every step of the script of `seed`, and opens so many states each time. Some of these
/// openings are cut off after every step as well. `look` gets each state of a pool before it is opened, and
/// what was found in it then.
pub(crate) fn cut_everywhere(
    seed: u64,
    states: usize,
    quota: Option<u64>,
    look: &dyn Fn(&CrashDisk, &Contents),
) -> Tally {
    const AGAIN_EVERY: u64 = 16;
    let options = Options { quota, ..options() };
    let mut tally = Tally::default();
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
        (tally.cuts, tally.refused) = (tally.cuts + 1, registers.refused);
        drop(folder);
        for (i, state) in (0..).zip(disk.durable_states(states, seed)) {
            let context = format!("seed {seed}, cut at {steps}, state {i}");
            let is_cut_again = (steps + i * 5 + seed).is_multiple_of(AGAIN_EVERY);
            let before = copy(&state);
            let found = verify(&state, &registers, quota, &context);
            tally.states += 1;
            let Some(found) = found else { continue };
            look(&before, &found);
            if is_cut_again {
                tally.states_again += cut_again(&before, &found, &context);
            }
        }
    }
    tally
}
