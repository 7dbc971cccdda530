//! What a restore takes from what is there, and how little comes from far away then.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use onefold_backend::Objects;
use onefold_store::restore::{Options, Report, restore};
use onefold_store::{Cancel, Repository, Snapshot};
use onefold_testkit::random;
use tempfile::TempDir;

use crate::common::far::{Far, stored};
use crate::common::hooked::Hooked;
use crate::common::picture::Picture;
use crate::common::{Issues, back_up, config, in_memory, names, write};

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[expect(clippy::disallowed_methods, reason = "what a user's program writes")]
fn open_to_write(path: &Path) -> File {
    File::options().write(true).open(path).unwrap()
}

/// A repository with snapshots of the same folder, and what the last of them stored.
struct Versions {
    objects: Arc<dyn Objects>,
    source: TempDir,
    /// Of the first.
    target: TempDir,
    snapshot: Snapshot,
    added: u64,
    /// How many containers the last one stored.
    containers: u64,
}

/// Bytes that are read of a container for its footer.
const FOOTER_LEN: u64 = 65 << 10;

impl Versions {
    /// `first` writes a folder and `then` changes it. The target has what the folder was before.
    fn new(first: impl Fn(&Path), then: impl Fn(&Path)) -> Self {
        let (source, target) = (folder(), folder());
        let (objects, repository) = in_memory(config(4 << 10, 16 << 10, 64 << 10));
        first(source.path());
        first(target.path());
        back_up(&repository, source.path());
        let containers = || names(&*objects, "containers/").len() as u64;
        let (before, containers_before) = (stored(&*objects), containers());
        then(source.path());
        let (_, snapshot) = back_up(&repository, source.path());
        let added = stored(&*objects) - before;
        let containers = containers() - containers_before;
        Self { objects, source, target, snapshot, added, containers }
    }

    /// Restores over the target; gives what that received, too.
    fn restore(&self, options: &Options) -> (Report, u64) {
        let far = Far::new(Arc::clone(&self.objects));
        let repository = Repository::open(Arc::clone(&far) as Arc<dyn Objects>).unwrap();
        let report = self.restore_from(&repository, options);
        (report, far.received())
    }

    fn restore_from(&self, repository: &Repository, options: &Options) -> Report {
        let issues = Issues::default();
        let (progress, cancel) = (issues.progress(), Cancel::default());
        let (entry, target) = (&self.snapshot.root, self.target.path());
        let report = restore(repository, entry, target, options, &progress, &cancel).unwrap();
        assert_eq!((report.failed, issues.all()), (0, Vec::new()));
        Picture::of(target).expect(&Picture::of(self.source.path())).unwrap();
        report
    }

    #[track_caller]
    fn expect_few_received(&self) {
        let (report, received) = self.restore(&Options::default());
        // The end of each new container is read first, because the footer is in it.
        let most = self.added * 6 / 5 + self.containers * FOOTER_LEN;
        assert!(received < most, "{received} bytes of {}: {report:?}", self.added);
    }
}

#[test]
fn restoring_over_an_older_version_receives_what_differs() {
    let versions = Versions::new(
        |root| {
            for number in 0..60 {
                write(root.join(format!("short/{number}")), random(number, 90_000));
            }
            write(root.join("longer"), random(100, 6 << 20));
            write(root.join("patched"), random(101, 6 << 20));
            write(root.join("shorter"), random(102, 6 << 20));
        },
        |root| {
            for number in (0..60).step_by(12) {
                write(root.join(format!("short/{number}")), random(200 + number, 90_000));
            }
            write(root.join("longer"), [&random(300, 70_000)[..], &random(100, 6 << 20)].concat());
            let mut patched = random(101, 6 << 20);
            patched[3 << 20..][..100_000].copy_from_slice(&random(301, 100_000));
            write(root.join("patched"), patched);
            write(root.join("shorter"), &random(102, 6 << 20)[1 << 20..]);
        },
    );
    versions.expect_few_received();
}

#[test]
fn what_stands_at_one_name_serves_another_of_the_same_window() {
    let versions = Versions::new(
        |root| {
            write(root.join("a"), random(1, 3 << 20));
            write(root.join("b"), random(2, 900_000));
        },
        |root| {
            write(root.join("a"), random(2, 900_000));
            write(root.join("b"), random(1, 3 << 20));
            write(root.join("c"), random(1, 3 << 20));
        },
    );
    versions.expect_few_received();
}

#[test]
fn holes_in_either_version_change_nothing_but_what_comes() {
    const LEN: u64 = 64 << 20;
    let write_at = |root: &Path, stretches: &[(u64, u64)]| {
        let path = root.join("image");
        write(&path, b"");
        let file = open_to_write(&path);
        file.set_len(0).and_then(|()| file.set_len(LEN)).unwrap();
        for (offset, seed) in stretches {
            file.write_all_at(&random(*seed, 2 << 20), *offset).unwrap();
        }
    };
    // A hole is filled, and what was there becomes one.
    let versions = Versions::new(
        |root| write_at(root, &[(0, 1), (20 << 20, 2), (60 << 20, 3)]),
        |root| write_at(root, &[(0, 1), (40 << 20, 4), (60 << 20, 3)]),
    );
    versions.expect_few_received();
}

#[test]
fn what_is_no_file_or_behind_a_link_is_not_read() {
    let (elsewhere, content) = (folder(), random(1, 3 << 20));
    write(elsewhere.path().join("file"), &content);
    let versions = Versions::new(
        |root| write(root.join("sub/other"), b"other"),
        |root| {
            write(root.join("link"), &content);
            write(root.join("pipe"), &content);
        },
    );
    symlink(elsewhere.path().join("file"), versions.target.path().join("link")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        versions.target.path().join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let (report, received) = versions.restore(&Options::default());
    assert_eq!((report.seeded, report.replaced), (5, 3), "the one that is a file");
    assert!(received >= content.len() as u64);
    assert_eq!(fs::read(elsewhere.path().join("file")).unwrap(), content);
}

#[test]
fn a_file_that_changes_before_it_is_read_gives_less_and_harms_nothing() {
    let versions = Versions::new(
        |root| write(root.join("a"), random(1, 8 << 20)),
        |root| write(root.join("a"), [&b"in front"[..], &random(1, 8 << 20)].concat()),
    );
    // Trees are read before the window is written.
    let (changes, is_on) = (versions.target.path().join("a"), Arc::new(AtomicBool::new(false)));
    let on = Arc::clone(&is_on);
    let hooked = Hooked::reading(&versions.objects, move |_| {
        if on.swap(false, Ordering::Relaxed) {
            open_to_write(&changes).write_all_at(&vec![7; 6 << 20], 1 << 20).unwrap();
        }
    });
    let repository = Repository::open(Far::new(Arc::new(hooked))).unwrap();
    repository.load().unwrap();
    is_on.store(true, Ordering::Relaxed);
    let report = versions.restore_from(&repository, &Options::default());
    assert!((1..3 << 20).contains(&report.seeded), "{report:?}");
}

#[test]
fn near_the_repository_nothing_is_compared() {
    let versions = Versions::new(
        |root| write(root.join("a"), random(1, 3 << 20)),
        |root| write(root.join("b"), random(2, 1000)),
    );
    let repository = Repository::open(Arc::clone(&versions.objects)).unwrap();
    let report = versions.restore_from(&repository, &Options::default());
    assert_eq!((report.seeded, report.replaced), (0, 1));
}
