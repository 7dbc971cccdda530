//! `cargo xtask cluster-demo`: a cluster to try.

use anyhow::{Context, Result, ensure};

use crate::programs;
use crate::workspace::{self, Cargo};

/// Builds `onefold`, then runs the example of testkit that starts Ceph and gateways. It runs until Ctrl-C; with
/// `is_once` it writes and reads a little and ends.
pub(crate) fn run(cargo: Cargo, is_once: bool) -> Result<()> {
    programs::install_clusters(cargo)?;
    let mut build = cargo.command();
    build.args(["build", "--quiet", "--package", "onefold", "--bin", "onefold"]);
    let status = build.status().context("cargo build")?;
    ensure!(status.success(), "onefold does not build: cargo ended with {status}");
    let onefold = workspace::target_dir().join("debug/onefold");
    let mut demo = cargo.command();
    demo.args([
        "run",
        "--quiet",
        "--package",
        "onefold-testkit",
        "--example",
        "cluster_demo",
        "--",
    ]);
    let status = demo.arg(onefold).args(is_once.then_some("--once")).status();
    let status = status.context("cargo run")?;
    ensure!(status.success(), "the cluster to try ended with {status}");
    Ok(())
}
