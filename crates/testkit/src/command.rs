//! Programs that a test runs, and what came of them.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::skip;

/// What came of running a program.
#[derive(Debug)]
pub struct Ran {
    /// The command line, for messages.
    pub line: String,
    /// The exit code; of a process that a signal ended, 128 and the signal's number.
    pub code: i32,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
}

impl Ran {
    /// What came of `line`.
    pub fn of(line: &str, output: Output) -> Self {
        let status = output.status;
        Self {
            line: line.to_owned(),
            code: status.code().unwrap_or_else(|| 128 + status.signal().expect("it ended")),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Demands this exit code.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}: {self:#?}", self.line);
        self
    }

    /// Demands that standard error has each of `texts`.
    #[track_caller]
    pub fn says(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(self.stderr.contains(text), "{text:?} is not said: {self:#?}");
        }
        self
    }

    /// Demands that standard error is empty.
    #[track_caller]
    pub fn says_nothing(self) {
        assert!(self.stderr.is_empty(), "{self:#?}");
    }

    /// Standard output as one JSON document.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// Standard output as JSON, one object a line.
    #[track_caller]
    pub fn json_lines(&self) -> Vec<Value> {
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
    pub fn summary(&self) -> Value {
        let last = self.json_lines().pop().unwrap_or_else(|| panic!("no output: {self:#?}"));
        assert_eq!(last["type"], "summary", "{self:#?}");
        last
    }
}

/// A number in a JSON object.
#[track_caller]
pub fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_else(|| panic!("no number '{field}' in {value}"))
}

/// Runs a copy of `program` in `directory` as a user whom permissions bind. `None`, and a skip, where root
/// cannot become one.
pub fn unprivileged(program: &Path, directory: PathBuf) -> Option<impl Fn(&str) -> Ran> {
    let is_root = rustix::process::geteuid().is_root();
    // The build's own directory may be closed to other users.
    let binary = directory.join("program");
    fs::copy(program, &binary).expect("the program can be copied");
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
    Some(move |line: &str| {
        let output = start().args(line.split_whitespace()).current_dir(&directory).output();
        Ran::of(line, output.expect("it started before"))
    })
}
