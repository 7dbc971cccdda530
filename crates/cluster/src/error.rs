use onefold_backend::rados::{RadosError, Refusal};
use onefold_backend::{BackendError, Operation};
use onefold_seal::wire::WireError;
use onefold_volume::VolumeError;

/// What can go wrong with a cluster.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The pool for metadata is erasure-coded.
    #[error(
        "pool {pool} is erasure-coded, without omap and perhaps without appends of any length: expected a \
         replicated pool for metadata, and this one for data alone"
    )]
    ErasureCoded {
        /// Its name.
        pool: String,
    },
    /// A pool cannot have the containers of a domain.
    #[error(
        "pool {pool} cannot have the containers of these volumes: {why}; expected the pool that `cluster init` \
         prepared for them, or a namespace that nothing uses"
    )]
    OtherData {
        /// Its name.
        pool: String,
        /// Why.
        why: String,
    },
    /// A domain is in another cluster of Ceph, or another pool, than it was made in.
    #[error(
        "the volumes in pool {pool} belong elsewhere: expected {expected}, found {found}; name the cluster that they \
         were made in, or, if this is a copy that takes their place for good, accept it with `onefold cluster adopt`"
    )]
    Elsewhere {
        /// The name of the pool for metadata.
        pool: String,
        /// Where they were made.
        expected: String,
        /// Where they are.
        found: String,
    },
    /// A namespace has containers alone.
    #[error(
        "this namespace of pool {pool} has containers alone, of volumes in pool {meta}: name that pool, or \
         another namespace"
    )]
    OnlyData {
        /// Its name.
        pool: String,
        /// The pool with all else.
        meta: String,
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

/// The error of `object`, whose bytes are not what they must be.
pub(crate) fn damaged_object(object: &str, error: &WireError) -> VolumeError {
    VolumeError::Damaged {
        object: object.to_owned(),
        at: error.at as u64,
        problem: error.to_string(),
    }
}
