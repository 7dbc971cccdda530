//! What a restore takes of a snapshot, and what it may delete in the target.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::options::Options;
use crate::patterns::select::{PatternError, Patterns};

/// What `includes` pick, everything if there are none, without what `excludes` pick.
pub(super) struct Selection {
    includes: Patterns,
    excludes: Patterns,
}

impl Selection {
    pub(super) fn new(options: &Options) -> Result<Self, PatternError> {
        let patterns = |patterns| Patterns::new(Path::new("/"), patterns);
        Ok(Self { includes: patterns(&options.includes)?, excludes: patterns(&options.excludes)? })
    }

    /// Whether there are no patterns.
    pub(super) fn is_all(&self) -> bool {
        self.includes.is_empty() && self.excludes.is_empty()
    }

    /// Whether every directory is restored that is not left out, so that the root is.
    pub(super) fn takes_root(&self) -> bool {
        self.includes.is_empty()
    }

    /// Whether the entry is left out with all that is below it. The caller asks on the way down.
    pub(super) fn leaves_out(&self, above: &[Arc<[u8]>], name: &[u8], is_directory: bool) -> bool {
        !self.excludes.is_empty()
            && self.excludes.verdict(&path_of(above, name), is_directory) == Some(true)
    }

    /// Whether the entry is one to restore, unless it or a directory above it is left out.
    pub(super) fn picks(&self, above: &[Arc<[u8]>], name: &[u8], is_directory: bool) -> bool {
        self.includes.is_empty()
            || self.includes.picks_with_parents(&path_of(above, name), is_directory)
    }

    /// Whether the entry at `path` is restored, wherever the caller came from.
    pub(super) fn takes(&self, path: &[u8], is_directory: bool) -> bool {
        let path = Path::new(OsStr::from_bytes(path));
        (self.includes.is_empty() || self.includes.picks_with_parents(path, is_directory))
            && (self.excludes.is_empty() || !self.excludes.picks_with_parents(path, is_directory))
    }
}

fn path_of(above: &[Arc<[u8]>], name: &[u8]) -> PathBuf {
    let names = above.iter().map(|name| &**name).chain([name]);
    names.map(OsStr::from_bytes).collect()
}
