//! Packages of the Python package index, pinned, each set in a virtual environment in the target folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::programs;
use crate::workspace::{self, Cargo};

/// The file that says what is installed, written last.
const INSTALLED: &str = "onefold-packages";

/// The virtual environment `name` with `packages`, which `pip` installs with `options` if they are missing.
///
/// # Errors
///
/// If they are missing and cannot be installed.
pub(crate) fn environment(
    cargo: Cargo,
    name: &str,
    packages: &[&str],
    options: &[&str],
) -> Result<PathBuf> {
    let folder = workspace::target_dir().join(name);
    install(&folder, packages, options, cargo)?;
    Ok(folder)
}

fn install(folder: &Path, packages: &[&str], options: &[&str], cargo: Cargo) -> Result<()> {
    let wanted = packages.join(" ");
    let marker = folder.join(INSTALLED);
    if fs::read_to_string(&marker).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    if cargo.offline {
        bail!("not installed, being offline: {wanted}");
    }
    if !has_venv() {
        println!("setup: python3 cannot make a virtual environment");
        programs::install_packages(cargo, &["python3-venv"])?;
    }
    println!("setup: pip install {wanted}");
    programs::succeed(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder))?;
    let pip = ["-m", "pip", "--quiet", "--disable-pip-version-check", "install"];
    programs::succeed(
        Command::new(folder.join("bin/python")).args(pip).args(options).args(packages),
    )?;
    fs::write(&marker, wanted).with_context(|| marker.display().to_string())
}

/// Where a virtual environment has its packages.
pub(crate) fn site_packages(environment: &Path) -> Result<PathBuf> {
    let mut versions = fs::read_dir(environment.join("lib"))?;
    let found = versions.next().context("no Python in the folder")??;
    Ok(found.path().join("site-packages"))
}

/// Whether Python is there with the part that Debian packages apart.
fn has_venv() -> bool {
    let mut python = Command::new("python3");
    python.args(["-c", "import ensurepip, venv"]).stdin(Stdio::null()).stderr(Stdio::null());
    python.status().is_ok_and(|status| status.success())
}
