//! What commands take on a simulated line, and what crosses it. `cargo xtask campaign far-away` runs
//! this with the release build, a directory of the user's, and restic beside; the test runs it small.

use std::env;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use onefold_testkit::line::{Line, Shape};
use onefold_testkit::random;
use onefold_testkit::s3::S3Server;
use tempfile::TempDir;

use crate::tree_equality::assert_same_tree;

/// What is measured, and how.
struct Setting {
    program: PathBuf,
    source: PathBuf,
    shape: Shape,
    /// Small backups of the repository that is old; none if there is no such.
    aged: u32,
    rounds: u32,
}

/// A service with a bucket called `bucket`.
enum Service {
    /// In memory.
    Moto(S3Server),
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
    let Some((service, setting)) = (match asked {
        Some(source) => Some((Service::gateway(), Setting::asked_for(source.into()))),
        None => S3Server::start().map(|server| (Service::Moto(server), Setting::small(&folder))),
    }) else {
        return;
    };
    for round in 1..=setting.rounds {
        println!("far-away: round {round}");
        let line = Line::start(service.address(), setting.shape).unwrap();
        measure_onefold(&setting, &line, &folder.path().join(format!("onefold-{round}")));
        if let Service::Gateway { folder: served, .. } = &service {
            measure_restic(&setting, &line, &folder.path().join(format!("restic-{round}")));
            measure_aged(
                &setting,
                &line,
                served.path(),
                &folder.path().join(format!("aged-{round}")),
            );
        }
    }
}

impl Setting {
    /// As `cargo xtask campaign far-away` says.
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
        }
    }

    fn small(folder: &TempDir) -> Self {
        let source = folder.path().join("source");
        write_tree(&source);
        let one_way = Duration::from_millis(2);
        let shape = Shape { one_way, bytes_per_second: None, repository_depth: 2 };
        let program = env!("CARGO_BIN_EXE_onefold").into();
        Self { program, source, shape, aged: 0, rounds: 1 }
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
            Self::Moto(server) => server.address(),
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
    /// `program` with what both tools take from the environment.
    fn command(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(&self.home)
            .env("AWS_ENDPOINT_URL", self.line.url())
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "testtest")
            .env("AWS_REGION", "us-east-1")
            .env("HOME", &self.home)
            .env("XDG_CACHE_HOME", self.home.join("cache"))
            .env("XDG_STATE_HOME", self.home.join("state"))
            .env("ONEFOLD_PASSWORD", "password")
            .env("RESTIC_PASSWORD", "password");
        command
    }

    /// Runs a command and tells what it took.
    fn measure(&self, program: &Path, label: &str, args: &[&str]) {
        self.line.take_traffic();
        let mut command = self.command(program, args);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let begun = Instant::now();
        let output = child.wait_with_output().unwrap();
        let took = begun.elapsed().as_secs_f64();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {said}");
        let traffic = self.line.take_traffic();
        let tool = program.file_name().unwrap().to_string_lossy();
        println!(
            "far-away: {tool}: {label}: {took:.2} s, {:.1} MB received, {:.1} MB sent, {} requests, \
             at most {} under way",
            traffic.received_bytes as f64 / 1e6,
            traffic.sent_bytes as f64 / 1e6,
            traffic.request_count(),
            traffic.peak_under_way,
        );
    }
}

/// Two hosts with folders below `at`.
fn hosts<'a>(line: &'a Line, at: &Path) -> [Host<'a>; 2] {
    ["one", "two"].map(|name| {
        let home = at.join(name);
        fs::create_dir_all(&home).unwrap();
        Host { line, home }
    })
}

/// A tool, and how it is told of a repository.
struct Tool<'a> {
    program: &'a Path,
    /// Words that lead to the repository.
    repository: &'a [&'a str],
    init: &'a [&'a str],
    /// Where below the target of a restore the source's content comes.
    restored: &'a str,
}

fn measure_onefold(setting: &Setting, line: &Line, at: &Path) {
    let repo = format!("s3://bucket/{}", at.file_name().unwrap().to_str().unwrap());
    let tool = Tool {
        program: &setting.program,
        repository: &["-q", "--repo", &repo],
        init: &["-q", "init", &repo],
        restored: "",
    };
    tool.measure(setting, line, at);
}

fn measure_restic(setting: &Setting, line: &Line, at: &Path) {
    let program = Path::new("restic");
    if Command::new(program).arg("version").output().is_err() {
        println!("far-away: restic is not installed");
        return;
    }
    let repo = format!("s3:{}/bucket/{}", line.url(), at.file_name().unwrap().to_str().unwrap());
    let tool = Tool {
        program,
        repository: &["-q", "-r", &repo],
        init: &["-q", "-r", &repo, "init"],
        restored: setting.source.to_str().unwrap().trim_start_matches('/'),
    };
    tool.measure(setting, line, at);
}

impl Tool<'_> {
    fn measure(&self, setting: &Setting, line: &Line, at: &Path) {
        let [one, two] = hosts(line, at);
        let source = setting.source.to_str().unwrap();
        let run = |host: &Host<'_>, label: &str, command: &[&str]| {
            host.measure(self.program, label, &[command, self.repository].concat());
        };
        one.measure(self.program, "init", self.init);
        run(&one, "first backup", &["backup", source]);
        run(&one, "unchanged backup", &["backup", source]);
        for (host, label) in [(&one, "restore, same host"), (&two, "restore, new host")] {
            run(host, label, &["restore", "latest", "--target", "out"]);
            assert_same_tree(&setting.source, &host.home.join("out").join(self.restored));
            fs::remove_dir_all(host.home.join("out")).unwrap();
        }
        run(&one, "snapshots", &["snapshots"]);
        run(&one, "ls", &["ls", "latest"]);
        run(&one, "check", &["check"]);
        run(&one, "check --read-data", &["check", "--read-data"]);
        run(&one, "forget and prune", &["forget", "--keep-last", "1", "--prune"]);
    }
}

/// A repository of many small backups, which are made where the service keeps its objects.
fn measure_aged(setting: &Setting, line: &Line, served: &Path, at: &Path) {
    if setting.aged == 0 {
        return;
    }
    let [one, two] = hosts(line, at);
    let name = at.file_name().unwrap().to_str().unwrap();
    let (here, there) = (served.join("bucket").join(name), format!("s3://bucket/{name}"));
    let here = here.to_str().unwrap();
    let source = two.home.join("source");
    write_tree(&source);
    let quietly = |args: &[&str]| {
        let output = two.command(&setting.program, args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    quietly(&["-q", "init", here]);
    for number in 0..setting.aged {
        fs::write(source.join("new"), random(1000 + u64::from(number), 3000)).unwrap();
        quietly(&["-q", "backup", "--repo", here, "source"]);
    }
    for label in ["nothing kept", "again"] {
        let run = |what: &str, args: &[&str]| {
            let label = format!("{} small backups: {what}, {label}", setting.aged);
            one.measure(&setting.program, &label, &[&["-q"], args, &["--repo", &there]].concat());
        };
        run("snapshots", &["snapshots"]);
        run("restore", &["restore", "latest", "--target", "out"]);
        run("unchanged backup", &["backup", source.to_str().unwrap()]);
        run("check", &["check"]);
        fs::remove_dir_all(one.home.join("out")).unwrap();
    }
}
