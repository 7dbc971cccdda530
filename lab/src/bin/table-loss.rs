//! Measures what a pool stores twice whose table has no room for all pages, and writes a record.
//!
//! `cargo lab campaign table-loss` builds and runs it.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use onefold_bench::{Header, Record, command_line};
use onefold_lab::Argument;
use onefold_lab::table::{Images, LossPlan, TableLoss, measure_table_loss};
use serde::{Deserialize, Serialize};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Results {
    images: Images,
    losses: Vec<TableLoss>,
}

fn main() -> Result<()> {
    let (mut out, mut directory) = (PathBuf::new(), PathBuf::new());
    let (mut images, mut memories) = (Vec::new(), Vec::new());
    for argument in Argument::all()? {
        match argument.name.as_str() {
            "--out" => out = argument.value.into(),
            "--dir" => directory = argument.value.into(),
            "--images" => images.push(PathBuf::from(argument.value)),
            "--memories" => {
                let kib = argument.value.split(',').map(|one| {
                    one.parse::<usize>().with_context(|| format!("'{one}' is no number of KiB"))
                });
                memories = kib.map(|kib| Ok(kib? << 10)).collect::<Result<Vec<_>>>()?;
            }
            _ => return Err(argument.unknown()),
        }
    }
    ensure!(!out.as_os_str().is_empty(), "--out is needed: the record to write");
    ensure!(!directory.as_os_str().is_empty(), "--dir is needed: where pools may be made");
    ensure!(!images.is_empty(), "--images is needed: an image, or a folder of images");
    ensure!(!memories.is_empty(), "--memories is needed: of the table, in KiB, with commas");
    let plan = LossPlan { images, memories, directory };
    let (images, losses) = measure_table_loss(&plan, tell)?;
    let command = command_line("cargo lab campaign table-loss", env::args().skip(1));
    let mut header = Header::here(&out, command, "images are read from where they lie")?;
    header.notes.push(
        "each image is written to a volume of its own, in order, a mebibyte at a time by one thread; \
         loss_percent is of the pages that need not be stored; pools are new, on --dir, compressed by \
         zstd; seconds are of one run and include compression"
            .into(),
    );
    Record { header, results: Results { images, losses } }.write(&out)
}

fn tell(one: &TableLoss) {
    println!(
        "{:?}, {} KiB: {} entries, {:.1} distinct pages each, {} new, {:.3} % lost; one in {}, {} found \
         beside others, {} directories read, {:.1} s",
        one.layout,
        one.memory_bytes >> 10,
        one.capacity,
        one.pages_an_entry,
        one.new_pages,
        one.loss_percent,
        one.one_in,
        one.neighbour_pages,
        one.directories_read,
        one.seconds,
    );
}
