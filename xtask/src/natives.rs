//! The library of `jvm/native`, built for the jar on each kind of CPU that this machine can build for.

use std::env::consts::ARCH;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::emulate;
use crate::programs::succeed;
use crate::workspace::{self, Cargo};

/// Where Maven takes them from.
const FOLDER: &str = "jvm/core/target/natives/onefold/native";

const LIBRARY: &str = "libonefold_jvm.so";

const BUILD: [&str; 4] = ["build", "--release", "--package", "onefold-jvm"];

/// Builds the library for Linux on this CPU and on aarch64, and says where it cannot.
pub(crate) fn build(cargo: Cargo) -> Result<()> {
    if !cfg!(target_os = "linux") {
        println!("natives: none on this system; the jar finds cut-points in Java");
        return Ok(());
    }
    let mut own = cargo.command();
    own.args(BUILD);
    succeed(&mut own)?;
    copy(&workspace::target_dir().join("release"), java_name(ARCH))?;
    for target in emulate::TARGETS.iter().filter(|target| is_other(target.arch)) {
        let missing = target.missing();
        if !missing.is_empty() {
            println!("natives: none for {}: no {}", target.arch, missing.join(", "));
            continue;
        }
        let mut other = cargo.command();
        other.args(BUILD);
        target.build_for(&mut other);
        succeed(&mut other)?;
        let built = workspace::target_dir().join(target.triple).join("release");
        copy(&built, target.arch)?;
    }
    Ok(())
}

fn is_other(arch: &str) -> bool {
    arch == "aarch64" && arch != ARCH
}

/// What Java calls a CPU.
fn java_name(arch: &str) -> &str {
    if arch == "x86_64" { "amd64" } else { arch }
}

fn copy(built: &Path, cpu: &str) -> Result<()> {
    let folder = workspace::root().join(FOLDER).join(format!("linux-{cpu}"));
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let library = built.join(LIBRARY);
    fs::copy(&library, folder.join(LIBRARY)).with_context(|| library.display().to_string())?;
    Ok(())
}
