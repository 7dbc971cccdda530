//! Gateways, each an `onefold serve`, of a pool of volumes in a [`Ceph`]. They end when it does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{Ceph, PATIENCE, REPLICATED, run};

/// The namespace of the pool of volumes, in the pool [`REPLICATED`].
pub const NAMESPACE: &str = "volumes";

/// How a gateway ended by itself, and the last lines that it wrote.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// What it said last.
    pub said: String,
}

/// A pool of volumes in a cluster of Ceph, and its gateways, which have numbers from 0 to 9.
#[derive(Debug)]
pub struct Gateways {
    ceph: Ceph,
    onefold: PathBuf,
    namespace: String,
}

impl Gateways {
    /// Makes the pool of volumes with `onefold`, the program. No gateway runs yet.
    ///
    /// # Panics
    ///
    /// If the program cannot make one.
    pub fn new(ceph: Ceph, onefold: &Path) -> Self {
        let onefold = onefold.to_owned();
        let this = Self { ceph, onefold, namespace: NAMESPACE.to_owned() };
        this.begin();
        this
    }

    /// Leaves the pool of volumes to Ceph, and makes an empty one in another namespace. No gateway may run.
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new).
    pub fn use_namespace(&mut self, namespace: &str) {
        namespace.clone_into(&mut self.namespace);
        self.begin();
    }

    fn begin(&self) {
        let mut init = self.command(0);
        run(init.args(["cluster", "init", &self.location(), "--ceph-conf"]).arg(self.ceph.conf()));
    }

    /// The cluster.
    pub fn ceph(&self) -> &Ceph {
        &self.ceph
    }

    /// The cluster, to kill and start its daemons.
    pub fn ceph_mut(&mut self) -> &mut Ceph {
        &mut self.ceph
    }

    /// Where the pool of volumes is, as `onefold` takes it.
    pub fn location(&self) -> String {
        format!("ceph:{REPLICATED}/{}", self.namespace)
    }

    /// The folder of what gateway `number` keeps on its machine.
    pub fn state(&self, number: usize) -> PathBuf {
        self.ceph.folder.0.join(format!("state-{number}"))
    }

    /// The socket of gateway `number`.
    pub fn socket(&self, number: usize) -> PathBuf {
        self.ceph.folder.0.join(format!("gateway-{number}"))
    }

    /// What clients of NBD call a volume at gateway `number`.
    pub fn uri(&self, number: usize, volume: &str) -> String {
        format!("nbd+unix:///{volume}?socket={}", self.socket(number).display())
    }

    /// `onefold` as on the machine of gateway `number`.
    fn command(&self, number: usize) -> Command {
        let mut command = Command::new(&self.onefold);
        command.env("XDG_STATE_HOME", self.state(number)).env("XDG_CACHE_HOME", self.state(number));
        command
    }

    /// Runs a command of `onefold` on the machine of gateway `number`, with the options that reach the pool
    /// behind it, and returns what it writes.
    ///
    /// # Panics
    ///
    /// If it fails.
    #[track_caller]
    pub fn onefold(&self, number: usize, arguments: &[&str]) -> String {
        let mut command = self.command(number);
        command.args(arguments).args(["--cluster", &self.location(), "--ceph-conf"]);
        run(command.arg(self.ceph.conf()))
    }

    /// What `onefold cluster status` writes with these options.
    ///
    /// # Panics
    ///
    /// If it fails.
    pub fn status(&self, options: &[&str]) -> String {
        let mut command = self.command(0);
        command.args(["cluster", "status", &self.location(), "--ceph-conf"]);
        run(command.arg(self.ceph.conf()).args(options))
    }

    /// Starts gateway `number` with these options, and does not wait until it serves.
    pub fn start(&mut self, number: usize, options: &[&str]) {
        self.start_by(self.command(number), number, options);
    }

    /// The same in the network namespace `namespace`, which must reach Ceph.
    pub fn start_in(&mut self, namespace: &str, number: usize, options: &[&str]) {
        let onefold = self.command(number);
        let mut command = Command::new("ip");
        // it becomes the program
        command.args(["netns", "exec", namespace]).arg(onefold.get_program());
        for (name, value) in onefold.get_envs() {
            command.env(name, value.expect("none is removed"));
        }
        self.start_by(command, number, options);
    }

    fn start_by(&mut self, mut command: Command, number: usize, options: &[&str]) {
        let socket = self.socket(number);
        command.args(["serve", "--cluster", &self.location(), "--ceph-conf"]);
        command.arg(self.ceph.conf()).arg("--unix").arg(socket).args(options);
        self.ceph.daemons.start(&name(number), command);
    }

    /// Waits until gateway `number` listens.
    ///
    /// # Errors
    ///
    /// If it ends instead.
    ///
    /// # Panics
    ///
    /// If it does neither for five minutes.
    pub fn wait_until_it_listens(&mut self, number: usize) -> Result<(), Ended> {
        let begun = Instant::now();
        while std::os::unix::net::UnixStream::connect(self.socket(number)).is_err() {
            if let Some(ended) = self.ended(number) {
                return Err(ended);
            }
            let late = begun.elapsed() > PATIENCE;
            assert!(!late, "gateway {number} does not listen: {}", self.said(number));
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// How gateway `number` ended, if it did so by itself since it was started.
    pub fn ended(&mut self, number: usize) -> Option<Ended> {
        let status = self.ceph.daemons.ended(&name(number))?;
        Some(Ended { status, said: self.said(number) })
    }

    /// The process of gateway `number`, if it runs.
    pub fn process(&self, number: usize) -> Option<u32> {
        self.ceph.daemons.process(&name(number))
    }

    /// The last lines that gateway `number` wrote.
    pub fn said(&self, number: usize) -> String {
        const LAST: usize = 12;
        let text = fs::read(self.ceph.daemons.log(&name(number))).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LAST)..].join("\n")
    }

    /// Kills gateway `number`.
    pub fn kill(&mut self, number: usize) {
        self.ceph.daemons.kill(&name(number));
    }

    /// Sends gateway `number` a signal, such as one that pauses it.
    pub fn signal(&self, number: usize, signal: Signal) {
        self.ceph.daemons.signal(&name(number), signal);
    }

    /// Ends gateway `number` in an orderly way.
    ///
    /// # Panics
    ///
    /// If it does not end within five minutes.
    pub fn end(&mut self, number: usize) -> Option<ExitStatus> {
        self.process(number)?;
        self.signal(number, Signal::TERM);
        let begun = Instant::now();
        loop {
            if let Some(Ended { status, .. }) = self.ended(number) {
                return Some(status);
            }
            let late = begun.elapsed() > PATIENCE;
            assert!(!late, "gateway {number} does not end: {}", self.said(number));
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The name of gateway `number` among daemons. No name begins with another one.
fn name(number: usize) -> String {
    assert!(number < 10, "gateway {number}, expected one of at most 10");
    format!("gateway.{number}")
}

/// A few bytes that are written to a volume and read again, by qemu-io.
///
/// # Panics
///
/// If qemu-io is absent, or says that they differ.
pub fn write_and_read(uri: &str) {
    let mut command = Command::new("qemu-io");
    command.args(["-f", "raw", "-c", "write -P 7 0 256k", "-c", "flush", "-c", "read -P 7 0 256k"]);
    let said = run(command.arg(uri).stdin(Stdio::null()));
    assert!(!said.contains("failed"), "{said}");
}
