//! Opens beneath a directory one name at a time.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::Mounts;

/// Opens `path` beneath `directory`, never through a symbolic link.
///
/// A link fails with `LOOP` or `NOTDIR`, as the system says it. An empty name, `.` and `..` fail with `XDEV`.
#[expect(clippy::disallowed_methods, reason = "the caller says what it opens")]
pub(crate) fn open_beneath(
    directory: impl AsFd,
    path: &OsStr,
    flags: OFlags,
    mode: Mode,
    mounts: Mounts,
) -> rustix::io::Result<OwnedFd> {
    let names: Vec<&[u8]> = path.as_bytes().split(|byte| *byte == b'/').collect();
    if names.iter().any(|name| matches!(*name, b"" | b"." | b"..")) {
        return Err(Errno::XDEV);
    }
    let (last, above) = names.split_last().expect("splitting gives at least one part");
    let on_the_way = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut from: OwnedFd = directory.as_fd().try_clone_to_owned().map_err(|_| Errno::MFILE)?;
    for name in above {
        let next = rustix::fs::openat(&from, *name, on_the_way, Mode::empty())?;
        check_mounts(&from, &next, mounts)?;
        from = next;
    }
    let opened = rustix::fs::openat(&from, *last, flags | OFlags::NOFOLLOW, mode)?;
    check_mounts(&from, &opened, mounts)?;
    Ok(opened)
}

fn check_mounts(from: &OwnedFd, to: &OwnedFd, mounts: Mounts) -> rustix::io::Result<()> {
    let crosses = || Ok(rustix::fs::fstat(from)?.st_dev != rustix::fs::fstat(to)?.st_dev);
    match mounts == Mounts::Refuse && crosses()? {
        true => Err(Errno::XDEV),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    const DIRECTORY: OFlags = OFlags::DIRECTORY;

    fn open(from: &File, path: &str, flags: OFlags, mounts: Mounts) -> rustix::io::Result<OwnedFd> {
        open_beneath(from, OsStr::new(path), flags | OFlags::CLOEXEC, Mode::empty(), mounts)
    }

    #[test]
    fn a_step_follows_no_link_and_leaves_the_directory_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("real/below")).unwrap();
        symlink("real", folder.path().join("link")).unwrap();
        symlink("below", folder.path().join("real/inner")).unwrap();
        let from = File::open(folder.path()).unwrap();
        let found = open(&from, "real/below", DIRECTORY, Mounts::Refuse).unwrap();
        let below = File::open(folder.path().join("real/below")).unwrap();
        let inode = |file: File| file.metadata().unwrap().ino();
        assert_eq!(inode(found.into()), inode(below));
        for through in ["link", "link/below", "real/inner"] {
            let error = open(&from, through, DIRECTORY, Mounts::Enter).unwrap_err();
            assert!(matches!(error, Errno::LOOP | Errno::NOTDIR), "{through}: {error}");
        }
        for outside in ["..", "real/..", "/", "", "real//below", "./real"] {
            let error = open(&from, outside, DIRECTORY, Mounts::Enter).unwrap_err();
            assert_eq!(error, Errno::XDEV, "{outside}");
        }
    }

    #[test]
    fn a_step_into_a_mounted_file_system_can_be_refused() {
        let root = File::open("/").unwrap();
        open(&root, "proc/self/fd", DIRECTORY, Mounts::Enter).unwrap_err();
        open(&root, "proc/sys", DIRECTORY, Mounts::Enter).unwrap();
        assert_eq!(open(&root, "proc", DIRECTORY, Mounts::Refuse).unwrap_err(), Errno::XDEV);
        assert_eq!(open(&root, "proc/sys", DIRECTORY, Mounts::Refuse).unwrap_err(), Errno::XDEV);
    }
}
