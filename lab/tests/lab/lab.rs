//! A directory of its own for each test, in which the laboratory's program is run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use onefold_testkit::command;
pub(crate) use onefold_testkit::command::{Ran, number};
use tempfile::TempDir;

/// Where the binary under test is.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_onefold-lab");

/// A directory that is removed with everything in it when the test ends.
pub(crate) struct Lab(TempDir);

impl Lab {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file, and the directories it lies in.
    pub(crate) fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// The program with the words of `line` for arguments, in the lab's directory.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(line.split_whitespace()).current_dir(self.0.path()).stdin(Stdio::null());
        command
    }

    /// Runs the program.
    pub(crate) fn run(&self, line: &str) -> Ran {
        Ran::of(line, self.command(line).output().unwrap())
    }

    /// Runs the program, which must succeed.
    pub(crate) fn ok(&self, line: &str) -> Ran {
        self.run(line).expect(0)
    }
}

/// Runs the program in `lab` as a user whom permissions bind.
pub(crate) fn unprivileged(lab: &Lab) -> Option<impl Fn(&str) -> Ran> {
    command::unprivileged(Path::new(PROGRAM), lab.path(""))
}
