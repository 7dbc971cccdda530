//! Snapshots, trees and recipes that were made by someone who means harm: each is refused with an error
//! that names what is wrong, nothing is written outside of a restore's target, nobody hangs, and nobody
//! takes more memory than a bound, however much the objects claim to hold.
//!
//! They are in plain repositories, so that no key stands in the attacker's way: every envelope and
//! every check is right. Other objects are in `hostile_objects.rs`, encrypted repositories in
//! `hostile_sealed.rs`.

use std::os::unix::ffi::OsStrExt;

use onefold_container::Content;
use onefold_fingerprint::Fingerprint;
use onefold_store::{Recipe, forget};

use crate::common::attacked::{A_MOMENT, A_SECOND, ALONE, BOUND, Scene, read, read_for, varints};
use crate::common::open;
use crate::common::sealed::{Forger, directory, entry, file, sparse_file, symlink};

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
