//! Commands that moved to the laboratory: each prints its new name.

use std::ffi::OsString;
use std::fmt;

use anyhow::Result;
use clap::Args;

use crate::exit::Exit;

/// Moved to `cargo lab`
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Moved {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

impl Moved {
    /// Says that `onefold COMMAND` is `cargo lab WORD` now.
    pub(crate) fn refuse(self, command: &'static str, word: &'static str) -> Result<Exit> {
        let Self { words: _ } = self;
        Err(MovedToLab { command, word }.into())
    }
}

/// A command that moved to the laboratory.
#[derive(Debug)]
pub(crate) struct MovedToLab {
    command: &'static str,
    word: &'static str,
}

impl MovedToLab {
    pub(crate) fn hint(&self) -> String {
        format!("run `cargo lab {}` in a checkout of Onefold's source", self.word)
    }
}

impl fmt::Display for MovedToLab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`onefold {}` is `cargo lab {}` now", self.command, self.word)
    }
}

impl std::error::Error for MovedToLab {}
