//! How gateways talk to one another, and commands to gateways: HTTP/2 over TLS, whose certificates both sides
//! check. docs/decisions/0055-peers.md says why.
//!
//! | file | content |
//! | --- | --- |
//! | outbox.rs | hints that wait to be told to another gateway |
//! | client.rs | connections to others, and what is asked there |
//! | server.rs | answers to others |
//! | message.rs | the messages, their limits, and their bytes |
//! | authority.rs | the key of the cluster, and the certificates that it signs |
//! | place.rs | where a gateway is, as bytes of its record |
//! | error.rs | why there is no answer |

mod authority;
mod client;
mod error;
pub(crate) mod message;
pub(crate) mod outbox;
mod place;
mod server;
#[cfg(test)]
mod tests;

pub use authority::Authority;
pub use client::control;
pub use error::PeerError;
pub use message::{MAX_CONTROL, MAX_CONTROL_ANSWER, MAX_PAGES, VERSION};
pub use place::{decode_address, encode_address};
pub use server::{Asker, OnRefused};

pub(crate) use authority::Identity;
pub(crate) use client::{Peer, Traffic, name};
pub(crate) use server::{Answers, Limits, Server};

use std::net::SocketAddr;

use crate::hints::GatewayId;

/// The gateways that are alive, and where each answers others.
pub trait Members: Send + Sync {
    /// All that are known to be alive. This gateway may be among them. Called once a second, and may block.
    fn living(&self) -> Vec<(GatewayId, SocketAddr)>;
}

impl<F: Fn() -> Vec<(GatewayId, SocketAddr)> + Send + Sync> Members for F {
    fn living(&self) -> Vec<(GatewayId, SocketAddr)> {
        self()
    }
}
