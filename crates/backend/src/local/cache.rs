//! A local cache of remote objects, in files that may be lost at any time.
//!
//! The files of an owner are distributed over shards by their names. Each shard has an equal part of the
//! maximum size, for all owners together. When a shard is full, its least recently used files are
//! removed. A file's modification time records its last use.
//!
//! A file gets its name when all its bytes are written, so that no process reads part of one. Nothing is
//! synced: after a crash a file may have any content, so readers must verify it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, futimens, openat,
    renameat, statat, unlinkat,
};
use rustix::io::Errno;

use super::LocalFolder;
use crate::name::check_part;
use crate::{BackendError, Folder, Operation};

/// The number of folders among which the files of an owner are spread.
const SHARDS: usize = 64;

/// The prefix of names of unfinished files.
const UNFINISHED: &str = "new-";

/// An unfinished file that is older belongs to a dead process.
const UNFINISHED_FOR: Duration = Duration::from_secs(3600);

/// A cache for one owner among several that share a folder and a maximum size.
///
/// Any number of processes and threads may use it at the same time.
#[derive(Debug)]
pub struct LocalCache {
    all: LocalFolder,
    own: LocalFolder,
    /// The maximum bytes of a shard, for all owners.
    shard_max: u64,
    /// For each shard that was written: its folder, and its approximate bytes, for all owners.
    shards: [Mutex<Option<Shard>>; SHARDS],
}

#[derive(Debug)]
struct Shard {
    folder: LocalFolder,
    bytes: u64,
}

/// A file of a shard, of any owner.
struct Found {
    /// Its last use, in seconds and nanoseconds since 1970.
    used: (i64, i64),
    len: u64,
    folder: usize,
    name: String,
}

impl LocalCache {
    /// The folder of an owner's copies.
    pub const FOLDER: &str = "objects";

    /// The cache of `owner` in the folder `root`, which holds at most `max` bytes for all owners together.
    /// Missing folders are created.
    ///
    /// # Errors
    /// [`BackendError::Untrusted`] as [`LocalFolder::create_private`] says.
    pub fn open(root: &Path, owner: &str, max: u64) -> Result<Self, BackendError> {
        let all = LocalFolder::create_private(root)?;
        let own = all.folder(owner)?.folder(Self::FOLDER)?;
        let shards = std::array::from_fn(|_| Mutex::new(None));
        Ok(Self { all, own, shard_max: max / SHARDS as u64, shards })
    }

    /// The copy named `name`, of at most `max` bytes, and records its use. The caller must verify it.
    pub fn get(&self, name: &str, max: u64) -> Result<Option<Bytes>, BackendError> {
        check_part(name)?;
        let path = self.own.path().join(name);
        let read = || -> Result<Option<Bytes>, BackendError> {
            let shard = self.own.existing(&shard_name(shard_of(name)))?;
            let file = shard.directory().file(name, false)?;
            let len = file.metadata().map_err(|cause| failed(Operation::Read, &path, cause))?.len();
            if len > max {
                return Ok(None);
            }
            // The file stays readable even if another process removes it.
            let now = Timestamps {
                last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
                last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
            };
            let touched = futimens(&file, &now).map_err(io::Error::from);
            touched.map_err(|cause| failed(Operation::Write, &path, cause))?;
            let mut bytes = Vec::with_capacity(len as usize);
            let read = file.take(max).read_to_end(&mut bytes);
            read.map_err(|cause| failed(Operation::Read, &path, cause))?;
            Ok(Some(bytes.into()))
        };
        match read() {
            Err(error) if error.is_not_found() => Ok(None),
            read => read,
        }
    }

    /// Stores `bytes` under `name`, replacing an earlier copy. Does not store bytes that would take more
    /// than a quarter of their shard.
    pub fn put(&self, name: &str, bytes: &[u8]) -> Result<(), BackendError> {
        check_part(name)?;
        if bytes.len() as u64 > self.shard_max / 4 {
            return Ok(());
        }
        let number = shard_of(name);
        let mut shard = self.shards[number].lock().unwrap_or_else(PoisonError::into_inner);
        let shard = match &mut *shard {
            Some(shard) => shard,
            none => {
                let folder = self.own.folder(&shard_name(number))?;
                let bytes = self.found(number)?.1.iter().map(|found| found.len).sum();
                none.insert(Shard { folder, bytes })
            }
        };
        match write(&shard.folder, name, bytes) {
            // The cache was emptied since it was opened.
            Err(error) if error.is_not_found() => return Ok(()),
            written => written?,
        }
        shard.bytes += bytes.len() as u64;
        if shard.bytes > self.shard_max {
            shard.bytes = self.evict(number)?;
        }
        Ok(())
    }

    /// Removes the copy named `name`, if there is one.
    pub fn remove(&self, name: &str) -> Result<(), BackendError> {
        check_part(name)?;
        match self.own.existing(&shard_name(shard_of(name))) {
            Ok(shard) => shard.remove(name),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes the least recently used files of a shard, of all owners, until it has room again, and returns
    /// the remaining bytes.
    fn evict(&self, shard: usize) -> Result<u64, BackendError> {
        let (folders, mut found) = self.found(shard)?;
        found.sort_unstable_by_key(|found| found.used);
        let mut bytes: u64 = found.iter().map(|found| found.len).sum();
        // An eighth of the room, so that not every put evicts.
        let most = self.shard_max - self.shard_max / 8;
        for Found { len, folder, name, .. } in found {
            if bytes <= most {
                break;
            }
            folders[folder].remove(&name)?;
            bytes -= len;
        }
        Ok(bytes)
    }

    /// The folders of a shard, one for each owner, and their files. Removes unfinished files of dead
    /// processes.
    fn found(&self, shard: usize) -> Result<(Vec<LocalFolder>, Vec<Found>), BackendError> {
        let (mut folders, mut all) = (Vec::new(), Vec::new());
        for owner in self.all.names_of(FileType::Directory)? {
            let below = |folder: LocalFolder| folder.existing(&shard_name(shard));
            let owned = self.all.existing(&owner).and_then(|owner| owner.existing(Self::FOLDER));
            let folder = match owned.and_then(below) {
                Ok(folder) => folder,
                Err(error) if error.is_not_found() => continue,
                Err(error) => return Err(error),
            };
            for name in folder.names_of(FileType::RegularFile)? {
                let directory = folder.directory().as_file();
                let stat = match statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => stat,
                    // Another process removed it.
                    Err(Errno::NOENT) => continue,
                    Err(errno) => {
                        let path = folder.path().join(&name);
                        return Err(failed(Operation::List, &path, errno.into()));
                    }
                };
                let used = (stat.st_mtime as i64, stat.st_mtime_nsec as i64);
                if name.starts_with(UNFINISHED) && is_older(used.0, UNFINISHED_FOR) {
                    folder.remove(&name)?;
                    continue;
                }
                all.push(Found { used, len: stat.st_size as u64, folder: folders.len(), name });
            }
            folders.push(folder);
        }
        Ok((folders, all))
    }
}

/// Writes a file under a name of its own and then gives it `name`.
#[expect(clippy::disallowed_methods, reason = "what is kept here may be lost")]
fn write(folder: &LocalFolder, name: &str, bytes: &[u8]) -> Result<(), BackendError> {
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let unfinished = format!("{UNFINISHED}{}-{number}", process::id());
    let directory = folder.directory().as_file();
    let how = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let written = openat(directory, &unfinished, how, Mode::from_raw_mode(0o600))
        .map_err(io::Error::from)
        .and_then(|file| File::from(file).write_all(bytes))
        .and_then(|()| Ok(renameat(directory, &unfinished, directory, name)?));
    written.map_err(|cause| {
        // What is left of it would take room until it is an hour old.
        let _ = unlinkat(directory, &unfinished, AtFlags::empty());
        failed(Operation::Write, &folder.path().join(name), cause)
    })
}

fn failed(operation: Operation, path: &Path, cause: io::Error) -> BackendError {
    BackendError::from_file(operation, path, cause)
}

fn is_older(secs: i64, age: Duration) -> bool {
    let since = UNIX_EPOCH.elapsed().unwrap_or_default();
    secs.saturating_add(age.as_secs() as i64) < since.as_secs() as i64
}

/// The shard of a name: FNV-1a, multiplied once more because a name's last bytes hardly reach its
/// upper bits.
fn shard_of(name: &str) -> usize {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % SHARDS
}

fn shard_name(shard: usize) -> String {
    format!("{shard:02}")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::thread;
    use std::time::SystemTime;

    use super::*;

    const SHARD: u64 = 1000;
    const MAX: u64 = SHARD * SHARDS as u64;

    fn open(root: &Path, owner: &str) -> LocalCache {
        LocalCache::open(root, owner, MAX).unwrap()
    }

    /// Names that lie in the same shard.
    fn names_of_one_shard() -> impl Iterator<Item = String> {
        (0..).map(|number| format!("name-{number}")).filter(|name| shard_of(name) == 5)
    }

    fn path(root: &Path, owner: &str, name: &str) -> std::path::PathBuf {
        root.join(owner).join(LocalCache::FOLDER).join(shard_name(shard_of(name))).join(name)
    }

    /// Makes the file look last used `secs` seconds ago.
    #[expect(clippy::disallowed_methods, reason = "a test sets back a clock")]
    fn age(path: &Path, secs: u64) {
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(secs)).unwrap();
    }

    fn bytes_below(folder: &Path) -> u64 {
        let of = |entry: fs::DirEntry| match entry.metadata().unwrap() {
            metadata if metadata.is_dir() => bytes_below(&entry.path()),
            metadata => metadata.len(),
        };
        fs::read_dir(folder).unwrap().map(|entry| of(entry.unwrap())).sum()
    }

    #[test]
    fn what_was_put_is_there_for_its_owner_until_it_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let (a, b) = (open(root.path(), "a"), open(root.path(), "b"));
        assert_eq!(a.get("x", 10).unwrap(), None);
        a.put("x", b"first").unwrap();
        a.put("x", b"second").unwrap();
        assert_eq!(a.get("x", 10).unwrap().unwrap(), "second");
        assert_eq!(open(root.path(), "a").get("x", 6).unwrap().unwrap(), "second");
        assert_eq!((a.get("x", 5).unwrap(), b.get("x", 10).unwrap()), (None, None));
        a.remove("x").unwrap();
        a.remove("x").unwrap();
        b.remove("x").unwrap();
        assert_eq!(a.get("x", 10).unwrap(), None);
    }

    #[test]
    fn only_the_user_may_read_what_is_kept() {
        let root = tempfile::tempdir().unwrap();
        let below = root.path().join("cache");
        open(&below, "a").put("x", b"1").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let file = path(&below, "a", "x");
        assert_eq!(mode(&file), 0o600);
        for folder in file.ancestors().skip(1).take(4) {
            assert_eq!(mode(folder), 0o700, "{}", folder.display());
        }
    }

    #[test]
    fn what_was_used_longest_ago_goes_first_whosever_it_is() {
        let root = tempfile::tempdir().unwrap();
        let (a, b) = (open(root.path(), "a"), open(root.path(), "b"));
        let names: Vec<_> = names_of_one_shard().take(5).collect();
        let some = [7; 240];
        for (number, name) in names[..4].iter().enumerate() {
            let owner = if number % 2 == 0 { ("a", &a) } else { ("b", &b) };
            owner.1.put(name, &some).unwrap();
            age(&path(root.path(), owner.0, name), 1000 - number as u64);
        }
        // It is the oldest, and used again.
        assert!(a.get(&names[0], 240).unwrap().is_some());
        open(root.path(), "a").put(&names[4], &some).unwrap();
        let there = |owner: &LocalCache, at: usize| owner.get(&names[at], 240).unwrap().is_some();
        assert!(there(&a, 0) && there(&b, 3) && there(&a, 4));
        assert!(!there(&b, 1) && !there(&a, 2), "7/8 of 1,000 bytes are three files");
    }

    #[test]
    fn no_more_is_kept_than_the_bound_says() {
        let root = tempfile::tempdir().unwrap();
        let cache = open(root.path(), "a");
        for number in 0..2000 {
            cache.put(&format!("name-{number}"), &[1; 100]).unwrap();
        }
        assert!(bytes_below(root.path()) <= MAX);
        assert!(bytes_below(root.path()) > MAX / 2);
        cache.put("large", &[1; 251]).unwrap();
        assert_eq!(cache.get("large", 1000).unwrap(), None);
    }

    #[test]
    fn what_a_dead_process_left_unfinished_goes() {
        let root = tempfile::tempdir().unwrap();
        let name = names_of_one_shard().next().unwrap();
        open(root.path(), "a").put(&name, b"1").unwrap();
        let left = path(root.path(), "a", &name).with_file_name("new-1-1");
        let fresh = left.with_file_name("new-1-2");
        for path in [&left, &fresh] {
            #[expect(clippy::disallowed_methods, reason = "a test leaves a file behind")]
            fs::write(path, "half").unwrap();
        }
        age(&left, 4000);
        open(root.path(), "a").put(&name, b"2").unwrap();
        assert!(!left.exists() && fresh.exists());
    }

    #[test]
    fn no_link_is_followed() {
        let root = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let secret = elsewhere.path().join("secret");
        #[expect(clippy::disallowed_methods, reason = "a test makes a file")]
        fs::write(&secret, "secret").unwrap();
        let cache = open(root.path(), "a");
        cache.put("x", b"1").unwrap();
        let file = path(root.path(), "a", "x");
        fs::remove_file(&file).unwrap();
        symlink(&secret, &file).unwrap();
        assert!(matches!(cache.get("x", 10), Err(BackendError::Untrusted { .. })));
        // Its name is given to another file; what the link led to stays as it was.
        cache.put("x", b"2").unwrap();
        assert_eq!(cache.get("x", 10).unwrap().unwrap(), "2");
        assert_eq!(fs::read(&secret).unwrap(), b"secret");
        let shard = file.parent().unwrap();
        fs::remove_dir_all(shard).unwrap();
        symlink(elsewhere.path(), shard).unwrap();
        assert!(matches!(cache.get("x", 10), Err(BackendError::Untrusted { .. })));
        let untrusted = open(root.path(), "a").put("x", b"3");
        assert!(matches!(untrusted, Err(BackendError::Untrusted { .. })));
    }

    #[test]
    fn a_cache_that_is_removed_while_it_is_used_keeps_nothing_and_fails_nobody() {
        let root = tempfile::tempdir().unwrap();
        let cache = open(root.path(), "a");
        cache.put("x", b"1").unwrap();
        fs::remove_dir_all(root.path().join("a")).unwrap();
        cache.put("x", b"1").unwrap();
        assert_eq!(cache.get("x", 10).unwrap(), None);
        cache.remove("x").unwrap();
    }

    #[test]
    fn processes_that_put_the_same_at_once_leave_one_whole_file() {
        let root = tempfile::tempdir().unwrap();
        let contents: Vec<_> = (0..4).map(|content| vec![content; 200]).collect();
        thread::scope(|scope| {
            for content in &contents {
                let cache = open(root.path(), "a");
                scope.spawn(move || {
                    for _ in 0..100 {
                        cache.put("x", content).unwrap();
                        let read = cache.get("x", 200).unwrap().unwrap();
                        assert!(read.len() == 200 && read.iter().all(|byte| *byte == read[0]));
                    }
                });
            }
        });
        assert_eq!(bytes_below(root.path()), 200);
    }
}
