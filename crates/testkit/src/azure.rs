//! An emulator of Azure Blob Storage: a process that keeps its containers in memory.

use std::env;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::skip;

/// See there.
const MAKE_CONTAINER: &str = include_str!("make_container.js");

/// A process that emulates Azure Blob Storage; it ends when this is dropped.
///
/// It is azurite, in the folder that `ONEFOLD_AZURE_SERVER` names, which `cargo xtask test` makes.
#[derive(Debug)]
pub struct AzureServer {
    process: Child,
    /// Held open: the emulator ends if it cannot write.
    _output: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl AzureServer {
    /// The account that the emulator has, and its key.
    pub const ACCOUNT: &str = "tester";
    /// The key of the account.
    pub const KEY: &str = "c3dvcmRmaXNo";

    /// Starts an emulator with one container, called `bucket`, or says why the test is skipped.
    pub fn start() -> Option<Self> {
        let Some(folder) = env::var_os("ONEFOLD_AZURE_SERVER") else {
            skip("ONEFOLD_AZURE_SERVER names no azurite; `cargo xtask test` installs one");
            return None;
        };
        let program = Path::new(&folder).join("node_modules/azurite/dist/src/blob/main.js");
        let mut process = Command::new("node")
            .arg(program)
            .args(["--blobPort", "0", "--inMemoryPersistence", "--silent", "--disableTelemetry"])
            .arg("--skipApiVersionCheck")
            .env("AZURITE_ACCOUNTS", format!("{}:{}", Self::ACCOUNT, Self::KEY))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node runs azurite");
        let output = process.stdout.take().expect("it is piped");
        let mut output = BufReader::new(output);
        let address = loop {
            let mut line = String::new();
            let count = output.read_line(&mut line).expect("azurite writes text");
            assert!(count > 0, "azurite ended without saying where it listens");
            if let Some((_, address)) = line.split_once("listens on http://") {
                break address.trim().parse().expect("azurite says its address");
            }
        };
        let server = Self { process, _output: output, address };
        server.make_container("bucket");
        Some(server)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of the account, if the emulator is reached at `address`.
    pub fn url_at(address: &str) -> String {
        format!("{address}/{}", Self::ACCOUNT)
    }

    /// The URL of the account.
    pub fn url(&self) -> String {
        Self::url_at(&format!("http://{}", self.address))
    }

    /// Makes a container.
    pub fn make_container(&self, name: &str) {
        let port = self.address.port().to_string();
        let made = Command::new("node")
            .args(["-e", MAKE_CONTAINER, "--", &port, Self::ACCOUNT, Self::KEY, name])
            .status()
            .expect("node runs");
        assert!(made.success(), "the container {name} was not made");
    }
}

impl Drop for AzureServer {
    fn drop(&mut self) {
        // Fails only if it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
