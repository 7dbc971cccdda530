//! Clients that write registers and read them, each with a connection and one request in flight.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use onefold_lab::nbd::{Client, Place, Refused, Uri};
use onefold_testkit::SplitMix64;

use super::registers::{BLOCK, Begun, Registers, ZOMBIE, page};

/// Clients that write.
pub(super) const WRITERS: u64 = 16;
/// Clients that read.
const READERS: u64 = 4;
/// How long a request may take before the client gives the connection up.
const PATIENCE: Duration = Duration::from_secs(180);
/// How long a client waits after an error.
const PAUSE: Duration = Duration::from_millis(50);
/// How long clients ask a gateway that was superseded.
const ASKING: Duration = Duration::from_secs(5);
/// The error by which a server says that there is no room.
const NO_SPACE: u32 = 28;

/// What clients met.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Tally {
    /// Writes that were acknowledged.
    pub(super) writes: u64,
    /// Writes that were acknowledged after another gateway served, and were there when it began.
    pub(super) late: u64,
    /// Writes that were refused for want of room.
    pub(super) no_space: u64,
    /// Writes that were refused otherwise.
    pub(super) refused_writes: u64,
    /// Writes in flight when the connection ended.
    pub(super) unanswered: u64,
    /// Reads that were answered.
    pub(super) reads: u64,
    /// Reads that were refused.
    pub(super) refused_reads: u64,
    /// Reads that a gateway answered after it was superseded.
    pub(super) superseded_reads: u64,
    /// The longest that an acknowledged write took.
    pub(super) longest: Duration,
}

impl Tally {
    pub(super) fn add(&mut self, other: Self) {
        self.writes += other.writes;
        self.late += other.late;
        self.no_space += other.no_space;
        self.refused_writes += other.refused_writes;
        self.unanswered += other.unanswered;
        self.reads += other.reads;
        self.refused_reads += other.refused_reads;
        self.superseded_reads += other.superseded_reads;
        self.longest = self.longest.max(other.longest);
    }
}

/// Clients that run until they are stopped or lose their connections.
pub(super) struct Load {
    is_over: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Tally>>,
}

/// The export `volume` at `socket`.
pub(super) fn at(socket: &Path, volume: &str) -> Uri {
    Uri { place: Place::Unix(socket.to_owned()), export: volume.to_owned() }
}

impl Load {
    /// Begins. All clients are connected when this returns.
    pub(super) fn start(registers: &Arc<Registers>, uri: &Uri, seed: u64) -> Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (mut clients, reign) = (Vec::new(), registers.reign());
        for number in 0..WRITERS + READERS {
            let connection = Client::connect_with(uri, PATIENCE)?;
            let one = One {
                connection,
                registers: Arc::clone(registers),
                is_over: Arc::clone(&is_over),
                random: SplitMix64::new(seed ^ (number << 32)),
                reign,
                tally: Tally::default(),
            };
            clients.push(thread::spawn(move || match number {
                0..WRITERS => one.write(number),
                _ => one.read(),
            }));
        }
        Ok(Self { is_over, clients })
    }

    /// Lets all requests end, and sends no more.
    pub(super) fn stop(self) -> Tally {
        self.is_over.store(true, Ordering::Release);
        self.wait()
    }

    /// Waits until all clients have lost their connections, or given up a superseded gateway.
    pub(super) fn wait(self) -> Tally {
        let mut all = Tally::default();
        for client in self.clients {
            all.add(client.join().expect("a client does not panic"));
        }
        all
    }
}

/// One client.
struct One {
    connection: Client,
    registers: Arc<Registers>,
    is_over: Arc<AtomicBool>,
    random: SplitMix64,
    /// In which it connected.
    reign: u64,
    tally: Tally,
}

impl One {
    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Acquire)
    }

    /// Writes the blocks of writer `number`, at random.
    fn write(mut self, number: u64) -> Tally {
        let own = self.registers.len() / WRITERS;
        while self.goes_on() {
            let block = number + WRITERS * (self.random.next_u64() % own);
            let Some(value) = self.registers.begin_write(block, self.reign) else {
                return self.write_superseded(block);
            };
            let begun = Instant::now();
            match self.connection.write(Registers::offset(block), &page(block, value)) {
                Ok(()) if self.registers.acknowledged(block, value, self.reign) => {
                    self.tally.late += 1;
                }
                Ok(()) => {
                    self.tally.writes += 1;
                    self.tally.longest = self.tally.longest.max(begun.elapsed());
                }
                Err(error) => match error.downcast_ref::<Refused>() {
                    Some(refused) => {
                        match refused.errno {
                            NO_SPACE => self.tally.no_space += 1,
                            _ => self.tally.refused_writes += 1,
                        }
                        thread::sleep(PAUSE);
                    }
                    None => {
                        self.tally.unanswered += 1;
                        break;
                    }
                },
            }
        }
        self.tally
    }

    /// Writes what must never be acknowledged, nor read.
    fn write_superseded(mut self, block: u64) -> Tally {
        let begun = Instant::now();
        while begun.elapsed() < ASKING && self.goes_on() {
            match self.connection.write(Registers::offset(block), &page(block, ZOMBIE | block)) {
                Ok(()) => {
                    self.registers
                        .tell(format!("block {block}: a superseded gateway took a write"));
                }
                Err(error) if error.is::<Refused>() => {
                    self.tally.refused_writes += 1;
                    thread::sleep(PAUSE);
                }
                Err(_) => break,
            }
        }
        self.tally
    }

    fn read(mut self) -> Tally {
        let (mut found, mut superseded) = (vec![0; BLOCK], None);
        while self.goes_on() {
            let block = self.random.next_u64() % self.registers.len();
            let reading = self.registers.begin_read(block);
            if self.registers.reign() != self.reign {
                let since = *superseded.get_or_insert_with(Instant::now);
                if since.elapsed() > ASKING {
                    break;
                }
            }
            match self.connection.read(Registers::offset(block), &mut found) {
                Ok(()) => {
                    self.registers.end_read(reading, &found);
                    self.tally.reads += 1;
                    self.tally.superseded_reads += u64::from(superseded.is_some());
                }
                Err(error) if error.is::<Refused>() => {
                    self.tally.refused_reads += 1;
                    thread::sleep(PAUSE);
                }
                Err(_) => break,
            }
        }
        self.tally
    }
}

/// Reads every register at `uri`, and begins a reign with what they have.
pub(super) fn begin_reign(registers: &Registers, uri: &Uri) -> Result<Begun> {
    const AT_ONCE: u64 = 8;
    let read = |first: u64| -> Result<Vec<(u64, Vec<u8>)>> {
        let mut client = Client::connect_with(uri, PATIENCE)?;
        let blocks = (first..registers.len()).step_by(AT_ONCE as usize);
        let one = |block| {
            let mut page = vec![0; BLOCK];
            client.read(Registers::offset(block), &mut page)?;
            Ok((block, page))
        };
        blocks.map(one).collect()
    };
    let mut pages = vec![Vec::new(); registers.len() as usize];
    thread::scope(|scope| -> Result<()> {
        let all: Vec<_> = (0..AT_ONCE).map(|first| scope.spawn(move || read(first))).collect();
        for one in all {
            let Ok(read) = one.join() else { bail!("a client that reads every block panicked") };
            for (block, page) in read.context("every block is read")? {
                pages[block as usize] = page;
            }
        }
        Ok(())
    })?;
    Ok(registers.begin_reign(&pages))
}

/// Reads a block at `uris` in turn until one answers; its place among them. `check` fails if there is no use in
/// going on.
pub(super) fn first_answer(uris: &[Uri], mut check: impl FnMut() -> Result<()>) -> Result<usize> {
    const MOST: Duration = Duration::from_secs(240);
    let begun = Instant::now();
    let mut last = None;
    loop {
        for (at, uri) in uris.iter().enumerate() {
            let mut page = vec![0; BLOCK];
            let answer = Client::connect_with(uri, Duration::from_secs(60))
                .and_then(|mut client| client.read(0, &mut page));
            match answer {
                Ok(()) => return Ok(at),
                Err(error) => last = Some(error),
            }
        }
        check()?;
        let late = || format!("no gateway answers a read: {last:?}");
        ensure!(begun.elapsed() < MOST, late());
        thread::sleep(Duration::from_millis(5));
    }
}
