//! Disk space of a repository that is reserved for operations that free space.
//!
//! Before a prune deletes anything, it must durably write what it will delete. On a full disk these writes
//! fail, and nothing could ever be deleted. Therefore a file occupies blocks, and is truncated when such a
//! write meets a full disk. Its name has capitals, so that no program treats it as an object.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::io::Errno;

use super::sync_directory;

/// The file's name in its root.
pub(super) const NAME: &str = "RESERVE";

/// The size of the reserve in bytes.
pub(super) const LEN: u64 = 8 << 20;

/// The maximum length of an object that may use the reserve: marks, fences and log entries are short, and
/// containers copied by a prune must not use the space for them.
pub(super) const MAX_OBJECT: u64 = 1 << 20;

/// Bytes that are freed in addition to the object's own, for its directories and for concurrent writes.
const STEP: u64 = 1 << 20;

/// Durably extends the file as far as there is space, and returns whether it has its full length.
pub(super) fn fill(root: &Path) -> io::Result<bool> {
    let path = root.join(NAME);
    let Some(file) = open(&path, true)? else { return Ok(false) };
    let before = file.metadata()?;
    let kept = kept(&before);
    if kept >= LEN {
        return Ok(true);
    }
    for len in [LEN, LEN / 2, LEN / 4, LEN / 8].into_iter().take_while(|len| *len > kept) {
        match allocate(&file, len) {
            Ok(()) => {
                file.sync_all()?;
                sync_directory(root)?;
                return Ok(len == LEN);
            }
            Err(cause) if is_full(&cause) => file.set_len(before.len())?,
            Err(cause) => return Err(cause),
        }
    }
    if before.len() == 0 {
        fs::remove_file(&path)?;
    }
    Ok(false)
}

/// Truncates the file, so that `bytes` and some more are free, and returns whether there was anything to
/// free. With its last bytes the file itself is removed, which frees its inode.
pub(super) fn spend(root: &Path, bytes: u64) -> io::Result<bool> {
    let path = root.join(NAME);
    let Some(file) = open(&path, false)? else { return Ok(false) };
    let len = file.metadata()?.len().saturating_sub(bytes.saturating_add(STEP));
    file.set_len(len)?;
    // Some file systems free blocks only as this becomes durable.
    file.sync_all()?;
    if len == 0 {
        fs::remove_file(&path)?;
        sync_directory(root)?;
    }
    Ok(true)
}

/// The file itself, without following links. A file with another name is refused, because it would be
/// truncated.
#[expect(clippy::disallowed_methods, reason = "its bytes mean nothing")]
fn open(path: &Path, make: bool) -> io::Result<Option<File>> {
    // A pipe of this name would wait for its other end.
    let no_links = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let mut options = File::options();
    options.write(true).create(make).truncate(false).mode(0o600).custom_flags(no_links);
    let file = match options.open(path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound && !make => return Ok(None),
        // Another user made it, whose room it keeps.
        Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied && !make => return Ok(None),
        // Not even an inode is free.
        Err(cause) if is_full(&cause) => return Ok(None),
        opened => opened?,
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.nlink() != 1 {
        return Err(io::Error::other("expected a file of its own under this name"));
    }
    Ok(Some(file))
}

/// The number of its allocated bytes. A copy of a repository may have holes in it.
fn kept(metadata: &Metadata) -> u64 {
    metadata.len().min(metadata.blocks() * 512)
}

fn allocate(file: &File, len: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, len) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            let zeros = vec![0; 64 << 10];
            (0..len).step_by(zeros.len()).try_for_each(|at| file.write_all_at(&zeros, at))?;
            file.sync_all()
        }
        done => Ok(done?),
    }
}

fn is_full(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
