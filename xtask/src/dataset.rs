//! Datasets that anyone can fetch again, byte for byte.
//!
//! Kubernetes comes as Go modules: immutable zips whose sums a public log vouches for, so the same
//! version is the same tree on every machine and in every year.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::programs;

/// What the tests use: a neighbour (v1.26.1) and two steps of growing distance.
pub(crate) const TEST_VERSIONS: [&str; 4] = ["v1.26.0", "v1.26.1", "v1.27.0", "v1.28.0"];

/// Zipped and unpacked size of one version, about, in MB.
const VERSION_MB: (usize, usize) = (17, 72);

/// Holds the module cache while versions are fetched; a dot, so that no `v*` matches it.
const DOWNLOAD_FOLDER: &str = ".download";

/// The first `count` of the thirty versions v1.26.0 to v1.31.4, oldest minor release first.
pub(crate) fn first_versions(count: usize) -> Vec<String> {
    (26..=31)
        .flat_map(|minor| (0..=4).map(move |patch| format!("v1.{minor}.{patch}")))
        .take(count)
        .collect()
}

/// An input of golden vectors that another project publishes: a file of a Go module.
struct VectorInput {
    name: &'static str,
    module: &'static str,
    version: &'static str,
    path: &'static str,
}

const VECTOR_INPUTS: &[VectorInput] = &[VectorInput {
    name: "desync-chunker.input",
    module: "github.com/folbricht/desync",
    version: "v1.0.4",
    path: "testdata/chunker.input",
}];

/// Puts the inputs that `vectors/` names but does not hold, a few megabytes, into `dir`.
pub(crate) fn vector_inputs(dir: &Path, offline: bool) -> Result<()> {
    let dir = create(dir)?;
    // Locked until dropped.
    let lock = File::open(&dir).with_context(|| dir.display().to_string())?;
    lock.lock().with_context(|| format!("lock {}", dir.display()))?;

    for input in VECTOR_INPUTS {
        let home = dir.join(input.name);
        if home.exists() {
            continue;
        }
        ensure!(!offline, "offline, {} missing", home.display());
        ensure!(programs::on_path("go"), "no `go` on PATH to fetch {}", home.display());
        println!("dataset: fetching {} {} for {}", input.module, input.version, home.display());
        let download = Download::begin(dir.join(DOWNLOAD_FOLDER))?;
        let file = download.module(input.module, input.version)?.join(input.path);
        fs::rename(&file, &home)
            .with_context(|| format!("move {} to {}", file.display(), home.display()))?;
        download.end()?;
    }
    Ok(())
}

/// Makes `dir/VERSION` the source tree of each of `versions`.
///
/// A version that is there already is complete and left alone, so a broken run is resumed. Says
/// before it downloads what, how much and where to. Two calls on one folder take turns.
pub(crate) fn kubernetes<S: AsRef<str>>(dir: &Path, versions: &[S]) -> Result<()> {
    let dir = create(dir)?;
    // Locked until dropped.
    let lock = File::open(&dir).with_context(|| dir.display().to_string())?;
    lock.lock().with_context(|| format!("lock {}", dir.display()))?;

    let missing = missing_versions(&dir, versions);
    let Some(first) = missing.first() else {
        println!("dataset: {} versions are in {}", versions.len(), dir.display());
        return Ok(());
    };
    if !programs::on_path("go") {
        bail!("no `go` on PATH to fetch {first} into {}; expected Go 1.19 or newer", dir.display());
    }
    println!(
        "dataset: fetching {} of {} Kubernetes versions into {}: about {} MB over the network, \
         {} MB unpacked",
        missing.len(),
        versions.len(),
        dir.display(),
        missing.len() * VERSION_MB.0,
        missing.len() * VERSION_MB.1,
    );
    let download = Download::begin(dir.join(DOWNLOAD_FOLDER))?;
    let outcome = fetch(&download, &dir, &missing);
    download.end()?;
    outcome
}

fn fetch(download: &Download, dir: &Path, versions: &[&str]) -> Result<()> {
    for (done, version) in versions.iter().enumerate() {
        let start = Instant::now();
        let tree = download.module("k8s.io/kubernetes", version)?;
        let home = dir.join(version);
        fs::rename(&tree, &home)
            .with_context(|| format!("move {} to {}", tree.display(), home.display()))?;
        let seconds = start.elapsed().as_secs_f64();
        println!("dataset: {version} ({} of {}, {seconds:.1} s)", done + 1, versions.len());
    }
    Ok(())
}

/// Those of `versions` that `dir` does not hold.
pub(crate) fn missing_versions<'a, S: AsRef<str>>(dir: &Path, versions: &'a [S]) -> Vec<&'a str> {
    versions.iter().map(AsRef::as_ref).filter(|version| !dir.join(version).is_dir()).collect()
}

fn create(dir: &Path) -> Result<PathBuf> {
    fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
    dir.canonicalize().with_context(|| dir.display().to_string())
}

/// A Go module cache of its own, so that nothing is left in the user's.
struct Download {
    folder: PathBuf,
}

/// What `go mod download -json` prints.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Downloaded {
    dir: Option<PathBuf>,
    error: Option<String>,
}

impl Download {
    /// Starts empty: what a killed run left there is of unknown state.
    fn begin(folder: PathBuf) -> Result<Self> {
        remove(&folder)?;
        fs::create_dir_all(folder.join("empty-module"))
            .with_context(|| format!("create {}", folder.display()))?;
        Ok(Self { folder })
    }

    /// Fetches a module, checks its sum and unpacks it; its folders are writable.
    fn module(&self, module: &str, version: &str) -> Result<PathBuf> {
        let output = Command::new("go")
            .args(["mod", "download", "-json", &format!("{module}@{version}")])
            // Outside any module and workspace, so that no go.mod has a say.
            .current_dir(self.folder.join("empty-module"))
            .env("GOWORK", "off")
            .env("GOFLAGS", "-mod=mod -modcacherw")
            .env("GOMODCACHE", self.folder.join("modules"))
            .env("GOPATH", self.folder.join("path"))
            .env("GOCACHE", self.folder.join("build"))
            .stdin(Stdio::null())
            .output()
            .context("run go mod download")?;
        let unfetched = || format!("{module}@{version} could not be fetched; is there a network?");
        let Ok(answer) = serde_json::from_slice::<Downloaded>(&output.stdout) else {
            let reason = String::from_utf8_lossy(&output.stderr);
            bail!("{} {}", unfetched(), reason.trim());
        };
        if let Some(error) = answer.error {
            bail!("{} {error}", unfetched());
        }
        ensure!(output.status.success(), "{} go ended with {}", unfetched(), output.status);
        answer.dir.with_context(|| format!("go names no folder for {module}@{version}"))
    }

    fn end(self) -> Result<()> {
        remove(&self.folder)
    }
}

fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::first_versions;

    #[test]
    fn there_are_thirty_versions_and_the_oldest_come_first() {
        assert_eq!(
            first_versions(6),
            ["v1.26.0", "v1.26.1", "v1.26.2", "v1.26.3", "v1.26.4", "v1.27.0"]
        );
        assert_eq!(first_versions(99).len(), 30);
        assert_eq!(first_versions(30)[29], "v1.31.4");
    }
}
