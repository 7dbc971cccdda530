//! Repositories that were made by someone who means harm: each is refused with an error that names
//! what is wrong, nothing is written outside of a restore's target, nobody hangs, and nobody takes
//! more memory than a bound, however much the objects claim to hold.
//!
//! They are plain repositories, so that no key stands in the attacker's way: every envelope and
//! every check is right. What somebody without the key can do to an encrypted one is at the end.

mod common;

use std::fs;
use std::num::NonZero;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use common::picture::Picture;
use common::sealed::{Forger, directory, entry, entry_of_time, file, sparse_file, symlink};
use common::watched::{self, Watched};
use common::{
    Issues, Protection, back_up, chain, checked, copy, in_memory, init, names, open, replace,
    small_chunks, try_open, write,
};
use onefold_backend::{LocalObjects, MemoryObjects, Objects};
use onefold_container::{Content, container_id};
use onefold_fingerprint::{Fingerprint, Fingerprinter};
use onefold_seal::wire::Put;
use onefold_seal::{Envelope, Kind, ObjectId};
use onefold_store::prune::{self, Unused};
use onefold_store::tree::{Entry, Node};
use onefold_store::{
    Cancel, Progress, Recipe, Repository, Snapshot, StoreError, diff, forget, restore, stats,
};
use onefold_testkit::random;
use tempfile::TempDir;

#[global_allocator]
static WATCHED: Watched = Watched;

/// Allocations are counted for the whole process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Caches of 36 MiB, working memory of zstd, and what a test itself takes.
const BOUND: usize = 64 << 20;
/// With the longest group that there may be, in the cache, in the making and in a copy.
const BOUND_WITH_GROUP: usize = 3 * (65 << 20) + BOUND;
/// Nothing here takes a tenth of it unless somebody hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// What came of an operation, and how many bytes it took at most.
fn run<T: Send + 'static>(what: &str, bound: usize, run: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, is_done) = mpsc::channel();
    let before = watched::begin();
    // As much stack as a main thread has.
    let running = thread::Builder::new().stack_size(8 << 20).spawn(move || {
        let result = run();
        let _ = done.send(());
        result
    });
    if is_done.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!("{what} hangs");
    }
    let result = running.unwrap().join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let taken = watched::peak_since(before);
    assert!(taken <= bound, "{what} took {taken} bytes, {bound} are allowed");
    result
}

/// A folder of which nothing but `target` may change.
struct Outside {
    folder: TempDir,
    before: Picture,
}

impl Outside {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path().join("keep/file"), "untouched");
        fs::create_dir_all(folder.path().join("in/target")).unwrap();
        let before = Picture::of(&folder.path().join("keep"));
        Self { folder, before }
    }

    fn target(&self) -> std::path::PathBuf {
        self.folder.path().join("in/target")
    }

    fn expect_untouched(&self, what: &str) {
        let now = Picture::of(&self.folder.path().join("keep"));
        now.expect(&self.before).unwrap_or_else(|broken| panic!("{what}: {broken}"));
        let beside = |path: &Path| -> Vec<_> {
            fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect()
        };
        assert_eq!(beside(&self.folder.path().join("in")), ["target"], "{what}");
        assert_eq!(beside(self.folder.path()).len(), 2, "{what}");
    }
}

/// What is said of a repository by everyone who reads it.
struct Said {
    restored: Result<restore::Report, String>,
    issues: Vec<String>,
    findings: Vec<String>,
    viewed: Result<(), String>,
    pruned: Result<(), String>,
    compared: Result<(), String>,
}

impl Said {
    /// Everyone who has to do with what is bad says `text`.
    fn expect_refused(&self, what: &str, text: &str) {
        let has = |said: &str| said.contains(text);
        assert!(
            self.findings.iter().any(|said| has(said)),
            "{what}: check says {:?}",
            self.findings
        );
        match &self.restored {
            Ok(report) => {
                assert!(report.failed > 0, "{what}: restored {report:?}");
                assert!(self.issues.iter().any(|said| has(said)), "{what}: {:?}", self.issues);
            }
            Err(said) => assert!(has(said), "{what}: restore says {said}"),
        }
        for (who, said) in
            [("view", &self.viewed), ("prune", &self.pruned), ("diff", &self.compared)]
        {
            let Err(said) = said else { panic!("{what}: {who} takes it") };
            assert!(has(said), "{what}: {who} says {said}");
        }
    }
}

/// How many entries a look at a snapshot goes through before it has seen enough.
const LOOKS: usize = 3000;

/// Looks at everything below `entry` as a mounted file system does: a directory, a part of a file.
fn look(repository: &Repository, entry: &Entry) -> Result<(), StoreError> {
    let view = repository.view()?;
    let (mut waiting, mut seen) = (vec![entry.clone()], 0);
    while let Some(entry) = waiting.pop() {
        seen += 1;
        if seen > LOOKS {
            return Ok(());
        }
        for offset in [0, entry.size() / 2, entry.size().saturating_sub(10), u64::MAX] {
            assert!(view.read(&entry, offset, 128 << 10)?.len() <= 128 << 10);
        }
        // Only as many as fit are kept, the last ones first: a chain is followed to its end.
        waiting.extend(view.entries(&entry)?.iter().take(100).cloned());
    }
    Ok(())
}

/// How long a restore takes at most that comes to an end by itself, on a busy machine.
const A_MINUTE: Duration = Duration::from_secs(60);

/// After which a restore that would go on for ever is stopped.
const A_SECOND: Duration = Duration::from_secs(1);

/// The same for directories, each of which a restore remembers until it ends: a second of a fast
/// machine takes more memory than the bound.
const A_MOMENT: Duration = Duration::from_millis(200);

/// Lets everyone read the snapshot `id`.
fn read(
    what: &str,
    bound: usize,
    objects: &Arc<dyn Objects>,
    id: ObjectId,
    honest: ObjectId,
) -> Said {
    read_for(A_MINUTE, what, bound, objects, id, honest)
}

/// The same; a restore is stopped after `patience`.
fn read_for(
    patience: Duration,
    what: &str,
    bound: usize,
    objects: &Arc<dyn Objects>,
    id: ObjectId,
    honest: ObjectId,
) -> Said {
    let spec = |id: ObjectId| id.to_string().parse().unwrap();
    let outside = Outside::new();
    let (target, of_restore) = (outside.target(), Arc::clone(objects));
    let issues = Issues::default();
    let progress = issues.progress();
    let restored = run(&format!("restore of {what}"), bound, move || {
        let repository = try_open(of_restore).map_err(|error| chain(&error))?;
        let (_, snapshot) = repository.find(&spec(id)).map_err(|error| chain(&error))?;
        let options = restore::Options { threads: NonZero::new(2), ..restore::Options::default() };
        let (cancel, is_done) = (Cancel::default(), AtomicUsize::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                let end = Instant::now() + patience;
                while Instant::now() < end && is_done.load(Ordering::Relaxed) == 0 {
                    thread::sleep(Duration::from_millis(5));
                }
                cancel.cancel();
            });
            let report = restore::restore(
                &repository,
                &snapshot.root,
                &target,
                &options,
                &progress,
                &cancel,
            );
            is_done.store(1, Ordering::Relaxed);
            report.map_err(|error| chain(&error))
        })
    });
    outside.expect_untouched(what);

    let of_check = Arc::clone(objects);
    let findings = run(&format!("check of {what}"), bound, move || match try_open(of_check) {
        Ok(repository) => {
            let findings = checked(&repository).unwrap().findings;
            findings.iter().map(ToString::to_string).collect()
        }
        Err(error) => vec![chain(&error)],
    });
    let of_view = Arc::clone(objects);
    let viewed = run(&format!("view of {what}"), bound, move || {
        let repository = try_open(of_view)?;
        let (_, snapshot) = repository.find(&spec(id))?;
        look(&repository, &snapshot.root)
    });
    let of_diff = Arc::clone(objects);
    let compared = run(&format!("diff of {what}"), bound, move || {
        let repository = try_open(of_diff)?;
        let [one, other] = [repository.find(&spec(honest))?.1, repository.find(&spec(id))?.1];
        let mut seen = 0;
        // A look at so many differences is enough, and the panic that ends it is not an error.
        let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            diff::diff(&repository, &one.root, &other.root, &mut |_, _| {
                seen += 1;
                if seen > LOOKS {
                    std::panic::resume_unwind(Box::new("enough"));
                }
            })
        }));
        looked.unwrap_or(Ok(()))
    });
    let of_prune = copy(&**objects);
    let pruned = run(&format!("prune of {what}"), bound, move || prune_all(&of_prune));
    let said = |result: Result<(), StoreError>| result.map_err(|error| chain(&error));
    Said {
        restored,
        issues: issues.all(),
        findings,
        viewed: said(viewed),
        pruned: said(pruned),
        compared: said(compared),
    }
}

fn prune_all(objects: &Arc<dyn Objects>) -> Result<(), StoreError> {
    let options = prune::Options { max_unused: Unused::Bytes(0), ..prune::Options::default() };
    let repository = try_open(Arc::clone(objects))?;
    prune::prune(&repository, &options, &Progress::default(), &Cancel::default()).map(drop)
}

/// A repository with an honest snapshot, and somebody who puts another beside it.
struct Scene {
    objects: Arc<dyn Objects>,
    forger: Forger,
    honest: ObjectId,
}

impl Scene {
    fn new() -> Self {
        let (objects, repository) = in_memory(small_chunks());
        let forger = Forger::new(&objects, &repository);
        let tree = forger.tree(&[file(b"honest", forger.chunk(Content::Data, b"honest"))]);
        let honest = forger.snapshot(tree);
        Self { objects, forger, honest }
    }

    /// Everyone refuses the snapshot whose root has these entries, and says `text`.
    fn expect_refused(&self, what: &str, entries: &[Vec<u8>], text: &str) {
        let id = self.forger.snapshot(self.forger.tree(entries));
        let said = read(what, BOUND, &self.objects, id, self.honest);
        said.expect_refused(what, text);
        forget::forget(&open(&self.objects), &[id]).unwrap();
    }
}

fn varints(numbers: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    numbers.iter().for_each(|number| bytes.put_varint(*number));
    bytes
}

#[test]
fn names_that_lead_elsewhere_or_stand_twice_are_refused_by_everyone() {
    let _alone = ALONE.lock();
    let scene = Scene::new();
    let content = scene.forger.chunk(Content::Data, b"evil");
    let below = scene.forger.tree(&[file(b"file", content)]);
    let elsewhere = std::env::temp_dir().join("evil").as_os_str().as_bytes().to_vec();
    for name in [&b""[..], b".", b"..", b"../../keep/file", b"a/b", b"nul\0l", &elsewhere] {
        for evil in [file(name, content), symlink(name, b"/"), directory(name, below)] {
            let what = format!("the name {:?}", String::from_utf8_lossy(name));
            scene.expect_refused(&what, &[evil], "a name that is one path component");
        }
    }
    let twice = [
        [file(b"a", content), file(b"a", content)],
        [symlink(b"a", b"../../keep"), directory(b"a", below)],
        [directory(b"b", below), directory(b"a", below)],
    ];
    for entries in twice {
        scene.expect_refused("a name that stands twice", &entries, "names in ascending order");
    }
}

#[test]
fn counts_and_lengths_that_nothing_stands_behind_are_refused_by_everyone() {
    let _alone = ALONE.lock();
    let scene = Scene::new();
    let content = scene.forger.chunk(Content::Data, b"eight by");
    let huge = u64::MAX;
    let mut attributes = entry(0, b"file", 0o644);
    attributes.pop();
    attributes.extend(varints(&[huge]));
    let mut long_name = vec![0];
    long_name.extend(varints(&[huge]));
    let mut long_target = entry(3, b"link", 0o777);
    long_target.extend(varints(&[huge]));
    let inline = |len: u64, tree: &[u8]| {
        [&entry(8, b"directory", 0o755)[..], &varints(&[len]), tree].concat()
    };
    let sparse = |extents: &[u64]| sparse_file(b"file", 1 << 60, content, &varints(extents));
    for (what, entry, text) in [
        ("a count of attributes", attributes, "the count of extended attributes"),
        ("a name's length", long_name, "a name"),
        ("a target's length", long_target, "a link's target"),
        ("a tree's length", inline(huge, b""), "a directory's tree"),
        ("a long tree in an entry", inline(1025, &[0; 1025]), "a tree short enough to stand here"),
        ("a tree in an entry that is none", inline(1, &[200]), "inside the entry"),
        ("a count of extents", sparse(&[huge]), "the count of extents"),
        ("a hole", sparse(&[1, huge, 8]), "a hole inside the file"),
        ("an extent", sparse(&[1, 5, huge]), "an extent inside the file"),
        ("no extent", sparse(&[1, 5, 0]), "an extent that is not empty"),
        ("an extent of more", sparse(&[1, 0, 9]), "a content as long as the file or its extents"),
        ("a kind", entry(200, b"file", 0o644), "an entry's kind from 0 to 8"),
        ("a mode", entry(4, b"pipe", 0o10000), "permission bits"),
    ] {
        scene.expect_refused(what, &[entry], text);
    }
    // Trees that are too long, or that the chunks they are said to have do not make.
    for (what, tree, text) in [
        (
            "a tree of 2^60 bytes",
            Recipe { len: 1 << 60, ..content },
            "expected 1152921504606846976",
        ),
        ("a tree of no tree", content, "is malformed at byte"),
        ("a tree that is longer than its chunk", Recipe { len: 9, ..content }, "expected 9"),
        (
            "a tree that is nowhere",
            Recipe { root: Fingerprint::from_bytes([9; 32]), ..content },
            "is in no container",
        ),
    ] {
        let id = scene.forger.snapshot(tree);
        let said = read(what, BOUND, &scene.objects, id, scene.honest);
        assert!(
            said.findings.iter().any(|said| said.contains(text)),
            "{what}: {:?}",
            said.findings
        );
        assert!(said.viewed.is_err() && said.compared.is_err() && said.pruned.is_err(), "{what}");
        assert!(said.restored.is_err() || said.restored.unwrap().failed > 0, "{what}");
        forget::forget(&open(&scene.objects), &[id]).unwrap();
    }
}

#[test]
fn files_of_lying_recipes_are_refused_by_everyone_who_reads_them() {
    let _alone = ALONE.lock();
    let scene = Scene::new();
    let forger = &scene.forger;
    let chunk = forger.chunk(Content::Data, b"eight by");
    let node = forger.node(&[chunk, chunk]);
    let nowhere = Fingerprint::from_bytes([7; 32]);
    let crowd = forger.node(&vec![chunk; 4097]);
    let mut counted = varints(&[u64::MAX]);
    counted.extend_from_slice(&[0; 40]);
    let counted = forger.chunk(Content::Metadata, &counted);
    for (what, recipe, text) in [
        ("longer than its chunk", Recipe { len: 9, ..chunk }, "9"),
        ("of a chunk that is nowhere", Recipe { root: nowhere, ..chunk }, "is in no container"),
        ("deeper than its nodes", Recipe { depth: 2, ..node }, "recipe node"),
        ("of more children than a node has", crowd, "at most 4096 children"),
        ("of 2^64 children", Recipe { len: 1 << 50, depth: 1, ..counted }, "the count of a node's"),
        ("longer than its children", Recipe { len: 17, ..node }, "children that fill their node"),
        ("as long as can be", Recipe { len: u64::MAX, ..node }, "children that fill their node"),
    ] {
        let id = forger.snapshot(forger.tree(&[file(b"bad", recipe)]));
        let said = read(what, BOUND, &scene.objects, id, scene.honest);
        let in_check = said.findings.iter().find(|said| said.contains("/bad"));
        assert!(in_check.is_some_and(|said| said.contains(text)), "{what}: {:?}", said.findings);
        assert_eq!(said.restored.unwrap().failed, 1, "{what}");
        assert!(said.issues.iter().any(|said| said.contains(text)), "{what}: {:?}", said.issues);
        assert!(said.viewed.is_err(), "{what}");
        forget::forget(&open(&scene.objects), &[id]).unwrap();
    }
    let deep = Recipe { depth: 12, ..chunk };
    scene.expect_refused("a depth of 12", &[file(b"f", deep)], "a recipe at most 11 levels deep");
}

/// 4,096 times `recipe`, `levels` times over.
fn multiplied(forger: &Forger, recipe: Recipe, levels: u8) -> Recipe {
    (0..levels).fold(recipe, |recipe, _| forger.node(&vec![recipe; 4096]))
}

#[test]
fn a_few_nodes_that_list_a_quintillion_chunks_keep_nobody_busy() {
    let _alone = ALONE.lock();
    let scene = Scene::new();
    // 4096^5 = 2^60 bytes, of six chunks.
    let all = multiplied(&scene.forger, scene.forger.chunk(Content::Data, b"x"), 5);
    assert_eq!(all.len, 1 << 60);
    let id = scene.forger.snapshot(scene.forger.tree(&[file(b"bomb", all)]));
    let said = read_for(A_SECOND, "2^60 bytes", BOUND, &scene.objects, id, scene.honest);
    // It is a file like any other, and who restores it has to have the room.
    assert_eq!(said.findings, [] as [&str; 0]);
    assert_eq!((said.viewed, said.pruned, said.compared), (Ok(()), Ok(()), Ok(())));
    let stopped = said.restored.unwrap_err();
    assert!(stopped.contains("interrupted") || stopped.contains("No space"), "{stopped}");
    forget::forget(&open(&scene.objects), &[id]).unwrap();

    // The same with a chunk that is nowhere, and with one that is no node.
    for (what, broken) in [
        ("is in no container", Recipe::chunk(Fingerprint::from_bytes([7; 32]), 1)),
        ("recipe node", Recipe { depth: 1, ..scene.forger.chunk(Content::Data, b"x") }),
    ] {
        let broken = multiplied(&scene.forger, broken, 4);
        let id = scene.forger.snapshot(scene.forger.tree(&[file(b"bomb", broken)]));
        let said = read(what, BOUND, &scene.objects, id, scene.honest);
        assert!(said.findings.len() <= 5 * 4096, "{} findings", said.findings.len());
        assert!(said.findings.iter().all(|said| said.contains(what)), "{:?}", said.findings[0]);
        assert_eq!(said.restored.unwrap().failed, 1);
        assert!(said.pruned.is_err() && said.viewed.is_err());
        forget::forget(&open(&scene.objects), &[id]).unwrap();
    }
}

#[test]
fn directories_that_are_in_themselves_in_effect_keep_nobody_busy() {
    let _alone = ALONE.lock();
    let scene = Scene::new();
    let forger = &scene.forger;
    let leaf = forger.tree(&[file(b"file", forger.chunk(Content::Data, b"x"))]);
    // 2^60 paths of 60 trees; and the same with trees of long recipes.
    for is_long in [false, true] {
        let tree = (0..60).fold(leaf, |tree, _| {
            let tree = if is_long { forger.node(&[forger.node(&[tree])]) } else { tree };
            forger.tree(&[directory(b"a", tree), directory(b"b", tree)])
        });
        let id = forger.snapshot(tree);
        let said = read_for(A_MOMENT, "2^60 paths", BOUND, &scene.objects, id, scene.honest);
        assert_eq!(said.findings, [] as [&str; 0]);
        assert_eq!((said.viewed, said.pruned, said.compared), (Ok(()), Ok(()), Ok(())));
        assert!(said.restored.unwrap_err().contains("interrupted"));
        forget::forget(&open(&scene.objects), &[id]).unwrap();
    }
    // Deeper than any path. Long names: each directory knows the way to it.
    let name = [b'n'; 255];
    for depth in [300, 2100] {
        let tree = (0..depth).fold(leaf, |tree, _| forger.tree(&[directory(&name, tree)]));
        let id = forger.snapshot(tree);
        let said = read("a deep tree", BOUND, &scene.objects, id, scene.honest);
        if depth > 2048 {
            let text = "nested more than 2048 deep";
            assert!(said.findings[0].contains(text), "{:?}", said.findings);
            assert!(said.pruned.unwrap_err().contains(text));
            assert!(said.compared.unwrap_err().contains(text));
        } else {
            assert_eq!(said.findings, [] as [&str; 0]);
            assert_eq!((said.viewed, said.pruned, said.compared), (Ok(()), Ok(()), Ok(())));
        }
        forget::forget(&open(&scene.objects), &[id]).unwrap();
    }
}

#[test]
fn chunks_that_are_not_what_they_are_called_make_no_loop() {
    let _alone = ALONE.lock();
    let scene = Scene::new();
    let called = Fingerprint::from_bytes([0x11; 32]);
    // A tree that holds itself, and a node that lists itself, if the footer were believed.
    let len = directory(b"a", Recipe::chunk(called, 100)).len() as u64;
    let itself = Recipe::chunk(called, len);
    let tree = directory(b"a", itself);
    assert_eq!(tree.len() as u64, len);
    let name = scene.forger.group(0, &tree, len, &[(called, len)]);
    let id = scene.forger.snapshot(itself);
    let said = read("a tree in itself", BOUND, &scene.objects, id, scene.honest);
    assert!(said.findings.iter().any(|said| said.starts_with(&name)), "{:?}", said.findings);
    for said in [said.viewed, said.compared, said.pruned] {
        assert!(said.unwrap_err().contains("have fingerprint"));
    }
    assert_eq!(said.restored.unwrap().failed, 1);
}

#[test]
fn groups_that_give_more_than_they_say_or_say_too_much_are_refused() {
    let _alone = ALONE.lock();
    let zeros = zstd::bulk::compress(&vec![0; 256 << 20], 3).unwrap();
    let prints = |bytes: &[u8]| Fingerprinter::blake3().fingerprint(bytes);
    let claimed = prints(b"claimed");
    let cases: [(&str, u8, &[u8], u64, &str); 5] = [
        ("256 MiB in a group of 1,000 bytes", 1, &zeros, 1000, "does not decompress to 1000"),
        ("a group above the limit", 1, &zeros, 65 << 24, "a group's length"),
        ("a group of 2^63 bytes", 1, &zeros, 1 << 63, "a group's length"),
        ("what is no frame", 1, b"no frame", 1000, "does not decompress to 1000"),
        ("a raw group of another length", 0, b"raw", 4, "a raw group stored in its own length"),
    ];
    for (what, codec, stored, len, text) in cases {
        let scene = Scene::new();
        let name = scene.forger.group(codec, stored, len, &[(claimed, len)]);
        let tree = scene.forger.tree(&[file(b"bomb", Recipe::chunk(claimed, len))]);
        let id = scene.forger.snapshot(tree);
        let said = read(what, BOUND, &scene.objects, id, scene.honest);
        let found = said.findings.iter().any(|said| said.starts_with(&name) && said.contains(text));
        assert!(found, "{what}: {:?}", said.findings);
        assert_eq!(said.restored.unwrap().failed, 1, "{what}");
        assert!(said.viewed.is_err(), "{what}");
    }
    // The longest group that is allowed, of a few kilobytes: read, in bounded memory.
    let scene = Scene::new();
    let chunk = vec![0; 64 << 20];
    let stored = zstd::bulk::compress(&chunk, 3).unwrap();
    let print = prints(&chunk);
    drop(chunk);
    scene.forger.group(1, &stored, 64 << 20, &[(print, 64 << 20)]);
    let tree = scene.forger.tree(&[file(b"zeros", Recipe::chunk(print, 64 << 20))]);
    let id = scene.forger.snapshot(tree);
    let said = read("64 MiB of zeros", BOUND_WITH_GROUP, &scene.objects, id, scene.honest);
    assert_eq!(said.findings, [] as [&str; 0]);
    assert_eq!(said.restored.unwrap().files, 1);
    assert_eq!((said.viewed, said.pruned, said.compared), (Ok(()), Ok(()), Ok(())));
}

#[test]
fn forged_footers_are_refused_and_what_they_hide_is_found() {
    let _alone = ALONE.lock();
    let print = Fingerprinter::blake3().fingerprint(b"chunk");
    // content, groups, then stored length, length, codec, check, chunks; fingerprint, length
    let footer = |head: &[u64], codec: u8, chunks: &[u64]| {
        let mut footer = varints(&head[..2]);
        footer.extend(varints(&head[2..4]));
        footer.put_u8(codec);
        footer.extend_from_slice(onefold_seal::Check::of(&[b"chunk"]).as_bytes());
        footer.put_varint(head[4]);
        for len in chunks {
            footer.extend_from_slice(print.as_bytes());
            footer.put_varint(*len);
        }
        footer
    };
    let huge = u64::MAX;
    for (what, footer, text) in [
        ("an unknown content", footer(&[2, 1, 5, 5, 1], 0, &[5]), "content 0 (data)"),
        ("2^64 groups", footer(&[0, huge, 5, 5, 1], 0, &[5]), "the count of groups"),
        ("2^64 chunks", footer(&[0, 1, 5, 5, huge], 0, &[5]), "the count of chunks"),
        ("an unknown codec", footer(&[0, 1, 5, 5, 1], 7, &[5]), "codec 0 (raw)"),
        ("a group before the header", footer(&[0, 1, 6, 6, 1], 0, &[6]), "where the footer begins"),
        ("a group that leaves room", footer(&[0, 1, 4, 4, 1], 0, &[4]), "where the footer begins"),
        ("a chunk outside", footer(&[0, 1, 5, 5, 1], 0, &[6]), "a chunk inside its group"),
        ("an empty chunk", footer(&[0, 1, 5, 5, 2], 0, &[5, 0]), "a chunk that is not empty"),
        ("chunks that overlap", footer(&[0, 1, 5, 5, 2], 0, &[5, 5]), "a chunk inside its group"),
        ("a chunk too few", footer(&[0, 1, 5, 5, 1], 0, &[4]), "chunks that fill their group"),
        ("no chunk", footer(&[0, 1, 5, 5, 0], 0, &[]), "chunks that fill their group"),
        ("bytes left over", [footer(&[0, 1, 5, 5, 1], 0, &[5]), vec![0]].concat(), "the end"),
        ("no footer", Vec::new(), "expected what the container holds"),
    ] {
        let scene = Scene::new();
        let name = scene.forger.container(b"chunk", &footer);
        let tree = scene.forger.tree(&[file(b"lost", Recipe::chunk(print, 5))]);
        let id = scene.forger.snapshot(tree);
        let said = read(what, BOUND, &scene.objects, id, scene.honest);
        let found = said.findings.iter().any(|said| said.starts_with(&name) && said.contains(text));
        assert!(found, "{what}: {:?}", said.findings);
        assert_eq!(said.restored.unwrap().failed, 1, "{what}");
        assert!(said.viewed.is_err() && said.pruned.is_err(), "{what}");
    }
    // The same chunk a hundred thousand times: one place serves, and prune keeps one.
    let scene = Scene::new();
    let (count, chunk) = (100_000, b"chunk");
    let stored = chunk.repeat(count);
    scene.forger.group(0, &stored, stored.len() as u64, &vec![(print, 5); count]);
    let id = scene.forger.snapshot(scene.forger.tree(&[file(b"a", Recipe::chunk(print, 5))]));
    let said = read("a chunk many times", BOUND, &scene.objects, id, scene.honest);
    assert_eq!((said.findings.len(), said.restored.unwrap().files), (0, 1));
    assert_eq!((said.viewed, said.pruned), (Ok(()), Ok(())));
}

#[test]
fn runs_that_lie_send_nobody_astray() {
    let _alone = ALONE.lock();
    let scene = Scene::new();
    let content = scene.forger.chunk(Content::Data, b"content");
    let other = scene.forger.chunk(Content::Data, b"another");
    let id = scene.forger.snapshot(scene.forger.tree(&[file(b"a", content)]));
    let containers: Vec<ObjectId> = names(&*scene.objects, "containers/")
        .iter()
        .map(|name| container_id(name).unwrap())
        .collect();
    // Each chunk where it is not: in any container, in a slot and of a length that are not its own.
    for (slot, len) in [(0, 7), (0, 1), (1, 7), (u32::MAX, u32::MAX)] {
        for position in 0..=containers.len() as u32 {
            let mut body = varints(&[containers.len() as u64]);
            containers.iter().for_each(|id| body.extend_from_slice(id.as_bytes()));
            let mut prints = [content.root, other.root];
            prints.sort();
            body.put_varint(2);
            for print in prints {
                body.extend_from_slice(print.as_bytes());
                [position, slot, len].into_iter().for_each(|number| body.put_u32(number));
            }
            let run = scene.forger.object("index/", Kind::Run, ObjectId::random(), &body);
            let said = read("a run that lies", BOUND, &scene.objects, id, scene.honest);
            assert!(said.findings.iter().any(|said| said.starts_with(&run)), "{:?}", said.findings);
            assert_eq!(said.restored.unwrap().files, 1);
            assert_eq!(said.viewed, Ok(()));
            // Nor is anything deleted on its word.
            let pruned = copy(&*scene.objects);
            prune_all(&pruned).unwrap();
            let repository = open(&pruned);
            let (_, snapshot) = repository.find(&id.to_string().parse().unwrap()).unwrap();
            let restored = common::restored(&repository, &snapshot).unwrap();
            assert_eq!(restored.bytes("a").unwrap(), b"content", "{position} {slot} {len}");
            scene.objects.delete(&run).unwrap();
        }
    }
    for (what, body, text) in [
        ("2^64 containers", varints(&[u64::MAX]), "the count of covered objects"),
        ("2^64 entries", varints(&[0, u64::MAX]), "the count of entries"),
        (
            "entries out of order",
            [varints(&[0, 2]), vec![9; 44], vec![8; 44]].concat(),
            "ascending",
        ),
    ] {
        let run = scene.forger.object("index/", Kind::Run, ObjectId::random(), &body);
        let said = read(what, BOUND, &scene.objects, id, scene.honest);
        let found = said.findings.iter().any(|said| said.starts_with(&run) && said.contains(text));
        assert!(found, "{what}: {:?}", said.findings);
        assert_eq!((said.restored.unwrap().files, said.viewed), (1, Ok(())));
        scene.objects.delete(&run).unwrap();
    }
}

#[test]
fn snapshots_intents_and_marks_that_lie_are_named_and_harm_no_other() {
    let _alone = ALONE.lock();
    let scene = Scene::new();
    let text_of = |error: &StoreError| chain(error);
    // A time, then three texts; then a list of paths.
    let head = varints(&[2, 0, 0, 0, 0]);
    let huge = u64::MAX;
    for (what, body) in [
        ("2^64 paths", [head.clone(), varints(&[huge])].concat()),
        ("2^64 tags", [head.clone(), varints(&[0, huge])].concat()),
        ("a parent of 3 bytes", [head.clone(), varints(&[0, 0, 3, 1, 1, 1])].concat()),
        ("a host's length", varints(&[2, 0, huge])),
        ("nothing", Vec::new()),
    ] {
        let name = scene.forger.object("snapshots/", Kind::Snapshot, ObjectId::random(), &body);
        let (there, damaged) = open(&scene.objects).snapshots().unwrap();
        assert_eq!((there.len(), damaged.len()), (1, 1), "{what}");
        assert!(text_of(&damaged[0]).contains(&name), "{what}: {}", text_of(&damaged[0]));
        let said = read(what, BOUND, &scene.objects, scene.honest, scene.honest);
        assert!(said.findings.iter().any(|said| said.starts_with(&name)), "{:?}", said.findings);
        assert_eq!(said.restored.unwrap().files, 1, "{what}");
        assert!(said.pruned.is_err(), "{what}: nobody knows what it needs");
        scene.objects.delete(&name).unwrap();
    }
    for (prefix, kind) in [("marks/", Kind::Mark), ("intents/", Kind::Intent)] {
        for body in [varints(&[huge]), varints(&[2, 0, 0, 0, 0, 1, huge]), vec![1; 16]] {
            let name = scene.forger.object(prefix, kind, ObjectId::random(), &body);
            let said = read(prefix, BOUND, &scene.objects, scene.honest, scene.honest);
            assert_eq!(said.restored.unwrap().files, 1);
            if kind == Kind::Mark {
                assert!(said.findings.iter().any(|said| said.contains(&name)));
                assert!(said.pruned.unwrap_err().contains(&name));
            }
            scene.objects.delete(&name).unwrap();
        }
    }
    // A mark that condemns everything costs nobody his data.
    let containers = names(&*scene.objects, "containers/");
    let mut body = varints(&[containers.len() as u64]);
    for name in &containers {
        body.extend_from_slice(container_id(name).unwrap().as_bytes());
    }
    scene.forger.object("marks/", Kind::Mark, ObjectId::random(), &body);
    let options = prune::Options { max_unused: Unused::Bytes(0), ..prune::Options::default() };
    prune::prune(&open(&scene.objects), &options, &Progress::default(), &Cancel::default())
        .unwrap();
    let said = read("what is left", BOUND, &scene.objects, scene.honest, scene.honest);
    assert_eq!((said.findings, said.restored.unwrap().files), (Vec::new(), 1));
}

#[test]
fn log_entries_that_lie_are_named_and_keep_nobody_busy() {
    let _alone = ALONE.lock();
    let scene = Scene::new();
    let at = |log: u8, number: u64| {
        let id = [&[log; 8][..], &number.to_be_bytes()].concat();
        ObjectId::from_bytes(id.try_into().unwrap())
    };
    let huge = u64::MAX;
    for (what, log, number, body, text) in [
        ("2^64 snapshots", 1, 0, varints(&[0, 0, 0, 0, huge]), "the count of snapshots"),
        ("2^64 forgotten", 2, 0, varints(&[0, 0, 0, 0, 0, huge]), "the count of forgotten"),
        ("a check of 3 bytes", 3, 0, varints(&[3, 1, 1, 1, 0, 0, 0, 0, 0]), "a check of 16 bytes"),
        ("nothing", 4, 0, Vec::new(), "malformed"),
        ("2^64 ranges", 5, 0, varints(&[0, 0, 0, 0, 0, 0, huge]), "the count of settled"),
        ("bytes left over", 8, 0, varints(&[0, 0, 0, 0, 0, 0, 0, 0]), "malformed"),
        ("the last number", 6, huge, [&[16][..], &[7; 21]].concat(), "malformed"),
    ] {
        let name = scene.forger.object("logs/", Kind::LogEntry, at(log, number), &body);
        let said = read(what, BOUND, &scene.objects, scene.honest, scene.honest);
        let is_named = |found: &String| found.starts_with(&name) && found.contains(text);
        assert!(said.findings.iter().any(is_named), "{what}: {:?}", said.findings);
        assert_eq!((said.restored.unwrap().files, said.viewed), (1, Ok(())), "{what}");
        scene.objects.delete(&name).unwrap();
    }
    // A log that seems to have 2^64 entries, with two of them.
    let body = varints(&[0, 0, 0, 0, 0, 0, 0]);
    let [first, last] =
        [0, huge].map(|number| scene.forger.object("logs/", Kind::LogEntry, at(7, number), &body));
    let found = checked(&open(&scene.objects)).unwrap().findings;
    let said: Vec<_> = found.iter().map(ToString::to_string).collect();
    let second = format!("logs/{}: is missing, though the log of writer", at(7, 1));
    assert!(said.len() == 1 && said[0].starts_with(&second), "{said:?}");
    // The last one may say that it is so, and nothing else.
    scene.objects.delete(&last).unwrap();
    for (settled, wrong) in [((1, huge - 1), 0), ((1, huge), 0), ((2, huge - 1), 1)] {
        let mut body = varints(&[0, 0, 0, 0, 0, 0, 1]);
        body.extend(varints(&[settled.0, settled.1]));
        let last = scene.forger.object("logs/", Kind::LogEntry, at(7, huge), &body);
        let found = checked(&open(&scene.objects)).unwrap().findings;
        assert_eq!(found.len(), wrong, "{settled:?}: {found:?}");
        scene.objects.delete(&last).unwrap();
    }
    // Nobody can go on with a log of a host of his.
    scene.objects.delete(&first).unwrap();
    let host = Envelope::plain(open(&scene.objects).id()).pseudonym(b"");
    let own = [&host[..], &huge.to_be_bytes()].concat();
    let own = ObjectId::from_bytes(own.try_into().unwrap());
    let name = scene.forger.object("logs/", Kind::LogEntry, own, &body);
    let error = forget::forget(&open(&scene.objects), &[scene.honest]).unwrap_err();
    assert!(chain(&error).contains(&name), "{}", chain(&error));
}

#[test]
fn times_and_totals_at_their_ends_are_borne() {
    let _alone = ALONE.lock();
    let scene = Scene::new();
    for secs in [i64::MIN, i64::MIN + 1, -1, i64::MAX] {
        let mut pipe = entry_of_time(4, b"pipe", 0o600, secs);
        pipe.extend(symlink(b"q", b"x"));
        let id = scene.forger.snapshot(scene.forger.tree(&[pipe]));
        let said = read("a time", BOUND, &scene.objects, id, scene.honest);
        assert_eq!((said.findings, said.viewed, said.pruned), (Vec::new(), Ok(()), Ok(())));
        // A file system that does not know the time says so; the entries are there.
        assert!(said.restored.unwrap().others + said.issues.len() as u64 >= 2);
        forget::forget(&open(&scene.objects), &[id]).unwrap();
    }
    // Snapshots that say of themselves that they have 2^64 - 1 of everything, at the ends of time.
    for secs in [i64::MIN, i64::MAX] {
        let mut body = Vec::new();
        body.put_signed(secs);
        body.extend(varints(&[999_999_999, 0, 0, 0, 0, 0, 0]));
        body.extend(varints(&[u64::MAX; 9]));
        body.extend(directory(b"", Recipe::EMPTY));
        scene.forger.object("snapshots/", Kind::Snapshot, ObjectId::random(), &body);
    }
    let repository = open(&scene.objects);
    assert_eq!(stats::stats(&repository).unwrap().logical_bytes, u64::MAX);
    let (snapshots, _) = repository.snapshots().unwrap();
    assert_eq!(snapshots.len(), 3);
    judge(snapshots);
    assert_eq!(checked(&repository).unwrap().findings, []);
}

/// Holds the snapshots against rules of every kind.
fn judge(snapshots: Vec<(ObjectId, Snapshot)>) {
    use onefold_store::forget::{Count, GroupBy, Period, Policy};
    let periods =
        [Period::Snapshot, Period::Hour, Period::Day, Period::Week, Period::Month, Period::Year];
    let counts = periods.map(|period| (period, Count::AtMost(1))).to_vec();
    let within = periods.map(|period| (period, "1y".parse().unwrap())).to_vec();
    let by = GroupBy { host: true, paths: true, tags: true };
    let policy = Policy { counts, within, tags: Vec::new() };
    for secs in [i64::MIN, 0, i64::MAX] {
        let now = onefold_store::tree::Time { secs, nanos: 0 };
        let groups = forget::judge(snapshots.clone(), by, &policy, now, &jiff::tz::TimeZone::UTC);
        assert!(groups.iter().all(|group| !group.is_lost()));
    }
}

/// Makes the file of an object as long as `len` says, without a byte more on the disk.
#[expect(clippy::disallowed_methods, reason = "an attacker at the disk, no durable byte")]
fn lengthen(root: &Path, name: &str, len: u64) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::OpenOptions::new().create(true).append(true).open(path).unwrap().set_len(len).unwrap();
}

#[test]
fn objects_that_are_longer_than_any_memory_are_refused_unread() {
    let _alone = ALONE.lock();
    let id = ObjectId::random();
    let container = onefold_container::container_name(id);
    for (name, text) in [
        (container, "does not begin with"),
        (format!("index/{id}"), "expected at most"),
        (format!("snapshots/{id}"), "expected at most"),
        (format!("receipts/{id}"), "expected at most"),
        (format!("marks/{id}"), "expected at most"),
        ("config".into(), "expected at most"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("repository");
        let objects: Arc<dyn Objects> = Arc::new(LocalObjects::create(&root).unwrap());
        let repository = Repository::init(Arc::clone(&objects), small_chunks()).unwrap();
        let source = folder.path().join("source");
        write(source.join("a"), "content");
        let (honest, _) = back_up(&repository, &source);
        lengthen(&root, &name, 1 << 40);
        let found = run(&format!("check of {name}"), BOUND, {
            let objects = Arc::clone(&objects);
            move || match try_open(objects) {
                Ok(repository) => checked(&repository).unwrap().findings,
                Err(error) => vec![onefold_store::check::Finding {
                    object: "open".into(),
                    problem: chain(&error),
                }],
            }
        });
        let says = |found: &onefold_store::check::Finding| {
            found.to_string().contains(&name) && found.problem.contains(text)
        };
        assert!(found.iter().any(says), "{name}: {found:?}");
        if name != "config" && !name.starts_with("marks/") {
            let restored = run(&format!("restore beside {name}"), BOUND, move || {
                let repository = open(&objects);
                let spec = honest.to_string().parse().unwrap();
                let (_, snapshot) = repository.find(&spec).unwrap();
                common::restored(&repository, &snapshot).map(drop)
            });
            assert_eq!(restored, Ok(()), "{name}");
        }
    }
    // A footer that says that it has 4 GiB, in a container that has room for it.
    let folder = tempfile::tempdir().unwrap();
    let objects: Arc<dyn Objects> = Arc::new(LocalObjects::create(folder.path()).unwrap());
    let repository = Repository::init(Arc::clone(&objects), small_chunks()).unwrap();
    let header = onefold_seal::Envelope::plain(repository.id()).header(Kind::Container, id);
    let name = onefold_container::container_name(id);
    objects.put(&name, header.to_vec().into()).unwrap();
    lengthen(folder.path(), &name, 5 << 30);
    #[expect(clippy::disallowed_methods, reason = "an attacker at the disk, no durable byte")]
    let mut file = fs::OpenOptions::new().append(true).open(folder.path().join(&name)).unwrap();
    std::io::Write::write_all(&mut file, &[&[0xff; 4][..], &[0; 16]].concat()).unwrap();
    let found = run("check of a long footer", BOUND, move || checked(&open(&objects)).unwrap());
    let [found] = &found.findings[..] else { panic!("{:?}", found.findings) };
    assert!(found.object == name && found.problem.contains("expected at most 67108864"), "{found}");
}

/// An encrypted repository with two snapshots, of one source before and after a change.
fn sealed() -> (TempDir, Arc<dyn Objects>, [ObjectId; 2], Picture) {
    let source = tempfile::tempdir().unwrap();
    for number in 0..6 {
        write(source.path().join(format!("{number}")), random(number, 30_000));
    }
    let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
    let repository = init(Arc::clone(&objects), small_chunks(), Protection::Encrypted).unwrap();
    let (first, _) = back_up(&repository, source.path());
    write(source.path().join("3"), random(33, 200_000));
    let (second, _) = back_up(&open(&objects), source.path());
    let picture = Picture::of(source.path());
    (source, objects, [first, second], picture)
}

/// What a check finds of `name` once its bytes are `bytes`; whatever is restored is right.
fn expect_named(
    objects: &Arc<dyn Objects>,
    name: &str,
    bytes: Vec<u8>,
    what: &str,
    snapshot: ObjectId,
    right: &Picture,
) {
    let objects = copy(&**objects);
    replace(&*objects, name, bytes);
    let repository = match try_open(Arc::clone(&objects)) {
        Ok(repository) => repository,
        Err(error) => return assert!(chain(&error).contains(name), "{what}: {}", chain(&error)),
    };
    let findings = checked(&repository).unwrap().findings;
    let named = findings.iter().any(|found| found.to_string().contains(name));
    assert!(named, "{what} of {name}: {findings:?}");
    let Ok((_, snapshot)) = repository.find(&snapshot.to_string().parse().unwrap()) else { return };
    let options = restore::Options::default();
    match common::try_restore(&repository, &snapshot, &options) {
        Ok(restored) => {
            Picture::of(restored.folder.path()).expect_no_other_bytes(right).unwrap();
        }
        Err(error) => assert!(!chain(&error).is_empty()),
    }
}

#[test]
fn sealed_objects_are_not_exchanged_mixed_or_brought_back_unseen() {
    let _alone = ALONE.lock();
    let (_source, objects, [_, second], picture) = sealed();
    for prefix in ["containers/", "index/", "snapshots/", "receipts/"] {
        let all = names(&*objects, prefix);
        assert!(all.len() > 1, "{prefix}");
        for pair in all.windows(2) {
            let [one, other] = [&pair[0], &pair[1]].map(|name| objects.get(name).unwrap());
            let expect = |what, bytes: Vec<u8>| {
                expect_named(&objects, &pair[0], bytes, what, second, &picture);
            };
            expect("another object's bytes", other.to_vec());
            expect("its header before another's rest", [&one[..48], &other[48..]].concat());
            expect("another's salt", [&one[..48], &other[48..80], &one[80..]].concat());
            expect("another's header", [&other[..48], &one[48..]].concat());
            expect("the end of another", {
                let half = one.len().min(other.len()) / 2;
                [&one[..one.len() - half], &other[other.len() - half..]].concat()
            });
            expect("its beginning only", one[..one.len() / 2].to_vec());
        }
    }
    // Groups of one container in another order.
    let id = open(&objects).id();
    let envelope = common::envelope(&*objects, id);
    let mut exchanged = 0;
    for name in names(&*objects, "containers/") {
        let object = objects.get(&name).unwrap();
        let id = container_id(&name).unwrap();
        let directory = onefold_container::Directory::of_object(&envelope, id, &object).unwrap();
        for pair in directory.groups.windows(2) {
            let [a, b] = [&pair[0], &pair[1]];
            let (start, middle) = (a.offset as usize, b.offset as usize);
            let end = middle + b.stored_len as usize;
            let mixed =
                [&object[..start], &object[middle..end], &object[start..middle], &object[end..]];
            expect_named(&objects, &name, mixed.concat(), "groups exchanged", second, &picture);
            exchanged += 1;
        }
    }
    println!("{exchanged} pairs of groups exchanged");
    // What was forgotten and pruned is brought back as it was: it is whole, and older.
    let before = copy(&*objects);
    let (first, _) = (names(&*objects, "snapshots/").remove(0), ());
    let first: ObjectId = first.strip_prefix("snapshots/").unwrap().parse().unwrap();
    forget::forget(&open(&objects), &[first]).unwrap();
    for name in names(&*before, "") {
        if objects.get(&name).is_err() {
            objects.put(&name, before.get(&name).unwrap()).unwrap();
        }
    }
    assert_eq!(checked(&open(&objects)).unwrap().findings, []);
}

/// Whether an entry is a directory, for the compiler: a view shows any node.
const _: fn(&Node) -> &'static str = Node::kind;
