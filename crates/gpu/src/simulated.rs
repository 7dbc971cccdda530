//! A device that is made up: what kernels promise, by the plainest code, with delays and failures. Tests
//! of the pipeline run on it, and so does the campaign's rehearsal.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use onefold_fingerprint::Fingerprinter;

use crate::kernel::{GROUP, STRICT};
use crate::{
    Api, Argument, Device, GpuError, Info, Kernel, Lane, Memory, Resident, SPARE, STRIP, Slot, TILE,
};

/// How the device fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call with this number and all after it fail.
    LostAt(usize),
    /// The device has this many bytes of memory.
    Memory(usize),
    /// Kernels of candidates count one too many.
    Miscounts,
    /// This kernel is taken and does nothing, so that its results are what was there before.
    Idle(Kernel),
}

/// The arrays of a lane.
pub type Arrays = HashMap<Slot, Vec<u8>>;

/// Runs a kernel on the arrays, with the given number of groups. An error says why it failed.
type Run = dyn Fn(Kernel, usize, &[Argument], &mut Arrays) -> Result<(), String> + Send + Sync;

/// A device that does on the host what kernels promise.
#[derive(Clone)]
pub struct Simulated {
    info: Info,
    fault: Option<Fault>,
    delay: Duration,
    /// What runs kernels in place of the plainest code, if anything.
    run: Option<Arc<Run>>,
    state: Arc<State>,
}

/// What the lanes of a device share.
#[derive(Debug, Default)]
struct State {
    calls: AtomicUsize,
    used: AtomicUsize,
}

impl Default for Simulated {
    fn default() -> Self {
        Self::new()
    }
}

impl Simulated {
    /// A device that works.
    pub fn new() -> Self {
        let info = Info {
            api: Api::Simulated,
            number: 0,
            name: "made up".into(),
            memory: 1 << 30,
            units: 1,
            is_cpu: true,
            driver: "none".into(),
            generation: None,
            clock: None,
        };
        Self { info, fault: None, delay: Duration::ZERO, run: None, state: Arc::default() }
    }

    /// The same with a fault.
    #[must_use]
    pub fn with_fault(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// The same with calls that take as long, and longer by up to four times as their number is odd.
    #[must_use]
    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// A device called `name` whose kernels are run by `run`. Arrays are no longer than they must be, so that
    /// every access behind one is seen.
    pub fn with_kernels(
        name: String,
        run: impl Fn(Kernel, usize, &[Argument], &mut Arrays) -> Result<(), String>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let mut device = Self::new();
        device.info.name = name;
        Self { run: Some(Arc::new(run)), ..device }
    }

    /// Calls so far, of all lanes.
    pub fn calls(&self) -> usize {
        self.state.calls.load(Ordering::Relaxed)
    }
}

impl Device for Simulated {
    fn info(&self) -> &Info {
        &self.info
    }

    fn lane(&self, bytes: usize, _: Memory) -> Result<Box<dyn Lane>, GpuError> {
        let mut lane = SimulatedLane {
            device: self.clone(),
            name: self.info.to_string(),
            input: vec![0; bytes],
            arrays: Arrays::new(),
            taken: HashMap::new(),
        };
        lane.reserve(Slot::Data, bytes + SPARE)?;
        Ok(Box::new(lane))
    }
}

struct SimulatedLane {
    device: Simulated,
    name: String,
    input: Vec<u8>,
    arrays: Arrays,
    /// Bytes of the device's memory that each array has taken.
    taken: HashMap<Slot, usize>,
}

impl Drop for SimulatedLane {
    fn drop(&mut self) {
        let bytes: usize = self.taken.values().sum();
        self.device.state.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl SimulatedLane {
    /// Counts a call, and takes or fails as the device does.
    fn call(&self, call: &'static str) -> Result<(), GpuError> {
        let number = self.device.state.calls.fetch_add(1, Ordering::Relaxed);
        if !self.device.delay.is_zero() {
            thread::sleep(self.device.delay * (1 + (number as u32 * 7) % 4));
        }
        match self.device.fault {
            Some(Fault::LostAt(first)) if number >= first => Err(GpuError::Failed {
                device: self.name.clone(),
                call,
                reason: format!("made to fail at call {first}"),
            }),
            _ => Ok(()),
        }
    }

    fn slot(&mut self, slot: Slot) -> &mut Vec<u8> {
        self.arrays.get_mut(&slot).unwrap_or_else(|| panic!("{slot:?} is not reserved"))
    }

    fn data(&self) -> &[u8] {
        &self.arrays[&Slot::Data]
    }

    /// Makes `bytes` the data. Whatever lies behind them means nothing.
    fn set_data(&mut self, bytes: &[u8]) {
        let mut data = bytes.to_vec();
        data.resize(bytes.len() + SPARE, 0xa5);
        self.arrays.insert(Slot::Data, data);
    }

    fn u32s(&self, slot: Slot) -> Vec<u32> {
        self.arrays[&slot].as_chunks().0.iter().copied().map(u32::from_le_bytes).collect()
    }
}

impl Lane for SimulatedLane {
    fn device(&self) -> &str {
        &self.name
    }

    fn input(&mut self) -> &mut [u8] {
        &mut self.input
    }

    fn upload(&mut self, len: usize) -> Result<(), GpuError> {
        self.call("upload")?;
        assert!(len + SPARE <= self.taken[&Slot::Data], "{len} bytes are more than was reserved");
        let bytes = self.input[..len].to_vec();
        self.set_data(&bytes);
        Ok(())
    }

    fn lend(&mut self, data: Resident) -> Result<(), GpuError> {
        self.call("lend")?;
        assert_eq!(data.address() % 16, 0, "kernels read whole pieces");
        self.set_data(data.on_host());
        Ok(())
    }

    fn copy_resident(&mut self, data: Resident) -> Result<(), GpuError> {
        self.call("copy")?;
        assert!(
            data.len() + SPARE <= self.taken[&Slot::Data],
            "{data:?} is more than was reserved"
        );
        self.set_data(data.on_host());
        Ok(())
    }

    fn reserve(&mut self, slot: Slot, bytes: usize) -> Result<(), GpuError> {
        self.call("reserve")?;
        let had = self.taken.get(&slot).copied().unwrap_or(0);
        let more = bytes.saturating_sub(had);
        let used = self.device.state.used.fetch_add(more, Ordering::Relaxed);
        if let Some(Fault::Memory(most)) = self.device.fault
            && used + more > most
        {
            self.device.state.used.fetch_sub(more, Ordering::Relaxed);
            return Err(GpuError::NoMemory { device: self.name.clone(), bytes });
        }
        self.taken.insert(slot, had + more);
        self.arrays.insert(slot, vec![0xa5; bytes]);
        Ok(())
    }

    fn write(&mut self, slot: Slot, bytes: &[u8]) -> Result<(), GpuError> {
        self.call("write")?;
        self.slot(slot)[..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn read(&mut self, slot: Slot, into: &mut [u8]) -> Result<(), GpuError> {
        self.call("read")?;
        into.copy_from_slice(&self.slot(slot)[..into.len()]);
        Ok(())
    }

    fn launch(
        &mut self,
        kernel: Kernel,
        groups: usize,
        arguments: &[Argument],
    ) -> Result<(), GpuError> {
        self.call(kernel.name())?;
        if self.device.fault == Some(Fault::Idle(kernel)) {
            return Ok(());
        }
        if let Some(run) = &self.device.run {
            let ran = run(kernel, groups, arguments, &mut self.arrays);
            let failed = |reason| GpuError::Failed {
                device: self.name.clone(),
                call: kernel.name(),
                reason,
            };
            return ran.map_err(failed);
        }
        let numbers: Vec<u64> = arguments
            .iter()
            .filter_map(|argument| match argument {
                Argument::Slot(_) => None,
                Argument::U32(number) => Some(u64::from(*number)),
                Argument::U64(number) => Some(*number),
            })
            .collect();
        match kernel {
            Kernel::Minima => self.minima(groups, &numbers),
            Kernel::SelectLeast => self.select_least(groups, &numbers),
            // the second of its kernels does it all
            Kernel::Blake3Leaves => {}
            Kernel::Blake3Join => {
                let fingerprinter = self.blake3();
                self.hash(groups, &fingerprinter);
            }
            Kernel::Sha256 => self.hash(numbers[0] as usize, &Fingerprinter::sha256()),
            Kernel::Sha3 => self.hash(numbers[0] as usize, &Fingerprinter::sha3()),
            _ => self.candidates(kernel, groups, &numbers),
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<(), GpuError> {
        self.call("wait")
    }
}

impl SimulatedLane {
    fn candidates(&mut self, kernel: Kernel, groups: usize, numbers: &[u64]) {
        let &[first_tile, first, len, window, limit, strict, room] = numbers else {
            panic!("{kernel:?} with {numbers:?}")
        };
        let [first_tile, first, len, window, room] =
            [first_tile, first, len, window, room].map(|number| number as usize);
        let is_wide = matches!(
            kernel,
            Kernel::CandidatesGear | Kernel::CandidatesRabin | Kernel::DirectRabin
        );
        let table: Vec<u64> = match is_wide {
            true => self.arrays[&Slot::Table]
                .as_chunks()
                .0
                .iter()
                .copied()
                .map(u64::from_le_bytes)
                .collect(),
            false => self.u32s(Slot::Table).into_iter().map(u64::from).collect(),
        };
        let data = self.data();
        let hash =
            |bytes: &[u8]| bytes.iter().fold(0, |hash, &byte| push(kernel, &table, hash, byte));
        let mut list = Vec::new();
        let mut tiles = vec![[0_u32; 2]; groups];
        // the last group ends first
        for group in (0..groups).rev() {
            let begin = (first_tile + group) * TILE;
            let positions = begin.max(first).max(window - 1) + 1..=(begin + TILE).min(len);
            let found = positions.filter_map(|at| {
                let seen = &data[at - window..at];
                let passes = match kernel {
                    Kernel::CandidatesGear | Kernel::CandidatesGear32 => hash(seen) <= limit,
                    Kernel::CandidatesGear16 => {
                        hash(&seen[16..]) <= limit && hash(&seen[..16]) <= strict
                    }
                    _ => hash(seen) >= limit,
                };
                let is_strict = kernel == Kernel::CandidatesGear && passes && hash(seen) <= strict;
                passes.then_some(at as u32 | if is_strict { STRICT } else { 0 })
            });
            let start = list.len();
            list.extend(found);
            tiles[group] = [start as u32, (list.len() - start) as u32];
        }
        let mut count = list.len() as u32;
        if self.device.fault == Some(Fault::Miscounts) {
            count += 1;
        }
        self.slot(Slot::Counter)[..4].copy_from_slice(&count.to_le_bytes());
        for (place, number) in
            self.slot(Slot::Tiles).as_chunks_mut().0.iter_mut().zip(tiles.as_flattened())
        {
            *place = number.to_le_bytes();
        }
        if list.len() <= room {
            for (place, number) in self.slot(Slot::List).as_chunks_mut().0.iter_mut().zip(&list) {
                *place = number.to_le_bytes();
            }
        }
    }

    fn minima(&mut self, groups: usize, numbers: &[u64]) {
        let &[first_tile, len, factor, addend] = numbers else { panic!("minima with {numbers:?}") };
        let len = len as usize;
        let data = self.data();
        let key = |at: usize| {
            let four = u32::from_le_bytes([data[at - 4], data[at - 3], data[at - 2], data[at - 1]]);
            let hash = four.wrapping_mul(factor as u32).wrapping_add(addend as u32);
            u64::from(hash) << 32 | at as u64
        };
        let first = first_tile as usize * GROUP;
        let least: Vec<(usize, u64)> = (first..first + groups * GROUP)
            .filter(|strip| strip * STRIP < len)
            .map(|strip| {
                let positions = (strip * STRIP + 1).max(4)..=((strip + 1) * STRIP).min(len);
                (strip, positions.map(key).min().unwrap_or(u64::MAX))
            })
            .collect();
        let places = self.slot(Slot::Minima).as_chunks_mut().0;
        for (strip, key) in least {
            places[strip] = key.to_le_bytes();
        }
    }

    /// One position after another, without a look at the minima.
    fn select_least(&mut self, groups: usize, numbers: &[u64]) {
        let &[start, stretch, more, room, len, first, max, is_end, factor, addend] = numbers else {
            panic!("select_least with {numbers:?}")
        };
        let [start, stretch, more, room, len, first, max] =
            [start, stretch, more, room, len, first, max].map(|number| number as usize);
        let data = self.data();
        let hash = |at: usize| {
            let four = u32::from_le_bytes(data[at - 4..at].try_into().expect("four bytes"));
            four.wrapping_mul(factor as u32).wrapping_add(addend as u32)
        };
        let chain = |group: usize| {
            let (mut at, mut cuts) = (start + group * stretch, Vec::new());
            let (stretch_end, mut more) = (at + stretch, more);
            while at < len && (len - at >= max || is_end == 1) && (at < stretch_end || more > 0) {
                more -= usize::from(at >= stretch_end);
                let end = len.min(at + max);
                let positions = at + first..=end;
                at = if end - at > first { positions.min_by_key(|&at| hash(at)) } else { None }
                    .unwrap_or(end);
                cuts.push(at as u32);
            }
            cuts
        };
        let found: Vec<Vec<u32>> = (0..groups).map(chain).collect();
        for (places, cuts) in self.slot(Slot::List).as_chunks_mut().0.chunks_mut(room).zip(found) {
            let count = cuts.len() as u32;
            for (place, number) in places.iter_mut().zip([count].into_iter().chain(cuts)) {
                *place = number.to_le_bytes();
            }
        }
    }

    /// BLAKE3 with the key that was brought, or without one.
    fn blake3(&self) -> Fingerprinter {
        let (key, flags) = self.arrays[&Slot::Key].split_at(32);
        match flags == [0; 4] {
            true => Fingerprinter::blake3(),
            false => Fingerprinter::blake3_keyed(key.try_into().expect("32 bytes")),
        }
    }

    fn hash(&mut self, count: usize, fingerprinter: &Fingerprinter) {
        let chunks = self.u32s(Slot::Chunks);
        let data = self.data();
        let digests: Vec<[u8; 32]> = chunks.as_chunks().0[..count]
            .iter()
            .map(|&[start, len, _]| {
                let chunk = &data[start as usize..][..len as usize];
                *fingerprinter.fingerprint(chunk).as_bytes()
            })
            .collect();
        let bytes = digests.as_flattened();
        self.slot(Slot::Digests)[..bytes.len()].copy_from_slice(bytes);
    }
}

/// The hash after one byte more of the window.
fn push(kernel: Kernel, table: &[u64], hash: u64, byte: u8) -> u64 {
    let at = |index: u64| table[index as usize];
    let byte = u64::from(byte);
    match kernel {
        Kernel::CandidatesGear => hash.wrapping_mul(2).wrapping_add(at(byte)),
        Kernel::CandidatesGear32 => (hash * 2 + at(byte)) % (1 << 32),
        Kernel::CandidatesGear16 => (hash * 2 + at(byte)) % (1 << 16),
        Kernel::CandidatesRabin | Kernel::DirectRabin => {
            ((hash << 8) % (1 << 53)) ^ at((hash >> 45) ^ byte)
        }
        Kernel::CandidatesCrc => (hash >> 8) ^ at((hash % 256) ^ byte),
        Kernel::CandidatesBuzhash => u64::from((hash as u32).rotate_left(1)) ^ at(byte),
        other => panic!("{other:?} has no rolling hash"),
    }
}
