//! Real data: figures 1, 2 and 13 to 18.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Result;
use onefold_bench::Dataset;
use onefold_cdc::research::MemoryHints;
use onefold_cdc::{Algorithm, ChunkSizes, Chunker, Criterion, Params, Rapid};

use super::locality::{self, Locality};
use super::{FF, MT, RWT, Run, cell, default_sizes, plan, run};
use crate::paper::finding::Table;
use crate::paper::session::Session;
use crate::rapid::RapidPlan;

/// Our datasets, and those of the paper that they stand for.
pub(super) const DATASETS: [(&str, &str); 6] = [
    ("roots", "Debian"),
    ("typescript", "Nodejs"),
    ("kubernetes", "Linux-tar"),
    ("kernel", "Linux-tar"),
    ("web", "Google-news"),
    ("redis", "Redis"),
];

pub(super) struct Real {
    pub(super) theirs: &'static str,
    /// Rabin at 4/8/12 KiB, by length of the lists.
    pub(super) runs: BTreeMap<usize, Run>,
    /// Rabin at 2/16/64 KiB, Gear at 4/8/12.
    pub(super) large: Run,
    pub(super) gear: Run,
    /// Of more and more files; the last is of all.
    pub(super) localities: Vec<Locality>,
    /// GB/s by threads.
    pub(super) threads: Vec<(usize, f64)>,
}

impl Real {
    pub(super) fn standard(&self) -> &Run {
        &self.runs[&2]
    }

    pub(super) fn name(&self) -> String {
        format!("{} (for {})", self.standard().dataset, self.theirs)
    }

    pub(super) fn because(&self, what: &str, why: &str) -> String {
        format!("{what} on {}, dedup ratio {:.2}: {why}", self.name(), self.standard().ratio())
    }
}

pub(super) fn measure(session: &mut Session, real: &mut Vec<Real>) -> Result<()> {
    for (name, theirs) in DATASETS {
        session.part(&format!("Figures 1 to 4 and 13 to 18 on {name}"), |session| {
            real_dataset(session, name, theirs, real)
        })?;
    }
    Ok(())
}

fn real_dataset(
    session: &mut Session,
    name: &str,
    theirs: &'static str,
    real: &mut Vec<Real>,
) -> Result<()> {
    // whole root file systems, whose beginnings alone would be equal
    let most = session.effort().bytes;
    let most = if name == "roots" { 2 * most } else { most / 2 };
    let Some(mut dataset) = session.load(name, most)? else { return Ok(()) };
    if name == "kubernetes" || name == "web" {
        // many files of less than a chunk
        dataset = dataset.one_stream();
    }
    let standard = plan(session, Algorithm::Rabin, default_sizes()?);
    let whole = RapidPlan { end_to_end: true, ..standard.clone() };
    let mut runs = BTreeMap::from([(2, run(session, &dataset, &whole)?)]);
    for next in [1, 4] {
        let criteria = vec![Criterion::WindowTest];
        let lists = RapidPlan { criteria, next, ..standard.clone() };
        runs.insert(next, run(session, &dataset, &lists)?);
    }
    let sizes = ChunkSizes::new(2048, 16384, 65536)?;
    let large = plan(session, Algorithm::Rabin, sizes);
    let large = run(session, &dataset, &large)?;
    let gear = plan(session, Algorithm::Gear, default_sizes()?);
    let gear = run(session, &dataset, &gear)?;
    session.step(&format!("duplicate locality of {name}"))?;
    let localities = Locality::of(&dataset)?;
    let threads = threads(session, &dataset)?;
    real.push(Real { theirs, runs, large, gear, localities, threads });
    Ok(())
}

/// Figure 18: each thread takes the next file, all share the hints; as many CPUs as threads. Chunks
/// are identified by some of their bytes, as the paper leaves fingerprinting out.
fn threads(session: &mut Session, dataset: &Dataset) -> Result<Vec<(usize, f64)>> {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let files: Vec<&[u8]> = dataset.files().collect();
    let params = Params::new(Algorithm::Rabin, default_sizes()?);
    let rapid = Rapid::new(Chunker::new(&params)?, Criterion::FastForward)?;
    let mut counts: Vec<usize> =
        (0..).map(|power| 1 << power).take_while(|&n| n <= cores).collect();
    counts.retain(|&count| count <= files.len());
    let mut seconds = vec![Vec::new(); counts.len()];
    for _ in 0..session.effort().rounds {
        for (&count, seconds) in counts.iter().zip(&mut seconds) {
            session.step(&format!("{} threads on {}", count, dataset.name()))?;
            let _pin = session.pin(count);
            let hints = MemoryHints::with_next(some_bytes, 2);
            let next = AtomicUsize::new(0);
            let begun = Instant::now();
            std::thread::scope(|scope| {
                for _ in 0..count {
                    scope.spawn(|| {
                        while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                            let mut input = rapid.start(&hints);
                            let mut start = 0;
                            while let Some(chunk) = input.next(&file[start..]) {
                                start += chunk.len;
                            }
                        }
                    });
                }
            });
            seconds.push(begun.elapsed().as_secs_f64());
        }
    }
    let rate = |seconds: Vec<f64>| {
        dataset.bytes().len() as f64 / onefold_bench::Summary::of(seconds).median / 1e9
    };
    Ok(counts.into_iter().zip(seconds.into_iter().map(rate)).collect())
}

/// Enough to know a chunk again, at little cost.
fn some_bytes(chunk: &[u8]) -> [u8; 32] {
    let mut print = [0; 32];
    print[..4].copy_from_slice(&(chunk.len() as u32).to_le_bytes());
    let step = (chunk.len() / 28).max(1);
    for (place, &byte) in print[4..].iter_mut().zip(chunk.iter().step_by(step)) {
        *place = byte;
    }
    print
}

pub(super) fn tables(session: &mut Session, real: &[Real]) {
    let mut table = Table::new(
        "Figure 13",
        "chunking speed-up over the scalar kernel / loss of dedup ratio in percent",
        &["dataset", "dedup ratio", "FF", "FF+RWT", "FF+MT1", "FF+RWT+FPT"],
    );
    for one in real {
        for (way, run) in [
            ("Rabin 4/8/12", one.standard()),
            ("Rabin 2/16/64", &one.large),
            ("Gear 4/8/12", &one.gear),
        ] {
            let cells = [FF, RWT, MT, "FF+RWT+FPT"].map(|criterion| cell(run, criterion));
            let name = format!("{}, {way}", one.name());
            table.row([name, format!("{:.2}", run.ratio())].into_iter().chain(cells));
        }
    }
    session.table(table);

    let mut table = Table::new(
        "Figures 1, 2, 16 and 17",
        "of the time for chunking and fingerprints, the part of chunking, and speed-up end to end, \
         from memory, Rabin 4/8/12, scalar kernel, BLAKE3",
        &["dataset", "chunking", "with FF", "FF", "FF+MT1", "fixed", "ideal"],
    );
    for one in real {
        let run = one.standard();
        let gain = |way| run.whole_speed_up(way).map_or("".into(), |gain| format!("{gain:.2}×"));
        let (regular, rapid) = (chunking_share(run, "alone"), chunking_share(run, FF));
        table.row([
            one.name(),
            format!("{regular:.0} %"),
            format!("{rapid:.0} %"),
            gain(FF),
            gain(MT),
            gain("fixed"),
            gain("ideal"),
        ]);
    }
    session.table(table);

    locality::tables(session, real);

    let mut table = Table::new(
        "Figures 14 and 15",
        "FF+RWT: accepted by position in a list of 4, in percent of chunks with hints; chunking \
         speed-up by length of the lists",
        &["dataset", "first", "second", "third", "fourth", "lists of 1", "of 2", "of 4"],
    );
    for one in real {
        let shares = hit_shares(&one.runs[&4]);
        let hits = (0..4).map(|place| format!("{:.2}", shares.get(place).unwrap_or(&0.0)));
        let gains = [1, 2, 4].map(|next| {
            one.runs[&next].speed_up(RWT).map_or("".into(), |gain| format!("{gain:.2}×"))
        });
        table.row([one.name()].into_iter().chain(hits).chain(gains));
    }
    session.table(table);

    let mut table = Table::new(
        "Figure 18",
        "chunking by FF with several threads, in GB/s of wall time",
        &["dataset", "by threads"],
    );
    for one in real {
        let text = one.threads.iter().map(|(count, rate)| format!("{count}: {rate:.2}"));
        table.row([one.name(), text.collect::<Vec<_>>().join(", ")]);
    }
    session.table(table);
}

/// Chunking as a part of chunking with fingerprints and look-ups, in percent.
pub(super) fn chunking_share(run: &Run, way: &str) -> f64 {
    let seconds = |end_to_end| run.result.seconds(way, Some("scalar"), end_to_end);
    match (seconds(false), seconds(true)) {
        (Some(chunking), Some(whole)) => 100.0 * chunking / whole,
        _ => f64::NAN,
    }
}

/// Under FF+RWT, hits by position of all chunks that had hints, in percent.
pub(super) fn hit_shares(run: &Run) -> Vec<f64> {
    let Some(criterion) = run.result.criteria.iter().find(|one| one.name == RWT) else {
        return Vec::new();
    };
    let all = criterion.hits.iter().sum::<u64>() + criterion.misses;
    criterion.hits.iter().map(|&hits| 100.0 * hits as f64 / all.max(1) as f64).collect()
}
