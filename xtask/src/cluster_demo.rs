//! `cargo xtask cluster-demo`: a cluster to try.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::programs;
use crate::workspace::Cargo;

/// Builds `onefold`, then runs the example of testkit that starts Ceph and gateways. It runs until Ctrl-C; with
/// `is_once` it writes and reads a little and ends.
pub(crate) fn run(cargo: Cargo, is_once: bool) -> Result<()> {
    programs::install_clusters(cargo)?;
    let built = cargo.build_as_tested()?;
    let mut demo = Command::new(built.join("examples/cluster_demo"));
    demo.arg(built.join("onefold")).args(is_once.then_some("--once"));
    let status = demo.status().context("the cluster to try")?;
    ensure!(status.success(), "the cluster to try ended with {status}");
    Ok(())
}
