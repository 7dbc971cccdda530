//! A pool with known pages, and writes, reads and erases of it on the clock.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use onefold_backend::{Folder, LocalFolder};
use onefold_block::{BlockDevice, BlockSize, Durability};
use onefold_container::Codec;
use onefold_fingerprint::Fingerprinter;
use onefold_index::{ChainedTable, Inserted, Table};
use onefold_volume::{Hash, Options, Pool, Statistics, Version, Volume};

use super::page::{Batch, HALVES, PAGE, PATTERNS, fill, refill};
use super::together;
use crate::index::{fingerprint, mixed};

const VOLUME: &str = "measured";
/// Writes that prepare something are done so many at a time.
const PREPARED: usize = 256;
/// Bytes of a table for each entry, rounded up, and what one has at least.
pub(super) const ENTRY_BYTES: f64 = 66.2;
const LEAST_BYTES: usize = 8 << 10;
/// A full table has this share of its entries in use: more than 99 of 100, as in StreamDedup's
/// figure 11.
pub(super) const FULL: f64 = 0.995;
/// Far enough from each other in any order: a prime.
const STRIDE: u64 = 1_000_003;

/// A volume whose first half holds the known pages, one a block, and whose second half is written.
pub(super) struct Measured {
    pool: Pool,
    volume: Volume,
    /// Known pages: those of these numbers.
    pub(super) known: u64,
    /// The page of each block of the second half.
    now: Vec<u64>,
    /// The next page that nobody knows.
    new: u64,
    /// Random numbers drawn so far.
    drawn: u64,
}

/// Tables of one capacity, twice the known pages.
pub(super) struct Tables {
    /// With filters and without, half full and full.
    all: Vec<(bool, bool, Arc<dyn Table>)>,
}

impl Tables {
    /// Fills the tables from the pool.
    pub(super) fn new(pool: &Measured) -> Result<Self> {
        let bytes = (2.0 * pool.known as f64 * ENTRY_BYTES) as usize + LEAST_BYTES;
        let mut all = Vec::new();
        for has_filters in [true, false] {
            for is_full in [false, true] {
                let table: Arc<dyn Table> = match has_filters {
                    true => Arc::new(ChainedTable::new(bytes)?),
                    false => Arc::new(ChainedTable::without_filters(bytes)?),
                };
                pool.pool.use_table(Arc::clone(&table), true);
                if is_full {
                    top_up(&*table, FULL);
                }
                all.push((has_filters, is_full, table));
            }
        }
        Ok(Self { all })
    }

    pub(super) fn get(&self, has_filters: bool, is_full: bool) -> &Arc<dyn Table> {
        let is_it = |one: &&(bool, bool, _)| (one.0, one.1) == (has_filters, is_full);
        &self.all.iter().find(is_it).expect("there are all four").2
    }
}

/// Enters fingerprints of no page until a share of the table is used.
fn top_up(table: &dyn Table, share: f64) {
    let (wanted, mut there) = ((table.capacity() as f64 * share) as usize, table.count());
    let mut number = 1 << 45;
    while there < wanted {
        there += usize::from(table.insert(&fingerprint(number), number) == Inserted::New);
        number += 1;
    }
}

/// Options of a pool whose table comes later.
fn options(compresses: bool) -> Options {
    Options {
        codec: Some(if compresses { Codec::Zstd } else { Codec::Raw }),
        table_bytes: LEAST_BYTES,
        ..Options::default()
    }
}

fn open(directory: &Path, options: Options) -> Result<Pool> {
    let folder: Arc<dyn Folder> = Arc::new(LocalFolder::create(directory)?);
    let (pool, damage) = Pool::open(folder, options)?;
    ensure!(damage.is_empty(), "the pool is damaged: {damage:?}");
    Ok(pool)
}

impl Measured {
    /// Writes `known` pages to a new pool, and then each block of the second half once.
    pub(super) fn fill(directory: &Path, known: u64, version: Version) -> Result<Self> {
        let folder = LocalFolder::create(directory)?;
        Pool::create_as(&folder, Hash::Sha3, Codec::Zstd, version)?;
        let pool = open(directory, options(true))?;
        pool.create_volume(VOLUME, 2 * known * PAGE as u64, BlockSize::B4096)?;
        let bytes = (2.0 * known as f64 * ENTRY_BYTES) as usize + LEAST_BYTES;
        pool.use_table(Arc::new(ChainedTable::new(bytes)?), false);
        let volume = pool.volume(VOLUME)?;
        let mut filled =
            Self { pool, volume, known, now: vec![0; known as usize], new: HALVES, drawn: 0 };
        filled.prepare((0..known).map(|number| (number, number)))?;
        let second: Vec<(u64, u64)> =
            (0..known).map(|i| (known + i, filled.random(known))).collect();
        filled.prepare(second.into_iter())?;
        filled.pool.checkpoint()?;
        let counted = filled.pool.statistics();
        ensure!(counted.pages == known, "{} pages, expected {known}", counted.pages);
        Ok(filled)
    }

    /// The same pool opened anew, whose new pages are compressed from now on or are not.
    pub(super) fn reopen(self, directory: &Path, compresses: bool) -> Result<Self> {
        self.reopen_with(directory, options(compresses))
    }

    /// The same pool opened anew.
    pub(super) fn reopen_with(self, directory: &Path, options: Options) -> Result<Self> {
        let Self { pool, volume, known, now, new, drawn } = self;
        pool.checkpoint()?;
        drop((volume, pool));
        let pool = open(directory, options)?;
        let volume = pool.volume(VOLUME)?;
        Ok(Self { pool, volume, known, now, new, drawn })
    }

    /// What the pool counts.
    pub(super) fn statistics(&self) -> Statistics {
        self.pool.statistics()
    }

    /// Bytes of containers, and pages that are kept.
    pub(super) fn sizes(&self) -> (u64, u64) {
        let counted = self.pool.statistics();
        (counted.container_bytes, counted.pages)
    }

    /// Lets the pool go on with one of the tables.
    pub(super) fn use_table(&self, table: &Arc<dyn Table>) {
        self.pool.use_table(Arc::clone(table), false);
    }

    fn random(&mut self, bound: u64) -> u64 {
        self.drawn += 1;
        mixed(self.drawn) % bound
    }

    /// Writes pages to blocks, not on the clock.
    fn prepare(&mut self, writes: impl Iterator<Item = (u64, u64)>) -> Result<()> {
        let mut batch = Batch::new(PREPARED);
        let mut writes = writes.peekable();
        while writes.peek().is_some() {
            batch.clear();
            for (block, number) in writes.by_ref().take(PREPARED) {
                batch.push(block, number);
                self.note(block, number);
            }
            self.volume.write_many(&batch.writes(), Durability::OnFlush)?;
        }
        Ok(self.volume.flush()?)
    }

    fn note(&mut self, block: u64, number: u64) {
        if let Some(i) = block.checked_sub(self.known) {
            self.now[i as usize] = number;
        }
    }

    /// A block of the second half that `is_free`, and what is to be written there: a known page with
    /// a chance of `share`, else one that nobody knows.
    ///
    /// Of two writes to a block in one call either may come last, so no call has two.
    fn draw(&mut self, share: f64, is_free: impl Fn(u64) -> bool) -> (u64, u64) {
        let block = loop {
            let block = self.known + self.random(self.known);
            if is_free(block) {
                break block;
            }
        };
        let is_known = (self.random(1 << 32) as f64) < share * (1_u64 << 32) as f64;
        let number = match is_known {
            true => self.random(self.known),
            false => self.new,
        };
        self.new += u64::from(!is_known);
        (block, number)
    }

    /// Seconds for `count` writes to random blocks, `depth` at a time, of pages of which a share is
    /// known; and what each call took.
    pub(super) fn write(
        &mut self,
        share: f64,
        count: u64,
        depth: usize,
    ) -> Result<(f64, Vec<f64>)> {
        let mut batch = Batch::new(depth);
        let (mut calls, mut done) = (Vec::new(), 0);
        while done < count {
            batch.clear();
            for _ in 0..(count - done).min(depth as u64) {
                let (block, number) = self.draw(share, |block| !batch.has(block));
                batch.push(block, number);
                self.note(block, number);
                done += 1;
            }
            let writes = batch.writes();
            let begun = Instant::now();
            match writes[..] {
                [(offset, page)] => self.volume.write(offset, page, Durability::OnFlush)?,
                _ => self.volume.write_many(&writes, Durability::OnFlush)?,
            }
            calls.push(begun.elapsed().as_secs_f64());
        }
        Ok((calls.iter().sum(), calls))
    }

    /// Seconds for `count` writes by two threads at once, each to random blocks of its own half of the
    /// second half and `depth` at a time, of pages of which a share is known.
    pub(super) fn write_together(
        &mut self,
        share: f64,
        count: u64,
        depth: usize,
        cpus: [usize; together::COUNT],
    ) -> Result<f64> {
        let middle = self.known + self.known / 2;
        let mut all = [const { Vec::new() }; together::COUNT];
        for i in 0..count as usize {
            let thread = i % together::COUNT;
            let writes: &Vec<(u64, u64)> = &all[thread];
            let call = &writes[writes.len() / depth * depth..];
            let is_free = |block| {
                (block < middle) == (thread == 0) && call.iter().all(|(other, _)| *other != block)
            };
            let (block, number) = self.draw(share, is_free);
            self.note(block, number);
            all[thread].push((block, number));
        }
        together::write(&self.volume, &all, depth, cpus)
    }

    /// What each of `count` writes took that come at a steady `rate` a second, from when it came, and
    /// how many calls they were: those that came while others were written are written together, as
    /// many as a volume likes at once. Their pages are known, or else new. At an infinite rate all
    /// come at the beginning, so that the last one took the time of all.
    ///
    /// They are made as they come, on the clock: what makes one page of another takes little.
    pub(super) fn write_at_rate(
        &mut self,
        are_known: bool,
        count: u64,
        rate: f64,
    ) -> Result<(Vec<f64>, u64)> {
        let at_once = self.volume.writes_at_once().min(PATTERNS as usize);
        let share = if are_known { 1.0 } else { 0.0 };
        let mut writes: Vec<(u64, u64)> = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let last = &writes[writes.len().saturating_sub(at_once)..];
            let is_free = |block| last.iter().all(|(other, _)| *other != block);
            let drawn = self.draw(share, is_free);
            writes.push(drawn);
        }
        writes.iter().for_each(|(block, number)| self.note(*block, *number));
        // a page for each pattern, so that one that comes takes the place of one like it
        let mut ring = vec![0; PATTERNS as usize * PAGE];
        for (page, (_, number)) in ring.chunks_mut(PAGE).zip(&writes) {
            fill(page, *number);
        }
        let place = |i: usize| i % PATTERNS as usize * PAGE;
        let (mut taken, mut calls) = (Vec::with_capacity(writes.len()), 0);
        let begun = Instant::now();
        while taken.len() < writes.len() {
            let came = ((begun.elapsed().as_secs_f64() * rate) as usize).saturating_add(1);
            let came = came.min(writes.len()).min(taken.len() + at_once);
            if came == taken.len() {
                std::hint::spin_loop();
                continue;
            }
            let these = taken.len()..came;
            for i in these.clone() {
                refill(&mut ring[place(i)..][..PAGE], writes[i].1);
            }
            let call: Vec<(u64, &[u8])> = these
                .clone()
                .map(|i| (writes[i].0 * PAGE as u64, &ring[place(i)..][..PAGE]))
                .collect();
            self.volume.write_many(&call, Durability::OnFlush)?;
            let now = begun.elapsed().as_secs_f64();
            // the clock may have been read a moment before the one that it lets come
            these.for_each(|i| taken.push((now - i as f64 / rate).max(0.0)));
            calls += 1;
        }
        Ok((taken, calls))
    }

    /// Different blocks of the second half, far from each other.
    fn scattered(&mut self, count: u64) -> Vec<u64> {
        let first = self.random(self.known);
        let count = count.min(self.known);
        (0..count).map(|i| self.known + (first + i * STRIDE) % self.known).collect()
    }

    /// Makes `count` blocks pages of their own, that nobody else has.
    fn make_own(&mut self, count: u64) -> Result<Vec<u64>> {
        let blocks = self.scattered(count);
        let first = self.new;
        self.new += blocks.len() as u64;
        self.prepare(blocks.clone().into_iter().zip(first..))?;
        Ok(blocks)
    }

    /// What each of `count` erases of a block took, and a flush at the end. Their pages are of no
    /// other block if `are_own`, so that their space is given back; else others have them too.
    pub(super) fn erase(&mut self, are_own: bool, count: u64) -> Result<(f64, Vec<f64>)> {
        let blocks = match are_own {
            true => self.make_own(count)?,
            false => self.scattered(count),
        };
        let mut calls = Vec::with_capacity(blocks.len());
        for block in &blocks {
            let range = block * PAGE as u64..(block + 1) * PAGE as u64;
            let begun = Instant::now();
            self.volume.erase(range, Durability::OnFlush)?;
            calls.push(begun.elapsed().as_secs_f64());
        }
        let begun = Instant::now();
        self.volume.flush()?;
        let flush = begun.elapsed().as_secs_f64();
        let mut found = [1; PAGE];
        self.volume.read(blocks[0] * PAGE as u64, &mut found)?;
        ensure!(found == [0; PAGE], "block {} is not erased", blocks[0]);
        let pages: Vec<u64> = blocks.iter().map(|_| self.random(self.known)).collect();
        self.prepare(blocks.into_iter().zip(pages))?;
        Ok((calls.iter().sum::<f64>() + flush, calls))
    }

    /// What each of `count` reads of a block took, of pages that are stored in half their length.
    pub(super) fn read(&mut self, count: u64) -> Result<(f64, Vec<f64>)> {
        let mut blocks = self.make_own(count)?;
        // not in the order in which they lie
        for last in (1..blocks.len()).rev() {
            let other = self.random(last as u64 + 1);
            blocks.swap(last, other as usize);
        }
        let (mut found, mut expected) = ([0; PAGE], [0; PAGE]);
        let mut calls = Vec::with_capacity(blocks.len());
        for block in blocks {
            let begun = Instant::now();
            self.volume.read(block * PAGE as u64, &mut found)?;
            calls.push(begun.elapsed().as_secs_f64());
            fill(&mut expected, self.now[(block - self.known) as usize]);
            ensure!(found == expected, "block {block} is another page");
        }
        Ok((calls.iter().sum(), calls))
    }

    /// Makes all blocks known pages again, and takes the pages that were new from `new` on out of
    /// `table`: each sample begins with a pool and a table as full as the others found them.
    pub(super) fn restore(&mut self, new: u64, table: &dyn Table) -> Result<()> {
        self.make_known()?;
        let (mut batch, mut fingerprints) = (Batch::new(PREPARED), Vec::new());
        for first in (new..self.new).step_by(PREPARED) {
            batch.clear();
            (first..self.new.min(first + PREPARED as u64)).for_each(|number| batch.push(0, number));
            fingerprints.clear();
            Fingerprinter::sha3().fingerprint_many(&batch.pages(), &mut fingerprints);
            for fingerprint in &fingerprints {
                table.remove(fingerprint);
            }
        }
        Ok(())
    }

    /// Makes all blocks known pages again.
    pub(super) fn make_known(&mut self) -> Result<()> {
        let known = self.known;
        let own: Vec<u64> =
            (0..known).filter(|i| self.now[*i as usize] >= HALVES).map(|i| known + i).collect();
        let pages: Vec<u64> = own.iter().map(|_| self.random(known)).collect();
        self.prepare(own.into_iter().zip(pages))
    }

    /// The next page that nobody knows.
    pub(super) fn next_new(&self) -> u64 {
        self.new
    }

    /// Compares `count` random blocks with what was written to them.
    pub(super) fn verify(&mut self, count: u64) -> Result<()> {
        let (mut found, mut expected) = ([0; PAGE], [0; PAGE]);
        for _ in 0..count {
            let block = self.random(2 * self.known);
            let number = match block.checked_sub(self.known) {
                Some(i) => self.now[i as usize],
                None => block,
            };
            self.volume.read(block * PAGE as u64, &mut found).context("a read")?;
            fill(&mut expected, number);
            ensure!(found == expected, "block {block} is not page {number}");
        }
        Ok(())
    }
}
