//! Long runs that are started by hand: fuzzing for as long as one likes.

use std::process::Command;

use anyhow::{Result, bail};

use crate::workspace;

/// The fuzz targets, as `fuzz/Cargo.toml` names them.
const FUZZ_TARGETS: &[&str] = &["tree", "snapshot", "run", "container", "repository", "chunkers"];

/// Runs each fuzz target for `seconds`; stops at the first that fails.
///
/// The stable compiler is told to accept the sanitizer flags; only fuzzing does that.
pub(crate) fn fuzz(seconds: u32) -> Result<()> {
    if !has_cargo_fuzz() {
        println!("campaign: cargo install cargo-fuzz --locked");
        run(Command::new("cargo").args(["install", "cargo-fuzz", "--locked"]))?;
    }
    for target in FUZZ_TARGETS {
        println!("campaign: fuzzing {target} for {seconds} s");
        let limit = format!("-max_total_time={seconds}");
        run(Command::new("cargo")
            .args(["fuzz", "run", target, "--", &limit, "-max_len=65536", "-rss_limit_mb=4096"])
            .env("RUSTC_BOOTSTRAP", "1")
            .current_dir(workspace::root()))?;
    }
    println!(
        "campaign: {} fuzz targets ran {seconds} s each and found nothing",
        FUZZ_TARGETS.len()
    );
    Ok(())
}

fn has_cargo_fuzz() -> bool {
    let output = Command::new("cargo").args(["fuzz", "--version"]).output();
    output.is_ok_and(|output| output.status.success())
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status()?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}
