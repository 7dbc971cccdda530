//! A directory of its own for each test, in which `onefold` is run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use onefold_testkit::command;
pub(crate) use onefold_testkit::command::{Ran, number};
use tempfile::TempDir;

/// Where the binary under test is.
pub(crate) const ONEFOLD: &str = env!("CARGO_BIN_EXE_onefold");

/// A directory that is removed with everything in it when the test ends.
pub(crate) struct Lab {
    dir: TempDir,
    /// What is run: the binary under test, unless a test says otherwise.
    pub(crate) program: PathBuf,
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self { dir: TempDir::new().unwrap(), program: ONEFOLD.into() }
    }

    /// A lab with a repository `repo` in it.
    pub(crate) fn with_repository() -> Self {
        let lab = Self::new();
        lab.ok("init repo --no-encryption");
        lab
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file, and the directories it lies in.
    pub(crate) fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Waits for the file clock to tick: only then is a file sure not to change unseen.
    pub(crate) fn settle(&self) {
        std::thread::sleep(std::time::Duration::from_millis(15));
    }

    /// `onefold` with the words of `line` for arguments, in the lab's directory and without the
    /// variables that it heeds.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(line.split_whitespace()).current_dir(self.dir.path()).stdin(Stdio::null());
        for variable in
            ["ONEFOLD_REPOSITORY", "ONEFOLD_PASSWORD", "ONEFOLD_KEY_FILE", "ONEFOLD_KEY"]
        {
            command.env_remove(variable);
        }
        command.env("ONEFOLD_CACHE_DIR", self.path("cache"));
        command.env("ONEFOLD_STATE_DIR", self.path("state"));
        command.env("XDG_STATE_HOME", self.path("state-home"));
        command
    }

    /// Runs `onefold`.
    pub(crate) fn run(&self, line: &str) -> Ran {
        Ran::of(line, self.command(line).output().unwrap())
    }

    /// Runs `onefold`, which must succeed.
    pub(crate) fn ok(&self, line: &str) -> Ran {
        self.run(line).expect(0)
    }
}

/// Runs `onefold` in `lab` as a user whom permissions bind.
pub(crate) fn unprivileged(lab: &Lab) -> Option<impl Fn(&str) -> Ran> {
    command::unprivileged(Path::new(ONEFOLD), lab.path(""))
}
