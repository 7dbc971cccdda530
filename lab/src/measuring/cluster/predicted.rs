//! What the simulation of crates/cluster says of gateways that share a machine, with service times that were
//! measured with one of them alone.

use anyhow::Result;
use onefold_cluster::routing::Routing;
use onefold_cluster::simulate::{Plan, Point, Step, Times, Unit, Workload, simulate};
use serde::{Deserialize, Serialize};

/// What was measured with one gateway.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Alone {
    /// Seconds of processors that the machine took for a write of a page that the gateway has: the gateway, Ceph
    /// and the client.
    pub(super) known_us: f64,
    /// The same of a new page.
    pub(super) new_us: f64,
    /// Of both, what the gateway took.
    pub(super) known_gateway_us: f64,
    pub(super) new_gateway_us: f64,
    /// The median latency of one write after the other.
    pub(super) one_known_us: f64,
    pub(super) one_new_us: f64,
    /// Updates of RADOS for each write of new pages with as many in flight as when throughput is measured.
    pub(super) updates_per_new: f64,
    /// Objects of 4 KiB that Ceph writes in a second, 16 in flight, by `rados bench`.
    pub(super) objects_per_second: f64,
    /// From one namespace to the machine, without delay: half of what a connection takes.
    pub(super) hop_us: f64,
}

/// What gateways are simulated for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) gateways: usize,
    /// Of each frame on its way, in microseconds.
    pub(super) delay_us: f64,
    /// The share of pages that others have, from 0 to 1.
    pub(super) duplicates: f64,
    /// Writes that each gateway has in flight.
    pub(super) window: u32,
    /// The rate at which latencies are compared, of all gateways together; none to compare throughput alone.
    pub(super) paced: Option<f64>,
}

/// What the simulation says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Predicted {
    /// Writes a second that the machine can do.
    pub(super) capacity: f64,
    /// The same, but no more than there are in flight by the latency without load.
    pub(super) writes_per_second: f64,
    /// At the rate that was measured.
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    /// Messages between gateways for each write, answers counted as well.
    pub(super) messages: f64,
    /// Their bytes for each write, as the simulation takes messages to be.
    pub(super) bytes: f64,
    pub(super) hops: f64,
}

/// The times of a gateway for which everything takes `share` times as long as for one that has the machine alone.
fn times(alone: &Alone, asked: &Asked, share: f64) -> Times {
    let new = 1.0 - asked.duplicates;
    let unit = |name: &str, servers| Unit { name: name.into(), servers };
    let store_us = alone.updates_per_new * 1e6 / alone.objects_per_second;
    let work_us = alone.known_us + new * (alone.new_us - alone.known_us);
    let one_us = alone.one_known_us + new * (alone.one_new_us - alone.one_known_us);
    // a new page waits for its container and then for the journal, a known one for the journal
    let trips = 1.0 + new;
    Times {
        name: "gateways that share a machine".into(),
        units: vec![unit("cores", 2), unit("storage", 1)],
        fingerprint: Step { unit: 0, us: alone.known_us * share },
        compress: Step { unit: 0, us: (alone.new_us - alone.known_us).max(0.0) * share },
        store: Step { unit: 1, us: store_us * share },
        commit_us: (one_us - work_us - new * store_us).max(0.0) + trips * 2.0 * asked.delay_us,
        hop_us: alone.hop_us + asked.delay_us,
        batch: 1,
        window: asked.window,
        // the look-up, a message and what it has are those of `onefold cluster simulate`
        look_up: Step { us: Times::onefold().look_up.us * share, ..Times::onefold().look_up },
        message: Step { us: Times::onefold().message.us * share, ..Times::onefold().message },
        ..Times::onefold()
    }
}

/// Simulates `asked`: throughput where each gateway has its part of the machine, and latency where each has all of
/// it, which is the least that it can be.
pub(super) fn predict(alone: &Alone, asked: &Asked) -> Result<Predicted> {
    let workload = Workload::even(asked.duplicates, 1);
    let at = |share: f64, load: f64| -> Result<Point> {
        let (gateways, workload) = (asked.gateways, &workload);
        let (routing, times) = (Routing::Direct, &times(alone, asked, share));
        Ok(simulate(&Plan { gateways, routing, times, workload, load, seed: 1 })?)
    };
    let shared = at(asked.gateways as f64, 0.5)?;
    let capacity = shared.pages_per_second;
    let idle = at(1.0, 0.02)?;
    let in_flight = f64::from(asked.window) * asked.gateways as f64;
    let load = asked.paced.map(|rate| (rate / idle.pages_per_second).clamp(0.01, 0.98));
    let loaded = load.map_or_else(|| Ok(idle.clone()), |load| at(1.0, load))?;
    Ok(Predicted {
        capacity,
        writes_per_second: capacity.min(in_flight * 1e6 / idle.mean_us),
        p50_us: loaded.p50_us,
        p99_us: loaded.p99_us,
        messages: idle.messages_per_page,
        bytes: idle.index_bytes_per_page,
        hops: idle.hops,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Alone = Alone {
        known_us: 200.0,
        new_us: 400.0,
        known_gateway_us: 50.0,
        new_gateway_us: 80.0,
        one_known_us: 2_000.0,
        one_new_us: 4_000.0,
        updates_per_new: 0.3,
        objects_per_second: 2_000.0,
        hop_us: 20.0,
    };

    #[test]
    fn gateways_that_share_a_machine_share_its_processors() {
        let ask = |gateways, delay_us| {
            let asked =
                Asked { gateways, delay_us, duplicates: 0.5, window: 16, paced: Some(1_000.0) };
            predict(&ALONE, &asked).unwrap()
        };
        let (one, four) = (ask(1, 0.0), ask(4, 0.0));
        // two processors by 300 µs a write
        assert!((6_000.0..7_000.0).contains(&one.capacity), "{one:?}");
        assert!((0.9..1.1).contains(&(four.capacity / one.capacity)), "{one:?}, {four:?}");
        // 16 in flight by some 3 ms
        assert!(one.writes_per_second < 0.95 * one.capacity, "{one:?}");
        assert_eq!((one.messages, one.hops), (0.0, 0.0));
        // a question and an answer for three of four pages, and half of the pages are told
        assert!((1.7..2.1).contains(&four.messages), "{four:?}");
        let far = ask(4, 500.0);
        // there and back to the holder, and to Ceph one and a half times
        let added = far.p50_us - four.p50_us;
        assert!((2_200.0..2_800.0).contains(&added), "{added}: {far:?}");
    }
}
