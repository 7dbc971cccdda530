//! Gateways in network namespaces, one to eight, with delay between them: what they reach, what their index costs,
//! and what the simulation says of it.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use onefold_lab::nbd::{Client, Uri};
use onefold_testkit::SplitMix64;
use onefold_testkit::ceph::{Ceph, Gateways, REPLICATED};
use serde::{Deserialize, Serialize};

use super::counters::{Counted, Metrics};
use super::load::at;
use super::network::Network;
use super::predicted::{Alone, Asked, Predicted, predict};
use super::processors;
use super::registers::BLOCK;
use super::take_over::page;
use crate::measuring::backups;
use crate::measuring::record::Dataset;
use crate::measuring::table::median;

/// What `cargo lab campaign cluster-scaling` was asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The program whose gateways are measured: `onefold` as it is released
    #[arg(long)]
    onefold: PathBuf,
    /// How many gateways, ascending, at most 8
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8")]
    gateways: Vec<usize>,
    /// How many microseconds a frame takes from one namespace to another, or to Ceph
    #[arg(long, value_delimiter = ',', default_value = "0,500,2000")]
    delays: Vec<u64>,
    /// How many writes of 4 KiB all gateways together do at each point
    #[arg(long, default_value_t = 12_288, value_parser = clap::value_parser!(u64).range(1024..=65_536))]
    writes: u64,
    /// How many percent of the pages another gateway has
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(0..=100))]
    duplicates: u64,
    /// What a reader of the record must know of this run, such as how the program was built
    #[arg(long)]
    note: Vec<String>,
    /// The record to write, e.g. docs/records/NAME.json
    #[arg(long)]
    out: PathBuf,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "of", rename_all = "snake_case")]
pub(crate) enum Sample {
    /// One gateway alone, without delay: the service times of the simulation.
    Alone(Alone),
    /// So many gateways with as many writes in flight as may be.
    InFlight { measured: Box<Measured>, predicted: Predicted },
    /// The same where writes come by chance, half as many as before.
    Paced { measured: Box<Measured>, predicted: Predicted },
}

/// What was measured at one point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    gateways: usize,
    delay_us: u64,
    writes: u64,
    duplicates_percent: u64,
    seconds: f64,
    /// Of all gateways together.
    writes_per_second: f64,
    p50_us: f64,
    p99_us: f64,
    mean_us: f64,
    updates: u64,
    queries: u64,
    lookups: u64,
    /// Of these, those that another gateway was asked.
    asked: u64,
    hits: u64,
    late: u64,
    find_messages: u64,
    add_messages: u64,
    /// Of messages and answers, without those of HTTP and TLS.
    hint_bytes: u64,
    /// Payload of the connections between gateways, those of HTTP and TLS included.
    wire_bytes: u64,
    /// Seconds of processors, of each gateway.
    gateway_cpu_seconds: Vec<f64>,
    ceph_cpu_seconds: f64,
    /// Of this process: clients, and the switch between namespaces.
    client_cpu_seconds: f64,
    /// The share of the machine's processors that was in use, by anything.
    busy: f64,
}

impl Measured {
    fn each(&self, count: u64) -> f64 {
        count as f64 / self.writes as f64
    }

    /// Microseconds of processors for each write: of gateways, and of these with Ceph and clients.
    fn processor_us(&self) -> (f64, f64) {
        let gateways: f64 = self.gateway_cpu_seconds.iter().sum();
        let all = gateways + self.ceph_cpu_seconds + self.client_cpu_seconds;
        (gateways * 1e6 / self.writes as f64, all * 1e6 / self.writes as f64)
    }

    /// As the simulation counts them: questions, answers, and what is told.
    fn messages(&self) -> f64 {
        self.each(2 * self.find_messages + self.add_messages)
    }
}

/// Writes that each gateway has in flight.
const DEPTH: usize = 16;
/// Writes by which one gateway alone is measured.
const ALONE: u64 = 6144;
/// The same, one after the other.
const ONE_BY_ONE: u64 = 400;
/// Blocks of a volume that writes go to; behind them are as many for pages that others shall find.
const BLOCKS: u64 = 1 << 19;
/// Where gateways answer one another, and tell their metrics, each at its own address.
const PEERS: u16 = 10_900;
const METRICS: u16 = 9_100;

const CACHE_STATE: &str = "volumes begin empty; gateways have in memory what they wrote";

const NOTES: [&str; 8] = [
    "each gateway is a process in a network namespace of its own, and has a volume; a client beside it, over a Unix \
     socket, has 16 connections with one write of 4 KiB in flight each, to distinct blocks in random order",
    "a switch in the process of the campaign joins the namespaces and Ceph by TAP devices, with frames of up to 9,000 \
     bytes; every frame takes the delay, so that a question and its answer take twice as long",
    "a duplicate is a page that the next gateway's volume has, and each is written once, so that all are found by \
     hints; with one gateway its own volume has it; half of each page is zeros",
    "gateways wait up to 100 ms for hints, not 5, so that none is late because of the delay",
    "paced: writes come by chance at half of the rate before, and latency counts from when a write should have begun",
    "Ceph is a monitor, a manager and three OSDs on one disk, in a pool with three copies; gateways, Ceph, clients and \
     the switch share the processors of one machine, which bounds the throughput of all gateways together",
    "predicted: the code of `onefold cluster simulate`, direct routing, with the service times of `alone`, of the same \
     run; for throughput each of n gateways has an nth of the machine's two processors and of Ceph, and for latencies \
     all of them, which is the least that they can be",
    "wire_bytes are bytes_sent of `ss` on the gateways' connections to one another",
];

/// Measures, prints and writes the record.
pub(crate) fn measure(options: &Options) -> Result<()> {
    let counts = &options.gateways;
    let is_fine = counts.is_sorted() && counts.iter().all(|count| (1..=8).contains(count));
    ensure!(
        is_fine && counts.first() == Some(&1),
        "--gateways is {counts:?}, expected 1 and then ascending numbers up to 8"
    );
    let onefold = options.onefold.canonicalize()?;
    let most = *counts.last().expect("it has one");
    // the network goes last: gateways are in its namespaces
    let network = Network::new(most)?;
    println!("campaign: starting Ceph");
    let ceph = Ceph::start_on(network.machine()).map_err(|reason| anyhow!(reason))?;
    let mut cluster = Cluster::begin(&network, Gateways::new(ceph, &onefold), most)?;
    cluster.grow(1)?;
    let alone = cluster.alone()?;
    println!("campaign: {alone:?}");
    let mut samples = vec![Sample::Alone(alone)];
    for count in counts {
        cluster.grow(*count)?;
        for delay in &options.delays {
            network.set_delay(Duration::from_micros(*delay));
            samples.extend(cluster.point(&alone, options, *delay)?);
        }
        network.set_delay(Duration::ZERO);
    }
    drop(cluster);
    drop(network);
    print!("{}", table(&samples));
    let dataset = Dataset {
        name: "pages of random bytes, half of each zeros".into(),
        digest: "none: drawn from the number of each page".into(),
        files: 0,
        bytes: 0,
    };
    let tools = super::versions(&[&onefold, Path::new("ceph")]);
    let notes = super::notes(&options.note, &NOTES);
    backups::write_record(&options.out, dataset, CACHE_STATE, tools, samples, &notes)
}

/// What is written in one go, by each gateway.
#[derive(Clone, Copy)]
struct Load {
    writes: u64,
    duplicates_percent: u64,
    depth: usize,
    /// Writes a second, of each gateway.
    pace: Option<f64>,
}

/// Gateways that run, and what they have written.
struct Cluster<'a> {
    network: &'a Network,
    gateways: Gateways,
    running: usize,
    counted: Option<Counted>,
    /// The next page that nobody has written.
    next_page: u64,
    /// Of each volume, the next block and the next one for pages that others shall find.
    next_block: Vec<(u64, u64)>,
}

/// What is counted at one moment.
struct Moment {
    metrics: Vec<Metrics>,
    wire_bytes: u64,
    gateways: Vec<f64>,
    ceph: f64,
    own: f64,
}

impl<'a> Cluster<'a> {
    fn begin(network: &'a Network, gateways: Gateways, most: usize) -> Result<Self> {
        let size = (2 * BLOCKS * BLOCK as u64).to_string();
        for number in 0..most {
            gateways.onefold(0, &["volume", "create", &volume(number), "--size", &size]);
        }
        let (counted, next_block) = (None, vec![(0, BLOCKS); most]);
        Ok(Self { network, gateways, running: 0, counted, next_page: 0, next_block })
    }

    /// Starts gateways until `count` of them run, which have read each other's hints.
    fn grow(&mut self, count: usize) -> Result<()> {
        if count == self.running {
            return Ok(());
        }
        for number in self.running..count {
            let at = |port| SocketAddr::from((self.network.address(number), port)).to_string();
            let (peers, metrics) = (at(PEERS), at(METRICS));
            let options = ["--peer-listen", &peers, "--metrics", &metrics, "--hints-wait", "100"];
            self.gateways.start_in(self.network.namespace(number), number, &options);
        }
        let addresses = (0..count).map(|number| (self.network.address(number), METRICS).into());
        let counted = Counted::at(&mut self.gateways, addresses.collect())?;
        for number in self.running..count {
            // the gateway takes the volume
            Client::connect(&self.uri(number))?.flush()?;
        }
        counted.wait_for_dumps("onefold_rados_operations_total{kind=\"query\"}")?;
        self.counted = Some(counted);
        self.running = count;
        Ok(())
    }

    fn uri(&self, number: usize) -> Uri {
        at(&self.gateways.socket(number), &volume(number))
    }

    fn counted(&self) -> Result<&Counted> {
        self.counted.as_ref().context("no gateway runs")
    }

    /// The service times of one gateway.
    fn alone(&mut self) -> Result<Alone> {
        ensure!(self.running == 1, "{} gateways run, expected one", self.running);
        let load = |writes, duplicates_percent, depth| Load {
            writes,
            duplicates_percent,
            depth,
            pace: None,
        };
        let address = SocketAddr::from((self.network.address(0), METRICS));
        let connect = |_| -> Result<f64> {
            let begun = Instant::now();
            TcpStream::connect(address)?;
            Ok(begun.elapsed().as_secs_f64() * 1e6)
        };
        let connects = (0..100).map(connect).collect::<Result<Vec<f64>>>()?;
        let objects_per_second = self.objects_per_second()?;
        let known = self.run(load(ALONE, 100, DEPTH), 0)?;
        let new = self.run(load(ALONE, 0, DEPTH), 0)?;
        let one_known = self.run(load(ONE_BY_ONE, 100, 1), 0)?;
        let one_new = self.run(load(ONE_BY_ONE, 0, 1), 0)?;
        Ok(Alone {
            known_us: known.processor_us().1,
            new_us: new.processor_us().1,
            known_gateway_us: known.processor_us().0,
            new_gateway_us: new.processor_us().0,
            one_known_us: one_known.p50_us,
            one_new_us: one_new.p50_us,
            updates_per_new: new.each(new.updates),
            objects_per_second,
            hop_us: median(connects).unwrap_or_default() / 2.0,
        })
    }

    /// Objects of 4 KiB that Ceph writes in a second, 16 in flight.
    fn objects_per_second(&self) -> Result<f64> {
        let mut bench = Command::new("rados");
        bench.arg("--conf").arg(self.gateways.ceph().conf()).args(["-p", REPLICATED, "bench", "3"]);
        bench.args(["write", "-b", "4096", "-t", "16", "--no-cleanup"]);
        let output = bench.output().context("rados bench")?;
        let said = String::from_utf8_lossy(&output.stdout);
        let rate = said.lines().find_map(|line| line.strip_prefix("Average IOPS:"));
        let rate = rate.and_then(|rate| rate.trim().parse().ok());
        rate.with_context(|| format!("rados bench names no rate: {said}"))
    }

    /// Measures throughput, and latency at half of it.
    fn point(&mut self, alone: &Alone, options: &Options, delay: u64) -> Result<[Sample; 2]> {
        let load = |writes: u64, pace| Load {
            writes: writes / self.running as u64,
            duplicates_percent: options.duplicates,
            depth: DEPTH,
            pace,
        };
        let (full, some) = (load(options.writes, None), load(options.writes / 3, None));
        let asked = Asked {
            gateways: self.running,
            delay_us: delay as f64,
            duplicates: options.duplicates as f64 / 100.0,
            window: DEPTH as u32,
            paced: None,
        };
        let measured = self.run(full, delay)?;
        let rate = measured.writes_per_second / 2.0;
        let measured = Box::new(measured);
        let in_flight = Sample::InFlight { measured, predicted: predict(alone, &asked)? };
        println!("campaign: {in_flight:?}");
        let measured = self.run(Load { pace: Some(rate / self.running as f64), ..some }, delay)?;
        let paced = Some(measured.writes_per_second);
        let predicted = predict(alone, &Asked { paced, ..asked })?;
        let paced = Sample::Paced { measured: Box::new(measured), predicted };
        println!("campaign: {paced:?}");
        Ok([in_flight, paced])
    }

    /// Lets every gateway write.
    fn run(&mut self, load: Load, delay_us: u64) -> Result<Measured> {
        let first = self.prepare(load)?;
        let before = self.moment()?;
        let begun = Instant::now() + Duration::from_millis(300);
        let writers: Vec<Writer> = (0..self.running)
            .map(|number| Writer {
                uri: self.uri(number),
                load,
                known: first + number as u64 * load.writes,
                new: first + (self.running + number) as u64 * load.writes,
                first_block: self.next_block[number].0,
                seed: self.next_page + number as u64,
                begun,
            })
            .collect();
        let machine = processors::of_machine()?;
        let mut latencies = thread::scope(|scope| -> Result<Vec<f64>> {
            let all: Vec<_> = writers.iter().map(|one| scope.spawn(|| one.write())).collect();
            let mut latencies = Vec::new();
            for one in all {
                latencies.append(&mut one.join().expect("a client does not panic")?);
            }
            Ok(latencies)
        })?;
        let seconds = begun.elapsed().as_secs_f64();
        let (busy, idle) = processors::of_machine()?;
        let (busy, idle) = (busy - machine.0, idle - machine.1);
        // what was stored is told a moment later
        self.counted()?.wait_for_hints()?;
        let after = self.moment()?;
        self.next_page += 2 * self.running as u64 * load.writes;
        self.next_block[..self.running].iter_mut().for_each(|(block, _)| *block += load.writes);
        latencies.sort_by(f64::total_cmp);
        let rank = |share: f64| {
            let rank = (share * latencies.len() as f64).ceil() as usize;
            latencies[rank.clamp(1, latencies.len()) - 1]
        };
        let since = |name: &str| -> u64 {
            let both = after.metrics.iter().zip(&before.metrics);
            both.map(|(after, before)| after.since(before, name)).sum()
        };
        let writes = latencies.len() as u64;
        let gateways = after.gateways.iter().zip(&before.gateways);
        Ok(Measured {
            gateways: self.running,
            delay_us,
            writes,
            duplicates_percent: load.duplicates_percent,
            seconds,
            writes_per_second: writes as f64 / seconds,
            p50_us: rank(0.5),
            p99_us: rank(0.99),
            mean_us: latencies.iter().sum::<f64>() / writes as f64,
            updates: since("onefold_rados_operations_total{kind=\"update\"}"),
            queries: since("onefold_rados_operations_total{kind=\"query\"}"),
            lookups: since("onefold_hint_lookups_total"),
            asked: since("onefold_hint_asked_total"),
            hits: since("onefold_hint_hits_total"),
            late: since("onefold_hint_late_total"),
            find_messages: since("onefold_hint_messages_total{kind=\"find\"}"),
            add_messages: since("onefold_hint_messages_total{kind=\"add\"}"),
            hint_bytes: since("onefold_hint_bytes_total{direction=\"sent\"}")
                + since("onefold_hint_bytes_total{direction=\"received\"}"),
            wire_bytes: after.wire_bytes.saturating_sub(before.wire_bytes),
            gateway_cpu_seconds: gateways.map(|(after, before)| after - before).collect(),
            ceph_cpu_seconds: after.ceph - before.ceph,
            client_cpu_seconds: after.own - before.own,
            busy: busy / (busy + idle),
        })
    }

    /// Lets the next gateway of each store what the gateway will write as duplicates. Returns the first number of
    /// these pages: those of gateway n begin `n` times [`Load::writes`] later.
    fn prepare(&mut self, load: Load) -> Result<u64> {
        const TOGETHER: u64 = 64;
        let first = self.next_page;
        let known = (0..load.writes).filter(|one| is_known(*one, load.duplicates_percent));
        let known: Vec<u64> = known.collect();
        thread::scope(|scope| -> Result<()> {
            let mut all = Vec::new();
            for number in 0..self.running {
                let other = (number + 1) % self.running;
                let block = self.next_block[other].1;
                self.next_block[other].1 += known.len() as u64;
                let (uri, known) = (self.uri(other), &known);
                all.push(scope.spawn(move || -> Result<()> {
                    let mut client = Client::connect(&uri)?;
                    for (at, some) in
                        (0..).step_by(TOGETHER as usize).zip(known.chunks(TOGETHER as usize))
                    {
                        let of = |one: &u64| page(first + number as u64 * load.writes + one);
                        let bytes: Vec<u8> = some.iter().flat_map(of).collect();
                        client.write((block + at) * BLOCK as u64, &bytes)?;
                    }
                    client.flush()
                }));
            }
            all.into_iter().try_for_each(|one| one.join().expect("a client does not panic"))
        })?;
        self.counted()?.wait_for_hints()?;
        Ok(first)
    }

    fn moment(&self) -> Result<Moment> {
        let ceph = self.gateways.ceph();
        let daemons = ["mon.a", "mgr.x", "osd.0", "osd.1", "osd.2"];
        let daemons =
            daemons.iter().map(|name| ceph.process(name).context("a daemon of Ceph ended"));
        let gateways = (0..self.running).map(|number| {
            let process = self.gateways.process(number);
            process
                .with_context(|| format!("gateway {number} ended: {}", self.gateways.said(number)))
        });
        let wire = (0..self.running).map(|number| sent(self.network.namespace(number)));
        Ok(Moment {
            metrics: self.counted()?.all()?,
            wire_bytes: wire.sum::<Result<u64>>()?,
            gateways: gateways.map(|one| processors::of_process(one?)).collect::<Result<_>>()?,
            ceph: daemons.map(|one| processors::of_process(one?)).sum::<Result<f64>>()?,
            own: processors::of_process(std::process::id())?,
        })
    }
}

/// The writes of one gateway's clients.
struct Writer {
    uri: Uri,
    load: Load,
    /// The numbers of its first page that another gateway has, and of the first new one.
    known: u64,
    new: u64,
    first_block: u64,
    seed: u64,
    begun: Instant,
}

impl Writer {
    /// Writes all. Returns how long each write took, in microseconds.
    fn write(&self) -> Result<Vec<f64>> {
        let (next, due) = (AtomicU64::new(0), self.due());
        thread::scope(|scope| {
            let one = || self.one(&next, &due);
            let all: Vec<_> = (0..self.load.depth).map(|_| scope.spawn(one)).collect();
            let mut latencies = Vec::new();
            for one in all {
                latencies.append(&mut one.join().expect("a client does not panic")?);
            }
            Ok(latencies)
        })
    }

    /// After which time each write is to begin, if they come by chance.
    fn due(&self) -> Vec<Duration> {
        let Some(pace) = self.load.pace else { return Vec::new() };
        let (mut random, mut now) = (SplitMix64::new(self.seed), 0.0);
        let mut next = |_| {
            let share = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
            now -= (1.0 - share).ln() / pace;
            Duration::from_secs_f64(now)
        };
        (0..self.load.writes).map(&mut next).collect()
    }

    fn one(&self, next: &AtomicU64, due: &[Duration]) -> Result<Vec<f64>> {
        let mut client = Client::connect(&self.uri)?;
        let mut latencies = Vec::new();
        thread::sleep(self.begun.saturating_duration_since(Instant::now()));
        loop {
            let write = next.fetch_add(1, Ordering::Relaxed);
            if write >= self.load.writes {
                return Ok(latencies);
            }
            let is_known = is_known(write, self.load.duplicates_percent);
            let bytes = page(if is_known { self.known } else { self.new } + write);
            let begun = match due.get(write as usize) {
                Some(due) => {
                    thread::sleep((self.begun + *due).saturating_duration_since(Instant::now()));
                    self.begun + *due
                }
                None => Instant::now(),
            };
            // an odd factor leaves no block out
            let block = (self.first_block + write).wrapping_mul(0x9E37_79B1) % BLOCKS;
            client.write(block * BLOCK as u64, &bytes)?;
            latencies.push(begun.elapsed().as_secs_f64() * 1e6);
        }
    }
}

/// Whether a write is of a page that others have.
fn is_known(write: u64, percent: u64) -> bool {
    write * 37 % 100 < percent
}

fn volume(number: usize) -> String {
    format!("disk{number}")
}

/// Bytes that connections between gateways have sent from a namespace.
fn sent(namespace: &str) -> Result<u64> {
    let port = format!(":{PEERS}");
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace, "ss", "--tcp", "--info", "--numeric", "--no-header"]);
    let output = command.args(["sport", "=", &port, "or", "dport", "=", &port]).output();
    let output = output.context("ip netns exec")?;
    if !output.status.success() {
        bail!("ss: {}", String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let of = |field: &str| field.strip_prefix("bytes_sent:")?.parse::<u64>().ok();
    Ok(text.split_whitespace().filter_map(of).sum())
}

fn table(samples: &[Sample]) -> String {
    let mut text = "| gateways | delay ms | writes a second | predicted | processors in use | p50 ms in flight | paced a \
                    second | p50 ms | predicted | p99 ms | predicted | messages for each write | predicted | bytes of hints | on the \
                    wire | predicted | share asked of others | predicted | µs of gateways' processors | of all |\n"
        .to_owned();
    text += &format!("|{}\n", " ---: |".repeat(20));
    let mut points = BTreeMap::<(usize, u64), Vec<&Sample>>::new();
    for sample in samples {
        if let Sample::InFlight { measured, .. } | Sample::Paced { measured, .. } = sample {
            points.entry((measured.gateways, measured.delay_us)).or_default().push(sample);
        }
    }
    for ((gateways, delay), of) in points {
        let [
            Sample::InFlight { measured: full, predicted },
            Sample::Paced { measured: some, predicted: paced },
        ] = of[..]
        else {
            continue;
        };
        let ms = |us: f64| us / 1e3;
        let (gateway_us, all_us) = full.processor_us();
        text += &format!(
            "| {gateways} | {:.1} | {:.0} | {:.0} | {:.2} | {:.1} | {:.0} | {:.1} | {:.1} | {:.1} | {:.1} | {:.2} | {:.2} | \
             {:.0} | {:.0} | {:.0} | {:.2} | {:.2} | {gateway_us:.0} | {all_us:.0} |\n",
            delay as f64 / 1e3,
            full.writes_per_second,
            predicted.writes_per_second,
            full.busy,
            ms(full.p50_us),
            some.writes_per_second,
            ms(some.p50_us),
            ms(paced.p50_us),
            ms(some.p99_us),
            ms(paced.p99_us),
            full.messages(),
            predicted.messages,
            full.each(full.hint_bytes),
            full.each(full.wire_bytes),
            predicted.bytes,
            full.asked as f64 / full.lookups.max(1) as f64,
            predicted.hops,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_pages_are_the_share_that_was_asked_for() {
        for percent in [0, 1, 50, 100] {
            let known = (0..10_000).filter(|write| is_known(*write, percent)).count() as u64;
            assert_eq!(known, percent * 100);
        }
    }
}
