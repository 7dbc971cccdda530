//! `onefold bench`: the commands that measure chunkers, one file each.

mod choices;
mod compare;
mod enough;
#[cfg(feature = "gpu")]
mod gpu;
mod recommend;
mod run;

pub(crate) use enough::TooSmall;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::commands::moved::Moved;
use crate::console::Console;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
These commands use no repository. Run them on an idle machine: otherwise the times mean little.

Examples:
  onefold bench recommend --data ~/Documents
  onefold bench run --data disk.img --mean 8KiB,16KiB --html report.html
  onefold bench compare before.json after.json";

/// Measure which chunker suits your data
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
    #[cfg(feature = "gpu")]
    Gpu(gpu::Gpu),
    #[cfg(not(feature = "gpu"))]
    #[command(hide = true)]
    Gpu(crate::commands::absent::Absent),
    #[command(hide = true)]
    Dataset(Moved),
    #[command(hide = true)]
    Paper(Moved),
}

impl Bench {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        match self.command {
            Command::Run(run) => run.run(console),
            Command::Recommend(recommend) => recommend.run(console),
            Command::Compare(compare) => compare.run(console),
            #[cfg(feature = "gpu")]
            Command::Gpu(gpu) => gpu.run(console),
            #[cfg(not(feature = "gpu"))]
            Command::Gpu(absent) => absent.refuse(crate::commands::absent::Lack::Gpus),
            Command::Dataset(moved) => moved.refuse("bench dataset", "dataset"),
            Command::Paper(moved) => moved.refuse("bench paper", "paper"),
        }
    }
}
