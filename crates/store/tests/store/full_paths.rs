//! Sources that stand in a snapshot under their full paths, that are missing, or that patterns name.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::process::Command;

use onefold_store::backup::{Marker, Options};
use onefold_store::tree::{Entry, Node};
use onefold_store::{Progress, Repository, Snapshot, StoreError};
use onefold_testkit::skip;
use tempfile::{TempDir, tempdir};

use crate::common::{
    Issues, expect_clean, in_memory, open, options, restored, small_chunks, try_back_up, write,
};

/// A temporary folder by its canonical path.
struct Folder(PathBuf, #[expect(dead_code, reason = "removed when dropped")] TempDir);

impl Folder {
    fn new() -> Self {
        let folder = tempdir().unwrap();
        Self(folder.path().canonicalize().unwrap(), folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes files that hold their own names.
    fn with(files: &[&str]) -> Self {
        let folder = Self::new();
        files.iter().for_each(|name| write(folder.path(name), name));
        folder
    }
}

fn paths(repository: &Repository, snapshot: &Snapshot) -> Vec<String> {
    let mut paths = Vec::new();
    let mut visit = |path: &[u8], _: &Entry| {
        paths.push(String::from_utf8(path.to_vec()).unwrap());
        Ok(())
    };
    repository.walk(&snapshot.root, &mut visit).unwrap();
    paths
}

/// `path` as a snapshot has it, and with `names` below it.
fn below(path: &Path, names: &[&str]) -> Vec<String> {
    let root = path.to_str().unwrap().trim_start_matches('/').to_owned();
    let mut all: Vec<String> =
        root.match_indices('/').map(|(at, _)| root[..at].to_owned()).collect();
    all.push(root.clone());
    all.extend(names.iter().map(|name| format!("{root}/{name}")));
    all
}

#[test]
fn sources_of_the_same_name_stand_under_their_full_paths() {
    let folder = Folder::with(&["a/data/x", "b/data/y", "b/not-named"]);
    fs::set_permissions(folder.path("a"), Permissions::from_mode(0o750)).unwrap();
    let owner = lchown(folder.path("a"), Some(1234), Some(4321)).is_ok();
    let sources = [folder.path("b/data"), folder.path("a/data")];
    let (objects, repository) = in_memory(small_chunks());
    let issues = Issues::default();
    let back_up = |repository: &Repository| {
        try_back_up(repository, &[&sources[0], &sources[1]], &options(), &issues.progress())
            .unwrap()
    };
    let (id, snapshot) = back_up(&repository);
    let expected = below(&folder.0, &["a", "a/data", "a/data/x", "b", "b/data", "b/data/y"]);
    assert_eq!(paths(&repository, &snapshot), expected);
    let named = |path: &Path| path.to_str().unwrap().as_bytes().to_vec();
    assert_eq!(snapshot.paths, [named(&sources[1]), named(&sources[0])]);
    assert_eq!(snapshot.summary.directories as usize, expected.len() - 2 + 1);

    let root = folder.0.to_str().unwrap().trim_start_matches('/');
    let entry = |path: &str| {
        repository.entry_at(id, &snapshot, format!("{root}/{path}").as_bytes()).unwrap().meta
    };
    assert_eq!(entry("a").mode, 0o750);
    let is = folder.path("a").metadata().unwrap();
    assert_eq!((entry("a").uid, entry("a").gid), (is.uid(), is.gid()));
    assert!(!owner || is.uid() == 1234);
    assert_eq!(snapshot.root.meta.uid, 0);

    let picture = restored(&open(&objects), &snapshot).unwrap();
    assert_eq!(picture.bytes(&format!("{root}/b/data/y")).unwrap(), b"b/data/y");
    let (_, again) = back_up(&open(&objects));
    assert_eq!((again.parent, again.summary.unchanged_files), (Some(id), 2));
    assert_eq!(issues.all(), [] as [&str; 0]);
    expect_clean(&open(&objects)).unwrap();
}

#[test]
fn one_source_stands_under_its_full_path_if_that_is_wanted() {
    let folder = Folder::with(&["a/data/x", "b/y"]);
    let (_, repository) = in_memory(small_chunks());
    let options = Options { full_paths: true, ..options() };
    let back_up = |sources: &[&Path]| {
        try_back_up(&repository, sources, &options, &Progress::default()).unwrap().1
    };
    let one = back_up(&[&folder.path("a/data")]);
    assert_eq!(paths(&repository, &one), below(&folder.path("a/data"), &["x"]));
    let nested = back_up(&[&folder.path("a/data"), &folder.path("a"), &folder.path("b")]);
    let expected = below(&folder.0, &["a", "a/data", "a/data/x", "b", "b/y"]);
    assert_eq!(paths(&repository, &nested), expected, "what lies in another source is there once");
    assert_eq!(nested.paths.len(), 3);
}

#[test]
fn a_device_is_not_backed_up_in_another_source() {
    let folder = Folder::with(&["disk/disk"]);
    let (_, repository) = in_memory(small_chunks());
    let options = Options { devices: vec![folder.path("disk/disk")], ..options() };
    let back_up = |source| try_back_up(&repository, &[source], &options, &Progress::default());
    let error = back_up(&folder.path("disk")).map(drop).unwrap_err();
    assert!(matches!(error, StoreError::DeviceInSource { .. }), "{error}");
}

#[test]
fn a_missing_source_is_reported_and_changes_nothing_of_the_others() {
    let folder = Folder::with(&["a/data/x", "b/data/y"]);
    let (a, b) = (folder.path("a/data"), folder.path("b/data"));
    let (objects, repository) = in_memory(small_chunks());
    let issues = Issues::default();
    let back_up = |sources: &[&Path]| {
        try_back_up(&open(&objects), sources, &options(), &issues.progress()).unwrap()
    };
    let (first, whole) = back_up(&[&a, &b]);
    assert_eq!(whole.summary.files, 2);
    fs::rename(folder.path("b"), folder.path("away")).unwrap();
    let (id, snapshot) = back_up(&[&a, &b]);
    assert!(issues.say("b/data") && issues.say("not in the snapshot"), "{:?}", issues.all());
    assert_eq!(snapshot.summary.unreadable, 1);
    assert_eq!(paths(&repository, &snapshot), below(&folder.0, &["a", "a/data", "a/data/x"]));
    assert_eq!((snapshot.parent, snapshot.summary.unchanged_files), (Some(first), 1));
    assert_eq!(snapshot.paths, whole.paths, "it stays in the group of its predecessors");
    fs::rename(folder.path("away"), folder.path("b")).unwrap();
    assert_eq!(back_up(&[&a, &b]).1.parent, Some(id));

    let gone = folder.path("gone");
    let error = try_back_up(&repository, &[&gone], &options(), &issues.progress()).map(drop);
    assert!(error.unwrap_err().to_string().contains("gone"));
}

#[test]
fn patterns_may_begin_with_a_source() {
    let folder = Folder::with(&[
        "a/data/x",
        "a/data/tmp/x",
        "a/data/keep/tmp",
        "b/data/tmp/y",
        "b/data/sub/tmp/z",
    ]);
    let (a, b) = (folder.path("a/data"), folder.path("b/data"));
    let (_, repository) = in_memory(small_chunks());
    let excluded = |sources: &[&Path], patterns: &[String]| {
        let options = Options { excludes: patterns.to_vec(), ..options() };
        let progress = Progress::default();
        let (_, snapshot) = try_back_up(&repository, sources, &options, &progress).unwrap();
        let unused = progress.unused_excludes.get().unwrap().clone();
        let root = format!("{}/", folder.0.to_str().unwrap().trim_start_matches('/'));
        let mut files = Vec::new();
        let mut visit = |path: &[u8], entry: &Entry| {
            if matches!(entry.node, Node::File { .. }) {
                files.push(String::from_utf8(path.to_vec()).unwrap().replace(&root, ""));
            }
            Ok(())
        };
        repository.walk(&snapshot.root, &mut visit).unwrap();
        (files, unused)
    };
    let absolute = format!("{}/tmp", a.display());
    let (files, unused) = excluded(&[&a, &b], &[absolute.clone(), "never".into()]);
    let expected = ["a/data/keep/tmp", "a/data/x", "b/data/sub/tmp/z", "b/data/tmp/y"];
    assert_eq!(files, expected);
    assert_eq!(unused, ["never"]);
    // With one source, whose top is the snapshot's.
    assert_eq!(excluded(&[&a], &[absolute]).0, ["keep/tmp", "x"]);
    let (files, unused) = excluded(&[&b], &["data/tmp".into(), "# a remark".into(), "".into()]);
    assert_eq!(files, ["sub/tmp/z"]);
    assert_eq!(unused, [] as [&str; 0], "what is no pattern is not told");
}

#[test]
fn a_source_in_a_directory_that_is_left_out_is_backed_up() {
    let folder = Folder::with(&[
        "h/ann/.cache/keep/x",
        "h/ann/.cache/drop/x",
        "h/ann/.cache/file",
        "h/ann/y",
        "h/marked/CACHEDIR.TAG",
        "h/marked/deep/keep/x",
        "h/marked/deep/x",
    ]);
    let marker = Marker { name: "CACHEDIR.TAG".into(), head: Vec::new() };
    let options =
        Options { excludes: vec![".cache".into()], exclude_if_present: vec![marker], ..options() };
    let (_, repository) = in_memory(small_chunks());
    let sources = ["h", "h/ann/.cache/keep", "h/marked/deep/keep"].map(|name| folder.path(name));
    let sources: Vec<&Path> = sources.iter().map(PathBuf::as_path).collect();
    let (_, snapshot) = try_back_up(&repository, &sources, &options, &Progress::default()).unwrap();
    let expected = [
        "h",
        "h/ann",
        "h/ann/.cache",
        "h/ann/.cache/keep",
        "h/ann/.cache/keep/x",
        "h/ann/y",
        "h/marked",
        "h/marked/CACHEDIR.TAG",
        "h/marked/deep",
        "h/marked/deep/keep",
        "h/marked/deep/keep/x",
    ];
    assert_eq!(paths(&repository, &snapshot), below(&folder.0, &expected));
}

/// A tmpfs at a folder, unmounted when dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn at(path: PathBuf) -> Option<Self> {
        fs::create_dir_all(&path).unwrap();
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&path).output().ok()?;
        mount.status.success().then(|| Self(path))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_source_on_another_file_system_in_a_source_is_backed_up_too() {
    let folder = Folder::with(&["top/x"]);
    let Some(mounted) = Mounted::at(folder.path("top/mnt")) else {
        return skip("no file system can be mounted here");
    };
    write(mounted.0.join("aside"), "aside");
    write(mounted.0.join("deep/other"), "other");
    write(mounted.0.join("deep/data/y"), "y");
    let (_, repository) = in_memory(small_chunks());
    let options = Options { one_file_system: true, full_paths: true, ..options() };
    let back_up = |sources: &[&Path]| {
        let progress = Progress::default();
        let (_, snapshot) = try_back_up(&repository, sources, &options, &progress).unwrap();
        paths(&repository, &snapshot)
    };
    let top = folder.path("top");
    assert_eq!(back_up(&[&top]), below(&top, &["mnt", "x"]));
    let nested = back_up(&[&top, &mounted.0.join("deep/data")]);
    let expected = ["mnt", "mnt/deep", "mnt/deep/data", "mnt/deep/data/y", "x"];
    assert_eq!(nested, below(&top, &expected));
}
