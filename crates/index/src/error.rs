use onefold_backend::BackendError;
use onefold_seal::wire::WireError;
use onefold_seal::{ObjectId, SealError};

/// What can be wrong with a run of the index.
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
    /// The run is longer than any that this program writes.
    #[error("index run {run} has {len} bytes, expected at most {max}")]
    TooLong {
        /// Which run.
        run: ObjectId,
        /// Its length in bytes.
        len: u64,
        /// The longest that is read.
        max: u64,
    },
    /// The object is damaged or not this run.
    #[error("index run {run} {source}")]
    Envelope {
        /// Which run.
        run: ObjectId,
        /// What is wrong.
        source: SealError,
    },
    /// The run passes its check and still makes no sense.
    #[error("index run {run} is {source}")]
    Malformed {
        /// Which run.
        run: ObjectId,
        /// Where decoding failed.
        source: WireError,
    },
}
