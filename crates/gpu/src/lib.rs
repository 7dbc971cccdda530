//! Cut-points and fingerprints by a GPU, equal to those of the CPU.
//!
//! A [`Device`] runs the kernels of the folder `kernels/`: by CUDA, by OpenCL, or simulated. A
//! [`Lane`] is memory and a queue of it. [`Work`] finds cut-points and fingerprints of one buffer;
//! [`run`] does so for a reader, with several lanes at once: one is filled while another computes.
//!
//! ```
//! use onefold_cdc::{Algorithm, Chunker, Params};
//! use onefold_fingerprint::Fingerprinter;
//! use onefold_gpu::{Settings, Simulated, run};
//!
//! let chunker = Chunker::new(&Params::for_mean(Algorithm::MinCdc, 8192)?)?;
//! let settings = Settings::new(Some(Fingerprinter::blake3()));
//! let data = vec![7; 100_000];
//! let mut ends = Vec::new();
//! run(&Simulated::new(), &chunker, &settings, &data[..], |piece| {
//!     ends.extend(piece.chunks().map(|chunk| chunk.end));
//!     Ok(())
//! })?;
//! assert_eq!(ends.last(), Some(&100_000));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod choice;
mod cuda;
mod device;
mod error;
mod input;
mod kept;
mod kernel;
mod nvml;
mod opencl;
mod pipeline;
mod rates;
mod resident;
mod select;
mod simulated;
mod trace;
mod work;

#[doc(hidden)]
pub use choice::open_cuda_with;
pub use choice::{Choice, Listed, Name, list, open};
pub use device::{Api, Argument, Device, Info, Lane, Memory, Resident, Slot};
pub use error::GpuError;
pub use input::ReadAt;
pub use kept::KeptLanes;
pub use kernel::{CODE_SIZES, Kernel, SPARE, STRIP, TILE, opencl_source};
pub use opencl::OpenCl;
pub use pipeline::{Chunk, OnLoss, Piece, RunError, Settings, Summary, run, run_at};
pub use rates::{
    Decision, Reading, ResidentRates, compared, cpu_chunks, cpu_rate, decide, device_rate,
    lane_time, page_rate, resident_rates, sample, upload_rate,
};
pub use resident::cut_resident;
pub use simulated::{Arrays, Fault, Simulated};
pub use trace::{Span, Stage, Trace};
pub use work::{Range, Work};
