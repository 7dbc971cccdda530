//! What the operating system says of a source file.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, SeekFrom};
use rustix::io::Errno;

use crate::contents::expect_contents;
use crate::system;
use crate::tree::{Entry, Extent, Meta, Node, Time};

/// Readers refuse entries of more than 64 MiB. Far more than this no file system is known to keep.
const MAX_XATTRS: usize = 32 << 20;
/// A file of more extents is backed up without its holes, for the same reason.
const MAX_EXTENTS: usize = 1 << 20;

/// What `metadata` says, with the extended attributes of `path`, links not followed.
pub(crate) fn meta_of(path: &Path, metadata: &Metadata) -> io::Result<Meta> {
    let xattrs = read_xattrs(
        |buffer| rustix::fs::llistxattr(path, buffer),
        |name, buffer| rustix::fs::lgetxattr(path, name, buffer),
    )?;
    Ok(Meta { xattrs, ..meta_without_xattrs(metadata) })
}

/// What `metadata` says, with the extended attributes of the open file that it is of.
pub(crate) fn meta_of_open(file: &File, metadata: &Metadata) -> io::Result<Meta> {
    let xattrs = read_xattrs(
        |buffer| rustix::fs::flistxattr(file, buffer),
        |name, buffer| rustix::fs::fgetxattr(file, name, buffer),
    )?;
    Ok(Meta { xattrs, ..meta_without_xattrs(metadata) })
}

pub(crate) fn meta_without_xattrs(metadata: &Metadata) -> Meta {
    let time = |secs, nanos: i64| Time { secs, nanos: nanos as u32 };
    Meta {
        mode: metadata.mode() & 0o7777,
        uid: metadata.uid(),
        gid: metadata.gid(),
        mtime: time(metadata.mtime(), metadata.mtime_nsec()),
        ctime: time(metadata.ctime(), metadata.ctime_nsec()),
        dev: metadata.dev(),
        ino: metadata.ino(),
        links: metadata.nlink(),
        xattrs: Vec::new(),
    }
}

/// What a stream that began at `time` is given: its bytes are nobody's business but the user's.
pub(crate) fn meta_of_stream(time: Time) -> Meta {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Meta { mode: 0o600, uid, gid, mtime: time, ctime: time, links: 1, ..Meta::default() }
}

/// Metadata, but extended attributes, and size of the file `name` in `directory`; `None` if it is no
/// regular file.
///
/// Of an unchanged file nothing else is looked at, so it is the call that a backup makes most often:
/// the name is looked up in the open directory, which takes the system less time than a path in /proc.
#[allow(clippy::useless_conversion, reason = "modes and links have fewer bits on some systems")]
pub(crate) fn look_at_file(directory: impl AsFd, name: &OsStr) -> io::Result<Option<(Meta, u64)>> {
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    let (dev, ino) = system::identity(&stat);
    let meta = Meta {
        mode: u32::from(stat.st_mode) & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        mtime: Time { secs: stat.st_mtime, nanos: stat.st_mtime_nsec as u32 },
        ctime: Time { secs: stat.st_ctime, nanos: stat.st_ctime_nsec as u32 },
        dev,
        ino,
        links: stat.st_nlink.into(),
        xattrs: Vec::new(),
    };
    Ok(Some((meta, stat.st_size as u64)))
}

/// Whether a file of `size` bytes that looks like `now` is the one that `entry` recorded, unchanged.
///
/// Size, mtime, ctime and inode must agree, on every file system. The device number is left out: it
/// changes with the order in which disks are found.
pub(crate) fn is_unchanged(entry: &Entry, now: &Meta, size: u64) -> bool {
    let then = &entry.meta;
    entry.size() == size
        && then.mtime == now.mtime
        && then.ctime == now.ctime
        && then.ino == now.ino
}

/// What a thing is that is neither file nor directory; `None` for what cannot be backed up.
pub(crate) fn special_node(path: &Path, metadata: &Metadata) -> io::Result<Option<Node>> {
    let kind = metadata.file_type();
    let rdev = metadata.rdev();
    Ok(if kind.is_symlink() {
        let target = std::fs::read_link(path)?.as_os_str().as_bytes().to_vec();
        Some(Node::Symlink { target })
    } else if kind.is_fifo() {
        Some(Node::Fifo)
    } else if kind.is_socket() {
        Some(Node::Socket)
    } else if kind.is_char_device() {
        Some(Node::CharDevice { rdev })
    } else if kind.is_block_device() {
        Some(Node::BlockDevice { rdev })
    } else {
        None
    })
}

/// Opens a regular file, or with `is_device` a block device, for reading: never through a link, and
/// without touching its access time where that is allowed. Nothing else is opened, for to open a
/// pipe or a device can do something.
pub(crate) fn open(path: &Path, is_device: bool) -> io::Result<File> {
    let found = find(path, OFlags::empty())?;
    let metadata = found.metadata()?;
    if is_device {
        expect_contents(&metadata)?;
    } else if !metadata.is_file() {
        return Err(io::Error::other("it is no longer a regular file"));
    }
    open_to_read(&system::path_of(&found), OFlags::NONBLOCK)
}

/// Opens a directory for reading, never through a link.
pub(crate) fn open_directory(path: &Path) -> io::Result<File> {
    open_to_read(path, OFlags::DIRECTORY | OFlags::NOFOLLOW)
}

/// Opens a directory to reach what is in it, which takes no right to list it.
pub(crate) fn find_directory(path: &Path) -> io::Result<File> {
    find(path, OFlags::DIRECTORY)
}

/// Opens what is at `path` without access to its content, never through a link.
#[expect(clippy::disallowed_methods, reason = "opens for no access at all")]
pub(crate) fn find(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | system::LOOK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

#[expect(clippy::disallowed_methods, reason = "opens for reading only")]
fn open_to_read(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags | system::NO_ACCESS_TIME, Mode::empty()) {
        Ok(fd) => Ok(fd.into()),
        // Only the owner may leave the access time alone.
        Err(Errno::PERM) => Ok(rustix::fs::open(path, flags, Mode::empty())?.into()),
        Err(errno) => Err(errno.into()),
    }
}

/// How many bytes there are to read; of a block device only a seek tells. Reading begins at the
/// start.
pub(crate) fn content_len(file: &File, metadata: &Metadata) -> io::Result<u64> {
    if !metadata.file_type().is_block_device() {
        return Ok(metadata.len());
    }
    let len = rustix::fs::seek(file, SeekFrom::End(0))?;
    rustix::fs::seek(file, SeekFrom::Start(0))?;
    Ok(len)
}

/// The extents of a file with holes, or `None` if it has none. The file is read next from its start.
pub(crate) fn extents(file: &File, metadata: &Metadata) -> io::Result<Option<Vec<Extent>>> {
    if metadata.blocks() * 512 >= metadata.len() {
        return Ok(None);
    }
    let extents = find_extents(file, metadata.len())?;
    // Looking for holes moved the place. A file may have none and yet take few blocks: file systems
    // that compress say so of every file.
    rustix::fs::seek(file, SeekFrom::Start(0))?;
    Ok(extents)
}

fn find_extents(file: &File, size: u64) -> io::Result<Option<Vec<Extent>>> {
    let mut extents = Vec::new();
    let mut end = 0;
    while end < size {
        let offset = match rustix::fs::seek(file, SeekFrom::Data(end)) {
            Ok(offset) => offset,
            Err(Errno::NXIO) => break,
            // The file system cannot tell: the file is read whole.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        end = rustix::fs::seek(file, SeekFrom::Hole(offset))?.min(size);
        if offset >= end {
            break;
        }
        if extents.len() == MAX_EXTENTS {
            return Ok(None);
        }
        extents.push(Extent { offset, len: end - offset });
    }
    let dense = extents == [Extent { offset: 0, len: size }];
    Ok((!dense).then_some(extents))
}

fn read_xattrs(
    list: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>,
    get: impl Fn(&[u8], &mut [u8]) -> rustix::io::Result<usize>,
) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let names = match with_growing_buffer(list) {
        Ok(names) => names,
        Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Err(errno) => return Err(errno.into()),
    };
    let (mut xattrs, mut len) = (Vec::new(), 0);
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        match with_growing_buffer(|buffer| get(name, buffer)) {
            Ok(value) => {
                len += name.len() + value.len();
                if len > MAX_XATTRS {
                    return Err(io::Error::other(format!(
                        "its extended attributes take more than {MAX_XATTRS} bytes"
                    )));
                }
                xattrs.push((name.to_vec(), value));
            }
            // Gone since it was listed, or only listed.
            Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    xattrs.sort();
    Ok(xattrs)
}

/// Calls `read` with a buffer that grows until the answer fits.
fn with_growing_buffer(
    mut read: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>,
) -> rustix::io::Result<Vec<u8>> {
    let mut small = [0; 512];
    match read(&mut small) {
        Ok(len) => return Ok(small[..len].to_vec()),
        Err(Errno::RANGE) => {}
        Err(errno) => return Err(errno),
    }
    // The kernel allows 64 KiB for a value and for a list of names.
    let mut large = vec![0; 64 << 10];
    let len = read(&mut large)?;
    large.truncate(len);
    Ok(large)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the source of a backup, no durable byte")]
    fn a_file_of_few_blocks_and_no_hole_is_read_from_its_start() {
        let folder = tempfile::tempdir().unwrap();
        let (dense, sparse) = (folder.path().join("dense"), folder.path().join("sparse"));
        std::fs::write(&dense, vec![7; 100_000]).unwrap();
        std::fs::write(&sparse, b"").unwrap();
        let sparse = std::fs::OpenOptions::new().write(true).open(&sparse).unwrap();
        sparse.set_len(100_000).unwrap();
        // What a file system that compresses would say of the dense one.
        let few_blocks = sparse.metadata().unwrap();
        assert_eq!(few_blocks.blocks(), 0);
        let dense = File::open(&dense).unwrap();
        assert_eq!(extents(&dense, &few_blocks).unwrap(), None);
        assert_eq!(rustix::fs::seek(&dense, SeekFrom::Current(0)).unwrap(), 0);
    }

    #[test]
    fn only_a_regular_file_is_opened_where_one_was() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RWXU).unwrap();
        let null = Path::new("/dev/null");
        for path in [&*pipe, null] {
            let error = open(path, false).unwrap_err();
            assert!(error.to_string().contains("no longer a regular file"), "{error}");
        }
        assert!(open(null, true).is_err());
    }
}
