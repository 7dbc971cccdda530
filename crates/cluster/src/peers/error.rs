//! Why a gateway gave no answer.

use std::net::SocketAddr;

use onefold_seal::ObjectId;
use onefold_seal::wire::WireError;

/// Why another gateway gave no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// There is no connection to it.
    #[error("gateway {gateway} at {address} cannot be reached: {why}")]
    Unreachable {
        /// The gateway.
        gateway: ObjectId,
        /// Where it was expected.
        address: SocketAddr,
        /// Why.
        why: String,
    },
    /// It refused the message.
    #[error("gateway {gateway} at {address} refused '{message}' ({status}): {why}")]
    Refused {
        /// The gateway.
        gateway: ObjectId,
        /// Where it is.
        address: SocketAddr,
        /// The message.
        message: &'static str,
        /// The status of HTTP.
        status: u16,
        /// Its reason.
        why: String,
    },
    /// The connection broke after the message was sent: it may have been carried out.
    #[error(
        "gateway {gateway} at {address} did not answer '{message}', and may have acted on it: {why}"
    )]
    Broken {
        /// The gateway.
        gateway: ObjectId,
        /// Where it was.
        address: SocketAddr,
        /// The message.
        message: &'static str,
        /// Why.
        why: String,
    },
    /// Its answer does not have the form that it must have.
    #[error(
        "gateway {gateway} at {address} answered '{message}' with bytes that this version does not know"
    )]
    Malformed {
        /// The gateway.
        gateway: ObjectId,
        /// Where it is.
        address: SocketAddr,
        /// The message.
        message: &'static str,
        /// What is wrong.
        source: WireError,
    },
    /// A message would be longer than its kind may be.
    #[error("a message '{message}' of {len} bytes, expected at most {most}")]
    TooLong {
        /// The message.
        message: &'static str,
        /// Its length in bytes.
        len: usize,
        /// The limit in bytes.
        most: usize,
    },
    /// No certificate could be made, or TLS refuses the cluster's authority.
    #[error("no certificate for TLS: {0}")]
    Certificate(String),
    /// The system refuses threads or sockets.
    #[error("cannot {what}")]
    System {
        /// What was to be done.
        what: &'static str,
        /// Why not.
        source: std::io::Error,
    },
}
