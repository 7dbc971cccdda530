//! A simulated line to an S3 server far away: a TCP proxy on loopback.
//!
//! It adds latency, limits bandwidth, injects faults under a seed, and counts what passes. It reads
//! HTTP/1.1 in plain text and expects one request at a time on a connection, as S3 clients send them.
//! [`crate::s3::Proxy`] instead judges requests by what they ask, and closes each connection.

mod connection;
mod exchange;
mod faults;
mod gate;
mod message;
mod pacer;
mod shape;
mod traffic;
mod wire;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

pub use faults::{Fault, Faults};
pub use shape::Shape;
pub use traffic::{Request, Traffic};

use connection::Connection;
use gate::Gate;
use pacer::Pacer;
use traffic::Counter;

/// A line to one server. Dropping it drops all its connections.
#[derive(Debug)]
pub struct Line {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// What all connections of a line share.
#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    shape: Shape,
    upwards: Pacer,
    downwards: Pacer,
    faults: Mutex<Faults>,
    counter: Counter,
    gate: Gate,
}

impl Line {
    /// Starts to listen on a free port of loopback and forwards to `server`.
    ///
    /// # Errors
    /// Fails if no port can be bound.
    pub fn start(server: SocketAddr, shape: Shape) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            server,
            shape,
            upwards: Pacer::new(shape.bytes_per_second),
            downwards: Pacer::new(shape.bytes_per_second),
            faults: Mutex::default(),
            counter: Counter::new(shape.repository_depth),
            gate: Gate::default(),
        });
        accept(listener, Arc::clone(&shared));
        Ok(Self { address, shared })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of the service as a client behind the line sees it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Draws the faults of all later requests from `faults`.
    pub fn set_faults(&self, faults: Faults) {
        *self.shared.faults.lock().unwrap_or_else(PoisonError::into_inner) = faults;
    }

    /// Delivers nothing more in either direction, while connections stay open and new ones are
    /// accepted, until [`Self::come_back`].
    pub fn go_silent(&self) {
        self.shared.gate.go_silent();
    }

    /// Drops all connections and refuses new ones, until [`Self::come_back`].
    ///
    /// Returns once the port refuses connections.
    pub fn vanish(&self) {
        self.shared.gate.vanish(self.address);
    }

    /// Ends silence, or listens again at the same address.
    ///
    /// # Errors
    /// Fails if another process has bound the port meanwhile.
    pub fn come_back(&self) -> io::Result<()> {
        if self.shared.gate.is_listening() {
            self.shared.gate.open();
            return Ok(());
        }
        let listener = TcpListener::bind(self.address)?;
        self.shared.gate.open();
        accept(listener, Arc::clone(&self.shared));
        Ok(())
    }

    /// What passed since the line started or this was last called.
    pub fn take_traffic(&self) -> Traffic {
        self.shared.counter.take()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.vanish();
    }
}

/// Serves each client of `listener` on threads of its own, until the line vanishes.
fn accept(listener: TcpListener, shared: Arc<Shared>) {
    shared.gate.listen();
    thread::spawn(move || {
        for client in listener.incoming() {
            if shared.gate.has_vanished() {
                break;
            }
            // A client that is gone before it is accepted tries again by itself.
            if let Ok(client) = client {
                serve(client, &shared);
            }
        }
        drop(listener);
        shared.gate.end_listening();
    });
}

fn serve(client: TcpStream, shared: &Arc<Shared>) {
    let shared = Arc::clone(shared);
    shared.counter.connect();
    thread::spawn(move || {
        // The client's `connect` ended at once; the first round trip of TCP is paid here.
        thread::sleep(2 * shared.shape.one_way);
        // Without a server the client sees that its connection ends.
        if let Ok(connection) = Connection::open(client, shared) {
            connection.run();
        }
    });
}
