//! The programs whose snapshots are imported.

use std::io::{self, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;

/// What a program writes as JSON.
pub(super) fn json<T: DeserializeOwned>(command: &mut Command) -> Result<T> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::inherit())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run '{name}', which reads its own repository"))?;
    if !output.status.success() {
        bail!("'{name}' failed: {}", output.status);
    }
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("what '{name}' told of its snapshots is not understood"))
}

/// The output of a program that must succeed. At its end the program's status is looked at, so that the output
/// of one that failed never looks whole.
pub(super) struct Whole {
    name: String,
    child: Child,
    output: ChildStdout,
    has_ended: bool,
}

impl Whole {
    pub(super) fn start(command: &mut Command) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::inherit())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run '{name}'"))?;
        let output = child.stdout.take().expect("it is piped");
        Ok(Self { name, child, output, has_ended: false })
    }
}

impl Read for Whole {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.output.read(buffer)?;
        if count == 0 && !buffer.is_empty() {
            let status = self.child.wait()?;
            self.has_ended = true;
            if !status.success() {
                return Err(io::Error::other(format!("'{}' failed: {status}", self.name)));
            }
        }
        Ok(count)
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        if !self.has_ended {
            // Fails only if it has ended.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(script: &str) -> io::Result<String> {
        let mut text = String::new();
        let mut whole = Whole::start(Command::new("sh").args(["-c", script])).unwrap();
        whole.read_to_string(&mut text).map(|_| text)
    }

    #[test]
    fn the_output_of_a_program_that_fails_has_no_end() {
        assert_eq!(read("echo a").unwrap(), "a\n");
        let error = read("echo a; exit 3").unwrap_err().to_string();
        assert!(error.contains("'sh' failed") && error.contains('3'), "{error}");
    }
}
