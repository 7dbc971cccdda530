//! Choosing files by pattern.
//!
//! Patterns are gitignore's: `*.o` matches at any depth, `/target` only at the root of the source,
//! `cache/` only directories, `**` any number of components, `!keep.o` takes back. A pattern that
//! matches a directory matches everything below it.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::path::Path;

use globset::GlobBuilder;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// A pattern is not a glob.
#[derive(Debug, thiserror::Error)]
#[error("pattern '{pattern}' is not a glob: {reason}")]
pub struct PatternError {
    pub(crate) pattern: String,
    pub(crate) reason: String,
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
        Some(self.fitting(path, is_directory)?.1)
    }

    /// The last pattern that fits `path`, and whether it picks it.
    fn fitting(&self, path: &Path, is_directory: bool) -> Option<(&str, bool)> {
        match self.0.matched(path, is_directory) {
            Match::None => None,
            Match::Ignore(glob) => Some((glob.original(), true)),
            Match::Whitelist(glob) => Some((glob.original(), false)),
        }
    }

    /// Whether `path` or a directory above it is picked.
    pub(crate) fn picks_with_parents(&self, path: &Path, is_directory: bool) -> bool {
        self.0.matched_path_or_any_parents(path, is_directory).is_ignore()
    }
}

/// The user's patterns as they read from the top of one source.
///
/// A pattern may begin with the source: as the user wrote it, absolute, or by its name in the
/// snapshot. The rest of the pattern is then rooted at the source: for the source `/home/ann`,
/// `/home/*/cache` reads `/cache`.
pub(crate) struct Excludes<'p> {
    patterns: Patterns,
    /// For each line given to `patterns`, the user's pattern that it was made from.
    origins: HashMap<String, &'p str>,
    /// The user's patterns that matched something so far.
    fitted: RefCell<HashSet<&'p str>>,
}

impl<'p> Excludes<'p> {
    /// Patterns for what is below `root`. Each of `prefixes` is a path of `root`, split at slashes;
    /// an absolute one therefore begins with an empty name.
    pub(crate) fn new(
        root: &Path,
        prefixes: &[Vec<&str>],
        patterns: impl IntoIterator<Item = &'p str>,
    ) -> Result<Self, PatternError> {
        let (mut lines, mut origins) = (Vec::new(), HashMap::new());
        for pattern in patterns {
            for line in readings(pattern, prefixes) {
                origins.insert(line.trim_end().to_owned(), pattern);
                lines.push(line);
            }
        }
        let patterns = Patterns::new(root, &lines)?;
        Ok(Self { patterns, origins, fitted: RefCell::default() })
    }

    /// As [`Patterns::verdict`].
    pub(crate) fn verdict(&self, path: &Path, is_directory: bool) -> Option<bool> {
        let (line, picks) = self.patterns.fitting(path, is_directory)?;
        if let Some(pattern) = self.origins.get(line.trim_end()) {
            self.fitted.borrow_mut().insert(pattern);
        }
        Some(picks)
    }

    /// The user's patterns that matched something.
    pub(crate) fn into_fitted(self) -> HashSet<&'p str> {
        self.fitted.into_inner()
    }
}

/// Whether a line of patterns is one: neither blank nor a remark.
pub(crate) fn is_pattern(line: &str) -> bool {
    !line.trim().is_empty() && !line.starts_with('#')
}

/// The lines that `pattern` stands for below a source with the paths `prefixes`: itself, or what
/// follows each prefix that it begins with.
fn readings(pattern: &str, prefixes: &[Vec<&str>]) -> Vec<String> {
    let (not, body) = match pattern.strip_prefix('!') {
        Some(body) => ("!", body),
        None => ("", pattern),
    };
    let parts: Vec<&str> = body.strip_prefix("./").unwrap_or(body).split('/').collect();
    // `*/x` and `/**/x` are meant from the top of a source, and so is a name alone.
    let is_path = body.starts_with("./")
        || (parts.len() > 1 && !has_glob(parts[usize::from(parts[0].is_empty())]));
    let rests: Vec<_> = prefixes.iter().flat_map(|prefix| rests(&parts, prefix)).collect();
    // Of the source `.`, whose path has no names, `/x` is left with its slash.
    let line = |rest: &&[&str]| format!("{not}/{}", rest.join("/").trim_start_matches('/'));
    let mut lines: Vec<String> = rests.iter().map(line).collect();
    lines.sort();
    lines.dedup();
    match is_path && !lines.is_empty() {
        true => lines,
        false => vec![pattern.to_owned()],
    }
}

/// What is left of a pattern's `parts` after they have matched all `names` of a path. `**` can match
/// in several ways.
fn rests<'p>(parts: &'p [&'p str], names: &[&str]) -> Vec<&'p [&'p str]> {
    match (parts, names) {
        ([] | [""], _) => Vec::new(),
        (_, []) => vec![parts],
        (["**", others @ ..], [_, names @ ..]) => {
            let mut found = rests(others, &[]);
            found.extend(rests(parts, names));
            found.extend(rests(others, names));
            found
        }
        ([part, others @ ..], [name, names @ ..]) if fits(part, name) => rests(others, names),
        _ => Vec::new(),
    }
}

fn has_glob(part: &str) -> bool {
    part.contains(['*', '?', '[', '{', '\\'])
}

fn fits(part: &str, name: &str) -> bool {
    let as_glob = || {
        let glob = GlobBuilder::new(part).literal_separator(true).backslash_escape(true).build();
        glob.is_ok_and(|glob| glob.compile_matcher().is_match(name))
    };
    part == name || (has_glob(part) && as_glob())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines that `pattern` stands for below `/home/ann/docs`, which the user named as `docs`.
    fn read(pattern: &str) -> Vec<String> {
        let full = vec!["", "home", "ann", "docs"];
        readings(pattern, &[full, vec!["docs"]])
    }

    #[test]
    fn a_pattern_that_begins_with_a_source_is_meant_from_there() {
        assert_eq!(read("/home/ann/docs/tmp"), ["/tmp"]);
        assert_eq!(read("!/home/ann/docs/a/b/"), ["!/a/b/"]);
        assert_eq!(read("/home/*/docs/*.o"), ["/*.o"]);
        assert_eq!(read("docs/tmp"), ["/tmp"]);
        assert_eq!(read("./docs/tmp"), ["/tmp"]);
        assert_eq!(read("/home/**/cache"), ["/**/cache", "/cache"]);
    }

    #[test]
    fn any_other_is_as_it_is() {
        let others =
            ["*.o", "/tmp", "tmp/", "docs", "/home/bob/docs/x", "*/tmp", "/**/x", "/*/ann/docs/x"];
        for other in others {
            assert_eq!(read(other), [other]);
        }
        // A source is not left out by its own name: the user named it to have it.
        for whole in ["/home/ann/docs", "/home/ann/docs/", "/home"] {
            assert_eq!(read(whole), [whole]);
        }
        assert_eq!(readings("/etc/x", &[vec![""]]), ["/etc/x"], "of the source /");
        let here = [vec!["", "here"], vec![]];
        assert_eq!(readings("./x", &here), ["/x"], "of the source .");
        assert_eq!(readings("/x", &here), ["/x"], "of the source .");
        assert_eq!(readings("!/keep", &here), ["!/keep"], "of the source .");
    }

    #[test]
    fn it_is_known_which_patterns_fitted() {
        let prefixes = [vec!["", "s"], vec!["s"]];
        let patterns = ["*.o", "/s/tmp", "never", "!keep.o"];
        let excludes = Excludes::new(Path::new("/s"), &prefixes, patterns).unwrap();
        let verdict = |path: &str| excludes.verdict(Path::new(path), false);
        assert_eq!(verdict("/s/a/b.o"), Some(true));
        assert_eq!(verdict("/s/keep.o"), Some(false));
        assert_eq!(verdict("/s/tmp"), Some(true));
        assert_eq!(verdict("/s/a/tmp"), None);
        let mut fitted: Vec<_> = excludes.into_fitted().into_iter().collect();
        fitted.sort_unstable();
        assert_eq!(fitted, ["!keep.o", "*.o", "/s/tmp"]);
    }
}
