//! Long runs that are started by hand and measure no speed: fuzzing for as long as one likes, kills of
//! what writes, and the kernels under what watches each access to memory.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::outcome::Outcome;
use crate::programs::{self, on_path};
use crate::record::Commit;
use crate::workspace;

/// The tests of the code that has `unsafe` blocks.
#[rustfmt::skip]
const KERNEL_TESTS: &[&str] = &[
    "test", "-p", "onefold-cdc", "-p", "onefold-fingerprint",
    "--lib", "--test", "kernels", "--test", "edges",
];

const SANITIZER_TARGET: &str = "x86_64-unknown-linux-gnu";

/// Runs the fuzz targets called in `only`, or all if it is empty, for `seconds` each; stops at the
/// first that fails. `out` gets how many inputs each had.
///
/// The stable compiler is told to accept the sanitizer flags; only these campaigns do that.
pub(crate) fn fuzz(seconds: u32, only: &[String], out: Option<&Path>) -> Result<()> {
    if !succeeds(Command::new("cargo").args(["fuzz", "--version"])) {
        println!("campaign: cargo install cargo-fuzz --locked");
        run(Command::new("cargo").args(["install", "cargo-fuzz", "--locked"]))?;
    }
    let all = fuzz_targets()?;
    if let Some(unknown) = only.iter().find(|target| !all.contains(target)) {
        bail!("no fuzz target '{unknown}', expected one of {}", all.join(", "));
    }
    let targets = if only.is_empty() { &all } else { only };
    let mut outcome = Outcome::begin("cargo xtask")?;
    outcome.note("each line is a target, how many inputs it had, and for how long");
    for target in targets {
        println!("campaign: fuzzing {target} for {seconds} s");
        let script = format!(
            "cargo fuzz run {target} -- -max_total_time={seconds} -max_len=65536 \
             -rss_limit_mb=4096 2>&1"
        );
        outcome.run(
            Command::new("sh")
                .args(["-c", &script])
                .env("RUSTC_BOOTSTRAP", "1")
                .current_dir(workspace::root()),
            |line| line.strip_prefix("Done ").map(|done| format!("{target}: {done}")),
        )?;
    }
    println!("campaign: {} fuzz targets ran {seconds} s each and found nothing", targets.len());
    outcome.write(out)
}

/// Every target that `fuzz/Cargo.toml` names.
fn fuzz_targets() -> Result<Vec<String>> {
    let file = workspace::root().join("fuzz/Cargo.toml");
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let targets = program_names(&text);
    ensure!(!targets.is_empty(), "{}: no fuzz target, expected some", file.display());
    Ok(targets)
}

/// The names in the `[[bin]]` sections of a `Cargo.toml`.
fn program_names(manifest: &str) -> Vec<String> {
    let name = |section: &str| {
        let line = section.lines().find_map(|line| line.strip_prefix("name = "))?;
        Some(line.trim_matches('"').to_owned())
    };
    manifest.split("[[bin]]").skip(1).filter_map(name).collect()
}

/// Kills the binary `kills` times in backups and as often in prunes, a third as often those of an
/// encrypted repository, and tells where the kills came. Restores are cut, too.
pub(crate) fn kill(kills: u32, out: Option<&Path>) -> Result<()> {
    let mut outcome = Outcome::begin("cargo xtask")?;
    outcome.note("a kill counts that came between the first write and the end of the command");
    outcome.note(
        "power is cut on a FUSE file system that forgets, keeps or tears what was not synced",
    );
    outcome.run(
        Command::new("cargo")
            .args(["test", "-p", "onefold", "--test", "cli", "--", "--nocapture", "power_cut::"])
            .env("ONEFOLD_KILLS", kills.to_string())
            .env("ONEFOLD_REQUIRE_ALL", "1")
            .current_dir(workspace::root()),
        |line| line.contains(" kills between the first write and the end").then(|| line.to_owned()),
    )?;
    println!("campaign: nothing that was acknowledged was lost");
    outcome.write(out)
}

/// Lets writers, pruners and readers take turns in `seeds` orders of each cast.
pub(crate) fn plays(seeds: u32, out: Option<&Path>) -> Result<()> {
    let mut outcome = Outcome::begin("cargo xtask")?;
    outcome.note("built as the tests are, with overflow checks and debug assertions");
    outcome.run(
        Command::new("cargo")
            .args([
                "test",
                "-p",
                "onefold-store",
                "--test",
                "store",
                "--",
                "--nocapture",
                "interleaved::",
            ])
            .env("ONEFOLD_SEEDS", seeds.to_string())
            .current_dir(workspace::root()),
        |line| line.contains(" orders of ").then(|| line.to_owned()),
    )?;
    println!("campaign: nothing that was acknowledged was lost");
    outcome.write(out)
}

/// Kills `onefold serve` under load `kills` times and in the midst of each other operation, as often
/// cuts its power, damages copies of what is left, and writes what came of it to `out`.
pub(crate) fn serve_kill(kills: u32, out: &Path) -> Result<()> {
    let out = std::path::absolute(out)?;
    let commit = Commit::current();
    let state = if commit.dirty { "dirty" } else { "clean" };
    run(Command::new("cargo")
        .args(["test", "-p", "onefold", "--test", "cli", "--", "--nocapture", "serve_kill::"])
        .env("ONEFOLD_KILLS", kills.to_string())
        .env("ONEFOLD_SERVE_KILL_RECORD", &out)
        .env("ONEFOLD_SERVE_KILL_COMMIT", format!("{} {state}", commit.id))
        .env("ONEFOLD_REQUIRE_ALL", "1")
        .current_dir(workspace::root()))?;
    println!("campaign: no acknowledged flush was lost; wrote {}", out.display());
    Ok(())
}

/// Overwrites volumes at random for so many seconds where there is little room: at a quota and on a small
/// disk, both at once.
pub(crate) fn room(seconds: u64, out: Option<&Path>) -> Result<()> {
    let mut outcome = Outcome::begin("cargo xtask")?;
    outcome.note("the server is built as the tests are, with overflow checks and debug assertions");
    outcome.note(
        "both runs share the machine; at the end each block is compared with what was written",
    );
    outcome.run(
        Command::new("cargo")
            .args(["test", "-p", "onefold", "--test", "cli", "--", "--nocapture", "room::"])
            .env("ONEFOLD_ROOM_SECONDS", seconds.to_string())
            .env("ONEFOLD_REQUIRE_ALL", "1")
            .current_dir(workspace::root()),
        |line| line.strip_prefix("room: ").map(str::to_owned),
    )?;
    println!("campaign: no write was refused");
    outcome.write(out)
}

/// Runs the tests of the kernels under the address sanitizer, which sees a read outside of an
/// allocation.
pub(crate) fn asan() -> Result<()> {
    if !programs::has_standard_library(SANITIZER_TARGET) {
        bail!("the standard library for {SANITIZER_TARGET} is not installed");
    }
    // Another target folder keeps what was built without the sanitizer.
    run(Command::new("cargo")
        .args(KERNEL_TESTS)
        .args(["--target", SANITIZER_TARGET])
        .env("CARGO_TARGET_DIR", workspace::target_dir().join("asan"))
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", "-Zsanitizer=address")
        .current_dir(workspace::root()))?;
    println!("campaign: the address sanitizer found nothing");
    Ok(())
}

/// Runs the tests of the kernels in Miri, which sees undefined behaviour of other kinds, too, on
/// inputs that are short enough for it.
///
/// Miri has no AVX-512, and is part of no stable compiler: a nightly one is installed for it.
pub(crate) fn miri() -> Result<()> {
    if !succeeds(Command::new("cargo").args(["+nightly", "miri", "--version"])) {
        if !on_path("rustup") {
            bail!("no rustup here, which is how Miri is installed");
        }
        println!("campaign: rustup toolchain install nightly with miri");
        run(Command::new("rustup")
            .args(["toolchain", "install", "nightly", "--profile", "minimal"])
            .args(["--component", "miri", "--component", "rust-src"]))?;
    }
    // What a test asks of the CPU is answered by these flags.
    let flags = "-C target-feature=+avx2,+bmi1,+bmi2,+lzcnt,+popcnt";
    for tests in [["--test", "edges"].as_slice(), &["--lib", "simd::"]] {
        run(Command::new("cargo")
            .args(["+nightly", "miri", "test", "-p", "onefold-cdc"])
            .args(tests)
            .env("CARGO_TARGET_DIR", workspace::target_dir().join("miri"))
            .env("RUSTFLAGS", flags)
            .env("ONEFOLD_REQUIRE_KERNELS", "ssse3,sse4.1,avx2")
            .env_remove("RUSTUP_TOOLCHAIN")
            .current_dir(workspace::root()))?;
    }
    println!("campaign: Miri found nothing");
    Ok(())
}

fn succeeds(command: &mut Command) -> bool {
    let command = command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    command.output().is_ok_and(|output| output.status.success())
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status()?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fuzz_target_is_found() {
        let targets = fuzz_targets().unwrap();
        let folder = workspace::root().join("fuzz/fuzz_targets");
        let mut files: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().display().to_string())
            .collect();
        files.sort();
        let mut sorted = targets.clone();
        sorted.sort();
        assert_eq!(sorted, files);
    }
}
