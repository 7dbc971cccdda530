//! The option that chooses what cuts and fingerprints.

use anyhow::Result;
use clap::Args;
use onefold_cdc::Chunker;
use onefold_gpu::{Choice, Decision, Device, OnLoss, Settings, decide};

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
    /// The device to use, with `settings` completed; `None` for the CPU. With --verbose, says why.
    ///
    /// With auto, the CPU goes on when the device fails; a device that was named is an error then.
    pub(crate) fn choose(
        &self,
        chunker: &Chunker,
        settings: &mut Settings,
        console: &Console,
    ) -> Result<Option<Box<dyn Device>>> {
        if self.device == Choice::Auto {
            settings.on_loss = OnLoss::UseCpu;
        }
        let Decision { device, reason } = decide(self.device, chunker, settings)?;
        console.detail(format_args!("{reason}"));
        Ok(device)
    }
}
