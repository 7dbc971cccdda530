//! Measures look-ups of hints between two gateways, and writes a record.
//!
//! `cargo lab campaign peers` builds and runs it.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use onefold_bench::{Header, Record, command_line};
use onefold_lab::Argument;
use onefold_lab::peers::{MeasuredPeers, PeersPlan, measure_peers, serve_peer};

fn main() -> Result<()> {
    let mut plan = PeersPlan {
        pages: 500_000,
        batches: vec![1, 4, 16, 64, 256, 1024, 4096],
        threads: vec![1, 4],
        time: Duration::from_secs(2),
    };
    let mut out = PathBuf::new();
    for argument in Argument::all()? {
        match argument.name.as_str() {
            "--out" => out = argument.value.into(),
            "--pages" => plan.pages = argument.number()?.max(8192) as usize,
            "--milliseconds" => plan.time = Duration::from_millis(argument.number()?.max(1)),
            "--serve" => return serve_peer(),
            _ => return Err(argument.unknown()),
        }
    }
    ensure!(!out.as_os_str().is_empty(), "--out is needed: the record to write");
    let results = measure_peers(&plan, tell)?;
    let command = command_line("cargo lab campaign peers", env::args().skip(1));
    let mut header = Header::here(&out, command, "in memory")?;
    header.notes.push(
        "two processes on this machine over TLS 1.3 on loopback; all pages are known, and each hint is \
         checked; times include grouping by gateway"
            .into(),
    );
    Record { header, results }.write(&out)
}

fn tell(one: &MeasuredPeers) {
    println!(
        "{} threads, {} a look-up: {:.0} k/s, p50 {:.0} µs, p99 {:.0} µs",
        one.threads,
        one.batch,
        one.per_second() / 1e3,
        one.p50_us,
        one.p99_us,
    );
}
