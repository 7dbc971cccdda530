//! Faults in a cluster of Ceph under load, and registers that are checked: no acknowledged write may be lost,
//! and no read may be stale.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use onefold_lab::nbd::{Client, Refused};
use onefold_testkit::SplitMix64;
use onefold_testkit::ceph::{Gateways, REPLICATED};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::load::{Load, Tally, at, begin_reign, first_answer};
use super::registers::{BLOCK, Registers};
use super::serving::{is_alive, serving};
use crate::measuring::backups;
use crate::measuring::fio::{self, over_nbd};
use crate::measuring::record::Dataset;
use crate::measuring::table::median;

/// What `cargo lab campaign cluster-faults` was asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The program whose gateways are tried
    #[arg(long)]
    onefold: PathBuf,
    /// How many faults
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Only these faults [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Fault>,
    /// What draws blocks and moments
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many blocks are written
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(64..=65_536))]
    blocks: u64,
    /// What a reader of the record must know of this run, such as how the program was built
    #[arg(long)]
    note: Vec<String>,
    /// The record to write, e.g. docs/records/NAME.json
    #[arg(long)]
    out: PathBuf,
}

/// What is done to the cluster while clients write and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Fault {
    /// The gateway is killed, and another one takes over
    Kill,
    /// The gateway is paused past its lease, another one takes over, and the first one goes on, with a new lease
    Pause,
    /// A server of objects is killed, and started again
    Osd,
    /// Two of three servers of objects are killed, so that nothing is written for longer than a lease, and
    /// started again
    TwoOsds,
    /// A server of objects is paused for longer than a request may take, so that answers are lost
    PauseOsd,
    /// The monitor is killed, and started again
    Monitor,
    /// The pool of Ceph is full, and then has room again
    Full,
    /// The gateway is killed while the pool of Ceph is full
    KillFull,
    /// fio writes, the gateways of its volume and of the registers are killed, and fio verifies at another one
    Fio,
}

/// The faults, in the order in which they come. A kill comes more often.
const TURNS: [Fault; 12] = [
    Fault::Kill,
    Fault::Pause,
    Fault::Osd,
    Fault::Kill,
    Fault::Full,
    Fault::Fio,
    Fault::TwoOsds,
    Fault::Kill,
    Fault::Monitor,
    Fault::Pause,
    Fault::KillFull,
    Fault::PauseOsd,
];

impl Fault {
    fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill of the gateway",
            Self::Pause => "pause of the gateway past its lease",
            Self::Osd => "kill of an OSD",
            Self::TwoOsds => "kill of two OSDs",
            Self::PauseOsd => "pause of an OSD",
            Self::Monitor => "kill of the monitor",
            Self::Full => "full pool",
            Self::KillFull => "kill of the gateway in a full pool",
            Self::Fio => "fio, verified after a kill",
        }
    }
}

/// How many gateways there are: one has the registers, and any of the others may take them over.
const GATEWAYS: usize = 3;

/// How long a gateway may take that was superseded until it has a lease again.
const RECOVERED: Duration = Duration::from_secs(60);

/// The volume of the registers.
const DISK: &str = "registers";
/// The volume that fio writes, and its size.
const FIO: &str = "fio";
const FIO_MIB: u64 = 32;

/// How long Ceph may take until it refuses writes of a full pool, or takes them again.
const NOTICED: Duration = Duration::from_secs(60);

/// What came of one fault.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// From 1.
    round: u32,
    fault: String,
    /// Of the whole round.
    seconds: f64,
    /// From the kill or the pause to the first answered read at another gateway.
    take_over_seconds: Option<f64>,
    /// From the end of the fault, or its beginning where clients keep their gateway, to the first acknowledged
    /// write after it was refused or the clients had to wait.
    longest_write_seconds: f64,
    acknowledged_writes: u64,
    /// When the connection ended: those of a kill.
    writes_in_flight: u64,
    /// Of these, found after the take-over.
    in_flight_kept: u64,
    /// Acknowledged by a paused gateway after another one served; all were there.
    late_acknowledged: u64,
    writes_without_space: u64,
    refused_writes: u64,
    reads: u64,
    refused_reads: u64,
    /// Answered after another gateway had taken over, by the earlier one to a client that it had before.
    superseded_reads: u64,
    /// Answered after another gateway had taken over, to a new client of the earlier one, which passes it on.
    passed_on_reads: u64,
    /// Blocks of which a value was read that is gone. Violations since reads wait for what they show; in records
    /// from before, reads of values that were never acknowledged.
    sights_lost: u64,
    /// Gateways that ended by themselves, which none should, and what they said.
    gateways_ended: Vec<String>,
    violations: u64,
    first_violations: Vec<String>,
}

const CACHE_STATE: &str =
    "the cluster and the gateways run throughout; each starts once, but for those that were killed";

const NOTES: [&str; 4] = [
    "16 clients write and 4 read, each with one request in flight; half of the pages are the same for all \
     blocks; at the end of each fault every block is read and compared with what was acknowledged",
    "a kill comes at a random moment 0.5 to 3 s after the clients began",
    "Ceph is a monitor, a manager and three OSDs on the loopback interface of the machine, on one disk, in a \
     pool with three copies; other work shared the machine",
    "a full pool is one whose quota (`ceph osd pool set-quota`) is exceeded",
];

/// Tries, prints and writes the record.
///
/// # Errors
///
/// A violation, after the record was written.
pub(crate) fn measure(options: &Options) -> Result<()> {
    let (onefold, work) = backups::program_and_work(&options.onefold, None)?;
    let mut campaign = Campaign::begin(&onefold, options, &work)?;
    let turns: Vec<Fault> = match &options.only[..] {
        [] => TURNS.to_vec(),
        only => only.to_vec(),
    };
    let mut samples = Vec::new();
    for round in 1..=options.rounds {
        let fault = turns[(round as usize - 1) % turns.len()];
        let sample = campaign.round(round, fault);
        let sample = sample.with_context(|| format!("round {round}, {}", fault.name()))?;
        println!("campaign: {sample:?}");
        samples.push(sample);
    }
    drop(campaign);
    work.end()?;
    print!("{}", table(&samples));
    let violations: u64 = samples.iter().map(|sample| sample.violations).sum();
    let dataset = Dataset {
        name: format!(
            "{} registers of 4 KiB, half of what is written are duplicates",
            options.blocks
        ),
        digest: format!("none: drawn from seed {}", options.seed),
        files: 0,
        bytes: options.blocks * BLOCK as u64,
    };
    let tools = super::versions(&[&onefold, Path::new("ceph"), Path::new("fio")]);
    let notes = super::notes(&options.note, &NOTES);
    backups::write_record(&options.out, dataset, CACHE_STATE, tools, samples, &notes)?;
    ensure!(violations == 0, "{violations} violations; see {}", options.out.display());
    Ok(())
}

/// Kinds of faults, and what came of all of a kind.
fn table(samples: &[Sample]) -> String {
    let mut kinds: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
    for sample in samples {
        kinds.entry(&sample.fault).or_default().push(sample);
    }
    let mut text = "| fault | rounds | writes acknowledged | in flight at a kill | reads | take-over s, median, \
                    longest | longest write s | gateways ended | violations |\n| --- | ---: | ---: | ---: | \
                    ---: | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    for (kind, of) in kinds {
        let sum = |field: fn(&Sample) -> u64| of.iter().map(|sample| field(sample)).sum::<u64>();
        let mut waits: Vec<f64> = of.iter().filter_map(|sample| sample.take_over_seconds).collect();
        waits.sort_by(f64::total_cmp);
        let longest_wait = waits.last().copied();
        let waits = match median(waits).zip(longest_wait) {
            Some((median, longest)) => format!("{median:.1}, {longest:.1}"),
            None => String::new(),
        };
        let longest = of.iter().map(|sample| sample.longest_write_seconds).fold(0.0, f64::max);
        text += &format!(
            "| {kind} | {} | {} | {} | {} | {waits} | {longest:.1} | {} | {} |\n",
            of.len(),
            sum(|sample| sample.acknowledged_writes),
            sum(|sample| sample.writes_in_flight),
            sum(|sample| sample.reads),
            sum(|sample| sample.gateways_ended.len() as u64),
            sum(|sample| sample.violations),
        );
    }
    text
}

/// A cluster under trial.
struct Campaign<'a> {
    gateways: Gateways,
    registers: Arc<Registers>,
    random: SplitMix64,
    work: &'a backups::Work,
    /// The gateway that has the registers.
    serving: usize,
    /// What gateways said that ended by themselves.
    ended: Vec<String>,
}

impl<'a> Campaign<'a> {
    fn begin(onefold: &Path, options: &Options, work: &'a backups::Work) -> Result<Self> {
        let gateways = Gateways::new(super::begin_ceph()?, onefold);
        let registers = Arc::new(Registers::new(options.blocks));
        let size = registers.volume_bytes().to_string();
        gateways.onefold(0, &["volume", "create", DISK, "--size", &size]);
        gateways.onefold(0, &["volume", "create", FIO, "--size", &format!("{FIO_MIB}MiB")]);
        let random = SplitMix64::new(options.seed);
        let mut this = Self { gateways, registers, random, work, serving: 0, ended: Vec::new() };
        (0..GATEWAYS).try_for_each(|number| this.start(number))?;
        // the first gateway that a client asks takes the volume
        let reads =
            Client::connect(&this.uri(0)).and_then(|mut client| client.read(0, &mut [0; BLOCK]));
        reads.context("the first read")?;
        this.serving = serving(&this.gateways, GATEWAYS, DISK)?;
        Ok(this)
    }

    fn round(&mut self, round: u32, fault: Fault) -> Result<Sample> {
        let begun = Instant::now();
        let mut sample = match fault {
            Fault::Kill => self.kill(),
            Fault::Pause => self.pause(),
            Fault::Osd => self.kill_daemon("osd"),
            Fault::TwoOsds | Fault::PauseOsd => self.stall(fault),
            Fault::Monitor => self.kill_daemon("mon"),
            Fault::Full => self.fill(false),
            Fault::KillFull => self.fill(true),
            Fault::Fio => self.fio(round),
        }?;
        (sample.round, sample.fault) = (round, fault.name().to_owned());
        sample.seconds = begun.elapsed().as_secs_f64();
        sample.gateways_ended = std::mem::take(&mut self.ended);
        (sample.violations, sample.first_violations) = self.registers.take_violations();
        Ok(sample)
    }

    /// Starts gateway `number`, and waits until it listens.
    fn start(&mut self, number: usize) -> Result<()> {
        self.gateways.start(number, &[]);
        match self.gateways.wait_until_it_listens(number) {
            Ok(()) => Ok(()),
            Err(ended) => bail!("gateway {number} ended, {}: {}", ended.status, ended.said),
        }
    }

    fn uri(&self, number: usize) -> onefold_lab::nbd::Uri {
        at(&self.gateways.socket(number), DISK)
    }

    fn load(&mut self) -> Result<Load> {
        Load::start(&self.registers, &self.uri(self.serving), self.random.next_u64())
    }

    /// Lets clients go on for 0.5 to 3 s.
    fn let_them_work(&mut self) {
        let more = self.random.next_u64() % 2500;
        thread::sleep(Duration::from_millis(500 + more));
    }

    /// Waits until one of the gateways that are not `gone` answers a read, and lets the one that has the registers
    /// then be the one that serves. Returns how many seconds there were from `begun` to the answer.
    fn change_over(&mut self, gone: &[usize], begun: Instant) -> Result<f64> {
        let others: Vec<usize> = (0..GATEWAYS).filter(|number| !gone.contains(number)).collect();
        let uris: Vec<_> = others.iter().map(|number| self.uri(*number)).collect();
        first_answer(&uris, || others.iter().try_for_each(|number| self.note_end(*number)))?;
        let seconds = begun.elapsed().as_secs_f64();
        self.serving = serving(&self.gateways, GATEWAYS, DISK)?;
        ensure!(
            !gone.contains(&self.serving),
            "gateway {} has the registers, though it is gone",
            self.serving
        );
        Ok(seconds)
    }

    /// Starts a gateway again if it ended by itself, and notes it.
    fn note_end(&mut self, number: usize) -> Result<()> {
        let Some(ended) = self.gateways.ended(number) else { return Ok(()) };
        println!("campaign: gateway {number} ended, {}: {}", ended.status, ended.said);
        self.ended.push(ended.said);
        self.start(number)
    }

    /// Waits until a gateway answers a read after a fault that ended none, and finds out which one has the
    /// registers.
    fn find_serving(&mut self) -> Result<()> {
        (0..GATEWAYS).try_for_each(|number| self.note_end(number))?;
        self.change_over(&[], Instant::now()).map(drop)
    }

    fn begin_reign(&self, sample: &mut Sample) -> Result<()> {
        let begun = begin_reign(&self.registers, &self.uri(self.serving))?;
        (sample.in_flight_kept, sample.sights_lost) = (begun.in_flight_kept, begun.sights_lost);
        Ok(())
    }

    fn kill(&mut self) -> Result<Sample> {
        let load = self.load()?;
        self.let_them_work();
        let (killed, begun) = (self.serving, Instant::now());
        self.gateways.kill(killed);
        let mut sample = Sample::of(load.wait());
        sample.take_over_seconds = Some(self.change_over(&[killed], begun)?);
        self.begin_reign(&mut sample)?;
        self.start(killed)?;
        Ok(sample)
    }

    fn pause(&mut self) -> Result<Sample> {
        let old = self.load()?;
        self.let_them_work();
        let (paused, begun) = (self.serving, Instant::now());
        self.gateways.signal(paused, Signal::STOP);
        let took = self.change_over(&[paused], begun)?;
        let mut sample = Sample::default();
        self.begin_reign(&mut sample)?;
        let new = self.load()?;
        self.let_them_work();
        self.gateways.signal(paused, Signal::CONT);
        // a new client of the old gateway as well
        let passed_on = self.ask_superseded(paused);
        let mut tally = old.wait();
        tally.add(new.stop());
        let mut after = Sample::of(tally);
        (after.in_flight_kept, after.sights_lost) = (sample.in_flight_kept, sample.sights_lost);
        (after.take_over_seconds, after.passed_on_reads) = (Some(took), passed_on);
        self.begin_reign(&mut Sample::default())?;
        let patience = Instant::now();
        while !is_alive(&self.gateways, paused)? {
            self.note_end(paused)?;
            ensure!(
                patience.elapsed() < RECOVERED,
                "the superseded gateway takes no new lease: {}",
                self.gateways.said(paused)
            );
        }
        self.note_end(paused)?;
        Ok(after)
    }

    /// Reads at a gateway that was superseded, by a new connection, which it passes on; how many were answered.
    fn ask_superseded(&self, number: usize) -> u64 {
        let connected = Client::connect_with(&self.uri(number), Duration::from_secs(20));
        // it may not have found out yet, and end the connection when it does
        let Ok(mut client) = connected else { return 0 };
        let (mut answered, mut page) = (0, vec![0; BLOCK]);
        for block in 0..100 {
            let reading = self.registers.begin_read(block % self.registers.len());
            match client.read(Registers::offset(block % self.registers.len()), &mut page) {
                Ok(()) => {
                    answered += 1;
                    self.registers.end_read(reading, &page);
                }
                Err(error) if error.is::<Refused>() => {}
                Err(_) => break,
            }
        }
        answered
    }

    /// Kills the monitor or one of the OSDs for some seconds.
    fn kill_daemon(&mut self, kind: &str) -> Result<Sample> {
        let load = self.load()?;
        self.let_them_work();
        let prefix = match kind {
            "osd" => format!("osd.{}", self.random.next_u64() % 3),
            kind => format!("{kind}."),
        };
        let killed = self.gateways.ceph_mut().kill(&prefix);
        thread::sleep(Duration::from_secs(8));
        for name in &killed {
            self.gateways.ceph_mut().start_again(name);
        }
        self.wait_until_healthy();
        self.let_them_work();
        let mut sample = Sample::of(load.stop());
        self.find_serving()?;
        self.begin_reign(&mut sample)?;
        Ok(sample)
    }

    /// Lets Ceph answer nothing, or some of the requests, for longer than a lease. Another gateway may take
    /// over then, or not.
    fn stall(&mut self, fault: Fault) -> Result<Sample> {
        /// Longer than a gateway waits for an answer.
        const UNANSWERED: Duration = Duration::from_secs(65);
        const DOWN: Duration = Duration::from_secs(20);
        let load = self.load()?;
        self.let_them_work();
        let first = self.random.next_u64() % 3;
        let (one, other) = (format!("osd.{first}"), format!("osd.{}", (first + 1) % 3));
        if fault == Fault::TwoOsds {
            let ceph = self.gateways.ceph_mut();
            let mut killed = ceph.kill(&one);
            killed.extend(ceph.kill(&other));
            thread::sleep(DOWN);
            for name in &killed {
                ceph.start_again(name);
            }
        } else {
            self.gateways.ceph().pause(&one);
            thread::sleep(UNANSWERED);
            self.gateways.ceph().resume(&one);
        }
        self.wait_until_healthy();
        self.let_them_work();
        let mut sample = Sample::of(load.stop());
        self.find_serving()?;
        self.begin_reign(&mut sample)?;
        Ok(sample)
    }

    /// Waits until every object has three copies again.
    fn wait_until_healthy(&self) {
        self.gateways.ceph().wait_until("all placement groups are clean", |ceph| {
            let state = ceph.command(&["pg", "stat"]);
            let (count, rest) = state.split_once(" pgs: ").unwrap_or_default();
            rest.split(';').next() == Some(&format!("{count} active+clean"))
        });
    }

    fn set_quota(&self, bytes: u64) {
        let bytes = bytes.to_string();
        self.gateways.ceph().command(&[
            "osd",
            "pool",
            "set-quota",
            REPLICATED,
            "max_bytes",
            &bytes,
        ]);
    }

    /// Fills the pool of Ceph, perhaps kills the gateway then, and lets it have room again.
    fn fill(&mut self, is_killed: bool) -> Result<Sample> {
        let load = self.load()?;
        self.let_them_work();
        self.set_quota(1);
        let begun = Instant::now();
        while !self.is_full()? {
            ensure!(begun.elapsed() < NOTICED, "the pool of Ceph is not full");
            thread::sleep(Duration::from_millis(200));
        }
        // clients meet the full pool
        thread::sleep(Duration::from_secs(3));
        let mut took = None;
        let (mut sample, load) = if is_killed {
            let (killed, begun) = (self.serving, Instant::now());
            self.gateways.kill(killed);
            let mut sample = Sample::of(load.wait());
            took = Some(self.change_over(&[killed], begun)?);
            self.begin_reign(&mut sample)?;
            self.start(killed)?;
            (sample, self.load()?)
        } else {
            // erases must be possible, and are what gives room
            let mut client = Client::connect(&at(&self.gateways.socket(self.serving), FIO))?;
            client.trim(0, (FIO_MIB << 20) as u32).context("an erase in a full pool")?;
            (Sample::default(), load)
        };
        self.set_quota(0);
        thread::sleep(Duration::from_secs(8));
        self.let_them_work();
        let after = Sample::of(load.stop());
        ensure!(after.acknowledged_writes > 0, "no write after there was room again");
        sample = sample.and(after);
        sample.take_over_seconds = took;
        self.find_serving()?;
        self.begin_reign(&mut Sample::default())?;
        // a write must be taken now
        let mut client = Client::connect(&at(&self.gateways.socket(self.serving), FIO))?;
        client.write(0, &[7; BLOCK]).context("a write after there was room again")?;
        Ok(sample)
    }

    /// Whether Ceph says that the pool is full.
    fn is_full(&self) -> Result<bool> {
        let detail = self.gateways.ceph().command(&["osd", "pool", "ls", "detail"]);
        let line = detail.lines().find(|line| line.contains(&format!("'{REPLICATED}'")));
        Ok(line.context("the pool is listed")?.contains("full"))
    }

    /// fio writes a volume, its gateway and that of the registers are killed, and fio verifies at the next one.
    fn fio(&mut self, round: u32) -> Result<Sample> {
        let report = self.work.fresh("fio")?.join("report");
        let run = |gateways: &Gateways, serving: usize, more: &str| {
            let uri = gateways.uri(serving, FIO);
            let mut command = over_nbd(&uri, 1, 50, u64::from(round), &report);
            command.args(["--rw=randwrite", "--bs=4k", "--verify=crc32c"]);
            command.arg(format!("--size={FIO_MIB}m")).args(more.split(' '));
            command.current_dir(report.parent().unwrap_or(Path::new(".")));
            fio::run(quietly(&mut command), || Ok(()))
        };
        run(&self.gateways, self.serving, "--do_verify=0 --verify_state_save=0")?;
        let load = self.load()?;
        self.let_them_work();
        let mut killed = vec![self.serving, serving(&self.gateways, GATEWAYS, FIO)?];
        killed.dedup();
        let begun = Instant::now();
        killed.iter().for_each(|number| self.gateways.kill(*number));
        let mut sample = Sample::of(load.wait());
        sample.take_over_seconds = Some(self.change_over(&killed, begun)?);
        if let Err(error) = run(&self.gateways, self.serving, "--verify_only --verify_state_save=0")
        {
            self.registers.tell(format!("fio does not find what it wrote: {error:#}"));
        }
        self.begin_reign(&mut sample)?;
        killed.iter().try_for_each(|number| self.start(*number))?;
        Ok(sample)
    }
}

fn quietly(command: &mut Command) -> &mut Command {
    command.stdout(std::process::Stdio::null())
}

impl Sample {
    fn of(tally: Tally) -> Self {
        Self {
            longest_write_seconds: tally.longest.as_secs_f64(),
            acknowledged_writes: tally.writes,
            writes_in_flight: tally.unanswered,
            late_acknowledged: tally.late,
            writes_without_space: tally.no_space,
            refused_writes: tally.refused_writes,
            reads: tally.reads,
            refused_reads: tally.refused_reads,
            superseded_reads: tally.superseded_reads,
            ..Self::default()
        }
    }

    /// What both came to.
    fn and(self, other: Self) -> Self {
        Self {
            longest_write_seconds: self.longest_write_seconds.max(other.longest_write_seconds),
            acknowledged_writes: self.acknowledged_writes + other.acknowledged_writes,
            writes_in_flight: self.writes_in_flight + other.writes_in_flight,
            in_flight_kept: self.in_flight_kept + other.in_flight_kept,
            late_acknowledged: self.late_acknowledged + other.late_acknowledged,
            writes_without_space: self.writes_without_space + other.writes_without_space,
            refused_writes: self.refused_writes + other.refused_writes,
            reads: self.reads + other.reads,
            refused_reads: self.refused_reads + other.refused_reads,
            superseded_reads: self.superseded_reads + other.superseded_reads,
            passed_on_reads: self.passed_on_reads + other.passed_on_reads,
            sights_lost: self.sights_lost + other.sights_lost,
            ..self
        }
    }
}
