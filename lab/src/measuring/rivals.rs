//! Runs the package that cuts the same data by Onefold and by other crates.

use std::env;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use xtask::workspace;

/// Builds bench/rivals, which is outside the workspace, and hands it `arguments`; paths in them are
/// relative to where the command was typed.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["run", "--quiet", "--release", "--locked", "--manifest-path"]);
    command.arg(workspace::root().join("bench/rivals/Cargo.toml"));
    command.arg("--target-dir").arg(workspace::target_dir().join("rivals"));
    let status = command.arg("--").args(arguments).status().context("cargo run")?;
    ensure!(status.success(), "rivals ended with {status}");
    Ok(())
}
