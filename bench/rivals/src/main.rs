//! Cuts the same data by Onefold's chunkers and by those of other crates, in interleaved rounds.
//!
//! Run by `cargo lab rivals`. Who has the same rule is compared cut-point by cut-point before any
//! clock starts.

mod entry;
mod goal;
mod ours;
mod report;
mod restic;
mod theirs;

use std::collections::{BTreeMap, HashSet};
use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use onefold_bench::{
    Contender, Dataset, FEWEST_ROUNDS, Header, Metrics, Outcome, Record, command_line, measure,
    noise,
};

use crate::entry::Entry;
use crate::ours::LIMIT;
use crate::report::{ContenderRecord, Measured};
use crate::restic::Restic;

/// Seeds the random data.
const SEED: u64 = 1;

const CACHE_STATE: &str = "in memory, in huge pages where the system offers them; \
                           each contender runs once before the first round";

const NOTES: [&str; 5] = [
    "each contender cuts the whole dataset as one stream in one thread, and stores its cut-points",
    "gb_per_second is of the median of thread_seconds, of restic's and of those with 2 threads of seconds",
    "dedup ratios compare at equal mean only; means of other rules differ at equal parameters",
    "restic's chunker is a process of its own, timed by itself: its thread_seconds are unknown, 0",
    "gearhash and rustic_cdc are rolling hashes; the loop around them is this program's",
];

/// Figures of chunkers that no package registry has, to be read beside the table.
const ELSEWHERE: &str = "\
From elsewhere, not of this run (Zen 5, 1 GiB of Kubernetes source tars, GB/s; mean, dedup):
  VectorCDC's authors: RAM AVX2 23.3, AVX-512 22.3 (10472, 2.379); AE-max AVX-512 7.4 (8918, 2.446);
  MAXP AVX2 7.9 (7131, 3.079); SeqCDC 2.8 (4681, 3.387); scalar AE-max 2.3, RAM 2.0, Gear 0.88,
  CRC 0.48, TTTD 0.43, Rabin 0.28. borg's FastCDC 2.91 (9640, 3.219). restic's chunker 0.60.";

/// Onefold's chunkers beside those of other crates.
#[derive(Parser)]
#[command(name = "cargo lab rivals", bin_name = "cargo lab rivals")]
struct Arguments {
    /// A file or folder to cut, besides random data
    #[arg(long, value_name = "PATH")]
    data: Vec<PathBuf>,
    /// Of each dataset, as many bytes as this, e.g. 64MiB
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size)]
    bytes: u64,
    /// How often each contender is timed
    #[arg(long, default_value_t = FEWEST_ROUNDS)]
    rounds: u32,
    /// Only contenders with one of these in their names, and the read limit
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Leave the random data out
    #[arg(long, requires = "data")]
    no_random: bool,
    /// The record to write, e.g. docs/records/NAME.json
    #[arg(long, value_name = "JSON")]
    out: Option<PathBuf>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    ensure!(
        arguments.rounds >= FEWEST_ROUNDS || arguments.out.is_none(),
        "a record has at least {FEWEST_ROUNDS} rounds"
    );
    let mut results = Vec::new();
    if !arguments.no_random {
        let random = Dataset::random(SEED, usize::try_from(arguments.bytes)?);
        results.push(cut(&random, true, &arguments)?);
    }
    for path in &arguments.data {
        results.push(cut(&Dataset::read(path, Some(arguments.bytes))?, false, &arguments)?);
    }
    println!("\n{ELSEWHERE}");
    let Some(out) = &arguments.out else { return Ok(()) };
    let command = command_line("cargo lab rivals", env::args().skip(1));
    let mut header = Header::here(out, command, CACHE_STATE)?;
    header.tools = versions(&results)?;
    header.notes = NOTES.map(String::from).into();
    Record { header, results }.write(out)?;
    println!("wrote {}", out.display());
    Ok(())
}

/// Measures everyone on `dataset` and prints the tables.
fn cut(dataset: &Dataset, is_random: bool, arguments: &Arguments) -> Result<Measured> {
    let data = dataset.bytes();
    let mut entries = ours::entries(data)?;
    entries.extend(theirs::entries(data));
    arguments.retain_wanted(&mut entries);
    let (contenders, mut about): (Vec<Contender>, Vec<About>) =
        entries.into_iter().map(About::split).unzip();
    eprintln!("{}: {} contenders, each once to compare", dataset.name(), contenders.len());
    let mut restic = arguments.is_named(restic::NAME).then(|| start_restic(data)).flatten();
    let mut outcomes = measure(contenders, arguments.rounds, |round| {
        eprintln!("{}: round {round} of {}", dataset.name(), arguments.rounds);
        restic.as_mut().map_or(Ok(()), |restic| restic.measure(round))
    })?;
    let noise = noise(outcomes.iter().filter(|outcome| !ours::is_by_wall(&outcome.name)));
    if let Some(restic) = restic {
        outcomes.push(restic.end()?);
        about.push(About::restic());
    }
    let goals = goal::reached(&outcomes, is_random);
    let contenders =
        outcomes.into_iter().zip(about).map(|(outcome, about)| about.record(outcome, data));
    let measured =
        Measured { dataset: dataset.into(), contenders: contenders.collect(), goals, noise };
    print!("{}", report::table(&measured));
    Ok(measured)
}

/// restic's chunker, or nothing and the reason printed.
fn start_restic(data: &[u8]) -> Option<Restic> {
    let restic = Restic::start(data);
    restic.inspect_err(|error| eprintln!("left out: {}: {error:#}", restic::NAME)).ok()
}

impl Arguments {
    fn is_named(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| name.contains(part))
    }

    /// Keeps who was asked for, the read limit, and those that they claim to be equal to.
    fn retain_wanted(&self, entries: &mut Vec<Entry>) {
        let contenders = entries.iter().map(|entry| &entry.contender);
        let named = contenders.filter(|contender| self.is_named(contender.name()));
        let models: HashSet<String> =
            named.filter_map(|one| one.model()).map(String::from).collect();
        entries.retain(|entry| {
            let name = entry.contender.name();
            name == LIMIT || self.is_named(name) || models.contains(name)
        });
    }
}

/// What is known of a contender besides its outcome.
struct About {
    by: &'static str,
    kernel: String,
    parameters: String,
}

impl About {
    fn split(entry: Entry) -> (Contender, Self) {
        let Entry { contender, by, kernel, parameters } = entry;
        (contender, Self { by, kernel, parameters })
    }

    fn restic() -> Self {
        let parameters = format!("{}, window 64", entry::shown(entry::restic_sizes()));
        Self { by: RESTIC, kernel: "its own".into(), parameters }
    }

    fn record(self, outcome: Outcome, data: &[u8]) -> ContenderRecord {
        let gb_per_second = report::gb_per_second(&outcome, data.len());
        let is_chunker = outcome.name != LIMIT;
        let metrics = is_chunker.then(|| Metrics::of(data, outcome.cut_points));
        ContenderRecord {
            name: outcome.name,
            by: self.by.into(),
            kernel: self.kernel,
            parameters: self.parameters,
            equal_to: outcome.equal_to,
            dedup_ratio: metrics.map(|metrics| metrics.dedup_ratio()),
            metrics,
            gb_per_second,
            samples: outcome.samples,
        }
    }
}

/// Who made restic's chunker; go/go.mod has the version.
const RESTIC: &str = "github.com/restic/chunker";

/// The version of each crate that took part, as this program was locked to it.
fn versions(results: &[Measured]) -> Result<BTreeMap<String, String>> {
    let crates = results.iter().flat_map(|measured| &measured.contenders).map(|one| &one.by);
    crates
        .filter(|name| *name != "onefold")
        .map(|name| Ok((name.clone(), locked_version(name)?)))
        .collect()
}

fn locked_version(name: &str) -> Result<String> {
    let version = if name == RESTIC {
        let entry = include_str!("../go/go.mod").split_once(&format!("{name} "));
        entry.and_then(|(_, rest)| rest.lines().next())
    } else {
        let lock = include_str!("../Cargo.lock");
        let entry = lock.split_once(&format!("name = \"{name}\"\nversion = \""));
        entry.and_then(|(_, rest)| rest.split('"').next())
    };
    version.map(String::from).with_context(|| format!("{name}: in no lock file"))
}

/// Bytes from `1048576`, `64MiB`, `1GiB`.
fn size(text: &str) -> Result<u64> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
    let unit = units.iter().find_map(|(unit, bits)| Some((text.strip_suffix(unit)?, *bits)));
    let (number, bits) = unit.unwrap_or((text, 0));
    let bytes = number.parse::<u64>()?.checked_mul(1 << bits);
    bytes.filter(|&bytes| bytes > 0).with_context(|| format!("{text}: not so many bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("64MiB").unwrap(), 64 << 20);
        assert_eq!(size("7").unwrap(), 7);
        for bad in ["0", "", "MiB", "1TiB", "99999999999GiB"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rivals_have_the_versions_of_the_manifest() {
        assert_eq!(locked_version(RESTIC).unwrap(), "v0.4.0");
        let data = [0; 1];
        for entry in theirs::entries(&data) {
            let version = locked_version(entry.by).unwrap();
            let pinned = format!("{} = \"={version}\"", entry.by);
            assert!(include_str!("../Cargo.toml").contains(&pinned), "{pinned}");
        }
    }
}
