//! How long clients wait when a gateway is killed: until another one has answered a read, and a write.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use onefold_lab::nbd::Client;
use onefold_testkit::SplitMix64;
use onefold_testkit::ceph::Gateways;
use serde::{Deserialize, Serialize};

use super::load::{at, first_answer};
use super::registers::BLOCK;
use super::serving::serving;
use crate::measuring::backups;
use crate::measuring::record::Dataset;
use crate::measuring::table::median;

/// What `cargo lab campaign cluster-take-over` was asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The program whose gateways are killed: `onefold` as it is released
    #[arg(long)]
    onefold: PathBuf,
    /// How often a gateway is killed, for each content
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// MiB that are written before the first kill, one pool after the other
    #[arg(long, value_delimiter = ',', default_value = "0,2048")]
    contents: Vec<u64>,
    /// MiB of these that are distinct; what is more repeats them, so that a large volume needs little space
    #[arg(long, default_value_t = u64::MAX >> 20, hide_default_value = true, value_parser = clap::value_parser!(u64).range(1..=u64::MAX >> 20))]
    distinct: u64,
    /// What draws contents and moments
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What a reader of the record must know of this run, such as how the program was built
    #[arg(long)]
    note: Vec<String>,
    /// The record to write, e.g. docs/records/NAME.json
    #[arg(long)]
    out: PathBuf,
}

/// One kill.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// Bytes that were written before the first kill.
    content_bytes: u64,
    /// Of these, the bytes of distinct pages.
    distinct_bytes: u64,
    /// From 1.
    round: u32,
    /// From the kill to the first answered read at another gateway.
    read_seconds: f64,
    /// From the kill to the first acknowledged write there.
    write_seconds: f64,
}

const VOLUME: &str = "disk";
/// How many gateways there are: any of them may take the volume over.
const GATEWAYS: usize = 3;

const CACHE_STATE: &str = "the gateway that takes over was started before the kill, and has nothing of the volume in memory";

const NOTES: [&str; 3] = [
    "a kill comes at a random moment, so that the last renewal of the lease is up to 2 s old; a writer writes \
     one block after the other until then",
    "clients connect to one of the two other gateways and then the other one, every 5 ms, until a read is answered; \
     the gateway that answers may pass the connection on",
    "half of each page is zeros, and pages are distinct up to `distinct_bytes`, then repeat; Ceph is a monitor, a manager and three OSDs on the \
     loopback interface, on one disk, in a pool with three copies",
];

/// Measures, prints and writes the record.
pub(crate) fn measure(options: &Options) -> Result<()> {
    let onefold = options.onefold.canonicalize()?;
    let mut samples = Vec::new();
    for mib in &options.contents {
        samples.extend(kill_with(&onefold, options, mib << 20)?);
    }
    print!("{}", table(&samples));
    let dataset = Dataset {
        name: "pages of random bytes, half of each zeros".into(),
        digest: format!("none: drawn from seed {}", options.seed),
        files: 0,
        bytes: options.contents.iter().sum::<u64>() << 20,
    };
    let tools = super::versions(&[&onefold, Path::new("ceph")]);
    let notes = super::notes(&options.note, &NOTES);
    backups::write_record(&options.out, dataset, CACHE_STATE, tools, samples, &notes)
}

fn kill_with(onefold: &Path, options: &Options, content: u64) -> Result<Vec<Sample>> {
    let mut gateways = Gateways::new(super::begin_ceph()?, onefold);
    let size = content.max(64 << 20).to_string();
    gateways.onefold(0, &["volume", "create", VOLUME, "--size", &size]);
    gateways.start(0, &[]);
    if let Err(ended) = gateways.wait_until_it_listens(0) {
        bail!("the first gateway ended, {}: {}", ended.status, ended.said);
    }
    let mut random = SplitMix64::new(options.seed);
    let distinct = content.min(options.distinct << 20);
    fill(&gateways, content, distinct, &mut random)?;
    let mut samples = Vec::new();
    for number in 1..GATEWAYS {
        gateways.start(number, &[]);
        if let Err(ended) = gateways.wait_until_it_listens(number) {
            bail!("gateway {number} ended, {}: {}", ended.status, ended.said);
        }
    }
    Client::connect(&at(&gateways.socket(0), VOLUME))?;
    for round in 1..=options.rounds {
        let has_it = serving(&gateways, GATEWAYS, VOLUME)?;
        let uri = at(&gateways.socket(has_it), VOLUME);
        let seed = random.next_u64();
        let writer = thread::spawn(move || write_until_the_end(&uri, seed));
        thread::sleep(Duration::from_millis(2000 + random.next_u64() % 2000));
        let killed = Instant::now();
        gateways.kill(has_it);
        let others: Vec<usize> = (0..GATEWAYS).filter(|number| *number != has_it).collect();
        let uris: Vec<_> = others.iter().map(|one| at(&gateways.socket(*one), VOLUME)).collect();
        let answers = first_answer(&uris, || {
            others.iter().try_for_each(|number| match gateways.ended(*number) {
                Some(ended) => bail!("gateway {number} ended, {}: {}", ended.status, ended.said),
                None => Ok(()),
            })
        })?;
        let read_seconds = killed.elapsed().as_secs_f64();
        Client::connect(&uris[answers])?.write(0, &page(random.next_u64()))?;
        let write_seconds = killed.elapsed().as_secs_f64();
        writer.join().expect("the writer does not panic");
        let sample = Sample {
            content_bytes: content,
            distinct_bytes: distinct,
            round,
            read_seconds,
            write_seconds,
        };
        println!("campaign: {sample:?}");
        samples.push(sample);
        gateways.start(has_it, &[]);
        if let Err(ended) = gateways.wait_until_it_listens(has_it) {
            bail!("gateway {has_it} ended, {}: {}", ended.status, ended.said);
        }
    }
    Ok(samples)
}

/// Writes one block after the other until the connection ends.
fn write_until_the_end(uri: &onefold_lab::nbd::Uri, seed: u64) {
    let Ok(mut client) = Client::connect(uri) else { return };
    let mut random = SplitMix64::new(seed);
    let blocks = client.size() / BLOCK as u64;
    loop {
        let offset = random.next_u64() % blocks * BLOCK as u64;
        if client.write(offset, &page(random.next_u64())).is_err() {
            return;
        }
    }
}

/// Writes `bytes` bytes of pages from several connections: `distinct` bytes, again and again.
fn fill(gateways: &Gateways, bytes: u64, distinct: u64, random: &mut SplitMix64) -> Result<()> {
    const CLIENTS: u64 = 4;
    const LEN: usize = 1 << 20;
    /// The most distinct parts that are drawn once and kept in memory.
    const KEPT: u64 = 512;
    let (first, parts) = (random.next_u64(), (distinct / LEN as u64).max(1));
    let draw = |part: u64| -> Vec<u8> {
        let mut random = SplitMix64::new(first ^ part);
        (0..LEN / BLOCK).flat_map(|_| page(random.next_u64())).collect()
    };
    let kept: Vec<Vec<u8>> =
        if parts <= KEPT { (0..parts).map(draw).collect() } else { Vec::new() };
    let begun = Instant::now();
    thread::scope(|scope| -> Result<()> {
        let mut clients = Vec::new();
        for client in 0..CLIENTS {
            let uri = at(&gateways.socket(0), VOLUME);
            let (draw, kept) = (&draw, &kept);
            clients.push(scope.spawn(move || -> Result<()> {
                let mut connection = Client::connect(&uri)?;
                for part in (client..bytes / LEN as u64).step_by(CLIENTS as usize) {
                    let (place, number) = (part * LEN as u64, part % parts);
                    match kept.get(number as usize) {
                        Some(pages) => connection.write(place, pages)?,
                        None => connection.write(place, &draw(number))?,
                    }
                }
                Ok(())
            }));
        }
        for client in clients {
            client.join().expect("a client does not panic")?;
        }
        Ok(())
    })?;
    println!(
        "campaign: {} MiB were written in {:.0} s",
        bytes >> 20,
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

/// A page of random bytes and zeros, of each half.
pub(super) fn page(seed: u64) -> Vec<u8> {
    let (mut page, mut random) = (vec![0; BLOCK], SplitMix64::new(seed));
    for word in page[..BLOCK / 2].chunks_exact_mut(8) {
        word.copy_from_slice(&random.next_u64().to_le_bytes());
    }
    page
}

fn table(samples: &[Sample]) -> String {
    let mut contents: Vec<u64> = samples.iter().map(|sample| sample.content_bytes).collect();
    contents.dedup();
    let mut text = "| MiB written before | kills | s to a read: median | shortest | longest | s to a write: median |\n\
                    | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    for content in contents {
        let of = || samples.iter().filter(|sample| sample.content_bytes == content);
        let reads: Vec<f64> = of().map(|sample| sample.read_seconds).collect();
        let least = reads.iter().copied().fold(f64::INFINITY, f64::min);
        let most = reads.iter().copied().fold(0.0, f64::max);
        let write = median(of().map(|sample| sample.write_seconds).collect());
        text += &format!(
            "| {} | {} | {:.1} | {least:.1} | {most:.1} | {:.1} |\n",
            content >> 20,
            reads.len(),
            median(reads).unwrap_or_default(),
            write.unwrap_or_default(),
        );
    }
    text
}
