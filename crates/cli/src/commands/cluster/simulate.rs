//! `onefold cluster simulate`

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use onefold_bench::{Header, Record, Watch, command_line};
use onefold_cluster::routing::Routing;
use onefold_cluster::simulate::{Plan, Point, Times, Workload, simulate};
use onefold_terminal::outputs::{STANDARD_OUTPUT, make_places, typed, write_text};
use serde::{Deserialize, Serialize};

use super::page;
use super::workload::{Like, of_trace};
use crate::console::Console;
use crate::exit::Exit;
use crate::interrupt::bar_until_signal;
use crate::output::Output;
use crate::table;

/// The most gateways: with more, each that knows all others takes too much memory.
const MOST_NODES: usize = 1000;
/// As many nodes as StreamDedup has: a range that holds it includes it.
const NODES_OF_THE_PAPER: usize = 10;

const AFTER_HELP: &str = "\
Nothing is measured: a simulation by discrete events, in which each gateway has units that serve what
comes first first, and a link. A write asks the gateways that hold the ranges of its fingerprints, over
as many hops as the routing needs. Throughput is that with as many writes in flight as a gateway may
have, latencies those of writes that come by chance at --load of it. The same arguments give the same
numbers.

The figures that it begins with are those of StreamDedup's FPGAs and of Onefold in software; the record
says of each whether it was measured, derived or assumed. The routings are those of StreamDedup: every
gateway knows all others; Chord; Chord in both directions. Of --trace only writes count, the first
1,048,576 pages of them. Its format is that of the FIU traces (SNIA IOTTA), gzip is understood.

Examples:
  onefold cluster simulate --like mail --html cluster.html
  onefold cluster simulate --nodes 1,10,100 --routing direct,chord-both \\
      --times onefold --message-us 2 --keep-hints 4096
  onefold cluster simulate --nodes 1..64 --trace homes.gz --json homes.json

With --json: one record with the figures and their sources, and for each number of gateways its
throughput, latencies, hops, messages and bytes.";

/// Simulate how throughput and latency grow with gateways
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Simulate {
    /// Numbers of gateways, 1 to 1000: a list, or a range, which means its ends, the powers of two
    /// between and StreamDedup's 10
    #[arg(long, value_name = "N", default_value = "1..1000", value_parser = nodes)]
    nodes: Nodes,
    /// How requests travel from gateway to gateway
    #[arg(long, value_name = "ROUTING", value_delimiter = ',')]
    #[arg(default_values = ["direct", "chord", "chord-both"])]
    routing: Vec<RoutingName>,
    /// A trace of a block device whose writes are simulated
    #[arg(long, value_name = "FILE", conflicts_with = "like")]
    trace: Option<PathBuf>,
    /// Make a workload up that resembles these
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "mail")]
    like: Vec<Like>,
    /// Whose times are simulated
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    #[arg(default_values = ["streamdedup", "onefold"])]
    times: Vec<TimesName>,
    #[command(flatten)]
    changes: Changes,
    /// The part of the throughput at which latencies are simulated, more than 0 and less than 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.5)]
    load: f64,
    /// Another seed gives other arrivals, and other pages that are made up
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write all results as JSON to OUT, or to standard output instead of the tables
    #[arg(long, value_name = "OUT", num_args = 0..=1, default_missing_value = STANDARD_OUTPUT)]
    json: Option<PathBuf>,
    /// Write an HTML page with tables and plots to OUT; it needs no network
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,
    /// Write the plots of the first workload and times to OUT, as SVG
    #[arg(long, value_name = "OUT")]
    svg: Option<PathBuf>,
}

/// What takes the place of a figure of --times.
#[derive(Debug, Args)]
struct Changes {
    /// Microseconds of a fingerprint, instead of that of --times
    #[arg(long, value_name = "US")]
    fingerprint_us: Option<f64>,
    /// Microseconds of a look-up where the hints are
    #[arg(long, value_name = "US")]
    look_up_us: Option<f64>,
    /// Microseconds that storage takes for a new page
    #[arg(long, value_name = "US")]
    store_us: Option<f64>,
    /// Microseconds until a write that is stored is durable
    #[arg(long, value_name = "US")]
    commit_us: Option<f64>,
    /// Microseconds that a gateway spends on a message
    #[arg(long, value_name = "US")]
    message_us: Option<f64>,
    /// Microseconds from one gateway to the next
    #[arg(long, value_name = "US")]
    hop_us: Option<f64>,
    /// Gigabits a second of a gateway's link
    #[arg(long, value_name = "GBIT")]
    link_gbit: Option<f64>,
    /// Pages of a write, which are looked up together
    #[arg(long, value_name = "N")]
    batch: Option<u32>,
    /// Hints of known pages that each gateway keeps, to ask for them once
    #[arg(long, value_name = "N")]
    keep_hints: Option<u32>,
}

impl Changes {
    /// `times` with what was changed, and a source that says so.
    fn apply(&self, times: &mut Times) {
        let mut sources = Vec::new();
        let mut change = |name: &str, place: &mut f64, value: Option<f64>, factor: f64| {
            if let Some(value) = value {
                *place = factor * value;
                sources.push(format!("{name}: given, {value}"));
            }
        };
        change("--fingerprint-us", &mut times.fingerprint.us, self.fingerprint_us, 1.0);
        change("--look-up-us", &mut times.look_up.us, self.look_up_us, 1.0);
        change("--store-us", &mut times.store.us, self.store_us, 1.0);
        change("--commit-us", &mut times.commit_us, self.commit_us, 1.0);
        change("--message-us", &mut times.message.us, self.message_us, 1.0);
        change("--hop-us", &mut times.hop_us, self.hop_us, 1.0);
        change("--link-gbit", &mut times.link_bytes_per_second, self.link_gbit, 1e9 / 8.0);
        for (name, place, value) in [
            ("--batch", &mut times.batch, self.batch),
            ("--keep-hints", &mut times.kept_hints, self.keep_hints),
        ] {
            if let Some(value) = value {
                *place = value;
                sources.push(format!("{name}: given, {value}"));
            }
        }
        times.sources.extend(sources);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RoutingName {
    Direct,
    Chord,
    ChordBoth,
}

impl From<RoutingName> for Routing {
    fn from(name: RoutingName) -> Self {
        match name {
            RoutingName::Direct => Self::Direct,
            RoutingName::Chord => Self::Chord,
            RoutingName::ChordBoth => Self::ChordBoth,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TimesName {
    /// FPGAs, from the paper's text
    Streamdedup,
    /// Gateways in software, from records
    Onefold,
}

impl From<TimesName> for Times {
    fn from(name: TimesName) -> Self {
        match name {
            TimesName::Streamdedup => Self::streamdedup(),
            TimesName::Onefold => Self::onefold(),
        }
    }
}

/// Numbers of gateways, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Nodes(Vec<usize>);

/// `1,10,100` or `1..1000`.
fn nodes(text: &str) -> Result<Nodes, String> {
    let number = |word: &str| match word.trim().parse::<usize>() {
        Ok(number @ 1..=MOST_NODES) => Ok(number),
        Ok(number) => Err(format!("{number} gateways, expected 1 to {MOST_NODES}")),
        Err(_) => Err(format!("'{word}' is no number of gateways, expected 1 to {MOST_NODES}")),
    };
    let Some((first, last)) = text.split_once("..") else {
        let mut all = text.split(',').map(number).collect::<Result<Vec<_>, _>>()?;
        all.sort_unstable();
        all.dedup();
        return Ok(Nodes(all));
    };
    let (first, last) = (number(first)?, number(last)?);
    if first > last {
        return Err(format!("{first}..{last} descends, expected {last}..{first}"));
    }
    let is_shown = |count: &usize| {
        [first, last, NODES_OF_THE_PAPER].contains(count) || count.is_power_of_two()
    };
    Ok(Nodes((first..=last).filter(is_shown).collect()))
}

/// All numbers of gateways with one workload, one gateway's times and one routing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Series {
    pub(super) workload: WorkloadFacts,
    pub(super) routing: String,
    pub(super) load: f64,
    pub(super) seed: u64,
    pub(super) times: Times,
    pub(super) points: Vec<Point>,
}

/// What is known of a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct WorkloadFacts {
    pub(super) name: String,
    pub(super) pages: usize,
    pub(super) page_bytes: u32,
    /// The share of pages that are not new.
    pub(super) duplicates: f64,
    /// The share of pages with the content that comes most often.
    pub(super) hottest: f64,
}

impl From<&Workload> for WorkloadFacts {
    fn from(workload: &Workload) -> Self {
        Self {
            name: workload.name.clone(),
            pages: workload.pages.len(),
            page_bytes: workload.page_bytes,
            duplicates: workload.duplicates(),
            hottest: workload.hottest(),
        }
    }
}

impl Simulate {
    pub(super) fn run(self, console: &Console) -> Result<Exit> {
        // what cannot be read or written is known before minutes of simulating
        let workloads = self.workloads()?;
        make_places(self.json.as_deref(), self.html.as_deref())?;
        make_places(None, self.svg.as_deref())?;
        let watch = bar_until_signal(console, "the results so far will be shown")?;
        let all = self.simulate(&workloads, &watch)?;
        let is_cancelled = watch.is_cancelled();
        drop(watch);
        if !console.is_json() {
            let mut output = Output::new();
            for line in all.iter().flat_map(describe) {
                output.line(line)?;
            }
            output.finish()?;
        }
        self.write(all, is_cancelled, console)?;
        Ok(if is_cancelled { Exit::Interrupted } else { Exit::Fine })
    }

    fn workloads(&self) -> Result<Vec<Workload>> {
        match &self.trace {
            Some(trace) => Ok(vec![of_trace(trace)?]),
            None => self.like.iter().map(|like| like.workload(self.seed)).collect(),
        }
    }

    fn simulate(&self, workloads: &[Workload], watch: &dyn Watch) -> Result<Vec<Series>> {
        let Self { nodes: Nodes(nodes), load, seed, .. } = self;
        let plans = workloads.len() * self.times.len() * self.routing.len();
        watch.begin("simulating", (plans * nodes.len()) as u64);
        let mut all = Vec::new();
        for workload in workloads {
            for &name in &self.times {
                let mut times = Times::from(name);
                self.changes.apply(&mut times);
                for &routing in &self.routing {
                    let routing = Routing::from(routing);
                    let mut points = Vec::new();
                    for &gateways in nodes {
                        if watch.is_cancelled() {
                            break;
                        }
                        let times = &times;
                        let plan =
                            Plan { gateways, routing, times, workload, load: *load, seed: *seed };
                        points.push(simulate(&plan).with_context(|| {
                            format!(
                                "cannot simulate {gateways} gateways with --times {}",
                                times.name
                            )
                        })?);
                        watch.advance(1);
                    }
                    all.push(Series {
                        workload: workload.into(),
                        routing: routing.name().into(),
                        load: *load,
                        seed: *seed,
                        times: times.clone(),
                        points,
                    });
                }
            }
        }
        Ok(all)
    }

    /// Writes all results to the requested outputs.
    fn write(&self, results: Vec<Series>, is_cancelled: bool, console: &Console) -> Result<()> {
        let Some(out) = self.json.as_ref().or(self.html.as_ref()).or(self.svg.as_ref()) else {
            return Ok(());
        };
        let mut header = Header::here(out, command_line("onefold", typed()), "none")?;
        header.notes.push(
            "simulated by discrete events, not measured; `sources` of `times` says which figures \
             were measured, derived or assumed"
                .into(),
        );
        if is_cancelled {
            header.notes.push("stopped before all was simulated".into());
        }
        let record = Record { header, results };
        if console.is_json() {
            let mut output = Output::new();
            output.json_document(&record)?;
            output.finish()?;
        } else if let Some(out) =
            self.json.as_deref().filter(|out| *out != Path::new(STANDARD_OUTPUT))
        {
            record.write(out)?;
        }
        if let Some(out) = &self.html {
            write_text(out, &page::of(&record)?.html()?)?;
        }
        match &self.svg {
            None => Ok(()),
            Some(out) => write_text(out, &page::picture_of(&record.results)?),
        }
    }
}

/// What was simulated, for a terminal.
fn describe(series: &Series) -> Vec<String> {
    let Series { workload, routing, times, load, points, .. } = series;
    let header = [
        "Gateways",
        "GB/s",
        "Of linear",
        "p50 µs",
        "p99 µs",
        "Hops",
        "Messages a page",
        "Bytes a page",
        "Of links",
        "Busiest",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(points.iter().map(|point| {
        vec![
            point.gateways.to_string(),
            format!("{:.2}", point.bytes_per_second / 1e9),
            of_linear(points, point).map_or("-".into(), |share| format!("{share:.2}")),
            format!("{:.1}", point.p50_us),
            format!("{:.1}", point.p99_us),
            format!("{:.2}", point.hops),
            format!("{:.2}", point.messages_per_page),
            format!("{:.1}", point.index_bytes_per_page),
            format!("{:.2} %", 100.0 * point.index_link_share),
            point.busiest.clone(),
        ]
    }));
    let mut lines = vec![format!(
        "simulated: {}, {:.1} % duplicates; times of {}; {routing}; latencies at {load} of the \
         throughput",
        workload.name,
        100.0 * workload.duplicates,
        times.name,
    )];
    lines.extend(table::lines(&rows, &[0, 1, 2, 3, 4, 5, 6, 7, 8]));
    lines.push(String::new());
    lines
}

/// The throughput of `point` as a share of what one gateway's would be times as many, if one is there.
pub(super) fn of_linear(points: &[Point], point: &Point) -> Option<f64> {
    let one = points.iter().find(|point| point.gateways == 1)?;
    Some(point.pages_per_second / (one.pages_per_second * point.gateways as f64))
}

#[cfg(test)]
mod tests {
    use onefold_cluster::simulate::Step;

    use super::*;

    #[test]
    fn a_range_means_its_ends_the_powers_of_two_between_and_ten() {
        let of = |text| nodes(text).map(|nodes| nodes.0);
        assert_eq!(of("1..20").unwrap(), [1, 2, 4, 8, 10, 16, 20]);
        assert_eq!(of("3..3").unwrap(), [3]);
        assert_eq!(of("11..40").unwrap(), [11, 16, 32, 40]);
        assert_eq!(of("100, 7,7").unwrap(), [7, 100]);
    }

    #[test]
    fn numbers_of_gateways_that_make_no_sense_are_refused() {
        for (text, expected) in [
            ("0", "0 gateways, expected 1 to 1000"),
            ("0..5", "0 gateways, expected 1 to 1000"),
            ("1..1001", "1001 gateways, expected 1 to 1000"),
            ("10..1", "10..1 descends, expected 1..10"),
            ("many", "'many' is no number of gateways, expected 1 to 1000"),
            ("1..", "'' is no number of gateways"),
            ("1,,2", "'' is no number of gateways"),
        ] {
            let error = nodes(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_given_takes_the_place_of_a_figure_and_is_a_source() {
        let changes = Changes {
            fingerprint_us: Some(1.5),
            look_up_us: None,
            store_us: None,
            commit_us: Some(9.0),
            message_us: None,
            hop_us: None,
            link_gbit: Some(25.0),
            batch: Some(8),
            keep_hints: None,
        };
        let before = Times::onefold();
        let mut times = before.clone();
        changes.apply(&mut times);
        let given = [
            "--fingerprint-us: given, 1.5",
            "--commit-us: given, 9",
            "--link-gbit: given, 25",
            "--batch: given, 8",
        ];
        assert_eq!(times.sources[before.sources.len()..], given);
        let expected = Times {
            fingerprint: Step { us: 1.5, ..before.fingerprint },
            commit_us: 9.0,
            link_bytes_per_second: 25e9 / 8.0,
            batch: 8,
            sources: times.sources.clone(),
            ..before
        };
        assert_eq!(times, expected);
    }
}
