//! Repositories behind a simulated line: what crosses it, and that everything comes back whatever the
//! line does to it.

use std::fs;
use std::time::Duration;

use onefold_testkit::line::{Fault, Faults, Line, Shape};
use onefold_testkit::random;
use onefold_testkit::s3::S3Server;

use crate::lab::number;
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
