//! A way to a server that is cut after a number of bytes: a TCP proxy on loopback.

use std::fmt;
use std::io::{Read, Write};
use std::iter;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// A proxy that hands all bytes on, and cuts a connection when it is told to.
#[derive(Debug)]
pub struct Cutter {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    cuts: Mutex<Cuts>,
    passed: AtomicU64,
    connections: AtomicU64,
    is_gone: AtomicBool,
}

/// When connections are cut.
struct Cuts {
    /// How many bytes pass, in both directions together, before one is cut; `None` for all.
    left: Option<u64>,
    /// How many pass before each later cut.
    later: Box<dyn Iterator<Item = u64> + Send>,
}

impl Cutter {
    /// Starts to listen, and hands on to `server`. It ends with the test's process.
    pub fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared {
            server,
            cuts: Mutex::new(Cuts { left: None, later: Box::new(iter::empty()) }),
            passed: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            is_gone: AtomicBool::new(false),
        });
        let served = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                served.serve(client);
            }
        });
        Self { address, shared }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts one connection, that over which the byte after `bytes` more of them would pass.
    pub fn cut_after(&self, bytes: u64) {
        self.cut_after_each(iter::once(bytes));
    }

    /// Cuts a connection after the first number of bytes, another after the second number more, and so on.
    pub fn cut_after_each(&self, mut bytes: impl Iterator<Item = u64> + Send + 'static) {
        let left = bytes.next();
        *self.shared.cuts.lock().expect("no thread panics with it") =
            Cuts { left, later: Box::new(bytes) };
    }

    /// Ends every connection at its next byte, and each new one, until told otherwise.
    pub fn set_gone(&self, is_gone: bool) {
        self.shared.is_gone.store(is_gone, Ordering::SeqCst);
    }

    /// How many bytes passed, in both directions.
    pub fn passed(&self) -> u64 {
        self.shared.passed.load(Ordering::SeqCst)
    }

    /// How many connections were made.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn serve(self: &Arc<Self>, client: TcpStream) {
        self.connections.fetch_add(1, Ordering::SeqCst);
        if self.is_gone.load(Ordering::SeqCst) {
            return;
        }
        // Without a server the client sees that its connection ends.
        let Ok(server) = TcpStream::connect(self.server) else { return };
        for (from, to) in [(&client, &server), (&server, &client)] {
            let ends = from.try_clone().and_then(|from| Ok((from, to.try_clone()?)));
            let (from, to) = ends.expect("a socket can be cloned");
            // or a short message waits until an acknowledgement that is late on purpose
            to.set_nodelay(true).expect("a socket can be told so");
            let shared = Arc::clone(self);
            thread::spawn(move || shared.pass(from, to));
        }
    }

    fn pass(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut bytes = vec![0; 16 << 10];
        loop {
            let count = from.read(&mut bytes).unwrap_or(0) as u64;
            // or the sender of short messages waits for an acknowledgement; the system forgets this again
            #[cfg(target_os = "linux")]
            let _ = rustix::net::sockopt::set_tcp_quickack(&from, true);
            let passing = match self.is_gone.load(Ordering::SeqCst) {
                true => 0,
                false => self.cuts.lock().expect("no thread panics with it").pass(count),
            };
            self.passed.fetch_add(passing, Ordering::SeqCst);
            let passed = to.write_all(&bytes[..passing as usize]);
            if count == 0 || passing < count || passed.is_err() {
                // Both threads of the connection end.
                drop((from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both)));
                return;
            }
        }
    }
}

impl Cuts {
    /// How many of `count` bytes pass; with fewer than all the connection is cut.
    fn pass(&mut self, count: u64) -> u64 {
        match self.left {
            None => count,
            Some(left) if left >= count => {
                self.left = Some(left - count);
                count
            }
            Some(left) => {
                self.left = self.later.next();
                left
            }
        }
    }
}

impl fmt::Debug for Cuts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Cuts").field("left", &self.left).finish_non_exhaustive()
    }
}
