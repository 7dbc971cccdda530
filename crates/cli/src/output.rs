//! Output of a command, and errors of a command inside a walk.

use anyhow::{Error, Result};
use onefold_store::StoreError;
pub(crate) use onefold_terminal::Output;

/// Carries a command's own error through a walk of the store, which has another error type.
#[derive(Default)]
pub(crate) struct Walked {
    trouble: Option<Error>,
    is_stopped: bool,
}

impl Walked {
    /// Tells the walk to continue, or to stop if `result` is false or an error.
    pub(crate) fn hear(&mut self, result: Result<bool>) -> Result<(), StoreError> {
        match result {
            Ok(true) => return Ok(()),
            Ok(false) => self.is_stopped = true,
            Err(error) => self.trouble = Some(error),
        }
        Err(StoreError::Stopped)
    }

    /// Whether the command itself stopped the walk or failed.
    pub(crate) const fn is_over(&self) -> bool {
        self.is_stopped || self.trouble.is_some()
    }

    /// The result. A walk that the command stopped deliberately is not an error.
    pub(crate) fn end(self, walked: Result<(), StoreError>) -> Result<()> {
        match (self.trouble, walked) {
            (Some(error), _) => Err(error),
            (None, Err(StoreError::Stopped)) if self.is_stopped => Ok(()),
            (None, walked) => Ok(walked?),
        }
    }
}
