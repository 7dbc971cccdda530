//! What a number of gateways would reach: a simulation by discrete events.
//!
//! Each gateway has units (cores, or engines of hardware), a link, and a [`Table`] that routes what it
//! sends. A write of some pages takes its turn on the link, is fingerprinted, and asks the holders of
//! its fingerprints; what goes to the same next gateway travels in one message. When all answers are
//! there its new pages are compressed and stored, and after a commit it is done. What waits for a unit
//! or a link is served in the order in which it came.
//!
//! | file | what it is |
//! | --- | --- |
//! | run.rs | one run: the events and what they do |
//! | queue.rs | events in the order of their times |
//! | station.rs | servers that work off what comes, first come, first served |
//! | times.rs | how long steps take, and where the figures are from |
//! | workload.rs | the pages that are written |
//! | numbers.rs | random numbers from a seed |
//!
//! Not simulated: lost messages, gateways that join, leave or die, reads (maps answer them without the
//! index), storage that several gateways share.

mod numbers;
mod queue;
mod run;
mod station;
mod times;
mod workload;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::routing::{MAX_GATEWAYS, Ranges, RangesError, Routing, Table};
use run::{Load, Run};
pub use times::{Step, Times, TimesError, Unit};
pub use workload::{Page, Workload};

/// Why nothing can be simulated.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// No gateway, or more than there are prefixes.
    #[error("{0} gateways, expected 1 to {MAX_GATEWAYS}")]
    Gateways(usize),
    /// A workload without a page.
    #[error("workload '{0}' has no page, expected at least one")]
    NoPage(String),
    /// The share of the highest rate at which latencies are measured.
    #[error("a load of {0}, expected more than 0 and less than 1")]
    Load(f64),
    /// Times that make no sense.
    #[error(transparent)]
    Times(#[from] TimesError),
    /// Ranges that cannot be divided.
    #[error(transparent)]
    Ranges(#[from] RangesError),
}

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// Gateways, 1 to 4,096.
    pub gateways: usize,
    /// How their requests travel.
    pub routing: Routing,
    /// How long steps take.
    pub times: &'a Times,
    /// What is written.
    pub workload: &'a Workload,
    /// The share of the throughput at which latencies are measured, more than 0 and less than 1.
    pub load: f64,
    /// Another seed gives other arrivals.
    pub seed: u64,
}

/// What so many gateways reach.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// How many there are.
    pub gateways: usize,
    /// Pages a second of all gateways, with as many writes in flight as each may have.
    pub pages_per_second: f64,
    /// The same in bytes.
    pub bytes_per_second: f64,
    /// The unit, or the link, that is busiest on any gateway then.
    pub busiest: String,
    /// The part of the time in which it is busy, from 0 to 1.
    pub busiest_share: f64,
    /// Of a write, with writes coming by chance at the plan's load.
    pub p50_us: f64,
    /// The same.
    pub p99_us: f64,
    /// The same.
    pub mean_us: f64,
    /// From the gateway that asks to the one that holds the prefix, mean over all pages.
    pub hops: f64,
    /// The most that any page needed.
    pub most_hops: u32,
    /// Messages about the index for each page, each hop counted.
    pub messages_per_page: f64,
    /// Their bytes for each page, each hop counted.
    pub index_bytes_per_page: f64,
    /// The part of all links that these take at the highest rate, from 0 to 1.
    pub index_link_share: f64,
}

/// Simulates two runs: one with as many writes in flight as may be, for the throughput, and one with
/// writes that come by chance, for latencies. The same plan gives the same point.
///
/// # Errors
///
/// A plan that makes no sense.
pub fn simulate(plan: &Plan) -> Result<Point, SimulationError> {
    let Plan { gateways, times, workload, load, .. } = *plan;
    if !(1..=MAX_GATEWAYS).contains(&gateways) {
        return Err(SimulationError::Gateways(gateways));
    }
    if workload.pages.is_empty() {
        return Err(SimulationError::NoPage(workload.name.clone()));
    }
    if !(load > 0.0 && load < 1.0) {
        return Err(SimulationError::Load(load));
    }
    times.validate()?;
    let ranges = Ranges::of(gateways as u32)?;
    let tables = Table::all(&ranges, plan.routing);
    let firsts: Vec<u16> = ranges.ring().iter().map(|range| range.first).collect();
    let run = |load| Run::new(&tables, &firsts, times, workload, plan.seed, load).finish();
    let full = run(Load::InFlight(times.window));
    let some = run(Load::Coming { writes_per_second: load * full.writes_per_second });
    let pages_per_second = full.writes_per_second * f64::from(times.batch);
    let (busiest, busiest_share) = full.busiest;
    let index_bytes_per_page = full.index_bytes as f64 / full.pages as f64;
    Ok(Point {
        gateways,
        pages_per_second,
        bytes_per_second: pages_per_second * f64::from(workload.page_bytes),
        busiest,
        busiest_share,
        p50_us: some.latency_us(0.5),
        p99_us: some.latency_us(0.99),
        mean_us: some.mean_latency_us(),
        hops: full.hops as f64 / full.asked as f64,
        most_hops: full.most_hops,
        messages_per_page: full.messages as f64 / full.pages as f64,
        index_bytes_per_page,
        index_link_share: index_bytes_per_page * pages_per_second
            / gateways as f64
            / times.link_bytes_per_second,
    })
}

#[cfg(test)]
mod tests;
