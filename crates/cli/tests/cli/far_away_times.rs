//! What commands take on a simulated line, and what crosses it. `cargo lab campaign far-away` runs
//! this with the release build, a directory of the user's, and rivals beside; the test runs it small.

use std::env;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use onefold_testkit::line::{Faults, Line, Shape};
use onefold_testkit::random;
use onefold_testkit::s3::S3Server;
use tempfile::TempDir;

use self::tools::Tool;
use crate::tree_equality::{assert_same_tree, differences};

mod tools;

/// How often the memory of a program is looked at.
const LOOK_EACH: Duration = Duration::from_millis(10);

/// What is measured, and how.
struct Setting {
    program: PathBuf,
    source: PathBuf,
    shape: Shape,
    /// Small backups of the repository that is old; none if there is no such.
    aged: u32,
    rounds: u32,
    /// Whether the service keeps its objects on a disk.
    on_disk: bool,
}

/// A service with a bucket called `bucket`.
enum Service {
    /// In memory.
    Memory(S3Server),
    /// On a disk: versitygw, which the caller has installed.
    Gateway { process: Child, folder: TempDir, address: SocketAddr },
}

/// Where a command runs: what a host keeps lies below `home`.
struct Host<'a> {
    line: &'a Line,
    home: PathBuf,
}

#[test]
fn what_commands_take_on_a_line_is_told() {
    let asked = env::var_os("ONEFOLD_FAR_AWAY");
    let folder = tempfile::tempdir().unwrap();
    let setting = match &asked {
        Some(source) => Setting::asked_for(source.into()),
        None => Setting::small(&folder),
    };
    let service = match setting.on_disk {
        true => Some(Service::gateway()),
        false => S3Server::start().map(Service::Memory),
    };
    let Some(service) = service else { return };
    for round in 1..=setting.rounds {
        println!("far-away: round {round}");
        let line = Line::start(service.address(), setting.shape).unwrap();
        let at = |name: &str| folder.path().join(format!("{name}-{round}"));
        measure(&Tool::onefold(&setting.program), &setting, &line, &at("onefold"));
        let rivals = if asked.is_some() { Tool::rivals(&setting.source) } else { Vec::new() };
        for tool in rivals {
            measure(&tool, &setting, &line, &at(&tool.name));
        }
        let Service::Gateway { folder: served, .. } = &service else { continue };
        let bucket = served.path().join("bucket");
        measure_merged(&setting, &line, &bucket, &at("merged"));
        measure_aged(&setting, &line, &bucket, &at("aged"));
    }
}

impl Setting {
    /// As `cargo lab campaign far-away` says.
    fn asked_for(source: PathBuf) -> Self {
        let number = |name: &str| -> u64 { env::var(name).unwrap().parse().unwrap() };
        let rate = number("ONEFOLD_FAR_AWAY_RATE");
        Self {
            program: env::var_os("ONEFOLD_FAR_AWAY_PROGRAM").unwrap().into(),
            source,
            shape: Shape {
                one_way: Duration::from_millis(number("ONEFOLD_FAR_AWAY_ONE_WAY")),
                bytes_per_second: (rate > 0).then_some(rate),
                repository_depth: 2,
            },
            aged: number("ONEFOLD_FAR_AWAY_AGED") as u32,
            rounds: number("ONEFOLD_FAR_AWAY_ROUNDS") as u32,
            on_disk: env::var("ONEFOLD_FAR_AWAY_SERVER").unwrap() == "versitygw",
        }
    }

    fn small(folder: &TempDir) -> Self {
        let source = folder.path().join("source");
        write_tree(&source);
        let one_way = Duration::from_millis(2);
        let shape = Shape { one_way, bytes_per_second: None, repository_depth: 2 };
        let program = env!("CARGO_BIN_EXE_onefold").into();
        Self { program, source, shape, aged: 0, rounds: 1, on_disk: false }
    }
}

/// Twenty files of 50 kB.
fn write_tree(at: &Path) {
    for number in 0..20 {
        let path = at.join(format!("{}/{number}", number / 7));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, random(number, 50_000)).unwrap();
    }
}

impl Service {
    fn gateway() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("bucket")).unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let process = Command::new("versitygw")
            .args(["--access", "test", "--secret", "testtest", "--port", &address.to_string()])
            .args(["-q", "--keep-alive", "posix"])
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .expect(
                "versitygw runs; `go install github.com/versity/versitygw/cmd/versitygw@latest`",
            );
        while TcpStream::connect(address).is_err() {
            thread::sleep(Duration::from_millis(50));
        }
        Self::Gateway { process, folder, address }
    }

    fn address(&self) -> SocketAddr {
        match self {
            Self::Memory(server) => server.address(),
            Self::Gateway { address, .. } => *address,
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Self::Gateway { process, .. } = self {
            // Fails only if it has ended already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Host<'_> {
    /// `program` with what all tools take from the environment.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(&self.home)
            .env("AWS_ENDPOINT_URL", self.line.url())
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "testtest")
            .env("AWS_REGION", "us-east-1")
            .env("HOME", &self.home)
            .env("XDG_CACHE_HOME", self.home.join("cache"))
            .env("XDG_CONFIG_HOME", self.home.join("config"))
            .env("XDG_STATE_HOME", self.home.join("state"))
            .env("ONEFOLD_PASSWORD", "password")
            .env("RESTIC_PASSWORD", "password")
            .env("RUSTIC_PASSWORD", "password")
            .env("KOPIA_PASSWORD", "password")
            .env("KOPIA_CHECK_FOR_UPDATES", "false");
        command
    }

    /// Runs a command of `tool` and tells what it took; whether it succeeded, as `onefold` must.
    fn measure(&self, tool: &str, label: &str, mut command: Command) -> bool {
        self.line.take_traffic();
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let begun = Instant::now();
        let (ended, end) = mpsc::channel();
        let of = child.id();
        let looking = thread::spawn(move || peak_memory(of, &end));
        let output = child.wait_with_output().unwrap();
        let took = begun.elapsed().as_secs_f64();
        drop(ended);
        let peak = looking.join().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() || tool != "onefold", "{command:?}: {said}");
        let traffic = self.line.take_traffic();
        if !output.status.success() {
            let last = said.lines().last().unwrap_or_default();
            println!("far-away: {tool}: {label}: failed after {took:.2} s: {last}");
            return false;
        }
        println!(
            "far-away: {tool}: {label}: {took:.2} s, {:.1} MB received, {:.1} MB sent, {} requests, \
             at most {} under way, {peak} MiB of memory",
            traffic.received_bytes as f64 / 1e6,
            traffic.sent_bytes as f64 / 1e6,
            traffic.request_count(),
            traffic.peak_under_way,
        );
        true
    }
}

/// The most memory that the process had, in MiB, until `end` is dropped.
fn peak_memory(process: u32, end: &mpsc::Receiver<()>) -> u64 {
    let mut peak = 0;
    while end.recv_timeout(LOOK_EACH) == Err(RecvTimeoutError::Timeout) {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let kibibytes = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes = kibibytes.and_then(|text| text.trim().trim_end_matches(" kB").parse().ok());
        peak = peak.max(kibibytes.unwrap_or(0));
    }
    peak >> 10
}

/// Two hosts with folders below `at`.
fn hosts<'a>(line: &'a Line, at: &Path) -> [Host<'a>; 2] {
    ["one", "two"].map(|name| {
        let home = at.join(name);
        fs::create_dir_all(&home).unwrap();
        Host { line, home }
    })
}

/// Every command of `tool`, once.
fn measure(tool: &Tool, setting: &Setting, line: &Line, at: &Path) {
    let [one, two] = hosts(line, at);
    let url = line.url();
    let source = setting.source.to_str().unwrap();
    let run = |host: &Host<'_>, label: &str, args: Vec<String>| {
        host.measure(&tool.name, label, tool.command(host, &url, &args))
    };
    run(&one, "init", tool.init());
    run(&one, "first backup", tool.backup(source));
    run(&one, "unchanged backup", tool.backup(source));
    let latest = tool.latest(&one, &url);
    tool.connect(&two, &url);
    let restore = |host: &Host<'_>, label: &str| {
        if run(host, label, tool.restore(&latest)) {
            let different = differences(&setting.source, &tool.restored(host)).len();
            assert!(different == 0 || tool.name != "onefold", "{different} differences");
            if different > 0 {
                println!("far-away: {}: {label}: {different} names came back changed", tool.name);
            }
        }
        let out = host.home.join("out");
        if out.exists() {
            fs::remove_dir_all(out).unwrap();
        }
    };
    restore(&one, "restore, same host");
    restore(&two, "restore, new host");
    fs::remove_dir_all(two.home.join("cache")).unwrap();
    let stall = Duration::from_secs(5);
    line.set_faults(Faults { seed: 1, stalled: 0.02, stall, cut: 0.01, ..Faults::default() });
    restore(&two, "restore, new host, 2 % of answers stalled for 5 s and 1 % cut");
    line.set_faults(Faults::default());
    for (label, args) in tool.others(&latest) {
        run(&one, label, args);
    }
}

/// Makes a repository where the service keeps its objects: `backups` of `source`, before each of which
/// `change` is called with its number.
fn make(
    host: &Host<'_>,
    program: &Path,
    repository: &str,
    source: &str,
    backups: u32,
    change: impl Fn(u32),
) {
    quietly(host, program, &["init", repository]);
    for number in 0..backups {
        change(number);
        quietly(host, program, &["backup", "--repo", repository, source]);
    }
}

fn quietly(host: &Host<'_>, program: &Path, args: &[&str]) {
    let output = host.command(program).arg("-q").args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A restore from what fifty backups of a source that changes leave, once a prune has merged it.
fn measure_merged(setting: &Setting, line: &Line, bucket: &Path, at: &Path) {
    let [one, two] = hosts(line, at);
    let name = at.file_name().unwrap().to_str().unwrap();
    let here = bucket.join(name);
    let (program, repository) = (&setting.program, here.to_str().unwrap());
    let source = two.home.join("source");
    let copied = Command::new("cp").arg("-a").arg(&setting.source).arg(&source).status().unwrap();
    assert!(copied.success(), "{}", setting.source.display());
    make(&two, program, repository, "source", 50, |number| {
        fs::write(source.join(format!("new{}", number % 10)), random(number.into(), 300_000))
            .unwrap();
    });
    quietly(&two, program, &["forget", "--keep-last", "1", "--prune", "--repo", repository]);
    let stored: u64 = lengths_below(&here.join("containers"));
    println!("far-away: after 50 backups and a prune, containers have {} bytes", stored);
    let mut command = one.command(program);
    command.args(["-q", "restore", "latest", "--target", "out"]);
    command.args(["--repo", &format!("s3://bucket/{name}")]);
    one.measure("onefold", "after 50 backups and a prune: restore, new host", command);
    assert_same_tree(&source, &one.home.join("out"));
    fs::remove_dir_all(at).unwrap();
}

/// Bytes of all files below a directory.
fn lengths_below(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    let len = |entry: fs::DirEntry| match entry.file_type().unwrap().is_dir() {
        true => lengths_below(&entry.path()),
        false => entry.metadata().unwrap().len(),
    };
    entries.map(len).sum()
}

/// A repository of many small backups.
fn measure_aged(setting: &Setting, line: &Line, bucket: &Path, at: &Path) {
    if setting.aged == 0 {
        return;
    }
    let [one, two] = hosts(line, at);
    let name = at.file_name().unwrap().to_str().unwrap();
    let here = bucket.join(name);
    let source = two.home.join("source");
    write_tree(&source);
    make(&two, &setting.program, here.to_str().unwrap(), "source", setting.aged, |number| {
        fs::write(source.join("new"), random(1000 + u64::from(number), 3000)).unwrap();
    });
    for label in ["nothing kept", "again"] {
        let run = |what: &str, args: &[&str]| {
            let label = format!("{} small backups: {what}, {label}", setting.aged);
            let mut command = one.command(&setting.program);
            command.arg("-q").args(args).args(["--repo", &format!("s3://bucket/{name}")]);
            one.measure("onefold", &label, command);
        };
        run("snapshots", &["snapshots"]);
        run("restore", &["restore", "latest", "--target", "out"]);
        run("unchanged backup", &["backup", source.to_str().unwrap()]);
        run("check", &["check"]);
        fs::remove_dir_all(one.home.join("out")).unwrap();
    }
}
