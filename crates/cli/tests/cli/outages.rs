//! A service that can no longer be used: nothing is taken for lost or damaged, the command says once
//! what is the matter, ends when its patience does, and ends at once when it is asked to.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use onefold_testkit::random;
use onefold_testkit::s3::{Mishaps, Outage, Proxy, Rules, S3Server};
use rustix::process::{Pid, Signal, kill_process};

use crate::lab::{Lab, Ran};
use crate::mount::can_mount;
use crate::tree::make_version;
use crate::tree_equality::assert_same_tree;

const NO_MISHAPS: Mishaps = Mishaps { seed: 0, one_in: 0 };

/// What a command may take beside what it waits for; other tests run meanwhile.
const OWN_TIME: Duration = Duration::from_secs(8);

/// The shortest time without a byte after which a request counts as failed.
const SILENCE: Duration = Duration::from_secs(10);

/// A command ends within a second of a signal; the rest is for a machine that stalls. It is less than
/// [`SILENCE`], and what the commands wait for takes far longer.
pub(crate) const AFTER_SIGNAL: Duration = OWN_TIME;

/// Commands that only read. `SNAPSHOT` is one that stays, `TARGET` another folder in each run.
const READING: [&str; 7] = [
    "snapshots",
    "ls SNAPSHOT",
    "dump SNAPSHOT /image.bin",
    "restore SNAPSHOT --target TARGET",
    "check",
    "check --read-data",
    "prune --dry-run",
];

/// Commands that write. `NAME` is another word in each run.
const WRITING: [&str; 3] = ["backup new", "copy --from-repo s3://bucket/repo --repo NAME", "prune"];

/// A repository in a service, with two snapshots and something to prune.
struct Service {
    server: S3Server,
    lab: Lab,
    /// The snapshot of `v1`.
    snapshot: String,
}

/// A run of a command, with a way to the service of its own.
struct Run<'a> {
    service: &'a Service,
    proxy: Proxy,
    name: String,
}

impl Service {
    fn start() -> Option<Self> {
        let (server, lab) = (S3Server::start()?, Lab::new());
        let mut service = Self { server, lab, snapshot: String::new() };
        for version in [0, 1] {
            make_version(&service.lab.path(format!("v{version}")), version);
        }
        service.lab.write("gone/file", random(1, 1 << 20));
        service.lab.write("new/file", random(2, 3 << 20));
        let run = service.run("setup");
        run.ok("init --no-encryption");
        run.ok("backup gone");
        run.ok("backup v0");
        let made = run.ok("backup v1 --json").summary();
        run.ok("forget --keep-last 2 --group-by host");
        service.snapshot = made["snapshot"].as_str().unwrap().to_owned();
        Some(service)
    }

    fn run(&self, name: &str) -> Run<'_> {
        let proxy = Proxy::start(self.server.address(), Rules::Conditions, NO_MISHAPS);
        Run { service: self, proxy, name: name.to_owned() }
    }
}

impl Run<'_> {
    /// `onefold` with the words of `line` for arguments, as on a new host.
    fn command(&self, line: &str) -> Command {
        let lab = &self.service.lab;
        let line = line
            .replace("SNAPSHOT", &self.service.snapshot)
            .replace("TARGET", &format!("out-{}", self.name))
            .replace("NAME", &format!("s3://bucket/{}", self.name));
        let mut command = lab.command(&line);
        for variable in ["AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3"] {
            command.env_remove(variable);
        }
        command
            .env("ONEFOLD_REPOSITORY", "s3://bucket/repo")
            .env("AWS_ENDPOINT_URL", self.proxy.url())
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .env("ONEFOLD_CACHE_DIR", lab.path(format!("cache-{}", self.name)))
            .env("ONEFOLD_STATE_DIR", lab.path(format!("state-{}", self.name)));
        command
    }

    fn ok(&self, line: &str) -> Ran {
        Ran::of(line, self.command(line).output().unwrap()).expect(0)
    }

    fn start(&self, line: &str, options: &str) -> Child {
        let mut command = with_default_signals(&self.command(&format!("{line} {options}")));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Makes what the command at `line` needs.
    fn prepare(&self, line: &str) {
        if line.starts_with("copy") {
            self.ok("init NAME --no-encryption");
        }
    }

    /// Lets the service go after `part` of the requests of `line`.
    fn begin_outage(&self, line: &str, outage: Outage, part: f64, count: u64) {
        self.prepare(line);
        self.proxy.begin_outage(outage, (count as f64 * part) as u64);
    }

    fn await_outage(&self) {
        let begun = Instant::now();
        while self.proxy.unanswered() == 0 {
            assert!(begun.elapsed() < Duration::from_secs(180), "the outage was not met");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// How many requests each command makes while the service answers.
fn counts(service: &Service) -> Vec<(&'static str, u64)> {
    let count = |(number, line): (usize, &&'static str)| {
        let run = service.run(&format!("whole-{number}"));
        run.prepare(line);
        let before = run.proxy.requests();
        // A prune can be done once.
        run.ok(if *line == "prune" { "prune --dry-run" } else { line });
        (*line, run.proxy.requests() - before)
    };
    let counts = READING.iter().chain(&WRITING).enumerate().map(count).collect();
    // It is not new to the repository any more.
    service.lab.write("new/file", random(3, 3 << 20));
    counts
}

/// The same command in a process in which no signal is ignored: a shell has those ignore SIGINT that it
/// runs in the background, and so the tests, and all that they start.
pub(crate) fn with_default_signals(command: &Command) -> Command {
    let mut with_defaults = Command::new("env");
    with_defaults.arg("--default-signal").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => with_defaults.env(name, value),
            None => with_defaults.env_remove(name),
        };
    }
    command.get_current_dir().map(|folder| with_defaults.current_dir(folder));
    with_defaults
}

/// Calls `test` for every command, all at once.
fn for_each_command(
    service: &Service,
    counts: &[(&'static str, u64)],
    test: impl Fn(&Run<'_>, &str, u64) + Sync,
) {
    let test = &test;
    thread::scope(|scope| {
        for (number, (line, count)) in counts.iter().enumerate() {
            let run = service.run(&format!("cut-{number}"));
            scope.spawn(move || test(&run, line, *count));
        }
    });
    fs::read_dir(service.lab.path("")).unwrap().flatten().for_each(|entry| {
        let name = entry.file_name().into_string().unwrap();
        if ["cache-cut", "state-cut", "out-cut"].iter().any(|first| name.starts_with(first)) {
            fs::remove_dir_all(entry.path()).unwrap();
        }
    });
}

#[track_caller]
fn assert_nothing_is_taken_for_damage(ran: &Ran) {
    let said = format!("{}{}", ran.stdout, ran.stderr);
    for word in ["lost", "damaged", "missing", "not restored", "warning:", "broken", "not whole"] {
        assert!(!said.contains(word), "{word:?} is said: {ran:#?}");
    }
}

fn a_command_ends_with_one_error(outage: Outage, part: f64, service: &Service) {
    let counts = counts(service);
    for_each_command(service, &counts, |run, line, count| {
        run.begin_outage(line, outage, part, count);
        let begun = Instant::now();
        let child = run.start(line, "--s3-retry-for 3");
        let ran = Ran::of(line, child.wait_with_output().unwrap());
        let took = begun.elapsed();
        // A snapshot may be there, and only what tells of it missing.
        let is_untold = ran.stderr.contains("is there and whole");
        let (code, hint) = match is_untold {
            true if line.starts_with("backup") => (3, "run the command again"),
            true => (1, "run it again: it records the snapshots"),
            false => (1, "run it again when the service can be reached"),
        };
        let reached = "cannot be reached; requests failed for 3 s";
        let ran = ran.expect(code).says(&["cannot reach s3://bucket/", reached, "hint: ", hint]);
        assert_nothing_is_taken_for_damage(&ran);
        let count = |text| ran.stderr.lines().filter(|line| line.starts_with(text)).count();
        // A copy tells of each of its repositories, and waits once.
        let places = if line.starts_with("copy") { 2 } else { 1 };
        assert!((1..=places).contains(&(count("cannot reach ") as u32)), "{ran:#?}");
        assert_eq!(count("error: "), 1, "{ran:#?}");
        let silence = if outage == Outage::Silent { SILENCE } else { Duration::ZERO };
        let most = silence * places + Duration::from_secs(3) + OWN_TIME;
        assert!(took < most, "{took:?}: {ran:#?}");
    });
    the_repository_is_whole(service);
}

fn a_command_ends_at_a_signal(outage: Outage, signal: Signal, service: &Service) {
    let counts = counts(service);
    for_each_command(service, &counts, |run, line, count| {
        run.begin_outage(line, outage, 0.5, count);
        let child = run.start(line, "--s3-retry-for 600");
        run.await_outage();
        thread::sleep(Duration::from_millis(300));
        let asked = Instant::now();
        kill_process(Pid::from_child(&child), signal).unwrap();
        let ran = Ran::of(line, child.wait_with_output().unwrap());
        let took = asked.elapsed();
        let by_default = 128 + signal.as_raw();
        assert!(ran.code == 130 || ran.code == by_default, "{ran:#?}");
        assert_nothing_is_taken_for_damage(&ran);
        assert!(took < AFTER_SIGNAL, "{took:?}: {ran:#?}");
    });
    the_repository_is_whole(service);
}

/// Once the service answers again everything goes on as if nothing had been.
fn the_repository_is_whole(service: &Service) {
    let run = service.run("after");
    run.ok("check --read-data");
    run.ok("prune");
    run.ok("check");
    run.ok("backup new");
    run.ok(&format!("restore {} --target TARGET", service.snapshot));
    assert_same_tree(&service.lab.path("v1"), &service.lab.path("out-after"));
}

#[test]
fn a_command_whose_service_goes_away_in_its_midst_ends_with_one_error() {
    let Some(service) = Service::start() else { return };
    a_command_ends_with_one_error(Outage::Gone, 0.5, &service);
}

#[test]
fn a_command_whose_service_answers_503_for_ever_ends_with_one_error() {
    for part in [0.0, 0.9] {
        let Some(service) = Service::start() else { return };
        a_command_ends_with_one_error(Outage::Unavailable, part, &service);
    }
}

#[test]
fn a_command_whose_service_falls_silent_ends_with_one_error() {
    let Some(service) = Service::start() else { return };
    a_command_ends_with_one_error(Outage::Silent, 0.7, &service);
}

#[test]
fn a_command_that_waits_for_its_service_ends_at_a_signal() {
    for (outage, signal) in [
        (Outage::Gone, Signal::INT),
        (Outage::Silent, Signal::TERM),
        (Outage::Unavailable, Signal::INT),
    ] {
        let Some(service) = Service::start() else { return };
        a_command_ends_at_a_signal(outage, signal, &service);
    }
}

#[test]
fn a_command_whose_service_comes_back_after_twenty_seconds_goes_on_by_itself() {
    for outage in [Outage::Gone, Outage::Unavailable] {
        let Some(service) = Service::start() else { return };
        let counts = counts(&service);
        for_each_command(&service, &counts, |run, line, count| {
            run.begin_outage(line, outage, 0.5, count);
            let child = run.start(line, "");
            run.await_outage();
            thread::sleep(Duration::from_secs(20));
            run.proxy.end_outage();
            let ran = Ran::of(line, child.wait_with_output().unwrap()).expect(0);
            // The command reports the outage once, and no damage.
            let told = ran.stderr.lines().filter(|line| line.starts_with("cannot reach ")).count();
            assert_eq!(told, 1, "{ran:#?}");
            assert!(!ran.stderr.contains("warning:"), "{ran:#?}");
        });
        the_repository_is_whole(&service);
    }
}

/// A mount whose service is gone, and a thread that reads a file of which nothing was read before.
struct LostMount {
    child: Child,
    reading: thread::JoinHandle<io::Result<Vec<u8>>>,
}

impl LostMount {
    /// None where nothing can be mounted.
    fn new(run: &Run<'_>, options: &str) -> Option<Self> {
        if !can_mount() {
            return None;
        }
        let root = run.service.lab.path(format!("mnt-{}", run.name));
        fs::create_dir_all(&root).unwrap();
        let line = format!("mount {}", root.display());
        let mut child = run.start(&line, options);
        let file = root.join("ids").join(&run.service.snapshot[..8]).join("image.bin");
        let begun = Instant::now();
        while !file.exists() {
            assert_eq!(child.try_wait().unwrap(), None, "it ended");
            assert!(begun.elapsed() < Duration::from_secs(30), "it is not mounted");
            thread::sleep(Duration::from_millis(10));
        }
        run.proxy.begin_outage(Outage::Gone, 0);
        let reading = thread::spawn(move || fs::read(file));
        run.await_outage();
        Some(Self { child, reading })
    }
}

#[test]
fn a_mount_whose_service_is_gone_gives_an_error_and_ends() {
    let Some(service) = Service::start() else { return };
    let run = service.run("mounted");
    let Some(mount) = LostMount::new(&run, "--s3-retry-for 3") else { return };
    let error = mount.reading.join().unwrap().unwrap_err();
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()), "{error}");
    let ran = Ran::of("mount", mount.child.wait_with_output().unwrap());
    let ran = ran
        .expect(1)
        .says(&["cannot reach s3://bucket/", "cannot be reached; requests failed for 3 s"]);
    assert_nothing_is_taken_for_damage(&ran);
    assert!(!service.lab.path("mnt-mounted/ids").exists(), "it is unmounted");
}

#[test]
fn a_mount_that_waits_for_its_service_ends_at_a_signal() {
    let Some(service) = Service::start() else { return };
    let run = service.run("signalled");
    let Some(mount) = LostMount::new(&run, "--s3-retry-for 600") else { return };
    thread::sleep(Duration::from_millis(300));
    let asked = Instant::now();
    kill_process(Pid::from_child(&mount.child), Signal::TERM).unwrap();
    let ran = Ran::of("mount", mount.child.wait_with_output().unwrap());
    let took = asked.elapsed();
    assert!(took < AFTER_SIGNAL, "{took:?}: {ran:#?}");
    assert_eq!(ran.code, 0, "a signal is how a mount ends: {ran:#?}");
    mount.reading.join().unwrap().unwrap_err();
    assert!(!service.lab.path("mnt-signalled/ids").exists(), "it is unmounted");
}
