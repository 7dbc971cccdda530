//! Developer commands: `cargo xtask test | tidy | figures | dataset | bench | rivals | campaign | compat |
//! bench-smoke`.
//!
//! Depends on no crate of the engine, so that it builds, and judges, while they are broken.

#![allow(
    clippy::disallowed_methods,
    reason = "writes records, datasets and scratch trees; no byte here belongs to a repository"
)]

mod bench;
mod bench_install;
mod bench_loss;
mod bench_nbd;
mod bench_similarity;
mod bench_sizes;
mod bench_source;
mod bench_table;
mod bench_traces;
mod campaign;
mod compat;
mod dataset;
mod decisions;
mod digest;
mod edges;
mod emulate;
mod figures;
mod guest_kernel;
mod instructions;
mod limited;
mod loops;
mod manifest;
mod measure;
mod mutants;
mod old_program;
mod outcome;
mod programs;
mod record;
mod repository_loops;
mod rivals;
mod s3_process;
mod s3_server;
mod sample_tree;
mod similarity_plot;
mod suite;
mod tally;
mod tidy;
mod tool;
mod traces_plot;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::bench::Scene;
use crate::tool::Tool;
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
        /// Count each skip as a failure
        #[arg(long)]
        require_all: bool,
        /// Use nothing from the network; what was fetched before is used
        #[arg(long)]
        offline: bool,
        /// Leave out the tests on emulated CPUs; the reason is printed and each counted as a skip
        #[arg(long, value_name = "REASON")]
        skip_emulation: Option<String>,
    },
    /// Check the edges between crates, the lints, the docstrings and the length of source files
    Tidy {
        /// The workspace to check, if not this one
        #[arg(long, value_name = "Cargo.toml")]
        manifest_path: Option<PathBuf>,
    },
    /// Fetch a dataset
    #[command(subcommand)]
    Dataset(DatasetCommand),
    /// Measure and write a record
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Cut the same data by Onefold and by the chunkers of other crates; --help for its options
    #[command(disable_help_flag = true)]
    Rivals {
        /// Handed on to the package in bench/rivals
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
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
    /// Run something long by hand
    #[command(subcommand)]
    Campaign(CampaignCommand),
    /// Count the instructions that each chunker takes a byte, and show what differs from the table
    Instructions {
        /// Write the table anew
        #[arg(long)]
        write: bool,
    },
    /// Run the backup measurement on a small generated tree, to know that it still works
    BenchSmoke,
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
    /// Measure commands on a simulated line to a repository far away
    FarAway(campaign::FarAway),
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
    /// Measure the index as it grows beyond its memory, in a control group
    Index {
        /// Bytes of memory that it may have, the kernel's cache included; 0 for no limit
        #[arg(long, default_value_t = 512 << 20)]
        limit: u64,
        /// `--dir DIR --out RECORD [--plot SVG] [--entries N] [--simulate N] [--scale N]
        /// [--memory BYTES] [--lookups N]`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Measure the tables of fingerprints in memory, half full and full
    Table {
        /// `--out RECORD [--only LAYOUT] [--entries N] [--operations N] [--rounds N]`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Measure a pool of volumes without NBD, beside fingerprints and compression alone
    Engine {
        /// `--dir DIR --out RECORD [--plot SVG] [--known N] [--operations N] [--rounds N]
        /// [--depth N]`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
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
    /// Measure a served volume by fio beside nbdkit's file and memory plugins and qemu-nbd
    Nbd(bench_nbd::Options),
    /// Replay traces in the shape of mail, web and homes (StreamDedup, figure 15)
    Traces(bench_traces::Options),
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

#[derive(Subcommand)]
enum BenchCommand {
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
    DedupLoss(bench_loss::Options),
    /// Backups of images to an S3 server, by how much of them it has (Shredder, figure 18)
    Similarity(bench_similarity::Options),
    /// Install the backup tools that are no packages of Debian, below target/rivals
    Install {
        /// The tools to install
        #[arg(value_enum, default_values = ["restic", "kopia", "rustic"])]
        tools: Vec<bench_install::Rival>,
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
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Test { require_all, offline, skip_emulation } => {
            return suite::run(&suite::Options { require_all, offline, skip_emulation });
        }
        Command::Tidy { manifest_path } => {
            let manifest = manifest_path.unwrap_or_else(|| workspace::root().join("Cargo.toml"));
            return if tidy::run(Cargo::default(), &manifest) {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            };
        }
        Command::Dataset(DatasetCommand::Kubernetes { versions, dir }) => {
            dataset::kubernetes(&dir, &dataset::first_versions(versions.into()))
        }
        Command::Bench(BenchCommand::Stages { dataset, rounds, out }) => {
            bench::stages(&dataset, rounds, &out)
        }
        Command::Bench(BenchCommand::Sizes { dataset, algorithms, means, rounds, work, out }) => {
            bench_sizes::sizes(bench_sizes::Options {
                dataset,
                algorithms,
                means,
                rounds,
                work,
                out,
            })
        }
        Command::Bench(BenchCommand::DedupLoss(options)) => bench_loss::measure(options),
        Command::Bench(BenchCommand::Similarity(options)) => bench_similarity::measure(options),
        Command::Bench(BenchCommand::Install { tools }) => {
            bench_install::install(Cargo::default(), &tools)
        }
        Command::Bench(BenchCommand::Backup {
            dataset,
            scene,
            rounds,
            rivals,
            work,
            cold,
            out,
        }) => bench::backup(bench::Options { dataset, scene, rounds, rivals, work, cold, out }),
        Command::Rivals { arguments } => rivals::run(&arguments),
        Command::Figures => figures::write(),
        Command::Campaign(CampaignCommand::Fuzz { seconds, out, targets }) => {
            campaign::fuzz(seconds, &targets, out.as_deref())
        }
        Command::Campaign(CampaignCommand::Index { limit, arguments }) => {
            campaign::index(limit, &arguments)
        }
        Command::Campaign(CampaignCommand::Table { arguments }) => campaign::table(&arguments),
        Command::Campaign(CampaignCommand::Engine { arguments }) => campaign::engine(&arguments),
        Command::Campaign(CampaignCommand::Kill { kills, out }) => {
            campaign::kill(kills, out.as_deref())
        }
        Command::Campaign(CampaignCommand::Loops { rounds, seed, out }) => {
            repository_loops::run(rounds, seed, out.as_deref())
        }
        Command::Campaign(CampaignCommand::FarAway(options)) => campaign::far_away(&options),
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
        Command::Campaign(CampaignCommand::Nbd(options)) => bench_nbd::measure(&options),
        Command::Campaign(CampaignCommand::Traces(options)) => bench_traces::measure(&options),
        Command::Campaign(CampaignCommand::Asan) => campaign::asan(),
        Command::Campaign(CampaignCommand::Miri) => campaign::miri(),
        Command::Compat { old: Some(revision) } => compat::with_old(Cargo::default(), &revision),
        Command::Compat { old: None } => compat::make(Cargo::default()),
        Command::Instructions { write } => instructions::run(Cargo::default(), write),
        Command::BenchSmoke => bench::smoke(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
