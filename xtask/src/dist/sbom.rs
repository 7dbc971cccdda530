//! The list of all crates that are in the program, as a CycloneDX document.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::tools;
use crate::programs;
use crate::workspace::{self, Cargo};

/// What the document is called.
pub(crate) const NAME: &str = "onefold.cdx.json";

/// Writes the document to `file`, for the program with default features.
///
/// # Errors
///
/// If the tool cannot be installed, or fails.
pub(crate) fn write(cargo: Cargo, file: &Path, time: &str) -> Result<()> {
    let tool = tools::install(cargo, "cargo-cyclonedx", "0.5.9")?;
    // The tool writes beside each manifest of the workspace, so it gets a copy.
    let copy = workspace::target_dir().join("sbom-source");
    super::copy_source(&copy)?;
    let stem = NAME.strip_suffix(".json").expect("it ends so");
    programs::succeed(
        Command::new(&tool)
            .args(["cyclonedx", "--format", "json"])
            .args(["--override-filename", stem, "--manifest-path", "crates/cli/Cargo.toml"])
            .env("SOURCE_DATE_EPOCH", time)
            .current_dir(&copy),
    )?;
    let made = copy.join("crates/cli").join(NAME);
    let document = fs::read(&made).with_context(|| made.display().to_string())?;
    fs::write(file, document).with_context(|| file.display().to_string())
}
