//! `cargo semver-checks`, which holds the crates for others to the promise of versions (docs/versions.md).

use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::tools;
use crate::programs;
use crate::suite::PUBLISHED;
use crate::workspace::{self, Cargo};

const VERSION: &str = "0.51.0";

/// Compares the crates that can be published with those of `baseline`, a commit or a tag; without one with the
/// newest release.
///
/// # Errors
///
/// If the tool cannot be installed, or if an item changed in a way that the version in Cargo.toml does not allow.
pub(crate) fn check(cargo: Cargo, baseline: Option<String>) -> Result<()> {
    let Some(baseline) = baseline.map_or_else(newest_release, |baseline| Ok(Some(baseline)))?
    else {
        println!("dist: no tag of a release, so no earlier crates to compare with");
        return Ok(());
    };
    let tools = tools::install(cargo, "cargo-semver-checks", VERSION)?;
    let mut checks = Command::new(tools.join("cargo-semver-checks"));
    checks.args(["semver-checks", "--baseline-rev", &baseline]).current_dir(workspace::root());
    programs::succeed(checks.args(PUBLISHED.iter().flat_map(|package| ["--package", *package])))?;
    println!("dist: nothing changed since {baseline} that the crates' versions forbid");
    Ok(())
}

/// The tag of the newest release before this commit.
fn newest_release() -> Result<Option<String>> {
    let mut tags = Command::new("git");
    tags.args(["tag", "--list", "v*", "--sort=-version:refname", "--merged", "HEAD~"]);
    let output = tags.current_dir(workspace::root()).output().context("git tag")?;
    ensure!(output.status.success(), "git tag: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_owned))
}
