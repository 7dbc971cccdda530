//! Tests that measure what the whole process allocates. They take turns, by [`common::attacked::ALONE`].

#[path = "../common/mod.rs"]
mod common;

mod bounded;
mod hostile;
mod hostile_objects;
mod hostile_sealed;
mod memory;

use common::watched::Watched;

#[global_allocator]
static WATCHED: Watched = Watched;
