//! Every check there is, counted: what `.ci/run` runs.

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::thread;

use anyhow::anyhow;

use crate::area::{self, Area};
use crate::checks::{self, Beside, Checks};
use crate::emulate::{self, Target};
use crate::tally::Tally;
use crate::workspace::{self, Cargo};
use crate::{
    azure_server, cluster_demo, dataset, guest_kernel, instructions, jobs, old_program, programs,
    s3_server, wheel,
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
    /// Leave out nothing that takes minutes and seldom breaks.
    pub(crate) all: bool,
    /// A skip is a failure.
    pub(crate) require_all: bool,
    /// Use nothing from the network.
    pub(crate) offline: bool,
    /// Why nothing is to run on emulated CPUs, if so.
    pub(crate) skip_emulation: Option<String>,
}

impl Options {
    /// Why nothing is to run on `target`, if so.
    fn leaves_out(&self, target: &Target) -> Option<&str> {
        let left = target.is_left && !self.all;
        self.skip_emulation.as_deref().or(left.then_some(checks::LEFT))
    }
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
    // asked now: to compile the tests puts another file in its place
    let program = env::current_exe();
    let places = set_up(options, cargo);

    let mut checks = Checks::default();
    let mut tally = Tally::default();
    let mut beside = None;
    let start = || {
        let program =
            program.as_deref().map_err(|error| anyhow!("where is this program: {error}"))?;
        let options = checks::Options { area: options.area, all: options.all };
        Beside::start(program, options, cargo)
    };
    checks.time("test", || {
        // not before they are compiled, which takes all cores
        let begun = || {
            beside.get_or_insert_with(start);
        };
        tally = run_tests(options, cargo, &places, begun);
        tally.counts().failed == 0
    });
    // some of the tests below take what they compile
    let beside = beside.unwrap_or_else(start);
    if let Err(error) = beside.and_then(|beside| beside.finish(&mut checks, &mut tally)) {
        println!("test: the checks beside the tests: {error:#}");
        tally.note_failure("the checks");
    }
    let has = |one| options.area.is_none_or(|area| area == one);
    if has(Area::Cluster) {
        try_cluster(cargo, &mut checks, &mut tally);
    }
    if has(Area::Languages) {
        test_python(options, cargo, &mut checks, &mut tally);
    }
    if has(Area::Jobs) {
        checks.time("test jobs", || {
            let tell = |command: &mut Command| places.tell(command);
            let all = options.all;
            jobs::run(cargo, all, &mut tally, tell, |command, line| stream(command, line))
        });
    }
    if has(Area::Core) {
        check_kernels(options, cargo, &mut checks, &mut tally);
    }
    checks::summarise(options.require_all, &checks, &tally)
}

/// Installs what the tests take, and compiles them meanwhile: most of the installing is waiting for what is fetched.
///
/// The program that froze the format takes two cores four minutes to build, so that is for runs that leave nothing out.
fn set_up(options: &Options, cargo: Cargo) -> Places {
    let is_emulated = |target: &&Target| options.leaves_out(target).is_none();
    let emulated = emulate::TARGETS.iter().filter(is_emulated);
    thread::scope(|scope| {
        let old_program = scope.spawn(|| {
            compile_tests(options, cargo);
            if options.all { build_old_program(cargo) } else { None }
        });
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

/// The cluster to try, which is not left running.
fn try_cluster(cargo: Cargo, checks: &mut Checks, tally: &mut Tally) {
    const NAME: &str = "cluster-demo --once";
    if !programs::has_clusters() {
        return tally.note_skip(NAME, "no Ceph or no qemu-io here");
    }
    checks.run(NAME, || checks::is_done(cluster_demo::run(cargo, true)));
}

/// The tests of the package for Python.
fn test_python(options: &Options, cargo: Cargo, checks: &mut Checks, tally: &mut Tally) {
    checks.time("test of Python", || {
        let mut tests = Tally::default();
        match wheel::install(cargo) {
            Ok(python) => count_tests(options, &mut wheel::tests(&python), &mut tests, || ()),
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
    let folder = match env::var_os("ONEFOLD_DATASETS") {
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

/// Each `cargo test` of what was asked for, doc tests included.
fn tests(options: &Options, cargo: Cargo) -> impl Iterator<Item = Command> {
    area::arguments(options.area).into_iter().map(move |arguments| {
        let mut command = cargo.command();
        command.args(["test", "--all-features", "--no-fail-fast", "--profile", TEST_PROFILE]);
        command.args(arguments);
        command
    })
}

/// Compiles the tests. One that does not compile fails when it is to run.
fn compile_tests(options: &Options, cargo: Cargo) {
    for mut command in tests(options, cargo) {
        checks::succeeds(command.arg("--no-run"));
    }
}

/// Runs the tests, and calls `begun` with each line that they print.
fn run_tests(options: &Options, cargo: Cargo, places: &Places, mut begun: impl FnMut()) -> Tally {
    let mut tally = Tally::default();
    for mut command in tests(options, cargo) {
        command.env("RUST_TEST_THREADS", test_threads().to_string());
        places.tell(&mut command);
        count_tests(options, &mut command, &mut tally, &mut begun);
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
    if let Some(reason) = options.leaves_out(target) {
        tally.note_skip("tests", reason);
    } else if missing.is_empty() {
        for mut command in target.commands(cargo) {
            count_tests(options, &mut command, &mut tally, || ());
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

/// Runs a test command, and reads off the results as they pass by; calls `begun` with each line.
fn count_tests(
    options: &Options,
    command: &mut Command,
    tally: &mut Tally,
    mut begun: impl FnMut(),
) {
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
    let succeeded = stream(command, |line| {
        begun();
        tally.read_output_line(line);
    });
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
