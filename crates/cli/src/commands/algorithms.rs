//! `onefold algorithms`

use anyhow::Result;
use clap::Args;
use onefold_cdc::Scheme;
use serde::Serialize;

use crate::console::Console;
use crate::exit::Exit;
use crate::output::Output;
use crate::table;

const AFTER_HELP: &str = "\
The sizes are those for an average of 16 KiB; another --avg gives others. The kernels are those that
this CPU can run, the fastest first; `auto` selects the fastest.

The presets at the end cut as other programs do, and are listed with the sizes that those programs use.
`onefold chunk` and `onefold bench run` accept presets; repositories do not.

Examples:
  onefold algorithms
  onefold algorithms --json

With --json: one document, a list; each algorithm has name, summary, content_defined, min, avg, max,
kernels and preset (whether it cuts as another program does).";

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
    preset: bool,
}

impl Algorithms {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        let all = Scheme::all().map(Listed::of);
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
    fn of(scheme: Scheme) -> Result<Self> {
        let params = match scheme {
            Scheme::Own(_) => scheme.params_for_mean(Scheme::DEFAULT_AVG)?,
            Scheme::Tool(preset) => preset.params(),
        };
        Ok(Self {
            name: scheme.name(),
            summary: scheme.summary(),
            content_defined: params.algorithm.is_content_defined(),
            min: params.sizes.min(),
            avg: params.sizes.avg(),
            max: params.sizes.max(),
            kernels: scheme.kernels().iter().map(|kernel| kernel.name()).collect(),
            preset: params.preset.is_some(),
        })
    }
}
