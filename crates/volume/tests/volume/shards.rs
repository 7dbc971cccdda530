//! What pools know is kept once, whoever keeps it and whatever becomes of questions and answers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
use onefold_backend::{Folder, MemoryFolder, Operation};
use onefold_block::{BlockDevice, BlockSize, Durability};
use onefold_seal::ObjectId;
use onefold_testkit::SplitMix64;
use onefold_volume::conformance::{self, take};
use onefold_volume::{Hash, Journals, Metadata, Options, Pool, Shard, VolumeError, Writer};

use crate::common::lost::lose_answers;
use crate::common::retried::until_answered;
use crate::common::shards::Shards;

const POOL: ObjectId = ObjectId::from_bytes([7; 16]);
const SHARD: Shard = Shard::of(POOL);

fn journals() -> Box<dyn Fn() -> Journals> {
    let folder: Arc<dyn Folder> = Arc::new(MemoryFolder::new());
    Journals::create(&*folder, POOL).unwrap();
    Box::new(move || Journals::new(Arc::clone(&folder), POOL))
}

#[test]
fn both_ways_of_keeping_promise_the_same() {
    let open = journals();
    conformance::metadata(&|| Arc::new(open()), SHARD);
    let shards = Arc::new(Shards::new(0, 0));
    conformance::metadata(&|| Arc::clone(&shards) as _, SHARD);
}

#[test]
fn a_shard_is_changed_by_its_own_writer_alone() {
    let other = Shard::of(ObjectId::from_bytes([8; 16]));
    conformance::many_shards(&Shards::new(0, 0), SHARD, other);
}

/// Writers follow one another, each asking again until there is an answer: all that was acknowledged
/// is told, once each and in order, and what was asked last and never answered may be.
fn acknowledged_once(seed: u64, shards: &Shards) {
    let mut numbers = SplitMix64::new(seed);
    let mut acknowledged: Vec<Vec<u8>> = Vec::new();
    let mut unanswered: Option<Vec<u8>> = None;
    for writer in 0..20_u64 {
        let (taken, (_, told)) = until_answered(|| take(shards, SHARD));
        let last = unanswered.take();
        if told.len() > acknowledged.len() {
            acknowledged.extend(last);
        }
        assert_eq!(told, acknowledged, "seed {seed}, writer {writer}");
        let mut sequence = taken.sequence;
        for batch in 0..numbers.next_u64() % 12 {
            let operations = format!("{writer}/{batch}").into_bytes();
            until_answered(|| shards.apply_batch(SHARD, taken.writer, sequence, &operations));
            acknowledged.push(operations);
            sequence += 1;
        }
        // and one more whose answer nobody waits for
        let operations = format!("{writer}/last").into_bytes();
        match shards.apply_batch(SHARD, taken.writer, sequence, &operations) {
            Ok(()) => acknowledged.push(operations),
            Err(_) => unanswered = Some(operations),
        }
    }
}

#[test]
fn what_was_acknowledged_is_told_once_and_in_order() {
    for seed in 0..200 {
        acknowledged_once(seed, &Shards::new(seed, 3));
    }
    // who takes every batch that comes is found out
    let naive = |seed| acknowledged_once(seed, &Shards::naive(seed, 3));
    let found = (0..20).filter(|seed| catch_unwind(|| naive(*seed)).is_err()).count();
    assert!(found > 10, "{found}");
}

#[test]
fn an_answer_that_was_lost_changes_nothing() {
    let troubles: u64 = (0..12).map(|seed| lose_answers(seed, Shards::new(seed, 4))).sum();
    assert!(troubles > 200, "{troubles}");
    let naive = |seed| lose_answers(seed, Shards::naive(seed, 4));
    let found = (0..6).filter(|seed| catch_unwind(AssertUnwindSafe(|| naive(*seed))).is_err());
    assert!(found.count() > 3);
}

#[test]
fn an_opening_reads_the_segments_that_batches_changed_together() {
    const SEGMENTS: u64 = 500;
    const SEGMENT: u64 = 512 * 512;
    let faults = Faults::none();
    let folder: Arc<dyn Folder> = Arc::new(Faulty::new(MemoryFolder::new(), "pool", &faults));
    Pool::create(&folder, Hash::Blake3).unwrap();
    let shards = Arc::new(Shards::new(0, 0));
    let open = || Pool::open_with(Arc::clone(&folder), Arc::clone(&shards) as _, small()).unwrap();
    let block = |content: u64, segment: u64| [(content + segment) as u8 | 1; 512];
    {
        let (pool, _) = open();
        pool.create_volume("a", SEGMENTS * SEGMENT, BlockSize::B512).unwrap();
        let volume = pool.volume("a").unwrap();
        for content in [0, 100] {
            // those of the checkpoint are changed by batches behind it
            pool.checkpoint().unwrap();
            for segment in 0..SEGMENTS {
                let at = segment * SEGMENT + content * 512;
                volume.write(at, &block(content, segment), Durability::OnReturn).unwrap();
            }
        }
    }
    let before = faults.count(Operation::Read);
    let (pool, damage) = open();
    let reads = faults.count(Operation::Read) - before;
    assert!(damage.is_empty() && reads < SEGMENTS / 10, "{reads} reads: {damage:?}");
    let volume = pool.volume("a").unwrap();
    for (content, segment) in
        [0, 100].into_iter().flat_map(|one| (0..SEGMENTS).map(move |at| (one, at)))
    {
        let mut found = [0; 512];
        volume.read(segment * SEGMENT + content * 512, &mut found).unwrap();
        assert_eq!(found, block(content, segment));
    }
}

fn containers(folder: &dyn Folder) -> Vec<String> {
    let names = folder.names().unwrap().into_iter();
    names.filter(|name| name.starts_with("container-")).collect()
}

#[test]
fn who_knows_nothing_of_a_pool_does_not_empty_it() {
    let folder: Arc<dyn Folder> = Arc::new(MemoryFolder::new());
    Pool::create(&folder, Hash::Blake3).unwrap();
    let right = Arc::new(Shards::new(0, 0));
    let open = |metadata: &Arc<Shards>| {
        Pool::open_with(Arc::clone(&folder), Arc::clone(metadata) as _, small())
    };
    let page = onefold_testkit::random(1, 4096);
    {
        let (pool, _) = open(&right).unwrap();
        pool.create_volume("a", 1 << 20, BlockSize::B4096).unwrap();
        pool.volume("a").unwrap().write(0, &page, Durability::OnReturn).unwrap();
    }
    let before = containers(&*folder);
    assert_eq!(before.len(), 1);
    let wrong = Arc::new(Shards::new(0, 0));
    // not the second time either
    let journals = Pool::open(Arc::clone(&folder), small()).err();
    for error in [open(&wrong).err(), open(&wrong).err(), journals] {
        let error = error.expect("it knows nothing");
        assert!(matches!(error, VolumeError::NothingKnown { .. }), "{error}");
        assert!(error.to_string().contains(&before[0]), "{error}");
        assert_eq!(containers(&*folder), before);
    }
    let (pool, damage) = open(&right).unwrap();
    assert!(damage.is_empty(), "{damage:?}");
    let mut found = vec![0; 4096];
    pool.volume("a").unwrap().read(0, &mut found).unwrap();
    assert!(found == page);
}

#[test]
fn a_pool_of_which_nothing_was_kept_gets_no_containers() {
    let faults = Faults::none();
    let folder: Arc<dyn Folder> = Arc::new(Faulty::new(MemoryFolder::new(), "pool", &faults));
    Pool::create(&folder, Hash::Blake3).unwrap();
    let (pool, _) = Pool::open(Arc::clone(&folder), small()).unwrap();
    faults.add(Fault::new(Failure::Full).on(Operation::Append).named("journal-").times(9));
    pool.create_volume("a", 1 << 20, BlockSize::B4096).unwrap_err();
    let volume = pool.volume("a").unwrap();
    let page = onefold_testkit::random(1, 4096);
    volume.write(0, &page, Durability::OnFlush).unwrap_err();
    assert_eq!(containers(&*folder), [""; 0]);
    drop((volume, pool));
    let (pool, _) = Pool::open(Arc::clone(&folder), small()).unwrap();
    assert_eq!(pool.volumes(), []);
}

fn small() -> Options {
    Options { table_bytes: 64 << 10, ..Options::default() }
}

#[test]
#[should_panic(expected = "one pool")]
fn a_folder_knows_its_own_pool_alone() {
    let other = Shard::of(ObjectId::from_bytes([8; 16]));
    let _ = journals()().apply_batch(other, Writer(1), 0, b"x");
}

#[test]
fn a_look_at_the_mark_that_fails_behind_the_sync_is_for_good() {
    let (inner, faults) = (MemoryFolder::new(), Faults::none());
    Journals::create(&inner, POOL).unwrap();
    let journals = Journals::new(Arc::new(Faulty::new(inner, "pool", &faults)), POOL);
    let (taken, _) = take(&journals, SHARD).unwrap();
    let batch = |sequence| journals.apply_batch(SHARD, taken.writer, sequence, b"a");
    batch(0).unwrap();
    let fault = || Fault::new(Failure::Io).on(Operation::Read).named("writer");
    // before it nothing was done: it is asked again
    faults.add(fault());
    assert!(matches!(batch(1), Err(VolumeError::Backend(_))));
    batch(1).unwrap();
    faults.add(fault().skip(2));
    assert!(matches!(batch(2), Err(VolumeError::Stopped { .. })));
    assert!(matches!(batch(2), Err(VolumeError::Stopped { .. })));
    let (again, told) = take(&journals, SHARD).unwrap();
    assert_eq!((again.sequence, told.1.len()), (3, 3), "the frame was synced");
}

#[test]
fn who_shares_what_could_not_be_opened_again_is_told() {
    let folder = Arc::new(MemoryFolder::new());
    Journals::create(&*folder, POOL).unwrap();
    let journals = Journals::new(Arc::clone(&folder) as _, POOL);
    let (taken, _) = take(&journals, SHARD).unwrap();
    folder.remove("writer").unwrap();
    assert!(matches!(take(&journals, SHARD), Err(VolumeError::Damaged { .. })));
    let errors = [
        journals.apply_batch(SHARD, taken.writer, 0, b"a").unwrap_err(),
        journals.expect_current(SHARD, taken.writer).unwrap_err(),
    ];
    assert!(errors.iter().all(|one| matches!(one, VolumeError::Stopped { .. })), "{errors:?}");
}
