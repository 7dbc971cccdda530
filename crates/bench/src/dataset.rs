//! Data to cut, in memory.

use std::fs::{self, File};
use std::io::Read;
#[cfg(target_os = "linux")]
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
#[cfg(target_os = "linux")]
use rustix::mm::Advice;

use crate::source::Source;

/// Some bytes under a name, as one stream that remembers which files it is made of.
pub struct Dataset {
    name: String,
    bytes: Vec<u8>,
    /// Where each file ends in `bytes`.
    ends: Vec<usize>,
}

impl Dataset {
    /// A file, or the regular files below a folder in the order of their paths' bytes; of those
    /// the first `most` bytes. Symbolic links below the folder are left out.
    ///
    /// The name is the last component of `path`. What cannot be read is an error that names it, and so
    /// is a pipe, a device or the like, which may never end.
    pub fn read(path: &Path, most: Option<u64>) -> Result<Self> {
        let place = || path.display().to_string();
        let whole = path.canonicalize().with_context(place)?;
        let kind = whole.metadata().with_context(place)?.file_type();
        ensure!(kind.is_file() || kind.is_dir(), "{}: it is no file or folder", place());
        let name = whole.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let files = if whole.is_dir() { files_below(&whole)? } else { vec![whole] };
        let most = most.unwrap_or(u64::MAX);
        let len = usize::try_from(length_of(&files)?.min(most))?;
        let mut dataset = Self { name, bytes: buffer(len), ends: Vec::new() };
        for file in files {
            let left = most - dataset.bytes.len() as u64;
            if left == 0 {
                break;
            }
            dataset.append(&file, left).with_context(|| file.display().to_string())?;
        }
        if dataset.bytes.is_empty() {
            bail!("{}: no bytes to cut", path.display());
        }
        Ok(dataset)
    }

    /// The first so many bytes of `source` if `stretches` is 1, otherwise that many equal parts of
    /// it, evenly spread; all of it if it is no longer. A stretch within a file is a file here.
    ///
    /// What cannot be read is left out, and listed by `source`.
    pub fn sample(source: &mut Source, most: usize, stretches: u64) -> Self {
        let all = source.bytes();
        let len = most.min(usize::try_from(all).unwrap_or(usize::MAX));
        let mut dataset =
            Self { name: source.name().to_owned(), bytes: buffer(len), ends: Vec::new() };
        let (count, part) = match all > most as u64 {
            true => (stretches, most as u64 / stretches),
            false => (1, all),
        };
        for i in 0..count {
            let from = if count > 1 { (all - part) / (count - 1) * i } else { 0 };
            source.read_stretch(from, part, &mut dataset.bytes, &mut dataset.ends);
        }
        dataset
    }

    /// As [`read`](Self::read), but where there are few files, of each the same number of first
    /// bytes: what later files have of earlier ones stays in the data.
    pub fn read_evenly(folder: &Path, most: u64) -> Result<Self> {
        const FEW: usize = 1000;
        let place = || folder.display().to_string();
        let files = files_below(&folder.canonicalize().with_context(place)?)?;
        if files.len() > FEW || length_of(&files)? <= most {
            return Self::read(folder, Some(most));
        }
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let each = most / files.len() as u64;
        let mut dataset = Self { name, bytes: buffer(usize::try_from(most)?), ends: Vec::new() };
        for file in files {
            dataset.append(&file, each).with_context(|| file.display().to_string())?;
        }
        if dataset.bytes.is_empty() {
            bail!("{}: no bytes to cut", folder.display());
        }
        Ok(dataset)
    }

    /// Bytes without any pattern: the output that BLAKE3 can be asked for at any length, of the
    /// seed's eight little-endian bytes.
    pub fn random(seed: u64, len: usize) -> Self {
        let mut bytes = buffer(len);
        bytes.resize(len, 0);
        blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
        Self { name: format!("random-{seed}"), bytes, ends: vec![len] }
    }

    /// The bytes of `files`, one after another, under `name`.
    pub fn of(name: impl Into<String>, files: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let files: Vec<Vec<u8>> = files.into_iter().collect();
        let len = files.iter().map(Vec::len).sum();
        let mut dataset = Self { name: name.into(), bytes: buffer(len), ends: Vec::new() };
        for file in files {
            dataset.bytes.extend(file);
            dataset.ends.push(dataset.bytes.len());
        }
        dataset
    }

    /// The same under another name.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// The same bytes as one file.
    #[must_use]
    pub fn one_stream(self) -> Self {
        Self { ends: vec![self.bytes.len()], ..self }
    }

    fn append(&mut self, file: &Path, most: u64) -> Result<()> {
        File::open(file)?.take(most).read_to_end(&mut self.bytes)?;
        self.ends.push(self.bytes.len());
        Ok(())
    }

    /// Says what it is; no place on a machine.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All files as one stream.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes of each file, in order.
    pub fn files(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| &self.bytes[std::mem::replace(&mut start, end)..end])
    }

    /// `blake3:` and 64 hexadecimal digits, over the stream as it is cut.
    pub fn digest(&self) -> String {
        format!("blake3:{}", blake3::hash(&self.bytes).to_hex())
    }
}

/// An empty buffer for `len` bytes, in huge pages where the system offers them: with small ones
/// the fastest chunkers would be held up by address translation, and that by chance.
#[cfg_attr(
    not(target_os = "linux"),
    allow(unused_mut, reason = "only Linux is asked for huge pages")
)]
fn buffer(len: usize) -> Vec<u8> {
    let mut buffer = Vec::with_capacity(len);
    #[cfg(target_os = "linux")]
    {
        const PAGE: usize = 4096;
        let space: &mut [MaybeUninit<u8>] = buffer.spare_capacity_mut();
        let aligned = space.as_ptr().align_offset(PAGE).min(space.len());
        let space = &mut space[aligned..];
        let whole_pages = space.len() / PAGE * PAGE;
        // SAFETY: the pages are ours alone, and the advice changes how they are mapped, not what
        // they hold.
        let advised = unsafe {
            rustix::mm::madvise(space.as_mut_ptr().cast(), whole_pages, Advice::LinuxHugepage)
        };
        // a kernel without huge pages refuses, and all there is to lose is speed
        let _ = advised;
    }
    buffer
}

fn length_of(files: &[PathBuf]) -> Result<u64> {
    let length =
        |file: &PathBuf| Ok(file.metadata().with_context(|| file.display().to_string())?.len());
    files.iter().map(length).sum()
}

fn path_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

/// The regular files below `folder` in the order of their paths' bytes.
pub fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    collect(folder, &mut files)?;
    files.sort_by(|a, b| path_bytes(a).cmp(path_bytes(b)));
    Ok(files)
}

/// Adds the regular files below `folder`.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let place = || folder.display().to_string();
    for entry in fs::read_dir(folder).with_context(place)? {
        let entry = entry.with_context(place)?;
        let kind = entry.file_type().with_context(|| entry.path().display().to_string())?;
        if kind.is_dir() {
            collect(&entry.path(), files)?;
        } else if kind.is_file() {
            files.push(entry.path());
        } else if !kind.is_symlink() {
            bail!("{}: expected a file, a folder or a link", entry.path().display());
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tests make their own files")]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = root.path().join("data").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        root
    }

    #[test]
    fn what_may_never_end_is_refused_and_not_opened() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let root = tempfile::tempdir().unwrap();
        let fifo = root.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let socket = root.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for path in [&fifo, &socket, Path::new("/dev/zero")] {
            let Err(error) = Dataset::read(path, None) else { panic!("{}", path.display()) };
            assert_eq!(error.to_string(), format!("{}: it is no file or folder", path.display()));
        }
    }

    #[test]
    fn a_folder_is_its_files_in_order_and_keeps_their_borders() {
        let root = tree(&[("b", "22"), ("a/x", "1"), ("c", ""), ("a.txt", "333")]);
        let dataset = Dataset::read(&root.path().join("data"), None).unwrap();
        assert_eq!(dataset.name(), "data");
        // '.' comes before '/'
        assert_eq!(dataset.bytes(), b"333122");
        assert_eq!(dataset.files().collect::<Vec<_>>(), [b"333".as_slice(), b"1", b"22", b""]);
        assert_eq!(dataset.digest(), format!("blake3:{}", blake3::hash(b"333122").to_hex()));
    }

    #[test]
    fn a_limit_ends_the_stream_within_a_file() {
        let root = tree(&[("a", "123"), ("b", "456"), ("c", "7")]);
        let folder = root.path().join("data");
        let first = |most| Dataset::read(&folder, Some(most)).unwrap();
        assert_eq!(first(5).files().collect::<Vec<_>>(), [b"123".as_slice(), b"45"]);
        assert_eq!(first(3).files().len(), 1);
        assert_eq!(first(100).bytes(), b"1234567");
    }

    #[test]
    fn an_even_part_is_the_beginning_of_each_file() {
        let root = tree(&[("a", "12345"), ("b", "6"), ("c", "7890")]);
        let folder = root.path().join("data");
        let part = Dataset::read_evenly(&folder, 6).unwrap();
        assert_eq!(part.files().collect::<Vec<_>>(), [b"12".as_slice(), b"6", b"78"]);
        assert_eq!(Dataset::read_evenly(&folder, 10).unwrap().bytes(), b"1234567890");
        assert!(Dataset::read_evenly(&folder, 2).is_err());
    }

    #[test]
    fn a_file_is_a_dataset_too() {
        let root = tree(&[("only", "text")]);
        let dataset = Dataset::read(&root.path().join("data/only"), None).unwrap();
        assert_eq!((dataset.name(), dataset.bytes()), ("only", b"text".as_slice()));
    }

    #[test]
    fn what_is_missing_or_empty_is_named() {
        let root = tree(&[("c", "")]);
        for path in [root.path().join("nowhere"), root.path().join("data")] {
            let error = Dataset::read(&path, None).err().unwrap();
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error:#}");
        }
    }

    #[test]
    fn a_sample_is_spread_over_everything() {
        let content: String = ('a'..='z').collect();
        let root = tree(&[("1", &content[..5]), ("2", ""), ("3", &content[5..])]);
        let sample = |most, stretches| {
            let mut source = Source::list(&[root.path().join("data")]).unwrap();
            let sample = Dataset::sample(&mut source, most, stretches);
            let files = sample.files().map(|file| String::from_utf8(file.to_vec()).unwrap());
            files.collect::<Vec<_>>()
        };
        assert_eq!(sample(26, 4), ["abcde", "", "fghijklmnopqrstuvwxyz"]);
        assert_eq!(sample(12, 3), ["abcd", "lmno", "wxyz"]);
        assert_eq!(sample(20, 2), ["abcde", "", "fghij", "qrstuvwxyz"]);
        assert_eq!(sample(7, 1), ["abcde", "", "fg"]);
    }

    #[test]
    fn random_data_are_the_seed_s_and_a_prefix_of_longer_ones() {
        let bytes = |seed, len| Dataset::random(seed, len).bytes().to_vec();
        assert_eq!(bytes(1, 1000), bytes(1, 3000)[..1000]);
        assert_ne!(bytes(1, 1000), bytes(2, 1000));
    }
}
