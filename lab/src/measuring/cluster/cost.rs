//! What a write of 4 KiB costs: operations and bytes of RADOS, look-ups and messages between gateways.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use onefold_lab::nbd::{Client, Uri};
use onefold_testkit::SplitMix64;
use onefold_testkit::ceph::Gateways;
use serde::{Deserialize, Serialize};

use super::counters::{Counted, Metrics};
use super::load::at;
use super::registers::BLOCK;

/// Writes of 4 KiB through one gateway of two, and what the gateway counted meanwhile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cost {
    duplicates_percent: u64,
    writes: u64,
    seconds: f64,
    updates: u64,
    queries: u64,
    written_bytes: u64,
    read_bytes: u64,
    /// What the gateway does in as many seconds without clients, by a measurement of ten.
    idle_updates: f64,
    idle_queries: f64,
    lookups: u64,
    hits: u64,
    late: u64,
    /// Messages that look up, and that tell of pages.
    find_messages: u64,
    add_messages: u64,
    /// Sent to the other gateway and received from it.
    sent_hint_bytes: u64,
    received_hint_bytes: u64,
}

pub(super) const NOTES: [&str; 3] = [
    "costs: 16 connections with one request in flight each write distinct blocks of 4 KiB, in random order, to an \
     empty volume of one gateway of two; the other gateway has half of the fingerprints",
    "a duplicate is a page that the volume of the other gateway has, and each is written once, so that all are found \
     by hints; half of each page is zeros",
    "costs: updates and queries include what the gateway does without clients, which idle_updates and idle_queries \
     estimate for the same time",
];

/// The volume of the other gateway, which has the pages that are duplicates.
const KNOWN: &str = "known";
/// Requests in flight.
const DEPTH: u64 = 16;
/// How long an idle gateway is observed.
const IDLE: Duration = Duration::from_secs(10);

/// The numbers of operations of RADOS that a gateway sends.
const UPDATES: &str = "onefold_rados_operations_total{kind=\"update\"}";
const QUERIES: &str = "onefold_rados_operations_total{kind=\"query\"}";

/// Counts what `writes` writes cost for each share of duplicates.
pub(super) fn measure(gateways: &mut Gateways, writes: u64) -> Result<Vec<Cost>> {
    const SHARES: [u64; 4] = [0, 50, 80, 100];
    let bytes = writes * BLOCK as u64;
    // each share has duplicates of its own
    let known = (bytes * SHARES.len() as u64).to_string();
    gateways.onefold(0, &["volume", "create", KNOWN, "--size", &known]);
    for share in SHARES {
        gateways.onefold(0, &["volume", "create", &volume(share), "--size", &bytes.to_string()]);
    }
    let counted = Counted::start(gateways, 2, None)?;
    let all: Vec<u64> = (0..writes * SHARES.len() as u64).collect();
    write(&at(&gateways.socket(1), KNOWN), &all, |number| page(number, true))?;
    counted.wait_for_hints()?;
    counted.wait_for_dumps(QUERIES)?;
    let mut costs = Vec::new();
    for (run, share) in (0..).zip(SHARES) {
        let uri = at(&gateways.socket(0), &volume(share));
        // the gateway takes the volume
        Client::connect(&uri)?.flush()?;
        let (idle, before) = (counted.of(0)?, Instant::now());
        thread::sleep(IDLE);
        let after = counted.of(0)?;
        let idle_seconds = before.elapsed().as_secs_f64();
        let (blocks, first) = (shuffled(writes, run), run * writes);
        let (begun, start) = (Instant::now(), after.clone());
        write(&uri, &blocks, |block| page(first + block, block % 100 < share))?;
        let seconds = begun.elapsed().as_secs_f64();
        counted.wait_for_hints()?;
        let of_idle =
            |name| idle_of(&idle, &after, name) / idle_seconds * begun.elapsed().as_secs_f64();
        let end = counted.of(0)?;
        let cost = Cost {
            duplicates_percent: share,
            writes,
            seconds,
            updates: end.since(&start, UPDATES),
            queries: end.since(&start, QUERIES),
            written_bytes: end.since(&start, "onefold_rados_bytes_total{direction=\"written\"}"),
            read_bytes: end.since(&start, "onefold_rados_bytes_total{direction=\"read\"}"),
            idle_updates: of_idle(UPDATES),
            idle_queries: of_idle(QUERIES),
            lookups: end.since(&start, "onefold_hint_lookups_total"),
            hits: end.since(&start, "onefold_hint_hits_total"),
            late: end.since(&start, "onefold_hint_late_total"),
            find_messages: end.since(&start, "onefold_hint_messages_total{kind=\"find\"}"),
            add_messages: end.since(&start, "onefold_hint_messages_total{kind=\"add\"}"),
            sent_hint_bytes: end.since(&start, "onefold_hint_bytes_total{direction=\"sent\"}"),
            received_hint_bytes: end
                .since(&start, "onefold_hint_bytes_total{direction=\"received\"}"),
        };
        println!("campaign: {cost:?}");
        costs.push(cost);
    }
    super::dedup::end(gateways, 2)?;
    Ok(costs)
}

fn idle_of(before: &Metrics, after: &Metrics, name: &str) -> f64 {
    after.since(before, name) as f64
}

fn volume(share: u64) -> String {
    format!("share{share}")
}

/// The blocks from 0 to `count` in random order.
fn shuffled(count: u64, seed: u64) -> Vec<u64> {
    let (mut blocks, mut random) = ((0..count).collect::<Vec<u64>>(), SplitMix64::new(seed));
    for last in (1..blocks.len()).rev() {
        blocks.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
    }
    blocks
}

/// Page `number` of those that the other gateway has, or of those that are new.
fn page(number: u64, is_known: bool) -> Vec<u8> {
    super::take_over::page(number << 1 | u64::from(is_known))
}

/// Writes blocks in this order, with [`DEPTH`] requests in flight.
fn write(uri: &Uri, blocks: &[u64], page: impl Fn(u64) -> Vec<u8> + Sync) -> Result<()> {
    let one = |first: u64| -> Result<()> {
        let mut client = Client::connect(uri)?;
        for block in blocks.iter().skip(first as usize).step_by(DEPTH as usize) {
            client.write(block * BLOCK as u64, &page(*block))?;
        }
        client.flush()
    };
    let one = &one;
    thread::scope(|scope| {
        let clients: Vec<_> = (0..DEPTH).map(|first| scope.spawn(move || one(first))).collect();
        clients.into_iter().try_for_each(|one| one.join().expect("a client does not panic"))
    })
}

/// What each write costs.
pub(super) fn table<'a>(costs: impl Iterator<Item = &'a Cost>) -> String {
    let mut text = "| duplicates % | updates of RADOS for each write | queries | bytes written | look-ups | hints | \
                    late | messages | bytes of hints |\n| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | \
                    ---: |\n"
        .to_owned();
    for cost in costs {
        let each = |count: f64| count.max(0.0) / cost.writes as f64;
        text += &format!(
            "| {} | {:.2} | {:.2} | {:.0} | {:.2} | {:.2} | {:.3} | {:.2} | {:.0} |\n",
            cost.duplicates_percent,
            each(cost.updates as f64 - cost.idle_updates),
            each(cost.queries as f64 - cost.idle_queries),
            each(cost.written_bytes as f64),
            each(cost.lookups as f64),
            each(cost.hits as f64),
            each(cost.late as f64),
            each((cost.find_messages + cost.add_messages) as f64),
            each((cost.sent_hint_bytes + cost.received_hint_bytes) as f64),
        );
    }
    text
}
