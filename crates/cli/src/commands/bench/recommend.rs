//! `onefold bench recommend`

use std::num::NonZero;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use indicatif::HumanBytes;
use onefold_bench::Source;
use onefold_bench::equal_mean::Borders;
use onefold_bench::recommend::{Advice, Candidate, recommend};
use onefold_bench::run::{self, Plan, Results};
use onefold_cdc::{Algorithm, Kernel, Scheme};
use serde::Serialize;

use super::choices::mean;
use super::enough::{FEWEST_CHUNKS, What, bytes_needed, ensure_enough};
use super::run::{exit, tell_unreadable};
use crate::console::Console;
use crate::exit::Exit;
use crate::interrupt::bar_until_signal;
use crate::output::Output;
use crate::{count, size};

/// Enough rounds to distinguish speeds that differ by half.
const ROUNDS: u32 = 3;

/// The default means.
const MEANS: [usize; 6] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10];

const AFTER_HELP: &str = "\
All PATHs are measured together, as in one repository. Every algorithm cuts all data, at each mean
size. Means of which the data have fewer than 100 chunks are left out, unless --mean names them, which
is an error. The command compares the bytes that a repository would store before compression: distinct chunks, and the bytes of recipes, footers and index
for each. Of the algorithms within 1 % of the fewest bytes, it selects those within 10 % of the fastest,
fingerprinting included. Of these it recommends the one with the fewest bytes. It recommends fixed
chunks only if they are clearly better than all others.

Examples:
  onefold bench recommend --data /srv/images
  onefold bench recommend --data ~/Documents ~/src --per-file

With --json: one document with dataset, choice, runner_up, reasons, cautions and candidates.";

/// Recommend a chunker and sizes for your data
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Recommend {
    /// Files or folders to cut
    #[arg(long, value_name = "PATH", required = true, num_args = 1..)]
    data: Vec<PathBuf>,
    /// The mean chunk sizes to try, 256 bytes or more. The default is those from 4KiB to 128KiB of
    /// which the data have at least 100 chunks
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = mean)]
    mean: Vec<usize>,
    /// Cut all files as one stream, like an archive, instead of separately
    #[arg(long, conflicts_with = "per_file")]
    one_stream: bool,
    /// Cut each file separately, as a backup does; this is the default
    #[arg(long)]
    per_file: bool,
    /// The amount of data held in memory to measure speed
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = size::parse)]
    sample: usize,
}

/// The answer in JSON.
#[derive(Serialize)]
struct Answer<'a> {
    dataset: &'a onefold_bench::DatasetRecord,
    is_complete: bool,
    #[serde(flatten)]
    advice: &'a Advice,
}

impl Recommend {
    pub(super) fn run(self, console: &Console) -> Result<Exit> {
        let mut source = Source::list(&self.data)?;
        tell_unreadable(source.unreadable(), console);
        let means = self.means(source.bytes())?;
        let listed = source.unreadable().len();
        let watch =
            bar_until_signal(console, "the answer will be based on what was measured so far")?;
        let results = run::run(&mut source, &self.plan(&means), &watch)?;
        drop(watch);
        tell_unreadable(&results.unreadable[listed..], console);
        let mut advice = recommend(&results).context("nothing was measured")?;
        advice.cautions.extend(self.left_out(&means));
        let mut output = Output::new();
        if console.is_json() {
            let Results { dataset, is_complete, .. } = &results;
            output.json_document(&Answer {
                dataset,
                is_complete: *is_complete,
                advice: &advice,
            })?;
        } else {
            for line in describe(&results, &advice) {
                output.line(line)?;
            }
        }
        output.finish()?;
        Ok(exit(&[results], console))
    }

    /// The means to try on this many bytes, or an error with the number of bytes needed.
    fn means(&self, bytes: u64) -> Result<Vec<usize>> {
        let sample = bytes.min(self.sample as u64);
        let means: Vec<usize> = match &self.mean[..] {
            [] => MEANS.into_iter().filter(|&mean| bytes_needed(mean) <= sample).collect(),
            asked => asked.to_vec(),
        };
        let largest = means.iter().copied().max().unwrap_or(MEANS[0]);
        ensure_enough(What::Data, bytes, largest)?;
        ensure_enough(What::Sample, sample, largest)?;
        Ok(means)
    }

    /// The default means that were not tried because the data are too small.
    fn left_out(&self, means: &[usize]) -> Option<String> {
        let left_out = MEANS.iter().filter(|mean| self.mean.is_empty() && !means.contains(mean));
        let left_out: Vec<String> = left_out.map(ToString::to_string).collect();
        (!left_out.is_empty()).then(|| {
            let left_out = left_out.join(", ");
            format!(
                "The data or the sample have fewer than {FEWEST_CHUNKS} chunks at means of \
                 {left_out} bytes, which were not tried."
            )
        })
    }

    fn plan(&self, means: &[usize]) -> Plan {
        Plan {
            // what a repository takes
            schemes: Algorithm::ALL.iter().copied().map(Scheme::Own).collect(),
            means: means.to_vec(),
            // what each chunk costs is counted, so that means need not be equal
            equalise_mean: false,
            borders: if self.one_stream { Borders::Stream } else { Borders::Files },
            kernels: vec![Kernel::Auto],
            rounds: ROUNDS,
            sample: self.sample,
            fingerprints: true,
            threads: NonZero::<usize>::MIN,
            device: None,
        }
    }
}

fn describe(results: &Results, advice: &Advice) -> Vec<String> {
    let dataset = &results.dataset;
    let mut lines = vec![format!(
        "{}: {} in {}{}",
        dataset.name,
        HumanBytes(dataset.bytes),
        count::files(dataset.files),
        if results.is_complete { "" } else { "; STOPPED before the end" },
    )];
    lines.push(String::new());
    lines.extend(promise("take", &advice.choice));
    if let Some(runner_up) = &advice.runner_up {
        lines.extend(promise("else", runner_up));
    }
    lines.push(String::new());
    lines.extend(advice.reasons.iter().cloned());
    lines.extend(advice.cautions.iter().map(|caution| format!("note: {caution}")));
    lines
}

fn promise(word: &str, candidate: &Candidate) -> [String; 3] {
    let Candidate { algorithm, min, avg, max, mean, dedup_ratio, kept_bytes, .. } = candidate;
    let speed =
        |speed: Option<f64>| speed.map_or("?".into(), |speed| format!("{:.2}", speed / 1e9));
    [
        format!("{word}  --algorithm {algorithm} --min {min} --avg {avg} --max {max}"),
        format!(
            "      dedup ratio {dedup_ratio:.3} at a mean of {mean:.0} bytes; {} to store before \
             compression",
            HumanBytes(*kept_bytes)
        ),
        format!(
            "      cuts {} GB/s, {} with fingerprints, one thread",
            speed(candidate.cut_bytes_per_second),
            speed(candidate.bytes_per_second)
        ),
    ]
}
