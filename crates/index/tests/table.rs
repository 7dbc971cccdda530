//! All layouts of the table in memory against a map, filled to the last entry, and shared by
//! threads.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use onefold_fingerprint::Fingerprint;
use onefold_index::{
    ChainedTable, CompactTable, HookTable, Inserted, MAX_HANDLE, Table, TableError,
};
use onefold_testkit::SplitMix64;

/// Every kind of table, with at least so many entries.
fn tables(entries: usize) -> Vec<(&'static str, Box<dyn Table>)> {
    let hooks = HookTable::new(26 * entries + 256).unwrap();
    let mut tables = refusing_tables(entries);
    tables.push(("hooks", Box::new(hooks)));
    tables
}

/// Those that refuse what does not fit.
fn refusing_tables(entries: usize) -> Vec<(&'static str, Box<dyn Table>)> {
    let chained = 67 * entries + 5000;
    let compact = 26 * entries + 256;
    vec![
        ("chained", Box::new(ChainedTable::new(chained).unwrap())),
        ("chained, no filters", Box::new(ChainedTable::without_filters(chained).unwrap())),
        ("compact", Box::new(CompactTable::new(compact).unwrap())),
    ]
}

fn random(numbers: &mut SplitMix64) -> Fingerprint {
    let mut bytes = [0; Fingerprint::LEN];
    for word in bytes.as_chunks_mut::<8>().0 {
        *word = numbers.next_u64().to_le_bytes();
    }
    Fingerprint::from_bytes(bytes)
}

fn randoms(seed: u64, count: usize) -> Vec<Fingerprint> {
    let mut numbers = SplitMix64::new(seed);
    (0..count).map(|_| random(&mut numbers)).collect()
}

/// Fingerprints that go to the same buckets and set the same bits of a filter.
fn alike(count: u64) -> Vec<Fingerprint> {
    let one = |i: u64| {
        let mut bytes = [7; Fingerprint::LEN];
        bytes[8..16].copy_from_slice(&i.to_le_bytes());
        Fingerprint::from_bytes(bytes)
    };
    (0..count).map(one).collect()
}

#[test]
fn a_table_answers_as_a_map_does() {
    // few fingerprints, so that each is entered, replaced and removed many times
    let pool = [randoms(1, 300), alike(6)].concat();
    for (name, table) in tables(2000) {
        let mut map = HashMap::new();
        let mut numbers = SplitMix64::new(2);
        for step in 0..60_000_u64 {
            let fingerprint = &pool[numbers.next_u64() as usize % pool.len()];
            match numbers.next_u64() % 4 {
                0 | 1 => {
                    let expected = match map.insert(*fingerprint, step) {
                        Some(before) => Inserted::Replaced(before),
                        None => Inserted::New,
                    };
                    assert_eq!(table.insert(fingerprint, step), expected, "{name}");
                }
                2 => assert_eq!(table.remove(fingerprint), map.remove(fingerprint), "{name}"),
                _ => assert_eq!(table.get(fingerprint), map.get(fingerprint).copied(), "{name}"),
            }
        }
        assert_eq!(table.count(), map.len(), "{name}");
        // no multiple of a batch, and the same fingerprint twice in one
        for wanted in [&pool[..], &pool[..1], &[], &[pool[0], pool[0]]] {
            table.prefetch(wanted);
            let mut handles = vec![Some(99); wanted.len()];
            table.get_many(wanted, &mut handles);
            let expected: Vec<_> = wanted.iter().map(|one| map.get(one).copied()).collect();
            assert_eq!(handles, expected, "{name}");
        }
    }
}

#[test]
fn many_are_entered_as_one_after_another_would_be() {
    for ((name, table), (_, other)) in refusing_tables(500).into_iter().zip(refusing_tables(500)) {
        // the same twice in a batch, those of one bucket, more than there is room for, and again
        let pool = [randoms(11, 900), alike(20), randoms(11, 30)].concat();
        let mut numbers = SplitMix64::new(12);
        let mut refused = 0;
        for round in 0..40 {
            let count = numbers.next_u64() as usize % 60;
            let entries: Vec<(Fingerprint, u64)> = (0..count as u64)
                .map(|i| (pool[numbers.next_u64() as usize % pool.len()], 100 * round + i))
                .chain((round % 9 == 0).then_some((pool[0], round)))
                .collect();
            let one_by_one = entries.iter().map(|(one, handle)| other.insert(one, *handle));
            let expected = one_by_one.filter(|entered| *entered == Inserted::Full).count();
            assert_eq!(table.insert_many(&entries), expected, "{name}");
            refused += expected;
            for fingerprint in &pool {
                assert_eq!(table.get(fingerprint), other.get(fingerprint), "{name}");
            }
        }
        assert_eq!(table.counters(), other.counters(), "{name}");
        assert!(refused > 0, "{name}");
    }
}

#[test]
fn handles_reach_from_zero_to_the_largest() {
    for (name, table) in tables(100) {
        for (fingerprint, handle) in randoms(3, 3).iter().zip([0, 1, MAX_HANDLE]) {
            assert_eq!(table.insert(fingerprint, handle), Inserted::New, "{name}");
            assert_eq!(table.get(fingerprint), Some(handle), "{name}");
            assert_eq!(table.remove(fingerprint), Some(handle), "{name}");
        }
    }
}

#[test]
#[should_panic(expected = "expected at most")]
fn a_handle_beyond_the_largest_is_a_bug() {
    CompactTable::new(4096).unwrap().insert(&randoms(1, 1)[0], u64::MAX);
}

#[test]
fn zeros_are_a_fingerprint_too() {
    let zeros = Fingerprint::from_bytes([0; Fingerprint::LEN]);
    for (name, table) in tables(100) {
        assert_eq!(table.get(&zeros), None, "{name}");
        table.insert(&zeros, 0);
        assert_eq!(table.get(&zeros), Some(0), "{name}");
    }
}

#[test]
fn fingerprints_that_differ_late_are_told_apart() {
    for (name, table) in tables(1000) {
        // the compact table compares 16 bytes: these differ within them
        let alike = alike(8);
        for (i, fingerprint) in alike.iter().enumerate() {
            assert_eq!(table.insert(fingerprint, i as u64), Inserted::New, "{name}");
        }
        for (i, fingerprint) in alike.iter().enumerate() {
            assert_eq!(table.get(fingerprint), Some(i as u64), "{name}");
        }
    }
}

/// Enters fingerprints until one is refused; returns those that are in.
fn fill(table: &dyn Table, seed: u64) -> Vec<Fingerprint> {
    let mut numbers = SplitMix64::new(seed);
    let mut entered = Vec::new();
    loop {
        let fingerprint = random(&mut numbers);
        match table.insert(&fingerprint, entered.len() as u64) {
            Inserted::New => entered.push(fingerprint),
            Inserted::Full => return entered,
            other => unreachable!("random fingerprints differ: {other:?}"),
        }
    }
}

#[test]
fn a_table_fills_up_and_what_was_refused_can_come_later() {
    for (name, table) in refusing_tables(20_000) {
        let entered = fill(&*table, 5);
        let share = entered.len() as f64 / table.capacity() as f64;
        // chains take all there is; of two buckets with five places each a pair is full before that,
        // and nothing in it can move
        let least = if name == "compact" { 0.85 } else { 1.0 };
        assert!(share >= least, "{name}: {share}");
        assert_eq!(table.counters().refused, 1, "{name}");
        for (i, fingerprint) in entered.iter().enumerate() {
            assert_eq!(table.get(fingerprint), Some(i as u64), "{name}");
        }
        // known ones are not refused, and what is removed makes room
        assert_eq!(table.insert(&entered[7], 1), Inserted::Replaced(7), "{name}");
        for fingerprint in &entered {
            assert!(table.remove(fingerprint).is_some(), "{name}");
        }
        assert_eq!(table.count(), 0, "{name}");
        let again = fill(&*table, 6).len() as f64 / table.capacity() as f64;
        assert!(again >= least, "{name}: {again}");
    }
}

#[test]
fn memory_is_what_was_asked_for() {
    for bytes in [5000, 1 << 20, 10_000_001] {
        let chained = ChainedTable::new(bytes).unwrap();
        assert!(chained.bytes() <= bytes && bytes - chained.bytes() < 5000);
        assert!((chained.bytes() as f64) < 72.0 * chained.capacity() as f64);
        let compact = CompactTable::new(bytes).unwrap();
        assert!(compact.bytes() <= bytes && bytes - compact.bytes() < 128);
        assert!((compact.bytes() as f64) < 26.0 * compact.capacity() as f64);
    }
    let too_small = |result: Result<(), TableError>| {
        assert!(matches!(result, Err(TableError::TooSmall { bytes: 100, .. })), "{result:?}");
    };
    too_small(ChainedTable::new(100).map(drop));
    too_small(CompactTable::new(100).map(drop));
    assert!(matches!(ChainedTable::new(1 << 40), Err(TableError::TooLarge { .. })));
    assert_eq!(CompactTable::new(1 << 60).map(drop), Err(TableError::NoMemory { bytes: 1 << 60 }));
}

#[test]
fn a_filter_that_was_wrong_is_right_afterwards() {
    let table = ChainedTable::new(1 << 20).unwrap();
    let entered = randoms(8, 10_000);
    for fingerprint in &entered {
        table.insert(fingerprint, 0);
    }
    for fingerprint in &entered {
        table.remove(fingerprint);
    }
    let look_up_all = || {
        let before = table.counters();
        let mut handles = vec![None; entered.len()];
        table.get_many(&entered, &mut handles);
        assert!(handles.iter().all(Option::is_none));
        let after = table.counters();
        (
            after.false_positives - before.false_positives,
            after.rebuilt_filters - before.rebuilt_filters,
        )
    };
    // nothing is left but bits; an empty chain needs no walk, and no filter
    let (false_positives, rebuilt) = look_up_all();
    assert_eq!((false_positives, rebuilt), (0, 0));

    // one entry a bucket keeps the bits of the others from being looked at no more
    for fingerprint in &entered {
        table.insert(fingerprint, 0);
    }
    for fingerprint in &entered[2000..] {
        table.remove(fingerprint);
    }
    let absent = || {
        let mut handles = vec![None; 8000];
        let before = table.counters();
        table.get_many(&entered[2000..], &mut handles);
        let after = table.counters();
        (
            after.false_positives - before.false_positives,
            after.rebuilt_filters - before.rebuilt_filters,
        )
    };
    let (first, rebuilt) = absent();
    assert!(rebuilt > 1000 && first >= rebuilt, "{first}, {rebuilt}");
    let (second, rebuilt) = absent();
    assert!(rebuilt == 0 && second < first / 4, "{first}, then {second}, rebuilt {rebuilt}");
}

#[test]
fn removing_what_is_not_there_mends_the_filter_that_said_it_might_be() {
    let table = ChainedTable::new(1 << 20).unwrap();
    let entered = randoms(8, 10_000);
    for fingerprint in &entered {
        table.insert(fingerprint, 7);
    }
    let (staying, going) = entered.split_at(2000);
    for fingerprint in going {
        assert_eq!(table.remove(fingerprint), Some(7));
    }
    let again = || {
        let before = table.counters();
        assert!(going.iter().all(|fingerprint| table.remove(fingerprint).is_none()));
        let after = table.counters();
        (
            after.false_positives - before.false_positives,
            after.rebuilt_filters - before.rebuilt_filters,
        )
    };
    let (first, rebuilt) = again();
    assert!(rebuilt > 1000 && first >= rebuilt, "{first}, {rebuilt}");
    let (second, rebuilt) = again();
    assert!(rebuilt == 0 && second < first / 4, "{first}, then {second}, rebuilt {rebuilt}");
    assert!(staying.iter().all(|fingerprint| table.get(fingerprint) == Some(7)));
    let without = ChainedTable::without_filters(1 << 20).unwrap();
    assert_eq!(without.insert(&entered[0], 7), Inserted::New);
    assert!(going.iter().all(|fingerprint| without.remove(fingerprint).is_none()));
    assert_eq!(without.counters().false_positives, 0);
}

#[test]
fn chains_are_as_long_as_chance_makes_them() {
    let table = ChainedTable::new(4 << 20).unwrap();
    let entered = fill(&table, 9);
    let lengths = table.chain_lengths(usize::MAX).unwrap();
    let chains: u64 = lengths.iter().sum();
    let entries: u64 = lengths.iter().enumerate().map(|(len, count)| len as u64 * count).sum();
    assert_eq!(entries, entered.len() as u64);
    assert_eq!(chains as usize * 8, table.capacity());
    // Poisson around 8: more than 25 in one of 8,000 buckets comes once in 10,000 tables
    assert!(lengths.len() <= 26, "{lengths:?}");
    // a few tell as much of the mean, which is off by 0.3 on average
    let few = table.chain_lengths(100).unwrap();
    assert_eq!(few.iter().sum::<u64>(), 100);
    let entries: u64 = few.iter().enumerate().map(|(len, count)| len as u64 * count).sum();
    assert!((600..1000).contains(&entries), "{few:?}");
    assert_eq!(CompactTable::new(1 << 20).unwrap().chain_lengths(100), None);
}

#[test]
fn threads_share_a_table_and_no_reader_sees_a_wrong_handle() {
    // A handle follows from its fingerprint, so that each answer can be judged. Some fingerprints
    // stay, some come and go, and the table is nearly full, so that entries move between chains.
    let handle = |fingerprint: &Fingerprint| fingerprint.prefix_u64() >> 1;
    for (name, table) in tables(3000) {
        let table = &*table;
        let room = table.capacity() * 8 / 10;
        let staying = randoms(10, room / 2);
        for fingerprint in &staying {
            assert_eq!(table.insert(fingerprint, handle(fingerprint)), Inserted::New, "{name}");
        }
        let done = &AtomicBool::new(false);
        thread::scope(|scope| {
            for reader in 0..2 {
                let staying = &staying;
                scope.spawn(move || {
                    let mut handles = vec![None; staying.len()];
                    let mut rounds = 0;
                    while !done.load(Ordering::Relaxed) || rounds == 0 {
                        if reader == 0 {
                            table.get_many(staying, &mut handles);
                        } else {
                            for (fingerprint, handle) in staying.iter().zip(&mut handles) {
                                *handle = table.get(fingerprint);
                            }
                        }
                        for (fingerprint, found) in staying.iter().zip(&handles) {
                            assert_eq!(*found, Some(handle(fingerprint)), "{name}");
                        }
                        rounds += 1;
                    }
                });
            }
            let writers: Vec<_> = (0..2)
                .map(|writer| {
                    scope.spawn(move || {
                        let passing = randoms(20 + writer, room / 4);
                        for _ in 0..60 {
                            for fingerprint in &passing {
                                let inserted = table.insert(fingerprint, handle(fingerprint));
                                assert_ne!(inserted, Inserted::Full, "{name}");
                            }
                            for fingerprint in &passing {
                                let removed = table.remove(fingerprint);
                                assert_eq!(removed, Some(handle(fingerprint)), "{name}");
                            }
                        }
                    })
                })
                .collect();
            let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
            // before anything fails: readers would go on for ever
            done.store(true, Ordering::Relaxed);
            ended.into_iter().for_each(|writer| writer.unwrap());
        });
        assert_eq!(table.count(), staying.len(), "{name}");
    }
}

#[test]
fn writers_of_one_bucket_wait_for_each_other() {
    for (name, table) in tables(1000) {
        let table = &*table;
        let shared = alike(4);
        thread::scope(|scope| {
            for thread in 0..4_u64 {
                let mine = shared[thread as usize];
                scope.spawn(move || {
                    for i in 0..20_000 {
                        assert_eq!(table.insert(&mine, i), Inserted::New, "{name}");
                        assert_eq!(table.get(&mine), Some(i), "{name}");
                        assert_eq!(table.remove(&mine), Some(i), "{name}");
                    }
                });
            }
        });
        assert_eq!(table.count(), 0, "{name}");
    }
}
