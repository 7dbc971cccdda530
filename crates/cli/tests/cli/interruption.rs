//! A backup that is stopped, politely or not, costs nothing that was there before.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use onefold_testkit::{SplitMix64, random};
use rustix::process::{Pid, Signal, kill_process};

use crate::lab::{Lab, Ran, number};
use crate::outages::{AFTER_SIGNAL, with_default_signals};
use crate::tree_equality::assert_same_tree;

/// Enough that a backup takes a while, most of it new.
const BIG: usize = 200 << 20;

/// A repository with a snapshot of `before`, and `big`, which is not backed up yet.
fn lab() -> Lab {
    let lab = Lab::with_repository();
    lab.write("before/a", random(1, 3 << 20));
    lab.write("before/sub/b", "b");
    lab.ok("backup --repo repo --tag before before");
    lab.write("big/file", random(2, BIG));
    lab
}

fn start(lab: &Lab) -> Child {
    let mut command = lab.command("backup --repo repo big");
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Waits until this many containers lie in the repository.
fn await_containers(lab: &Lab, count: usize) {
    let begun = Instant::now();
    while count_files(&lab.path("repo/containers")) < count {
        assert!(begun.elapsed() < Duration::from_secs(60), "no container came");
        thread::sleep(Duration::from_millis(2));
    }
}

fn count_files(directory: &Path) -> usize {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let count = |path: &Path| if path.is_dir() { count_files(path) } else { 1 };
    entries.map(|entry| count(&entry.unwrap().path())).sum()
}

fn assert_the_earlier_snapshot_restores(lab: &Lab) {
    let listed = lab.ok("snapshots --repo repo --json --tag before").json();
    let id = listed[0]["id"].as_str().unwrap();
    lab.ok(&format!("restore --repo repo {id} --target out"));
    assert_same_tree(&lab.path("before"), &lab.path("out"));
    fs::remove_dir_all(lab.path("out")).unwrap();
}

#[test]
fn the_first_signal_stops_and_the_next_backup_reuses_what_was_stored() {
    for asked_by in [Signal::INT, Signal::TERM] {
        let lab = lab();
        let already = count_files(&lab.path("repo/containers"));
        let child = start(&lab);
        await_containers(&lab, already + 2);
        signal(&child, asked_by);
        let ran = Ran::of("backup", child.wait_with_output().unwrap()).expect(130);
        let ran = ran.says(&["stopping", "interrupted", "reused"]);
        assert!(ran.stdout.is_empty(), "{ran:#?}");
        let snapshots = lab.ok("snapshots --repo repo --json").json();
        assert_eq!(snapshots.as_array().unwrap().len(), 1, "no snapshot was made");
        assert_the_earlier_snapshot_restores(&lab);
        let next = lab.ok("backup --repo repo --json big").summary();
        let new_bytes = number(&next, "new_bytes");
        assert!(new_bytes < BIG as u64 - (16 << 20), "only {new_bytes} bytes should be new");
        lab.ok("check --repo repo");
    }
}

#[test]
fn the_second_signal_stops_at_once() {
    let lab = lab();
    let already = count_files(&lab.path("repo/containers"));
    let mut child = start(&lab);
    await_containers(&lab, already + 1);
    signal(&child, Signal::INT);
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("a second signal stops immediately"), "{line}");
    let asked = Instant::now();
    // It may have stopped already.
    let _ = kill_process(Pid::from_child(&child), Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(asked.elapsed() < AFTER_SIGNAL);
    lab.ok("check --repo repo");
}

#[test]
fn a_kill_at_any_moment_leaves_nothing_wrong() {
    let lab = lab();
    let mut moments = SplitMix64::new(9);
    for _ in 0..5 {
        let mut child = start(&lab);
        thread::sleep(Duration::from_millis(moments.below(400) as u64));
        signal(&child, Signal::KILL);
        child.wait().unwrap();
        lab.ok("check --repo repo");
        assert_the_earlier_snapshot_restores(&lab);
    }
    lab.ok("backup --repo repo big");
    lab.ok("check --repo repo --read-data");
    lab.ok("restore --repo repo latest --target big-restored");
    assert_same_tree(&lab.path("big"), &lab.path("big-restored"));
}

/// The files that running backups lock, or dead ones have left.
fn locks(lab: &Lab) -> Vec<PathBuf> {
    let folders = fs::read_dir(lab.path("state")).unwrap().map(|entry| entry.unwrap().path());
    let files = folders.flat_map(|folder| fs::read_dir(folder).unwrap());
    let paths = files.map(|file| file.unwrap().path());
    let is_lock =
        |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("backup-");
    paths.filter(is_lock).collect()
}

/// Prunes, and gives how many backups were waited for and taken for dead.
fn pruned(lab: &Lab, options: &str) -> (usize, usize) {
    let report = lab.ok(&format!("prune --repo repo --max-unused 0 --json {options}")).json();
    let count = |field: &str| report[field].as_array().unwrap().len();
    assert_eq!(count("waiting") > 0, number(&report, "waiting_containers") > 0, "{report}");
    (count("waiting"), count("fenced"))
}

/// A backup that runs, while what only a forgotten snapshot needed is to be pruned.
fn running_beside_forgotten() -> (Lab, Child) {
    let lab = lab();
    let already = count_files(&lab.path("repo/containers"));
    let child = start(&lab);
    await_containers(&lab, already + 2);
    signal(&child, Signal::STOP);
    lab.ok("forget --repo repo --tag before --unsafe-allow-remove-all");
    (lab, child)
}

#[test]
fn a_backup_that_was_killed_on_this_machine_is_dead_to_the_next_prune() {
    let (lab, mut child) = running_beside_forgotten();
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    assert_eq!(pruned(&lab, "--state-dir elsewhere"), (1, 0), "nobody else knows that it is dead");
    let [lock] = &locks(&lab)[..] else { panic!("{:?}", locks(&lab)) };
    let written = fs::read_to_string(lock).unwrap();
    let (_, snapshots) = written.split_at(written.match_indices('\n').nth(1).unwrap().0);
    fs::write(lock, format!("of another\nmachine{snapshots}")).unwrap();
    assert_eq!(pruned(&lab, ""), (1, 0), "another machine, with which the folder is shared");
    fs::write(lock, &written).unwrap();
    assert_eq!(pruned(&lab, "--dry-run"), (0, 1));
    assert_eq!(locks(&lab).len(), 1, "a dry run changes nothing");
    assert_eq!(pruned(&lab, ""), (0, 1));
    assert_eq!(locks(&lab), [] as [PathBuf; 0]);
    for left in ["intents", "marks"] {
        assert_eq!(count_files(&lab.path(format!("repo/{left}"))), 0, "{left}");
    }
    assert_eq!(number(&lab.ok("stats --repo repo --json").json(), "stored_bytes"), 0);
    lab.ok("backup --repo repo before");
    assert_eq!(locks(&lab), [] as [PathBuf; 0], "a backup that ended leaves none");
}

#[test]
fn a_stopped_backup_is_waited_for_and_ends_well() {
    let (lab, child) = running_beside_forgotten();
    assert_eq!(pruned(&lab, ""), (1, 0));
    assert_eq!(pruned(&lab, ""), (1, 0), "to look for it has not released the lock");
    signal(&child, Signal::CONT);
    Ran::of("backup", child.wait_with_output().unwrap()).expect(0);
    assert_eq!((pruned(&lab, ""), locks(&lab).len()), ((0, 0), 0));
    lab.ok("check --repo repo --read-data");
    lab.ok("restore --repo repo latest --target big-restored");
    assert_same_tree(&lab.path("big"), &lab.path("big-restored"));
}

#[test]
fn a_dump_whose_reader_does_not_read_ends_at_a_signal() {
    let lab = Lab::with_repository();
    lab.write("src/file", random(1, 4 << 20));
    lab.ok("backup --repo repo src");
    let mut command = with_default_signals(&lab.command("dump --repo repo latest /file"));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It has begun, and the pipe is full a little later.
    let mut output = child.stdout.take().unwrap();
    output.read_exact(&mut [0]).unwrap();
    thread::sleep(Duration::from_secs(1));
    assert!(child.try_wait().unwrap().is_none(), "4 MiB fit into no pipe");
    let asked = Instant::now();
    signal(&child, Signal::TERM);
    let ran = Ran::of("dump", child.wait_with_output().unwrap()).expect(130);
    assert!(asked.elapsed() < AFTER_SIGNAL, "{:?}: {ran:#?}", asked.elapsed());
    ran.says(&["stopping; the output is incomplete"]);
}
