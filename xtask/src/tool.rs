//! The backup tools that are measured, each with the commands of its phases.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::record::first_words;
use crate::{programs, workspace};

/// A backup tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    Onefold,
    Rival(Rival),
}

/// A backup tool that is not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Rival {
    Restic,
    Borg,
}

/// What is timed, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Everything into a fresh repository.
    First,
    /// The same again, nothing having changed.
    Unchanged,
    /// Everything into an empty folder.
    Restore,
}

impl Phase {
    pub(crate) const ALL: [Self; 3] = [Self::First, Self::Unchanged, Self::Restore];
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::First => "first",
            Self::Unchanged => "unchanged",
            Self::Restore => "restore",
        })
    }
}

/// The folders of one tool in one round. All paths are absolute.
pub(crate) struct Place {
    /// The dataset, read only.
    pub(crate) source: PathBuf,
    /// Where the tool's repository goes.
    pub(crate) repository: PathBuf,
    /// Where the tool keeps its caches and settings.
    pub(crate) home: PathBuf,
    /// Where it restores to; exists and is empty.
    pub(crate) target: PathBuf,
}

impl Tool {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Onefold => "onefold",
            Self::Rival(Rival::Restic) => "restic",
            Self::Rival(Rival::Borg) => "borg",
        }
    }

    /// The tool's version in its own words, or an error that says how to get the tool.
    pub(crate) fn version(self) -> Result<String> {
        let advice = match self {
            Self::Onefold => "expected `cargo build --release --package onefold` before",
            Self::Rival(Rival::Restic) => "expected it from `apt-get install restic`",
            Self::Rival(Rival::Borg) => "expected it from `apt-get install borgbackup`",
        };
        let program = self.program();
        let present = match self {
            Self::Onefold => program.is_file(),
            Self::Rival(_) => programs::on_path(self.name()),
        };
        if !present {
            bail!("{} is not here; {advice}", program.display());
        }
        let flag = if self == Self::Rival(Rival::Restic) { "version" } else { "--version" };
        first_words(Command::new(&program).arg(flag))
            .with_context(|| format!("{} {flag} fails; {advice}", program.display()))
    }

    /// What must run, untimed, before the first phase; onefold's first backup does it itself.
    pub(crate) fn initialisation(self, place: &Place) -> Option<Command> {
        let mut command = self.command(place);
        match self {
            Self::Onefold => return None,
            Self::Rival(Rival::Restic) => command.arg("init"),
            Self::Rival(Rival::Borg) => {
                command.args(["init", "--encryption", "repokey-blake2"]).arg(&place.repository)
            }
        };
        Some(command)
    }

    /// The command that is timed.
    pub(crate) fn phase(self, phase: Phase, place: &Place) -> Command {
        let mut command = self.command(place);
        match self {
            Self::Onefold => onefold(&mut command, phase, place),
            Self::Rival(Rival::Restic) => restic(&mut command, phase, place),
            Self::Rival(Rival::Borg) => borg(&mut command, phase, place),
        };
        command
    }

    /// Where a restored dataset may lie in the target folder, the likeliest first.
    pub(crate) fn restored(self, place: &Place) -> Vec<PathBuf> {
        let below_root = place.source.strip_prefix("/").unwrap_or(&place.source);
        let name = place.source.file_name().unwrap_or_default();
        vec![place.target.join(below_root), place.target.join(name), place.target.clone()]
    }

    fn program(self) -> PathBuf {
        match self {
            Self::Onefold => workspace::target_dir().join("release/onefold"),
            Self::Rival(_) => PathBuf::from(self.name()),
        }
    }

    /// The program with an environment that keeps its caches and settings inside `place`.
    fn command(self, place: &Place) -> Command {
        let mut command = Command::new(self.program());
        match self {
            Self::Onefold => command.env("XDG_CACHE_HOME", &place.home),
            Self::Rival(Rival::Restic) => command
                .env("RESTIC_REPOSITORY", &place.repository)
                .env("RESTIC_PASSWORD", PASSWORD)
                .env("RESTIC_CACHE_DIR", &place.home),
            Self::Rival(Rival::Borg) => {
                command.env("BORG_PASSPHRASE", PASSWORD).env("BORG_BASE_DIR", &place.home)
            }
        };
        command
    }
}

/// Of repositories that live for one measurement.
const PASSWORD: &str = "onefold-bench";

fn onefold(command: &mut Command, phase: Phase, place: &Place) {
    match phase {
        Phase::First => command.args(["backup", "--init", "--no-encryption", "--repo"]),
        Phase::Unchanged => command.args(["backup", "--repo"]),
        Phase::Restore => command.args(["restore", "--repo"]),
    };
    command.arg(&place.repository);
    match phase {
        Phase::First | Phase::Unchanged => command.arg(&place.source),
        Phase::Restore => command.args(["latest", "--target"]).arg(&place.target),
    };
}

fn restic(command: &mut Command, phase: Phase, place: &Place) {
    match phase {
        Phase::First | Phase::Unchanged => command.arg("backup").arg(&place.source),
        Phase::Restore => command.args(["restore", "latest", "--target"]).arg(&place.target),
    };
}

fn borg(command: &mut Command, phase: Phase, place: &Place) {
    let archive = |name: &str| {
        let mut archive = place.repository.clone().into_os_string();
        archive.push("::");
        archive.push(name);
        archive
    };
    let create = ["create", "--compression", "zstd,3"];
    match phase {
        Phase::First => command.args(create).arg(archive("first")).arg(&place.source),
        Phase::Unchanged => command.args(create).arg(archive("unchanged")).arg(&place.source),
        // Borg extracts to where it stands.
        Phase::Restore => {
            command.current_dir(&place.target).arg("extract").arg(archive("unchanged"))
        }
    };
}

impl Place {
    /// The place of a tool below `work`.
    pub(crate) fn below(work: &Path, source: &Path) -> Self {
        Self {
            source: source.to_owned(),
            repository: work.join("repository"),
            home: work.join("home"),
            target: work.join("target"),
        }
    }
}
