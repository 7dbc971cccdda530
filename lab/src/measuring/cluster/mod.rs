//! Pools of volumes in a cluster of Ceph: faults, how long a take-over takes, rates beside RBD, what
//! gateways store together, and how many of them reach what the simulation says.

mod cost;
mod counters;
pub(crate) mod dedup;
pub(crate) mod faults;
mod load;
mod network;
pub(crate) mod peers;
mod predicted;
mod processors;
mod registers;
pub(crate) mod scaling;
mod serving;
mod space;
pub(crate) mod take_over;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, anyhow};
use onefold_testkit::ceph::Ceph;
use xtask::record;

/// A cluster that began.
fn begin_ceph() -> Result<Ceph> {
    println!("campaign: starting Ceph");
    Ceph::start().map_err(|reason| anyhow!(reason))
}

/// The notes of a record: those of the run first.
fn notes<'a>(of_run: &'a [String], of_all: &[&'a str]) -> Vec<&'a str> {
    of_run.iter().map(String::as_str).chain(of_all.iter().copied()).collect()
}

/// The first line of what programs say of their versions.
fn versions(programs: &[&Path]) -> BTreeMap<String, String> {
    let of = |program: &&Path| {
        let said = record::first_words(Command::new(program).arg("--version"));
        let line = said.as_deref().and_then(|said| said.lines().next()).unwrap_or("unknown");
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (name, line.to_owned())
    };
    programs.iter().map(of).collect()
}
