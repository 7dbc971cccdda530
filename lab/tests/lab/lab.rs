//! A directory of its own for each test, in which the laboratory's program is run.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use onefold_testkit::skip;
use serde_json::Value;
use tempfile::TempDir;

/// Where the binary under test is.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_onefold-lab");

/// A directory that is removed with everything in it when the test ends.
pub(crate) struct Lab(TempDir);

/// What came of running the program.
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
        assert_eq!(self.code, code, "cargo lab {}: {self:#?}", self.line);
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
}

/// A number in a JSON object.
#[track_caller]
pub(crate) fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_else(|| panic!("no number '{field}' in {value}"))
}

/// Runs the program as a user whom permissions bind.
pub(crate) fn unprivileged(lab: &Lab) -> Option<impl Fn(&str) -> Ran> {
    let is_root = rustix::process::geteuid().is_root();
    // The build's own directory may be closed to other users.
    let binary = lab.path("program");
    fs::copy(PROGRAM, &binary).unwrap();
    let start = move || match is_root {
        true => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(&binary);
            command
        }
        false => Command::new(&binary),
    };
    if let Err(error) = start().arg("--help").output() {
        skip(&format!("root reads everything, and setpriv: {error}"));
        return None;
    }
    let directory = lab.path("");
    Some(move |line: &str| {
        let output = start().args(line.split_whitespace()).current_dir(&directory).output();
        Ran::of(line, output.unwrap())
    })
}
