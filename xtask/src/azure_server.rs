//! The emulator of Azure Blob Storage that the tests start: azurite, from the registry of npm. It lies in a
//! folder of the target folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::programs;
use crate::workspace::{self, Cargo};

/// The emulator, of the version that the tests were written for.
const PACKAGE: &str = "azurite@3.35.0";

/// The file that says what is installed, written last.
const INSTALLED: &str = "onefold-packages";

/// The folder of the emulator, installed if it is missing, or `None` after saying why there is none.
pub(crate) fn install(cargo: Cargo) -> Option<PathBuf> {
    let folder = workspace::target_dir().join("azure-server");
    match make(&folder, cargo) {
        Ok(()) => Some(folder),
        Err(error) => {
            println!("setup: no emulator of Azure: {error:#}; tests that need it skip");
            None
        }
    }
}

fn make(folder: &Path, cargo: Cargo) -> Result<()> {
    let marker = folder.join(INSTALLED);
    if fs::read_to_string(&marker).is_ok_and(|installed| installed == PACKAGE) {
        return Ok(());
    }
    if cargo.offline {
        bail!("not installed, being offline: {PACKAGE}");
    }
    if !programs::on_path("npm") {
        programs::install_packages(cargo, &["nodejs", "npm"])?;
    }
    println!("setup: npm install {PACKAGE}");
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let quiet = ["--no-audit", "--no-fund", "--loglevel=error"];
    let mut npm = Command::new("npm");
    programs::succeed(npm.arg("install").args(quiet).arg("--prefix").arg(folder).arg(PACKAGE))?;
    fs::write(&marker, PACKAGE).with_context(|| marker.display().to_string())
}
