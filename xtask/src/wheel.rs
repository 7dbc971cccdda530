//! The package for Python, built and installed for its tests into a virtual environment in the target
//! folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::programs::succeed;
use crate::python;
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
    "mypy",
];

/// The oldest Python that the package supports.
const OLDEST: (u32, u32) = (3, 11);

/// The Python with the package installed, or why there is none.
pub(crate) fn install(cargo: Cargo) -> Result<PathBuf> {
    ensure_new_python()?;
    let environment = python::environment(cargo, "python/venv", PACKAGES, &[])?;
    let python = environment.join("bin/python");
    let wheels = workspace::target_dir().join("python/wheels");
    if wheels.exists() {
        fs::remove_dir_all(&wheels).with_context(|| wheels.display().to_string())?;
    }
    let mut build = Command::new(environment.join("bin/maturin"));
    build
        .args(["build", "--compatibility", "linux", "--manifest-path", "python/Cargo.toml"])
        .arg("--out")
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

fn ensure_new_python() -> Result<()> {
    let (major, minor) = OLDEST;
    let is_new = format!("import sys; sys.exit(sys.version_info < ({major}, {minor}))");
    let asked = Command::new("python3").args(["-c", &is_new]).status();
    let is_new = asked.is_ok_and(|status| status.success());
    ensure!(is_new, "python3 is older than {major}.{minor}, or there is none");
    Ok(())
}
