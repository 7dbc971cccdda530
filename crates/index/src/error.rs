use onefold_backend::BackendError;
use onefold_seal::wire::WireError;
use onefold_seal::{ObjectId, SealError};

/// Errors of index runs and of the local index.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The run could not be read or written.
    #[error("index run {run} cannot be accessed")]
    Backend {
        /// Which run.
        run: ObjectId,
        /// What the backend said.
        source: BackendError,
    },
    /// The run exceeds the maximum length.
    #[error("index run {run} has {len} bytes, expected at most {max}")]
    TooLong {
        /// Which run.
        run: ObjectId,
        /// Its length in bytes.
        len: u64,
        /// The maximum length in bytes.
        max: u64,
    },
    /// The object is damaged or is not this run.
    #[error("index run {run} {source}")]
    Envelope {
        /// Which run.
        run: ObjectId,
        /// What is wrong.
        source: SealError,
    },
    /// The run passes its check but is malformed.
    #[error("index run {run} is {source}")]
    Malformed {
        /// Which run.
        run: ObjectId,
        /// Where decoding failed.
        source: WireError,
    },
    /// A file of the local index could not be read or written.
    #[error("the local index cannot be accessed")]
    Local(#[source] BackendError),
    /// A page of the local index is damaged.
    #[error("page {page} of {file} in the local index is damaged")]
    DamagedPage {
        /// The file.
        file: String,
        /// Which page of it.
        page: u64,
    },
    /// The journal of the local index is invalid, or does not match the other files.
    #[error("the local index cannot be used: {0}")]
    Unfit(&'static str),
}

impl IndexError {
    /// Whether the error concerns only the local index, not the repository.
    pub fn is_local(&self) -> bool {
        matches!(self, Self::Local(_) | Self::DamagedPage { .. } | Self::Unfit(_))
    }

    /// Whether another process has the local index open.
    pub fn is_in_use(&self) -> bool {
        matches!(self, Self::Local(BackendError::InUse { .. }))
    }
}
