//! What a GPU gains, and by what: the ablations of Shredder (P. Bhatotia, R. Rodrigues, A. Verma, "Shredder:
//! GPU-Accelerated Incremental Storage and Computation", FAST 2012), and its rates beside the cores' of
//! this machine.
//!
//! Every rate follows a comparison of all chunks with those of the CPU.

use std::num::NonZero;
use std::sync::OnceLock;

use anyhow::{Context, Result, ensure};
use onefold_cdc::{Algorithm, ChunkSizes, Chunker, Params};
use onefold_fingerprint::Fingerprinter;
use onefold_gpu::{
    Device, GpuError, KeptLanes, Memory, OnLoss, Settings, Work, cpu_rate, device_rate, lane_time,
    resident_rates, run, sample, upload_rate,
};
use serde::{Deserialize, Serialize};

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

/// Measures `device`. What was measured when `watch` is cancelled is returned.
pub fn measure(device: &dyn Device, plan: &Plan, watch: &dyn Watch) -> Result<Results> {
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
        targets: Vec::new(),
        is_complete: false,
    };
    compare(device, plan.equality, &mut results, watch)?;
    let data = sample(plan.bytes);
    let parts: [(&str, Part); 5] = [
        ("copies", transfers),
        ("double buffering and pipeline", overlap),
        ("shared memory", tiles),
        ("CPU and GPU", versions),
        ("algorithms", rates),
    ];
    for (name, part) in parts {
        watch.begin(name, 0);
        if watch.is_cancelled() {
            return Ok(results);
        }
        part(device, plan, &data, &mut results, watch)?;
    }
    if !watch.is_cancelled() {
        results.targets = targets(&results);
        results.is_complete = true;
    }
    Ok(results)
}

type Part = fn(&dyn Device, &Plan, &[u8], &mut Results, &dyn Watch) -> Result<()>;

/// Compares all chunks of `bytes` of mixed data, with each rule and function in turn.
fn compare(
    device: &dyn Device,
    bytes: u64,
    results: &mut Results,
    watch: &dyn Watch,
) -> Result<()> {
    const BLOCK: usize = 32 << 20;
    let mut number = 0;
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
            Some(function @ ("blake3" | "sha3-256")) => targets.push(Target {
                what: format!(
                    "{algorithm} and {function} end to end, as a share of the rate of pinned copies"
                ),
                wanted: 0.9,
                found: rate.device_bytes_per_second / bus.max(1.0),
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
    targets
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_gpu::{Fault, Simulated};

    fn plan() -> Plan {
        let threads = NonZero::new(2).expect("two");
        Plan { bytes: 256 << 10, rounds: 1, equality: 400_000, threads }
    }

    #[test]
    fn every_part_is_measured_on_a_device_that_works() {
        let results = measure(&Simulated::new(), &plan(), &()).unwrap();
        assert!(results.is_complete && results.is_cpu);
        assert_eq!(results.equal_bytes, 400_000);
        assert_eq!(results.transfers.len(), 3);
        let figures: Vec<u32> = results.steps.iter().map(|step| step.figure).collect();
        assert_eq!(figures, [5, 5, 9, 9, 9, 9, 9, 11, 11, 12, 12, 12, 12]);
        assert_eq!(results.rates.len(), ALGORITHMS.len() + 2 * FUNCTIONS.len());
        assert_eq!(results.targets.len(), 8);
        let text = serde_json::to_string(&results).unwrap();
        assert_eq!(serde_json::from_str::<Results>(&text).unwrap(), results);
    }

    #[test]
    fn a_device_that_cuts_elsewhere_is_not_timed() {
        let wrong = Simulated::new().with_fault(Fault::Miscounts);
        let error = measure(&wrong, &plan(), &()).unwrap_err();
        assert!(format!("{error:#}").contains("gave a wrong result"), "{error:#}");
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
