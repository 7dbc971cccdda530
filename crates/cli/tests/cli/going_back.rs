//! A repository that went back, or from which something was taken, is said, with exit code 13.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::lab::Lab;

/// A lab in whose repository there is a snapshot, and an older copy of it in `old`.
fn with_newer_snapshot() -> Lab {
    let lab = Lab::with_repository();
    lab.write("source/file", "one");
    lab.settle();
    lab.ok("backup --repo repo source");
    copy(&lab.path("repo"), &lab.path("old"));
    lab.write("source/file", "two");
    lab.settle();
    lab.ok("backup --repo repo source");
    lab
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(copied.success());
}

fn go_back(lab: &Lab) {
    fs::remove_dir_all(lab.path("repo")).unwrap();
    copy(&lab.path("old"), &lab.path("repo"));
}

#[test]
fn a_repository_that_went_back_is_13_until_it_is_believed() {
    let lab = with_newer_snapshot();
    go_back(&lab);
    let says = ["the repository is not as this client", "older than it was", "hint: find out what"];
    for line in ["snapshots", "stats", "ls latest", "restore latest --target out"] {
        lab.run(&format!("{line} --repo repo")).expect(13).says(&says);
    }
    lab.run("check --repo repo").expect(13).says(&says);
    lab.run("prune --repo repo").expect(1).says(&["nothing is pruned"]);
    let ran = lab.run("prune --repo repo --json").expect(1);
    let last: serde_json::Value =
        serde_json::from_str(ran.stderr.trim().lines().next_back().unwrap()).unwrap();
    assert_eq!(last, serde_json::json!({"type": "exit", "code": 1, "codes": [1, 13]}));
    lab.run("prune --repo repo --dry-run").expect(13).says(&says);
    let ran = lab.run("snapshots --repo repo --json").expect(13);
    assert_eq!(ran.json().as_array().unwrap().len(), 1);
    let error: serde_json::Value = serde_json::from_str(ran.stderr.trim()).unwrap();
    assert_eq!((&error["type"], &error["code"]), (&"error".into(), &13.into()));
    // A backup is made all the same, and a client that has seen nothing knows of nothing.
    lab.write("source/file", "three");
    lab.settle();
    lab.run("backup --repo repo source").expect(13);
    lab.ok("snapshots --repo repo --state-dir elsewhere");
    fs::remove_dir_all(lab.path("state")).unwrap();
    lab.ok("snapshots --repo repo");
}

#[test]
fn nothing_is_pruned_where_what_was_seen_cannot_be_had() {
    let lab = with_newer_snapshot();
    lab.write("no-folder", "x");
    let warns = ["the state of the repository is not remembered"];
    let line = "--repo repo --state-dir no-folder";
    lab.run(&format!("prune {line}")).expect(1).says(&warns).says(&["nothing is pruned"]);
    lab.run(&format!("forget {line} --keep-last 1 --prune")).expect(1).says(&["nothing is pruned"]);
    for command in ["prune --dry-run", "snapshots"] {
        lab.ok(&format!("{command} {line}")).says(&warns);
    }
    lab.ok("prune --repo repo --state-dir elsewhere");
}

#[test]
fn a_repair_settles_it_for_every_client() {
    let lab = with_newer_snapshot();
    lab.ok("snapshots --repo repo --state-dir elsewhere");
    go_back(&lab);
    let ran = lab.run("check --repo repo --repair").expect(0);
    assert!(ran.stdout.contains("was corrected"), "{ran:#?}");
    for state in ["state", "elsewhere", "nowhere"] {
        lab.ok(&format!("snapshots --repo repo --state-dir {state}"));
    }
    lab.ok("check --repo repo");
    lab.ok("prune --repo repo");
}

#[test]
fn a_snapshot_that_was_taken_away_is_given_up_by_its_id() {
    let lab = with_newer_snapshot();
    let listed = lab.ok("snapshots --repo repo --json").json();
    let id = listed[1]["id"].as_str().unwrap().to_owned();
    for below in ["snapshots", "receipts"] {
        fs::remove_file(lab.path(format!("repo/{below}/{id}"))).unwrap();
    }
    lab.run("snapshots --repo repo").expect(13).says(&[&id, "no log says that it was forgotten"]);
    let ran = lab.run("check --repo repo").expect(1);
    assert!(ran.stdout.contains(&id), "{ran:#?}");
    lab.run(&format!("forget --repo repo {}", &id[..8])).expect(1).says(&["no snapshot"]);
    lab.ok(&format!("forget --repo repo {id}"));
    lab.ok("snapshots --repo repo");
    lab.ok("check --repo repo");
    lab.ok("prune --repo repo");
}

#[test]
fn a_memory_that_cannot_be_had_stops_nothing_and_is_complained_of() {
    let lab = with_newer_snapshot();
    fs::remove_dir_all(lab.path("state")).unwrap();
    lab.write("state", "a file where a directory should be");
    lab.ok("snapshots --repo repo").says(&["warning:", "not remembered"]);
    fs::remove_file(lab.path("state")).unwrap();
    lab.ok("snapshots --repo repo");
    // Those of the repository and of its location.
    let memories = fs::read_dir(lab.path("state")).unwrap().map(|entry| entry.unwrap().path());
    for memory in memories {
        for name in ["seen-1", "seen-2"] {
            fs::write(memory.join(name), "what no client wrote").unwrap();
        }
    }
    lab.ok("snapshots --repo repo").says(&["warning:", "is started again", "is begun anew"]);
    assert!(lab.ok("snapshots --repo repo").stderr.is_empty());
}
