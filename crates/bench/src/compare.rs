//! What changed between two runs, as far as noise lets it be told.

use serde::Serialize;

use crate::record::{DatasetRecord, Header, Record};
use crate::run::{Entry, Results, Timing, Work};

/// How sure an interval is.
pub const CONFIDENCE: f64 = 0.99;

/// How likely it may be that any of the changes that stand together is one by chance.
pub const TOGETHER: f64 = 0.05;

/// Less than this, either way, is no change: two builds of the same source differ by as much.
pub const NEGLIGIBLE: f64 = 0.02;

/// Two runs side by side.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// What was not the same around them, and weakens what follows.
    pub circumstances: Vec<String>,
    /// Of everything that was timed in both.
    pub speeds: Vec<Speed>,
    /// What the chunkers found differently.
    pub findings: Vec<Finding>,
    /// Measured in the first run only.
    pub only_before: Vec<String>,
    /// Measured in the second run only.
    pub only_after: Vec<String>,
}

/// How the speed of one thing changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Speed {
    /// Which.
    pub what: String,
    /// Bytes a second in the first run, in the median.
    pub before: f64,
    /// In the second.
    pub after: f64,
    /// How many times as fast, and between which bounds; `None` with too few rounds.
    pub change: Option<Interval>,
    /// What that means.
    pub verdict: Verdict,
    /// How likely so clear a change would be by chance, somewhere among all that are compared, if
    /// nothing had changed by more than what is negligible (Holm); `None` with too few rounds.
    pub chance: Option<f64>,
}

impl Speed {
    /// Whether it is a change even if all are judged together, and not each for itself.
    pub fn stands(&self) -> bool {
        matches!(self.verdict, Verdict::Slower | Verdict::Faster)
            && self.chance.is_some_and(|chance| chance <= TOGETHER)
    }
}

/// What can be said of two speeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The interval lies below one, by more than what is negligible.
    Slower,
    /// The interval lies above one by as much.
    Faster,
    /// The interval reaches from what is negligible to what is not: too much noise to tell.
    Unclear,
    /// All of the interval is negligible.
    Same,
    /// There are too few rounds for an interval.
    TooFewRounds,
}

/// A ratio and its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The likeliest.
    pub ratio: f64,
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

/// A number that depends on nothing but data and parameters, and still is another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Of which.
    pub what: String,
    /// The number's name.
    pub number: &'static str,
    /// In the first run.
    pub before: f64,
    /// In the second.
    pub after: f64,
}

/// What changed from `before` to `after`.
///
/// Speeds are compared by the ratios of all pairs of samples: their median (Hodges and Lehmann), and
/// the [`CONFIDENCE`] interval that belongs to the test of Mann and Whitney. A change is one if that
/// interval lies beyond [`NEGLIGIBLE`], and none if it lies within. Of many some are changes by
/// chance: those that are not, all judged together, [stand](Speed::stands). What disturbed one of the
/// runs all along, such as a busy neighbour, no such test can see.
pub fn compare(before: &Record<Vec<Results>>, after: &Record<Vec<Results>>) -> Comparison {
    let mut comparison = Comparison {
        circumstances: header_differences(&before.header, &after.header),
        ..Comparison::default()
    };
    let partners = partners(&before.results, &after.results);
    for (old, partner) in before.results.iter().zip(&partners) {
        match *partner {
            None => comparison.only_before.push(old.dataset.name.clone()),
            Some(place) => comparison.add(old, &after.results[place]),
        }
    }
    for (place, new) in after.results.iter().enumerate() {
        if !partners.contains(&Some(place)) {
            comparison.only_after.push(new.dataset.name.clone());
        }
    }
    let chances = holm(comparison.speeds.iter().map(|speed| speed.chance).collect());
    for (speed, chance) in comparison.speeds.iter_mut().zip(chances) {
        speed.chance = chance;
    }
    comparison
}

/// Of chances that hold each for itself, those that hold for all together: the least times their
/// number, the next times one less, and so on, none less than the one before (Holm, 1979).
fn holm(chances: Vec<Option<f64>>) -> Vec<Option<f64>> {
    let mut order: Vec<usize> = (0..chances.len()).filter(|&i| chances[i].is_some()).collect();
    order.sort_by(|&a, &b| chances[a].partial_cmp(&chances[b]).expect("chances are numbers"));
    let mut together = vec![None; chances.len()];
    let mut most = 0.0_f64;
    for (place, &i) in order.iter().enumerate() {
        let times = (order.len() - place) as f64;
        most = most.max(times * chances[i].expect("only those that are known are in order"));
        together[i] = Some(most.min(1.0));
    }
    together
}

/// The place in `after` of what each of `before` is compared with: the same data first, then the
/// next of the same name, since names are those of last components and may occur twice.
fn partners(before: &[Results], after: &[Results]) -> Vec<Option<usize>> {
    type Rule = fn(&DatasetRecord, &DatasetRecord) -> bool;
    let rules: [Rule; 3] = [
        |old, new| old.digest == new.digest && old.name == new.name,
        |old, new| old.digest == new.digest,
        |old, new| old.name == new.name,
    ];
    let mut partners = vec![None; before.len()];
    for rule in rules {
        for (i, old) in before.iter().enumerate() {
            let is_free = |place: &usize| !partners.contains(&Some(*place));
            let fits = |place: &usize| old.borders == after[*place].borders;
            if partners[i].is_none() {
                let mut places = (0..after.len()).filter(is_free).filter(fits);
                partners[i] = places.find(|&place| rule(&old.dataset, &after[place].dataset));
            }
        }
    }
    // runs over one dataset each may have other names for it
    if let ([one @ None], 1) = (&mut partners[..], after.len()) {
        *one = Some(0);
    }
    partners
}

fn header_differences(before: &Header, after: &Header) -> Vec<String> {
    let of = |header: &Header| {
        let machine = &header.machine;
        [
            ("machine", format!("{}, {} cores", machine.cpu_model, machine.cores)),
            ("instruction sets", machine.cpu_features.join(" ")),
            ("kernel", machine.kernel_version.clone()),
            ("compiler", header.rustc_version.clone()),
            ("commit", header.commit.id.clone()),
        ]
    };
    let differs = |((name, old), (_, new)): ((&str, String), (&str, String))| {
        (old != new).then(|| format!("another {name}: {old} before, {new} after"))
    };
    let mut found: Vec<String> =
        of(before).into_iter().zip(of(after)).filter_map(differs).collect();
    for (header, when) in [(before, "before"), (after, "after")] {
        if header.commit.dirty {
            found.push(format!("{when}, the source was not that of its commit"));
        }
    }
    found
}

impl Comparison {
    fn add(&mut self, old: &Results, new: &Results) {
        let name = &new.dataset.name;
        let is_same_data = old.dataset.digest == new.dataset.digest;
        if !is_same_data {
            self.circumstances.push(format!("{name}: other data, so all but speed will differ"));
        }
        let is_comparable = is_same_data && old.borders == new.borders;
        if old.borders != new.borders {
            self.circumstances
                .push(format!("{name}: cut as one stream in one run, by files in one"));
        }
        if old.sample != new.sample {
            self.circumstances.push(format!("{name}: another sample to measure speed on"));
        }
        for (results, when) in [(old, "before"), (new, "after")] {
            if !results.is_complete {
                self.circumstances.push(format!("{name}: stopped before its end, {when}"));
            }
            if !results.noise.is_empty() {
                let count = results.noise.len();
                self.circumstances.push(format!("{name}: {count} signs of noise, {when}"));
            }
        }
        let (read, read_now) = (&old.read_limit, &new.read_limit);
        if read.kernel == read_now.kernel {
            self.add_timing(format!("{name}: reading alone"), read, read_now);
        } else {
            self.circumstances.push(format!(
                "{name}: the read limit is by {} before and by {} after, which is not compared",
                read.kernel, read_now.kernel
            ));
        }
        for entry in &old.entries {
            let key = |one: &Entry| (one.algorithm.clone(), one.wanted_mean);
            let what = label(name, entry);
            match new.entries.iter().find(|other| key(other) == key(entry)) {
                None => self.only_before.push(what),
                Some(other) => self.add_entry(what, entry, other, is_comparable),
            }
        }
        for entry in &new.entries {
            let is_same = |other: &Entry| label(name, other) == label(name, entry);
            if !old.entries.iter().any(is_same) {
                self.only_after.push(label(name, entry));
            }
        }
    }

    fn add_entry(&mut self, what: String, old: &Entry, new: &Entry, is_comparable: bool) {
        if is_comparable {
            let numbers = |entry: &Entry| {
                let metrics = &entry.findings.metrics;
                [
                    ("avg", entry.avg as f64),
                    ("min", entry.min as f64),
                    ("max", entry.max as f64),
                    ("chunks", metrics.chunks as f64),
                    ("unique bytes", metrics.unique_bytes as f64),
                    ("deviation", metrics.deviation),
                ]
            };
            for ((number, before), (_, after)) in numbers(old).into_iter().zip(numbers(new)) {
                if before != after {
                    self.findings.push(Finding { what: what.clone(), number, before, after });
                }
            }
        }
        for timing in &old.timings {
            let what = timing_label(&what, timing);
            match new.timings.iter().find(|other| is_same_work(other, timing)) {
                None => self.only_before.push(what),
                Some(other) => self.add_timing(what, timing, other),
            }
        }
        for timing in &new.timings {
            if !old.timings.iter().any(|other| is_same_work(other, timing)) {
                self.only_after.push(timing_label(&what, timing));
            }
        }
    }

    fn add_timing(&mut self, what: String, old: &Timing, new: &Timing) {
        let (before, after) = match (old.bytes_per_second(), new.bytes_per_second()) {
            (Some(before), Some(after)) => (before, after),
            (Some(_), None) => return self.only_before.push(what),
            (None, Some(_)) => return self.only_after.push(what),
            (None, None) => return,
        };
        let change = ratio_interval(&speeds(old), &speeds(new), CONFIDENCE);
        let verdict = change.map_or(Verdict::TooFewRounds, Verdict::of);
        let chance = change.map(|_| chance_of_change(&speeds(old), &speeds(new)));
        self.speeds.push(Speed { what, before, after, change, verdict, chance });
    }

    /// How many of the intervals are expected not to enclose the true ratio, by chance alone.
    pub fn expected_misses(&self) -> f64 {
        let intervals = self.speeds.iter().filter(|speed| speed.change.is_some()).count();
        (1.0 - CONFIDENCE) * intervals as f64
    }
}

impl Verdict {
    fn of(change: Interval) -> Self {
        let (least, most) = (1.0 - NEGLIGIBLE, 1.0 + NEGLIGIBLE);
        match change {
            Interval { low, .. } if low > most => Self::Faster,
            Interval { high, .. } if high < least => Self::Slower,
            Interval { low, high, .. } if low >= least && high <= most => Self::Same,
            _ => Self::Unclear,
        }
    }
}

fn is_same_work(one: &Timing, other: &Timing) -> bool {
    (one.work, &one.kernel, one.threads) == (other.work, &other.kernel, other.threads)
}

fn timing_label(entry: &str, timing: &Timing) -> String {
    let work = match timing.work {
        Work::Read => "reading",
        Work::Cut => "cutting",
        Work::CutInTwoStages => "cutting in two stages",
        Work::Fingerprint => "fingerprinting",
        Work::CutAndFingerprint => "both",
    };
    let threads = match timing.threads {
        1 => String::new(),
        threads => format!(", {threads} threads"),
    };
    format!("{entry}, {}, {work}{threads}", timing.kernel)
}

fn label(dataset: &str, entry: &Entry) -> String {
    format!("{dataset}: {} at {}", entry.algorithm, entry.wanted_mean)
}

/// Bytes a second, one a round.
fn speeds(timing: &Timing) -> Vec<f64> {
    let seconds = timing.samples.iter().map(|sample| match timing.threads {
        1 => sample.thread_seconds,
        _ => sample.seconds,
    });
    seconds.map(|seconds| timing.bytes as f64 / seconds).collect()
}

/// How many times `before` makes `after`, with bounds that hold with `confidence` if both are samples
/// of one distribution but for that factor. `None` if there are too few of them.
///
/// Of all n·m ratios in order, the bounds are the (k+1)-th from either end, where the statistic of
/// Mann and Whitney is k or less in at most half of what `confidence` leaves.
fn ratio_interval(before: &[f64], after: &[f64], confidence: f64) -> Option<Interval> {
    let tail = (1.0 - confidence) / 2.0;
    let k = lower_quantile(before.len(), after.len(), tail)?;
    let mut ratios: Vec<f64> =
        after.iter().flat_map(|after| before.iter().map(move |before| after / before)).collect();
    ratios.sort_by(f64::total_cmp);
    let count = ratios.len();
    let ratio = (ratios[(count - 1) / 2] * ratios[count / 2]).sqrt();
    Some(Interval { ratio, low: ratios[k], high: ratios[count - 1 - k] })
}

/// How likely samples as far apart as these would be, if the speed had changed by no more than what is
/// negligible: by the same test as [`ratio_interval`], to both sides.
fn chance_of_change(before: &[f64], after: &[f64]) -> f64 {
    let against = |is_against: &dyn Fn(f64) -> bool| {
        let ratios = after.iter().flat_map(|after| before.iter().map(move |before| after / before));
        ratios.filter(|&ratio| is_against(ratio)).count()
    };
    let slower = against(&|ratio| ratio >= 1.0 - NEGLIGIBLE);
    let faster = against(&|ratio| ratio <= 1.0 + NEGLIGIBLE);
    (2.0 * at_most(before.len(), after.len(), slower.min(faster))).min(1.0)
}

/// How likely the statistic of Mann and Whitney, of samples of n and m, is at most k, if they are of
/// one distribution.
fn at_most(n: usize, m: usize, k: usize) -> f64 {
    if n * m > MOST_PAIRS {
        let (n, m) = (n as f64, m as f64);
        let deviation = (n * m * (n + m + 1.0) / 12.0).sqrt();
        return normal_below((k as f64 + 0.5 - n * m / 2.0) / deviation);
    }
    let ways = ways(n, m);
    let below: f64 = ways[..=k.min(n * m)].iter().sum();
    below / ways.iter().sum::<f64>()
}

/// The normal distribution below `z`, to seven digits: Abramowitz and Stegun, formula 26.2.17.
fn normal_below(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let terms = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let sum = terms.iter().rev().fold(0.0, |sum, term| (sum + term) * t);
    let above = sum * (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
    if z < 0.0 { above } else { 1.0 - above }
}

/// With more pairs of samples than this, the normal distribution is near enough.
const MOST_PAIRS: usize = 2500;

/// The largest k for which the statistic of Mann and Whitney, of samples of n and m, is at most k with
/// a probability of `tail` or less, if they are of one distribution; `None` if there is no such k.
fn lower_quantile(n: usize, m: usize, tail: f64) -> Option<usize> {
    if n * m > MOST_PAIRS {
        // for so many, the normal distribution of the same mean and variance; 2.5758 is its
        // quantile at 0.995
        let (n, m) = (n as f64, m as f64);
        let k = n * m / 2.0 - 2.5758 * (n * m * (n + m + 1.0) / 12.0).sqrt();
        return (tail >= 0.005 - 1e-9 && k >= 1.0).then(|| k as usize - 1);
    }
    let ways = ways(n, m);
    let all: f64 = ways.iter().sum();
    let mut below = 0.0;
    let mut quantile = None;
    for (k, ways) in ways.iter().enumerate() {
        below += ways;
        if below / all > tail {
            break;
        }
        quantile = Some(k);
    }
    quantile
}

/// In how many of the orders of n and m samples the statistic is 0, 1, … n·m.
///
/// Coefficients of the product of (1 − x^(m+i)) / (1 − x^i) for i from 1 to n.
fn ways(n: usize, m: usize) -> Vec<f64> {
    let mut ways = vec![0.0; n * m + 1];
    ways[0] = 1.0;
    for i in 1..=n {
        for u in (m + i..ways.len()).rev() {
            ways[u] -= ways[u - m - i];
        }
        for u in i..ways.len() {
            ways[u] += ways[u - i];
        }
    }
    ways
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sample;
    use crate::equal_mean::Borders;
    use crate::run::SampleRecord;

    /// By looking at every order.
    fn naive_ways(n: usize, m: usize) -> Vec<f64> {
        let mut ways = vec![0.0; n * m + 1];
        for order in 0..1_u32 << (n + m) {
            if order.count_ones() as usize == n {
                let (mut u, mut zeros) = (0, 0);
                for i in 0..n + m {
                    match order >> i & 1 {
                        0 => zeros += 1,
                        _ => u += zeros,
                    }
                }
                ways[u] += 1.0;
            }
        }
        ways
    }

    #[test]
    fn the_statistic_is_distributed_as_counting_says() {
        for (n, m) in [(1, 1), (1, 5), (3, 4), (5, 5), (7, 7), (8, 3)] {
            assert_eq!(ways(n, m), naive_ways(n, m), "{n}, {m}");
        }
    }

    #[test]
    fn quantiles_are_those_of_published_tables() {
        // critical values of U, two-sided, at 0.05 and 0.01
        for (n, m, at_5, at_1) in
            [(5, 5, Some(2), Some(0)), (7, 7, Some(8), Some(4)), (10, 10, Some(23), Some(16))]
        {
            assert_eq!(lower_quantile(n, m, 0.025), at_5, "{n}, {m}");
            assert_eq!(lower_quantile(n, m, 0.005), at_1, "{n}, {m}");
        }
        assert_eq!(lower_quantile(3, 3, 0.005), None);
        assert_eq!(lower_quantile(0, 7, 0.005), None);
        // near the exact one where both can be had
        let (exact, normal) = (lower_quantile(50, 50, 0.005), lower_quantile(50, 51, 0.005));
        assert!(normal.unwrap().abs_diff(exact.unwrap()) < 30, "{exact:?} {normal:?}");
    }

    #[test]
    fn chances_are_those_of_counting_and_of_published_tables() {
        for (n, m) in [(3, 4), (5, 5), (7, 7)] {
            let ways = naive_ways(n, m);
            let all: f64 = ways.iter().sum();
            for k in 0..=n * m {
                let below: f64 = ways.iter().take(k + 1).sum();
                assert!((at_most(n, m, k) - below / all).abs() < 1e-12, "{n}, {m}, {k}");
            }
        }
        for (z, below) in [(0.0, 0.5), (-1.959_964, 0.025), (2.575_829, 0.995), (-3.0, 0.001_350)] {
            assert!((normal_below(z) - below).abs() < 1e-6, "{z}");
        }
        let (exact, normal) = (at_most(50, 50, 1000), at_most(50, 51, 1020));
        assert!((exact / normal - 1.0).abs() < 0.1, "{exact} {normal}");
    }

    #[test]
    fn together_the_least_chance_counts_as_often_as_there_are_chances() {
        let of = |chances: &[f64]| -> Vec<f64> {
            holm(chances.iter().copied().map(Some).collect()).into_iter().flatten().collect()
        };
        // 3 × 0.01; 2 × 0.02; 1 × 0.03, but not less than the one before
        let expected = [0.03, 0.04, 0.04];
        let sorted = |mut chances: Vec<f64>| {
            chances.sort_by(f64::total_cmp);
            chances
        };
        for (a, b) in sorted(of(&[0.03, 0.01, 0.02])).into_iter().zip(expected) {
            assert!((a - b).abs() < 1e-12, "{a} {b}");
        }
        assert_eq!(of(&[0.9, 0.8]), [1.0, 1.0]);
        assert_eq!(holm(vec![None, Some(0.5)]), [None, Some(0.5)]);
    }

    #[test]
    fn one_change_among_many_stands_if_it_is_clear_enough() {
        let times =
            |factor: f64| [0.99, 1.01, 1.0, 1.02, 0.98, 1.005, 0.995].map(|one| one * factor);
        let changed = chance_of_change(&times(1.0), &times(2.0));
        // all 49 pairs agree: one order of 3432 to either side
        assert!((changed - 2.0 / 3432.0).abs() < 1e-12, "{changed}");
        assert!((chance_of_change(&times(2.0), &times(1.0)) - changed).abs() < 1e-12);
        assert!(chance_of_change(&times(1.0), &times(1.0)) > 0.5);
        let speed = |chance| Speed {
            what: String::new(),
            before: 1.0,
            after: 2.0,
            change: None,
            verdict: Verdict::Faster,
            chance,
        };
        let among = |others: usize| {
            let all = [vec![Some(changed)], vec![Some(1.0); others]].concat();
            speed(holm(all)[0]).stands()
        };
        assert!(among(0) && among(80) && !among(100));
        assert!(!speed(None).stands());
    }

    #[test]
    fn read_limits_by_vectors_of_other_widths_are_not_compared() {
        let old = results("data", "1", 7);
        let mut new = results("data", "1", 7);
        new.read_limit.kernel = "avx512".to_owned();
        let mut compared = Comparison::default();
        compared.add(&old, &new);
        assert!(compared.speeds.is_empty() && compared.circumstances.len() == 1, "{compared:?}");
        assert!(compared.circumstances[0].contains("by scalar before and by avx512 after"));
    }

    #[test]
    fn a_wide_interval_is_not_taken_for_sameness() {
        let verdict = |low, high| Verdict::of(Interval { ratio: 1.0, low, high });
        assert_eq!(verdict(0.5, 2.0), Verdict::Unclear);
        assert_eq!(verdict(1.01, 1.03), Verdict::Unclear);
        assert_eq!(verdict(0.99, 1.01), Verdict::Same);
        assert_eq!(verdict(1.03, 2.0), Verdict::Faster);
        assert_eq!(verdict(0.5, 0.97), Verdict::Slower);
    }

    /// Nothing was found in these data, and nothing timed but reading, `rounds` times.
    fn results(name: &str, digest: &str, rounds: u32) -> Results {
        let sample = |round| Sample { round, seconds: 1.0, thread_seconds: 1.0 };
        Results {
            dataset: DatasetRecord { name: name.into(), digest: digest.into(), files: 1, bytes: 1 },
            is_complete: true,
            unreadable: Vec::new(),
            borders: Borders::Stream,
            equalised: false,
            sample: SampleRecord { bytes: 1, stretches: 1 },
            read_limit: Timing {
                work: Work::Read,
                kernel: "scalar".into(),
                threads: 1,
                bytes: 1,
                samples: (1..=rounds).map(sample).collect(),
                counts: None,
            },
            entries: Vec::new(),
            noise: Vec::new(),
            missing: Vec::new(),
        }
    }

    #[test]
    fn data_are_compared_with_the_same_data_and_then_with_those_of_the_same_name() {
        let of = |known: &[(&str, &str)]| -> Vec<Results> {
            known.iter().map(|(name, digest)| results(name, digest, 0)).collect()
        };
        let before = of(&[("data", "1"), ("data", "2"), ("old", "3"), ("gone", "4")]);
        let after = of(&[("data", "2"), ("new", "3"), ("data", "5"), ("data", "6")]);
        assert_eq!(partners(&before, &after), [Some(2), Some(0), Some(1), None]);
        assert_eq!(partners(&before[..1], &after[1..2]), [Some(0)]);
        assert_eq!(partners(&before[..1], &after[1..]), [Some(1)]);
    }

    #[test]
    fn what_was_timed_in_one_run_only_is_listed() {
        let mut compared = Comparison::default();
        compared.add(&results("data", "1", 7), &results("data", "1", 0));
        assert_eq!(compared.only_before, ["data: reading alone"]);
        compared.add(&results("data", "1", 0), &results("data", "1", 7));
        assert_eq!(compared.only_after, ["data: reading alone"]);
        assert!(compared.speeds.is_empty());
    }

    #[test]
    fn the_interval_encloses_the_factor_and_noise_hides_small_ones() {
        let noise = [0.99, 1.01, 1.0, 1.02, 0.98, 1.005, 0.995];
        let times = |factor: f64| noise.map(|one| one * factor);
        let interval = |factor| ratio_interval(&times(1.0), &times(factor), 0.99).unwrap();
        for factor in [0.5, 1.0, 1.1] {
            let Interval { ratio, low, high } = interval(factor);
            assert!(low < factor && factor < high, "{factor}: {low} {high}");
            assert!((ratio / factor - 1.0).abs() < 0.001, "{ratio}");
        }
        assert!(interval(1.1).low > 1.0 && interval(0.5).high < 1.0);
        assert!(interval(1.01).low < 1.0);
    }
}
