//! Disks that are full or damaged: what is lost is named, and nothing else is.

#![allow(clippy::disallowed_methods, reason = "these tests damage what a pool wrote")]

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
use onefold_backend::{Folder, LocalFolder, Operation};
use onefold_block::{BlockDevice, BlockError, BlockSize, Durability};
use onefold_container::Codec;
use onefold_fingerprint::Fingerprint;
use onefold_seal::Check;
use onefold_testkit::{flip_bit, random};
use onefold_volume::{Hash, Options, Pool, Version, Volume, VolumeError};
use tempfile::TempDir;

use crate::forged::Forged;

const BLOCK: usize = 4096;
const NOW: Durability = Durability::OnReturn;

fn options() -> Options {
    Options { table_bytes: 64 << 10, container_len: 40_000, ..Options::default() }
}

/// A folder on the disk, and where it is as long as the first lives.
fn local() -> (TempDir, PathBuf, Arc<dyn Folder>) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("pool");
    let folder: Arc<dyn Folder> = Arc::new(LocalFolder::create(&root).unwrap());
    (directory, root, folder)
}

/// The same, of which calls fail as they are told to.
fn faulty() -> (TempDir, Faults, Arc<dyn Folder>) {
    let directory = tempfile::tempdir().unwrap();
    let faults = Faults::none();
    let inner = LocalFolder::create(&directory.path().join("pool")).unwrap();
    let folder: Arc<dyn Folder> = Arc::new(Faulty::new(inner, "pool", &faults));
    (directory, faults, folder)
}

/// A new pool with the volume `a`.
fn pool_in(folder: &Arc<dyn Folder>, options: Options) -> Pool {
    pool_as(Version::Paged, folder, options)
}

/// The same of a version.
fn pool_as(version: Version, folder: &Arc<dyn Folder>, options: Options) -> Pool {
    Pool::create_as(folder, Hash::Blake3, Codec::Zstd, version).unwrap();
    let (pool, _) = Pool::open(Arc::clone(folder), options).unwrap();
    pool.create_volume("a", 1 << 20, BlockSize::B4096).unwrap();
    pool
}

/// A new pool whose volume `a` begins with so many blocks of these bytes, which are durable.
fn pool_of(folder: &Arc<dyn Folder>, blocks: usize) -> (Pool, Vec<u8>) {
    pool_of_version(Version::Paged, folder, blocks)
}

/// The same of a version.
fn pool_of_version(version: Version, folder: &Arc<dyn Folder>, blocks: usize) -> (Pool, Vec<u8>) {
    let pool = pool_as(version, folder, options());
    let bytes = random(1, blocks * BLOCK);
    pool.volume("a").unwrap().write(0, &bytes, NOW).unwrap();
    (pool, bytes)
}

/// Opens a pool; with what it tells of damage.
fn open(folder: &Arc<dyn Folder>) -> (Pool, Vec<VolumeError>) {
    Pool::open(Arc::clone(folder), options()).unwrap()
}

/// The same of one that must not tell of any.
fn open_sound(folder: &Arc<dyn Folder>) -> Pool {
    let (pool, told) = open(folder);
    assert!(told.is_empty(), "{told:?}");
    pool
}

fn read(volume: &Volume, block: usize) -> Vec<u8> {
    let mut found = vec![0; BLOCK];
    volume.read((block * BLOCK) as u64, &mut found).unwrap();
    found
}

#[test]
fn a_full_disk_is_told_and_the_pool_goes_on_when_there_is_room() {
    let directory = tempfile::tempdir().unwrap();
    for operation in [Operation::Append, Operation::Open] {
        let faults = Faults::none();
        let root = directory.path().join(format!("{operation:?}"));
        let inner = LocalFolder::create(&root).unwrap();
        let folder: Arc<dyn Folder> = Arc::new(Faulty::new(inner, "pool", &faults));
        let (pool, before) = pool_of(&folder, 20);
        let volume = pool.volume("a").unwrap();
        faults.add(Fault::new(Failure::Full).on(operation).times(1000));
        let new = random(2, 20 * BLOCK);
        let error = volume.write(0, &new, NOW).unwrap_err();
        assert!(matches!(error, BlockError::NoSpace { .. }), "{operation:?}: {error}");
        // each block is the old or the new one
        let mut found = vec![0; before.len()];
        volume.read(0, &mut found).unwrap();
        for (i, found) in found.chunks(BLOCK).enumerate() {
            let range = i * BLOCK..(i + 1) * BLOCK;
            assert!(found == &before[range.clone()] || found == &new[range], "block {i}");
        }
        while faults.failed() < 1000 {
            let _ = volume.write(0, &random(3, BLOCK), NOW);
        }
        volume.write(0, &new, NOW).unwrap();
        assert_eq!(pool.check(), Vec::<String>::new());
        drop((volume, pool));
        let (pool, _) = open(&folder);
        let volume = pool.volume("a").unwrap();
        volume.read(0, &mut found).unwrap();
        assert!(found == new);
        assert_eq!(pool.check(), Vec::<String>::new());
    }
}

#[test]
fn a_sync_that_failed_stops_the_pool_until_it_is_opened_again() {
    let (_directory, faults, folder) = faulty();
    let (pool, flushed) = pool_of(&folder, 1);
    let volume = pool.volume("a").unwrap();
    faults.add(Fault::new(Failure::Io).on(Operation::Sync).times(1));
    volume.write(0, &random(2, BLOCK), NOW).unwrap_err();
    // it would succeed now, but what it would acknowledge may be lost
    let error = volume.write(0, &random(3, BLOCK), NOW).unwrap_err();
    assert!(error.to_string().contains("stopped taking changes"), "{error}");
    volume.flush().unwrap_err();
    pool.create_volume("b", 4096, BlockSize::B4096).unwrap_err();
    drop((volume, pool));
    let (pool, _) = open(&folder);
    let volume = pool.volume("a").unwrap();
    let found = read(&volume, 0);
    assert!(found == flushed || found == random(2, BLOCK));
    volume.write(0, &random(4, BLOCK), NOW).unwrap();
}

/// How many containers of the pool at `root` this process has open.
fn open_containers(root: &Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    // one that was closed meanwhile leads nowhere
    let paths = open.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    let is_container = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        path.starts_with(root) && name.is_some_and(|name| name.starts_with("container-"))
    };
    paths.filter(is_container).count()
}

#[test]
fn a_damaged_page_is_lost_alone_and_named() {
    let (_directory, root, folder) = local();
    let (pool, bytes) = pool_of(&folder, 30);
    drop(pool);
    // the first container is sealed, and this is in its third page
    flip_bit(&root.join("container-00000001"), 3 * BLOCK as u64);
    let pool = open_sound(&folder);
    let volume = pool.volume("a").unwrap();
    let mut found = vec![0; BLOCK];
    for i in 0..30 {
        match volume.read((i * BLOCK) as u64, &mut found) {
            Ok(()) => assert!(i != 2 && found == bytes[i * BLOCK..(i + 1) * BLOCK], "{i}"),
            Err(error) => {
                assert_eq!(i, 2, "{error}");
                assert!(error.to_string().contains("container-00000001"), "{error}");
            }
        }
    }
    let scrubbed = pool.scrub();
    assert_eq!((scrubbed.pages, scrubbed.bad.len()), (29, 1));
    let bad = &scrubbed.bad[0];
    assert_eq!((&bad.container[..], bad.slot), ("container-00000001", 2));
    assert_eq!((&bad.blocks[..], bad.more_blocks), (&[("a".to_owned(), 2)][..], 0));
    // who writes the same again has it again
    let page = 2 * BLOCK..3 * BLOCK;
    volume.write(page.start as u64, &bytes[page.clone()], NOW).unwrap();
    assert!(read(&volume, 2) == bytes[page]);
    assert_eq!(pool.scrub().bad, []);
}

#[test]
fn each_damaged_node_is_told() {
    let (_directory, root, folder) = local();
    let (pool, _) = pool_of(&folder, 30);
    pool.checkpoint().unwrap();
    drop(pool);
    let name = "nodes-0000000000000001-0000000000000001";
    let len = std::fs::metadata(root.join(name)).unwrap().len();
    let mut unread = 0;
    // a byte of each node behind the header
    for at in (4096..len).step_by(4112) {
        flip_bit(&root.join(name), at);
        match Pool::open(Arc::clone(&folder), options()) {
            // the nodes of the open container are read at once
            Err(error) => assert!(error.to_string().contains("nodes-"), "{error}"),
            Ok((pool, _)) => {
                let scrubbed = pool.scrub();
                unread += u32::from(scrubbed.unread.is_some_and(|why| why.contains("nodes-")));
                let checked = pool.check();
                let is_told = checked.iter().any(|problem| problem.contains("nodes-"));
                assert!(is_told || !scrubbed.bad.is_empty(), "{at}: {checked:?}");
            }
        }
        flip_bit(&root.join(name), at);
    }
    assert_eq!(unread, 1, "the volume has one segment");
    drop(open_sound(&folder));
}

#[test]
fn a_container_without_a_footer_costs_its_own_pages() {
    let (_directory, root, folder) = local();
    let (pool, bytes) = pool_of_version(Version::Whole, &folder, 30);
    pool.checkpoint().unwrap();
    drop(pool);
    let len = std::fs::metadata(root.join("container-00000001")).unwrap().len();
    flip_bit(&root.join("container-00000001"), len - 30);
    let (pool, told) = open(&folder);
    assert_eq!(told.len(), 1);
    let volume = pool.volume("a").unwrap();
    let lost = |i: &usize| volume.read((i * BLOCK) as u64, &mut [0; BLOCK]).is_err();
    assert_eq!((0..30).filter(lost).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    let scrubbed = pool.scrub();
    assert_eq!((scrubbed.pages, scrubbed.bad.len()), (20, 10));
    for (at, bad) in scrubbed.bad.iter().enumerate() {
        assert_eq!(bad.blocks, [("a".to_owned(), at as u64)]);
        assert_eq!(bad.container, "container-00000001");
    }
    assert_eq!(pool.check().len(), 10);
    read(&volume, 29);
    // the file is kept for who can mend it, as long as a block is in it, and the pool goes on
    volume.write(BLOCK as u64, &bytes[BLOCK..], NOW).unwrap();
    pool.compact().unwrap();
    assert!(root.join("container-00000001").exists());
    volume.write(0, &bytes[..BLOCK], NOW).unwrap();
    pool.compact().unwrap();
    assert!(!root.join("container-00000001").exists());
    assert!(read(&volume, 0) == bytes[..BLOCK]);
}

#[test]
fn a_full_disk_keeps_no_pool_from_being_opened_and_read() {
    let (_directory, faults, folder) = faulty();
    let (pool, bytes) = pool_of(&folder, 20);
    drop(pool);
    faults.add(Fault::new(Failure::Full).on(Operation::Append).times(1000));
    let pool = open_sound(&folder);
    let mut found = vec![0; bytes.len()];
    pool.volume("a").unwrap().read(0, &mut found).unwrap();
    assert!(found == bytes);
}

#[test]
fn a_container_of_groups_that_are_no_pages_is_damaged() {
    for of_first in [0, 2] {
        let (_directory, root, folder) = local();
        let (pool, _) = pool_of_version(Version::Whole, &folder, 20);
        let volume = pool.volume("a").unwrap();
        volume.erase(0..7 * BLOCK as u64, NOW).unwrap();
        pool.checkpoint().unwrap();
        drop((volume, pool));
        let mut file = Forged::new(&root, 1);
        for chunks in [of_first, 1, 1, 1, 1, 1, 1, 1, 1, 1] {
            let len = BLOCK as u32 * chunks.min(1);
            let each = len.checked_div(chunks).unwrap_or(0);
            let chunk = |n| (Fingerprint::from_bytes([n as u8; 32]), each);
            file.add(&[1; BLOCK], (0..chunks).map(chunk), |group| group.len = len);
        }
        std::fs::write(root.join("container-00000001"), file.end()).unwrap();
        let (pool, told) = open(&folder);
        assert_eq!(told.len(), 1, "{of_first}");
        assert!(told[0].to_string().contains("one page in each group"), "{}", told[0]);
        pool.maintain().unwrap();
        pool.scrub();
    }
}

#[test]
fn a_footer_of_pages_longer_than_any_block_is_damaged() {
    const LONG: usize = 1 << 20;
    let (_directory, root, folder) = local();
    let (pool, bytes) = pool_of_version(Version::Whole, &folder, 20);
    pool.checkpoint().unwrap();
    drop(pool);
    let page = vec![0; LONG];
    for (stored, codec) in [(&page[..], Codec::Raw), (&page[..9], Codec::Zstd)] {
        let mut file = Forged::new(&root, 1);
        file.add(stored, [(Fingerprint::from_bytes([9; 32]), LONG as u32)], |group| {
            (group.codec, group.len) = (codec, LONG as u32);
        });
        std::fs::write(root.join("container-00000001"), file.end()).unwrap();
        let (pool, told) = open(&folder);
        assert_eq!(told.len(), 1, "{codec:?}");
        let told = told[0].to_string();
        assert!(told.contains("container-00000001"), "{told}");
        assert!(told.contains("expected at most 4096"), "{told}");
        // nothing of it is read, and the others are as they were
        assert_eq!(lost(&pool, &bytes), (0..10).collect::<Vec<_>>());
        assert_eq!(pool.scrub().bad.len(), 10);
    }
}

#[test]
fn pages_whose_footer_gave_no_answer_when_the_pool_was_opened_are_not_told_as_lost() {
    let (_directory, root, folder) = local();
    let (pool, bytes) = pool_of_version(Version::Whole, &folder, 20);
    // one of its pages is in two blocks
    pool.volume("a").unwrap().write(40 * BLOCK as u64, &bytes[..BLOCK], NOW).unwrap();
    pool.checkpoint().unwrap();
    drop(pool);
    let faults = Faults::none();
    let inner = LocalFolder::open(&root).unwrap();
    let faulty: Arc<dyn Folder> = Arc::new(Faulty::new(inner, "pool", &faults));
    faults.add(Fault::new(Failure::Timeout).on(Operation::Read).named("container-00000001"));
    let (pool, told) = open(&faulty);
    assert_eq!(told.len(), 1, "{told:?}");
    let scrubbed = pool.scrub();
    assert_eq!((scrubbed.pages, scrubbed.bad.len(), scrubbed.more), (10, 0, 0), "{scrubbed:?}");
    let unanswered = scrubbed.unanswered.expect("the first container");
    assert_eq!(unanswered.pages, 10);
    assert!(unanswered.problem.ends_with("open the pool again"), "{}", unanswered.problem);
    drop(pool);
    assert!(open(&faulty).0.scrub().is_good());
}

/// The blocks of the volume that are not `bytes`.
fn lost(pool: &Pool, bytes: &[u8]) -> Vec<usize> {
    let volume = pool.volume("a").unwrap();
    let mut found = vec![0; BLOCK];
    let mut is_lost = |i: &usize| match volume.read((i * BLOCK) as u64, &mut found) {
        Ok(()) => {
            assert!(found == bytes[i * BLOCK..(i + 1) * BLOCK], "{i}");
            false
        }
        Err(_) => true,
    };
    (0..bytes.len() / BLOCK).filter(|i| is_lost(i)).collect()
}

/// Opens a pool again and again, with a checkpoint each time: nothing is damaged.
fn expect_sound(folder: &Arc<dyn Folder>, bytes: &[u8]) {
    for round in 0..3 {
        let (pool, told) = open(folder);
        assert!(told.is_empty(), "{round}: {told:?}");
        assert_eq!(lost(&pool, bytes), [0; 0], "{round}");
        assert_eq!(pool.check(), Vec::<String>::new());
        assert_eq!(pool.scrub().bad, []);
        pool.checkpoint().unwrap();
    }
}

#[test]
fn sectors_that_cannot_be_read_cost_their_container_alone_and_only_as_long() {
    let (_directory, faults, folder) = faulty();
    let (pool, bytes) = pool_of_version(Version::Whole, &folder, 30);
    drop(pool);
    faults.add(Fault::new(Failure::Io).on(Operation::Read).named("container-00000001").times(1));
    let (pool, told) = open(&folder);
    assert_eq!(told.len(), 1);
    assert_eq!(lost(&pool, &bytes), (0..10).collect::<Vec<_>>());
    pool.checkpoint().unwrap();
    drop(pool);
    expect_sound(&folder, &bytes);
}

#[test]
fn a_container_that_got_no_footer_because_it_could_not_be_read_gets_it_later() {
    let (_directory, faults, folder) = faulty();
    let pool = pool_as(Version::Whole, &folder, options());
    let bytes = random(1, 35 * BLOCK);
    let volume = pool.volume("a").unwrap();
    volume.write(0, &bytes[..25 * BLOCK], NOW).unwrap();
    drop((volume, pool));
    let cannot = |failure, operation| {
        faults.add(Fault::new(failure).on(operation).named("container-00000003").times(1));
    };
    cannot(Failure::Io, Operation::Read);
    let (pool, told) = open(&folder);
    assert_eq!(told.len(), 1, "{told:?}");
    // these go to another one, which has no footer either
    let volume = pool.volume("a").unwrap();
    let new = &bytes[25 * BLOCK..30 * BLOCK];
    volume.write(25 * BLOCK as u64, new, NOW).unwrap();
    assert_eq!(lost(&pool, &bytes[..30 * BLOCK]), [20, 21, 22, 23, 24]);
    pool.checkpoint().unwrap();
    drop((volume, pool));
    // and there is no room for the footer
    cannot(Failure::Full, Operation::Append);
    let (pool, told) = open(&folder);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(lost(&pool, &bytes[..30 * BLOCK]), [20, 21, 22, 23, 24]);
    let volume = pool.volume("a").unwrap();
    let new = &bytes[30 * BLOCK..];
    volume.write(30 * BLOCK as u64, new, NOW).unwrap();
    pool.checkpoint().unwrap();
    drop((volume, pool));
    expect_sound(&folder, &bytes);
}

#[test]
fn a_container_that_can_be_read_again_takes_no_pages_of_later_ones() {
    let (_directory, faults, folder) = faulty();
    let pool = pool_in(&folder, options());
    let mut bytes = random(1, 36 * BLOCK);
    let write = |pool: &Pool, blocks: std::ops::Range<usize>| {
        let range = blocks.start * BLOCK..blocks.end * BLOCK;
        pool.volume("a").unwrap().write(range.start as u64, &bytes[range], NOW)
    };
    write(&pool, 0..25).unwrap();
    drop(pool);
    let cannot = |failure, operation, name| {
        faults.add(Fault::new(failure).on(operation).named(name).times(1));
    };
    cannot(Failure::Io, Operation::Read, "container-00000003");
    let (pool, told) = open(&folder);
    assert_eq!(told.len(), 1, "{told:?}");
    // the fourth gets its footer, and no fifth follows
    write(&pool, 25..35).unwrap();
    cannot(Failure::Full, Operation::Open, "container-00000005");
    write(&pool, 35..36).unwrap_err();
    pool.flush().unwrap();
    drop(pool);
    let pool = open_sound(&folder);
    let erased = 25 * BLOCK..34 * BLOCK;
    let volume = pool.volume("a").unwrap();
    volume.erase(erased.start as u64..erased.end as u64, NOW).unwrap();
    assert!(pool.compact().unwrap());
    drop((volume, pool));
    bytes[erased].fill(0);
    bytes[35 * BLOCK..].fill(0);
    expect_sound(&folder, &bytes);
}

#[test]
fn a_page_that_cannot_be_moved_stops_no_compaction_of_others() {
    let (_directory, root, folder) = local();
    let (pool, bytes) = pool_of(&folder, 40);
    let volume = pool.volume("a").unwrap();
    // of the first three containers two pages each stay, of the first one of them damaged
    for from in [2, 12, 22] {
        let range = (from * BLOCK) as u64..((from + 8) * BLOCK) as u64;
        volume.erase(range, NOW).unwrap();
    }
    drop((volume, pool));
    flip_bit(&root.join("container-00000001"), 100);
    let (pool, _) = open(&folder);
    pool.maintain().unwrap();
    assert!(root.join("container-00000001").exists());
    assert!(!root.join("container-00000002").exists());
    assert!(!root.join("container-00000003").exists());
    assert_eq!(pool.check(), Vec::<String>::new());
    let volume = pool.volume("a").unwrap();
    for i in [1, 10, 11, 20, 21, 39] {
        assert!(read(&volume, i) == bytes[i * BLOCK..(i + 1) * BLOCK], "{i}");
    }
    assert!(volume.read(0, &mut [0; BLOCK]).is_err());
}

#[test]
fn a_page_that_is_found_again_where_it_was_moved_from_is_there() {
    let (_directory, root, folder) = local();
    let (pool, bytes) = pool_of(&folder, 20);
    let volume = pool.volume("a").unwrap();
    let at = |block: usize| (block * BLOCK) as u64;
    volume.erase(at(2)..at(10), NOW).unwrap();
    drop((volume, pool));
    // the first page stays, and its container with it; the second is moved
    flip_bit(&root.join("container-00000001"), 100);
    let (pool, _) = open(&folder);
    assert!(pool.compact().unwrap());
    // and then neither anybody's nor in the container that it was moved to
    let volume = pool.volume("a").unwrap();
    volume.erase(at(1)..at(2), NOW).unwrap();
    volume.write(at(30), &random(2, 10 * BLOCK), NOW).unwrap();
    volume.erase(at(30)..at(40), NOW).unwrap();
    assert!(!root.join("container-00000003").exists());
    drop((volume, pool));
    // the footer tells of it, so that it is known
    let page = &bytes[BLOCK..2 * BLOCK];
    let expect_page = |pool: &Pool| {
        assert!(read(&pool.volume("a").unwrap(), 50) == page);
        assert_eq!(pool.check(), Vec::<String>::new());
    };
    let (pool, _) = open(&folder);
    pool.volume("a").unwrap().write(at(50), page, NOW).unwrap();
    assert_eq!(pool.statistics().known_pages, 1);
    expect_page(&pool);
    drop(pool);
    let (pool, _) = open(&folder);
    expect_page(&pool);
}

#[test]
fn damage_within_a_journal_is_no_torn_end() {
    let (_directory, root, folder) = local();
    let pool = pool_in(&folder, options());
    let volume = pool.volume("a").unwrap();
    for i in 0..5 {
        volume.write(i * BLOCK as u64, &random(i, BLOCK), NOW).unwrap();
    }
    drop((volume, pool));
    flip_bit(&root.join("journal-0000000000000001-0000000000000000"), 100);
    let error = Pool::open(folder, options()).err().expect("what was acknowledged is lost");
    assert!(matches!(error, VolumeError::Incomplete { .. }), "{error}");
    assert!(error.to_string().contains("journal-0000000000000001-0000000000000000"), "{error}");
}

#[test]
fn a_checkpoint_that_could_not_begin_loses_nothing() {
    for operation in [Operation::Open, Operation::Resize] {
        for is_done in [false, true] {
            for name in ["journal-", "checkpoint-"] {
                let context = format!("{operation:?} {name}, done: {is_done}");
                let (_directory, faults, folder) = faulty();
                let pool = pool_in(&folder, options());
                let volume = pool.volume("a").unwrap();
                let bytes = random(1, 9 * BLOCK);
                let write = |at: usize| {
                    let range = at * BLOCK..(at + 3) * BLOCK;
                    volume.write(range.start as u64, &bytes[range], NOW).unwrap();
                };
                write(0);
                let fault = Fault::new(Failure::Io).on(operation).named(name);
                faults.add(if is_done { fault.answer_lost() } else { fault });
                pool.checkpoint().expect_err(&context);
                // batches go on, and so do checkpoints
                write(3);
                pool.checkpoint().unwrap();
                write(6);
                drop((volume, pool));
                let (pool, told) = open(&folder);
                assert!(told.is_empty(), "{context}: {told:?}");
                assert_eq!(lost(&pool, &bytes), [0; 0], "{context}");
            }
        }
    }
}

#[test]
fn a_journal_or_mark_that_is_missing_is_told() {
    for name in ["journal-0000000000000001-0000000000000000", "writer"] {
        for is_newest in [true, false] {
            let (_directory, root, folder) = local();
            let pool = pool_in(&folder, options());
            let write = |pool: &Pool, at: usize| {
                let page = random(at as u64, BLOCK);
                pool.volume("a").unwrap().write((at * BLOCK) as u64, &page, NOW).unwrap();
            };
            write(&pool, 1);
            drop(pool);
            if !is_newest {
                let (pool, _) = open(&folder);
                write(&pool, 2);
            }
            std::fs::remove_file(root.join(name)).unwrap();
            let error = Pool::open(folder, options()).err().expect("what it had is lost");
            let is_told =
                matches!(error, VolumeError::Damaged { .. } | VolumeError::Incomplete { .. });
            assert!(is_told, "{name}: {error}");
        }
    }
}

#[test]
fn a_pool_that_is_opened_often_has_few_journals() {
    let (_directory, _, folder) = local();
    drop(pool_in(&folder, options()));
    let bytes = random(1, 150 * BLOCK);
    for (at, page) in bytes.chunks(BLOCK).enumerate() {
        let (pool, _) = open(&folder);
        pool.volume("a").unwrap().write((at * BLOCK) as u64, page, NOW).unwrap();
        // one that changes nothing adds none
        drop(pool);
        open(&folder);
    }
    let names = folder.names().unwrap();
    let journals = names.iter().filter(|name| name.starts_with("journal-")).count();
    assert!(journals < 70, "{journals}");
    let (pool, _) = open(&folder);
    assert_eq!(lost(&pool, &bytes), [0; 0]);
}

#[test]
fn a_pool_of_a_later_format_is_refused() {
    let (_directory, root, folder) = local();
    drop(pool_in(&folder, options()));
    let file = OpenOptions::new().write(true).open(root.join("pool")).unwrap();
    file.write_all_at(&9_u32.to_le_bytes(), 12).unwrap();
    let opened =
        || Pool::open(Arc::clone(&folder), options()).err().expect("it is not of version 1");
    // its check is not that of a later version
    let error = opened();
    assert!(matches!(error, VolumeError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("pool"), "{error}");
    let mut head = std::fs::read(root.join("pool")).unwrap();
    let (covered, check) = head.split_last_chunk_mut::<16>().unwrap();
    check.copy_from_slice(Check::of(&[covered]).as_bytes());
    for len in [head.len(), head.len() + 9, 16] {
        head.resize(len, 7);
        std::fs::write(root.join("pool"), &head).unwrap();
        let error = opened();
        assert!(matches!(error, VolumeError::NewerVersion { found: 9, .. }), "{len}: {error}");
    }
}

#[test]
fn a_pool_of_a_later_format_is_not_made_anew_though_it_is_empty() {
    let (_directory, root, folder) = local();
    Pool::create(&folder, Hash::Blake3).unwrap();
    let made = std::fs::read(root.join("pool")).unwrap();
    // a later version, and a hash that is not known here
    for (at, code) in [(12, 9), (32, 200)] {
        let mut head = made.clone();
        head[at] = code;
        let (covered, check) = head.split_last_chunk_mut::<16>().unwrap();
        check.copy_from_slice(Check::of(&[covered]).as_bytes());
        std::fs::write(root.join("pool"), &head).unwrap();
        let error = Pool::create(&folder, Hash::Blake3).unwrap_err();
        assert!(matches!(error, VolumeError::NotEmpty { .. }), "{error}");
        assert!(std::fs::read(root.join("pool")).unwrap() == head);
    }
    // one that was cut short is made to the end
    for len in [0, 12, 16, made.len() - 1] {
        std::fs::write(root.join("pool"), &made[..len]).unwrap();
        Pool::create(&folder, Hash::Blake3).unwrap();
    }
    drop(open(&folder));
}

#[test]
fn the_number_of_a_container_that_is_left_over_is_not_given_out() {
    let (_directory, root, folder) = local();
    drop(pool_in(&folder, options()));
    let name = |number: u32| format!("container-{number:08x}");
    // those of the last two are so high that no pool left them
    for (round, (left_over, next)) in (0..).zip([(5, 6), (u32::MAX, 7), (u32::MAX - 1, 8)]) {
        std::fs::write(root.join(name(left_over)), "left over").unwrap();
        let (pool, _) = open(&folder);
        let volume = pool.volume("a").unwrap();
        for at in round * 10..(round + 1) * 10 {
            volume.write(at * BLOCK as u64, &random(at, BLOCK), NOW).unwrap();
        }
        drop((volume, pool));
        let mut names = folder.names().unwrap();
        names.retain(|name| name.starts_with("container-"));
        names.sort();
        assert_eq!(names, (6..=next).map(name).collect::<Vec<_>>());
    }
}

/// Bytes of the containers of a pool on disk.
fn container_bytes(root: &Path) -> u64 {
    let files = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap());
    let is_container =
        |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("container-");
    files.filter(is_container).map(|entry| entry.metadata().unwrap().len()).sum()
}

#[test]
fn a_quota_refuses_new_pages_alone_and_until_there_is_room() {
    let (_directory, root, folder) = local();
    Pool::create(&folder, Hash::Blake3).unwrap();
    let quota = 200_000;
    let limited = Options { quota: Some(quota), ..options() };
    let (pool, _) = Pool::open(Arc::clone(&folder), limited.clone()).unwrap();
    pool.create_volume("a", 1 << 20, BlockSize::B4096).unwrap();
    let volume = pool.volume("a").unwrap();
    let pages = random(1, 100 * BLOCK);
    let page = |i: usize| &pages[i * BLOCK..(i + 1) * BLOCK];
    let mut kept = 0;
    let error = loop {
        match volume.write((kept * BLOCK) as u64, page(kept), NOW) {
            Ok(()) => kept += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, BlockError::NoSpace { .. }), "{error}");
    assert!(error.to_string().contains("quota is 200000"), "{error}");
    // a page, its entry and the entries of a container are all that is missing
    let bytes = container_bytes(&root);
    assert!(bytes <= quota && bytes + 5000 > quota, "{bytes}");
    assert_eq!(pool.statistics().container_bytes, bytes);
    assert_eq!((pool.statistics().over_quota_pages, pool.statistics().quota), (1, Some(quota)));
    // nothing was lost, and what takes no space goes on
    (0..kept).for_each(|i| assert!(read(&volume, i) == page(i), "{i}"));
    assert!(read(&volume, kept) == [0; BLOCK]);
    volume.write((200 * BLOCK) as u64, page(0), NOW).unwrap();
    volume.write(0, page(1), NOW).unwrap();
    volume.write(BLOCK as u64, &[0; BLOCK], NOW).unwrap();
    pool.clone_volume("a", "b", true).unwrap();
    pool.delete_volume("b").unwrap();
    pool.checkpoint().unwrap();
    assert!(container_bytes(&root) <= quota);
    // of a write that has both, the known ones may be there and the new ones are not
    let mixed = [page(2), page(90)].concat();
    volume.write(0, &mixed, NOW).unwrap_err();
    assert!(read(&volume, 1) == [0; BLOCK]);
    drop((volume, pool));
    // also after it was opened again
    let (pool, _) = Pool::open(Arc::clone(&folder), limited.clone()).unwrap();
    let volume = pool.volume("a").unwrap();
    volume.write(0, &pages[90 * BLOCK..], NOW).unwrap_err();
    // most pages go: no container is empty, so a compaction has to make the room
    for i in (0..kept).filter(|i| i % 4 != 0) {
        volume.erase((i * BLOCK) as u64..((i + 1) * BLOCK) as u64, Durability::OnFlush).unwrap();
    }
    let containers = pool.statistics().container_bytes;
    assert!(containers + 5000 > quota, "{containers}");
    volume.write(0, &pages[90 * BLOCK..], NOW).unwrap();
    assert!(container_bytes(&root) <= quota);
    assert_eq!(pool.statistics().over_quota_pages, 1);
    assert_eq!(pool.check(), Vec::<String>::new());
    assert_eq!(pool.scrub().bad, []);
    // all of it goes, and all of it can be had again
    volume.erase(0..1 << 20, Durability::OnFlush).unwrap();
    pool.maintain().unwrap();
    for i in 0..kept - 1 {
        // what was erased lies between what came since, until it is compacted
        volume.write((i * BLOCK) as u64, page(i), NOW).unwrap();
    }
    // without the quota there is room
    drop((volume, pool));
    let (pool, _) = open(&folder);
    let volume = pool.volume("a").unwrap();
    volume.write(0, &pages, NOW).unwrap();
}

#[test]
fn a_quota_below_a_container_is_met_and_left_again() {
    let (_directory, root, folder) = local();
    // the open container is the only one, and it is the one to give back from
    let limited = Options { quota: Some(30_000), ..options() };
    let pool = pool_in(&folder, limited);
    let volume = pool.volume("a").unwrap();
    for round in 0..20 {
        let mut written = 0;
        while volume.write(written * 4096, &random(round * 100 + written, BLOCK), NOW).is_ok() {
            written += 1;
        }
        assert!(written >= 5, "round {round}: {written}");
        assert!(container_bytes(&root) <= 30_000);
        volume.erase(0..1 << 20, NOW).unwrap();
        pool.maintain().unwrap();
    }
}

#[test]
fn a_short_page_that_is_left_alone_is_moved_once() {
    let (_directory, root, folder) = local();
    let limited = Options { quota: Some(30_000), ..options() };
    let pool = pool_in(&folder, limited);
    let volume = pool.volume("a").unwrap();
    // some thirty bytes once it is compressed, less than what a container begins with
    volume.write(0, &[7; BLOCK], NOW).unwrap();
    volume.write(4096, &random(1, 4 * BLOCK), NOW).unwrap();
    volume.erase(4096..1 << 20, NOW).unwrap();
    assert_eq!(pool.maintain().unwrap().compacted, 1);
    assert!(container_bytes(&root) < 100);
    assert_eq!(pool.maintain().unwrap().compacted, 0);
    assert!(read(&volume, 0) == [7; BLOCK]);
}

#[test]
fn a_pool_of_many_containers_has_few_of_them_open() {
    const BLOCKS: usize = 400;
    let (_directory, root, folder) = local();
    let few = Options { open_files: 3, ..options() };
    Pool::create(&folder, Hash::Blake3).unwrap();
    let (pool, _) = Pool::open(Arc::clone(&folder), few.clone()).unwrap();
    pool.create_volume("a", 4 << 20, BlockSize::B4096).unwrap();
    let volume = pool.volume("a").unwrap();
    let bytes = random(1, BLOCKS * BLOCK);
    for (at, page) in bytes.chunks(BLOCK).enumerate() {
        volume.write((at * BLOCK) as u64, page, NOW).unwrap();
        // beside the three the one that takes pages
        assert!(open_containers(&root) <= 4, "{at}: {}", open_containers(&root));
    }
    let read_all = |pool: &Pool| {
        let volume = pool.volume("a").unwrap();
        // every one in another container than the one before
        for at in (0..BLOCKS).map(|at| at * 37 % BLOCKS) {
            assert!(read(&volume, at) == bytes[at * BLOCK..(at + 1) * BLOCK], "{at}");
            assert!(open_containers(&root) <= 4);
        }
    };
    read_all(&pool);
    drop((volume, pool));
    let (pool, damage) = Pool::open(Arc::clone(&folder), few.clone()).unwrap();
    assert!(damage.is_empty(), "{damage:?}");
    assert_eq!(open_containers(&root), 4);
    read_all(&pool);
    assert_eq!(pool.scrub().bad, []);
    assert_eq!(open_containers(&root), 4);
    // what is not durable stays open, until it is
    let patient = Options { commit_len: 1 << 20, ..few };
    drop(pool);
    let (pool, _) = Pool::open(folder, patient).unwrap();
    let volume = pool.volume("a").unwrap();
    volume.write(0, &random(2, 200 * BLOCK), Durability::OnFlush).unwrap();
    assert!(open_containers(&root) > 20);
    volume.flush().unwrap();
    assert!(open_containers(&root) <= 4);
    assert!(read(&volume, 0) == random(2, 200 * BLOCK)[..BLOCK]);
}

#[test]
fn a_container_that_is_replaced_under_the_pool_costs_its_own_pages_and_is_named() {
    let (_directory, root, folder) = local();
    let one = Options { open_files: 1, ..options() };
    let pool = pool_in(&folder, one);
    let bytes = random(1, 50 * BLOCK);
    pool.volume("a").unwrap().write(0, &bytes, NOW).unwrap();
    let path = |number: u32| root.join(format!("container-{number:08x}"));
    std::fs::rename(path(1), root.join("kept")).unwrap();
    std::fs::copy(path(2), path(1)).unwrap();
    assert_eq!(lost(&pool, &bytes), (0..10).collect::<Vec<_>>());
    let error = pool.volume("a").unwrap().read(0, &mut [0; BLOCK]).unwrap_err();
    let told = std::error::Error::source(&error).expect("of the pool").to_string();
    assert!(told.contains("container-00000001"), "{told}");
    std::fs::rename(root.join("kept"), path(1)).unwrap();
    assert_eq!(lost(&pool, &bytes), [0; 0]);
}

#[test]
fn a_page_that_is_known_to_be_lost_is_not_moved_to_where_nobody_knows() {
    let (_directory, root, folder) = local();
    let (pool, bytes) = pool_of(&folder, 20);
    pool.checkpoint().unwrap();
    drop(pool);
    // the second page is said to be another one
    let wanted = random(2, BLOCK);
    let fingerprinter = onefold_fingerprint::Fingerprinter::blake3();
    let mut file = Forged::new(&root, 1);
    for (slot, page) in bytes[..10 * BLOCK].chunks(BLOCK).enumerate() {
        let told = if slot == 1 { &wanted } else { page };
        file.add(page, [(fingerprinter.fingerprint(told), BLOCK as u32)], |_| {});
    }
    std::fs::write(root.join("container-00000001"), file.end()).unwrap();
    let pool = open_sound(&folder);
    let volume = pool.volume("a").unwrap();
    let bad = |pool: &Pool| {
        let bad = pool.scrub().bad;
        bad.into_iter().map(|page| (page.slot, page.blocks)).collect::<Vec<_>>()
    };
    assert_eq!(bad(&pool), [(1, vec![("a".to_owned(), 1)])]);
    volume.erase(2 * BLOCK as u64..10 * BLOCK as u64, NOW).unwrap();
    pool.maintain().unwrap();
    assert_eq!(bad(&pool), [(1, vec![("a".to_owned(), 1)])]);
    // and who writes the page that it is said to be has that one
    volume.write(12 * BLOCK as u64, &wanted, NOW).unwrap();
    assert!(read(&volume, 12) == wanted);
}

#[test]
fn a_lost_page_of_many_blocks_is_told_with_the_first_of_them() {
    let (_directory, root, folder) = local();
    let pool = pool_in(&folder, options());
    pool.volume("a").unwrap().write(0, &random(1, BLOCK).repeat(150), NOW).unwrap();
    pool.clone_volume("a", "b", true).unwrap();
    drop(pool);
    flip_bit(&root.join("container-00000001"), 100);
    let (pool, _) = open(&folder);
    let scrubbed = pool.scrub();
    assert_eq!((scrubbed.pages, scrubbed.bad.len(), scrubbed.more), (0, 1, 0));
    let bad = &scrubbed.bad[0];
    let first: Vec<_> = (0..100).map(|block| ("a".to_owned(), block)).collect();
    assert_eq!((&bad.blocks, bad.more_blocks), (&first, 200));
}
