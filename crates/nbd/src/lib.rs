//! Serves block devices over the NBD protocol.
//!
//! A [`Server`] listens on TCP and Unix sockets and gives clients access to its [`Export`]s, each
//! of them a [`BlockDevice`](onefold_block::BlockDevice) under a name. It speaks the fixed newstyle
//! handshake with TLS, simple and structured replies, and the metadata context `base:allocation`.
//! It does not support older handshakes, TLS with pre-shared keys or extended headers.
//!
//! # Path of a request
//!
//! ```text
//! socket ── reader ── jobs ──▶ workers ── replies ──▶ writer ── socket
//!              ▲                                         │
//!              └──────────── request slots ◀─────────────┘
//! ```
//!
//! Each connection has a reader task and a writer task, which occupy no thread while they wait. The reader
//! validates requests, takes buffers and hands jobs to workers. Workers are threads that all connections
//! share and that call the device. Reads, writes and calls that wait for the disk have separate workers,
//! so that flushes do not delay reads. Replies leave in the order in which calls complete, several
//! together. A request occupies a slot of its connection from its header to its reply. While all slots of
//! the connection, or all memory of the server, are in use, the reader stops reading.
//!
//! A write reaches the device only when all its bytes have arrived. When a client closes its connection
//! without a farewell, requests that have not begun are dropped: the client may have sent them again, on
//! another connection.
//!
//! With a [`Finder`] a server passes the connections of some exports on to other servers, byte by byte.

mod buffers;
mod command;
mod config;
mod connection;
mod error;
mod export;
mod finder;
mod handshake;
mod inbox;
mod limits;
mod listen;
mod options;
mod outbox;
mod pace;
mod places;
mod relay;
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
pub use finder::{Finder, Found, Upstream};
pub use limits::Limits;
pub use listen::{Address, Listen};
pub use server::{BoundServer, ExportList, Server};
pub use tls::{Tls, TlsMode};

/// Runs what the file that readers see first shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
