//! What `onefold dump` writes is what the snapshot has.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

use onefold_testkit::{random, skip};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::lab::{Lab, ONEFOLD, Ran};
use crate::oddities::{make_devices, make_links, make_modes, make_names, make_times, make_xattrs};
use crate::tree_equality::assert_same_tree;

/// Has tar extract what `line` writes, into `out`.
fn extracted(lab: &Lab, line: &str, out: &Path) -> Ran {
    fs::create_dir_all(out).unwrap();
    let mut dump = lab.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let tar = Command::new("tar")
        .args(["-x", "-p", "--same-owner", "--numeric-owner", "--xattrs", "--xattrs-include=*"])
        .arg("-C")
        .arg(out)
        .stdin(dump.stdout.take().unwrap())
        .output()
        .unwrap();
    let ran = Ran::of(line, dump.wait_with_output().unwrap()).expect(0);
    assert!(tar.status.success(), "{}", String::from_utf8_lossy(&tar.stderr));
    ran
}

/// Whether GNU tar is here; says so if not.
fn has_tar() -> bool {
    let said = Command::new("tar").arg("--version").output().map(|output| output.stdout);
    let is_gnu = said.is_ok_and(|said| said.starts_with(b"tar (GNU tar)"));
    if !is_gnu {
        skip("there is no GNU tar");
    }
    is_gnu
}

#[test]
fn a_tree_goes_through_tar_as_through_a_restore() {
    if !has_tar() {
        return;
    }
    let lab = Lab::with_repository();
    let root = lab.path("src");
    fs::create_dir(&root).unwrap();
    make_names(&root);
    fs::write(root.join("empty"), "").unwrap();
    fs::create_dir(root.join("empty-directory")).unwrap();
    for (name, len) in [("block", 512), ("more", 513), ("long", 9 << 20)] {
        fs::write(root.join(name), random(5, len)).unwrap();
    }
    make_links(&root);
    mknodat(CWD, root.join("fifo"), FileType::Fifo, Mode::from(0o640), 0).unwrap();
    make_devices(&root);
    make_xattrs(&root);
    make_modes(&root);
    make_times(&root);
    lab.ok("backup --repo repo src");
    lab.ok("restore --repo repo latest --target restored");
    let ran = extracted(&lab, "dump --repo repo latest /", &lab.path("out"));
    assert!(ran.stderr.is_empty(), "{ran:#?}");
    assert_same_tree(&lab.path("restored"), &lab.path("out"));

    extracted(&lab, "dump --repo repo latest modes/", &lab.path("part"));
    assert_same_tree(&root.join("modes"), &lab.path("part/modes"));
    extracted(&lab, "dump --repo repo latest:modes /", &lab.path("root"));
    assert_same_tree(&root.join("modes"), &lab.path("root"));
}

#[test]
fn holes_come_as_zeros_and_sockets_are_told() {
    if !has_tar() {
        return;
    }
    let lab = Lab::with_repository();
    fs::create_dir(lab.path("src")).unwrap();
    let sparse = File::create(lab.path("src/sparse")).unwrap();
    sparse.set_len(3 << 20).unwrap();
    sparse.write_all_at(&random(6, 100_000), 1 << 20).unwrap();
    let _socket = UnixListener::bind(lab.path("src/socket")).unwrap();
    lab.write("src/z", "behind");
    lab.ok("backup --repo repo src");
    let ran = extracted(&lab, "dump --repo repo latest /", &lab.path("out"));
    ran.says(&["warning: 'socket' is a socket"]);
    let read = |name: &str| fs::read(lab.path(name)).unwrap();
    assert_eq!(fs::read_dir(lab.path("out")).unwrap().count(), 2);
    assert!(read("src/sparse") == read("out/sparse") && read("out/z") == b"behind");
    lab.ok("dump --repo repo latest sparse --target alone");
    assert!(read("src/sparse") == read("alone"));
}

#[test]
fn a_file_comes_as_its_bytes() {
    let lab = Lab::with_repository();
    lab.write("src/sub/large", random(1, 12 << 20));
    lab.write("src/empty", "");
    lab.ok("backup --repo repo src");
    let dumped = |line: &str| {
        let output = lab.command(&format!("dump --repo repo {line}")).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{line}");
        output.stdout
    };
    let bytes = fs::read(lab.path("src/sub/large")).unwrap();
    for line in ["latest sub/large", "latest /sub//large", "latest:sub large"] {
        assert!(dumped(line) == bytes, "{line}");
    }
    assert_eq!(dumped("latest empty"), b"");
    lab.run("dump --repo repo latest nothing").expect(1).says(&["has no", "nothing"]);
    std::os::unix::fs::symlink("empty", lab.path("src/link")).unwrap();
    lab.ok("backup --repo repo src");
    lab.run("dump --repo repo latest link").expect(1).says(&["'link' is a symlink: expected"]);
}

#[test]
fn damage_ends_a_dump_before_a_wrong_byte() {
    let lab = Lab::with_repository();
    lab.write("src/a", random(1, 20 << 20));
    lab.ok("backup --repo repo src");
    for container in containers(&lab.path("repo")) {
        let len = container.metadata().unwrap().len();
        if len < 1 << 20 {
            continue;
        }
        let file = File::options().write(true).open(&container).unwrap();
        file.write_all_at(&[0xa5; 64], len / 2).unwrap();
    }
    lab.run("dump --repo repo latest a").expect(1).says(&["cannot dump 'a' completely", "hint:"]);
    let output = lab.command("dump --repo repo latest a").output().unwrap();
    let bytes = fs::read(lab.path("src/a")).unwrap();
    assert!(output.stdout.len() < bytes.len() && bytes.starts_with(&output.stdout));
}

fn containers(root: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root.join("containers")];
    while let Some(path) = open.pop() {
        match path.is_dir() {
            true => open.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path())),
            false => found.push(path),
        }
    }
    assert!(!found.is_empty());
    found
}

#[test]
fn no_archive_is_written_to_a_terminal() {
    let lab = Lab::with_repository();
    lab.write("src/a", "text\n");
    lab.ok("backup --repo repo src");
    let in_terminal = |path: &str| {
        let line = format!("{ONEFOLD} dump --repo repo latest {path}");
        let mut script = Command::new("script");
        script.args(["-qec", &line, "/dev/null"]).current_dir(lab.path(""));
        script
            .env("ONEFOLD_CACHE_DIR", lab.path("cache"))
            .env("ONEFOLD_STATE_DIR", lab.path("state"));
        script.stdin(Stdio::null()).output()
    };
    match in_terminal("/") {
        Err(error) => skip(&format!("script, which makes a terminal, does not run: {error}")),
        Ok(output) => {
            let ran = Ran::of("dump", output).expect(1);
            assert!(ran.stdout.contains("cannot be written to a terminal"), "{ran:#?}");
            let ran = Ran::of("dump", in_terminal("a").unwrap()).expect(0);
            assert!(ran.stdout.starts_with("text"), "{ran:#?}");
        }
    }
}

#[test]
fn a_reader_that_goes_ends_a_dump_quietly() {
    let lab = Lab::with_repository();
    lab.write("src/large", [random(1, 20 << 20), b"\n".to_vec()].concat());
    lab.ok("backup --repo repo src");
    let line = "dump --repo repo latest large";
    let mut child =
        lab.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = Vec::new();
    BufReader::new(child.stdout.take().unwrap()).read_until(b'\n', &mut first).unwrap();
    let ran = Ran::of(line, child.wait_with_output().unwrap()).expect(0);
    assert!(ran.stderr.is_empty(), "{ran:#?}");
}
