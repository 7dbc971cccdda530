//! The program as it is given to others: built without paths of this machine, so that two builds in different
//! folders are equal byte for byte.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::zig::Zig;
use crate::gpu_kernels;
use crate::programs;
use crate::workspace::{self, Cargo};

/// A kind of machine that static programs are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// As Rust calls it.
    pub(crate) triple: &'static str,
    /// As zig calls it.
    zig: &'static str,
    /// As [`std::env::consts::ARCH`] calls its CPU.
    pub(crate) arch: &'static str,
}

/// All of them.
pub(crate) const TARGETS: [Target; 2] = [
    Target { triple: "x86_64-unknown-linux-musl", zig: "x86_64-linux-musl", arch: "x86_64" },
    Target { triple: "aarch64-unknown-linux-musl", zig: "aarch64-linux-musl", arch: "aarch64" },
];

/// The allocator of static programs; decision 0062 says why.
pub(crate) const ALLOCATOR: &str = "jemalloc";

/// musl's own allocator, which needs no feature.
const OF_MUSL: &str = "musl";

/// Builds the static program for `target` from `source`, below the target folder `into`.
///
/// # Errors
///
/// If zig or the target's standard library cannot be had, or the program does not build.
pub(crate) fn build_static(
    cargo: Cargo,
    target: Target,
    allocator: &str,
    source: &Path,
    into: &Path,
) -> Result<PathBuf> {
    programs::install_standard_library(cargo, target.triple)?;
    let zig = Zig::of(cargo, target.triple, target.zig)?;
    let mut command = release(cargo, source, into)?;
    command.args(["--no-default-features", "--target", target.triple]);
    if allocator != OF_MUSL {
        command.args(["--features", allocator]);
    }
    if target.arch == "aarch64" {
        // There are kernels with pages of 64 KiB, and jemalloc serves pages up to the size it was built for.
        command.env("JEMALLOC_SYS_WITH_LG_PAGE", "16");
    }
    let linker = format!("CARGO_TARGET_{}_LINKER", target.triple.to_uppercase().replace('-', "_"));
    // the linker that comes with Rust; so does musl
    command.env(linker, "rust-lld");
    zig.tell(&mut command, &c_flags(source, into)?);
    programs::succeed(&mut command)?;
    built(&into.join(target.triple).join("release/onefold"))
}

/// Builds the program with everything in it, for this machine: with machine code for GPUs as well.
///
/// # Errors
///
/// If the compiler of the machine code cannot be had, or the program does not build.
pub(crate) fn build_dynamic(cargo: Cargo, source: &Path, into: &Path) -> Result<PathBuf> {
    let cubins = into.join("cubins");
    gpu_kernels::write_cubins(cargo, &cubins)?;
    let mut command = release(cargo, source, into)?;
    command.env("ONEFOLD_CUBINS", cubins);
    command.env("CFLAGS", c_flags(source, into)?);
    programs::succeed(&mut command)?;
    built(&into.join("release/onefold"))
}

fn built(program: &Path) -> Result<PathBuf> {
    ensure!(program.is_file(), "{}: cargo made no such file", program.display());
    Ok(program.to_owned())
}

/// The command that builds what is released. Line tables would be most of the program.
fn release(cargo: Cargo, source: &Path, into: &Path) -> Result<Command> {
    let mut command = cargo.command();
    command
        .current_dir(source)
        .args(["build", "--release", "--locked", "--package", "onefold", "--bin", "onefold"])
        .env("CARGO_TARGET_DIR", into)
        .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
        .env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo")
        .env("CARGO_INCREMENTAL", "0")
        .env_remove("RUSTFLAGS")
        .env("CARGO_ENCODED_RUSTFLAGS", rust_flags(source, into)?);
    Ok(command)
}

/// The folders that a program may name, and what stands for them, the longest folder last, as later ones win.
fn folders(source: &Path, into: &Path) -> Result<Vec<(String, &'static str)>> {
    let home = env::var_os("HOME").map(PathBuf::from);
    let cargo =
        env::var_os("CARGO_HOME").map(PathBuf::from).or(home.map(|home| home.join(".cargo")));
    let text = |path: &Path| {
        let text = path.to_str().map(str::to_owned);
        text.with_context(|| format!("{}: expected a path in UTF-8", path.display()))
    };
    let mut folders = vec![(text(source)?, "/onefold"), (text(into)?, "/build")];
    if let Some(cargo) = cargo {
        folders.push((text(&cargo)?, "/cargo"));
    }
    folders.sort_by_key(|(folder, _)| folder.len());
    Ok(folders)
}

fn rust_flags(source: &Path, into: &Path) -> Result<String> {
    let flags = folders(source, into)?.into_iter();
    let flags = flags.map(|(folder, name)| format!("--remap-path-prefix={folder}={name}"));
    Ok(flags.collect::<Vec<_>>().join("\u{1f}"))
}

fn c_flags(source: &Path, into: &Path) -> Result<String> {
    let flags = folders(source, into)?.into_iter();
    let flags = flags.map(|(folder, name)| format!("-ffile-prefix-map={folder}={name}"));
    Ok(flags.collect::<Vec<_>>().join(" "))
}

/// Where release builds of this workspace go: not where others go, whose flags differ.
pub(crate) fn folder() -> PathBuf {
    workspace::target_dir().join("dist-build")
}
