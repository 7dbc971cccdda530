//! How fast the index answers, and from where, as it grows beyond its memory.
//!
//! Objects of [`CHUNKS`] chunks each are published one after another; at each size in
//! [`Plan::sizes`] the index is asked in four ways. Chunks are known by a number, so any of the
//! hundreds of millions can be asked for without being kept.

mod loss;
mod plot;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use onefold_backend::{BackendError, Folder, LocalFolder, Log, LogReader, MemoryFolder, Pages};
use onefold_fingerprint::Fingerprint;
use onefold_index::{Claim, Index, Listed, Memory};
use onefold_seal::ObjectId;
use serde::{Deserialize, Serialize};

pub use loss::{Loss, measure_loss};
pub use plot::plot;

/// Chunks of an object: what a container of 16 MiB holds at a mean of 16 KiB.
pub const CHUNKS: u64 = 1000;
/// Objects one after another that a stream follows before it goes elsewhere.
const RUN: u64 = 8;
/// Chunks that are prepared and claimed together, as a backup does: a mebibyte.
const BATCH: u64 = 64;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Numbers of entries, ascending.
    pub sizes: Vec<u64>,
    /// Memory of the index in bytes.
    pub memory: usize,
    /// Where its files are; in memory if nowhere.
    pub directory: Option<PathBuf>,
    /// How many look-ups of each kind at each size.
    pub lookups: u64,
}

/// What was found at one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Entries in the index.
    pub entries: u64,
    /// Seconds since the last size, to publish and commit what came since.
    pub seconds_to_grow: f64,
    /// Segments.
    pub segments: usize,
    /// Bytes of filters.
    pub filter_bytes: u64,
    /// Of 2 to this power entries one is a hook.
    pub sparsity: u32,
    /// Bytes that the files take.
    pub file_bytes: u64,
    /// The most memory that the process had until now, without the kernel's cache.
    pub peak_bytes: u64,
    /// By the kind of look-up.
    pub lookups: Vec<Lookups>,
}

/// One way to ask.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lookups {
    /// Which.
    pub kind: Kind,
    /// How many.
    pub count: u64,
    /// How long they took together, in one thread.
    pub seconds: f64,
    /// Answers that were not what was asked for: chunks that are there and were called new.
    pub missed: u64,
    /// Pages of 4 KiB that the index read from its files.
    pub pages_read: u64,
    /// Bytes that the process read from the disk, because the kernel's cache had them not.
    pub disk_bytes: u64,
}

/// A way to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Claims of chunks that are there, in the order in which they came, in runs of some objects.
    KnownStream,
    /// Claims of chunks that nobody has.
    New,
    /// Claims of chunks that are there, in no order.
    KnownRandom,
    /// Exact look-ups of chunks that are there, in no order, as a restore or a prune makes them.
    ExactRandom,
}

/// Publishes and asks as `plan` says; `told` hears of each size as it is reached.
pub fn measure_index(plan: &Plan, mut told: impl FnMut(&Measured)) -> Result<Vec<Measured>> {
    ensure!(plan.sizes.is_sorted(), "sizes ascend");
    let pages_read = Arc::new(AtomicU64::new(0));
    let inner: Box<dyn Folder> = match &plan.directory {
        Some(directory) => Box::new(LocalFolder::create(directory)?),
        None => Box::new(MemoryFolder::new()),
    };
    let folder = Arc::new(Counted { inner, pages: Arc::clone(&pages_read) });
    let (index, _) = Index::open(folder, ObjectId::random(), Memory::new(plan.memory))?;
    let mut measured = Vec::new();
    let mut objects = 0;
    for size in &plan.sizes {
        let begun = Instant::now();
        while objects * CHUNKS < *size {
            publish(&index, objects)?;
            objects += 1;
        }
        ensure!(index.commit(), "the index could not be kept: {:?}", index.trouble());
        let seconds_to_grow = begun.elapsed().as_secs_f64();
        let shape = index.shape();
        let kinds = [Kind::KnownStream, Kind::New, Kind::KnownRandom, Kind::ExactRandom];
        let lookups = kinds.map(|kind| {
            let asked = Asked { index: &index, chunks: objects * CHUNKS, pages: &pages_read };
            asked.ask(kind, plan.lookups)
        });
        let one = Measured {
            entries: shape.entries,
            seconds_to_grow,
            segments: shape.segments,
            filter_bytes: shape.filter_bytes,
            sparsity: shape.sparsity,
            file_bytes: 4096 * (u64::from(shape.list_pages) + shape.table_pages)
                + shape.filter_bytes,
            peak_bytes: peak_bytes(),
            lookups: lookups.into_iter().collect::<Result<_>>()?,
        };
        if let Some(trouble) = index.trouble() {
            return Err(trouble).context("the index has trouble");
        }
        told(&one);
        measured.push(one);
    }
    Ok(measured)
}

fn publish(index: &Index, object: u64) -> Result<()> {
    let first = object * CHUNKS;
    let chunks: Vec<Listed> = (first..first + CHUNKS).map(|n| (fingerprint(n), 16 << 10)).collect();
    let mut id = [0; 16];
    id[..8].copy_from_slice(&object.to_le_bytes());
    index
        .publish(ObjectId::from_bytes(id), object as u32, &chunks)
        .with_context(|| format!("object {object} was not taken up: {:?}", index.trouble()))?;
    Ok(())
}

/// The fingerprint of chunk `n`: as uniform as a hash and quick to make.
pub(crate) fn fingerprint(n: u64) -> Fingerprint {
    let mut bytes = [0; 32];
    for (at, word) in bytes.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&mixed(n.wrapping_mul(4).wrapping_add(at as u64)).to_be_bytes());
    }
    Fingerprint::from_bytes(bytes)
}

/// A number that looks random, another one for each `n`: the finaliser of SplitMix64.
pub fn mixed(n: u64) -> u64 {
    let mut mixed = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// An index that has chunks 0 to `chunks`.
struct Asked<'a> {
    index: &'a Index,
    chunks: u64,
    pages: &'a AtomicU64,
}

impl Asked<'_> {
    fn ask(&self, kind: Kind, count: u64) -> Result<Lookups> {
        let (pages, disk) = (self.pages.load(Ordering::Relaxed), disk_bytes());
        let begun = Instant::now();
        let (mut done, mut missed) = (0, 0);
        let mut batch = Vec::with_capacity(BATCH as usize);
        while done < count {
            batch.clear();
            let numbers = done..done + BATCH.min(count - done);
            batch.extend(numbers.clone().map(|n| fingerprint(self.number(kind, n))));
            let is_missed = |fingerprint: &Fingerprint| match kind {
                Kind::ExactRandom => self.index.get(fingerprint).is_none(),
                Kind::New => self.index.claim(fingerprint) != Claim::New,
                Kind::KnownStream | Kind::KnownRandom => {
                    !matches!(self.index.claim(fingerprint), Claim::Known(_))
                }
            };
            if kind != Kind::ExactRandom {
                self.index.prepare(&batch);
            }
            missed += batch.iter().filter(|one| is_missed(one)).count() as u64;
            done = numbers.end;
            if done % 8192 < BATCH {
                // A backup would have published them.
                self.index.forget_claims();
            }
        }
        self.index.forget_claims();
        ensure!(
            missed == 0 || matches!(kind, Kind::KnownStream | Kind::KnownRandom),
            "{missed} of {count} answers are wrong ({kind:?})"
        );
        Ok(Lookups {
            kind,
            count,
            seconds: begun.elapsed().as_secs_f64(),
            missed,
            pages_read: self.pages.load(Ordering::Relaxed) - pages,
            disk_bytes: disk_bytes() - disk,
        })
    }

    /// The number of the chunk that the `n`-th look-up asks for.
    fn number(&self, kind: Kind, n: u64) -> u64 {
        let random = |n: u64| mixed(n ^ (kind as u64) << 40 ^ self.chunks);
        match kind {
            Kind::New => self.chunks + (1 << 50) + n,
            Kind::KnownRandom | Kind::ExactRandom => random(n) % self.chunks,
            Kind::KnownStream => {
                let len = RUN * CHUNKS;
                (random(n / len) % (self.chunks / CHUNKS) * CHUNKS + n % len) % self.chunks
            }
        }
    }
}

/// A folder whose files count the pages that are read.
struct Counted<T> {
    inner: T,
    pages: Arc<AtomicU64>,
}

impl Folder for Counted<Box<dyn Folder>> {
    fn log(&self, name: &str) -> Result<Box<dyn Log + Sync>, BackendError> {
        self.inner.log(name)
    }

    fn reader(&self, name: &str) -> Result<Box<dyn LogReader>, BackendError> {
        self.inner.reader(name)
    }

    fn pages(&self, name: &str, page_size: usize) -> Result<Box<dyn Pages + Sync>, BackendError> {
        let inner = self.inner.pages(name, page_size)?;
        Ok(Box::new(Counted { inner, pages: Arc::clone(&self.pages) }))
    }

    fn names(&self) -> Result<Vec<String>, BackendError> {
        self.inner.names()
    }

    fn remove(&self, name: &str) -> Result<(), BackendError> {
        self.inner.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), BackendError> {
        self.inner.rename(from, to)
    }
}

impl Pages for Counted<Box<dyn Pages + Sync>> {
    fn page_size(&self) -> usize {
        self.inner.page_size()
    }

    fn count(&self) -> u64 {
        self.inner.count()
    }

    fn read(&self, page: u64, into: &mut [u8]) -> Result<(), BackendError> {
        self.read_many(page, into)
    }

    fn read_many(&self, first: u64, into: &mut [u8]) -> Result<(), BackendError> {
        self.pages.fetch_add((into.len() / self.page_size()) as u64, Ordering::Relaxed);
        self.inner.read_many(first, into)
    }

    fn write(&mut self, page: u64, bytes: &[u8]) -> Result<(), BackendError> {
        self.inner.write(page, bytes)
    }

    fn set_count(&mut self, count: u64) -> Result<(), BackendError> {
        self.inner.set_count(count)
    }

    fn sync(&mut self) -> Result<(), BackendError> {
        self.inner.sync()
    }
}

/// Bytes that this process read from disks.
fn disk_bytes() -> u64 {
    number_in(Path::new("/proc/self/io"), "read_bytes:").unwrap_or(0)
}

/// The most memory that this process had.
fn peak_bytes() -> u64 {
    1024 * number_in(Path::new("/proc/self/status"), "VmHWM:").unwrap_or(0)
}

/// The first number behind `key` at the start of a line.
fn number_in(file: &Path, key: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_measured_within_its_memory_and_beyond() {
        let plan =
            Plan { sizes: vec![10_000, 60_000], memory: 64 << 10, directory: None, lookups: 9_000 };
        let mut told = 0;
        let measured = measure_index(&plan, |_| told += 1).unwrap();
        assert_eq!((told, measured.len()), (2, 2));
        let [small, large] = &measured[..] else { panic!("two sizes") };
        assert_eq!((small.entries, large.entries), (10_000, 60_000));
        assert_eq!((small.sparsity, large.sparsity > 0), (0, true));
        assert!(small.lookups.iter().all(|one| one.missed == 0), "{small:?}");
        let of = |kind| large.lookups.iter().find(|one| one.kind == kind).unwrap();
        assert!(of(Kind::KnownRandom).missed > of(Kind::KnownStream).missed * 5, "{large:?}");
        assert!(of(Kind::New).pages_read < 9_000 / 10, "{large:?}");
        assert!(of(Kind::ExactRandom).pages_read >= 9_000, "{large:?}");
    }

    #[test]
    fn fingerprints_of_different_chunks_differ_in_every_part() {
        let all: Vec<Fingerprint> = (0..1000).map(fingerprint).collect();
        for part in 0..4 {
            let word = |one: &Fingerprint| one.as_bytes()[8 * part..8 * part + 8].to_vec();
            let mut words: Vec<_> = all.iter().map(word).collect();
            words.sort_unstable();
            words.dedup();
            assert_eq!(words.len(), 1000);
        }
    }
}
