//! Choosing files by pattern.
//!
//! Patterns are gitignore's: `*.o` matches at any depth, `/target` only at the root of the source,
//! `cache/` only directories, `**` any number of components, `!keep.o` takes back. A pattern that
//! matches a directory matches everything below it.

use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// A pattern is not a glob.
#[derive(Debug, thiserror::Error)]
#[error("pattern '{pattern}' is not a glob: {reason}")]
pub struct PatternError {
    pattern: String,
    reason: String,
}

/// A set of patterns, rooted where the source or the snapshot is.
#[derive(Debug, Clone)]
pub(crate) struct Patterns(Gitignore);

impl Patterns {
    /// Patterns relative to `root`.
    pub(crate) fn new(root: &Path, patterns: &[String]) -> Result<Self, PatternError> {
        let mut builder = GitignoreBuilder::new(root);
        for pattern in patterns {
            builder.add_line(None, pattern).map_err(|error| PatternError {
                pattern: pattern.clone(),
                reason: error.to_string(),
            })?;
        }
        let built = builder.build().map_err(|error| PatternError {
            pattern: patterns.join(" "),
            reason: error.to_string(),
        })?;
        Ok(Self(built))
    }

    /// The patterns of the ignore file with the text `text`, relative to its directory `root`.
    /// Lines that are no pattern are passed over, as git passes over them.
    pub(crate) fn of_text(root: &Path, text: &str) -> Self {
        let mut builder = GitignoreBuilder::new(root);
        for line in text.trim_start_matches('\u{feff}').lines() {
            let _ = builder.add_line(None, line);
        }
        Self(builder.build().unwrap_or_else(|_| Gitignore::empty()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the last pattern that fits `path` picks it; `None` if none fits.
    pub(crate) fn verdict(&self, path: &Path, is_directory: bool) -> Option<bool> {
        match self.0.matched(path, is_directory) {
            Match::None => None,
            Match::Ignore(_) => Some(true),
            Match::Whitelist(_) => Some(false),
        }
    }

    /// Whether `path` or a directory above it is picked.
    pub(crate) fn picks_with_parents(&self, path: &Path, is_directory: bool) -> bool {
        self.0.matched_path_or_any_parents(path, is_directory).is_ignore()
    }
}
