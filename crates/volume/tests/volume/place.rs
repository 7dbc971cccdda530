//! A pool on the disk, as a kill leaves it, whose files a test damages.

#![allow(clippy::disallowed_methods, reason = "these tests damage what a pool wrote")]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use onefold_backend::{Folder, LocalFolder};
use onefold_block::{BlockDevice, BlockSize, Durability};
use onefold_testkit::random;
use onefold_volume::{Hash, Options, Pool, VolumeError};
use tempfile::TempDir;

pub(crate) const BLOCK: usize = 4096;
pub(crate) const NOW: Durability = Durability::OnReturn;
/// Frames of a journal: their heads have so many bytes.
pub(crate) const HEAD: usize = 36;
/// The journal of the first writer.
pub(crate) const JOURNAL: &str = "journal-0000000000000001-0000000000000000";

pub(crate) fn options() -> Options {
    Options { table_bytes: 64 << 10, container_len: 40_000, ..Options::default() }
}

/// A pool on the disk.
pub(crate) struct Place {
    directory: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.directory.path().join("pool")
    }

    pub(crate) fn folder(&self) -> Arc<dyn Folder> {
        Arc::new(LocalFolder::create(&self.root()).unwrap())
    }

    pub(crate) fn open(&self) -> Result<(Pool, Vec<VolumeError>), VolumeError> {
        Pool::open(self.folder(), options())
    }

    /// All files and their bytes, but for the mark, which each opening writes.
    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let all = fs::read_dir(self.root()).unwrap().map(|entry| entry.unwrap());
        let all =
            all.map(|one| (one.file_name().into_string().unwrap(), fs::read(one.path()).unwrap()));
        all.filter(|(name, _)| name != "writer").collect()
    }

    /// The same files elsewhere.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::new();
        fs::create_dir(copy.root()).unwrap();
        for entry in fs::read_dir(self.root()).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, copy.root().join(path.file_name().unwrap())).unwrap();
        }
        copy
    }

    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let path = self.root().join(name);
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::write(path, bytes).unwrap();
    }
}

/// A pool whose volume got `flushes` blocks, each by a flush of its own, and is as a kill leaves it after
/// what was acknowledged was noted.
pub(crate) fn killed(flushes: usize) -> Place {
    killed_after(flushes, flushes)
}

/// The same of one in which only the first `noted` flushes were noted.
pub(crate) fn killed_after(noted: usize, flushes: usize) -> Place {
    let place = Place::new();
    let folder = place.folder();
    Pool::create(&folder, Hash::Blake3).unwrap();
    let (pool, _) = Pool::open(folder, options()).unwrap();
    pool.create_volume("a", 1 << 20, BlockSize::B4096).unwrap();
    for block in 0..flushes {
        let page = random(block as u64, BLOCK);
        pool.volume("a").unwrap().write((block * BLOCK) as u64, &page, NOW).unwrap();
        if block + 1 == noted {
            pool.note_acknowledged().unwrap();
        }
    }
    let killed = place.copy();
    drop(pool);
    killed
}

/// Where frames end in the first writer's journal.
pub(crate) fn ends(place: &Place) -> Vec<usize> {
    let bytes = fs::read(place.root().join(JOURNAL)).unwrap();
    let (mut ends, mut end) = (vec![0], 0);
    while end < bytes.len() {
        let len = u32::from_le_bytes(bytes[end..end + 4].try_into().unwrap());
        end += HEAD + len as usize;
        ends.push(end);
    }
    ends
}

/// The first `blocks` blocks are as they were written.
pub(crate) fn expect_blocks(pool: &Pool, blocks: usize, context: &str) {
    for block in 0..blocks {
        let mut found = vec![0; BLOCK];
        pool.volume("a").unwrap().read((block * BLOCK) as u64, &mut found).unwrap();
        assert!(found == random(block as u64, BLOCK), "{context}: block {block}");
    }
    assert_eq!(pool.check(), Vec::<String>::new(), "{context}");
}
