//! Standard output is the answer, standard error the rest, and a pipe hears no progress.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use onefold_testkit::random;

use crate::lab::{Lab, Ran};

#[test]
fn progress_is_silent_in_a_pipe() {
    let lab = Lab::with_repository();
    lab.write("src/a", random(0, 12 << 20));
    for line in [
        "backup --repo repo src",
        "restore --repo repo latest --target out",
        "check --repo repo --read-data",
    ] {
        let ran = lab.ok(line);
        assert!(ran.stderr.is_empty() && !ran.stdout.contains(['\r', '\x1b']), "{ran:#?}");
    }
}

#[test]
fn quiet_leaves_only_what_was_asked_for() {
    let lab = Lab::with_repository();
    lab.write("src/a", "x");
    for line in [
        "init other --no-encryption --quiet",
        "backup --repo repo --quiet src",
        "restore --repo repo latest --target out -q",
        "check --repo repo -q",
    ] {
        let ran = lab.ok(line);
        assert!(ran.stdout.is_empty() && ran.stderr.is_empty(), "{ran:#?}");
    }
    assert!(lab.ok("snapshots --repo repo -q").stdout.contains("src"));
}

#[test]
fn verbose_tells_about_the_repository() {
    let lab = Lab::with_repository();
    lab.ok("snapshots --repo repo --verbose").says(&["repository ", "mincdc", "blake3"]);
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_output_quietly() {
    let lab = Lab::with_repository();
    lab.write("big", random(0, 8 << 20));
    for number in 0..2000 {
        lab.write(format!("src/{number:050}"), "");
    }
    lab.ok("backup --repo repo src");
    for line in [
        "chunk --algorithm gear --min 16 --avg 64 --max 256 big",
        "chunk --algorithm gear --min 16 --avg 64 --max 256 --json big",
        "ls --repo repo latest",
        "ls --repo repo --json latest",
        "find --repo repo *",
        "find --repo repo --json *",
        "dump --repo repo latest /",
    ] {
        let mut command = lab.command(line);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        assert!(!first.is_empty());
        Ran::of(line, child.wait_with_output().unwrap()).expect(0).says_nothing();
    }
}

#[test]
fn an_output_that_is_full_is_an_error() {
    let lab = Lab::with_repository();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = lab.command("algorithms").stdout(full).stderr(Stdio::piped()).output().unwrap();
    Ran::of("algorithms", output).expect(1).says(&["standard output", "No space left"]);
}

#[test]
fn a_backup_outlives_the_reader_of_its_progress() {
    let lab = Lab::with_repository();
    lab.write("src/a", random(0, 1 << 20));
    let mut command = lab.command("backup --repo repo --json src");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    assert_eq!(lab.ok("snapshots --repo repo --json").json().as_array().unwrap().len(), 1);
}
