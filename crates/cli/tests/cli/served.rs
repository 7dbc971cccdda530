//! `onefold serve` in a process of its own, and the programs that are its clients.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use onefold_lab::nbd::{Client, Place, Uri};
use onefold_testkit::skip;
use rustix::process::{Pid, Signal, kill_process};

use crate::lab::Lab;

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// `onefold serve`, until it is ended.
pub(crate) struct Served {
    child: Child,
    socket: PathBuf,
    place: String,
    said: Said,
}

impl Served {
    /// Serves the pool `pool` of the lab on the socket `socket`.
    pub(crate) fn start(lab: &Lab) -> Self {
        Self::start_with(lab, "serve --pool pool --unix socket").expect("it serves")
    }

    /// Runs another line, which listens on the socket `socket` of the lab or elsewhere; an error is
    /// what it said before it ended.
    pub(crate) fn start_with(lab: &Lab, line: &str) -> Result<Self, String> {
        Self::start_at(lab, line, "socket")
    }

    /// Runs another line, which listens on the socket `socket` of the lab.
    pub(crate) fn start_at(lab: &Lab, line: &str, socket: &str) -> Result<Self, String> {
        let mut child = lab.command(line).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = Said::by(&mut child);
        let Some(line) = said.hears("serving on ") else {
            let _ = child.kill();
            let status = child.wait().unwrap();
            return Err(format!("{}\n{status}", said.until_it_ended().join("\n")));
        };
        let (_, place) = line.split_once("serving on ").expect("it was heard");
        // what else the event has comes behind it
        let place = place.split(' ').next().unwrap_or_default().to_owned();
        Ok(Self { child, socket: lab.path(socket), place, said })
    }

    /// Waits until it has said a line with `words`; that line.
    pub(crate) fn hears(&self, words: &str) -> String {
        let heard = self.said.hears(words);
        heard.unwrap_or_else(|| panic!("nobody said {words:?}: {:#?}", self.said.so_far()))
    }

    /// All lines that it said, once it was ended.
    pub(crate) fn said(&mut self) -> Vec<String> {
        self.said.until_it_ended()
    }

    /// Where it serves, as it says.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// The socket `socket` of the lab.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// What programs call a volume.
    pub(crate) fn uri(&self, volume: &str) -> String {
        format!("nbd+unix:///{volume}?socket={}", self.socket.display())
    }

    /// A connection to a volume.
    pub(crate) fn client(&self, volume: &str) -> Client {
        let uri = Uri { place: Place::Unix(self.socket.clone()), export: volume.into() };
        Client::connect(&uri).unwrap()
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Ends it; its exit code, or -1 if a signal ended it.
    pub(crate) fn signal(&mut self, signal: Signal) -> i32 {
        // it may have ended by itself
        let _ = kill_process(self.pid(), signal);
        ended(&mut self.child)
    }
}

/// What a process says on standard error, line by line. It is always listened to: whatever a process
/// says must not stop it.
struct Said {
    lines: Arc<Mutex<Vec<String>>>,
    listening: Option<JoinHandle<()>>,
}

impl Said {
    fn by(child: &mut Child) -> Self {
        let said = BufReader::new(child.stderr.take().unwrap()).split(b'\n');
        let lines = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&lines);
        let listen = move || {
            for line in said {
                let line = String::from_utf8_lossy(&line.unwrap()).into_owned();
                heard.lock().unwrap().push(line);
            }
        };
        Self { lines, listening: Some(thread::spawn(listen)) }
    }

    fn so_far(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// Waits for a line with `words`; none if the process ended without it, or has not said it for
    /// long.
    fn hears(&self, words: &str) -> Option<String> {
        let end = Instant::now() + PATIENCE;
        loop {
            let is_over = self.listening.as_ref().is_none_or(JoinHandle::is_finished);
            let lines = self.lines.lock().unwrap();
            let line = lines.iter().find(|line| line.contains(words)).cloned();
            drop(lines);
            if line.is_some() || is_over || Instant::now() > end {
                return line;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// All lines, of a process that has ended.
    fn until_it_ended(&mut self) -> Vec<String> {
        if let Some(listening) = self.listening.take() {
            listening.join().unwrap();
        }
        self.so_far()
    }
}

/// Waits until a process has ended; its exit code, or -1 if a signal ended it. One that does not is
/// killed, and the test with it.
pub(crate) fn ended(child: &mut Child) -> i32 {
    let end = Instant::now() + 2 * PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().unwrap_or(-1);
        }
        if Instant::now() > end {
            let _ = child.kill();
            panic!("process {} did not end", child.id());
        }
        thread::sleep(Duration::from_millis(5));
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // it may have ended
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether all of `programs` are there; says which is not.
pub(crate) fn have(programs: &[&str]) -> bool {
    match programs.iter().find(|program| find(program).is_none()) {
        Some(missing) => {
            skip(&format!("there is no program {missing}"));
            false
        }
        None => true,
    }
}

/// The file that a program is.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.exists())
}

/// What a program prints; panics unless it succeeds.
pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    if program == "nbdsh" {
        // it is for the Python of the system, whatever other is in front of it
        command.env("PATH", "/usr/bin:/bin");
    }
    let output = command.args(arguments).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{program} {arguments:?}: {printed}{said}");
    printed
}
