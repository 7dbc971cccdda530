//! Measures the index as it grows beyond its memory, and writes a record and a plot.
//!
//! `cargo lab campaign index` builds it and runs it within a limit of memory.

#![allow(clippy::disallowed_methods, reason = "writes a plot; no byte here is a repository's")]

use std::env;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use onefold_bench::{Header, Record, command_line};
use onefold_lab::Argument;
use onefold_lab::index::{Measured, Plan, measure_index, plot};
use serde::{Deserialize, Serialize};

/// A run on a disk, and one in memory that stands for one that is larger.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Results {
    /// Memory of the index in bytes.
    memory_bytes: usize,
    /// What a control group let the process have, page cache included; nothing without one.
    limit_bytes: Option<u64>,
    /// On the disk.
    real: Vec<Measured>,
    /// By how much entries and memory were divided in what follows.
    scale: u64,
    /// In memory, with entries and memory divided by `scale`, and no clock that means anything.
    simulated: Vec<Measured>,
}

struct Arguments {
    dir: PathBuf,
    entries: u64,
    simulate: u64,
    scale: u64,
    memory: usize,
    lookups: u64,
    limit: Option<u64>,
    out: PathBuf,
    plot: Option<PathBuf>,
}

fn main() -> Result<()> {
    let arguments = Arguments::read()?;
    let sizes = |largest: u64| {
        let steps = [1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000, 300_000_000];
        let mut sizes: Vec<u64> = steps.into_iter().filter(|size| *size < largest).collect();
        sizes.push(largest);
        sizes
    };
    let directory = arguments.dir.join("index-campaign");
    ensure!(!directory.exists(), "{} exists; delete it first", directory.display());
    let plan = Plan {
        sizes: sizes(arguments.entries),
        memory: arguments.memory,
        directory: Some(directory.clone()),
        lookups: arguments.lookups,
    };
    let real = measure_index(&plan, tell);
    fs::remove_dir_all(&directory).context("the files of the index cannot be removed")?;
    let real = real?;
    let plan = Plan {
        sizes: sizes(arguments.simulate).iter().map(|size| size / arguments.scale).collect(),
        memory: arguments.memory / arguments.scale as usize,
        directory: None,
        lookups: arguments.lookups,
    };
    let simulated = match arguments.simulate {
        0 => Vec::new(),
        _ => measure_index(&plan, tell)?,
    };
    let command = command_line("cargo lab campaign index", env::args().skip(1));
    let mut header = Header::here(&arguments.out, command, "bounded by the control group")?;
    header.notes.push(
        "simulated: the same program with entries and memory divided by `scale`, its files in \
         memory; pages read, answers missed and hooks are those of the larger index, seconds are \
         not"
        .into(),
    );
    if let Some(path) = &arguments.plot {
        fs::write(path, plot(&real)).with_context(|| path.display().to_string())?;
    }
    let results = Results {
        memory_bytes: arguments.memory,
        limit_bytes: arguments.limit,
        real,
        scale: arguments.scale,
        simulated,
    };
    Record { header, results }.write(&arguments.out)
}

fn tell(one: &Measured) {
    println!(
        "{} entries: {:.1} s, {} segments, hooks 1 in {}, {} MB of files, {} MB of memory",
        one.entries,
        one.seconds_to_grow,
        one.segments,
        1u64 << one.sparsity,
        one.file_bytes / 1_000_000,
        one.peak_bytes / 1_000_000,
    );
    for lookups in &one.lookups {
        println!(
            "  {:?}: {:.0} a second, {} of {} missed, {} pages and {} MB read",
            lookups.kind,
            lookups.count as f64 / lookups.seconds,
            lookups.missed,
            lookups.count,
            lookups.pages_read,
            lookups.disk_bytes / 1_000_000,
        );
    }
}

impl Arguments {
    fn read() -> Result<Self> {
        let mut found = Self {
            dir: PathBuf::new(),
            entries: 100_000_000,
            simulate: 1_000_000_000,
            scale: 100,
            memory: 24 << 20,
            lookups: 200_000,
            limit: None,
            out: PathBuf::new(),
            plot: None,
        };
        for argument in Argument::all()? {
            match argument.name.as_str() {
                "--dir" => found.dir = argument.value.into(),
                "--out" => found.out = argument.value.into(),
                "--plot" => found.plot = Some(argument.value.into()),
                "--entries" => found.entries = argument.number()?,
                "--simulate" => found.simulate = argument.number()?,
                "--scale" => found.scale = argument.number()?.max(1),
                "--memory" => found.memory = argument.number()? as usize,
                "--lookups" => found.lookups = argument.number()?,
                "--limit" => found.limit = Some(argument.number()?),
                _ => return Err(argument.unknown()),
            }
        }
        let is_named = |path: &PathBuf| !path.as_os_str().is_empty();
        ensure!(is_named(&found.dir) && is_named(&found.out), "--dir and --out are needed");
        Ok(found)
    }
}
