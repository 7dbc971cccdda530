//! The option that chooses what cuts and fingerprints.

use std::io::{self, Read};
use std::num::NonZero;
use std::sync::{Arc, OnceLock};

use anyhow::{Result, bail};
use clap::Args;
use onefold_cdc::Chunker;
use onefold_fingerprint::Fingerprint;
use onefold_gpu::{
    Choice, Decision, Device, GpuError, Info, KeptLanes, Listed, Name, OnLoss, Reading, RunError,
    Settings, decide, list, run,
};
use onefold_store::Repository;
use onefold_store::backup::{Accelerator, AcceleratorError};

use crate::console::Console;

/// The option for commands that can use a GPU.
#[derive(Debug, Args)]
pub(crate) struct DeviceArgs {
    /// What cuts and fingerprints: cpu; cuda:N or opencl:N for one device; or auto for a GPU that is
    /// measured to be faster. `onefold devices` lists them
    #[arg(long, value_name = "DEVICE", default_value_t = Choice::Cpu)]
    device: Choice,
}

impl DeviceArgs {
    /// The device to use in place of one thread, with `settings` completed; `None` for the CPU.
    pub(crate) fn choose(
        &self,
        chunker: &Chunker,
        settings: &mut Settings,
        reading: Reading,
        console: &Console,
    ) -> Result<Option<Box<dyn Device>>> {
        choose(self.device, chunker, settings, reading, NonZero::<usize>::MIN, console)
    }
}

/// The device to use in place of `threads` threads, with `settings` completed; `None` for the CPU. With
/// --verbose, says why.
///
/// With auto, the CPU goes on when the device fails; a device that was named is an error then.
fn choose(
    choice: Choice,
    chunker: &Chunker,
    settings: &mut Settings,
    reading: Reading,
    threads: NonZero<usize>,
    console: &Console,
) -> Result<Option<Box<dyn Device>>> {
    if choice == Choice::Auto {
        settings.on_loss = OnLoss::UseCpu;
    }
    let Decision { device, reason } = decide(choice, chunker, settings, reading, threads)?;
    console.detail(format_args!("{reason}"));
    Ok(device)
}

/// The first device that is not the CPU in another form.
pub(crate) fn first_gpu() -> Result<Name> {
    let mut reasons = Vec::new();
    for Listed { api, devices } in list() {
        match devices {
            Ok(devices) => {
                if let Some(&Info { number, .. }) = devices.iter().find(|info| !info.is_cpu) {
                    return Ok(Name { api, number });
                }
                reasons.push(format!("{api} has only the CPU in another form"));
            }
            Err(error) => reasons.push(error.to_string()),
        }
    }
    bail!(
        "there is no GPU here: {}; name a device with --device to measure it anyway",
        reasons.join("; ")
    );
}

/// A device that cuts and fingerprints large files of a backup.
#[derive(Debug)]
pub(crate) struct LargeFiles {
    device: KeptLanes<'static>,
    settings: Settings,
    /// Why it failed, if the CPU goes on.
    lost: OnceLock<GpuError>,
}

/// Shorter files are left to the CPU: they fill no more than one segment.
const LEAST: u64 = 16 << 20;

impl LargeFiles {
    /// The device of `choice` for `repository`, if it is to be used in place of `threads` threads.
    pub(crate) fn choose(
        choice: Choice,
        repository: &Repository,
        threads: NonZero<usize>,
        console: &Console,
    ) -> Result<Option<Arc<Self>>> {
        if choice == Choice::Cpu {
            return Ok(None);
        }
        let chunker = Chunker::new(&repository.config().params)?;
        let mut settings = Settings::new(Some(repository.fingerprinter().clone()));
        let device = choose(choice, &chunker, &mut settings, Reading::InOrder, threads, console)?;
        let kept = |device| {
            Arc::new(Self { device: KeptLanes::new(device), settings, lost: OnceLock::new() })
        };
        Ok(device.map(kept))
    }

    /// Why it failed, if the CPU went on.
    pub(crate) fn lost(&self) -> Option<&GpuError> {
        self.lost.get()
    }
}

impl Accelerator for LargeFiles {
    fn takes(&self, len: u64) -> bool {
        len >= LEAST && self.lost.get().is_none()
    }

    fn run(
        &self,
        chunker: &Chunker,
        input: &mut (dyn Read + Send),
        store: &mut dyn FnMut(&[u8], Fingerprint) -> io::Result<()>,
    ) -> Result<(), AcceleratorError> {
        let ran = run(&self.device, chunker, &self.settings, input, |piece| {
            piece.chunks().try_for_each(|chunk| {
                let fingerprint = chunk.fingerprint.expect("settings ask for one");
                store(piece.bytes(chunk), fingerprint)
            })
        });
        match ran {
            Ok(summary) => {
                if let Some(lost) = summary.lost {
                    self.lost.get_or_init(|| lost);
                }
                Ok(())
            }
            Err(RunError::Read(error)) => Err(AcceleratorError::Read(error)),
            Err(RunError::Store(_)) => Err(AcceleratorError::Store),
            Err(error) => Err(AcceleratorError::Lost(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_cdc::{Algorithm, Params};
    use onefold_fingerprint::Fingerprinter;
    use onefold_gpu::{Fault, Simulated};
    use onefold_testkit::random;

    /// The ends and fingerprints of the chunks of `data`, by a device with `fault`.
    fn chunks(
        data: &[u8],
        fault: Fault,
        on_loss: OnLoss,
    ) -> (LargeFiles, Result<Vec<(usize, Fingerprint)>, AcceleratorError>) {
        let chunker = Chunker::new(&Params::for_mean(Algorithm::MinCdc, 2000).unwrap()).unwrap();
        let common = Settings::new(Some(Fingerprinter::blake3_keyed([7; 32])));
        let settings = Settings { segment: Some(30_000), on_loss, ..common };
        let device = KeptLanes::new(Box::new(Simulated::new().with_fault(fault)));
        let files = LargeFiles { device, settings, lost: OnceLock::new() };
        let (mut end, mut found) = (0, Vec::new());
        let ran = files.run(&chunker, &mut &data[..], &mut |bytes, fingerprint| {
            end += bytes.len();
            found.push((end, fingerprint));
            Ok(())
        });
        (files, ran.map(|()| found))
    }

    #[test]
    fn with_auto_the_cpu_goes_on_for_a_device_that_is_lost_in_the_middle() {
        let data = random(1, 200_000);
        let (working, expected) = chunks(&data, Fault::LostAt(usize::MAX), OnLoss::Fail);
        let expected = expected.unwrap();
        assert_eq!(expected.last().unwrap().0, data.len());
        assert!(working.takes(LEAST) && !working.takes(LEAST - 1) && working.lost().is_none());
        for call in [30, 40, 50] {
            let (files, found) = chunks(&data, Fault::LostAt(call), OnLoss::UseCpu);
            assert!(found.unwrap() == expected, "lost at call {call}");
            assert!(files.lost().unwrap().to_string().contains("simulated:0 (made up) failed"));
            assert!(!files.takes(u64::MAX), "no file is passed to it again");
            let (_, failed) = chunks(&data, Fault::LostAt(call), OnLoss::Fail);
            assert!(matches!(failed, Err(AcceleratorError::Lost(_))), "lost at call {call}");
        }
    }
}
