//! The samples of a measurement as a table to read.

use std::fmt::Write;

use super::record::Sample;

/// The tool that the others are compared with.
const OURS: &str = "onefold";

/// Medians of each phase and tool, in the order in which they first appear in `samples`.
///
/// The ratios are of the tool's time to onefold's in the same round: above 1, onefold is faster.
/// "at least" is their lower bound at 90 %.
pub(crate) fn of(samples: &[Sample]) -> String {
    let mut table = String::from(
        "\nphase     tool             seconds   CPU s  peak MiB  stored MB   tool/onefold  at least  \
         by CPU\n",
    );
    for phase in in_order(samples, |sample| &sample.phase) {
        let all = |tool: &str| -> Vec<&Sample> {
            samples.iter().filter(|s| s.phase == phase && s.tool == tool).collect()
        };
        let ours = all(OURS);
        for tool in in_order(samples, |sample| &sample.tool) {
            let of_tool = all(tool);
            let of = |value: fn(&Sample) -> f64| {
                median(of_tool.iter().map(|sample| value(sample)).collect())
            };
            let Some(seconds) = of(|s| s.seconds) else { continue };
            let show = |value: Option<f64>| value.unwrap_or(f64::NAN);
            let cpu = show(of(cpu_seconds));
            let peak = show(of(|s| s.peak_rss_bytes as f64 / MIB));
            let stored = show(of(|s| s.stored_bytes as f64 / MB));
            let by_wall = paired(&of_tool, &ours, |s| s.seconds);
            let by_cpu = show(median(paired(&of_tool, &ours, cpu_seconds)));
            let bound = show(lower_bound(&by_wall));
            let ratio = show(median(by_wall));
            let _ = writeln!(
                table,
                "{phase:<9} {tool:<15} {seconds:>8.2} {cpu:>7.2} {peak:>9.1} {stored:>10.1} \
                 {ratio:>14.2} {bound:>9.2} {by_cpu:>7.2}"
            );
        }
    }
    table
}

fn cpu_seconds(sample: &Sample) -> f64 {
    sample.user_seconds + sample.system_seconds
}

/// What the tool took, as a share of what ours took, of each round that has both.
fn paired(tool: &[&Sample], ours: &[&Sample], value: fn(&Sample) -> f64) -> Vec<f64> {
    let of_round = |sample: &Sample| ours.iter().find(|our| our.round == sample.round);
    tool.iter().filter_map(|sample| Some(value(sample) / value(of_round(sample)?))).collect()
}

/// What the ratio is at least with a confidence of 90 %: Student's bound for the mean of the
/// logarithms. `None` of fewer than two ratios.
pub(crate) fn lower_bound(ratios: &[f64]) -> Option<f64> {
    /// The 90 % quantiles of Student's distribution for 1, 2, … degrees of freedom; of more, the
    /// last is a little too careful.
    const QUANTILES: [f64; 9] = [3.078, 1.886, 1.638, 1.533, 1.476, 1.440, 1.415, 1.397, 1.383];
    let count = ratios.len();
    let degrees = count.checked_sub(2)?;
    let logarithms: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    let mean = logarithms.iter().sum::<f64>() / count as f64;
    let squares: f64 = logarithms.iter().map(|value| (value - mean).powi(2)).sum();
    let error = (squares / (count - 1) as f64 / count as f64).sqrt();
    let quantile = QUANTILES[degrees.min(QUANTILES.len() - 1)];
    Some((mean - quantile * error).exp())
}

const MIB: f64 = (1 << 20) as f64;
const MB: f64 = 1e6;

fn in_order(samples: &[Sample], name: impl Fn(&Sample) -> &String) -> Vec<&str> {
    let mut names = Vec::new();
    for sample in samples {
        let name = name(sample).as_str();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The middle value, or the mean of the two in the middle; `None` of nothing.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0]), Some(3.0));
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 9.0]), Some(3.0));
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let sample = |tool: &str, round, seconds| Sample {
            tool: tool.into(),
            phase: "first".into(),
            round,
            seconds,
            user_seconds: 0.5,
            system_seconds: seconds - 0.5,
            peak_rss_bytes: 1 << 20,
            stored_bytes: 1_000_000,
            stage_bytes: None,
        };
        let table = of(&[
            sample("onefold", 1, 2.0),
            sample("restic", 1, 8.0),
            sample("onefold", 2, 4.0),
            sample("restic", 2, 8.0),
            sample("onefold", 3, 1.0),
        ]);
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(rows.len(), 2, "{table}");
        let words = |row: &str| row.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(rows[0])[..4], ["first", "onefold", "2.00", "2.00"], "{table}");
        assert_eq!(words(rows[0])[6..], ["1.00", "1.00", "1.00"], "{table}");
        let restic = words(rows[1]);
        assert_eq!(restic[1..6], ["restic", "8.00", "8.00", "1.0", "1.0"], "{table}");
        assert_eq!((&*restic[6], &*restic[8]), ("3.00", "3.00"), "{table}");
    }

    #[test]
    fn the_bound_is_student_s() {
        assert_eq!(lower_bound(&[2.0]), None);
        let near = |value: Option<f64>, expected: f64| {
            assert!((value.unwrap() - expected).abs() < 1e-3, "{value:?}, expected {expected}");
        };
        near(lower_bound(&[2.0, 2.0]), 2.0);
        // of logarithms 0, 1 and 2: mean 1, deviation 1, and 1.886 for two degrees of freedom
        let e = std::f64::consts::E;
        near(lower_bound(&[1.0, e, e * e]), (1.0 - 1.886 / 3f64.sqrt()).exp());
    }
}
