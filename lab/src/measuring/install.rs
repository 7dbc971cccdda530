//! Installing the backup tools that onefold is measured beside, from their registries.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use xtask::workspace::{self, Cargo};

/// A tool that is no package of Debian in the version that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Rival {
    Restic,
    Kopia,
    Rustic,
}

/// Installs `rivals` where `cargo lab bench backup` looks for them; what is there is left alone.
pub(crate) fn install(cargo: Cargo, rivals: &[Rival]) -> Result<()> {
    rivals.iter().try_for_each(|rival| match rival {
        Rival::Restic => of_go("restic", "github.com/restic/restic", "v0.19.1", "/cmd/restic"),
        Rival::Kopia => of_go("kopia", "github.com/kopia/kopia", "v0.23.1", ""),
        Rival::Rustic => of_cargo(cargo, "rustic", "rustic-rs", "0.11.4"),
    })
}

/// Installs a command of a Go module. A module of our own asks for it, because `go install` wants
/// the list of its versions as well, which not every proxy serves.
fn of_go(program: &str, module: &str, version: &str, command: &str) -> Result<()> {
    let folder = workspace::target_dir().join("rivals");
    let place = folder.join("bin").join(program);
    if place.exists() {
        return Ok(());
    }
    let asking = folder.join(format!("go-{program}"));
    fs::create_dir_all(&asking).with_context(|| asking.display().to_string())?;
    let go = |arguments: &[&str]| {
        let mut go = Command::new("go");
        go.current_dir(&asking).env("GOFLAGS", "-mod=mod").args(arguments);
        succeed(&mut go)
    };
    if !asking.join("go.mod").exists() {
        go(&["mod", "init", "rivals"])?;
    }
    go(&["mod", "edit", &format!("-require={module}@{version}")])?;
    let text = format!("package rivals\n\nimport _ \"{module}{command}\"\n");
    fs::write(asking.join("rivals.go"), text).with_context(|| asking.display().to_string())?;
    println!("bench: building {program} {version}");
    go(&["build", "-o", &place.to_string_lossy(), &format!("{module}{command}")])
}

fn of_cargo(cargo: Cargo, program: &str, package: &str, version: &str) -> Result<()> {
    let folder = workspace::target_dir().join("rivals");
    if folder.join("bin").join(program).exists() {
        return Ok(());
    }
    let mut install = cargo.command();
    install.args(["install", package, "--version", version, "--locked", "--root"]).arg(&folder);
    succeed(&mut install)
}

fn succeed(command: &mut Command) -> Result<()> {
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("{command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}
