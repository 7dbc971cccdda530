//! A device beside the CPU's kernels.

use std::sync::OnceLock;

use onefold_cdc::Chunker;
use onefold_fingerprint::Fingerprinter;
use onefold_gpu::{Device, GpuError, KeptLanes, OnLoss, Settings, Work, run_at};

use crate::Offload;

/// A device as something that is timed beside the CPU's kernels.
#[derive(Debug)]
pub struct OnDevice {
    device: KeptLanes<'static>,
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
        let summary = run_at(&self.device, chunker, &settings, &input, |piece| {
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
