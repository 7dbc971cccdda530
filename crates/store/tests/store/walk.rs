//! How sources are walked while somebody moves what is in them, and how far down.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::{Arc, Mutex};

use onefold_store::backup::Options;
use onefold_store::{IssueKind, Progress};
use rustix::fs::{Mode, OFlags, mkdirat, openat};
use tempfile::tempdir;

use crate::common::{
    Issues, expect_clean, in_memory, open, options, restored, small_chunks, try_back_up, write,
};

/// Backs `source` up; when the walk is at the directory `at`, after it listed the one above, the
/// directory `swapped` becomes a link to `outside`. What the snapshot has, and what was reported.
fn swap(source: &Path, at: &Path, swapped: &Path, outside: &Path) -> (Vec<String>, Vec<String>) {
    let (objects, repository) = in_memory(small_chunks());
    let metadata = at.metadata().unwrap();
    let own_repository = Some((metadata.dev(), metadata.ino()));
    let issues = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&issues);
    let (swapped, outside) = (swapped.to_owned(), outside.to_owned());
    let progress = Progress::new(move |issue| match issue.kind {
        IssueKind::OwnRepository => {
            fs::rename(&swapped, swapped.with_extension("away")).unwrap();
            symlink(&outside, &swapped).unwrap();
        }
        _ => noted.lock().unwrap().push(issue.to_string()),
    });
    let options = Options { own_repository, ..options() };
    let (_, snapshot) = try_back_up(&repository, &[source], &options, &progress).unwrap();
    let picture = restored(&open(&objects), &snapshot).unwrap();
    let names = ["b", "b/c", "b/c/file", "b/c/secret", "b/secret"];
    let there = names.into_iter().filter(|name| picture.bytes(name).is_some());
    let issues = issues.lock().unwrap().clone();
    (there.map(Into::into).collect(), issues)
}

#[test]
fn a_directory_that_became_a_link_since_it_was_listed_is_not_followed() {
    let (source, outside) = (tempdir().unwrap(), tempdir().unwrap());
    fs::create_dir(source.path().join("a")).unwrap();
    write(source.path().join("b/file"), "mine");
    write(outside.path().join("secret"), "not mine");
    let (a, b) = (source.path().join("a"), source.path().join("b"));
    let (there, issues) = swap(source.path(), &a, &b, outside.path());
    assert_eq!(there, [] as [&str; 0]);
    assert!(issues.len() == 1 && issues[0].contains("cannot list"), "{issues:?}");
}

#[test]
fn what_is_below_a_directory_is_read_there_even_if_a_link_took_its_place() {
    let (source, outside) = (tempdir().unwrap(), tempdir().unwrap());
    fs::create_dir_all(source.path().join("b/a")).unwrap();
    write(source.path().join("b/c/file"), "mine");
    write(outside.path().join("c/secret"), "not mine");
    let (a, b) = (source.path().join("b/a"), source.path().join("b"));
    let (there, issues) = swap(source.path(), &a, &b, outside.path());
    assert_eq!((there, issues), (vec!["b/c/file".to_owned()], Vec::new()));
}

/// Makes `levels` directories called `name`, one in the other, with the file `file` in the last.
#[expect(clippy::disallowed_methods, reason = "the source of a backup, no durable byte")]
fn nest(source: &Path, name: &str, levels: usize) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let open = |at: &OwnedFd| openat(at, name, flags, Mode::empty()).unwrap();
    let mut at = OwnedFd::from(fs::File::open(source).unwrap());
    for _ in 0..levels {
        mkdirat(&at, name, Mode::RWXU).unwrap();
        at = open(&at);
    }
    openat(&at, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RWXU).unwrap();
}

#[test]
fn a_path_longer_than_the_kernel_takes_is_backed_up() {
    let source = tempdir().unwrap();
    nest(source.path(), &"n".repeat(200), 400);
    let (objects, repository) = in_memory(small_chunks());
    let issues = Issues::default();
    let (_, snapshot) =
        try_back_up(&repository, &[source.path()], &options(), &issues.progress()).unwrap();
    assert_eq!(issues.all(), [] as [&str; 0]);
    assert_eq!((snapshot.summary.files, snapshot.summary.directories), (1, 401));
    expect_clean(&open(&objects)).unwrap();
}

#[test]
fn directories_nested_deeper_than_readers_follow_are_reported_and_left_out() {
    // As much stack as a program's main thread has.
    let thread = std::thread::Builder::new().stack_size(8 << 20).spawn(back_up_too_deep);
    thread.unwrap().join().unwrap();
}

fn back_up_too_deep() {
    let source = tempdir().unwrap();
    nest(source.path(), "d", 2100);
    write(source.path().join("e"), "beside");
    let (objects, repository) = in_memory(small_chunks());
    let issues = Issues::default();
    let (_, snapshot) =
        try_back_up(&repository, &[source.path()], &options(), &issues.progress()).unwrap();
    assert!(issues.say("it lies more than 2046 directories deep"), "{:?}", issues.all());
    assert_eq!((snapshot.summary.files, snapshot.summary.unreadable), (1, 1));
    expect_clean(&open(&objects)).unwrap();
}
