//! Restoring onto a device: it ends as the snapshot has it whatever it held, and little comes from far
//! away.

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use onefold_backend::Objects;
use onefold_store::restore::{DeviceOptions, DeviceReport, Disk, restore_device, restore_disk};
use onefold_store::tree::Entry;
use onefold_store::{Cancel, Config, Repository, StoreError};
use onefold_testkit::{SplitMix64, random};
use tempfile::TempDir;

use crate::common::far::{Far, stored};
use crate::common::{Issues, back_up, chain, config, in_memory, names, write};

/// A disk in memory of which one write tears and fails.
struct MemoryDisk {
    bytes: Mutex<Vec<u8>>,
    writes: AtomicUsize,
    fails_at: usize,
}

impl MemoryDisk {
    fn new(bytes: Vec<u8>) -> Self {
        Self::failing(bytes, usize::MAX)
    }

    fn failing(bytes: Vec<u8>, fails_at: usize) -> Self {
        Self { bytes: Mutex::new(bytes), writes: AtomicUsize::new(0), fails_at }
    }
}

impl Disk for MemoryDisk {
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        bytes.copy_from_slice(&self.bytes.lock().unwrap()[offset as usize..][..bytes.len()]);
        Ok(())
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let is_torn = self.writes.fetch_add(1, Ordering::Relaxed) == self.fails_at;
        let written = if is_torn { &bytes[..bytes.len() / 2] } else { bytes };
        self.bytes.lock().unwrap()[offset as usize..][..written.len()].copy_from_slice(written);
        if is_torn { Err(io::Error::other("torn on purpose")) } else { Ok(()) }
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A repository with snapshots of a disk's image.
struct Images {
    objects: Arc<dyn Objects>,
    repository: Repository,
    source: TempDir,
}

impl Images {
    fn new(config: Config) -> Self {
        let (objects, repository) = in_memory(config);
        Self { objects, repository, source: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.source.path().join("image")
    }

    /// Backs `image` up, and gives the file and how many bytes that stored.
    fn back_up(&self, image: &[u8]) -> (Entry, u64) {
        write(self.path(), image);
        self.back_up_file()
    }

    fn back_up_file(&self) -> (Entry, u64) {
        let before = stored(&*self.objects);
        let (id, snapshot) = back_up(&self.repository, self.source.path());
        let entry = self.repository.entry_at(id, &snapshot, b"image").unwrap();
        (entry, stored(&*self.objects) - before)
    }

    /// Restores `entry`; gives what that received, too.
    fn restore(
        &self,
        entry: &Entry,
        disk: &dyn Disk,
        options: &DeviceOptions,
    ) -> (DeviceReport, u64) {
        let far = Far::new(Arc::clone(&self.objects));
        let repository = Repository::open(Arc::clone(&far) as Arc<dyn Objects>).unwrap();
        let issues = Issues::default();
        let report = onto(&repository, entry, disk, options, &issues).unwrap();
        assert_eq!((report.failed, issues.all()), (0, Vec::new()));
        let DeviceReport { bytes, kept, moved, seeded, fetched, .. } = report;
        assert_eq!(kept + moved + seeded + fetched, bytes);
        (report, far.received())
    }
}

fn onto(
    repository: &Repository,
    entry: &Entry,
    disk: &dyn Disk,
    options: &DeviceOptions,
    issues: &Issues,
) -> Result<DeviceReport, StoreError> {
    let (progress, cancel) = (issues.progress(), Cancel::default());
    restore_disk(repository, entry, (disk, Path::new("disk")), options, &progress, &cancel)
}

fn verifying() -> DeviceOptions {
    DeviceOptions { verify: true, ..DeviceOptions::default() }
}

/// What an image may have become, from what it was.
fn versions(image: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let half = image.len() / 2;
    let third = image.len() / 3;
    let mut blocks: Vec<&[u8]> = image.chunks(200_000).collect();
    let mut numbers = SplitMix64::new(5);
    for at in (1..blocks.len()).rev() {
        blocks.swap(at, numbers.below(at + 1));
    }
    let mut patched = image.to_vec();
    patched[third..third + 150_000].copy_from_slice(&random(9, 150_000));
    let same_length = |mut bytes: Vec<u8>| {
        bytes.resize(image.len(), 0);
        bytes
    };
    vec![
        ("the same", image.to_vec()),
        ("patched", patched),
        ("shifted up", same_length([&random(8, 100_001)[..], image].concat())),
        ("shifted down", same_length(image[100_001..].to_vec())),
        ("halves swapped", [&image[half..], &image[..half]].concat()),
        ("thirds rotated", [&image[third..], &image[..third]].concat()),
        ("blocks shuffled", blocks.concat()),
        ("one part everywhere", same_length(image[..third].repeat(3))),
        ("zeros", vec![0; image.len()]),
        ("other bytes", random(10, image.len())),
    ]
}

#[test]
fn a_disk_that_holds_another_version_receives_what_differs() {
    let image = random(1, 8 << 20);
    for (name, next) in versions(&image) {
        let images = Images::new(config(4 << 10, 16 << 10, 64 << 10));
        images.back_up(&image);
        let containers = names(&*images.objects, "containers/").len();
        let (entry, added) = images.back_up(&next);
        let containers = names(&*images.objects, "containers/").len() - containers;
        let disk = MemoryDisk::new(image.clone());
        let (report, received) = images.restore(&entry, &disk, &verifying());
        assert!(*disk.bytes.lock().unwrap() == next, "{name}");
        // The end of each container is read first, because its footer is in it.
        let most = added * 6 / 5 + containers as u64 * (65 << 10);
        assert!(received <= most, "{name}: {received} bytes of {added}, {report:?}");
        if name == "the same" {
            assert_eq!((report.written, disk.writes.into_inner()), (0, 0));
        }
    }
}

#[test]
fn a_restore_that_fails_at_any_write_and_again_is_gone_on_with() {
    let image = random(2, 300_000);
    for (name, next) in [
        ("swapped", [&image[150_000..], &image[..150_000]].concat()),
        ("shifted", [&random(3, 5000)[..], &image[..295_000]].concat()),
    ] {
        let images = Images::new(config(2 << 10, 8 << 10, 32 << 10));
        images.back_up(&image);
        let (entry, _) = images.back_up(&next);
        for write in 0.. {
            let mut held = image.clone();
            let mut failures = 0;
            // The second time it fails elsewhere.
            for fails_at in [write, write / 2] {
                let disk = MemoryDisk::failing(held, fails_at);
                let options = DeviceOptions::default();
                let failed =
                    onto(&images.repository, &entry, &disk, &options, &Issues::default()).err();
                if let Some(error) = failed {
                    assert!(chain(&error).contains("write 'disk'"), "{}", chain(&error));
                    assert!(chain(&error).contains("torn on purpose"), "{}", chain(&error));
                    failures += 1;
                }
                held = disk.bytes.into_inner().unwrap();
            }
            let disk = MemoryDisk::new(held);
            images.restore(&entry, &disk, &DeviceOptions::default());
            assert!(*disk.bytes.lock().unwrap() == next, "{name}, write {write}");
            if failures == 0 {
                assert!(write > 10, "{name}: {write}");
                break;
            }
        }
    }
}

#[test]
fn seeds_may_be_files_and_folders() {
    let images = Images::new(config(4 << 10, 16 << 10, 64 << 10));
    let image = random(4, 4 << 20);
    let (entry, _) = images.back_up(&image);
    let folder = tempfile::tempdir().unwrap();
    let seed = folder.path().join("deep/er/old");
    write(&seed, [&b"in front"[..], &image].concat());
    for seed in [seed, folder.path().to_owned()] {
        let options = DeviceOptions { seeds: vec![seed], ..verifying() };
        let disk = MemoryDisk::new(vec![7; 5 << 20]);
        let (report, received) = images.restore(&entry, &disk, &options);
        assert!(report.seeded > image.len() as u64 * 9 / 10, "{report:?}");
        assert!(received < image.len() as u64 / 4, "{received} bytes, {report:?}");
        let held = disk.bytes.lock().unwrap();
        assert!(held[..image.len()] == image && held[image.len()..].iter().all(|byte| *byte == 7));
    }
    let missing = folder.path().join("missing");
    let options = DeviceOptions { seeds: vec![missing], ..verifying() };
    let disk = MemoryDisk::new(vec![7; 5 << 20]);
    let error = onto(&images.repository, &entry, &disk, &options, &Issues::default()).unwrap_err();
    assert!(chain(&error).contains("open seed") && chain(&error).contains("missing"), "{error}");
    assert_eq!(disk.writes.into_inner(), 0);
}

#[test]
fn holes_become_zeros_and_stay_holes_in_a_new_file() {
    const LEN: u64 = 40 << 20;
    let images = Images::new(config(4 << 10, 16 << 10, 64 << 10));
    write(images.path(), b"");
    let file = open_to_write(&images.path());
    file.set_len(LEN).unwrap();
    file.write_all_at(&random(5, 1 << 20), 3 << 20).unwrap();
    file.write_all_at(&random(6, 1 << 20), 30 << 20).unwrap();
    let (entry, _) = images.back_up_file();
    let expected = fs::read(images.path()).unwrap();
    let disk = MemoryDisk::new(vec![7; LEN as usize]);
    let (report, _) = images.restore(&entry, &disk, &verifying());
    assert!(*disk.bytes.lock().unwrap() == expected);
    assert_eq!((report.bytes, report.written), (2 << 20, LEN));
    let (folder, issues) = (tempfile::tempdir().unwrap(), Issues::default());
    let path = folder.path().join("new");
    let (progress, cancel) = (issues.progress(), Cancel::default());
    for kept in [0, report.bytes] {
        let options = DeviceOptions::default();
        let report =
            restore_device(&images.repository, &entry, &path, &options, &progress, &cancel)
                .unwrap();
        assert_eq!((report.kept, report.written), (kept, (2 << 20) - kept));
        assert!(fs::read(&path).unwrap() == expected);
        assert!(fs::metadata(&path).unwrap().blocks() * 512 < LEN / 2);
        // The next time it is longer.
        open_to_write(&path).write_all_at(b"behind", LEN + 1000).unwrap();
    }
}

#[test]
fn what_is_no_file_or_device_and_who_else_restores_there_is_refused() {
    let images = Images::new(config(4 << 10, 16 << 10, 64 << 10));
    let (entry, _) = images.back_up(&random(7, 100_000));
    let folder = tempfile::tempdir().unwrap();
    let restore = |path: &Path| {
        let (issues, cancel) = (Issues::default(), Cancel::default());
        let options = DeviceOptions::default();
        restore_device(&images.repository, &entry, path, &options, &issues.progress(), &cancel)
    };
    let error = chain(&restore(folder.path()).unwrap_err());
    assert!(error.contains("neither a block device nor a file"), "{error}");
    let missing = Path::new("/dev/onefold-test-no-such-device");
    let error = chain(&restore(missing).unwrap_err());
    assert!(error.contains("No such file") && !missing.exists(), "{error}");
    let path = folder.path().join("taken");
    write(&path, b"bytes");
    let other = open_to_write(&path);
    rustix::fs::flock(&other, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let error = chain(&restore(&path).unwrap_err());
    assert!(error.contains("taken"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"bytes");
    drop(other);
    restore(&path).unwrap();
    assert!(fs::read(&path).unwrap() == random(7, 100_000));
}

#[test]
fn what_is_lost_is_reported_and_the_rest_is_restored() {
    let images = Images::new(config(4 << 10, 16 << 10, 64 << 10));
    let image = random(11, 2 << 20);
    images.back_up(&image);
    let known = names(&*images.objects, "containers/");
    let next = [&image[..], &random(12, 300_000)].concat();
    let (entry, _) = images.back_up(&next);
    let mut new = names(&*images.objects, "containers/");
    new.retain(|name| !known.contains(name));
    // The others hold trees, and the list of chunks.
    let data = new.iter().max_by_key(|name| images.objects.size(name).unwrap()).unwrap();
    images.objects.delete(data).unwrap();
    let disk = MemoryDisk::new(vec![7; next.len()]);
    let issues = Issues::default();
    let report = onto(&images.repository, &entry, &disk, &DeviceOptions::default(), &issues);
    let report = report.unwrap();
    assert!(report.failed >= 250_000, "{report:?}");
    let issues = issues.all();
    assert!(issues.iter().all(|issue| issue.contains("was not restored: bytes ")), "{issues:?}");
    assert!(disk.bytes.lock().unwrap()[..2_000_000] == image[..2_000_000]);
}

#[expect(clippy::disallowed_methods, reason = "what a user's program writes")]
fn open_to_write(path: &Path) -> fs::File {
    fs::File::options().write(true).open(path).unwrap()
}
