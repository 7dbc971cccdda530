//! Programs that recipes run.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context, Result, bail};

use crate::build::BuildError;

/// A program, and the Debian package that it comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tool {
    /// Its name.
    pub program: &'static str,
    /// What to install.
    pub package: &'static str,
}

impl Tool {
    pub(super) const fn new(program: &'static str, package: &'static str) -> Self {
        Self { program, package }
    }

    /// Where it is, on PATH or where Debian puts what only root or a server runs.
    pub(super) fn find(self) -> Option<PathBuf> {
        let path = env::var_os("PATH").unwrap_or_default();
        let mut folders: Vec<PathBuf> = env::split_paths(&path).collect();
        folders.extend(["/usr/sbin", "/sbin"].map(PathBuf::from));
        if let Ok(versions) = fs::read_dir("/usr/lib/postgresql") {
            folders.extend(versions.flatten().map(|version| version.path().join("bin")));
        }
        folders.into_iter().map(|folder| folder.join(self.program)).find(|file| file.is_file())
    }

    /// Where it is, or its name where it is not: then running it says so.
    pub(super) fn place(self) -> PathBuf {
        self.find().unwrap_or_else(|| self.program.into())
    }

    /// The program, ready to be given arguments; what it says is English.
    pub(super) fn command(self) -> Command {
        let mut command = Command::new(self.place());
        command.env("LC_ALL", "C.UTF-8").env_remove("LANGUAGE");
        command
    }
}

pub(super) fn run(command: &mut Command) -> Result<()> {
    output(command).map(|_| ())
}

/// What the command prints.
pub(super) fn output(command: &mut Command) -> Result<Vec<u8>> {
    let output = finished(command)?;
    succeeded(command, output)
}

fn succeeded(command: &Command, output: Output) -> Result<Vec<u8>> {
    if !output.status.success() {
        bail!("{} ended with {}: {}", program(command), output.status, last_words(&output.stderr));
    }
    Ok(output.stdout)
}

/// As [`output`], but a failure means that `what` could not be had from `source`.
pub(super) fn fetch(command: &mut Command, what: &str, source: &'static str) -> Result<Vec<u8>> {
    let output = finished(command)?;
    if !output.status.success() {
        let reason = last_words(&output.stderr);
        let reason = if reason.is_empty() {
            format!("{} ended with {}", program(command), output.status)
        } else {
            reason
        };
        return Err(BuildError::Unfetched { what: what.to_owned(), source, reason }.into());
    }
    Ok(output.stdout)
}

/// What the command prints becomes the file.
pub(super) fn run_into(command: &mut Command, path: &Path) -> Result<()> {
    let file = File::create(path).with_context(|| path.display().to_string())?;
    let spawned = command.stdin(Stdio::null()).stdout(file).stderr(Stdio::piped()).spawn();
    let output = spawned.and_then(Child::wait_with_output);
    succeeded(command, output.with_context(|| format!("run {}", program(command)))?).map(|_| ())
}

fn finished(command: &mut Command) -> Result<Output> {
    command.stdin(Stdio::null()).output().with_context(|| format!("run {}", program(command)))
}

fn program(command: &Command) -> String {
    Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The end of what a program complained about, in one line.
fn last_words(complaint: &[u8]) -> String {
    const LINES: usize = 3;
    let text = String::from_utf8_lossy(complaint);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LINES)..].join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_tells_the_program_and_its_last_words() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo one >&2; echo; echo two >&2; exit 3"]);
        let error = output(&mut command).unwrap_err().to_string();
        assert_eq!(error, "sh ended with exit status: 3: one; two");
        let error = fetch(&mut command, "it", "shelf").unwrap_err();
        assert_eq!(error.to_string(), "it could not be fetched from the shelf: one; two");
        assert!(error.downcast_ref::<BuildError>().unwrap().hint().unwrap().contains("shelf"));
    }

    #[test]
    fn a_program_is_found_or_not() {
        assert!(Tool::new("sh", "dash").find().is_some());
        assert!(Tool::new("no-such-program-at-all", "").find().is_none());
    }
}
