//! `onefold algorithms`

use anyhow::Result;
use clap::Args;
use onefold_cdc::{Algorithm, Kernel, Params};
use serde::Serialize;

use crate::chunking::DEFAULT_AVG;
use crate::console::Console;
use crate::exit::Exit;
use crate::output::Output;
use crate::table;

const AFTER_HELP: &str = "\
The sizes are those for an average of 16 KiB; others follow from --avg. Kernels are those that this
CPU can run, the fastest first: it is the one that `auto` takes.

Examples:
  onefold algorithms
  onefold algorithms --json

With --json: one document, a list; each algorithm has name, summary, content_defined, min, avg, max
and kernels.";

/// List the chunking algorithms with their sizes and kernels
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Algorithms {}

/// An algorithm in JSON.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    summary: &'static str,
    content_defined: bool,
    min: usize,
    avg: usize,
    max: usize,
    kernels: Vec<&'static str>,
}

impl Algorithms {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        let all = Algorithm::ALL.iter().map(|&algorithm| Listed::of(algorithm));
        let all = all.collect::<Result<Vec<_>>>()?;
        let mut output = Output::new();
        match console.is_json() {
            true => output.json_document(&all)?,
            false => {
                for line in lines(&all) {
                    output.line(line)?;
                }
            }
        }
        output.finish()?;
        Ok(Exit::Fine)
    }
}

fn lines(all: &[Listed]) -> Vec<String> {
    let header = ["Name", "Min", "Avg", "Max", "Kernels", "Rule"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for listed in all {
        let sizes = [listed.min, listed.avg, listed.max].map(|size| size.to_string());
        let [min, avg, max] = sizes;
        let texts = [listed.name.into(), min, avg, max, listed.kernels.join(" ")];
        rows.push(texts.into_iter().chain([listed.summary.to_owned()]).collect());
    }
    table::lines(&rows, &[1, 2, 3])
}

impl Listed {
    fn of(algorithm: Algorithm) -> Result<Self> {
        let sizes = Params::for_mean(algorithm, DEFAULT_AVG)?.sizes;
        Ok(Self {
            name: algorithm.name(),
            summary: algorithm.summary(),
            content_defined: algorithm.is_content_defined(),
            min: sizes.min(),
            avg: sizes.avg(),
            max: sizes.max(),
            kernels: Kernel::usable(algorithm).iter().map(|kernel| kernel.name()).collect(),
        })
    }
}
