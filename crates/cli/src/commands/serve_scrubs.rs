//! How a gateway of a cluster scrubs containers: one after the other, in turn with the other gateways.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use onefold_cluster::{Gateway, ScrubStep, Scrubbing, wall_clock};
use onefold_store::Cancel;
use tracing::{info, warn};

use super::serve::PAUSE;
use crate::service::metrics::SpaceCounts;

/// Bytes a second that one gateway reads.
const RATE: u64 = 16 << 20;

/// How long a gateway waits that has nothing to scrub.
const REST: Duration = Duration::from_secs(10);

/// Scrubs of one gateway.
pub(super) struct Scrubs {
    every: Duration,
    counts: Arc<SpaceCounts>,
    scrubbing: Scrubbing,
}

impl Scrubs {
    /// Those of cycles that begin so often.
    pub(super) fn new(every: Duration, counts: Arc<SpaceCounts>) -> Self {
        Self { every, counts, scrubbing: Scrubbing::default() }
    }

    /// Scrubs until the server ends.
    pub(super) fn keep(&mut self, gateway: &Gateway, cancel: &Cancel) {
        while !cancel.is_cancelled() {
            thread::sleep(PAUSE);
            if !self.step(gateway, cancel) {
                rest(REST, cancel);
            }
        }
    }

    /// Scrubs one container; whether there was one.
    fn step(&mut self, gateway: &Gateway, cancel: &Cancel) -> bool {
        let go_on = |bytes: u64| {
            rest(Duration::from_secs_f64(bytes as f64 / RATE as f64), cancel);
            !cancel.is_cancelled()
        };
        match gateway.scrub_step(&mut self.scrubbing, (wall_clock(), self.every), &go_on) {
            Ok(ScrubStep::Scrubbed { container, found: Some(found), counts: true, .. }) => {
                self.counts.scrubbed.fetch_add(1, Ordering::Relaxed);
                if found.bad > 0 {
                    let problem = found.problem.unwrap_or_default();
                    warn!(%container, pages = found.bad, problem, "a container is damaged");
                }
                true
            }
            Ok(ScrubStep::Scrubbed { .. }) => true,
            Ok(ScrubStep::Ended(cycle)) => {
                let (containers, damaged) = (cycle.containers, cycle.damaged);
                info!(cycle = cycle.cycle, containers, damaged, "all containers were scrubbed");
                false
            }
            Ok(ScrubStep::Idle | ScrubStep::Waiting) => false,
            Err(error) => {
                let error = format!("{:#}", anyhow::Error::from(error));
                warn!(error, "a container could not be scrubbed: it is tried again");
                false
            }
        }
    }
}

/// Lets so much time pass, or less if the server ends.
pub(super) fn rest(time: Duration, cancel: &Cancel) {
    let begun = Instant::now();
    while !cancel.is_cancelled() {
        let left = time.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(PAUSE));
    }
}
