//! The contract of every pool, as tests that panic if one violates it.
//!
//! The model in memory is held to what the engine does: the same tests run against both.

use std::collections::BTreeSet;
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, mpsc};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use super::{
    Answer, Compare, OmapRange, PoolKind, Query, RadosError, RadosPool, Refusal, Step, Update,
};

/// Tests a pool; `make` returns a new empty namespace at each call.
pub fn pool(make: impl Fn() -> Arc<dyn RadosPool>) {
    let kind = make().kind().clone();
    assert!(kind.alignment > 0 && kind.max_object > 0 && kind.max_update > 0, "{kind:?}");
    an_object_is_made_once(&*make());
    what_is_absent_is_neither_changed_nor_made(&*make());
    attributes_are_compared(&*make());
    numbers_are_compared_by_their_bytes(&*make());
    versions_grow_and_never_come_back(&*make());
    an_update_that_is_refused_changes_nothing(&*make());
    an_object_says_when_it_was_last_updated(&*make());
    an_attribute_is_a_value(&*make());
    appends_add_up(&*make());
    ranges_end_with_the_object(&*make());
    a_removal_takes_everything(&*make());
    what_is_too_large_is_refused(&*make());
    updates_in_flight_keep_their_order(&*make());
    one_of_many_writers_wins(&make());
    one_of_many_makers_wins(&make());
    an_answer_is_of_one_moment(&make());
    every_name_is_listed(&*make());
    if kind.alignment > 1 {
        a_pool_with_an_alignment_only_appends(&*make());
    } else {
        writes_go_anywhere(&*make());
    }
    if kind.has_omap {
        entries_are_compared(&*make());
        entries_are_in_order_and_come_in_parts(&*make());
        entries_are_replaced_and_removed(&*make());
    } else {
        an_omap_is_refused(&*make());
    }
}

/// How the pool at hand appends once: so many bytes that another append may follow.
/// Tests a pool that is full, and has the object `name` with some bytes. It is changed and, at last, removed.
pub fn full_pool(pool: &dyn RadosPool, name: &str) {
    let before = all(pool, name).unwrap();
    let append = || Update::existing().then(Step::Append(block(pool, 7)));
    let (new, made) = (format!("{name}-new"), format!("{name}-made"));
    expect_unchanged(pool, name, [(append(), Refusal::Full)]);
    expect_unchanged(pool, &new, [(Update::creating(), Refusal::Full)]);
    // guards come first
    let guarded = Update::existing().expect("a", "1").then(Step::Append(block(pool, 7)));
    expect_unchanged(pool, name, [(guarded, Refusal::Guard)]);
    // what adds nothing is taken, and so is what says that it is for a full pool
    set(pool, name, "a", b"1");
    pool.update(name, append().even_if_full()).unwrap();
    assert!(all(pool, name).unwrap().length > before.length);
    pool.update(&made, Update::creating().even_if_full()).unwrap();
    pool.update(&made, append().even_if_full()).unwrap();
    if pool.kind().alignment == 1 {
        pool.update(name, Update::existing().then(Step::Truncate(1))).unwrap();
    }
    for object in [name, &made] {
        pool.update(object, Update::existing().then(Step::Remove)).unwrap();
        expect(&all(pool, object), Refusal::Absent);
    }
}

fn block(pool: &dyn RadosPool, byte: u8) -> Bytes {
    vec![byte; (pool.kind().alignment as usize).max(4)].into()
}

fn make(pool: &dyn RadosPool, name: &str) -> u64 {
    pool.update(name, Update::creating()).unwrap()
}

fn set(pool: &dyn RadosPool, name: &str, attribute: &str, value: &'static [u8]) -> u64 {
    pool.update(name, Update::existing().set(attribute, value)).unwrap()
}

/// All that an object has.
fn all(pool: &dyn RadosPool, name: &str) -> Result<Answer, RadosError> {
    let omap = OmapRange { after: String::new(), limit: u64::MAX };
    let omap = pool.kind().has_omap.then_some(omap);
    pool.query(name, &Query { guards: vec![], range: Some(0..u64::MAX), xattrs: true, omap })
}

fn guarded(guard: Step) -> Query {
    Query { guards: vec![guard], ..Query::default() }
}

#[track_caller]
fn expect<T: std::fmt::Debug>(result: &Result<T, RadosError>, why: Refusal) {
    let found = result.as_ref().err().and_then(RadosError::refusal);
    assert_eq!(found, Some(why), "{result:?}");
}

/// Fails unless each of these is refused and the object stays as it is.
#[track_caller]
fn expect_unchanged(
    pool: &dyn RadosPool,
    name: &str,
    refused: impl IntoIterator<Item = (Update, Refusal)>,
) {
    let before = all(pool, name).map_err(|error| error.refusal());
    for (update, why) in refused {
        let result = pool.update(name, update.clone());
        let found = result.as_ref().err().and_then(RadosError::refusal);
        assert_eq!(found, Some(why), "{result:?} of {update:?}");
        let after = all(pool, name).map_err(|error| error.refusal());
        assert_eq!(after, before, "{update:?} was refused");
    }
}

fn an_object_is_made_once(pool: &dyn RadosPool) {
    let version = make(pool, "a");
    let found = all(pool, "a").unwrap();
    assert_eq!(found, Answer { version, changed: found.changed, ..Answer::default() });
    let first = block(pool, 1);
    let again = Update::creating().set("x", "1").then(Step::Append(first.clone()));
    expect_unchanged(pool, "a", [(Update::creating(), Refusal::Exists), (again, Refusal::Exists)]);
    let whole = Update::creating().set("x", "1").then(Step::Append(first.clone()));
    let version = pool.update("b", whole).unwrap();
    let found = all(pool, "b").unwrap();
    assert_eq!((found.version, found.length), (version, first.len() as u64));
    assert_eq!((found.bytes, &found.xattrs["x"][..]), (first, &b"1"[..]));
}

fn what_is_absent_is_neither_changed_nor_made(pool: &dyn RadosPool) {
    let bytes = block(pool, 1);
    let changes = [
        Step::Append(bytes.clone()),
        Step::Write(0, bytes),
        Step::SetXattr("x".into(), "1".into()),
        Step::Remove,
    ];
    let updates = changes.into_iter().map(|change| Update::existing().then(change));
    expect_unchanged(pool, "a", updates.map(|update| (update, Refusal::Absent)));
    // also where guards would hold of an object without attributes
    let update = Update::existing().expect("x", "").set("x", "1");
    expect_unchanged(pool, "a", [(update, Refusal::Absent)]);
    expect(&pool.query("a", &Query::default()), Refusal::Absent);
    expect(&all(pool, "a"), Refusal::Absent);
    assert_eq!(names(pool), BTreeSet::new());
}

/// Fails unless an update and a query with this guard are done if it `holds`, and are refused if not.
#[track_caller]
fn expect_guard(pool: &dyn RadosPool, guard: &Step, holds: bool) {
    let result = pool.query("a", &guarded(guard.clone())).map(drop);
    let update = Update::existing().then(guard.clone()).set("count", "1");
    if holds {
        result.unwrap_or_else(|error| panic!("{guard:?}: {error}"));
        pool.update("a", update).unwrap_or_else(|error| panic!("{guard:?}: {error}"));
    } else {
        assert_eq!(result.unwrap_err().refusal(), Some(Refusal::Guard), "{guard:?}");
        expect_unchanged(pool, "a", [(update, Refusal::Guard)]);
    }
}

fn attribute(name: &str, is: Compare, value: &'static [u8]) -> Step {
    Step::Xattr { name: name.into(), is, value: Bytes::from_static(value) }
}

fn attributes_are_compared(pool: &dyn RadosPool) {
    make(pool, "a");
    set(pool, "a", "m", b"m\x80");
    set(pool, "a", "empty", b"");
    let values: [&[u8]; 8] = [b"", b"\0", b"a", b"m", b"m\x7f", b"m\x80", b"m\x80\0", b"\xff"];
    for (name, stored) in [("m", &b"m\x80"[..]), ("empty", b""), ("absent", b"")] {
        for value in values {
            expect_guard(pool, &attribute(name, Compare::Equal, value), value == stored);
            expect_guard(pool, &attribute(name, Compare::Different, value), value != stored);
            expect_guard(pool, &attribute(name, Compare::Greater, value), value > stored);
        }
    }
    let found = all(pool, "a").unwrap().xattrs;
    assert!(!found.contains_key("absent"), "a guard makes nothing: {found:?}");
    // all guards must hold
    let both = Update::existing().expect("m", &b"m\x80"[..]).expect("absent", "1").set("m", "x");
    expect_unchanged(pool, "a", [(both, Refusal::Guard)]);
}

fn numbers_are_compared_by_their_bytes(pool: &dyn RadosPool) {
    make(pool, "a");
    let bytes = |number: u64| Bytes::copy_from_slice(&number.to_be_bytes());
    let numbers = [0, 1, 0x7f, 0x80, 0xff, 0x100, 1 << 32, (1 << 63) - 1, 1 << 63, u64::MAX];
    for stored in numbers {
        pool.update("a", Update::existing().set("writer", bytes(stored))).unwrap();
        for given in numbers {
            let update = Update::existing().expect_below("writer", bytes(given)).set("seen", "1");
            let result = pool.update("a", update);
            let found = result.as_ref().err().and_then(RadosError::refusal);
            let expected = if given > stored { None } else { Some(Refusal::Guard) };
            assert_eq!(found, expected, "{given} above {stored}: {result:?}");
        }
    }
}

fn versions_grow_and_never_come_back(pool: &dyn RadosPool) {
    let mut version = make(pool, "a");
    let mut old = vec![];
    let mut expect_grown = |version: &mut u64, next: u64| {
        assert!(next > *version, "{next} after {version}");
        assert_eq!(pool.query("a", &Query::default()).unwrap().version, next);
        old.push(*version);
        *version = next;
        for version in &old {
            expect(&pool.query("a", &guarded(Step::Version(*version))), Refusal::Guard);
            let stale = Update::existing().then(Step::Version(*version));
            let updates = [stale.clone().set("x", "1"), stale.then(Step::Remove)];
            expect_unchanged(pool, "a", updates.map(|update| (update, Refusal::Guard)));
        }
        let later = Update::existing().then(Step::Version(next + 1)).set("x", "1");
        expect_unchanged(pool, "a", [(later, Refusal::Guard)]);
    };
    // an attribute that is set to what it is, too
    expect_grown(&mut version, set(pool, "a", "x", b"1"));
    expect_grown(&mut version, set(pool, "a", "x", b"1"));
    let append = Update::existing().then(Step::Append(block(pool, 1)));
    expect_grown(&mut version, pool.update("a", append).unwrap());
    let as_it_is = Update::existing().then(Step::Version(version)).set("y", "1");
    expect_grown(&mut version, pool.update("a", as_it_is).unwrap());
    if pool.kind().has_omap {
        let entry = vec![("k".to_owned(), Bytes::from("v"))];
        let update = Update::existing().then(Step::SetOmap(entry));
        expect_grown(&mut version, pool.update("a", update).unwrap());
        let update = Update::existing().then(Step::RemoveOmap(vec!["k".to_owned()]));
        expect_grown(&mut version, pool.update("a", update).unwrap());
    }
    let removal = Update::existing().then(Step::Version(version)).then(Step::Remove);
    pool.update("a", removal.clone()).unwrap();
    expect_unchanged(pool, "a", [(removal, Refusal::Absent)]);
    expect_grown(&mut version, make(pool, "a"));
}

fn an_update_that_is_refused_changes_nothing(pool: &dyn RadosPool) {
    let far = Step::Write(pool.kind().max_object, block(pool, 2));
    let why = if pool.kind().alignment > 1 { Refusal::Unsupported } else { Refusal::TooLarge };
    let made = Update::creating().set("x", "1").then(far.clone());
    expect_unchanged(pool, "a", [(made, why)]);
    make(pool, "a");
    let first = Step::Append(block(pool, 1));
    pool.update("a", Update::existing().set("x", "1").then(first.clone())).unwrap();
    let mut changes = Update::existing().expect("x", "1").set("x", "2").set("y", "1").then(first);
    let mut guards = Update::existing().expect("x", "1").expect("y", "1");
    if pool.kind().has_omap {
        let entry = || Step::SetOmap(vec![("k".into(), "v".into())]);
        (changes, guards) = (changes.then(entry()), guards.then(entry()));
    }
    let refused = [
        (changes.then(far), why),
        (guards.clone().set("x", "2"), Refusal::Guard),
        (guards.then(Step::Remove), Refusal::Guard),
    ];
    expect_unchanged(pool, "a", refused);
}

fn an_object_says_when_it_was_last_updated(pool: &dyn RadosPool) {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later").as_secs();
    let changed = || all(pool, "a").unwrap().changed;
    let begun = now();
    make(pool, "a");
    let made = changed();
    assert!((begun..=now()).contains(&made), "{made}, made after {begun}");
    while now() == made {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let refused = Update::existing().expect("x", "2").set("x", "3");
    expect_unchanged(pool, "a", [(refused, Refusal::Guard)]);
    assert_eq!(changed(), made, "it was refused");
    set(pool, "a", "x", b"1");
    assert!(changed() > made, "{}, made at {made}", changed());
}

fn an_attribute_is_a_value(pool: &dyn RadosPool) {
    make(pool, "a");
    let long: Vec<u8> = (0..4_000_u32).map(|n| (n * 7) as u8).collect();
    let long = Bytes::from(long);
    let update = Update::existing().set("x", "first").set("x", "last").set("long", long.clone());
    pool.update("a", update).unwrap();
    set(pool, "a", "zeros", b"\0\0");
    let found = all(pool, "a").unwrap();
    let expected = [("long", long), ("x", "last".into()), ("zeros", Bytes::from_static(b"\0\0"))];
    assert_eq!(found.xattrs, expected.map(|(name, value)| (name.to_owned(), value)).into());
    assert!(pool.query("a", &Query::default()).unwrap().xattrs.is_empty(), "nobody asked for them");
}

fn appends_add_up(pool: &dyn RadosPool) {
    make(pool, "a");
    let mut expected = vec![];
    for byte in 1..=5 {
        let bytes = block(pool, byte);
        expected.extend_from_slice(&bytes);
        let update = Update::existing().then(Step::Append(bytes.clone()));
        // two in one update
        let update = if byte == 3 { update.then(Step::Append(bytes.clone())) } else { update };
        pool.update("a", update).unwrap();
        if byte == 3 {
            expected.extend_from_slice(&bytes);
        }
        let found = all(pool, "a").unwrap();
        assert_eq!(found.length, expected.len() as u64);
        assert!(found.bytes == expected, "after {byte}");
    }
    // the last one may have any length
    let last = Update::existing().then(Step::Append(Bytes::from_static(b"xyz")));
    pool.update("a", last).unwrap();
    assert!(all(pool, "a").unwrap().bytes == [&expected[..], b"xyz"].concat());
}

fn ranges_end_with_the_object(pool: &dyn RadosPool) {
    let update = Update::creating().then(Step::Append(Bytes::from_static(b"0123456789")));
    pool.update("a", update).unwrap();
    let get = |range: Range<u64>| {
        let found = pool.query("a", &Query { range: Some(range), ..Query::default() }).unwrap();
        assert_eq!(found.length, 10);
        found.bytes
    };
    for range in [0..10, 0..1, 9..10, 3..7, 3..20, 9..u64::MAX, 0..u64::MAX] {
        let expected = &b"0123456789"[range.start as usize..range.end.min(10) as usize];
        assert_eq!(get(range.clone()), expected, "{range:?}");
    }
    for range in [0..0, 5..5, 10..10, 10..11, 11..12, 1 << 40..u64::MAX] {
        assert_eq!(get(range.clone()), "", "{range:?}");
    }
    assert_eq!(pool.query("a", &Query::default()).unwrap().bytes, "", "nobody asked for them");
    make(pool, "empty");
    assert_eq!(all(pool, "empty").unwrap().length, 0);
}

fn a_removal_takes_everything(pool: &dyn RadosPool) {
    let mut whole = Update::creating().set("x", "1").then(Step::Append(block(pool, 1)));
    if pool.kind().has_omap {
        whole = whole.then(Step::SetOmap(vec![("k".into(), "v".into())]));
    }
    pool.update("a", whole).unwrap();
    let wrong = Update::existing().expect("x", "2").then(Step::Remove);
    expect_unchanged(pool, "a", [(wrong, Refusal::Guard)]);
    let removal = Update::existing().expect("x", "1").then(Step::Remove);
    pool.update("a", removal.clone()).unwrap();
    expect(&all(pool, "a"), Refusal::Absent);
    assert_eq!(names(pool), BTreeSet::new());
    expect_unchanged(pool, "a", [(removal, Refusal::Absent)]);
    let version = make(pool, "a");
    let found = all(pool, "a").unwrap();
    assert_eq!(found, Answer { version, changed: found.changed, ..Answer::default() });
}

fn what_is_too_large_is_refused(pool: &dyn RadosPool) {
    let PoolKind { max_object, max_update, alignment, .. } = pool.kind().clone();
    make(pool, "a");
    let long = Bytes::from(vec![1; max_update as usize + 1]);
    let mut refused = vec![(Update::existing().then(Step::Append(long)), Refusal::TooLarge)];
    if alignment == 1 {
        let write = |at| Update::existing().then(Step::Write(at, Bytes::from_static(b"1")));
        pool.update("a", write(max_object - 1)).unwrap();
        assert_eq!(pool.query("a", &Query::default()).unwrap().length, max_object);
        let append = Update::existing().then(Step::Append(Bytes::from_static(b"1")));
        let result = pool.update("a", append);
        expect(&result, Refusal::TooLarge);
        let result = pool.update("a", write(max_object));
        expect(&result, Refusal::TooLarge);
        pool.update("a", Update::existing().then(Step::Truncate(0))).unwrap();
        refused.push((Update::existing().then(Step::Truncate(max_object + 1)), Refusal::TooLarge));
    }
    expect_unchanged(pool, "a", refused);
    // the largest updates are done as long as the object has room
    make(pool, "b");
    let bytes = Bytes::from(vec![2; max_update as usize]);
    let append = Update::existing().then(Step::Append(bytes));
    for _ in 0..max_object / max_update {
        pool.update("b", append.clone()).unwrap();
    }
    expect(&pool.update("b", append), Refusal::TooLarge);
    let found = pool.query("b", &Query::default()).unwrap();
    assert_eq!(found.length, max_object / max_update * max_update);
    pool.update("b", Update::existing().then(Step::Remove)).unwrap();
}

/// What each update becomes that is started before the first is answered.
fn start_all(
    pool: &dyn RadosPool,
    name: &str,
    updates: impl IntoIterator<Item = Update>,
) -> Vec<Result<u64, RadosError>> {
    let (tell, told) = mpsc::channel();
    let mut count = 0;
    for (at, update) in updates.into_iter().enumerate() {
        let tell = tell.clone();
        let done = move |result| tell.send((at, result)).expect("all answers are awaited");
        pool.start_update(name, update, Box::new(done));
        count += 1;
    }
    drop(tell);
    let mut answers: Vec<_> = told.iter().collect();
    answers.sort_by_key(|(at, _)| *at);
    assert!(answers.iter().map(|(at, _)| *at).eq(0..count), "one answer each: {answers:?}");
    answers.into_iter().map(|(_, result)| result).collect()
}

fn updates_in_flight_keep_their_order(pool: &dyn RadosPool) {
    make(pool, "a");
    set(pool, "a", "next", b"\0");
    let numbered = |number: u8| {
        let (next, after) = (Bytes::from(vec![number]), Bytes::from(vec![number + 1]));
        let append = Step::Append(block(pool, number));
        Update::existing().expect("next", next).set("next", after).then(append)
    };
    let answers = start_all(pool, "a", (0..100).map(numbered));
    let versions: Vec<u64> = answers.into_iter().map(Result::unwrap).collect();
    assert!(versions.is_sorted_by(|one, next| one < next), "{versions:?}");
    let expected: Vec<u8> = (0..100).flat_map(|number| block(pool, number)).collect();
    assert!(all(pool, "a").unwrap().bytes == expected);
    // those behind one that is refused are refused as well, as they do not follow
    let numbers = [100, 101, 103, 104, 105];
    let answers = start_all(pool, "a", numbers.map(numbered));
    let refusals: Vec<_> = answers.iter().map(|one| one.as_ref().err()).collect();
    let refused: Vec<_> = refusals.iter().map(|one| one.and_then(RadosError::refusal)).collect();
    let guard = Some(Refusal::Guard);
    assert_eq!(refused, [None, None, guard, guard, guard], "{answers:?}");
}

fn one_of_many_writers_wins(pool: &Arc<dyn RadosPool>) {
    make(&**pool, "a");
    set(&**pool, "a", "next", b"\0");
    for round in 0..10_u8 {
        let write = |writer: u8| {
            let (round, next) = (Bytes::from(vec![round]), Bytes::from(vec![round + 1]));
            let update = Update::existing().expect("next", round).set("next", next);
            pool.update("a", update.then(Step::Append(block(&**pool, writer))))
        };
        let won = won(&race(write), Refusal::Guard);
        let found = all(&**pool, "a").unwrap();
        let unit = block(&**pool, 0).len();
        assert_eq!(found.length as usize, unit * (usize::from(round) + 1), "one append a round");
        assert_eq!(found.bytes[unit * usize::from(round)], won);
    }
}

fn one_of_many_makers_wins(pool: &Arc<dyn RadosPool>) {
    for round in 0..5 {
        let name = format!("object {round}");
        let make = |writer| {
            pool.update(&name, Update::creating().set("writer", Bytes::from(vec![writer])))
        };
        let won = won(&race(make), Refusal::Exists);
        assert_eq!(all(&**pool, &name).unwrap().xattrs["writer"][..], [won]);
    }
}

type Answers = Vec<Result<u64, RadosError>>;

fn race(update: impl Fn(u8) -> Result<u64, RadosError> + Sync) -> Answers {
    std::thread::scope(|scope| {
        let update = &update;
        let threads: Vec<_> = (0..4).map(|writer| scope.spawn(move || update(writer))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    })
}

/// Who of those that raced was done; all others were refused for `why`.
fn won(answers: &Answers, why: Refusal) -> u8 {
    let won: Vec<_> = (0..4).filter(|writer| answers[usize::from(*writer)].is_ok()).collect();
    assert_eq!(won.len(), 1, "{answers:?}");
    let lost = answers.iter().filter_map(|one| one.as_ref().err());
    assert!(lost.clone().all(|error| error.refusal() == Some(why)), "{answers:?}");
    won[0]
}

fn an_answer_is_of_one_moment(pool: &Arc<dyn RadosPool>) {
    const UPDATES: u8 = 60;
    make(&**pool, "a");
    let unit = block(&**pool, 0).len() as u64;
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 1..=UPDATES {
                let update = Update::existing().set("count", Bytes::from(vec![number]));
                let append = Step::Append(block(&**pool, number));
                pool.update("a", update.then(append)).unwrap();
            }
        });
        let (mut last, mut is_over) = ((0, 0), false);
        while !is_over {
            is_over = writer.is_finished();
            let found = all(&**pool, "a").unwrap();
            let count = found.xattrs.get("count").map_or(0, |count| count[0]);
            assert_eq!(found.length, unit * u64::from(count));
            assert_eq!(found.bytes.len() as u64, found.length);
            assert!(found.bytes.last().is_none_or(|byte| *byte == count));
            let now = (count, found.version);
            assert!(
                now == last || (now.0 > last.0 && now.1 > last.1) || last.1 == 0,
                "{now:?} after {last:?}"
            );
            last = now;
        }
        writer.join().expect("all its updates are done");
        assert_eq!(last.0, UPDATES);
    });
}

fn names(pool: &dyn RadosPool) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    pool.list(&mut |name| {
        assert!(names.insert(name.to_owned()), "{name} was listed twice");
        ControlFlow::Continue(())
    })
    .unwrap();
    names
}

fn every_name_is_listed(pool: &dyn RadosPool) {
    let long = "n".repeat(1024);
    let odd: String = (b' '..=b'~').map(char::from).collect();
    let mut all: BTreeSet<String> = (0..100).map(|number| format!("x.{number:03}")).collect();
    all.extend([long, odd, "a/b".into(), "a".into(), " ".into(), "..".into(), "A".into()]);
    for name in &all {
        make(pool, name);
        assert_eq!(pool.query(name, &Query::default()).unwrap().length, 0, "{name}");
    }
    assert_eq!(names(pool), all);
    let mut taken = 0;
    pool.list(&mut |_| {
        taken += 1;
        if taken == 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    assert_eq!(taken, 5, "names came after the break");
    pool.update("x.007", Update::existing().then(Step::Remove)).unwrap();
    all.remove("x.007");
    assert_eq!(names(pool), all);
}

fn writes_go_anywhere(pool: &dyn RadosPool) {
    make(pool, "a");
    let mut expected: Vec<u8> = vec![];
    let mut change = |step: Step| {
        match &step {
            Step::Append(bytes) => expected.extend_from_slice(bytes),
            Step::Write(at, bytes) => {
                let end = *at as usize + bytes.len();
                expected.resize(expected.len().max(end), 0);
                expected[*at as usize..end].copy_from_slice(bytes);
            }
            Step::Truncate(length) => expected.resize(*length as usize, 0),
            other => panic!("{other:?}"),
        }
        pool.update("a", Update::existing().then(step.clone())).unwrap();
        let found = all(pool, "a").unwrap();
        assert_eq!(found.length, expected.len() as u64, "{step:?}");
        assert!(found.bytes == expected, "{step:?}");
    };
    let bytes = |byte: u8, len: usize| Bytes::from(vec![byte; len]);
    change(Step::Write(0, bytes(1, 10)));
    change(Step::Write(10, bytes(2, 10)));
    change(Step::Write(5, bytes(3, 10)));
    change(Step::Append(bytes(4, 3)));
    change(Step::Write(15, bytes(5, 5_000)));
    change(Step::Write(100_000, bytes(6, 1)));
    change(Step::Append(bytes(7, 2)));
    change(Step::Truncate(50_000));
    change(Step::Append(bytes(8, 2)));
    change(Step::Truncate(7));
    // what was cut off does not come back
    change(Step::Truncate(20_000));
    change(Step::Truncate(0));
    change(Step::Append(bytes(9, 1)));
    // in one update, in its order
    let all_at_once = Update::existing()
        .then(Step::Append(bytes(1, 4)))
        .then(Step::Write(1, bytes(2, 2)))
        .then(Step::Truncate(4))
        .then(Step::Append(bytes(3, 1)));
    pool.update("a", all_at_once).unwrap();
    assert_eq!(all(pool, "a").unwrap().bytes, &[9, 2, 2, 1, 3][..]);
}

fn a_pool_with_an_alignment_only_appends(pool: &dyn RadosPool) {
    let alignment = pool.kind().alignment;
    let unit = block(pool, 1);
    let write = |at, bytes: &Bytes| Update::existing().then(Step::Write(at, bytes.clone()));
    make(pool, "a");
    expect_unchanged(pool, "a", [(write(alignment, &unit), Refusal::Unsupported)]);
    pool.update("a", write(0, &unit)).unwrap();
    pool.update("a", write(alignment, &unit)).unwrap();
    let others = [0, 1, alignment - 1, alignment, alignment * 2 + 1, alignment * 3];
    let writes = others.map(|at| (write(at, &unit), Refusal::Unsupported));
    expect_unchanged(pool, "a", writes);
    let truncate = |length| Update::existing().then(Step::Truncate(length));
    expect_unchanged(pool, "a", [0, alignment].map(|end| (truncate(end), Refusal::Unsupported)));
    // nothing follows an end that is not aligned
    let append = Update::existing().then(Step::Append(Bytes::from_static(b"end")));
    pool.update("a", append.clone()).unwrap();
    let found = all(pool, "a").unwrap();
    assert_eq!(found.length, alignment * 2 + 3);
    assert!(found.bytes == [&unit, &unit, &b"end"[..]].concat());
    let refused = [append, write(alignment * 2 + 3, &unit)];
    expect_unchanged(pool, "a", refused.map(|update| (update, Refusal::Unsupported)));
}

fn entry(key: &str, value: &'static [u8]) -> (String, Bytes) {
    (key.to_owned(), Bytes::from_static(value))
}

fn entries_are_compared(pool: &dyn RadosPool) {
    make(pool, "a");
    let entries = vec![entry("k", b"v\x80\0"), entry("empty", b"")];
    pool.update("a", Update::existing().then(Step::SetOmap(entries))).unwrap();
    for (key, stored) in [("k", &b"v\x80\0"[..]), ("empty", b""), ("absent", b"")] {
        for value in [&b""[..], b"v", b"v\x80", b"v\x80\0", b"v\x80\0\0", b"w"] {
            let guard = Step::Omap { key: key.into(), value: Bytes::from_static(value) };
            let update = Update::existing().then(guard).set("x", "1");
            if value == stored {
                pool.update("a", update).unwrap_or_else(|error| panic!("{key}: {error}"));
            } else {
                expect_unchanged(pool, "a", [(update, Refusal::Guard)]);
            }
        }
    }
    // a registration, and a drop that compares it
    let (absent, there) = (Bytes::new(), Bytes::from_static(b"7"));
    let user = |value: &Bytes| {
        Update::existing().then(Step::Omap { key: "user".into(), value: value.clone() })
    };
    let register = |of: &Bytes| user(of).then(Step::SetOmap(vec![entry("user", b"7")]));
    let remove = |of: &Bytes| user(of).then(Step::RemoveOmap(vec!["user".into()]));
    pool.update("a", register(&absent)).unwrap();
    expect_unchanged(pool, "a", [(register(&absent), Refusal::Guard)]);
    expect_unchanged(pool, "a", [(remove(&Bytes::from_static(b"8")), Refusal::Guard)]);
    pool.update("a", remove(&there)).unwrap();
    expect_unchanged(pool, "a", [(remove(&there), Refusal::Guard)]);
}

/// What the omap has of `after`, in parts of at most `limit` entries.
fn entries_after(pool: &dyn RadosPool, after: &str, limit: u64) -> Vec<(String, Bytes)> {
    let mut found: Vec<(String, Bytes)> = vec![];
    let mut after = after.to_owned();
    loop {
        let omap = Some(OmapRange { after: after.clone(), limit });
        let answer = pool.query("a", &Query { omap, ..Query::default() }).unwrap();
        assert!(answer.omap.len() as u64 <= limit, "{} of {limit}", answer.omap.len());
        assert!(!answer.has_more || !answer.omap.is_empty(), "no end would be reached");
        found.extend(answer.omap);
        if !answer.has_more {
            return found;
        }
        after.clone_from(&found.last().expect("there are some").0);
    }
}

fn entries_are_in_order_and_come_in_parts(pool: &dyn RadosPool) {
    make(pool, "a");
    assert_eq!(entries_after(pool, "", 10), []);
    // more than the engine answers at a time
    let entries: Vec<(String, Bytes)> =
        (0..2_500_u32).map(|n| (format!("{n:08x}"), n.to_le_bytes().to_vec().into())).collect();
    for part in entries.chunks(500).rev() {
        pool.update("a", Update::existing().then(Step::SetOmap(part.to_vec()))).unwrap();
    }
    for limit in [1_000, 2_499, 2_500, 10_000, u64::MAX] {
        assert!(entries_after(pool, "", limit) == entries, "{limit} at a time");
    }
    assert!(entries_after(pool, &entries[41].0, 100) == entries[42..]);
    assert!(entries_after(pool, &entries[2_499].0, 100).is_empty());
    // a key that is not there is a place as well
    let between = format!("{}x", entries[2_000].0);
    assert!(entries_after(pool, &between, 1_000) == entries[2_001..]);
    let exact = Some(OmapRange { after: entries[2_399].0.clone(), limit: 100 });
    let answer = pool.query("a", &Query { omap: exact, ..Query::default() }).unwrap();
    assert_eq!((answer.omap.len(), answer.has_more), (100, false), "there are no more than asked");
    let none = pool.query("a", &Query::default()).unwrap();
    assert!(none.omap.is_empty() && !none.has_more, "nobody asked for them");
}

fn entries_are_replaced_and_removed(pool: &dyn RadosPool) {
    make(pool, "a");
    let set = |entries: &[(String, Bytes)]| {
        pool.update("a", Update::existing().then(Step::SetOmap(entries.to_vec()))).unwrap()
    };
    // in the order of bytes, whatever the order in which they come
    set(&[
        entry("b", b"1"),
        entry("~", b"2"),
        entry("B", b"3"),
        entry("a b", b""),
        entry("ab", b"4"),
    ]);
    let found = |pool| entries_after(pool, "", 10);
    let keys: Vec<String> = found(pool).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["B", "a b", "ab", "b", "~"]);
    set(&[entry("b", b"\0\xff"), entry("c", b"5")]);
    let remove = |keys: &[&str]| {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        pool.update("a", Update::existing().then(Step::RemoveOmap(keys)))
    };
    remove(&["B", "~", "absent"]).unwrap();
    remove(&["absent"]).unwrap();
    let left = [entry("a b", b""), entry("ab", b"4"), entry("b", b"\0\xff"), entry("c", b"5")];
    assert_eq!(found(pool), left);
    // in one update, in its order
    let both = Update::existing()
        .then(Step::RemoveOmap(vec!["ab".into(), "c".into()]))
        .then(Step::SetOmap(vec![entry("c", b"6")]));
    pool.update("a", both).unwrap();
    assert_eq!(found(pool), [entry("a b", b""), entry("b", b"\0\xff"), entry("c", b"6")]);
    assert!(all(pool, "a").unwrap().xattrs.is_empty(), "they are no attributes");
}

fn an_omap_is_refused(pool: &dyn RadosPool) {
    make(pool, "a");
    let set = Update::existing().set("x", "1").then(Step::SetOmap(vec![entry("k", b"v")]));
    let remove = Update::existing().set("x", "1").then(Step::RemoveOmap(vec!["k".into()]));
    expect_unchanged(pool, "a", [set, remove].map(|update| (update, Refusal::Unsupported)));
}
