//! `onefold chunk`

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use indicatif::HumanBytes;
use onefold_cdc::{Chunker, Kernel, Params, Stream};
use onefold_fingerprint::Fingerprinter;
use serde::Serialize;

use crate::chunking::{SchemeArgs, kernels};
use crate::console::Console;
use crate::count::count;
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
    /// At the end, print the number of chunks and their mean length to standard error
    #[arg(long)]
    summary: bool,
}

/// A chunk in JSON.
#[derive(Serialize)]
struct Cut {
    offset: u64,
    length: usize,
    fingerprint: String,
}

impl Chunk {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        let secret = self.secret_file.as_deref().map(secret_file::read).transpose()?;
        let params = Params { secret, ..self.scheme.params()? };
        let chunker = Chunker::with_kernel(&params, self.kernel)?;
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
            match console.is_json() {
                true => {
                    let fingerprint = fingerprint.to_string();
                    output.json_line(&Cut { offset, length, fingerprint })
                }
                false => output.line(format!("{offset} {length} {fingerprint}")),
            }?;
            offset += length as u64;
            chunks += 1;
        }
        output.finish()?;
        if self.summary {
            let mean = offset.checked_div(chunks).unwrap_or(0);
            let (bytes, mean) = (HumanBytes(offset), count(mean, "byte", "bytes"));
            let chunks = count(chunks, "chunk", "chunks");
            console.line(format_args!("{bytes} in {chunks}, {mean} in the mean"));
        }
        Ok(Exit::Fine)
    }
}

fn open(path: &Path) -> Result<Box<dyn Read>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(io::stdin().lock()));
    }
    let file = File::open(path).with_context(|| format!("cannot open '{}'", path.display()))?;
    Ok(Box::new(file))
}
