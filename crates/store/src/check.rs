//! Checking: is everything there that something refers to, and is it what was written?
//!
//! How it is found out is in `examine`; what can be done about what is wrong is in
//! [`repair`](crate::repair).

pub use crate::examine::{Reading, Report};
pub use crate::finding::Finding;
use crate::{Cancel, Progress, Repository, StoreError, examine};

/// Checks the repository.
///
/// An error means that the check itself could not go on, or was interrupted.
pub fn check(
    repository: &Repository,
    reading: Reading,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<Report, StoreError> {
    Ok(examine::examine(repository, reading, progress, cancel)?.report)
}
