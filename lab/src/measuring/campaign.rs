//! Measurements that are programs of their own: the index beyond its memory, the tables in memory, a pool
//! of volumes; and commands on a line to a repository far away.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use xtask::outcome::Outcome;
use xtask::s3_server;
use xtask::workspace::{self, Cargo};

use super::limited::Limited;

/// What [`far_away`] measures.
#[derive(Debug, clap::Args)]
pub(crate) struct FarAway {
    /// The directory that is backed up and restored
    #[arg(long)]
    source: PathBuf,
    /// Milliseconds that a byte takes in each direction
    #[arg(long, default_value_t = 20)]
    one_way: u64,
    /// Bytes a second in each direction; 0 for no limit
    #[arg(long, default_value_t = 100_000_000)]
    rate: u64,
    /// The service: versitygw, or the tests' own, which keeps its objects in memory
    #[arg(long, default_value = "versitygw", value_parser = ["versitygw", "memory"])]
    server: String,
    /// Small backups of the repository that is old; 0 for none; versitygw only
    #[arg(long, default_value_t = 500)]
    aged: u32,
    /// How often all is measured
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// The record to write, e.g. docs/records/NAME.json
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Measures commands on a simulated line to a repository in an S3 service, and those of restic, rustic and
/// kopia that are installed beside.
pub(crate) fn far_away(options: &FarAway) -> Result<()> {
    let mut outcome = Outcome::begin("cargo lab")?;
    run(Command::new("cargo")
        .args(["build", "--quiet", "--release", "--locked", "-p", "onefold"])
        .current_dir(workspace::root()))?;
    let source = std::path::absolute(&options.source)?;
    outcome.note("the release build, each tool at its defaults unless its name says more; every restore is compared");
    let mut measuring = Command::new("cargo");
    if options.server == "memory" {
        let server = s3_server::install(Cargo::default()).context("there is no S3 server")?;
        measuring.env("ONEFOLD_S3_SERVER", server);
    }
    outcome.run(
        measuring
            .args(["test", "-p", "onefold", "--test", "cli", "--", "--nocapture"])
            .arg("far_away_times::")
            .env("ONEFOLD_FAR_AWAY", source)
            .env("ONEFOLD_FAR_AWAY_PROGRAM", workspace::target_dir().join("release/onefold"))
            .env("ONEFOLD_FAR_AWAY_ONE_WAY", options.one_way.to_string())
            .env("ONEFOLD_FAR_AWAY_RATE", options.rate.to_string())
            .env("ONEFOLD_FAR_AWAY_SERVER", &options.server)
            .env("ONEFOLD_FAR_AWAY_AGED", options.aged.to_string())
            .env("ONEFOLD_FAR_AWAY_ROUNDS", options.rounds.to_string())
            .env("ONEFOLD_REQUIRE_ALL", "1")
            .current_dir(workspace::root()),
        |line| line.strip_prefix("far-away: ").map(str::to_owned),
    )?;
    outcome.write(options.out.as_deref())
}

/// Builds the measurement of the index and runs it with `limit` bytes of memory, the kernel's cache
/// included, so that what is read comes from the disk.
pub(crate) fn index(limit: u64, arguments: &[String]) -> Result<()> {
    let program = measurement("index-campaign")?;
    let mut arguments = arguments.to_vec();
    if limit == 0 {
        return run(Command::new(program).args(arguments));
    }
    arguments.extend(["--limit".into(), limit.to_string()]);
    run(&mut Limited::new(limit)?.command(&program, &arguments))
}

/// Builds the measurement of the tables in memory and runs it.
pub(crate) fn table(arguments: &[String]) -> Result<()> {
    run(Command::new(measurement("table-campaign")?).args(arguments))
}

/// Builds the measurement of what pools store twice and runs it.
pub(crate) fn table_loss(arguments: &[String]) -> Result<()> {
    run(Command::new(measurement("table-loss")?).args(arguments))
}

/// Builds the measurement of look-ups between gateways and runs it.
pub(crate) fn peers(arguments: &[String]) -> Result<()> {
    run(Command::new(measurement("peers-campaign")?).args(arguments))
}

/// Builds the measurement of a pool of volumes and runs it, with huge pages as the unit of
/// docs/volumes.md has them, unless the environment says otherwise.
pub(crate) fn engine(arguments: &[String]) -> Result<()> {
    const TUNABLES: &str = "GLIBC_TUNABLES";
    let tunables = env::var_os(TUNABLES).unwrap_or("glibc.malloc.hugetlb=1".into());
    run(Command::new(measurement("engine-campaign")?).args(arguments).env(TUNABLES, tunables))
}

/// Builds a program of the laboratory.
fn measurement(name: &str) -> Result<PathBuf> {
    run(Command::new("cargo")
        .args(["build", "--quiet", "--release", "--locked", "-p", "onefold-lab", "--bin", name])
        .current_dir(workspace::root()))?;
    Ok(workspace::target_dir().join("release").join(name))
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status()?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}
