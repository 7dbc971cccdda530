//! The target of a restore: a directory that nothing is written outside of.
//!
//! Every directory is opened relative to its parent, beneath it and never through a symbolic link
//! (on Linux with `openat2`), and everything else is made relative to such a descriptor by a name of one
//! component. So neither a snapshot with evil names nor a link that someone planted in the target
//! leads anywhere else.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use onefold_seal::{Check, ObjectId};
use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Gid, Mode, OFlags, RawMode, RenameFlags, Stat,
    Timespec, Timestamps, Uid,
};
use rustix::io::Errno;

use crate::system::{self, Mounts};
use crate::tree::{Meta, Node, Time, is_component};

/// A path below the target, as the names that lead there. They are shared: of a deep tree every
/// directory is remembered, and would else have a copy of all names above it.
pub(super) type Components = Vec<Arc<[u8]>>;

/// An open directory of the target.
#[derive(Debug)]
pub(super) struct Target {
    fd: OwnedFd,
    /// Whether what is made in it inherits an access control list, once that was looked up.
    default_acl: OnceLock<bool>,
}

/// The attributes by which Linux keeps access control lists.
const ACCESS_ACL: &str = "system.posix_acl_access";
const DEFAULT_ACL: &str = "system.posix_acl_default";

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
        Ok(Self::of(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// Opens the directory that the user named, and makes nothing: if it is missing, the nearest one
    /// above it, and false.
    #[expect(clippy::disallowed_methods, reason = "the restore target, opened as a directory")]
    pub(super) fn open_nearest(path: &Path) -> io::Result<(Self, bool)> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut is_there = true;
        for above in path.ancestors() {
            let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
            match rustix::fs::open(above, flags, Mode::empty()) {
                Err(Errno::NOENT) => is_there = false,
                opened => return Ok((Self::of(opened?), is_there)),
            }
        }
        Err(Errno::NOENT.into())
    }

    fn of(fd: OwnedFd) -> Self {
        Self { fd, default_acl: OnceLock::new() }
    }

    /// Whether what is made in this directory inherits an access control list from it.
    pub(super) fn has_default_acl(&self) -> bool {
        let look = || rustix::fs::fgetxattr(&self.fd, DEFAULT_ACL, &mut [0; 0][..]).is_ok();
        *self.default_acl.get_or_init(look)
    }

    /// Opens the directory `name` of this one.
    pub(super) fn directory(&self, name: &[u8]) -> io::Result<Self> {
        self.directory_at(component(name)?)
    }

    /// Opens a directory beneath this one: `path` is one name, or several.
    fn directory_at(&self, path: &OsStr) -> io::Result<Self> {
        // Not NOFOLLOW: with it Linux calls a link no directory.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match self.open_beneath(path, flags, Mode::empty(), Mounts::Enter) {
            Ok(fd) => Ok(Self::of(fd)),
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

    /// Opens the directory at `path` below this one to see what may be deleted from it; `None` if it is
    /// missing, if something else stands there, or if it is on a file system that is mounted below.
    pub(super) fn find_unmounted(&self, path: &[Arc<[u8]>]) -> io::Result<Option<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut directory = Self::of(self.fd.try_clone()?);
        for name in path {
            let name = component(name)?;
            directory = match directory.open_beneath(name, flags, Mode::empty(), Mounts::Refuse) {
                Ok(fd) => Self::of(fd),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            };
        }
        Ok(Some(directory))
    }

    /// Opens the directory `name` of this one to remove what it holds: not if something is mounted
    /// there.
    pub(super) fn directory_to_empty(&self, name: &[u8]) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match self.open_beneath(component(name)?, flags, Mode::empty(), Mounts::Refuse) {
            Ok(fd) => Ok(Self::of(fd)),
            Err(Errno::XDEV) => Err(io::Error::other("a file system is mounted there")),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The names in this directory.
    pub(super) fn names(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if is_component(&name) {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// The names in this directory that are not among `known`, which ascend. What restores that were
    /// cut off have left is not among them either, nor is what a known name leads to although it is
    /// listed otherwise: some file systems take `Docs` for `docs`.
    pub(super) fn names_beside(&self, known: &[Vec<u8>]) -> io::Result<Vec<Vec<u8>>> {
        let listed = self.names()?;
        let mut folded = HashSet::new();
        for name in known.iter().filter(|name| listed.binary_search(name).is_err()) {
            folded.extend(self.stat(name)?.map(|stat| system::identity(&stat)));
        }
        let mut beside = Vec::new();
        for name in listed {
            if known.binary_search(&name).is_ok() || self.is_own_temporary(&name)? {
                continue;
            }
            let is_known = !folded.is_empty()
                && (self.stat(&name)?)
                    .is_some_and(|stat| folded.contains(&system::identity(&stat)));
            if !is_known {
                beside.push(name);
            }
        }
        Ok(beside)
    }

    /// Whether this is the directory with this device and inode.
    pub(super) fn is(&self, identity: Option<(u64, u64)>) -> io::Result<bool> {
        let Some(identity) = identity else { return Ok(false) };
        Ok(system::identity(&rustix::fs::fstat(&self.fd)?) == identity)
    }

    /// Opens the directory at `path` below this one.
    pub(super) fn descend(&self, path: &[Arc<[u8]>]) -> io::Result<Self> {
        let mut directory = Self::of(self.fd.try_clone()?);
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
        let made = match rustix::fs::mkdirat(&self.fd, component(name)?, Mode::RWXU) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(errno.into()),
        };
        Ok((self.directory(name)?, made))
    }

    /// What stands under `name`, links not followed; `None` if nothing does.
    pub(super) fn stat(&self, name: &[u8]) -> io::Result<Option<Stat>> {
        match rustix::fs::statat(&self.fd, component(name)?, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Where the link `name` points.
    pub(super) fn read_link(&self, name: &[u8]) -> io::Result<Vec<u8>> {
        let target = rustix::fs::readlinkat(&self.fd, component(name)?, Vec::new())?;
        Ok(target.into_bytes())
    }

    /// Makes the file `name`, which must not exist, for writing and reading.
    pub(super) fn create_file(&self, name: &[u8]) -> io::Result<File> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        Ok(self.open_beneath(component(name)?, flags, mode, Mounts::Enter)?.into())
    }

    /// Opens the temporary file `name` or makes it, for this restore alone, and tells whether an
    /// earlier one has left bytes in it.
    ///
    /// `None` if it cannot be had: another restore is at it, it is not what a restore makes, or the
    /// file system has no locks.
    pub(super) fn take_temporary(&self, name: &[u8]) -> Option<(File, bool)> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = self.open_beneath(component(name).ok()?, flags, mode, Mounts::Enter).ok()?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        // Another name of a file that is not to be written, or what others can write.
        let stat = rustix::fs::fstat(&file).ok()?;
        let is_own = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && Mode::from_raw_mode(stat.st_mode) == mode
            && stat.st_uid == rustix::process::geteuid().as_raw()
            && stat.st_nlink == 1;
        is_own.then(|| (file.into(), stat.st_size > 0))
    }

    /// A temporary name in this directory that nothing has.
    pub(super) fn temporary_name(&self) -> io::Result<Vec<u8>> {
        self.temporary_name_of(first_half(ObjectId::random()))
    }

    /// The temporary name in this directory that begins with these digits.
    ///
    /// The other half of its digits follows from them and from the directory's inode. So the name
    /// itself records that a restore made it, and where: a file of the user's, or one that was
    /// copied or restored from another directory, only looks like it.
    pub(super) fn temporary_name_of(&self, drawn: [u8; 8]) -> io::Result<Vec<u8>> {
        let (device, inode) = system::identity(&rustix::fs::fstat(&self.fd)?);
        let place = [device.to_le_bytes(), inode.to_le_bytes()].concat();
        let check = Check::of(&[b"a temporary file of a restore", &place, &drawn]);
        let mut id = [0; 16];
        id[..8].copy_from_slice(&drawn);
        id[8..].copy_from_slice(&check.as_bytes()[..8]);
        Ok(format!("{TEMPORARY}{}", ObjectId::from_bytes(id)).into_bytes())
    }

    /// Whether a restore made `name` for a temporary file of this directory.
    fn is_own_temporary(&self, name: &[u8]) -> io::Result<bool> {
        let Some(id) = id_of(name) else { return Ok(false) };
        Ok(self.temporary_name_of(first_half(id))? == name)
    }

    /// Removes temporary files that no restore is at: what restores that were cut off have left.
    /// Names in `spared` stay.
    pub(super) fn remove_leftovers(&self, spared: &HashSet<Vec<u8>>) -> io::Result<()> {
        for name in self.names()? {
            if spared.contains(&name) || !self.is_own_temporary(&name)? {
                continue;
            }
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

    /// Whether `name` is a regular file that has bytes.
    pub(super) fn is_file(&self, name: &[u8]) -> io::Result<bool> {
        let is_file = |stat: Stat| {
            FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_size > 0
        };
        Ok(self.stat(name)?.is_some_and(is_file))
    }

    /// Opens the regular file `name` for reading.
    pub(super) fn open_file(&self, name: &[u8]) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(self.open_beneath(component(name)?, flags, Mode::empty(), Mounts::Enter)?.into())
    }

    /// Makes something under a temporary name and then gives it the name `name`, so that what has
    /// that name stays until there is something to take its place.
    pub(super) fn replace<T>(
        &self,
        name: &[u8],
        make: impl FnOnce(&[u8]) -> io::Result<T>,
    ) -> io::Result<T> {
        let temporary = self.temporary_name()?;
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
        match rustix::fs::renameat_with(&self.fd, old, &self.fd, new, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS) => self.rename(from, to),
            renamed => Ok(renamed?),
        }
    }

    /// Gives `from` the name `to`, in place of whatever but a directory has it.
    pub(super) fn rename(&self, from: &[u8], to: &[u8]) -> io::Result<()> {
        let (from, to) = (component(from)?, component(to)?);
        Ok(rustix::fs::renameat_with(&self.fd, from, &self.fd, to, RenameFlags::empty())?)
    }

    /// Removes `name`, which is no directory; nothing to remove is fine.
    pub(super) fn remove(&self, name: &[u8]) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.fd, component(name)?, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Removes `name`, an empty directory if it is one; nothing to remove is fine.
    pub(super) fn remove_any(&self, name: &[u8], is_directory: bool) -> io::Result<()> {
        if !is_directory {
            return self.remove(name);
        }
        match rustix::fs::unlinkat(&self.fd, component(name)?, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Makes `name` another name of the file `from` in `directory`.
    pub(super) fn link(&self, directory: &Self, from: &[u8], name: &[u8]) -> io::Result<()> {
        let (from, name) = (component(from)?, component(name)?);
        Ok(rustix::fs::linkat(&directory.fd, from, &self.fd, name, AtFlags::empty())?)
    }

    /// Makes what is neither file nor directory.
    pub(super) fn make_special(&self, name: &[u8], node: &Node) -> io::Result<()> {
        let name = component(name)?;
        let mode = Mode::RUSR | Mode::WUSR;
        let make = |kind, device| system::make_special(&self.fd, name, kind, mode, device);
        match node {
            Node::Symlink { target } => {
                rustix::fs::symlinkat(OsStr::from_bytes(target), &self.fd, name)
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
        let refused = set_owner(meta, &mut missing, |uid, gid| {
            rustix::fs::chownat(&self.fd, component, uid, gid, follow)
        })?;
        if !matches!(node, Node::Symlink { .. }) {
            // A link has no mode of its own. The mode is set through a descriptor, which cannot
            // come to mean something else as a name can.
            let inode = self.open_path(component)?;
            let path = system::path_of(&inode);
            if self.has_default_acl() {
                drop_inherited_acls(meta, |name| rustix::fs::removexattr(&path, name))?;
            }
            let mode = match refused {
                true => mode_for(meta, &rustix::fs::fstat(&inode)?, &mut missing),
                false => mode_of(meta),
            };
            rustix::fs::chmod(path, mode)?;
        }
        let path = &system::path_of(&self.fd).join(component);
        set_xattrs(meta, &mut missing, |name, value| {
            rustix::fs::lsetxattr(path, name, value, rustix::fs::XattrFlags::empty())
        });
        rustix::fs::utimensat(&self.fd, component, &times_of(meta), follow)?;
        Ok(missing)
    }

    /// A descriptor that only stands for what `name` is.
    fn open_path(&self, name: &OsStr) -> io::Result<OwnedFd> {
        let flags = system::LOOK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(self.open_beneath(name, flags, Mode::empty(), Mounts::Enter)?)
    }

    fn open_beneath(
        &self,
        path: &OsStr,
        flags: OFlags,
        mode: Mode,
        mounts: Mounts,
    ) -> rustix::io::Result<OwnedFd> {
        system::open_beneath(&self.fd, path, flags, mode, mounts)
    }

    pub(super) fn descriptor(&self) -> &OwnedFd {
        &self.fd
    }

    /// Gives this directory its metadata.
    pub(super) fn set_meta(&self, meta: &Meta) -> io::Result<Missing> {
        set_meta(&self.fd, meta, true)
    }
}

/// How temporary names begin; the digits of an id follow.
const TEMPORARY: &str = ".onefold-restore-";

/// Whether `name` has the form of a temporary name, whatever directory it is in.
pub(super) fn looks_temporary(name: &[u8]) -> bool {
    id_of(name).is_some()
}

fn first_half(id: ObjectId) -> [u8; 8] {
    *id.as_bytes().first_chunk().expect("an id has 16 bytes")
}

fn id_of(name: &[u8]) -> Option<ObjectId> {
    str::from_utf8(name).ok()?.strip_prefix(TEMPORARY)?.parse().ok()
}

/// Gives an open file or directory its metadata, in the order that keeps all of it: owner before
/// mode, which a change of owner strips of its set-id bits, and times last. Access control lists
/// that the snapshot does not have are removed if it may have `inherited` some.
pub(super) fn set_meta(fd: impl AsFd, meta: &Meta, inherited: bool) -> io::Result<Missing> {
    let mut missing = Missing::new();
    let refused = set_owner(meta, &mut missing, |uid, gid| rustix::fs::fchown(&fd, uid, gid))?;
    if inherited {
        drop_inherited_acls(meta, |name| rustix::fs::fremovexattr(&fd, name))?;
    }
    let mode = match refused {
        true => mode_for(meta, &rustix::fs::fstat(&fd)?, &mut missing),
        false => mode_of(meta),
    };
    rustix::fs::fchmod(&fd, mode)?;
    set_xattrs(meta, &mut missing, |name, value| {
        rustix::fs::fsetxattr(&fd, name, value, rustix::fs::XattrFlags::empty())
    });
    rustix::fs::futimens(&fd, &times_of(meta))?;
    Ok(missing)
}

/// Sets owner and group, or the group alone; true if something of it was refused.
///
/// Only root may give files away: to anyone else a refusal is to be expected.
fn set_owner(
    meta: &Meta,
    missing: &mut Missing,
    chown: impl Fn(Option<Uid>, Option<Gid>) -> rustix::io::Result<()>,
) -> io::Result<bool> {
    let gid = Some(Gid::from_raw(meta.gid));
    match chown(Some(Uid::from_raw(meta.uid)), gid) {
        Err(Errno::PERM | Errno::INVAL) => {
            missing.push(format!("its owner {}:{} could not be set", meta.uid, meta.gid));
            // One may give a file to a group one is in.
            match chown(None, gid) {
                Err(Errno::PERM | Errno::INVAL) | Ok(()) => Ok(true),
                Err(errno) => Err(errno.into()),
            }
        }
        result => Ok(result.map(|()| false)?),
    }
}

/// The mode of an inode whose owner or group may be another: a set-id bit would let a program run
/// as somebody else than it did.
fn mode_for(meta: &Meta, stat: &Stat, missing: &mut Missing) -> Mode {
    let mut mode = mode_of(meta);
    for (bit, is_right, what) in [
        (Mode::SUID, stat.st_uid == meta.uid, "set-user-id"),
        (Mode::SGID, stat.st_gid == meta.gid, "set-group-id"),
    ] {
        if mode.contains(bit) && !is_right {
            mode.remove(bit);
            missing.push(format!("its {what} bit was left off, because its owner is another"));
        }
    }
    mode
}

/// Removes the access control lists that a default one of the directory above gave a new inode,
/// unless the snapshot has one to replace it.
fn drop_inherited_acls(
    meta: &Meta,
    remove: impl Fn(&str) -> rustix::io::Result<()>,
) -> io::Result<()> {
    for name in [ACCESS_ACL, DEFAULT_ACL] {
        if meta.xattrs.iter().any(|(own, _)| own == name.as_bytes()) {
            continue;
        }
        match remove(name) {
            // There is none, or the file system has no such lists.
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::INVAL | Errno::ACCESS) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
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
    Mode::from_raw_mode(meta.mode as RawMode)
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
        let mut last = Target::of(root.fd.try_clone().unwrap());
        for name in &path {
            last = last.make_directory(name).unwrap().0;
        }
        let inode = |target: &Target| rustix::fs::fstat(&target.fd).unwrap().st_ino;
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
