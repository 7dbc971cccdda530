//! Globs by which entries of snapshots are found.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::patterns::select::PatternError;

/// Globs on names, and on paths.
#[derive(Debug)]
pub(crate) struct Globs {
    names: GlobSet,
    paths: GlobSet,
}

impl Globs {
    /// A pattern with a slash is for paths: from the root if it begins with one, else from any
    /// directory. A slash at the end does not count.
    pub(crate) fn new(patterns: &[String], ignore_case: bool) -> Result<Self, PatternError> {
        let (mut names, mut paths) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        let refused =
            |pattern: &str, reason: String| PatternError { pattern: pattern.into(), reason };
        for pattern in patterns {
            let text = pattern.trim_end_matches('/');
            if text.is_empty() {
                return Err(refused(pattern, "expected a name or a path".into()));
            }
            let (set, glob) = match (text.strip_prefix('/'), text.contains('/')) {
                (Some(path), _) => (&mut paths, path.to_owned()),
                (None, true) => (&mut paths, format!("**/{text}")),
                (None, false) => (&mut names, text.to_owned()),
            };
            let built = GlobBuilder::new(&glob)
                .literal_separator(true)
                .backslash_escape(true)
                .case_insensitive(ignore_case)
                .build();
            set.add(built.map_err(|error| refused(pattern, error.kind().to_string()))?);
        }
        let all = || patterns.join(" ");
        let build =
            |set: &GlobSetBuilder| set.build().map_err(|error| refused(&all(), error.to_string()));
        Ok(Self { names: build(&names)?, paths: build(&paths)? })
    }

    /// Whether one of them matches the entry at `path`, which has the name `name`.
    pub(crate) fn match_one(&self, path: &[u8], name: &[u8]) -> bool {
        self.names.is_match(OsStr::from_bytes(name)) || self.paths.is_match(OsStr::from_bytes(path))
    }

    /// Whether what matches depends on more than names.
    pub(crate) fn look_at_paths(&self) -> bool {
        !self.paths.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, path: &str) -> bool {
        let globs = Globs::new(&[pattern.to_owned()], false).unwrap();
        let name = path.rsplit('/').next().unwrap();
        globs.match_one(path.as_bytes(), name.as_bytes())
    }

    #[test]
    fn a_pattern_with_a_slash_is_for_the_path() {
        for path in ["a.txt", "x/a.txt", "x/y/a.txt"] {
            assert!(fits("*.txt", path) && fits("a.txt/", path), "{path}");
            assert_eq!(fits("/a.txt", path), path == "a.txt", "{path}");
            assert_eq!(fits("/x/**/*.txt", path), path != "a.txt", "{path}");
            assert_eq!(fits("y/a.???", path), path == "x/y/a.txt", "{path}");
            assert_eq!(fits("/x/*", path), path == "x/a.txt", "{path}");
        }
        assert!(!fits("A.TXT", "a.txt") && !fits("y", "x/y/a.txt"));
        let globs = Globs::new(&["A.TXT".to_owned()], true).unwrap();
        assert!(globs.match_one(b"x/a.txt", b"a.txt") && !globs.look_at_paths());
        for bad in ["", "/", "a[", "{a"] {
            let error = Globs::new(&[bad.to_owned()], false).unwrap_err();
            assert!(error.to_string().contains(&format!("'{bad}'")), "{error}");
        }
    }
}
