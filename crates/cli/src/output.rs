//! The answer, and what a command does with entries of a walk.

use anyhow::{Error, Result};
use onefold_store::StoreError;
pub(crate) use onefold_terminal::Output;

/// Carries what a command does with entries through a walk of the store, which knows only its own
/// errors.
#[derive(Default)]
pub(crate) struct Walked {
    trouble: Option<Error>,
    is_stopped: bool,
}

impl Walked {
    /// What the walk is to hear of `result`: to go on, or, if that is false or an error, to stop.
    pub(crate) fn hear(&mut self, result: Result<bool>) -> Result<(), StoreError> {
        match result {
            Ok(true) => return Ok(()),
            Ok(false) => self.is_stopped = true,
            Err(error) => self.trouble = Some(error),
        }
        Err(StoreError::Stopped)
    }

    /// Whether the command itself stopped the walk, or failed: then there is nothing to go on with.
    pub(crate) const fn is_over(&self) -> bool {
        self.is_stopped || self.trouble.is_some()
    }

    /// What came of it. A walk that was stopped because it was told to is no error.
    pub(crate) fn end(self, walked: Result<(), StoreError>) -> Result<()> {
        match (self.trouble, walked) {
            (Some(error), _) => Err(error),
            (None, Err(StoreError::Stopped)) if self.is_stopped => Ok(()),
            (None, walked) => Ok(walked?),
        }
    }
}
