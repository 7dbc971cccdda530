//! How fast a pool of volumes is, beside fingerprints alone and compression alone, and what it adds
//! to the time of a call: StreamDedup's figures 10 to 12, on one thread, without NBD; and what a second
//! thread adds.
//!
//! A volume has twice as many blocks as there are known pages. Its first half holds these, one a
//! block; its second half is written, read and erased. Pages are made before each call, off the
//! clock. Rounds are interleaved and each begins with another of the contenders, so that a ratio is
//! one of samples that lie close to each other.

mod alone;
mod beyond;
mod page;
mod plot;
mod pool;
mod together;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use onefold_fingerprint::Fingerprinter;
use onefold_index::Table;
use onefold_volume::Version;
use serde::{Deserialize, Serialize};

pub use alone::find_openssl;
pub use beyond::{Beyond, Setting, measure_beyond};
use onefold_bench::{Pin, last_cpus};
use page::PAGE;
pub use plot::plot;
use pool::{Measured, Tables};

/// Bytes a second that StreamDedup's card takes, which is that of its network.
const PAPER_BYTES: f64 = 12.7e9;
/// Blocks that are read and compared after each sample.
const VERIFIED: u64 = 64;
/// Parts of a sample of writes at a steady rate. Before each the largest rate is measured: where a
/// machine became slower since, writes would come faster than it can do them, and only wait.
const PARTS: u32 = 8;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Known pages.
    pub known: u64,
    /// Pages of each sample.
    pub operations: u64,
    /// How often each contender comes.
    pub rounds: u32,
    /// Writes of a call, where nothing else is said.
    pub depth: usize,
    /// Seconds of each sample of writes that come at a steady rate.
    pub seconds: f64,
    /// Whether OpenSSL is asked as well.
    pub has_openssl: bool,
}

/// What is done to a pool, or without one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Fingerprints alone, SHA3-256 or BLAKE3.
    Fingerprint {
        /// Whether it is BLAKE3.
        is_blake3: bool,
    },
    /// SHA3-256 by OpenSSL, one page after another.
    Openssl,
    /// Compression alone, of pages that take half their length then.
    Compress,
    /// Writes to random blocks.
    Write {
        /// Share of the pages that are known.
        duplicates: f64,
        /// Writes of a call.
        depth: usize,
        /// Whether the table is full, or half full.
        is_full: bool,
        /// Whether it has Bloom filters.
        has_filters: bool,
    },
    /// Writes to random blocks by two threads on two CPUs, each to its half of them, as many a call as
    /// the plan has where nothing else is said; the table is half full and has filters.
    WriteTogether {
        /// Share of the pages that are known.
        duplicates: f64,
    },
    /// Reads of random blocks, one a call.
    Read,
    /// Erases of random blocks, one a call, and a flush.
    Erase {
        /// Whether the space of their pages is given back then.
        is_reclaimed: bool,
    },
}

/// One kind of work, at its own speed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Which.
    pub work: Work,
    /// Whether new pages are compressed.
    pub compresses: bool,
    /// Pages of each round.
    pub pages: u64,
    /// Seconds, one a round.
    pub seconds: Vec<f64>,
    /// What the calls took, one a round, if each is of one page.
    pub latencies: Vec<Quantiles>,
}

impl Throughput {
    /// Pages a second in the median round.
    pub fn per_second(&self) -> f64 {
        self.pages as f64 / median(self.seconds.iter().copied())
    }
}

/// Writes that come at a steady rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loaded {
    /// Share of the pages that are known.
    pub duplicates: f64,
    /// As a share of the largest rate, which is reached when all writes come at once.
    pub load: f64,
    /// Writes a second that come, one mean a round: that share of what had been reached just before.
    pub per_second: Vec<f64>,
    /// Writes that were taken together, one mean a round.
    pub writes_a_call: Vec<f64>,
    /// From when a write came to when it was done, one a round.
    pub latencies: Vec<Quantiles>,
}

/// In microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Half of the calls took no longer.
    pub p50_us: f64,
    /// 99 of 100.
    pub p99_us: f64,
    /// 999 of 1000.
    pub p999_us: f64,
    /// The longest one.
    pub longest_us: f64,
}

impl Quantiles {
    fn of(mut seconds: Vec<f64>) -> Self {
        seconds.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = (seconds.len() as f64 * share) as usize;
            1e6 * seconds[place.min(seconds.len() - 1)]
        };
        Self { p50_us: at(0.5), p99_us: at(0.99), p999_us: at(0.999), longest_us: at(1.0) }
    }
}

/// Two threads beside one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Together {
    /// Share of the pages that are known.
    pub duplicates: f64,
    /// Whether new pages are compressed.
    pub compresses: bool,
    /// How many times as many pages a second two threads write as one, in the median of rounds.
    pub gain: f64,
}

/// A bar of the plan, and what was reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bar {
    /// What is compared with what.
    pub name: String,
    /// What was asked: at least, or at most.
    pub asked: f64,
    /// Whether it is a bound from above.
    pub is_most: bool,
    /// The median of the rounds.
    pub reached: f64,
}

impl Bar {
    /// Whether it is.
    pub fn is_met(&self) -> bool {
        if self.is_most { self.reached <= self.asked } else { self.reached >= self.asked }
    }
}

/// All that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Known pages.
    pub known: u64,
    /// Bytes of containers when all were written.
    pub container_bytes: u64,
    /// Each work with and without compression.
    pub throughput: Vec<Throughput>,
    /// What a second thread adds; nothing where there is no CPU for it.
    #[serde(default)]
    pub together: Vec<Together>,
    /// Latencies under load.
    pub loaded: Vec<Loaded>,
    /// Cores that SHA3-256 of StreamDedup's 12.7 GB/s takes at the speed of this one.
    pub cores_for_paper: f64,
    /// What was asked.
    pub bars: Vec<Bar>,
}

/// Measures in `directory`, which is emptied before and afterwards; `told` hears what is done.
pub fn measure_engine(
    plan: &Plan,
    directory: &Path,
    mut told: impl FnMut(String),
) -> Result<Results> {
    let pages = plan.known.min(plan.operations);
    ensure!(pages > 0 && plan.rounds > 0 && plan.depth > 1, "pages, rounds and writes at a time");
    // a call writes no block twice
    let most = plan.depth.max(256) as u64;
    ensure!(plan.known >= 2 * most, "{} known pages, expected {} or more", plan.known, 2 * most);
    let cpus = last_cpus(together::COUNT)?;
    let cpus = cpus.try_into().ok();
    let _pin = Pin::to(1)?;
    remove(directory)?;
    let mut pool = Measured::fill(directory, plan.known, Version::Paged)?;
    let (container_bytes, kept) = pool.sizes();
    told(format!("{kept} pages in {} MB of containers", container_bytes / 1_000_000));
    let tables = Tables::new(&pool)?;
    told("four tables are filled".into());
    let (mut throughput, mut loaded) = (Vec::new(), Vec::new());
    for compresses in [true, false] {
        pool = pool.reopen(directory, compresses)?;
        throughput.extend(rounds(plan, &mut pool, &tables, compresses, cpus, &mut told)?);
        if compresses {
            loaded = under_load(plan, &mut pool, &tables, &mut told)?;
        }
        pool.verify(10 * VERIFIED)?;
    }
    drop(pool);
    remove(directory)?;
    let sha3 = find(&throughput, Work::Fingerprint { is_blake3: false }, true);
    let cores_for_paper = PAPER_BYTES / (PAGE as f64 * sha3.per_second());
    let bars = bars(plan, &throughput, &loaded);
    let together = together(plan, &throughput);
    let known = plan.known;
    Ok(Results { known, container_bytes, throughput, together, loaded, cores_for_paper, bars })
}

/// What a second thread adds to one, where it was measured.
fn together(plan: &Plan, all: &[Throughput]) -> Vec<Together> {
    let gain = |both: &Throughput| {
        let Work::WriteTogether { duplicates } = both.work else { return None };
        let one = find(all, write_of(duplicates, plan.depth), both.compresses);
        Some(Together { duplicates, compresses: both.compresses, gain: ratio(both, one) })
    };
    all.iter().filter_map(gain).collect()
}

fn remove(directory: &Path) -> Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| directory.display().to_string())
        }
        _ => Ok(()),
    }
}

const fn write_of(duplicates: f64, depth: usize) -> Work {
    Work::Write { duplicates, depth, is_full: false, has_filters: true }
}

/// The CPUs of two threads, if there are as many.
type Cpus = Option<[usize; together::COUNT]>;

/// What comes in each round.
fn contenders(plan: &Plan, compresses: bool, cpus: Cpus) -> Vec<Work> {
    let mut all = vec![
        Work::Fingerprint { is_blake3: false },
        Work::Fingerprint { is_blake3: true },
        Work::Compress,
    ];
    if compresses && plan.has_openssl {
        all.push(Work::Openssl);
    }
    for duplicates in [1.0, 0.8, 0.5, 0.0] {
        for (has_filters, is_full) in [(true, false), (true, true), (false, false), (false, true)] {
            all.push(Work::Write { duplicates, depth: plan.depth, is_full, has_filters });
        }
    }
    if cpus.is_some() {
        all.extend([1.0, 0.0].map(|duplicates| Work::WriteTogether { duplicates }));
    }
    for depth in [1, 8, 16, 256] {
        all.extend([write_of(1.0, depth), write_of(0.0, depth)]);
    }
    all.extend([
        Work::Read,
        Work::Erase { is_reclaimed: false },
        Work::Erase { is_reclaimed: true },
    ]);
    all
}

/// Each contender in each round.
fn rounds(
    plan: &Plan,
    pool: &mut Measured,
    tables: &Tables,
    compresses: bool,
    cpus: Cpus,
    told: &mut impl FnMut(String),
) -> Result<Vec<Throughput>> {
    let pages = plan.known.min(plan.operations);
    let of =
        |work| Throughput { work, compresses, pages, seconds: Vec::new(), latencies: Vec::new() };
    let mut all: Vec<Throughput> = contenders(plan, compresses, cpus).into_iter().map(of).collect();
    let count = all.len();
    for round in 0..plan.rounds as usize {
        for i in 0..count {
            let one = &mut all[(i + round * 7) % count];
            let sample = sample(plan, pool, tables, one.work, pages, cpus);
            let (seconds, calls) = sample.with_context(|| format!("{:?}", one.work))?;
            one.seconds.push(seconds);
            if calls.len() as u64 == pages {
                one.latencies.push(Quantiles::of(calls));
            }
        }
        told(format!("round {} with compression {compresses}", round + 1));
    }
    Ok(all)
}

/// Seconds for `pages` pages of `work`, and what each call took.
fn sample(
    plan: &Plan,
    pool: &mut Measured,
    tables: &Tables,
    work: Work,
    pages: u64,
    cpus: Cpus,
) -> Result<(f64, Vec<f64>)> {
    let fingerprint = |fingerprinter| alone::fingerprint(&fingerprinter, pages, plan.depth);
    let alone = match work {
        Work::Fingerprint { is_blake3: false } => fingerprint(Fingerprinter::sha3()),
        Work::Fingerprint { is_blake3: true } => fingerprint(Fingerprinter::blake3()),
        Work::Openssl => (pages * PAGE as u64) as f64 / alone::openssl()?,
        Work::Compress => alone::compress(pages, plan.depth)?,
        _ => return on_pool(plan, pool, tables, work, pages, cpus),
    };
    Ok((alone, Vec::new()))
}

fn on_pool(
    plan: &Plan,
    pool: &mut Measured,
    tables: &Tables,
    work: Work,
    pages: u64,
    cpus: Cpus,
) -> Result<(f64, Vec<f64>)> {
    let table = match work {
        Work::Write { is_full, has_filters, .. } => tables.get(has_filters, is_full),
        _ => tables.get(true, false),
    };
    pool.use_table(table);
    let new = pool.next_new();
    let sample = match work {
        Work::Write { duplicates, depth, .. } => pool.write(duplicates, pages, depth)?,
        Work::WriteTogether { duplicates } => {
            let cpus = cpus.context("two CPUs")?;
            (pool.write_together(duplicates, pages, plan.depth, cpus)?, Vec::new())
        }
        Work::Erase { is_reclaimed } => pool.erase(is_reclaimed, pages)?,
        _ => pool.read(pages)?,
    };
    pool.verify(VERIFIED)?;
    pool.restore(new, &**table)?;
    Ok(sample)
}

/// Writes that come at a share of the largest rate.
fn under_load(
    plan: &Plan,
    pool: &mut Measured,
    tables: &Tables,
    told: &mut impl FnMut(String),
) -> Result<Vec<Loaded>> {
    let table = tables.get(true, false);
    pool.use_table(table);
    let of = |(duplicates, load)| Loaded {
        duplicates,
        load,
        per_second: Vec::new(),
        writes_a_call: Vec::new(),
        latencies: Vec::new(),
    };
    let mut all = [(1.0, 0.5), (1.0, 0.8), (0.0, 0.5), (0.0, 0.8)].map(of);
    for round in 0..plan.rounds {
        for one in &mut all {
            let (mut taken, mut calls, mut rates) = (Vec::new(), 0, 0.0);
            for _ in 0..PARTS {
                let part = part_under_load(plan, pool, &**table, one)?;
                rates += part.per_second;
                calls += part.calls;
                taken.extend(part.taken);
            }
            one.per_second.push(rates / f64::from(PARTS));
            one.writes_a_call.push(taken.len() as f64 / calls as f64);
            one.latencies.push(Quantiles::of(taken));
        }
        told(format!("round {} at a steady rate", round + 1));
    }
    Ok(all.into())
}

/// A part of a sample of writes at a steady rate.
struct Part {
    per_second: f64,
    calls: u64,
    /// Seconds, one a write.
    taken: Vec<f64>,
}

/// Writes at a share of the rate that is reached just before.
fn part_under_load(
    plan: &Plan,
    pool: &mut Measured,
    table: &dyn Table,
    of: &Loaded,
) -> Result<Part> {
    let are_known = of.duplicates == 1.0;
    let count = (plan.known.min(plan.operations) / 4).max(1);
    let new = pool.next_new();
    let (taken, _) = pool.write_at_rate(are_known, count, f64::INFINITY)?;
    pool.restore(new, table)?;
    let seconds = taken.last().context("a write")?;
    let per_second = of.load * count as f64 / seconds;
    let count = (per_second * plan.seconds / f64::from(PARTS)) as u64;
    let new = pool.next_new();
    let (taken, calls) = pool.write_at_rate(are_known, count.max(1), per_second)?;
    pool.verify(VERIFIED)?;
    pool.restore(new, table)?;
    Ok(Part { per_second, calls, taken })
}

fn find(all: &[Throughput], work: Work, compresses: bool) -> &Throughput {
    let mut matching = all.iter().filter(|one| one.work == work && one.compresses == compresses);
    matching.next().expect("everything was measured")
}

/// How many times as fast `one` is as `other`, in the median of rounds.
fn ratio(one: &Throughput, other: &Throughput) -> f64 {
    let a_page = |all: &Throughput, round: usize| all.seconds[round] / all.pages as f64;
    median((0..one.seconds.len()).map(|round| a_page(other, round) / a_page(one, round)))
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What issue 6 asks of the engine.
fn bars(plan: &Plan, all: &[Throughput], loaded: &[Loaded]) -> Vec<Bar> {
    let mut bars = Vec::new();
    let mut put = |name: &str, asked, is_most, reached| {
        bars.push(Bar { name: name.to_owned(), asked, is_most, reached });
    };
    let sha3 = find(all, Work::Fingerprint { is_blake3: false }, true);
    if plan.has_openssl {
        let openssl = find(all, Work::Openssl, true);
        put("SHA3-256, against OpenSSL", 5.0, false, ratio(sha3, openssl));
    }
    let known = find(all, write_of(1.0, plan.depth), true);
    put("known pages, against SHA3-256 alone", 0.7, false, ratio(known, sha3));
    let new = find(all, write_of(0.0, plan.depth), true);
    let compress = find(all, Work::Compress, true);
    let (name, slower) = match ratio(sha3, compress) < 1.0 {
        true => ("new pages, against SHA3-256 alone", sha3),
        false => ("new pages, against compression alone", compress),
    };
    put(name, 0.7, false, ratio(new, slower));
    for (compresses, how) in [(true, "compressed"), (false, "as they are")] {
        for (has_filters, with) in [(true, "with"), (false, "without")] {
            let depth = plan.depth;
            let full = Work::Write { duplicates: 0.0, depth, is_full: true, has_filters };
            let half = Work::Write { duplicates: 0.0, depth, is_full: false, has_filters };
            let reached = ratio(find(all, full, compresses), find(all, half, compresses));
            let name = format!("new pages {how}, table full {with} filters, against half full");
            put(&name, 0.8, false, reached);
        }
    }
    let p50 = |work| median(find(all, work, true).latencies.iter().map(|one| one.p50_us));
    put("p50 in µs of a write of a known page", 50.0, true, p50(write_of(1.0, 1)));
    put("p50 in µs of a write of a new page", 50.0, true, p50(write_of(0.0, 1)));
    put("p50 in µs of a read", 10.0, true, p50(Work::Read));
    put("p50 in µs of an erase", 10.0, true, p50(Work::Erase { is_reclaimed: true }));
    for one in loaded.iter().filter(|one| one.load == 0.8) {
        let name = match one.duplicates == 1.0 {
            true => "p50 in µs of a write of a known page at 80 %",
            false => "p50 in µs of a write of a new page at 80 %",
        };
        put(name, 50.0, true, median(one.latencies.iter().map(|one| one.p50_us)));
    }
    bars
}

/// What the notes of a record have to say.
pub fn notes(plan: &Plan, results: &Results) -> Vec<String> {
    let mut notes = vec![
        "one thread, kept to one CPU; journal on, a commit for each mebibyte of records; pages are \
         made just before each call, off the clock"
            .into(),
        "fingerprints and compression alone have the same pages, as many of them just made at a \
         time"
            .into(),
        format!(
            "at a steady rate, which is a share of what was reached just before when all waited: {} s \
             a sample in {PARTS} parts, what waits is taken together, and pages are made on the clock",
            plan.seconds
        ),
        "latencies of reads include reading the container's file".into(),
    ];
    notes.push(match results.together.is_empty() {
        true => "two threads are left out: there is one CPU".into(),
        false => {
            "two threads have a CPU each and blocks of their own; a call of one begins with one \
                  of the other, and counts until both are done"
                .into()
        }
    });
    if plan.operations as f64 > (1.0 - pool::FULL) * 2.0 * plan.known as f64 {
        notes.push("a sample has more new pages than a full table has room for".into());
    }
    let missed: BTreeMap<&str, f64> = results
        .bars
        .iter()
        .filter(|bar| !bar.is_met())
        .map(|bar| (&*bar.name, bar.reached))
        .collect();
    if !missed.is_empty() {
        notes.push(format!("missed: {missed:?}"));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_pool_is_measured_in_every_way() {
        let folder = tempfile::tempdir().unwrap();
        let plan = Plan {
            known: 3000,
            operations: 700,
            rounds: 2,
            depth: 16,
            seconds: 0.02,
            has_openssl: false,
        };
        let results = measure_engine(&plan, &folder.path().join("pool"), |_| {}).unwrap();
        assert!(!folder.path().join("pool").exists());
        for one in &results.throughput {
            assert_eq!((one.seconds.len(), one.pages), (2, 700), "{one:?}");
            let is_by_page = matches!(one.work, Work::Read | Work::Erase { .. })
                || matches!(one.work, Work::Write { depth: 1, .. });
            assert_eq!(one.latencies.len(), if is_by_page { 2 } else { 0 }, "{one:?}");
        }
        // known pages and new ones, compressed and not, where there are two CPUs
        let together = if last_cpus(2).unwrap().len() == 2 { 4 } else { 0 };
        assert_eq!(results.together.len(), together);
        assert!(results.together.iter().all(|one| one.gain > 0.0), "{:?}", results.together);
        assert_eq!(results.loaded.len(), 4);
        for one in &results.loaded {
            assert_eq!((one.per_second.len(), one.latencies.len()), (2, 2), "{one:?}");
            let is_rate = |rate: &f64| rate.is_finite() && *rate > 0.0;
            assert!(one.per_second.iter().all(is_rate), "{one:?}");
            assert!(
                one.writes_a_call.iter().all(|a_call| (1.0..=16.0).contains(a_call)),
                "{one:?}"
            );
        }
        assert!(results.bars.iter().all(|bar| bar.reached > 0.0), "{:?}", results.bars);
        let svg = plot(&results);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        // two panels of four shares, four tables each, and four in the legend; five kinds of calls,
        // with compression and without, and two in the legend; three kinds of writes by one thread
        // and by two
        let threads = if together == 0 { 0 } else { 2 * 3 + 2 };
        assert_eq!(svg.matches("<rect").count(), 1 + 2 * 4 * 4 + 4 + 2 * 5 + 2 + threads);
    }

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let seconds: Vec<f64> = (0..1000).rev().map(|i| f64::from(i) * 1e-6).collect();
        let found = Quantiles::of(seconds);
        assert_eq!([found.p50_us, found.p99_us].map(f64::round), [500.0, 990.0]);
        assert_eq!([found.p999_us, found.longest_us].map(f64::round), [999.0, 999.0]);
        assert_eq!(Quantiles::of(vec![2e-6]).p999_us.round(), 2.0);
    }

    #[test]
    fn a_ratio_is_of_the_same_round() {
        let of = |pages, seconds: &[f64]| Throughput {
            work: Work::Compress,
            compresses: true,
            pages,
            seconds: seconds.into(),
            latencies: Vec::new(),
        };
        // twice as many pages in the same time, whatever the round
        assert_eq!(ratio(&of(200, &[1.0, 4.0, 9.0]), &of(100, &[1.0, 4.0, 9.0])), 2.0);
    }
}
