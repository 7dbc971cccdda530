//! Why an operation on an object failed.

use std::fmt;

/// Why the engine refused an operation. Nothing changed; see [`Fenced`](Self::Fenced) for the exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no such object.
    Absent,
    /// The object to be created exists.
    Exists,
    /// A guard did not hold.
    Guard,
    /// The pool cannot do this: an omap or an unaligned append in an erasure-coded pool.
    Unsupported,
    /// The pool, the cluster or a quota is full.
    Full,
    /// This client was fenced off: a successor blocklisted it. It stays so.
    ///
    /// An update that was sent before may have been applied: if its answer is lost, the client sends it
    /// again, and gets this.
    Fenced,
    /// The client's key does not allow it.
    Forbidden,
    /// The update or the object would be too large.
    TooLarge,
    /// The engine has damaged data that it could not repair.
    Damaged,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "it does not exist",
            Self::Exists => "it exists",
            Self::Guard => "it is not as expected",
            Self::Unsupported => "the pool cannot do this",
            Self::Full => "the pool or a quota is full",
            Self::Fenced => "this client is blocklisted",
            Self::Forbidden => "the client's capabilities do not allow it",
            Self::TooLarge => "it would be too large",
            Self::Damaged => "its data are damaged",
        })
    }
}

/// Why an operation on an object failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RadosError {
    /// The engine refused it.
    #[error("{object} in pool {pool}: {why}")]
    Refused {
        /// The object.
        object: String,
        /// The pool's name.
        pool: String,
        /// Why.
        why: Refusal,
    },
    /// No answer: an update may have been applied, or may be applied later.
    #[error("{object} in pool {pool}: no answer ({code}); whether it was done is not known")]
    Unknown {
        /// The object.
        object: String,
        /// The pool's name.
        pool: String,
        /// What the client library said.
        code: String,
    },
}

impl RadosError {
    /// Why the engine refused it, if it did.
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused { why, .. } => Some(*why),
            Self::Unknown { .. } => None,
        }
    }
}
