//! The workspace that these commands serve, and the cargo that built them.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the workspace's `Cargo.toml`.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies inside the workspace")
}

/// The folder that cargo builds into, absolute.
pub fn target_dir() -> PathBuf {
    root().join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
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
        if self.offline {
            command.env("CARGO_NET_OFFLINE", "true");
        }
        command
    }
}
