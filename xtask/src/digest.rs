//! A name for the content of a tree, so that two records can be known to be of the same data.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Read at once. Small on purpose: a child's peak memory is never reported below what this process
/// holds when it starts one (see `measure`).
const BUFFER: usize = 256 << 10;

/// What a tree holds, and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeDigest {
    /// `blake3:` and 64 hexadecimal digits.
    pub digest: String,
    /// Regular files.
    pub files: u64,
    /// Bytes in regular files.
    pub bytes: u64,
}

/// Reads every file below `root`, or `root` if it is a file, which also warms the page cache.
///
/// The digest is BLAKE3 over, for each file and symbolic link in the order of its path's bytes:
/// a byte `f` or `l`, the length of the path below `root` (0 for `root`) and the path, the length of the content
/// (of a link: its target) and the content; lengths are 64-bit little-endian. Folders, modes and
/// times do not matter. Anything else that a tree can hold is an error.
pub fn of_tree(root: &Path) -> Result<TreeDigest> {
    let mut paths = Vec::new();
    match root.is_file() {
        true => paths.push(root.to_owned()),
        false => collect(root, &mut paths)?,
    }
    paths.sort_by(|a, b| a.as_os_str().as_bytes().cmp(b.as_os_str().as_bytes()));

    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; BUFFER];
    let (mut files, mut bytes) = (0, 0);
    for path in paths {
        let name = path.strip_prefix(root).context("a path below the root")?;
        let kind = path.symlink_metadata().with_context(|| path.display().to_string())?;
        hasher.update(if kind.is_symlink() { b"l" } else { b"f" });
        update_sized(&mut hasher, name.as_os_str().as_bytes());
        if kind.is_symlink() {
            let target = fs::read_link(&path).with_context(|| path.display().to_string())?;
            update_sized(&mut hasher, target.as_os_str().as_bytes());
        } else {
            hasher.update(&kind.len().to_le_bytes());
            let read = update_from(&mut hasher, &path, &mut buffer)?;
            if read != kind.len() {
                bail!("{}: {read} bytes, expected {}", path.display(), kind.len());
            }
            files += 1;
            bytes += read;
        }
    }
    Ok(TreeDigest { digest: format!("blake3:{}", hasher.finalize().to_hex()), files, bytes })
}

/// The sum of the lengths of all files below `root`, but for Onefold's reserve: 8 MiB whatever is
/// stored, which earlier records are without.
pub fn stored_bytes(root: &Path) -> Result<u64> {
    let mut paths = Vec::new();
    collect(root, &mut paths)?;
    paths
        .iter()
        .filter(|path| **path != root.join("RESERVE"))
        .map(|path| Ok(path.symlink_metadata().with_context(|| path.display().to_string())?.len()))
        .sum()
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry.with_context(|| folder.display().to_string())?;
        let kind = entry.file_type().with_context(|| entry.path().display().to_string())?;
        if kind.is_dir() {
            collect(&entry.path(), paths)?;
        } else if kind.is_file() || kind.is_symlink() {
            paths.push(entry.path());
        } else {
            bail!("{}: expected a file, a folder or a link", entry.path().display());
        }
    }
    Ok(())
}

fn update_sized(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

fn update_from(hasher: &mut blake3::Hasher, path: &Path, buffer: &mut [u8]) -> Result<u64> {
    let mut file = File::open(path).with_context(|| path.display().to_string())?;
    let mut total = 0;
    loop {
        let read = file.read(buffer).with_context(|| path.display().to_string())?;
        if read == 0 {
            return Ok(total);
        }
        hasher.update(&buffer[..read]);
        total += read as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        root
    }

    #[test]
    fn equal_trees_have_equal_digests_wherever_they_are() {
        let one = tree(&[("a/x", "1"), ("b", "22")]);
        let two = tree(&[("b", "22"), ("a/x", "1")]);
        let digest = of_tree(one.path()).unwrap();
        assert_eq!(digest, of_tree(two.path()).unwrap());
        assert_eq!((digest.files, digest.bytes), (2, 3));
    }

    #[test]
    fn a_file_is_a_tree_of_its_own() {
        let (folder, other) = (tree(&[("a", "12")]), tree(&[("b", "12")]));
        let digest = of_tree(&folder.path().join("a")).unwrap();
        assert_eq!((digest.files, digest.bytes), (1, 2));
        assert_eq!(of_tree(&other.path().join("b")).unwrap(), digest);
        assert_ne!(of_tree(folder.path()).unwrap().digest, digest.digest);
    }

    #[test]
    fn a_byte_that_moves_changes_the_digest() {
        let base = of_tree(tree(&[("a", "12"), ("b", "3")]).path()).unwrap().digest;
        for other in [
            tree(&[("a", "1"), ("b", "23")]),
            tree(&[("a", "12"), ("c", "3")]),
            tree(&[("a/b", "12"), ("b", "3")]),
            tree(&[("a", "12")]),
        ] {
            assert_ne!(of_tree(other.path()).unwrap().digest, base);
        }
    }
}
