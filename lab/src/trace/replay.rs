//! Doing what a trace says, by the clock.
//!
//! ```text
//! files ── dispatcher ── batches ──▶ workers, one a request under way ──▶ device
//! ```
//!
//! Regions of the device are dealt out to workers. So what happens to one page happens in the order
//! of the trace, and nobody waits for anybody else; an operation that lies in regions of two workers
//! is done as two requests. Queues are bounded.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use onefold_bench::Watch;
use onefold_bench::trace::{Digest, Kind, Operation, Reader, fill, mix};
use serde::{Deserialize, Serialize};

use super::latency::{Latencies, Latency};
use super::survey::{LOOK_EVERY, Survey};
use super::target::Target;

/// Neighbouring bytes that one worker has.
const REGION: u64 = 64 << 10;

/// Pages that are read before they are written are initialised by writes of at most so many bytes.
const LONGEST_WRITE: usize = 1 << 20;

/// Requests that are handed over at once, where nobody waits for the first of them.
const BATCH: usize = 64;

/// Batches that wait for a worker.
const QUEUE: usize = 4;

/// How a trace is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wishes {
    /// Whether pages that are read must have what was written last. Takes about 50 bytes of memory
    /// for each page of the trace.
    pub verify: bool,
    /// How many percent of a page are zeros; see [`fill`].
    pub compressible: u8,
    /// When an operation begins.
    pub pace: Pace,
}

/// When an operation begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// When the one before it on the same worker has ended.
    Unpaced,
    /// So long after the first one as in the trace; later, if the device is behind.
    AsRecorded,
}

/// What came of a replay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replayed {
    /// Operations that were done.
    pub operations: u64,
    /// Whether these are all of the trace.
    pub is_complete: bool,
    /// Wall time, the flush at the end included, the initialisation not.
    pub seconds: f64,
    /// Thousands of operations a second.
    pub kiops: f64,
    /// Requests under way at once.
    pub depth: usize,
    /// The unit of digests, in bytes.
    pub page_bytes: u64,
    /// Pages that were initialised before, because the trace reads them before it writes them.
    pub initialised_pages: u64,
    /// Pages that were read.
    pub read_pages: u64,
    /// Pages of these that were compared with what was to be there, all of which had it.
    pub verified_pages: u64,
    /// Pages that were written.
    pub written_pages: u64,
    /// Of requests that read.
    pub reads: Latency,
    /// Of requests that wrote.
    pub writes: Latency,
    /// How much later than in the trace a request began, at most; 0 where nothing was paced.
    pub latest_start_seconds: f64,
}

/// Writes what the trace reads before it writes it, and flushes.
///
/// # Errors
///
/// A target that is too short, or fails; a signal.
pub fn initialise(
    survey: &Survey,
    target: &mut dyn Target,
    compressible: u8,
    watch: &dyn Watch,
) -> Result<()> {
    check_size(survey, target)?;
    let len = survey.page_size.bytes();
    watch.begin("initialising pages that are read before they are written", survey.initial_pages());
    let are_neighbours = |a: &(u64, Digest), b: &(u64, Digest)| a.0 + 1 == b.0;
    let mut buffer = Vec::new();
    for run in survey.initial.chunk_by(are_neighbours) {
        for pages in run.chunks(LONGEST_WRITE / len as usize) {
            buffer.resize(pages.len() * len as usize, 0);
            for (page, (_, digest)) in buffer.chunks_mut(len as usize).zip(pages) {
                fill(*digest, compressible, page);
            }
            target.write(pages[0].0 * len, &buffer)?;
            watch.advance(pages.len() as u64);
            ensure!(!watch.is_cancelled(), "stopped before the trace was replayed");
        }
    }
    target.flush()
}

/// Replays a trace, with as many requests under way as there are targets, all of them the same
/// device; a flush ends it. What the trace reads before it writes it must have been initialised.
///
/// Stopped by a signal it ends early, with what was done until then.
///
/// # Errors
///
/// No target, one that is too short or fails, a page that has not what was written, and files that
/// changed.
pub fn replay(
    survey: &Survey,
    targets: Vec<Box<dyn Target>>,
    wishes: Wishes,
    watch: &dyn Watch,
) -> Result<Replayed> {
    let depth = targets.len();
    ensure!(depth > 0, "no request may be under way, expected one at least");
    targets.iter().try_for_each(|target| check_size(survey, &**target))?;
    let expected = expectations(survey, depth, wishes);
    watch.begin("replaying", survey.operations);
    let begun = Instant::now();
    let (operations, outcomes) = thread::scope(|scope| {
        let (mut lanes, mut workers) = (Vec::new(), Vec::new());
        for (target, expected) in targets.into_iter().zip(expected) {
            let (sender, receiver) = sync_channel(QUEUE);
            lanes.push(Lane { sender, batch: Vec::new() });
            let page = vec![0; survey.page_size.bytes() as usize];
            let buffer = Vec::new();
            let worker =
                Worker { target, wishes, begun, expected, page, buffer, done: Done::default() };
            workers.push(scope.spawn(move || worker.work(&receiver)));
        }
        let dispatched = dispatch(survey, lanes, wishes.pace, watch);
        let join = |worker: thread::ScopedJoinHandle<'_, Result<Worker>>| {
            worker.join().expect("a worker returns its errors")
        };
        // all of them have ended before any is judged
        let outcomes: Vec<Result<Worker>> = workers.into_iter().map(join).collect();
        (dispatched, outcomes)
    });
    let mut workers = outcomes.into_iter().collect::<Result<Vec<_>>>()?;
    let operations = operations?;
    workers[0].target.flush()?;
    let seconds = begun.elapsed().as_secs_f64();
    let mut done = Done::default();
    workers.iter().for_each(|worker| done.join(&worker.done));
    Ok(Replayed {
        operations,
        is_complete: operations == survey.operations,
        seconds,
        kiops: operations as f64 / seconds / 1e3,
        depth,
        page_bytes: survey.page_size.bytes(),
        initialised_pages: survey.initial_pages(),
        read_pages: done.read_pages,
        verified_pages: done.verified_pages,
        written_pages: done.written_pages,
        reads: done.reads.latency(),
        writes: done.writes.latency(),
        latest_start_seconds: done.latest_start.as_secs_f64(),
    })
}

fn check_size(survey: &Survey, target: &dyn Target) -> Result<()> {
    let (size, end) = (target.size(), survey.end);
    ensure!(end <= size, "the trace goes up to byte {end}, the device has {size}");
    Ok(())
}

/// What the pages of each worker have at the beginning, if it is to be verified.
fn expectations(survey: &Survey, depth: usize, wishes: Wishes) -> Vec<HashMap<u64, Digest>> {
    let mut expected = vec![HashMap::new(); depth];
    for (page, digest) in survey.initial.iter().filter(|_| wishes.verify) {
        expected[worker_of(*page * survey.page_size.bytes(), depth)].insert(*page, *digest);
    }
    expected
}

/// Who has the region of this byte.
fn worker_of(byte: u64, depth: usize) -> usize {
    (mix(byte / REGION) % depth as u64) as usize
}

/// What is to be done in the regions of one worker.
struct Request {
    /// Of the operation, from 1.
    number: u64,
    /// After the first one.
    due: Duration,
    kind: Kind,
    first_page: u64,
    digests: Vec<Digest>,
}

/// The way to a worker.
struct Lane {
    sender: SyncSender<Vec<Request>>,
    batch: Vec<Request>,
}

impl Lane {
    /// Whether the worker is still there.
    fn send(&mut self) -> bool {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        self.sender.send(batch).is_ok()
    }
}

/// Deals out the trace; how many operations of it. A worker that has gone ends it early: it knows
/// why.
fn dispatch(survey: &Survey, mut lanes: Vec<Lane>, pace: Pace, watch: &dyn Watch) -> Result<u64> {
    let most = if pace == Pace::AsRecorded { 1 } else { BATCH };
    let mut number = 0;
    let mut first = None;
    for file in &survey.files {
        for operation in Reader::open(file)? {
            let operation = operation?;
            ensure!(
                operation.page_size == survey.page_size,
                "trace '{}' changed while it was replayed",
                file.display()
            );
            number += 1;
            let first = *first.get_or_insert(operation.nanoseconds);
            let due = Duration::from_nanos(operation.nanoseconds.saturating_sub(first));
            for (worker, request) in requests(number, due, operation, lanes.len()) {
                let lane = &mut lanes[worker];
                lane.batch.push(request);
                if lane.batch.len() >= most && !lane.send() {
                    return Ok(number);
                }
            }
            if number.is_multiple_of(LOOK_EVERY) {
                watch.advance(LOOK_EVERY);
                if watch.is_cancelled() {
                    return Ok(finish(lanes, number));
                }
            }
        }
    }
    watch.advance(number % LOOK_EVERY);
    Ok(finish(lanes, number))
}

fn finish(lanes: Vec<Lane>, number: u64) -> u64 {
    for mut lane in lanes {
        // a worker that has gone knows why
        lane.send();
    }
    number
}

/// An operation as requests, each with its worker: one, but for those that lie in several regions.
fn requests(
    number: u64,
    due: Duration,
    operation: Operation,
    depth: usize,
) -> impl Iterator<Item = (usize, Request)> {
    let len = operation.page_size.bytes();
    let (pages, kind) = (operation.pages(), operation.kind);
    let mut rest = operation.digests;
    let mut first_page = pages.start;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let here = REGION / len - first_page % (REGION / len);
        let behind = rest.split_off(rest.len().min(here as usize));
        let digests = std::mem::replace(&mut rest, behind);
        let request = Request { number, due, kind, first_page, digests };
        first_page += request.digests.len() as u64;
        Some((worker_of(request.first_page * len, depth), request))
    })
}

/// Does the requests of its regions, in order.
struct Worker {
    target: Box<dyn Target>,
    wishes: Wishes,
    begun: Instant,
    /// What its pages have, if that is to be verified.
    expected: HashMap<u64, Digest>,
    /// Room for a page, and for a request.
    page: Vec<u8>,
    buffer: Vec<u8>,
    done: Done,
}

/// What a worker did.
#[derive(Default)]
struct Done {
    reads: Latencies,
    writes: Latencies,
    read_pages: u64,
    verified_pages: u64,
    written_pages: u64,
    latest_start: Duration,
}

impl Done {
    fn join(&mut self, other: &Self) {
        self.reads.join(&other.reads);
        self.writes.join(&other.writes);
        self.read_pages += other.read_pages;
        self.verified_pages += other.verified_pages;
        self.written_pages += other.written_pages;
        self.latest_start = self.latest_start.max(other.latest_start);
    }
}

impl Worker {
    fn work(mut self, requests: &Receiver<Vec<Request>>) -> Result<Self> {
        for batch in requests {
            for request in batch {
                if self.wishes.pace == Pace::AsRecorded {
                    self.wait_for(request.due);
                }
                let since = self.since(&request);
                match request.kind {
                    Kind::Read => self.read(&request, since)?,
                    Kind::Write => self.write(&request, since)?,
                }
            }
        }
        Ok(self)
    }

    /// From when its latency counts: if it has a time of its own, from then, however late it begins.
    fn since(&self, request: &Request) -> Option<Instant> {
        (self.wishes.pace == Pace::AsRecorded).then(|| self.begun + request.due)
    }

    fn wait_for(&mut self, due: Duration) {
        let now = self.begun.elapsed();
        match due.checked_sub(now) {
            Some(early) => thread::sleep(early),
            None => self.done.latest_start = self.done.latest_start.max(now - due),
        }
    }

    fn write(&mut self, request: &Request, since: Option<Instant>) -> Result<()> {
        let len = self.page.len();
        self.buffer.resize(request.digests.len() * len, 0);
        for (page, digest) in self.buffer.chunks_mut(len).zip(&request.digests) {
            fill(*digest, self.wishes.compressible, page);
        }
        let begun = since.unwrap_or_else(Instant::now);
        self.target.write(request.first_page * len as u64, &self.buffer)?;
        self.done.writes.add(begun.elapsed());
        self.done.written_pages += request.digests.len() as u64;
        if self.wishes.verify {
            self.expected.extend((request.first_page..).zip(request.digests.iter().copied()));
        }
        Ok(())
    }

    fn read(&mut self, request: &Request, since: Option<Instant>) -> Result<()> {
        let len = self.page.len();
        self.buffer.resize(request.digests.len() * len, 0);
        let begun = since.unwrap_or_else(Instant::now);
        self.target.read(request.first_page * len as u64, &mut self.buffer)?;
        self.done.reads.add(begun.elapsed());
        self.done.read_pages += request.digests.len() as u64;
        if self.wishes.verify {
            self.verify(request)?;
        }
        Ok(())
    }

    fn verify(&mut self, request: &Request) -> Result<()> {
        let len = self.page.len();
        for (number, found) in (request.first_page..).zip(self.buffer.chunks(len)) {
            let place = || format!("operation {}, byte {}", request.number, number * len as u64);
            let Some(digest) = self.expected.get(&number) else {
                bail!("{}: a page that was never initialised", place());
            };
            fill(*digest, self.wishes.compressible, &mut self.page);
            if found != self.page {
                let begins = u128::from_be_bytes(found[..16].try_into().expect("16 bytes"));
                bail!(
                    "{}: expected the page that stands for {digest}, found one that begins with \
                     {begins:032x}",
                    place()
                );
            }
            self.done.verified_pages += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::Write;
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use onefold_block::{BlockDevice, BlockSize, Durability, MemoryDevice};

    use super::super::{Device, Plan, Shape};
    use super::*;

    const ALL: Wishes = Wishes { verify: true, compressible: 50, pace: Pace::Unpaced };

    /// A made-up trace in a file, surveyed, and a device that is long enough.
    struct Scene {
        folder: tempfile::TempDir,
        survey: Survey,
        device: Arc<MemoryDevice>,
    }

    impl Scene {
        fn new(plan: Plan) -> Self {
            let mut text = Vec::new();
            for operation in plan.generate().unwrap() {
                writeln!(text, "{operation}").unwrap();
            }
            Self::of(&text)
        }

        fn of(text: &[u8]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("trace");
            write(&path, text);
            let survey = Survey::of(&[path], &()).unwrap();
            let size = survey.end.next_multiple_of(4096);
            let device = Arc::new(MemoryDevice::new(size, BlockSize::B512).unwrap());
            Self { folder, survey, device }
        }

        fn targets(&self, depth: usize) -> Vec<Box<dyn Target>> {
            (0..depth).map(|_| Box::new(Device(self.device.clone())) as Box<dyn Target>).collect()
        }

        fn initialise(&self) {
            initialise(&self.survey, &mut Device(self.device.clone()), 50, &()).unwrap();
        }

        fn replay(&self, depth: usize, wishes: Wishes) -> Result<Replayed> {
            replay(&self.survey, self.targets(depth), wishes, &())
        }

        fn path(&self) -> PathBuf {
            self.folder.path().join("trace")
        }
    }

    #[expect(clippy::disallowed_methods, reason = "a file of a test, no durable byte")]
    fn write(path: &std::path::Path, bytes: &[u8]) {
        std::fs::write(path, bytes).unwrap();
    }

    fn plan(shape: Shape) -> Plan {
        Plan { footprint: 2 << 20, written_part: 0.6, ..shape.plan(3000) }
    }

    #[test]
    fn every_page_is_at_last_what_the_trace_wrote_there_last() {
        for (shape, depth) in [(Shape::Mail, 1), (Shape::Web, 5), (Shape::Homes, 16)] {
            let scene = Scene::new(plan(shape));
            scene.initialise();
            let done = scene.replay(depth, ALL).unwrap();
            assert!(done.is_complete && done.operations == 3000, "{done:?}");
            assert_eq!(done.read_pages, done.verified_pages);
            assert_eq!(done.reads.count + done.writes.count, 3000);
            let pages_each = 4096 / done.page_bytes;
            assert_eq!(done.read_pages + done.written_pages, 3000 * pages_each);
            let mut last = HashMap::new();
            for operation in plan(shape).generate().unwrap() {
                for (page, digest) in operation.pages().zip(operation.digests) {
                    last.insert(page, digest);
                }
            }
            for (page, digest) in last {
                let mut expected = vec![0; done.page_bytes as usize];
                let mut found = expected.clone();
                fill(digest, 50, &mut expected);
                scene.device.read(page * done.page_bytes, &mut found).unwrap();
                assert_eq!(found, expected, "page {page}");
            }
        }
    }

    #[test]
    fn a_wrong_page_is_named() {
        let scene = Scene::new(plan(Shape::Web));
        let unprepared = format!("{:#}", scene.replay(3, ALL).unwrap_err());
        assert!(unprepared.contains("found one that begins with 0000000000"), "{unprepared}");
        // without --verify nobody sees it
        scene.replay(3, Wishes { verify: false, ..ALL }).unwrap();
        // a byte that differs, in the half that is zeros
        let scene = Scene::of(b"0 1 x 8 8 R 6 0 531e779bf7ab92d45f28e1a4d4e9c2f1\n");
        scene.initialise();
        scene.device.write(8191, &[1], Durability::OnFlush).unwrap();
        let error = format!("{:#}", scene.replay(1, ALL).unwrap_err());
        assert!(error.contains("operation 1, byte 4096: expected the page"), "{error}");
        assert!(error.contains("531e779bf7ab92d45f28e1a4d4e9c2f1, found"), "{error}");
    }

    #[test]
    fn long_operations_are_split_at_regions_and_lose_no_page() {
        let digest = |number: u8| Digest([number; 16]);
        let operation = Operation {
            sector: (REGION / 512) * 3 - 8,
            digests: (0..40).map(digest).collect(),
            ..Operation::parse(b"5 1 x 0 8 W 6 0 531e779bf7ab92d45f28e1a4d4e9c2f1").unwrap()
        };
        let parts: Vec<_> = requests(7, Duration::ZERO, operation.clone(), 8).collect();
        let lens: Vec<_> = parts.iter().map(|(_, part)| part.digests.len()).collect();
        assert_eq!(lens, [1, 16, 16, 7]);
        let mut pages = operation.pages();
        for (worker, part) in parts {
            assert_eq!(part.first_page, pages.start);
            for digest in part.digests {
                let page = pages.next().unwrap();
                assert_eq!(worker_of(page * 4096, 8), worker);
                assert_eq!(digest, self::Digest([(page - operation.pages().start) as u8; 16]));
            }
        }
        assert!(pages.is_empty());
        let workers: BTreeSet<_> = (0..1000).map(|region| worker_of(region * REGION, 8)).collect();
        assert_eq!(workers.len(), 8);
    }

    #[test]
    fn a_paced_trace_takes_its_time() {
        let line = |ms: u64| {
            let (time, sector) = (ms * 1_000_000 + 77, ms * 1000);
            format!("{time} 1 x {sector} 8 W 6 0 531e779bf7ab92d45f28e1a4d4e9c2f1\n")
        };
        let scene = Scene::of([line(0), line(100), line(250)].concat().as_bytes());
        let done = scene.replay(4, Wishes { pace: Pace::AsRecorded, ..ALL }).unwrap();
        assert!(done.seconds >= 0.25, "{done:?}");
        // of a day nothing is waited for if nobody asks for it
        let scene = Scene::of([line(0), line(86_400_000)].concat().as_bytes());
        let done = scene.replay(4, ALL).unwrap();
        assert_eq!(done.latest_start_seconds, 0.0, "{done:?}");
    }

    /// A device that fails after some requests.
    struct Failing(Arc<AtomicU64>, u64);

    impl Target for Failing {
        fn size(&self) -> u64 {
            self.1
        }
        fn read(&mut self, _: u64, _: &mut [u8]) -> Result<()> {
            self.write(0, &[])
        }
        fn write(&mut self, _: u64, _: &[u8]) -> Result<()> {
            ensure!(self.0.fetch_add(1, Ordering::Relaxed) < 500, "it broke");
            Ok(())
        }
        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_error_of_the_device_ends_the_replay() {
        let scene = Scene::new(Plan { operations: 20_000, ..plan(Shape::Mail) });
        let count = Arc::new(AtomicU64::new(0));
        let target = || Box::new(Failing(count.clone(), 1 << 40)) as Box<dyn Target>;
        let targets = (0..4).map(|_| target()).collect();
        let wishes = Wishes { verify: false, ..ALL };
        let error = replay(&scene.survey, targets, wishes, &()).unwrap_err();
        assert_eq!(error.to_string(), "it broke");
        assert!(count.load(Ordering::Relaxed) < 20_000);
        // nor does one begin on a device that is too short
        let short = vec![Box::new(Failing(count, 4096)) as Box<dyn Target>];
        let error = replay(&scene.survey, short, wishes, &()).unwrap_err().to_string();
        assert!(error.contains("the device has 4096"), "{error}");
        assert!(scene.replay(0, wishes).is_err());
    }

    /// Cancels once replaying has begun.
    struct Impatient;

    impl Watch for Impatient {
        fn begin(&self, _: &str, _: u64) {}
        fn advance(&self, _: u64) {}
        fn is_cancelled(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_signal_ends_it_with_what_was_done() {
        let scene = Scene::new(Plan { operations: 10_000, ..plan(Shape::Mail) });
        scene.initialise();
        let done = replay(&scene.survey, scene.targets(2), ALL, &Impatient).unwrap();
        assert!(!done.is_complete);
        assert_eq!(done.operations, LOOK_EVERY);
        assert_eq!(done.reads.count + done.writes.count, LOOK_EVERY);
        assert!(Survey::of(&[scene.path()], &Impatient).is_err());
    }
}
