//! What a GPU gains, and by what: the ablations of Shredder (P. Bhatotia, R. Rodrigues, A. Verma, "Shredder:
//! GPU-Accelerated Incremental Storage and Computation", FAST 2012), and its rates beside the cores' of
//! this machine.
//!
//! Every rate follows a comparison of all chunks with those of the CPU.

use std::fmt;
use std::num::NonZero;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, ensure};
use onefold_cdc::{Algorithm, ChunkSizes, Chunker, Params};
use onefold_fingerprint::Fingerprinter;
use onefold_gpu::{
    CODE_SIZES, Device, GpuError, Info, KeptLanes, Memory, OnLoss, Settings, Work, cpu_rate,
    device_rate, lane_time, page_rate, resident_rates, run, sample, upload_rate,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Offload, Watch};

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Bytes of random data in memory.
    pub bytes: usize,
    /// Timed rounds, of which the best counts.
    pub rounds: u32,
    /// Bytes of mixed data on which every chunk is compared first.
    pub equality: u64,
    /// Threads of the CPU to compare with.
    pub threads: NonZero<usize>,
    /// What is measured, in this order.
    pub parts: Vec<Part>,
    /// How long each measurement of energy runs at least: the counters of devices are slow.
    pub energy: Duration,
}

/// What can be measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Chunks of mixed data, compared with those of the CPU.
    Equality,
    /// Copies to the device: figures 3 and 6.
    Copies,
    /// Double buffering and segments at work: figures 5 and 9.
    Overlap,
    /// Shared memory: figure 11.
    Tiles,
    /// The CPU, and versions of the device's program: figure 12.
    Versions,
    /// Today's algorithms.
    Algorithms,
    /// SHA3-256 of pages, against the bound of its instructions.
    Pages,
    /// The energy that the device uses.
    Energy,
}

impl Part {
    /// Every part.
    pub const ALL: [Self; 8] = [
        Self::Equality,
        Self::Copies,
        Self::Overlap,
        Self::Tiles,
        Self::Versions,
        Self::Algorithms,
        Self::Pages,
        Self::Energy,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Equality => "equality",
            Self::Copies => "copies",
            Self::Overlap => "overlap",
            Self::Tiles => "tiles",
            Self::Versions => "versions",
            Self::Algorithms => "algorithms",
            Self::Pages => "pages",
            Self::Energy => "energy",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Part {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|part| part.name() == name);
        found.with_context(|| {
            format!(
                "unknown part '{name}', expected one of {}",
                Self::ALL.map(Self::name).join(", ")
            )
        })
    }
}

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
    /// From memory of the host through the device.
    pub device_bytes_per_second: f64,
    /// One thread of the CPU.
    pub cpu_bytes_per_second: f64,
    /// All threads.
    pub all_threads_bytes_per_second: f64,
    /// What is in the device's memory, until candidates or minima are on the host.
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

impl Target {
    /// Whether it was reached.
    pub fn is_met(&self) -> bool {
        self.found >= self.wanted
    }
}

/// The rules that devices have.
const ALGORITHMS: [Algorithm; 8] = [
    Algorithm::MinCdc,
    Algorithm::FastCdc,
    Algorithm::Gear,
    Algorithm::Gear32,
    Algorithm::Gear16,
    Algorithm::Rabin,
    Algorithm::Crc,
    Algorithm::Buzhash,
];

/// The functions that devices have.
const FUNCTIONS: [Fingerprinter; 3] =
    [Fingerprinter::blake3(), Fingerprinter::sha3(), Fingerprinter::sha256()];

/// The mean chunk size of all measurements.
const MEAN: usize = 16 << 10;

/// Measures `device`. What was measured when `watch` is cancelled is returned. `keep` gets what was measured after
/// each part, so that it is not lost if the process is killed in a later one.
pub fn measure(
    device: &dyn Device,
    plan: &Plan,
    watch: &dyn Watch,
    mut keep: impl FnMut(&Results) -> Result<()>,
) -> Result<Results> {
    ensure!(plan.bytes >= 256 << 10, "{} bytes to measure, expected at least 256 KiB", plan.bytes);
    let info = device.info();
    let mut results = Results {
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
    };
    let data = sample(plan.bytes);
    for &part in &plan.parts {
        let run: Run = match part {
            Part::Equality => compare,
            Part::Copies => transfers,
            Part::Overlap => overlap,
            Part::Tiles => tiles,
            Part::Versions => versions,
            Part::Algorithms => rates,
            Part::Pages => pages,
            Part::Energy => energy,
        };
        watch.begin(part.name(), 0);
        if watch.is_cancelled() {
            return Ok(results);
        }
        run(device, plan, &data, &mut results, watch)?;
        if !watch.is_cancelled() {
            results.parts.push(part);
        }
        results.targets = targets(&results);
        keep(&results)?;
    }
    results.is_complete = results.parts == plan.parts;
    Ok(results)
}

type Run = fn(&dyn Device, &Plan, &[u8], &mut Results, &dyn Watch) -> Result<()>;

/// Compares all chunks of mixed data, with each rule and function in turn.
fn compare(
    device: &dyn Device,
    plan: &Plan,
    _: &[u8],
    results: &mut Results,
    watch: &dyn Watch,
) -> Result<()> {
    const BLOCK: usize = 32 << 20;
    let mut number = 0;
    let bytes = plan.equality;
    watch.begin("comparing chunks", bytes);
    while results.equal_bytes < bytes && !watch.is_cancelled() {
        let len = BLOCK.min((bytes - results.equal_bytes) as usize);
        let algorithm = ALGORITHMS[number % ALGORITHMS.len()];
        let function = FUNCTIONS[number / ALGORITHMS.len() % FUNCTIONS.len()].clone();
        let name = function.algorithm();
        let mean = [4 << 10, MEAN, 64 << 10][number % 3];
        let chunker = Chunker::new(&Params::for_mean(algorithm, mean)?)?;
        let data = mixed(number as u64, len);
        let settings = Settings { segment: Some(4 << 20), ..Settings::new(Some(function)) };
        device_rate(device, &chunker, &settings, &data, 0)
            .with_context(|| format!("{algorithm} and {name} on mixed data {number}"))?;
        results.equal_bytes += len as u64;
        watch.advance(len as u64);
        number += 1;
    }
    Ok(())
}

/// Random bytes, runs, few different bytes and repetitions, in stretches of all lengths.
fn mixed(seed: u64, len: usize) -> Vec<u8> {
    let random = sample(1 << 20);
    let mut bytes = Vec::with_capacity(len);
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while bytes.len() < len {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = state >> 33;
        let stretch = 1 + (number as usize % (400 << 10)).min(len - bytes.len() - 1);
        let from = number as usize % (random.len() - stretch);
        let source = &random[from..from + stretch];
        match number >> 20 & 3 {
            0 => bytes.extend(source),
            1 => bytes.resize(bytes.len() + stretch, number as u8),
            2 => bytes.extend(source.iter().map(|byte| byte & 3)),
            _ => {
                let period = 1 + number as usize % 5000;
                bytes.extend(source.iter().take(period).cycle().take(stretch));
            }
        }
    }
    bytes
}

/// Figure 3, the length of a copy, and figure 6, what memory takes to get.
fn transfers(
    device: &dyn Device,
    plan: &Plan,
    data: &[u8],
    results: &mut Results,
    watch: &dyn Watch,
) -> Result<()> {
    let lens =
        [4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 32 << 20, 64 << 20, 256 << 20];
    for bytes in lens.into_iter().filter(|&bytes| bytes <= data.len()) {
        if watch.is_cancelled() {
            return Ok(());
        }
        let rate = |memory| upload_rate(device, bytes, memory, 10 * plan.rounds.max(1));
        let time = |memory| lane_time(device, bytes, memory, plan.rounds);
        results.transfers.push(Transfer {
            bytes: bytes as u64,
            pinned_bytes_per_second: rate(Memory::Pinned)?,
            pageable_bytes_per_second: rate(Memory::Pageable)?,
            pinned_seconds: time(Memory::Pinned)?.as_secs_f64(),
            pageable_seconds: time(Memory::Pageable)?.as_secs_f64(),
        });
    }
    Ok(())
}

/// The paper's chunker: Rabin, no fingerprint.
fn rabin() -> Result<Chunker> {
    Ok(Chunker::new(&Params::new(Algorithm::Rabin, ChunkSizes::around(MEAN)?))?)
}

fn step(results: &mut Results, figure: u32, name: &str, rate: f64, paper: Option<f64>) {
    let first = results.steps.iter().find(|step| step.figure == figure);
    let ratio = first.map_or(1.0, |first| rate / first.bytes_per_second);
    let name = name.to_owned();
    results.steps.push(Step { figure, name, bytes_per_second: rate, ratio, paper });
}

/// Figure 5, one buffer or two, and figure 9, how many segments are at work.
fn overlap(
    device: &dyn Device,
    plan: &Plan,
    data: &[u8],
    results: &mut Results,
    watch: &dyn Watch,
) -> Result<()> {
    let chunker = rabin()?;
    for (figure, lanes, name, paper) in [
        (5, 1, "copy, then search", Some(1.0)),
        (5, 2, "copy while the other buffer is searched", Some(1.0 / 0.85)),
        (9, 1, "1 segment at a time", Some(1.0)),
        (9, 2, "2 segments", None),
        (9, 3, "3 segments", None),
        (9, 4, "4 segments", Some(2.0)),
        (9, 8, "8 segments", None),
    ] {
        if watch.is_cancelled() {
            return Ok(());
        }
        let settings = Settings { lanes, ..Settings::new(None) };
        let rate = device_rate(device, &chunker, &settings, data, plan.rounds)?;
        step(results, figure, name, rate, paper);
    }
    Ok(())
}

/// Figure 11: bytes fetched by each work-item, or together into shared memory.
fn tiles(
    device: &dyn Device,
    plan: &Plan,
    data: &[u8],
    results: &mut Results,
    _: &dyn Watch,
) -> Result<()> {
    let chunker = rabin()?;
    for (without_tiles, name, paper) in
        [(true, "each work-item by itself", 1.0), (false, "together, by tiles", 8.0)]
    {
        let settings = Settings { without_tiles, ..Settings::new(None) };
        let part = &data[..data.len().min(256 << 20)];
        let rates = resident_rates(device, &chunker, &settings, part, plan.rounds)?;
        step(results, 11, name, rates.search, Some(paper));
    }
    Ok(())
}

/// Figure 12: all threads of the CPU, and three versions of the device's program.
fn versions(
    device: &dyn Device,
    plan: &Plan,
    data: &[u8],
    results: &mut Results,
    watch: &dyn Watch,
) -> Result<()> {
    let chunker = rabin()?;
    let rate = cpu_rate(&chunker, None, data, plan.threads, plan.rounds);
    step(results, 12, &format!("CPU, {} threads", plan.threads), rate, Some(1.0));
    let basic =
        Settings { lanes: 1, memory: Memory::Pageable, without_tiles: true, ..Settings::new(None) };
    let streams = Settings { lanes: 4, memory: Memory::Pinned, ..basic.clone() };
    let all = Settings { without_tiles: false, ..streams.clone() };
    for (settings, name, paper) in [
        (basic, "GPU basic", Some(2.0)),
        (streams, "GPU streams", None),
        (all, "GPU streams + memory", Some(5.0)),
    ] {
        if watch.is_cancelled() {
            return Ok(());
        }
        let rate = device_rate(device, &chunker, &settings, data, plan.rounds)?;
        step(results, 12, name, rate, paper);
    }
    Ok(())
}

/// Today's algorithms and functions.
fn rates(
    device: &dyn Device,
    plan: &Plan,
    data: &[u8],
    results: &mut Results,
    watch: &dyn Watch,
) -> Result<()> {
    let cuts = ALGORITHMS.map(|algorithm| (algorithm, None));
    let both = [Algorithm::MinCdc, Algorithm::Gear]
        .into_iter()
        .flat_map(|algorithm| FUNCTIONS.map(|function| (algorithm, Some(function))));
    for (algorithm, fingerprinter) in cuts.into_iter().chain(both) {
        if watch.is_cancelled() {
            return Ok(());
        }
        let chunker = Chunker::new(&Params::for_mean(algorithm, MEAN)?)?;
        let settings = Settings::new(fingerprinter);
        let part = &data[..data.len().min(256 << 20)];
        let resident = resident_rates(device, &chunker, &settings, part, plan.rounds)?;
        let used = settings.fingerprinter.as_ref();
        let on_cpu = |data, threads| cpu_rate(&chunker, used, data, threads, plan.rounds);
        results.rates.push(Rate {
            algorithm: algorithm.to_string(),
            fingerprint: used.map(|function| function.algorithm().to_string()),
            device_bytes_per_second: device_rate(device, &chunker, &settings, data, plan.rounds)?,
            cpu_bytes_per_second: on_cpu(part, NonZero::<usize>::MIN),
            all_threads_bytes_per_second: on_cpu(data, plan.threads),
            resident_search_bytes_per_second: resident.search,
            resident_cut_bytes_per_second: resident.cut,
            resident_fingerprint_bytes_per_second: resident.fingerprint,
        });
    }
    Ok(())
}

/// Bytes of a page.
const PAGE: usize = 4096;

/// SHA3-256 of pages: as many as positions in a buffer allow, so that all multiprocessors have several groups.
fn pages(
    device: &dyn Device,
    plan: &Plan,
    data: &[u8],
    results: &mut Results,
    _: &dyn Watch,
) -> Result<()> {
    let part = &data[..data.len().min(1 << 30)];
    let bytes_per_second = page_rate(device, &Fingerprinter::sha3(), PAGE, part, plan.rounds)?;
    let bound = bound(device.info());
    results.pages = Some(Pages { page_bytes: PAGE as u64, bytes_per_second, bound });
    Ok(())
}

/// Bytes of pages that a device can hash at most by SHA3-256, if only the rounds of its permutation took time.
///
/// A multiprocessor of compute capability 8 or 9 does 64 of the bitwise operations and shifts in a clock that 194 of the
/// 199 instructions are (CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions").
fn bound(info: &Info) -> Option<Bound> {
    const EACH_CLOCK: f64 = 64.0;
    const ROUNDS: usize = 24;
    const TAKEN_IN: usize = 136;
    let generation = match info.generation? {
        8 => "sm_80",
        9 => "sm_90",
        _ => return None,
    };
    let clock_hz = info.clock?;
    let sizes: Value = serde_json::from_str(CODE_SIZES).expect("JSON");
    let round = &sizes["kernels"][format!("{generation}/sha3_256")]["innermost"];
    let instructions_per_round = round.as_u64().expect("the table has each kernel's");
    let rounds = ROUNDS * (PAGE / TAKEN_IN + 1);
    let a_page = rounds as f64 * instructions_per_round as f64;
    let each_second = f64::from(info.units) * clock_hz as f64 * EACH_CLOCK;
    let bytes_per_second = PAGE as f64 * each_second / a_page;
    Some(Bound { instructions_per_round, units: info.units, clock_hz, bytes_per_second })
}

/// What the device uses while it cuts and fingerprints.
fn energy(
    device: &dyn Device,
    plan: &Plan,
    data: &[u8],
    results: &mut Results,
    watch: &dyn Watch,
) -> Result<()> {
    for (algorithm, function) in [
        (Algorithm::MinCdc, Fingerprinter::blake3()),
        (Algorithm::MinCdc, Fingerprinter::sha3()),
        (Algorithm::Gear, Fingerprinter::blake3()),
    ] {
        let before = match device.joules() {
            Ok(joules) => joules,
            Err(reason) => {
                results.energy_missing = Some(reason);
                return Ok(());
            }
        };
        if watch.is_cancelled() {
            return Ok(());
        }
        let chunker = Chunker::new(&Params::for_mean(algorithm, MEAN)?)?;
        let settings = Settings::new(Some(function.clone()));
        let (start, mut bytes) = (Instant::now(), 0);
        while bytes == 0 || start.elapsed() < plan.energy {
            run(device, &chunker, &settings, data, |_| Ok(()))?;
            bytes += data.len() as u64;
        }
        let seconds = start.elapsed().as_secs_f64();
        let joules = device.joules().map_err(Error::msg)? - before;
        let (algorithm, fingerprint) = (algorithm.to_string(), function.algorithm().to_string());
        results.energy.push(Energy { algorithm, fingerprint, bytes, seconds, joules });
    }
    Ok(())
}

/// A device as something that is timed beside the CPU's kernels.
#[derive(Debug)]
pub struct OnDevice {
    device: KeptLanes,
    lost: OnceLock<GpuError>,
}

impl OnDevice {
    /// Times `device`.
    pub fn new(device: Box<dyn Device>) -> Self {
        Self { device: KeptLanes::new(device), lost: OnceLock::new() }
    }
}

impl Offload for OnDevice {
    fn name(&self) -> String {
        let info = self.device.info();
        format!("{}:{}", info.api, info.number)
    }

    fn refusal(&self, chunker: &Chunker) -> Option<String> {
        Work::new(chunker, Some(&Fingerprinter::blake3())).err().map(|error| error.to_string())
    }

    fn cut(&self, chunker: &Chunker, input: &[u8], fingerprinted: bool, found: &mut Vec<usize>) {
        let fingerprinter = fingerprinted.then(Fingerprinter::blake3);
        let settings = Settings { on_loss: OnLoss::UseCpu, ..Settings::new(fingerprinter) };
        let summary = run(&self.device, chunker, &settings, input, |piece| {
            found.extend(piece.chunks().map(|chunk| chunk.end as usize));
            Ok(())
        });
        match summary {
            Ok(summary) => summary.lost.map(|lost| self.lost.get_or_init(|| lost)),
            // bytes in memory can be read, nothing is stored, and the CPU goes on
            Err(error) => panic!("a run on {} ended: {error}", self.name()),
        };
    }

    fn lost(&self) -> Option<String> {
        self.lost.get().map(ToString::to_string)
    }
}

/// What a GPU is to reach, of what was measured.
fn targets(results: &Results) -> Vec<Target> {
    let mut targets = Vec::new();
    let pinned = results.transfers.iter().map(|transfer| transfer.pinned_bytes_per_second);
    let bus = pinned.fold(0.0, f64::max);
    for rate in &results.rates {
        let Rate { algorithm, fingerprint, .. } = rate;
        match fingerprint.as_deref() {
            Some(function @ ("blake3" | "sha3-256")) if bus > 0.0 => targets.push(Target {
                what: format!(
                    "{algorithm} and {function} end to end, as a share of the rate of pinned copies"
                ),
                wanted: 0.9,
                found: rate.device_bytes_per_second / bus,
            }),
            None if algorithm == "gear" || algorithm == "rabin" => {
                let (search, cut) =
                    (rate.resident_search_bytes_per_second, rate.resident_cut_bytes_per_second);
                targets.push(Target {
                    what: format!("{algorithm} cuts of what is in the device's memory, GB/s"),
                    wanted: 300.0,
                    found: cut / 1e9,
                });
                targets.push(Target {
                    what: format!("{algorithm} there with minimum and maximum, as a share without"),
                    wanted: 0.9,
                    found: cut / search.max(1.0),
                });
            }
            _ => {}
        }
    }
    if let Some(Pages { bytes_per_second, bound: Some(bound), .. }) = &results.pages {
        targets.push(Target {
            what: "SHA3-256 of pages there, as a share of what its instructions allow".into(),
            wanted: 0.5,
            found: bytes_per_second / bound.bytes_per_second,
        });
    }
    targets
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use onefold_gpu::{Fault, Simulated};

    fn plan() -> Plan {
        let threads = NonZero::new(2).expect("two");
        let parts = Part::ALL.to_vec();
        let energy = Duration::ZERO;
        Plan { bytes: 256 << 10, rounds: 1, equality: 400_000, threads, parts, energy }
    }

    #[test]
    fn every_part_is_measured_on_a_device_that_works() {
        let mut kept = Vec::new();
        let keep = |results: &Results| {
            kept.push(results.parts.len());
            Ok(())
        };
        let results = measure(&Simulated::new(), &plan(), &(), keep).unwrap();
        assert_eq!(kept, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert!(results.is_complete && results.is_cpu);
        assert_eq!(results.equal_bytes, 400_000);
        assert_eq!(results.transfers.len(), 3);
        let figures: Vec<u32> = results.steps.iter().map(|step| step.figure).collect();
        assert_eq!(figures, [5, 5, 9, 9, 9, 9, 9, 11, 11, 12, 12, 12, 12]);
        assert_eq!(results.rates.len(), ALGORITHMS.len() + 2 * FUNCTIONS.len());
        assert_eq!(results.targets.len(), 8);
        assert!(results.pages.as_ref().unwrap().bytes_per_second > 0.0);
        let missing = results.energy_missing.as_deref();
        assert_eq!(missing, Some("simulated:0 (made up) does not tell"));
        let text = serde_json::to_string(&results).unwrap();
        assert_eq!(serde_json::from_str::<Results>(&text).unwrap(), results);
    }

    #[test]
    fn a_device_that_cuts_elsewhere_is_not_timed() {
        let wrong = Simulated::new().with_fault(Fault::Miscounts);
        let error = measure(&wrong, &plan(), &(), |_| Ok(())).unwrap_err();
        assert!(format!("{error:#}").contains("gave a wrong result"), "{error:#}");
    }

    /// Cancelled when it is asked the given number of times.
    struct CancelledAt(AtomicUsize);

    impl Watch for CancelledAt {
        fn begin(&self, _: &str, _: u64) {}
        fn advance(&self, _: u64) {}
        fn is_cancelled(&self) -> bool {
            self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_err()
        }
    }

    #[test]
    fn a_measurement_that_is_cut_off_has_what_it_measured_and_says_which_parts() {
        let parts = vec![Part::Copies, Part::Algorithms];
        let plan = Plan { parts, ..plan() };
        // before copies, before each of three lengths, after them; before algorithms, before two of them
        let watch = CancelledAt(AtomicUsize::new(8));
        let results = measure(&Simulated::new(), &plan, &watch, |_| Ok(())).unwrap();
        assert_eq!(results.parts, [Part::Copies]);
        assert_eq!((results.transfers.len(), results.rates.len()), (3, 2));
        assert!(!results.is_complete && results.equal_bytes == 0);
    }

    #[test]
    fn the_bound_of_pages_follows_from_rounds_units_and_clock() {
        let known = Info {
            units: 100,
            generation: Some(9),
            clock: Some(1_000_000_000),
            ..Simulated::new().info().clone()
        };
        let found = bound(&known).unwrap();
        assert_eq!((found.units, found.clock_hz), (100, 1_000_000_000));
        // 31 permutations of 24 rounds
        let clocks = 31.0 * 24.0 * found.instructions_per_round as f64 / 64.0;
        let expected = 4096.0 / clocks * 100e9;
        assert!((found.bytes_per_second / expected - 1.0).abs() < 1e-9, "{found:?}");
        // theta and chi alone have 60 and 50 operations on half lanes, and rho 48 shifts
        assert!((150..400).contains(&found.instructions_per_round), "{found:?}");
        for unknown in [
            Info { generation: None, ..known.clone() },
            Info { generation: Some(12), ..known.clone() },
            Info { clock: None, ..known },
        ] {
            assert_eq!(bound(&unknown), None);
        }
    }

    #[test]
    fn parts_have_names() {
        for part in Part::ALL {
            assert_eq!(part.to_string().parse::<Part>().unwrap(), part);
        }
        let error = "copy".parse::<Part>().unwrap_err().to_string();
        assert!(
            error.starts_with("unknown part 'copy', expected one of equality, copies,"),
            "{error}"
        );
    }

    #[test]
    fn mixed_data_is_as_long_as_wanted_and_of_its_seed() {
        for len in [1, 1000, 1 << 20] {
            assert_eq!(mixed(1, len).len(), len);
        }
        assert_eq!(mixed(1, 100_000), mixed(1, 100_000));
        assert_ne!(mixed(1, 100_000), mixed(2, 100_000));
    }
}
