//! Several processes work on one repository at the same time.

use std::process::Stdio;

use onefold_testkit::random;

use crate::lab::{Lab, Ran};
use crate::tree_equality::assert_same_tree;

#[test]
fn two_backups_at_once_both_succeed() {
    let lab = Lab::with_repository();
    // Half of each tree is the other's as well.
    for (source, own) in [("one", 1), ("two", 2)] {
        lab.write(format!("{source}/common"), random(0, 6 << 20));
        lab.write(format!("{source}/own"), random(own, 6 << 20));
    }
    let start = |source: &str| {
        let mut command = lab.command(&format!("backup --repo repo --tag {source} {source}"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let both = [start("one"), start("two")];
    for backup in both {
        Ran::of("backup", backup.wait_with_output().unwrap()).expect(0);
    }
    lab.ok("check --repo repo --read-data");
    for source in ["one", "two"] {
        let listed = lab.ok(&format!("snapshots --repo repo --json --tag {source}")).json();
        let id = listed[0]["id"].as_str().unwrap();
        lab.ok(&format!("restore --repo repo {id} --target restored-{source}"));
        assert_same_tree(&lab.path(source), &lab.path(format!("restored-{source}")));
    }
}

#[test]
fn two_that_make_the_repository_at_once_both_succeed() {
    let lab = Lab::new();
    lab.write("src/a", random(0, 1 << 20));
    let start = || {
        let mut command = lab.command("backup --repo repo --init --no-encryption src");
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let all: Vec<_> = (0..4).map(|_| start()).collect();
    for backup in all {
        Ran::of("backup --init", backup.wait_with_output().unwrap()).expect(0);
    }
    assert_eq!(lab.ok("snapshots --repo repo --json").json().as_array().unwrap().len(), 4);
    lab.ok("check --repo repo --read-data");
}
