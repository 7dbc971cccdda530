//! Packages of the npm registry, as tars.

use anyhow::Result;

use crate::build::site::{Site, only_file};
use crate::build::tool::{fetch, run_into};
use crate::build::{Cost, MB, Recipe, Sameness, Tool};

const NPM: Tool = Tool::new("npm", "npm");
const GZIP: Tool = Tool::new("gzip", "gzip");
const REGISTRY: &str = "npm registry";

pub(super) const TYPESCRIPT: Recipe = Recipe {
    name: "typescript",
    kind: "source code",
    about: "releases of TypeScript as published, few large files",
    source: Some(REGISTRY),
    choices: &[],
    sameness: Sameness::Bytes(
        "blake3:7427ace5418920978eec2e6364b295a4fc8d86ce089ff279ea9090afd8a1b6b7",
    ),
    tools: &[NPM, GZIP],
    cost: |_| Cost { built: 562 * MB, download: 110 * MB, scratch: 50 * MB },
    build: |site| build(site, "typescript", &TYPESCRIPT_VERSIONS),
};

pub(super) const ESBUILD: Recipe = Recipe {
    name: "esbuild",
    kind: "binaries",
    about: "releases of esbuild's program: data with few duplicates",
    source: Some(REGISTRY),
    choices: &[],
    sameness: Sameness::Bytes(
        "blake3:b413966ba0edf36f93d7e9e7a0f2c780b8321d17fd13230409d39318f4e9b4a0",
    ),
    tools: &[NPM, GZIP],
    cost: |_| Cost { built: 120 * MB, download: 55 * MB, scratch: 20 * MB },
    build: |site| build(site, "@esbuild/linux-x64", &ESBUILD_VERSIONS),
};

/// Oldest first: 17 packages that give a dedup ratio near 4.
const TYPESCRIPT_VERSIONS: [&str; 17] = [
    "5.0.2", "5.0.3", "5.0.4", "5.1.3", "5.1.5", "5.1.6", "5.2.2", "5.3.2", "5.3.3", "5.4.2",
    "5.4.3", "5.4.4", "5.4.5", "5.5.2", "5.5.3", "5.5.4", "5.6.2",
];

/// Oldest first.
const ESBUILD_VERSIONS: [&str; 12] = [
    "0.20.0", "0.20.1", "0.20.2", "0.21.0", "0.21.1", "0.21.2", "0.21.3", "0.21.4", "0.21.5",
    "0.22.0", "0.23.0", "0.23.1",
];

/// `NN-VERSION.tar` for each version, as published.
fn build(site: &Site, package: &str, versions: &[&str]) -> Result<()> {
    let number = |(number, version): (usize, &&str)| format!("{number:02}-{version}.tar");
    let parts: Vec<String> = versions.iter().enumerate().map(number).collect();
    site.each(&parts, |part, to| {
        let version = part.trim_end_matches(".tar").split_once('-').expect("NN-VERSION").1;
        let room = site.room("package")?;
        let what = format!("{package}@{version}");
        let mut command = NPM.command();
        command.args(["pack", "--fetch-retries=1"]);
        command.args(["--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=2000"]);
        command.args(["--loglevel=error", &what]).current_dir(&room);
        fetch(&mut command, &what, REGISTRY)?;
        run_into(GZIP.command().arg("-dc").arg(only_file(&room)?), to)
    })
}
