//! The commands of `cargo lab`, driven as users drive them.

#![expect(clippy::disallowed_methods, reason = "the tests write sources, not repositories")]

mod datasets;
mod datasets_resumed;
mod lab;
mod page;
mod trace;
