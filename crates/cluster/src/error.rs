use onefold_backend::rados::{RadosError, Refusal};
use onefold_backend::{BackendError, Operation};
use onefold_volume::VolumeError;

/// What can go wrong with a cluster.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The pool cannot hold what the cluster would keep in it.
    #[error(
        "pool {pool} takes appends only at multiples of {alignment} bytes, as erasure-coded pools do: \
         expected a replicated pool for metadata"
    )]
    Aligned {
        /// Its name.
        pool: String,
        /// In bytes.
        alignment: u64,
    },
}

/// The error of a shard whose `operation` failed.
pub(crate) fn failed(operation: Operation, error: RadosError) -> VolumeError {
    let RadosError::Refused { object, pool, why } = &error else {
        return VolumeError::Unanswered { source: error.into() };
    };
    let (name, place) = (object.clone(), format!("pool {pool}"));
    match why {
        Refusal::Fenced => VolumeError::Stopped { why: error.to_string() },
        Refusal::Absent | Refusal::Damaged => {
            VolumeError::Damaged { object: name, at: 0, problem: why.to_string() }
        }
        Refusal::Full => BackendError::Full { name, operation, place, source: error.into() }.into(),
        _ => BackendError::Io { name, operation, place, source: error.into() }.into(),
    }
}
