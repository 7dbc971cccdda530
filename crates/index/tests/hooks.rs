//! The table that keeps a sample of fingerprints: against a map with the same rule, by how evenly it
//! samples, and shared by threads.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use onefold_fingerprint::Fingerprint;
use onefold_index::{HookTable, Inserted, Table};
use onefold_testkit::SplitMix64;

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

fn rank(fingerprint: &Fingerprint) -> u32 {
    let [a, b, c, d, ..] = *fingerprint.as_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// A table of two buckets, which every fingerprint may use both of.
const TWO_BUCKETS: usize = 256;
const ENTRIES: usize = 10;

#[test]
fn a_full_table_keeps_those_of_lowest_rank_as_a_map_would() {
    let pool = randoms(1, 40);
    for seed in 0..200 {
        let table = HookTable::new(TWO_BUCKETS).unwrap();
        assert_eq!(table.capacity(), ENTRIES);
        let (mut map, mut passed_over) = (HashMap::new(), 0);
        let mut numbers = SplitMix64::new(seed);
        for step in 0..300 {
            let fingerprint = &pool[numbers.next_u64() as usize % pool.len()];
            if numbers.next_u64().is_multiple_of(8) {
                assert_eq!(table.remove(fingerprint), map.remove(fingerprint));
                continue;
            }
            let last = map.keys().copied().max_by_key(rank).filter(|_| map.len() == ENTRIES);
            let expected = match (map.get(fingerprint), last) {
                (Some(before), _) => Inserted::Replaced(*before),
                (None, Some(last)) if rank(&last) < rank(fingerprint) => Inserted::PassedOver,
                _ => Inserted::New,
            };
            if !map.contains_key(fingerprint)
                && let Some(last) = last
            {
                passed_over += 1;
                if expected == Inserted::New {
                    map.remove(&last);
                }
            }
            if expected != Inserted::PassedOver {
                map.insert(*fingerprint, step);
            }
            assert_eq!(table.insert(fingerprint, step), expected, "seed {seed}");
        }
        assert_eq!((table.count(), table.counters().passed_over), (map.len(), passed_over));
        assert_eq!(table.is_sampled(), passed_over > 0);
        let mut handles = vec![Some(99); pool.len()];
        table.get_many(&pool, &mut handles);
        let expected: Vec<_> = pool.iter().map(|one| map.get(one).copied()).collect();
        assert_eq!(handles, expected, "seed {seed}");
    }
}

#[test]
fn a_table_is_exact_but_for_one_in_thousands_until_nine_tenths_of_it_are_in_use() {
    let table = HookTable::new(1 << 20).unwrap();
    let entered = randoms(2, table.capacity() * 9 / 10);
    let entries: Vec<_> = entered.iter().copied().zip(0..).collect();
    assert_eq!(table.insert_many(&entries), 0);
    assert!(!table.is_sampled());
    let passed_over = table.counters().passed_over as usize;
    assert_eq!((table.one_in(), table.count()), (1, entries.len() - passed_over));
    assert!(passed_over * 1000 < entries.len(), "{passed_over}");
    let is_kept = |(one, handle): &&(Fingerprint, u64)| table.get(one) == Some(*handle);
    assert_eq!(entries.iter().filter(is_kept).count(), table.count());
}

#[test]
fn a_sample_is_as_dense_in_what_came_first_as_in_what_came_last() {
    let table = HookTable::new(1 << 20).unwrap();
    for times in [2, 16] {
        let entered = randoms(3, times * table.capacity());
        let entries: Vec<_> = entered.iter().copied().zip(0..).collect();
        assert_eq!(table.insert_many(&entries), 0);
        assert!(table.is_sampled());
        let full = table.count() as f64 / table.capacity() as f64;
        assert!(full > 0.95, "{full}");
        let found = table.one_in() as f64 / times as f64;
        assert!((0.8..1.3).contains(&found), "one in {}, {times}", table.one_in());
        let parts: Vec<f64> = entries
            .chunks(entries.len() / 4)
            .map(|part| {
                let kept = part.iter().filter(|(one, handle)| table.get(one) == Some(*handle));
                kept.count() as f64 / part.len() as f64
            })
            .collect();
        for part in &parts {
            let share = part * times as f64 / full;
            assert!((0.9..1.1).contains(&share), "{times}: {parts:?}");
        }
        // the lowest ranks are all there
        let low = u32::MAX / times as u32 / 4;
        let lowest: Vec<_> = entered.iter().filter(|one| rank(one) < low).collect();
        assert!(lowest.len() > table.capacity() / 5);
        let missed = lowest.iter().filter(|one| table.get(one).is_none()).count();
        assert!(missed * 1000 < lowest.len(), "{missed} of {}", lowest.len());
    }
}

#[test]
fn what_was_removed_makes_room_for_any_rank() {
    let table = HookTable::new(64 << 10).unwrap();
    let entered = randoms(4, 4 * table.capacity());
    let entries: Vec<_> = entered.iter().copied().zip(0..).collect();
    table.insert_many(&entries);
    let kept: Vec<_> = entered.iter().filter(|one| table.get(one).is_some()).collect();
    for fingerprint in &kept[..kept.len() * 3 / 4] {
        table.remove(fingerprint).unwrap();
    }
    let more = randoms(5, table.capacity() / 4);
    let new = more.iter().filter(|one| table.insert(one, 7) == Inserted::New).count();
    assert!(new * 20 > more.len() * 19, "{new} of {}", more.len());
}

#[test]
fn threads_share_a_full_table_and_no_reader_sees_a_wrong_handle() {
    // A handle follows from its fingerprint, so that each answer can be judged. Those of lowest rank
    // stay, whatever else comes and goes.
    let handle = |fingerprint: &Fingerprint| fingerprint.prefix_u64() >> 1;
    let table = &HookTable::new(32 << 10).unwrap();
    let low = |fingerprint: &Fingerprint| {
        let mut bytes = *fingerprint.as_bytes();
        bytes[2..4].fill(0);
        Fingerprint::from_bytes(bytes)
    };
    let staying: Vec<_> = randoms(6, table.capacity() / 4).iter().map(low).collect();
    for fingerprint in &staying {
        table.insert(fingerprint, handle(fingerprint));
    }
    let done = &AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            let staying = &staying;
            scope.spawn(move || {
                let passing = randoms(20, 2000);
                let mut handles = vec![None; staying.len()];
                while !done.load(Ordering::Relaxed) {
                    table.get_many(staying, &mut handles);
                    for (fingerprint, found) in staying.iter().zip(&handles) {
                        assert_eq!(*found, Some(handle(fingerprint)));
                    }
                    for fingerprint in &passing {
                        let found = table.get(fingerprint);
                        assert!(found.is_none_or(|found| found == handle(fingerprint)));
                    }
                }
            });
        }
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                scope.spawn(move || {
                    for round in 0..20 {
                        for fingerprint in randoms(20 + writer + 2 * (round % 5), 2000) {
                            let inserted = table.insert(&fingerprint, handle(&fingerprint));
                            assert_ne!(inserted, Inserted::Full);
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
    assert!(table.is_sampled() && table.count() <= table.capacity());
}
