//! Which chunker to take for some data: the fewest bytes to keep, then speed.

use onefold_cdc::Algorithm;
use serde::Serialize;

use crate::run::{Results, SampleRecord, Timing, Work};

/// What a recipe takes for each chunk that it lists: a fingerprint, and its share of lengths and
/// nodes. See docs/format.md.
const LISTED_BYTES: u64 = 36;

/// What each distinct chunk takes in a container's footer (35 bytes) and in an index run (44).
const STORED_BYTES: u64 = 79;

/// What differs by less than this is as good: other data would differ by more.
const AS_GOOD: f64 = 0.01;

/// What is faster by less than this, cutting and fingerprinting together, is as fast.
const AS_FAST: f64 = 0.1;

/// Below this there is nothing to choose a chunker by but its speed.
pub(crate) const HARDLY_ANY: f64 = 1.005;

/// A chunker at one mean, and what it promises.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// As [`Algorithm::name`] has it.
    pub algorithm: String,
    /// The shortest chunk in bytes.
    pub min: usize,
    /// The mean to ask for.
    pub avg: usize,
    /// The longest chunk.
    pub max: usize,
    /// The mean that was reached.
    pub mean: f64,
    /// Logical by unique bytes.
    pub dedup_ratio: f64,
    /// Unique bytes, and what recipes, footers and index take for the chunks; not compressed.
    pub kept_bytes: u64,
    /// Logical by kept bytes.
    pub kept_ratio: f64,
    /// Of cutting alone by one thread, in the median.
    pub cut_bytes_per_second: Option<f64>,
    /// Of cutting and fingerprinting.
    pub bytes_per_second: Option<f64>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Take this.
    pub choice: Candidate,
    /// Or this, which is another algorithm.
    pub runner_up: Option<Candidate>,
    /// Sentences.
    pub reasons: Vec<String>,
    /// Sentences on what the figures do not tell for sure.
    pub cautions: Vec<String>,
    /// The best of each algorithm, the fewest kept bytes first.
    pub candidates: Vec<Candidate>,
}

/// The advice that follows from `results`; `None` if they are empty.
///
/// Means need not be equalised, since what each chunk costs is counted. Of each algorithm that mean
/// counts with which the fewest bytes are kept, or the largest for which that is nearly so: larger
/// chunks are fewer, and the index is held in memory. Of the algorithms that keep nearly as little as
/// the best, those that are nearly as fast as the fastest are left, and of these the one that keeps
/// the least is taken; one that was not timed may be fast, and is left too. Fixed chunks are taken only where they keep clearly less than all others: the
/// first byte that is put into a file would undo them.
pub fn recommend(results: &Results) -> Option<Advice> {
    let mut candidates: Vec<Candidate> =
        Algorithm::ALL.iter().filter_map(|algorithm| best_of(algorithm.name(), results)).collect();
    candidates.sort_by_key(|candidate| candidate.kept_bytes);
    let ranked = ranked(&candidates);
    let choice = (*ranked.first()?).clone();
    let runner_up = ranked.get(1).map(|candidate| (*candidate).clone());
    let reasons = reasons(&choice, runner_up.as_ref(), &candidates);
    let cautions = cautions(results, &candidates);
    Some(Advice { choice, runner_up, reasons, cautions, candidates })
}

/// The best first; `candidates` are in the order of the bytes they keep.
fn ranked(candidates: &[Candidate]) -> Vec<&Candidate> {
    let mut rest: Vec<&Candidate> = candidates.iter().collect();
    let mut ranked = Vec::new();
    while let Some(&first) = rest.first() {
        let others: Vec<&Candidate> =
            rest.iter().copied().filter(|one| one.algorithm != Algorithm::Fixed.name()).collect();
        let fixed_wins =
            others.first().is_none_or(|least| !is_as_good(least.kept_bytes, first.kept_bytes));
        let best = if fixed_wins { first } else { fast_and_small(&others) };
        ranked.push(best);
        rest.retain(|one| one.algorithm != best.algorithm);
    }
    ranked
}

/// Of at least one, in the order of the bytes they keep.
fn fast_and_small<'a>(candidates: &[&'a Candidate]) -> &'a Candidate {
    let least = candidates[0].kept_bytes;
    let good = candidates.iter().copied().filter(|one| is_as_good(one.kept_bytes, least));
    let fastest = good.clone().filter_map(|one| one.bytes_per_second).fold(0.0, f64::max);
    let is_fast = |speed: f64| speed >= (1.0 - AS_FAST) * fastest;
    // of what was not timed nobody knows that it is slow
    let mut fast = good.filter(|one| one.bytes_per_second.is_none_or(is_fast));
    fast.next().unwrap_or(candidates[0])
}

fn is_as_good(bytes: u64, least: u64) -> bool {
    bytes as f64 <= (1.0 + AS_GOOD) * least as f64
}

fn best_of(algorithm: &str, results: &Results) -> Option<Candidate> {
    let entries = results.entries.iter().filter(|entry| entry.algorithm == algorithm);
    let all: Vec<Candidate> = entries
        .map(|entry| {
            let metrics = &entry.findings.metrics;
            let kept_bytes = metrics.unique_bytes
                + LISTED_BYTES * metrics.chunks
                + STORED_BYTES * metrics.unique_chunks;
            let speed = |work| entry.fastest(work).and_then(Timing::bytes_per_second);
            Candidate {
                algorithm: algorithm.to_owned(),
                min: entry.min,
                avg: entry.avg,
                max: entry.max,
                mean: metrics.mean,
                dedup_ratio: metrics.dedup_ratio(),
                kept_bytes,
                kept_ratio: metrics.bytes as f64 / kept_bytes.max(1) as f64,
                cut_bytes_per_second: speed(Work::Cut),
                bytes_per_second: speed(Work::CutAndFingerprint),
            }
        })
        .collect();
    let least = all.iter().map(|candidate| candidate.kept_bytes).min()?;
    let good = all.into_iter().filter(|candidate| is_as_good(candidate.kept_bytes, least));
    good.max_by(|a, b| a.mean.total_cmp(&b.mean))
}

fn reasons(
    choice: &Candidate,
    runner_up: Option<&Candidate>,
    candidates: &[Candidate],
) -> Vec<String> {
    let percent = 100.0 * AS_GOOD;
    let mut reasons = Vec::new();
    let Candidate { algorithm, mean, kept_bytes, .. } = choice;
    if choice.dedup_ratio < HARDLY_ANY {
        reasons.push(
            "Hardly anything in these data is there twice: deduplication gains little, and the \
             choice is one of speed."
                .to_owned(),
        );
    }
    // fixed chunks were not in the running, unless they won
    let is_rival = |one: &&Candidate| {
        one.algorithm != Algorithm::Fixed.name() || algorithm == Algorithm::Fixed.name()
    };
    let rivals: Vec<&Candidate> = candidates.iter().filter(is_rival).collect();
    let least = rivals[0].kept_bytes;
    let good = rivals.iter().filter(|one| is_as_good(one.kept_bytes, least)).count();
    reasons.push(match *kept_bytes == least {
        true => format!(
            "{algorithm} keeps the fewest bytes of {} algorithms, recipes, footers and index \
             counted; within {percent:.0} % of it: {}.",
            rivals.len(),
            match good {
                1 => "none".into(),
                good => format!("{} more, none of them clearly faster", good - 1),
            }
        ),
        false => format!(
            "{algorithm} keeps {:.1} % more than the fewest bytes, recipes, footers and index \
             counted; of the {good} algorithms within {percent:.0} % none is clearly faster.",
            100.0 * (*kept_bytes as f64 / least as f64 - 1.0)
        ),
    });
    reasons.push(format!(
        "Of its mean sizes, {mean:.0} bytes is the largest within {percent:.0} % of its fewest \
         bytes; larger chunks are fewer to remember."
    ));
    if algorithm == Algorithm::Fixed.name() {
        reasons.push(
            "Fixed chunks suit data that are overwritten in place, as disk images are; bytes put \
             into a file hide all duplicates behind them."
                .to_owned(),
        );
    }
    let fixed = candidates.iter().find(|one| one.algorithm == Algorithm::Fixed.name());
    if let Some(fixed) = fixed.filter(|fixed| *algorithm != fixed.algorithm) {
        reasons.push(format!(
            "Fixed chunks keep {:+.1} %, and the first byte put into a file hides all duplicates \
             behind it: they would have to keep clearly less.",
            100.0 * (fixed.kept_bytes as f64 / *kept_bytes as f64 - 1.0)
        ));
    }
    if let Some(other) = runner_up {
        let bytes = 100.0 * (other.kept_bytes as f64 / *kept_bytes as f64 - 1.0);
        let mut against = format!("{} keeps {bytes:+.1} %", other.algorithm);
        if let (Some(a), Some(b)) = (other.bytes_per_second, choice.bytes_per_second) {
            let times = a / b;
            against.push_str(&format!(" and is {times:.2} times as fast, fingerprints included"));
        }
        reasons.push(format!("{against}."));
    }
    reasons
}

/// What was estimated, not measured, or measured in noise.
fn cautions(results: &Results, candidates: &[Candidate]) -> Vec<String> {
    let mut cautions = Vec::new();
    let SampleRecord { bytes, stretches } = results.sample;
    if stretches > 1 {
        cautions.push(format!(
            "Speeds are those on a sample of {bytes} bytes in memory, from {stretches} places of \
             the data; what is kept was found in all of them."
        ));
    } else {
        cautions.push("Speeds are those on the data in memory.".to_owned());
    }
    let one_in = results.entries.iter().map(|entry| entry.findings.one_in).max().unwrap_or(1);
    if one_in > 1 {
        cautions.push(format!(
            "There are too many distinct chunks to remember: what is kept is estimated, by one of \
             {one_in} fingerprints where there are the most."
        ));
    }
    let untimed: Vec<&str> = candidates
        .iter()
        .filter(|one| one.bytes_per_second.is_none())
        .map(|one| one.algorithm.as_str())
        .collect();
    if !untimed.is_empty() {
        let untimed = untimed.join(", ");
        cautions.push(format!("Not timed, and not held to be slow for that: {untimed}."));
    }
    if !results.is_complete {
        cautions.push("It was stopped before the end: all figures are of a part.".to_owned());
    }
    if let [first, more @ ..] = &results.noise[..] {
        cautions.push(format!(
            "The machine was noisy, so speeds that are close may be in another order: {first}; {} \
             more such signs.",
            more.len()
        ));
    }
    cautions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::equal_mean::Borders;
    use crate::metrics::{Findings, Metrics, Zeros};
    use crate::rounds::Sample;
    use crate::run::Entry;
    use crate::{DatasetRecord, Distribution};

    fn timing(work: Work, seconds: f64) -> Timing {
        let sample = Sample { round: 1, seconds, thread_seconds: seconds };
        Timing {
            work,
            kernel: "scalar".into(),
            threads: 1,
            bytes: 1_000_000,
            samples: vec![sample],
            counts: None,
        }
    }

    /// Of 1,000,000 bytes in chunks of `mean`.
    fn entry(algorithm: &str, mean: usize, unique_bytes: u64, seconds: f64) -> Entry {
        let chunks = 1_000_000 / mean as u64;
        let metrics = Metrics {
            chunks,
            bytes: 1_000_000,
            mean: mean as f64,
            deviation: 0.0,
            longest: mean as u64,
            unique_chunks: unique_bytes / mean as u64,
            unique_bytes,
        };
        let findings = Findings {
            metrics,
            zeros: Zeros::default(),
            one_in: 1,
            scanned_bytes: None,
            sizes: Distribution::default(),
        };
        Entry {
            algorithm: algorithm.into(),
            wanted_mean: mean,
            avg: mean,
            min: mean,
            max: mean,
            findings,
            timings: vec![timing(Work::CutAndFingerprint, seconds)],
        }
    }

    fn advice(entries: Vec<Entry>) -> Advice {
        recommend(&results(entries)).unwrap()
    }

    fn results(entries: Vec<Entry>) -> Results {
        Results {
            dataset: DatasetRecord {
                name: "made up".into(),
                digest: String::new(),
                files: 1,
                bytes: 1_000_000,
            },
            is_complete: true,
            unreadable: Vec::new(),
            borders: Borders::Stream,
            equalised: true,
            sample: SampleRecord { bytes: 1_000_000, stretches: 1 },
            read_limit: timing(Work::Read, 1e-4),
            entries,
            noise: Vec::new(),
            missing: Vec::new(),
        }
    }

    #[test]
    fn what_a_chunk_costs_is_counted() {
        // 1,000 chunks of 1,000 bytes, 500 of them distinct
        let advice = advice(vec![entry("ram", 1000, 500_000, 1.0)]);
        assert_eq!(advice.choice.kept_bytes, 500_000 + 1000 * 36 + 500 * 79);
        assert_eq!((advice.choice.dedup_ratio, advice.runner_up), (2.0, None));
    }

    #[test]
    fn small_chunks_must_earn_what_they_cost() {
        // of 10,000 chunks the lists take 36 % of all bytes
        let advice =
            advice(vec![entry("ram", 100, 400_000, 1.0), entry("ram", 10_000, 500_000, 1.0)]);
        assert_eq!(advice.choice.avg, 10_000);
    }

    #[test]
    fn among_equals_the_fastest_wins_and_the_next_is_named() {
        let advice = advice(vec![
            entry("rabin", 10_000, 500_000, 5.0),
            entry("gear", 10_000, 501_000, 2.0),
            entry("ram", 10_000, 502_000, 1.0),
            entry("ae-max", 10_000, 600_000, 0.1),
        ]);
        assert_eq!(advice.choice.algorithm, "ram");
        assert_eq!(advice.runner_up.unwrap().algorithm, "gear");
        assert_eq!(advice.candidates[0].algorithm, "rabin");
        assert!(advice.reasons.iter().any(|reason| reason.contains("of the 3 algorithms")));
    }

    #[test]
    fn what_was_not_timed_is_not_slow_for_that() {
        let untimed = Entry { timings: Vec::new(), ..entry("rabin", 10_000, 500_000, 1.0) };
        let advice = advice(vec![untimed, entry("ram", 10_000, 502_000, 1.0)]);
        assert_eq!(advice.choice.algorithm, "rabin");
        assert_eq!(advice.runner_up.unwrap().algorithm, "ram");
        assert!(
            advice.cautions.iter().any(|one| one.contains("Not timed")),
            "{:?}",
            advice.cautions
        );
    }

    #[test]
    fn fixed_chunks_that_did_not_win_are_not_counted_among_the_good() {
        let advice = advice(vec![
            entry("fixed", 10_000, 500_000, 0.1),
            entry("gear", 10_000, 501_000, 2.0),
            entry("ram", 10_000, 502_000, 1.0),
        ]);
        assert_eq!(advice.choice.algorithm, "ram");
        let told = advice.reasons.join(" ");
        assert!(told.contains("of the 2 algorithms within"), "{told}");
        assert!(told.contains("Fixed chunks keep -0."), "{told}");
    }

    #[test]
    fn noise_estimates_and_samples_are_said() {
        let plain = results(vec![entry("ram", 10_000, 502_000, 1.0)]);
        let cautions = |results: &Results| recommend(results).unwrap().cautions;
        assert_eq!(cautions(&plain), ["Speeds are those on the data in memory."]);
        let mut doubtful = plain;
        doubtful.sample = SampleRecord { bytes: 1000, stretches: 16 };
        doubtful.entries[0].findings.one_in = 4;
        doubtful.noise = vec!["ram: give or take 9 %".into(), "and more".into()];
        doubtful.is_complete = false;
        let told = cautions(&doubtful).join(" ");
        for part in ["1000 bytes", "16 places", "one of 4", "give or take 9 %; 1 more", "stopped"] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }

    #[test]
    fn among_the_fast_the_one_that_keeps_the_least_wins() {
        let advice = advice(vec![
            entry("mincdc", 10_000, 500_000, 1.05),
            entry("ram", 10_000, 502_000, 1.0),
        ]);
        assert_eq!(advice.choice.algorithm, "mincdc");
    }

    #[test]
    fn fixed_chunks_must_be_clearly_better() {
        let fixed = |unique_bytes| {
            let entries =
                vec![entry("fixed", 10_000, unique_bytes, 0.5), entry("ram", 10_000, 502_000, 1.0)];
            advice(entries)
        };
        assert_eq!(fixed(500_000).choice.algorithm, "ram");
        let advice = fixed(400_000);
        assert_eq!(advice.choice.algorithm, "fixed");
        assert!(advice.reasons.iter().any(|reason| reason.contains("in place")));
    }

    #[test]
    fn who_finds_clearly_more_wins_however_slow() {
        let advice =
            advice(vec![entry("rabin", 10_000, 500_000, 9.0), entry("ram", 10_000, 600_000, 1.0)]);
        assert_eq!(advice.choice.algorithm, "rabin");
        assert_eq!(advice.runner_up.unwrap().algorithm, "ram");
    }

    #[test]
    fn data_without_duplicates_are_said_to_be_so() {
        let advice = advice(vec![entry("ram", 10_000, 1_000_000, 1.0)]);
        assert!(advice.reasons[0].contains("Hardly anything"), "{:?}", advice.reasons);
    }
}
