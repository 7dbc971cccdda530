use std::io;
use std::path::PathBuf;
use std::time::Duration;

use onefold_block::BlockError;

use crate::wire::Errno;

/// Why a connection ended, unless the client ended it properly.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NbdError {
    /// The client violated the protocol.
    #[error("{what}: found {found}, expected {expected}")]
    Malformed {
        /// Which part of the protocol.
        what: &'static str,
        /// What the client sent.
        found: String,
        /// What the protocol requires.
        expected: &'static str,
    },
    /// The client disconnected in the middle of something.
    #[error("the client disconnected in the middle of {what}")]
    Gone {
        /// Of what.
        what: &'static str,
    },
    /// The client exceeded a time limit.
    #[error("{what} took longer than {limit:?}")]
    TimedOut {
        /// What it was doing.
        what: &'static str,
        /// The limit.
        limit: Duration,
    },
    /// The client's handshake was ended to make place for a newer client.
    #[error("the handshake was ended for a newer one, because {most} were in progress")]
    Displaced {
        /// The maximum number of handshakes.
        most: u32,
    },
    /// The client requested an export by the old option, which can only be refused by closing the
    /// connection.
    #[error("{why}")]
    Refused {
        /// Why the export was refused.
        why: String,
    },
    /// The export is at another server, and the connection to it has ended.
    #[error("the connection to the server at {place} ended{}", of(source))]
    Upstream {
        /// The other server.
        place: String,
        /// Why, if that is known.
        source: Option<io::Error>,
    },
    /// The TLS handshake failed.
    #[error("TLS: {0}")]
    Tls(#[source] io::Error),
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(#[source] io::Error),
}

fn of(source: &Option<io::Error>) -> String {
    source.as_ref().map_or_else(String::new, |source| format!(": {source}"))
}

/// Why a server did not start, or did not shut down cleanly.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The name of an export is not allowed.
    #[error("an export is named {name:?}, expected at most 4,096 bytes without zeros")]
    ExportName {
        /// The name.
        name: String,
    },
    /// Two exports have the same name.
    #[error("two exports are named {name:?}, expected different names")]
    SameName {
        /// The name.
        name: String,
    },
    /// There is no export of this name.
    #[error("there is no export {name:?}")]
    NoExport {
        /// The name.
        name: String,
    },
    /// Clients use an export that was to be removed.
    #[error("export {name:?} is in use by {connections} connections")]
    ExportInUse {
        /// The name.
        name: String,
        /// The number of connections that use it.
        connections: usize,
    },
    /// The server has ended.
    #[error("the server has ended")]
    Ended,
    /// The limits contradict the protocol or one another.
    #[error("invalid limits: expected {expected}")]
    Limits {
        /// The violated condition.
        expected: &'static str,
    },
    /// The server cannot listen on an address.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The server cannot listen on an inherited socket.
    #[error("cannot listen on the inherited socket {socket}: {source}")]
    Inherited {
        /// Its file descriptor.
        socket: i32,
        /// Why.
        source: io::Error,
    },
    /// Another server listens there.
    #[error("cannot listen on {}: another server does", path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// The path exists and is not a socket.
    #[error("cannot listen on {}: expected a socket or nothing there", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The system could not create threads or an event queue.
    #[error("cannot start threads: {0}")]
    Threads(#[source] io::Error),
    /// A certificate or key cannot be used.
    #[error("{}: {why}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The server ended before some requests were completed.
    #[error("requests were still in flight {0:?} after the shutdown began; they got no reply")]
    StillBusy(Duration),
    /// The last flush of a device failed.
    #[error("cannot flush export {name:?}: {source}")]
    Flush {
        /// The export.
        name: String,
        /// Why.
        source: BlockError,
    },
}

/// Why a request failed, as an error number and a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) errno: Errno,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(errno: Errno, message: impl Into<String>) -> Failure {
        Failure { errno, message: message.into() }
    }
}

impl From<BlockError> for Failure {
    fn from(error: BlockError) -> Failure {
        let errno = match error {
            BlockError::NoSpace { .. } => Errno::NoSpace,
            BlockError::ReadOnly => Errno::Perm,
            BlockError::OutOfRange { .. }
            | BlockError::BadSize { .. }
            | BlockError::NotSupported { .. } => Errno::Invalid,
            BlockError::ShuttingDown => Errno::Shutdown,
            BlockError::Slow => Errno::NotSupported,
            _ => Errno::Io,
        };
        Failure::new(errno, error.to_string())
    }
}
