//! Kubernetes as Go modules: immutable zips whose sums a public log vouches for, so the same
//! version is the same tree on every machine and in every year.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::build::order::{Allowed, Choice};
use crate::build::site::{Site, create};
use crate::build::{BuildError, Cost, MB, Recipe, Sameness, Tool};

const GO: Tool = Tool::new("go", "golang-go");
const PROXY: &str = "Go module proxy";

pub(super) const KUBERNETES: Recipe = Recipe {
    name: "kubernetes",
    kind: "source code",
    about: "source trees of Kubernetes 1.26.0 to 1.31.4, many small files",
    source: Some(PROXY),
    choices: &[Choice {
        name: "count",
        about: "versions, the oldest first",
        standard: "30",
        allowed: Allowed::Number(1, 30),
    }],
    sameness: Sameness::Bytes(
        "blake3:4ce94f739a8f486af9df519480dfec8383eaad9f31b4abf1db32d49439a90a57",
    ),
    tools: &[GO],
    cost: |choices| {
        let count = choices.number("count");
        Cost { built: count * 72 * MB, download: count * 17 * MB, scratch: 100 * MB }
    },
    build,
};

fn build(site: &Site) -> Result<()> {
    site.each(&versions(site.count("count")), |version, to| {
        let tree = module(&site.room("go")?, "k8s.io/kubernetes", version)?;
        fs::rename(&tree, to).with_context(|| format!("move {}", tree.display()))
    })
}

/// The first `count` of the thirty versions, the oldest minor release first.
fn versions(count: usize) -> Vec<String> {
    let all = (26..=31).flat_map(|minor| (0..=4).map(move |patch| format!("v1.{minor}.{patch}")));
    all.take(count).collect()
}

/// What `go mod download -json` prints.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Downloaded {
    dir: Option<PathBuf>,
    error: Option<String>,
}

/// Fetches a module into a cache below `room`, checks its sum and unpacks it; its folders are
/// writable.
fn module(room: &Path, module: &str, version: &str) -> Result<PathBuf> {
    let what = format!("{module}@{version}");
    let nowhere = room.join("empty-module");
    create(&nowhere)?;
    let output = GO
        .command()
        .args(["mod", "download", "-json", &what])
        // Outside any module and workspace, so that no go.mod has a say.
        .current_dir(nowhere)
        .env("GOWORK", "off")
        .env("GOFLAGS", "-mod=mod -modcacherw")
        .env("GOMODCACHE", room.join("modules"))
        .env("GOPATH", room.join("path"))
        .env("GOCACHE", room.join("build"))
        .stdin(std::process::Stdio::null())
        .output()
        .context("run go")?;
    // Errors come as JSON too, unless go has not got so far.
    let answer = serde_json::from_slice(&output.stdout);
    let reason = match answer {
        Ok(Downloaded { error: None, dir: Some(dir) }) if output.status.success() => {
            return Ok(dir);
        }
        Ok(Downloaded { error: Some(error), .. }) => error,
        _ => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    };
    Err(BuildError::Unfetched { what, source: PROXY, reason }.into())
}

#[cfg(test)]
mod tests {
    use super::versions;

    #[test]
    fn there_are_thirty_versions_and_the_oldest_come_first() {
        let expected = ["v1.26.0", "v1.26.1", "v1.26.2", "v1.26.3", "v1.26.4", "v1.27.0"];
        assert_eq!(versions(6), expected);
        assert_eq!(versions(99).len(), 30);
        assert_eq!(versions(30)[29], "v1.31.4");
    }
}
