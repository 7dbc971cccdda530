//! A gateway that shares containers and crashes at any of its updates: another one takes its shard over, and
//! nothing that was acknowledged is missing, in any shard; after everything is deleted nothing is left.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use onefold_backend::rados::{Fate, FatedRados, MemoryRados, RadosPool};
use onefold_block::{BlockDevice, BlockError, BlockSize, Durability};
use onefold_cluster::{SharedShard, open_shard};
use onefold_volume::VolumeError;

use crate::common::shards::{Space, expect, expect_sound, id, image, options, put};

const PAGE: usize = 4096;
/// Blocks of the volume of the gateway that crashes.
const BLOCKS: usize = 200;

/// A client of `pool` that counts its updates in `sent`: number `at` meets `fate`, and it reaches nothing
/// after that.
fn client(
    pool: &Arc<dyn RadosPool>,
    sent: &Arc<AtomicUsize>,
    at: usize,
    fate: Fate,
) -> Arc<FatedRados> {
    let sent = Arc::clone(sent);
    Arc::new(FatedRados::new(Arc::clone(pool), move |_, update| {
        let now = match update {
            Some(_) => sent.fetch_add(1, Ordering::SeqCst),
            None => sent.load(Ordering::SeqCst).saturating_sub(1),
        };
        match now {
            now if now > at => Fate::Lost,
            now if now == at && update.is_some() => fate,
            // a query after the last update gets no answer either
            now if now == at => Fate::Lost,
            _ => Fate::Answered,
        }
    }))
}

/// What the client of the gateway that crashes knows.
struct Client {
    shard: SharedShard,
    /// What was acknowledged.
    bytes: Vec<u8>,
    /// What a write that got no answer may have put where.
    unanswered: Option<(usize, Vec<u8>)>,
    is_deleted: bool,
}

enum Stop {
    Crashed,
}

impl From<VolumeError> for Stop {
    fn from(_: VolumeError) -> Self {
        Self::Crashed
    }
}

impl From<BlockError> for Stop {
    fn from(_: BlockError) -> Self {
        Self::Crashed
    }
}

impl Client {
    fn write(&mut self, block: usize, bytes: &[u8]) -> Result<(), Stop> {
        let volume = self.shard.pool().volume("v")?;
        for (at, part) in (block..).step_by(16).zip(bytes.chunks(16 * PAGE)) {
            self.unanswered = Some((at * PAGE, part.to_vec()));
            volume.write((at * PAGE) as u64, part, Durability::OnReturn)?;
            self.unanswered = None;
            self.bytes[at * PAGE..][..part.len()].copy_from_slice(part);
        }
        Ok(())
    }

    fn erase(&mut self, blocks: std::ops::Range<usize>) -> Result<(), Stop> {
        let range = blocks.start * PAGE..blocks.end * PAGE;
        let volume = self.shard.pool().volume("v")?;
        self.unanswered = Some((range.start, vec![0; range.len()]));
        volume.erase(range.start as u64..range.end as u64, Durability::OnReturn)?;
        self.unanswered = None;
        self.bytes[range].fill(0);
        Ok(())
    }

    /// Each step of the protocol: creates, registers, maps, drops, closes, sweeps.
    fn run(&mut self, foreign: &[u8]) -> Result<(), Stop> {
        // pages of another shard, and new ones
        self.write(0, &foreign[..60 * PAGE])?;
        self.write(60, &image(77, 70))?;
        self.shard.pool().checkpoint()?;
        self.write(130, &foreign[60 * PAGE..100 * PAGE])?;
        self.shard.maintain()?;
        // some containers are needed no more
        self.erase(0..30)?;
        self.erase(60..100)?;
        self.shard.maintain()?;
        self.shard.close_sparse(0.05)?;
        self.shard.maintain()?;
        self.erase(130..170)?;
        self.write(10, &image(78, 20))?;
        self.shard.maintain()?;
        self.shard.pool().checkpoint()?;
        self.is_deleted = true;
        self.shard.pool().delete_volume("v")?;
        self.shard.maintain()?;
        Ok(())
    }
}

/// Runs with a crash at update `at`; false if there are fewer.
fn crash(at: usize, fate: Fate) -> bool {
    let space =
        Space::over(Arc::new(MemoryRados::replicated()), Arc::new(MemoryRados::replicated()));
    let foreign = image(1, 150);
    let first = space.add(1);
    put(&first, "a", &foreign);
    first.maintain().unwrap();
    let second = space.add(2);
    second.pool().create_volume("v", (BLOCKS * PAGE) as u64, BlockSize::B4096).unwrap();
    drop(second);
    // both pools crash at one moment: an update counts whichever it is for
    let sent = Arc::default();
    let clients = [&space.meta, &space.data].map(|pool| client(pool, &sent, at, fate));
    let [meta, data] = [0, 1].map(|n| Arc::clone(&clients[n]) as Arc<dyn RadosPool>);
    let opened = open_shard(&meta, &data, id(2), Arc::clone(&space.hints) as _, options());
    let mut model = (vec![0; BLOCKS * PAGE], None, false);
    let mut is_over = false;
    if let Ok((shard, _)) = opened {
        let mut client = Client { shard, bytes: model.0, unanswered: None, is_deleted: false };
        is_over = client.run(&foreign).is_ok();
        model = (client.bytes, client.unanswered, client.is_deleted);
    }
    let what = format!("update {at}, {fate:?}");
    let second = space.open(2);
    let look = |shard: &SharedShard| {
        expect(&first, "a", &foreign);
        expect_sound(shard);
        let Ok(volume) = shard.pool().volume("v") else {
            assert!(model.2, "{what}: the volume is gone");
            return;
        };
        let mut found = vec![0; BLOCKS * PAGE];
        volume.read(0, &mut found).unwrap_or_else(|error| panic!("{what}: {error}"));
        for (block, page) in found.chunks(PAGE).enumerate() {
            let at = block * PAGE;
            let is_acknowledged = page == &model.0[at..at + PAGE];
            let is_unanswered = model.1.as_ref().is_some_and(|(begin, bytes)| {
                at.checked_sub(*begin).and_then(|at| bytes.get(at..at + PAGE)) == Some(page)
            });
            assert!(is_acknowledged || is_unanswered, "{what}: block {block} has other bytes");
        }
    };
    look(&second);
    second.maintain().unwrap();
    // what the crashed gateway sent arrives now
    for client in &clients {
        while client.undelivered() > 0 {
            let _ = client.deliver(0);
        }
    }
    look(&second);
    second.maintain().unwrap();
    look(&second);
    drop(second);
    let second = space.open(2);
    look(&second);
    if second.pool().volume("v").is_ok() {
        second.pool().delete_volume("v").unwrap();
    }
    first.pool().delete_volume("a").unwrap();
    for shard in [&first, &second, &first, &second] {
        shard.maintain().unwrap();
    }
    assert_eq!(space.left(), Vec::<String>::new(), "{what}: {:#?}", space.guards());
    !is_over
}

/// Crashes at every `step`th update, from `first` on; how many.
fn crashes(first: usize, step: usize, fate: Fate) -> usize {
    (first..).step_by(step).take_while(|at| crash(*at, fate)).count()
}

#[test]
fn a_crash_after_an_update_loses_and_leaves_nothing() {
    let count = crashes(0, 1, Fate::AnswerLost);
    assert!(count > 60, "{count}");
    println!("{count} crashes");
}

#[test]
fn a_crash_before_an_update_loses_and_leaves_nothing() {
    let count = crashes(0, 1, Fate::Lost);
    assert!(count > 60, "{count}");
}

#[test]
fn an_update_that_arrives_after_the_take_over_loses_and_leaves_nothing() {
    let count = crashes(0, 1, Fate::Late);
    assert!(count > 60, "{count}");
}
