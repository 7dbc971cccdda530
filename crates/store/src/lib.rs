//! The repository: what a backup leaves behind, and how it comes back.
//!
//! Writes flow one way. [`backup`] reads a source, cuts it into chunks, fingerprints them, claims
//! the new ones in the index and appends them to containers; a file becomes a [`Recipe`], a
//! directory a [`tree`], both chunks themselves; and only when all of them are durable does a
//! [`Snapshot`] appear that refers to them, then the receipt that acknowledges it and an entry in
//! the writer's log. Reads start from a snapshot: [`restore`], [`check`], [`diff`], [`stats`]. [`forget`] takes snapshots away and
//! [`prune`] what only they needed.
//!
//! The order *chunk durable → recipe and tree durable → snapshot → receipt → log entry*
//! is what makes a crash
//! at any point harmless: something may be left that nobody refers to, nothing is ever referred to
//! that is not there.
//!
//! The store knows no terminal: it reports through [`Progress`] and typed reports.

mod alive;
pub mod backup;
mod both;
mod bring;
mod bundle;
mod cache;
pub mod check;
mod chunk_bits;
mod chunks;
mod client;
#[cfg_attr(not(feature = "seeded-bugs"), doc(hidden))]
pub mod clock;
mod config;
pub mod copy;
pub mod diff;
pub mod dump;
mod early;
mod entries;
mod error;
mod fence;
mod fetch;
pub mod find;
pub mod forget;
mod globs;
mod graft;
mod groups;
mod history;
mod inodes;
mod intent;
mod key_text;
mod keys;
mod known;
mod layout;
mod loaded;
mod log;
mod mark;
mod memory;
mod object;
mod pair;
mod place;
mod press;
mod progress;
pub mod prune;
mod read_ahead;
mod receipt;
mod recipe;
pub mod repair;
mod repository;
pub mod restore;
mod scratch;
#[cfg_attr(not(feature = "seeded-bugs"), doc(hidden))]
pub mod seeded;
mod select;
mod slots;
mod snapshot;
pub mod stats;
mod threads;
pub mod tree;
mod trees_ahead;
mod view;
mod windows;
mod writer;

pub use bundle::decode as decode_bundle;
pub use cache::ObjectCache;
pub use client::{ClientInfo, ClientList, ClientWord};
pub use config::Config;
pub use error::StoreError;
pub use history::Seen;
pub use intent::Intent;
pub use key_text::ParseKeyError;
pub use keys::{Cleared, KeyId, KeyInfo, KeyList, KeyRemark, Locked};
pub use known::{KnownRepositories, Sighting};
pub use loaded::IndexPlace;
pub use log::LogEntry;
pub use pair::{KeyPair, parse_public_key};
pub use place::Place;
pub use progress::{Act, Cancel, Issue, IssueKind, Outcome, Progress};
pub use recipe::Recipe;
pub use repository::{Located, Repository, SnapshotList, Warning};
pub use select::PatternError;
pub use snapshot::{Snapshot, SnapshotSpec, Summary};
pub use view::View;
pub use writer::WriteOnlyKey;
