//! Opening files without following symbolic links.
//!
//! Otherwise a user who can write to a folder of a program that runs as root could make the program
//! overwrite any file, by a link under a name that it is known to open.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode, fstat, openat, statat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::{BackendError, Operation};

/// An open directory, which stays the same even if its name changes.
#[derive(Debug)]
pub(super) struct Directory {
    file: File,
    path: PathBuf,
    /// Whether files that another user owns or may exchange are refused.
    is_private: bool,
}

impl Directory {
    /// The directory at `path`, symbolic links followed.
    pub(super) fn open(path: &Path) -> Result<Self, BackendError> {
        let failed = |cause| BackendError::from_file(Operation::Open, path, cause);
        let file = File::open(path).map_err(failed)?;
        let path = std::path::absolute(path).map_err(failed)?;
        Ok(Self { file, path, is_private: false })
    }

    /// The directory at `path`, in which files of other users are refused.
    ///
    /// # Errors
    /// [`BackendError::Untrusted`] if `path` is a symbolic link, if the directory belongs to a user
    /// other than this one and root, or if every user may exchange what it holds.
    pub(super) fn open_private(path: &Path) -> Result<Self, BackendError> {
        let path = std::path::absolute(path)
            .map_err(|cause| BackendError::from_file(Operation::Open, path, cause))?;
        let file = open_itself(rustix::fs::CWD, &path, &path, FileType::Directory, OFlags::RDONLY)?;
        let private = Self { file, path, is_private: true };
        private.check(&private.file, &private.path)?;
        Ok(private)
    }

    /// The directory `name` in this one, which must exist.
    pub(super) fn directory(&self, name: &str) -> Result<Self, BackendError> {
        let path = self.path.join(name);
        let file = open_itself(&self.file, name, &path, FileType::Directory, OFlags::RDONLY)?;
        self.check(&file, &path)?;
        Ok(Self { file, path, is_private: self.is_private })
    }

    /// The file `name` in this directory, to be read; or to be written as well and made if there is
    /// none.
    pub(super) fn file(&self, name: &str, is_written: bool) -> Result<File, BackendError> {
        let path = self.path.join(name);
        let how = match is_written {
            true => OFlags::RDWR | OFlags::CREATE,
            // A pipe would wait for its writer.
            false => OFlags::RDONLY | OFlags::NONBLOCK,
        };
        let file = open_itself(&self.file, name, &path, FileType::RegularFile, how)?;
        self.check(&file, &path)?;
        Ok(file)
    }

    /// Whether `name` still names the open file, which another process may have renamed or removed.
    pub(super) fn still_names(&self, name: &str, file: &File) -> io::Result<bool> {
        let opened = fstat(file)?;
        match statat(&self.file, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(named) => Ok((named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn as_file(&self) -> &File {
        &self.file
    }

    /// Makes the names in it durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// Fails if this directory is private, and `opened` another user's or free for all to exchange.
    fn check(&self, opened: &File, path: &Path) -> Result<(), BackendError> {
        if !self.is_private {
            return Ok(());
        }
        let metadata = opened
            .metadata()
            .map_err(|cause| BackendError::from_file(Operation::Open, path, cause))?;
        let (owner, mode) = (metadata.uid(), metadata.mode());
        let untrusted = |reason| Err(BackendError::Untrusted { path: path.to_owned(), reason });
        if owner != 0 && owner != geteuid().as_raw() {
            return untrusted(format!("it belongs to user {owner}"));
        }
        // With the sticky bit, as in /tmp, users cannot exchange files of other users.
        if metadata.is_dir() && mode & 0o002 != 0 && mode & 0o1000 == 0 {
            return untrusted("every user may write to it".into());
        }
        Ok(())
    }
}

/// Opens the file or directory that `name` in `directory` names itself.
#[expect(clippy::disallowed_methods, reason = "local logs and pages are written here only")]
fn open_itself(
    directory: impl std::os::fd::AsFd,
    name: impl rustix::path::Arg + Copy,
    path: &Path,
    expected: FileType,
    how: OFlags,
) -> Result<File, BackendError> {
    let failed = |cause: io::Error| BackendError::from_file(Operation::Open, path, cause);
    let how = how | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(&directory, name, how, Mode::from_raw_mode(0o666));
    let file = match opened {
        Ok(file) => File::from(file),
        Err(errno) => {
            let found = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW);
            let is_link = found
                .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink);
            return Err(match is_link {
                true => BackendError::Untrusted {
                    path: path.to_owned(),
                    reason: "it is a symbolic link, which another user may have put there".into(),
                },
                false => failed(errno.into()),
            });
        }
    };
    let found = file.metadata().map_err(failed)?.mode();
    match FileType::from_raw_mode(found as RawMode) == expected {
        true => Ok(file),
        false => Err(failed(io::Error::other(match expected {
            FileType::Directory => "expected a directory under this name",
            _ => "expected a file of its own under this name",
        }))),
    }
}
