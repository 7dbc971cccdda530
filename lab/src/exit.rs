//! Exit codes: those of `onefold`, as far as the laboratory has a use for them.

use std::process::ExitCode;

use onefold_backend::BackendError;
use onefold_lab::build::BuildError;
use onefold_volume::VolumeError;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All went well.
    Fine = 0,
    /// The command failed, or was used wrongly.
    Fatal = 1,
    /// Another process uses what the command needs.
    Locked = 11,
    /// A signal asked the command to stop.
    Interrupted = 130,
}

impl Exit {
    /// How the program ends after `error`.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        if let Some(BuildError::Stopped) = error.downcast_ref() {
            return Self::Interrupted;
        }
        match error.downcast_ref() {
            Some(VolumeError::Backend(BackendError::InUse { .. })) => Self::Locked,
            _ => Self::Fatal,
        }
    }

    /// The number that the shell sees.
    pub(crate) const fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
