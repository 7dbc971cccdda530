//! Logs and pages in a directory of this machine.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, fstatvfs, mkdirat, renameat, statat, unlinkat};
use rustix::io::Errno;

use super::itself::Directory;
use super::log::LocalReader;
use super::mount::mount_of;
use super::objects::make_durably;
use super::owned::TRIES;
use super::{LocalLog, LocalPages};
use crate::name::check_part;
use crate::{BackendError, Folder, Log, LogReader, MountId, Operation, Pages};

/// Logs and files of pages in a local directory. Symbolic links in it are not followed.
#[derive(Debug)]
pub struct LocalFolder(Directory);

impl LocalFolder {
    /// The folder at `root`. If it is missing, it is created durably, accessible to its owner only, with
    /// the missing directories above it. The mode of an existing folder does not change.
    pub fn create(root: &Path) -> Result<Self, BackendError> {
        make(root)?;
        Directory::open(root).map(Self)
    }

    /// The folder at `root`, which must exist. Nothing is created or written.
    pub fn open(root: &Path) -> Result<Self, BackendError> {
        Directory::open(root).map(Self)
    }

    /// Like [`create`](Self::create), for a program's own files, which another user could try to replace.
    ///
    /// # Errors
    /// [`BackendError::Untrusted`] if the folder is a symbolic link, belongs to a user other than this one
    /// and root, or lets every user exchange its files. The same holds for files opened in it. The caller
    /// is responsible for the directories above `root`.
    pub fn create_private(root: &Path) -> Result<Self, BackendError> {
        make(root)?;
        Directory::open_private(root).map(Self)
    }

    /// The folder `name` in this one. If it is missing, it is created durably, accessible to its owner
    /// only. It is private if this one is.
    pub fn folder(&self, name: &str) -> Result<Self, BackendError> {
        check_part(name)?;
        let path = self.0.path().join(name);
        let made = match mkdirat(self.0.as_file(), name, Mode::from_raw_mode(0o700)) {
            Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(errno.into()),
            Ok(()) => self.0.sync(),
        };
        made.map_err(|cause| BackendError::from_file(Operation::Open, &path, cause))?;
        self.0.directory(name).map(Self)
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The folder `name` in this one, which must exist; private if this one is.
    pub(super) fn existing(&self, name: &str) -> Result<Self, BackendError> {
        self.0.directory(name).map(Self)
    }

    /// A reader of the log `name` that locks out writers while it exists, and to which the name leads once
    /// it is locked. If the log is owned, fails with
    /// [`BackendError::InUse`].
    pub(crate) fn locked_reader(&self, name: &str) -> Result<Box<dyn LogReader>, BackendError> {
        check_part(name)?;
        for _ in 0..TRIES {
            let reader = LocalReader::open_in(&self.0, name)?.locked()?;
            if reader.is_named(&self.0, name)? {
                return Ok(Box::new(reader));
            }
        }
        let place = self.0.path().display().to_string();
        Err(BackendError::InUse { name: name.to_owned(), place })
    }

    pub(super) const fn directory(&self) -> &Directory {
        &self.0
    }

    /// The names that stand for something of `kind`, sorted. What has no name of ours is not ours.
    pub(super) fn names_of(&self, kind: FileType) -> Result<Vec<String>, BackendError> {
        let list = || -> io::Result<Vec<String>> {
            let directory: &File = self.0.as_file();
            let mut names = Vec::new();
            for entry in Dir::read_from(directory)? {
                let entry = entry?;
                let Ok(name) = entry.file_name().to_str() else { continue };
                if check_part(name).is_err() {
                    continue;
                }
                let found = match entry.file_type() {
                    FileType::Unknown => match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                        Ok(found) => FileType::from_raw_mode(found.st_mode),
                        // Removed since it was listed.
                        Err(Errno::NOENT) => continue,
                        Err(errno) => return Err(errno.into()),
                    },
                    known => known,
                };
                if found == kind {
                    names.push(name.to_owned());
                }
            }
            names.sort_unstable();
            Ok(names)
        };
        list().map_err(|cause| BackendError::from_file(Operation::List, self.0.path(), cause))
    }
}

fn make(root: &Path) -> Result<(), BackendError> {
    make_durably(root).map_err(|cause| BackendError::BadRoot {
        root: root.to_owned(),
        reason: "it cannot be made",
        source: Some(cause),
    })
}

impl Folder for LocalFolder {
    fn log(&self, name: &str) -> Result<Box<dyn Log + Sync>, BackendError> {
        check_part(name)?;
        Ok(Box::new(LocalLog::open_in(&self.0, name)?))
    }

    fn reader(&self, name: &str) -> Result<Box<dyn LogReader>, BackendError> {
        check_part(name)?;
        Ok(Box::new(LocalReader::open_in(&self.0, name)?))
    }

    fn pages(&self, name: &str, page_size: usize) -> Result<Box<dyn Pages + Sync>, BackendError> {
        check_part(name)?;
        Ok(Box::new(LocalPages::open_in(&self.0, name, page_size)?))
    }

    fn names(&self) -> Result<Vec<String>, BackendError> {
        self.names_of(FileType::RegularFile)
    }

    fn remove(&self, name: &str) -> Result<(), BackendError> {
        check_part(name)?;
        match unlinkat(self.0.as_file(), name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => {
                let path = self.0.path().join(name);
                Err(BackendError::from_file(Operation::Delete, &path, errno.into()))
            }
        }
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), BackendError> {
        check_part(from)?;
        check_part(to)?;
        let directory = self.0.as_file();
        let renamed = renameat(directory, from, directory, to).map_err(Into::into);
        renamed.and_then(|()| self.0.sync()).map_err(|cause| {
            BackendError::from_file(Operation::Rename, &self.0.path().join(from), cause)
        })
    }

    fn free_bytes(&self) -> Option<u64> {
        let told = fstatvfs(self.0.as_file()).ok()?;
        told.f_bavail.checked_mul(told.f_frsize)
    }

    fn mount(&self) -> Option<MountId> {
        mount_of(self.0.as_file())
    }
}
