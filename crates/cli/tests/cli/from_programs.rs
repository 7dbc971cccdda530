//! Backing up what programs print, and what devices hold.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use onefold_testkit::{random, text};

use crate::lab::{Lab, Ran, number};

/// `onefold` with `input` on standard input.
fn fed(lab: &Lab, line: &str, input: &[u8]) -> Ran {
    let mut command = lab.command(line);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that fails does not read to the end.
    let _ = child.stdin.take().unwrap().write_all(input);
    Ran::of(line, child.wait_with_output().unwrap())
}

#[test]
fn standard_input_is_a_file_of_its_snapshot() {
    let lab = Lab::with_repository();
    let dump = text(1, 2 << 20);
    let line = "backup --repo repo --stdin --stdin-filename dump.sql --json";
    let done = fed(&lab, line, &dump).expect(0).summary();
    assert_eq!((number(&done, "files"), number(&done, "bytes")), (1, 2 << 20));
    lab.ok("restore --repo repo latest --target out");
    assert!(fs::read(lab.path("out/dump.sql")).unwrap() == dump);
    let again = fed(&lab, line, &dump).expect(0).summary();
    assert!(number(&again, "new_bytes") < 1000, "{again}");
    fed(&lab, "backup --repo repo --stdin", b"x").expect(0);
    assert_eq!(lab.ok("ls --repo repo latest").stdout, "stdin\n");
    fed(&lab, "backup --repo repo --stdin --stdin-filename a/b", b"x").expect(1).says(&["'a/b'"]);
}

#[test]
fn a_command_that_fails_makes_no_snapshot() {
    let lab = Lab::with_repository();
    lab.ok("backup --repo repo --stdin-from-command --stdin-filename n -- seq 1 100000");
    lab.ok("restore --repo repo latest --target out");
    let expected: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    assert!(fs::read(lab.path("out/n")).unwrap() == expected.as_bytes());
    let from = "backup --repo repo --stdin-from-command --";
    lab.run(&format!("{from} ls /there/is/no/such/place")).expect(1).says(&["'ls' failed"]);
    lab.run(&format!("{from} there-is-no-such-program")).expect(1).says(&["cannot run"]);
    assert_eq!(lab.ok("snapshots --repo repo --json").json().as_array().unwrap().len(), 1);
}

#[test]
fn an_image_is_backed_up_by_its_name() {
    let lab = Lab::with_repository();
    lab.write("disk.img", random(1, 1 << 20));
    lab.ok("backup --repo repo --device disk.img");
    lab.ok("restore --repo repo latest --target out");
    assert!(fs::read(lab.path("out/disk.img")).unwrap() == random(1, 1 << 20));
    lab.run("backup --repo repo --device /dev/null").expect(1).says(&["block device"]);
    lab.run("backup --repo repo --device repo/config").expect(1).says(&["in the repository"]);
    lab.run("backup --repo repo").expect(1).says(&["PATH"]);
    lab.run("backup --repo repo --stdin disk.img").expect(1).says(&["--stdin"]);
}
