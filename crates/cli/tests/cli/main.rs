//! The `onefold` binary, driven as users and scripts drive it.

#![expect(clippy::disallowed_methods, reason = "the tests write sources, not repositories")]

mod bench;
mod bench_page;
mod cache;
mod commands;
mod compat;
mod copy;
mod datasets;
mod datasets_resumed;
mod encryption;
mod end_to_end;
mod exit_codes;
mod forget_and_prune;
mod from_programs;
mod full_disk;
mod going_back;
mod guest;
mod interruption;
mod known_places;
mod lab;
mod latest;
mod mount;
mod nbd;
mod oddities;
mod own_repository;
mod planted;
mod power_cut;
mod presets;
mod repair;
mod restore_onto;
mod s3;
mod said;
mod selection;
mod serve_kill;
mod served;
mod served_pool;
mod serving;
mod side_by_side;
mod streams;
mod trace;
mod tree;
mod tree_equality;
mod unreadable;
mod unsynced;
mod volume;
