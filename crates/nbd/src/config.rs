use std::os::fd::OwnedFd;
use std::sync::Arc;

use onefold_block::Operation;

use crate::{Address, Export, Limits, Listen, NbdError, Tls};

/// What a server serves, where and how.
pub struct Config {
    /// Where clients may connect.
    pub listen: Vec<Listen>,
    /// Sockets on which they may connect as well, which listen already.
    pub inherited: Vec<OwnedFd>,
    /// The permissions of Unix sockets, whatever the umask: who can write to one may connect.
    /// Unless that is this user too, no server can start in the place of one that was killed.
    pub unix_mode: u32,
    /// What they may use at first; see [`Server::exports`](crate::Server::exports).
    pub exports: Vec<Export>,
    /// Whether and how they may encrypt, or must.
    pub tls: Option<Tls>,
    /// What they can make the server spend.
    pub limits: Limits,
    /// How many calls of devices run at once: so many reads, as many writes, and as many calls that
    /// wait for the disk, none of which keeps one of another kind waiting. As many threads are started.
    pub workers: usize,
    /// Is told what happens, by a thread that others wait for: it must not block.
    pub on_event: Arc<dyn Fn(Event<'_>) + Send + Sync>,
}

impl Config {
    /// Serves `exports` on `listen` without TLS, on Unix sockets to nobody but this user, within the
    /// default limits, with four workers of each kind a core, and tells nobody what happens.
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
            on_event: Arc::new(|_| ()),
        }
    }
}

/// What happens to connections, and to requests that come to no device.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A client has chosen an export and is served.
    Served {
        /// Who.
        peer: &'a Address,
        /// Of the export.
        name: &'a str,
        /// Whether the connection is encrypted.
        is_encrypted: bool,
    },
    /// A request was refused before the device was called: it goes beyond the end, is too long, would
    /// change what is read-only, or is none of the protocol.
    Refused {
        /// Whose.
        peer: &'a Address,
        /// Of the export.
        name: &'a str,
        /// What was asked for, if it is one of these.
        operation: Option<Operation>,
        /// Where it would begin, in bytes.
        offset: u64,
        /// Of how many bytes it would be.
        len: u32,
        /// Why.
        why: &'a str,
    },
    /// A connection has ended.
    Ended {
        /// Whose.
        peer: &'a Address,
        /// Of the export, if the client had chosen one.
        name: Option<&'a str>,
        /// Why, if not as a client ends one.
        error: Option<&'a NbdError>,
    },
    /// A client could not be let in, for want of something that may come back.
    NotAccepted {
        /// Why.
        error: &'a std::io::Error,
    },
}
