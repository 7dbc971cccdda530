//! The allowed names of objects: those that every file system and object service accepts unchanged.

use crate::BackendError;

/// Longest part between slashes. File systems take 255; staging adds a suffix.
const MAX_PART: usize = 200;

/// Longest name. Object services take 1,024.
const MAX_NAME: usize = 1_000;

/// Passes names made of parts of `a-z 0-9 . _ -` joined by single slashes, none of them `.` or
/// `..`, each at most 200 bytes, all at most 1,000.
pub(crate) fn check_name(name: &str) -> Result<(), BackendError> {
    match broken_rule(name) {
        None => Ok(()),
        Some(reason) => Err(BackendError::BadName { name: name.to_owned(), reason }),
    }
}

/// Passes names of one part: those of logs and pages, which lie in no directory of their folder.
pub(crate) fn check_part(name: &str) -> Result<(), BackendError> {
    if name.contains('/') {
        let reason = "a log or file of pages lies in no directory here";
        return Err(BackendError::BadName { name: name.to_owned(), reason });
    }
    check_name(name)
}

/// Passes "" and names followed by a slash.
pub(crate) fn check_prefix(prefix: &str) -> Result<(), BackendError> {
    let reason = match prefix.strip_suffix('/') {
        Some(directory) => broken_rule(directory),
        None if prefix.is_empty() => None,
        None => Some("a prefix is empty or ends in a slash"),
    };
    match reason {
        None => Ok(()),
        Some(reason) => Err(BackendError::BadName { name: prefix.to_owned(), reason }),
    }
}

/// The directories that `name` lies in, outermost first: `a` and `a/b` for `a/b/c`.
pub(crate) fn directories_of(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('/').map(|(slash, _)| &name[..slash])
}

fn broken_rule(name: &str) -> Option<&'static str> {
    if name.len() > MAX_NAME {
        return Some("it is longer than 1000 bytes");
    }
    name.split('/').find_map(|part| match part {
        "" => Some("it has an empty part"),
        "." | ".." => Some("it has a part that means a directory"),
        _ if part.len() > MAX_PART => Some("it has a part longer than 200 bytes"),
        _ if !part.bytes().all(is_allowed) => {
            Some("it has a byte other than a-z, 0-9, '.', '_' and '-'")
        }
        _ => None,
    })
}

fn is_allowed(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_portable_paths() {
        for good in ["a", "containers/00ff", "a/b/c.d", "..a", "x-1_2"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        let long = "a".repeat(201);
        let longer = ["a"; 501].join("/");
        for bad in
            ["", "/", "a/", "/a", "a//b", ".", "a/../b", "A", "a b", "a#1", "é", &long, &longer]
        {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn prefixes_are_directories() {
        assert!(check_prefix("").is_ok());
        assert!(check_prefix("a/b/").is_ok());
        for bad in ["a", "/", "a//", "../"] {
            assert!(check_prefix(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn directories_come_outermost_first() {
        assert_eq!(directories_of("a/b/c").collect::<Vec<_>>(), ["a", "a/b"]);
        assert_eq!(directories_of("a").count(), 0);
    }
}
