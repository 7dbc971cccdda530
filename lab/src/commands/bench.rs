//! `cargo lab bench`

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use xtask::workspace::Cargo;

use crate::exit::Exit;
use crate::measuring::backups::{self, Scene};
use crate::measuring::tool::Tool;
use crate::measuring::{install, loss, similarity, sizes};

const AFTER_HELP: &str = "\
Examples:
  cargo lab bench backup --dataset DIR --rivals restic,borg \\
      --out docs/records/NAME.json
  cargo lab bench stages --dataset DIR --out docs/records/NAME.json
  cargo lab bench sizes --dataset DIR --out docs/records/NAME.json
  cargo lab bench dedup-loss --dataset DIR --out docs/records/NAME.json
  cargo lab bench similarity --plot NAME.svg --out docs/records/NAME.json
  cargo lab bench install restic
  cargo lab bench smoke";

/// Measure backups beside other tools, and their stages, and write a record
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Bench {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Each stage of a backup alone: walk, read, chunk, fingerprint, look up, compress
    Stages {
        /// The tree to read
        #[arg(long)]
        dataset: PathBuf,
        /// How often
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
        rounds: u32,
        /// The record to write, e.g. docs/records/NAME.json
        #[arg(long)]
        out: PathBuf,
    },
    /// What a repository of a dataset takes, by algorithm and mean chunk size
    Sizes {
        /// The tree to back up, or the folder of disk images
        #[arg(long)]
        dataset: PathBuf,
        /// The algorithms to compare, as `onefold algorithms` names them
        #[arg(long, value_delimiter = ',', default_values = ["fastcdc", "gear16", "mincdc"])]
        algorithms: Vec<String>,
        /// The mean chunk sizes that are asked for, in KiB
        #[arg(long, value_delimiter = ',', value_name = "KIB",
              default_values_t = [4, 8, 16, 32, 64, 128, 256, 512, 1024])]
        means: Vec<u64>,
        /// How often each is measured
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        rounds: u32,
        /// Where repositories go; emptied first [default: target/bench/work]
        #[arg(long)]
        work: Option<PathBuf>,
        /// The record to write, e.g. docs/records/NAME.json
        #[arg(long)]
        out: PathBuf,
    },
    /// What an index of little memory misses of duplicates, and the memory that whole backups take
    DedupLoss(loss::Options),
    /// Backups of images to an S3 server, by how much of them it has (Shredder, figure 18)
    Similarity(similarity::Options),
    /// Install the backup tools that are no packages of Debian, below target/rivals
    Install {
        /// The tools to install
        #[arg(value_enum, default_values = ["restic", "kopia", "rustic"])]
        tools: Vec<install::Rival>,
    },
    /// Backup, restore and prune, beside other backup tools
    Backup {
        /// The tree to back up
        #[arg(long)]
        dataset: PathBuf,
        /// What each tool goes through
        #[arg(long, default_value = "tree")]
        scene: Scene,
        /// How often each tool runs each phase
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
        rounds: u32,
        /// Tools to run beside onefold
        #[arg(long, value_delimiter = ',')]
        rivals: Vec<Tool>,
        /// Where repositories and restored trees go; emptied first [default: target/bench/work]
        #[arg(long)]
        work: Option<PathBuf>,
        /// Let the system forget all files before each phase; only root can
        #[arg(long)]
        cold: bool,
        /// The record to write, e.g. docs/records/NAME.json
        #[arg(long)]
        out: PathBuf,
    },
    /// Run the backup measurement on a small generated tree, to know that it still works
    Smoke,
}

impl Bench {
    pub(crate) fn run(self) -> Result<Exit> {
        match self.command {
            Command::Stages { dataset, rounds, out } => backups::stages(&dataset, rounds, &out),
            Command::Sizes { dataset, algorithms, means, rounds, work, out } => {
                sizes::sizes(sizes::Options { dataset, algorithms, means, rounds, work, out })
            }
            Command::DedupLoss(options) => loss::measure(options),
            Command::Similarity(options) => similarity::measure(options),
            Command::Install { tools } => install::install(Cargo::default(), &tools),
            Command::Backup { dataset, scene, rounds, rivals, work, cold, out } => {
                backups::backup(backups::Options {
                    dataset,
                    scene,
                    rounds,
                    rivals,
                    work,
                    cold,
                    out,
                })
            }
            Command::Smoke => backups::smoke(),
        }?;
        Ok(Exit::Fine)
    }
}
