//! OpenSSH's server on loopback, with keys and configuration of its own.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::skip;

/// Where Debian puts the server and its part for SFTP.
const SERVER: &str = "/usr/sbin/sshd";
const SFTP: &str = "/usr/lib/openssh/sftp-server";

/// A server of SSH that offers SFTP and forwarding; it ends when this is dropped.
///
/// Its folder has `key`, which it accepts, `known_hosts` and `config`, a configuration of ssh in which the
/// host is called `target`.
#[derive(Debug)]
pub struct SshServer {
    process: Child,
    address: SocketAddr,
    folder: PathBuf,
}

impl SshServer {
    /// Starts a server with its files in `folder`, or says why the test is skipped.
    pub fn start(folder: &Path) -> Option<Self> {
        Self::start_with(folder, SFTP)
    }

    /// The same with another program for SFTP.
    #[expect(clippy::disallowed_methods, reason = "files of a test")]
    pub fn start_with(folder: &Path, sftp: &str) -> Option<Self> {
        if !Path::new(SERVER).exists() || !Path::new(SFTP).exists() {
            skip("there is no sshd; `cargo xtask test` installs openssh-server");
            return None;
        }
        for name in ["host_key", "key"] {
            make_key(&folder.join(name), "ed25519");
        }
        fs::copy(folder.join("key.pub"), folder.join("authorized_keys")).expect("a file is made");
        // As root the server wants it.
        if rustix::process::geteuid().is_root() {
            fs::create_dir_all("/run/sshd").expect("root makes a folder");
        }
        // Another process may take a free port before the server does.
        for _ in 0..5 {
            let port = free_port();
            let shown = folder.display();
            let config = format!(
                "ListenAddress 127.0.0.1:{port}\nHostKey {shown}/host_key\nPidFile none\n\
                 AuthorizedKeysFile {shown}/authorized_keys\nPasswordAuthentication no\nUsePAM no\n\
                 KbdInteractiveAuthentication no\nStrictModes no\nMaxStartups 200\nLogLevel ERROR\n\
                 PermitRootLogin yes\nSubsystem sftp {sftp}\n"
            );
            fs::write(folder.join("sshd_config"), config).expect("a file is made");
            let mut process = Command::new(SERVER)
                .args(["-D", "-e", "-f"])
                .arg(folder.join("sshd_config"))
                .stdin(Stdio::null())
                .spawn()
                .expect("sshd runs");
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            if listens(address, &mut process) {
                let server = Self { process, address, folder: folder.to_owned() };
                server.write_config("config", address);
                return Some(server);
            }
        }
        panic!("sshd listens on none of five ports");
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Writes a configuration of ssh in which the host `target` is reached at `address`, and the key that is
    /// shown there is known. Returns its path.
    #[expect(clippy::disallowed_methods, reason = "files of a test")]
    pub fn write_config(&self, name: &str, address: SocketAddr) -> PathBuf {
        let (shown, port) = (self.folder.display(), address.port());
        let key = fs::read_to_string(self.folder.join("host_key.pub")).expect("it was made");
        let known = format!("[127.0.0.1]:{port} {key}");
        fs::write(self.folder.join(format!("{name}.known_hosts")), known).expect("a file is made");
        let config = format!(
            "Host target\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {shown}/key\n  \
             IdentityAgent none\n  IdentitiesOnly yes\n  \
             UserKnownHostsFile {shown}/{name}.known_hosts\n  GlobalKnownHostsFile /dev/null\n"
        );
        let path = self.folder.join(name);
        fs::write(&path, config).expect("a file is made");
        path
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        // Fails only if it has ended already. Its connections end with their clients.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Makes a key without a passphrase, and its public part beside it.
pub fn make_key(path: &Path, kind: &str) {
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", kind, "-N", "", "-C", "", "-f"])
        .arg(path)
        .stdin(Stdio::null())
        .status()
        .expect("ssh-keygen runs");
    assert!(made.success(), "no key was made at {}", path.display());
}

/// Whether the server listens before it ends.
fn listens(address: SocketAddr, process: &mut Child) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        if TcpStream::connect(address).is_ok() {
            return true;
        }
        if process.try_wait().expect("it can be waited for").is_some() {
            return false;
        }
        thread::sleep(Duration::from_millis(20));
    }
    false
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it is bound").port()
}
