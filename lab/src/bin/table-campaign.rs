//! Measures the tables in memory against each other, and writes a record.
//!
//! `cargo lab campaign table` builds and runs it.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use onefold_bench::{Header, Record, command_line};
use onefold_lab::Argument;
use onefold_lab::table::{Layout, Measured, Plan, measure_tables};

fn main() -> Result<()> {
    let mut plan = Plan {
        // 10^8 of them are there when 92 of 100 are
        entries: 108_700_000,
        fills: vec![0.5, 0.92, 0.995],
        operations: 5_000_000,
        rounds: 5,
    };
    let mut layouts = Layout::ALL.to_vec();
    let mut out = PathBuf::new();
    for argument in Argument::all()? {
        match argument.name.as_str() {
            "--out" => out = argument.value.into(),
            "--only" => {
                layouts = vec![serde_json::from_value(argument.value.into()).context("--only")?]
            }
            "--entries" => plan.entries = argument.number()?.max(1),
            "--operations" => plan.operations = argument.number()?.max(1),
            "--rounds" => plan.rounds = argument.number()?.max(1) as u32,
            _ => return Err(argument.unknown()),
        }
    }
    ensure!(!out.as_os_str().is_empty(), "--out is needed");
    let results = measure_tables(&plan, &layouts, tell)?;
    let command = command_line("cargo lab campaign table", env::args().skip(1));
    let header = Header::here(&out, command, "in memory; keys in no order, one thread")?;
    Record { header, results }.write(&out)
}

fn tell(one: &Measured) {
    println!(
        "{:?}: {} of {} entries, {:.1} bytes each, {} refused, {} false positives",
        one.layout,
        one.entries,
        one.capacity,
        one.bytes as f64 / one.capacity as f64,
        one.refused,
        one.false_positives,
    );
    for speed in &one.speeds {
        println!("  {:?}: {:.2} M/s", speed.work, speed.per_second() / 1e6);
    }
}
