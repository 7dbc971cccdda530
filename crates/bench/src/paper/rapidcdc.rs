//! RapidCDC, figures 1 to 4 and 8 to 18: duplicate locality, gain over the regular algorithm, and
//! how it depends on changes, sizes, hash, lists and threads.
//!
//! How the gain is measured is said in [`measure_rapid`](crate::measure_rapid): chunking alone, with fingerprints computed
//! before, and end to end, with BLAKE3 and look-ups.

use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

use anyhow::Result;
use onefold_cdc::{Algorithm, ChunkSizes, Chunker, Criterion, MemoryHints, Params, Rapid};

use super::finding::{Claim, Finding, Table, range};
use super::session::Session;
use crate::build::series::{Edit, first_version, next_version};
use crate::{CriterionResult, Dataset, RapidPlan, RapidResult};

/// Our datasets, and those of the paper that they stand for.
const DATASETS: [(&str, &str); 6] = [
    ("roots", "Debian"),
    ("typescript", "Nodejs"),
    ("kubernetes", "Linux-tar"),
    ("kernel", "Linux-tar"),
    ("web", "Google-news"),
    ("redis", "Redis"),
];

const FF: &str = "FF";
const MT: &str = "FF+MT1";
const RWT: &str = "FF+RWT";

const CRITERIA: [Criterion; 4] = [
    Criterion::FastForward,
    Criterion::WindowTest,
    Criterion::MarkerTest { bytes: 1 },
    Criterion::FingerprintTest,
];

/// Changes to a version of 500 MB, and what the paper found: the dedup ratio, the speed-up of FF
/// with Rabin and with Gear.
const CHANGES: [(usize, f64, f64, f64); 5] = [
    (1000, 7.9, 6.1, 5.9),
    (2000, 6.6, 4.8, 4.5),
    (5000, 4.3, 3.1, 2.7),
    (10_000, 2.8, 2.1, 1.8),
    (20_000, 1.8, 1.6, 1.5),
];
const PAPER_VERSION: usize = 500_000_000;
const VERSIONS: usize = 10;

/// The sizes of the paper's default configuration.
fn default_sizes() -> Result<ChunkSizes> {
    Ok(ChunkSizes::new(4096, 8192, 12288)?)
}

/// What was measured of one dataset with one algorithm.
struct Run {
    dataset: String,
    result: RapidResult,
}

impl Run {
    /// Chunking by the regular algorithm over chunking by a criterion, both on the scalar kernel.
    fn speed_up(&self, criterion: &str) -> Option<f64> {
        let scalar = Some("scalar");
        let alone = self.result.seconds("alone", scalar, false)?;
        Some(alone / self.result.seconds(criterion, scalar, false)?)
    }

    /// The same end to end.
    fn whole_speed_up(&self, way: &str) -> Option<f64> {
        let alone = self.result.seconds("alone", Some("scalar"), true)?;
        let kernel = (!matches!(way, "fixed" | "ideal")).then_some("scalar");
        Some(alone / self.result.seconds(way, kernel, true)?)
    }

    fn ratio(&self) -> f64 {
        self.result.metrics.dedup_ratio()
    }

    /// What a criterion loses of the dedup ratio, in percent.
    fn loss(&self, criterion: &str) -> Option<f64> {
        let of_it = self.result.criteria.iter().find(|one| one.name == criterion)?;
        Some(100.0 * (1.0 - of_it.metrics.dedup_ratio() / self.ratio()))
    }
}

pub(super) fn measure(session: &mut Session) -> Result<()> {
    session.part("Figures 8 and 11", synthetic)?;
    session.part("Figure 9", shares)?;
    session.part("Figure 10", minimum_sizes)?;
    session.part("Figure 12", worst_case)?;
    let mut real = Vec::new();
    let outcome = real_data(session, &mut real);
    if !real.is_empty() {
        real_tables(session, &real);
        real_claims(session, &real);
    }
    not_measured(session);
    outcome
}

/// Lists of two, by every criterion; chunking alone, which is all that most figures show.
fn plan(session: &Session, algorithm: Algorithm, sizes: ChunkSizes) -> RapidPlan {
    RapidPlan {
        params: Params::new(algorithm, sizes),
        criteria: CRITERIA.to_vec(),
        next: 2,
        rounds: session.effort().rounds,
        end_to_end: false,
    }
}

fn run(session: &mut Session, dataset: &Dataset, plan: &RapidPlan) -> Result<Run> {
    let result = session.measure_rapid(dataset, plan)?;
    Ok(Run { dataset: dataset.name().to_owned(), result })
}

/// The paper's synthetic data: versions with as many changes a byte as its 500 MB have.
fn series(session: &mut Session, changes: usize, edit: Edit, share: usize) -> Dataset {
    // its memory bandwidth is not what a tenth of the data would change
    let len = (session.effort().bytes as usize / VERSIONS).min(PAPER_VERSION / 25);
    let edits = (changes as f64 * len as f64 / PAPER_VERSION as f64).round() as usize;
    let mut versions = vec![first_version(len)];
    for number in 1..VERSIONS {
        versions.push(next_version(&versions[number - 1], number, edits, edit, share));
    }
    let kind = if edit == Edit::Overwrite { "overwrites" } else { "insertions and deletions" };
    let dataset = Dataset::of(format!("series, {changes} {kind} in {share} %"), versions);
    session.note(&dataset);
    dataset
}

// ---- figures 8 and 11: changes, criteria and hash ------------------------------------------------

fn synthetic(session: &mut Session) -> Result<()> {
    let mut runs: BTreeMap<(&str, &str, usize), Run> = BTreeMap::new();
    let mut outcome = Ok(());
    'all: for (kind, edit) in
        [("insert/delete", Edit::InsertOrDelete), ("overwrite", Edit::Overwrite)]
    {
        for (changes, ..) in CHANGES {
            let dataset = series(session, changes, edit, 100);
            for (hash, algorithm) in [("Rabin", Algorithm::Rabin), ("Gear", Algorithm::Gear)] {
                let plan = plan(session, algorithm, default_sizes()?);
                match run(session, &dataset, &plan) {
                    Ok(run) => drop(runs.insert((hash, kind, changes), run)),
                    Err(error) => {
                        outcome = Err(error);
                        break 'all;
                    }
                }
            }
        }
    }
    let mut table = Table::new(
        "Figures 8 and 11",
        "ten versions of random bytes, changes for each 500 MB; chunking speed-up over the scalar \
         kernel / loss of dedup ratio in percent",
        &["hash, kind, changes", "dedup ratio", "FF", "FF+RWT", "FF+MT1", "FF+RWT+FPT"],
    );
    for ((hash, kind, changes), run) in &runs {
        let cells = [FF, RWT, MT, "FF+RWT+FPT"].map(|criterion| cell(run, criterion));
        let name = format!("{hash}, {kind}, {changes}");
        table.row([name, format!("{:.2}", run.ratio())].into_iter().chain(cells));
    }
    session.table(table);

    let by = "ten versions with as many changes a byte; chunking alone on the scalar kernel";
    for (changes, ratio, with_rabin, with_gear) in CHANGES {
        let Some(of_rabin) = runs.get(&("Rabin", "insert/delete", changes)) else { continue };
        let claim = |claim: &str, reported: &str| (claim.to_owned(), reported.to_owned());
        let (text, reported) =
            claim(&format!("dedup ratio at {changes} changes"), &format!("{ratio}"));
        let found = of_rabin.ratio();
        session.finding(super::Finding {
            claim: text,
            reported,
            ..Claim { place: "Figure 8", claim: "", reported: "", measured_by: by }.found(
                (found / ratio - 1.0).abs() < 0.1,
                format!("{found:.2}"),
                if found > ratio {
                    "there a chunk gets at most one change; here places are drawn freely, and \
                     some share a chunk"
                } else {
                    "some changes reach over a cut-point, and change two chunks"
                },
            )
        });
        for (hash, place, reported) in
            [("Rabin", "Figure 8", with_rabin), ("Gear", "Figure 11", with_gear)]
        {
            let Some(run) = runs.get(&(hash, "insert/delete", changes)) else { continue };
            let found: Vec<f64> = run.speed_up(FF).into_iter().collect();
            let reason = if run.ratio() < 0.95 * ratio {
                "the dedup ratio is lower here"
            } else {
                "the rest is the look-up of each chunk, which weighs more the faster the search is"
            };
            let template = Claim { place, claim: "", reported: "", measured_by: by };
            session.finding(super::Finding {
                claim: format!("speed-up of FF with {hash} at {changes} changes"),
                reported: format!("{reported}×"),
                ..template.ratio(reported, &found, reason)
            });
        }
    }
    let of = |kind: &str| -> Vec<&Run> {
        runs.iter().filter(|(key, _)| key.0 == "Rabin" && key.1 == kind).map(|one| one.1).collect()
    };
    let losses = |runs: &[&Run], criterion: &str| -> Vec<f64> {
        runs.iter().filter_map(|run| run.loss(criterion)).collect()
    };
    let most = |values: &[f64]| values.iter().copied().fold(0.0_f64, f64::max);
    if !of("insert/delete").is_empty() {
        let claim = Claim {
            place: "Figure 8",
            claim: "every criterion but FF keeps the dedup ratio",
            reported: "almost the same",
            measured_by: "loss with insertions and deletions; kept: within 1 %",
        };
        let kept = [RWT, MT, "FF+RWT+FPT"].map(|name| (name, losses(&of("insert/delete"), name)));
        let worst = kept.iter().max_by(|a, b| most(&a.1).total_cmp(&most(&b.1)));
        let reason = match worst {
            Some((name, _)) if *name == MT => {
                "one byte of marker is right by chance for one wrong hint in 256".to_owned()
            }
            Some((name, losses)) => format!("{name} loses the most, {:.2} %", most(losses)),
            None => String::new(),
        };
        let kept = kept.map(|(_, losses)| losses).concat();
        session.finding(claim.found(most(&kept) < 1.0, format!("{} %", range(&kept)), &reason));
    }
    if !of("overwrite").is_empty() {
        let claim = Claim {
            place: "Figure 8",
            claim: "with overwrites, which shift nothing, FF loses no duplicates",
            reported: "no reduction",
            measured_by: "loss of FF; none: within 0.5 %",
        };
        let lost = losses(&of("overwrite"), FF);
        let reason = "an overwrite may make or break a cut-point";
        session.finding(claim.found(most(&lost) < 0.5, format!("{} %", range(&lost)), reason));
    }
    outcome
}

/// Speed-up and loss.
fn cell(run: &Run, criterion: &str) -> String {
    match (run.speed_up(criterion), run.loss(criterion)) {
        (Some(speed_up), Some(loss)) => format!("{speed_up:.2}× / {loss:.2}"),
        _ => "not with this algorithm".into(),
    }
}

// ---- figure 9: where changes lie -----------------------------------------------------------------

fn shares(session: &mut Session) -> Result<()> {
    let mut table = Table::new(
        "Figure 9",
        "1000 insertions and deletions in the first part of the file, Rabin",
        &["part of the file", "dedup ratio", "FF", "FF+MT1"],
    );
    let (mut gains, mut ratios) = (Vec::new(), Vec::new());
    for share in [10, 40, 70, 100] {
        let dataset = series(session, 1000, Edit::InsertOrDelete, share);
        let plan = plan(session, Algorithm::Rabin, default_sizes()?);
        let run = run(session, &dataset, &plan)?;
        // where changes share chunks more chunks stay, and both ratio and gain are higher
        gains.extend(run.speed_up(FF).map(|gain| gain / run.ratio()));
        ratios.push(run.ratio());
        let cells = [cell(&run, FF), cell(&run, MT)];
        let ratio = format!("{:.2}", run.ratio());
        table.row([format!("{share} %"), ratio].into_iter().chain(cells));
    }
    session.table(table);
    let claim = Claim {
        place: "Figure 9",
        claim: "the gain does not depend on where changes lie",
        reported: "little change from 10 to 100 % of the file",
        measured_by: "speed-up of FF over the dedup ratio; little: the most at most 1.4 times the \
                      least",
    };
    let most = gains.iter().copied().fold(0.0, f64::max);
    let least = gains.iter().copied().fold(f64::INFINITY, f64::min);
    let text = format!("{} times the ratio", range(&gains));
    let ratios = range(&ratios);
    let reason = format!("the less is new, the more look-ups weigh, and dedup ratios are {ratios}");
    session.finding(claim.found(most <= 1.4 * least, text, &reason));
    Ok(())
}

// ---- figure 10: minimum size ---------------------------------------------------------------------

fn minimum_sizes(session: &mut Session) -> Result<()> {
    let dataset = series(session, 1000, Edit::InsertOrDelete, 100);
    let mut table = Table::new(
        "Figure 10",
        "by minimum size, around 16 KiB up to 64 KiB, 1000 insertions and deletions, Rabin",
        &["minimum", "dedup ratio", "FF", "FF+MT1"],
    );
    let mut gains = Vec::new();
    for min in [2048, 4096, 8192] {
        let sizes = ChunkSizes::new(min, 16384, 65536)?;
        let plan = plan(session, Algorithm::Rabin, sizes);
        let run = run(session, &dataset, &plan)?;
        gains.extend(run.speed_up(FF));
        let cells = [cell(&run, FF), cell(&run, MT)];
        table.row([min.to_string(), format!("{:.2}", run.ratio())].into_iter().chain(cells));
    }
    session.table(table);
    let claim = Claim {
        place: "Figure 10",
        claim: "a larger minimum takes little of the gain",
        reported: "small impact",
        measured_by: "speed-up of FF at 2/16/64 KiB and with a minimum of 4 and 8; small: at least \
                      0.6 of it is left",
    };
    let holds = gains.len() == 3 && gains[2] >= 0.6 * gains[0];
    let reason = "the regular algorithm skips the minimum too, and has less left to win";
    session.finding(claim.found(holds, format!("{}×", range(&gains)), reason));
    Ok(())
}

// ---- figure 12: hints that are never right -------------------------------------------------------

/// One chunk again and again, each time with another behind it: it is known each time, and what came
/// after it never comes again. A chunk depends on its own bytes, so chunks put together are cut as
/// they were.
fn never_right(len: usize) -> Result<Dataset> {
    let chunker = Chunker::new(&Params::new(Algorithm::Rabin, default_sizes()?))?;
    let random = Dataset::random(77, len / 2);
    let mut chunks = Vec::new();
    let mut start = 0;
    for end in chunker.cut_points(random.bytes()) {
        // a chunk of the maximum length may have been cut by it, and the last one by the end
        if end - start < chunker.sizes().max() && end < random.bytes().len() {
            chunks.push(&random.bytes()[start..end]);
        }
        start = end;
    }
    let mut bytes = Vec::with_capacity(len);
    if let Some((known, others)) = chunks.split_first() {
        for other in others {
            bytes.extend_from_slice(known);
            bytes.extend_from_slice(other);
        }
    }
    Ok(Dataset::of("hints never right", [bytes]))
}

fn worst_case(session: &mut Session) -> Result<()> {
    let dataset = never_right((session.effort().bytes as usize).min(128 << 20))?;
    session.note(&dataset);
    let plan = plan(session, Algorithm::Rabin, default_sizes()?);
    let run = run(session, &dataset, &plan)?;
    let mut table = Table::new(
        "Figure 12",
        "a known chunk before ever new ones, Rabin",
        &["criterion", "chunking, of the regular one's speed", "hits", "hints refused", "chunks"],
    );
    let mut slow_downs = Vec::new();
    for criterion in &run.result.criteria {
        let gain = run.speed_up(&criterion.name).unwrap_or(f64::NAN);
        if criterion.name != FF {
            slow_downs.push(100.0 * (1.0 - gain));
        }
        table.row([
            criterion.name.clone(),
            format!("{gain:.3}"),
            criterion.hits.iter().sum::<u64>().to_string(),
            criterion.refused.to_string(),
            criterion.metrics.chunks.to_string(),
        ]);
    }
    session.table(table);
    let claim = Claim {
        place: "Figure 12",
        claim: "hints that are never accepted cost little",
        reported: "less than 10 % slower",
        measured_by: "every second chunk is known and its next one never the one before; chunking \
                      alone, Rabin, all criteria but FF",
    };
    let most = slow_downs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let slowest = run.result.criteria.iter().filter(|one| one.name != FF).min_by(|a, b| {
        let gain = |one: &CriterionResult| run.speed_up(&one.name).unwrap_or(f64::INFINITY);
        gain(a).total_cmp(&gain(b))
    });
    let reason = match slowest {
        Some(one) if one.fingerprinted_in_vain_per_byte > 0.0 => format!(
            "{} fingerprints each refused chunk, {:.2} bytes for each byte here",
            one.name, one.fingerprinted_in_vain_per_byte
        ),
        Some(one) => format!("{} is the slowest: every second chunk has hints here", one.name),
        None => String::new(),
    };
    session.finding(claim.found(most < 10.0, format!("{} % slower", range(&slow_downs)), &reason));
    Ok(())
}

// ---- real data: figures 1 to 4 and 13 to 18 ------------------------------------------------------

struct Real {
    theirs: &'static str,
    /// Rabin at 4/8/12 KiB, by length of the lists.
    runs: BTreeMap<usize, Run>,
    /// Rabin at 2/16/64 KiB, Gear at 4/8/12.
    large: Run,
    gear: Run,
    /// Of more and more files; the last is of all.
    localities: Vec<Locality>,
    /// GB/s by threads.
    threads: Vec<(usize, f64)>,
}

fn real_data(session: &mut Session, real: &mut Vec<Real>) -> Result<()> {
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

/// How duplicates lie together, in so many of the first files.
struct Locality {
    files: usize,
    chunks: usize,
    duplicates: usize,
    /// Lengths of the sequences of duplicates that follow a duplicate.
    sequences: Vec<usize>,
}

impl Locality {
    /// Of a quarter of the files, half of them, and all.
    fn of(dataset: &Dataset) -> Result<Vec<Self>> {
        let chunker = Chunker::new(&Params::new(Algorithm::Rabin, default_sizes()?))?;
        let mut known = HashSet::new();
        let mut files = Vec::new();
        for file in dataset.files() {
            let mut start = 0;
            let mut duplicate = Vec::new();
            for end in chunker.cut_points(file) {
                duplicate.push(!known.insert(*blake3::hash(&file[start..end]).as_bytes()));
                start = end;
            }
            files.push(duplicate);
        }
        let mut counts = [files.len() / 4, files.len() / 2, files.len()].to_vec();
        counts.retain(|&count| count > 0);
        counts.dedup();
        Ok(counts.into_iter().map(|count| Self::from_flags(&files[..count])).collect())
    }

    /// Of each file's chunks whether they were there before.
    fn from_flags(files: &[Vec<bool>]) -> Self {
        let mut all = Self { files: files.len(), chunks: 0, duplicates: 0, sequences: Vec::new() };
        for file in files {
            all.chunks += file.len();
            for run in file.split(|duplicate| !duplicate).filter(|run| !run.is_empty()) {
                all.duplicates += run.len();
                all.sequences.push(run.len() - 1);
            }
        }
        all
    }

    fn in_sequences(&self) -> usize {
        self.sequences.iter().sum()
    }

    /// Of the chunks in sequences, the percentage in those of at most `len`.
    fn up_to(&self, len: usize) -> f64 {
        let shorter: usize = self.sequences.iter().filter(|&&sequence| sequence <= len).sum();
        100.0 * shorter as f64 / self.in_sequences().max(1) as f64
    }

    /// The percentage in those of more.
    fn longer(&self, len: usize) -> f64 {
        100.0 - self.up_to(len)
    }

    fn percent(&self, chunks: usize) -> f64 {
        100.0 * chunks as f64 / self.chunks.max(1) as f64
    }
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
    let rate =
        |seconds: Vec<f64>| dataset.bytes().len() as f64 / crate::Summary::of(seconds).median / 1e9;
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

impl Real {
    fn standard(&self) -> &Run {
        &self.runs[&2]
    }

    fn name(&self) -> String {
        format!("{} (for {})", self.standard().dataset, self.theirs)
    }

    fn because(&self, what: &str, why: &str) -> String {
        format!("{what} on {}, dedup ratio {:.2}: {why}", self.name(), self.standard().ratio())
    }
}

fn real_tables(session: &mut Session, real: &[Real]) {
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

    locality_tables(session, real);

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

/// The lengths up to which figure 4 counts.
const LENGTHS: [usize; 13] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];

fn locality_tables(session: &mut Session, real: &[Real]) {
    let mut shares = Table::new(
        "Figure 3",
        "duplicates, and those of them in LQ sequences, in percent of all chunks, by files",
        &["dataset, files", "chunks", "duplicates", "in LQ sequences"],
    );
    let lengths = LENGTHS.map(|len| len.to_string());
    let mut columns = vec!["dataset, files"];
    columns.extend(lengths.iter().map(String::as_str));
    columns.push("longest");
    let title =
        "of the chunks in LQ sequences, the percentage in sequences of at most so many chunks";
    let mut distribution = Table::new("Figure 4", title, &columns);
    for one in real {
        for locality in &one.localities {
            let name = format!("{}, {}", one.name(), locality.files);
            let parts = [locality.duplicates, locality.in_sequences()];
            let parts = parts.map(|chunks| format!("{:.1}", locality.percent(chunks)));
            shares.row([name.clone(), locality.chunks.to_string()].into_iter().chain(parts));
            let cells = LENGTHS.map(|len| format!("{:.1}", locality.up_to(len)));
            let longest = locality.sequences.iter().max().map_or(String::new(), usize::to_string);
            distribution.row([name].into_iter().chain(cells).chain([longest]));
        }
    }
    session.table(shares);
    session.table(distribution);
}

/// Chunking as a part of chunking with fingerprints and look-ups, in percent.
fn chunking_share(run: &Run, way: &str) -> f64 {
    let seconds = |end_to_end| run.result.seconds(way, Some("scalar"), end_to_end);
    match (seconds(false), seconds(true)) {
        (Some(chunking), Some(whole)) => 100.0 * chunking / whole,
        _ => f64::NAN,
    }
}

/// Of figures, one of each dataset, where the least is, and at which dedup ratio; then `why`.
fn where_least(real: &[Real], figures: &[f64], why: &str) -> String {
    debug_assert_eq!(real.len(), figures.len());
    let least = real.iter().zip(figures).min_by(|a, b| a.1.total_cmp(b.1));
    least.map_or(String::new(), |(one, _)| one.because("least", why))
}

/// The same of the largest.
fn where_most(real: &[Real], figures: &[f64], why: &str) -> String {
    debug_assert_eq!(real.len(), figures.len());
    let most = real.iter().zip(figures).max_by(|a, b| a.1.total_cmp(b.1));
    most.map_or(String::new(), |(one, _)| one.because("most", why))
}

/// Judged on the dataset for Debian, from which the paper has its figure, and on no other.
fn first_is_right(
    claim: &Claim,
    shares: impl IntoIterator<Item = (&'static str, Option<f64>)>,
) -> Finding {
    match shares.into_iter().find(|(theirs, _)| *theirs == "Debian") {
        Some((_, Some(share))) => claim.found(
            share > 90.0,
            format!("{share:.2} %"),
            "versions here differ more from one another",
        ),
        Some((_, None)) => claim.not_measured("no chunk of the dataset for Debian had hints"),
        None => claim.not_measured("no Debian data"),
    }
}

/// Under FF+RWT, hits by position of all chunks that had hints, in percent.
fn hit_shares(run: &Run) -> Vec<f64> {
    let Some(criterion) = run.result.criteria.iter().find(|one| one.name == RWT) else {
        return Vec::new();
    };
    let all = criterion.hits.iter().sum::<u64>() + criterion.misses;
    criterion.hits.iter().map(|&hits| 100.0 * hits as f64 / all.max(1) as f64).collect()
}

fn real_claims(session: &mut Session, real: &[Real]) {
    let each = |value: &dyn Fn(&Real) -> Option<f64>| -> Vec<f64> {
        real.iter().filter_map(value).collect()
    };
    let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);

    let claim = Claim {
        place: "Figure 1",
        claim: "chunking takes most of the processor's time",
        reported: "more than 60 %",
        measured_by: "Rabin 4/8/12, scalar: chunking alone over chunking with BLAKE3 and look-ups",
    };
    let shares = each(&|one| Some(chunking_share(one.standard(), "alone")));
    session.finding(claim.found(
        least(&shares) > 60.0,
        format!("{} %", range(&shares)),
        &where_least(real, &shares, "BLAKE3 and look-ups are the rest"),
    ));
    let claim = Claim {
        place: "Figure 2",
        claim: "RapidCDC takes chunking's part down",
        reported: "significantly",
        measured_by: "the same with FF, less than without on every dataset",
    };
    let rapid = each(&|one| Some(chunking_share(one.standard(), FF)));
    let not_less = |one: &&Real| {
        let share = |way| chunking_share(one.standard(), way);
        share(FF) >= share("alone")
    };
    let with_ratio =
        |one: &Real| format!("{}, dedup ratio {:.2}", one.name(), one.standard().ratio());
    let not_on: Vec<String> = real.iter().filter(not_less).map(with_ratio).collect();
    session.finding(claim.found(
        rapid.iter().zip(&shares).all(|(rapid, regular)| rapid < regular),
        format!("{} %", range(&rapid)),
        &format!("not on {}", not_on.join(", ")),
    ));

    let claim = Claim {
        place: "Figure 3",
        claim: "most duplicates follow a duplicate",
        reported: "less than 5, at most 10 % of chunks are duplicates that do not",
        measured_by: "chunks of Rabin 4/8/12: duplicates less those in LQ sequences, in percent of \
                      all",
    };
    let gap = each(&|one| {
        let locality = one.localities.last()?;
        Some(locality.percent(locality.duplicates - locality.in_sequences()))
    });
    session.finding(claim.found(
        most(&gap) <= 10.0,
        format!("{} %", range(&gap)),
        &where_most(real, &gap, "changes lie apart there, all over the files"),
    ));
    let claim = Claim {
        place: "Figure 4",
        claim: "few of them lie in short sequences",
        reported: "a small part in those of 8 and fewer, more than half in those above 64 for some",
        measured_by: "part in sequences of more than 8; few: above 70 % on half of the data",
    };
    let longer = each(&|one| Some(one.localities.last()?.longer(8)));
    session.finding(claim.found(
        crate::Summary::of(longer.iter().copied()).median > 70.0,
        format!("{} %", range(&longer)),
        &where_least(
            real,
            &longer,
            "there many places change between versions, or files are small",
        ),
    ));

    let claim = Claim {
        place: "Figure 13",
        claim: "FF's speed-up comes close to the dedup ratio",
        reported: "close, up to ratios of 40",
        measured_by: "speed-up over the ratio, Rabin, scalar; close: 0.7 and more",
    };
    let close = each(&|one| Some(one.standard().speed_up(FF)? / one.standard().ratio()));
    session.finding(claim.found(
        least(&close) >= 0.7,
        format!("{} times the ratio", range(&close)),
        &where_least(real, &close, "a jump costs a look-up, and what is no duplicate is sought"),
    ));
    let claim = Claim {
        place: "Figure 13",
        claim: "on real data FF does not cost dedup ratio",
        reported: "no compromise",
        measured_by: "loss of FF; none: within 1 %",
    };
    let loss = each(&|one| one.standard().loss(FF));
    session.finding(claim.found(
        most(&loss) < 1.0,
        format!("{} %", range(&loss)),
        &where_most(
            real,
            &loss,
            "behind each change FF takes lengths that no longer fit, and makes chunks that nobody \
             has",
        ),
    ));
    let claim = Claim {
        place: "Figure 14",
        claim: "the first of a list is right nearly always",
        reported: "99.18 % on Debian",
        measured_by: "FF+RWT with lists of 4 on the dataset for Debian; holds above 90 %",
    };
    let first = real.iter().map(|one| (one.theirs, hit_shares(&one.runs[&4]).first().copied()));
    session.finding(first_is_right(&claim, first));
    let claim = Claim {
        place: "Figure 15",
        claim: "longer lists are faster, by little",
        reported: "visibly, not worth their space beyond 2",
        measured_by: "FF+RWT, lists of 4 over lists of 1; holds from 0.95 to 1.5",
    };
    let gain = each(&|one| Some(one.runs[&4].speed_up(RWT)? / one.runs[&1].speed_up(RWT)?));
    let reason = if least(&gain) <= 0.95 {
        where_least(real, &gain, "a longer list also costs a test for each of its wrong hints")
    } else {
        where_most(real, &gain, "later hints of a list are right there, too")
    };
    session.finding(claim.found(
        least(&gain) > 0.95 && most(&gain) < 1.5,
        format!("{}×", range(&gain)),
        &reason,
    ));
    let claim = Claim {
        place: "Figure 16",
        claim: "chunking with fingerprinting becomes about twice as fast",
        reported: "around 2×, less on data with few duplicates",
        measured_by: "end to end, FF over the regular algorithm, Rabin scalar, BLAKE3 for SHA-1",
    };
    let whole = each(&|one| one.standard().whole_speed_up(FF));
    let ratios = each(&|one| Some(one.standard().ratio()));
    let reason = format!(
        "chunking is {} % of the time here, which is all that can be saved, at dedup ratios of {}",
        range(&shares),
        range(&ratios)
    );
    session.finding(claim.ratio(2.0, &whole, &reason));
    let claim = Claim {
        place: "Figure 17",
        claim: "RapidCDC comes close to the ideal with cut-points known before",
        reported: "close at high ratios; 2.3× the regular one with Nodejs",
        measured_by: "end to end from memory, FF over the ideal on the data with the highest ratio; \
                      close: 0.7 and more",
    };
    let best = real.iter().max_by(|a, b| a.standard().ratio().total_cmp(&b.standard().ratio()));
    let near = best.and_then(|one| {
        Some((one, one.standard().whole_speed_up(FF)? / one.standard().whole_speed_up("ideal")?))
    });
    session.finding(match near {
        Some((one, share)) => claim.found(
            share >= 0.7,
            format!("{share:.2} of the ideal on {}", one.name()),
            "fingerprints are faster here than SHA-1, and what is left of chunking weighs more",
        ),
        None => claim.not_measured("nothing was timed end to end"),
    });
    let claim = Claim {
        place: "Figure 18",
        claim: "chunking scales with threads",
        reported: "almost linearly, to tens of GB/s",
        measured_by: "FF, a file a thread, wall time; almost: 1.6 and more for two threads",
    };
    let gains: Vec<f64> = real
        .iter()
        .filter_map(|one| {
            let at = |count| one.threads.iter().find(|(n, _)| *n == count).map(|(_, rate)| *rate);
            Some(at(2)? / at(1)?)
        })
        .collect();
    session.finding(if gains.is_empty() {
        claim.not_measured("needs two cores and two files")
    } else {
        let reason = "the later versions need what the earlier ones teach, which two threads learn \
                      at once";
        claim.found(least(&gains) >= 1.6, format!("{}× for two", range(&gains)), reason)
    });
}

fn not_measured(session: &mut Session) {
    let claim = |place, claim, reported| Claim { place, claim, reported, measured_by: "" };
    session.finding(
        claim("Figure 17", "throughput of a whole system on hard disk, SATA and NVMe", "")
            .not_measured(
                "the store does not use RapidCDC yet, and one disk is here; end to end from memory \
             stands in the tables",
            ),
    );
    session.finding(
        claim("Figures 1 and 2", "the time of the disks", "")
            .not_measured("the same: what is shown is the time of the processor"),
    );
    for (name, theirs) in DATASETS {
        if let Some(reason) = session.why_missing(name) {
            let claim = claim("Figure 13", "results on a dataset like theirs", theirs);
            session.finding(claim.not_measured(&reason));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure_rapid;
    use crate::paper::Verdict;

    #[test]
    fn sequences_are_the_duplicates_that_follow_one() {
        // new, then three known: two follow one; a lone one; the end of a file ends a sequence
        let first = vec![false, true, true, true, false, true];
        let second = vec![true, true];
        let all = [first, second];
        let of_one = Locality::from_flags(&all[..1]);
        assert_eq!((of_one.files, of_one.chunks, of_one.duplicates), (1, 6, 4));
        let locality = Locality::from_flags(&all);
        assert_eq!((locality.chunks, locality.duplicates), (8, 6));
        assert_eq!(locality.sequences, [2, 0, 1]);
        assert_eq!(locality.in_sequences(), 3);
        // one chunk of the three is in a sequence of one
        assert!((locality.up_to(1) - 100.0 / 3.0).abs() < 1e-9);
        assert!((locality.longer(1) - 100.0 * 2.0 / 3.0).abs() < 1e-9);
        assert_eq!((locality.up_to(0), locality.up_to(2)), (0.0, 100.0));
    }

    #[test]
    fn the_first_hint_is_judged_on_debian_alone() {
        let claim = Claim { place: "Figure 14", claim: "", reported: "", measured_by: "" };
        let verdict = |shares: &[(&'static str, Option<f64>)]| {
            first_is_right(&claim, shares.iter().copied()).verdict
        };
        assert_eq!(verdict(&[("Redis", Some(99.0)), ("Debian", Some(91.0))]), Verdict::Holds);
        assert_eq!(verdict(&[("Redis", Some(99.0)), ("Debian", Some(89.0))]), Verdict::Differs);
        assert_eq!(verdict(&[("Redis", Some(99.0))]), Verdict::NotMeasured);
        assert_eq!(verdict(&[("Debian", None)]), Verdict::NotMeasured);
    }

    #[test]
    fn hints_that_are_never_right_are_refused() {
        let dataset = never_right(2 << 20).unwrap();
        let plan = RapidPlan {
            params: Params::new(Algorithm::Rabin, default_sizes().unwrap()),
            criteria: vec![Criterion::FingerprintTest],
            next: 2,
            rounds: 1,
            end_to_end: false,
        };
        let result = measure_rapid(&dataset, &plan, |_| Ok(true)).unwrap();
        let criterion = &result.criteria[0];
        // every second chunk is the known one, and all but its first coming have hints
        let known = criterion.metrics.chunks / 2;
        assert_eq!(criterion.metrics.unique_chunks, known + 1);
        assert!(criterion.misses >= known - 5, "{criterion:?}");
        assert!(criterion.refused >= 2 * known - 10, "{criterion:?}");
        assert!(criterion.hits.iter().sum::<u64>() <= 3, "{criterion:?}");
    }
}
