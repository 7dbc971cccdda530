//! SHA256SUMS, and its signature.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::texts::output;
use crate::programs;

/// The file of checksums, as `sha256sum` writes and checks it.
pub(crate) const SUMS: &str = "SHA256SUMS";

/// What a signature is for, so that one made for something else does not pass.
pub(crate) const NAMESPACE: &str = "onefold-release";

/// Writes the checksums of the files in `folder`.
pub(crate) fn write(folder: &Path) -> Result<()> {
    let place = || folder.display().to_string();
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(place)? {
        let path = entry.with_context(place)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_file() && !name.starts_with(SUMS) {
            names.push(name);
        }
    }
    ensure!(!names.is_empty(), "{}: no file to check", place());
    names.sort();
    let mut sums = Command::new("sha256sum");
    sums.arg("--").args(&names).current_dir(folder);
    let file = folder.join(SUMS);
    fs::write(&file, output(&mut sums)?).with_context(|| file.display().to_string())
}

/// Signs the checksums in `folder` with the releaser's private key of OpenSSH in `key`.
pub(crate) fn sign(folder: &Path, key: &Path) -> Result<()> {
    let sums = folder.join(SUMS);
    let signature = folder.join(format!("{SUMS}.sig"));
    // ssh-keygen asks before it replaces one
    if signature.exists() {
        fs::remove_file(&signature).with_context(|| signature.display().to_string())?;
    }
    let mut keygen = Command::new("ssh-keygen");
    keygen.args(["-Y", "sign", "-n", NAMESPACE, "-f"]).arg(key).arg(&sums);
    programs::succeed(&mut keygen)
}
