//! Acknowledged frames at the end of a journal that are damaged or missing are told, and what only a
//! crash or a power cut left is opened.

#![allow(clippy::disallowed_methods, reason = "these tests damage what a pool wrote")]

use std::fs;
use std::sync::Arc;

use onefold_backend::crash::CrashDisk;
use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
use onefold_backend::{Folder, Operation};
use onefold_block::{BlockDevice, BlockSize};
use onefold_testkit::random;
use onefold_volume::{Hash, Pool, VolumeError};

use crate::place::{
    BLOCK, HEAD, JOURNAL, NOW, Place, ends, expect_blocks, killed, killed_after, options,
};

const RECORD: &str = "acknowledged";

/// The pool is refused, also to be read, the error names the journal and says from where on, and all
/// files stay.
fn expect_refused(place: &Place, at: usize, context: &str) {
    let before = place.files();
    // as often as it is tried
    for opened in [place.open(), Pool::open_read_only(&place.root(), options()), place.open()] {
        match opened {
            Err(VolumeError::Incomplete { journal, at: found, .. }) => {
                assert_eq!((journal.as_str(), found), (JOURNAL, at as u64), "{context}");
            }
            Err(error) => panic!("{context}: {error}"),
            Ok((_, damage)) => panic!("{context}: it opened, {damage:?}"),
        }
    }
    assert_eq!(place.files(), before, "{context}");
}

fn expect_opens(place: &Place, blocks: usize, context: &str) {
    let (pool, damage) = place.open().unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(damage.is_empty(), "{context}: {damage:?}");
    expect_blocks(&pool, blocks, context);
}

#[test]
fn a_pool_that_was_killed_opens_with_all_that_was_acknowledged() {
    expect_opens(&killed(5), 5, "as it was left");
    let place = killed(5);
    // what an append that was killed leaves
    for len in [1, HEAD - 1, HEAD, HEAD + 9] {
        let copy = place.copy();
        copy.change(JOURNAL, |bytes| {
            let mut next = (1000_u32.to_le_bytes()).to_vec();
            next.extend_from_slice(&6_u64.to_le_bytes());
            next.extend_from_slice(&1_u64.to_le_bytes());
            next.resize(len, 7);
            bytes.extend_from_slice(&next);
        });
        expect_opens(&copy, 5, &format!("{len} bytes of the next frame"));
    }
}

#[test]
fn any_bit_that_is_wrong_in_the_last_acknowledged_frame_is_told() {
    let place = killed(3);
    let ends = ends(&place);
    let [.., start, end] = ends[..] else { panic!("{ends:?}") };
    for at in (start..end).step_by(3).chain([end - 10, end - 1]) {
        let copy = place.copy();
        copy.change(JOURNAL, |bytes| bytes[at] ^= 1 << (at % 8));
        expect_refused(&copy, start, &format!("byte {at}"));
    }
}

#[test]
fn a_journal_that_was_cut_off_anywhere_is_told() {
    let place = killed(4);
    let ends = ends(&place);
    let len = *ends.last().unwrap();
    let inside = ends.iter().flat_map(|end| [end + 1, end + HEAD + 1]);
    for cut in ends.iter().copied().chain(inside).chain([len - 1]).filter(|cut| *cut < len) {
        let copy = place.copy();
        copy.change(JOURNAL, |bytes| bytes.truncate(cut));
        let whole = ends.iter().rev().find(|end| **end <= cut).unwrap();
        expect_refused(&copy, *whole, &format!("cut at {cut}"));
    }
    let copy = place.copy();
    fs::remove_file(copy.root().join(JOURNAL)).unwrap();
    copy.open().err().expect("the journal is missing");
}

#[test]
fn closing_a_pool_notes_its_last_frame() {
    let place = killed(2);
    {
        let (pool, _) = place.open().unwrap();
        let page = random(2, BLOCK);
        pool.volume("a").unwrap().write((2 * BLOCK) as u64, &page, NOW).unwrap();
    }
    expect_opens(&place.copy(), 3, "as it was closed");
    // the journal of the third writer, after that of the check before it
    let journals: Vec<String> =
        place.files().into_keys().filter(|name| name.starts_with("journal-")).collect();
    place.change(journals.last().unwrap(), Vec::clear);
    let error = place.open().err().expect("its frames were acknowledged");
    assert!(matches!(error, VolumeError::Incomplete { .. }), "{error}");
}

#[test]
fn a_checkpoint_takes_the_place_of_the_frames_that_were_noted() {
    let place = killed(3);
    {
        let (pool, _) = place.open().unwrap();
        pool.checkpoint().unwrap();
    }
    expect_opens(&place, 3, "after a checkpoint");
}

#[test]
fn without_a_record_a_journal_is_read_as_before() {
    let place = killed(3);
    fs::remove_file(place.root().join(RECORD)).unwrap();
    let ends = ends(&place);
    place.change(JOURNAL, |bytes| bytes.truncate(ends[ends.len() - 2]));
    expect_opens(&place, 2, "no record, one frame less");
}

#[test]
fn a_record_of_which_neither_copy_is_whole_is_warned_of() {
    let place = killed(3);
    place.change(RECORD, |bytes| {
        bytes.resize(8192, 0);
        (bytes[0], bytes[4096]) = (!bytes[0], !bytes[4096]);
    });
    let (pool, damage) = place.open().unwrap();
    assert!(matches!(damage[..], [VolumeError::UnreadRecord { .. }]), "{damage:?}");
    assert!(damage[0].to_string().contains("neither of its copies is whole"), "{}", damage[0]);
    expect_blocks(&pool, 3, "the record is damaged");
}

#[test]
fn a_record_that_cannot_be_read_is_warned_of_with_the_reason() {
    let place = killed(3);
    let faults = Faults::none();
    faults.add(Fault::new(Failure::Io).on(Operation::Read).named(RECORD));
    let folder = Arc::new(Faulty::new(place.folder(), "pool", &faults));
    let (pool, damage) = Pool::open(folder, options()).unwrap();
    let [error] = &damage[..] else { panic!("{damage:?}") };
    let told = error.to_string();
    assert!(told.contains("injected") && told.contains("was not found out"), "{told}");
    expect_blocks(&pool, 3, "the record cannot be read");
}

#[test]
fn a_record_that_is_older_than_the_journal_is_a_lower_bound() {
    let place = killed_after(2, 4);
    expect_opens(&place.copy(), 4, "all is there");
    let ends = ends(&place);
    let (noted, older) = (ends[ends.len() - 3], ends[ends.len() - 4]);
    let cut = |len: usize| {
        let copy = place.copy();
        copy.change(JOURNAL, |bytes| bytes.truncate(len));
        copy
    };
    // the window that docs/volumes.md states
    expect_opens(&cut(noted), 2, "what was not noted");
    expect_refused(&cut(noted - 1), older, "what was noted");
}

#[test]
fn what_an_append_that_was_not_noted_left_is_damage_only_on_the_same_mount() {
    let place = Place::new();
    let folder = place.folder();
    let can_tell = folder.mount().is_some();
    Pool::create(&folder, Hash::Blake3).unwrap();
    let (pool, _) = Pool::open(folder, options()).unwrap();
    pool.create_volume("a", 1 << 20, BlockSize::B4096).unwrap();
    pool.note_acknowledged().unwrap();
    pool.volume("a").unwrap().write(0, &random(0, BLOCK), NOW).unwrap();
    let killed = place.copy();
    drop(pool);
    let ends = ends(&killed);
    killed.change(JOURNAL, |bytes| *bytes.last_mut().unwrap() ^= 1);
    if can_tell {
        expect_refused(&killed, ends[ends.len() - 2], "a whole frame with a wrong bit");
    } else {
        onefold_testkit::skip("the kernel gives mounts no unique number");
    }
}

#[test]
fn what_a_power_cut_left_of_frames_that_nobody_was_told_of_opens() {
    let (mut states, mut torn) = (0, 0);
    for steps in 0..400 {
        let disk = CrashDisk::new();
        let folder: Arc<dyn Folder> = Arc::new(disk.folder());
        Pool::create(&folder, Hash::Blake3).unwrap();
        let (pool, _) = Pool::open(Arc::clone(&folder), options()).unwrap();
        pool.create_volume("a", 1 << 20, BlockSize::B4096).unwrap();
        let before = disk.operations();
        disk.crash_after(before + steps);
        let mut acknowledged = 0;
        for block in 0..6_usize {
            let volume = pool.volume("a").unwrap();
            let page = random(block as u64, BLOCK);
            let is_done = volume.write((block * BLOCK) as u64, &page, NOW).is_ok();
            if !is_done || pool.note_acknowledged().is_err() {
                acknowledged = block + usize::from(is_done);
                break;
            }
            acknowledged = block + 1;
        }
        drop(pool);
        let is_over = acknowledged == 6;
        for state in disk.durable_states(24, steps) {
            states += 1;
            let context = format!("{steps} steps, {acknowledged} blocks");
            let folder: Arc<dyn Folder> = Arc::new(state.folder());
            let (pool, damage) =
                Pool::open(folder, options()).unwrap_or_else(|error| panic!("{context}: {error}"));
            // one copy may be torn, and never both
            assert!(damage.is_empty(), "{context}: {damage:?}");
            expect_blocks(&pool, acknowledged, &context);
            torn += usize::from(acknowledged < 6);
        }
        if is_over {
            break;
        }
    }
    assert!(states > 150 && torn > 100, "{states} states, {torn}");
}

#[test]
fn the_record_is_noted_beside_those_who_flush() {
    let place = Place::new();
    let folder = place.folder();
    Pool::create(&folder, Hash::Blake3).unwrap();
    let (pool, _) = Pool::open(folder, options()).unwrap();
    let noting = pool.start_noting(|error| panic!("{error}"));
    pool.create_volume("a", 1 << 20, BlockSize::B4096).unwrap();
    let is_noted = || fs::read(place.root().join(RECORD)).is_ok_and(|bytes| bytes.len() == 8192);
    let began = std::time::Instant::now();
    while !is_noted() {
        assert!(began.elapsed().as_secs() < 10, "it was not noted");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let before = fs::read(place.root().join(RECORD)).unwrap();
    pool.volume("a").unwrap().write(0, &random(0, BLOCK), NOW).unwrap();
    drop(noting);
    assert_ne!(fs::read(place.root().join(RECORD)).unwrap(), before);
}
