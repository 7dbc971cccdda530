//! The steps of Shredder, by the figures of its paper.

use anyhow::Result;
use onefold_cdc::{Algorithm, ChunkSizes, Chunker, Params};
use onefold_gpu::{
    Memory, Reading, Settings, cpu_rate, device_rate, lane_time, resident_rates, upload_rate,
};

use super::{Bench, MEAN, Step, Transfer, until_cancelled};

impl Bench<'_> {
    /// Figure 3, the length of a copy, and figure 6, what memory takes to get.
    pub(super) fn transfers(&mut self) -> Result<()> {
        const LENS: [usize; 9] = [
            4 << 10,
            64 << 10,
            256 << 10,
            1 << 20,
            4 << 20,
            16 << 20,
            32 << 20,
            64 << 20,
            256 << 20,
        ];
        let lens = LENS.into_iter().filter(|&bytes| bytes <= self.data.len());
        let (device, rounds) = (self.device, self.plan.rounds);
        for bytes in until_cancelled(self.watch, lens) {
            let rate = |memory| upload_rate(device, bytes, memory, 10 * rounds.max(1));
            let time = |memory| lane_time(device, bytes, memory, rounds);
            self.results.transfers.push(Transfer {
                bytes: bytes as u64,
                pinned_bytes_per_second: rate(Memory::Pinned)?,
                pageable_bytes_per_second: rate(Memory::Pageable)?,
                pinned_seconds: time(Memory::Pinned)?.as_secs_f64(),
                pageable_seconds: time(Memory::Pageable)?.as_secs_f64(),
            });
        }
        Ok(())
    }

    /// Figure 5, one buffer or two, and figure 9, how many segments are at work.
    pub(super) fn overlap(&mut self) -> Result<()> {
        let bars = [
            (5, 1, "copy, then search", Some(1.0)),
            (5, 2, "copy while the other buffer is searched", Some(1.0 / 0.85)),
            (9, 1, "1 segment at a time", Some(1.0)),
            (9, 2, "2 segments", None),
            (9, 3, "3 segments", None),
            (9, 4, "4 segments", Some(2.0)),
            (9, 8, "8 segments", None),
            (9, 16, "16 segments", None),
        ];
        for (figure, lanes, name, paper) in until_cancelled(self.watch, bars) {
            self.on_device(
                figure,
                name,
                paper,
                &Settings { lanes: Some(lanes), ..Settings::new(None) },
            )?;
        }
        Ok(())
    }

    /// Figure 11: bytes fetched by each work-item, or together into shared memory.
    pub(super) fn tiles(&mut self) -> Result<()> {
        let bars = [(true, "each work-item by itself", 1.0), (false, "together, by tiles", 8.0)];
        for (without_tiles, name, paper) in until_cancelled(self.watch, bars) {
            let settings = Settings { without_tiles, ..Settings::new(None) };
            let data = self.resident();
            let rates = resident_rates(self.device, &rabin()?, &settings, data, self.plan.rounds)?;
            self.step(11, name, rates.search, Some(paper));
        }
        Ok(())
    }

    /// Figure 12: all threads of the CPU, and three versions of the device's program.
    pub(super) fn versions(&mut self) -> Result<()> {
        let (threads, rounds) = (self.plan.threads, self.plan.rounds);
        let rate = cpu_rate(&rabin()?, None, self.data, threads, rounds);
        self.step(12, &format!("CPU, {threads} threads"), rate, Some(1.0));
        let basic = Settings {
            lanes: Some(1),
            memory: Memory::Pageable,
            without_tiles: true,
            ..Settings::new(None)
        };
        let streams = Settings { lanes: Some(4), memory: Memory::Pinned, ..basic.clone() };
        let all = Settings { without_tiles: false, ..streams.clone() };
        let versions = [
            (basic, "GPU basic", Some(2.0)),
            (streams, "GPU streams", None),
            (all, "GPU streams + memory", Some(5.0)),
        ];
        for (settings, name, paper) in until_cancelled(self.watch, versions) {
            self.on_device(12, name, paper, &settings)?;
        }
        Ok(())
    }

    /// A bar of the device's whole pipeline.
    fn on_device(
        &mut self,
        figure: u32,
        name: &str,
        paper: Option<f64>,
        settings: &Settings,
    ) -> Result<()> {
        let reading = Reading::AtAnyPlace;
        let rate =
            device_rate(self.device, &rabin()?, settings, self.data, reading, self.plan.rounds)?;
        self.step(figure, name, rate, paper);
        Ok(())
    }

    fn step(&mut self, figure: u32, name: &str, rate: f64, paper: Option<f64>) {
        let steps = &mut self.results.steps;
        let first = steps.iter().find(|step| step.figure == figure);
        let ratio = first.map_or(1.0, |first| rate / first.bytes_per_second);
        let name = name.to_owned();
        steps.push(Step { figure, name, bytes_per_second: rate, ratio, paper });
    }
}

/// The paper's chunker: Rabin, no fingerprint.
fn rabin() -> Result<Chunker> {
    Ok(Chunker::new(&Params::new(Algorithm::Rabin, ChunkSizes::around(MEAN)?))?)
}
