//! Pools whose shards are in objects, of which operations get no answer now and then.

use std::sync::{Arc, Mutex, OnceLock, Weak};

use onefold_backend::rados::{Fate, FatedRados, MemoryRados, Step};
use onefold_cluster::{JournalSizes, RadosJournals};
use onefold_testkit::SplitMix64;
use onefold_volume::{Checkpoint, Metadata, Shard, Take, Taken, VolumeError, Writer};

use crate::retried;

/// Journals that make each shard that is taken over, unless it is there.
struct Making(RadosJournals);

impl Metadata for Making {
    fn take_over(&self, shard: Shard, take: &mut Take<'_>) -> Result<Taken, VolumeError> {
        match self.0.create(shard) {
            Err(error @ VolumeError::Unanswered { .. }) => Err(error),
            // or it is there, as the next line finds out
            _ => self.0.take_over(shard, take),
        }
    }

    fn apply_batch(
        &self,
        shard: Shard,
        writer: Writer,
        sequence: u64,
        operations: &[u8],
    ) -> Result<(), VolumeError> {
        self.0.apply_batch(shard, writer, sequence, operations)
    }

    fn expect_current(&self, shard: Shard, writer: Writer) -> Result<(), VolumeError> {
        self.0.expect_current(shard, writer)
    }

    fn checkpoint<'a>(
        &'a self,
        shard: Shard,
        writer: Writer,
        sequence: u64,
    ) -> Result<Option<Box<dyn Checkpoint + 'a>>, VolumeError> {
        self.0.checkpoint(shard, writer, sequence)
    }
}

/// What goes wrong with one operation of so many.
struct Trouble {
    numbers: Mutex<SplitMix64>,
    client: OnceLock<Weak<FatedRados>>,
    count: Mutex<u64>,
}

impl Trouble {
    fn below(&self, bound: u64) -> u64 {
        self.numbers.lock().unwrap().next_u64() % bound
    }

    fn fate(&self, is_making: bool) -> Fate {
        let client = self.client.get().and_then(Weak::upgrade).expect("it calls");
        if client.undelivered() > 0 && self.below(3) == 0 {
            // whoever sent it waits no more
            let _ = client.deliver(self.below(client.undelivered() as u64) as usize);
        }
        let fate = match self.below(60) {
            0 => Fate::Lost,
            1 => Fate::AnswerLost,
            2 => Fate::Late,
            3 if !is_making => Fate::Twice,
            _ => return Fate::Answered,
        };
        *self.count.lock().unwrap() += 1;
        fate
    }
}

#[test]
fn an_answer_that_was_lost_changes_nothing() {
    let mut troubles = 0;
    for seed in 0..20 {
        let trouble = Arc::new(Trouble {
            numbers: Mutex::new(SplitMix64::new(seed)),
            client: OnceLock::new(),
            count: Mutex::new(0),
        });
        let chosen = Arc::clone(&trouble);
        let client =
            Arc::new(FatedRados::new(Arc::new(MemoryRados::replicated()), move |_, update| {
                let first = update.and_then(|update| update.steps().first());
                chosen.fate(first == Some(&Step::Create))
            }));
        trouble.client.set(Arc::downgrade(&client)).expect("it is set once");
        let sizes = JournalSizes { segment: 3_000, part: 500 };
        let journals = Making(RadosJournals::new(client, sizes).unwrap());
        retried::take_turns(seed, &(Arc::new(journals) as _));
        troubles += *trouble.count.lock().unwrap();
    }
    assert!(troubles > 200, "{troubles}");
}
