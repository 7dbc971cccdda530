//! Measures RapidCDC in front of some algorithms, prints a table of each and keeps a record.
//!
//!     cargo run --release -p onefold-lab --example rapid -- --data PATH [--one-stream]
//!         [--algorithm rabin,gear,…] [--criterion ff,rwt,mt1,mt4,fpt,mfpt] [--sizes MIN,AVG,MAX]
//!         [--next N] [--rounds N] [--bytes MAX] [--out docs/records/NAME.json]
//!
//! Each file is an input of its own, unless --one-stream makes one of all. --data may be given
//! several times.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use onefold_bench::{Dataset, DatasetRecord, FEWEST_ROUNDS, Header, Record, command_line};
use onefold_cdc::{ChunkSizes, Criterion, Params};
use onefold_lab::rapid::{RapidPlan, measure_rapid};

/// The sizes of the paper's default configuration.
const SIZES: [usize; 3] = [4096, 8192, 12288];

struct Options {
    data: Vec<PathBuf>,
    one_stream: bool,
    algorithms: String,
    criteria: Vec<Criterion>,
    sizes: [usize; 3],
    next: usize,
    rounds: u32,
    bytes: Option<u64>,
    out: Option<PathBuf>,
}

fn main() -> Result<()> {
    let options = options()?;
    let sizes = ChunkSizes::new(options.sizes[0], options.sizes[1], options.sizes[2])?;
    let mut results = Vec::new();
    for path in &options.data {
        let mut dataset = Dataset::read(path, options.bytes)?;
        if options.one_stream {
            dataset = dataset.one_stream();
        }
        let about = DatasetRecord::from(&dataset);
        println!("# {}: {} files, {} bytes\n", about.name, about.files, about.bytes);
        let mut of_dataset = Vec::new();
        for algorithm in options.algorithms.split(',') {
            let plan = RapidPlan {
                params: Params::new(algorithm.parse()?, sizes),
                criteria: options.criteria.clone(),
                next: options.next,
                rounds: options.rounds,
                end_to_end: true,
            };
            let result = measure_rapid(&dataset, &plan, |_| Ok(true))?;
            println!("{}", result.table());
            for reason in &result.noise {
                println!("noise: {reason}");
            }
            of_dataset.push(result);
        }
        results.push((about, of_dataset));
    }
    if let Some(out) = options.out {
        let command = "cargo run --release -p onefold-lab --example rapid --";
        let command = command_line(command, std::env::args().skip(1));
        let header = Header::here(&out, command, "in memory")?;
        Record { header, results }.write(&out)?;
    }
    Ok(())
}

fn options() -> Result<Options> {
    let mut options = Options {
        data: Vec::new(),
        one_stream: false,
        algorithms: "rabin,gear,fastcdc".into(),
        criteria: criteria("ff,rwt,mt1,mt4,fpt")?,
        sizes: SIZES,
        next: 2,
        rounds: FEWEST_ROUNDS,
        bytes: None,
        out: None,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(option) = arguments.next() {
        if option == "--one-stream" {
            options.one_stream = true;
            continue;
        }
        let value = arguments.next().with_context(|| format!("{option}: expected a value"))?;
        let number = || value.parse::<u32>().with_context(|| format!("{option} {value}"));
        match option.as_str() {
            "--data" => options.data.push(value.into()),
            "--algorithm" => options.algorithms = value,
            "--criterion" => options.criteria = criteria(&value)?,
            "--sizes" => options.sizes = three(&value)?,
            "--next" => options.next = number()? as usize,
            "--rounds" => options.rounds = number()?,
            "--bytes" => options.bytes = Some(value.parse().context("--bytes")?),
            "--out" => options.out = Some(value.into()),
            _ => bail!("{option}: no such option; see the head of examples/rapid.rs"),
        }
    }
    ensure!(!options.data.is_empty(), "expected --data PATH");
    ensure!(options.rounds > 0, "--rounds 0: expected at least 1");
    Ok(options)
}

fn criteria(names: &str) -> Result<Vec<Criterion>> {
    let criterion = |name: &str| {
        Ok(match name {
            "ff" => Criterion::FastForward,
            "rwt" => Criterion::WindowTest,
            "fpt" => Criterion::FingerprintTest,
            "mfpt" => Criterion::MarkerFingerprintTest,
            "mt1" => Criterion::MarkerTest { bytes: 1 },
            "mt2" => Criterion::MarkerTest { bytes: 2 },
            "mt3" => Criterion::MarkerTest { bytes: 3 },
            "mt4" => Criterion::MarkerTest { bytes: 4 },
            _ => bail!("--criterion {name}: expected ff, rwt, mt1 to mt4, fpt or mfpt"),
        })
    };
    names.split(',').map(criterion).collect()
}

fn three(value: &str) -> Result<[usize; 3]> {
    let numbers: Vec<usize> = value.split(',').map(str::parse).collect::<Result<_, _>>()?;
    numbers.try_into().ok().with_context(|| format!("--sizes {value}: expected MIN,AVG,MAX"))
}
