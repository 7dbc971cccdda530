//! The program that froze the format goes on from what this one wrote.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use onefold_backend::LocalFolder;
use onefold_testkit::{random, skip};
use onefold_volume::{Codec, Hash, Pool, Version};
use rustix::process::Signal;

use super::source::{copy, manifest_of};
use crate::lab::{Lab, ONEFOLD, number};
use crate::served::Served;

/// The earlier program, which `cargo xtask test --all` and `cargo xtask compat --old` build.
fn old_program() -> Option<PathBuf> {
    let program = env::var_os("ONEFOLD_OLD_PROGRAM").map(PathBuf::from);
    if program.is_none() {
        skip("ONEFOLD_OLD_PROGRAM names no earlier program; `cargo xtask test --all` builds one");
    }
    program
}

#[test]
fn the_program_that_froze_the_format_goes_on_from_what_this_one_wrote() {
    let Some(program) = old_program() else { return };
    let lab = tempfile::tempdir().unwrap();
    let (folder, root) = (lab.path().join("made"), lab.path().join("source"));
    super::make(&folder, &root);
    super::expect_usable(&folder, &program);
}

#[test]
fn the_program_that_froze_the_format_refuses_a_pool_that_was_upgraded_and_leaves_it_alone() {
    let Some(program) = old_program() else { return };
    let mut lab = Lab::new();
    let compat = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../compat/v1/pool");
    copy(&compat, &lab.path("pool"));
    lab.program = program.clone();
    lab.ok("volume list --pool pool");
    lab.program = ONEFOLD.into();
    lab.ok("volume upgrade --pool pool");
    let before = manifest_of(&lab.path("pool"));
    lab.program = program;
    for line in ["list", "check", "create --size 1MiB other", "delete disk"] {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let refused = lab.run(&format!("volume {word} --pool pool {rest}")).expect(1);
        refused.says(&["format version 2", "up to 1"]);
    }
    assert_eq!(manifest_of(&lab.path("pool")), before);
}

#[test]
fn the_program_that_froze_the_format_restores_sources_under_full_paths() {
    let Some(program) = old_program() else { return };
    let mut lab = Lab::with_repository();
    lab.write("a/data/x", "x");
    lab.write("b/data/y", "y");
    lab.ok("backup --repo repo a/data b/data");
    lab.program = program;
    lab.ok("check --repo repo --read-data");
    lab.ok("restore --repo repo latest --target out");
    let root = lab.path("").canonicalize().unwrap();
    let below = root.strip_prefix("/").unwrap();
    for (name, content) in [("a/data/x", "x"), ("b/data/y", "y")] {
        let path = lab.path("out").join(below).join(name);
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
    }
    lab.write("a/data/z", "z");
    lab.ok("prune --repo repo --max-unused 0");
    lab.program = ONEFOLD.into();
    lab.ok("backup --repo repo a/data b/data");
    lab.ok("check --repo repo --read-data");
}

#[test]
fn the_program_that_froze_the_format_goes_on_beside_bundles() {
    let Some(program) = old_program() else { return };
    let mut lab = Lab::with_repository();
    for number in 0..66 {
        lab.write("src/file", format!("the content of {number}"));
        lab.ok("backup --repo repo src");
    }
    lab.ok("prune --repo repo --max-unused unlimited");
    let bundles = || fs::read_dir(lab.path("repo/bundles")).unwrap().count();
    assert_eq!(bundles(), 3);
    lab.program = program;
    lab.ok("check --repo repo --read-data");
    lab.ok("restore --repo repo latest --target out");
    assert_eq!(fs::read_to_string(lab.path("out/file")).unwrap(), "the content of 65");
    lab.write("src/more", "more");
    lab.ok("backup --repo repo src");
    lab.ok("forget --repo repo --keep-last 65 --prune --max-unused 0");
    assert_eq!(lab.ok("snapshots --repo repo --json").json().as_array().unwrap().len(), 65);
    lab.program = ONEFOLD.into();
    // What was forgotten has copies in bundles yet, and is not shown.
    assert_eq!(lab.ok("snapshots --repo repo --json").json().as_array().unwrap().len(), 65);
    lab.ok("check --repo repo --read-data");
    let pruned = lab.ok("prune --repo repo --json").json();
    // Those of snapshots and of runs; log entries stay.
    assert_eq!(number(&pruned, "deleted_bundles"), 2, "{pruned}");
    lab.ok("check --repo repo --read-data");
}

#[test]
fn the_program_that_froze_the_format_goes_on_from_what_a_prune_merged() {
    let Some(program) = old_program() else { return };
    let mut lab = Lab::with_repository();
    for number in 0..12 {
        lab.write(format!("src/{number}"), format!("the content of {number}"));
        lab.ok("backup --repo repo src");
    }
    let pruned = lab.ok("forget --repo repo --keep-last 9 --prune --json").json();
    assert!(number(&pruned["prune"], "merged_containers") >= 8, "{pruned}");
    lab.program = program;
    lab.ok("check --repo repo --read-data");
    lab.ok("restore --repo repo latest --target out");
    let content = |number: u64| fs::read_to_string(lab.path(format!("out/{number}"))).unwrap();
    for number in 0..12 {
        assert_eq!(content(number), format!("the content of {number}"));
    }
    lab.write("src/more", "more");
    let made = lab.ok("backup --repo repo src --json").json();
    assert!(number(&made, "new_bytes") < 4096, "{made}");
    lab.ok("forget --repo repo --keep-last 1 --prune --max-unused 0");
    lab.program = ONEFOLD.into();
    lab.ok("check --repo repo --read-data");
}

#[test]
fn the_program_that_froze_the_format_goes_on_from_a_pool_of_this_one() {
    let Some(program) = old_program() else { return };
    const LEN: usize = 1 << 20;
    let mut lab = Lab::new();
    // what this program adds to a pool: a reserve, a record of the last acknowledged frame, volumes with
    // other names, or taken back to a snapshot, or brought by a stream
    let place = LocalFolder::create(&lab.path("pool")).unwrap();
    Pool::create_as(&place, Hash::Blake3, Codec::Zstd, Version::Whole).unwrap();
    drop(place);
    for name in ["one", "two"] {
        lab.ok(&format!("volume create --pool pool --size {LEN} {name}"));
    }
    let contents = [1, 2, 3, 4].map(|seed| random(seed, LEN));
    let write = |lab: &Lab, volume: &str, bytes: &[u8], end: Signal| {
        let mut served = Served::start(lab);
        let mut client = served.client(volume);
        client.write(0, bytes).unwrap();
        client.flush().unwrap();
        served.signal(end);
    };
    let expect = |lab: &Lab, volume: &str, bytes: &[u8]| {
        let mut served = Served::start(lab);
        let mut found = vec![0; bytes.len()];
        served.client(volume).read(0, &mut found).unwrap();
        assert!(found == bytes, "{volume}");
        assert_eq!(served.signal(Signal::TERM), 0);
    };
    write(&lab, "one", &contents[0], Signal::TERM);
    write(&lab, "two", &contents[1], Signal::TERM);
    lab.ok("volume snapshot --pool pool one kept");
    write(&lab, "one", &contents[2], Signal::TERM);
    lab.ok("volume rename --pool pool two renamed");
    lab.ok("volume rollback --pool pool one kept");
    let stream = File::create(lab.path("stream")).unwrap();
    let exported = lab.command("volume export --pool pool renamed").stdout(stream).status();
    let stream = File::open(lab.path("stream")).unwrap();
    let imported = lab.command("volume import --pool pool copy").stdin(stream).status();
    assert!(exported.unwrap().success() && imported.unwrap().success());
    write(&lab, "copy", &contents[2], Signal::KILL);
    for name in ["acknowledged", "reserve"] {
        assert!(lab.path("pool").join(name).exists(), "{name}");
    }

    lab.program = program;
    let all = [("one", 0), ("kept", 0), ("renamed", 1), ("copy", 2)];
    assert!(lab.ok("volume check --pool pool").stdout.contains("no problems"));
    assert!(lab.ok("volume scrub --pool pool").stdout.contains(" 0 are not"));
    for (name, content) in all {
        expect(&lab, name, &contents[content]);
    }
    write(&lab, "copy", &contents[3], Signal::KILL);
    lab.ok("volume delete --pool pool renamed");
    lab.ok("volume compact --pool pool");

    lab.program = ONEFOLD.into();
    for (name, content) in [("one", 0), ("kept", 0), ("copy", 3)] {
        expect(&lab, name, &contents[content]);
    }
    assert!(lab.ok("volume check --pool pool").stdout.contains("no problems"));
    assert!(lab.ok("volume scrub --pool pool").stdout.contains(" 0 are not"));
}
