//! Exit codes, which are restic's, so that scripts can be kept.

use std::process::ExitCode;

use onefold_backend::BackendError;
use onefold_store::StoreError;
use onefold_volume::VolumeError;

use crate::cluster::Unavailable;
use crate::repository::NoRepository;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Success.
    Fine = 0,
    /// The command failed, or was used wrongly.
    Fatal = 1,
    /// A snapshot or measurement was made, but it lacks files that could not be read; or the snapshot's
    /// receipt or log entry was not written.
    Incomplete = 3,
    /// There is no repository at the given place.
    NoRepository = 10,
    /// Another process uses what the command needs.
    Locked = 11,
    /// No key opens with the password, or the key was revoked.
    WrongPassword = 12,
    /// The command succeeded, but the repository contradicts what this client has seen, or its own
    /// logs.
    NotAsSeen = 13,
    /// A signal asked the command to stop.
    Interrupted = 130,
}

impl Exit {
    /// How the program ends after `error`.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        if error.downcast_ref::<NoRepository>().is_some() {
            return Self::NoRepository;
        }
        if let Some(unavailable) = error.downcast_ref::<Unavailable>() {
            return unavailable.exit();
        }
        match error.downcast_ref() {
            Some(VolumeError::NoPool) => return Self::NoRepository,
            Some(VolumeError::Backend(BackendError::InUse { .. })) => return Self::Locked,
            _ => {}
        }
        match error.downcast_ref() {
            Some(StoreError::Interrupted) => Self::Interrupted,
            Some(StoreError::Unacknowledged { .. }) => Self::Incomplete,
            Some(
                StoreError::WrongPassword { .. }
                | StoreError::WrongPair { .. }
                | StoreError::KeyTakenBack { .. },
            ) => Self::WrongPassword,
            Some(StoreError::Backend(BackendError::InUse { .. })) => Self::Locked,
            _ => Self::Fatal,
        }
    }

    /// The graver of two exits, in this order: success and incomplete success, a repository that went
    /// back, failure.
    pub(crate) fn graver(self, other: Self) -> Self {
        let gravity = |exit: Self| match exit {
            Self::Fine => 0,
            Self::Incomplete => 1,
            Self::NotAsSeen => 2,
            _ => 3,
        };
        if gravity(other) > gravity(self) { other } else { self }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_that_is_there_ends_otherwise_than_work_that_is_half_done() {
        let untold = || StoreError::Unacknowledged {
            snapshot: onefold_seal::ObjectId::from_bytes([1; 16]),
            missing: "its log entry",
            source: Box::new(StoreError::Stopped),
        };
        assert_eq!(Exit::of(&untold().into()), Exit::Incomplete);
        // Not all of several snapshots were made.
        let half_way = StoreError::HalfWay { source: Box::new(untold()) };
        assert_eq!(Exit::of(&half_way.into()), Exit::Fatal);
    }

    #[test]
    fn the_graver_of_two_is_what_the_shell_sees() {
        let ascending = [Exit::Fine, Exit::Incomplete, Exit::NotAsSeen, Exit::WrongPassword];
        for (at, graver) in ascending.iter().enumerate() {
            for other in &ascending[..=at] {
                assert_eq!(graver.graver(*other), *graver);
                assert_eq!(other.graver(*graver), *graver);
            }
        }
        assert_eq!(Exit::Fatal.graver(Exit::Interrupted), Exit::Fatal);
    }
}
