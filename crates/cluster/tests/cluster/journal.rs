//! What shards know is kept in objects: as the contract says, and nothing else stays.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use onefold_backend::rados::{
    Fate, FatedRados, MemoryRados, PoolKind, RadosPool, Refusal, Step, Update,
};
use onefold_cluster::{ClusterError, JournalSizes, RadosJournals};
use onefold_seal::ObjectId;
use onefold_volume::conformance::{self, take};
use onefold_volume::{MAX_BATCH, Metadata, Shard, VolumeError};

const SHARD: Shard = Shard::of(ObjectId::from_bytes([7; 16]));
const OTHER: Shard = Shard::of(ObjectId::from_bytes([8; 16]));
/// Each batch in a segment of its own, and each frame in a part.
const TINY: JournalSizes = JournalSizes { segment: 1, part: 1 };

fn journals(pool: &Arc<MemoryRados>, sizes: JournalSizes) -> RadosJournals {
    RadosJournals::new(Arc::clone(pool) as _, sizes).unwrap()
}

/// A pool with two new shards.
fn pool() -> Arc<MemoryRados> {
    let pool = Arc::new(MemoryRados::replicated());
    let journals = journals(&pool, TINY);
    journals.create(SHARD).unwrap();
    journals.create(OTHER).unwrap();
    pool
}

#[test]
fn journals_in_objects_keep_what_the_contract_says() {
    for sizes in [TINY, JournalSizes { segment: 90, part: 80 }, JournalSizes::default()] {
        let pool = pool();
        conformance::metadata(&|| Arc::new(journals(&pool, sizes)), SHARD);
        conformance::many_shards(&journals(&self::pool(), sizes), SHARD, OTHER);
    }
}

/// The names of the objects of [`SHARD`], without its id.
fn names(pool: &dyn RadosPool) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let prefix = format!("{}.", SHARD.id());
    pool.list(&mut |name| {
        names.extend(name.strip_prefix(&prefix).map(ToOwned::to_owned));
        ControlFlow::Continue(())
    })
    .unwrap();
    names
}

fn segments(pool: &dyn RadosPool) -> Vec<String> {
    names(pool).into_iter().filter(|name| name.starts_with("segment.")).collect()
}

fn put_all(metadata: &dyn Metadata, writer: onefold_volume::Writer, sequence: u64, all: &[&[u8]]) {
    let mut checkpoint = metadata.checkpoint(SHARD, writer, sequence).unwrap().unwrap();
    all.iter().for_each(|one| checkpoint.put(one).unwrap());
    checkpoint.finish().unwrap();
}

#[test]
fn a_checkpoint_takes_the_place_of_what_was_before() {
    let pool = pool();
    let first = journals(&pool, TINY);
    let (taken, _) = take(&first, SHARD).unwrap();
    for round in 0..4 {
        for batch in 0..5 {
            first.apply_batch(SHARD, taken.writer, round * 5 + batch, b"batch").unwrap();
        }
        assert_eq!(segments(&*pool).len(), 5);
        put_all(&first, taken.writer, round * 5 + 5, &[b"one", b"two", b"three"]);
        // the head, the next segment and a part for each frame
        let found = names(&*pool);
        assert_eq!(found.len(), 1 + 1 + 3, "{found:?}");
    }
    let (again, told) = take(&journals(&pool, TINY), SHARD).unwrap();
    assert_eq!((again.sequence, again.places), (20, 1));
    assert_eq!(told, (b"onetwothree".to_vec(), vec![]));
}

#[test]
fn what_an_interrupted_checkpoint_left_goes_with_the_next_one() {
    let pool = pool();
    let first = journals(&pool, TINY);
    let (taken, _) = take(&first, SHARD).unwrap();
    first.apply_batch(SHARD, taken.writer, 0, b"batch").unwrap();
    let mut checkpoint = first.checkpoint(SHARD, taken.writer, 1).unwrap().unwrap();
    for part in [b"one", b"two", b"six"] {
        checkpoint.put(part).unwrap();
    }
    drop(checkpoint);
    let parts = |pool| names(pool).iter().filter(|name| name.starts_with("checkpoint.")).count();
    assert_eq!(parts(&*pool), 2, "the third was not full");
    let second = journals(&pool, TINY);
    let (taken, told) = take(&second, SHARD).unwrap();
    assert_eq!(told, (vec![], vec![b"batch".to_vec()]), "it has no effect");
    put_all(&second, taken.writer, 1, &[b"all"]);
    assert_eq!(parts(&*pool), 1);
    assert_eq!(names(&*pool).len(), 3, "{:?}", names(&*pool));
}

#[test]
fn what_could_not_be_removed_goes_with_the_next_checkpoint() {
    let pool = pool();
    let removes = |update: &Update| update.steps().last() == Some(&Step::Remove);
    for skip in 0..6 {
        let left = Mutex::new(skip);
        let fated = FatedRados::new(Arc::clone(&pool) as _, move |_, update| {
            if !update.is_some_and(removes) {
                return Fate::Answered;
            }
            let mut left = left.lock().unwrap();
            if *left > 0 {
                *left -= 1;
                return Fate::Answered;
            }
            Fate::Lost
        });
        let failing = RadosJournals::new(Arc::new(fated), TINY).unwrap();
        let (taken, _) = take(&failing, SHARD).unwrap();
        let next = taken.sequence + 3;
        for sequence in taken.sequence..next {
            failing.apply_batch(SHARD, taken.writer, sequence, b"batch").unwrap();
        }
        let mut checkpoint = failing.checkpoint(SHARD, taken.writer, next).unwrap().unwrap();
        checkpoint.put(b"one").unwrap();
        checkpoint.put(b"two").unwrap();
        let result = checkpoint.finish();
        // two parts of the checkpoint before, but for the first time, and three segments
        assert_eq!(result.is_ok(), skip >= 5, "{skip}: {result:?}");
        let whole = journals(&pool, TINY);
        let (taken, told) = take(&whole, SHARD).unwrap();
        assert_eq!((taken.sequence, told), (next, (b"onetwo".to_vec(), vec![])));
        whole.apply_batch(SHARD, taken.writer, next, b"batch").unwrap();
        put_all(&whole, taken.writer, next + 1, &[b"one", b"two"]);
        assert_eq!(names(&*pool).len(), 4, "{skip}: {:?}", names(&*pool));
    }
}

#[test]
fn a_look_for_leaks_leaves_what_a_successor_needs() {
    let pool = pool();
    let first = journals(&pool, TINY);
    let (taken, _) = take(&first, SHARD).unwrap();
    first.apply_batch(SHARD, taken.writer, 0, b"batch").unwrap();
    // which lets batches go to a second segment, and is not finished
    drop(first.checkpoint(SHARD, taken.writer, 1).unwrap());
    let [sealed, empty] = &segments(&*pool)[..] else { panic!("{:?}", names(&*pool)) };
    let sealed = format!("{}.{sealed}", SHARD.id());

    // before it looks at the first segment, a successor makes that needless
    let (inner, is_armed) = (Arc::clone(&pool), Arc::new(AtomicBool::new(false)));
    let armed = Arc::clone(&is_armed);
    let fated = FatedRados::new(Arc::clone(&pool) as _, move |object, _| {
        if object == sealed && armed.swap(false, Relaxed) {
            let successor = journals(&inner, TINY);
            let (taken, _) = take(&successor, SHARD).unwrap();
            put_all(&successor, taken.writer, 1, &[b"all"]);
        }
        Fate::Answered
    });
    let second = RadosJournals::new(Arc::new(fated), TINY).unwrap();
    let (taken, _) = take(&second, SHARD).unwrap();
    is_armed.store(true, Relaxed);
    let result = second.remove_leaked(SHARD, taken.writer);
    assert!(matches!(result, Err(VolumeError::Superseded { .. })), "{result:?}");
    assert_eq!(segments(&*pool), std::slice::from_ref(empty));
    let (_, told) = take(&journals(&pool, TINY), SHARD).unwrap();
    assert_eq!(told, (b"all".to_vec(), vec![]));
}

#[test]
fn what_nothing_leads_to_is_found_and_removed() {
    let pool = pool();
    let first = journals(&pool, TINY);
    let (taken, _) = take(&first, SHARD).unwrap();
    (0..3).for_each(|at| first.apply_batch(SHARD, taken.writer, at, b"batch").unwrap());
    put_all(&first, taken.writer, 3, &[b"one", b"two"]);
    let expected = names(&*pool);
    // as a late creation would leave them, of this writer and of one that may yet come
    let object = |name: &str| format!("{}.{name}", SHARD.id());
    let of = |writer: u64| {
        let made = format!("{writer:016x}.00000000000000ff");
        [format!("segment.{made}"), format!("checkpoint.{made}.00000000")]
    };
    let (leaked, later) = (of(taken.writer.0), of(taken.writer.0 + 1));
    let others = ["segment.1", "checkpoint", "other"].map(ToOwned::to_owned);
    for name in leaked.iter().chain(&later).chain(&others) {
        pool.update(&object(name), Update::creating()).unwrap();
    }
    assert_eq!(first.remove_leaked(SHARD, taken.writer).unwrap(), 0, "they may be named yet");
    let (taken, _) = take(&first, SHARD).unwrap();
    assert_eq!(first.remove_leaked(SHARD, taken.writer).unwrap(), 2);
    let left: BTreeSet<String> = names(&*pool).difference(&expected).cloned().collect();
    assert_eq!(left, later.into_iter().chain(others).collect());
    let (_, told) = take(&first, SHARD).unwrap();
    assert_eq!(told, (b"onetwo".to_vec(), vec![]));
    let old = first.remove_leaked(SHARD, taken.writer);
    assert!(matches!(old, Err(VolumeError::Superseded { .. })), "{old:?}");
}

#[test]
fn an_erasure_coded_pool_is_refused() {
    // also one that takes overwrites, and so appends of any length
    let kind = MemoryRados::erasure_coded().kind().clone();
    for alignment in [kind.alignment, 1] {
        let pool = MemoryRados::new(PoolKind { alignment, ..kind.clone() });
        let error = RadosJournals::new(Arc::new(pool), TINY).err().expect("it has no omap");
        assert!(matches!(error, ClusterError::ErasureCoded { .. }), "{error}");
        assert!(error.to_string().contains("a replicated pool"), "{error}");
    }
}

#[test]
fn a_shard_is_made_once() {
    let pool = pool();
    let journals = journals(&pool, TINY);
    let (taken, _) = take(&journals, SHARD).unwrap();
    journals.apply_batch(SHARD, taken.writer, 0, b"batch").unwrap();
    let error = journals.create(SHARD).unwrap_err();
    assert!(error.to_string().contains(&format!("{}.head", SHARD.id())), "{error}");
    assert_eq!(names(&*pool).len(), 2, "nothing was left");
    assert_eq!(take(&journals, SHARD).unwrap().1.1, [b"batch".to_vec()]);
    // what was cut off before there was a head is finished
    let third = Shard::of(ObjectId::from_bytes([9; 16]));
    assert!(matches!(take(&journals, third), Err(VolumeError::Damaged { .. })));
    let other = self::pool();
    let head = format!("{}.head", SHARD.id());
    other.update(&head, Update::existing().then(Step::Remove)).unwrap();
    self::journals(&other, TINY).create(SHARD).unwrap();
    take(&self::journals(&other, TINY), SHARD).unwrap();
}

/// Journals in `pool`, whose updates meet the fate that there is then.
fn fated(pool: &Arc<MemoryRados>) -> (RadosJournals, Arc<FatedRados>, Arc<Mutex<Fate>>) {
    let fate = Arc::new(Mutex::new(Fate::Answered));
    let chosen = Arc::clone(&fate);
    let client = Arc::new(FatedRados::new(Arc::clone(pool) as _, move |_, update| match update {
        Some(_) => *chosen.lock().unwrap(),
        None => Fate::Answered,
    }));
    let journals = RadosJournals::new(Arc::clone(&client) as _, JournalSizes::default());
    (journals.unwrap(), client, fate)
}

#[test]
fn a_batch_whose_answer_was_lost_is_applied_once() {
    for lost in [Fate::Lost, Fate::AnswerLost, Fate::Late] {
        let pool = pool();
        let (journals, client, fate) = fated(&pool);
        let (taken, _) = take(&journals, SHARD).unwrap();
        let apply =
            |sequence, batch: &[u8]| journals.apply_batch(SHARD, taken.writer, sequence, batch);
        apply(0, b"a").unwrap();
        for attempt in 0..3 {
            *fate.lock().unwrap() = lost;
            let error = apply(1, b"b").err();
            // sent again after it was applied, it is refused, which is an answer
            assert!(
                matches!(error, Some(VolumeError::Unanswered { .. })),
                "{lost:?}, {attempt}: {error:?}"
            );
        }
        let early = journals.checkpoint(SHARD, taken.writer, 1).map(drop);
        assert!(matches!(early, Err(VolumeError::Unanswered { .. })), "{early:?}");
        *fate.lock().unwrap() = Fate::Answered;
        apply(1, b"b").unwrap();
        apply(2, b"c").unwrap();
        assert_eq!(client.undelivered(), if lost == Fate::Late { 3 } else { 0 });
        while client.undelivered() > 0 {
            let late = client.deliver(0).unwrap_err();
            assert_eq!(late.refusal(), Some(Refusal::Guard));
        }
        let (_, told) = take(&self::journals(&pool, TINY), SHARD).unwrap();
        assert_eq!(told.1, [b"a".to_vec(), b"b".to_vec(), b"c".to_vec()], "{lost:?}");
    }
}

#[test]
fn a_full_pool_and_a_blocklisted_client_are_told() {
    let pool = pool();
    let (journals, _, fate) = fated(&pool);
    let (taken, _) = take(&journals, SHARD).unwrap();
    let apply = |next| {
        *fate.lock().unwrap() = next;
        journals.apply_batch(SHARD, taken.writer, 0, b"a")
    };
    let full = apply(Fate::Refused(Refusal::Full));
    assert!(matches!(&full, Err(VolumeError::Backend(error)) if error.is_full()), "{full:?}");
    let fenced = apply(Fate::Refused(Refusal::Fenced));
    assert!(matches!(fenced, Err(VolumeError::Stopped { .. })), "{fenced:?}");
    let forbidden = apply(Fate::Refused(Refusal::Forbidden)).unwrap_err();
    assert!(forbidden.to_string().contains("segment"), "{forbidden}");
    apply(Fate::Answered).unwrap();
}

#[test]
fn batches_of_any_length_come_back() {
    let pool = pool();
    let first = journals(&pool, JournalSizes::default());
    let (taken, _) = take(&first, SHARD).unwrap();
    // more than a segment, and more than is read at a time
    let lens = [MAX_BATCH, MAX_BATCH - 1, 1, MAX_BATCH, 5_000, MAX_BATCH];
    let lens: Vec<usize> = lens.iter().cycle().copied().take(20).collect();
    let batch = |at: usize| vec![at as u8; lens[at]];
    for at in 0..lens.len() {
        first.apply_batch(SHARD, taken.writer, at as u64, &batch(at)).unwrap();
    }
    let second = journals(&pool, JournalSizes::default());
    let (taken, told) = take(&second, SHARD).unwrap();
    assert_eq!(taken.places, 2);
    assert!(told.1.iter().enumerate().all(|(at, found)| *found == batch(at)));
    assert_eq!(told.1.len(), lens.len());
    let all: Vec<Vec<u8>> = (0..lens.len()).map(batch).collect();
    let parts: Vec<&[u8]> = all.iter().map(|part| &part[..]).collect();
    put_all(&second, taken.writer, lens.len() as u64, &parts);
    let (_, told) = take(&first, SHARD).unwrap();
    assert!(told.0 == all.concat() && told.1.is_empty());
}

/// A shard with a checkpoint of two parts, and three segments, the last of them not sealed.
fn whole() -> Arc<MemoryRados> {
    let (pool, sizes) = (pool(), JournalSizes { segment: 100, part: 100 });
    let journals = journals(&pool, sizes);
    let (taken, _) = take(&journals, SHARD).unwrap();
    let batch = [3; 60];
    journals.apply_batch(SHARD, taken.writer, 0, &batch).unwrap();
    put_all(&journals, taken.writer, 1, &[&[1; 60], &[2; 60]]);
    for sequence in 1..4 {
        journals.apply_batch(SHARD, taken.writer, sequence, &batch).unwrap();
    }
    let (taken, told) = take(&self::journals(&pool, sizes), SHARD).unwrap();
    assert_eq!((taken.places, told.0.len(), told.1.len()), (3, 120, 3));
    pool
}

#[test]
fn damage_is_found_and_told() {
    let kinds = ["head", "checkpoint", "segment"];
    let damages: [(&str, &[&str], Step); 6] = [
        ("another byte", &kinds[1..], Step::Write(50, "x".into())),
        ("a byte less", &kinds[1..], Step::Truncate(95)),
        ("more bytes", &kinds[1..], Step::Append("more".into())),
        ("a removal", &kinds, Step::Remove),
        ("another number", &kinds[2..], Step::SetXattr("next".into(), vec![0; 8].into())),
        ("no number", &kinds[..1], Step::SetXattr("writer".into(), "".into())),
    ];
    for (what, kinds, step) in damages {
        let of_kind = |name: &String| kinds.iter().any(|kind| name.starts_with(kind));
        let objects: Vec<String> = names(&*whole()).into_iter().filter(of_kind).collect();
        assert!(objects.len() >= kinds.len(), "{what}: {objects:?}");
        for name in objects {
            let (pool, object) = (whole(), format!("{}.{name}", SHARD.id()));
            pool.update(&object, Update::existing().then(step.clone())).unwrap();
            let error = take(&journals(&pool, TINY), SHARD).expect_err(what);
            assert!(matches!(error, VolumeError::Damaged { .. }), "{name}, {what}: {error}");
            assert!(error.to_string().contains(&object), "{name}, {what}: {error}");
        }
    }
}
