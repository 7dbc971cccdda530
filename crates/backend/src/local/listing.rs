//! Listing of the files below a directory.

use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::name::check_name;

/// Calls `found` with the name and the entry of every file below the directory `prefix` of `root`, at
/// any depth and in no order, of which the name is an object's. A directory that does not exist is
/// empty.
pub(super) fn files_below(
    root: &Path,
    prefix: &str,
    found: &mut dyn FnMut(String, &DirEntry) -> io::Result<()>,
) -> io::Result<()> {
    let entries = match fs::read_dir(root.join(prefix)) {
        Err(error) if is_no_directory(&error) => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().map(|part| format!("{prefix}{part}")) else {
            continue;
        };
        if check_name(&name).is_err() {
            continue;
        }
        let kind = entry.file_type()?;
        let (is_file, is_directory) = match kind.is_symlink() {
            true => kind_behind(&entry)?,
            false => (kind.is_file(), kind.is_dir()),
        };
        if is_directory {
            files_below(root, &format!("{name}/"), found)?;
        } else if is_file {
            found(name, &entry)?;
        }
    }
    Ok(())
}

/// The length in bytes of the file that `entry` names, or `None` if it was removed.
pub(super) fn len_of(entry: &DirEntry) -> io::Result<Option<u64>> {
    let metadata = match entry.metadata() {
        Ok(metadata) if metadata.is_symlink() => fs::metadata(entry.path()),
        metadata => metadata,
    };
    Ok(if_there(metadata)?.map(|metadata| metadata.len()))
}

/// Whether a link leads to a file, and whether to a directory. Fails if that is one above the link,
/// which would be listed for ever.
fn kind_behind(link: &DirEntry) -> io::Result<(bool, bool)> {
    let path = link.path();
    let Some(metadata) = if_there(fs::metadata(&path))? else { return Ok((false, false)) };
    let identity = |metadata: &Metadata| (metadata.dev(), metadata.ino());
    for above in path.ancestors().skip(1) {
        if metadata.is_dir() && identity(&fs::metadata(above)?) == identity(&metadata) {
            let text = format!("{} leads back to {}", path.display(), above.display());
            return Err(io::Error::other(text));
        }
    }
    Ok((metadata.is_file(), metadata.is_dir()))
}

fn if_there(metadata: io::Result<Metadata>) -> io::Result<Option<Metadata>> {
    match metadata {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        metadata => metadata.map(Some),
    }
}

fn is_no_directory(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
