//! What a pool of volumes promises, checked from outside.

#[path = "../common/mod.rs"]
mod common;
#[path = "../format_reader/mod.rs"]
mod format_reader;

mod acknowledged;
mod crash;
mod dying;
mod failures;
mod forged;
mod format;
mod full;
mod gate;
mod model;
mod neighbours;
mod nodes;
mod opening;
mod over;
mod pass_on;
mod place;
mod reads;
mod repair;
mod replaced;
mod scrub;
mod shards;
mod takeover;
mod threads;
mod transfer;
mod upgrade;
mod verify;
mod writes;
