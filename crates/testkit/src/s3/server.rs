use std::env;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use super::http::Head;
use crate::skip;

/// See there.
const PROGRAM: &str = include_str!("server.py");

/// A process that serves S3 from memory; it ends when this is dropped.
///
/// It is moto, run by the Python of the virtual environment that `ONEFOLD_S3_SERVER` names, which
/// `cargo xtask test` makes. Credentials are not checked.
#[derive(Debug)]
pub struct S3Server {
    process: Child,
    /// Held open for as long as the server is to run.
    _input: ChildStdin,
    address: SocketAddr,
}

impl S3Server {
    /// Starts a server with one bucket, called `bucket`, or says why the test is skipped.
    pub fn start() -> Option<Self> {
        let Some(folder) = env::var_os("ONEFOLD_S3_SERVER") else {
            skip("ONEFOLD_S3_SERVER names no S3 server; `cargo xtask test` installs one");
            return None;
        };
        let mut process = Command::new(Path::new(&folder).join("bin/python"))
            .args(["-c", PROGRAM])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the Python of ONEFOLD_S3_SERVER runs");
        let input = process.stdin.take().expect("it is piped");
        let output = process.stdout.take().expect("it is piped");
        let mut port = String::new();
        BufReader::new(output).read_line(&mut port).expect("the server says its port");
        let port: u16 = port.trim().parse().expect("the server started");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let server = Self { process, _input: input, address };
        server.make_bucket("bucket");
        Some(server)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of the service.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Makes a bucket.
    pub fn make_bucket(&self, name: &str) {
        let mut stream = TcpStream::connect(self.address).expect("the server listens");
        write!(stream, "PUT /{name} HTTP/1.0\r\nHost: {}\r\n\r\n", self.address)
            .expect("the server listens");
        let answer = Head::read(&mut BufReader::new(stream)).expect("the server answers");
        let status = answer.expect("the server answers").lines[0].clone();
        assert!(status.contains(" 200 "), "the bucket {name} was not made: {status}");
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        // Fails only if it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
