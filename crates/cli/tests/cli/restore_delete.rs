//! A restore that makes the target the same as the snapshot, and one that only shows what it would do.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use onefold_testkit::{random, skip};
use rustix::process::{Pid, Signal, kill_process};

use crate::lab::{Lab, Ran, number};
use crate::mount::may_mount;
use crate::served::run;
use crate::tree_equality::{assert_same_tree, differences};

const DELETE: &str = "restore --repo repo latest --target out --delete";

/// A snapshot, and a target that has more.
fn lab() -> Lab {
    let lab = Lab::with_repository();
    for name in ["a.txt", "sub/b.txt", "sub/deep/c.o", "empty/x"] {
        lab.write(format!("src/{name}"), name);
    }
    fs::remove_file(lab.path("src/empty/x")).unwrap();
    lab.ok("backup --repo repo src");
    lab.ok("restore --repo repo latest --target out");
    for name in ["more", "sub/more.o", "sub/deep/more/x.o", "sub/deep/more/y", "own/x.o", "empty/y"]
    {
        lab.write(format!("out/{name}"), name);
    }
    lab
}

fn there(lab: &Lab, name: &str) -> bool {
    lab.path("out").join(name).symlink_metadata().is_ok()
}

#[test]
fn what_the_snapshot_does_not_have_goes() {
    let lab = lab();
    symlink("sub", lab.path("out/link")).unwrap();
    lab.write("out/a.txt", "changed");
    let summary = lab.ok(&format!("{DELETE} --json")).summary();
    // Seven files and links, and the directories `own` and `sub/deep/more`.
    assert_eq!(number(&summary, "deleted"), 9, "{summary}");
    assert_same_tree(&lab.path("src"), &lab.path("out"));
    assert_eq!(number(&lab.ok(&format!("{DELETE} --json")).summary(), "deleted"), 0);
}

#[test]
fn without_delete_it_stays() {
    let lab = lab();
    lab.ok("restore --repo repo latest --target out");
    assert!(there(&lab, "more") && there(&lab, "sub/deep/more/y") && there(&lab, "own/x.o"));
}

#[test]
fn patterns_protect_what_they_do_not_select() {
    let lab = self::lab();
    lab.ok(&format!("{DELETE} --include *.o"));
    for (name, is_left) in [
        ("more", true),
        ("sub/more.o", false),
        ("sub/deep/more/x.o", false),
        ("sub/deep/more/y", true),
        ("own", true),
        ("own/x.o", false),
        ("empty/y", true),
    ] {
        assert_eq!(there(&lab, name), is_left, "{name}");
    }
    let lab = self::lab();
    lab.ok(&format!("{DELETE} --exclude *.o --exclude /empty"));
    for (name, is_left) in [
        ("more", false),
        ("sub/more.o", true),
        ("sub/deep/more/x.o", true),
        ("sub/deep/more/y", false),
        ("own/x.o", true),
        ("empty/y", true),
    ] {
        assert_eq!(there(&lab, name), is_left, "{name}");
    }
}

#[test]
fn excludes_leave_out_whatever_is_included() {
    let lab = lab();
    lab.ok("restore --repo repo latest --target new --exclude *.o --exclude /empty");
    let names = |name: &str| lab.path(format!("new/{name}")).exists();
    assert!(names("a.txt") && names("sub/b.txt") && names("sub/deep"));
    assert!(!names("sub/deep/c.o") && !names("empty"));
    lab.ok("restore --repo repo latest --target other --include sub --exclude deep/");
    assert!(lab.path("other/sub/b.txt").exists() && !lab.path("other/sub/deep").exists());
    assert!(!lab.path("other/a.txt").exists());
    lab.run("restore --repo repo latest --target x --exclude {a").expect(1).says(&["'{a'"]);
}

#[test]
fn nothing_is_deleted_through_links_or_outside() {
    let lab = lab();
    lab.write("outside/precious", "x");
    lab.write("outside/sub/deep/precious", "x");
    symlink(lab.path("outside"), lab.path("out/own/link")).unwrap();
    symlink(lab.path("outside"), lab.path("out/toplink")).unwrap();
    // A directory of the snapshot is a link now: it is told, and nothing is deleted anywhere.
    fs::remove_dir_all(lab.path("out/sub")).unwrap();
    symlink(lab.path("outside/sub"), lab.path("out/sub")).unwrap();
    let ran = lab.run(DELETE).expect(1).says(&["symbolic link", "nothing was deleted"]);
    assert!(there(&lab, "more") && there(&lab, "own/link"), "{ran:#?}");
    fs::remove_file(lab.path("out/sub")).unwrap();
    lab.ok(DELETE);
    assert_same_tree(&lab.path("src"), &lab.path("out"));
    assert!(
        lab.path("outside/precious").exists() && lab.path("outside/sub/deep/precious").exists()
    );
    // What lies beside a restored file is not below it.
    lab.write("out/sub/beside", "x");
    lab.ok("restore --repo repo latest:sub/b.txt --target out/sub --delete");
    assert!(there(&lab, "sub/beside"));
}

#[test]
fn the_repository_and_the_root_are_not_deleted_from() {
    let lab = lab();
    fs::rename(lab.path("repo"), lab.path("out/own/repo")).unwrap();
    let line = DELETE.replace("--repo repo", "--repo out/own/repo");
    lab.ok(&line);
    assert!(!there(&lab, "own/x.o") && !there(&lab, "more"));
    lab.ok("check --repo out/own/repo --read-data");
    let inside = line.replace("--target out", "--target out/own/repo");
    lab.run(&inside).expect(1).says(&["in the repository itself"]);
    let root = line.replace("--target out", "--target /");
    lab.run(&format!("{root} --dry-run")).expect(1).says(&["--unsafe-allow-delete-in-root"]);
    lab.ok("check --repo out/own/repo --read-data");
}

#[test]
fn what_is_mounted_in_the_target_is_not_emptied() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root can mount a file system");
    }
    if !may_mount() {
        return;
    }
    let lab = lab();
    fs::create_dir(lab.path("out/own/mounted")).unwrap();
    let place = lab.path("out/own/mounted");
    run("mount", &["-t", "tmpfs", "none", place.to_str().unwrap()]);
    fs::write(place.join("precious"), "x").unwrap();
    let ran = lab.run(DELETE);
    let is_left = place.join("precious").exists();
    run("umount", &[place.to_str().unwrap()]);
    ran.expect(1).says(&["a file system is mounted there"]);
    assert!(is_left && !there(&lab, "own/x.o") && !there(&lab, "more"));
}

#[test]
fn a_dry_run_tells_and_changes_nothing() {
    let lab = lab();
    lab.write("out/a.txt", "changed");
    fs::remove_file(lab.path("out/sub/b.txt")).unwrap();
    fs::remove_dir_all(lab.path("out/empty")).unwrap();
    let copy = |from: &Path, to: &Path| {
        let status = std::process::Command::new("cp").arg("-a").args([from, to]).status();
        assert!(status.unwrap().success());
    };
    copy(&lab.path("out"), &lab.path("before"));
    let line = format!("{DELETE} --overwrite if-changed --dry-run");
    let ran = lab.ok(&format!("{line} -v"));
    assert_eq!(differences(&lab.path("before"), &lab.path("out")), [""; 0]);
    for text in [
        "replace out/a.txt\n",
        "create out/sub/b.txt\n",
        "create out/empty\n",
        "keep out/sub/deep/c.o\n",
        "delete out/sub/deep/more\n",
        "delete out/sub/deep/more/y\n",
    ] {
        assert!(ran.stderr.contains(text), "{text}: {ran:#?}");
    }
    assert!(ran.stdout.contains("would restore 2 files"), "{ran:#?}");
    assert!(!lab.ok(&line).stderr.contains("a.txt"));
    let would = lab.ok(&format!("{line} --json")).summary();
    let does = lab.ok(&format!("{DELETE} --overwrite if-changed --json")).summary();
    for field in ["files", "directories", "others", "bytes", "replaced", "kept", "deleted"] {
        assert_eq!(number(&would, field), number(&does, field), "{field}: {would} {does}");
    }
    assert_same_tree(&lab.path("src"), &lab.path("out"));
    // Of a target that does not exist, nor the directory above it.
    let would = lab.ok("restore --repo repo latest --target no/where --dry-run --json").summary();
    assert_eq!([number(&would, "files"), number(&would, "directories")], [3, 4]);
    assert!(!lab.path("no").exists());
    let acts = lab.ok(&format!("{DELETE} --dry-run --json -v")).json_lines();
    assert!(acts.iter().any(|act| act["type"] == "act" && act["act"] == "replace"), "{acts:?}");
}

#[test]
fn programs_hear_totals_and_the_current_file() {
    let lab = Lab::with_repository();
    for number in 0..60 {
        lab.write(format!("src/{number}"), random(number, 3 << 20));
    }
    lab.ok("backup --repo repo src");
    for patterns in ["", "--exclude 0"] {
        let line = "restore --repo repo latest --target out --threads 1 --verify --json";
        let line = format!("{line} {patterns}");
        let mut child = lab.command(&line).stdout(Stdio::piped()).spawn().unwrap();
        while fs::read_dir(lab.path("out")).map_or(0, Iterator::count) < 2 {
            thread::sleep(Duration::from_millis(1));
        }
        // A second goes by while it stands still, so that it has to tell how far it is.
        kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
        let is_running = child.try_wait().unwrap().is_none();
        thread::sleep(Duration::from_millis(1100));
        kill_process(Pid::from_child(&child), Signal::CONT).unwrap();
        let lines = Ran::of(&line, child.wait_with_output().unwrap()).expect(0).json_lines();
        fs::remove_dir_all(lab.path("out")).unwrap();
        let progress = lines.iter().find(|line| line["type"] == "progress");
        let (Some(progress), true) = (progress, is_running) else {
            return skip("the restore ended before it could be stopped");
        };
        let summary = lines.last().unwrap();
        for (total, field) in [("total_files", "files"), ("total_bytes", "bytes")] {
            assert_eq!(number(progress, total), number(summary, field), "{patterns} {total}");
        }
        assert!(number(progress, "files") < number(summary, "files"), "{progress}");
        assert!(progress["current"].as_str().unwrap().starts_with("out/"), "{progress}");
    }
}

#[test]
fn what_is_mounted_where_the_snapshot_has_a_directory_stays() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root can mount a file system");
    }
    if !may_mount() {
        return;
    }
    // A backup of one file system has mount points as empty directories.
    let lab = lab();
    let place = lab.path("out/empty");
    run("mount", &["-t", "tmpfs", "none", place.to_str().unwrap()]);
    fs::write(place.join("mounted"), "mounted").unwrap();
    let ran = lab.run(DELETE);
    let is_there = there(&lab, "empty/mounted");
    run("umount", &[place.to_str().unwrap()]);
    ran.expect(0);
    assert!(is_there && !there(&lab, "more"));
}

#[test]
fn directories_of_which_the_snapshot_has_a_part_lose_nothing() {
    let lab = lab();
    lab.write("other/sub/x", "x");
    // Beside each other in a root that stands for no directory.
    lab.ok("backup --repo repo src/a.txt src/sub");
    lab.ok(DELETE);
    assert!(there(&lab, "more") && there(&lab, "own/x.o") && !there(&lab, "sub/more.o"));
    // Under full paths.
    lab.ok("backup --repo repo src/sub other/sub");
    let base = lab.path("").canonicalize().unwrap().to_str().unwrap().to_owned();
    let named = |path: &str| format!("latest:{}/{path}", base.trim_matches('/'));
    let restore = |path: &str| {
        lab.write("out/sub/more.o", "more");
        let line = format!("restore --repo repo {} --target out --delete", named(path));
        lab.ok(&line);
    };
    restore("src");
    assert!(there(&lab, "more") && !there(&lab, "sub/more.o"));
    restore("src/sub");
    assert!(!there(&lab, "more"));
}

#[test]
fn nothing_is_deleted_if_the_repository_lies_in_the_target() {
    let lab = lab();
    lab.ok("backup --repo repo src");
    fs::rename(lab.path("repo"), lab.path("out/sub/repo")).unwrap();
    fs::create_dir_all(lab.path("src/sub/repo/containers")).unwrap();
    let at = "--repo out/sub/repo";
    lab.ok(&format!("backup {at} src"));
    let count = || fs::read_dir(lab.path("out/sub/repo/containers")).unwrap().count();
    let before = count();
    let ran = lab.run(&format!("restore {at} latest --target out --delete"));
    assert_eq!(count(), before);
    ran.expect(1).says(&["it is the repository"]);
    assert!(there(&lab, "more"));
}
