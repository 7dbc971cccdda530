//! `onefold bench compare`

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use onefold_bench::Record;
use onefold_bench::compare::{self, CONFIDENCE, Comparison, NEGLIGIBLE, TOGETHER, Verdict};

use crate::console::Console;
use crate::count::count;
use crate::exit::Exit;
use crate::output::Output;
use crate::table;

const AFTER_HELP: &str = "\
A and B are records of `onefold bench run --json`. A speed is reported as changed if the 99 % confidence
interval of the ratio (Hodges-Lehmann, by the Mann-Whitney test) lies more than 2 % from one. It is the
same if the whole interval lies within 2 %, and not clear otherwise. Each run needs at least five
rounds. Of many intervals a few miss the true ratio by chance; the command prints the expected number,
and which changes would remain significant if all are judged together (Holm, 5 %). It cannot distinguish a
change from a disturbance that lasted for a whole run: repeat the runs alternately if that matters.

Examples:
  onefold bench compare before.json after.json
  onefold bench compare before.json after.json --all

With --json: one document with circumstances, speeds, findings, only_before and only_after.";

/// Separate changes between two runs from noise
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Compare {
    /// The record of the first run
    #[arg(value_name = "A.json")]
    before: PathBuf,
    /// The record of the second run
    #[arg(value_name = "B.json")]
    after: PathBuf,
    /// Also show what did not change
    #[arg(long)]
    all: bool,
}

impl Compare {
    pub(super) fn run(self, console: &Console) -> Result<Exit> {
        let comparison =
            compare::compare(&Record::read(&self.before)?, &Record::read(&self.after)?);
        let mut output = Output::new();
        match console.is_json() {
            true => output.json_document(&comparison)?,
            false => {
                for line in lines(&comparison, self.all) {
                    output.line(line)?;
                }
            }
        }
        output.finish()?;
        Ok(Exit::Fine)
    }
}

fn lines(comparison: &Comparison, all: bool) -> Vec<String> {
    let Comparison { circumstances, speeds, findings, only_before, only_after } = comparison;
    let mut lines: Vec<String> = circumstances.iter().map(|one| format!("note: {one}")).collect();
    lines.extend(only_before.iter().map(|one| format!("only in the first run: {one}")));
    lines.extend(only_after.iter().map(|one| format!("only in the second run: {one}")));

    let is_shown = |verdict| all || matches!(verdict, Verdict::Slower | Verdict::Faster);
    let mut shown: Vec<_> = speeds.iter().filter(|speed| is_shown(speed.verdict)).collect();
    shown.sort_by_key(|speed| speed.verdict);
    let counted = |verdict| speeds.iter().filter(|speed| speed.verdict == verdict).count();
    let percent = 100.0 * CONFIDENCE;
    lines.push(format!(
        "speeds: {} slower, {} faster, {} the same within {:.0} %, {} not clear for noise, {} with \
         too few rounds to tell",
        counted(Verdict::Slower),
        counted(Verdict::Faster),
        counted(Verdict::Same),
        100.0 * NEGLIGIBLE,
        counted(Verdict::Unclear),
        counted(Verdict::TooFewRounds),
    ));
    let intervals = speeds.len() - counted(Verdict::TooFewRounds);
    if intervals > 0 {
        lines.push(format!(
            "of {} of {percent:.0} %, {:.1} are expected to miss the true ratio by chance",
            count(intervals as u64, "interval", "intervals"),
            comparison.expected_misses()
        ));
        let changes = counted(Verdict::Slower) + counted(Verdict::Faster);
        let changes = count(changes as u64, "change", "changes");
        let stand = speeds.iter().filter(|speed| speed.stands()).count();
        lines.push(format!(
            "{stand} of {changes} would remain significant if all are judged together (Holm, {:.0} %)",
            100.0 * TOGETHER
        ));
    }
    let mut rows = vec![
        ["", "Before GB/s", "After GB/s", "Times", "From", "To", ""].map(String::from).to_vec(),
    ];
    rows.extend(shown.iter().map(|speed| {
        let bound = |pick: fn(&compare::Interval) -> f64| {
            speed.change.as_ref().map_or(String::new(), |change| format!("{:.3}", pick(change)))
        };
        let verdict = match speed.verdict {
            Verdict::Slower if !speed.stands() => "slower, by itself",
            Verdict::Faster if !speed.stands() => "faster, by itself",
            Verdict::Slower => "slower",
            Verdict::Faster => "faster",
            Verdict::Unclear => "not clear",
            Verdict::Same => "same",
            Verdict::TooFewRounds => "too few rounds",
        };
        vec![
            speed.what.clone(),
            format!("{:.2}", speed.before / 1e9),
            format!("{:.2}", speed.after / 1e9),
            bound(|change| change.ratio),
            bound(|change| change.low),
            bound(|change| change.high),
            verdict.to_owned(),
        ]
    }));
    if !shown.is_empty() {
        lines.extend(table::lines(&rows, &[1, 2, 3, 4, 5]));
    }
    lines.push(match findings.len() {
        0 => "what the chunkers found on the same data: the same".into(),
        several => {
            let differ = count(several as u64, "number differs", "numbers differ");
            format!("what the chunkers found on the same data: {differ}")
        }
    });
    lines.extend(findings.iter().map(|finding| {
        format!(
            "  {}: {} {} before, {} after",
            finding.what, finding.number, finding.before, finding.after
        )
    }));
    lines
}
