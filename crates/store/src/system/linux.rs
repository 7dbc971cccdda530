//! Linux's own calls.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{Advice, AtFlags, FileType, Mode, OFlags, ResolveFlags};

use super::Mounts;

/// Leaves the access time of a file alone.
pub(crate) const NO_ACCESS_TIME: OFlags = OFlags::NOATIME;

/// Opens without access to the content.
pub(crate) const LOOK: OFlags = OFlags::PATH;

/// A path to what `fd` stands for, whatever happened to its own path since.
pub(crate) fn path_of(fd: impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()))
}

/// Opens `path` beneath `directory`, never through a symbolic link.
#[expect(clippy::disallowed_methods, reason = "the caller says what it opens")]
pub(crate) fn open_beneath(
    directory: impl AsFd,
    path: &OsStr,
    flags: OFlags,
    mode: Mode,
    mounts: Mounts,
) -> rustix::io::Result<OwnedFd> {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let resolve = match mounts {
        Mounts::Enter => beneath,
        Mounts::Refuse => beneath | ResolveFlags::NO_XDEV,
    };
    rustix::fs::openat2(directory, path, flags, mode, resolve)
}

/// Makes a pipe, socket or device.
pub(crate) fn make_special(
    directory: impl AsFd,
    name: &OsStr,
    kind: FileType,
    mode: Mode,
    device: u64,
) -> rustix::io::Result<()> {
    rustix::fs::mknodat(directory, name, kind, mode, device)
}

/// A file without a name on the file system of `directory`.
#[expect(clippy::disallowed_methods, reason = "the restore target")]
pub(crate) fn create_nameless(directory: impl AsFd) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::openat(directory, ".", flags, Mode::RUSR | Mode::WUSR)
}

/// Gives `file`, which has no name, the name `name` in `directory`.
pub(crate) fn link_nameless(
    file: impl AsFd,
    directory: impl AsFd,
    name: &OsStr,
) -> rustix::io::Result<()> {
    rustix::fs::linkat(file, "", directory, name, AtFlags::EMPTY_PATH)
}

/// Makes all bytes of the file system of `fd` durable.
pub(crate) fn sync_file_system(fd: impl AsFd) -> rustix::io::Result<()> {
    rustix::fs::syncfs(fd)
}

/// Drops from memory what is known to lie on the disk.
pub(crate) fn forget_cached(file: &File) -> rustix::io::Result<()> {
    rustix::fs::fadvise(file, 0, None, Advice::DontNeed)
}
