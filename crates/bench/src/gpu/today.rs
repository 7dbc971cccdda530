//! Today's algorithms, pages, and energy.

use std::num::NonZero;
use std::time::Instant;

use anyhow::{Error, Result};
use onefold_cdc::{Algorithm, Chunker, Params};
use onefold_fingerprint::Fingerprinter;
use onefold_gpu::{
    CODE_SIZES, Info, KeptLanes, Reading, Settings, cpu_rate, device_rate, page_rate,
    resident_rates, run_at,
};
use serde_json::Value;

use super::{ALGORITHMS, Bench, Bound, Energy, FUNCTIONS, MEAN, Pages, Rate, until_cancelled};

/// Bytes of a page.
const PAGE: usize = 4096;

impl Bench<'_> {
    /// Algorithms and functions.
    pub(super) fn rates(&mut self) -> Result<()> {
        let cuts = ALGORITHMS.map(|algorithm| (algorithm, None));
        let both = [Algorithm::MinCdc, Algorithm::Gear]
            .into_iter()
            .flat_map(|algorithm| FUNCTIONS.map(|function| (algorithm, Some(function))));
        let (device, data, part) = (self.device, self.data, self.resident());
        let rounds = self.plan.rounds;
        for (algorithm, function) in until_cancelled(self.watch, cuts.into_iter().chain(both)) {
            let chunker = Chunker::new(&Params::for_mean(algorithm, MEAN)?)?;
            let settings = Settings::new(function);
            let resident = resident_rates(device, &chunker, &settings, part, rounds)?;
            let used = settings.fingerprinter.as_ref();
            let on_device =
                |reading| device_rate(device, &chunker, &settings, data, reading, rounds);
            let on_cpu = |data, threads| cpu_rate(&chunker, used, data, threads, rounds);
            self.results.rates.push(Rate {
                algorithm: algorithm.to_string(),
                fingerprint: used.map(|function| function.algorithm().to_string()),
                device_bytes_per_second: on_device(Reading::AtAnyPlace)?,
                stream_bytes_per_second: on_device(Reading::InOrder)?,
                cpu_bytes_per_second: on_cpu(part, NonZero::<usize>::MIN),
                all_threads_bytes_per_second: on_cpu(data, self.plan.threads),
                resident_search_bytes_per_second: resident.search,
                resident_cut_bytes_per_second: resident.cut,
                resident_fingerprint_bytes_per_second: resident.fingerprint,
            });
        }
        Ok(())
    }

    /// SHA3-256 of pages: as many as positions in a buffer allow, so that all multiprocessors have several groups.
    pub(super) fn pages(&mut self) -> Result<()> {
        let part = &self.data[..self.data.len().min(1 << 30)];
        let function = Fingerprinter::sha3();
        let bytes_per_second = page_rate(self.device, &function, PAGE, part, self.plan.rounds)?;
        let bound = bound(self.device.info());
        self.results.pages = Some(Pages { page_bytes: PAGE as u64, bytes_per_second, bound });
        Ok(())
    }

    /// What the device uses while it cuts and fingerprints.
    pub(super) fn energy(&mut self) -> Result<()> {
        if let Err(reason) = self.device.joules() {
            self.results.energy_missing = Some(reason);
            return Ok(());
        }
        let joules = || self.device.joules().map_err(Error::msg);
        let device = KeptLanes::new(Box::new(self.device));
        let works = [
            (Algorithm::MinCdc, Fingerprinter::blake3()),
            (Algorithm::MinCdc, Fingerprinter::sha3()),
            (Algorithm::Gear, Fingerprinter::blake3()),
        ];
        for (algorithm, function) in until_cancelled(self.watch, works) {
            let chunker = Chunker::new(&Params::for_mean(algorithm, MEAN)?)?;
            let settings = Settings::new(Some(function.clone()));
            let (before, start, mut bytes) = (joules()?, Instant::now(), 0);
            while bytes == 0 || start.elapsed() < self.plan.energy {
                run_at(&device, &chunker, &settings, &self.data, |_| Ok(()))?;
                bytes += self.data.len() as u64;
            }
            self.results.energy.push(Energy {
                algorithm: algorithm.to_string(),
                fingerprint: function.algorithm().to_string(),
                bytes,
                seconds: start.elapsed().as_secs_f64(),
                joules: joules()? - before,
            });
        }
        Ok(())
    }
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

#[cfg(test)]
mod tests {
    use onefold_gpu::{Device, Simulated};

    use super::*;

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
}
