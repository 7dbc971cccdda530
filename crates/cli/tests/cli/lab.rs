//! A directory of its own for each test, in which `onefold` is run.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Where the binary under test is.
pub(crate) const ONEFOLD: &str = env!("CARGO_BIN_EXE_onefold");

/// A directory that is removed with everything in it when the test ends.
pub(crate) struct Lab {
    dir: TempDir,
    /// What is run: the binary under test, unless a test says otherwise.
    pub(crate) program: PathBuf,
}

/// What came of running `onefold`.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The command line, for messages.
    pub(crate) line: String,
    /// The exit code; of a process that a signal ended, 128 and the signal's number.
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
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

impl Ran {
    pub(crate) fn of(line: &str, output: Output) -> Self {
        let status = output.status;
        Self {
            line: line.to_owned(),
            code: status.code().unwrap_or_else(|| 128 + status.signal().unwrap()),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Demands this exit code.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "onefold {}: {self:#?}", self.line);
        self
    }

    /// Demands that standard error has each of `texts`.
    #[track_caller]
    pub(crate) fn says(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(self.stderr.contains(text), "{text:?} is not said: {self:#?}");
        }
        self
    }

    /// Standard output as one JSON document.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// Standard output as JSON, one object a line.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        let parse = |line| {
            let value: Value =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            assert!(value.is_object(), "{line}");
            value
        };
        self.stdout.lines().map(parse).collect()
    }

    /// The last line of JSON, which must be a summary.
    #[track_caller]
    pub(crate) fn summary(&self) -> Value {
        let last = self.json_lines().pop().unwrap_or_else(|| panic!("no output: {self:#?}"));
        assert_eq!(last["type"], "summary", "{self:#?}");
        last
    }
}

/// A number in a JSON object.
#[track_caller]
pub(crate) fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_else(|| panic!("no number '{field}' in {value}"))
}
