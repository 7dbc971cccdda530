//! What opening a pool costs, and what it leaves alone.

#![allow(clippy::disallowed_methods, reason = "these tests damage what a pool wrote")]

use std::sync::Arc;

use onefold_backend::crash::CrashDisk;
use onefold_backend::{Folder, LocalFolder};
use onefold_block::{BlockDevice, BlockSize, Durability};
use onefold_testkit::random;
use onefold_volume::{Hash, Options, Pool, VolumeError};

const BLOCK: usize = 4096;

/// Pages of a container.
const PAGES: usize = 10;

fn options() -> Options {
    Options { table_bytes: 64 << 10, container_len: 40_000, ..Options::default() }
}

/// A pool of so many containers with footers, and one without, of these bytes.
fn fill(folder: &Arc<dyn Folder>, containers: usize) -> Vec<u8> {
    Pool::create(folder, Hash::Blake3).unwrap();
    let (pool, _) = Pool::open(Arc::clone(folder), options()).unwrap();
    pool.create_volume("a", 1 << 30, BlockSize::B4096).unwrap();
    let bytes = random(1, (containers * PAGES + 1) * BLOCK);
    pool.volume("a").unwrap().write(0, &bytes, Durability::OnReturn).unwrap();
    let names = folder.names().unwrap();
    let found = names.iter().filter(|name| name.starts_with("container-")).count();
    assert_eq!(found, containers + 1);
    bytes
}

#[test]
fn containers_with_footers_are_opened_without_a_sync() {
    let steps = |containers: usize, is_checkpointed: bool| {
        let disk = CrashDisk::new();
        let folder: Arc<dyn Folder> = Arc::new(disk.folder());
        let bytes = fill(&folder, containers);
        if is_checkpointed {
            Pool::open(Arc::clone(&folder), options()).unwrap().0.checkpoint().unwrap();
        }
        let before = disk.operations();
        let (pool, damage) = Pool::open(folder, options()).unwrap();
        // what makes, changes and syncs files and names
        let steps = disk.operations() - before;
        assert!(damage.is_empty(), "{damage:?}");
        let mut found = vec![0; bytes.len()];
        pool.volume("a").unwrap().read(0, &mut found).unwrap();
        assert!(found == bytes);
        steps
    };
    for is_checkpointed in [false, true] {
        assert_eq!(steps(100, is_checkpointed), steps(1, is_checkpointed), "{is_checkpointed}");
    }
}

#[test]
fn a_container_that_is_missing_is_lost_alone_and_not_made_anew() {
    const CONTAINERS: usize = 3;
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("pool");
    let folder: Arc<dyn Folder> = Arc::new(LocalFolder::create(&root).unwrap());
    let bytes = fill(&folder, CONTAINERS);
    let (path, kept) = (root.join("container-00000002"), directory.path().join("kept"));
    std::fs::rename(&path, &kept).unwrap();
    // also after a checkpoint made without it
    for round in 0..2 {
        let (pool, told) = Pool::open(Arc::clone(&folder), options()).unwrap();
        assert_eq!(told.len(), 1, "{round}: {told:?}");
        assert!(told[0].to_string().contains("container-00000002"), "{round}: {}", told[0]);
        let volume = pool.volume("a").unwrap();
        for (at, page) in bytes.chunks(BLOCK).enumerate() {
            let mut found = vec![0; BLOCK];
            match volume.read((at * BLOCK) as u64, &mut found) {
                Ok(()) => assert!(found == page && at / PAGES != 1, "{round}: {at}"),
                Err(_) => assert_eq!(at / PAGES, 1, "{round}"),
            }
        }
        let scrubbed = pool.scrub();
        assert_eq!((scrubbed.pages, scrubbed.bad.len()), (21, PAGES), "{round}");
        pool.maintain().unwrap();
        pool.checkpoint().unwrap();
        assert!(!path.exists(), "{round}");
    }
    std::fs::rename(&kept, &path).unwrap();
    let (pool, told) = Pool::open(folder, options()).unwrap();
    assert!(told.is_empty(), "{told:?}");
    let mut found = vec![0; bytes.len()];
    pool.volume("a").unwrap().read(0, &mut found).unwrap();
    assert!(found == bytes);
    assert_eq!(pool.check(), Vec::<String>::new());
    assert_eq!(pool.scrub().bad, []);
}

#[test]
fn a_damaged_container_goes_once_nothing_refers_to_it() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("pool");
    let folder: Arc<dyn Folder> = Arc::new(LocalFolder::create(&root).unwrap());
    let bytes = fill(&folder, 3);
    let path = root.join("container-00000002");
    // its footer ends the file
    let len = std::fs::metadata(&path).unwrap().len();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(len - 1).unwrap();
    let (pool, told) = Pool::open(Arc::clone(&folder), options()).unwrap();
    assert_eq!((told.len(), pool.statistics().damaged_containers), (1, 1), "{told:?}");
    pool.clone_volume("a", "snapshot", true).unwrap();
    let volume = pool.volume("a").unwrap();
    volume.write(0, &bytes, Durability::OnReturn).unwrap();
    pool.maintain().unwrap();
    assert!(path.exists(), "the snapshot has its pages, whoever can read them again");
    pool.delete_volume("snapshot").unwrap();
    pool.flush().unwrap();
    assert!(!path.exists());
    assert_eq!(pool.statistics().damaged_containers, 0);
    assert_eq!(pool.check(), Vec::<String>::new());
    let mut found = vec![0; bytes.len()];
    volume.read(0, &mut found).unwrap();
    assert!(found == bytes);
    drop(volume);
    drop(pool);
    let (_, told) = Pool::open(folder, options()).unwrap();
    assert!(told.is_empty(), "{told:?}");
}

/// Names, lengths and times of all files below `root`, and their bytes.
fn everything(root: &std::path::Path) -> Vec<(std::ffi::OsString, std::time::SystemTime, Vec<u8>)> {
    let mut all: Vec<_> = std::fs::read_dir(root)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let modified = entry.metadata().unwrap().modified().unwrap();
            (entry.file_name(), modified, std::fs::read(entry.path()).unwrap())
        })
        .collect();
    all.sort();
    all
}

#[test]
fn a_pool_that_is_opened_to_be_read_stays_as_a_crash_left_it() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("pool");
    let folder: Arc<dyn Folder> = Arc::new(LocalFolder::create(&root).unwrap());
    let bytes = fill(&folder, 3);
    // what a crash leaves: the part of a frame, bytes behind the last page, a container of nobody
    let grow = |name: &str, with: &[u8]| {
        use std::io::Write;
        let mut file = std::fs::OpenOptions::new().append(true).open(root.join(name)).unwrap();
        file.write_all(with).unwrap();
    };
    let names = folder.names().unwrap();
    let journal = names.iter().rfind(|name| name.starts_with("journal-")).unwrap();
    grow(journal, &[7; 30]);
    grow("container-00000004", &[9; 500]);
    std::fs::write(root.join("container-00000005"), [1; 50]).unwrap();
    let before = everything(&root);
    {
        let (pool, damage) = Pool::open_read_only(&root, options()).unwrap();
        // others may read it meanwhile, and nobody may write it
        let (other, _) = Pool::open_read_only(&root, options()).unwrap();
        assert!(Pool::open(Arc::clone(&folder), options()).is_err());
        assert!(damage.is_empty(), "{damage:?}");
        for pool in [&pool, &other] {
            let volume = pool.volume("a").unwrap();
            let mut found = vec![0; bytes.len()];
            volume.read(0, &mut found).unwrap();
            assert!(found == bytes && volume.is_read_only());
            assert!(volume.write(0, &bytes[..BLOCK], Durability::OnFlush).is_err());
            volume.flush().unwrap();
            assert_eq!(pool.check(), Vec::<String>::new());
            assert_eq!(pool.scrub().bad, []);
        }
        let refused = [
            pool.create_volume("b", 4096, BlockSize::B4096),
            pool.clone_volume("a", "b", true),
            pool.rename_volume("a", "b"),
            pool.delete_volume("a"),
            pool.checkpoint(),
            pool.compact().map(drop),
            pool.flush(),
        ];
        for refused in refused {
            assert!(matches!(refused, Err(VolumeError::ReadOnlyPool)), "{refused:?}");
        }
    }
    assert!(everything(&root) == before, "something was written");
    let (pool, damage) = Pool::open(folder, options()).unwrap();
    assert!(damage.is_empty(), "{damage:?}");
    let mut found = vec![0; bytes.len()];
    pool.volume("a").unwrap().read(0, &mut found).unwrap();
    assert!(found == bytes);
}
