//! The package for Python, built and installed for its tests into a virtual environment in the target
//! folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::programs::{self, succeed};
use crate::workspace::{self, Cargo};

/// What builds the package, and what its tests use.
const PACKAGES: &[&str] = &[
    "maturin==1.16.0",
    "pytest",
    "hypothesis",
    "numpy",
    "pyarrow",
    "pandas",
    "dask[dataframe]",
    "fsspec",
    "nbclient",
    "nbformat",
    "ipykernel",
    "mypy",
];

/// The file that says what is installed, written last.
const INSTALLED: &str = "onefold-packages";

/// The oldest Python that the package supports.
const OLDEST: (u32, u32) = (3, 11);

/// The Python with the package installed, or why there is none.
pub(crate) fn install(cargo: Cargo) -> Result<PathBuf> {
    let folder = workspace::target_dir().join("python");
    let environment = folder.join("venv");
    let python = environment.join("bin/python");
    make(&environment, cargo)?;
    let wheels = folder.join("wheels");
    if wheels.exists() {
        fs::remove_dir_all(&wheels).with_context(|| wheels.display().to_string())?;
    }
    let mut build = Command::new(environment.join("bin/maturin"));
    build
        .args([
            "build",
            "--compatibility",
            "linux",
            "--manifest-path",
            "python/Cargo.toml",
            "--out",
        ])
        .arg(&wheels)
        .arg("--interpreter")
        .arg(&python)
        .current_dir(workspace::root());
    if cargo.offline {
        build.arg("--offline");
    }
    succeed(&mut build)?;
    let wheel = fs::read_dir(&wheels)?.next().context("maturin made no wheel")??.path();
    let pip = ["-m", "pip", "--quiet", "--disable-pip-version-check", "install"];
    succeed(Command::new(&python).args(pip).args(["--no-deps", "--force-reinstall"]).arg(wheel))?;
    Ok(python)
}

/// The command that runs the tests by `python`.
pub(crate) fn tests(python: &Path) -> Command {
    // Not `python -m pytest`, which would import the sources beside the tests.
    let mut command = Command::new(python.with_file_name("pytest"));
    command.arg("-q").current_dir(workspace::root().join("python"));
    command
}

fn make(environment: &Path, cargo: Cargo) -> Result<()> {
    let wanted = PACKAGES.join(" ");
    let marker = environment.join(INSTALLED);
    if fs::read_to_string(&marker).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    if cargo.offline {
        bail!("not installed, being offline: {wanted}");
    }
    let (major, minor) = OLDEST;
    let is_new = format!("import sys; sys.exit(sys.version_info < ({major}, {minor}))");
    let asked = Command::new("python3").args(["-c", &is_new]).status();
    if !asked.is_ok_and(|status| status.success()) {
        bail!("python3 is older than {major}.{minor}, or there is none");
    }
    let has_venv = Command::new("python3").args(["-c", "import ensurepip, venv"]).status();
    if !has_venv.is_ok_and(|status| status.success()) {
        programs::install_packages(cargo, &["python3-venv"])?;
    }
    println!("setup: pip install {wanted}");
    succeed(Command::new("python3").args(["-m", "venv", "--clear"]).arg(environment))?;
    let pip = ["-m", "pip", "--quiet", "--disable-pip-version-check", "install"];
    succeed(Command::new(environment.join("bin/python")).args(pip).args(PACKAGES))?;
    fs::write(&marker, wanted).with_context(|| marker.display().to_string())
}
