//! Python packages with compiled code, unpacked.

use anyhow::Result;

use crate::build::site::{Site, only_file};
use crate::build::tool::{fetch, run};
use crate::build::{Cost, MB, Recipe, Sameness, Tool};

const PYTHON: Tool = Tool::new("python3", "python3-pip");
const INDEX: &str = "Python Package Index";

pub(super) const NUMPY: Recipe = Recipe {
    name: "numpy",
    kind: "binaries",
    about: "NumPy 1.26.0 to 1.26.4, unpacked wheels",
    source: Some(INDEX),
    choices: &[],
    sameness: Sameness::Bytes(
        "blake3:9ca0045e2cb79fb14ea792be40bdcababa894f102e7c0fb976d1d4d43c705822",
    ),
    tools: &[PYTHON],
    cost: |_| Cost { built: 325 * MB, download: 92 * MB, scratch: 90 * MB },
    build: |site| build(site, "numpy", &["1.26.0", "1.26.1", "1.26.2", "1.26.3", "1.26.4"]),
};

pub(super) const RUFF: Recipe = Recipe {
    name: "ruff",
    kind: "binaries",
    about: "releases of Ruff's program: data with few duplicates",
    source: Some(INDEX),
    choices: &[],
    sameness: Sameness::Bytes(
        "blake3:aeb85fb74aac1aca1c538e7023022e2fdcc18130f3ae9527bcb726152c3f4781",
    ),
    tools: &[PYTHON],
    cost: |_| Cost { built: 180 * MB, download: 70 * MB, scratch: 40 * MB },
    build: |site| {
        build(
            site,
            "ruff",
            &["0.4.1", "0.4.2", "0.4.3", "0.4.4", "0.4.5", "0.4.6", "0.4.7", "0.4.8"],
        )
    },
};

/// The wheel for Linux of each version, unpacked into a folder of its name.
fn build(site: &Site, package: &str, versions: &[&str]) -> Result<()> {
    site.each(versions, |version, to| {
        let room = site.room("wheel")?;
        let what = format!("{package}=={version}");
        let mut command = PYTHON.command();
        command.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check"]);
        command.args(["--retries", "1", "--no-deps", "--only-binary", ":all:"]);
        command.args(["--platform", "manylinux_2_17_x86_64", "--python-version", "311"]);
        fetch(command.arg("--dest").arg(&room).arg(&what), &what, INDEX)?;
        run(PYTHON.command().args(["-m", "zipfile", "-e"]).arg(only_file(&room)?).arg(to))
    })
}
