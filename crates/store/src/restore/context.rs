//! What all threads of a restore share.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use onefold_cdc::Chunker;

use super::nameless::Nameless;
use super::options::Options;
use super::report::Counts;
use super::seed::Seeds;
use super::target::{Components, Missing};
use crate::chunks::reader::ChunkReader;
use crate::finding::describe;
use crate::{Act, Cancel, IssueKind, Progress, StoreError};

/// What all threads of a restore share.
pub(super) struct Context<'a> {
    pub(super) chunks: &'a ChunkReader<'a>,
    /// Cuts as the repository cuts.
    pub(super) chunker: Chunker,
    pub(super) target: &'a Path,
    pub(super) options: &'a Options,
    pub(super) progress: &'a Progress,
    pub(super) cancel: &'a Cancel,
    pub(super) counts: &'a Counts,
    pub(super) nameless: Nameless,
    pub(super) seeds: Seeds,
    /// The file at which the target turned out to be full.
    pub(super) full: OnceLock<PathBuf>,
    /// Why nothing more can be read from the repository, though it may be whole.
    pub(super) outage: OnceLock<StoreError>,
    /// What could not be restored, so that no other name is made for what stands in its place.
    pub(super) failed: Mutex<HashSet<Components>>,
    /// Names in the snapshot that look like temporary ones: no temporary file gets them, and what
    /// has them is not removed.
    pub(super) look_temporary: Mutex<HashSet<Vec<u8>>>,
}

impl Context<'_> {
    pub(super) fn go_on(&self) -> Result<(), StoreError> {
        if let Some(path) = self.full.get() {
            let source = rustix::io::Errno::NOSPC.into();
            return Err(StoreError::File { action: "write", path: path.clone(), source });
        }
        if self.outage.get().is_some() {
            return Err(StoreError::Stopped);
        }
        self.cancel.check()
    }

    /// Whether the restore ends before all is restored, and the same command may go on.
    pub(super) fn is_cut_off(&self) -> bool {
        self.cancel.is_cancelled() || self.outage.get().is_some()
    }

    /// What `error` says of the object that was asked for. One that says that the repository cannot be
    /// reached ends the restore.
    pub(super) fn reason(&self, error: StoreError) -> String {
        let reason = describe(&error);
        if error.is_unreachable() {
            self.outage.get_or_init(|| error);
        }
        reason
    }

    pub(super) fn has_failed(&self, path: &[Arc<[u8]>]) -> bool {
        self.failed.lock().expect("no thread panics with it locked").contains(path)
    }

    /// Whether the snapshot has a file of this name, which looks like a temporary one.
    pub(super) fn is_in_snapshot(&self, temporary: &[u8]) -> bool {
        let names = self.look_temporary.lock().expect("no thread panics with it locked");
        names.contains(temporary)
    }

    /// Reports an entry that was not restored, unless the whole restore ends because of an outage.
    pub(super) fn failed(&self, path: &[Arc<[u8]>], reason: String) {
        if self.outage.get().is_some() {
            return;
        }
        Counts::add(&self.counts.failed, 1);
        self.failed.lock().expect("no thread panics with it locked").insert(path.to_vec());
        self.progress.issue(self.show(path), IssueKind::NotRestored { reason });
    }

    pub(super) fn incomplete(&self, path: &[Arc<[u8]>], missing: Missing) {
        for reason in missing {
            self.progress.issue(self.show(path), IssueKind::Incomplete { reason });
        }
    }

    /// Tells what is done, or would be, to `name` in the directory at `above`.
    pub(super) fn act(&self, act: Act, above: &[Arc<[u8]>], name: &[u8]) {
        self.progress.act(act, || self.show(above).join(OsStr::from_bytes(name)));
    }

    /// The path in the target, for messages only.
    pub(super) fn show(&self, path: &[Arc<[u8]>]) -> PathBuf {
        let mut shown = self.target.to_owned();
        shown.extend(path.iter().map(|name| OsStr::from_bytes(name)));
        shown
    }
}
