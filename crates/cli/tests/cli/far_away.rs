//! Repositories behind a simulated line: what crosses it, and that everything comes back whatever the
//! line does to it.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use std::{fs, thread};

use onefold_testkit::line::{Fault, Faults, Line, Shape};
use onefold_testkit::random;
use onefold_testkit::s3::S3Server;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::lab::{Ran, number};
use crate::outages::{AFTER_SIGNAL, with_default_signals};
use crate::s3::Remote;
use crate::tree_equality::assert_same_tree;

const FILES: u64 = 40;
const FILE_LEN: usize = 200_000;

/// A server, the line to it, and a directory in which `onefold` is run behind the line.
fn behind_a_line() -> Option<(S3Server, Line, Remote)> {
    let server = S3Server::start()?;
    let one_way = Duration::from_millis(5);
    // The bucket, and the two components of the prefix.
    let shape = Shape { one_way, bytes_per_second: None, repository_depth: 3 };
    let line = Line::start(server.address(), shape).unwrap();
    let remote = Remote::new(line.url());
    Some((server, line, remote))
}

/// Two versions of a tree of random files: a few of the second are others.
fn write_versions(remote: &Remote) {
    for number in 0..FILES {
        remote.lab.write(format!("src/a/{number}"), random(number, FILE_LEN));
        let seed = if number % 10 == 0 { 1000 + number } else { number };
        remote.lab.write(format!("src/b/{number}"), random(seed, FILE_LEN));
    }
}

#[test]
fn a_restore_receives_what_is_stored_and_little_more_in_few_requests() {
    let Some((_server, line, remote)) = behind_a_line() else { return };
    write_versions(&remote);
    remote.ok("init --no-encryption");
    remote.ok("backup src");
    line.take_traffic();
    remote.ok("restore latest --target out");
    let traffic = line.take_traffic();
    assert_same_tree(&remote.lab.path("src"), &remote.lab.path("out"));
    let stored = (FILES + FILES / 10) * FILE_LEN as u64;
    let received = traffic.received_bytes;
    assert!(received > stored, "{received} bytes of {stored}");
    // Heads, listings, the index and the trees come besides.
    assert!(received < stored * 21 / 20 + 100_000, "{received} bytes of {stored}");
    // A MiB in each request, and what tells where they are.
    let requests = traffic.request_count();
    assert!(requests < stored / (1 << 20) + 40, "{:?}", traffic.requests);
}

#[test]
fn a_seed_saves_what_it_has_from_crossing_the_line() {
    let Some((_server, line, remote)) = behind_a_line() else { return };
    write_versions(&remote);
    remote.ok("init --no-encryption");
    // What the second backup stores anew lies together.
    remote.ok("backup src/a");
    remote.ok("backup src/b");
    fs::rename(remote.lab.path("src/a"), remote.lab.path("old")).unwrap();
    line.take_traffic();
    let summary = remote.ok("restore latest --target out --seed old --json").summary();
    let received = line.take_traffic().received_bytes;
    assert_same_tree(&remote.lab.path("src/b"), &remote.lab.path("out"));
    let new = FILES / 10 * FILE_LEN as u64;
    assert_eq!(number(&summary, "seeded"), FILES * FILE_LEN as u64 - new);
    assert!(received < new * 6 / 5 + 200_000, "{received} bytes of {new}");
}

/// How many files the folders in `folder` have.
fn count_below(folder: &Path) -> u64 {
    let Ok(folders) = fs::read_dir(folder) else { return 0 };
    folders.map(|folder| fs::read_dir(folder.unwrap().path()).unwrap().count() as u64).sum()
}

#[test]
fn a_restore_that_was_killed_fetches_no_window_again_that_was_finished() {
    // More small files than one window holds. The line is slow enough to see the first window end.
    const SMALL: u64 = 40_000;
    const LEN: usize = 300;
    let Some(server) = S3Server::start() else { return };
    let shape = Shape {
        one_way: Duration::from_millis(1),
        bytes_per_second: Some(4_000_000),
        repository_depth: 3,
    };
    let line = Line::start(server.address(), shape).unwrap();
    let remote = Remote::new(line.url());
    for number in 0..SMALL {
        remote.lab.write(format!("src/{}/{number}", number / 1000), random(number, LEN));
    }
    remote.ok("init --no-encryption");
    remote.ok("backup src");
    let again = "restore latest --target out --overwrite if-changed";
    let out = remote.lab.path("out");
    let mut child = remote.command(again).spawn().unwrap();
    let begun = Instant::now();
    // Names of a window come one after the other.
    while count_below(&out) < SMALL / 2 {
        assert!(begun.elapsed() < Duration::from_secs(60), "too few files came");
        thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success(), "it was finished before the kill");
    let named = count_below(&out);
    assert!(named < SMALL, "all files have names");
    line.take_traffic();
    remote.ok(again);
    assert_same_tree(&remote.lab.path("src"), &out);
    let received = line.take_traffic().received_bytes;
    // Groups lie across the ends of windows, and trees tell of every file.
    let missing = (SMALL - named) * LEN as u64 + (4 << 20);
    let whole = SMALL * LEN as u64;
    assert!(received < missing && missing < whole, "{received} of {whole} bytes, {named} named");
}

#[test]
fn everything_comes_back_over_a_line_that_stalls_cuts_resets_and_refuses() {
    let Some((_server, line, remote)) = behind_a_line() else { return };
    write_versions(&remote);
    remote.ok("init --no-encryption");
    line.set_faults(Faults {
        seed: 3,
        stalled: 0.02,
        stall: Duration::from_millis(300),
        cut: 0.04,
        reset: 0.02,
        refused: 0.02,
    });
    line.take_traffic();
    remote.ok("backup src/a");
    remote.ok("backup src");
    remote.ok("check --read-data");
    remote.ok("restore latest --target out");
    assert_same_tree(&remote.lab.path("src"), &remote.lab.path("out"));
    remote.ok("forget --keep-last 1 --group-by host --prune");
    remote.ok("restore latest --target again");
    assert_same_tree(&remote.lab.path("src"), &remote.lab.path("again"));
    let faults = line.take_traffic().faults;
    for fault in [Fault::Stall, Fault::Cut, Fault::Reset, Fault::Refusal] {
        assert!(faults.contains_key(&fault), "{faults:?}");
    }
}

#[test]
fn a_command_tells_what_it_asked_of_the_service() {
    let Some((_server, line, remote)) = behind_a_line() else { return };
    write_versions(&remote);
    remote.ok("init --no-encryption");
    for command in ["backup src", "snapshots", "check --read-data"] {
        line.take_traffic();
        let ran = remote.ok(&format!("{command} --json"));
        let traffic = line.take_traffic();
        let told = ran.stderr.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let told = told.filter(|told| told["type"] == "requests").collect::<Vec<_>>();
        assert_eq!(told.len(), 1, "{ran:#?}");
        for kind in ["GET", "HEAD", "LIST", "PUT", "DELETE"] {
            let passed: u64 = traffic
                .requests
                .iter()
                .filter(|(request, _)| request.method == kind)
                .map(|(_, count)| count)
                .sum();
            assert_eq!(number(&told[0], &kind.to_lowercase()), passed, "{kind}: {told:?}");
        }
        for (name, passed) in
            [("sent_bytes", traffic.sent_bytes), ("received_bytes", traffic.received_bytes)]
        {
            let told = number(&told[0], name);
            // A few words in each head are added beneath.
            let unseen = 200 * traffic.request_count();
            assert!(told <= passed && told + unseen >= passed, "{name}: {told} of {passed}");
        }
    }
    let ran = remote.ok("snapshots -v");
    let told = ran.stderr.lines().find(|line| line.contains(" GET, ")).expect(&ran.stderr);
    assert!(told.starts_with("s3://bucket/backups/laptop at http://127.0.0.1:"), "{told}");
    assert!(!remote.ok("snapshots").stderr.contains(" GET, "));
    assert!(!remote.ok("snapshots --json --quiet").stderr.contains("requests"));
}

#[test]
fn retries_are_told() {
    let Some((_server, line, remote)) = behind_a_line() else { return };
    write_versions(&remote);
    remote.ok("init --no-encryption");
    line.set_faults(Faults { seed: 3, cut: 0.1, refused: 0.1, ..Faults::default() });
    line.take_traffic();
    let ran = remote.ok("backup src --json");
    let faults: u64 = line.take_traffic().faults.values().sum();
    let told = ran.stderr.lines().find(|line| line.contains("\"requests\"")).unwrap();
    let told: Value = serde_json::from_str(told).unwrap();
    // A second request for the same may be the one that fails.
    let (retries, hedges) = (number(&told, "retries"), number(&told, "hedges"));
    assert!(faults > 0 && retries <= faults && retries + hedges >= faults, "{faults}: {told}");
}

#[test]
fn limits_are_kept_and_a_signal_ends_a_command_that_waits_for_them() {
    let Some((_server, _line, remote)) = behind_a_line() else { return };
    remote.lab.write("src/a", random(1, 1 << 20));
    remote.ok("init --no-encryption");
    let begun = Instant::now();
    remote.ok("backup src --limit-upload 512");
    // A tenth of a second's worth may pass at once.
    assert!(begun.elapsed() >= Duration::from_millis(1_900), "{:?}", begun.elapsed());
    let begun = Instant::now();
    remote.ok("restore latest --target out --limit-download 512");
    assert!(begun.elapsed() >= Duration::from_millis(1_900), "{:?}", begun.elapsed());
    assert_same_tree(&remote.lab.path("src"), &remote.lab.path("out"));

    let command = remote.command("restore latest --target again --limit-download 20");
    let mut command = with_default_signals(&command);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    thread::sleep(Duration::from_secs(3));
    assert!(child.try_wait().unwrap().is_none(), "52 s are needed");
    let asked = Instant::now();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let ran = Ran::of("restore", child.wait_with_output().unwrap()).expect(130);
    assert!(asked.elapsed() < AFTER_SIGNAL, "{:?}: {ran:#?}", asked.elapsed());
}
