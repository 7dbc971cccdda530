//! Data to cut, on disk and of any size: read once through bounded memory.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// Files and block devices, and the regular files below folders, one after another. Links, devices
/// and the like below a folder are no data.
#[derive(Clone, Debug)]
pub struct Source {
    name: String,
    files: Vec<Listed>,
    unreadable: Vec<Unreadable>,
}

#[derive(Clone, Debug)]
struct Listed {
    path: PathBuf,
    bytes: u64,
}

/// A file or folder of which something is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreadable {
    /// As it was reached.
    pub path: String,
    /// In the system's words.
    pub reason: String,
}

/// Some bytes of a source, the next of which follow in a later piece.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// At most as many as asked for.
    pub bytes: &'a [u8],
    /// Whether a file ends here.
    pub ends_file: bool,
}

impl Source {
    /// What lies at `paths`, each file in the order of its path's bytes.
    ///
    /// The name is made of the paths' last components. A path that does not exist is an error, and
    /// one to a pipe, a socket or the like, which cannot be read twice; what cannot be opened is
    /// listed as [unreadable](Self::unreadable).
    pub fn list(paths: &[PathBuf]) -> Result<Self> {
        let mut names = Vec::new();
        let mut source = Self { name: String::new(), files: Vec::new(), unreadable: Vec::new() };
        for path in paths {
            let place = || format!("cannot read '{}'", path.display());
            let whole = path.canonicalize().with_context(place)?;
            names.push(
                whole.file_name().unwrap_or(whole.as_os_str()).to_string_lossy().into_owned(),
            );
            let kind = whole.metadata().with_context(place)?.file_type();
            ensure!(
                kind.is_file() || kind.is_dir() || kind.is_block_device(),
                "{}: it is no file, folder or block device",
                place()
            );
            let first = source.files.len();
            source.add(path, kind.is_dir());
            source.files[first..].sort_by(|a, b| bytes_of(&a.path).cmp(bytes_of(&b.path)));
        }
        source.name = names.join("+");
        Ok(source)
    }

    /// What it is called; no place on a machine.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The bytes of all files, as they were when they were listed.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// How many files there are that can be read.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// What could not be read.
    pub fn unreadable(&self) -> &[Unreadable] {
        &self.unreadable
    }

    /// Hands everything to `take`, in pieces of `most` bytes and less, until it is through or
    /// `take` returns false. A file that cannot be read to its end, ends early, and is listed as
    /// unreadable.
    pub fn read(&mut self, most: usize, mut take: impl FnMut(Piece) -> Result<bool>) -> Result<()> {
        let mut buffer = Vec::new();
        for file in &self.files {
            let mut goes_on = true;
            let read = read_file(&file.path, most, &mut buffer, |piece| {
                goes_on = take(piece)?;
                Ok(goes_on)
            });
            match read {
                Err(Failure::Read(error)) => {
                    note(&mut self.unreadable, &file.path, &error);
                    goes_on = take(Piece { bytes: &[], ends_file: true })?;
                }
                Err(Failure::Take(error)) => return Err(error),
                Ok(()) => {}
            }
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// Appends the `len` bytes at `from` of all files together to `bytes`, and to `ends` where in
    /// `bytes` a file or the stretch ends. What cannot be read is left out and listed.
    pub(crate) fn read_stretch(
        &mut self,
        from: u64,
        len: u64,
        bytes: &mut Vec<u8>,
        ends: &mut Vec<usize>,
    ) {
        let mut file_start = 0;
        for file in &self.files {
            let file_end = file_start + file.bytes;
            if file_end >= from && file_start < from + len {
                let offset = from.saturating_sub(file_start);
                let end = file.bytes.min(from + len - file_start);
                if let Err(error) = read_part(&file.path, offset..end, bytes) {
                    note(&mut self.unreadable, &file.path, &error);
                }
                if offset < end || file.bytes == 0 {
                    ends.push(bytes.len());
                }
            }
            file_start = file_end;
        }
    }

    fn add(&mut self, path: &Path, is_folder: bool) {
        let added = if is_folder { self.add_folder(path) } else { self.add_file(path) };
        if let Err(error) = added {
            note(&mut self.unreadable, path, &error);
        }
    }

    fn add_folder(&mut self, folder: &Path) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() || kind.is_file() {
                self.add(&entry.path(), kind.is_dir());
            }
        }
        Ok(())
    }

    fn add_file(&mut self, path: &Path) -> io::Result<()> {
        // opened to know now that it can be; of a block device, the end alone tells its size
        let bytes = File::open(path)?.seek(SeekFrom::End(0))?;
        self.files.push(Listed { path: path.to_owned(), bytes });
        Ok(())
    }
}

fn note(unreadable: &mut Vec<Unreadable>, path: &Path, error: &io::Error) {
    let path = path.display().to_string();
    if !unreadable.iter().any(|known| known.path == path) {
        unreadable.push(Unreadable { path, reason: error.to_string() });
    }
}

enum Failure {
    Read(io::Error),
    Take(anyhow::Error),
}

fn read_file(
    path: &Path,
    most: usize,
    buffer: &mut Vec<u8>,
    mut take: impl FnMut(Piece) -> Result<bool>,
) -> Result<(), Failure> {
    let mut file = File::open(path).map_err(Failure::Read)?;
    loop {
        buffer.clear();
        file.by_ref().take(most as u64).read_to_end(buffer).map_err(Failure::Read)?;
        let ends_file = buffer.len() < most;
        let goes_on = take(Piece { bytes: buffer, ends_file }).map_err(Failure::Take)?;
        if ends_file || !goes_on {
            return Ok(());
        }
    }
}

fn read_part(path: &Path, part: Range<u64>, bytes: &mut Vec<u8>) -> io::Result<()> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(part.start))?;
    file.take(part.end - part.start).read_to_end(bytes)?;
    Ok(())
}

fn bytes_of(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tests make their own files")]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use super::*;
    use onefold_testkit::{random, skip};

    /// A folder with files of these lengths.
    fn folder(lengths: &[usize]) -> (tempfile::TempDir, Vec<u8>) {
        let root = tempfile::tempdir().unwrap();
        let mut all = Vec::new();
        for (i, &len) in lengths.iter().enumerate() {
            let bytes = random(i as u64, len);
            fs::write(root.path().join(format!("{i:03}")), &bytes).unwrap();
            all.extend(bytes);
        }
        (root, all)
    }

    #[test]
    fn pieces_are_the_files_in_order_whatever_their_size() {
        let (root, all) = folder(&[10, 0, 1, 7, 14, 100]);
        for most in [1, 2, 7, 10, 1000] {
            let mut source = Source::list(&[root.path().into()]).unwrap();
            let mut read: Vec<u8> = Vec::new();
            let mut ends = Vec::new();
            source
                .read(most, |piece| {
                    assert!(piece.bytes.len() <= most);
                    read.extend(piece.bytes);
                    if piece.ends_file {
                        ends.push(read.len());
                    }
                    Ok(true)
                })
                .unwrap();
            assert_eq!(read, all);
            assert_eq!(ends, [10, 10, 11, 18, 32, 132]);
            assert_eq!((source.bytes(), source.files()), (132, 6));
        }
    }

    #[test]
    fn who_has_enough_gets_no_more() {
        let (root, _) = folder(&[10, 10]);
        let mut source = Source::list(&[root.path().into()]).unwrap();
        let mut pieces = 0;
        source
            .read(3, |_| {
                pieces += 1;
                Ok(pieces < 2)
            })
            .unwrap();
        assert_eq!(pieces, 2);
        let error = source.read(3, |_| anyhow::bail!("no")).unwrap_err();
        assert_eq!(error.to_string(), "no");
    }

    #[test]
    fn a_file_that_went_away_is_named_and_the_rest_is_read() {
        let (root, _) = folder(&[10, 20, 30]);
        let mut source = Source::list(&[root.path().into()]).unwrap();
        fs::remove_file(root.path().join("001")).unwrap();
        let mut bytes = 0;
        let mut ends = 0;
        source
            .read(1000, |piece| {
                bytes += piece.bytes.len();
                ends += usize::from(piece.ends_file);
                Ok(true)
            })
            .unwrap();
        assert_eq!((bytes, ends), (40, 3));
        let [missing] = source.unreadable() else { panic!("{source:?}") };
        assert!(missing.path.ends_with("/001") && missing.reason.contains("No such file"));
    }

    #[test]
    fn a_path_that_is_not_there_is_an_error_that_names_it() {
        let error = Source::list(&["/nowhere/at/all".into()]).unwrap_err();
        assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
    }

    /// A block device that is a file, taken away when dropped.
    struct LoopDevice(PathBuf);

    impl LoopDevice {
        fn over(file: &Path) -> Option<Self> {
            let set_up = Command::new("losetup").args(["--find", "--show"]).arg(file).output();
            let set_up = set_up.ok().filter(|output| output.status.success())?;
            let device = String::from_utf8(set_up.stdout).ok()?;
            Some(Self(device.trim_end().into()))
        }
    }

    impl Drop for LoopDevice {
        fn drop(&mut self) {
            let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
        }
    }

    #[test]
    fn a_block_device_is_as_long_as_the_system_says() {
        let bytes = 1_u64 << 20;
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(bytes).unwrap();
        let Some(LoopDevice(device)) = &LoopDevice::over(file.path()) else {
            return skip("no loop device can be set up here");
        };
        let mut source = Source::list(std::slice::from_ref(device)).unwrap();
        assert_eq!((source.bytes(), source.files()), (bytes, 1), "{}", device.display());
        let mut first = 0;
        source
            .read(4096, |piece| {
                first = piece.bytes.len();
                Ok(false)
            })
            .unwrap();
        assert_eq!(first, 4096);
    }

    #[test]
    fn what_cannot_be_read_twice_is_refused_by_name() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let root = tempfile::tempdir().unwrap();
        let (socket, fifo) = (root.path().join("socket"), root.path().join("fifo"));
        let _listener = UnixListener::bind(&socket).unwrap();
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
        for path in [Path::new("/dev/null"), &socket, &fifo] {
            let error = Source::list(&[path.into()]).unwrap_err().to_string();
            assert!(error.contains(&path.display().to_string()), "{error}");
            assert!(error.ends_with("it is no file, folder or block device"), "{error}");
        }
    }
}
