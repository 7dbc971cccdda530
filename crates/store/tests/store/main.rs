//! What a repository promises, checked from outside: tests that share a process.
//!
//! Those that need one for themselves are beside this folder: they switch errors on, set the clock, or look
//! at all threads.

#[path = "../common/mod.rs"]
mod common;
#[path = "../format_reader/mod.rs"]
mod format_reader;

mod accelerator;
mod backup;
mod bundles;
mod clients;
mod coarse;
mod copies;
mod copy;
mod crash;
mod damage;
mod devices;
mod encryption;
mod faults;
mod format;
mod full_paths;
mod index_damage;
mod index_place;
mod interleaved;
mod large;
mod later;
mod liars;
mod logs;
mod meanwhile;
mod merge;
mod parent;
mod prune;
mod reading;
mod repair;
mod restore;
mod restored_rights;
mod seeds;
mod shares;
mod sources;
mod unreachable;
mod walk;
mod write_only;
