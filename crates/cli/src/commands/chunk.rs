//! `onefold chunk`

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use indicatif::HumanBytes;
use onefold_cdc::{Chunker, Kernel, Params, Stream};
use onefold_fingerprint::{Fingerprint, Fingerprinter};
#[cfg(feature = "gpu")]
use onefold_gpu::{Device, Piece, Reading, RunError, Settings, run, run_at};
use serde::Serialize;

use crate::chunking::{SchemeArgs, kernels};
use crate::console::Console;
use crate::count::count;
#[cfg(feature = "gpu")]
use crate::device::DeviceArgs;
use crate::exit::Exit;
use crate::output::Output;
use crate::secret_file;

const AFTER_HELP: &str = "\
Each line is a chunk: offset, length, fingerprint (BLAKE3). Sizes take suffixes (8KiB, 64k, 1MiB). All
kernels find the same chunks; a kernel that you name runs or is refused. docs/keyed-chunking.md says
what a secret protects and what it does not.

restic, borg, casync, desync, xet, fastcdc-2016 and fastcdc-2020 cut where those programs cut, with
their sizes unless you give others.

Examples:
  onefold chunk disk.img
  onefold chunk --algorithm mincdc --avg 8KiB --summary disk.img > /dev/null
  onefold chunk --device cuda:0 disk.img
  tar c ~/src | onefold chunk --algorithm fastcdc --min 2KiB --avg 8KiB \\
      --max 64KiB -
  onefold chunk --algorithm gear-aes --secret-file key disk.img
  onefold chunk --algorithm restic --polynomial 3da3358b4dc173 disk.img
  onefold chunk --algorithm borg --chunker-params 19,23,21,4095 disk.img

With --json: one object per line with offset, length and fingerprint.";

/// Cut a file into chunks and list them
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Chunk {
    /// The file to cut; `-` is standard input
    file: PathBuf,
    #[command(flatten)]
    scheme: SchemeArgs,
    /// The kernel that computes the cut-points
    #[arg(long, value_name = "K", default_value = "auto", value_parser = kernels())]
    kernel: Kernel,
    /// A file with the secret, 32 bytes or 64 hexadecimal digits, that keys the algorithm
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    #[cfg(feature = "gpu")]
    #[command(flatten)]
    device: DeviceArgs,
    #[cfg(not(feature = "gpu"))]
    #[command(flatten)]
    _device: crate::commands::absent::NoDevice,
    /// At the end, print the number of chunks and their mean length to standard error
    #[arg(long)]
    summary: bool,
}

/// A chunk of the file.
struct Cut {
    offset: u64,
    length: usize,
    fingerprint: Fingerprint,
}

/// A chunk in JSON.
#[derive(Serialize)]
struct CutInJson {
    offset: u64,
    length: usize,
    fingerprint: String,
}

impl Chunk {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        let secret = self.secret_file.as_deref().map(secret_file::read).transpose()?;
        let params = Params { secret, ..self.scheme.params()? };
        let chunker = Chunker::with_kernel(&params, self.kernel)?;
        #[cfg(feature = "gpu")]
        {
            let mut settings = Settings::new(Some(Fingerprinter::blake3()));
            let reading = if self.has_places() { Reading::AtAnyPlace } else { Reading::InOrder };
            if let Some(device) = self.device.choose(&chunker, &mut settings, reading, console)? {
                return self.run_on(&*device, &chunker, &settings, console);
            }
        }
        console.detail(format_args!("kernel {}", chunker.kernel()));
        let fingerprinter = Fingerprinter::blake3();
        let mut stream = Stream::new(chunker, open(&self.file)?);
        let mut output = Output::new();
        let (mut offset, mut chunks) = (0, 0);
        while !output.is_closed() {
            let next = stream.next();
            let next = next.with_context(|| format!("cannot read '{}'", self.file.display()))?;
            let Some(chunk) = next else { break };
            let length = chunk.len();
            let fingerprint = fingerprinter.fingerprint(chunk);
            show(&mut output, Cut { offset, length, fingerprint }, console)?;
            offset += length as u64;
            chunks += 1;
        }
        output.finish()?;
        self.summarise(offset, chunks, console);
        Ok(Exit::Fine)
    }

    /// Whether the file can be read at any place.
    #[cfg(feature = "gpu")]
    fn has_places(&self) -> bool {
        self.file.as_os_str() != "-" && self.file.is_file()
    }

    /// The same by a device.
    #[cfg(feature = "gpu")]
    fn run_on(
        &self,
        device: &dyn Device,
        chunker: &Chunker,
        settings: &Settings,
        console: &Console,
    ) -> Result<Exit> {
        let mut output = Output::new();
        let mut trouble = Ok(());
        let store = |piece: Piece<'_>| {
            for chunk in piece.chunks() {
                let fingerprint = chunk.fingerprint.expect("settings ask for one");
                let length = (chunk.end - chunk.start) as usize;
                let cut = Cut { offset: chunk.start, length, fingerprint };
                trouble = show(&mut output, cut, console);
                if trouble.is_err() || output.is_closed() {
                    return Err(io::Error::other("the output has ended"));
                }
            }
            Ok(())
        };
        let outcome = if self.has_places() {
            run_at(device, chunker, settings, &open_file(&self.file)?, store)
        } else {
            run(device, chunker, settings, open(&self.file)?, store)
        };
        trouble?;
        let summary = match outcome {
            Err(_) if output.is_closed() => return Ok(Exit::Fine),
            Err(RunError::Read(error)) => {
                let place = || format!("cannot read '{}'", self.file.display());
                return Err(error).with_context(place);
            }
            outcome => outcome?,
        };
        output.finish()?;
        if let Some(lost) = &summary.lost {
            console.warn(format_args!("{lost}; the CPU did the rest"));
        }
        self.summarise(summary.bytes, summary.chunks, console);
        Ok(Exit::Fine)
    }

    fn summarise(&self, bytes: u64, chunks: u64, console: &Console) {
        if self.summary {
            let mean = bytes.checked_div(chunks).unwrap_or(0);
            let (bytes, mean) = (HumanBytes(bytes), count(mean, "byte", "bytes"));
            let chunks = count(chunks, "chunk", "chunks");
            console.line(format_args!("{bytes} in {chunks}, {mean} in the mean"));
        }
    }
}

fn show(output: &mut Output, cut: Cut, console: &Console) -> Result<()> {
    let Cut { offset, length, fingerprint } = cut;
    match console.is_json() {
        true => {
            let fingerprint = fingerprint.to_string();
            output.json_line(&CutInJson { offset, length, fingerprint })
        }
        false => output.line(format!("{offset} {length} {fingerprint}")),
    }
}

fn open(path: &Path) -> Result<Box<dyn Read + Send>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(io::stdin()));
    }
    Ok(Box::new(open_file(path)?))
}

fn open_file(path: &Path) -> Result<File> {
    File::open(path).with_context(|| format!("cannot open '{}'", path.display()))
}
