//! Repositories on another machine, reached by SFTP through OpenSSH's own server.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use onefold_testkit::{Cutter, SshServer, random};

use crate::lab::{Lab, Ran, number};
use crate::tree::make_version;
use crate::tree_equality::assert_same_tree;

/// A server, and a directory in which `onefold` is run.
struct Remote {
    lab: Lab,
    server: SshServer,
    config: PathBuf,
}

impl Remote {
    fn start() -> Option<Self> {
        let lab = Lab::new();
        fs::create_dir(lab.path("ssh")).unwrap();
        let server = SshServer::start(&lab.path("ssh"))?;
        let config = lab.path("ssh/config");
        Some(Self { lab, server, config })
    }

    fn command(&self, line: &str) -> Command {
        let config = format!("--ssh-config {}", self.config.display());
        let mut command = self.lab.command(&format!("{line} {config}"));
        let repo = format!("sftp:target:{}", self.lab.path("srv/repo").display());
        command.env("ONEFOLD_REPOSITORY", repo);
        command
    }

    fn run(&self, line: &str) -> Ran {
        Ran::of(line, self.command(line).output().unwrap())
    }

    fn ok(&self, line: &str) -> Ran {
        self.run(line).expect(0)
    }
}

#[test]
fn a_tree_comes_back_over_a_line_that_is_cut_again_and_again() {
    let Some(mut remote) = Remote::start() else { return };
    let cutter = Cutter::start(remote.server.address());
    remote.config = remote.server.write_config("cut", cutter.address());
    for version in [0, 1] {
        make_version(&remote.lab.path(format!("v{version}")), version);
    }
    let mut cut = 3_000;
    let mut ok = |line: &str| {
        // A later connection of the same command may be cut as well.
        cut = cut * 7 % 100_003;
        cutter.cut_after(cut);
        remote.ok(line)
    };
    ok("init --no-encryption");
    let first = ok("backup --json v0").summary();
    let second = ok("backup --json v1").summary();
    assert!(number(&first, "new_bytes") > 10 * number(&second, "new_bytes"), "{first} {second}");
    assert_eq!(number(&ok("check --read-data --json").json(), "snapshots"), 2);
    for (version, made) in [&first, &second].iter().enumerate() {
        let id = made["snapshot"].as_str().unwrap();
        ok(&format!("restore {id} --target out{version}"));
        assert_same_tree(
            &remote.lab.path(format!("v{version}")),
            &remote.lab.path(format!("out{version}")),
        );
    }
    ok("forget --keep-last 1 --group-by host --prune");
    ok("check --read-data");
    assert!(cutter.connections() > 8, "{} connections", cutter.connections());
    // The same files are a repository of the machine that has them.
    remote.lab.ok("check --repo srv/repo --read-data");
}

#[test]
fn a_backup_that_is_killed_is_gone_on_with() {
    let Some(remote) = Remote::start() else { return };
    remote.ok("init --no-encryption");
    for number in 0..40 {
        remote.lab.write(format!("src/{number}"), random(number, 2 << 20));
    }
    for delay in [150, 400, 800, 1_200] {
        let mut command = remote.command("backup src --limit-upload 20M");
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(delay));
        child.kill().unwrap();
        child.wait().unwrap();
        remote.ok("check --read-data");
    }
    remote.ok("backup src");
    remote.ok("prune");
    remote.ok("check --read-data");
    remote.ok("restore latest --target out");
    assert_same_tree(&remote.lab.path("src"), &remote.lab.path("out"));
}

#[test]
fn two_writers_and_a_prune_lose_nothing() {
    let Some(remote) = Remote::start() else { return };
    remote.ok("init --no-encryption");
    for name in ["gone", "one", "two"] {
        for number in 0..10 {
            let seed = number + name.len() as u64 * 100 + u64::from(name.as_bytes()[0]);
            remote.lab.write(format!("{name}/{number}"), random(seed, 500_000));
        }
    }
    remote.ok("backup gone");
    remote.ok("forget latest");
    let start = |line: &str| {
        let mut command = remote.command(line);
        command.env("ONEFOLD_CACHE_DIR", remote.lab.path(format!("cache-{line}")));
        command.env("ONEFOLD_STATE_DIR", remote.lab.path(format!("state-{line}")));
        (line.to_owned(), command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    };
    let running = [start("backup one --host one"), start("backup two --host two"), start("prune")];
    for (line, child) in running {
        Ran::of(&line, child.wait_with_output().unwrap()).expect(0);
    }
    remote.ok("prune");
    remote.ok("check --read-data");
    for name in ["one", "two"] {
        remote.ok(&format!("restore latest --host {name} --target out-{name}"));
        assert_same_tree(&remote.lab.path(name), &remote.lab.path(format!("out-{name}")));
    }
}

#[test]
fn requests_and_limits_are_those_of_every_place() {
    let Some(remote) = Remote::start() else { return };
    remote.ok("init --no-encryption");
    remote.lab.write("src/a", random(1, 1 << 20));
    let begun = Instant::now();
    let ran = remote.ok("backup src --json --limit-upload 512K --connections 2");
    assert!(begun.elapsed() > Duration::from_millis(1_500), "{:?}", begun.elapsed());
    let told = ran.stderr.lines().last().unwrap();
    let told: serde_json::Value = serde_json::from_str(told).unwrap();
    assert_eq!(told["type"], "requests", "{told}");
    assert!(told["repository"].as_str().unwrap().starts_with("sftp:target:/"), "{told}");
    assert!(number(&told, "sent_bytes") > 1 << 20 && number(&told, "put") > 3, "{told}");
    remote.run("snapshots --limit-download 5X").expect(1).says(&["expected a number and B, K, M"]);
}

#[test]
fn a_host_that_is_not_known_is_named_with_what_to_run() {
    let Some(remote) = Remote::start() else { return };
    fs::remove_file(remote.lab.path("ssh/config.known_hosts")).unwrap();
    remote.run("snapshots").expect(1).says(&[
        "cannot open the repository",
        "is not known",
        "ssh -p",
    ]);
    remote.run("snapshots --repo rest:http://host/").expect(1).says(&[
        "rest:http://host/",
        "is not known",
        "sftp:USER@HOST:/PATH",
    ]);
}
