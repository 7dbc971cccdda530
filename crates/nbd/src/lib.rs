//! Serves block devices by the NBD protocol.
//!
//! A [`Server`] listens on TCP and Unix sockets and gives clients access to its [`Export`]s, each
//! of them a [`BlockDevice`](onefold_block::BlockDevice) under a name. It speaks the fixed newstyle
//! handshake with TLS, simple and structured replies, and the metadata context `base:allocation`.
//! Not spoken: the handshakes before the fixed newstyle, TLS with shared keys, extended headers.
//!
//! # The way of a request
//!
//! ```text
//! socket ── reader ── jobs ──▶ workers ── replies ──▶ writer ── socket
//!              ▲                                         │
//!              └───────── room for requests ◀────────────┘
//! ```
//!
//! Each connection has a reader and a writer, tasks that take no thread while they wait. The
//! reader judges requests, takes buffers and hands jobs to workers, threads that all connections
//! share, which call the device: some for reads, some for writes, and some for what waits for the
//! disk, so that flushes keep no read waiting. Replies leave in the order in which calls end, several at once. A
//! request has room from its header to its reply; where a connection has used all of it, or the
//! server its memory, the reader stops reading.
//!
//! A write reaches the device only when all its bytes have arrived.

mod buffers;
mod command;
mod config;
mod connection;
mod error;
mod export;
mod handshake;
mod inbox;
mod limits;
mod listen;
mod options;
mod outbox;
mod pace;
mod places;
mod reply;
mod server;
mod stream;
mod tls;
mod transmission;
mod wire;
mod workers;

pub use config::{Config, Event};
pub use error::{NbdError, ServerError};
pub use export::Export;
pub use limits::Limits;
pub use listen::{Address, Listen};
pub use server::{BoundServer, ExportList, Server};
pub use tls::{Tls, TlsMode};
