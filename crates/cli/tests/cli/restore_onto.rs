//! Restoring where something is already.

use std::fs;
use std::os::unix::fs::symlink;

use onefold_testkit::random;

use crate::lab::{Lab, number};
use crate::tree_equality::assert_same_tree;

/// A snapshot of two files, and a target in which one is the same and one is not.
fn lab() -> Lab {
    let lab = Lab::with_repository();
    lab.write("src/same", "same");
    lab.write("src/sub/other", "as backed up");
    lab.ok("backup --repo repo src");
    lab.ok("restore --repo repo latest --target out");
    lab.write("out/sub/other", "as changed");
    lab.write("out/own", "mine");
    lab
}

fn kept(lab: &Lab, overwrite: &str) -> u64 {
    let line = format!("restore --repo repo latest --target out --json --overwrite {overwrite}");
    number(&lab.ok(&line).summary(), "kept")
}

fn read(lab: &Lab, name: &str) -> String {
    fs::read_to_string(lab.path(name)).unwrap()
}

#[test]
fn always_replaces_and_leaves_alone_what_is_not_in_the_snapshot() {
    let lab = lab();
    assert_eq!(kept(&lab, "always"), 0);
    assert_eq!(read(&lab, "out/own"), "mine");
    fs::remove_file(lab.path("out/own")).unwrap();
    lab.ok("restore --repo repo latest --target out");
    assert_same_tree(&lab.path("src"), &lab.path("out"));
}

#[test]
fn if_changed_keeps_what_is_the_same() {
    let lab = lab();
    assert_eq!(kept(&lab, "if-changed"), 1);
    assert_eq!(read(&lab, "out/sub/other"), "as backed up");
}

#[test]
fn never_keeps_all_that_is_there() {
    let lab = lab();
    fs::remove_file(lab.path("out/same")).unwrap();
    assert_eq!(kept(&lab, "never"), 1);
    assert_eq!(read(&lab, "out/sub/other"), "as changed");
    assert_eq!(read(&lab, "out/same"), "same");
}

#[test]
fn a_link_in_the_target_leads_nothing_outside() {
    for overwrite in ["always", "if-changed", "never"] {
        let lab = lab();
        fs::remove_dir_all(lab.path("out/sub")).unwrap();
        fs::create_dir(lab.path("outside")).unwrap();
        symlink(lab.path("outside"), lab.path("out/sub")).unwrap();
        let line = format!("restore --repo repo latest --target out --overwrite {overwrite}");
        lab.run(&line).expect(1).says(&["out/sub"]);
        assert_eq!(fs::read_dir(lab.path("outside")).unwrap().count(), 0, "{overwrite}");
        assert_eq!(read(&lab, "out/same"), "same", "the rest is restored");
    }
}

#[test]
fn a_link_in_place_of_a_file_is_replaced_and_not_written_through() {
    let lab = lab();
    lab.write("outside", "untouched");
    fs::remove_file(lab.path("out/same")).unwrap();
    symlink(lab.path("outside"), lab.path("out/same")).unwrap();
    lab.ok("restore --repo repo latest --target out");
    assert_eq!(read(&lab, "outside"), "untouched");
    assert!(lab.path("out/same").symlink_metadata().unwrap().is_file());
    assert_eq!(read(&lab, "out/same"), "same");
}

#[test]
fn a_target_that_is_a_file_is_refused() {
    let lab = lab();
    lab.write("file", "x");
    lab.run("restore --repo repo latest --target file").expect(1).says(&["'file'"]);
    assert_eq!(read(&lab, "file"), "x");
}

#[test]
fn seeds_give_what_they_have_and_the_summary_says_how_much() {
    let lab = lab();
    fs::create_dir(lab.path("old")).unwrap();
    fs::rename(lab.path("out/same"), lab.path("old/called otherwise")).unwrap();
    let line = "restore --repo repo latest --target fresh --seed old";
    let summary = lab.ok(&format!("{line} --json")).summary();
    assert_eq!((number(&summary, "seeded"), number(&summary, "bytes")), (4, 16));
    assert_eq!(number(&summary, "fetched"), 12);
    assert_same_tree(&lab.path("src"), &lab.path("fresh"));
    assert!(lab.ok(line).stdout.contains("4 B from local files"));
    lab.run("restore --repo repo latest --target out --seed missing").expect(1).says(&[
        "cannot open seed",
        "missing",
        "No such file",
    ]);
}

#[test]
fn a_device_keeps_what_it_has_and_takes_the_rest_from_seeds_and_the_repository() {
    let lab = lab();
    let old = random(1, 3_000_000);
    lab.write("disk.img", &old);
    lab.ok("backup --repo repo --device disk.img");
    let new = [&old[..1_500_000], &random(2, 400_000), &old[1_500_000..]].concat();
    lab.write("disk.img", &new);
    lab.ok("backup --repo repo --device disk.img");
    lab.write("other.img", &old);
    lab.write("seed.img", &new);
    let summary = lab.ok("restore --repo repo latest --device other.img --json").summary();
    assert!(fs::read(lab.path("other.img")).unwrap() == new);
    let of = |name| number(&summary, name);
    assert_eq!(of("kept") + of("moved") + of("seeded") + of("fetched"), new.len() as u64);
    assert_eq!(of("written"), new.len() as u64 - of("kept"));
    assert!(of("kept") > 1_000_000 && of("moved") > 800_000, "{summary}");
    assert!(of("fetched") >= 400_000, "{summary}");
    let again = lab.ok("restore --repo repo latest --device other.img --verify");
    assert!(again.stdout.contains("already in place; 0 B written"), "{}", again.stdout);
    lab.ok("restore --repo repo latest --device new.img --seed seed.img");
    assert!(fs::read(lab.path("new.img")).unwrap() == new);
    lab.run("restore --repo repo latest --device out").expect(1).says(&["'out'", "a block device"]);
    lab.ok("backup --repo repo src");
    let refused = lab.run("restore --repo repo latest --device new.img").expect(1);
    refused.says(&["cannot be restored onto a device", "SNAPSHOT:PATH"]);
    assert!(fs::read(lab.path("new.img")).unwrap() == new);
    lab.run("restore --repo repo latest").expect(1).says(&["--target"]);
    lab.run("restore --repo repo latest --device x --delete").expect(1).says(&["--delete"]);
}
