//! Calls that Linux has and other systems lack, and what stands in for them there.
//!
//! The stand-ins give the same promises more slowly, or refuse. They compile for macOS; only the parts that
//! also compile on Linux are tested.

use rustix::fs::Stat;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(any(test, not(target_os = "linux")))]
mod steps;

#[cfg(target_os = "linux")]
pub(crate) use linux::*;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::*;

/// Whether to enter a file system that is mounted on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mounts {
    /// Enter it.
    Enter,
    /// Fail with `XDEV`.
    Refuse,
}

/// The device and inode of a file, as [`std::os::unix::fs::MetadataExt`] gives them.
#[allow(clippy::unnecessary_cast, reason = "the device has another type on macOS")]
pub(crate) fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino)
}

/// The device that a special file stands for, as [`std::os::unix::fs::MetadataExt`] gives it.
#[allow(clippy::unnecessary_cast, reason = "the device has another type on macOS")]
pub(crate) fn special_device(stat: &Stat) -> u64 {
    stat.st_rdev as u64
}

/// The device with these numbers, as [`special_device`] gives it.
#[allow(clippy::unnecessary_cast, reason = "the device has another type on macOS")]
pub(crate) fn device(major: u32, minor: u32) -> u64 {
    rustix::fs::makedev(major, minor) as u64
}
