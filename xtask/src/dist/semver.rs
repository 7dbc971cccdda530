//! `cargo semver-checks`, which holds the crates for others to the promise of versions (docs/versions.md).

use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{tools, version, version_in};
use crate::checks::PUBLISHED;
use crate::programs;
use crate::workspace::{self, Cargo};

const VERSION: &str = "0.51.0";

/// Compares the crates that can be published with those of `baseline`, a commit or a tag; without one with the
/// newest release. The versions are held to docs/versions.md, which promises more than Cargo does before 1.0.
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
    let earlier = git(&["show", &format!("{baseline}:Cargo.toml")])?;
    let step = step(version_in(&earlier)?, &version()?)?;
    let tools = tools::install(cargo, "cargo-semver-checks", VERSION)?;
    let mut checks = Command::new(tools.join("cargo-semver-checks"));
    checks.args(["semver-checks", "--baseline-rev", &baseline, "--release-type", step]);
    checks.current_dir(workspace::root());
    programs::succeed(checks.args(PUBLISHED.iter().flat_map(|package| ["--package", *package])))?;
    println!("dist: nothing changed since {baseline} that a {step} release forbids");
    Ok(())
}

/// What the step from `from` to `to` is by docs/versions.md. As long as `to` was not raised, it is a patch.
fn step(from: &str, to: &str) -> Result<&'static str> {
    let (first, last) = (numbers(from)?, numbers(to)?);
    ensure!(first <= last, "version {to} is older than {from}, that of the baseline");
    Ok(match (first, last) {
        ([a, ..], [b, ..]) if a != b => "major",
        ([0, a, _], [_, b, _]) if a != b => "major",
        ([_, a, _], [_, b, _]) if a != b => "minor",
        _ => "patch",
    })
}

/// MAJOR, MINOR and PATCH.
fn numbers(version: &str) -> Result<[u64; 3]> {
    let release = version.split(['-', '+']).next().unwrap_or_default();
    let numbers: Result<Vec<u64>, _> = release.split('.').map(str::parse).collect();
    let numbers = numbers.ok().and_then(|numbers| numbers.try_into().ok());
    numbers.with_context(|| format!("version {version}, expected MAJOR.MINOR.PATCH"))
}

/// The tag of the newest release before this commit.
fn newest_release() -> Result<Option<String>> {
    let tags = git(&["tag", "--list", "v*", "--sort=-version:refname", "--merged", "HEAD~"])?;
    Ok(tags.lines().next().map(str::to_owned))
}

fn git(arguments: &[&str]) -> Result<String> {
    let output = Command::new("git").args(arguments).current_dir(workspace::root()).output();
    let output = output.context("git")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git {}: {}", arguments.join(" "), said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::step;

    #[test]
    fn a_step_is_what_the_promise_of_versions_says() {
        for (from, to, expected) in [
            ("0.0.1", "0.0.1", "patch"),
            ("0.0.1", "0.0.2", "patch"),
            ("0.1.3", "0.2.0", "major"),
            ("0.9.0", "1.0.0", "major"),
            ("1.2.3", "1.2.4", "patch"),
            ("1.2.3", "1.3.0-rc.1", "minor"),
            ("1.9.9", "2.0.0", "major"),
        ] {
            assert_eq!(step(from, to).unwrap(), expected, "{from} to {to}");
        }
        step("0.2.0", "0.1.9").unwrap_err();
        step("0.2", "0.3.0").unwrap_err();
    }
}
