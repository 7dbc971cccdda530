//! Whether the command compiles for macOS. It is not linked and was never run there.

use anyhow::Result;

use super::zig::Zig;
use crate::programs;
use crate::workspace::{self, Cargo};

/// The kinds of machine, as Rust and zig call them.
const TARGETS: [(&str, &str); 2] =
    [("aarch64-apple-darwin", "aarch64-macos"), ("x86_64-apple-darwin", "x86_64-macos")];

/// What came of the check.
pub(crate) enum Outcome {
    /// It compiles.
    Compiles,
    /// It could not be tried, for this reason.
    Skipped(String),
}

/// Checks both kinds of machine.
///
/// # Errors
///
/// If it does not compile.
pub(crate) fn check(cargo: Cargo) -> Result<Outcome> {
    for (triple, target) in TARGETS {
        let zig = programs::install_standard_library(cargo, triple)
            .and_then(|()| Zig::of(cargo, triple, target));
        let zig = match zig {
            Ok(zig) => zig,
            Err(error) => return Ok(Outcome::Skipped(format!("{error:#}"))),
        };
        let mut command = cargo.command();
        command
            .args(["check", "--quiet", "--package", "onefold", "--target", triple])
            .env("CARGO_TARGET_DIR", workspace::target_dir());
        zig.tell(&mut command, "");
        programs::succeed(&mut command)?;
        println!("dist: the command compiles for {triple}; it was never run there");
    }
    Ok(Outcome::Compiles)
}
