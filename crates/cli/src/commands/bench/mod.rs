//! `onefold bench`: the commands that measure chunkers, one file each.

mod choices;
mod dataset;
mod paper;
mod run;
mod watch;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::console::Console;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Nothing here touches a repository. Times count on a machine that has nothing else to do.

Examples:
  onefold bench dataset build numpy --dir /data
  onefold bench run --data disk.img --mean 8KiB,16KiB
  onefold bench paper vectorcdc --dir /data --quick
  onefold bench run --data ~/src --per-file --equalise-mean --json src.json";

/// Measure which chunker suits which data
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Bench {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Dataset(dataset::Dataset),
    Paper(paper::Paper),
    Run(run::Run),
}

impl Bench {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        match self.command {
            Command::Dataset(dataset) => dataset.run(console),
            Command::Paper(paper) => paper.run(console),
            Command::Run(run) => run.run(console),
        }
    }
}
