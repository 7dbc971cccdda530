//! Objects on a simulated disk, which take the same steps as local objects.

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use super::disk::{CrashDisk, Disk, OBJECTS, Step};
use super::file_system::{FileId, slice, split};
use super::seeded::DiskBug;
use crate::name::{check_name, check_prefix, directories_of};
use crate::{BackendError, ObjectInfo, Objects, Operation};

const PLACE: &str = "simulated disk";

/// Objects on a [`CrashDisk`].
#[derive(Debug)]
pub struct CrashObjects {
    disk: CrashDisk,
    /// Directories known to be durable.
    directories: Mutex<HashSet<String>>,
}

impl CrashObjects {
    pub(super) fn new(disk: CrashDisk) -> Self {
        Self { disk, directories: Mutex::default() }
    }

    fn make_directories(&self, name: &str) -> Result<(), BackendError> {
        let mut durable = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        for directory in directories_of(name) {
            if durable.contains(directory) {
                continue;
            }
            let path = path_of(directory);
            self.disk
                .step(Operation::Put, name, Step::MakeDirectory(path.clone()))?
                .files
                .make_directory(&path);
            self.sync_directory_of(Operation::Put, name, &path)?;
            durable.insert(directory.to_owned());
        }
        Ok(())
    }

    /// Creates a staging file for `name`; unfinished puts may have left others.
    fn stage(&self, name: &str) -> Result<(FileId, String), BackendError> {
        let mut number = 1;
        loop {
            let path = format!("{}#{number}", path_of(name));
            let mut disk = self.disk.step(Operation::Put, name, Step::Create(path.clone()))?;
            match disk.files.create(&path) {
                Some(file) => return Ok((file, path)),
                None => number += 1,
            }
        }
    }

    fn write(
        &self,
        name: &str,
        file: FileId,
        path: &str,
        bytes: Bytes,
    ) -> Result<(), BackendError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut disk = self.disk.step(Operation::Put, name, Step::Write(path.to_owned()))?;
        disk.files.content_mut(file).write(0, bytes);
        Ok(())
    }

    fn sync_file(&self, name: &str, file: FileId, path: &str) -> Result<(), BackendError> {
        let mut disk = self.disk.step(Operation::Put, name, Step::SyncFile(path.to_owned()))?;
        disk.files.content_mut(file).sync();
        Ok(())
    }

    fn link(&self, name: &str, file: FileId) -> Result<bool, BackendError> {
        let path = path_of(name);
        let mut disk = self.disk.step(Operation::Put, name, Step::Link(path.clone()))?;
        Ok(disk.files.link(file, &path))
    }

    fn unlink(&self, operation: Operation, name: &str, path: &str) -> Result<(), BackendError> {
        let mut disk = self.disk.step(operation, name, Step::Unlink(path.to_owned()))?;
        disk.files.unlink(path);
        Ok(())
    }

    fn sync_directory_of(
        &self,
        operation: Operation,
        name: &str,
        path: &str,
    ) -> Result<(), BackendError> {
        self.sync_directory(operation, name, split(path).0)
    }

    fn sync_directory(
        &self,
        operation: Operation,
        name: &str,
        path: &str,
    ) -> Result<(), BackendError> {
        let mut disk = self.disk.step(operation, name, Step::SyncDirectory(path.to_owned()))?;
        disk.files.sync_directory(path);
        Ok(())
    }

    /// The end of a put whose name was found taken.
    fn put_again(&self, name: &str, bytes: &Bytes) -> Result<(), BackendError> {
        let path = path_of(name);
        let same = {
            let disk = self.disk.read(Operation::Put, name)?;
            disk.files
                .find(&path)
                .filter(|file| disk.files.content(*file).live().as_slice() == bytes)
        };
        let Some(file) = same else {
            return Err(BackendError::AlreadyExists {
                name: name.to_owned(),
                place: PLACE.to_owned(),
            });
        };
        self.sync_file(name, file, &path)?;
        self.sync_directory_of(Operation::Put, name, &path)
    }

    fn read<T>(
        &self,
        operation: Operation,
        name: &str,
        read: impl FnOnce(&[u8]) -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        check_name(name)?;
        let disk = self.disk.read(operation, name)?;
        match find(&disk, name) {
            Some(bytes) => read(bytes),
            None => Err(BackendError::NotFound { name: name.to_owned(), place: PLACE.to_owned() }),
        }
    }
}

impl Objects for CrashObjects {
    fn put(&self, name: &str, bytes: Bytes) -> Result<(), BackendError> {
        check_name(name)?;
        self.make_directories(name)?;
        let (file, staging) = self.stage(name)?;
        self.write(name, file, &staging, bytes.clone())?;
        let late_sync = self.disk.has_bug(DiskBug::NameBeforeBytes);
        if !late_sync && !self.disk.has_bug(DiskBug::SkipFileSync) {
            self.sync_file(name, file, &staging)?;
        }
        let is_new = self.link(name, file)?;
        if late_sync {
            self.sync_file(name, file, &staging)?;
        }
        if is_new && !self.disk.has_bug(DiskBug::SkipDirectorySync) {
            self.sync_directory_of(Operation::Put, name, &path_of(name))?;
        }
        self.unlink(Operation::Put, name, &staging)?;
        if is_new { Ok(()) } else { self.put_again(name, &bytes) }
    }

    fn get(&self, name: &str) -> Result<Bytes, BackendError> {
        self.read(Operation::Get, name, |bytes| Ok(Bytes::copy_from_slice(bytes)))
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> Result<Bytes, BackendError> {
        self.read(Operation::Get, name, |bytes| {
            let size = bytes.len() as u64;
            if range.start > range.end || range.end > size {
                return Err(BackendError::OutOfRange { name: name.to_owned(), range, size });
            }
            Ok(slice(bytes, range))
        })
    }

    fn size(&self, name: &str) -> Result<u64, BackendError> {
        self.read(Operation::Size, name, |bytes| Ok(bytes.len() as u64))
    }

    fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, BackendError> {
        check_prefix(prefix)?;
        let directory = match prefix.trim_end_matches('/') {
            "" => OBJECTS.to_owned(),
            directory => path_of(directory),
        };
        let (files, has_directory) = {
            let disk = self.disk.read(Operation::List, prefix)?;
            (disk.files.files(), disk.files.has_directory(&directory))
        };
        let mut objects: Vec<_> = files
            .into_iter()
            .filter_map(|(path, bytes)| {
                let name = path.strip_prefix(OBJECTS)?.strip_prefix('/')?;
                let listed = name.starts_with(prefix) && check_name(name).is_ok();
                listed.then(|| ObjectInfo { name: name.to_owned(), size: bytes.len() as u64 })
            })
            .collect();
        objects.sort();
        let mut directories: BTreeSet<String> =
            objects.iter().flat_map(|object| directories_of(&object.name)).map(path_of).collect();
        if !objects.is_empty() {
            directories.insert(OBJECTS.to_owned());
        }
        if has_directory {
            directories.insert(directory);
        }
        for directory in directories {
            self.sync_directory(Operation::List, prefix, &directory)?;
        }
        Ok(objects)
    }

    fn delete(&self, name: &str) -> Result<(), BackendError> {
        check_name(name)?;
        self.unlink(Operation::Delete, name, &path_of(name))
    }
}

fn find<'a>(disk: &'a Disk, name: &str) -> Option<&'a [u8]> {
    let file = disk.files.find(&path_of(name))?;
    Some(disk.files.content(file).live())
}

fn path_of(name: &str) -> String {
    format!("{OBJECTS}/{name}")
}
