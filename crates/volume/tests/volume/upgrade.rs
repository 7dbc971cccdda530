//! An upgrade keeps all that a pool has, whatever stops it, and leaves a damaged pool as it is.

#![allow(clippy::disallowed_methods, reason = "these tests damage what a pool wrote")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use onefold_backend::crash::{CrashDisk, Step};
use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
use onefold_backend::{BackendError, Folder, LocalFolder, MemoryFolder, Operation};
use onefold_block::{BlockDevice, BlockSize, Durability};
use onefold_testkit::{random, text};
use onefold_volume::{Codec, Hash, Options, Pool, Upgraded, Version, VolumeDetails, VolumeError};

const BLOCK: usize = 4096;
const NOW: Durability = Durability::OnReturn;

fn options() -> Options {
    Options { table_bytes: 16 << 10, container_len: 24_000, ..Options::default() }
}

fn open(folder: &Arc<dyn Folder>) -> Pool {
    let (pool, damage) = Pool::open(Arc::clone(folder), options()).unwrap();
    assert!(damage.is_empty(), "{damage:?}");
    pool
}

fn upgrade(folder: &Arc<dyn Folder>) -> Result<Upgraded, VolumeError> {
    Pool::upgrade(folder, options())
}

/// The versions before and after.
fn versions(done: &Upgraded) -> (u32, u32) {
    (done.before.code(), done.now.code())
}

/// What there is in the folder when an upgrade begins.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Left {
    /// A pool that was never opened.
    New,
    /// A checkpoint, and nothing since.
    Checkpoint,
    /// A checkpoint, and journals since: in so many that opening the pool writes a checkpoint.
    Journals,
}

const ALL: [Left; 3] = [Left::New, Left::Checkpoint, Left::Journals];

/// Makes a pool of version 1: volumes of both block sizes with pages of all kinds, snapshots and clones that
/// share segments, a volume that was deleted, one that became shorter, pages that were moved.
fn make(folder: &Arc<dyn Folder>, left: Left) {
    Pool::create_as(folder, Hash::Blake3, Codec::Zstd, Version::Whole).unwrap();
    if left == Left::New {
        return;
    }
    let pool = open(folder);
    assert_eq!(pool.version(), Version::Whole);
    let write = |name: &str, at: usize, bytes: &[u8]| {
        pool.volume(name).unwrap().write(at as u64, bytes, Durability::OnFlush).unwrap();
    };
    pool.create_volume("disk", 1500 * BLOCK as u64, BlockSize::B4096).unwrap();
    pool.create_volume("small", 1200 * 512, BlockSize::B512).unwrap();
    pool.create_volume("gone", 64 << 10, BlockSize::B4096).unwrap();
    write("disk", 0, &random(1, 12 * BLOCK));
    write("disk", 600 * BLOCK, &text(2, 5 * BLOCK));
    write("disk", 1490 * BLOCK, &random(1, 3 * BLOCK));
    write("small", 700, &text(3, 5_000));
    write("gone", 0, &random(4, 3 * BLOCK));
    pool.clone_volume("disk", "monday", true).unwrap();
    pool.clone_volume("monday", "again", false).unwrap();
    write("disk", 0, &random(5, 9 * BLOCK));
    write("again", 3 * BLOCK, &text(6, 2 * BLOCK));
    pool.delete_volume("gone").unwrap();
    pool.volume("again").unwrap().resize(1000 * BLOCK as u64).unwrap();
    while pool.compact().unwrap() {}
    pool.checkpoint().unwrap();
    if left == Left::Checkpoint {
        return;
    }
    write("disk", 20 * BLOCK, &random(7, 4 * BLOCK));
    pool.clone_volume("disk", "tuesday", true).unwrap();
    let erased = 600 * BLOCK as u64..602 * BLOCK as u64;
    pool.volume("disk").unwrap().erase(erased, NOW).unwrap();
    drop(pool);
    for round in 0..70 {
        let pool = open(folder);
        pool.volume("small").unwrap().write(512 * round, &text(round, 512), NOW).unwrap();
    }
}

/// All that a pool has, and which pages are shared.
#[derive(Debug, PartialEq)]
struct Found {
    volumes: BTreeMap<String, (VolumeDetails, Vec<u8>)>,
    pages: u64,
    page_bytes: u64,
}

fn found(pool: &Pool) -> Found {
    let of = |name: String| {
        let volume = pool.volume(&name).unwrap();
        let mut bytes = vec![1; volume.size() as usize];
        volume.read(0, &mut bytes).unwrap();
        let details = pool.details(&name).unwrap();
        (name, (details, bytes))
    };
    let volumes = pool.volumes().into_iter().map(|one| of(one.name)).collect();
    let sums = pool.statistics();
    Found { volumes, pages: sums.pages, page_bytes: sums.page_bytes }
}

/// Opens a pool that is as it was, of this version, with nothing wrong.
fn expect_same(folder: &Arc<dyn Folder>, version: Version, expected: &Found, context: &str) {
    let (pool, damage) = Pool::open(Arc::clone(folder), options())
        .unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(damage.is_empty(), "{context}: {damage:?}");
    assert_eq!(pool.version(), version, "{context}");
    assert_eq!(pool.check(), Vec::<String>::new(), "{context}");
    assert_eq!(pool.scrub().bad, [], "{context}");
    assert!(found(&pool) == *expected, "{context}: it is another pool");
    let names = folder.names().unwrap();
    assert!(!names.contains(&"pool-new".to_owned()), "{context}: {names:?}");
}

/// It can be written, and goes on from there.
fn expect_goes_on(folder: &Arc<dyn Folder>, context: &str) {
    let pool = open(folder);
    if pool.volumes().is_empty() {
        pool.create_volume("disk", 64 << 10, BlockSize::B4096).unwrap();
    }
    let page = random(77, BLOCK);
    pool.volume("disk").unwrap().write(0, &page, NOW).unwrap();
    while pool.compact().unwrap() {}
    pool.checkpoint().unwrap();
    drop(pool);
    let pool = open(folder);
    let mut found = vec![0; BLOCK];
    pool.volume("disk").unwrap().read(0, &mut found).unwrap();
    assert!(found == page, "{context}");
    assert_eq!(pool.check(), Vec::<String>::new(), "{context}");
}

/// The version that the file `pool` says.
fn version_in(folder: &dyn Folder) -> Version {
    let reader = folder.reader("pool").unwrap();
    assert_eq!(reader.len(), 50, "it is whole");
    let mut code = [0; 4];
    reader.read(12, &mut code).unwrap();
    match u32::from_le_bytes(code) {
        1 => Version::Whole,
        2 => Version::Paged,
        other => panic!("version {other}"),
    }
}

fn has_nodes(folder: &dyn Folder) -> bool {
    folder.names().unwrap().iter().any(|name| name.starts_with("nodes-"))
}

fn folder_of(disk: &CrashDisk) -> Arc<dyn Folder> {
    Arc::new(disk.folder())
}

/// Another disk with the same files, all of which are durable.
fn copy(disk: &CrashDisk) -> CrashDisk {
    disk.durable_states(2, 0).nth(1).unwrap_or_else(|| disk.durable_states(2, 0).next().unwrap())
}

#[test]
fn an_upgrade_keeps_what_a_pool_has_and_what_its_volumes_share() {
    for left in ALL {
        let folder: Arc<dyn Folder> = Arc::new(MemoryFolder::new());
        make(&folder, left);
        let before = found(&open(&folder));
        let is_shared = |(details, _): &(VolumeDetails, _)| details.shared_pages > 0;
        assert!(
            left == Left::New || before.volumes.values().filter(|one| is_shared(one)).count() > 2
        );
        assert_eq!(versions(&upgrade(&folder).unwrap()), (1, 2), "{left:?}");
        assert!(left == Left::New || has_nodes(&*folder), "{left:?}: no checkpoint was written");
        expect_same(&folder, Version::Paged, &before, &format!("{left:?}"));
        assert_eq!(versions(&upgrade(&folder).unwrap()), (2, 2), "{left:?}");
        expect_same(&folder, Version::Paged, &before, &format!("{left:?}, again"));
        expect_goes_on(&folder, &format!("{left:?}"));
    }
}

#[test]
fn a_power_cut_at_any_step_leaves_a_pool_of_either_version_with_all_that_it_had() {
    for left in ALL {
        let base = CrashDisk::new();
        make(&folder_of(&base), left);
        let before = found(&open(&folder_of(&copy(&base))));
        let whole = copy(&base);
        upgrade(&folder_of(&whole)).unwrap();
        let (mut cut, mut of) = (0, [0, 0]);
        // after the last step it reads
        for steps in 0..=whole.operations() + 1 {
            let disk = copy(&base);
            disk.crash_after(steps);
            let is_done = upgrade(&folder_of(&disk)).is_ok();
            assert!(is_done || steps <= whole.operations(), "{left:?} {steps}");
            for (number, state) in (0..).zip(disk.durable_states(4, steps)) {
                let context = format!("{left:?}, cut at {steps}, state {number}");
                let folder = folder_of(&state);
                let version = version_in(&*folder);
                of[version.code() as usize - 1] += 1;
                let is_old = version == Version::Whole;
                assert!(!is_old || !has_nodes(&*folder), "{context}: nodes came too early");
                assert!(!is_old || !is_done, "{context}");
                // without an opening in between, and after one
                let other = folder_of(&copy(&state));
                expect_same(&folder, version, &before, &context);
                for folder in [&folder, &other] {
                    let again = upgrade(folder);
                    let again = again.unwrap_or_else(|error| panic!("{context}: {error}"));
                    assert_eq!((again.before, again.now), (version, Version::Paged), "{context}");
                    expect_same(folder, Version::Paged, &before, &context);
                }
                if number == 0 {
                    expect_goes_on(&folder, &context);
                }
                cut += 1;
            }
        }
        println!("{left:?}: {cut} states, by version {of:?}");
        assert!(of[0] > 10 && of[1] > 3, "{left:?}: {of:?}");
    }
}

#[test]
fn nothing_of_the_new_version_is_written_before_the_new_pool_is_durable() {
    let disk = CrashDisk::new();
    make(&folder_of(&disk), Left::Journals);
    let before = disk.operations() as usize;
    upgrade(&folder_of(&disk)).unwrap();
    let steps = &disk.trace()[before..];
    let renamed = Step::Rename("local/pool".into());
    let renamed = steps.iter().position(|step| *step == renamed).unwrap();
    assert_eq!(steps[renamed + 1], Step::SyncDirectory("local".into()));
    let synced = Step::SyncFile("local/pool-new".into());
    assert!(steps[..renamed].contains(&synced), "its bytes are durable before its name");
    let is_new = |step: &Step| {
        let told = step.to_string();
        told.contains("nodes-") || told.contains("checkpoint-")
    };
    let is_written = |step: &&Step| matches!(step, Step::Write(_));
    assert!(!steps[..renamed].iter().filter(is_written).any(is_new), "{steps:?}");
    assert!(steps[renamed..].iter().filter(is_written).any(is_new));
}

#[test]
fn an_upgrade_that_failed_anywhere_is_done_by_the_next() {
    for left in [Left::Checkpoint, Left::Journals] {
        let base = CrashDisk::new();
        make(&folder_of(&base), left);
        let before = found(&open(&folder_of(&copy(&base))));
        let (mut failed, mut is_over, mut skipped) = (0, false, 0);
        while !is_over {
            for is_late in [false, true] {
                let context = format!("{left:?}, call {skipped}, late {is_late}");
                let folder = folder_of(&copy(&base));
                let faults = Faults::none();
                let fault = Fault::new(Failure::Io).skip(skipped);
                faults.add(if is_late { fault.answer_lost() } else { fault });
                let faulty = Faulty::new(Arc::clone(&folder), "pool", &faults);
                match upgrade(&(Arc::new(faulty) as Arc<dyn Folder>)) {
                    Ok(done) => assert_eq!(versions(&done), (1, 2), "{context}"),
                    Err(_) => failed += 1,
                }
                is_over = faults.failed() == 0;
                let version = version_in(&*folder);
                assert!(version == Version::Paged || !has_nodes(&*folder), "{context}");
                expect_same(&folder, version, &before, &context);
                assert_eq!(versions(&upgrade(&folder).unwrap()).1, 2, "{context}");
                expect_same(&folder, Version::Paged, &before, &context);
            }
            skipped += 1;
        }
        println!("{left:?}: {failed} upgrades failed");
        assert!(failed > 60, "{failed}");
    }
}

/// All files and their bytes.
fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let all = fs::read_dir(root).unwrap().map(|entry| entry.unwrap());
    all.map(|one| (one.file_name().into_string().unwrap(), fs::read(one.path()).unwrap())).collect()
}

fn local(left: Left) -> (tempfile::TempDir, Arc<dyn Folder>) {
    let directory = tempfile::tempdir().unwrap();
    let folder: Arc<dyn Folder> = Arc::new(LocalFolder::create(directory.path()).unwrap());
    make(&folder, left);
    (directory, folder)
}

#[test]
fn a_pool_of_the_newest_version_stays_as_it_is() {
    let (directory, folder) = local(Left::Checkpoint);
    upgrade(&folder).unwrap();
    let before = files(directory.path());
    let again = upgrade(&folder).unwrap();
    assert_eq!((versions(&again), again.warning.is_none()), ((2, 2), true));
    assert!(files(directory.path()) == before);
}

#[test]
fn a_damaged_pool_is_refused_with_its_first_damage_and_stays_of_its_version() {
    let (directory, folder) = local(Left::Checkpoint);
    let pool = fs::read(directory.path().join("pool")).unwrap();
    let container = files(directory.path()).into_keys().find(|one| one.starts_with("container-"));
    let container = directory.path().join(container.unwrap());
    let kept = fs::read(&container).unwrap();
    for damage in 0..2 {
        match damage {
            0 => fs::remove_file(&container).unwrap(),
            _ => fs::write(&container, &kept[..kept.len() - 1]).unwrap(),
        }
        let error = upgrade(&folder).unwrap_err();
        assert!(matches!(error, VolumeError::NotUpgraded { .. }), "{error}");
        let name = container.file_name().unwrap().to_str().unwrap();
        assert!(error.to_string().contains(name), "{error}");
        assert_eq!(fs::read(directory.path().join("pool")).unwrap(), pool);
        assert!(!has_nodes(&*folder));
        let (pool, told) = Pool::open(Arc::clone(&folder), options()).unwrap();
        assert_eq!((pool.version(), told.len()), (Version::Whole, 1), "{told:?}");
    }
    fs::write(&container, &kept).unwrap();
    assert_eq!(versions(&upgrade(&folder).unwrap()), (1, 2));
}

#[test]
fn a_pool_that_cannot_be_opened_is_not_upgraded_before_it_is_repaired() {
    let (directory, folder) = local(Left::Checkpoint);
    open(&folder).volume("disk").unwrap().write(0, &random(9, BLOCK), NOW).unwrap();
    let journal = files(directory.path()).into_keys().rfind(|one| one.starts_with("journal-"));
    let journal = directory.path().join(journal.unwrap());
    let mut bytes = fs::read(&journal).unwrap();
    bytes[40] ^= 1;
    fs::write(&journal, bytes).unwrap();
    let error = upgrade(&folder).unwrap_err();
    let is_told = matches!(error, VolumeError::Incomplete { .. } | VolumeError::Damaged { .. });
    assert!(is_told, "{error}");
    assert_eq!(version_in(&*folder), Version::Whole);
    assert!(!has_nodes(&*folder));
    Pool::repair(&folder).unwrap();
    let before = found(&open(&folder));
    assert_eq!(versions(&upgrade(&folder).unwrap()), (1, 2));
    expect_same(&folder, Version::Paged, &before, "repaired");
}

#[test]
fn what_is_left_of_an_upgrade_goes_with_the_next_opening_or_upgrade() {
    for is_upgraded in [false, true] {
        let (directory, folder) = local(Left::Checkpoint);
        let before = found(&open(&folder));
        let new = directory.path().join("pool-new");
        fs::write(&new, [7; 1000]).unwrap();
        drop(Pool::open_read_only(directory.path(), options()).unwrap());
        assert!(new.exists(), "who reads removes nothing");
        let version = match is_upgraded {
            true => upgrade(&folder).unwrap().now,
            false => Version::Whole,
        };
        assert_eq!(new.exists(), !is_upgraded);
        expect_same(&folder, version, &before, "with what was left");
    }
}

fn is_in_use<T>(result: &Result<T, VolumeError>) -> bool {
    matches!(result, Err(VolumeError::Backend(BackendError::InUse { .. })))
}

#[test]
fn a_pool_that_is_open_is_not_upgraded() {
    let (directory, folder) = local(Left::Checkpoint);
    {
        let _pool = open(&folder);
        assert!(is_in_use(&upgrade(&folder)));
    }
    {
        let _reader = Pool::open_read_only(directory.path(), options()).unwrap();
        assert!(is_in_use(&upgrade(&folder)));
    }
    assert_eq!(version_in(&*folder), Version::Whole);
    assert_eq!(versions(&upgrade(&folder).unwrap()), (1, 2));
}

#[test]
fn of_several_upgrades_and_openings_at_once_one_has_the_pool_at_a_time() {
    for _ in 0..8 {
        let (directory, folder) = local(Left::Checkpoint);
        let before = found(&open(&folder));
        let first = thread::scope(|scope| {
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        loop {
                            match upgrade(&folder) {
                                Ok(done) => return done.before,
                                busy => assert!(is_in_use(&busy), "{busy:?}"),
                            }
                        }
                    })
                })
                .collect();
            let reading = scope.spawn(|| {
                loop {
                    match Pool::open_read_only(directory.path(), options()) {
                        Ok((pool, damage)) => {
                            assert!(damage.is_empty(), "{damage:?}");
                            assert!(found(&pool) == before);
                            if pool.version() == Version::Paged {
                                return;
                            }
                        }
                        busy => assert!(is_in_use(&busy), "{:?}", busy.err()),
                    }
                }
            });
            let found = threads.into_iter().map(|one| one.join().unwrap());
            let first = found.filter(|one| *one == Version::Whole).count();
            reading.join().unwrap();
            first
        });
        assert_eq!(first, 1);
        expect_same(&folder, Version::Paged, &before, "of several");
    }
}

#[test]
fn an_upgrade_reads_what_an_opening_reads() {
    let reads = |blocks: usize, is_upgraded: bool| {
        let faults = Faults::none();
        let folder = Faulty::new(MemoryFolder::new(), "pool", &faults);
        let folder: Arc<dyn Folder> = Arc::new(folder);
        Pool::create_as(&folder, Hash::Blake3, Codec::Zstd, Version::Whole).unwrap();
        {
            let pool = open(&folder);
            pool.create_volume("disk", 16 << 20, BlockSize::B4096).unwrap();
            pool.volume("disk").unwrap().write(0, &random(1, blocks * BLOCK), NOW).unwrap();
        }
        let count = || faults.count(Operation::Read) + faults.count(Operation::Open);
        let before = count();
        match is_upgraded {
            true => drop(upgrade(&folder).unwrap()),
            false => drop(open(&folder)),
        }
        count() - before
    };
    let more = |blocks: usize| reads(blocks, true) - reads(blocks, false);
    assert!(reads(300, false) > reads(30, false) + 50);
    assert_eq!(more(300), more(30));
}
