//! What a check, a prune and a repair take in memory does not grow with what a directory holds, nor
//! with what a small snapshot expands to.

use std::sync::Arc;

use onefold_backend::Objects;
use onefold_container::Content;
use onefold_fingerprint::Fingerprint;
use onefold_seal::ObjectId;
use onefold_store::{Cancel, Progress, Recipe, check, repair};

use crate::common::attacked::{ALONE, BOUND, Scene, prune_all, run, varints};
use crate::common::sealed::{Forger, directory, entry, file, sparse_file, symlink};
use crate::common::{chain, checked, copy, open};

const MIB: usize = 1 << 20;
/// With a group of 32 MiB and an entry of as much, which is put together in a buffer that grows.
const BOUND_WITH_ENTRY: usize = BOUND + 4 * 32 * MIB;

const NOWHERE: Recipe = Recipe { len: 1, depth: 0, root: Fingerprint::from_bytes([7; 32]) };

/// What a check and a prune of these objects say, each within `bound` bytes.
fn check_and_prune(
    what: &str,
    bound: usize,
    objects: &Arc<dyn Objects>,
) -> (check::Report, Result<(), String>) {
    let of_check = Arc::clone(objects);
    let report =
        run(&format!("check of {what}"), bound, move || checked(&open(&of_check)).unwrap());
    let of_prune = copy(&**objects);
    let pruned = run(&format!("prune of {what}"), bound, move || {
        prune_all(&of_prune).map_err(|error| chain(&error))
    });
    (report, pruned)
}

/// What a repair made of the snapshot `id`, within `bound` bytes.
fn repaired(
    what: &str,
    bound: usize,
    objects: &Arc<dyn Objects>,
    id: ObjectId,
) -> repair::Rewritten {
    let objects = copy(&**objects);
    let options =
        repair::Options { host: "host".into(), user: "user".into(), container_len: 1 << 20 };
    let report = run(&format!("repair of {what}"), bound, move || {
        repair::repair(&open(&objects), &options, &Progress::default(), &Cancel::default()).unwrap()
    });
    report.snapshots.into_iter().find(|one| one.old == id).unwrap()
}

/// Stores the tree with `count` entries that `entry` makes, in chunks of 64 KiB.
fn wide(forger: &Forger, count: usize, entry: impl Fn(&[u8]) -> Vec<u8>) -> Recipe {
    let bytes: Vec<u8> =
        (0..count).flat_map(|number| entry(format!("{number:09}").as_bytes())).collect();
    let chunks: Vec<Recipe> =
        bytes.chunks(64 << 10).map(|bytes| forger.chunk(Content::Metadata, bytes)).collect();
    forger.node(&chunks)
}

#[test]
fn a_wide_directory_takes_no_memory_for_its_entries() {
    let _alone = ALONE.lock();
    let scene = Scene::new();
    let content = scene.forger.chunk(Content::Data, b"content");
    let tree = wide(&scene.forger, 300_000, |name| file(name, content));
    scene.forger.snapshot(scene.forger.tree(&[directory(b"wide", tree)]));
    let what = "300,000 files in a directory";
    let (report, pruned) = check_and_prune(what, BOUND, &scene.objects);
    assert_eq!((report.findings, pruned), (vec![], Ok(())));
    assert_eq!(report.trees, 3);

    // One of them is lost, so that a repair writes the tree anew.
    let tree = wide(&scene.forger, 300_000, |name| match name {
        b"000299999" => file(name, NOWHERE),
        _ => file(name, content),
    });
    let id = scene.forger.snapshot(scene.forger.tree(&[directory(b"wide", tree)]));
    let one = repaired(what, BOUND, &scene.objects, id);
    assert_eq!(one.lost, [b"wide/000299999".to_vec()]);
}

#[test]
fn attributes_and_extents_that_are_compressed_to_nothing_take_no_memory() {
    let _alone = ALONE.lock();
    let scene = Scene::new();
    let forger = &scene.forger;
    // So many attributes that have neither name nor value.
    let mut attributes = entry(0, b"file", 0o644);
    attributes.pop();
    attributes.extend(varints(&[15 << 20]));
    attributes.resize(32 * MIB, 0);
    let tree = forger.tree(&[directory(b"bad", forger.tree(&[attributes]))]);
    let id = forger.snapshot(tree);
    let (report, pruned) = check_and_prune("attributes", BOUND_WITH_ENTRY, &scene.objects);
    let text = "an attribute's name without NUL";
    assert!(report.findings[0].to_string().contains(text), "{:?}", report.findings);
    assert!(pruned.unwrap_err().contains(text));
    let one = repaired("attributes", BOUND_WITH_ENTRY, &scene.objects, id);
    assert_eq!(one.lost, [b"bad".to_vec()]);

    // A file of 16,777,216 bytes, each an extent of its own.
    let scene = Scene::new();
    let forger = &scene.forger;
    let level = |recipe: Recipe| forger.node(&vec![recipe; 4096]);
    let content = level(level(forger.chunk(Content::Data, b"x")));
    let mut extents = varints(&[16 << 20]);
    extents.resize(extents.len() + 32 * MIB, 1);
    let sparse = sparse_file(b"sparse", 1 << 40, content, &extents);
    let tree = forger.tree(&[directory(b"in", forger.tree(&[file(b"lost", NOWHERE), sparse]))]);
    let id = forger.snapshot(tree);
    let (report, pruned) = check_and_prune("extents", BOUND_WITH_ENTRY, &scene.objects);
    assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
    assert!(report.findings[0].object.ends_with("/in/lost"), "{:?}", report.findings);
    assert!(pruned.unwrap_err().contains("is in no container"));
    let one = repaired("extents", BOUND_WITH_ENTRY, &scene.objects, id);
    assert_eq!(one.lost, [b"in/lost".to_vec()]);
}

#[test]
fn an_entry_that_is_too_long_is_named_with_snapshot_path_and_limit() {
    let _alone = ALONE.lock();
    let scene = Scene::new();
    let forger = &scene.forger;
    let entry = symlink(b"long", &vec![b't'; 70 * MIB]);
    let parts = entry.chunks(40 * MIB).map(|part| forger.chunk(Content::Metadata, part));
    let long = forger.node(&parts.collect::<Vec<_>>());
    let id = forger.snapshot(forger.tree(&[directory(b"bad", long)]));
    let text = format!(
        "the entry at byte 0 of tree {} has {} bytes, expected at most 67108864",
        long.root, long.len
    );
    let (report, pruned) = check_and_prune("a long entry", BOUND_WITH_ENTRY, &scene.objects);
    assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
    assert_eq!(report.findings[0].to_string(), format!("snapshot {id}: /bad: {text}"));
    let said = pruned.unwrap_err();
    assert!(said.contains(&format!("snapshot {id} is not whole: '/bad': {text}")), "{said}");
    let one = repaired("a long entry", BOUND_WITH_ENTRY, &scene.objects, id);
    assert_eq!(one.lost, [b"bad".to_vec()]);
}

#[test]
fn directories_that_multiply_what_is_lost_do_not_multiply_the_memory_of_a_repair() {
    let _alone = ALONE.lock();
    // The second makes more paths than a number can tell.
    for levels in [20, 70] {
        let scene = Scene::new();
        let forger = &scene.forger;
        let leaf = forger.tree(&[file(b"file", NOWHERE)]);
        let tree = (0..levels)
            .fold(leaf, |tree, _| forger.tree(&[directory(b"a", tree), directory(b"b", tree)]));
        let id = forger.snapshot(tree);
        let one = repaired("multiplied losses", BOUND, &scene.objects, id);
        assert!(one.new.is_some());
        let paths = 1u64.checked_shl(levels).unwrap_or(u64::MAX);
        assert_eq!(one.lost.len() as u64 + one.unlisted, paths);
        assert!(one.lost.len() > 50_000, "{}", one.lost.len());
        let first = [&b"a/".repeat(levels as usize)[..], b"file"].concat();
        assert_eq!(one.lost[0], first);
    }
}

#[test]
fn long_directories_inside_one_another_take_no_memory_each() {
    let _alone = ALONE.lock();
    let scene = Scene::new();
    let forger = &scene.forger;
    // The link is behind the directory, into which a walk descends first.
    let link = symlink(b"link", &vec![b't'; MIB]);
    for lost in [false, true] {
        let content = if lost { NOWHERE } else { forger.chunk(Content::Data, b"content") };
        let leaf = forger.tree(&[file(b"file", content)]);
        let tree = (0..300)
            .fold(leaf, |tree, _| forger.tree(&[directory(b"directory", tree), link.clone()]));
        let id = forger.snapshot(tree);
        let what = "300 directories of a mebibyte";
        if lost {
            let one = repaired(what, BOUND, &scene.objects, id);
            assert_eq!((one.lost.len(), one.unlisted), (1, 0));
        } else {
            let (report, pruned) = check_and_prune(what, BOUND, &scene.objects);
            assert_eq!((report.findings, pruned), (vec![], Ok(())));
        }
    }
}

#[test]
fn findings_that_long_paths_multiply_take_no_more_memory_than_a_bound() {
    let _alone = ALONE.lock();
    let scene = Scene::new();
    let forger = &scene.forger;
    let missing: Vec<Recipe> = (0..4096u32)
        .map(|number| {
            let mut root = [9; 32];
            root[..4].copy_from_slice(&number.to_le_bytes());
            Recipe::chunk(Fingerprint::from_bytes(root), 1)
        })
        .collect();
    let leaf = forger.tree(&[file(b"file", forger.node(&missing))]);
    let name = [b'n'; 255];
    let tree = (0..100).fold(leaf, |tree, _| forger.tree(&[directory(&name, tree)]));
    forger.snapshot(tree);
    let (report, _) = check_and_prune("findings", BOUND, &scene.objects);
    // Each at a path of 25,650 bytes.
    assert_eq!(report.findings.len() as u64 + report.unlisted, 4096);
    assert!((500..1000).contains(&report.findings.len()), "{}", report.findings.len());
}
