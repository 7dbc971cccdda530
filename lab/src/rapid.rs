//! RapidCDC measured: what it makes of an algorithm's time on data that come again.
//!
//! The paper's speed-up counts the time of chunking alone, since deduplication computes the
//! fingerprint of every chunk anyway. To have that time without a clock around every chunk, the
//! fingerprints are computed beforehand and read off in order while the clock runs; what is timed
//! is the search, the look-ups in the hints, the test of each hint and what is learned. A
//! fingerprint that the fingerprint test computes in vain is computed while the clock runs. Apart
//! from that, all of it is timed end to end, fingerprints and look-ups with it, for RapidCDC and
//! for the algorithm alone with the same table of known chunks.
//!
//! Each round begins with empty hints. Each file is one input.

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::hint::black_box;

use anyhow::Result;
use onefold_bench::{Contender, Dataset, Metrics, Outcome, Pin, Sample, measure_while, noise};
use onefold_cdc::research::MemoryHints;
use onefold_cdc::{
    Algorithm, Chunker, Criterion, Hints, Kernel, NextChunk, Params, Rapid, RapidCounters,
};
use serde::{Deserialize, Serialize};

type Print = [u8; 32];

type Fingerprint = fn(&[u8]) -> Print;

fn blake3(chunk: &[u8]) -> Print {
    *blake3::hash(chunk).as_bytes()
}

/// What is measured of one algorithm.
#[derive(Clone, Debug)]
pub struct RapidPlan {
    /// The algorithm and its sizes.
    pub params: Params,
    /// What hints are held to; those that the algorithm has no test for are left out.
    pub criteria: Vec<Criterion>,
    /// Next chunks kept for each chunk.
    pub next: usize,
    /// Times that everything is timed.
    pub rounds: u32,
    /// Whether chunking with fingerprints and look-ups is timed as well.
    pub end_to_end: bool,
}

/// What one algorithm came to on one dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RapidResult {
    /// The algorithm's name.
    pub algorithm: String,
    /// Bounds and mean in bytes.
    pub sizes: [usize; 3],
    /// Next chunks kept for each chunk.
    pub next: usize,
    /// Of the algorithm alone.
    pub metrics: Metrics,
    /// With each criterion that was reached, in the order of the plan.
    pub criteria: Vec<CriterionResult>,
    /// Everything that was timed.
    pub times: Vec<Times>,
    /// Reasons to distrust the times.
    pub noise: Vec<String>,
}

/// What one criterion came to; its times are those under its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CriterionResult {
    /// FF, FF+RWT, FF+MT1 to FF+MT4, FF+RWT+FPT, FF+MT4+FPT.
    pub name: String,
    /// Of its cut-points.
    pub metrics: Metrics,
    /// Chunks that ended where a hint said, by its position in the list.
    pub hits: Vec<u64>,
    /// Chunks for which there were hints and none was accepted.
    pub misses: u64,
    /// Hints that were not accepted.
    pub refused: u64,
    /// Bytes in which a cut-point was sought, of each byte cut.
    pub scanned_per_byte: f64,
    /// Bytes fingerprinted for a hint that was then refused, of each byte cut.
    pub fingerprinted_in_vain_per_byte: f64,
}

/// The samples of one way to cut.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// `alone`, `fixed`, `ideal` or a criterion.
    pub way: String,
    /// The kernel that seeks; none for `fixed` and `ideal`.
    pub kernel: Option<String>,
    /// Whether fingerprints and look-ups are in the times.
    pub end_to_end: bool,
    /// One a round.
    pub samples: Vec<Sample>,
}

impl RapidResult {
    /// The median time of a way on the CPU, in seconds, or `None` if it was not timed.
    pub fn seconds(&self, way: &str, kernel: Option<&str>, end_to_end: bool) -> Option<f64> {
        let timed = self.times.iter().find(|times| {
            times.way == way && times.kernel.as_deref() == kernel && times.end_to_end == end_to_end
        })?;
        if timed.samples.is_empty() {
            return None;
        }
        Some(
            onefold_bench::Summary::of(timed.samples.iter().map(|sample| sample.thread_seconds))
                .median,
        )
    }

    /// A table for the terminal and for documents.
    pub fn table(&self) -> String {
        let fastest = self.kernels().last().cloned().unwrap_or_default();
        let alone = |kernel: &str| self.seconds("alone", Some(kernel), false);
        let ratio = self.metrics.dedup_ratio();
        let mut text = format!(
            "{} {}/{}/{}, dedup ratio {ratio:.2}, {:.0} chunks of {:.0} bytes; alone {} GB/s\n\n\
             | criterion | kernel | speed-up over scalar | of the ratio | over {fastest} | dedup | \
             scanned | hits 1, 2 | misses | end to end |\n\
             | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
            self.algorithm,
            self.sizes[0],
            self.sizes[1],
            self.sizes[2],
            self.metrics.chunks,
            self.metrics.mean,
            self.speeds(),
        );
        let share = |of: Option<f64>, by: Option<f64>| match (of, by) {
            (Some(of), Some(by)) if by > 0.0 => of / by,
            _ => f64::NAN,
        };
        for criterion in &self.criteria {
            for kernel in self.kernels() {
                let seconds = self.seconds(&criterion.name, Some(&kernel), false);
                let over_scalar = share(alone("scalar"), seconds);
                let whole = self.seconds(&criterion.name, Some(&kernel), true);
                let gain = share(self.seconds("alone", Some(&kernel), true), whole);
                let dedup = criterion.metrics.dedup_ratio() / ratio - 1.0;
                let _ = writeln!(
                    text,
                    "| {} | {kernel} | {over_scalar:.2} | {:.2} | {:.2} | {:+.2} % | {:.4} | {}, {} | {} | {gain:.2} |",
                    criterion.name,
                    over_scalar / ratio,
                    share(alone(&fastest), seconds),
                    100.0 * dedup,
                    criterion.scanned_per_byte,
                    criterion.hits.first().unwrap_or(&0),
                    criterion.hits.get(1).unwrap_or(&0),
                    criterion.misses,
                );
            }
        }
        for way in ["fixed", "ideal"] {
            let over = share(alone("scalar"), self.seconds(way, None, false));
            let whole = self.seconds(way, None, true);
            let gain = share(self.seconds("alone", Some(&fastest), true), whole);
            let _ = writeln!(
                text,
                "| {way} | | {over:.0} | | {:.0} | | 0 | | | {gain:.2} |",
                share(alone(&fastest), self.seconds(way, None, false)),
            );
        }
        text
    }

    /// The kernels that were timed: scalar, and the fastest if it is another.
    fn kernels(&self) -> Vec<String> {
        let alone = self.times.iter().filter(|times| times.way == "alone" && !times.end_to_end);
        alone.filter_map(|times| times.kernel.clone()).collect()
    }

    fn speeds(&self) -> String {
        let speed = |kernel: &String| {
            let seconds = self.seconds("alone", Some(kernel), false).unwrap_or(f64::NAN);
            format!("{:.2} ({kernel})", self.metrics.bytes as f64 / seconds / 1e9)
        };
        self.kernels().iter().map(speed).collect::<Vec<_>>().join(", ")
    }
}

/// Measures one algorithm on `dataset`, each file an input of its own, on one CPU.
///
/// Before the clock starts, the kernels are compared, and the cut-points under the fingerprint test
/// with those of the algorithm alone. `goes_on` is asked as by [`measure_while`]; where it says no,
/// what was measured until then is the result.
pub fn measure_rapid(
    dataset: &Dataset,
    plan: &RapidPlan,
    mut goes_on: impl FnMut(u32) -> Result<bool>,
) -> Result<RapidResult> {
    let pin = Pin::to(1);
    let files: Vec<&[u8]> = dataset.files().collect();
    let mut kernels = vec![Kernel::Scalar];
    let fastest = Chunker::new(&plan.params)?.kernel();
    if fastest != Kernel::Scalar {
        kernels.push(fastest);
    }
    let chunkers: Vec<Chunker> = kernels
        .iter()
        .map(|&kernel| Chunker::with_kernel(&plan.params, kernel))
        .collect::<Result<_, _>>()?;
    let regular = cut_alone(&chunkers[0], &files);

    let mut criteria = Vec::new();
    for &criterion in &plan.criteria {
        if !goes_on(0)? {
            break;
        }
        if let Ok(rapid) = Rapid::new(chunkers[chunkers.len() - 1].clone(), criterion) {
            criteria.push((criterion, Replay::record(&rapid, &files, plan.next)));
        }
    }
    let ways = Ways { files: &files, plan, chunkers: &chunkers, regular: &regular };
    let mut labels = Vec::new();
    let mut contenders = Vec::new();
    let ends: &[bool] = if plan.end_to_end { &[false, true] } else { &[false] };
    for &end_to_end in ends {
        for (label, contender) in ways.all(&criteria, end_to_end)? {
            labels.push(label);
            contenders.push(contender);
        }
    }
    let outcomes = measure_while(contenders, plan.rounds, None, goes_on)?;

    let metrics = Metrics::of(dataset.bytes(), regular.iter().copied());
    let mut results = Vec::new();
    for (criterion, replay) in &criteria {
        let name = name(*criterion);
        let of_it = |outcome: &&Outcome| outcome.name.starts_with(&format!("{name}, "));
        let Some(outcome) = outcomes.iter().find(of_it) else { break };
        let metrics = Metrics::of(dataset.bytes(), outcome.cut_points.iter().copied());
        results.push(replay.result(name, metrics));
    }
    let mut noise = noise(outcomes.iter().filter(|outcome| !outcome.samples.is_empty()));
    noise.extend(pin.err().map(|reason| format!("{reason:#}")));
    for (times, outcome) in labels.iter_mut().zip(outcomes) {
        times.samples = outcome.samples;
    }
    labels.retain(|times| !times.samples.is_empty());
    let sizes = plan.params.sizes;
    Ok(RapidResult {
        algorithm: plan.params.algorithm.to_string(),
        sizes: [sizes.min(), sizes.avg(), sizes.max()],
        next: plan.next,
        metrics,
        criteria: results,
        times: labels,
        noise,
    })
}

/// The paper's name of a criterion, with the bytes of its marker.
pub fn name(criterion: Criterion) -> String {
    match criterion {
        Criterion::FastForward => "FF".into(),
        Criterion::WindowTest => "FF+RWT".into(),
        Criterion::MarkerTest { bytes } => format!("FF+MT{bytes}"),
        Criterion::FingerprintTest => "FF+RWT+FPT".into(),
        Criterion::MarkerFingerprintTest => "FF+MT4+FPT".into(),
        other => format!("{other:?}"),
    }
}

fn cut_alone(chunker: &Chunker, files: &[&[u8]]) -> Vec<usize> {
    let mut cut_points = Vec::new();
    let mut base = 0;
    for file in files {
        cut_points.extend(chunker.cut_points(file).map(|end| base + end));
        base += file.len();
    }
    cut_points
}

/// All that is timed.
struct Ways<'a> {
    files: &'a [&'a [u8]],
    plan: &'a RapidPlan,
    chunkers: &'a [Chunker],
    /// Cut-points of the algorithm alone.
    regular: &'a [usize],
}

type Labelled<'a> = (Times, Contender<'a>);

impl<'a> Ways<'a> {
    fn all(
        &self,
        criteria: &'a [(Criterion, Replay)],
        end_to_end: bool,
    ) -> Result<Vec<Labelled<'a>>> {
        let mut all = Vec::new();
        for chunker in self.chunkers {
            all.push(self.alone(chunker, end_to_end));
        }
        for (criterion, replay) in criteria {
            for chunker in self.chunkers {
                all.push(self.rapid(chunker, *criterion, replay, end_to_end)?);
            }
        }
        let len = self.plan.params.sizes.avg();
        let fixed = Chunker::new(&Params::for_mean(Algorithm::Fixed, len)?)?;
        all.push(self.known_before("fixed", cut_alone(&fixed, self.files), end_to_end));
        all.push(self.known_before("ideal", self.regular.to_vec(), end_to_end));
        Ok(all)
    }

    fn alone(&self, chunker: &'a Chunker, end_to_end: bool) -> Labelled<'a> {
        let (files, next) = (self.files, self.plan.next);
        let (times, name) = label("alone", Some(chunker.kernel()), end_to_end);
        let contender = Contender::new(name, move |cut_points| {
            let mut known = Known::new(end_to_end.then_some(next));
            let mut base = 0;
            for file in files {
                let mut start = 0;
                for end in chunker.cut_points(file) {
                    known.take_in(&file[start..end]);
                    cut_points.push(base + end);
                    start = end;
                }
                base += file.len();
            }
        });
        let scalar = label("alone", Some(Kernel::Scalar), false).1;
        let is_scalar = chunker.kernel() == Kernel::Scalar && !end_to_end;
        (times, if is_scalar { contender } else { contender.equal_to(scalar) })
    }

    fn rapid(
        &self,
        chunker: &Chunker,
        criterion: Criterion,
        replay: &'a Replay,
        end_to_end: bool,
    ) -> Result<Labelled<'a>> {
        let rapid = Rapid::new(chunker.clone(), criterion)?;
        let (files, next) = (self.files, self.plan.next);
        let (times, name) = label(&name(criterion), Some(chunker.kernel()), end_to_end);
        let contender = Contender::new(name, move |cut_points| {
            let hints = MemoryHints::with_next(blake3, next);
            if end_to_end {
                cut_rapidly(&rapid, files, &hints, cut_points);
            } else {
                let hints = Replaying { hints, replay, at: Cell::new(0) };
                cut_rapidly(&rapid, files, &hints, cut_points);
            }
        });
        let scalar = Some(Kernel::Scalar);
        let model = match criterion {
            Criterion::FingerprintTest | Criterion::MarkerFingerprintTest => {
                label("alone", scalar, false).1
            }
            _ => label(&self::name(criterion), scalar, false).1,
        };
        Ok((times, if model == contender.name() { contender } else { contender.equal_to(model) }))
    }

    /// Cut-points that need no search.
    fn known_before(&self, way: &str, cuts: Vec<usize>, end_to_end: bool) -> Labelled<'a> {
        let (files, next) = (self.files, self.plan.next);
        let (times, name) = label(way, None, end_to_end);
        let contender = Contender::new(name, move |cut_points| {
            let mut known = Known::new(end_to_end.then_some(next));
            let mut cuts = cuts.iter().copied();
            let mut base = 0;
            for file in files {
                let mut start = 0;
                while start < file.len() {
                    let end = cuts.next().expect("cut-points up to the end of each file");
                    known.take_in(&file[start..end - base]);
                    cut_points.push(end);
                    start = end - base;
                }
                base += file.len();
            }
        });
        (times, contender)
    }
}

fn cut_rapidly<H: Hints>(rapid: &Rapid, files: &[&[u8]], hints: &H, cut_points: &mut Vec<usize>) {
    let mut base = 0;
    for file in files {
        let mut input = rapid.start(hints);
        let mut start = 0;
        while let Some(chunk) = input.next(&file[start..]) {
            start += chunk.len;
            cut_points.push(base + start);
        }
        base += file.len();
    }
}

/// Times without samples, and the name of their contender.
fn label(way: &str, kernel: Option<Kernel>, end_to_end: bool) -> (Times, String) {
    let kernel = kernel.map(|kernel| kernel.to_string());
    let by = kernel.as_deref().unwrap_or("no kernel");
    let name = format!("{way}, {by}{}", if end_to_end { ", end to end" } else { "" });
    (Times { way: way.to_owned(), kernel, end_to_end, samples: Vec::new() }, name)
}

/// The table of known chunks as deduplication without RapidCDC uses it; nothing where chunking
/// alone is timed.
struct Known(Option<MemoryHints<Print, Fingerprint>>);

impl Known {
    fn new(next: Option<usize>) -> Self {
        Self(next.map(|next| MemoryHints::with_next(blake3 as Fingerprint, next)))
    }

    #[inline]
    fn take_in(&mut self, chunk: &[u8]) {
        if let Some(table) = &self.0 {
            let fingerprint = table.fingerprint(chunk);
            if table.look_up(&fingerprint, None).is_none() {
                table.learn(&fingerprint, true);
            }
        }
    }
}

/// The fingerprints that a criterion asks for, in order.
struct Replay {
    fingerprints: Vec<Print>,
    /// Those that were computed to test a hint that was then refused.
    in_vain: Vec<bool>,
    counters: RapidCounters,
}

impl Replay {
    fn record(rapid: &Rapid, files: &[&[u8]], next: usize) -> Self {
        let asked = RefCell::new(Vec::new());
        let hints = MemoryHints::with_next(
            |chunk: &[u8]| {
                let fingerprint = blake3(chunk);
                asked.borrow_mut().push(fingerprint);
                fingerprint
            },
            next,
        );
        let mut in_vain = Vec::new();
        let mut counters = RapidCounters::default();
        for file in files {
            let mut input = rapid.start(&hints);
            let mut start = 0;
            while let Some(chunk) = input.next(&file[start..]) {
                start += chunk.len;
                // the last one asked for is the chunk's
                in_vain.resize(asked.borrow().len() - 1, true);
                in_vain.push(false);
            }
            counters += *input.counters();
        }
        drop(hints);
        Self { fingerprints: asked.into_inner(), in_vain, counters }
    }

    fn result(&self, name: String, metrics: Metrics) -> CriterionResult {
        let counters = &self.counters;
        let per_byte = |bytes: u64| bytes as f64 / metrics.bytes as f64;
        CriterionResult {
            name,
            metrics,
            hits: counters.hits.to_vec(),
            misses: counters.misses,
            refused: counters.refused,
            scanned_per_byte: per_byte(counters.scanned_bytes),
            fingerprinted_in_vain_per_byte: per_byte(counters.fingerprinted_in_vain),
        }
    }
}

/// Hints that read fingerprints off, but for those in vain.
struct Replaying<'a, H> {
    hints: H,
    replay: &'a Replay,
    at: Cell<usize>,
}

impl<H: Hints<Fingerprint = Print>> Hints for Replaying<'_, H> {
    type Fingerprint = Print;
    type Place = H::Place;

    #[inline]
    fn fingerprint(&self, chunk: &[u8]) -> Print {
        let at = self.at.get();
        self.at.set(at + 1);
        if self.replay.in_vain[at] {
            return black_box(self.hints.fingerprint(chunk));
        }
        self.replay.fingerprints[at]
    }

    #[inline]
    fn look_up(&self, fingerprint: &Print, guess: Option<H::Place>) -> Option<H::Place> {
        self.hints.look_up(fingerprint, guess)
    }

    #[inline]
    fn is_by_rule(&self, place: H::Place) -> bool {
        self.hints.is_by_rule(place)
    }

    #[inline]
    fn next(&self, place: H::Place, position: usize) -> Option<(NextChunk, Option<H::Place>)> {
        self.hints.next(place, position)
    }

    fn learn(&self, fingerprint: &Print, by_rule: bool) -> Option<H::Place> {
        self.hints.learn(fingerprint, by_rule)
    }

    fn learn_next(&self, place: H::Place, next: NextChunk, kept: H::Place) {
        self.hints.learn_next(place, next, kept);
    }
}

#[cfg(test)]
mod tests {
    use onefold_cdc::ChunkSizes;

    use super::*;

    /// Three copies of 200,000 random bytes, of which the third has one byte changed.
    fn copies() -> Dataset {
        let bytes = Dataset::random(1, 200_000).bytes().to_vec();
        let mut changed = bytes.clone();
        changed[100_000] ^= 1;
        Dataset::of("copies", [bytes.clone(), bytes, changed])
    }

    #[test]
    fn what_is_planted_is_what_is_counted() {
        let sizes = ChunkSizes::new(512, 2048, 8192).unwrap();
        let criteria = vec![
            Criterion::FastForward,
            Criterion::MarkerTest { bytes: 4 },
            Criterion::FingerprintTest,
        ];
        let params = Params::new(Algorithm::Gear, sizes);
        let plan = RapidPlan { params, criteria, next: 2, rounds: 1, end_to_end: true };
        let result = measure_rapid(&copies(), &plan, |_| Ok(true)).unwrap();
        assert_eq!(result.metrics.bytes, 600_000);
        // the first copy is sought, and of the others the first chunk and those around the change
        let others = 4.0 * 8192.0 / 600_000.0;
        for criterion in &result.criteria {
            let scanned = criterion.scanned_per_byte;
            assert!((1.0 / 3.0..1.0 / 3.0 + others).contains(&scanned), "{criterion:?}");
            assert!(criterion.metrics.unique_bytes >= 200_000);
            let chunks = criterion.hits.iter().sum::<u64>();
            assert!(chunks < criterion.metrics.chunks * 2 / 3, "{criterion:?}");
        }
        let [.., exact] = &result.criteria[..] else { panic!("three criteria") };
        assert_eq!(exact.metrics, result.metrics);
        assert!(result.times.iter().all(|times| times.samples.len() == 1));
        // alone, each criterion and the two baselines, chunking alone and end to end
        let kernels = result.kernels().len();
        assert_eq!(result.times.len(), 2 * (kernels * 4 + 2));
        assert!(result.table().contains("| FF+RWT+FPT | scalar |"), "{}", result.table());
        let chunking = RapidPlan { end_to_end: false, ..plan };
        let result = measure_rapid(&copies(), &chunking, |_| Ok(true)).unwrap();
        assert_eq!(result.times.len(), kernels * 4 + 2);
        assert!(result.times.iter().all(|times| !times.end_to_end));
    }

    #[test]
    fn who_stops_keeps_the_rounds_and_criteria_there_are() {
        let sizes = ChunkSizes::new(512, 2048, 8192).unwrap();
        let plan = RapidPlan {
            params: Params::new(Algorithm::Gear, sizes),
            criteria: vec![Criterion::FastForward, Criterion::FingerprintTest],
            next: 2,
            rounds: 3,
            end_to_end: false,
        };
        let copies = copies();
        let mut asked = 0;
        let whole = measure_rapid(&copies, &plan, |_| {
            asked += 1;
            Ok(true)
        });
        assert_eq!(whole.unwrap().criteria.len(), 2);
        for answers in [0, 1, 2, 3, asked / 2, asked - 1] {
            let mut left = answers;
            let result = measure_rapid(&copies, &plan, |_| {
                left -= 1;
                Ok(left >= 0)
            });
            let result = result.unwrap();
            let samples: usize = result.times.iter().map(|times| times.samples.len()).sum();
            // the criteria are recorded first, then each contender runs once before the rounds
            let before = asked - 3 * (asked - 2) / 4;
            assert_eq!(samples, usize::try_from(answers - before).unwrap_or(0), "{answers}");
            assert!(result.criteria.len() <= 2 && !result.table().is_empty());
            assert_eq!(result.metrics.bytes, 600_000);
        }
    }
}
