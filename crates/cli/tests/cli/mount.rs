//! What is mounted reads as what was backed up.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use onefold_testkit::{SplitMix64, random, skip};
use rustix::process::{Pid, Signal, kill_process};

use crate::lab::{Lab, Ran, number};
use crate::tree::make_version;
use crate::tree_equality::assert_same_tree;

/// A mounted repository; unmounted when dropped, so that a failed test leaves nothing behind.
struct Mounted {
    child: Option<Child>,
    root: PathBuf,
}

impl Mounted {
    fn new(lab: &Lab, line: &str) -> Self {
        let root = lab.path("mnt");
        fs::create_dir_all(&root).unwrap();
        let mut command = lab.command(line);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mounted = Self { child: Some(child), root };
        let begun = Instant::now();
        while !mounted.root.join("ids").exists() {
            assert!(begun.elapsed() < Duration::from_secs(30), "it is not mounted");
            thread::sleep(Duration::from_millis(10));
        }
        mounted
    }

    /// Ends it as Ctrl-C does.
    fn end(mut self) -> Ran {
        let child = self.child.take().unwrap();
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        Ran::of("mount", child.wait_with_output().unwrap())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = kill_process(Pid::from_child(&child), Signal::INT);
            let _ = child.wait();
        }
    }
}

/// Whether this user can mount at all; says so if not.
pub(crate) fn can_mount() -> bool {
    if File::options().read(true).write(true).open("/dev/fuse").is_err() {
        skip("/dev/fuse cannot be opened");
        return false;
    }
    // another user has a program that mounts for it
    !rustix::process::geteuid().is_root() || may_mount()
}

/// Whether a file system can be mounted here, as only root may, and not in every container; says why
/// not.
pub(crate) fn may_mount() -> bool {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let tried =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=1M", "none", place]).output();
    match said_by(tried) {
        Ok(()) => {
            crate::served::run("umount", &[place]);
            true
        }
        Err(why) => {
            skip(&format!("no file system can be mounted: {why}"));
            false
        }
    }
}

/// Why a program did not succeed.
pub(crate) fn said_by(tried: io::Result<Output>) -> Result<(), String> {
    let output = tried.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("{}, {said}", output.status)) }
}

/// Names in a directory, sorted.
fn names(directory: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    let mut names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| name(entry).into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn every_snapshot_is_there_as_it_was() {
    if !can_mount() {
        return;
    }
    let lab = Lab::with_repository();
    for version in 0..2 {
        make_version(&lab.path(format!("v{version}")), version);
        lab.ok(&format!("backup --repo repo --host atlas --tag t{version} v{version}"));
    }
    let ids: Vec<String> = lab
        .ok("snapshots --repo repo --json")
        .json()
        .as_array()
        .unwrap()
        .iter()
        .map(|snapshot| snapshot["id"].as_str().unwrap()[..8].to_owned())
        .collect();
    let mounted = Mounted::new(&lab, "mount --repo repo mnt");
    let root = &mounted.root;
    assert_eq!(names(root), ["hosts", "ids", "snapshots", "tags"]);
    assert_eq!(names(&root.join("tags")), ["t0", "t1"]);
    for (version, id) in ids.iter().enumerate() {
        assert_same_tree(&lab.path(format!("v{version}")), &root.join("ids").join(id));
    }
    assert_same_tree(&lab.path("v1"), &root.join("snapshots/latest/."));
    assert_same_tree(&lab.path("v1"), &root.join("hosts/atlas/latest/."));
    assert_same_tree(&lab.path("v0"), &root.join("tags/t0/latest/."));

    let refused = fs::write(root.join("ids/new"), "x").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::ROFS.raw_os_error()));
    assert!(!root.join("ids/none").exists());
    mounted.end().expect(0).says(&["2 snapshots in 'mnt'"]);
    assert_eq!(names(&lab.path("mnt")), [""; 0]);
}

#[test]
fn any_piece_of_a_file_is_the_same() {
    if !can_mount() {
        return;
    }
    const LEN: u64 = 9 << 20;
    let lab = Lab::with_repository();
    lab.write("src/dense", random(1, LEN as usize));
    lab.write("src/empty", "");
    let sparse = File::create(lab.path("src/sparse")).unwrap();
    sparse.set_len(LEN).unwrap();
    for (number, at) in
        [1 << 16, 3 << 20, (3 << 20) + (1 << 18), LEN - 5000].into_iter().enumerate()
    {
        sparse.write_all_at(&random(number as u64, 5000), at).unwrap();
    }
    lab.ok("backup --repo repo src");
    let mounted = Mounted::new(&lab, "mount --repo repo mnt");
    let mut numbers = SplitMix64::new(3);
    for name in ["dense", "sparse", "empty"] {
        let expected = fs::read(lab.path("src").join(name)).unwrap();
        let path = mounted.root.join("snapshots/latest").join(name);
        let file = File::open(&path).unwrap();
        for _ in 0..60 {
            let at = numbers.below(expected.len() + 10);
            let mut found = vec![0; numbers.below(300_000)];
            let end = expected.len().min(at + found.len());
            let mut read = 0;
            loop {
                let more = file.read_at(&mut found[read..], (at + read) as u64).unwrap();
                read += more;
                if more == 0 {
                    break;
                }
            }
            assert!(found[..read] == expected[at.min(end)..end], "{name}, {read} bytes at {at}");
        }
        assert!(fs::read(&path).unwrap() == expected, "{name}");
    }
    mounted.end().expect(0);
}

#[test]
fn a_damaged_file_is_an_error_and_the_rest_is_not() {
    if !can_mount() {
        return;
    }
    let lab = Lab::with_repository();
    lab.write("src/kept", "kept");
    lab.ok("backup --repo repo src");
    lab.write("src/lost", random(5, 1 << 20));
    let before = containers(&lab.path("repo/containers"));
    lab.ok("backup --repo repo src");
    let longest = containers(&lab.path("repo/containers"))
        .into_iter()
        .filter(|path| !before.contains(path))
        .max_by_key(|path| path.metadata().unwrap().len())
        .unwrap();
    let mut bytes = fs::read(&longest).unwrap();
    bytes[1000] ^= 1;
    fs::write(&longest, bytes).unwrap();
    let mounted = Mounted::new(&lab, "mount --repo repo mnt");
    let latest = mounted.root.join("snapshots/latest");
    assert_eq!(fs::read(latest.join("kept")).unwrap(), b"kept");
    let error = fs::read(latest.join("lost")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
    assert_eq!(fs::read(latest.join("kept")).unwrap(), b"kept");
    mounted.end().expect(0).says(&["warning: "]);
}

#[test]
fn a_file_on_fuse_that_changed_within_a_day_is_read_again() {
    if !can_mount() {
        return;
    }
    let lab = Lab::with_repository();
    lab.write("src/file", "by a server's clock it may have changed just now");
    let unchanged = |source: &str| {
        lab.settle();
        let ran = lab.ok(&format!("backup --repo repo --json {source}"));
        number(&ran.summary(), "unchanged_files")
    };
    assert_eq!([unchanged("src"), unchanged("src")], [0, 1]);
    let _mounted = Mounted::new(&lab, "mount --repo repo mnt");
    let latest = fs::canonicalize(lab.path("mnt/snapshots/latest")).unwrap();
    let latest = latest.to_str().unwrap();
    assert_eq!([unchanged(latest), unchanged(latest)], [0, 0]);
}

/// All files below a directory.
fn containers(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(containers(&path)) } else { files.push(path) }
    }
    files
}

#[test]
fn a_place_that_cannot_be_mounted_on_is_refused() {
    let lab = Lab::with_repository();
    lab.write("full/file", "x");
    lab.run("mount --repo repo full").expect(1).says(&["'full'", "not empty"]);
    lab.run("mount --repo repo full/file").expect(1).says(&["'full/file'", "directory"]);
    lab.run("mount --repo repo missing").expect(1).says(&["'missing'"]);
}
