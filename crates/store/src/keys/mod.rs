//! The keys of an encrypted repository: unlocking it, and adding, removing and rotating keys.
//!
//! One object for each password wraps the master key. The sealing keys of epochs from 1 on are
//! objects of their own, sealed under a key that follows from the master key; so a rotation needs
//! no other password than the one at hand, and rewrites nothing.

pub(crate) mod epochs;
pub(crate) mod locked;
pub(crate) mod pair;
pub(crate) mod removals;
pub(crate) mod text;
pub(crate) mod wrapped;
pub(crate) mod writer;
