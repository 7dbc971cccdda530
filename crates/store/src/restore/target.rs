//! The target of a restore: a directory that nothing is written outside of.
//!
//! Every directory is opened with `openat2` relative to its parent, beneath it and never through a
//! symbolic link, and everything else is made relative to such a descriptor by a name of one
//! component. So neither a snapshot with evil names nor a link that someone planted in the target
//! leads anywhere else.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use onefold_seal::ObjectId;
use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Gid, Mode, OFlags, RenameFlags, ResolveFlags, Stat,
    Timespec, Timestamps, Uid,
};
use rustix::io::Errno;

use crate::tree::{Meta, Node, Time, is_component};

/// An open directory of the target.
#[derive(Debug)]
pub(super) struct Target(OwnedFd);

const BENEATH: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// Bytes of a path that a call of the system takes for sure.
const MAX_PATH: usize = 3 << 10;

/// What a restore could not give an inode, though its content is there.
pub(super) type Missing = Vec<String>;

impl Target {
    /// Opens the directory that the user named, and makes it if it is missing.
    #[expect(clippy::disallowed_methods, reason = "the restore target, opened as a directory")]
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// Opens the directory `name` of this one.
    pub(super) fn directory(&self, name: &[u8]) -> io::Result<Self> {
        self.directory_at(component(name)?)
    }

    /// Opens a directory beneath this one: `path` is one name, or several.
    #[expect(clippy::disallowed_methods, reason = "the restore target, opened as a directory")]
    fn directory_at(&self, path: &OsStr) -> io::Result<Self> {
        // Not NOFOLLOW: with it a link would be told as no directory. `BENEATH` follows none.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::openat2(&self.0, path, flags, Mode::empty(), BENEATH) {
            Ok(fd) => Ok(Self(fd)),
            Err(Errno::LOOP | Errno::XDEV) => Err(io::Error::other(
                "a symbolic link stands where the directory should be; restoring through it \
                 could write outside the target",
            )),
            Err(Errno::NOTDIR) => {
                Err(io::Error::other("something that is no directory stands in its place"))
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// Opens the directory at `path` below this one.
    pub(super) fn descend(&self, path: &[Arc<[u8]>]) -> io::Result<Self> {
        let mut directory = Self(self.0.try_clone()?);
        let mut path = path.iter().peekable();
        while path.peek().is_some() {
            // as many names at once as a call takes
            let mut joined = Vec::new();
            while let Some(name) =
                path.next_if(|name| joined.len() + name.len() < MAX_PATH || joined.is_empty())
            {
                if !joined.is_empty() {
                    joined.push(b'/');
                }
                joined.extend_from_slice(component(name)?.as_bytes());
            }
            directory = directory.directory_at(OsStr::from_bytes(&joined))?;
        }
        Ok(directory)
    }

    /// Makes the directory `name` if it is missing, and opens it. True if it was made.
    pub(super) fn make_directory(&self, name: &[u8]) -> io::Result<(Self, bool)> {
        let made = match rustix::fs::mkdirat(&self.0, component(name)?, Mode::RWXU) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(errno.into()),
        };
        Ok((self.directory(name)?, made))
    }

    /// What stands under `name`, links not followed; `None` if nothing does.
    pub(super) fn stat(&self, name: &[u8]) -> io::Result<Option<Stat>> {
        match rustix::fs::statat(&self.0, component(name)?, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Where the link `name` points.
    pub(super) fn read_link(&self, name: &[u8]) -> io::Result<Vec<u8>> {
        let target = rustix::fs::readlinkat(&self.0, component(name)?, Vec::new())?;
        Ok(target.into_bytes())
    }

    /// Makes the file `name`, which must not exist, for writing and reading.
    #[expect(clippy::disallowed_methods, reason = "the restore target")]
    pub(super) fn create_file(&self, name: &[u8]) -> io::Result<File> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        Ok(rustix::fs::openat2(&self.0, component(name)?, flags, mode, BENEATH)?.into())
    }

    /// Opens the temporary file `name` or makes it, for this restore alone, and tells whether an
    /// earlier one has left bytes in it.
    ///
    /// `None` if it cannot be had: another restore is at it, it is not what a restore makes, or the
    /// file system has no locks.
    #[expect(clippy::disallowed_methods, reason = "the restore target")]
    pub(super) fn take_temporary(&self, name: &[u8]) -> Option<(File, bool)> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file =
            rustix::fs::openat2(&self.0, component(name).ok()?, flags, mode, BENEATH).ok()?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        // Another name of a file that is not to be written, or what others can write.
        let stat = rustix::fs::fstat(&file).ok()?;
        let is_own = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && Mode::from_raw_mode(stat.st_mode) == mode
            && stat.st_uid == rustix::process::geteuid().as_raw()
            && stat.st_nlink == 1;
        is_own.then(|| (file.into(), stat.st_size > 0))
    }

    /// Removes temporary files that nobody is at: what restores that were cut off have left.
    pub(super) fn remove_leftovers(&self) -> io::Result<()> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if is_temporary(&name) {
                names.push(name);
            }
        }
        for name in names {
            let Some(stat) = self.stat(&name)? else { continue };
            let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
            // Held until the name is gone, so that nobody takes the file meanwhile.
            let lock = match is_file {
                true => self.open_file(&name).and_then(|file| {
                    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
                    Ok(Some(file))
                }),
                false => Ok(None),
            };
            if lock.is_ok() {
                self.remove(&name)?;
            }
        }
        Ok(())
    }

    /// Opens the regular file `name` for reading.
    #[expect(clippy::disallowed_methods, reason = "opens for reading only")]
    pub(super) fn open_file(&self, name: &[u8]) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(rustix::fs::openat2(&self.0, component(name)?, flags, Mode::empty(), BENEATH)?.into())
    }

    /// Makes something under a temporary name and then gives it the name `name`, so that what has
    /// that name stays until there is something to take its place.
    pub(super) fn replace<T>(
        &self,
        name: &[u8],
        make: impl FnOnce(&[u8]) -> io::Result<T>,
    ) -> io::Result<T> {
        let temporary = temporary_name();
        let made = make(&temporary).and_then(|made| {
            self.rename(&temporary, name)?;
            Ok(made)
        });
        // Renaming one name of a file to another of the same file does nothing, and leaves both.
        let removed = self.remove(&temporary);
        made.and_then(|made| removed.map(|()| made))
    }

    /// Gives `from` the name `to`, unless something has it. Where the file system cannot tell it is
    /// replaced.
    pub(super) fn rename_to_new(&self, from: &[u8], to: &[u8]) -> io::Result<()> {
        let (old, new) = (component(from)?, component(to)?);
        match rustix::fs::renameat_with(&self.0, old, &self.0, new, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS) => self.rename(from, to),
            renamed => Ok(renamed?),
        }
    }

    /// Gives `from` the name `to`, in place of whatever but a directory has it.
    pub(super) fn rename(&self, from: &[u8], to: &[u8]) -> io::Result<()> {
        let (from, to) = (component(from)?, component(to)?);
        Ok(rustix::fs::renameat_with(&self.0, from, &self.0, to, RenameFlags::empty())?)
    }

    /// Removes `name`, which is no directory; nothing to remove is fine.
    pub(super) fn remove(&self, name: &[u8]) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.0, component(name)?, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Makes `name` another name of the file `from` in `directory`.
    pub(super) fn link(&self, directory: &Self, from: &[u8], name: &[u8]) -> io::Result<()> {
        let (from, name) = (component(from)?, component(name)?);
        Ok(rustix::fs::linkat(&directory.0, from, &self.0, name, AtFlags::empty())?)
    }

    /// Makes what is neither file nor directory.
    pub(super) fn make_special(&self, name: &[u8], node: &Node) -> io::Result<()> {
        let name = component(name)?;
        let mode = Mode::RUSR | Mode::WUSR;
        let make = |kind, device| rustix::fs::mknodat(&self.0, name, kind, mode, device);
        match node {
            Node::Symlink { target } => {
                rustix::fs::symlinkat(OsStr::from_bytes(target), &self.0, name)
            }
            Node::Fifo => make(FileType::Fifo, 0),
            Node::Socket => make(FileType::Socket, 0),
            Node::CharDevice { rdev } => make(FileType::CharacterDevice, *rdev),
            Node::BlockDevice { rdev } => make(FileType::BlockDevice, *rdev),
            Node::File { .. } | Node::Directory { .. } => Err(Errno::INVAL),
        }?;
        Ok(())
    }

    /// Gives `name`, which is neither file nor directory, its metadata.
    pub(super) fn set_special_meta(
        &self,
        name: &[u8],
        meta: &Meta,
        node: &Node,
    ) -> io::Result<Missing> {
        let component = component(name)?;
        let mut missing = Missing::new();
        let follow = AtFlags::SYMLINK_NOFOLLOW;
        let owner = rustix::fs::chownat(
            &self.0,
            component,
            Some(Uid::from_raw(meta.uid)),
            Some(Gid::from_raw(meta.gid)),
            follow,
        );
        note_owner(owner, meta, &mut missing)?;
        if !matches!(node, Node::Symlink { .. }) {
            // A link has no mode of its own. The mode is set through a descriptor, which cannot
            // come to mean something else as a name can.
            let inode = self.open_path(component)?;
            rustix::fs::chmod(proc_path(&inode, b""), mode_of(meta))?;
        }
        let path = &proc_path(&self.0, name);
        set_xattrs(meta, &mut missing, |name, value| {
            rustix::fs::lsetxattr(path, name, value, rustix::fs::XattrFlags::empty())
        });
        rustix::fs::utimensat(&self.0, component, &times_of(meta), follow)?;
        Ok(missing)
    }

    /// A descriptor that only stands for what `name` is.
    #[expect(clippy::disallowed_methods, reason = "opens nothing for writing")]
    fn open_path(&self, name: &OsStr) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat2(&self.0, name, flags, Mode::empty(), BENEATH)?)
    }

    pub(super) fn descriptor(&self) -> &OwnedFd {
        &self.0
    }

    /// Gives this directory its metadata.
    pub(super) fn set_meta(&self, meta: &Meta) -> io::Result<Missing> {
        set_meta(&self.0, meta)
    }
}

/// How temporary names begin; the digits of an id follow.
const TEMPORARY: &str = ".onefold-restore-";

/// A name that nothing has.
pub(super) fn temporary_name() -> Vec<u8> {
    temporary_name_of(ObjectId::random())
}

/// The temporary name with these digits.
pub(super) fn temporary_name_of(id: ObjectId) -> Vec<u8> {
    format!("{TEMPORARY}{id}").into_bytes()
}

fn is_temporary(name: &[u8]) -> bool {
    let id = str::from_utf8(name).ok().and_then(|name| name.strip_prefix(TEMPORARY));
    id.is_some_and(|id| id.parse::<ObjectId>().is_ok())
}

/// A path to what `fd` stands for, or to `name` in it, whatever happened to its own path since.
fn proc_path(fd: &OwnedFd, name: &[u8]) -> PathBuf {
    let mut path = PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    if !name.is_empty() {
        path.push(OsStr::from_bytes(name));
    }
    path
}

/// Gives an open file or directory its metadata, in the order that keeps all of it: owner before
/// mode, which a change of owner strips of its set-id bits, and times last.
pub(super) fn set_meta(fd: impl AsFd, meta: &Meta) -> io::Result<Missing> {
    let mut missing = Missing::new();
    let owner = (Some(Uid::from_raw(meta.uid)), Some(Gid::from_raw(meta.gid)));
    note_owner(rustix::fs::fchown(&fd, owner.0, owner.1), meta, &mut missing)?;
    rustix::fs::fchmod(&fd, mode_of(meta))?;
    set_xattrs(meta, &mut missing, |name, value| {
        rustix::fs::fsetxattr(&fd, name, value, rustix::fs::XattrFlags::empty())
    });
    rustix::fs::futimens(&fd, &times_of(meta))?;
    Ok(missing)
}

/// Only root may give files away: to anyone else a refusal is to be expected.
fn note_owner(
    result: rustix::io::Result<()>,
    meta: &Meta,
    missing: &mut Missing,
) -> io::Result<()> {
    match result {
        Err(Errno::PERM | Errno::INVAL) => {
            missing.push(format!("its owner {}:{} could not be set", meta.uid, meta.gid));
            Ok(())
        }
        result => Ok(result?),
    }
}

fn set_xattrs(
    meta: &Meta,
    missing: &mut Missing,
    set: impl Fn(&[u8], &[u8]) -> rustix::io::Result<()>,
) {
    for (name, value) in &meta.xattrs {
        if let Err(errno) = set(name, value) {
            let name = String::from_utf8_lossy(name);
            missing.push(format!("its attribute {name} could not be set: {errno}"));
        }
    }
}

fn mode_of(meta: &Meta) -> Mode {
    Mode::from_raw_mode(meta.mode)
}

fn times_of(meta: &Meta) -> Timestamps {
    let Time { secs, nanos } = meta.mtime;
    let mtime = Timespec { tv_sec: secs, tv_nsec: nanos.into() };
    Timestamps { last_access: mtime, last_modification: mtime }
}

/// `name` as a path of one component; anything else is refused here once more, whoever asks.
pub(super) fn component(name: &[u8]) -> io::Result<&OsStr> {
    if is_component(name) {
        return Ok(OsStr::from_bytes(name));
    }
    Err(io::Error::other("its name is not one path component"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_longer_than_a_call_takes_is_descended() {
        let folder = tempfile::tempdir().unwrap();
        let root = Target::open(folder.path()).unwrap();
        let path: Vec<Arc<[u8]>> =
            (b'a'..=b'z').map(|letter| Arc::from(vec![letter; 255])).collect();
        let mut last = Target(root.0.try_clone().unwrap());
        for name in &path {
            last = last.make_directory(name).unwrap().0;
        }
        let inode = |target: &Target| rustix::fs::fstat(&target.0).unwrap().st_ino;
        assert_eq!(inode(&root.descend(&path).unwrap()), inode(&last));
        assert_eq!(inode(&root.descend(&[]).unwrap()), inode(&root));
    }

    #[test]
    fn no_link_on_the_way_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = Target::open(folder.path()).unwrap();
        root.make_directory(b"real").unwrap().0.make_directory(b"below").unwrap();
        std::os::unix::fs::symlink("real", folder.path().join("link")).unwrap();
        let names = |names: [&str; 2]| names.map(|name| Arc::from(name.as_bytes()));
        root.descend(&names(["real", "below"])).unwrap();
        let error = root.descend(&names(["link", "below"])).unwrap_err();
        assert!(error.to_string().contains("symbolic link"), "{error}");
        assert!(root.descend(&names(["real", ".."])).is_err());
    }
}
