//! The samples of a measurement as a table to read.

use std::fmt::Write;

use crate::record::Sample;

/// The tool that the others are compared with.
const OURS: &str = "onefold";

/// Medians of each phase and tool, in the order in which they first appear in `samples`.
///
/// The last column is onefold's median time divided by that tool's: below 1, onefold is faster.
pub(crate) fn of(samples: &[Sample]) -> String {
    let mut table = String::from(
        "\nphase      tool       seconds     user   system   peak MiB    stored MB  onefold/tool\n",
    );
    for phase in in_order(samples, |sample| &sample.phase) {
        let of_phase = |tool: &str, value: fn(&Sample) -> f64| {
            median(
                samples.iter().filter(|s| s.phase == phase && s.tool == tool).map(value).collect(),
            )
        };
        for tool in in_order(samples, |sample| &sample.tool) {
            let Some(seconds) = of_phase(tool, |s| s.seconds) else { continue };
            let user = of_phase(tool, |s| s.user_seconds).unwrap_or(f64::NAN);
            let system = of_phase(tool, |s| s.system_seconds).unwrap_or(f64::NAN);
            let peak = of_phase(tool, |s| s.peak_rss_bytes as f64 / MIB).unwrap_or(f64::NAN);
            let stored = of_phase(tool, |s| s.stored_bytes as f64 / MB).unwrap_or(f64::NAN);
            let ratio = of_phase(OURS, |s| s.seconds).map_or(f64::NAN, |ours| ours / seconds);
            let _ = writeln!(
                table,
                "{phase:<10} {tool:<10} {seconds:>7.2} {user:>8.2} {system:>8.2} {peak:>10.1} \
                 {stored:>12.1} {ratio:>13.2}"
            );
        }
    }
    table
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
fn median(mut values: Vec<f64>) -> Option<f64> {
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
    fn the_ratio_is_of_medians() {
        let sample = |tool: &str, seconds| Sample {
            tool: tool.into(),
            phase: "first".into(),
            round: 1,
            seconds,
            user_seconds: 0.0,
            system_seconds: 0.0,
            peak_rss_bytes: 1 << 20,
            stored_bytes: 1_000_000,
            stage_bytes: None,
        };
        let table = of(&[sample("onefold", 2.0), sample("restic", 8.0), sample("onefold", 4.0)]);
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(rows.len(), 2, "{table}");
        assert!(rows[0].starts_with("first") && rows[0].ends_with("1.00"), "{table}");
        assert!(rows[1].contains("restic") && rows[1].ends_with("0.38"), "{table}");
    }
}
