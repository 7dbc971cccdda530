use std::io;
use std::path::PathBuf;
use std::time::Duration;

use onefold_block::BlockError;

use crate::wire::Errno;

/// Why a connection ended other than a client ends one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NbdError {
    /// The client sent what the protocol has not.
    #[error("{what}: found {found}, expected {expected}")]
    Malformed {
        /// Which part of the protocol.
        what: &'static str,
        /// What the client sent.
        found: String,
        /// What belongs there.
        expected: &'static str,
    },
    /// The client went away in the middle of something.
    #[error("the client went away in the middle of {what}")]
    Gone {
        /// Of what.
        what: &'static str,
    },
    /// The client took longer than it may.
    #[error("{what} took longer than {limit:?}")]
    TimedOut {
        /// What it was about.
        what: &'static str,
        /// How long it may take.
        limit: Duration,
    },
    /// The client had not been served yet when others came.
    #[error("the handshake was ended for a newer one, {most} were under way")]
    Displaced {
        /// How many there may be.
        most: u32,
    },
    /// The client asked for an export in the old way, which has no answer but the end.
    #[error("{why}")]
    Refused {
        /// Why it does not get it.
        why: String,
    },
    /// TLS could not be agreed on.
    #[error("TLS: {0}")]
    Tls(#[source] io::Error),
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(#[source] io::Error),
}

/// Why a server did not start, or did not end in peace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// No export can be called so.
    #[error("an export is called {name:?}, expected at most 4,096 bytes and no zero among them")]
    ExportName {
        /// The name.
        name: String,
    },
    /// Two exports are called alike.
    #[error("two exports are called {name:?}, expected different names")]
    SameName {
        /// The name.
        name: String,
    },
    /// Nothing is offered under this name.
    #[error("there is no export {name:?}")]
    NoExport {
        /// The name.
        name: String,
    },
    /// Clients use an export that is to be taken back.
    #[error("export {name:?} is in use by {connections} connections")]
    ExportInUse {
        /// The name.
        name: String,
        /// How many use it.
        connections: usize,
    },
    /// The server has ended.
    #[error("the server has ended")]
    Ended,
    /// The limits contradict one another.
    #[error("the limits leave no service: expected {expected}")]
    Limits {
        /// What they must allow, or forbid.
        expected: &'static str,
    },
    /// Nobody could connect there.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// A socket that was handed over cannot be listened on.
    #[error("cannot listen on socket {socket}, which was handed over: {source}")]
    Inherited {
        /// Its number as a file of this process.
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
    /// Something that is no socket is there.
    #[error("cannot listen on {}: expected a socket or nothing there", path.display())]
    NotASocket {
        /// What is there.
        path: PathBuf,
    },
    /// The system gave no thread or no event queue.
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
    /// The server ended, and some requests had not.
    #[error("requests were still under way {0:?} after the shutdown began; they got no reply")]
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

/// Why a request failed, as a number and in words.
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
