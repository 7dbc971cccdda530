//! The `onefold` of an earlier revision, built to be held against what this one writes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::programs;
use crate::workspace::{self, Cargo};

/// The revision that froze version 1 of the format, with its fixtures.
pub(crate) const FROZEN: &str = "d199ac6";

/// The variable by which the tests find the program.
pub(crate) const VARIABLE: &str = "ONEFOLD_OLD_PROGRAM";

/// Packages in which a test of the program spends its time. The others are not optimised: at the levels of
/// that revision's own profile the program took three times as long to build, and its tests no less.
const OPTIMISED: [&str; 10] = [
    "argon2",
    "blake2",
    "blake3",
    "keccak",
    "onefold-cdc",
    "onefold-fingerprint",
    "onefold-seal",
    "sha2",
    "sha3",
    "zstd-sys",
];

/// Builds the program of `revision`, unless an earlier call did; gives its path. What it was built from and
/// with, some 2 GB, does not stay.
///
/// # Errors
///
/// If the repository's history does not reach back to `revision`, or its source does not build.
pub(crate) fn build(cargo: Cargo, revision: &str) -> Result<PathBuf> {
    let id = full_id(revision)?;
    let folder = workspace::target_dir().join("old");
    let program = folder.join(format!("onefold-{id}"));
    if program.exists() {
        return Ok(program);
    }
    println!("setup: build the program of revision {revision}");
    let build = folder.join(&id);
    let source = build.join("source");
    fs::create_dir_all(&source).with_context(|| source.display().to_string())?;
    unpack(&id, &source)?;
    let level = |package: &str, level| format!("profile.dev.package.{package}.opt-level={level}");
    let optimised = OPTIMISED.iter().map(|package| level(package, 3));
    let profile =
        ["profile.dev.opt-level=0".into(), "profile.dev.debug=0".into(), level("\"*\"", 0)];
    // A target folder of its own: both workspaces have crates of the same names.
    programs::succeed(
        cargo
            .command()
            .current_dir(&source)
            .args(["build", "--quiet", "--locked", "--bin", "onefold"])
            .args(profile.into_iter().chain(optimised).flat_map(|set| ["--config".to_owned(), set]))
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_TARGET_DIR", build.join("target")),
    )?;
    let built = build.join("target/debug/onefold");
    fs::rename(&built, &program).with_context(|| built.display().to_string())?;
    fs::remove_dir_all(&build).with_context(|| build.display().to_string())?;
    Ok(program)
}

fn full_id(revision: &str) -> Result<String> {
    let commit = format!("{revision}^{{commit}}");
    let output = Command::new("git")
        .args(["rev-parse", "--verify", "--quiet", &commit])
        .current_dir(workspace::root())
        .output()
        .context("git")?;
    ensure!(
        output.status.success(),
        "no revision {revision} in this clone; `git fetch --unshallow` brings the whole history"
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Writes the files of revision `id` below `folder`.
fn unpack(id: &str, folder: &Path) -> Result<()> {
    let archive = folder.with_extension("tar");
    programs::succeed(
        Command::new("git")
            .args(["archive", "--output"])
            .arg(&archive)
            .arg(id)
            .current_dir(workspace::root()),
    )?;
    programs::succeed(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(folder))
}
