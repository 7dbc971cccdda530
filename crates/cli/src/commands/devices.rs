//! `onefold devices`

use std::num::NonZero;

use anyhow::Result;
use clap::Args;
use indicatif::HumanBytes;
use onefold_cdc::{Algorithm, Chunker, Params, Scheme};
use onefold_fingerprint::Fingerprinter;
use onefold_gpu::{
    GpuError, Info, Listed, Memory, Name, Reading, RunError, Settings, cpu_rate, device_rate, list,
    open, sample, upload_rate,
};
use serde::Serialize;

use crate::console::Console;
use crate::exit::Exit;
use crate::output::Output;
use crate::table;

const AFTER_HELP: &str = "\
Rates are in GB/s, measured on 64 MiB of random bytes in memory, in chunks of 16 KiB: copying to the device,
then cutting with mincdc and fingerprinting with BLAKE3 or SHA3-256, copies included. The device is
measured only after its chunks were found to be those of the CPU. The line of the CPU is one thread's.

Examples:
  onefold devices
  onefold devices --quick
  onefold chunk --device cuda:0 disk.img

With --json: one document, a list; each device has name, model, memory, units, driver, is_cpu, rates and
reason (why it cannot be used). A rate that was not measured is null.";

/// Bytes that rates are measured on.
const SAMPLE: usize = 64 << 20;

/// List the devices that can cut and fingerprint, and how fast they are
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Devices {
    /// Measure nothing, and do not try whether the devices work
    #[arg(long)]
    quick: bool,
}

/// A device in JSON.
#[derive(Serialize)]
struct Shown {
    name: String,
    model: Option<String>,
    memory: Option<u64>,
    units: Option<u32>,
    driver: Option<String>,
    is_cpu: bool,
    rates: Rates,
    /// Why it cannot be used.
    reason: Option<String>,
}

/// Bytes a second.
#[derive(Clone, Copy, Default, Serialize)]
struct Rates {
    copy: Option<f64>,
    cut_and_blake3: Option<f64>,
    cut_and_sha3: Option<f64>,
}

const FUNCTIONS: [Fingerprinter; 2] = [Fingerprinter::blake3(), Fingerprinter::sha3()];

impl Devices {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        let chunker = Chunker::new(&Params::for_mean(Algorithm::MinCdc, Scheme::DEFAULT_AVG)?)?;
        let bytes = if self.quick { Vec::new() } else { sample(SAMPLE) };
        let mut all = vec![this_cpu(&chunker, &bytes)];
        for Listed { api, devices } in list() {
            match devices {
                Ok(devices) => {
                    all.extend(devices.iter().map(|info| measured(info, &chunker, &bytes)));
                }
                Err(error) => all.push(absent(api.to_string(), &error)),
            }
        }
        let mut output = Output::new();
        match console.is_json() {
            true => output.json_document(&all)?,
            false => {
                for line in lines(&all) {
                    output.line(line)?;
                }
            }
        }
        output.finish()?;
        Ok(Exit::Fine)
    }
}

fn this_cpu(chunker: &Chunker, sample: &[u8]) -> Shown {
    let [blake3, sha3] = FUNCTIONS.map(|function| {
        let rate = || cpu_rate(chunker, Some(&function), sample, NonZero::<usize>::MIN, 2);
        (!sample.is_empty()).then(rate)
    });
    let rates = Rates { copy: None, cut_and_blake3: blake3, cut_and_sha3: sha3 };
    let units = std::thread::available_parallelism().ok().map(|cores| cores.get() as u32);
    Shown { rates, units, ..nothing("cpu".into(), true) }
}

/// What is known of a device, and how fast it is; nothing is measured on an empty `sample`.
fn measured(info: &Info, chunker: &Chunker, sample: &[u8]) -> Shown {
    let name = Name { api: info.api, number: info.number };
    let mut shown = Shown {
        model: Some(info.name.clone()),
        memory: Some(info.memory),
        units: Some(info.units),
        driver: Some(info.driver.clone()),
        ..nothing(name.to_string(), info.is_cpu)
    };
    if !sample.is_empty() {
        match rates(name, chunker, sample) {
            Ok(rates) => shown.rates = rates,
            Err(error) => shown.reason = Some(error.to_string()),
        }
    }
    shown
}

fn rates(name: Name, chunker: &Chunker, sample: &[u8]) -> Result<Rates, RunError> {
    let device = open(name)?;
    let copy = upload_rate(&*device, sample.len(), Memory::Pinned, 2)?;
    let mut rates = Rates { copy: Some(copy), ..Rates::default() };
    let [blake3, sha3] = FUNCTIONS.map(|function| {
        let settings = Settings::new(Some(function));
        device_rate(&*device, chunker, &settings, sample, Reading::AtAnyPlace, 2)
    });
    (rates.cut_and_blake3, rates.cut_and_sha3) = (Some(blake3?), Some(sha3?));
    Ok(rates)
}

fn absent(name: String, error: &GpuError) -> Shown {
    Shown { reason: Some(error.to_string()), ..nothing(name, false) }
}

fn nothing(name: String, is_cpu: bool) -> Shown {
    Shown {
        name,
        model: None,
        memory: None,
        units: None,
        driver: None,
        is_cpu,
        rates: Rates::default(),
        reason: None,
    }
}

fn lines(all: &[Shown]) -> Vec<String> {
    let header = ["Device", "Copy", "Cut + BLAKE3", "Cut + SHA3", "Memory", "Units", "Model"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    let mut reasons = Vec::new();
    for shown in all {
        let Rates { copy, cut_and_blake3, cut_and_sha3 } = shown.rates;
        let rate = |rate: Option<f64>| rate.map_or("-".into(), |rate| format!("{:.2}", rate / 1e9));
        rows.push(vec![
            shown.name.clone(),
            rate(copy),
            rate(cut_and_blake3),
            rate(cut_and_sha3),
            shown.memory.map_or("-".into(), |bytes| HumanBytes(bytes).to_string()),
            shown.units.map_or("-".into(), |units| units.to_string()),
            match (&shown.model, &shown.driver) {
                (Some(model), Some(driver)) => format!("{model}, {driver}"),
                _ => "-".into(),
            },
        ]);
        reasons.extend(shown.reason.as_ref().map(|reason| format!("{}: {reason}", shown.name)));
        if shown.is_cpu && shown.model.is_some() {
            reasons.push(format!("{}: the CPU in another form, no gain", shown.name));
        }
    }
    let mut lines = table::lines(&rows, &[1, 2, 3, 4, 5]);
    if !reasons.is_empty() {
        lines.push(String::new());
        lines.append(&mut reasons);
    }
    lines
}
