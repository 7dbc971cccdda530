//! Contenders on the same data, timed in turn.
//!
//! Rounds are interleaved and each starts with another contender, so that a slow minute of the
//! machine does not fall on one of them alone. Who claims to find the same as another is compared
//! with it before any clock starts.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::counters::{Counters, Counts};

/// With fewer rounds a median says little.
pub const FEWEST_ROUNDS: u32 = 7;

/// A spread above this share of the median is noise that could hide a difference.
const NOISY_SPREAD: f64 = 0.03;

/// More wall time than thread time by this share: others had the CPU.
const NOISY_WAIT: f64 = 0.05;

/// Appends the cut-points that it finds.
type Work<'a> = Box<dyn FnMut(&mut Vec<usize>) + 'a>;

/// Something that finds cut-points, under a name.
pub struct Contender<'a> {
    name: String,
    equal_to: Option<String>,
    work: Work<'a>,
}

impl<'a> Contender<'a> {
    /// `work` appends all cut-points to an empty vector that has room for them; it runs on the
    /// thread that measures.
    pub fn new(name: impl Into<String>, work: impl FnMut(&mut Vec<usize>) + 'a) -> Self {
        Self { name: name.into(), equal_to: None, work: Box::new(work) }
    }

    /// What it is called in tables and records.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whose cut-points it claims.
    pub fn model(&self) -> Option<&str> {
        self.equal_to.as_deref()
    }

    /// Claims the cut-points of the contender of that name.
    #[must_use]
    pub fn equal_to(mut self, name: impl Into<String>) -> Self {
        self.equal_to = Some(name.into());
        self
    }
}

/// One run of one contender.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// From 1.
    pub round: u32,
    /// Wall time.
    pub seconds: f64,
    /// Time on the CPU of the thread that measures; of other threads it knows nothing.
    pub thread_seconds: f64,
}

/// What a contender found, and how long it took each time.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The contender's name.
    pub name: String,
    /// The contender with which it was found to agree.
    pub equal_to: Option<String>,
    /// The cut-points of the first run, which is not timed.
    pub cut_points: Vec<usize>,
    /// One a round.
    pub samples: Vec<Sample>,
    /// Of one run beside the rounds, if the CPU's counters were at hand.
    pub counts: Option<Counts>,
}

impl Outcome {
    /// Of the wall times.
    pub fn seconds(&self) -> Summary {
        Summary::of(self.samples.iter().map(|sample| sample.seconds))
    }

    /// Of the thread's times on the CPU.
    pub fn thread_seconds(&self) -> Summary {
        Summary::of(self.samples.iter().map(|sample| sample.thread_seconds))
    }
}

/// The middle of some samples, and how far they lie from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The middle sample, or the mean of the two in the middle.
    pub median: f64,
    /// The median of the distances from the median.
    pub deviation: f64,
}

impl Summary {
    /// Of at least one sample.
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Self {
        let mut samples: Vec<f64> = samples.into_iter().collect();
        let median = median(&mut samples);
        let mut distances: Vec<f64> =
            samples.iter().map(|sample| (sample - median).abs()).collect();
        Self { median, deviation: self::median(&mut distances) }
    }

    /// The deviation as a share of the median.
    pub fn spread(self) -> f64 {
        if self.median > 0.0 { self.deviation / self.median } else { 0.0 }
    }
}

fn median(samples: &mut [f64]) -> f64 {
    assert!(!samples.is_empty(), "no samples, no median");
    samples.sort_by(f64::total_cmp);
    let middle = samples.len() / 2;
    if samples.len() % 2 == 1 {
        samples[middle]
    } else {
        f64::midpoint(samples[middle - 1], samples[middle])
    }
}

/// Runs every contender once to compare what they find, then `rounds` times by the clock.
///
/// `between` is called with the number of each round before it begins, for what is measured
/// elsewhere. An error if cut-points that were claimed equal are not, or a later run of a contender
/// finds another number of them than its first.
pub fn measure(
    contenders: Vec<Contender>,
    rounds: u32,
    mut between: impl FnMut(u32) -> Result<()>,
) -> Result<Vec<Outcome>> {
    let mut begun = 0;
    measure_while(contenders, rounds, None, |round| {
        if round > begun {
            begun = round;
            between(round)?;
        }
        Ok(true)
    })
}

/// As [`measure`], and one run of each besides for the CPU to count; `goes_on` is asked before each
/// run of each contender, with the number of the round, which is 0 until times are taken, and stays
/// when they are.
///
/// Where it says no, what was measured until then is the outcome: the samples of some contenders,
/// or of all, are fewer or none.
pub fn measure_while(
    mut contenders: Vec<Contender>,
    rounds: u32,
    mut counters: Option<&mut Counters>,
    mut goes_on: impl FnMut(u32) -> Result<bool>,
) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for contender in &mut contenders {
        if !goes_on(0)? {
            return Ok(outcomes);
        }
        outcomes.push(first_run(contender));
    }
    for outcome in &outcomes {
        assert_agrees(outcome, &outcomes)?;
    }
    let longest = outcomes.iter().map(|outcome| outcome.cut_points.len()).max();
    let mut cut_points = Vec::with_capacity(longest.unwrap_or(0));
    for round in 1..=rounds {
        let count = contenders.len();
        for place in (0..count).map(|i| (i + round as usize - 1) % count) {
            if !goes_on(round)? {
                return Ok(outcomes);
            }
            let (contender, outcome) = (&mut contenders[place], &mut outcomes[place]);
            outcome.samples.push(timed_run(contender, round, &mut cut_points)?);
            ensure!(
                cut_points.len() == outcome.cut_points.len(),
                "{}: {} cut-points in round {round}, {} in its first run",
                outcome.name,
                cut_points.len(),
                outcome.cut_points.len()
            );
        }
    }
    if let Some(counters) = &mut counters {
        for (contender, outcome) in contenders.iter_mut().zip(&mut outcomes) {
            if !goes_on(rounds)? {
                break;
            }
            cut_points.clear();
            let work = || (contender.work)(black_box(&mut cut_points));
            // shared counters are counters that are missing
            outcome.counts = counters.count(work).ok();
        }
    }
    Ok(outcomes)
}

fn first_run(contender: &mut Contender) -> Outcome {
    let mut cut_points = Vec::new();
    (contender.work)(&mut cut_points);
    Outcome {
        name: contender.name.clone(),
        equal_to: contender.equal_to.clone(),
        cut_points,
        samples: Vec::new(),
        counts: None,
    }
}

fn assert_agrees(outcome: &Outcome, all: &[Outcome]) -> Result<()> {
    let Some(model) = &outcome.equal_to else { return Ok(()) };
    let model = all.iter().find(|other| other.name == *model);
    let model = model.with_context(|| format!("{}: equal to nobody known", outcome.name))?;
    let (found, expected) = (&outcome.cut_points, &model.cut_points);
    if found == expected {
        return Ok(());
    }
    let same = found.iter().zip(expected).take_while(|(a, b)| a == b).count();
    anyhow::bail!(
        "{} cuts at {:?}, {} at {:?}: cut-point {same} of {} and {}",
        outcome.name,
        found.get(same),
        model.name,
        expected.get(same),
        found.len(),
        expected.len()
    )
}

fn timed_run(contender: &mut Contender, round: u32, cut_points: &mut Vec<usize>) -> Result<Sample> {
    cut_points.clear();
    let (wall, thread) = (Instant::now(), thread_time()?);
    (contender.work)(black_box(cut_points));
    black_box(&*cut_points);
    let (seconds, thread) = (wall.elapsed().as_secs_f64(), thread_time()?.saturating_sub(thread));
    Ok(Sample { round, seconds, thread_seconds: thread.as_secs_f64() })
}

/// Time that this thread has been on the CPU.
fn thread_time() -> Result<Duration> {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).context("the clock of the thread")
}

/// Reasons to distrust the times of contenders that work on one thread, one a line; none on a quiet
/// machine.
pub fn noise<'a>(outcomes: impl IntoIterator<Item = &'a Outcome>) -> Vec<String> {
    let mut reasons = Vec::new();
    for outcome in outcomes {
        let (wall, thread) = (outcome.seconds(), outcome.thread_seconds());
        let waited = wall.median - thread.median;
        if thread.spread() > NOISY_SPREAD {
            let spread = 100.0 * thread.spread();
            reasons.push(format!("{}: the median is give or take {spread:.0} %", outcome.name));
        }
        if waited > NOISY_WAIT * thread.median {
            let share = 100.0 * waited / wall.median;
            reasons.push(format!("{}: without the CPU for {share:.0} % of the time", outcome.name));
        }
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finds(name: &str, cut_points: &'static [usize]) -> Contender<'static> {
        Contender::new(name, move |found| found.extend(cut_points))
    }

    #[test]
    fn the_middle_of_samples_and_their_distance_from_it() {
        let summary = |samples: &[f64]| {
            let Summary { median, deviation } = Summary::of(samples.iter().copied());
            (median, deviation)
        };
        assert_eq!(summary(&[3.0]), (3.0, 0.0));
        assert_eq!(summary(&[9.0, 1.0, 2.0]), (2.0, 1.0));
        assert_eq!(summary(&[4.0, 1.0, 2.0, 100.0]), (3.0, 1.5));
    }

    #[test]
    fn every_contender_runs_in_every_round_and_another_one_first() {
        let order = std::cell::RefCell::new(Vec::new());
        let contenders = ["a", "b", "c"].map(|name| {
            let order = &order;
            Contender::new(name, move |_| order.borrow_mut().push(name))
        });
        let mut announced = Vec::new();
        let outcomes = measure(contenders.into(), 2, |round| {
            announced.push(round);
            Ok(())
        });
        let outcomes = outcomes.unwrap();
        assert_eq!(order.into_inner().concat(), "abcabcbca");
        assert_eq!(announced, [1, 2]);
        for outcome in outcomes {
            assert_eq!(outcome.samples.iter().map(|s| s.round).collect::<Vec<_>>(), [1, 2]);
        }
    }

    #[test]
    fn a_false_claim_of_equality_is_an_error_that_names_the_place() {
        let claim = |cut_points| {
            let contenders =
                vec![finds("ours", cut_points).equal_to("theirs"), finds("theirs", &[4, 9])];
            measure(contenders, 1, |_| Ok(()))
        };
        assert_eq!(claim(&[4, 9]).unwrap()[0].equal_to.as_deref(), Some("theirs"));
        let error = claim(&[4, 8]).unwrap_err().to_string();
        assert_eq!(error, "ours cuts at Some(8), theirs at Some(9): cut-point 1 of 2 and 2");
        assert!(claim(&[4]).is_err());
        assert!(measure(vec![finds("ours", &[]).equal_to("nobody")], 1, |_| Ok(())).is_err());
    }

    #[test]
    fn a_contender_that_changes_its_mind_is_an_error() {
        let mut runs = 0;
        let fickle = Contender::new("fickle", move |found| {
            runs += 1;
            found.extend(0..runs);
        });
        assert!(measure(vec![fickle], 1, |_| Ok(())).is_err());
    }

    #[test]
    fn who_stops_keeps_the_samples_there_are() {
        let stopped_after = |runs: u32| {
            let mut left = runs;
            let contenders = vec![finds("a", &[1]), finds("b", &[2])];
            let outcomes = measure_while(contenders, 3, None, |_| {
                left = left.wrapping_sub(1);
                Ok(left != u32::MAX)
            });
            outcomes.unwrap().iter().map(|outcome| outcome.samples.len()).collect::<Vec<_>>()
        };
        assert!(stopped_after(0).is_empty());
        assert_eq!(stopped_after(1), [0]);
        assert_eq!(stopped_after(2), [0, 0]);
        // the second round begins with the second
        assert_eq!(stopped_after(5), [1, 2]);
        assert_eq!(stopped_after(99), [3, 3]);
    }

    #[test]
    fn time_asleep_is_wall_time_only() {
        let sleeper = Contender::new("sleeper", |_| std::thread::sleep(Duration::from_millis(30)));
        let outcomes = measure(vec![sleeper], 1, |_| Ok(())).unwrap();
        let sample = outcomes[0].samples[0];
        assert!(sample.seconds >= 0.03 && sample.thread_seconds < 0.02, "{sample:?}");
        assert!(noise(&outcomes).iter().any(|reason| reason.contains("without the CPU")));
    }

    #[test]
    fn even_samples_of_one_thread_are_no_noise() {
        let sample = |round, seconds| Sample { round, seconds, thread_seconds: seconds };
        let mut outcome = Outcome {
            name: "quiet".into(),
            equal_to: None,
            cut_points: Vec::new(),
            samples: vec![sample(1, 1.0), sample(2, 1.01), sample(3, 1.02)],
            counts: None,
        };
        assert_eq!(noise([&outcome]), Vec::<String>::new());
        outcome.samples[2] = sample(3, 1.2);
        outcome.samples[0] = sample(1, 0.8);
        assert_eq!(noise([&outcome]).len(), 1);
    }
}
