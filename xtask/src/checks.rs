//! Every check that runs no test: sources, documents, crates for others, packages. `cargo xtask check` runs them,
//! and `cargo xtask test` beside the tests.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::area::Area;
use crate::tally::{Counts, Tally};
use crate::tidy::{self, Docstrings};
use crate::workspace::{self, Cargo};
use crate::{dist, gpu_kernels, natives, wheel};

/// The crates that others can use from a registry.
pub(crate) const PUBLISHED: [&str; 4] =
    ["onefold-cdc", "onefold-fingerprint", "onefold-block", "onefold-nbd"];

/// Why something was left out that takes minutes and seldom breaks.
pub(crate) const LEFT: &str = "it takes minutes; `cargo xtask test --all` has it";

/// Which checks were asked for.
#[derive(Clone, Copy)]
pub(crate) struct Options {
    /// The area whose checks are run, if not all.
    pub(crate) area: Option<Area>,
    /// Leave out nothing that takes minutes.
    pub(crate) all: bool,
}

/// Runs them.
///
/// The last line printed is `N passed, N failed, N skipped`.
pub(crate) fn run(options: Options, cargo: Cargo) -> ExitCode {
    let mut checks = Checks::default();
    let mut tally = Tally::default();
    let has = |one| options.area.is_none_or(|area| area == one);
    if has(Area::Core) {
        check_sources(cargo, &mut checks);
    }
    if has(Area::Languages) {
        check_published(cargo, &mut checks, &mut tally);
    }
    if has(Area::Jobs) {
        checks.run("natives", || is_done(natives::build(cargo)));
    }
    if has(Area::Gpu) {
        checks.run("gpu-kernels", || check_gpu_kernels(cargo, &mut tally));
    }
    if has(Area::Packages) {
        check_packages(options, cargo, &mut checks, &mut tally);
    }
    summarise(false, &checks, &tally)
}

/// What can be said of the sources without running them.
fn check_sources(cargo: Cargo, checks: &mut Checks) {
    checks.run("fmt", || succeeds(cargo.command().args(["fmt", "--all", "--check"])));
    checks.run("tidy", || {
        tidy::run(cargo, &workspace::root().join("Cargo.toml"), Docstrings::LeftToClippy)
    });
    checks.run("clippy", || {
        let clippy = ["clippy", "--workspace", "--all-targets", "--all-features"];
        succeeds(cargo.command().args(clippy).args(["--", "-D", "warnings"]))
    });
    checks.run("doc", || {
        let doc = ["doc", "--no-deps", "--workspace", "--all-features"];
        succeeds(cargo.command().args(doc).env("RUSTDOCFLAGS", "-D warnings"))
    });
}

/// Whether the package for Python can be built, the crates for others can be published, and that for chunkers
/// compiles without threads.
fn check_published(cargo: Cargo, checks: &mut Checks, tally: &mut Tally) {
    checks.run("cdc without threads", || {
        let check = ["check", "--package", "onefold-cdc", "--no-default-features"];
        succeeds(cargo.command().args(check).env("RUSTFLAGS", "-D warnings"))
    });
    if cargo.offline {
        tally.note_skip("wheel", "offline: it takes tools of registries");
        return tally.note_skip("publish", "offline: a package is compared with the registry");
    }
    checks.run("wheel", || is_done(wheel::install(cargo).map(drop)));
    checks.run("publish", || {
        let mut publish = cargo.command();
        publish.args(["publish", "--dry-run", "--allow-dirty"]);
        succeeds(publish.args(PUBLISHED.iter().flat_map(|package| ["--package", *package])))
    });
}

/// What of the packages is checked without installing them.
fn check_packages(options: Options, cargo: Cargo, checks: &mut Checks, tally: &mut Tally) {
    for (name, check) in dist::CHECKS {
        if !options.all {
            tally.note_skip(name, LEFT);
            continue;
        }
        if cargo.offline {
            tally.note_skip(name, "offline: it takes tools of registries");
            continue;
        }
        checks.run(name, || is_done(check(cargo)));
    }
}

/// Compares the kernels for GPUs that are checked in with their sources; true if they agree.
fn check_gpu_kernels(cargo: Cargo, tally: &mut Tally) -> bool {
    match gpu_kernels::check(cargo) {
        Ok(gpu_kernels::Report::Findings(findings)) => {
            findings.iter().for_each(|finding| println!("error: {finding}"));
            findings.is_empty()
        }
        Ok(gpu_kernels::Report::Skipped(reason)) => {
            tally.note_skip("gpu-kernels", &reason);
            true
        }
        Err(error) => {
            println!("error: {error:#}");
            false
        }
    }
}

/// The checks, by a process of their own that takes a core only when the tests leave one idle.
pub(crate) struct Beside {
    process: Child,
    /// What it prints, for when the tests have ended.
    log: PathBuf,
}

impl Beside {
    /// Starts them by `program`, which is this one.
    pub(crate) fn start(program: &Path, options: Options, cargo: Cargo) -> Result<Self> {
        let log = workspace::target_dir().join("checks.log");
        let place = || log.display().to_string();
        let output = File::create(&log).with_context(place)?;
        let errors = output.try_clone().with_context(place)?;
        let mut command = Command::new("nice");
        command.args(["-n", "19"]).arg(program).arg("check").stdin(Stdio::null());
        command.stdout(output).stderr(errors);
        if let Some(area) = options.area {
            command.arg("--area").arg(area.name());
        }
        command.args(options.all.then_some("--all"));
        command.args(cargo.offline.then_some("--offline"));
        let process = command.spawn().context("nice")?;
        Ok(Self { process, log })
    }

    /// Waits for them, shows what they printed, and adds how they ended to `checks` and `tally`.
    pub(crate) fn finish(mut self, checks: &mut Checks, tally: &mut Tally) -> Result<()> {
        let status = self.process.wait().context("the checks")?;
        let place = || self.log.display().to_string();
        let said = fs::read(&self.log).with_context(place)?;
        let said = String::from_utf8_lossy(&said);
        println!("\n== checks that ran beside the tests\n{said}");
        let before = checks.counts().failed;
        for line in said.lines() {
            checks.read_summary_line(line);
            if line.starts_with(SKIPPED) {
                tally.read_skip_line(line);
            }
        }
        if !status.success() && checks.counts().failed == before {
            println!("test: the checks ended with {status}");
            tally.note_failure("the checks");
        }
        Ok(())
    }
}

/// The checks done so far, in order.
#[derive(Default)]
pub(crate) struct Checks {
    done: Vec<Check>,
}

struct Check {
    name: String,
    passed: bool,
    seconds: f64,
    /// Whether it is one check by itself, or stands for tests that are counted one by one.
    counts: bool,
}

impl Checks {
    /// Runs something that is one check by itself.
    pub(crate) fn run(&mut self, name: &str, check: impl FnOnce() -> bool) {
        self.time(name, check);
        if let Some(last) = self.done.last_mut() {
            last.counts = true;
        }
    }

    /// Runs something whose parts are counted elsewhere.
    pub(crate) fn time(&mut self, name: &str, check: impl FnOnce() -> bool) {
        match workspace::free_space() {
            Ok(free) => println!("\n== {name} ({} GB free)", free / 1_000_000_000),
            Err(error) => println!("\n== {name} ({}: {error})", workspace::root().display()),
        }
        let start = Instant::now();
        let passed = check();
        let seconds = start.elapsed().as_secs_f64();
        self.done.push(Check { name: name.to_owned(), passed, seconds, counts: false });
    }

    fn counts(&self) -> Counts {
        let counted = |passed| self.done.iter().filter(|c| c.counts && c.passed == passed).count();
        Counts { passed: counted(true) as u64, failed: counted(false) as u64, skipped: 0 }
    }

    /// Takes a line of [`summarise`] that tells of a check; other lines say nothing.
    fn read_summary_line(&mut self, line: &str) {
        let passed = line.starts_with(PASSED);
        let told = line.strip_prefix(PASSED).or_else(|| line.strip_prefix(FAILED));
        let Some((name, seconds)) = told
            .and_then(|told| told.strip_prefix(' ')?.strip_suffix(" s)"))
            .and_then(|told| told.rsplit_once(" ("))
        else {
            return;
        };
        if let Ok(seconds) = seconds.parse() {
            self.done.push(Check { name: name.to_owned(), passed, seconds, counts: true });
        }
    }
}

const PASSED: &str = "ok    ";
const FAILED: &str = "FAILED";
const SKIPPED: &str = "SKIP";

/// Prints how all ended. With `require_all` a skip is a failure.
pub(crate) fn summarise(require_all: bool, checks: &Checks, tally: &Tally) -> ExitCode {
    let mut total = checks.counts();
    let tests = tally.counts();
    total.passed += tests.passed;
    total.failed += tests.failed;
    if require_all {
        total.failed += tests.skipped;
    } else {
        total.skipped += tests.skipped;
    }

    println!();
    for Check { name, passed, seconds, .. } in &checks.done {
        println!("{} {name} ({seconds:.1} s)", if *passed { PASSED } else { FAILED });
    }
    for test in tally.failed() {
        println!("FAILED test {test}");
        tally.said(test).iter().for_each(|line| println!("    {line}"));
    }
    let verdict = if require_all { "FAILED, being skipped" } else { SKIPPED };
    for (name, reason) in tally.skips() {
        println!("{verdict}: {name}: {reason}");
    }
    let Counts { passed, failed, skipped } = total;
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether it was done; says why if not.
pub(crate) fn is_done(result: Result<()>) -> bool {
    result.inspect_err(|error| println!("test: {error:#}")).is_ok()
}

/// Whether `command` runs and succeeds; says why if it does not run.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            println!("{command:?}: {error}");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_checks_ended_is_read_from_what_they_print() {
        let mut checks = Checks::default();
        for line in [
            "== clippy (80 GB free)",
            "test kernels::gear ... ok",
            "ok     clippy (168.2 s)",
            "FAILED cdc without threads (3.0 s)",
            "FAILED test kernels::gear",
            "7 passed, 1 failed, 0 skipped",
        ] {
            checks.read_summary_line(line);
        }
        let read = checks.done.iter().map(|c| (c.name.as_str(), c.passed, c.seconds));
        let expected = [("clippy", true, 168.2), ("cdc without threads", false, 3.0)];
        assert_eq!(read.collect::<Vec<_>>(), expected);
        assert_eq!(checks.counts(), Counts { passed: 1, failed: 1, skipped: 0 });
    }
}
