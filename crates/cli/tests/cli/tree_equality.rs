//! Whether two trees are the same in everything that a backup should bring back.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::SeekFrom;

/// What is compared of one inode.
#[derive(Debug, PartialEq, Eq)]
struct Facts {
    /// Kind and permissions.
    mode: u32,
    uid: u32,
    gid: u32,
    mtime: (i64, i64),
    size: u64,
    /// Device number of a device.
    rdev: u64,
    link_target: Option<PathBuf>,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Where a file has data; between are holes.
    extents: Vec<(u64, u64)>,
    /// All paths of the same inode, if there are several in the tree.
    same_inode: Vec<PathBuf>,
}

/// Panics unless the trees are the same: names, bytes, mode, owner, mtime to the nanosecond,
/// targets of links, devices, hard links, extended attributes, holes. The roots count as well.
#[track_caller]
pub(crate) fn assert_same_tree(expected: &Path, found: &Path) {
    let differences = differences(expected, found);
    assert!(
        differences.is_empty(),
        "{} differences, the first ones:\n{}",
        differences.len(),
        differences[..differences.len().min(10)].join("\n")
    );
}

/// What differs between the trees, a line each.
pub(crate) fn differences(expected: &Path, found: &Path) -> Vec<String> {
    let (before, after) = (facts_of(expected), facts_of(found));
    let mut differences = Vec::new();
    for path in after.keys().filter(|path| !before.contains_key(*path)) {
        differences.push(format!("{}: should not be there", path.display()));
    }
    for (path, before) in &before {
        let place = path.display();
        match after.get(path) {
            None => differences.push(format!("{place}: missing")),
            Some(after) if before != after => {
                differences.push(format!("{place}:\n  expected {before:?}\n  found    {after:?}"));
            }
            Some(_) if is_file(before) && !same_bytes(&expected.join(path), &found.join(path)) => {
                differences.push(format!("{place}: other bytes"));
            }
            Some(_) => {}
        }
    }
    differences
}

fn facts_of(root: &Path) -> BTreeMap<PathBuf, Facts> {
    let mut facts = BTreeMap::new();
    let mut inodes: BTreeMap<(u64, u64), Vec<PathBuf>> = BTreeMap::new();
    let mut open = vec![PathBuf::new()];
    while let Some(path) = open.pop() {
        // Joining nothing would add a slash, which follows a link.
        let full = if path.as_os_str().is_empty() { root.to_owned() } else { root.join(&path) };
        let metadata = full.symlink_metadata().unwrap();
        let kind = metadata.file_type();
        if kind.is_dir() {
            let names = fs::read_dir(&full).unwrap().map(|entry| entry.unwrap().file_name());
            open.extend(names.map(|name| path.join(name)));
        } else if metadata.nlink() > 1 {
            inodes.entry((metadata.dev(), metadata.ino())).or_default().push(path.clone());
        }
        facts.insert(
            path,
            Facts {
                mode: metadata.mode(),
                uid: metadata.uid(),
                gid: metadata.gid(),
                mtime: (metadata.mtime(), metadata.mtime_nsec()),
                size: if kind.is_dir() { 0 } else { metadata.len() },
                rdev: metadata.rdev(),
                link_target: kind.is_symlink().then(|| fs::read_link(&full).unwrap()),
                xattrs: xattrs(&full),
                extents: if kind.is_file() { extents(&full) } else { Vec::new() },
                same_inode: Vec::new(),
            },
        );
    }
    for mut paths in inodes.into_values().filter(|paths| paths.len() > 1) {
        paths.sort();
        for path in &paths {
            facts.get_mut(path).unwrap().same_inode.clone_from(&paths);
        }
    }
    facts
}

fn is_file(facts: &Facts) -> bool {
    facts.mode & 0o170_000 == 0o100_000
}

fn same_bytes(one: &Path, other: &Path) -> bool {
    let open = |path: &Path| BufReader::with_capacity(1 << 16, File::open(path).unwrap());
    let (mut one, mut other) = (open(one), open(other));
    let (mut left, mut right) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let len = one.read(&mut left).unwrap();
        if len == 0 {
            return other.read(&mut right).unwrap() == 0;
        }
        if other.read_exact(&mut right[..len]).is_err() || left[..len] != right[..len] {
            return false;
        }
    }
}

fn xattrs(path: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut buffer = vec![0; 1 << 16];
    let Ok(len) = rustix::fs::llistxattr(path, &mut buffer) else { return Vec::new() };
    let names = buffer[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut xattrs: Vec<_> = names
        .map(|name| {
            let mut value = vec![0; 1 << 16];
            let name = OsString::from_vec(name.to_vec());
            let len = rustix::fs::lgetxattr(path, &name, &mut value).unwrap();
            value.truncate(len);
            (name.into_vec(), value)
        })
        .collect();
    xattrs.sort();
    xattrs
}

/// Where a file has data. One that cannot be opened by this user has none.
fn extents(path: &Path) -> Vec<(u64, u64)> {
    let Ok(file) = File::open(path) else { return Vec::new() };
    let mut extents = Vec::new();
    let mut end = 0;
    while let Ok(offset) = rustix::fs::seek(&file, SeekFrom::Data(end)) {
        end = rustix::fs::seek(&file, SeekFrom::Hole(offset)).unwrap();
        extents.push((offset, end));
    }
    extents
}
