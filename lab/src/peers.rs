//! Look-ups of hints between two gateways in processes of their own, over TLS on loopback.
//!
//! One process holds all hints and answers; the other one asks for pages that are there, and checks each hint.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use onefold_backend::rados::{MemoryRados, Query, RadosPool, Update};
use onefold_cluster::hints::{ContainerName, GatewayId, Hint, Hints, Ranges, Slice};
use onefold_cluster::peers::Authority;
use onefold_cluster::pooled::{PeerPlace, PooledHints, PooledOptions, Pools};
use onefold_fingerprint::Fingerprint;
use onefold_seal::ObjectId;
use serde::{Deserialize, Serialize};

/// The object that has the key of the cluster.
const AUTHORITY: &str = "authority";
/// A line that ends what the asking process tells the other one.
const END: &str = "end";
/// How long pages may take to be told.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is measured.
#[derive(Clone, Debug)]
pub struct PeersPlan {
    /// Pages that are known.
    pub pages: usize,
    /// Fingerprints of a look-up.
    pub batches: Vec<usize>,
    /// Threads that look up.
    pub threads: Vec<usize>,
    /// How long each is measured.
    pub time: Duration,
}

/// Look-ups of one size by so many threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredPeers {
    /// Fingerprints of a look-up.
    pub batch: usize,
    /// Threads that looked up.
    pub threads: usize,
    /// Look-ups that were made.
    pub lookups: u64,
    /// Wall time.
    pub seconds: f64,
    /// The time of a look-up, in microseconds, that half of them did not exceed.
    pub p50_us: f64,
    /// The same of 99 of 100.
    pub p99_us: f64,
}

impl MeasuredPeers {
    /// Fingerprints a second.
    pub fn per_second(&self) -> f64 {
        self.lookups as f64 * self.batch as f64 / self.seconds
    }
}

fn options() -> PooledOptions {
    // a look-up that is late would be measured as one that is fast
    PooledOptions { deadline: Duration::from_secs(10), queue: 1 << 20, ..PooledOptions::default() }
}

fn start(
    gateway: GatewayId,
    pool: Arc<dyn RadosPool>,
    others: Vec<(GatewayId, SocketAddr)>,
) -> Result<PooledHints> {
    let authority = Arc::new(Authority::read(&*pool)?);
    let place = PeerPlace { gateway, listener: TcpListener::bind("127.0.0.1:0")?, authority };
    let members = Arc::new(move || others.clone());
    let pools = Pools { meta: Arc::clone(&pool), data: pool };
    Ok(PooledHints::start(place, pools, members, options(), Arc::new(|_, _| Vec::new()), |_| {})?)
}

/// Answers until standard input ends: the process that [`measure_peers`] starts.
///
/// # Errors
/// If it cannot read what the other process tells, or cannot listen.
pub fn serve_peer() -> Result<()> {
    let mut input = BufReader::new(std::io::stdin());
    let mut line = || -> Result<String> {
        let mut line = String::new();
        ensure!(input.read_line(&mut line)? > 0, "the other process told too little");
        Ok(line.trim_end().to_owned())
    };
    let gateway: ObjectId = line()?.parse()?;
    let mut update = Update::creating();
    loop {
        let told = line()?;
        if told == END {
            break;
        }
        let (name, value) = told.split_once(' ').context("an attribute and its value")?;
        let value: Vec<u8> = serde_json::from_str(value)?;
        update = update.set(name, value);
    }
    let pool: Arc<dyn RadosPool> = Arc::new(MemoryRados::replicated());
    pool.update(AUTHORITY, update)?;
    let hints = start(gateway, pool, Vec::new())?;
    println!("{}", hints.address());
    input.read_to_end(&mut Vec::new())?;
    Ok(())
}

/// The process that answers, until it is dropped.
struct Answering(Child);

impl Drop for Answering {
    fn drop(&mut self) {
        // it ends by itself when its input does
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Starts this program as the process that answers.
fn answering(pool: &dyn RadosPool, gateway: GatewayId) -> Result<(Answering, SocketAddr)> {
    let program = std::env::current_exe()?;
    let child = Command::new(program)
        .args(["--serve", "1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut answering = Answering(child);
    let mut input = answering.0.stdin.as_ref().context("its input is piped")?;
    let told = pool.query(AUTHORITY, &Query { xattrs: true, ..Query::default() })?;
    writeln!(input, "{gateway}")?;
    for (name, value) in told.xattrs {
        writeln!(input, "{name} {}", serde_json::to_string(&value[..])?)?;
    }
    writeln!(input, "{END}")?;
    let mut address = String::new();
    let output = answering.0.stdout.take().context("its output is piped")?;
    BufReader::new(output).read_line(&mut address)?;
    let address = address.trim_end().parse().context("the other process did not start")?;
    Ok((answering, address))
}

/// Pages of ranges that `holder` has.
fn pages(ranges: &Ranges, holder: GatewayId, count: usize) -> Vec<(Fingerprint, Hint)> {
    let shard = ObjectId::from_bytes([7; 16]);
    let page = |n: u64| {
        let fingerprint = Fingerprint::from_bytes(*blake3::hash(&n.to_le_bytes()).as_bytes());
        let container = ContainerName { shard, writer: 1, number: n / 16_384 };
        let offset = (n % 16_384) as u32 * 4096;
        (fingerprint, Hint { container, offset, stored_len: 4096, check: n as u32 })
    };
    let all = (0..).map(page);
    all.filter(|(one, _)| ranges.holder(Slice::of(one)) == Some(holder)).take(count).collect()
}

/// Measures each size by each number of threads, and tells `each`.
///
/// # Errors
/// If the other process does not start or does not answer, or a hint is wrong.
pub fn measure_peers(
    plan: &PeersPlan,
    each: impl Fn(&MeasuredPeers),
) -> Result<Vec<MeasuredPeers>> {
    let pool: Arc<dyn RadosPool> = Arc::new(MemoryRados::replicated());
    Authority::create(&*pool)?;
    let (own, other) = (ObjectId::random(), ObjectId::random());
    let (_answering, address) = answering(&*pool, other)?;
    let hints = start(own, pool, vec![(other, address)])?;
    let pages = pages(&Ranges::new([own, other]), other, plan.pages);
    let begin = Instant::now();
    while !hints.others().iter().any(|(.., is_up)| *is_up) {
        ensure!(begin.elapsed() < PATIENCE, "the other process does not answer");
        thread::sleep(Duration::from_millis(10));
    }
    hints.add(&pages);
    while !is_told(&hints, &pages) {
        ensure!(begin.elapsed() < PATIENCE, "pages were lost: {:?}", hints.counters());
        thread::sleep(Duration::from_millis(100));
    }
    let mut all = Vec::new();
    for &threads in &plan.threads {
        for &batch in &plan.batches {
            let measured = measure(&hints, &pages, batch, threads, plan.time)?;
            each(&measured);
            all.push(measured);
        }
    }
    Ok(all)
}

/// Whether the other process knows all pages.
fn is_told(hints: &PooledHints, pages: &[(Fingerprint, Hint)]) -> bool {
    pages.chunks(4096).all(|pages| is_right(hints, pages))
}

fn is_right(hints: &PooledHints, pages: &[(Fingerprint, Hint)]) -> bool {
    let fingerprints: Vec<_> = pages.iter().map(|(fingerprint, _)| *fingerprint).collect();
    hints.find(&fingerprints).iter().zip(pages).all(|(found, (_, hint))| *found == Some(*hint))
}

fn measure(
    hints: &PooledHints,
    pages: &[(Fingerprint, Hint)],
    batch: usize,
    threads: usize,
    time: Duration,
) -> Result<MeasuredPeers> {
    let begin = Instant::now();
    let ask = |thread: usize| {
        let mut times = Vec::new();
        let mut at = thread * 7919;
        while begin.elapsed() < time {
            at = (at + batch) % (pages.len() - batch + 1);
            let asked = Instant::now();
            let is_right = is_right(hints, &pages[at..at + batch]);
            times.push(asked.elapsed());
            ensure!(is_right, "a hint is missing or wrong");
        }
        Ok(times)
    };
    let times = thread::scope(|scope| {
        let asking: Vec<_> = (0..threads).map(|thread| scope.spawn(move || ask(thread))).collect();
        let asked = asking.into_iter().map(|one| one.join());
        let asked = asked.map(|one| one.unwrap_or_else(|_| bail!("a thread panicked")));
        asked.collect::<Result<Vec<_>>>()
    })?;
    let seconds = begin.elapsed().as_secs_f64();
    let mut times = times.concat();
    times.sort_unstable();
    let of_100 = |share: usize| {
        let at = (times.len() * share / 100).min(times.len().saturating_sub(1));
        times.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e6)
    };
    let lookups = times.len() as u64;
    Ok(MeasuredPeers { batch, threads, lookups, seconds, p50_us: of_100(50), p99_us: of_100(99) })
}
