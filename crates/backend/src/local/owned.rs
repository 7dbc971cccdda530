//! A local file with one owner, which stays poisoned after a failed sync.

use std::ffi::OsStr;
use std::fs::{File, TryLockError};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(target_os = "linux")]
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::itself::Directory;
use crate::error::name_and_place;
use crate::{BackendError, Operation, Reserved, Syncer};

/// A file is opened so often before it is locked, if its name leads to another one each time.
pub(super) const TRIES: usize = 8;

/// A file opened for reading and writing, locked against other handles.
#[derive(Debug)]
pub(super) struct OwnedFile {
    shared: Arc<Shared>,
    /// The valid length of the file.
    len: u64,
    /// Whether a failed append left bytes after it.
    has_tail: bool,
}

/// The state that a handle shares with its syncer.
#[derive(Debug)]
struct Shared {
    file: File,
    path: PathBuf,
    /// Set when a sync fails: the kernel may have dropped what it could not write and marked it
    /// clean, so a second sync would succeed without writing anything.
    poisoned: AtomicBool,
}

impl OwnedFile {
    /// Opens the file at `path`, as [`open_in`](Self::open_in) does; its directory must exist.
    pub(super) fn open(path: &Path) -> Result<Self, BackendError> {
        let failed = |cause| BackendError::from_file(Operation::Open, path, cause);
        let whole = std::path::absolute(path).map_err(failed)?;
        let name = whole.file_name().and_then(OsStr::to_str);
        let name = name.ok_or_else(|| failed(io::ErrorKind::InvalidFilename.into()))?;
        Self::open_in(&Directory::open(whole.parent().unwrap_or(Path::new("/")))?, name)
    }

    /// Opens the file, made empty if there is none. Its name and what it holds are durable on
    /// return: a process that was killed may have left bytes that only the cache has.
    ///
    /// The name leads to this file also once it is locked: whoever replaces a file under a name has it
    /// locked until then, so nobody goes on with the old one.
    pub(super) fn open_in(directory: &Directory, name: &str) -> Result<Self, BackendError> {
        let path = directory.path().join(name);
        let failed = |cause| BackendError::from_file(Operation::Open, &path, cause);
        let in_use = || {
            let (name, place) = name_and_place(&path);
            BackendError::InUse { name, place }
        };
        let mut tries = 0..TRIES;
        let file = loop {
            tries.next().ok_or_else(in_use)?;
            let file = directory.file(name, true)?;
            file.try_lock().map_err(|error| match error {
                TryLockError::Error(cause) => failed(cause),
                TryLockError::WouldBlock => in_use(),
            })?;
            if directory.still_names(name, &file).map_err(failed)? {
                break file;
            }
        };
        file.sync_all().map_err(failed)?;
        directory.sync().map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        let shared = Shared { file, path, poisoned: AtomicBool::new(false) };
        Ok(Self { shared: Arc::new(shared), len, has_tail: false })
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Ignores the end, without removing it.
    pub(super) fn ignore_after(&mut self, len: u64) {
        self.len = self.len.min(len);
    }

    pub(super) fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
        self.shared.check(Operation::Read)?;
        self.inside(offset..offset.saturating_add(into.len() as u64))?;
        self.shared
            .file
            .read_exact_at(into, offset)
            .map_err(|cause| BackendError::from_file(Operation::Read, &self.shared.path, cause))
    }

    /// Overwrites existing bytes.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), BackendError> {
        self.shared.check(Operation::Write)?;
        self.inside(offset..offset.saturating_add(bytes.len() as u64))?;
        self.shared
            .file
            .write_all_at(bytes, offset)
            .map_err(|cause| BackendError::from_file(Operation::Write, &self.shared.path, cause))
    }

    /// Adds bytes at the end and returns where; after an error the length is as before.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<u64, BackendError> {
        self.shared.check(Operation::Append)?;
        let failed = |cause| BackendError::from_file(Operation::Append, &self.shared.path, cause);
        let (file, offset) = (&self.shared.file, self.len);
        if self.has_tail {
            file.set_len(offset).map_err(failed)?;
            self.has_tail = false;
        }
        if let Err(cause) = file.write_all_at(bytes, offset) {
            // The next owner would treat the written bytes as part of the log. If they cannot be
            // removed, they are a torn tail, which every reader of a log expects, as long as nothing
            // shorter overwrites them.
            self.has_tail = file.set_len(offset).is_err();
            return Err(failed(cause));
        }
        self.len += bytes.len() as u64;
        Ok(offset)
    }

    /// Preallocates space for `bytes` after the end, and releases any space beyond.
    pub(super) fn reserve(&mut self, bytes: u64) -> Reserved {
        if self.shared.check(Operation::Resize).is_err() {
            return Reserved::Never;
        }
        // The preallocated bytes are never read, so no error loses data.
        let asked = match bytes {
            0 => self.shared.file.set_len(self.len).map_err(|_| Errno::IO),
            _ => allocate_beyond(&self.shared.file, self.len, bytes),
        };
        match asked {
            Ok(()) => Reserved::Kept,
            Err(Errno::NOSPC | Errno::DQUOT) => Reserved::Full,
            Err(_) => Reserved::Never,
        }
    }

    /// Adds zeros at the end, also where there were ignored bytes.
    pub(super) fn grow(&mut self, len: u64) -> Result<(), BackendError> {
        self.shared.check(Operation::Resize)?;
        self.shared.file.set_len(self.len).and_then(|()| self.shared.file.set_len(len)).map_err(
            |cause| BackendError::from_file(Operation::Resize, &self.shared.path, cause),
        )?;
        self.len = len;
        Ok(())
    }

    /// Truncates the file; durable on return.
    pub(super) fn shrink(&mut self, len: u64) -> Result<(), BackendError> {
        self.shared.check(Operation::Resize)?;
        self.inside(0..len)?;
        let result = self.shared.file.set_len(len).and_then(|()| self.shared.file.sync_all());
        self.shared.remember(Operation::Resize, result)?;
        self.len = len;
        Ok(())
    }

    pub(super) fn sync(&mut self) -> Result<(), BackendError> {
        self.shared.sync()
    }

    pub(super) fn syncer(&self) -> Arc<dyn Syncer> {
        Arc::clone(&self.shared) as Arc<dyn Syncer>
    }

    fn inside(&self, range: Range<u64>) -> Result<(), BackendError> {
        if range.end <= self.len {
            return Ok(());
        }
        let (name, _) = name_and_place(&self.shared.path);
        Err(BackendError::OutOfRange { name, range, size: self.len })
    }
}

/// Allocates `bytes` after the first `len` ones, which stay the length of the file.
#[cfg(target_os = "linux")]
fn allocate_beyond(file: &File, len: u64, bytes: u64) -> rustix::io::Result<()> {
    fallocate(file, FallocateFlags::KEEP_SIZE, len, bytes)
}

/// Other systems allocate by making the file longer.
#[cfg(not(target_os = "linux"))]
fn allocate_beyond(_: &File, _: u64, _: u64) -> rustix::io::Result<()> {
    Err(Errno::NOTSUP)
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A process that another thread has begun shares the lock until it runs its program: closing the
        // file here would leave it locked for that long. Where this fails, it is closed all the same.
        let _ = self.file.unlock();
    }
}

impl Shared {
    fn remember(&self, operation: Operation, result: io::Result<()>) -> Result<(), BackendError> {
        result.map_err(|cause| {
            self.poisoned.store(true, Ordering::SeqCst);
            BackendError::from_file(operation, &self.path, cause)
        })
    }

    fn check(&self, operation: Operation) -> Result<(), BackendError> {
        if !self.poisoned.load(Ordering::SeqCst) {
            return Ok(());
        }
        let (name, place) = name_and_place(&self.path);
        Err(BackendError::Poisoned { name, operation, place })
    }
}

impl Syncer for Shared {
    fn sync(&self) -> Result<(), BackendError> {
        self.check(Operation::Sync)?;
        self.remember(Operation::Sync, self.file.sync_data())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_failed_sync_poisons_every_later_call() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = OwnedFile::open(&folder.path().join("log")).unwrap();
        file.append(b"abc").unwrap();
        let syncer = file.syncer();
        file.shared.remember(Operation::Sync, Err(io::Error::other("lost"))).unwrap_err();
        let is_poisoned = |error| matches!(error, BackendError::Poisoned { .. });
        assert!(is_poisoned(file.sync().unwrap_err()));
        assert!(is_poisoned(syncer.sync().unwrap_err()));
        assert!(is_poisoned(file.append(b"d").unwrap_err()));
        assert!(is_poisoned(file.read(0, &mut [0]).unwrap_err()));
        assert!(is_poisoned(file.write(0, b"d").unwrap_err()));
        assert!(is_poisoned(file.shrink(0).unwrap_err()));
        assert!(is_poisoned(file.grow(9).unwrap_err()));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a device stands for a disk that fails")]
    fn what_a_failed_append_leaves_goes_before_anything_else_comes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut file = OwnedFile::open(&path).unwrap();
        file.append(b"abc").unwrap();
        let put = |into: &mut OwnedFile, file: File| {
            let shared = Arc::get_mut(&mut into.shared).expect("nobody syncs it");
            std::mem::replace(&mut shared.file, file)
        };
        // it takes no bytes, and cannot be cut off
        let full = File::options().read(true).write(true).open("/dev/full").unwrap();
        let disk = put(&mut file, full);
        let error = file.append(b"0123456789").unwrap_err();
        assert!(error.is_full(), "{error}");
        let error = file.append(b"d").unwrap_err();
        assert!(!error.is_full() && file.len() == 3, "{error}");
        // of what was to be appended all had got there
        disk.write_all_at(b"0123456789", 3).unwrap();
        put(&mut file, disk);
        assert_eq!(file.append(b"d").unwrap(), 3);
        assert_eq!(std::fs::read(&path).unwrap(), b"abcd");
        file.append(b"e").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"abcde");
    }

    #[test]
    fn room_that_is_kept_is_on_the_disk_alone_and_is_given_back() {
        const ROOM: u64 = 1 << 20;
        let folder = tempfile::tempdir().unwrap();
        let mut file = OwnedFile::open(&folder.path().join("log")).unwrap();
        file.append(b"abc").unwrap();
        if file.reserve(ROOM) != Reserved::Kept {
            onefold_testkit::skip("the file system keeps no room for files");
            return;
        }
        let taken = |file: &OwnedFile| file.shared.file.metadata().unwrap().blocks() * 512;
        assert!(taken(&file) >= ROOM);
        assert_eq!((file.len(), file.shared.file.metadata().unwrap().len()), (3, 3));
        file.append(b"def").unwrap();
        let mut found = [0; 6];
        file.read(0, &mut found).unwrap();
        assert_eq!(&found, b"abcdef");
        assert_eq!(file.reserve(0), Reserved::Kept);
        assert!(taken(&file) < ROOM / 2, "{}", taken(&file));
        assert_eq!((file.len(), file.shared.file.metadata().unwrap().len()), (6, 6));
    }

    #[test]
    fn a_file_has_one_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let first = OwnedFile::open(&path).unwrap();
        assert!(matches!(OwnedFile::open(&path), Err(BackendError::InUse { .. })));
        drop(first);
        OwnedFile::open(&path).unwrap();
    }

    #[test]
    fn a_file_that_is_closed_has_no_owner_though_another_process_has_a_copy_of_its_handle() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let first = OwnedFile::open(&path).unwrap();
        let _copy = first.shared.file.try_clone().unwrap();
        assert!(matches!(OwnedFile::open(&path), Err(BackendError::InUse { .. })));
        drop(first);
        OwnedFile::open(&path).unwrap();
    }

    #[test]
    fn a_missing_directory_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = OwnedFile::open(&folder.path().join("gone/log")).unwrap_err();
        assert!(error.is_not_found());
        assert!(error.to_string().contains("gone"), "{error}");
    }
}
