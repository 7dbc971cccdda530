//! A way to a server that is cut after a number of bytes: a TCP proxy on loopback.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
    /// How many bytes pass, in both directions together, before a connection is cut.
    left: AtomicU64,
    passed: AtomicU64,
    connections: AtomicU64,
    is_gone: AtomicBool,
}

/// Never reached.
const NEVER: u64 = u64::MAX / 2;

impl Cutter {
    /// Starts to listen, and hands on to `server`. It ends with the test's process.
    pub fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared {
            server,
            left: AtomicU64::new(NEVER),
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
        self.shared.left.store(bytes, Ordering::SeqCst);
    }

    /// Whether the cut that was asked for is still to come.
    pub fn is_armed(&self) -> bool {
        self.shared.left.load(Ordering::SeqCst) < NEVER / 2
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
            let shared = Arc::clone(self);
            thread::spawn(move || shared.pass(from, to));
        }
    }

    fn pass(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut bytes = vec![0; 16 << 10];
        loop {
            let count = from.read(&mut bytes).unwrap_or(0) as u64;
            let take = |left: u64| Some(left.saturating_sub(count));
            let before = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take);
            let before = before.expect("the update has a value");
            let is_cut = count > 0 && before < count || self.is_gone.load(Ordering::SeqCst);
            if is_cut && before < count {
                self.left.store(NEVER, Ordering::SeqCst);
            }
            let passing = if is_cut { before.min(count) } else { count };
            self.passed.fetch_add(passing, Ordering::SeqCst);
            let passed = to.write_all(&bytes[..passing as usize]);
            if count == 0 || is_cut || passed.is_err() {
                // Both threads of the connection end.
                drop((from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both)));
                return;
            }
        }
    }
}
