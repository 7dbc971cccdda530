//! What a GPU gains, and by what: the ablations of Shredder (P. Bhatotia, R. Rodrigues, A. Verma, "Shredder:
//! GPU-Accelerated Incremental Storage and Computation", FAST 2012), and its rates beside the cores' of
//! this machine.
//!
//! Every rate follows a comparison of all chunks with those of the CPU.

mod equality;
mod on_device;
mod plan;
mod results;
mod shredder;
mod targets;
mod today;

use anyhow::{Result, ensure};
use onefold_cdc::Algorithm;
use onefold_fingerprint::Fingerprinter;
use onefold_gpu::{Device, sample};

pub use on_device::OnDevice;
pub use plan::{Part, Plan};
pub use results::{Bound, Energy, Pages, Rate, Results, Step, Target, Transfer};

use crate::Watch;
use targets::targets;

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
    let data = &sample(plan.bytes);
    let results = Results::new(device.info(), plan);
    let mut bench = Bench { device, plan, data, watch, results };
    for &part in &plan.parts {
        watch.begin(part.name(), 0);
        if watch.is_cancelled() {
            return Ok(bench.results);
        }
        bench.measure(part)?;
        let results = &mut bench.results;
        if !watch.is_cancelled() {
            results.parts.push(part);
        }
        results.targets = targets(results);
        keep(results)?;
    }
    bench.results.is_complete = bench.results.parts == plan.parts;
    Ok(bench.results)
}

/// A measurement under way.
struct Bench<'a> {
    device: &'a dyn Device,
    plan: &'a Plan,
    /// Random bytes.
    data: &'a [u8],
    watch: &'a dyn Watch,
    results: Results,
}

impl<'a> Bench<'a> {
    fn measure(&mut self, part: Part) -> Result<()> {
        match part {
            Part::Equality => self.compare(),
            Part::Copies => self.transfers(),
            Part::Overlap => self.overlap(),
            Part::Tiles => self.tiles(),
            Part::Versions => self.versions(),
            Part::Algorithms => self.rates(),
            Part::Pages => self.pages(),
            Part::Energy => self.energy(),
        }
    }

    /// The data that measurements within the device's memory use.
    fn resident(&self) -> &'a [u8] {
        &self.data[..self.data.len().min(256 << 20)]
    }
}

/// `items` as long as `watch` is not cancelled.
fn until_cancelled<I: IntoIterator>(watch: &dyn Watch, items: I) -> impl Iterator<Item = I::Item> {
    items.into_iter().take_while(|_| !watch.is_cancelled())
}

#[cfg(test)]
mod tests {
    use std::num::NonZero;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::Duration;

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
        assert_eq!(figures, [5, 5, 9, 9, 9, 9, 9, 9, 11, 11, 12, 12, 12, 12]);
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
}
