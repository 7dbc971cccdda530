//! What a backup reads, leaves out, recognises, and stores once.

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes};
use std::num::NonZero;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Once, mpsc};
use std::thread;
use std::time::Duration;

use onefold_backend::{LocalObjects, MemoryObjects, Objects};
use onefold_cdc::{Algorithm, ChunkSizes, Params};
use onefold_container::{Directory, container_id};
use onefold_fingerprint::Fingerprinter;
use onefold_seal::{Envelope, ObjectId};
use onefold_store::backup::{Compression, Marker};
use onefold_store::diff::{Change, diff};
use onefold_store::stats::stats;
use onefold_store::tree::{Entry, Node, Tree};
use onefold_store::{
    Cancel, Config, Progress, Recipe, Repository, Snapshot, SnapshotSpec, StoreError, backup,
};
use onefold_testkit::{random, text};
use tempfile::TempDir;

use crate::common::hooked::Hooked;
use crate::common::picture::Picture;
use crate::common::scene::expect_nothing_stored_twice;
use crate::common::{
    Issues, back_up, config, expect_clean, in_memory, names, open, options, restored, small_chunks,
    try_back_up, write,
};

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Every path of a snapshot with its entry.
fn entries(repository: &Repository, snapshot: &Snapshot) -> BTreeMap<String, Entry> {
    let mut entries = BTreeMap::new();
    let mut visit = |path: &[u8], entry: &Entry| {
        entries.insert(String::from_utf8(path.to_vec()).unwrap(), entry.clone());
        Ok(())
    };
    repository.walk(&snapshot.root, &mut visit).unwrap();
    entries
}

fn paths(repository: &Repository, snapshot: &Snapshot) -> Vec<String> {
    entries(repository, snapshot).into_keys().collect()
}

/// Backs up with `options`, expecting success.
fn back_up_with(
    repository: &Repository,
    source: &Path,
    options: &backup::Options,
) -> (Snapshot, Vec<String>) {
    let issues = Issues::default();
    let (_, snapshot) = try_back_up(repository, &[source], options, &issues.progress()).unwrap();
    (snapshot, issues.all())
}

/// Sets a file's mtime.
fn set_mtime(path: &Path, from: &fs::Metadata) {
    let times = FileTimes::new().set_modified(from.modified().unwrap());
    File::open(path).unwrap().set_times(times).unwrap();
}

#[test]
fn backups_into_one_repository_at_the_same_time_both_succeed() {
    let place = folder();
    let local: Arc<dyn Objects> = Arc::new(LocalObjects::create(place.path()).unwrap());
    let memory: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
    for objects in [memory, local] {
        Repository::init(Arc::clone(&objects), small_chunks()).unwrap();
        let sources = [folder(), folder(), folder()];
        for (number, source) in sources.iter().enumerate() {
            write(source.path().join("shared"), random(1, 300_000));
            write(source.path().join("own"), random(10 + number as u64, 300_000));
        }
        let all_opened = Barrier::new(sources.len());
        thread::scope(|scope| {
            for source in &sources {
                scope.spawn(|| {
                    let repository = open(&objects);
                    repository.load().unwrap();
                    all_opened.wait();
                    back_up(&repository, source.path());
                });
            }
        });
        let repository = open(&objects);
        expect_clean(&repository).unwrap();
        let (snapshots, _) = repository.snapshots().unwrap();
        assert_eq!(snapshots.len(), 3);
        for (_, snapshot) in snapshots {
            let path = String::from_utf8(snapshot.paths[0].clone()).unwrap();
            restored(&repository, &snapshot)
                .unwrap()
                .expect(&Picture::of(Path::new(&path)))
                .unwrap();
        }
    }
}

#[test]
fn backups_through_one_handle_never_rely_on_what_another_only_claimed() {
    let source = folder();
    write(source.path().join("file"), random(1, 200_000));
    let memory: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
    let place = Arc::clone(&memory);
    let (has_claimed, first_has_claimed) = mpsc::channel();
    let first_container = Once::new();
    let hooked = Hooked::new(&memory, move |name| match name.split('/').next() {
        // All is claimed and nothing stored: the other backup has time to end first.
        Some("containers") => first_container.call_once(|| {
            has_claimed.send(()).unwrap();
            thread::sleep(Duration::from_millis(300));
        }),
        // The snapshot is there by now.
        Some("receipts") => expect_clean(&open(&place)).unwrap(),
        _ => {}
    });
    let repository = Repository::init(Arc::new(hooked), small_chunks()).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| back_up(&repository, source.path()));
        first_has_claimed.recv().unwrap();
        back_up(&repository, source.path());
    });
    expect_clean(&open(&memory)).unwrap();
    expect_nothing_stored_twice(&memory, &repository).unwrap();
}

#[test]
fn what_looks_unchanged_is_not_read_and_all_else_is() {
    let source = folder();
    let at = |name: &str| source.path().join(name);
    for name in ["same", "touched", "grown", "replaced", "rewritten", "moved"] {
        write(at(name), text(name.len() as u64, 5000));
    }
    let (objects, repository) = in_memory(small_chunks());
    back_up(&repository, source.path());

    write(at("grown"), text(5, 5001));
    // Same size, same mtime, another inode.
    let before = at("replaced").metadata().unwrap();
    write(at("new"), random(7, 5000));
    set_mtime(&at("new"), &before);
    fs::rename(at("new"), at("replaced")).unwrap();
    assert_eq!(at("replaced").metadata().unwrap().mtime_nsec(), before.mtime_nsec());
    // Same size, same mtime, same inode: only ctime tells.
    let before = at("rewritten").metadata().unwrap();
    write(at("rewritten"), random(8, 5000));
    set_mtime(&at("rewritten"), &before);
    assert_eq!(at("rewritten").metadata().unwrap().ino(), before.ino());
    File::open(at("touched")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    fs::rename(at("moved"), at("moved-away")).unwrap();

    let repository = open(&objects);
    let (id, snapshot) = back_up(&repository, source.path());
    assert_eq!(snapshot.summary.unchanged_files, 1, "only 'same' is");
    restored(&repository, &snapshot).unwrap().expect(&Picture::of(source.path())).unwrap();
    let (_, again) = back_up(&repository, source.path());
    assert_eq!(again.parent, Some(id));
    assert_eq!((again.summary.unchanged_files, again.summary.new_bytes), (6, 0));
    assert_eq!(again.root.node, snapshot.root.node);
}

#[test]
fn forced_backups_read_everything_and_store_nothing_twice() {
    let source = folder();
    write(source.path().join("a"), text(1, 50_000));
    let (objects, repository) = in_memory(small_chunks());
    let (_, first) = back_up(&repository, source.path());
    let forced = backup::Options { force: true, ..options() };
    let (snapshot, _) = back_up_with(&repository, source.path(), &forced);
    assert_eq!((snapshot.summary.unchanged_files, snapshot.parent), (0, None));
    assert_eq!(snapshot.summary.new_bytes, 0);
    assert_eq!(snapshot.root.node, first.root.node);
    expect_nothing_stored_twice(&objects, &repository).unwrap();
}

#[test]
fn a_snapshot_does_not_depend_on_the_number_of_threads() {
    let source = folder();
    for number in 0..60 {
        let path = format!("{}/{}/{number}", number % 4, number % 7);
        write(source.path().join(path), text(number, 1000 * number as usize));
    }
    write(source.path().join("large"), random(1, 5_000_000));
    write(source.path().join("zeros"), vec![0; 3_000_000]);
    let mut roots = Vec::new();
    for threads in 1..=8 {
        for container_len in [1, 64 << 10, 16 << 20] {
            let (objects, repository) = in_memory(small_chunks());
            let threads = NonZero::new(threads);
            let chosen = backup::Options { threads, container_len, ..options() };
            let (snapshot, _) = back_up_with(&repository, source.path(), &chosen);
            expect_nothing_stored_twice(&objects, &repository).unwrap();
            let Snapshot { root, summary, .. } = snapshot;
            roots.push((root, summary.files, summary.bytes, summary.new_bytes));
        }
    }
    roots.windows(2).for_each(|pair| assert_eq!(pair[0], pair[1]));
}

#[test]
fn a_file_of_many_batches_has_a_recipe_of_several_levels() {
    let source = folder();
    let bytes = random(3, 12_000_000);
    write(source.path().join("large"), &bytes);
    let (objects, repository) = in_memory(config(64, 256, 1024));
    let (_, snapshot) = back_up(&repository, source.path());
    let entry = repository.entry_at(ObjectId::random(), &snapshot, b"large").unwrap();
    let Node::File { content, .. } = entry.node else { panic!("{entry:?}") };
    assert!(content.depth >= 2, "{content:?}");
    let repository = open(&objects);
    expect_clean(&repository).unwrap();
    restored(&repository, &snapshot).unwrap().expect(&Picture::of(source.path())).unwrap();

    // An edit in the middle stores a few chunks and nodes anew, not the recipe.
    let edited = [&bytes[..6_000_000], b"edit", &bytes[6_000_000..]].concat();
    write(source.path().join("large"), edited);
    let (_, next) = back_up(&repository, source.path());
    assert!(next.summary.new_bytes < 200_000, "{:?}", next.summary);
    restored(&open(&objects), &next).unwrap().expect(&Picture::of(source.path())).unwrap();
}

#[test]
fn a_directory_of_many_entries_is_a_tree_of_many_chunks() {
    let source = folder();
    for number in 0..3000 {
        write(source.path().join(format!("many/{number:05}")), "");
    }
    let (objects, repository) = in_memory(small_chunks());
    let (_, snapshot) = back_up(&repository, source.path());
    let entry = repository.entry_at(ObjectId::random(), &snapshot, b"/many/").unwrap();
    let Node::Directory { tree } = entry.node else { panic!("{entry:?}") };
    assert!(matches!(tree, Tree::Stored(recipe) if recipe.depth > 0), "{tree:?}");
    assert_eq!(paths(&open(&objects), &snapshot).len(), 3001);
}

#[test]
fn holes_are_not_read_and_come_back_as_holes() {
    use std::os::unix::fs::FileExt;
    let source = folder();
    let path = source.path().join("sparse");
    write(&path, "");
    #[expect(clippy::disallowed_methods, reason = "a source of backups, no durable byte")]
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(64 << 20).unwrap();
    file.write_all_at(&random(1, 100_000), 5 << 20).unwrap();
    file.write_all_at(b"end", (40 << 20) + 17).unwrap();
    write(source.path().join("only-hole"), "");
    #[expect(clippy::disallowed_methods, reason = "a source of backups, no durable byte")]
    let hole = File::options().write(true).open(source.path().join("only-hole")).unwrap();
    hole.set_len(1 << 20).unwrap();
    drop((file, hole));
    if fs::metadata(&path).unwrap().blocks() > 2048 {
        return onefold_testkit::skip("the file system for temporary files has no holes");
    }
    let (objects, repository) = in_memory(small_chunks());
    let (_, snapshot) = back_up(&repository, source.path());
    assert!(snapshot.summary.bytes < 1 << 20, "{:?}", snapshot.summary);
    let restored = crate::common::try_restore(
        &open(&objects),
        &snapshot,
        &onefold_store::restore::Options { verify: true, ..Default::default() },
    )
    .unwrap();
    assert_eq!((restored.report.failed, restored.report.verified), (0, 2));
    Picture::of(restored.folder.path()).expect(&Picture::of(source.path())).unwrap();
    assert!(restored.folder.path().join("sparse").metadata().unwrap().blocks() < 4096);
    // The second time it is recognised as it is.
    assert_eq!(back_up(&repository, source.path()).1.summary.unchanged_files, 2);
}

#[test]
fn patterns_and_ignore_files_leave_out_what_they_fit() {
    let source = folder();
    for path in [
        "keep.txt",
        "drop.o",
        "a/drop.o",
        "a/keep.o",
        "cache/x",
        "a/cache/x",
        "target/x",
        "a/target/x",
        "a/b/secret",
        "a/b/open",
        "a/c/secret",
    ] {
        write(source.path().join(path), path);
    }
    let (_, repository) = in_memory(small_chunks());
    let chosen = backup::Options {
        excludes: ["*.o", "!keep.o", "/target", "cache/"].map(String::from).to_vec(),
        ..options()
    };
    let (snapshot, issues) = back_up_with(&repository, source.path(), &chosen);
    let kept = [
        "a",
        "a/b",
        "a/b/open",
        "a/b/secret",
        "a/c",
        "a/c/secret",
        "a/keep.o",
        "a/target",
        "a/target/x",
        "keep.txt",
    ];
    assert_eq!(paths(&repository, &snapshot), kept);
    assert_eq!(issues, [] as [&str; 0]);

    // Ignore files hold for their directory and below; the nearest decides.
    write(source.path().join(".gitignore"), "*.o\nsecret\n");
    write(source.path().join("a/c/.onefoldignore"), "!secret\n");
    let chosen = backup::Options { ignore_files: true, ..options() };
    let (snapshot, _) = back_up_with(&repository, source.path(), &chosen);
    let found = paths(&repository, &snapshot);
    let has = |path: &str| found.iter().any(|found| found == path);
    assert!(has("a/c/secret") && has("target/x") && has(".gitignore"), "{found:?}");
    assert!(!has("a/b/secret") && !has("drop.o") && !has("a/keep.o"), "{found:?}");
    // What the user excludes stays out, whatever an ignore file takes back.
    let chosen = backup::Options { excludes: vec!["secret".into()], ..chosen };
    let (snapshot, _) = back_up_with(&repository, source.path(), &chosen);
    assert!(!paths(&repository, &snapshot).contains(&"a/c/secret".to_string()));

    let bad = backup::Options { excludes: vec!["{a".into()], ..options() };
    let refused = try_back_up(&repository, &[source.path()], &bad, &Progress::default());
    let refused = refused.map(drop).unwrap_err();
    assert!(matches!(refused, StoreError::Pattern(_)), "{refused}");
}

#[test]
fn of_a_cache_only_its_tag_is_kept() {
    let source = folder();
    let tag = "Signature: 8a477f597d28d172789f06886806bc55\n# a cache\n";
    write(source.path().join("cache/CACHEDIR.TAG"), tag);
    write(source.path().join("cache/content/x"), "x");
    write(source.path().join("no-cache/CACHEDIR.TAG"), "something else");
    write(source.path().join("no-cache/x"), "x");
    let (_, repository) = in_memory(small_chunks());
    let chosen = backup::Options { exclude_if_present: vec![Marker::cache()], ..options() };
    let (snapshot, _) = back_up_with(&repository, source.path(), &chosen);
    let kept = ["cache", "cache/CACHEDIR.TAG", "no-cache", "no-cache/CACHEDIR.TAG", "no-cache/x"];
    assert_eq!(paths(&repository, &snapshot), kept);
    let (snapshot, _) = back_up_with(&repository, source.path(), &options());
    assert!(paths(&repository, &snapshot).contains(&"cache/content/x".to_string()));

    let marker = Marker { name: "CACHEDIR.TAG".into(), head: Vec::new() };
    let chosen = backup::Options { exclude_if_present: vec![marker], ..options() };
    let (snapshot, _) = back_up_with(&repository, source.path(), &chosen);
    let kept = ["cache", "cache/CACHEDIR.TAG", "no-cache", "no-cache/CACHEDIR.TAG"];
    assert_eq!(paths(&repository, &snapshot), kept, "any content marks if none is asked for");
}

#[test]
fn a_rehearsal_tells_what_a_backup_would_store_and_stores_nothing() {
    let source = folder();
    let bytes = random(1, 2_000_000);
    write(source.path().join("a"), &bytes);
    write(source.path().join("b/again"), &bytes);
    write(source.path().join("known"), text(2, 300_000));
    let (objects, repository) = in_memory(small_chunks());
    let known = source.path().join("known");
    try_back_up(&repository, &[&known], &options(), &Progress::default()).unwrap();
    let before = names(&*objects, "");
    for _ in 0..2 {
        let repository = open(&objects);
        let sources = [source.path().to_owned()];
        let (progress, cancel) = (Progress::default(), Cancel::default());
        let summary =
            backup::rehearse(&repository, &sources, &options(), &progress, &cancel).unwrap();
        assert_eq!((summary.files, summary.bytes), (3, 4_300_000));
        assert!((2_000_000..2_100_000).contains(&summary.new_bytes), "{summary:?}");
        assert!(summary.stored_bytes >= 2_000_000, "{summary:?}");
        assert_eq!(names(&*objects, ""), before);
    }
    // The same repository then stores all of it.
    let repository = open(&objects);
    let sources = [source.path().to_owned()];
    let (progress, cancel) = (Progress::default(), Cancel::default());
    backup::rehearse(&repository, &sources, &options(), &progress, &cancel).unwrap();
    let (_, snapshot) = back_up(&repository, source.path());
    assert!(restored(&open(&objects), &snapshot).unwrap().bytes("b/again").unwrap() == bytes);
}

#[test]
fn a_backup_compresses_as_it_is_asked_to() {
    let source = folder();
    write(source.path().join("text"), text(1, 2_000_000));
    let stored = |compression| {
        let (objects, repository) = in_memory(small_chunks());
        let chosen = backup::Options { compression, ..options() };
        let (snapshot, _) = back_up_with(&repository, source.path(), &chosen);
        expect_clean(&open(&objects)).unwrap();
        snapshot.summary.stored_bytes
    };
    let off = stored(Compression::Off);
    assert!(off > 2_000_000, "{off}");
    let [configured, fast, best] =
        [Compression::Configured, Compression::Level(1), Compression::Level(19)].map(stored);
    // Which chunks share a group is not the same each time.
    assert!(configured.abs_diff(fast) < fast / 100, "made with level 1: {configured} {fast}");
    assert!(best < fast / 100 * 98 && fast < off / 2, "{best} {fast} {off}");
}

#[test]
fn a_repository_inside_its_source_is_left_out_and_said_to_be() {
    let source = folder();
    write(source.path().join("file"), "content");
    let place = source.path().join("backups/repository");
    fs::create_dir_all(&place).unwrap();
    let objects: Arc<dyn Objects> = Arc::new(LocalObjects::create(&place).unwrap());
    let repository = Repository::init(objects, small_chunks()).unwrap();
    let own = place.metadata().unwrap();
    let chosen = backup::Options { own_repository: Some((own.dev(), own.ino())), ..options() };
    for _ in 0..2 {
        let (snapshot, issues) = back_up_with(&repository, source.path(), &chosen);
        assert_eq!(paths(&repository, &snapshot), ["backups", "file"]);
        assert_eq!(snapshot.summary.unreadable, 0);
        assert!(issues.len() == 1 && issues[0].contains("is this repository"), "{issues:?}");
    }
}

#[test]
fn several_sources_are_entries_of_the_root_by_their_own_names() {
    let (a, b) = (folder(), folder());
    write(a.path().join("docs/x"), "x");
    write(b.path().join("music/y"), "y");
    write(b.path().join("docs/z"), "z");
    write(b.path().join("note"), "note");
    let (_, repository) = in_memory(small_chunks());
    let back_up =
        |sources: &[&Path]| try_back_up(&repository, sources, &options(), &Progress::default());
    let (docs, music, note) =
        (a.path().join("docs"), b.path().join("music"), b.path().join("note"));
    let (id, snapshot) = back_up(&[&note, &docs, &music, &docs]).unwrap();
    assert_eq!(
        paths(&repository, &snapshot),
        ["docs", "docs/x", "music", "music/y", "note"],
        "a source named twice is there once"
    );
    assert_eq!(snapshot.paths.len(), 3);
    let (_, again) = back_up(&[&music, &note, &docs]).unwrap();
    assert_eq!((again.parent, again.summary.unchanged_files), (Some(id), 3));

    let (_, single) = back_up(&[&note]).unwrap();
    assert_eq!(paths(&repository, &single), ["note"]);

    let missing = back_up(&[&a.path().join("nothing")]).map(drop).unwrap_err();
    assert!(missing.to_string().contains("nothing"), "{missing}");
    assert!(matches!(back_up(&[]), Err(StoreError::Unusable(_))));
}

#[test]
fn a_link_that_is_named_is_followed_and_one_below_is_not() {
    let source = folder();
    write(source.path().join("real/x"), "x");
    std::os::unix::fs::symlink("real", source.path().join("link")).unwrap();
    let (_, repository) = in_memory(small_chunks());
    let (_, named) = back_up(&repository, &source.path().join("link"));
    assert_eq!(paths(&repository, &named), ["x"]);
    let (_, below) = back_up(&repository, source.path());
    assert_eq!(paths(&repository, &below), ["link", "real", "real/x"]);
}

#[test]
fn snapshots_are_found_by_what_the_user_gives() {
    let source = folder();
    let (_, repository) = in_memory(small_chunks());
    let parse = |text: &str| text.parse::<SnapshotSpec>().unwrap();
    let none = repository.find(&SnapshotSpec::Latest).map(drop).unwrap_err();
    assert!(matches!(none, StoreError::NoSnapshot { .. }), "{none}");
    let mut ids = Vec::new();
    for number in 0..40 {
        write(source.path().join("x"), number.to_string());
        ids.push(back_up(&repository, source.path()).0);
    }
    assert_eq!(repository.find(&SnapshotSpec::Latest).unwrap().0, ids[39]);
    let listed: Vec<_> = repository.snapshots().unwrap().0.into_iter().map(|(id, _)| id).collect();
    assert_eq!(listed, ids, "oldest first");
    for id in &ids {
        assert_eq!(repository.find(&parse(&id.to_string().to_uppercase())).unwrap().0, *id);
    }
    // Forty ids begin with sixteen digits.
    let fitting = |digit: &str| ids.iter().filter(|id| id.to_string().starts_with(digit)).count();
    for digit in "0123456789abcdef".split("").filter(|digit| !digit.is_empty()) {
        match (fitting(digit), repository.find(&parse(digit))) {
            (0, Err(StoreError::NoSnapshot { spec, .. })) => assert_eq!(spec, digit),
            (1, Ok((id, _))) => assert!(id.to_string().starts_with(digit)),
            (many, Err(StoreError::AmbiguousSnapshot { count, .. })) => assert_eq!(count, many),
            (many, other) => panic!("{many} fit '{digit}': {:?}", other.map(|(id, _)| id)),
        }
    }
}

#[test]
fn entries_are_found_by_path_and_walked_in_order() {
    let source = folder();
    write(source.path().join("a/b/c"), "content");
    write(source.path().join("a.txt"), "x");
    let (_, repository) = in_memory(small_chunks());
    let (id, snapshot) = back_up(&repository, source.path());
    let size =
        |path: &str| repository.entry_at(id, &snapshot, path.as_bytes()).map(|entry| entry.size());
    for path in ["a/b/c", "/a/b/c", "a//b/c/", "//a/b//c"] {
        assert_eq!(size(path).unwrap(), 7, "{path}");
    }
    assert_eq!(repository.entry_at(id, &snapshot, b"/").unwrap(), snapshot.root);
    for path in ["b", "a/b/c/d", "a/./b", "a/../a", "a.tx"] {
        let error = size(path).unwrap_err();
        assert!(matches!(&error, StoreError::NoPath { path: p, .. } if p == path), "{error}");
    }
    let mut walked = Vec::new();
    let mut visit = |path: &[u8], _: &Entry| {
        walked.push(String::from_utf8(path.to_vec()).unwrap());
        Ok(())
    };
    repository.walk(&snapshot.root, &mut visit).unwrap();
    assert_eq!(walked, ["a", "a/b", "a/b/c", "a.txt"]);
    let stop = repository.walk(&snapshot.root, &mut |_, _| Err(StoreError::Interrupted));
    assert!(matches!(stop, Err(StoreError::Interrupted)));
}

#[test]
fn a_diff_names_every_kind_of_change_and_nothing_else() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let source = folder();
    let at = |path: &str| source.path().join(path);
    for path in ["same", "edited", "mode", "touched", "removed/x", "to-link", "deep/same/x"] {
        write(at(path), path);
    }
    symlink("one", at("link")).unwrap();
    let (_, repository) = in_memory(small_chunks());
    let (_, before) = back_up(&repository, source.path());
    write(at("edited"), "other content");
    fs::set_permissions(at("mode"), fs::Permissions::from_mode(0o600)).unwrap();
    File::open(at("touched")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    fs::remove_dir_all(at("removed")).unwrap();
    fs::remove_file(at("to-link")).unwrap();
    symlink("same", at("to-link")).unwrap();
    fs::remove_file(at("link")).unwrap();
    symlink("two", at("link")).unwrap();
    write(at("added/y"), "y");
    let (_, after) = back_up(&repository, source.path());
    let changes = |before: &Entry, after: &Entry| {
        let mut changes = Vec::new();
        diff(&repository, before, after, &mut |path, change| {
            let kind = match change {
                Change::Added(_) => "added",
                Change::Removed(_) => "removed",
                Change::Content { .. } => "content",
                Change::Metadata { .. } => "metadata",
                Change::Kind { .. } => "kind",
            };
            changes.push(format!("{kind} {}", String::from_utf8_lossy(path)));
        })
        .unwrap();
        changes
    };
    let forward = [
        "metadata .",
        "added added",
        "added added/y",
        "content edited",
        "content link",
        "metadata mode",
        "removed removed",
        "removed removed/x",
        "kind to-link",
        "metadata touched",
    ];
    assert_eq!(changes(&before.root, &after.root), forward);
    let back = changes(&after.root, &before.root);
    assert_eq!(back.len(), forward.len());
    assert!(back.contains(&"removed added/y".into()) && back.contains(&"added removed/x".into()));
    assert_eq!(changes(&after.root, &after.root), [] as [&str; 0]);
}

#[test]
fn stats_add_up_to_what_the_containers_hold() {
    let source = folder();
    for twin in ["a", "b"] {
        for number in 0..10 {
            write(source.path().join(format!("{twin}/{number}")), random(number, 40_000));
        }
    }
    let (objects, repository) = in_memory(small_chunks());
    assert_eq!(stats(&repository).unwrap().dedup_ratio(), None);
    back_up(&repository, source.path());
    let found = stats(&repository).unwrap();
    let envelope = Envelope::plain(repository.id());
    let (mut unique, mut stored, mut chunks) = (0, 0, 0);
    for info in objects.list("containers/").unwrap() {
        let id = container_id(&info.name).unwrap();
        let directory = Directory::read(&objects, &envelope, id, info.size).unwrap();
        unique += directory.chunks.iter().map(|chunk| u64::from(chunk.len)).sum::<u64>();
        chunks += directory.chunks.len() as u64;
        stored += info.size;
    }
    assert_eq!((found.unique_bytes, found.stored_bytes), (unique, stored));
    assert_eq!(found.data_chunks + found.metadata_chunks, chunks);
    assert_eq!(found.unique_bytes - found.metadata_bytes, 400_000, "each byte of a twin once");
    assert_eq!((found.logical_bytes, found.snapshots), (800_000, 1));
    let ratio = found.dedup_ratio().unwrap();
    assert!((1.8..=2.0).contains(&ratio), "{ratio}");
    assert!((0.9..1.5).contains(&found.compression_ratio().unwrap()));
    let sizes = found.chunk_sizes.unwrap();
    assert!(sizes.min <= sizes.median && sizes.median <= sizes.max && sizes.max <= 4096);
    back_up(&repository, source.path());
    let twice = stats(&repository).unwrap();
    assert_eq!((twice.logical_bytes, twice.unique_bytes), (1_600_000, unique));
}

#[test]
fn a_summary_counts_what_the_snapshot_holds() {
    let source = folder();
    write(source.path().join("a/x"), "12345");
    write(source.path().join("b"), random(1, 10_000));
    fs::create_dir(source.path().join("empty")).unwrap();
    std::os::unix::fs::symlink("b", source.path().join("link")).unwrap();
    let (_, repository) = in_memory(small_chunks());
    let progress = Progress::default();
    let chosen = backup::Options { count_first: true, ..options() };
    let (_, snapshot) = try_back_up(&repository, &[source.path()], &chosen, &progress).unwrap();
    let summary = snapshot.summary;
    assert_eq!((summary.files, summary.directories, summary.others), (2, 3, 1));
    assert_eq!((summary.bytes, summary.unreadable), (10_005, 0));
    assert!(summary.new_bytes > 10_005, "trees are new too");
    assert_eq!(progress.total_files.into_inner(), 2);
    assert_eq!(progress.total_bytes.into_inner(), 10_005);
    assert_eq!((progress.files.into_inner(), progress.bytes.into_inner()), (2, 10_005));
}

#[test]
fn an_interrupted_backup_keeps_what_it_stored_for_the_next() {
    let source = folder();
    for number in 0..20 {
        write(source.path().join(number.to_string()), random(number, 1_000_000));
    }
    let (objects, _) = in_memory(small_chunks());
    let cancel = Arc::new(Cancel::default());
    let (left, cancelling) = (AtomicU64::new(4), Arc::clone(&cancel));
    let hooked = Hooked::new(&objects, move |_| {
        if left.fetch_sub(1, Ordering::SeqCst) == 1 {
            cancelling.cancel();
        }
    });
    let repository = Repository::open(Arc::new(hooked)).unwrap();
    let paths = [source.path().to_path_buf()];
    let interrupted =
        backup::backup(&repository, &paths, &options(), &Progress::default(), &cancel);
    assert!(matches!(interrupted, Err(StoreError::Interrupted)));
    assert!(repository.snapshots().unwrap().0.is_empty());
    let kept = names(&objects, "containers/").len();
    assert!(kept >= 4);
    assert!(!names(&objects, "index/").is_empty(), "an index of what is kept");
    expect_clean(&open(&objects)).unwrap();

    // Through the same handle and through a new one.
    for repository in [repository, open(&objects)] {
        let (_, snapshot) = back_up(&repository, source.path());
        assert!(snapshot.summary.new_bytes < 19_000_000, "{:?}", snapshot.summary);
        expect_clean(&open(&objects)).unwrap();
        expect_nothing_stored_twice(&objects, &repository).unwrap();
        restored(&open(&objects), &snapshot).unwrap().expect(&Picture::of(source.path())).unwrap();
    }
}

#[test]
fn a_backup_cancelled_before_it_begins_stores_nothing() {
    let source = folder();
    write(source.path().join("x"), "x");
    let (objects, repository) = in_memory(small_chunks());
    let cancel = Cancel::default();
    cancel.cancel();
    let paths = [source.path().to_path_buf()];
    let done = backup::backup(&repository, &paths, &options(), &Progress::default(), &cancel);
    assert!(matches!(done, Err(StoreError::Interrupted)));
    assert_eq!(names(&objects, ""), ["config"]);
}

#[test]
fn a_source_that_changes_all_the_time_gives_snapshots_that_are_whole() {
    #![expect(clippy::disallowed_methods, reason = "a source of backups, no durable byte")]
    let source = folder();
    let root = source.path();
    for number in 0..30 {
        write(root.join(format!("{number}/file")), text(number, 20_000));
    }
    write(root.join("steady"), random(1, 100_000));
    let is_done = AtomicBool::new(false);
    let (objects, repository) = in_memory(small_chunks());
    let mut backups = 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0.. {
                if is_done.load(Ordering::Relaxed) {
                    return;
                }
                let number = round % 30;
                let directory = root.join(number.to_string());
                let file = directory.join("file");
                // Shrinks, grows, vanishes with its directory, is another kind of thing.
                match round % 4 {
                    0 => File::options().write(true).open(&file).unwrap().set_len(10).unwrap(),
                    1 => fs::write(&file, text(round, 60_000)).unwrap(),
                    2 => fs::remove_dir_all(&directory).unwrap(),
                    _ => {
                        let _ = fs::remove_file(&file);
                        std::os::unix::fs::symlink("elsewhere", &file).unwrap();
                        fs::remove_file(&file).unwrap();
                    }
                }
                write(&file, text(round, 20_000));
            }
        });
        for _ in 0..15 {
            let done = try_back_up(&repository, &[root], &options(), &Progress::default());
            let (_, snapshot) = done.unwrap();
            let restored = restored(&repository, &snapshot).unwrap();
            assert_eq!(restored.bytes("steady").unwrap(), random(1, 100_000));
            backups += 1;
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert_eq!(backups, 15);
    expect_clean(&open(&objects)).unwrap();
}

#[test]
fn what_vanishes_after_it_was_listed_is_an_issue_and_the_rest_is_kept() {
    let source = folder();
    let root = source.path().to_path_buf();
    for path in ["a-repository/x", "b/x", "c", "d"] {
        write(root.join(path), path);
    }
    let (_, repository) = in_memory(small_chunks());
    let own = root.join("a-repository").metadata().unwrap();
    let chosen = backup::Options { own_repository: Some((own.dev(), own.ino())), ..options() };
    // The walk says that it met the repository, and only then goes on to what was listed with it.
    let said = Issues::default();
    let (issues, gone) = (said.clone(), root.clone());
    let progress = Progress::new(move |issue| {
        issues.note(issue);
        let _ = fs::remove_dir_all(gone.join("b"));
        let _ = fs::remove_file(gone.join("c"));
    });
    let (_, snapshot) = try_back_up(&repository, &[&root], &chosen, &progress).unwrap();
    assert_eq!(paths(&repository, &snapshot), ["d"]);
    assert_eq!(snapshot.summary.unreadable, 2);
    assert!(said.say("/b': ") && said.say("/c': "), "{:?}", said.all());
    expect_clean(&repository).unwrap();

    let gone = try_back_up(&repository, &[&root.join("b")], &options(), &Progress::default());
    assert!(matches!(gone, Err(StoreError::File { .. })));
}

#[test]
fn a_file_that_shrinks_or_grows_while_it_is_read_is_kept_as_it_was_read_and_said_to_be() {
    #![expect(clippy::disallowed_methods, reason = "a source of backups, no durable byte")]
    // More than all queues hold: most of it is not read yet when the first container is put.
    const LEN: u64 = 40_000_000;
    for (len, threads) in [(LEN / 2, 1), (LEN + 1, 1), (LEN / 2, 3), (LEN + 1, 3)] {
        let source = folder();
        let path = source.path().join("file");
        let bytes = random(1, LEN as usize);
        write(&path, &bytes);
        write(source.path().join("next"), "next");
        let (objects, _) = in_memory(config(16 << 10, 64 << 10, 256 << 10));
        let first = Once::new();
        let resize = move |name: &str| {
            if name.starts_with("containers/") {
                first.call_once(|| {
                    File::options().write(true).open(&path).unwrap().set_len(len).unwrap();
                });
            }
        };
        let hooked = Hooked::new(&objects, resize);
        let repository = Repository::open(Arc::new(hooked)).unwrap();
        let options = backup::Options { threads: NonZero::new(threads), ..options() };
        let (snapshot, issues) = back_up_with(&repository, source.path(), &options);
        assert!(issues.len() == 1 && issues[0].contains("changed while it was read"), "{issues:?}");
        let found = restored(&open(&objects), &snapshot).unwrap();
        assert!(found.bytes("file").unwrap() == &bytes[..LEN.min(len) as usize]);
        assert_eq!(found.bytes("next").unwrap(), b"next");
        // It is not taken for unchanged afterwards.
        let (_, again) = back_up(&open(&objects), source.path());
        restored(&open(&objects), &again).unwrap().expect(&Picture::of(source.path())).unwrap();
    }
}

/// The recipe that a file of these bytes has if it is one chunk.
fn chunk_of(bytes: &[u8]) -> Recipe {
    Recipe::chunk(Fingerprinter::blake3().fingerprint(bytes), bytes.len() as u64)
}

#[test]
fn a_file_of_one_chunk_is_named_by_its_bytes() {
    let source = folder();
    write(source.path().join("x"), "some bytes");
    let (_, repository) = in_memory(small_chunks());
    let (_, snapshot) = back_up(&repository, source.path());
    let Node::File { content, size, extents } = &entries(&repository, &snapshot)["x"].node else {
        panic!("x is a file")
    };
    assert_eq!((*content, *size, extents), (chunk_of(b"some bytes"), 10, &None));
}

#[test]
fn every_fingerprint_and_chunker_that_a_repository_may_have_works() {
    use onefold_cdc::Algorithm;
    use onefold_fingerprint::FingerprintAlgorithm;
    let source = folder();
    write(source.path().join("a"), random(1, 300_000));
    write(source.path().join("b"), [random(2, 1000), random(1, 300_000)].concat());
    for algorithm in Algorithm::ALL {
        for fingerprint in
            [FingerprintAlgorithm::Blake3, FingerprintAlgorithm::Sha256, FingerprintAlgorithm::Sha3]
        {
            let params = onefold_cdc::Params::for_mean(*algorithm, 4096).unwrap();
            let chosen = onefold_store::Config { params, fingerprint, ..small_chunks() };
            let (objects, _) = in_memory(chosen.clone());
            let repository = open(&objects);
            assert_eq!(*repository.config(), chosen);
            let (_, snapshot) = back_up(&repository, source.path());
            let after = open(&objects);
            expect_clean(&after).unwrap();
            restored(&after, &snapshot).unwrap().expect(&Picture::of(source.path())).unwrap();
        }
    }
    let keyed =
        onefold_store::Config { fingerprint: FingerprintAlgorithm::Blake3Keyed, ..small_chunks() };
    let refused = Repository::init(Arc::new(MemoryObjects::new()), keyed).map(drop).unwrap_err();
    assert!(matches!(refused, StoreError::Unusable(_)), "{refused}");
}

#[test]
fn names_that_are_no_text_come_back() {
    use std::os::unix::ffi::OsStringExt;
    let source = folder();
    let odd: Vec<PathBuf> = [&b"\xff\xfe"[..], b"new\nline", b" ", b"-rf", b"~", b"a\\b"]
        .iter()
        .map(|name| source.path().join(std::ffi::OsString::from_vec(name.to_vec())))
        .collect();
    odd.iter().for_each(|path| write(path, "x"));
    write(source.path().join("n".repeat(255)), "long");
    let (objects, repository) = in_memory(small_chunks());
    let (_, snapshot) = back_up(&repository, source.path());
    restored(&open(&objects), &snapshot).unwrap().expect(&Picture::of(source.path())).unwrap();
}

#[test]
fn a_repository_refuses_parameters_that_it_cannot_record() {
    let sizes = ChunkSizes::unbounded(1, 4096).unwrap();
    let params = Params::new(Algorithm::Gear, sizes);
    let config = Config { params, ..Config::standard() };
    let objects = Arc::new(MemoryObjects::new());
    let error = Repository::init(objects.clone(), config).err().unwrap();
    assert!(error.to_string().contains("without a maximum"), "{error}");
    assert_eq!(objects.list("").unwrap(), []);
}
