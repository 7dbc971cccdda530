//! The S3 server that the tests start: moto, from the Python package index, with all that it
//! needs pinned. It lies in a virtual environment in the target folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::programs;
use crate::workspace::{self, Cargo};

/// The server and what its S3 part needs, of the versions that the tests were written for.
const PACKAGES: &[&str] =
    &["moto[s3]==5.2.5", "boto3==1.44.5", "flask==3.1.3", "flask-cors==6.0.5", "werkzeug==3.1.9"];

/// The file that says what is installed, written last.
const INSTALLED: &str = "onefold-packages";

/// The folder of the server, installed if it is missing, or `None` after saying why there is none.
pub fn install(cargo: Cargo) -> Option<PathBuf> {
    let folder = workspace::target_dir().join("s3-server");
    match make(&folder, cargo) {
        Ok(()) => Some(folder),
        Err(error) => {
            println!("setup: no S3 server: {error:#}; tests that need it skip");
            None
        }
    }
}

fn make(folder: &Path, cargo: Cargo) -> Result<()> {
    let wanted = PACKAGES.join(" ");
    let marker = folder.join(INSTALLED);
    if fs::read_to_string(&marker).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    if cargo.offline {
        bail!("not installed, being offline: {wanted}");
    }
    if !has_venv() {
        println!("setup: python3 cannot make a virtual environment for the S3 server of the tests");
        programs::install_packages(cargo, &["python3-venv"])?;
    }
    println!("setup: pip install {wanted}");
    programs::succeed(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder))?;
    let pip = ["-m", "pip", "--quiet", "--disable-pip-version-check", "install"];
    programs::succeed(Command::new(folder.join("bin/python")).args(pip).args(PACKAGES))?;
    fs::write(&marker, wanted).with_context(|| marker.display().to_string())
}

/// Whether Python is there with the part that Debian packages apart.
fn has_venv() -> bool {
    let mut python = Command::new("python3");
    python.args(["-c", "import ensurepip, venv"]).stdin(Stdio::null()).stderr(Stdio::null());
    python.status().is_ok_and(|status| status.success())
}
