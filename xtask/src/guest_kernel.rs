//! The kernel of the guest that keeps its disks in volumes: Debian's, unpacked in the target folder
//! and not installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::programs;
use crate::workspace::{self, Cargo};

/// The package that depends on the newest kernel for virtual machines; only x86-64 has one by this
/// name.
const NEWEST: &str = "linux-image-cloud-amd64";

/// The folder of the kernel, fetched if it is missing, or `None` after saying why there is none.
pub(crate) fn fetch(cargo: Cargo) -> Option<PathBuf> {
    let folder = workspace::target_dir().join("guest-kernel");
    match make(&folder, cargo) {
        Ok(()) => Some(folder),
        Err(error) => {
            println!("setup: no kernel for a guest: {error:#}; tests that need it skip");
            None
        }
    }
}

fn make(folder: &Path, cargo: Cargo) -> Result<()> {
    if folder.exists() {
        return Ok(());
    }
    ensure!(!cargo.offline, "not fetched, being offline: {NEWEST}");
    let part = folder.with_extension("part");
    if part.exists() {
        fs::remove_dir_all(&part).with_context(|| part.display().to_string())?;
    }
    fs::create_dir_all(&part).with_context(|| part.display().to_string())?;
    // There may be no list of packages, or one of packages that have gone.
    if download(&part).is_err() {
        ensure!(programs::update_packages(), "apt-get could not update its lists");
        download(&part)?;
    }
    let unpacked = part.join("unpacked");
    programs::succeed(
        Command::new("dpkg-deb").arg("--extract").arg(package(&part)?).arg(&unpacked),
    )?;
    fs::rename(&unpacked, folder).with_context(|| folder.display().to_string())?;
    fs::remove_dir_all(&part).with_context(|| part.display().to_string())
}

/// Brings the package of the newest kernel into `folder`.
fn download(folder: &Path) -> Result<()> {
    let output = Command::new("apt-cache")
        .args(["depends", "--important", NEWEST])
        .stdin(Stdio::null())
        .output()
        .context("apt-cache")?;
    let depends = String::from_utf8_lossy(&output.stdout);
    let kernel = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
    let kernel = kernel.with_context(|| format!("apt-cache knows no package {NEWEST}"))?;
    println!("setup: apt-get download {kernel}");
    programs::succeed(Command::new("apt-get").args(["download", kernel]).current_dir(folder))
}

/// The only file in `folder`.
fn package(folder: &Path) -> Result<PathBuf> {
    let mut files = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let file = files.next().context("apt-get downloaded nothing")??;
    Ok(file.path())
}
