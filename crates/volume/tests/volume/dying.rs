//! What takes long is done in steps: others write and read between them, and find a pool in which
//! everything fits together.

use std::sync::Arc;
use std::thread;

use onefold_backend::{Folder, MemoryFolder};
use onefold_block::{BlockDevice, BlockSize, Durability};
use onefold_testkit::random;
use onefold_volume::{Between, Hash, Options, Pool, Volume};

use crate::gate::Gate;

const BLOCK: u64 = 4096;
/// Bytes of the blocks of a segment.
const STRIDE: u64 = 512 * BLOCK;

fn options() -> Options {
    Options { table_bytes: 1 << 20, container_len: 40_000, ..Options::default() }
}

/// A pool whose volume `large` has a page of its own in each of so many segments, and `other` one; and
/// what is passed before each of these steps.
fn pool(segments: u64, steps: Between) -> (Arc<dyn Folder>, Pool, Arc<Gate>) {
    let folder: Arc<dyn Folder> = Arc::new(MemoryFolder::new());
    Pool::create(&folder, Hash::Blake3).unwrap();
    let (pool, _) = Pool::open(Arc::clone(&folder), options()).unwrap();
    pool.create_volume("large", segments * STRIDE, BlockSize::B4096).unwrap();
    pool.create_volume("other", 1000 * BLOCK, BlockSize::B4096).unwrap();
    let large = pool.volume("large").unwrap();
    (0..segments).for_each(|segment| write(&large, segment * 512, segment));
    write(&pool.volume("other").unwrap(), 0, 1 << 40);
    pool.flush().unwrap();
    let gate = Arc::new(Gate::default());
    let at = Arc::clone(&gate);
    pool.between_steps(move |_, between| {
        if between == steps {
            at.pass();
        }
    });
    (folder, pool, gate)
}

fn write(volume: &Volume, block: u64, seed: u64) {
    volume.write(block * BLOCK, &random(seed, BLOCK as usize), Durability::OnFlush).unwrap();
}

fn has(volume: &Volume, block: u64, seed: u64) -> bool {
    let mut found = vec![0; BLOCK as usize];
    volume.read(block * BLOCK, &mut found).unwrap();
    found == random(seed, BLOCK as usize)
}

fn is_hole(volume: &Volume, block: u64) -> bool {
    let mut found = vec![1; BLOCK as usize];
    volume.read(block * BLOCK, &mut found).unwrap();
    found == [0; BLOCK as usize]
}

fn reopen(folder: Arc<dyn Folder>) -> Pool {
    let (pool, damage) = Pool::open(folder, options()).unwrap();
    assert!(damage.is_empty(), "{damage:?}");
    assert_eq!(pool.check(), Vec::<String>::new());
    assert_eq!(pool.scrub().bad, []);
    pool
}

#[test]
fn others_write_and_read_while_a_large_volume_goes() {
    const SEGMENTS: u64 = 40;
    let (folder, pool, gate) = pool(SEGMENTS, Between::Releases);
    let other = pool.volume("other").unwrap();
    let named = |block: u64| (1 << 40) + block;
    thread::scope(|scope| {
        let _closed = gate.close();
        let deletion = scope.spawn(|| pool.delete_volume("large").unwrap());
        // before the first of the steps, and behind each that leaves some to do
        for step in 0..=4 {
            gate.wait_for_one();
            let found = pool.statistics();
            // of the other one, and of each copy
            let blocks = step + 1 + (0..step).map(|copy| copy + 2).sum::<u64>();
            assert_eq!((found.volumes, found.mapped_blocks), (1 + step, blocks));
            assert_eq!(found.pages, SEGMENTS - 8 * step + 1 + step);
            write(&other, 1 + step, named(1 + step));
            other.flush().unwrap();
            assert!((0..=1 + step).all(|block| has(&other, block, named(block))));
            let copy = format!("copy {step}");
            pool.clone_volume("other", &copy, true).unwrap();
            write(&other, 0, named(0));
            assert!(has(&pool.volume(&copy).unwrap(), 1 + step, named(1 + step)));
            assert_eq!(pool.check(), Vec::<String>::new());
            pool.checkpoint().unwrap();
            while pool.compact().unwrap() {}
            assert_eq!(pool.check(), Vec::<String>::new());
            assert_eq!(pool.scrub().bad, []);
            assert!(!deletion.is_finished());
            gate.let_one_through();
        }
        deletion.join().unwrap();
    });
    assert_eq!(pool.statistics().pages, 6);
    drop((other, pool));
    let pool = reopen(folder);
    assert_eq!((pool.statistics().pages, pool.volumes().len()), (6, 6));
    assert!(has(&pool.volume("other").unwrap(), 5, named(5)));
}

#[test]
fn a_deletion_is_durable_before_anything_of_it_is_let_go() {
    let (folder, pool, gate) = pool(20, Between::Releases);
    thread::scope(|scope| {
        let _closed = gate.close();
        let deletion = scope.spawn(|| pool.delete_volume("large").unwrap());
        gate.wait_for_one();
        let before = pool.statistics().commits;
        // nothing is left to be written
        pool.flush().unwrap();
        assert_eq!(pool.statistics().commits, before);
        assert!(!deletion.is_finished());
    });
    drop(pool);
    assert_eq!(reopen(folder).volumes().len(), 1);
}

#[test]
fn a_volume_is_used_while_what_was_beyond_its_end_goes() {
    const SEGMENTS: u64 = 40;
    let (folder, pool, gate) = pool(SEGMENTS, Between::Releases);
    let large = pool.volume("large").unwrap();
    pool.clone_volume("large", "old", true).unwrap();
    let old = pool.volume("old").unwrap();
    let whole = SEGMENTS * STRIDE;
    thread::scope(|scope| {
        let _closed = gate.close();
        let resize = scope.spawn(|| large.resize(10 * STRIDE).unwrap());
        gate.wait_for_one();
        let mapped = || {
            let all = pool.volumes().into_iter();
            all.map(|one| (one.name, one.size, one.mapped_blocks)).collect::<Vec<_>>()
        };
        let expected =
            [("large", 10 * STRIDE, 10), ("old", whole, SEGMENTS), ("other", 1000 * BLOCK, 1)];
        assert_eq!(mapped(), expected.map(|(name, size, blocks)| (name.to_owned(), size, blocks)));
        // of what the snapshot has as well nothing goes
        gate.let_one_through();
        gate.let_one_through();
        gate.wait_for_one();
        assert_eq!(pool.statistics().pages, SEGMENTS + 1);
        // it is longer again, which lets nothing go and waits for nobody, and has holes there
        large.resize(whole).unwrap();
        assert!((10..SEGMENTS).all(|segment| is_hole(&large, 512 * segment)));
        write(&large, 512 * 20, 7777);
        write(&large, 512 * 30 + 1, 30);
        pool.clone_volume("large", "new", false).unwrap();
        pool.checkpoint().unwrap();
        assert_eq!(pool.check(), Vec::<String>::new());
        assert!(!resize.is_finished());
    });
    let verify = |pool: &Pool| {
        for name in ["large", "new"] {
            let volume = pool.volume(name).unwrap();
            assert!((0..10).all(|segment| has(&volume, 512 * segment, segment)));
            assert!(has(&volume, 512 * 20, 7777) && has(&volume, 512 * 30 + 1, 30));
            assert!(is_hole(&volume, 512 * 30) && volume.size() == whole);
        }
        let old = pool.volume("old").unwrap();
        assert!((0..SEGMENTS).all(|segment| has(&old, 512 * segment, segment)));
        assert_eq!(pool.statistics().pages, SEGMENTS + 2);
        assert_eq!(pool.check(), Vec::<String>::new());
    };
    verify(&pool);
    drop((large, old, pool));
    verify(&reopen(folder));
}

#[test]
fn what_a_volume_has_alone_is_told_as_if_deletions_that_are_under_way_were_over() {
    let (_folder, pool, gate) = pool(40, Between::Releases);
    pool.clone_volume("large", "snapshot", true).unwrap();
    thread::scope(|scope| {
        let _closed = gate.close();
        let deletion = scope.spawn(|| pool.delete_volume("snapshot").unwrap());
        gate.wait_for_one();
        let told = pool.details("large").unwrap();
        assert_eq!((told.own_pages, told.shared_pages, told.copies.len()), (40, 0, 0));
        assert!(!deletion.is_finished());
    });
    assert_eq!(pool.check(), Vec::<String>::new());
}

#[test]
fn others_write_and_read_while_maps_are_told_where_pages_were_moved() {
    const SEGMENTS: u64 = 700;
    let (folder, pool, gate) = pool(SEGMENTS, Between::Forwards);
    let (large, other) = (pool.volume("large").unwrap(), pool.volume("other").unwrap());
    // the pages of every tenth container and of none other are moved, from all over the map
    for segment in (0..SEGMENTS).filter(|segment| segment % 100 < 10 && segment % 10 != 3) {
        write(&large, 512 * segment, 5000 + segment);
    }
    let written = |segment: u64| if segment % 100 < 10 && segment % 10 != 3 { 5000 } else { 0 };
    pool.clone_volume("large", "old", true).unwrap();
    pool.clone_volume("large", "gone", true).unwrap();
    pool.flush().unwrap();
    let old = pool.volume("old").unwrap();
    let whole = |volume: &Volume, but: &[u64]| {
        (0..SEGMENTS)
            .filter(|segment| !but.contains(segment))
            .all(|segment| has(volume, 512 * segment, written(segment) + segment))
    };
    thread::scope(|scope| {
        let _closed = gate.close();
        let compaction = scope.spawn(|| assert!(pool.compact().unwrap()));
        // three maps of 700 segments, 256 at a time
        for step in 0..8 {
            gate.wait_for_one();
            // what was told and what was not yet, in a segment that is shared and in one that is not
            for segment in [3, 303, 603].map(|segment| segment + 10 * step % 70) {
                write(&large, 512 * segment + 1 + step, 3);
                write(&large, 512 * segment + 100, 603);
                large
                    .write(
                        512 * segment * BLOCK,
                        &random(8000 + segment, BLOCK as usize),
                        Durability::OnFlush,
                    )
                    .unwrap();
            }
            write(&other, 1 + step, 303);
            if step == 2 {
                pool.delete_volume("gone").unwrap();
                pool.clone_volume("old", "late", false).unwrap();
            }
            if step == 4 {
                write(&pool.volume("late").unwrap(), 512 * 3 + 9, 8);
                write(&pool.volume("late").unwrap(), 512 * 603 + 9, 8);
            }
            pool.flush().unwrap();
            assert_eq!(pool.check(), Vec::<String>::new());
            assert!(whole(&old, &[]));
            assert!(!compaction.is_finished());
            gate.let_one_through();
        }
    });
    let verify = |pool: &Pool| {
        let changed: Vec<u64> =
            (0..8).flat_map(|step| [3, 303, 603].map(|segment| segment + 10 * step % 70)).collect();
        assert!(whole(&pool.volume("large").unwrap(), &changed));
        for segment in &changed {
            assert!(has(&pool.volume("large").unwrap(), 512 * segment, 8000 + segment));
            assert!(has(&pool.volume("large").unwrap(), 512 * segment + 100, 603));
        }
        assert!(whole(&pool.volume("old").unwrap(), &[]));
        assert!(whole(&pool.volume("late").unwrap(), &[]));
        assert_eq!(pool.check(), Vec::<String>::new());
        assert_eq!(pool.scrub().bad, []);
    };
    verify(&pool);
    while pool.compact().unwrap() {}
    verify(&pool);
    drop((large, other, old, pool));
    verify(&reopen(folder));
}
