//! The sources of a backup: what the user named, and where it stands in the snapshot.
//!
//! A single directory is the snapshot's root. Several sources, or one that is no directory, are
//! entries of a root of their own: each under its last component, or, if two have the same or the
//! user wants it, under its full path. See docs/decisions/0032-full-paths.md.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use super::options::{Options, Stream};
use crate::contents::expect_contents;
use crate::tree::is_component;
use crate::{IssueKind, Progress, StoreError};

/// The sources of a backup, checked.
pub(super) struct Sources<'a> {
    pub(super) shape: Shape<'a>,
    /// The sources' absolute paths, those included that cannot be reached; a stream's is its name
    /// below the root.
    pub(super) paths: Vec<Vec<u8>>,
    /// Sources that lie below others, which back them up. They and the way to them are not left out
    /// for being on another file system.
    pub(super) nested: Vec<PathBuf>,
}

/// What the snapshot's root is.
pub(super) enum Shape<'a> {
    /// The one directory that is backed up.
    Directory(Source),
    /// A directory that stands for none, with these entries in ascending order of names.
    Branches(Vec<Branch>),
    /// As before, and what a program writes is its one entry.
    Stream(&'a Stream),
}

/// An entry on the way from a snapshot's root to a source.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Branch {
    Source(Source),
    /// A directory that is not backed up itself, but stands above sources.
    Above {
        path: PathBuf,
        branches: Vec<Branch>,
    },
}

/// A path or device that the user named.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Source {
    /// The last component of its path, as a snapshot has it; empty for `/`.
    pub(super) name: Vec<u8>,
    /// What the snapshot says where it was: the path of a device as the user wrote it, because the
    /// links that lead to one are more constant than what they lead to.
    path: PathBuf,
    /// Where it is read.
    pub(super) real: PathBuf,
    pub(super) is_device: bool,
    /// As the user wrote it.
    pub(super) written: PathBuf,
}

impl Source {
    /// A path that the user names is followed if it is a link; links found below are not.
    fn path(written: &Path) -> Result<Self, StoreError> {
        let real = written.canonicalize().map_err(StoreError::file("back up", written))?;
        let name = real.file_name().unwrap_or_default().as_bytes().to_vec();
        let written = written.to_owned();
        Ok(Self { name, path: real.clone(), real, is_device: false, written })
    }

    fn device(written: &Path) -> Result<Self, StoreError> {
        let error = |source| StoreError::file("back up", written)(source);
        let real = written.canonicalize().map_err(error)?;
        expect_contents(&real.metadata().map_err(error)?).map_err(error)?;
        let name = written.file_name().or(real.file_name()).unwrap_or_default().to_owned();
        let above = written.parent().filter(|above| !above.as_os_str().is_empty());
        let above = above.unwrap_or(Path::new(".")).canonicalize().map_err(error)?;
        let path = above.join(&name);
        let written = written.to_owned();
        Ok(Self { name: name.into_vec(), path, real, is_device: true, written })
    }

    /// What a pattern may begin with that means something below this source: its path as the user
    /// wrote it, its absolute paths, and its name.
    pub(super) fn prefixes(&self) -> Vec<Vec<&str>> {
        let name = Path::new(OsStr::from_bytes(&self.name));
        let paths = [&*self.written, &*self.path, &*self.real, name];
        paths.into_iter().filter_map(parts).collect()
    }
}

impl<'a> Sources<'a> {
    /// Looks at every path and device. One that cannot be reached is reported to `progress`; if
    /// all are like that, the first is the error.
    ///
    /// A source that cannot be reached still takes part in the shape and in the recorded paths. So a
    /// disk that is not mounted moves no other source, and the snapshot keeps its parent and its
    /// group.
    pub(super) fn new(
        paths: &[PathBuf],
        options: &Options,
        progress: &Progress,
    ) -> Result<Self, StoreError> {
        let devices = &options.devices;
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        let named = paths.iter().map(|path| (path, Source::path(path)));
        let named = named.chain(devices.iter().map(|path| (path, Source::device(path))));
        for (path, source) in named {
            match source {
                Ok(source) => found.push(source),
                Err(error) => missing.push((path, error)),
            }
        }
        if found.is_empty() {
            let nothing = || StoreError::Unusable("no path to back up was given".into());
            return Err(missing.into_iter().next().map_or_else(nothing, |(_, error)| error));
        }
        found.sort();
        found.dedup_by(|a, b| (&a.path, a.is_device) == (&b.path, b.is_device));
        let lost: BTreeSet<PathBuf> = missing.iter().map(|(path, _)| resolved(path)).collect();
        let is_alone = paths.len() == 1 && devices.is_empty();
        let is_full = options.full_paths || (!is_alone && has_same_names(&found, &lost));
        for (path, error) in missing {
            let StoreError::File { action, source, .. } = error else { return Err(error) };
            progress.issue(path, IssueKind::Unreadable { action, source });
        }
        let is_one_directory = is_alone && found[0].real.is_dir();
        let mut paths: Vec<&PathBuf> =
            found.iter().map(|source| &source.path).chain(&lost).collect();
        paths.sort_by_key(|path| (path.file_name(), *path));
        paths.dedup();
        let paths = paths.into_iter().map(|path| bytes(path)).collect();
        if is_one_directory && (!is_full || found[0].name.is_empty()) {
            let [source] = <[Source; 1]>::try_from(found).expect("one was named");
            return Ok(Self { shape: Shape::Directory(source), paths, nested: Vec::new() });
        }
        if is_full {
            let (shape, nested) = full(found)?;
            return Ok(Self { shape, paths, nested });
        }
        let branches = found.into_iter().map(Branch::Source).collect();
        Ok(Self { shape: Shape::Branches(branches), paths, nested: Vec::new() })
    }

    /// Checks that the stream has a name that a file can have.
    pub(super) fn stream(stream: &'a Stream) -> Result<Self, StoreError> {
        if !is_component(&stream.name) {
            let name = String::from_utf8_lossy(&stream.name);
            return Err(StoreError::Unusable(format!(
                "'{name}' is no name of a file: it must be one component"
            )));
        }
        let paths = vec![[b"/", &stream.name[..]].concat()];
        Ok(Self { shape: Shape::Stream(stream), paths, nested: Vec::new() })
    }

    /// What the user named and is there, in the order of the snapshot.
    pub(super) fn all(&self) -> Vec<&Source> {
        fn below<'s>(branches: &'s [Branch], all: &mut Vec<&'s Source>) {
            for branch in branches {
                match branch {
                    Branch::Source(source) => all.push(source),
                    Branch::Above { branches, .. } => below(branches, all),
                }
            }
        }
        let mut all = Vec::new();
        match &self.shape {
            Shape::Directory(source) => all.push(source),
            Shape::Branches(branches) => below(branches, &mut all),
            Shape::Stream(_) => {}
        }
        all
    }
}

impl Branch {
    /// Its name in the directory above.
    pub(super) fn name(&self) -> &[u8] {
        match self {
            Self::Source(source) => &source.name,
            Self::Above { path, .. } => path.file_name().map_or(b"", OsStr::as_bytes),
        }
    }
}

/// Sources under their full paths, and those of them that lie below others: they are not taken
/// twice.
fn full(mut found: Vec<Source>) -> Result<(Shape<'static>, Vec<PathBuf>), StoreError> {
    found.sort_by(|a, b| a.path.cmp(&b.path).then(a.is_device.cmp(&b.is_device)));
    let (mut kept, mut nested) = (Vec::<Source>::new(), Vec::new());
    for source in found {
        match kept.last().filter(|above| source.path.starts_with(&above.path)) {
            None => kept.push(source),
            Some(above) if source.is_device => {
                let (device, source_path) = (source.path, above.path.clone());
                return Err(StoreError::DeviceInSource { device, source_path });
            }
            Some(_) => nested.push(source.path),
        }
    }
    let shape = match kept.first().is_some_and(|first| first.name.is_empty()) {
        true => Shape::Directory(kept.remove(0)),
        false => Shape::Branches(branches(&kept, 0)),
    };
    Ok((shape, nested))
}

/// The absolute path that `path` would have if it could be reached: as much of it as exists is
/// resolved.
fn resolved(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let existing = absolute.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    match existing {
        Some((above, real)) => {
            real.join(absolute.strip_prefix(above).expect("it is an ancestor of the path"))
        }
        None => absolute,
    }
}

/// Whether two of several sources would have the same name beside each other, or one would have
/// none: `/`.
fn has_same_names(found: &[Source], lost: &BTreeSet<PathBuf>) -> bool {
    let found = found.iter().map(|source| &source.name[..]);
    let lost = lost.iter().map(|path| path.file_name().map_or(&b"/"[..], OsStr::as_bytes));
    let mut names: Vec<&[u8]> = found.chain(lost).collect();
    names.sort_unstable();
    names[0].is_empty() || names.windows(2).any(|pair| pair[0] == pair[1])
}

/// The entries of the directory at depth `depth` from which `sources`, sorted by path, are reached.
fn branches(sources: &[Source], depth: usize) -> Vec<Branch> {
    let ancestor = |source: &Source| -> PathBuf {
        // The first component is the root.
        source.path.components().take(depth + 2).collect()
    };
    sources
        .chunk_by(|a, b| ancestor(a) == ancestor(b))
        .map(|group| match group {
            [only] if ancestor(only) == only.path => Branch::Source(only.clone()),
            _ => Branch::Above { path: ancestor(&group[0]), branches: branches(group, depth + 1) },
        })
        .collect()
}

/// `path` as the parts of a pattern: its names, after an empty one if it is absolute; `None` if it is
/// not UTF-8.
fn parts(path: &Path) -> Option<Vec<&str>> {
    let named = path.components().filter_map(|part| match part {
        Component::RootDir => Some(OsStr::new("")),
        Component::Normal(_) | Component::ParentDir => Some(part.as_os_str()),
        Component::Prefix(_) | Component::CurDir => None,
    });
    named.map(OsStr::to_str).collect()
}

fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str) -> Source {
        let (path, written) = (PathBuf::from(path), PathBuf::from(path));
        let name = path.file_name().unwrap_or_default().as_bytes().to_vec();
        Source { name, real: path.clone(), path, is_device: false, written }
    }

    fn above(path: &str, branches: Vec<Branch>) -> Branch {
        Branch::Above { path: path.into(), branches }
    }

    fn shape(paths: &[&str]) -> (Shape<'static>, Vec<PathBuf>) {
        full(paths.iter().map(|path| source(path)).collect()).unwrap()
    }

    fn expect_branches(paths: &[&str], expected: Vec<Branch>) {
        let (Shape::Branches(found), _) = shape(paths) else { panic!("no branches") };
        assert_eq!(found, expected);
    }

    #[test]
    fn sources_stand_under_their_full_paths() {
        let named = |path| Branch::Source(source(path));
        expect_branches(&["/a/data"], vec![above("/a", vec![named("/a/data")])]);
        let both = vec![named("/a/data"), above("/a/x", vec![named("/a/x/data")])];
        expect_branches(&["/b", "/a/x/data", "/a/data"], vec![above("/a", both), named("/b")]);
        // By components, not by bytes: '-' comes before '/'.
        let a = above("/a", vec![named("/a/x")]);
        expect_branches(&["/a-b/x", "/a/x"], vec![a, above("/a-b", vec![named("/a-b/x")])]);
    }

    #[test]
    fn what_lies_below_another_source_is_backed_up_with_it() {
        let (above, nested) = shape(&["/home/ann", "/home", "/home/ann/x", "/homes"]);
        assert!(matches!(above, Shape::Branches(found) if found.len() == 2));
        assert_eq!(nested, [Path::new("/home/ann"), Path::new("/home/ann/x")]);
        let (above, nested) = shape(&["/srv", "/"]);
        assert!(matches!(above, Shape::Directory(root) if root.name.is_empty()));
        assert_eq!(nested, [Path::new("/srv")]);
    }

    #[test]
    fn a_device_below_another_source_is_refused() {
        let device = Source { is_device: true, ..source("/dev/sda") };
        let error = full(vec![source("/dev"), device]).map(drop).unwrap_err();
        assert!(matches!(error, StoreError::DeviceInSource { .. }), "{error}");
    }

    #[test]
    fn names_that_are_missing_collide_as_well() {
        let found = [source("/a/data"), source("/b")];
        assert!(!has_same_names(&found, &BTreeSet::new()));
        assert!(has_same_names(&found, &BTreeSet::from(["/c/data".into()])));
        assert!(has_same_names(&[source("/"), source("/b")], &BTreeSet::new()));
    }
}
