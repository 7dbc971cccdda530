//! How fast devices and this machine's cores are, and which to take: measured, after the results were found
//! to agree.

use std::io;
use std::num::NonZero;
use std::thread;
use std::time::{Duration, Instant};

use onefold_cdc::{Chunker, cut_points_parallel};
use onefold_fingerprint::Fingerprinter;

use crate::work::{Room, hash, launch_hash, prepare_hash, write_chunks};
use crate::{
    Choice, Chunk, Device, GpuError, KeptLanes, Listed, Memory, Name, Piece, Range, RunError,
    Settings, Slot, Summary, Work, list, open, run, run_at,
};

/// How the bytes in memory are read that a device is measured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// As a stream, by one thread: [`run`].
    InOrder,
    /// By several threads: [`run_at`].
    AtAnyPlace,
}

impl Reading {
    fn run(
        self,
        device: &dyn Device,
        chunker: &Chunker,
        settings: &Settings,
        data: &[u8],
        store: impl FnMut(Piece<'_>) -> io::Result<()>,
    ) -> Result<Summary, RunError> {
        match self {
            Self::InOrder => run(device, chunker, settings, data, store),
            Self::AtAnyPlace => run_at(device, chunker, settings, &data, store),
        }
    }
}

/// How long the device takes to cut and, if wanted, fingerprint `data`, all chunks of which must be those `expected`.
///
/// # Errors
/// [`GpuError::Wrong`] if they are not.
pub fn compared(
    device: &dyn Device,
    chunker: &Chunker,
    settings: &Settings,
    data: &[u8],
    reading: Reading,
    expected: &[Chunk],
) -> Result<Duration, RunError> {
    let mut found = Vec::with_capacity(expected.len());
    let summary = reading.run(device, chunker, settings, data, |piece| {
        found.extend(piece.chunks());
        Ok(())
    })?;
    if found != expected {
        let what = format!("other chunks of {} bytes than the CPU's", data.len());
        return Err(GpuError::Wrong { device: device.info().to_string(), what }.into());
    }
    Ok(summary.elapsed)
}

/// Bytes a second of `data` through the device: cut and, if wanted, fingerprinted. The best of `rounds` after one
/// that is compared with the CPU and that gets the memory, which [`lane_time`] measures.
///
/// # Errors
/// [`GpuError::Wrong`] if the cut-points or fingerprints are not the CPU's: that comes first.
pub fn device_rate(
    device: &dyn Device,
    chunker: &Chunker,
    settings: &Settings,
    data: &[u8],
    reading: Reading,
    rounds: u32,
) -> Result<f64, RunError> {
    let expected = cpu_chunks(chunker, settings.fingerprinter.as_ref(), data);
    let device = KeptLanes::new(Box::new(device));
    let mut best = compared(&device, chunker, settings, data, reading, &expected)?;
    for _ in 0..rounds {
        best = best.min(reading.run(&device, chunker, settings, data, |_| Ok(()))?.elapsed);
    }
    Ok(rate(data.len(), best))
}

/// Bytes a second of `threads` threads of the CPU, for the same work: cut, then fingerprinted. The best of
/// `rounds`.
pub fn cpu_rate(
    chunker: &Chunker,
    fingerprinter: Option<&Fingerprinter>,
    data: &[u8],
    threads: NonZero<usize>,
    rounds: u32,
) -> f64 {
    let mut best = Duration::MAX;
    for _ in 0..rounds.max(1) {
        let start = Instant::now();
        match threads.get() {
            1 => drop(std::hint::black_box(cpu_chunks(chunker, fingerprinter, data))),
            _ => on_threads(chunker, fingerprinter, data, threads),
        }
        best = best.min(start.elapsed());
    }
    rate(data.len(), best)
}

fn on_threads(
    chunker: &Chunker,
    fingerprinter: Option<&Fingerprinter>,
    data: &[u8],
    threads: NonZero<usize>,
) {
    let cuts = cut_points_parallel(chunker, data, threads);
    let Some(fingerprinter) = fingerprinter else { return };
    let ranges = Work::ranges(&cuts);
    let chunks: Vec<&[u8]> = ranges.iter().map(|range| &data[range.start..][..range.len]).collect();
    thread::scope(|scope| {
        for share in chunks.chunks(chunks.len().div_ceil(threads.get()).max(1)) {
            scope.spawn(move || {
                let mut found = Vec::with_capacity(share.len());
                fingerprinter.fingerprint_many(share, &mut found);
                std::hint::black_box(found);
            });
        }
    });
}

/// Bytes a second from `memory` of the host to the device, `bytes` at a time. The best of `rounds`.
pub fn upload_rate(
    device: &dyn Device,
    bytes: usize,
    memory: Memory,
    rounds: u32,
) -> Result<f64, GpuError> {
    let mut lane = device.lane(bytes, memory)?;
    lane.upload(bytes)?;
    lane.wait()?;
    let mut best = Duration::MAX;
    for _ in 0..rounds.max(1) {
        let start = Instant::now();
        lane.upload(bytes)?;
        lane.wait()?;
        best = best.min(start.elapsed());
    }
    Ok(rate(bytes, best))
}

/// Bytes a second of data that are in the device's memory already.
#[derive(Clone, Copy, Debug)]
pub struct ResidentRates {
    /// Until the candidates or chains are on the host.
    pub search: f64,
    /// Until the cut-points are, with minimum and maximum.
    pub cut: f64,
    /// From cut-points until the fingerprints are, if wanted.
    pub fingerprint: Option<f64>,
}

/// The rates of data that are in the device's memory. The best of `rounds`.
pub fn resident_rates(
    device: &dyn Device,
    chunker: &Chunker,
    settings: &Settings,
    data: &[u8],
    rounds: u32,
) -> Result<ResidentRates, GpuError> {
    let work = settings.work(chunker)?;
    let mut lane = device.lane(data.len(), Memory::Pinned)?;
    lane.input()[..data.len()].copy_from_slice(data);
    let (cuts, _) = work.whole(&mut *lane, data.len())?;
    let ranges = Work::ranges(&cuts);
    let [mut search, mut cut, mut hash] = [Duration::MAX; 3];
    let mut room = Room::of(data.len());
    for _ in 0..rounds.max(1) {
        let start = Instant::now();
        work.marks(&mut *lane, 0, data.len(), true, &mut room)?;
        search = search.min(start.elapsed());
        let start = Instant::now();
        work.cuts_on_device(&mut *lane, 0, data.len(), true, &mut room)?;
        cut = cut.min(start.elapsed());
        let start = Instant::now();
        work.fingerprints(&mut *lane, &ranges)?;
        hash = hash.min(start.elapsed());
    }
    let fingerprint = settings.fingerprinter.as_ref().map(|_| rate(data.len(), hash));
    let [search, cut] = [search, cut].map(|time| rate(data.len(), time));
    Ok(ResidentRates { search, cut, fingerprint })
}

/// Bytes a second of the kernels that fingerprint pages of `page` bytes, which `data`, in the device's memory,
/// consists of. No copy is timed. The best of `rounds` after one that is compared with the CPU.
///
/// # Errors
/// [`GpuError::Wrong`] if a fingerprint is not the CPU's.
pub fn page_rate(
    device: &dyn Device,
    fingerprinter: &Fingerprinter,
    page: usize,
    data: &[u8],
    rounds: u32,
) -> Result<f64, GpuError> {
    /// Kernels that are timed together, so that starting the first counts little.
    const TOGETHER: u32 = 4;
    let pages: Vec<&[u8]> = data.chunks_exact(page).collect();
    let len = pages.len() * page;
    let mut lane = device.lane(len, Memory::Pinned)?;
    lane.input()[..len].copy_from_slice(&data[..len]);
    lane.upload(len)?;
    prepare_hash(&mut *lane, fingerprinter)?;
    let ranges: Vec<Range> =
        (0..pages.len()).map(|number| Range { start: number * page, len: page }).collect();
    let found = hash(&mut *lane, fingerprinter, &ranges)?;
    let mut expected = Vec::with_capacity(pages.len());
    fingerprinter.fingerprint_many(&pages, &mut expected);
    if found != expected {
        let what = format!("other fingerprints of pages of {page} bytes than the CPU's");
        return Err(GpuError::Wrong { device: device.info().to_string(), what });
    }
    let leaves = write_chunks(&mut *lane, &ranges)?;
    lane.wait()?;
    let mut best = Duration::MAX;
    for _ in 0..rounds.max(1) {
        let start = Instant::now();
        for _ in 0..TOGETHER {
            launch_hash(&mut *lane, fingerprinter.algorithm(), pages.len(), leaves)?;
        }
        lane.wait()?;
        best = best.min(start.elapsed() / TOGETHER);
    }
    Ok(rate(len, best))
}

/// How long it takes to get `bytes` of `memory` that a device reads from, with what the device needs
/// beside. The best of `rounds`.
pub fn lane_time(
    device: &dyn Device,
    bytes: usize,
    memory: Memory,
    rounds: u32,
) -> Result<Duration, GpuError> {
    let mut best = Duration::MAX;
    for _ in 0..rounds.max(1) {
        let start = Instant::now();
        let mut lane = device.lane(bytes, memory)?;
        lane.reserve(Slot::Data, bytes)?;
        best = best.min(start.elapsed());
    }
    Ok(best)
}

/// Which device is to do a work, and why.
pub struct Decision {
    /// The device; `None` for the CPU.
    pub device: Option<Box<dyn Device>>,
    /// A sentence for the user.
    pub reason: String,
}

/// Bytes that [`decide`] tries a device with.
const SAMPLE: usize = 32 << 20;
/// Bytes that it tries one with before: a device that is far slower than a core would take a minute for all.
const FIRST: usize = 1 << 20;
/// Bytes a second of which a core cuts and fingerprints many times as many.
const HOPELESS: f64 = 20e6;

/// Opens the device that was chosen, or finds out whether one is faster than `threads` threads of the CPU.
///
/// # Errors
/// Only if a device was chosen by name: why it cannot be used for this.
pub fn decide(
    choice: Choice,
    chunker: &Chunker,
    settings: &Settings,
    reading: Reading,
    threads: NonZero<usize>,
) -> Result<Decision, GpuError> {
    let on_cpu = |reason: String| Decision { device: None, reason };
    match choice {
        Choice::Cpu => Ok(on_cpu("the CPU was chosen".into())),
        Choice::Device(name) => {
            settings.work(chunker)?;
            let device = open(name)?;
            let reason = format!("{} was chosen", device.info());
            Ok(Decision { device: Some(device), reason })
        }
        Choice::Auto => Ok(settings.work(chunker).map_or_else(
            |error| on_cpu(format!("the CPU is used: {error}")),
            |_| fastest(list(), chunker, settings, reading, threads),
        )),
    }
}

/// The fastest of those that are `listed` and are no CPU, if one is faster than `threads` threads of the CPU.
fn fastest(
    listed: Vec<Listed>,
    chunker: &Chunker,
    settings: &Settings,
    reading: Reading,
    threads: NonZero<usize>,
) -> Decision {
    let mut reasons = Vec::new();
    let mut best: Option<(Box<dyn Device>, f64)> = None;
    let mut bytes = Vec::new();
    for Listed { api, devices } in listed {
        let devices = match devices {
            Ok(devices) => devices,
            Err(error) => {
                reasons.push(error.to_string());
                continue;
            }
        };
        for info in devices {
            if info.is_cpu {
                reasons.push(format!("{info} is the CPU itself"));
                continue;
            }
            if bytes.is_empty() {
                bytes = sample(SAMPLE);
            }
            let opened = open(Name { api, number: info.number });
            let tried = opened.map_err(RunError::from).and_then(|device| {
                let rate = |data| device_rate(&*device, chunker, settings, data, reading, 1);
                let first = rate(&bytes[..FIRST])?;
                let rate = if first < HOPELESS { first } else { rate(&bytes)? };
                Ok((device, rate))
            });
            match tried {
                Ok(tried) if best.as_ref().is_none_or(|(_, rate)| tried.1 > *rate) => {
                    best = Some(tried);
                }
                Ok(_) => {}
                Err(error) => reasons.push(error.to_string()),
            }
        }
    }
    let Some((device, found)) = best else {
        let reasons = reasons.join("; ");
        return Decision { device: None, reason: format!("the CPU is used: {reasons}") };
    };
    let own = cpu_rate(chunker, settings.fingerprinter.as_ref(), &bytes, threads, 1);
    let (found_gb, own_gb) = (found / 1e9, own / 1e9);
    let (info, many) = (device.info(), if threads.get() == 1 { "thread" } else { "threads" });
    let reason = format!(
        "{info} does {found_gb:.2} GB/s here, {threads} {many} of the CPU {own_gb:.2}; the {} is used",
        if found > own { "first" } else { "CPU" }
    );
    Decision { device: (found > own).then_some(device), reason }
}

/// Bytes of no pattern, the same each time, to measure with.
pub fn sample(len: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        // xorshift64: G. Marsaglia, "Xorshift RNGs", 2003
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// All chunks of `data`, fingerprinted if wanted, by one thread of the CPU.
pub fn cpu_chunks(
    chunker: &Chunker,
    fingerprinter: Option<&Fingerprinter>,
    data: &[u8],
) -> Vec<Chunk> {
    const TOGETHER: usize = 64;
    let (mut found, mut fingerprints) = (Vec::new(), Vec::new());
    let mut waiting: Vec<&[u8]> = Vec::new();
    let mut start = 0;
    for end in chunker.cut_points(data) {
        found.push(Chunk { start: start as u64, end: end as u64, fingerprint: None });
        if let Some(hasher) = fingerprinter {
            waiting.push(&data[start..end]);
            if waiting.len() == TOGETHER {
                hasher.fingerprint_many(&waiting, &mut fingerprints);
                waiting.clear();
            }
        }
        start = end;
    }
    if let Some(hasher) = fingerprinter {
        hasher.fingerprint_many(&waiting, &mut fingerprints);
        for (chunk, fingerprint) in found.iter_mut().zip(fingerprints) {
            chunk.fingerprint = Some(fingerprint);
        }
    }
    found
}

fn rate(bytes: usize, time: Duration) -> f64 {
    bytes as f64 / time.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Api, Fault, Kernel, Simulated};
    use onefold_cdc::{Algorithm, Params};
    use onefold_testkit::random;

    const ONE: NonZero<usize> = NonZero::<usize>::MIN;

    fn chunker(algorithm: Algorithm) -> Chunker {
        Chunker::new(&Params::for_mean(algorithm, 2000).unwrap()).unwrap()
    }

    #[test]
    fn a_device_that_cuts_elsewhere_gets_no_rate() {
        let data = random(1, 100_000);
        let settings = Settings::new(Some(Fingerprinter::blake3()));
        let chunker = chunker(Algorithm::Gear);
        let right = Simulated::new();
        let wrong = Simulated::new().with_fault(Fault::Miscounts);
        for reading in [Reading::InOrder, Reading::AtAnyPlace] {
            let rate = |device| device_rate(device, &chunker, &settings, &data, reading, 1);
            assert!(rate(&right).unwrap() > 0.0);
            assert!(rate(&wrong).is_err());
        }
    }

    #[test]
    fn pages_whose_fingerprints_are_not_the_cpus_get_no_rate() {
        let idle = Simulated::new().with_fault(Fault::Idle(Kernel::Sha3));
        let error = page_rate(&idle, &Fingerprinter::sha3(), 4096, &random(3, 9000), 1);
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("wrong result: other fingerprints of pages of 4096 bytes"),
            "{error}"
        );
    }

    #[test]
    fn every_rate_is_measured_on_a_device_that_works() {
        let device = Simulated::new();
        let data = random(2, 50_000);
        let settings = Settings::new(Some(Fingerprinter::sha3()));
        for algorithm in [Algorithm::MinCdc, Algorithm::Rabin] {
            let rates = resident_rates(&device, &chunker(algorithm), &settings, &data, 2).unwrap();
            assert!(rates.search > 0.0 && rates.cut > 0.0 && rates.fingerprint.unwrap() > 0.0);
        }
        for fingerprinter in [Fingerprinter::blake3(), Fingerprinter::sha3()] {
            assert!(page_rate(&device, &fingerprinter, 4096, &data, 2).unwrap() > 0.0);
        }
        assert!(upload_rate(&device, 1 << 16, Memory::Pinned, 2).unwrap() > 0.0);
        assert!(lane_time(&device, 1 << 16, Memory::Pageable, 2).unwrap() > Duration::ZERO);
        for threads in [1, 3] {
            let threads = NonZero::new(threads).expect("at least one");
            let fingerprinter = settings.fingerprinter.as_ref();
            let rate = cpu_rate(&chunker(Algorithm::Gear), fingerprinter, &data, threads, 1);
            assert!(rate > 0.0);
        }
    }

    #[test]
    fn auto_takes_the_cpu_and_says_why_if_nothing_else_is_there() {
        let settings = Settings::new(None);
        let listed = vec![
            Listed { api: Api::Cuda, devices: Err(GpuError::NoDevices { api: Api::Cuda }) },
            Listed { api: Api::OpenCl, devices: Ok(vec![Simulated::new().info().clone()]) },
        ];
        let decision = fastest(listed, &chunker(Algorithm::Gear), &settings, Reading::InOrder, ONE);
        assert!(decision.device.is_none());
        assert_eq!(
            decision.reason,
            "the CPU is used: cuda has a driver here but no devices; \
             simulated:0 (made up) is the CPU itself"
        );
        let ae = Chunker::new(&Params::for_mean(Algorithm::AeMax, 2000).unwrap()).unwrap();
        let decision = decide(Choice::Auto, &ae, &settings, Reading::InOrder, ONE).unwrap();
        assert!(decision.device.is_none() && decision.reason.contains("ae-max"));
        let named = Choice::Device(Name { api: Api::OpenCl, number: 0 });
        assert!(matches!(
            decide(named, &ae, &settings, Reading::InOrder, ONE),
            Err(GpuError::NotCut { .. })
        ));
    }
}
