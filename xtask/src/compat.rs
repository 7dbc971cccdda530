//! The repositories in compat/: kept so that every later program can be held to reading them.

use anyhow::{Context, Result, ensure};

use crate::workspace::{self, Cargo};

/// Makes those anew of which the format is not frozen yet, and reads them.
pub(crate) fn make(cargo: Cargo) -> Result<()> {
    let folder = workspace::root().join("compat");
    let status = cargo
        .command()
        .args(["test", "--quiet", "--package", "onefold", "--test", "cli", "--"])
        .arg("compat::a_fixture_that_is_made_now_is_read_as_it_was_meant")
        .env("ONEFOLD_COMPAT", &folder)
        .status()
        .context("cargo test")?;
    ensure!(status.success(), "the fixture was not made or cannot be read: {status}");
    println!("compat: made {}", folder.join("v1-candidate").display());
    Ok(())
}
