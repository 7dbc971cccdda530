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
//! The store knows no terminal: it reports through [`Progress`] and typed reports. Which folder may
//! import from which is in ARCHITECTURE.md, under "Floors".

pub mod backup;
mod bundles;
mod cancel;
pub mod check;
mod chunks;
mod clients;
#[cfg_attr(not(feature = "seeded-bugs"), doc(hidden))]
pub mod clock;
mod contents;
pub mod copy;
pub mod diff;
pub mod dump;
mod error;
mod examine;
pub mod find;
mod finding;
pub mod forget;
mod history;
pub mod import;
mod keys;
mod local;
mod objects;
mod patterns;
mod progress;
pub mod prune;
mod reading;
pub mod repair;
mod repository;
pub mod restore;
#[cfg_attr(not(feature = "seeded-bugs"), doc(hidden))]
pub mod seeded;
mod session;
mod sighting;
pub mod stats;
mod system;
mod threads;
pub mod tree;
mod view;
mod writing;

pub use cancel::Cancel;
pub use chunks::loaded::IndexPlace;
pub use chunks::place::Place;
pub use clients::clear::Cleared;
pub use clients::list::{ClientInfo, ClientList, KeyId};
pub use error::StoreError;
pub use finding::Warning;
pub use keys::locked::Locked;
pub use keys::pair::{KeyPair, parse_public_key};
pub use keys::text::ParseKeyError;
pub use keys::wrapped::{KeyInfo, KeyList};
pub use keys::writer::WriteOnlyKey;
pub use local::cache::ObjectCache;
pub use local::known::KnownRepositories;
pub use objects::bundle::decode as decode_bundle;
pub use objects::client::ClientRecord;
pub use objects::config::Config;
pub use objects::entry::LogEntry;
pub use objects::intent::Intent;
pub use objects::key::KeyRemark;
pub use objects::seen::Seen;
pub use objects::snapshot::{Snapshot, SnapshotSpec, Summary};
pub use patterns::select::PatternError;
pub use progress::{Act, Issue, IssueKind, Outcome, Progress};
pub use repository::Repository;
pub use session::open::Located;
pub use session::snapshots::SnapshotList;
pub use sighting::Sighting;
pub use tree::recipe::Recipe;
pub use view::View;
