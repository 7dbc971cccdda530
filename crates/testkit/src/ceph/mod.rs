//! A cluster of Ceph on this machine: a monitor, a manager and three servers of objects, which find
//! one another over the loopback interface and keep their data in a temporary folder.

mod conf;
mod daemons;
mod gateways;

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use daemons::Daemons;
pub use gateways::{Ended, Gateways, NAMESPACE, write_and_read};

/// The programs that a cluster needs, and the Debian packages that have them.
const PROGRAMS: [(&str, &str); 5] = [
    ("ceph", "ceph-common"),
    ("ceph-authtool", "ceph-common"),
    ("ceph-mgr", "ceph-mgr"),
    ("ceph-mon", "ceph-mon"),
    ("ceph-osd", "ceph-osd"),
];

/// How long the cluster may take to start, and a command to end, before the test gives up. It only
/// ends what would hang.
const PATIENCE: Duration = Duration::from_secs(300);

/// The name of the replicated pool: three copies, two of which must be written.
pub const REPLICATED: &str = "meta";

/// The name of the erasure-coded pool: two parts and a parity.
pub const ERASURE_CODED: &str = "data";

/// What each server can store. Its file is sparse.
pub const OSD_BYTES: u64 = 16 << 30;

/// A cluster of Ceph, which ends when this is dropped, or the process ends.
#[derive(Debug)]
pub struct Ceph {
    /// Before the folder: dropped first.
    daemons: Daemons,
    folder: Folder,
}

impl Ceph {
    /// Starts a cluster with the pools [`REPLICATED`] and [`ERASURE_CODED`]; some 20 s.
    ///
    /// # Errors
    ///
    /// The reason why a test that needs one is skipped: the packages that are missing.
    pub fn start() -> Result<Self, String> {
        Self::start_on(own_loopback_address())
    }

    /// The same where daemons listen on this address of the machine, which clients in other network namespaces reach.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_on(address: Ipv4Addr) -> Result<Self, String> {
        let is_missing = |program: &str| Command::new(program).arg("--version").output().is_err();
        let missing: BTreeSet<_> = PROGRAMS
            .into_iter()
            .filter_map(|(program, package)| is_missing(program).then_some(package))
            .collect();
        if !missing.is_empty() {
            let packages = Vec::from_iter(missing).join(" ");
            return Err(format!(
                "no Ceph here, the Debian packages {packages} are missing; `cargo xtask test --area \
                 cluster` installs them"
            ));
        }
        let folder = Folder::new();
        let daemons = Daemons::new(&folder.0);
        let mut ceph = Self { daemons, folder };
        ceph.begin(address);
        Ok(ceph)
    }

    fn begin(&mut self, address: Ipv4Addr) {
        let folder = self.folder.0.clone();
        let monitor = free_port(address);
        let fsid = uuid();
        let key = run(Command::new("ceph-authtool").arg("--gen-print-key"));
        put(&folder.join("ceph.conf"), &conf::configuration(&folder, &fsid, monitor));
        put(&folder.join("keyring"), &conf::keyring(key.trim()));
        for name in ["mon.a", "mgr.x", "osd.0", "osd.1", "osd.2"] {
            fs::create_dir(folder.join(name)).expect("the folder is new");
        }
        let map = folder.join("monmap");
        let address = format!("[v2:{monitor}]");
        run(Command::new("monmaptool")
            .args(["--create", "--fsid", &fsid, "--addv", "a", &address])
            .arg(&map));
        let mut make = self.program("ceph-mon", "a");
        run(make.arg("--mkfs").arg("--monmap").arg(&map));
        self.start_daemon("mon", "a");
        self.start_daemon("mgr", "x");
        let ids: Vec<String> = (0..3).map(|_| uuid()).collect();
        for id in &ids {
            self.command(&["osd", "new", id]);
        }
        thread::scope(|scope| {
            for (number, id) in ids.iter().enumerate() {
                let mut make = self.program("ceph-osd", &number.to_string());
                scope.spawn(move || run(make.args(["--mkfs", "--osd-uuid", id])));
            }
        });
        for number in 0..3 {
            self.start_daemon("osd", &number.to_string());
        }
        self.command(&["osd", "pool", "create", REPLICATED, "8", "8", "replicated"]);
        let profile = ["k=2", "m=1", "crush-failure-domain=osd"];
        self.command(
            &[&["osd", "erasure-code-profile", "set", "two-and-one"][..], &profile].concat(),
        );
        self.command(&["osd", "pool", "create", ERASURE_CODED, "8", "8", "erasure", "two-and-one"]);
        self.wait_until("all placement groups are active", |ceph| {
            let state = ceph.command(&["pg", "stat"]);
            // e.g. `17 pgs: 16 active+clean, 1 creating; 0 B data`
            let (count, rest) = state.split_once(" pgs: ").unwrap_or_default();
            rest.split(';').next() == Some(&format!("{count} active+clean"))
        });
    }

    /// The configuration file. It names the keyring of the user `admin`.
    pub fn conf(&self) -> PathBuf {
        self.folder.0.join("ceph.conf")
    }

    /// Makes a user, whose name begins with `client.`, with capabilities as `ceph auth add` takes them,
    /// and returns the file with its key.
    pub fn add_user(&self, name: &str, capabilities: &[&str]) -> PathBuf {
        let file = self.folder.0.join(format!("{name}.keyring"));
        let text = self.command(&[&["auth", "get-or-create", name], capabilities].concat());
        put(&file, &text);
        file
    }

    /// Runs `ceph` with these arguments as the user `admin`, and returns what it writes.
    ///
    /// # Panics
    ///
    /// If it fails.
    #[track_caller]
    pub fn command(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("ceph");
        command.arg("--conf").arg(self.conf());
        command.args(["--connect-timeout", &PATIENCE.as_secs().to_string()]);
        run(command.args(arguments))
    }

    /// Waits until `condition` holds, asking again and again.
    ///
    /// # Panics
    ///
    /// If that takes more than five minutes, with the ends of the logs.
    #[track_caller]
    pub fn wait_until(&self, what: &str, mut condition: impl FnMut(&Self) -> bool) {
        let start = Instant::now();
        while !condition(self) {
            if start.elapsed() > PATIENCE {
                panic!("not even after {PATIENCE:?}: {what}; {}", self.daemons.ends_of_logs());
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Pauses the daemons whose names begin with `prefix`, such as `osd.`, as a debugger does: they do
    /// not answer, and lose nothing.
    pub fn pause(&self, prefix: &str) {
        self.daemons.signal(prefix, Signal::STOP);
    }

    /// Lets the daemons whose names begin with `prefix` go on.
    pub fn resume(&self, prefix: &str) {
        self.daemons.signal(prefix, Signal::CONT);
    }

    /// Kills the daemons whose names begin with `prefix`, all before any of them is started again.
    pub fn kill_and_start(&mut self, prefix: &str) {
        for name in self.kill(prefix) {
            self.start_again(&name);
        }
    }

    /// Kills the daemons whose names begin with `prefix`, and returns their names.
    pub fn kill(&mut self, prefix: &str) -> Vec<String> {
        self.daemons.kill(prefix)
    }

    /// Starts a daemon of Ceph, such as `osd.1`, that was killed.
    pub fn start_again(&mut self, name: &str) {
        let (kind, id) = name.split_once('.').expect("it is a kind and a number");
        self.start_daemon(kind, id);
    }

    /// The process of a daemon of Ceph, such as `osd.1`, if it runs.
    pub fn process(&self, name: &str) -> Option<u32> {
        self.daemons.process(name)
    }

    fn start_daemon(&mut self, kind: &str, id: &str) {
        let mut command = self.program(&format!("ceph-{kind}"), id);
        command.arg("-f");
        self.daemons.start(&format!("{kind}.{id}"), command);
    }

    fn program(&self, name: &str, id: &str) -> Command {
        let mut command = Command::new(name);
        command.args(["--id", id, "--conf"]).arg(self.conf());
        command
    }
}

/// A temporary folder, which is removed when this is dropped.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("onefold-ceph-{}-{count}", process::id()));
        fs::create_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It is temporary anyway.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// An address that no other process of this machine uses: a monitor must know its port before it takes it, and
/// meanwhile nobody else shall.
fn own_loopback_address() -> Ipv4Addr {
    let [_, a, b, c] = (process::id() % 0xFF_FFFE + 1).to_be_bytes();
    Ipv4Addr::new(127, a, b, c)
}

fn free_port(address: Ipv4Addr) -> SocketAddrV4 {
    match TcpListener::bind((address, 0)).and_then(|port| port.local_addr()) {
        Ok(SocketAddr::V4(address)) => address,
        other => panic!("no port at {address}: {other:?}"),
    }
}

fn uuid() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/uuid").expect("Linux has it");
    text.trim().to_owned()
}

/// Runs a command that must succeed and asks nothing, and returns what it writes.
#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?} ended with {}: {out}{errors}", output.status);
    out.into_owned()
}

#[expect(clippy::disallowed_methods, reason = "a file of a test, no durable byte")]
fn put(file: &Path, text: &str) {
    let written: io::Result<()> = fs::write(file, text);
    written.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}
