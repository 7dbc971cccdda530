//! A repair restores what whole frames tell, keeps copies of what it gives up, and invents nothing.

#![allow(clippy::disallowed_methods, reason = "these tests damage what a pool wrote")]

use std::fs;
use std::sync::Arc;

use onefold_backend::Folder;
use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
use onefold_block::{BlockDevice, BlockSize};
use onefold_testkit::random;
use onefold_volume::{Hash, Pool, Repaired, VolumeError};

use crate::place::{
    BLOCK, HEAD, JOURNAL, NOW, Place, ends, expect_blocks, killed, killed_after, options,
};

fn repair(place: &Place) -> Repaired {
    Pool::repair(&place.folder()).unwrap()
}

/// The pool has the first `blocks` blocks and holes behind them, with nothing damaged.
fn expect_restored(place: &Place, blocks: usize, context: &str) {
    let (pool, damage) = place.open().unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(damage.is_empty(), "{context}: {damage:?}");
    expect_blocks(&pool, blocks, context);
    let mut found = vec![1; BLOCK];
    pool.volume("a").unwrap().read((blocks * BLOCK) as u64, &mut found).unwrap();
    assert!(found.iter().all(|byte| *byte == 0), "{context}: a block behind the last");
    assert_eq!(pool.scrub().bad, [], "{context}");
    // it goes on
    let page = random(77, BLOCK);
    pool.volume("a").unwrap().write(100 * BLOCK as u64, &page, NOW).unwrap();
    drop(pool);
    let (pool, _) = place.open().unwrap();
    pool.volume("a").unwrap().read(100 * BLOCK as u64, &mut found).unwrap();
    assert!(found == page, "{context}");
}

/// The file of which `name` is a copy that a repair kept.
fn kept_of(name: &str) -> Option<&str> {
    name.strip_prefix("lost-")?.get(17..)
}

#[test]
fn each_repair_keeps_what_it_gives_up_beside_what_others_kept() {
    let damage = |place: &Place| {
        let names: Vec<String> = place.files().into_keys().collect();
        let journal = names.iter().rfind(|name| name.starts_with("journal-")).unwrap();
        place.change(journal, |bytes| {
            let at = bytes.len() - 10;
            bytes[at] ^= 4;
        });
    };
    let place = killed(4);
    damage(&place);
    let first = repair(&place).kept;
    assert!(!first.is_empty());
    let copies: Vec<_> = first.iter().map(|copy| place.files()[copy].clone()).collect();
    // the first frame after that has the number of the one that was given up
    let (pool, _) = place.open().unwrap();
    pool.volume("a").unwrap().write(0, &random(9, BLOCK), NOW).unwrap();
    pool.note_acknowledged().unwrap();
    let again = place.copy();
    drop(pool);
    damage(&again);
    let second = repair(&again).kept;
    assert!(!second.is_empty());
    assert!(second.iter().all(|copy| !first.contains(copy)), "{first:?}, {second:?}");
    let files = again.files();
    assert!(first.iter().zip(copies).all(|(copy, before)| files[copy] == before));
}

#[test]
fn a_mark_that_is_made_anew_is_later_than_what_repairs_kept() {
    let place = killed(4);
    // frames follow it, so that it is no torn end, also where nothing else tells of them
    let end = ends(&place)[1];
    place.change(JOURNAL, |bytes| bytes[end + HEAD + 1] ^= 1);
    let first = repair(&place).kept;
    let copies: Vec<_> = first.iter().map(|copy| place.files()[copy].clone()).collect();
    // nobody wrote since, so the copies alone tell of the repair
    fs::remove_file(place.root().join("writer")).unwrap();
    let again = repair(&place);
    assert!(!again.kept.is_empty());
    assert!(again.kept.iter().all(|copy| !first.contains(copy)), "{first:?}, {again:?}");
    let files = place.files();
    assert!(first.iter().zip(copies).all(|(copy, before)| files[copy] == before));
}

#[test]
fn a_damaged_last_frame_costs_that_frame_and_its_pages_are_kept() {
    let place = killed(4);
    let before = place.files();
    place.change(JOURNAL, |bytes| {
        let at = bytes.len() - 10;
        bytes[at] ^= 4;
    });
    let damaged = place.files();
    place.open().err().expect("it is refused");
    let done = repair(&place);
    assert_eq!(done.settled.len(), 1, "{done:?}");
    let of: Vec<_> = done.kept.iter().map(|copy| kept_of(copy).unwrap()).collect();
    assert_eq!(of, [JOURNAL, "container-00000001"]);
    let after = place.files();
    assert_eq!(after[&done.kept[0]], damaged[JOURNAL]);
    assert_eq!(after[&done.kept[1]], before["container-00000001"]);
    // all pages are in what was kept
    let bytes = &after[&done.kept[1]];
    let is_there = |block: u64| bytes.windows(BLOCK).any(|page| page == random(block, BLOCK));
    assert!((0..4).all(is_there), "random pages are stored as they are");
    expect_restored(&place, 3, "after the repair");
    assert_eq!(repair(&place), Repaired::default());
    expect_restored(&place, 3, "after another one");
}

#[test]
fn a_journal_that_was_cut_off_anywhere_gives_what_is_left_of_it() {
    let whole = killed(3);
    let ends = ends(&whole);
    for (frames, end) in ends.iter().enumerate().take(ends.len() - 1) {
        for cut in [*end, end + 1, end + HEAD] {
            let place = whole.copy();
            place.change(JOURNAL, |bytes| bytes.truncate(cut));
            let done = repair(&place);
            let context = format!("cut at {cut}: {done:?}");
            assert!(done.kept.iter().any(|name| name.ends_with("container-00000001")), "{context}");
            match frames {
                // the volume itself was in the first
                0 => assert!(place.open().unwrap().0.volumes().is_empty(), "{context}"),
                _ => expect_restored(&place, frames - 1, &context),
            }
        }
    }
}

#[test]
fn a_damaged_frame_ends_what_is_restored_though_later_journals_are_whole() {
    let place = killed(2);
    for block in 2..4_usize {
        let (pool, _) = place.open().unwrap();
        let page = random(block as u64, BLOCK);
        pool.volume("a").unwrap().write((block * BLOCK) as u64, &page, NOW).unwrap();
    }
    let first = ends(&place)[1];
    place.change(JOURNAL, |bytes| bytes[first + HEAD + 1] ^= 1);
    place.open().err().expect("it is refused");
    let done = repair(&place);
    let journals = done.kept.iter().filter(|name| name.contains("-journal-")).count();
    assert_eq!(journals, 3, "{done:?}");
    expect_restored(&place, 0, "only the volume is left");
}

#[test]
fn a_journal_that_is_missing_gives_the_checkpoint() {
    let place = killed(2);
    {
        let (pool, _) = place.open().unwrap();
        pool.checkpoint().unwrap();
        let page = random(2, BLOCK);
        pool.volume("a").unwrap().write((2 * BLOCK) as u64, &page, NOW).unwrap();
    }
    let journals: Vec<String> =
        place.files().into_keys().filter(|name| name.starts_with("journal-")).collect();
    for name in &journals {
        fs::remove_file(place.root().join(name)).unwrap();
    }
    place.open().err().expect("it is refused");
    repair(&place);
    expect_restored(&place, 2, "the checkpoint");
}

#[test]
fn a_lost_mark_costs_nothing() {
    for is_removed in [true, false] {
        let place = killed(3);
        match is_removed {
            true => fs::remove_file(place.root().join("writer")).unwrap(),
            false => place.change("writer", |bytes| bytes.fill(0)),
        }
        place.open().err().expect("it is refused");
        assert_eq!(repair(&place).settled, ["made 'writer' anew"]);
        expect_restored(&place, 3, "with another mark");
    }
}

#[test]
fn a_lost_footer_is_made_anew_where_the_journal_tells_of_all_pages() {
    let place = killed(15);
    let before = place.files();
    let container = &before["container-00000001"];
    let len = container.len();
    for damage in 0..2 {
        let place = place.copy();
        place.change("container-00000001", |bytes| match damage {
            0 => bytes[len - 30] ^= 1,
            _ => bytes.truncate(len - 1),
        });
        assert_eq!(place.copy().open().unwrap().1.len(), 1, "its pages are lost");
        assert_eq!(repair(&place).settled, ["made the footer of 'container-00000001' anew"]);
        assert!(place.files()["container-00000001"] == *container, "the same footer");
        expect_restored(&place, 15, "with another footer");
    }
}

#[test]
fn a_footer_of_which_only_itself_told_is_not_invented() {
    let place = killed(15);
    place.open().unwrap().0.checkpoint().unwrap();
    place.change("container-00000001", |bytes| {
        let at = bytes.len() - 30;
        bytes[at] ^= 1;
    });
    let before = place.files();
    assert_eq!(repair(&place), Repaired::default());
    assert_eq!(place.files(), before);
    assert_eq!(place.open().unwrap().1.len(), 1);
}

#[test]
fn a_lost_pool_file_is_made_anew() {
    for (hash, blocks) in [(Hash::Blake3, 2), (Hash::Sha3, 2), (Hash::Blake3, 15), (Hash::Sha3, 15)]
    {
        let place = Place::new();
        let folder = place.folder();
        Pool::create(&folder, hash).unwrap();
        let (pool, _) = Pool::open(folder, options()).unwrap();
        pool.create_volume("a", 1 << 20, BlockSize::B4096).unwrap();
        for block in 0..blocks {
            let page = random(block as u64, BLOCK);
            pool.volume("a").unwrap().write((block * BLOCK) as u64, &page, NOW).unwrap();
        }
        drop(pool);
        let before = place.files();
        for is_removed in [true, false] {
            match is_removed {
                true => fs::remove_file(place.root().join("pool")).unwrap(),
                false => place.change("pool", Vec::clear),
            }
            let error = place.open().err().expect("it is refused");
            assert!(matches!(error, VolumeError::HeadMissing { .. }), "{error}");
            let error = Pool::create(&place.folder(), hash).unwrap_err();
            assert!(matches!(error, VolumeError::NotEmpty { .. }), "{error}");
            assert_eq!(repair(&place).settled, ["made 'pool' anew"]);
            assert_eq!(place.files(), before, "{hash:?}");
        }
        assert_eq!(place.open().unwrap().0.hash(), hash);
        expect_restored(&place, blocks, "with another file");
    }
}

#[test]
fn a_pool_with_nothing_wrong_stays_as_it_is() {
    let place = killed_after(2, 5);
    let before = place.files();
    assert_eq!(repair(&place), Repaired::default());
    assert_eq!(place.files(), before);
    expect_restored(&place, 5, "after a repair for nothing");
}

#[test]
fn a_repair_that_failed_anywhere_is_finished_by_the_next() {
    let damaged = killed(15);
    damaged.change(JOURNAL, |bytes| {
        let at = bytes.len() - 10;
        bytes[at] ^= 4;
    });
    damaged.change("writer", |bytes| bytes.fill(0));
    damaged.change("container-00000001", |bytes| bytes.truncate(bytes.len() - 1));
    let (mut failed, mut is_over) = (0, false);
    for skipped in 0.. {
        let place = damaged.copy();
        let faults = Faults::none();
        faults.add(Fault::new(Failure::Io).skip(skipped));
        let folder: Arc<dyn Folder> = Arc::new(Faulty::new(place.folder(), "pool", &faults));
        match Pool::repair(&folder) {
            Ok(_) => is_over = faults.failed() == 0,
            Err(_) => failed += 1,
        }
        drop(folder);
        let context = format!("call {skipped} failed");
        repair(&place);
        let files = place.files();
        // a try that was cut off may have left a part of a copy by another name
        for name in [JOURNAL, "container-00000002"] {
            let whole = damaged.files()[name].clone();
            let is_copy =
                |(copy, bytes): (&String, &_)| kept_of(copy) == Some(name) && *bytes == whole;
            assert!(files.iter().any(is_copy), "{context}: {name}");
        }
        expect_restored(&place, 14, &context);
        if is_over {
            break;
        }
    }
    assert!(failed > 20, "{failed}");
}

#[test]
fn a_container_that_went_since_the_checkpoint_is_named() {
    let place = Place::new();
    let folder = place.folder();
    Pool::create(&folder, Hash::Blake3).unwrap();
    let (pool, _) = Pool::open(folder, options()).unwrap();
    pool.create_volume("a", 1 << 20, BlockSize::B4096).unwrap();
    // two containers, of which the first has its footer
    let write = |seed| pool.volume("a").unwrap().write(0, &random(seed, 15 * BLOCK), NOW).unwrap();
    write(1);
    pool.checkpoint().unwrap();
    write(2);
    pool.flush().unwrap();
    pool.note_acknowledged().unwrap();
    let killed = place.copy();
    drop(pool);
    let gone = "container-00000001";
    assert!(!killed.files().contains_key(gone), "nothing is in it any more");
    let names = killed.files().into_keys();
    let journal = names.filter(|name| name.starts_with("journal-")).max().unwrap();
    killed.change(&journal, Vec::clear);
    let settled = repair(&killed).settled;
    assert!(
        settled.iter().any(|line| line.contains(&format!("did without '{gone}'"))),
        "{settled:?}"
    );
}
