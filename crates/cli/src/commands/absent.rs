//! Commands that this build of the program lacks. Where a user calls one, the program says so.

#![allow(dead_code, reason = "each build lacks something else")]

use std::convert::Infallible;
use std::ffi::OsString;
use std::fmt;

use anyhow::Result;
use clap::Args;

use crate::exit::Exit;

/// A command that this build lacks
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Absent {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

impl Absent {
    /// Refuses the command, because of `lack`.
    pub(crate) fn refuse(self, lack: impl Into<anyhow::Error>) -> Result<Exit> {
        let Self { words: _ } = self;
        Err(lack.into())
    }
}

/// `--device`, which a build without GPUs refuses.
#[derive(Debug, Args)]
pub(crate) struct NoDevice {
    #[arg(long, hide = true, value_parser = refuse_device)]
    device: Option<Infallible>,
}

fn refuse_device(_: &str) -> Result<Infallible, String> {
    Err(format!("{}: {}", Lack::Gpus, Lack::Gpus.hint()))
}

/// What this build lacks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lack {
    Gpus,
    Mounts,
}

impl Lack {
    /// What to do about it.
    pub(crate) fn hint(self) -> String {
        match self {
            Self::Gpus => {
                "a static program cannot load the library of a GPU; use the Debian package or build onefold from \
                 source, which have GPUs"
            }
            Self::Mounts => "use `onefold ls`, `onefold dump` or `onefold restore`",
        }
        .to_owned()
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gpus => "this build of onefold has no GPUs",
            Self::Mounts => "onefold mounts snapshots on Linux only",
        })
    }
}

impl std::error::Error for Lack {}
