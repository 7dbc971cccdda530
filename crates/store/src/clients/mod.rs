//! Write-only clients: each has a number and a key of its own, which its owner can take back.
//!
//! What is known of a client is in words on it, at most three objects that are put one after the
//! other: that it was added, that its key is taken back, and which of its snapshots stay. With the
//! third its snapshots count no more, but for those that it names, each with the check of its object:
//! what was backed up while the key was good stays, and nothing can take its place. Where these are too
//! many for one object, *parts* name them that are put before, and the third word has their checks.
//!
//! A client that commits looks, once its snapshot is there, whether its key is being taken back, and
//! whoever takes it back says so before he looks for its snapshots. So of a snapshot that was
//! acknowledged the third word always knows.

pub(crate) mod clear;
pub(crate) mod list;
mod put;
mod revoke;
