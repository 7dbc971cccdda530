use std::os::fd::OwnedFd;
use std::sync::Arc;

use onefold_block::Operation;

use crate::{Address, Export, Finder, Limits, Listen, NbdError, Tls};

/// The configuration of a server.
pub struct Config {
    /// Addresses on which the server listens.
    pub listen: Vec<Listen>,
    /// Further sockets, which are already listening.
    pub inherited: Vec<OwnedFd>,
    /// The mode of Unix sockets, whatever the umask: users who may write to a socket may connect. They must
    /// include this user, or no server can replace one that was killed.
    pub unix_mode: u32,
    /// The initial exports; see [`Server::exports`](crate::Server::exports).
    pub exports: Vec<Export>,
    /// Whether and how clients may, or must, use TLS.
    pub tls: Option<Tls>,
    /// Limits on the resources that clients can use.
    pub limits: Limits,
    /// The maximum number of concurrent device calls of each kind: reads, writes, and calls that wait for
    /// the disk. Calls of one kind never delay another kind. Each call has its own thread, started at the
    /// beginning.
    pub workers: usize,
    /// Finds exports that clients name, and may pass them on to other servers. Without one there are the exports
    /// of the list alone.
    pub finder: Option<Arc<dyn Finder>>,
    /// Called for each event, on a thread that others wait for: it must not block.
    pub on_event: Arc<dyn Fn(Event<'_>) + Send + Sync>,
}

impl Config {
    /// A configuration that serves `exports` on `listen`, without TLS, on Unix sockets to this user only,
    /// within the default limits, with four workers of each kind per core, and ignores events.
    pub fn new(listen: Vec<Listen>, exports: Vec<Export>) -> Config {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Config {
            listen,
            inherited: Vec::new(),
            unix_mode: 0o600,
            exports,
            tls: None,
            limits: Limits::default(),
            workers: cores * 4,
            finder: None,
            on_event: Arc::new(|_| ()),
        }
    }
}

/// Events of connections, and of requests that reach no device.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A client has chosen an export and is served.
    Served {
        /// The client.
        peer: &'a Address,
        /// The name of the export.
        name: &'a str,
        /// Whether the connection is encrypted.
        is_encrypted: bool,
    },
    /// A request was refused before the device was called: it is out of range, too long, a change of a
    /// read-only export, or not in the protocol.
    Refused {
        /// The client.
        peer: &'a Address,
        /// The name of the export.
        name: &'a str,
        /// The operation, if it is one of these.
        operation: Option<Operation>,
        /// Its offset in bytes.
        offset: u64,
        /// Its length in bytes.
        len: u32,
        /// Why.
        why: &'a str,
    },
    /// A connection has ended.
    Ended {
        /// The client.
        peer: &'a Address,
        /// The name of the export, if the client had chosen one.
        name: Option<&'a str>,
        /// Why, unless the client ended it properly.
        error: Option<&'a NbdError>,
    },
    /// A client could not be accepted, because of a temporary lack of resources.
    NotAccepted {
        /// Why.
        error: &'a std::io::Error,
    },
}
