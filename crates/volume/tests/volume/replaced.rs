//! A volume that is renamed, or rolled back to a snapshot, is what it was or what it is to be, also
//! where the power goes meanwhile.

use std::sync::Arc;

use onefold_backend::crash::CrashDisk;
use onefold_backend::{Folder, MemoryFolder};
use onefold_block::{BlockDevice, BlockSize, Durability};
use onefold_testkit::random;
use onefold_volume::{Hash, Options, Pool, VolumeError};

const BLOCK: usize = 4096;

fn options() -> Options {
    Options { table_bytes: 64 << 10, container_len: 24_000, ..Options::default() }
}

fn open(folder: &Arc<dyn Folder>) -> Pool {
    let (pool, damage) = Pool::open(Arc::clone(folder), options()).unwrap();
    assert!(damage.is_empty(), "{damage:?}");
    pool
}

/// A pool with volume `disk`, its snapshot `monday` and what `disk` became after it.
fn new_pool(folder: &Arc<dyn Folder>) -> (Pool, Vec<u8>, Vec<u8>) {
    Pool::create(folder, Hash::Blake3).unwrap();
    let pool = open(folder);
    let (monday, tuesday) = (random(1, 8 * BLOCK), random(2, 12 * BLOCK));
    pool.create_volume("disk", monday.len() as u64, BlockSize::B4096).unwrap();
    let disk = pool.volume("disk").unwrap();
    disk.write(0, &monday, Durability::OnReturn).unwrap();
    pool.clone_volume("disk", "monday", true).unwrap();
    disk.resize(tuesday.len() as u64).unwrap();
    disk.write(0, &tuesday, Durability::OnReturn).unwrap();
    (pool, monday, tuesday)
}

fn bytes_of(pool: &Pool, name: &str) -> Vec<u8> {
    let volume = pool.volume(name).unwrap();
    let mut bytes = vec![1; volume.size() as usize];
    volume.read(0, &mut bytes).unwrap();
    bytes
}

fn names(pool: &Pool) -> Vec<String> {
    pool.volumes().into_iter().map(|volume| volume.name).collect()
}

/// Cuts the power at each step of `change`, and hands what opens again to `verify`.
fn cut_everywhere(
    change: impl Fn(&Pool) -> Result<(), VolumeError>,
    verify: impl Fn(&Pool, &[u8], &[u8]),
) {
    let mut steps = 0;
    loop {
        let disk = CrashDisk::new();
        let folder: Arc<dyn Folder> = Arc::new(disk.folder());
        let (pool, monday, tuesday) = new_pool(&folder);
        disk.crash_after(disk.operations() + steps);
        let is_done = change(&pool).is_ok();
        drop(pool);
        for state in disk.durable_states(4, steps) {
            let folder: Arc<dyn Folder> = Arc::new(state.folder());
            let pool = open(&folder);
            assert_eq!(pool.check(), Vec::<String>::new(), "after {steps} steps");
            assert_eq!(pool.scrub().bad, [], "after {steps} steps");
            verify(&pool, &monday, &tuesday);
        }
        if is_done {
            break;
        }
        steps += 1;
    }
    assert!(steps > 1, "it takes several steps");
}

#[test]
fn a_power_cut_leaves_a_volume_under_its_old_name_or_its_new_one() {
    cut_everywhere(
        |pool| pool.rename_volume("disk", "root"),
        |pool, _, tuesday| {
            let names = names(pool);
            let name = names.iter().find(|name| *name != "monday").unwrap();
            assert!(["disk", "root"].contains(&name.as_str()) && names.len() == 2, "{names:?}");
            assert!(bytes_of(pool, name) == tuesday);
        },
    );
}

#[test]
fn a_power_cut_leaves_a_volume_rolled_back_or_as_it_was() {
    cut_everywhere(
        |pool| pool.roll_back_volume("disk", "monday"),
        |pool, monday, tuesday| {
            assert_eq!(names(pool), ["disk", "monday"]);
            let found = bytes_of(pool, "disk");
            assert!(found == monday || found == tuesday, "{} bytes", found.len());
            assert!(bytes_of(pool, "monday") == monday);
        },
    );
}

#[test]
fn a_renamed_volume_keeps_its_copies_and_those_who_use_it() {
    let folder: Arc<dyn Folder> = Arc::new(MemoryFolder::new());
    let (pool, _, mut tuesday) = new_pool(&folder);
    let disk = pool.volume("disk").unwrap();
    pool.rename_volume("disk", "root").unwrap();
    let page = random(9, BLOCK);
    disk.write(0, &page, Durability::OnReturn).unwrap();
    tuesday[..BLOCK].copy_from_slice(&page);
    drop(disk);
    drop(pool);
    for is_checkpointed in [false, true] {
        let pool = open(&folder);
        assert_eq!(names(&pool), ["monday", "root"]);
        assert!(bytes_of(&pool, "root") == tuesday);
        let details = pool.details("root").unwrap();
        assert_eq!((details.source, details.copies), (None, vec!["monday".to_owned()]));
        assert_eq!(pool.details("monday").unwrap().source.as_deref(), Some("root"));
        if !is_checkpointed {
            pool.checkpoint().unwrap();
        }
    }
}

#[test]
fn what_a_volume_had_beyond_its_snapshot_gives_its_space_back() {
    let folder: Arc<dyn Folder> = Arc::new(MemoryFolder::new());
    let (pool, monday, _) = new_pool(&folder);
    assert_eq!(pool.statistics().pages, 8 + 12);
    pool.roll_back_volume("disk", "monday").unwrap();
    assert_eq!(pool.statistics().pages, 8);
    assert_eq!(pool.check(), Vec::<String>::new());
    // they part again where one is written
    let page = random(9, BLOCK);
    pool.volume("disk").unwrap().write(0, &page, Durability::OnReturn).unwrap();
    assert!(bytes_of(&pool, "monday") == monday);
    drop(pool);
    let pool = open(&folder);
    assert!(bytes_of(&pool, "disk")[..BLOCK] == page && bytes_of(&pool, "monday") == monday);
    assert_eq!(pool.details("disk").unwrap().source.as_deref(), Some("monday"));
}

#[test]
fn what_cannot_be_renamed_or_rolled_back_stays_as_it_is() {
    let folder: Arc<dyn Folder> = Arc::new(MemoryFolder::new());
    let (pool, _, tuesday) = new_pool(&folder);
    pool.create_volume("small", 4096, BlockSize::B512).unwrap();
    let taken = pool.rename_volume("disk", "monday");
    assert!(matches!(taken, Err(VolumeError::VolumeExists { .. })), "{taken:?}");
    let none = pool.rename_volume("none", "other");
    assert!(matches!(none, Err(VolumeError::NoVolume { .. })), "{none:?}");
    let bad = pool.rename_volume("disk", "");
    assert!(matches!(bad, Err(VolumeError::BadName { .. })), "{bad:?}");
    let no_snapshot = pool.roll_back_volume("disk", "small");
    assert!(matches!(no_snapshot, Err(VolumeError::NotASnapshot { .. })), "{no_snapshot:?}");
    let snapshot = pool.roll_back_volume("monday", "monday");
    assert!(matches!(snapshot, Err(VolumeError::ReadOnly { .. })), "{snapshot:?}");
    let blocks = pool.roll_back_volume("small", "monday");
    assert!(matches!(blocks, Err(VolumeError::OtherBlocks { .. })), "{blocks:?}");
    assert_eq!(names(&pool), ["disk", "monday", "small"]);
    assert!(bytes_of(&pool, "disk") == tuesday);
    assert_eq!(pool.check(), Vec::<String>::new());
}
