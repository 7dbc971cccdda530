//! Measures what hooks miss of a folder, and prints a line of JSON for each memory of the index.
//!
//! `index-loss FOLDER MEAN BYTES...`; `cargo lab bench dedup-loss` runs it and writes a record.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result};
use onefold_bench::Source;
use onefold_cdc::{Algorithm, Chunker, Params};
use onefold_lab::index::measure_loss;

fn main() -> Result<()> {
    let mut arguments = env::args().skip(1);
    let folder = arguments.next().context("a folder is needed")?;
    let mean = arguments.next().context("a mean chunk size is needed")?.parse()?;
    let memories = arguments
        .map(|bytes| bytes.parse().with_context(|| format!("'{bytes}' is no number of bytes")))
        .collect::<Result<Vec<usize>>>()?;
    let chunker = Chunker::new(&Params::for_mean(Algorithm::MinCdc, mean)?)?;
    let mut source = Source::list(&[PathBuf::from(folder)])?;
    for loss in measure_loss(&mut source, &chunker, &memories)? {
        println!("{}", serde_json::to_string(&loss)?);
    }
    Ok(())
}
