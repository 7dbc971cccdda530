//! What a program says of itself, as files: man pages and completions.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::programs;

/// The shells that a package has completions for, and what the file of each is called.
pub(crate) const SHELLS: [(&str, &str); 3] =
    [("bash", "onefold"), ("zsh", "_onefold"), ("fish", "onefold.fish")];

/// Writes the man pages of `program` to `folder`.
pub(crate) fn write_pages(program: &Path, folder: &Path) -> Result<()> {
    programs::succeed(Command::new(program).args(["--quiet", "manual", "--man"]).arg(folder))
}

/// Writes the completions of `program` for `shell` to `file`.
pub(crate) fn write_completion(program: &Path, shell: &str, file: &Path) -> Result<()> {
    let script = output(Command::new(program).args(["completion", shell]))?;
    fs::write(file, script).with_context(|| file.display().to_string())
}

/// What `command`, which must succeed, writes to standard output.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>> {
    command.stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().with_context(|| format!("{command:?}"))?;
    ensure!(output.status.success(), "{command:?} ended with {}", output.status);
    Ok(output.stdout)
}
