//! Objects as files below a root directory.
//!
//! The guarantees of a put follow from its order. First each missing directory is created and its parent
//! synced. Then, in `object_store`, a staging file `name#1` is written and synced, linked to its name
//! (which fails if the name is taken), the directory is synced, and the staging file is removed. This
//! module adds the case of an existing name: it may come from a process that was killed before it synced
//! the directory.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, DirBuilder, DirEntry, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use object_store::local::LocalFileSystem;

use super::{listing, reserve, sync_directory};
use crate::name::{check_name, check_prefix, directories_of};
use crate::stored::{Here, Put, Stored};
use crate::{BackendError, ObjectInfo, Objects, Operation};

/// Objects as files below a root directory; any number of processes may share it.
///
/// A process that is killed during a put may leave a staging file `name#1`. It is never listed and never
/// treated as an object.
#[derive(Debug)]
pub struct LocalObjects {
    files: Stored<LocalFileSystem>,
    root: PathBuf,
    identity: Identity,
    /// Directories below the root known to be durable, as parts of names.
    directories: Mutex<HashSet<String>>,
    /// Whether puts may use the reserve.
    frees: AtomicBool,
}

impl LocalObjects {
    /// Opens a root, which must be an existing directory.
    ///
    /// Its path, symbolic links resolved, must be UTF-8: `object_store` panics on others when a
    /// name is taken.
    pub fn open(root: &Path) -> Result<Self, BackendError> {
        let bad = |reason, source| BackendError::BadRoot { root: root.to_owned(), reason, source };
        let cannot_open = |cause| bad("it cannot be opened", Some(cause));
        let path = fs::canonicalize(root).map_err(cannot_open)?;
        let metadata = fs::metadata(&path).map_err(cannot_open)?;
        if !metadata.is_dir() {
            return Err(bad("it is no directory", None));
        }
        let Some(place) = path.to_str().map(str::to_owned) else {
            return Err(bad("its path is not UTF-8", None));
        };
        let store = LocalFileSystem::new_with_prefix(&path)
            .map_err(|cause| cannot_open(io::Error::other(cause)))?
            .with_fsync(true);
        Ok(Self {
            files: Stored { store, place, waiter: Here },
            root: path,
            identity: Identity::of(&metadata),
            directories: Mutex::default(),
            frees: AtomicBool::new(false),
        })
    }

    /// Opens a root. If it is missing, it is created durably, accessible to its owner only, with the
    /// missing directories above it. The mode of an existing root does not change.
    pub fn create(root: &Path) -> Result<Self, BackendError> {
        make_durably(root).map_err(|cause| BackendError::BadRoot {
            root: root.to_owned(),
            reason: "it cannot be made",
            source: Some(cause),
        })?;
        Self::open(root)
    }

    /// The root directory, symbolic links resolved.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Allows puts through this handle to use the [reserve](Self::keep_reserve) when the disk is full. Only
    /// for operations that free space.
    pub fn use_reserve(&self) {
        self.frees.store(true, Ordering::Relaxed);
    }

    /// Reserves 8 MiB of the disk for operations that free space, in a file whose name no object can
    /// have. Returns whether there was space for all of it. After the reserve was used, another call
    /// refills it.
    pub fn keep_reserve(&self) -> Result<bool, BackendError> {
        self.check_root(Operation::Resize, reserve::NAME)?;
        let error = |cause| self.error(Operation::Resize, reserve::NAME, cause);
        reserve::fill(&self.root).map_err(error)
    }

    /// Frees space for an object of `len` bytes, if it may use the reserve and the reserve has any.
    fn spend_reserve(&self, len: usize) -> Result<bool, BackendError> {
        if !self.frees.load(Ordering::Relaxed) || len as u64 > reserve::MAX_OBJECT {
            return Ok(false);
        }
        let error = |cause| self.error(Operation::Resize, reserve::NAME, cause);
        reserve::spend(&self.root, len as u64).map_err(error)
    }

    /// Fails if the root is no longer the directory that was opened. Without this a listing of
    /// an unmounted disk would look like an empty repository, and a put would recreate its root.
    fn check_root(&self, operation: Operation, name: &str) -> Result<(), BackendError> {
        match fs::metadata(&self.root) {
            Ok(metadata) if Identity::of(&metadata) == self.identity => Ok(()),
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                Err(self.error(operation, name, cause))
            }
            _ => Err(BackendError::RootGone {
                name: name.to_owned(),
                operation,
                root: self.root.clone(),
            }),
        }
    }

    /// Creates the missing directories of `name`, and makes all of them durable.
    ///
    /// Each is synced into its parent once per handle, even if it exists: another process may
    /// have made it and be dead, or not have come to its sync yet.
    fn make_directories(&self, name: &str) -> Result<(), BackendError> {
        let mut durable = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        for directory in directories_of(name) {
            if durable.contains(directory) {
                continue;
            }
            let path = self.root.join(directory);
            match fs::create_dir(&path) {
                Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => Err(cause),
                _ => sync_directory(parent_of(&path)),
            }
            .map_err(|cause| self.error(Operation::Put, name, cause))?;
            durable.insert(directory.to_owned());
        }
        Ok(())
    }

    /// Makes an object that was found, not made, durable.
    fn sync_object(&self, name: &str) -> io::Result<()> {
        let path = self.root.join(name);
        File::open(&path)?.sync_all()?;
        sync_directory(parent_of(&path))
    }

    /// Makes a listing of `prefix` durable: syncs every directory in which a name was found, and that of the
    /// prefix, from which a name may have been deleted.
    fn sync_names<'n>(
        &self,
        prefix: &str,
        names: impl Iterator<Item = &'n str> + Clone,
    ) -> io::Result<()> {
        let is_empty = names.clone().next().is_none();
        let mut directories: BTreeSet<&str> = names.flat_map(directories_of).collect();
        if !is_empty {
            directories.insert("");
        }
        directories.insert(prefix.trim_end_matches('/'));
        directories.into_iter().try_for_each(|directory| {
            match sync_directory(&self.root.join(directory)) {
                // Nothing is waiting to be written there.
                Err(cause) if cause.kind() == io::ErrorKind::ReadOnlyFilesystem => Ok(()),
                // Nothing was ever put below the prefix.
                Err(cause) if cause.kind() == io::ErrorKind::NotFound && is_empty => Ok(()),
                result => result,
            }
        })
    }

    /// Calls `found` with the name and the entry of every object below `prefix`, in no order.
    fn read_names(
        &self,
        prefix: &str,
        found: &mut dyn FnMut(String, &DirEntry) -> io::Result<()>,
    ) -> Result<(), BackendError> {
        check_prefix(prefix)?;
        listing::files_below(&self.root, prefix, found)
            .map_err(|cause| self.error(Operation::List, prefix, cause))
    }

    /// Makes sure that the listing is of this root, and makes it durable.
    fn settle_names<'n>(
        &self,
        prefix: &str,
        names: impl Iterator<Item = &'n str> + Clone,
    ) -> Result<(), BackendError> {
        // After the listing: a root that vanished in between has made it too short.
        self.check_root(Operation::List, prefix)?;
        self.sync_names(prefix, names).map_err(|cause| self.error(Operation::List, prefix, cause))
    }

    fn try_put(&self, name: &str, bytes: Bytes) -> Result<(), BackendError> {
        check_name(name)?;
        self.check_root(Operation::Put, name)?;
        self.make_directories(name)?;
        match self.files.put(name, bytes)? {
            Put::New => Ok(()),
            Put::Same => {
                self.sync_object(name).map_err(|cause| self.error(Operation::Put, name, cause))
            }
        }
    }

    fn error(&self, operation: Operation, name: &str, cause: io::Error) -> BackendError {
        BackendError::from_cause(operation, name, &self.files.place, cause)
    }
}

impl Objects for LocalObjects {
    fn put(&self, name: &str, bytes: Bytes) -> Result<(), BackendError> {
        loop {
            match self.try_put(name, bytes.clone()) {
                Err(error) if error.is_full() && self.spend_reserve(bytes.len())? => {}
                result => return result,
            }
        }
    }

    fn get(&self, name: &str) -> Result<Bytes, BackendError> {
        self.files.get(name).or_else(|error| {
            self.check_root(Operation::Get, name)?;
            Err(error)
        })
    }

    fn get_limited(&self, name: &str, max: u64) -> Result<Bytes, BackendError> {
        self.files.get_limited(name, max).or_else(|error| {
            self.check_root(Operation::Get, name)?;
            Err(error)
        })
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> Result<Bytes, BackendError> {
        self.files.get_range(name, range).or_else(|error| {
            self.check_root(Operation::Get, name)?;
            Err(error)
        })
    }

    fn size(&self, name: &str) -> Result<u64, BackendError> {
        self.files.size(name).or_else(|error| {
            self.check_root(Operation::Size, name)?;
            Err(error)
        })
    }

    fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, BackendError> {
        let mut objects = Vec::new();
        self.read_names(prefix, &mut |name, entry| {
            let size = listing::len_of(entry)?;
            objects.extend(size.map(|size| ObjectInfo { name, size }));
            Ok(())
        })?;
        objects.sort_unstable();
        self.settle_names(prefix, objects.iter().map(|object| object.name.as_str()))?;
        Ok(objects)
    }

    fn list_names(&self, prefix: &str) -> Result<Vec<String>, BackendError> {
        let mut names = Vec::new();
        self.read_names(prefix, &mut |name, _| {
            names.push(name);
            Ok(())
        })?;
        names.sort_unstable();
        self.settle_names(prefix, names.iter().map(String::as_str))?;
        Ok(names)
    }

    fn delete(&self, name: &str) -> Result<(), BackendError> {
        check_name(name)?;
        self.check_root(Operation::Delete, name)?;
        self.files.delete(name)
    }
}

/// Tells a directory from another that later has the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(metadata: &fs::Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// Creates a directory that only its owner can access, and missing directories above it with the mode of the
/// umask. Each is durable on return; an existing one does not change.
pub(super) fn make_durably(path: &Path) -> io::Result<()> {
    make_with(path, 0o700)
}

fn make_with(path: &Path, mode: u32) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = parent_of(path);
    make_with(parent, 0o777)?;
    match DirBuilder::new().mode(mode).create(path) {
        Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => Err(cause),
        _ => sync_directory(parent),
    }
}

/// The directory that holds the name `path`.
fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}
