//! Folders and archives whose bytes depend on their content only.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::texts::output;
use crate::programs;
use crate::workspace;

/// The time of all files that are given to others, in seconds since 1970: that of the commit.
pub(crate) fn time() -> Result<String> {
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"]).current_dir(workspace::root());
    let time = String::from_utf8(output(&mut git)?)?.trim().to_owned();
    ensure!(!time.is_empty(), "git names no time of the last commit");
    Ok(time)
}

/// An empty folder in the place of `folder`.
pub(crate) fn fresh(folder: &Path) -> Result<()> {
    let place = || folder.display().to_string();
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(place)?;
    }
    fs::create_dir_all(folder).with_context(place)
}

/// Copies a file to `to` with `mode`, and makes the folders above.
pub(crate) fn put(from: &Path, to: &Path, mode: u32) -> Result<()> {
    let bytes = fs::read(from).with_context(|| from.display().to_string())?;
    write(to, &bytes, mode)
}

/// Writes a file with `mode`, and makes the folders above.
pub(crate) fn write(to: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let place = || to.display().to_string();
    let folder = to.parent().with_context(place)?;
    fs::create_dir_all(folder).with_context(place)?;
    fs::write(to, bytes).with_context(place)?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode)).with_context(place)
}

/// Gives folders below `folder` the mode 0755, whatever the umask is.
pub(crate) fn open_folders(folder: &Path) -> Result<()> {
    let place = || folder.display().to_string();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).with_context(place)?;
    for entry in fs::read_dir(folder).with_context(place)? {
        let path = entry.with_context(place)?.path();
        if path.is_dir() {
            open_folders(&path)?;
        }
    }
    Ok(())
}

/// Compresses a file in its place to one that ends in .gz, without its name and time.
pub(crate) fn compress(file: &Path) -> Result<()> {
    programs::succeed(Command::new("gzip").args(["-9", "-n", "--force"]).arg(file))
}

/// Packs `folder` as FOLDER.tar.gz beside it, and returns the path.
pub(crate) fn pack(folder: &Path, time: &str) -> Result<PathBuf> {
    let place = || folder.display().to_string();
    let (above, name) =
        (folder.parent().with_context(place)?, folder.file_name().with_context(place)?);
    let mut tar = name.to_owned();
    tar.push(".tar");
    let tar = above.join(tar);
    programs::succeed(
        Command::new("tar")
            .args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=ustar"])
            .arg(format!("--mtime=@{time}"))
            .arg("-cf")
            .arg(&tar)
            .arg("-C")
            .arg(above)
            .arg(name),
    )?;
    compress(&tar)?;
    Ok(tar.with_extension("tar.gz"))
}
