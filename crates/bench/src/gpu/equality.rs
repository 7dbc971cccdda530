//! Chunks and fingerprints of mixed data, compared with those of the CPU.

use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result};
use onefold_cdc::{Chunker, Params};
use onefold_gpu::{Chunk, Device, Reading, Settings, compared, cpu_chunks, sample};

use super::{ALGORITHMS, Bench, FUNCTIONS, MEAN};

/// Bytes that one rule and function are compared on.
const BLOCK: u64 = 32 << 20;

impl Bench<'_> {
    /// Compares all chunks of mixed data, with each rule and function in turn.
    pub(super) fn compare(&mut self) -> Result<()> {
        self.watch.begin("comparing chunks", self.plan.equality);
        let (device, watch) = (self.device, self.watch);
        for_each_block(self.plan.equality, self.plan.threads, |block| {
            if watch.is_cancelled() {
                return Ok(false);
            }
            block.compare(device)?;
            self.results.equal_bytes += block.data.len() as u64;
            watch.advance(block.data.len() as u64);
            Ok(true)
        })
    }
}

/// Mixed data, and the CPU's chunks of them.
struct Block {
    number: u64,
    chunker: Chunker,
    settings: Settings,
    data: Vec<u8>,
    expected: Vec<Chunk>,
}

impl Block {
    fn new(number: u64, len: usize) -> Result<Self> {
        let turn = number as usize;
        let algorithm = ALGORITHMS[turn % ALGORITHMS.len()];
        let function = FUNCTIONS[turn / ALGORITHMS.len() % FUNCTIONS.len()].clone();
        let mean = [4 << 10, MEAN, 64 << 10][turn % 3];
        let chunker = Chunker::new(&Params::for_mean(algorithm, mean)?)?;
        let data = mixed(number, len);
        let expected = cpu_chunks(&chunker, Some(&function), &data);
        let settings = Settings { segment: Some(4 << 20), ..Settings::new(Some(function)) };
        Ok(Self { number, chunker, settings, data, expected })
    }

    fn compare(&self, device: &dyn Device) -> Result<()> {
        let Self { number, chunker, settings, data, expected } = self;
        let reading = [Reading::InOrder, Reading::AtAnyPlace][*number as usize / 24 % 2];
        compared(device, chunker, settings, data, reading, expected).with_context(|| {
            let algorithm = chunker.params().algorithm;
            let function = settings.fingerprinter.as_ref().expect("each block has one").algorithm();
            format!("{algorithm} and {function} on mixed data {number}")
        })?;
        Ok(())
    }
}

/// Calls `take` with blocks of `bytes` bytes in all, until it says no. `threads` threads make them, so that the
/// device does not wait for one core; the order is not certain.
fn for_each_block(
    bytes: u64,
    threads: NonZero<usize>,
    mut take: impl FnMut(Block) -> Result<bool>,
) -> Result<()> {
    let next = &AtomicU64::new(0);
    thread::scope(|scope| {
        // a block waits here, and one in each thread
        let (made, blocks) = mpsc::sync_channel(1);
        for _ in 0..threads.get() {
            let made = made.clone();
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let left = bytes.saturating_sub(number * BLOCK);
                    // nobody takes blocks any more after an error
                    if left == 0 || made.send(Block::new(number, left.min(BLOCK) as usize)).is_err()
                    {
                        return;
                    }
                }
            });
        }
        drop(made);
        for block in blocks {
            if !take(block?)? {
                break;
            }
        }
        Ok(())
    })
}

/// Random bytes, runs, few different bytes and repetitions, in stretches of all lengths.
fn mixed(seed: u64, len: usize) -> Vec<u8> {
    let random = sample(1 << 20);
    let mut bytes = Vec::with_capacity(len);
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while bytes.len() < len {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = state >> 33;
        let stretch = 1 + (number as usize % (400 << 10)).min(len - bytes.len() - 1);
        let from = number as usize % (random.len() - stretch);
        let source = &random[from..from + stretch];
        match number >> 20 & 3 {
            0 => bytes.extend(source),
            1 => bytes.resize(bytes.len() + stretch, number as u8),
            2 => bytes.extend(source.iter().map(|byte| byte & 3)),
            _ => {
                let period = 1 + number as usize % 5000;
                bytes.extend(source.iter().take(period).cycle().take(stretch));
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_comes_once_whatever_the_threads() {
        let bytes = 2 * BLOCK + 1000;
        for threads in [1, 3] {
            let threads = NonZero::new(threads).expect("at least one");
            let mut seen = Vec::new();
            for_each_block(bytes, threads, |block| {
                seen.push((block.number, block.data.len() as u64));
                Ok(true)
            })
            .unwrap();
            seen.sort_unstable();
            assert_eq!(seen, [(0, BLOCK), (1, BLOCK), (2, 1000)]);
            let mut taken = 0;
            for_each_block(bytes, threads, |_| {
                taken += 1;
                Ok(false)
            })
            .unwrap();
            assert_eq!(taken, 1);
        }
    }

    #[test]
    fn mixed_data_is_as_long_as_wanted_and_of_its_seed() {
        for len in [1, 1000, 1 << 20] {
            assert_eq!(mixed(1, len).len(), len);
        }
        assert_eq!(mixed(1, 100_000), mixed(1, 100_000));
        assert_ne!(mixed(1, 100_000), mixed(2, 100_000));
    }
}
