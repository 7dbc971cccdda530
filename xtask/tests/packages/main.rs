//! What `cargo xtask dist` makes, installed and driven as users do.

#![allow(clippy::disallowed_methods, reason = "writes settings and sources to a root of its own")]

mod in_clean_root;
mod root;
