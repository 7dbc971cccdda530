//! The S3 server of the tests as a process, and the bytes that go to it and come back.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::{Context, Result, ensure};

/// What the tests start as well.
const PROGRAM: &str = include_str!("../../../crates/testkit/src/s3/server.py");

/// A server with one bucket, called `bucket`; it ends when this is dropped.
pub(crate) struct S3Process {
    process: Child,
    /// Held open for as long as the server is to run.
    _input: ChildStdin,
    address: SocketAddr,
}

impl S3Process {
    /// Starts the server of the virtual environment `folder`.
    pub(crate) fn start(folder: &Path) -> Result<Self> {
        let mut process = Command::new(folder.join("bin/python"))
            .args(["-c", PROGRAM])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| folder.display().to_string())?;
        let input = process.stdin.take().context("it is piped")?;
        let output = process.stdout.take().context("it is piped")?;
        let mut port = String::new();
        BufReader::new(output).read_line(&mut port)?;
        let port: u16 = port.trim().parse().context("the server says no port")?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let server = Self { process, _input: input, address };
        server.make_bucket()?;
        Ok(server)
    }

    fn make_bucket(&self) -> Result<()> {
        let mut stream = TcpStream::connect(self.address)?;
        write!(stream, "PUT /bucket HTTP/1.0\r\nHost: {}\r\n\r\n", self.address)?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer)?;
        ensure!(answer.contains(" 200 "), "the bucket was not made: {answer}");
        Ok(())
    }
}

impl Drop for S3Process {
    fn drop(&mut self) {
        // Fails only if it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A way to a server that counts the bytes on it. It lasts as long as this program.
pub(crate) struct Meter {
    address: SocketAddr,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    up: AtomicU64,
    down: AtomicU64,
}

impl Meter {
    /// A way to `server`.
    pub(crate) fn to(server: &S3Process) -> Result<Self> {
        Self::to_address(server.address)
    }

    fn to_address(server: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let counts = Arc::new(Counts::default());
        let shared = Arc::clone(&counts);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let counts = Arc::clone(&shared);
                // Who is cut off tries again, and is heard of if that fails.
                thread::spawn(move || connect(&client, server, &counts));
            }
        });
        Ok(Self { address, counts })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Bytes that went to the server, and bytes that came back, since this was asked last.
    pub(crate) fn take(&self) -> (u64, u64) {
        let Counts { up, down } = &*self.counts;
        (up.swap(0, Ordering::SeqCst), down.swap(0, Ordering::SeqCst))
    }
}

fn connect(client: &TcpStream, server: SocketAddr, counts: &Counts) -> io::Result<()> {
    let server = TcpStream::connect(server)?;
    thread::scope(|scope| {
        let upwards = scope.spawn(|| pass(client, &server, &counts.up));
        pass(&server, client, &counts.down)?;
        // The server has ended its answer: what the client would still say nobody hears.
        client.shutdown(Shutdown::Both)?;
        upwards.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
    })
}

fn pass(mut from: &TcpStream, mut to: &TcpStream, count: &AtomicU64) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        match from.read(&mut buffer)? {
            0 => return to.shutdown(Shutdown::Write),
            len => {
                // First, so that who has the answer finds it counted.
                count.fetch_add(len as u64, Ordering::SeqCst);
                to.write_all(&buffer[..len])?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_counted_both_ways() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let meter = Meter::to_address(listener.local_addr().unwrap()).unwrap();
        let server = thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut heard = [0; 5];
            client.read_exact(&mut heard).unwrap();
            client.write_all(b"answer").unwrap();
            heard
        });
        let mut client = TcpStream::connect(meter.address).unwrap();
        client.write_all(b"asked").unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap();
        assert_eq!((&server.join().unwrap(), &answer[..]), (b"asked", &b"answer"[..]));
        assert_eq!(meter.take(), (5, 6));
        assert_eq!(meter.take(), (0, 0));
    }
}
