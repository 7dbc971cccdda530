//! `onefold bench`: the commands that measure chunkers, one file each.

mod choices;
mod compare;
mod dataset;
mod paper;
mod recommend;
mod run;
pub(super) mod watch;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::console::Console;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Nothing here touches a repository. Times count on a machine that has nothing else to do.

Examples:
  onefold bench recommend --data ~/Documents
  onefold bench run --data disk.img --mean 8KiB,16KiB --html report.html
  onefold bench compare before.json after.json
  onefold bench dataset build numpy --dir /data
  onefold bench paper vectorcdc --dir /data --quick";

/// Measure which chunker suits which data
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Bench {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Run),
    Recommend(recommend::Recommend),
    Compare(compare::Compare),
    Dataset(dataset::Dataset),
    Paper(paper::Paper),
}

impl Bench {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        match self.command {
            Command::Run(run) => run.run(console),
            Command::Recommend(recommend) => recommend.run(console),
            Command::Compare(compare) => compare.run(console),
            Command::Dataset(dataset) => dataset.run(console),
            Command::Paper(paper) => paper.run(console),
        }
    }
}
