//! Pictures of directories: all that a restore must bring back.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Everything in a directory, the directory itself included under the empty path.
#[derive(Clone, PartialEq, Eq)]
pub struct Picture(BTreeMap<PathBuf, Thing>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Thing {
    mode: u32,
    owner: (u32, u32),
    mtime: (i64, i64),
    what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    Directory,
    /// With the first of its names.
    File {
        bytes: Vec<u8>,
        first: PathBuf,
    },
    Symlink(PathBuf),
    Fifo,
    Socket,
}

impl Picture {
    /// The picture of `root`.
    pub fn of(root: &Path) -> Self {
        let mut things = BTreeMap::new();
        let mut first_names = HashMap::new();
        take(root, Path::new(""), &mut things, &mut first_names);
        Self(things)
    }

    /// The bytes of the file at `path`.
    pub fn bytes(&self, path: &str) -> Option<&[u8]> {
        match &self.0.get(Path::new(path))?.what {
            What::File { bytes, .. } => Some(bytes),
            _ => None,
        }
    }

    /// When the thing at `path` was modified.
    pub fn mtime_of(&self, path: &str) -> SystemTime {
        let (secs, nanos) = self.0[Path::new(path)].mtime;
        UNIX_EPOCH + Duration::new(secs as u64, nanos as u32)
    }

    /// Every path, in order.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(PathBuf::as_path)
    }

    /// Whether something is at `path`.
    pub fn has(&self, path: &str) -> bool {
        self.0.contains_key(Path::new(path))
    }

    /// Whether two names are one file.
    pub fn are_linked(&self, a: &str, b: &str) -> bool {
        let first = |path| match &self.0.get(Path::new(path))?.what {
            What::File { first, .. } => Some(first),
            _ => None,
        };
        first(a).is_some() && first(a) == first(b)
    }

    /// Fails with the first path at which `self` is not as `expected`.
    pub fn expect(&self, expected: &Self) -> Result<(), String> {
        for (path, thing) in &expected.0 {
            match self.0.get(path) {
                Some(found) if found == thing => {}
                Some(found) => return Err(difference(path, found, thing)),
                None => return Err(format!("'{}' is missing", path.display())),
            }
        }
        match self.0.keys().find(|path| !expected.0.contains_key(*path)) {
            Some(path) => Err(format!("'{}' should not be there", path.display())),
            None => Ok(()),
        }
    }

    /// Fails unless everything in `expected` is there as it is, but for times of directories.
    pub fn expect_at_least(&self, expected: &Self) -> Result<(), String> {
        for (path, thing) in &expected.0 {
            match self.0.get(path) {
                Some(found) if found.what == thing.what => {}
                Some(found) => return Err(difference(path, found, thing)),
                None => return Err(format!("'{}' is missing", path.display())),
            }
        }
        Ok(())
    }

    /// Fails if any file has bytes other than those that `expected` has under its path.
    pub fn expect_no_other_bytes(&self, expected: &Self) -> Result<(), String> {
        for (path, thing) in &self.0 {
            let right = match (&thing.what, expected.0.get(path).map(|thing| &thing.what)) {
                (_, None) => false,
                (What::File { bytes, .. }, Some(What::File { bytes: right, .. })) => bytes == right,
                (What::Symlink(to), Some(What::Symlink(right))) => to == right,
                (found, Some(right)) => {
                    std::mem::discriminant(found) == std::mem::discriminant(right)
                }
            };
            if !right {
                return Err(format!("'{}' was restored wrong", path.display()));
            }
        }
        Ok(())
    }
}

fn difference(path: &Path, found: &Thing, expected: &Thing) -> String {
    let path = path.display();
    match (&found.what, &expected.what) {
        (What::File { bytes, .. }, What::File { bytes: right, .. }) if bytes != right => {
            format!("'{path}' has {} other bytes than the {} expected", bytes.len(), right.len())
        }
        (What::File { first, .. }, What::File { first: right, .. }) if first != right => {
            let (first, right) = (first.display(), right.display());
            format!("'{path}' is linked to '{first}', expected '{right}'")
        }
        (What::File { .. }, What::File { .. }) => format!(
            "'{path}' has {:o} {:?} {:?}, expected {:o} {:?} {:?}",
            found.mode, found.owner, found.mtime, expected.mode, expected.owner, expected.mtime
        ),
        _ => format!("'{path}' is {found:?}, expected {expected:?}"),
    }
}

fn take(
    root: &Path,
    path: &Path,
    things: &mut BTreeMap<PathBuf, Thing>,
    first_names: &mut HashMap<u64, PathBuf>,
) {
    let full = root.join(path);
    let metadata = full.symlink_metadata().unwrap();
    if metadata.is_dir() {
        let mut names: Vec<_> =
            fs::read_dir(&full).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        for name in names {
            take(root, &path.join(name), things, first_names);
        }
    }
    let what = what(&full, path, &metadata, first_names);
    let thing = Thing {
        mode: metadata.mode() & 0o7777,
        owner: (metadata.uid(), metadata.gid()),
        mtime: (metadata.mtime(), metadata.mtime_nsec()),
        what,
    };
    things.insert(path.to_owned(), thing);
}

fn what(
    full: &Path,
    path: &Path,
    metadata: &Metadata,
    first_names: &mut HashMap<u64, PathBuf>,
) -> What {
    let kind = metadata.file_type();
    if kind.is_dir() {
        What::Directory
    } else if kind.is_symlink() {
        What::Symlink(fs::read_link(full).unwrap())
    } else if kind.is_fifo() {
        What::Fifo
    } else if kind.is_socket() {
        What::Socket
    } else {
        let first = first_names.entry(metadata.ino()).or_insert_with(|| path.to_owned()).clone();
        What::File { bytes: fs::read(full).unwrap(), first }
    }
}
