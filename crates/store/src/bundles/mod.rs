//! Bundles: exact copies of many small objects in one, so that whoever has no copies of its own reads
//! a few bundles instead of thousands of log entries, snapshots and index runs.
//!
//! Nothing depends on a bundle. What a copy must pass before it counts is in `history::chain` for log
//! entries, in `history::snapshots` for snapshots and in `session::index` for runs; which bundles there
//! are is decided in `arrange`. Why nobody gains by a bundle is argued in docs/security.md.

mod arrange;
mod compare;
mod open;
mod shelf;

pub(crate) use self::arrange::{Arranged, arrange, arrange_after_backup};
pub(crate) use self::compare::compare;
