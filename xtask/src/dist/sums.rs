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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    /// The lines of shell in the section of docs/install.md about downloads.
    fn commands() -> Vec<String> {
        let text = fs::read_to_string(workspace::root().join("docs/install.md")).unwrap();
        let section = text.split("\n## Check what you downloaded\n").nth(1).unwrap();
        let block = section.split("```sh\n").nth(1).unwrap().split("\n```").next().unwrap();
        block.lines().map(str::to_owned).collect()
    }

    fn succeeds(folder: &Path, line: &str) -> bool {
        let output = Command::new("sh").args(["-c", line]).current_dir(folder).output().unwrap();
        output.status.success()
    }

    #[test]
    fn what_was_signed_passes_the_commands_of_the_page_and_what_was_changed_does_not() {
        if !programs::on_path("ssh-keygen") {
            return onefold_testkit::skip("no ssh-keygen here");
        }
        let folder = tempfile::tempdir().unwrap();
        let (released, key) = (folder.path().join("released"), folder.path().join("key"));
        fs::create_dir(&released).unwrap();
        fs::write(released.join("onefold.tar.gz"), "a program").unwrap();
        write(&released).unwrap();
        let mut keygen = Command::new("ssh-keygen");
        keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"]).arg(&key);
        programs::succeed(&mut keygen).unwrap();
        sign(&released, &key).unwrap();
        sign(&released, &key).unwrap();
        let public = fs::read_to_string(key.with_extension("pub")).unwrap();
        let signers = format!("releaser namespaces=\"{NAMESPACE}\" {public}");
        fs::write(released.join("allowed_signers"), signers).unwrap();

        let commands = commands();
        assert_eq!(commands.len(), 2, "{commands:?}");
        assert!(commands.iter().all(|line| succeeds(&released, line)), "{commands:?}");
        fs::write(released.join("onefold.tar.gz"), "another").unwrap();
        assert!(!succeeds(&released, &commands[1]), "a file was changed");
        write(&released).unwrap();
        assert!(!succeeds(&released, &commands[0]), "the checksums were changed");
    }
}
