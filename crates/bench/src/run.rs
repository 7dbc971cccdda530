//! Many chunkers at many means on one source: what they find in all of it, and how fast they are on
//! a sample of it that lies in memory.

use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, Result, bail, ensure};
use onefold_cdc::research::TwoStage;
use onefold_cdc::{Chunker, Kernel, Scheme, cut_points_parallel};
use onefold_fingerprint::Fingerprinter;
use serde::{Deserialize, Serialize};

use crate::counters::{Counters, Counts};
use crate::equal_mean::{Borders, chunker_that_reaches};
use crate::limit::{read_all, read_kernel};
use crate::memory;
use crate::metrics::Findings;
use crate::offload::Offload;
use crate::pin::Pin;
use crate::record::Machine;
use crate::rounds::{Contender, Outcome, Sample, Summary, measure_while, noise};
use crate::source::{Source, Unreadable};
use crate::survey::survey;
use crate::watch::Watch;
use crate::{Dataset, DatasetRecord};

/// Parts of a source that the sample is made of.
const STRETCHES: u64 = 16;

/// The share of the memory that this process may use in which distinct chunks are remembered.
const SHARE_OF_MEMORY: u64 = 4;

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which chunkers.
    pub schemes: Vec<Scheme>,
    /// The mean chunk sizes in bytes that are asked for.
    pub means: Vec<usize>,
    /// Whether parameters are sought with which these means are reached on the sample.
    pub equalise_mean: bool,
    /// Whether chunks reach over the borders of files.
    pub borders: Borders,
    /// The kernels whose speed is measured, of those that run here; [`Kernel::Auto`] is the fastest.
    pub kernels: Vec<Kernel>,
    /// How often each is timed.
    pub rounds: u32,
    /// Bytes of the sample on which time is taken.
    pub sample: usize,
    /// Whether the time of fingerprinting is taken.
    pub fingerprints: bool,
    /// With more than one, cutting by so many threads is timed too, and cutting in two stages.
    pub threads: NonZero<usize>,
    /// Another device whose speed is measured too.
    pub device: Option<Rc<dyn Offload>>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// All of the source, as far as it was cut.
    pub dataset: DatasetRecord,
    /// Whether nobody asked to stop.
    pub is_complete: bool,
    /// Files that are missing from it, or parts of them.
    pub unreadable: Vec<Unreadable>,
    /// Whether chunks reach over the borders of files.
    pub borders: Borders,
    /// Whether the means are those that are reached on the sample.
    pub equalised: bool,
    /// What the speed was measured on.
    pub sample: SampleRecord,
    /// How fast the sample can be read at all.
    pub read_limit: Timing,
    /// One for each algorithm and mean.
    pub entries: Vec<Entry>,
    /// Reasons to distrust the times.
    pub noise: Vec<String>,
    /// What was to be measured, and could not be: what, and why.
    pub missing: Vec<String>,
}

/// The part of a source that lay in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleRecord {
    /// Its bytes.
    pub bytes: u64,
    /// How many parts it is made of; 1 if it is all there is.
    pub stretches: u64,
}

/// One algorithm at one mean.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// As [`Scheme::name`] has it.
    pub algorithm: String,
    /// The mean in bytes that was asked for.
    pub wanted_mean: usize,
    /// The parameter, which is another if means were equalised.
    pub avg: usize,
    /// The shortest chunk.
    pub min: usize,
    /// The longest chunk.
    pub max: usize,
    /// Of the whole source.
    pub findings: Findings,
    /// Of the sample.
    pub timings: Vec<Timing>,
}

/// What was timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Reading every byte.
    Read,
    /// Finding cut-points.
    Cut,
    /// Finding cut-points in two stages: all candidates first.
    CutInTwoStages,
    /// BLAKE3 of each chunk, cut-points being known.
    Fingerprint,
    /// Finding a cut-point, and BLAKE3 of its chunk.
    CutAndFingerprint,
}

/// How long something took on the sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// What.
    pub work: Work,
    /// What computes the cut-points; of [`Work::Read`] the vectors.
    pub kernel: String,
    /// How many threads of the CPU share it; none if another device does it.
    pub threads: usize,
    /// The sample's bytes.
    pub bytes: u64,
    /// One a round; fewer if nobody waited for the rest.
    pub samples: Vec<Sample>,
    /// Of one run; `None` if this machine does not count, or several threads share the work.
    pub counts: Option<Counts>,
}

impl Timing {
    /// Seconds a run: on the CPU for one thread, on the wall for several or none; `None` if no time was
    /// taken.
    pub fn seconds(&self) -> Option<Summary> {
        let seconds = self.samples.iter().map(|sample| match self.threads {
            1 => sample.thread_seconds,
            _ => sample.seconds,
        });
        (!self.samples.is_empty()).then(|| Summary::of(seconds))
    }

    /// How far the times lie from their median, as a share of it; `None` with fewer than two.
    pub fn spread(&self) -> Option<f64> {
        self.seconds().filter(|_| self.samples.len() > 1).map(Summary::spread)
    }

    /// In the median.
    pub fn bytes_per_second(&self) -> Option<f64> {
        Some(self.bytes as f64 / self.seconds()?.median)
    }
}

/// Further than this from the mean that was asked for, as a share of it, duplicates do not compare.
const FAR: f64 = 0.05;

impl Entry {
    /// Whether the mean that was reached is not near the one that was asked for.
    pub fn misses_mean(&self) -> bool {
        (self.findings.metrics.mean / self.wanted_mean as f64 - 1.0).abs() > FAR
    }

    /// The timing of some work by one thread, by the fastest of the kernels.
    pub fn fastest(&self, work: Work) -> Option<&Timing> {
        let timings = self.timings.iter().filter(|one| one.work == work && one.threads == 1);
        let speed = |timing: &&Timing| timing.bytes_per_second();
        timings
            .filter(|timing| speed(timing).is_some())
            .max_by(|a, b| speed(a).partial_cmp(&speed(b)).expect("times are numbers"))
    }

    /// Each kernel's speed in units of the scalar one's, where both were timed.
    pub fn speed_ups(&self) -> Vec<(&str, f64)> {
        let cuts = self.timings.iter().filter(|one| one.work == Work::Cut && one.threads == 1);
        let speeds: Vec<(&str, f64)> = cuts
            .filter_map(|timing| Some((&timing.kernel[..], timing.bytes_per_second()?)))
            .collect();
        let scalar = speeds.iter().find(|(kernel, _)| *kernel == Kernel::Scalar.name());
        let Some(&(_, scalar)) = scalar else { return Vec::new() };
        speeds.into_iter().map(|(kernel, speed)| (kernel, speed / scalar)).collect()
    }
}

/// Measures `plan` on `source`.
///
/// First all of the source is cut by every chunker, then a sample of it is cut by the clock. Kernels
/// that disagree are an error. Whoever stops it through `watch` gets what was measured until then.
pub fn run(source: &mut Source, plan: &Plan, watch: &dyn Watch) -> Result<Results> {
    let sample = Dataset::sample(source, plan.sample, STRETCHES);
    ensure!(!sample.bytes().is_empty(), "{}: no bytes to cut", source.name());
    let is_all = sample.bytes().len() as u64 == source.bytes();
    let inputs: Vec<&[u8]> = match plan.borders {
        Borders::Stream => vec![sample.bytes()],
        Borders::Files => sample.files().collect(),
    };
    let chunkers = chunkers(plan, &inputs, watch)?;
    let is_equalised = plan.equalise_mean && !watch.is_cancelled();
    let memory = memory::allowed(Path::new("/"), Machine::this().memory_bytes) / SHARE_OF_MEMORY;
    let survey = survey(source, plan.borders, &chunkers, memory, watch)?;
    let mut results = Results {
        dataset: DatasetRecord {
            name: source.name().to_owned(),
            digest: survey.digest,
            files: survey.files,
            bytes: survey.bytes,
        },
        is_complete: survey.is_complete,
        unreadable: source.unreadable().to_vec(),
        borders: plan.borders,
        equalised: is_equalised,
        sample: SampleRecord {
            bytes: sample.bytes().len() as u64,
            stretches: if is_all { 1 } else { STRETCHES },
        },
        read_limit: Timing {
            work: Work::Read,
            kernel: read_kernel().to_owned(),
            threads: 1,
            bytes: sample.bytes().len() as u64,
            samples: Vec::new(),
            counts: None,
        },
        entries: Vec::new(),
        noise: Vec::new(),
        missing: missing(plan, &sample),
    };
    results.missing.extend(refusals(plan, &chunkers));
    let wanted = plan.means.iter().flat_map(|&mean| plan.schemes.iter().map(move |_| mean));
    for ((chunker, findings), wanted_mean) in chunkers.iter().zip(survey.findings).zip(wanted) {
        results.entries.push(Entry {
            algorithm: Scheme::of(chunker.params()).name().to_owned(),
            wanted_mean,
            avg: chunker.sizes().avg(),
            min: chunker.sizes().min(),
            max: chunker.sizes().max(),
            findings,
            timings: Vec::new(),
        });
    }
    let pin = Pin::to(plan.threads.get());
    if let Err(reason) = &pin {
        results.missing.push(format!("{reason:#}"));
    }
    take_times(plan, &chunkers, &inputs, &mut results, watch)?;
    Ok(results)
}

/// For each mean one of every scheme.
fn chunkers(plan: &Plan, inputs: &[&[u8]], watch: &dyn Watch) -> Result<Vec<Chunker>> {
    let count = plan.means.len() * plan.schemes.len();
    if plan.equalise_mean {
        watch.begin("looking for parameters", count as u64);
    }
    let mut chunkers = Vec::with_capacity(count);
    for &mean in &plan.means {
        for &scheme in &plan.schemes {
            let place = || format!("{scheme} at a mean of {mean} bytes");
            chunkers.push(match plan.equalise_mean && !watch.is_cancelled() {
                true => chunker_that_reaches(scheme, inputs, mean).with_context(place)?,
                false => {
                    let params = scheme.params_for_mean(mean).with_context(place)?;
                    Chunker::new(&params).with_context(place)?
                }
            });
            watch.advance(1);
        }
    }
    Ok(chunkers)
}

/// What is known from the outset not to be measured.
fn missing(plan: &Plan, sample: &Dataset) -> Vec<String> {
    let mut missing = Vec::new();
    if let Some(cache) = last_cache_bytes()
        && (sample.bytes().len() as u64) < 2 * cache
    {
        let mib = cache >> 20;
        missing.push(format!(
            "speed from memory: the sample is no longer than twice the last cache, which is {mib} MiB"
        ));
    }
    missing.extend(missing_kernels(plan));
    missing
}

/// The chunkers that the plan's device cannot cut by.
fn refusals(plan: &Plan, chunkers: &[Chunker]) -> Vec<String> {
    let Some(device) = &plan.device else { return Vec::new() };
    let mut refusals: Vec<String> = chunkers
        .iter()
        .filter_map(|chunker| Some(format!("{}: {}", device.name(), device.refusal(chunker)?)))
        .collect();
    refusals.dedup();
    refusals
}

/// The kernels of the plan that are written but do not run here, and the algorithms that are left
/// without any.
fn missing_kernels(plan: &Plan) -> Vec<String> {
    let names = |is_one: &dyn Fn(Scheme) -> bool| -> Vec<&str> {
        let ones = plan.schemes.iter().filter(|&&scheme| is_one(scheme));
        ones.map(|scheme| scheme.name()).collect()
    };
    let mut missing = Vec::new();
    for &kernel in &plan.kernels {
        let without = names(&|scheme| {
            scheme.written_kernels().contains(&kernel) && !scheme.kernels().contains(&kernel)
        });
        if !without.is_empty() {
            missing.push(format!("kernel {kernel} of {}: not on this CPU", without.join(", ")));
        }
    }
    let without = names(&|scheme| kernels(plan, scheme).is_empty());
    if !without.is_empty() {
        let without = without.join(", ");
        missing.push(format!("cutting by {without}: none of the kernels asked for runs it here"));
    }
    missing
}

/// Bytes of the largest cache, as the kernel tells of it.
fn last_cache_bytes() -> Option<u64> {
    let sizes = (0..8).filter_map(|i| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{i}/size");
        fs::read_to_string(path).ok()?.trim().strip_suffix('K')?.parse::<u64>().ok()
    });
    sizes.max().map(|kib| kib << 10)
}

/// Of each mean in turn, so that who stops has all of the means before.
fn take_times(
    plan: &Plan,
    chunkers: &[Chunker],
    inputs: &[&[u8]],
    results: &mut Results,
    watch: &dyn Watch,
) -> Result<()> {
    let mut counters = match Counters::open() {
        Ok(counters) => Some(counters),
        Err(reason) => {
            results.missing.push(format!("instructions, branches and misses: {reason:#}"));
            None
        }
    };
    let cells = plan.schemes.len();
    for (chunkers, entries) in chunkers.chunks(cells).zip(results.entries.chunks_mut(cells)) {
        let mut field = Field::default();
        field.enter(None, Work::Read, read_kernel(), 1, move |_| {
            for input in inputs {
                std::hint::black_box(read_all(input));
            }
        });
        for (cell, chunker) in chunkers.iter().enumerate() {
            field.enter_all(cell, chunker, plan, inputs)?;
        }
        let Field { contenders, places } = field;
        let runs = contenders.len() as u64 * u64::from(plan.rounds + 1);
        watch.begin("taking times", runs);
        let outcomes = measure_while(contenders, plan.rounds, counters.as_mut(), |_| {
            watch.advance(1);
            Ok(!watch.is_cancelled())
        })?;
        if let Some(lost) = plan.device.as_ref().and_then(|device| device.lost()) {
            bail!("{lost}; what was timed since is not its speed");
        }
        let timed = outcomes.iter().zip(&places);
        let timed = timed.filter(|(outcome, _)| !outcome.samples.is_empty());
        let (quiet, _): (Vec<_>, Vec<_>) = timed.clone().partition(|(_, place)| place.threads == 1);
        results.noise.extend(noise(quiet.into_iter().map(|(outcome, _)| outcome)));
        for (outcome, place) in timed {
            let timing = place.timing(outcome, results.sample.bytes);
            match place.cell {
                Some(cell) => entries[cell].timings.push(timing),
                None => results.read_limit.samples.extend(timing.samples),
            }
        }
        if watch.is_cancelled() {
            results.is_complete = false;
            break;
        }
    }
    Ok(())
}

/// Contenders, and what each of them is.
#[derive(Default)]
struct Field<'a> {
    contenders: Vec<Contender<'a>>,
    places: Vec<Place>,
}

struct Place {
    /// Which of the schemes; none of them for the read limit.
    cell: Option<usize>,
    work: Work,
    kernel: String,
    threads: usize,
}

impl<'a> Field<'a> {
    fn enter(
        &mut self,
        scheme: Option<(usize, Scheme)>,
        work: Work,
        kernel: &str,
        threads: usize,
        run: impl FnMut(&mut Vec<usize>) + 'a,
    ) {
        let place =
            Place { cell: scheme.map(|(cell, _)| cell), work, kernel: kernel.to_owned(), threads };
        let name = place.name(scheme.map(|(_, scheme)| scheme));
        let contender = Contender::new(name, run);
        // whoever finds the cut-points of an algorithm finds those of its first contender
        let finds = |work| work != Work::Fingerprint;
        let mut others = self.places.iter();
        let first = others.position(|other| other.cell == place.cell && finds(other.work));
        self.contenders.push(match first {
            Some(first) if finds(work) => contender.equal_to(self.contenders[first].name()),
            _ => contender,
        });
        self.places.push(place);
    }

    /// All that is timed of one chunker.
    fn enter_all(
        &mut self,
        cell: usize,
        chunker: &'a Chunker,
        plan: &Plan,
        inputs: &'a [&'a [u8]],
    ) -> Result<()> {
        let params = chunker.params();
        let scheme = Scheme::of(params);
        let entered = Some((cell, scheme));
        for kernel in kernels(plan, scheme) {
            let chunker = Chunker::with_kernel(params, kernel)?;
            self.enter(entered, Work::Cut, kernel.name(), 1, move |found| {
                for input in inputs {
                    found.extend(chunker.cut_points(input));
                }
            });
        }
        let kernel = chunker.kernel().name();
        if plan.fingerprints {
            self.enter_fingerprints(entered, chunker, inputs);
        }
        if let Some(device) = &plan.device
            && device.refusal(chunker).is_none()
        {
            let mut works = vec![(Work::Cut, false)];
            works.extend(plan.fingerprints.then_some((Work::CutAndFingerprint, true)));
            for (work, fingerprinted) in works {
                let device_of = Rc::clone(device);
                self.enter(entered, work, &device.name(), 0, move |found| {
                    for input in inputs {
                        device_of.cut(chunker, input, fingerprinted, found);
                    }
                });
            }
        }
        let threads = plan.threads;
        if threads.get() > 1 {
            self.enter(entered, Work::Cut, kernel, threads.get(), move |found| {
                for input in inputs {
                    found.extend(cut_points_parallel(chunker, input, threads));
                }
            });
            if let Ok(two_stage) = TwoStage::new(params) {
                self.enter(entered, Work::CutInTwoStages, kernel, 1, move |found| {
                    for input in inputs {
                        found.extend(two_stage.cut_points(input));
                    }
                });
            }
        }
        Ok(())
    }

    fn enter_fingerprints(
        &mut self,
        scheme: Option<(usize, Scheme)>,
        chunker: &'a Chunker,
        inputs: &'a [&'a [u8]],
    ) {
        let fingerprinter = Fingerprinter::blake3();
        let kernel = chunker.kernel().name();
        let cuts: Vec<Vec<usize>> =
            inputs.iter().map(|input| chunker.cut_points(input).collect()).collect();
        self.enter(scheme, Work::Fingerprint, kernel, 1, move |_| {
            for (input, cuts) in inputs.iter().zip(&cuts) {
                let mut start = 0;
                for &end in cuts {
                    let chunk = &input[std::mem::replace(&mut start, end)..end];
                    std::hint::black_box(fingerprinter.fingerprint(chunk));
                }
            }
        });
        let fingerprinter = Fingerprinter::blake3();
        self.enter(scheme, Work::CutAndFingerprint, kernel, 1, move |found| {
            for input in inputs {
                let mut start = 0;
                for end in chunker.cut_points(input) {
                    let chunk = &input[std::mem::replace(&mut start, end)..end];
                    std::hint::black_box(fingerprinter.fingerprint(chunk));
                    found.push(end);
                }
            }
        });
    }
}

/// Those of the plan that run `scheme` here, the fastest first.
fn kernels(plan: &Plan, scheme: Scheme) -> Vec<Kernel> {
    let usable = scheme.kernels();
    let is_wanted = |kernel: &Kernel| {
        plan.kernels.contains(kernel)
            || plan.kernels.contains(&Kernel::Auto) && *kernel == usable[0]
    };
    usable.iter().copied().filter(is_wanted).collect()
}

impl Place {
    /// As it is called where the times of many contenders are judged.
    fn name(&self, scheme: Option<Scheme>) -> String {
        let Some(scheme) = scheme else { return "read limit".into() };
        let Self { kernel, threads, .. } = self;
        let name = format!("{scheme}, {kernel}");
        match self.work {
            Work::Read | Work::Cut if *threads <= 1 => name,
            Work::Read | Work::Cut => format!("{name}, {threads} threads"),
            Work::CutInTwoStages => format!("{name}, in two stages"),
            Work::Fingerprint => format!("{name}, fingerprints alone"),
            Work::CutAndFingerprint => format!("{name}, with fingerprints"),
        }
    }

    fn timing(&self, outcome: &Outcome, bytes: u64) -> Timing {
        Timing {
            work: self.work,
            kernel: self.kernel.clone(),
            threads: self.threads,
            bytes,
            samples: outcome.samples.clone(),
            // the counters are those of the thread that measures
            counts: outcome.counts.filter(|_| self.threads == 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_of_many_threads_counted_is_not_told() {
        let counts = Counts {
            instructions: 1,
            branches: None,
            branch_misses: None,
            l1d_read_misses: None,
            cache_misses: None,
        };
        let outcome = Outcome {
            name: String::new(),
            equal_to: None,
            cut_points: Vec::new(),
            samples: Vec::new(),
            counts: Some(counts),
        };
        let counted = |threads| {
            let place = Place { cell: None, work: Work::Cut, kernel: String::new(), threads };
            place.timing(&outcome, 1).counts
        };
        assert_eq!((counted(1), counted(2)), (Some(counts), None));
    }
}
