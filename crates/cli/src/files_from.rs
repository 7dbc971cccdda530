//! Sources of a backup that are listed in files.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

/// Lists of what to back up besides the PATHs.
#[derive(Debug, Args)]
pub(crate) struct FilesFrom {
    /// Back up what the lines of FILE name, which are globs; blank ones and those that begin with '#'
    /// are passed over. '-' is standard input; may be repeated
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stdin", "stdin_from_command"])]
    files_from: Vec<PathBuf>,
    /// The same where each line is a path as it is
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stdin", "stdin_from_command"])]
    files_from_verbatim: Vec<PathBuf>,
    /// The same where each path ends with a NUL
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stdin", "stdin_from_command"])]
    files_from_raw: Vec<PathBuf>,
}

impl FilesFrom {
    /// Whether there is a list, even an empty one.
    pub(crate) fn is_given(&self) -> bool {
        let Self { files_from, files_from_verbatim, files_from_raw } = self;
        [files_from, files_from_verbatim, files_from_raw].iter().any(|files| !files.is_empty())
    }

    /// The listed paths. A glob that matches nothing is taken for a path, which the backup then
    /// reports as missing.
    pub(crate) fn read(&self) -> Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for file in &self.files_from {
            for (number, line) in (1..).zip(parts(&read(file)?, b'\n')) {
                let line = line.trim_ascii();
                if line.is_empty() || line.starts_with(b"#") {
                    continue;
                }
                let at = || format!("line {number} of '{}'", file.display());
                let pattern = str::from_utf8(line).with_context(|| {
                    format!("{} is not UTF-8; --files-from-raw takes any path", at())
                })?;
                let found = glob::glob(pattern).with_context(|| format!("{} is no glob", at()))?;
                let before = paths.len();
                for path in found {
                    paths.push(path.with_context(|| format!("cannot look for {}", at()))?);
                }
                if paths.len() == before {
                    paths.push(pattern.into());
                }
            }
        }
        let (lines, raw) = (&self.files_from_verbatim, &self.files_from_raw);
        let ends = lines.iter().map(|file| (file, b'\n')).chain(raw.iter().map(|file| (file, 0)));
        for (file, end) in ends {
            let bytes = read(file)?;
            let named = parts(&bytes, end).filter(|path| !path.is_empty());
            paths.extend(named.map(|path| PathBuf::from(OsStr::from_bytes(path))));
        }
        Ok(paths)
    }
}

fn read(file: &Path) -> Result<Vec<u8>> {
    let bytes = match file == Path::new("-") {
        true => {
            let mut bytes = Vec::new();
            io::stdin().read_to_end(&mut bytes).map(|_| bytes)
        }
        false => fs::read(file),
    };
    bytes.with_context(|| format!("cannot read the paths in '{}'", file.display()))
}

fn parts(bytes: &[u8], end: u8) -> impl Iterator<Item = &[u8]> {
    bytes.split(move |byte| *byte == end)
}
