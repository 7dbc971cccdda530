//! The tools that are measured beside one another, each with the commands of its phases.

mod borg;
mod floor;
mod kopia;
mod onefold;
mod restic;
mod rustic;

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use xtask::record::first_words;
use xtask::{programs, workspace};

/// A tool, or one way of running it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tool {
    /// As a user gets it: encrypted
    Onefold,
    /// Without encryption
    OnefoldPlain,
    /// The static program, encrypted
    OnefoldStatic,
    /// The static program with mimalloc
    OnefoldStaticMimalloc,
    /// The static program with musl's own allocator
    OnefoldStaticMusl,
    /// At its defaults, which compress by zstd
    Restic,
    /// At its defaults, which compress by zstd
    Rustic,
    /// With zstd
    Kopia,
    /// At its defaults, which do not compress
    KopiaDefaults,
    /// With zstd, level 3
    Borg,
    /// At its defaults, which compress by lz4
    BorgDefaults,
    /// No backup tool: what a bare walk over all entries takes, and a bare unpacking
    Floor,
}

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Everything into a fresh repository.
    First,
    /// The same again, nothing having changed.
    Unchanged,
    /// The same again, after small changes.
    Changed,
    /// One more of several versions.
    Version,
    /// Forgetting the older versions and giving the space back.
    Prune,
    /// Everything into an empty folder.
    Restore,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::First => "first",
            Self::Unchanged => "unchanged",
            Self::Changed => "changed",
            Self::Version => "versions",
            Self::Prune => "prune",
            Self::Restore => "restore",
        })
    }
}

/// The folders of one tool in one round. All paths are absolute.
pub(crate) struct Place {
    /// What is backed up.
    pub(crate) source: PathBuf,
    /// Where the tool's repository goes.
    pub(crate) repository: PathBuf,
    /// Where the tool keeps its caches and settings.
    pub(crate) home: PathBuf,
    /// Where it restores to; exists and is empty.
    pub(crate) target: PathBuf,
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

/// Of repositories that live for one measurement.
const PASSWORD: &str = "onefold-bench";

/// How many of the versions are kept by [`Phase::Prune`]: half of those of Kubernetes.
const VERSIONS_KEPT: usize = 15;

impl Tool {
    /// The name to choose it by, and to show.
    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value().expect("no tool is hidden");
        value.get_name().to_owned()
    }

    /// The tool's version in its own words, or an error that says how to get the tool.
    pub(crate) fn version(self) -> Result<String> {
        let program = self.program();
        ensure!(
            program.is_file() || programs::on_path(&program.to_string_lossy()),
            "{} is not here; expected it from {}",
            program.display(),
            self.origin()
        );
        let flag = if self == Self::Restic { "version" } else { "--version" };
        let words = first_words(Command::new(&program).arg(flag));
        let words = words.with_context(|| format!("{} {flag} fails", program.display()))?;
        Ok(words.lines().next().unwrap_or_default().to_owned())
    }

    /// Where to get it.
    fn origin(self) -> &'static str {
        match self {
            Self::Onefold | Self::OnefoldPlain => "`cargo build --release --package onefold`",
            Self::OnefoldStatic | Self::OnefoldStaticMimalloc | Self::OnefoldStaticMusl => {
                "`cargo xtask dist static --allocator NAME`, NAME being jemalloc, mimalloc or musl"
            }
            Self::Restic | Self::Rustic | Self::Kopia | Self::KopiaDefaults => {
                "`cargo lab bench install`"
            }
            Self::Borg | Self::BorgDefaults => "`apt-get install borgbackup`",
            Self::Floor => "`apt-get install tar findutils`",
        }
    }

    fn program(self) -> PathBuf {
        match self {
            Self::Onefold | Self::OnefoldPlain => workspace::target_dir().join("release/onefold"),
            Self::OnefoldStatic => static_program("jemalloc"),
            Self::OnefoldStaticMimalloc => static_program("mimalloc"),
            Self::OnefoldStaticMusl => static_program("musl"),
            Self::Restic => rival("restic"),
            Self::Rustic => rival("rustic"),
            Self::Kopia | Self::KopiaDefaults => rival("kopia"),
            Self::Borg | Self::BorgDefaults => "borg".into(),
            Self::Floor => "tar".into(),
        }
    }

    /// What must run, untimed, before the first phase.
    pub(crate) fn initialisation(self, place: &Place) -> Vec<Command> {
        match self {
            Self::Onefold
            | Self::OnefoldPlain
            | Self::OnefoldStatic
            | Self::OnefoldStaticMimalloc
            | Self::OnefoldStaticMusl => Vec::new(),
            Self::Restic => restic::initialisation(place),
            Self::Rustic => rustic::initialisation(place),
            Self::Kopia => kopia::initialisation(place, "zstd"),
            Self::KopiaDefaults => kopia::initialisation(place, "none"),
            Self::Borg | Self::BorgDefaults => borg::initialisation(place),
            Self::Floor => floor::initialisation(place),
        }
    }

    /// The commands that are timed together, one after the other; none if the tool has no such
    /// phase.
    pub(crate) fn phase(self, phase: Phase, place: &Place) -> Vec<Command> {
        match self {
            Self::Onefold
            | Self::OnefoldStatic
            | Self::OnefoldStaticMimalloc
            | Self::OnefoldStaticMusl => onefold::phase(self, phase, place, true),
            Self::OnefoldPlain => onefold::phase(self, phase, place, false),
            Self::Restic => restic::phase(phase, place),
            Self::Rustic => rustic::phase(phase, place),
            Self::Kopia | Self::KopiaDefaults => kopia::phase(phase, place),
            Self::Borg => borg::phase(phase, place, "zstd,3"),
            Self::BorgDefaults => borg::phase(phase, place, "lz4"),
            Self::Floor => floor::phase(phase, place),
        }
    }

    /// Where a restored dataset may lie in the target folder, the likeliest first.
    pub(crate) fn restored(place: &Place) -> [PathBuf; 3] {
        let below_root = place.source.strip_prefix("/").unwrap_or(&place.source);
        let name = place.source.file_name().unwrap_or_default();
        [place.target.join(below_root), place.target.join(name), place.target.clone()]
    }
}

/// Where `cargo xtask dist static` puts the program with this allocator.
fn static_program(allocator: &str) -> PathBuf {
    let name = format!("{}-{allocator}", std::env::consts::ARCH);
    workspace::target_dir().join("dist/programs").join(name).join("onefold")
}

/// Where `cargo lab bench install` puts a rival's program.
fn rival(name: &str) -> PathBuf {
    workspace::target_dir().join("rivals/bin").join(name)
}

/// A command of `program` that keeps caches and settings inside `place`, whatever it is.
fn command(program: impl AsRef<OsStr>, place: &Place) -> Command {
    let mut command = Command::new(program);
    command.env("HOME", &place.home).env("XDG_CACHE_HOME", place.home.join("cache"));
    command.env("XDG_STATE_HOME", place.home.join("state"));
    command
}
