//! What was found, as a table for the terminal and as a record.

use std::fmt::Write;

use onefold_bench::{DatasetRecord, Metrics, Outcome, Sample, Summary};
use serde::{Deserialize, Serialize};

use crate::goal::{self, Reached};
use crate::ours::{LIMIT, is_by_wall};

/// Everything about one dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) dataset: DatasetRecord,
    pub(crate) contenders: Vec<ContenderRecord>,
    pub(crate) goals: Vec<Reached>,
    /// Reasons to distrust the times.
    pub(crate) noise: Vec<String>,
}

/// Everything about one contender.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ContenderRecord {
    pub(crate) name: String,
    /// `onefold`, or the crate.
    pub(crate) by: String,
    pub(crate) kernel: String,
    pub(crate) parameters: String,
    /// The contender with which every cut-point was compared.
    pub(crate) equal_to: Option<String>,
    /// None of the read limit.
    pub(crate) metrics: Option<Metrics>,
    pub(crate) dedup_ratio: Option<f64>,
    pub(crate) gb_per_second: f64,
    pub(crate) samples: Vec<Sample>,
}

impl ContenderRecord {
    /// Of the threads' own time, where one thread does the work; else of the wall's.
    fn seconds(&self) -> Summary {
        let is_by_wall = is_by_wall(&self.name);
        Summary::of(
            self.samples
                .iter()
                .map(|sample| if is_by_wall { sample.seconds } else { sample.thread_seconds }),
        )
    }
}

/// The speed of an outcome over `bytes`, by the clock that its goals are held against.
pub(crate) fn gb_per_second(outcome: &Outcome, bytes: usize) -> f64 {
    let seconds =
        if is_by_wall(&outcome.name) { outcome.seconds() } else { outcome.thread_seconds() };
    bytes as f64 / seconds.median / 1e9
}

/// Both tables of one dataset.
pub(crate) fn table(measured: &Measured) -> String {
    let mut text = String::new();
    let dataset = &measured.dataset;
    writeln!(
        text,
        "\n{}, {} bytes in {} files, {}",
        dataset.name, dataset.bytes, dataset.files, dataset.digest
    )
    .expect("a string takes all");
    contenders(measured, &mut text).expect("a string takes all");
    goals(&measured.goals, &mut text).expect("a string takes all");
    noise(&measured.noise, &mut text).expect("a string takes all");
    text
}

fn contenders(measured: &Measured, text: &mut String) -> std::fmt::Result {
    writeln!(
        text,
        "\n{:<34} {:>7} {:>5} {:>9} {:>7} {:>7}  {:<31} min / avg / max",
        "", "GB/s", "± %", "mean", "dedup", "/limit", "of its rival"
    )?;
    let speed = |name: &str| {
        let contender = measured.contenders.iter().find(|contender| contender.name == name)?;
        Some(contender.gb_per_second)
    };
    let limit = speed(LIMIT).unwrap_or(f64::NAN);
    for contender in &measured.contenders {
        let (mean, dedup) = match &contender.metrics {
            Some(metrics) => {
                (format!("{:.0}", metrics.mean), format!("{:.3}", metrics.dedup_ratio()))
            }
            None => (String::new(), String::new()),
        };
        let rival = goal::rival_of(&contender.name).and_then(|rival| {
            Some(format!("{:.2} {rival}", contender.gb_per_second / speed(rival)?))
        });
        writeln!(
            text,
            "{:<34} {:>7.2} {:>5.1} {mean:>9} {dedup:>7} {:>7.3}  {:<31} {}",
            contender.name,
            contender.gb_per_second,
            100.0 * contender.seconds().spread(),
            contender.gb_per_second / limit,
            rival.unwrap_or_default(),
            contender.parameters
        )?;
    }
    Ok(())
}

/// A few of many reasons will do.
fn noise(reasons: &[String], text: &mut String) -> std::fmt::Result {
    const SHOWN: usize = 5;
    for reason in reasons.iter().take(SHOWN) {
        writeln!(text, "noisy machine: {reason}")?;
    }
    match reasons.len().saturating_sub(SHOWN) {
        0 => Ok(()),
        more => writeln!(text, "noisy machine: {more} more such"),
    }
}

fn goals(goals: &[Reached], text: &mut String) -> std::fmt::Result {
    writeln!(text, "\n{:<34} {:<24} {:>8} {:>8}", "measured", "against", "at least", "reached")?;
    for Reached { measured, against, at_least, reached, met } in goals {
        let verdict = if *met { "met" } else { "MISSED" };
        writeln!(text, "{measured:<34} {against:<24} {at_least:>8.2} {reached:>8.2} {verdict}")?;
    }
    if goals.iter().any(|goal| goal.against.starts_with("mincdc")) {
        writeln!(
            text,
            "mincdc dedups as the crates mincdc and mothcdc: all cut-points are equal."
        )?;
    }
    writeln!(text, "RapidCDC is measured by a command of its own.")
}
