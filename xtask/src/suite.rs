//! Every check there is, counted: what `.ci/run` runs.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Instant;

use crate::area::{self, Area};
use crate::emulate::{self, Target};
use crate::tally::{Counts, Tally};
use crate::tidy::{self, Docstrings};
use crate::workspace::{self, Cargo};
use crate::{
    azure_server, cluster_demo, dataset, dist, gpu_kernels, guest_kernel, instructions, jobs,
    old_program, programs, s3_server, wheel,
};

/// The profile the tests are built with. What hashes, encrypts and compresses is optimised in it,
/// the rest a little: the tests that drive the built program over hundreds of megabytes need that, and keep the
/// overflow checks and debug assertions that release drops.
const TEST_PROFILE: &str = "dev";

/// What all areas in a new clone may take of the disk, in bytes. With less free, Ceph's monitor ends as soon
/// as it has one in a hundred left.
const SPACE: u64 = 40_000_000_000;

/// What `cargo xtask test` was asked for.
pub(crate) struct Options {
    /// The area to run, if not all.
    pub(crate) area: Option<Area>,
    /// A skip is a failure.
    pub(crate) require_all: bool,
    /// Use nothing from the network.
    pub(crate) offline: bool,
    /// Why nothing is to run on emulated CPUs, if so.
    pub(crate) skip_emulation: Option<String>,
}

/// Runs every check, the later ones too when an earlier one failed.
///
/// The last line printed is `N passed, N failed, N skipped`.
pub(crate) fn run(options: &Options) -> ExitCode {
    let cargo = Cargo { offline: options.offline };
    if let Ok(free) = workspace::free_space()
        && free < SPACE
    {
        let (free, space) = (free / 1_000_000_000, SPACE / 1_000_000_000);
        println!("test: {free} GB are free here; all areas in a new clone take up to {space} GB");
    }
    let places = set_up(options, cargo);

    let mut checks = Checks::default();
    let mut tally = Tally::default();
    let has_core = options.area.is_none_or(|area| area == Area::Core);
    if has_core {
        check_sources(cargo, &mut checks);
    }
    checks.time("test", || {
        tally = run_tests(options, cargo, &places);
        tally.counts().failed == 0
    });
    if options.area.is_none_or(|area| area == Area::Cluster) {
        try_cluster(cargo, &mut checks, &mut tally);
    }
    if options.area.is_none_or(|area| area == Area::Languages) {
        check_languages(options, cargo, &mut checks, &mut tally);
    }
    if options.area.is_none_or(|area| area == Area::Packages) {
        check_packages(options, cargo, &mut checks, &mut tally);
    }
    if options.area.is_none_or(|area| area == Area::Gpu) {
        checks.run("gpu-kernels", || check_gpu_kernels(cargo, &mut tally));
    }
    if options.area.is_none_or(|area| area == Area::Jobs) {
        checks.time("test jobs", || {
            let tell = |command: &mut Command| places.tell(command);
            jobs::run(cargo, &mut tally, tell, |command, line| stream(command, line))
        });
    }
    if has_core {
        check_kernels(options, cargo, &mut checks, &mut tally);
        checks.run("doc", || {
            let doc = ["doc", "--no-deps", "--workspace", "--all-features"];
            succeeds(cargo.command().args(doc).env("RUSTDOCFLAGS", "-D warnings"))
        });
    }
    summarise(options, &checks, &tally)
}

/// Installs what the tests take. Most of that is fetched; a compiler has the cores meanwhile.
///
/// The program that froze the format takes two cores four minutes to build, so that is left to runs that may skip
/// nothing.
fn set_up(options: &Options, cargo: Cargo) -> Places {
    let emulated = emulate::TARGETS.iter().filter(|_| options.skip_emulation.is_none());
    thread::scope(|scope| {
        let build = || if options.require_all { build_old_program(cargo) } else { None };
        let old_program = scope.spawn(build);
        programs::install(cargo, options.area, emulated);
        Places {
            datasets: fetch_datasets(options),
            s3_server: s3_server::install(cargo),
            azure_server: azure_server::install(cargo),
            guest_kernel: guest_kernel::fetch(cargo),
            old_program: old_program.join().expect("it does not panic"),
        }
    })
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
}

/// The cluster to try, which is not left running.
fn try_cluster(cargo: Cargo, checks: &mut Checks, tally: &mut Tally) {
    const NAME: &str = "cluster-demo --once";
    if !programs::has_clusters() {
        return tally.note_skip(NAME, "no Ceph or no qemu-io here");
    }
    checks.run(NAME, || match cluster_demo::run(cargo, true) {
        Ok(()) => true,
        Err(error) => {
            println!("test: {error:#}");
            false
        }
    });
}

/// The crates that others can use from a registry.
pub(crate) const PUBLISHED: [&str; 4] =
    ["onefold-cdc", "onefold-fingerprint", "onefold-block", "onefold-nbd"];

/// The tests of the package for Python, and whether the crates for others can be published.
fn check_languages(options: &Options, cargo: Cargo, checks: &mut Checks, tally: &mut Tally) {
    checks.time("test of Python", || {
        let mut tests = Tally::default();
        match wheel::install(cargo) {
            Ok(python) => count_tests(options, &mut wheel::tests(&python), &mut tests),
            Err(error) if options.offline => tests.note_skip("tests", &format!("{error:#}")),
            Err(error) => {
                println!("test: {error:#}");
                tests.note_failure("the package does not build");
            }
        }
        let passed = tests.counts().failed == 0;
        tally.add("python", tests);
        passed
    });
    checks.run("cdc without threads", || {
        let check = ["check", "--package", "onefold-cdc", "--no-default-features"];
        succeeds(cargo.command().args(check).env("RUSTFLAGS", "-D warnings"))
    });
    if options.offline {
        return tally.note_skip("publish", "offline: a package is compared with the registry");
    }
    checks.run("publish", || {
        let mut publish = cargo.command();
        publish.args(["publish", "--dry-run", "--allow-dirty"]);
        succeeds(publish.args(PUBLISHED.iter().flat_map(|package| ["--package", *package])))
    });
}

/// What of the packages is checked without installing them.
fn check_packages(options: &Options, cargo: Cargo, checks: &mut Checks, tally: &mut Tally) {
    for (name, check) in dist::CHECKS {
        if options.offline {
            tally.note_skip(name, "offline: it takes tools of registries");
            continue;
        }
        checks.run(name, || match check(cargo) {
            Ok(()) => true,
            Err(error) => {
                println!("test: {error:#}");
                false
            }
        });
    }
}

/// The tests of the chunkers on other kinds of CPU, and how many instructions they take.
fn check_kernels(options: &Options, cargo: Cargo, checks: &mut Checks, tally: &mut Tally) {
    for target in emulate::TARGETS {
        checks.time(&format!("test on {}", target.arch), || {
            let tests = run_emulated_tests(options, cargo, target);
            let passed = tests.counts().failed == 0;
            tally.add(target.arch, tests);
            passed
        });
    }
    checks.run("instructions", || count_instructions(cargo, tally));
}

/// The folder of the test datasets, or `None` where they cannot be had; then tests that need them
/// skip.
fn fetch_datasets(options: &Options) -> Option<PathBuf> {
    let folder = match std::env::var_os("ONEFOLD_DATASETS") {
        // Relative to where the command was typed, not to where cargo runs the tests.
        Some(folder) => std::path::absolute(folder).ok()?,
        None => workspace::target_dir().join("datasets"),
    };
    if let Err(error) = dataset::vector_inputs(&folder.join("vectors"), options.offline) {
        println!("dataset: {error:#}; tests that need it skip");
    }
    let kubernetes = folder.join("kubernetes");
    let missing = dataset::missing_versions(&kubernetes, &dataset::TEST_VERSIONS);
    if options.offline && !missing.is_empty() {
        println!("dataset: offline, {} missing; tests that need it skip", missing.join(" "));
        return None;
    }
    match dataset::kubernetes(&kubernetes, &dataset::TEST_VERSIONS) {
        Ok(()) => Some(folder),
        Err(error) => {
            println!("dataset: {error:#}; tests that need it skip");
            None
        }
    }
}

/// The program that froze the format, or `None` after saying why it cannot be built.
fn build_old_program(cargo: Cargo) -> Option<PathBuf> {
    match old_program::build(cargo, old_program::FROZEN) {
        Ok(program) => Some(program),
        Err(error) => {
            println!("setup: no earlier program: {error:#}; tests that need it skip");
            None
        }
    }
}

/// Where the tests find what was installed for them.
struct Places {
    datasets: Option<PathBuf>,
    s3_server: Option<PathBuf>,
    azure_server: Option<PathBuf>,
    guest_kernel: Option<PathBuf>,
    old_program: Option<PathBuf>,
}

impl Places {
    /// Lets the tests that `command` runs know them.
    fn tell(&self, command: &mut Command) {
        for (variable, place) in [
            ("ONEFOLD_DATASETS", &self.datasets),
            ("ONEFOLD_S3_SERVER", &self.s3_server),
            ("ONEFOLD_AZURE_SERVER", &self.azure_server),
            ("ONEFOLD_GUEST_KERNEL", &self.guest_kernel),
            (old_program::VARIABLE, &self.old_program),
        ] {
            match place {
                Some(place) => command.env(variable, place),
                None => command.env_remove(variable),
            };
        }
    }
}

/// Runs the tests that were asked for, doc tests included.
fn run_tests(options: &Options, cargo: Cargo, places: &Places) -> Tally {
    let mut tally = Tally::default();
    for arguments in area::arguments(options.area) {
        let mut command = cargo.command();
        command.args(["test", "--all-features", "--no-fail-fast", "--profile", TEST_PROFILE]);
        command.args(arguments);
        command.env("RUST_TEST_THREADS", test_threads().to_string());
        places.tell(&mut command);
        count_tests(options, &mut command, &mut tally);
    }
    tally
}

/// How many tests run at once: one more than there are cores, because some wait for services most of the time.
fn test_threads() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get) + 1
}

/// Runs the tests of the chunkers on another kind of CPU.
fn run_emulated_tests(options: &Options, cargo: Cargo, target: &Target) -> Tally {
    let mut tally = Tally::default();
    let missing = target.missing().join(", ");
    if let Some(reason) = &options.skip_emulation {
        tally.note_skip("tests", reason);
    } else if missing.is_empty() {
        for mut command in target.commands(cargo) {
            count_tests(options, &mut command, &mut tally);
        }
    } else if options.offline {
        tally.note_skip("tests", &format!("offline, and not installed: {missing}"));
    } else {
        println!("test on {}: cannot run without {missing}", target.arch);
        println!("install them, or leave the tests out with --skip-emulation REASON");
        tally.note_failure("tests");
    }
    tally
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

/// Compares what the chunkers take with what they took; true if nothing became more.
fn count_instructions(cargo: Cargo, tally: &mut Tally) -> bool {
    let report = instructions::check(cargo).unwrap_or_else(|error| instructions::Report {
        findings: vec![format!("{error:#}")],
        ..instructions::Report::default()
    });
    for finding in &report.findings {
        println!("error: {finding}");
    }
    for (name, reason) in &report.skips {
        tally.note_skip(name, reason);
    }
    report.findings.is_empty()
}

/// Runs a test command, and reads off the results as they pass by.
fn count_tests(options: &Options, command: &mut Command, tally: &mut Tally) {
    let skip_log = workspace::target_dir().join("skips.log");
    // Absent after the first line is not an error, stale lines would be.
    if let Err(error) = fs::remove_file(&skip_log)
        && error.kind() != io::ErrorKind::NotFound
    {
        println!("test: {}: {error}", skip_log.display());
        tally.note_unexplained_failure();
        return;
    }
    command.env("ONEFOLD_SKIP_LOG", &skip_log).env_remove("ONEFOLD_REQUIRE_ALL");
    if options.require_all {
        command.env("ONEFOLD_REQUIRE_ALL", "1");
    }
    let succeeded = stream(command, |line| tally.read_output_line(line));
    if !succeeded.unwrap_or_else(|error| {
        println!("test: cargo test: {error}");
        false
    }) {
        tally.note_unexplained_failure();
    }
    for line in fs::read_to_string(&skip_log).unwrap_or_default().lines() {
        tally.read_skip_line(line);
    }
}

/// Runs `command`, shows each line of its output at once and hands it to `each_line`; true if the
/// command succeeded.
fn stream(command: &mut Command, mut each_line: impl FnMut(&str)) -> io::Result<bool> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut output = BufReader::new(child.stdout.take().expect("stdout is piped"));
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\n', '\r']);
        println!("{text}");
        each_line(text);
        line.clear();
    }
    Ok(child.wait()?.success())
}

fn summarise(options: &Options, checks: &Checks, tally: &Tally) -> ExitCode {
    let mut total = checks.counts();
    let tests = tally.counts();
    total.passed += tests.passed;
    total.failed += tests.failed;
    if options.require_all {
        total.failed += tests.skipped;
    } else {
        total.skipped += tests.skipped;
    }

    println!();
    for Check { name, passed, seconds, .. } in &checks.done {
        println!("{} {name} ({seconds:.1} s)", if *passed { "ok    " } else { "FAILED" });
    }
    for test in tally.failed() {
        println!("FAILED test {test}");
        tally.said(test).iter().for_each(|line| println!("    {line}"));
    }
    let verdict = if options.require_all { "FAILED, being skipped" } else { "SKIP" };
    for (name, reason) in tally.skips() {
        println!("{verdict}: {name}: {reason}");
    }
    let Counts { passed, failed, skipped } = total;
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The checks done so far, in order.
#[derive(Default)]
struct Checks {
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
    fn run(&mut self, name: &str, check: impl FnOnce() -> bool) {
        self.time(name, check);
        if let Some(last) = self.done.last_mut() {
            last.counts = true;
        }
    }

    /// Runs something whose parts are counted elsewhere.
    fn time(&mut self, name: &str, check: impl FnOnce() -> bool) {
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
}

fn succeeds(command: &mut Command) -> bool {
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            println!("{command:?}: {error}");
            false
        }
    }
}
