//! Sources of a backup that are listed in files.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use globset::GlobBuilder;

/// Options for files that list further sources of a backup.
#[derive(Debug, Args)]
pub(crate) struct FilesFrom {
    /// Back up files that match the lines of FILE, which are globs; blank lines and lines that begin
    /// with '#' are ignored. '-' is standard input; may be repeated
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stdin", "stdin_from_command"])]
    files_from: Vec<PathBuf>,
    /// The same, but each line is a literal path
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stdin", "stdin_from_command"])]
    files_from_verbatim: Vec<PathBuf>,
    /// The same, but with literal paths that each end with a NUL
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stdin", "stdin_from_command"])]
    files_from_raw: Vec<PathBuf>,
}

impl FilesFrom {
    /// Whether there is a list, even an empty one.
    pub(crate) fn is_given(&self) -> bool {
        let Self { files_from, files_from_verbatim, files_from_raw } = self;
        [files_from, files_from_verbatim, files_from_raw].iter().any(|files| !files.is_empty())
    }

    /// The listed paths. A glob that matches nothing is treated as a path, which the backup then reports
    /// as missing.
    pub(crate) fn read(&self) -> Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for file in &self.files_from {
            for (number, line) in (1..).zip(parts(&read(file)?, b'\n')) {
                let line = line.trim_ascii();
                if line.is_empty() || line.starts_with(b"#") {
                    continue;
                }
                let found = expand(line)
                    .with_context(|| format!("in line {number} of '{}'", file.display()))?;
                match found.is_empty() {
                    true => paths.push(OsStr::from_bytes(line).into()),
                    false => paths.extend(found),
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

/// The paths that exist and that the glob `pattern` matches, each component for itself, in order.
fn expand(pattern: &[u8]) -> Result<Vec<PathBuf>> {
    let top = if pattern.starts_with(b"/") { "/" } else { "" };
    let mut found = vec![PathBuf::from(top)];
    for part in pattern.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
        if !part.iter().any(|byte| b"*?[\\".contains(byte)) {
            found.iter_mut().for_each(|path| path.push(OsStr::from_bytes(part)));
            continue;
        }
        let glob = str::from_utf8(part).context("a glob must be UTF-8")?;
        // As in shells without brace expansion, braces are themselves.
        let glob = glob.replace('{', "[{]").replace('}', "[}]");
        let matcher = GlobBuilder::new(&glob).backslash_escape(true).build()?.compile_matcher();
        let mut next = Vec::new();
        for above in found {
            let place = if above.as_os_str().is_empty() { Path::new(".") } else { &above };
            let names = match fs::read_dir(place) {
                Ok(entries) => entries.map(|entry| Ok(entry?.file_name())).collect(),
                Err(error) if is_no_directory(&error) => Ok(Vec::new()),
                Err(error) => Err(error),
            };
            let names: io::Result<Vec<_>> = names;
            let mut names = names.with_context(|| format!("cannot list '{}'", place.display()))?;
            names.retain(|name| matcher.is_match(name));
            names.sort_unstable();
            next.extend(names.into_iter().map(|name| above.join(name)));
        }
        found = next;
    }
    found.retain(|path| path.symlink_metadata().is_ok());
    Ok(found)
}

fn is_no_directory(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
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
