//! What a restore brings back, what it leaves alone, and that it writes nowhere else.

use std::fs::{self, File, FileTimes, Permissions};
use std::num::NonZero;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use onefold_backend::Objects;
use onefold_container::Content;
use onefold_fingerprint::Fingerprint;
use onefold_store::restore::{Options, Overwrite, Report, restore};
use onefold_store::{Cancel, Progress, Recipe, Repository, Snapshot, StoreError};
use onefold_testkit::{random, skip, text};
use rustix::fs::{CWD, FileType, FlockOperation, Mode, XattrFlags};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tempfile::TempDir;

use crate::common::far::{Far, stored};
use crate::common::hooked::Hooked;
use crate::common::picture::Picture;
use crate::common::sealed::{self, Forger};
use crate::common::{
    back_up, chain, checked, config, in_memory, names, open, restore_over, restored, small_chunks,
    try_restore, write,
};

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// A repository with one snapshot of `source`.
fn backed_up(source: &Path) -> (Arc<dyn Objects>, Repository, Snapshot) {
    let (objects, repository) = in_memory(small_chunks());
    let (_, snapshot) = back_up(&repository, source);
    (objects, repository, snapshot)
}

fn overwriting(overwrite: Overwrite) -> Options {
    Options { overwrite, ..Options::default() }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn everything_comes_back_as_it_was() {
    let source = folder();
    let at = |name: &str| source.path().join(name);
    write(at("file"), text(1, 100_000));
    write(at("deep/er/and/deeper/file"), "x");
    write(at("empty"), "");
    fs::create_dir(at("empty-directory")).unwrap();
    for (name, mode) in [("set-id", 0o6755), ("secret", 0o000), ("sticky", 0o1644)] {
        write(at(name), name);
        set_mode(&at(name), mode);
    }
    set_mode(&at("deep/er"), 0o1777);
    set_mode(&at("empty-directory"), 0o500);
    symlink("nowhere/at/all", at("dangling")).unwrap();
    symlink("/etc", at("absolute")).unwrap();
    fs::hard_link(at("file"), at("deep/link")).unwrap();
    fs::hard_link(at("file"), at("another")).unwrap();
    rustix::fs::mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    fs::hard_link(at("fifo"), at("deep/fifo")).unwrap();
    let _socket = UnixListener::bind(at("socket")).unwrap();
    let odd = UNIX_EPOCH - Duration::new(1_000_000, 123_456_789);
    File::open(at("empty")).unwrap().set_times(FileTimes::new().set_modified(odd)).unwrap();

    let (objects, _, snapshot) = backed_up(source.path());
    let options = Options { verify: true, ..Options::default() };
    let restored = try_restore(&open(&objects), &snapshot, &options).unwrap();
    let found = Picture::of(restored.folder.path());
    found.expect(&Picture::of(source.path())).unwrap();
    assert!(found.are_linked("file", "deep/link") && found.are_linked("file", "another"));
    assert_eq!(restored.issues, [] as [&str; 0]);
    let Report { files, directories, others, verified, failed, .. } = restored.report;
    // Two of the eight names of files are links to a third, and one is a link to the pipe.
    assert_eq!((files, verified, failed), (9, 6, 0));
    assert_eq!((directories, others), (6, 4));
    let inode = |name: &str| restored.folder.path().join(name).metadata().unwrap().ino();
    assert_eq!(inode("fifo"), inode("deep/fifo"));
    assert_eq!(restored.report.bytes, 100_000 + 1 + 6 + 6 + 6);

    // Once more over what is there: nothing is left behind, links stay links.
    let again = Options::default();
    let (report, _) = restore_over(&open(&objects), &snapshot, restored.folder.path(), &again);
    assert_eq!((report.files, report.others, report.failed), (9, 4, 0));
    Picture::of(restored.folder.path()).expect(&found).unwrap();
    assert_eq!(inode("fifo"), inode("deep/fifo"));
}

#[test]
fn extended_attributes_come_back() {
    let source = folder();
    let file = source.path().join("file");
    write(&file, "x");
    let value = random(1, 3000);
    for path in [&file, source.path()] {
        let set = rustix::fs::lsetxattr(path, c"user.onefold", &value, XattrFlags::empty());
        if let Err(errno) = set {
            return skip(&format!("no extended attributes here: {errno}"));
        }
    }
    let (objects, _, snapshot) = backed_up(source.path());
    let restored = try_restore(&open(&objects), &snapshot, &Options::default()).unwrap();
    for path in [restored.folder.path().join("file"), restored.folder.path().to_owned()] {
        let mut found = vec![0; 4000];
        let len = rustix::fs::lgetxattr(&path, c"user.onefold", &mut found[..]).unwrap();
        assert_eq!(found[..len], value);
    }
}

#[test]
fn a_restore_does_not_depend_on_the_number_of_threads() {
    let source = folder();
    for number in 0..50 {
        write(source.path().join(format!("{}/{number}", number % 5)), text(number, 9000));
    }
    // Several pieces, written by several threads.
    write(source.path().join("large"), random(1, 30_000_000));
    let (objects, repository) = in_memory(config(4096, 16384, 65536));
    let (_, snapshot) = back_up(&repository, source.path());
    let expected = Picture::of(source.path());
    for threads in [1, 2, 3, 8] {
        let options =
            Options { threads: NonZero::new(threads), verify: true, ..Options::default() };
        let restored = try_restore(&open(&objects), &snapshot, &options).unwrap();
        assert_eq!((restored.report.failed, restored.report.verified), (0, 51));
        Picture::of(restored.folder.path()).expect(&expected).unwrap();
    }
}

#[test]
fn an_entry_is_restored_alone() {
    let source = folder();
    write(source.path().join("a/b/file"), "content");
    write(source.path().join("a/other"), "x");
    symlink("b", source.path().join("a/link")).unwrap();
    let (_, repository, snapshot) = backed_up(source.path());
    let restore_entry = |path: &str| {
        let target = folder();
        let id = repository.snapshots().unwrap().0[0].0;
        let entry = repository.entry_at(id, &snapshot, path.as_bytes()).unwrap();
        let (progress, cancel) = (Progress::default(), Cancel::default());
        let options = Options::default();
        restore(&repository, &entry, target.path(), &options, &progress, &cancel).unwrap();
        Picture::of(target.path())
    };
    let file = restore_entry("a/b/file");
    assert_eq!(file.bytes("file").unwrap(), b"content");
    assert_eq!(file.paths().count(), 2);
    assert!(restore_entry("a/link").has("link"));
    restore_entry("a/b").expect(&Picture::of(&source.path().join("a/b"))).unwrap();
}

#[test]
fn includes_pick_what_they_fit_and_the_directories_on_the_way() {
    let source = folder();
    for path in ["a/x.txt", "a/y.log", "b/c/x.txt", "b/c/z", "d/keep/1", "d/keep/2", "x.txt"] {
        write(source.path().join(path), path);
    }
    set_mode(&source.path().join("b"), 0o711);
    let (_, repository, snapshot) = backed_up(source.path());
    let picked = |patterns: &[&str]| {
        let includes = patterns.iter().map(ToString::to_string).collect();
        let options = Options { includes, ..Options::default() };
        let restored = try_restore(&repository, &snapshot, &options).unwrap();
        assert_eq!(restored.report.failed, 0);
        let picture = Picture::of(restored.folder.path());
        let paths: Vec<_> = picture.paths().map(|path| path.display().to_string()).collect();
        assert_eq!(paths[0], "");
        if picture.has("b") {
            let mode = restored.folder.path().join("b").metadata().unwrap().mode();
            assert_eq!(mode & 0o7777, 0o711, "a directory on the way has its own mode");
        }
        paths[1..].to_vec()
    };
    assert_eq!(picked(&["*.txt"]), ["a", "a/x.txt", "b", "b/c", "b/c/x.txt", "x.txt"]);
    assert_eq!(picked(&["/x.txt"]), ["x.txt"]);
    assert_eq!(picked(&["keep/"]), ["d", "d/keep", "d/keep/1", "d/keep/2"]);
    assert_eq!(picked(&["/b/c/z", "y.log"]), ["a", "a/y.log", "b", "b/c", "b/c/z"]);
    assert_eq!(picked(&["*.txt", "!/a/**"]), ["b", "b/c", "b/c/x.txt", "x.txt"]);
    assert_eq!(picked(&["nothing"]), [] as [&str; 0]);
    let bad = Options { includes: vec!["{a".into()], ..Options::default() };
    let refused = try_restore(&repository, &snapshot, &bad).map(drop).unwrap_err();
    assert!(matches!(refused, StoreError::Pattern(_)), "{refused}");
}

#[test]
fn what_is_in_the_way_goes_or_stays_as_the_user_chose() {
    let source = folder();
    for name in ["same", "other-size", "other-time", "missing"] {
        write(source.path().join(name), name);
    }
    symlink("same", source.path().join("link")).unwrap();
    let (_, repository, snapshot) = backed_up(source.path());
    let expected = Picture::of(source.path());
    let target_in_the_way = || {
        let target = folder();
        restore_over(&repository, &snapshot, target.path(), &Options::default());
        let at = |name: &str| target.path().join(name);
        let before = at("same").metadata().unwrap().modified().unwrap();
        // Looks the same though it is not.
        write(at("same"), "SAME");
        File::open(at("same")).unwrap().set_modified(before).unwrap();
        write(at("other-size"), "longer than before");
        write(at("other-time"), "OTHER-TIME");
        fs::remove_file(at("missing")).unwrap();
        fs::remove_file(at("link")).unwrap();
        symlink("elsewhere", at("link")).unwrap();
        write(at("extra"), "extra");
        target
    };

    let target = target_in_the_way();
    let (report, _) =
        restore_over(&repository, &snapshot, target.path(), &overwriting(Overwrite::Always));
    assert_eq!((report.files, report.others, report.kept), (4, 1, 0));
    assert_eq!(fs::read(target.path().join("extra")).unwrap(), b"extra", "no concern of ours");
    fs::remove_file(target.path().join("extra")).unwrap();
    // Removing it changed the directory's time.
    restore_over(&repository, &snapshot, target.path(), &Options::default());
    Picture::of(target.path()).expect(&expected).unwrap();

    let target = target_in_the_way();
    let (report, _) =
        restore_over(&repository, &snapshot, target.path(), &overwriting(Overwrite::IfChanged));
    assert_eq!((report.files, report.others, report.kept), (3, 1, 1));
    assert_eq!(fs::read(target.path().join("same")).unwrap(), b"SAME");
    assert_eq!(fs::read(target.path().join("other-time")).unwrap(), b"other-time");

    let target = target_in_the_way();
    let (report, _) =
        restore_over(&repository, &snapshot, target.path(), &overwriting(Overwrite::Never));
    assert_eq!((report.files, report.others, report.kept), (1, 0, 4));
    assert_eq!(fs::read(target.path().join("other-size")).unwrap(), b"longer than before");
    assert_eq!(fs::read(target.path().join("missing")).unwrap(), b"missing");
    assert_eq!(fs::read_link(target.path().join("link")).unwrap(), Path::new("elsewhere"));
}

#[test]
fn a_file_for_a_directory_or_a_directory_for_a_file_fails_and_the_rest_is_restored() {
    let source = folder();
    for path in ["directory/x", "file", "rest/y"] {
        write(source.path().join(path), path);
    }
    let (_, repository, snapshot) = backed_up(source.path());
    let target = folder();
    write(target.path().join("directory"), "a file");
    write(target.path().join("file/z"), "in a directory");
    let (report, issues) = restore_over(&repository, &snapshot, target.path(), &Options::default());
    assert_eq!((report.failed, report.files), (2, 1));
    assert!(issues.iter().any(|issue| issue.contains("'file'") || issue.contains("/file'")));
    let found = Picture::of(target.path());
    assert_eq!(found.bytes("rest/y").unwrap(), b"rest/y");
    assert_eq!(found.bytes("directory").unwrap(), b"a file");
    assert_eq!(found.bytes("file/z").unwrap(), b"in a directory");
}

/// A folder that nothing may be written to, and what it looks like.
struct Outside {
    folder: TempDir,
    before: Picture,
}

impl Outside {
    fn new() -> Self {
        let folder = folder();
        write(folder.path().join("precious"), "precious");
        write(folder.path().join("x"), "precious too");
        let before = Picture::of(folder.path());
        Self { folder, before }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn expect_untouched(&self) {
        Picture::of(self.path()).expect(&self.before).unwrap();
    }
}

#[test]
fn links_planted_in_the_target_lead_nowhere() {
    let source = folder();
    for path in ["directory/x", "directory/sub/x", "x", "linked"] {
        write(source.path().join(path), path);
    }
    fs::hard_link(source.path().join("linked"), source.path().join("linked-too")).unwrap();
    let (_, repository, snapshot) = backed_up(source.path());
    for overwrite in [Overwrite::Always, Overwrite::IfChanged, Overwrite::Never] {
        for planted in ["directory", "directory/sub", "x", "linked", "linked-too", "directory/x"] {
            let (outside, target) = (Outside::new(), folder());
            let (at, to) = (target.path().join(planted), outside.path());
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            let is_directory = matches!(planted, "directory" | "directory/sub");
            let to = if is_directory { to.to_owned() } else { to.join("precious") };
            symlink(&to, &at).unwrap();
            let (report, issues) =
                restore_over(&repository, &snapshot, target.path(), &overwriting(overwrite));
            outside.expect_untouched();
            let is_refused = report.failed > 0;
            assert_eq!(is_refused, is_directory, "{planted}: {issues:?}");
            if is_directory {
                assert!(issues.iter().any(|issue| issue.contains("symbolic link")), "{issues:?}");
            } else if overwrite != Overwrite::Never {
                let found = Picture::of(target.path());
                found.expect(&Picture::of(source.path())).unwrap();
            }
        }
    }
}

#[test]
fn a_link_of_one_snapshot_does_not_lead_the_next_one_outside() {
    let outside = Outside::new();
    let (first, second) = (folder(), folder());
    symlink(outside.path(), first.path().join("a")).unwrap();
    write(second.path().join("a/x"), "evil");
    let (_, repository) = in_memory(small_chunks());
    let (_, with_link) = back_up(&repository, first.path());
    let (_, through_link) = back_up(&repository, second.path());
    let target = folder();
    restore_over(&repository, &with_link, target.path(), &Options::default());
    let (report, _) = restore_over(&repository, &through_link, target.path(), &Options::default());
    assert_eq!(report.failed, 1);
    outside.expect_untouched();
}

#[test]
fn the_target_itself_may_be_a_link_and_is_made_if_missing() {
    let source = folder();
    write(source.path().join("x"), "x");
    let (_, repository, snapshot) = backed_up(source.path());
    let place = folder();
    fs::create_dir(place.path().join("real")).unwrap();
    symlink("real", place.path().join("link")).unwrap();
    for target in ["link", "new/and/deep"] {
        let target = place.path().join(target);
        restore_over(&repository, &snapshot, &target, &Options::default());
        assert_eq!(fs::read(target.join("x")).unwrap(), b"x");
    }
    write(place.path().join("file"), "in the way");
    let (progress, cancel) = (Progress::default(), Cancel::default());
    let no_directory = place.path().join("file");
    let refused = restore(
        &repository,
        &snapshot.root,
        &no_directory,
        &Options::default(),
        &progress,
        &cancel,
    );
    assert!(matches!(refused, Err(StoreError::File { .. })));
}

#[test]
fn trees_whose_names_lead_elsewhere_are_refused_and_nothing_is_written() {
    let outside = Outside::new();
    let absolute = outside.path().join("evil").as_os_str().as_bytes().to_vec();
    let names: [&[u8]; 8] = [b"..", b".", b"", b"../evil", b"a/b", b"/evil", b"nul\0", &absolute];
    for name in names {
        for depth in [0, 2] {
            let (objects, repository) = in_memory(small_chunks());
            let forger = Forger::new(&objects, &repository);
            let content = forger.chunk(Content::Data, b"evil");
            for evil in [
                sealed::file(name, content),
                sealed::symlink(name, b"/etc/passwd"),
                sealed::directory(name, forger.tree(&[sealed::file(b"x", content)])),
            ] {
                let mut tree = forger.tree(&[evil]);
                for _ in 0..depth {
                    tree = forger.tree(&[sealed::directory(b"sub", tree)]);
                }
                let id = forger.snapshot(tree);
                let repository = open(&objects);
                let (_, snapshot) = repository.find(&id.to_string().parse().unwrap()).unwrap();
                // The target is a folder of the one that must stay as it is.
                let target = outside.path().join("target");
                let (report, issues) =
                    restore_over(&repository, &snapshot, &target, &Options::default());
                assert_eq!((report.failed, report.files, report.others), (1, 0, 0), "{name:?}");
                assert!(issues[0].contains("one path component"), "{issues:?}");
                fs::remove_dir_all(&target).unwrap();
                restore_mtime(&outside);
                outside.expect_untouched();
                let findings = checked(&repository).unwrap().findings;
                assert!(findings.iter().any(|f| f.problem.contains("one path component")));
                let walked = repository.walk(&snapshot.root, &mut |_, _| Ok(()));
                assert!(matches!(walked, Err(StoreError::Malformed { .. })));
            }
        }
    }
}

/// Undoes what making and removing the target in it did to the folder's time.
fn restore_mtime(outside: &Outside) {
    let file = File::open(outside.path()).unwrap();
    file.set_modified(outside.before.mtime_of("")).unwrap();
}

#[test]
fn a_name_that_is_a_link_and_a_directory_at_once_is_refused() {
    let outside = Outside::new();
    let (objects, repository) = in_memory(small_chunks());
    let forger = Forger::new(&objects, &repository);
    let content = forger.chunk(Content::Data, b"evil");
    let below = forger.tree(&[sealed::file(b"x", content)]);
    let to = outside.path().as_os_str().as_bytes();
    let id =
        forger.snapshot(forger.tree(&[sealed::symlink(b"a", to), sealed::directory(b"a", below)]));
    let repository = open(&objects);
    let (_, snapshot) = repository.find(&id.to_string().parse().unwrap()).unwrap();
    let restored = try_restore(&repository, &snapshot, &Options::default()).unwrap();
    assert_eq!((restored.report.failed, restored.report.others), (1, 0));
    outside.expect_untouched();
}

#[test]
fn recipes_that_lie_fail_their_file_and_no_other() {
    let (objects, repository) = in_memory(small_chunks());
    let forger = Forger::new(&objects, &repository);
    let chunk = forger.chunk(Content::Data, b"eight by");
    let good = forger.node(&[chunk, chunk]);
    let nowhere = Fingerprint::from_bytes([7; 32]);
    let bad = [
        ("longer than its chunk", Recipe { len: 9, ..chunk }),
        ("shorter than its chunk", Recipe { len: 7, ..chunk }),
        ("of a chunk that is no node", Recipe { depth: 1, ..chunk }),
        ("of a chunk that is nowhere", Recipe { root: nowhere, ..chunk }),
        ("deeper than its nodes", Recipe { depth: 2, ..good }),
        ("of a node as data", Recipe { depth: 0, ..good }),
        ("longer than its children", Recipe { len: 17, ..good }),
        ("shorter than its children", Recipe { len: 15, ..good }),
        ("as long as can be", Recipe { len: u64::MAX, ..good }),
        ("with a child that is too long", forger.node(&[chunk, Recipe { len: 9, ..chunk }])),
    ];
    for (what, recipe) in bad {
        let entries = [sealed::file(b"bad", recipe), sealed::file(b"good", good)];
        let id = forger.snapshot(forger.tree(&entries));
        let repository = open(&objects);
        let (_, snapshot) = repository.find(&id.to_string().parse().unwrap()).unwrap();
        let restored = try_restore(&repository, &snapshot, &Options::default()).unwrap();
        assert_eq!((restored.report.failed, restored.report.files), (1, 1), "a recipe {what}");
        let found = Picture::of(restored.folder.path());
        assert_eq!(found.bytes("good").unwrap(), b"eight byeight by");
        assert_eq!(found.paths().count(), 2, "a recipe {what} left something behind");
        let findings = checked(&repository).unwrap().findings;
        assert!(findings.iter().any(|finding| finding.object.ends_with("/bad")), "a recipe {what}");
        objects.delete(&format!("snapshots/{id}")).unwrap();
    }
}

#[test]
fn a_cancelled_restore_stops_and_leaves_no_unfinished_files() {
    let source = folder();
    for number in 0..200 {
        write(source.path().join(number.to_string()), random(number, 100_000));
    }
    let (objects, _, snapshot) = backed_up(source.path());
    let (target, cancel) = (folder(), Cancel::default());
    // The target has some files already when the user stops it.
    let progress = Progress::default();
    let repository = open(&objects);
    let options = Options { threads: NonZero::new(2), ..Options::default() };
    let result = std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            restore(&repository, &snapshot.root, target.path(), &options, &progress, &cancel)
        });
        while progress.files.load(std::sync::atomic::Ordering::Relaxed) < 10 {
            std::thread::yield_now();
        }
        cancel.cancel();
        running.join().unwrap()
    });
    let found = Picture::of(target.path());
    found.expect_no_other_bytes(&Picture::of(source.path())).unwrap();
    assert!(matches!(result, Err(StoreError::Interrupted)) || found.paths().count() == 201);
}

#[test]
fn a_full_target_ends_the_restore_with_an_error_that_says_so() {
    let source = folder();
    for number in 0..50 {
        write(source.path().join(number.to_string()), random(number, 100_000));
    }
    let (_, repository, snapshot) = backed_up(source.path());
    let target = folder();
    match mount("tmpfs", target.path(), "tmpfs", MountFlags::empty(), Some(c"size=1m")) {
        Ok(()) => {}
        Err(errno) => return skip(&format!("cannot mount a small tmpfs: {errno}")),
    }
    let (progress, cancel) = (Progress::default(), Cancel::default());
    let full = restore(
        &repository,
        &snapshot.root,
        target.path(),
        &Options::default(),
        &progress,
        &cancel,
    );
    let found = Picture::of(target.path());
    unmount(target.path(), UnmountFlags::DETACH).unwrap();
    let error = full.unwrap_err();
    assert!(error.is_full(), "{}", chain(&error));
    assert!(error.to_string().contains(target.path().to_str().unwrap()), "{error}");
    found.expect_no_other_bytes(&Picture::of(source.path())).unwrap();
}

#[test]
fn opening_and_restoring_put_nothing() {
    let source = folder();
    write(source.path().join("x"), "x");
    let (objects, _, snapshot) = backed_up(source.path());
    let read_only = Hooked::new(&objects, |name| panic!("{name} was put"));
    let repository = Repository::open(Arc::new(read_only)).unwrap();
    restored(&repository, &snapshot).unwrap();
    assert!(checked(&repository).unwrap().findings.is_empty());
}

#[test]
fn zeros_become_holes_on_request() {
    let source = folder();
    let noise = random(1, 100_000);
    let content = [&noise[..], &vec![0; 3 << 20], &noise[..], &vec![0; 1 << 20]].concat();
    write(source.path().join("image"), &content);
    let (_, repository, snapshot) = backed_up(source.path());
    let blocks = |sparse| {
        let options = Options { sparse, verify: true, ..Options::default() };
        let restored = try_restore(&repository, &snapshot, &options).unwrap();
        assert_eq!((restored.report.failed, restored.report.verified), (0, 1));
        Picture::of(restored.folder.path()).expect(&Picture::of(source.path())).unwrap();
        restored.folder.path().join("image").metadata().unwrap().blocks() * 512
    };
    if blocks(false) < content.len() as u64 {
        return skip("the file system for temporary files stores zeros as holes by itself");
    }
    assert!(blocks(true) < 300_000, "{} bytes", blocks(true));
}

/// The names of temporary files below `path`.
fn temporaries(path: &Path) -> Vec<String> {
    let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap());
    names.filter(|name| name.starts_with(".onefold-restore-")).collect()
}

/// Bytes of a file whose restore is stopped: many more than can be read before any are written.
const STOPPED_LEN: usize = 32 << 20;

/// Restores to `target` and stops at the first read after a MiB was written; the bytes that were
/// written.
fn restore_and_stop(objects: &Arc<dyn Objects>, snapshot: &Snapshot, target: &Path) -> u64 {
    let (cancel, progress) = (Arc::new(Cancel::default()), Arc::new(Progress::default()));
    let (stop, written) = (Arc::clone(&cancel), Arc::clone(&progress));
    let hooked = Hooked::reading(objects, move |_| {
        if written.bytes.load(Ordering::Relaxed) > 1 << 20 {
            stop.cancel();
        }
    });
    let repository = Repository::open(Arc::new(hooked)).unwrap();
    let options = Options { threads: NonZero::new(1), ..Options::default() };
    let stopped = restore(&repository, &snapshot.root, target, &options, &progress, &cancel);
    assert!(matches!(stopped, Err(StoreError::Interrupted)), "{stopped:?}");
    progress.bytes.load(Ordering::Relaxed)
}

#[test]
fn a_restore_that_was_stopped_is_gone_on_with() {
    let source = folder();
    write(source.path().join("a"), text(1, 5000));
    fs::hard_link(source.path().join("a"), source.path().join("link")).unwrap();
    // Chunks that begin and end anywhere, and more than one piece.
    write(source.path().join("big"), random(2, STOPPED_LEN));
    let (objects, _, snapshot) = backed_up(source.path());
    let target = folder();
    let mut written = restore_and_stop(&objects, &snapshot, target.path());
    // Whether 'a' was restored by then depends on where its chunks lie.
    let has_a = target.path().join("a").exists();
    if has_a {
        written -= target.path().join("a").metadata().unwrap().len();
    }
    let [temporary] = &temporaries(target.path())[..] else { panic!("one is left") };
    assert!(written > 1 << 20, "{written} bytes");
    // The power went as well: some of it is not what was written.
    let path = target.path().join(temporary);
    #[expect(clippy::disallowed_methods, reason = "a target of a restore")]
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let (mut at, mut block) = (0, [0; 4096]);
    while file.read_at(&mut block, at).unwrap() > 0 && block == [0; 4096] {
        at += block.len() as u64;
    }
    let first = block.iter().position(|byte| *byte != 0).unwrap() as u64;
    file.write_all_at(&[0; 1000], at + first).unwrap();
    let options = Options { overwrite: Overwrite::IfChanged, verify: true, ..Options::default() };
    let (report, issues) = restore_over(&open(&objects), &snapshot, target.path(), &options);
    assert_eq!(issues, [] as [&str; 0]);
    let Report { files, kept, verified, reused, failed, .. } = report;
    let expected = if has_a { (2, 1, 2, 0) } else { (3, 0, 2, 0) };
    assert_eq!((files, kept, verified, failed), expected);
    assert!(reused > written - 50_000 && reused < written, "{reused} of {written} bytes");
    let found = Picture::of(target.path());
    found.expect(&Picture::of(source.path())).unwrap();
    assert!(found.are_linked("a", "link"));
}

#[test]
fn what_several_windows_want_comes_once_from_far_away() {
    // The files take several windows, and each wants all groups.
    let source = folder();
    for version in ["a", "b", "c", "d"] {
        for number in 0..8000 {
            let path = source.path().join(format!("{version}/{}/{number}", number / 500));
            write(path, random(number, 800));
        }
    }
    let (objects, _, snapshot) = backed_up(source.path());
    let far = Far::new(objects);
    let repository = Repository::open(Arc::clone(&far) as Arc<dyn Objects>).unwrap();
    let target = folder();
    let (report, issues) = restore_over(&repository, &snapshot, target.path(), &Options::default());
    assert_eq!((report.files, report.failed, issues), (32_000, 0, Vec::new()));
    let stored: u64 = names(&*far, "containers/").iter().map(|name| far.size(name).unwrap()).sum();
    let read = far.read.lock().unwrap();
    let received: u64 = read.iter().map(|(_, range)| range.end - range.start).sum();
    // Footers are read beside the groups, and once more with the end of their container.
    assert!(received < stored * 5 / 4, "{received} bytes of {stored}");
    Picture::of(target.path()).expect(&Picture::of(source.path())).unwrap();
}

fn seeded(seed: &Path) -> Options {
    Options { seeds: vec![seed.to_owned()], ..Options::default() }
}

/// A repository with a snapshot of `source`, then one of what it became: one file is longer in front,
/// one moved, one is new. Gives what the second stored, and that snapshot.
fn backed_up_twice(source: &Path) -> (Arc<dyn Objects>, u64, Snapshot) {
    write(source.join("sub/moves"), random(1, 3 << 20));
    write(source.join("grows"), random(2, 3 << 20));
    let (objects, repository, _) = backed_up(source);
    let before = stored(&*objects);
    fs::rename(source.join("sub/moves"), source.join("moved")).unwrap();
    write(source.join("grows"), [&random(3, 5000)[..], &random(2, 3 << 20)].concat());
    write(source.join("new"), random(4, 200_000));
    let (_, snapshot) = back_up(&repository, source);
    let added = stored(&*objects) - before;
    (objects, added, snapshot)
}

#[test]
fn what_seeds_have_does_not_come_from_the_repository() {
    let (source, seed) = (folder(), folder());
    write(seed.path().join("deep/er/a"), random(1, 3 << 20));
    write(seed.path().join("b"), [&b"other bytes"[..], &random(2, 3 << 20)].concat());
    let (objects, added, snapshot) = backed_up_twice(source.path());
    let far = Far::new(objects);
    let repository = Repository::open(Arc::clone(&far) as Arc<dyn Objects>).unwrap();
    let target = folder();
    let before = far.received();
    let (report, issues) =
        restore_over(&repository, &snapshot, target.path(), &seeded(seed.path()));
    assert_eq!((report.failed, issues), (0, Vec::new()));
    assert!(report.seeded > (6 << 20) - 100_000, "{report:?}");
    // Besides, the chunks at the ends of what moved need a footer, which lists thousands of short ones.
    let received = far.received() - before;
    assert!(received < added * 6 / 5 + (400 << 10), "{received} bytes of {added}");
    Picture::of(target.path()).expect(&Picture::of(source.path())).unwrap();
}

#[test]
fn a_seed_that_changes_meanwhile_or_is_a_link_gives_nothing() {
    let (source, seed) = (folder(), folder());
    let (objects, _, snapshot) = backed_up_twice(source.path());
    write(seed.path().join("a"), random(1, 3 << 20));
    let elsewhere = folder();
    write(elsewhere.path().join("sub/b"), random(2, 3 << 20));
    symlink(elsewhere.path(), seed.path().join("link")).unwrap();
    symlink(elsewhere.path().join("sub/b"), seed.path().join("b")).unwrap();
    // The trees are read after the seeds were cut.
    let changes = seed.path().join("a");
    let is_on = Arc::new(AtomicBool::new(false));
    let on = Arc::clone(&is_on);
    let hooked = Hooked::reading(&objects, move |_| {
        if on.swap(false, Ordering::Relaxed) {
            write(&changes, vec![7; 3 << 20]);
        }
    });
    let repository = Repository::open(Arc::new(hooked)).unwrap();
    repository.load().unwrap();
    is_on.store(true, Ordering::Relaxed);
    let target = folder();
    let (report, issues) =
        restore_over(&repository, &snapshot, target.path(), &seeded(seed.path()));
    assert_eq!((report.failed, report.seeded, issues), (0, 0, Vec::new()));
    Picture::of(target.path()).expect(&Picture::of(source.path())).unwrap();
}

#[test]
fn the_target_may_be_the_seed_and_a_seed_that_is_missing_is_an_error() {
    let source = folder();
    let (objects, repository, _) = backed_up(source.path());
    drop(objects);
    write(source.path().join("a"), random(1, 3 << 20));
    let (_, snapshot) = back_up(&repository, source.path());
    let target = folder();
    write(target.path().join("a"), [&b"in front"[..], &random(1, 3 << 20)].concat());
    let (report, _) = restore_over(&repository, &snapshot, target.path(), &seeded(target.path()));
    assert!(report.failed == 0 && report.seeded > (3 << 20) - 50_000, "{report:?}");
    Picture::of(target.path()).expect(&Picture::of(source.path())).unwrap();
    let missing = target.path().join("missing");
    let error = try_restore(&repository, &snapshot, &seeded(&missing)).err().unwrap();
    assert!(chain(&error).contains("open seed") && chain(&error).contains("missing"), "{error}");
    assert!(!missing.exists());
}

#[test]
fn what_is_left_over_of_a_file_that_was_longer_and_not_zero_is_gone() {
    let source = folder();
    let content = [&random(1, STOPPED_LEN)[..], &vec![0; 9 << 20]].concat();
    write(source.path().join("image"), &content);
    let (objects, repository, snapshot) = backed_up(source.path());
    let target = folder();
    restore_and_stop(&objects, &snapshot, target.path());
    let [temporary] = &temporaries(target.path())[..] else { panic!("one is left") };
    #[expect(clippy::disallowed_methods, reason = "a target of a restore")]
    let file = File::options().write(true).open(target.path().join(temporary)).unwrap();
    file.write_all_at(&vec![7; content.len() + 100], 0).unwrap();
    drop(file);
    let options = Options { sparse: true, ..Options::default() };
    let (report, _) = restore_over(&repository, &snapshot, target.path(), &options);
    assert_eq!((report.failed, report.reused), (0, 0));
    Picture::of(target.path()).expect(&Picture::of(source.path())).unwrap();
}

#[test]
fn leftovers_that_nothing_came_of_are_removed_and_what_is_in_use_is_not_touched() {
    let source = folder();
    write(source.path().join("sub/big"), random(2, STOPPED_LEN));
    let (objects, repository, snapshot) = backed_up(source.path());
    let target = folder();
    restore_and_stop(&objects, &snapshot, target.path());
    let sub = target.path().join("sub");
    let [in_use] = &temporaries(&sub)[..] else { panic!("one is left") };
    #[expect(clippy::disallowed_methods, reason = "stands for another restore")]
    let other = File::options().write(true).open(sub.join(in_use)).unwrap();
    rustix::fs::flock(&other, FlockOperation::LockExclusive).unwrap();
    // What another snapshot's restore left.
    let other_source = folder();
    write(other_source.path().join("sub/big"), random(3, STOPPED_LEN));
    let (other_objects, _, other_snapshot) = backed_up(other_source.path());
    restore_and_stop(&other_objects, &other_snapshot, target.path());
    assert_eq!(temporaries(&sub).len(), 2);
    write(sub.join(".onefold-restore-mine"), "no temporary file");
    let (report, _) = restore_over(&repository, &snapshot, target.path(), &Options::default());
    assert_eq!((report.failed, report.reused), (0, 0));
    let mut left = temporaries(&sub);
    left.sort();
    let mut expected = [in_use.clone(), ".onefold-restore-mine".into()];
    expected.sort();
    assert_eq!(left, expected);
    assert!(fs::read(sub.join("big")).unwrap() == random(2, STOPPED_LEN));
}

#[test]
fn another_name_of_somebodys_file_is_not_written_through() {
    let source = folder();
    write(source.path().join("big"), random(2, STOPPED_LEN));
    let (objects, repository, snapshot) = backed_up(source.path());
    let target = folder();
    restore_and_stop(&objects, &snapshot, target.path());
    let [temporary] = &temporaries(target.path())[..] else { panic!("one is left") };
    let trap = target.path().join(temporary);
    let elsewhere = folder();
    let outside = elsewhere.path().join("outside");
    for set_trap in [
        (|outside: &Path, trap: &Path| fs::hard_link(outside, trap).unwrap()) as fn(&Path, &Path),
        |outside, trap| symlink(outside, trap).unwrap(),
    ] {
        fs::remove_file(&trap).unwrap();
        write(&outside, "precious");
        set_mode(&outside, 0o600);
        set_trap(&outside, &trap);
        let (report, _) = restore_over(&repository, &snapshot, target.path(), &Options::default());
        assert_eq!((report.failed, report.reused), (0, 0));
        assert_eq!(fs::read(&outside).unwrap(), b"precious");
        assert!(fs::read(target.path().join("big")).unwrap() == random(2, STOPPED_LEN));
        // It is taken for a leftover, which harms nobody but the trap.
        assert!(temporaries(target.path()).is_empty());
        write(&trap, "");
    }
}

#[test]
fn no_second_name_is_made_for_what_stands_where_a_file_could_not_be_restored() {
    let source = folder();
    write(source.path().join("a"), random(1, 50_000));
    fs::hard_link(source.path().join("a"), source.path().join("b")).unwrap();
    let (objects, _, snapshot) = backed_up(source.path());
    let target = folder();
    write(target.path().join("a"), "mine");
    write(target.path().join("b"), "mine too");
    // The chunks of files are gone, the trees are not.
    for name in names(&*objects, "containers/") {
        let size = objects.size(&name).unwrap();
        if size > 40_000 {
            objects.delete(&name).unwrap();
        }
    }
    let repository = open(&objects);
    let (report, _) =
        restore_over(&repository, &snapshot, target.path(), &overwriting(Overwrite::Always));
    assert_eq!((report.failed, report.files), (2, 0), "{report:?}");
    assert_eq!(fs::read(target.path().join("a")).unwrap(), b"mine");
    assert_eq!(fs::read(target.path().join("b")).unwrap(), b"mine too");
}
