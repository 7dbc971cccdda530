//! Programs of crates.io that a release needs, of fixed versions, in the target folder.
//!
//! They run for seconds and take minutes to build, so they are built without optimisation.

use std::path::PathBuf;

use anyhow::Result;

use crate::programs;
use crate::workspace::{self, Cargo};

/// The folder with the programs of the crate `package`, which is installed if it is missing.
///
/// # Errors
///
/// If it cannot be installed.
pub(crate) fn install(cargo: Cargo, package: &str, version: &str) -> Result<PathBuf> {
    let folder = workspace::target_dir().join("tools").join(format!("{package}-{version}"));
    // cargo writes this file last
    if !folder.join(".crates.toml").exists() {
        println!("setup: cargo install {package}");
        let mut install = cargo.command();
        install.args(["install", package, "--version", version, "--locked", "--debug"]);
        install.arg("--root").arg(&folder);
        programs::succeed(&mut install)?;
    }
    Ok(folder.join("bin"))
}
