//! What holds between tags, chains and filters, whatever was done; seen from within.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::thread;

use onefold_testkit::SplitMix64;

use super::*;

/// Asserts what holds of every bucket while nobody writes.
fn check(table: &ChainedTable) {
    let mut is_used = vec![false; table.entries.len()];
    for (index, bucket) in table.buckets.iter().enumerate() {
        let (mut tags, mut filter) = (Tags::default(), 0);
        for at in table.all(index) {
            let entry = at as usize - 1;
            assert!(!std::mem::replace(&mut is_used[entry], true), "entry {entry} is there twice");
            let words = table.entry(at).fingerprint();
            assert_eq!(words.bucket(table.buckets.len()), index, "entry {entry}");
            filter |= filter_bits(words);
            if let Some(own) = own_number(index, entry) {
                tags = tags.with(own, Some(Tag::of(words)));
            }
        }
        assert_eq!(bucket.tags(), tags, "bucket {index}");
        let is_own = |at: u32| own_number(index, at as usize - 1).is_some();
        assert!(!table.chain(bucket).any(is_own), "an own entry is in the chain of {index}");
        let kept = bucket.filter.load(Ordering::Relaxed);
        assert_eq!(kept & filter, filter, "bucket {index} has more than its filter");
        if bucket.head.load(Ordering::Relaxed) & REMOVED == 0 {
            assert_eq!(kept, filter, "nothing was removed from bucket {index}");
        }
    }
    for (entry, &is_used) in is_used.iter().enumerate() {
        let bits = table.used[entry / 64].load(Ordering::Relaxed);
        assert_eq!(bits >> (entry % 64) & 1 != 0, is_used, "entry {entry}");
    }
}

/// A table of so many groups of eight buckets.
fn table(groups: usize) -> ChainedTable {
    ChainedTable::new(groups * GROUP_BYTES).unwrap()
}

/// A fingerprint of bucket `index`. Its tag follows from `tag`, the bits of the filter from `bits`.
fn made(table: &ChainedTable, index: usize, [bits, tag, number]: [u64; 3]) -> Fingerprint {
    let count = table.buckets.len() as u128;
    let last = ((index as u128) << 64).div_ceil(count) as u64;
    let mut bytes = [0; Fingerprint::LEN];
    for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip([bits, tag, number, last]) {
        *place = word.to_le_bytes();
    }
    Fingerprint::from_bytes(bytes)
}

/// So many of bucket `index`.
fn of_bucket(table: &ChainedTable, index: usize, count: usize) -> Vec<Fingerprint> {
    let mut numbers = SplitMix64::new(index as u64);
    let mut made = || made(table, index, std::array::from_fn(|_| numbers.next_u64()));
    (0..count).map(|_| made()).collect()
}

fn get_many(table: &ChainedTable, fingerprints: &[Fingerprint]) -> Vec<Option<u64>> {
    let mut handles = vec![Some(99); fingerprints.len()];
    table.get_many(fingerprints, &mut handles);
    handles
}

#[test]
fn chains_tags_and_filters_agree_whatever_is_done() {
    for has_filters in [true, false] {
        // three buckets of 24 have most of it, so that others lend to them and want theirs back
        let table = ChainedTable { has_filters, ..table(3) };
        let crowded = [1, 9, 10].map(|index| of_bucket(&table, index, 70)).concat();
        let others: Vec<_> = (0..24).flat_map(|index| of_bucket(&table, index, 6)).collect();
        let pool = [crowded, others].concat();
        let mut map = HashMap::new();
        let mut numbers = SplitMix64::new(3);
        let (mut refused, mut elsewhere) = (0, 0);
        for step in 0..30_000_u64 {
            let one = pool[numbers.next_u64() as usize % pool.len()];
            // it fills up and empties by turns
            let kind = numbers.next_u64() % if step / 1000 % 2 == 0 { 5 } else { 8 };
            match kind {
                0..=2 => match table.insert(&one, step) {
                    Inserted::Full => {
                        assert_eq!((map.len(), map.get(&one)), (table.capacity(), None));
                        refused += 1;
                    }
                    Inserted::New => assert_eq!(map.insert(one, step), None),
                    Inserted::Replaced(before) => assert_eq!(map.insert(one, step), Some(before)),
                    Inserted::PassedOver => unreachable!("it refuses what does not fit"),
                },
                3 => assert_eq!(table.get(&one), map.get(&one).copied()),
                _ => assert_eq!(table.remove(&one), map.remove(&one)),
            }
            if step % 100 == 0 {
                check(&table);
                let expected: Vec<_> = pool.iter().map(|one| map.get(one).copied()).collect();
                assert_eq!(get_many(&table, &pool), expected);
                elsewhere += usize::from(table.buckets[9].first() != END);
            }
        }
        assert!(refused > 0 && elsewhere > 100, "{refused} refused, {elsewhere}");
    }
}

#[test]
fn fingerprints_with_one_tag_are_told_apart() {
    let table = table(1);
    // the first eight are in own entries, the others elsewhere
    let alike: Vec<_> = (0..12).map(|number| made(&table, 2, [7, 7, number])).collect();
    for (entered, one) in alike.iter().enumerate() {
        assert_eq!(table.insert(one, entered as u64), Inserted::New);
        check(&table);
        let expected: Vec<_> = (0..12).map(|i| (i <= entered).then_some(i as u64)).collect();
        assert_eq!(alike.iter().map(|one| table.get(one)).collect::<Vec<_>>(), expected);
        assert_eq!(get_many(&table, &alike), expected);
    }
    for (removed, one) in alike.iter().enumerate() {
        assert_eq!(table.remove(one), Some(removed as u64));
        check(&table);
        let expected: Vec<_> = (0..12).map(|i| (i > removed).then_some(i as u64)).collect();
        assert_eq!(get_many(&table, &alike), expected);
    }
}

#[test]
fn one_bucket_may_have_all_entries() {
    let table = table(2);
    let all = of_bucket(&table, 11, 128);
    for (handle, one) in all.iter().enumerate() {
        assert_eq!(table.insert(one, handle as u64), Inserted::New);
    }
    check(&table);
    assert_eq!(table.chain_lengths(16).unwrap()[128], 1);
    assert!(get_many(&table, &all).into_iter().eq((0..128).map(Some)));
    let other = &of_bucket(&table, 3, 1)[0];
    assert_eq!((table.get(other), table.insert(other, 5)), (None, Inserted::Full));
    // absent, with the bits and the tag of one that is there
    let [bits, tag, ..] = Words::of(&all[20]).0;
    let absent = made(&table, 11, [bits, tag, 0]);
    let before = table.counters();
    assert_eq!((table.get(&absent), get_many(&table, &[absent])), (None, vec![None]));
    let false_positives = before.false_positives + 2;
    assert_eq!(table.counters(), TableCounters { false_positives, ..before });
    assert_eq!((before.rebuilt_filters, before.refused), (0, 1));
    // one that lies in the middle of the chain makes room, wherever that is
    assert!(table.remove(&all[60]).is_some());
    assert_eq!(table.insert(other, 5), Inserted::New);
    check(&table);
    assert_eq!(
        (table.get(other), table.get(&all[60]), table.get(&all[61])),
        (Some(5), None, Some(61))
    );
}

#[test]
fn an_own_entry_that_is_free_again_is_taken_before_one_from_elsewhere() {
    let table = table(1);
    let all = of_bucket(&table, 4, 12);
    for (handle, one) in all[..11].iter().enumerate() {
        assert_eq!(table.insert(one, handle as u64), Inserted::New);
    }
    let bucket = &table.buckets[4];
    let lengths = || (bucket.tags().used().count(), table.chain(bucket).count());
    assert_eq!(lengths(), (8, 3));
    for removed in 0..8 {
        assert_eq!(table.remove(&all[removed]), Some(removed as u64));
        check(&table);
        assert_eq!(lengths(), (7, 3));
        assert_eq!(table.insert(&all[11], 11), Inserted::New);
        check(&table);
        assert_eq!(lengths(), (8, 3));
        assert_eq!((table.get(&all[11]), table.get(&all[removed])), (Some(11), None));
        assert_eq!(table.remove(&all[11]), Some(11));
        assert_eq!(table.insert(&all[removed], removed as u64), Inserted::New);
    }
    // an own entry that was lent has no tag here and one nowhere else
    all[..8].iter().for_each(|one| assert!(table.remove(one).is_some()));
    let others = of_bucket(&table, 0, 64 - 3);
    assert!(others.iter().all(|one| table.insert(one, 1) == Inserted::New));
    check(&table);
    assert_eq!(bucket.tags(), Tags::default());
    assert!(others.iter().all(|one| table.get(one) == Some(1)));
    assert!((8..11).all(|i| table.get(&all[i]) == Some(i as u64)));
}

#[test]
fn a_filter_is_made_anew_only_after_something_was_removed() {
    let table = table(1);
    let present = made(&table, 0, [0b00001_00010_00011, 0, 0]);
    let removed = made(&table, 0, [0b00100_00101_00110, 0, 0]);
    let absent = |bits| made(&table, 0, [bits, 1 << 63, 1]);
    let (like_present, like_removed) = (absent(0b00001_00010_00011), absent(0b00100_00101_00110));
    table.insert(&present, 1);
    table.insert(&removed, 2);
    let counted = || (table.counters().false_positives, table.counters().rebuilt_filters);
    assert_eq!(table.get(&like_present), None);
    assert_eq!(get_many(&table, &[like_removed]), [None]);
    assert_eq!(counted(), (2, 0));
    assert_eq!(table.remove(&removed), Some(2));
    assert_eq!(table.get(&like_removed), None);
    assert_eq!(counted(), (3, 1));
    check(&table);
    // and what was removed is not asked for any more
    assert_eq!((table.get(&like_removed), table.get(&removed)), (None, None));
    assert_eq!(counted(), (3, 1));
    // entering and removing find it out too, and so does a batch
    for (times, mend) in [
        (&|| assert_eq!(table.insert(&like_removed, 3), Inserted::New)) as &dyn Fn(),
        &|| assert_eq!(table.remove(&like_removed), None),
        &|| assert_eq!(get_many(&table, &[like_removed]), [None]),
    ]
    .into_iter()
    .enumerate()
    {
        table.remove(&like_removed);
        table.insert(&removed, 2);
        table.remove(&removed);
        let before = counted();
        mend();
        assert_eq!(counted().0, before.0 + 1, "{times}");
        check(&table);
    }
}

#[test]
fn readers_see_right_handles_while_entries_move_between_buckets() {
    // Two writers in neighbouring buckets of one group, which is nearly full all the time: what one
    // lets go the other takes, own or from elsewhere.
    let table = &table(1);
    let handle = |one: &Fingerprint| Words::of(one).0[2] >> 1;
    let staying = (0..8).flat_map(|index| of_bucket(table, index, 2)).collect::<Vec<_>>();
    for one in &staying {
        assert_eq!(table.insert(one, handle(one)), Inserted::New);
    }
    let passing = [2, 3].map(|index| of_bucket(table, index, 42).split_off(2));
    let done = &AtomicBool::new(false);
    thread::scope(|scope| {
        for reader in 0..2 {
            let wanted = [&staying[..], &passing[0], &passing[1]].concat();
            let staying = staying.len();
            scope.spawn(move || {
                let mut rounds = 0;
                while !done.load(Ordering::Relaxed) || rounds == 0 {
                    let found = match reader {
                        0 => get_many(table, &wanted),
                        _ => wanted.iter().map(|one| table.get(one)).collect(),
                    };
                    for (i, (one, found)) in wanted.iter().zip(found).enumerate() {
                        let is_right = found.map_or(i >= staying, |found| found == handle(one));
                        assert!(is_right, "{found:?}, expected {}", handle(one));
                    }
                    rounds += 1;
                }
            });
        }
        let writers = [&passing[0], &passing[1]].map(|passing| {
            scope.spawn(move || {
                let (mut numbers, mut refused) = (SplitMix64::new(handle(&passing[0])), 0);
                for _ in 0..100_000 {
                    let one = &passing[numbers.next_u64() as usize % passing.len()];
                    match table.insert(one, handle(one)) {
                        Inserted::New => {}
                        Inserted::Replaced(_) => {
                            assert_eq!(table.remove(one), Some(handle(one)));
                        }
                        Inserted::Full => {
                            let other = &passing[numbers.next_u64() as usize % passing.len()];
                            table.remove(other);
                            refused += 1;
                        }
                        Inserted::PassedOver => unreachable!("it refuses what does not fit"),
                    }
                }
                refused
            })
        });
        let refused = writers.map(|writer| writer.join());
        // before anything fails: readers would go on for ever
        done.store(true, Ordering::Relaxed);
        // it was full at times
        assert!(refused.into_iter().map(Result::unwrap).sum::<u64>() > 0);
    });
    check(table);
    assert!(staying.iter().all(|one| table.get(one) == Some(handle(one))));
}

#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
#[test]
fn all_of_its_memory_can_be_had_at_once() {
    use crate::table::mapped::tests::present;

    let table = ChainedTable::new(3 << 20).unwrap();
    table.populate();
    let all = [present(&table.buckets), present(&table.entries), present(&table.used)];
    assert!(all.iter().all(|(there, pages)| there == pages), "{all:?}");
}
