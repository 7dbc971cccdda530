//! What stands in for Linux's calls. It compiles for macOS, where it was never run.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

pub(crate) use super::steps::open_beneath;

/// Reading a file changes its access time here.
pub(crate) const NO_ACCESS_TIME: OFlags = OFlags::empty();

/// Opens for reading, and does not wait for the other end of a pipe.
pub(crate) const LOOK: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY);

/// The path of what `fd` stands for. Renaming it later makes the path wrong.
pub(crate) fn path_of(fd: impl AsFd) -> PathBuf {
    let number = fd.as_fd().as_raw_fd();
    match rustix::fs::getpath(fd) {
        Ok(path) => OsString::from_vec(path.into_bytes()).into(),
        Err(_) => PathBuf::from(format!("/dev/fd/{number}")),
    }
}

/// Refuses: no call makes a pipe, socket or device in an open directory.
pub(crate) fn make_special(
    _: impl AsFd,
    _: &OsStr,
    _: FileType,
    _: Mode,
    _: u64,
) -> rustix::io::Result<()> {
    Err(Errno::NOTSUP)
}

/// Refuses: every file has a name.
pub(crate) fn create_nameless(_: impl AsFd) -> rustix::io::Result<OwnedFd> {
    Err(Errno::NOTSUP)
}

/// Refuses: every file has a name.
pub(crate) fn link_nameless(_: impl AsFd, _: impl AsFd, _: &OsStr) -> rustix::io::Result<()> {
    Err(Errno::NOTSUP)
}

/// Refuses: files are made durable one by one.
pub(crate) fn sync_file_system(_: impl AsFd) -> rustix::io::Result<()> {
    Err(Errno::NOTSUP)
}

/// Does nothing: bytes that are read again come from memory.
pub(crate) fn forget_cached(_: &File) -> rustix::io::Result<()> {
    Ok(())
}
