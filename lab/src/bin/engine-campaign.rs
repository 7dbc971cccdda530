//! Measures a pool of volumes without NBD, and writes a record.
//!
//! `cargo lab campaign engine` builds and runs it.

#![allow(clippy::disallowed_methods, reason = "writes a plot; no byte here belongs to a pool")]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use onefold_bench::{Header, Record, command_line};
use onefold_lab::engine::{
    Plan, Results, find_openssl, measure_beyond, measure_engine, notes, plot,
};
use onefold_lab::{Argument, mounted};

fn main() -> Result<()> {
    let mut plan = Plan {
        known: 10_000_000,
        operations: 65_536,
        rounds: 5,
        depth: 64,
        seconds: 3.0,
        has_openssl: true,
    };
    let (mut out, mut directory, mut plotted) = (PathBuf::new(), PathBuf::new(), None);
    let mut is_beyond = false;
    for argument in Argument::all()? {
        match argument.name.as_str() {
            "--out" => out = argument.value.into(),
            "--dir" => directory = argument.value.into(),
            "--plot" => plotted = Some(PathBuf::from(argument.value)),
            "--known" => plan.known = argument.number()?.max(1),
            "--operations" => plan.operations = argument.number()?.max(1),
            "--rounds" => plan.rounds = argument.number()?.max(1) as u32,
            "--depth" => plan.depth = argument.number()?.max(2) as usize,
            "--beyond" => is_beyond = argument.number()? > 0,
            "--seconds" => plan.seconds = argument.number()?.max(1) as f64,
            _ => return Err(argument.unknown()),
        }
    }
    ensure!(!out.as_os_str().is_empty(), "--out is needed: the record to write");
    ensure!(!directory.as_os_str().is_empty(), "--dir is needed: where pools may be made");
    if is_beyond {
        return beyond(&plan, &directory, &out);
    }
    let openssl = find_openssl();
    plan.has_openssl = openssl.is_ok();
    if let Err(error) = &openssl {
        println!("OpenSSL is left out: {error:#}");
    }
    let results =
        measure_engine(&plan, &directory.join("onefold-engine"), |line| println!("{line}"))?;
    tell(&results);
    let command = command_line("cargo lab campaign engine", env::args().skip(1));
    let mut header = Header::here(&out, command, "pages and containers in memory")?;
    header.notes = notes(&plan, &results);
    header.notes.push(match env::var("GLIBC_TUNABLES") {
        Ok(tunables) if !tunables.is_empty() => format!("memory is taken by {tunables}"),
        _ => "memory is taken as glibc does by itself".into(),
    });
    header.notes.extend(mounted(&directory).map(|medium| format!("pools are on {medium}")));
    match openssl {
        Ok(version) => drop(header.tools.insert("openssl".to_owned(), version)),
        Err(error) => header.notes.push(format!("OpenSSL is left out: {error:#}")),
    }
    if let Some(path) = plotted {
        fs::write(&path, plot(&results)).with_context(|| path.display().to_string())?;
    }
    Record { header, results }.write(&out)
}

/// Measures pools that do not fit their memory, and writes the record.
fn beyond(plan: &Plan, directory: &Path, out: &Path) -> Result<()> {
    let results =
        measure_beyond(plan, &directory.join("onefold-engine"), |line| println!("{line}"))?;
    for one in &results {
        println!(
            "{:?}: against format 1 {:.2?}, known and found {:?}, nodes hit and missed {:?}",
            one.setting, one.against_whole, one.known_and_found, one.node_hits_and_misses
        );
    }
    let command = command_line("cargo lab campaign engine", env::args().skip(1));
    let mut header = Header::here(out, command, "containers and nodes in the kernel's cache")?;
    header.notes = vec![
        "one thread, kept to one CPU; pages are made just before each call, off the clock".into(),
        "nodes and containers that the pool does not hold are read from the kernel's cache".into(),
    ];
    header.notes.extend(mounted(directory).map(|medium| format!("pools are on {medium}")));
    Record { header, results }.write(out)
}

fn tell(results: &Results) {
    for one in &results.throughput {
        let latency = match one.latencies.first() {
            Some(first) => format!(", p50 {:.1} µs, p99 {:.1} µs", first.p50_us, first.p99_us),
            None => String::new(),
        };
        println!(
            "{:9.0} pages/s, {:.2} µs each: {:?}, compression {}{latency}",
            one.per_second(),
            1e6 / one.per_second(),
            one.work,
            one.compresses,
        );
    }
    for one in &results.loaded {
        for ((rate, latency), a_call) in
            one.per_second.iter().zip(&one.latencies).zip(&one.writes_a_call)
        {
            println!(
                "{rate:.0} writes/s come, {:.0} % known, {:.0} % load, {a_call:.1} a call: {latency:?}",
                100.0 * one.duplicates,
                100.0 * one.load,
            );
        }
    }
    for one in &results.together {
        println!(
            "two threads write {:.2} times as many pages as one, {:.0} % known, compression {}",
            one.gain,
            100.0 * one.duplicates,
            one.compresses,
        );
    }
    println!("12.7 GB/s of SHA3-256 take {:.1} such cores", results.cores_for_paper);
    for bar in &results.bars {
        println!(
            "{} {}: {:.2}, asked {} {}",
            if bar.is_met() { "met   " } else { "missed" },
            bar.name,
            bar.reached,
            if bar.is_most { "at most" } else { "at least" },
            bar.asked
        );
    }
}
