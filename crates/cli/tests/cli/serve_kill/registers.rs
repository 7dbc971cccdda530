//! What each block of a volume may be, and the clients that change it.
//!
//! A register remembers for each block which writes it may have: the last one that is known to be
//! durable, and all that were begun since. After a kill each block must have one of them, whole.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use onefold_lab::nbd::{Client, Refused};
use onefold_testkit::{SplitMix64, random};

use super::Tally;
use crate::nbd::EIO;
use crate::served::Served;

pub(super) const BLOCK: usize = 4096;
pub(super) const BLOCKS: usize = 192;
/// Connections that write, each its own blocks; one more flushes.
pub(super) const WRITERS: usize = 4;
/// The changes from one erase to the next, and from one write with FUA to the next, in the mean.
const ERASE_EVERY: u64 = 7;
const FORCE_EVERY: u64 = 11;

/// What a block may be: numbers of the changes that were made of it, 0 for none yet.
struct Register {
    /// The last that is durable, then those that were begun since.
    possible: Vec<u64>,
    acknowledged: u64,
    next: u64,
}

impl Register {
    /// The number of the change that is about to be made.
    fn begin(&mut self) -> u64 {
        let change = self.next;
        self.next += 1;
        self.possible.push(change);
        change
    }

    /// Notes that `change` is durable, so that none before it can be there.
    fn keep(&mut self, change: u64) {
        if let Some(at) = self.possible.iter().position(|one| *one == change) {
            self.possible.drain(..at);
        }
    }
}

/// Of the volume `disk`.
pub(super) struct Registers {
    all: Mutex<Vec<Register>>,
    /// Whether the clients are to end, though the server does not.
    is_over: AtomicBool,
}

/// Blocks as a server gives them; `None` where a page is lost.
pub(super) type Blocks = Vec<Option<Vec<u8>>>;

/// How blocks differ from what their registers allow.
#[derive(Debug, Default)]
pub(super) struct Differences {
    /// Blocks that are none of the changes that they may be.
    pub(super) other: u64,
    /// Those of them that are no change that was ever begun.
    pub(super) invented: u64,
    pub(super) unreadable: u64,
}

/// Whether change number `change` of a block erases it.
fn is_erase(block: usize, change: u64) -> bool {
    (block as u64 + change).is_multiple_of(ERASE_EVERY)
}

/// What it makes of the block.
fn content(block: usize, change: u64) -> Vec<u8> {
    if change == 0 || is_erase(block, change) {
        return vec![0; BLOCK];
    }
    // half of them are also those of the neighbour, so that pages are shared
    let name = if change.is_multiple_of(2) { block as u64 / 2 } else { block as u64 };
    random((name << 32) | change, BLOCK)
}

/// Whether `found` is one of these changes of a block, which are tried from the last on.
pub(super) fn is_one_of(
    block: usize,
    found: &[u8],
    changes: impl DoubleEndedIterator<Item = u64>,
) -> bool {
    changes.rev().any(|change| content(block, change) == found)
}

/// All blocks of the volume.
pub(super) fn read_blocks(client: &mut Client) -> Blocks {
    let read = |block: usize| {
        let mut found = vec![0; BLOCK];
        match client.read((block * BLOCK) as u64, &mut found) {
            Ok(()) => Some(found),
            Err(error) => {
                let errno = error.downcast_ref::<Refused>().map(|refused| refused.errno);
                assert_eq!(errno, Some(EIO), "block {block}: {error:#}");
                None
            }
        }
    };
    (0..BLOCKS).map(read).collect()
}

impl Registers {
    pub(super) fn new() -> Self {
        let register = || Register { possible: vec![0], acknowledged: 0, next: 1 };
        let all = Mutex::new((0..BLOCKS).map(|_| register()).collect());
        Self { all, is_over: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Register>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last change of each block that was acknowledged, durable or not.
    pub(super) fn acknowledged(&self) -> Vec<u64> {
        self.lock().iter().map(|one| one.acknowledged).collect()
    }

    /// The changes of each block from those on.
    pub(super) fn since(&self, from: &[u64]) -> Vec<Vec<u64>> {
        self.lock().iter().zip(from).map(|(one, from)| (*from..one.next).collect()).collect()
    }

    /// The changes that each block may be.
    pub(super) fn possible(&self) -> Vec<Vec<u64>> {
        self.lock().iter().map(|one| one.possible.clone()).collect()
    }

    /// Changes blocks until the server is gone; how many changes were acknowledged, and how many of
    /// these were forced.
    fn write(&self, mut client: Client, writer: usize, seed: u64) -> (u64, u64) {
        let mut numbers = SplitMix64::new(seed);
        let (mut changes, mut forced) = (0, 0);
        while !self.is_over.load(Ordering::Relaxed) {
            let block = numbers.below(BLOCKS / WRITERS) * WRITERS + writer;
            let change = self.lock()[block].begin();
            let offset = (block * BLOCK) as u64;
            let is_erase = is_erase(block, change);
            let is_forced = !is_erase && (block as u64 + change).is_multiple_of(FORCE_EVERY);
            let done = if is_erase {
                client.trim(offset, BLOCK as u32)
            } else if is_forced {
                client.write_durably(offset, &content(block, change))
            } else {
                client.write(offset, &content(block, change))
            };
            if done.is_err() {
                break;
            }
            changes += 1;
            let mut registers = self.lock();
            registers[block].acknowledged = change;
            if is_forced {
                forced += 1;
                registers[block].keep(change);
            }
        }
        (changes, forced)
    }

    /// Flushes until the server is gone; how many were acknowledged.
    fn flush(&self, mut client: Client, seed: u64) -> u64 {
        let mut numbers = SplitMix64::new(seed);
        let mut flushes = 0;
        while !self.is_over.load(Ordering::Relaxed) && self.flush_once(&mut client) {
            flushes += 1;
            thread::sleep(Duration::from_micros(numbers.below(4000) as u64));
        }
        flushes
    }

    /// Whether a flush was acknowledged.
    fn flush_once(&self, client: &mut Client) -> bool {
        let before = self.acknowledged();
        let is_done = client.flush().is_ok();
        if is_done {
            for (register, change) in self.lock().iter_mut().zip(before) {
                register.keep(change);
            }
        }
        is_done
    }

    /// Holds each block to what it may be, and goes on from what it is.
    pub(super) fn check(&self, client: &mut Client, tally: &mut Tally) {
        let mut found = vec![0; BLOCK];
        for (block, register) in self.lock().iter_mut().enumerate() {
            client.read((block * BLOCK) as u64, &mut found).unwrap();
            tally.checked_blocks += 1;
            let is_it = |change: &&u64| content(block, **change) == found;
            let Some(change) = register.possible.iter().rev().find(is_it).copied() else {
                println!("block {block} is none of the changes {:?}", register.possible);
                tally.wrong_blocks += 1;
                continue;
            };
            if register.possible.len() > 1 {
                let is_last = register.possible.last() == Some(&change);
                let count =
                    if is_last { &mut tally.unflushed_kept } else { &mut tally.unflushed_lost };
                *count += 1;
            }
            (register.possible, register.acknowledged) = (vec![change], change);
        }
    }

    /// Compares blocks of a copy with what they may be, and learns nothing from them.
    pub(super) fn compare(&self, found: &Blocks) -> Differences {
        let mut differences = Differences::default();
        for (block, (register, found)) in self.lock().iter().zip(found).enumerate() {
            let Some(found) = found else {
                differences.unreadable += 1;
                continue;
            };
            if !is_one_of(block, found, register.possible.iter().copied()) {
                differences.other += 1;
                let is_invented = !is_one_of(block, found, 0..register.next);
                differences.invented += u64::from(is_invented);
            }
        }
        differences
    }

    /// Loads the server until `end` has made an end of it; whether it acknowledged any change.
    pub(super) fn load(
        &self,
        served: &Served,
        seed: u64,
        tally: &mut Tally,
        end: impl FnOnce(),
    ) -> bool {
        let clients: Vec<Client> = (0..WRITERS).map(|_| served.client("disk")).collect();
        let flusher = served.client("disk");
        let before = tally.acknowledged_changes;
        thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .zip(clients)
                .map(|(writer, client)| {
                    scope.spawn(move || self.write(client, writer, seed ^ writer as u64))
                })
                .collect();
            let flusher = scope.spawn(|| self.flush(flusher, seed));
            end();
            for writer in writers {
                let (changes, forced) = writer.join().unwrap();
                tally.acknowledged_changes += changes;
                tally.acknowledged_forced_writes += forced;
            }
            tally.acknowledged_flushes += flusher.join().unwrap();
        });
        tally.rounds += 1;
        tally.acknowledged_changes > before
    }

    /// Loads the server for as long as `pause`, and flushes what was written.
    pub(super) fn load_for(&self, served: &Served, seed: u64, tally: &mut Tally, pause: Duration) {
        self.load(served, seed, tally, || {
            thread::sleep(pause);
            self.is_over.store(true, Ordering::Relaxed);
        });
        self.is_over.store(false, Ordering::Relaxed);
        assert!(self.flush_once(&mut served.client("disk")), "it does not flush");
    }
}
