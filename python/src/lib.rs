//! Onefold for Python: the module `onefold._onefold`. The package `onefold` is the interface to use,
//! docs/python.md describes it.

mod bytes;
mod chunker;
mod errors;
mod fingerprints;
#[cfg(feature = "gpu")]
mod gpu;
mod numbers;
mod rapid;
#[cfg(feature = "repository")]
mod repository;
mod stream;

use pyo3::prelude::*;

/// What the package is made of.
#[pymodule(gil_used = false)]
mod _onefold {
    #[pymodule_export]
    use crate::chunker::{Chunker, algorithms, kernels};
    #[pymodule_export]
    use crate::fingerprints::{fingerprint, fingerprint_chunks, fingerprint_many};
    #[cfg(feature = "gpu")]
    #[pymodule_export]
    use crate::gpu::Device;
    #[pymodule_export]
    use crate::numbers::{CutPoints, Fingerprints};
    #[pymodule_export]
    use crate::rapid::{Hints, RapidCounters};
    #[cfg(feature = "repository")]
    #[pymodule_export]
    use crate::repository::{
        Entry, FileContent, RepositoryCore, RepositoryError, RepositoryWarning, Snapshot,
    };
    #[pymodule_export]
    use crate::stream::{Chunk, ChunkStream};

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
