//! Processes that end together.

use std::fmt::Write;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// How much of a log is shown, in bytes.
const END: usize = 2000;

/// Daemons in one process group, which end when this is dropped, or when this process ends.
#[derive(Debug)]
pub(super) struct Daemons {
    folder: PathBuf,
    /// Its number is the group's, and stays so until it was waited for.
    leader: Child,
    /// Kills the group, and removes the folder, once its input ends: when this process does.
    guard: Child,
    inputs: Vec<ChildStdin>,
    running: Vec<(String, Child)>,
}

impl Daemons {
    /// None as yet. Each writes its log to `folder`.
    pub(super) fn new(folder: &Path) -> Self {
        let (leader, leader_input) = begin(&mut Command::new("cat"));
        let kill = "cat; kill -KILL -\"$0\"; rm -rf \"$1\"";
        let (guard, guard_input) =
            begin(Command::new("sh").args(["-c", kill, &leader.id().to_string()]).arg(folder));
        let inputs = vec![leader_input, guard_input];
        Self { folder: folder.to_owned(), leader, guard, inputs, running: Vec::new() }
    }

    /// Starts a daemon that stays in the foreground. What it writes to standard error is in its log.
    pub(super) fn start(&mut self, name: &str, mut command: Command) {
        let log = append_to(&self.log(name));
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .process_group(pid(&self.leader).as_raw_nonzero().get())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        self.running.push((name.to_owned(), child));
    }

    /// Sends a signal to each daemon whose name begins with `prefix`.
    pub(super) fn signal(&self, prefix: &str, signal: Signal) {
        for (name, child) in self.running.iter().filter(|(name, _)| name.starts_with(prefix)) {
            kill_process(pid(child), signal)
                .unwrap_or_else(|error| panic!("{signal:?} to {name}: {error}"));
        }
    }

    /// Kills each daemon whose name begins with `prefix`, and returns their names.
    pub(super) fn kill(&mut self, prefix: &str) -> Vec<String> {
        self.signal(prefix, Signal::KILL);
        let mut killed = Vec::new();
        for (name, child) in self.running.extract_if(.., |(name, _)| name.starts_with(prefix)) {
            let mut child = child;
            child.wait().expect("it was killed");
            killed.push(name);
        }
        killed
    }

    /// The exit status of the daemon `name` if it has ended by itself; it is forgotten then.
    pub(super) fn ended(&mut self, name: &str) -> Option<ExitStatus> {
        let at = self.running.iter().position(|(running, _)| running == name)?;
        let status = self.running[at].1.try_wait().expect("it is a child of this process")?;
        self.running.remove(at);
        Some(status)
    }

    /// The number of the process of daemon `name`.
    pub(super) fn process(&self, name: &str) -> Option<u32> {
        self.running.iter().find(|(running, _)| running == name).map(|(_, child)| child.id())
    }

    /// The log of daemon `name`.
    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }

    /// The last lines of each log.
    pub(super) fn ends_of_logs(&self) -> String {
        let mut text = String::new();
        for (name, _) in &self.running {
            let log = fs::read(self.log(name)).unwrap_or_default();
            let end = String::from_utf8_lossy(&log[log.len().saturating_sub(END)..]);
            writeln!(text, "\n{name}.log: {end}").expect("a string takes it");
        }
        text
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        // The guard must not kill what has the group's number after this.
        let _ = self.guard.kill();
        let _ = self.guard.wait();
        self.inputs.clear();
        // Fails only if all have ended already.
        let _ = kill_process_group(pid(&self.leader), Signal::KILL);
        for (_, child) in &mut self.running {
            let _ = child.wait();
        }
        let _ = self.leader.wait();
    }
}

/// Starts a process in a group of its own, which lives as long as its input.
fn begin(command: &mut Command) -> (Child, ChildStdin) {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let input = child.stdin.take().expect("it is piped");
    (child, input)
}

#[expect(clippy::disallowed_methods, reason = "a log of a test, no durable byte")]
fn append_to(log: &Path) -> File {
    let opened = File::options().append(true).create(true).open(log);
    opened.unwrap_or_else(|error| panic!("{}: {error}", log.display()))
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env;
    use std::os::unix::process::ExitStatusExt;
    use std::process;

    #[test]
    fn daemons_and_their_folder_go_when_the_process_that_started_them_ends() {
        let folder = env::temp_dir().join(format!("onefold-daemons-{}", process::id()));
        fs::create_dir(&folder).unwrap();
        let mut daemons = Daemons::new(&folder);
        for name in ["running", "paused"] {
            let mut command = Command::new("sleep");
            command.arg("1000000");
            daemons.start(name, command);
        }
        daemons.signal("paused", Signal::STOP);
        // What the end of this process closes.
        daemons.inputs.clear();
        for (name, child) in &mut daemons.running {
            assert_eq!(child.wait().unwrap().signal(), Some(9), "{name}");
        }
        daemons.guard.wait().unwrap();
        assert!(!folder.exists());
    }
}
