//! What was measured.

use onefold_gpu::Info;
use serde::{Deserialize, Serialize};

use super::{Part, Plan};

/// All that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The device, as a user names it, and its maker.
    pub device: String,
    /// Its driver.
    pub driver: String,
    /// Whether it is the CPU in another form: then the figures say nothing of a GPU.
    pub is_cpu: bool,
    /// Bytes of random data.
    pub bytes: u64,
    /// Timed rounds, of which the best counts.
    pub rounds: u32,
    /// Threads of the CPU that were compared with.
    pub threads: usize,
    /// Bytes of mixed data whose chunks and fingerprints were all those of the CPU.
    pub equal_bytes: u64,
    /// Figures 3 and 6 of the paper.
    pub transfers: Vec<Transfer>,
    /// Figures 5, 9, 11 and 12.
    pub steps: Vec<Step>,
    /// Today's algorithms.
    pub rates: Vec<Rate>,
    /// SHA3-256 of pages.
    pub pages: Option<Pages>,
    /// What energy the device used.
    pub energy: Vec<Energy>,
    /// Why no energy was measured, if that was wanted.
    pub energy_missing: Option<String>,
    /// The parts that were measured to their end.
    pub parts: Vec<Part>,
    /// What was aimed at, and whether it was reached.
    pub targets: Vec<Target>,
    /// Whether nothing was left out.
    pub is_complete: bool,
}

/// Copies of one length from the host to the device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// Bytes of a copy.
    pub bytes: u64,
    /// From pinned memory.
    pub pinned_bytes_per_second: f64,
    /// From ordinary memory.
    pub pageable_bytes_per_second: f64,
    /// How long pinned memory takes to get, with the device's for it.
    pub pinned_seconds: f64,
    /// The same of ordinary memory.
    pub pageable_seconds: f64,
}

/// One bar of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The paper's figure.
    pub figure: u32,
    /// What was measured.
    pub name: String,
    /// Bytes that were cut a second.
    pub bytes_per_second: f64,
    /// How many times the rate of the figure's first bar.
    pub ratio: f64,
    /// The same in the paper, where it tells.
    pub paper: Option<f64>,
}

/// An algorithm and a function, on device and CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// The chunker.
    pub algorithm: String,
    /// The fingerprint, if any.
    pub fingerprint: Option<String>,
    /// From memory of the host through the device, read by several threads.
    pub device_bytes_per_second: f64,
    /// The same, read as a stream.
    pub stream_bytes_per_second: f64,
    /// One thread of the CPU.
    pub cpu_bytes_per_second: f64,
    /// All threads.
    pub all_threads_bytes_per_second: f64,
    /// What is in the device's memory, until candidates or chains are on the host.
    pub resident_search_bytes_per_second: f64,
    /// What is in the device's memory, until cut-points with minimum and maximum are on the host.
    pub resident_cut_bytes_per_second: f64,
    /// What is in the device's memory, until fingerprints are on the host.
    pub resident_fingerprint_bytes_per_second: Option<f64>,
}

/// SHA3-256 of pages in the device's memory, without copies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pages {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// What the kernel hashes.
    pub bytes_per_second: f64,
    /// Instructions of a round, multiprocessors and clock: what the bound is made of, if all are known.
    pub bound: Option<Bound>,
}

/// What a device can do at most.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// Instructions of a round, counted in the machine code that NVIDIA's assembler makes ahead of time. The
    /// driver's own may differ.
    pub instructions_per_round: u64,
    /// Multiprocessors.
    pub units: u32,
    /// Their highest clock.
    pub clock_hz: u64,
    /// The bound.
    pub bytes_per_second: f64,
}

/// Cutting and fingerprinting by the device for some time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Energy {
    /// The chunker.
    pub algorithm: String,
    /// The fingerprint.
    pub fingerprint: String,
    /// What was cut, from memory of the host.
    pub bytes: u64,
    /// How long.
    pub seconds: f64,
    /// What the device used, what it uses when idle included. The host is not counted.
    pub joules: f64,
}

/// Something that was aimed at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// In words.
    pub what: String,
    /// What was to be reached.
    pub wanted: f64,
    /// What was.
    pub found: f64,
}

impl Results {
    /// Nothing yet, of the device that `info` is of.
    pub(super) fn new(info: &Info, plan: &Plan) -> Self {
        Self {
            device: info.to_string(),
            driver: info.driver.clone(),
            is_cpu: info.is_cpu,
            bytes: plan.bytes as u64,
            rounds: plan.rounds,
            threads: plan.threads.get(),
            equal_bytes: 0,
            transfers: Vec::new(),
            steps: Vec::new(),
            rates: Vec::new(),
            pages: None,
            energy: Vec::new(),
            energy_missing: None,
            parts: Vec::new(),
            targets: Vec::new(),
            is_complete: false,
        }
    }
}

impl Target {
    /// Whether it was reached.
    pub fn is_met(&self) -> bool {
        self.found >= self.wanted
    }
}
