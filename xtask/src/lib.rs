//! Developer commands: `cargo xtask test | check | tidy | floors | figures | dataset | dist | site | campaign | compat |
//! cluster-demo | gpu-kernels | instructions | natives`.
//!
//! Depends on no crate of the engine, so that it builds, and judges, while they are broken. What is
//! public is for the laboratory, which measures and is `cargo lab`.

#![allow(
    clippy::disallowed_methods,
    reason = "writes records, datasets and scratch trees; no byte here belongs to a repository"
)]

mod area;
mod azure_server;
mod campaign;
mod checks;
mod cluster_demo;
mod compat;
mod dataset;
mod decisions;
pub mod digest;
mod dist;
mod edges;
mod emulate;
mod figures;
mod floors;
mod gpu_campaign;
mod gpu_kernels;
mod guest_kernel;
mod instructions;
mod jobs;
mod loops;
mod manifest;
mod mutants;
mod natives;
mod old_program;
pub mod outcome;
pub mod programs;
mod python;
pub mod record;
mod repository_loops;
pub mod s3_server;
pub mod sample_tree;
mod site;
mod suite;
mod tally;
mod tidy;
mod wheel;
pub mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::area::Area;
use crate::tidy::Docstrings;
use crate::workspace::Cargo;

/// Developer commands of Onefold.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what the tests need, run every check, and count what passed, failed and was skipped
    Test {
        /// Run one area of the tests; the core has the checks that are no tests too
        #[arg(long)]
        area: Option<Area>,
        /// Leave out nothing that takes minutes and seldom breaks
        #[arg(long)]
        all: bool,
        /// The same, and count each skip as a failure
        #[arg(long)]
        require_all: bool,
        /// Use nothing from the network; what was fetched before is used
        #[arg(long)]
        offline: bool,
        /// Leave out the tests on emulated CPUs; the reason is printed and each counted as a skip
        #[arg(long, value_name = "REASON")]
        skip_emulation: Option<String>,
    },
    /// Run every check that is no test: formatting, lints, documents, packages. `test` runs them too
    Check {
        /// Run those of one area
        #[arg(long)]
        area: Option<Area>,
        /// Leave out nothing that takes minutes and seldom breaks
        #[arg(long)]
        all: bool,
        /// Use nothing from the network; what was fetched before is used
        #[arg(long)]
        offline: bool,
    },
    /// Check the edges between crates, the lints, the docstrings and the length of source files
    Tidy {
        /// The workspace to check, if not this one
        #[arg(long, value_name = "Cargo.toml")]
        manifest_path: Option<PathBuf>,
    },
    /// Check the floors of the crates alone, which `tidy` does too
    Floors,
    /// Fetch a dataset
    #[command(subcommand)]
    Dataset(DatasetCommand),
    /// Make the fixtures of this version of the format, once; or try an earlier program
    Compat {
        /// Build the program of this revision, and have it open, check, restore, prune and continue
        /// what this one writes
        #[arg(long, value_name = "REV", num_args = 0..=1,
              default_missing_value = old_program::FROZEN)]
        old: Option<String>,
    },
    /// Write the tables of figures in the documents anew, from the records
    Figures,
    /// Make what users download: static programs, a Debian package, checksums
    Dist(dist::Options),
    /// Build the library that finds cut-points for Java, for the jars that `mvn package` makes
    Natives,
    /// Write the documents as pages for a browser to target/site
    Site,
    /// Run something long by hand
    #[command(subcommand)]
    Campaign(CampaignCommand),
    /// Start Ceph and gateways of a pool of volumes on this machine, to try, until Ctrl-C
    ClusterDemo {
        /// Write and read a little instead, and end
        #[arg(long)]
        once: bool,
    },
    /// Compile the kernels for GPUs, and show their registers and instructions
    GpuKernels {
        /// Write the PTX and the table anew
        #[arg(long)]
        write: bool,
        /// Write what each generation of devices runs, as files sm_80.cubin and so on, to this folder, and show nothing.
        /// A program that is built with the folder's absolute path in ONEFOLD_CUBINS loads them
        #[arg(long, value_name = "FOLDER", conflicts_with = "write")]
        cubins: Option<PathBuf>,
    },
    /// Count the instructions that each chunker takes a byte, and show what differs from the table
    Instructions {
        /// Write the table anew
        #[arg(long)]
        write: bool,
    },
}

#[derive(Subcommand)]
enum CampaignCommand {
    /// Kill the binary in the middle of backups, prunes and restores, on a file system that loses
    /// what was not synced
    Kill {
        /// How many backups are killed, and how many prunes
        #[arg(long, default_value_t = 200)]
        kills: u32,
        /// The record to write, e.g. docs/records/NAME.json
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Kill backups, prunes and restores of the real program at any moment, and run several at once;
    /// restore and compare whatever was acknowledged
    Loops {
        /// How often each loop goes round
        #[arg(long, default_value_t = 100)]
        rounds: u32,
        /// What draws changes and moments
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The record to write, e.g. docs/records/NAME.json
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Overwrite volumes at random where there is little room, and see that no write is refused
    Room {
        /// How long
        #[arg(long, default_value_t = 3600)]
        seconds: u64,
        /// The record to write, e.g. docs/records/NAME.json
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Change the code in small ways, and see whether the tests notice
    Mutants {
        /// How many changes are tried at most
        #[arg(long, default_value_t = 200)]
        count: usize,
        /// What draws them
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// After how many minutes no more is begun
        #[arg(long, default_value_t = 240)]
        minutes: u64,
        /// The record to write, e.g. docs/records/NAME.json
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Let writers, pruners and readers of a repository take turns at its storage in many orders
    Plays {
        /// How many orders of each cast
        #[arg(long, default_value_t = 5000)]
        seeds: u32,
        /// The record to write, e.g. docs/records/NAME.json
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Fuzz every decoder of stored bytes, and the chunkers
    Fuzz {
        /// How long each target runs
        #[arg(long, default_value_t = 60)]
        seconds: u32,
        /// The record to write, e.g. docs/records/NAME.json
        #[arg(long)]
        out: Option<PathBuf>,
        /// The targets to run, if not all
        targets: Vec<String>,
    },
    /// Kill `onefold serve` under load and in each operation, cut its power, damage what is left, and
    /// hold it to what it acknowledged
    ServeKill {
        /// How many kills under load, and how many power cuts; a quarter as many in each operation
        #[arg(long, default_value_t = 48)]
        kills: u32,
        /// The record to write, e.g. docs/records/NAME.json
        #[arg(long)]
        out: PathBuf,
    },
    /// Make the packages, twice, try the oldest Rust, and install the packages in a clean root
    Dist,
    /// Compare and measure a GPU in five parts, each with a record: chunks of mixed data, the steps of Shredder, rates,
    /// backups of an image with and without the device, and kernels under compute-sanitizer
    Gpu(gpu_campaign::Options),
    /// Run the tests of the kernels under the address sanitizer
    Asan,
    /// Run the tests of the kernels' edges in Miri
    Miri,
}

#[derive(Subcommand)]
enum DatasetCommand {
    /// Source trees of Kubernetes releases, one folder a version
    Kubernetes {
        /// How many versions, counted from v1.26.0
        #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u8).range(1..=30))]
        versions: u8,
        /// Where the version folders go
        #[arg(long)]
        dir: PathBuf,
    },
}

/// Does what the arguments of this process ask for.
pub fn run() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Test { area, all, require_all, offline, skip_emulation } => {
            let all = all || require_all;
            let options = suite::Options { area, all, require_all, offline, skip_emulation };
            return suite::run(&options);
        }
        Command::Check { area, all, offline } => {
            return checks::run(checks::Options { area, all }, Cargo { offline });
        }
        Command::Tidy { manifest_path } => {
            let manifest = manifest_path.unwrap_or_else(|| workspace::root().join("Cargo.toml"));
            return if tidy::run(Cargo::default(), &manifest, Docstrings::Checked) {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            };
        }
        Command::Dataset(DatasetCommand::Kubernetes { versions, dir }) => {
            dataset::kubernetes(&dir, &dataset::first_versions(versions.into()))
        }
        Command::Figures => figures::write(),
        Command::Floors => floors::check(workspace::root()),
        Command::Campaign(CampaignCommand::Fuzz { seconds, out, targets }) => {
            campaign::fuzz(seconds, &targets, out.as_deref())
        }
        Command::Campaign(CampaignCommand::Kill { kills, out }) => {
            campaign::kill(kills, out.as_deref())
        }
        Command::Campaign(CampaignCommand::Loops { rounds, seed, out }) => {
            repository_loops::run(rounds, seed, out.as_deref())
        }
        Command::Campaign(CampaignCommand::Mutants { count, seed, minutes, out }) => {
            mutants::run(count, seed, Duration::from_secs(60 * minutes), out.as_deref())
        }
        Command::Campaign(CampaignCommand::Plays { seeds, out }) => {
            campaign::plays(seeds, out.as_deref())
        }
        Command::Campaign(CampaignCommand::ServeKill { kills, out }) => {
            campaign::serve_kill(kills, &out)
        }
        Command::Campaign(CampaignCommand::Room { seconds, out }) => {
            campaign::room(seconds, out.as_deref())
        }
        Command::Campaign(CampaignCommand::Dist) => dist::campaign(Cargo::default()),
        Command::Campaign(CampaignCommand::Gpu(options)) => {
            gpu_campaign::run(Cargo::default(), &options)
        }
        Command::Campaign(CampaignCommand::Asan) => campaign::asan(),
        Command::Campaign(CampaignCommand::Miri) => campaign::miri(),
        Command::Natives => natives::build(Cargo::default()),
        Command::Site => site::write(&workspace::target_dir().join("site")),
        Command::Dist(options) => dist::run(Cargo::default(), options),
        Command::Compat { old: Some(revision) } => compat::with_old(Cargo::default(), &revision),
        Command::Compat { old: None } => compat::make(Cargo::default()),
        Command::ClusterDemo { once } => cluster_demo::run(Cargo::default(), once),
        Command::GpuKernels { cubins: Some(folder), .. } => {
            gpu_kernels::write_cubins(Cargo::default(), &folder)
        }
        Command::GpuKernels { write, cubins: None } => gpu_kernels::run(Cargo::default(), write),
        Command::Instructions { write } => instructions::run(Cargo::default(), write),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
