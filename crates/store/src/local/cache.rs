//! Copies on this machine of what never changes in the repository.
//!
//! Kept are snapshots, log entries that others follow, bundles, footers of containers, and the groups
//! of containers that hold trees and nodes of recipes. A copy has the bytes of the repository, sealed as
//! there. It is kept once it was opened, and opened again whenever it is used, as the original would
//! be; one that does not open is removed, and the original is fetched.
//!
//! A copy shows only what an object holds, never that it is there: that is for listings to say, which
//! are always fetched. So are keys, key epochs, clients, the configuration and the last entry of each
//! log, because an old copy of these would hide what was taken back since.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use onefold_backend::{BackendError, LocalCache, Objects};
use onefold_container::{ContainerError, Content, Directory, SealedContainer, StoredFooter};
use onefold_seal::{Envelope, ObjectId};

use crate::finding::describe;
use crate::objects::entry::At;
use crate::{StoreError, Warning};

/// No copy is longer than this.
const MAX_LEN: u64 = 16 << 20;

/// Copies of one repository's objects.
#[derive(Debug)]
pub struct ObjectCache {
    files: LocalCache,
    /// Set when the folder fails; nothing is read from it or written to it afterwards.
    is_off: AtomicBool,
    /// Why it failed, until somebody asks.
    trouble: Mutex<Option<Warning>>,
}

/// Of what there is a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copied {
    /// A snapshot, and its length in bytes.
    Snapshot(ObjectId, u64),
    /// A log entry.
    Entry(At),
    /// The footer of a container, and the container's length in bytes.
    Footer(ObjectId, u64),
    /// A group of a container.
    Group(ObjectId, u32),
    /// A bundle, and its length in bytes.
    Bundle(ObjectId, u64),
}

impl Copied {
    fn name(self) -> String {
        match self {
            Self::Snapshot(id, len) => format!("snapshot-{id}-{len}"),
            Self::Entry(at) => format!("entry-{}", at.id()),
            Self::Footer(id, size) => format!("footer-{id}-{size}"),
            Self::Group(id, number) => format!("group-{id}-{number}"),
            Self::Bundle(id, len) => format!("bundle-{id}-{len}"),
        }
    }
}

impl ObjectCache {
    /// The copies of `repository` below `directory`, which holds at most `max` bytes of copies of all
    /// repositories together.
    ///
    /// # Errors
    /// [`BackendError::Untrusted`] if another user could exchange what lies there.
    pub fn open(directory: &Path, repository: ObjectId, max: u64) -> Result<Self, BackendError> {
        let files = LocalCache::open(directory, &repository.to_string(), max)?;
        Ok(Self { files, is_off: AtomicBool::new(false), trouble: Mutex::default() })
    }

    /// What `open` makes of the copy of `what`; nothing if there is none that opens.
    pub(crate) fn get<T, E>(
        &self,
        what: Copied,
        open: impl FnOnce(Bytes) -> Result<T, E>,
    ) -> Option<T> {
        let copy = self.attempt(|| self.files.get(&what.name(), MAX_LEN))??;
        let opened = open(copy).ok();
        if opened.is_none() {
            self.attempt(|| self.files.remove(&what.name()));
        }
        opened
    }

    /// Whether there is a copy of `what`, be it one that opens or not.
    pub(crate) fn has(&self, what: Copied) -> bool {
        self.get(what, |_| Ok::<_, StoreError>(())).is_some()
    }

    /// Keeps a copy of `what`, which was opened.
    pub(crate) fn keep(&self, what: Copied, bytes: &[u8]) {
        self.attempt(|| self.files.put(&what.name(), bytes));
    }

    /// Keeps what will be read of a container that was just put.
    pub(crate) fn keep_container(&self, container: &SealedContainer) {
        let SealedContainer { bytes, directory } = container;
        let footer = container.footer();
        self.keep(Copied::Footer(directory.id, bytes.len() as u64), &footer.0);
        if directory.content != Content::Metadata {
            return;
        }
        for (number, group) in (0..).zip(&directory.groups) {
            let start = group.offset as usize;
            let stored = &bytes[start..start + group.stored_len as usize];
            self.keep(Copied::Group(directory.id, number), stored);
        }
    }

    /// Does something with the folder, unless that has failed before. Nothing but time depends on it.
    fn attempt<T>(&self, act: impl FnOnce() -> Result<T, BackendError>) -> Option<T> {
        if self.is_off.load(Ordering::Relaxed) {
            return None;
        }
        act()
            .inspect_err(|error| {
                self.is_off.store(true, Ordering::Relaxed);
                let text = format!("{}; copies are neither kept nor used", describe(error));
                *self.trouble.lock().expect("no thread panics with it locked") = Some(text);
            })
            .ok()
    }

    pub(crate) fn take_trouble(&self) -> Option<Warning> {
        self.trouble.lock().expect("no thread panics with it locked").take()
    }
}

/// The footers of many containers, given by id and size in bytes, from copies or the repository. Each
/// is handed to `take` with its position as it comes.
pub(crate) fn read_directories(
    objects: &dyn Objects,
    envelope: &Envelope,
    cache: Option<&ObjectCache>,
    containers: &[(ObjectId, u64)],
    take: &mut dyn FnMut(usize, Result<Directory, ContainerError>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let (mut positions, mut wanted) = (Vec::new(), Vec::new());
    for (at, (id, size)) in containers.iter().enumerate() {
        let open = |copy| Directory::of_footer(envelope, *id, *size, &StoredFooter(copy));
        match cache.and_then(|cache| cache.get(Copied::Footer(*id, *size), open)) {
            Some(directory) => take(at, Ok(directory))?,
            None => {
                positions.push(at);
                wanted.push((*id, *size));
            }
        }
    }
    Directory::read_many(objects, envelope, &wanted, &mut |number, read| {
        let (id, size) = wanted[number];
        let directory = read.map(|(directory, footer)| {
            cache.inspect(|cache| cache.keep(Copied::Footer(id, size), &footer.0));
            directory
        });
        take(positions[number], directory)
    })
}
