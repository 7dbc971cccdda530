//! The command for macOS, which is compiled here and never run.

use anyhow::Result;

use super::zig::Zig;
use crate::programs;
use crate::workspace::Cargo;

/// The targets: as Rust calls each, and as zig does.
const TARGETS: [(&str, &str); 2] =
    [("aarch64-apple-darwin", "aarch64-macos"), ("x86_64-apple-darwin", "x86_64-macos")];

/// Checks that the command compiles, its C code too. Nothing is linked, which would take Apple's SDK.
///
/// # Errors
///
/// If it does not compile, or zig or a standard library cannot be had.
pub(crate) fn check(cargo: Cargo) -> Result<()> {
    for (triple, target) in TARGETS {
        programs::install_standard_library(cargo, triple)?;
        let zig = Zig::of(cargo, triple, target)?;
        let mut check = cargo.command();
        check.args(["check", "--package", "onefold", "--no-default-features", "--target", triple]);
        check.env("RUSTFLAGS", "-D warnings");
        zig.tell(&mut check, "");
        programs::succeed(&mut check)?;
        println!("dist: the command compiles for {triple}");
    }
    Ok(())
}
