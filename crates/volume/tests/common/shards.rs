//! What pools know in memory, as a cluster might keep it: a shard for each pool. Told to, it loses
//! requests and answers, and requests arrive late or twice.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use onefold_testkit::SplitMix64;
use onefold_volume::{Checkpoint, Known, Metadata, Shard, Take, Taken, VolumeError, Writer};

#[derive(Default)]
struct One {
    writer: u64,
    checkpoint: Vec<Vec<u8>>,
    /// How many batches the checkpoint has taken the place of.
    base: u64,
    batches: Vec<Vec<u8>>,
}

impl One {
    fn next(&self) -> u64 {
        self.base + self.batches.len() as u64
    }

    fn expect(&self, writer: Writer) -> Result<(), VolumeError> {
        match self.writer == writer.0 {
            true => Ok(()),
            false => Err(VolumeError::Superseded { writer, by: Writer(self.writer) }),
        }
    }

    /// The rule of batches.
    fn apply(&mut self, batch: &Batch) -> Result<(), VolumeError> {
        self.expect(batch.writer)?;
        let (sequence, expected) = (batch.sequence, self.next());
        if sequence > expected {
            return Err(VolumeError::OutOfOrder { sequence, expected });
        }
        if sequence == expected {
            self.batches.push(batch.operations.clone());
        }
        Ok(())
    }
}

struct Batch {
    shard: Shard,
    writer: Writer,
    sequence: u64,
    operations: Vec<u8>,
}

struct Inner {
    shards: BTreeMap<Shard, One>,
    late: Vec<Batch>,
    numbers: SplitMix64,
    trouble: u64,
    is_naive: bool,
    troubles: u64,
}

/// Shards of any number of pools.
pub(crate) struct Shards(Mutex<Inner>);

/// What becomes of a request.
enum Fate {
    Answered,
    Lost,
    AnswerLost,
    Late,
    Twice,
}

fn unanswered() -> VolumeError {
    VolumeError::Unanswered { source: "no answer came".into() }
}

impl Shards {
    /// Of every `trouble` requests about one goes wrong; of none if that is 0.
    pub(crate) fn new(seed: u64, trouble: u64) -> Self {
        Self(Mutex::new(Inner {
            shards: BTreeMap::new(),
            late: Vec::new(),
            numbers: SplitMix64::new(seed),
            trouble,
            is_naive: false,
            troubles: 0,
        }))
    }

    /// The same, but each batch that arrives is taken, whatever its writer and number.
    #[allow(dead_code, reason = "not every test shows that tests can fail")]
    pub(crate) fn naive(seed: u64, trouble: u64) -> Self {
        let shards = Self::new(seed, trouble);
        shards.inner().is_naive = true;
        shards
    }

    /// How many requests went wrong.
    pub(crate) fn troubles(&self) -> u64 {
        self.inner().troubles
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Inner {
    fn below(&mut self, bound: u64) -> u64 {
        self.numbers.next_u64() % bound
    }

    fn fate(&mut self) -> Fate {
        if self.trouble == 0 || self.below(self.trouble) > 0 {
            return Fate::Answered;
        }
        self.troubles += 1;
        match self.below(4) {
            0 => Fate::Lost,
            1 => Fate::AnswerLost,
            2 => Fate::Late,
            _ => Fate::Twice,
        }
    }

    fn one(&mut self, shard: Shard) -> &mut One {
        self.shards.entry(shard).or_default()
    }

    fn apply(&mut self, batch: &Batch) -> Result<(), VolumeError> {
        let is_naive = self.is_naive;
        let one = self.one(batch.shard);
        if is_naive {
            one.batches.push(batch.operations.clone());
            return Ok(());
        }
        one.apply(batch)
    }

    /// What is late may arrive before anything else does.
    fn deliver(&mut self) {
        while !self.late.is_empty() && self.below(3) == 0 {
            let at = self.below(self.late.len() as u64) as usize;
            let batch = self.late.swap_remove(at);
            // whoever sent it listens no more
            let _ = self.apply(&batch);
        }
    }
}

impl Metadata for Shards {
    fn take_over(&self, shard: Shard, take: &mut Take<'_>) -> Result<Taken, VolumeError> {
        let mut inner = self.inner();
        inner.deliver();
        let fate = inner.fate();
        if matches!(fate, Fate::Lost) {
            return Err(unanswered());
        }
        let one = inner.one(shard);
        one.writer += 1;
        if !matches!(fate, Fate::Answered) {
            return Err(unanswered());
        }
        let malformed =
            |source| VolumeError::Malformed { object: format!("{:?}", shard.id()), source };
        take(Known::Anew).map_err(malformed)?;
        for operations in &one.checkpoint {
            take(Known::Checkpoint(operations)).map_err(malformed)?;
        }
        let coming: Vec<&[u8]> = one.batches.iter().map(|batch| &batch[..]).collect();
        take(Known::Coming(&coming)).map_err(malformed)?;
        for operations in &one.batches {
            take(Known::Batch(operations)).map_err(malformed)?;
        }
        Ok(Taken { writer: Writer(one.writer), sequence: one.next(), places: 1 })
    }

    fn apply_batch(
        &self,
        shard: Shard,
        writer: Writer,
        sequence: u64,
        operations: &[u8],
    ) -> Result<(), VolumeError> {
        let mut inner = self.inner();
        inner.deliver();
        let batch = Batch { shard, writer, sequence, operations: operations.to_vec() };
        match inner.fate() {
            Fate::Answered => inner.apply(&batch),
            Fate::Lost => Err(unanswered()),
            Fate::AnswerLost => {
                let _ = inner.apply(&batch);
                Err(unanswered())
            }
            Fate::Late => {
                inner.late.push(batch);
                Err(unanswered())
            }
            Fate::Twice => {
                let done = inner.apply(&batch);
                inner.late.push(batch);
                done
            }
        }
    }

    fn expect_current(&self, shard: Shard, writer: Writer) -> Result<(), VolumeError> {
        self.inner().one(shard).expect(writer)
    }

    fn checkpoint<'a>(
        &'a self,
        shard: Shard,
        writer: Writer,
        sequence: u64,
    ) -> Result<Option<Box<dyn Checkpoint + 'a>>, VolumeError> {
        let mut inner = self.inner();
        let one = inner.one(shard);
        one.expect(writer)?;
        if one.next() != sequence {
            return Err(VolumeError::OutOfOrder { sequence, expected: one.next() });
        }
        if one.base == sequence {
            return Ok(None);
        }
        let writing = Writing { shards: self, shard, writer, sequence, operations: Vec::new() };
        Ok(Some(Box::new(writing)))
    }
}

struct Writing<'a> {
    shards: &'a Shards,
    shard: Shard,
    writer: Writer,
    sequence: u64,
    operations: Vec<Vec<u8>>,
}

impl Checkpoint for Writing<'_> {
    fn put(&mut self, operations: &[u8]) -> Result<(), VolumeError> {
        self.operations.push(operations.to_vec());
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), VolumeError> {
        let mut inner = self.shards.inner();
        let fate = inner.fate();
        if matches!(fate, Fate::Lost) {
            return Err(unanswered());
        }
        let one = inner.one(self.shard);
        one.expect(self.writer)?;
        one.batches.drain(..(self.sequence - one.base) as usize);
        (one.base, one.checkpoint) = (self.sequence, self.operations);
        if matches!(fate, Fate::Answered) { Ok(()) } else { Err(unanswered()) }
    }
}
