//! Gateways race for a shard: answers are lost, updates arrive late or twice, and processes end anywhere.
//!
//! Threads run one at a time and change between any two operations on objects, as the seed says.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use onefold_backend::rados::{Fate, FatedRados, MemoryRados, RadosPool, Refusal, Step, Update};
use onefold_cluster::{JournalSizes, RadosJournals};
use onefold_seal::ObjectId;
use onefold_volume::{Known, Metadata, Shard, Taken, VolumeError, Writer};

use super::turns::Turns;

const SHARD: Shard = Shard::of(ObjectId::from_bytes([7; 16]));
const GATEWAYS: usize = 3;
/// How often each process is started.
const LIVES: usize = 3;

/// What happened in all races.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) taken_over: u64,
    pub(crate) acknowledged: u64,
    /// Batches that were acknowledged when they were submitted again.
    pub(crate) resubmitted: u64,
    pub(crate) superseded: u64,
    pub(crate) checkpoints: u64,
    /// Updates that happened when nobody waited for them any more.
    pub(crate) late: u64,
    /// Objects that nothing led to, and that were removed.
    pub(crate) leaked: u64,
    /// How many segments a later writer read at most.
    pub(crate) places: u64,
}

/// What gateways were told, and so what must hold.
#[derive(Default)]
struct Told {
    /// By whom, with which number, and which batch.
    acknowledged: Vec<(Writer, u64, String)>,
    /// All batches that a writer got when it took the shard over.
    histories: Vec<(Writer, Vec<String>)>,
    tally: Tally,
}

impl Told {
    fn acknowledge(&mut self, writer: Writer, sequence: u64, batch: &str) {
        for (other, history) in self.histories.iter().filter(|(other, _)| *other > writer) {
            let found = history.get(sequence as usize);
            assert!(
                found.is_some_and(|found| found == batch),
                "writer {writer} was acknowledged batch {sequence}, {batch}, and writer {other} had got \
                 {found:?}",
            );
        }
        for (other, number, found) in &self.acknowledged {
            assert!(
                *number != sequence || found == batch,
                "batch {sequence} is {batch} to writer {writer} and {found} to writer {other}",
            );
        }
        self.acknowledged.push((writer, sequence, batch.to_owned()));
        self.tally.acknowledged += 1;
    }

    fn take_over(&mut self, writer: Writer, history: Vec<String>) {
        let distinct: BTreeSet<&String> = history.iter().collect();
        assert_eq!(distinct.len(), history.len(), "writer {writer} got a batch twice: {history:?}");
        for (other, sequence, batch) in self.acknowledged.iter().filter(|one| one.0 < writer) {
            let found = history.get(*sequence as usize);
            assert!(
                found == Some(batch),
                "writer {writer} got {found:?}, and batch {sequence} of writer {other} was {batch}",
            );
        }
        for (other, found) in &self.histories {
            assert_ne!(*other, writer, "two writers have one number");
            let (earlier, later) =
                if *other < writer { (found, &history) } else { (&history, found) };
            assert!(later.starts_with(earlier), "{later:?} of {writer} and {earlier:?} of {other}");
        }
        self.histories.push((writer, history));
        self.tally.taken_over += 1;
    }
}

struct World {
    pool: Arc<MemoryRados>,
    turns: Turns,
    /// As each process saw the pool.
    clients: Mutex<Vec<Arc<FatedRados>>>,
    told: Mutex<Told>,
    /// Of so many operations about one goes wrong; of none if that is 0.
    trouble: u64,
    sizes: JournalSizes,
}

/// Whether the caller may go on: the error is one that it has to expect.
fn expect_trouble(error: &VolumeError) {
    let is_full = matches!(error, VolumeError::Backend(error) if error.is_full());
    assert!(is_full || matches!(error, VolumeError::Unanswered { .. }), "{error}");
}

/// The end of a process.
struct Ended;

impl World {
    fn told<T>(&self, tell: impl FnOnce(&mut Told) -> T) -> T {
        tell(&mut self.told.lock().unwrap())
    }

    /// Before each operation of a process: others run, late updates happen, and it meets its fate.
    fn fate(&self, gateway: usize, object: &str, update: Option<&Update>) -> Fate {
        self.turns.pass(gateway);
        if self.trouble == 0 {
            return Fate::Answered;
        }
        let below = |bound| self.turns.below(bound);
        if below(3) == 0 {
            self.deliver_one();
        }
        let is_making = update.is_some_and(|update| update.steps()[0] == Step::Create);
        // the head changes seldom, and each change matters
        let is_head = object.ends_with(".head") && update.is_some();
        match below(if is_head { self.trouble * 2 } else { self.trouble * 5 }) {
            0 => Fate::Lost,
            1 => Fate::AnswerLost,
            2 => Fate::Late,
            3 if !is_making => Fate::Twice,
            4 => Fate::Refused(Refusal::Full),
            _ => Fate::Answered,
        }
    }

    fn deliver_one(&self) -> bool {
        let delivered = self.turns.deliver_one(&self.clients.lock().unwrap());
        if delivered == Some(true) {
            self.told(|told| told.tally.late += 1);
        }
        delivered.is_some()
    }

    /// A process of `gateway`.
    fn start(self: &Arc<Self>, gateway: usize) -> RadosJournals {
        let world = Arc::downgrade(self);
        let fate = move |object: &str, update: Option<&Update>| {
            world.upgrade().expect("a race goes on").fate(gateway, object, update)
        };
        let client = Arc::new(FatedRados::new(Arc::clone(&self.pool) as _, fate));
        self.clients.lock().unwrap().push(Arc::clone(&client));
        RadosJournals::new(client, self.sizes).unwrap()
    }
}

/// One process: takes the shard over, works and ends.
struct Process<'a> {
    world: &'a World,
    name: String,
    journals: RadosJournals,
    writer: Writer,
    /// All batches.
    history: Vec<String>,
}

impl Process<'_> {
    fn below(&self, bound: u64) -> u64 {
        self.world.turns.below(bound)
    }

    /// Whether what was to be done was done.
    fn done<T>(&self, result: Result<T, VolumeError>) -> Result<Option<T>, Ended> {
        match result {
            Ok(done) => Ok(Some(done)),
            Err(VolumeError::Superseded { writer, by }) => {
                assert!(by > writer && writer == self.writer, "{writer} by {by}");
                self.world.told(|told| told.tally.superseded += 1);
                Err(Ended)
            }
            Err(error) => {
                expect_trouble(&error);
                Ok(None)
            }
        }
    }

    fn take_over(&mut self) -> Result<(), Ended> {
        for _ in 0..4 {
            let (mut history, mut found) = (Vec::new(), Writer(0));
            let taken = self.journals.take_over(SHARD, &mut |known| {
                match known {
                    Known::Writer(writer) => found = writer,
                    Known::Coming(_) => {}
                    Known::Anew => history.clear(),
                    Known::Checkpoint(operations) | Known::Batch(operations) => {
                        let batches = str::from_utf8(operations).unwrap().lines();
                        history.extend(batches.map(ToOwned::to_owned));
                    }
                }
                Ok(())
            });
            match taken {
                Ok(Taken { writer, sequence, places }) => {
                    assert_eq!((writer, sequence), (found, history.len() as u64));
                    self.world.told(|told| {
                        told.take_over(writer, history.clone());
                        told.tally.places = told.tally.places.max(places);
                    });
                    (self.writer, self.history) = (writer, history);
                    return Ok(());
                }
                Err(VolumeError::Superseded { writer, by }) => assert!(by > writer),
                Err(error) => expect_trouble(&error),
            }
        }
        Err(Ended)
    }

    fn batch(&mut self) -> Result<(), Ended> {
        let sequence = self.history.len() as u64;
        let batch = format!("{}/{sequence}", self.name);
        let operations = format!("{batch}\n");
        for attempt in 0..3 {
            let result =
                self.journals.apply_batch(SHARD, self.writer, sequence, operations.as_bytes());
            if self.done(result)?.is_some() {
                self.world.told(|told| {
                    told.acknowledge(self.writer, sequence, &batch);
                    told.tally.resubmitted += u64::from(attempt > 0);
                });
                self.history.push(batch);
                return Ok(());
            }
            if self.below(4) == 0 {
                // something else may be asked for in between, and must not lose the batch
                self.checkpoint(false)?;
            }
        }
        Err(Ended)
    }

    fn checkpoint(&mut self, goes_on: bool) -> Result<(), Ended> {
        let before = self.history.clone();
        // the process would hold a borrow of itself
        let journals = &self.journals;
        let begun = journals.checkpoint(SHARD, self.writer, before.len() as u64);
        let Some(Some(mut checkpoint)) = self.done(begun)? else { return Ok(()) };
        for part in before.chunks(3) {
            let operations: String = part.iter().map(|batch| format!("{batch}\n")).collect();
            if self.done(checkpoint.put(operations.as_bytes()))?.is_none() {
                return Ok(());
            }
        }
        // batches go on meanwhile
        if goes_on {
            let sequence = self.history.len() as u64;
            let batch = format!("{}/{sequence}", self.name);
            let operations = format!("{batch}\n");
            for _ in 0..2 {
                let applied =
                    journals.apply_batch(SHARD, self.writer, sequence, operations.as_bytes());
                if self.done(applied)?.is_some() {
                    self.world.told(|told| told.acknowledge(self.writer, sequence, &batch));
                    self.history.push(batch);
                    break;
                }
            }
            if self.history.len() as u64 == sequence {
                return Err(Ended);
            }
        }
        if self.below(8) > 0 && self.done(checkpoint.finish())?.is_some() {
            self.world.told(|told| told.tally.checkpoints += 1);
        }
        Ok(())
    }

    fn work(&mut self) -> Result<(), Ended> {
        self.take_over()?;
        if self.below(4) == 0 {
            self.checkpoint(false)?;
        }
        for _ in 0..2 + self.below(8) {
            match self.below(8) {
                0 | 1 => {
                    let goes_on = self.below(2) == 0;
                    self.checkpoint(goes_on)?;
                }
                2 => {
                    let current = self.journals.expect_current(SHARD, self.writer);
                    self.done(current)?;
                }
                3 if self.below(2) == 0 => {
                    if self.below(2) == 0 {
                        // behind one that is not finished the last segment is empty
                        let sequence = self.history.len() as u64;
                        let begun = self.journals.checkpoint(SHARD, self.writer, sequence);
                        self.done(begun.map(drop))?;
                    }
                    let removed = self.journals.remove_leaked(SHARD, self.writer);
                    let removed = self.done(removed)?.unwrap_or_default();
                    self.world.told(|told| told.tally.leaked += removed);
                }
                _ => self.batch()?,
            }
        }
        Ok(())
    }
}

/// Fails unless a checkpoint, and a look for what was leaked, leave nothing but what is needed.
fn all_returns(journals: &RadosJournals, taken: Taken, pool: &dyn RadosPool) {
    let Taken { writer, sequence, .. } = taken;
    journals.apply_batch(SHARD, writer, sequence, b"last").unwrap();
    let mut checkpoint = journals.checkpoint(SHARD, writer, sequence + 1).unwrap().unwrap();
    checkpoint.put(b"all").unwrap();
    checkpoint.finish().unwrap();
    journals.remove_leaked(SHARD, writer).unwrap();
    let mut left = Vec::new();
    pool.list(&mut |name| {
        left.push(name.to_owned());
        ControlFlow::Continue(())
    })
    .unwrap();
    let kinds = [".checkpoint.", ".head", ".segment."];
    let is_needed =
        left.len() == 3 && left.iter().zip(kinds).all(|(name, kind)| name.contains(kind));
    assert!(is_needed, "{left:?}");
    let mut told = Vec::new();
    let again = journals.take_over(SHARD, &mut |known| {
        if let Known::Checkpoint(operations) | Known::Batch(operations) = known {
            told.extend_from_slice(operations);
        }
        Ok(())
    });
    assert_eq!((again.unwrap().sequence, &told[..]), (sequence + 1, &b"all"[..]));
}

/// Runs one race, and fails if anything that a gateway was told does not hold.
pub(crate) fn race(seed: u64, trouble: u64, tally: &mut Tally) {
    let pool = Arc::new(MemoryRados::replicated());
    let sizes = JournalSizes { segment: 60 + 60 * (seed % 4), part: 100 };
    RadosJournals::new(Arc::clone(&pool) as _, sizes).unwrap().create(SHARD).unwrap();
    let world = Arc::new(World {
        pool: Arc::clone(&pool),
        turns: Turns::new(seed, GATEWAYS),
        clients: Mutex::default(),
        told: Mutex::default(),
        trouble,
        sizes,
    });
    world.turns.run(|gateway| {
        for life in 0..LIVES {
            let (name, journals) = (format!("{gateway}.{life}"), world.start(gateway));
            let (writer, history) = (Writer(0), Vec::new());
            let mut process = Process { world: &world, name, journals, writer, history };
            // how it ended makes no difference to the next one
            let _ = process.work();
        }
    });
    while world.deliver_one() {}
    // one more, on whom nothing happens
    let last = RadosJournals::new(Arc::clone(&pool) as _, sizes).unwrap();
    let mut history = Vec::new();
    let taken = last.take_over(SHARD, &mut |known| {
        if let Known::Checkpoint(operations) | Known::Batch(operations) = known {
            history.extend(str::from_utf8(operations).unwrap().lines().map(ToOwned::to_owned));
        }
        Ok(())
    });
    let taken = taken.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    all_returns(&last, taken, &*pool);
    world.told(|told| {
        told.take_over(taken.writer, history);
        let found = std::mem::take(&mut told.tally);
        tally.taken_over += found.taken_over;
        tally.acknowledged += found.acknowledged;
        tally.resubmitted += found.resubmitted;
        tally.superseded += found.superseded;
        tally.checkpoints += found.checkpoints;
        tally.late += found.late;
        tally.leaked += found.leaked;
        tally.places = tally.places.max(found.places);
    });
}
