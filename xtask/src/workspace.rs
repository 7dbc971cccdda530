//! The workspace that these commands serve, and the cargo that built them.

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The folder of the workspace's `Cargo.toml`.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies inside the workspace")
}

/// The folder that cargo builds into, absolute.
pub fn target_dir() -> PathBuf {
    root().join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// The bytes that are free where cargo builds.
///
/// # Errors
///
/// If the file system does not tell.
pub(crate) fn free_space() -> io::Result<u64> {
    let file_system = rustix::fs::statvfs(root())?;
    Ok(file_system.f_bavail * file_system.f_frsize)
}

/// How to call cargo.
#[derive(Clone, Copy, Default)]
pub struct Cargo {
    /// Forbid it the network.
    pub offline: bool,
}

impl Cargo {
    /// The cargo that runs this program, at the root of the workspace.
    pub fn command(self) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(root());
        if env::var_os("CI").is_some() {
            // Nothing is built twice there, and the parts kept for that would be half of the target folder.
            command.env("CARGO_INCREMENTAL", "0");
        }
        if self.offline {
            command.env("CARGO_NET_OFFLINE", "true");
        }
        command
    }

    /// Builds `onefold` and the example `cluster_demo` as the tests have them, so that what was compiled for the tests
    /// is not compiled again. The folder that has the program, and `examples`.
    ///
    /// # Errors
    ///
    /// If something does not compile.
    pub fn build_as_tested(self) -> Result<PathBuf> {
        let mut build = self.command();
        // with an example: only then the features that tests ask of dependencies are on
        build.args(["build", "--quiet", "--workspace", "--all-features"]);
        build.args(["--bin", "onefold", "--example", "cluster_demo"]);
        let status = build.status().context("cargo build")?;
        ensure!(status.success(), "onefold does not build: cargo ended with {status}");
        Ok(target_dir().join("debug"))
    }
}
