//! `cargo deny`, which holds the dependencies to deny.toml.

use std::process::Command;

use anyhow::Result;

use super::tools;
use crate::programs;
use crate::workspace::{self, Cargo};

/// Checks licences, duplicates and sources of the dependencies. Advisories are left out: their list is in no
/// package registry.
///
/// # Errors
///
/// If the tool cannot be installed, or finds something.
pub(crate) fn check(cargo: Cargo) -> Result<()> {
    let tools = tools::install(cargo, "cargo-deny", "0.20.2")?;
    let mut deny = Command::new(tools.join("cargo-deny"));
    deny.args(["check", "licenses", "bans", "sources"]).current_dir(workspace::root());
    programs::succeed(&mut deny)
}
