//! Reads of many blocks at once: each block is what a read of it alone gives, and one that is lost
//! loses no other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use onefold_backend::fault::{Faults, Faulty};
use onefold_backend::{Folder, LocalFolder, MemoryFolder, Operation};
use onefold_block::{BlockDevice, BlockSize, Durability};
use onefold_testkit::{SplitMix64, flip_bit, random, text};
use onefold_volume::{Hash, Options, Pool, Volume};

use crate::over::Over;

const BLOCK: usize = 4096;

fn options() -> Options {
    Options { table_bytes: 256 << 10, ..Options::default() }
}

fn pool_in(folder: &Arc<dyn Folder>, options: &Options, blocks: usize) -> (Pool, Volume) {
    Pool::create(folder, Hash::Blake3).unwrap();
    let (pool, _) = Pool::open(Arc::clone(folder), options.clone()).unwrap();
    pool.create_volume("a", (blocks * BLOCK) as u64, BlockSize::B4096).unwrap();
    let volume = pool.volume("a").unwrap();
    (pool, volume)
}

/// Pages of which every third cannot be compressed.
fn page(n: u64) -> Vec<u8> {
    if n.is_multiple_of(3) { random(n, BLOCK) } else { text(n, BLOCK) }
}

/// Writes blocks in an order in which neighbours seldom lie side by side: pages that were there
/// before, others twice or more, and holes. What the volume holds then.
fn scatter(volume: &Volume, blocks: usize, numbers: &mut SplitMix64) -> Vec<u8> {
    let mut model = vec![0; blocks * BLOCK];
    for _ in 0..blocks {
        let first = numbers.next_u64() as usize % blocks;
        let count = (1 + numbers.next_u64() as usize % 12).min(blocks - first);
        let bytes: Vec<u8> = match numbers.next_u64() % 6 {
            0 => vec![0; count * BLOCK],
            // the same page again and again
            1 => page(numbers.next_u64() % 5).repeat(count),
            _ => (0..count).flat_map(|_| page(numbers.next_u64() % 400)).collect(),
        };
        volume.write((first * BLOCK) as u64, &bytes, Durability::OnFlush).unwrap();
        model[first * BLOCK..][..bytes.len()].copy_from_slice(&bytes);
    }
    volume.flush().unwrap();
    model
}

/// A range of bytes, which seldom begins or ends where a block does.
fn any_range(len: usize, numbers: &mut SplitMix64) -> std::ops::Range<usize> {
    let mut one = |bound: usize| numbers.next_u64() as usize % bound;
    let (start, most) = (one(len), [600, 3 * BLOCK, len][one(3)]);
    let end = (start + one(most)).min(len);
    match one(4) {
        0 => start / BLOCK * BLOCK..end.next_multiple_of(BLOCK),
        _ => start..end,
    }
}

#[test]
fn ranges_of_scattered_blocks_are_what_was_written() {
    let mut numbers = SplitMix64::new(5);
    for open_files in [1, 100] {
        let folder: Arc<dyn Folder> = Arc::new(MemoryFolder::new());
        let options = Options { container_len: 100_000, open_files, ..options() };
        let (_pool, volume) = pool_in(&folder, &options, 300);
        let model = scatter(&volume, 300, &mut numbers);
        for _ in 0..300 {
            let range = any_range(model.len(), &mut numbers);
            let mut found = vec![0xee; range.len()];
            volume.read(range.start as u64, &mut found).unwrap();
            assert!(found == model[range.clone()], "{range:?}");
        }
    }
}

#[test]
fn a_mebibyte_that_was_written_as_one_is_read_as_one() {
    let faults = Faults::none();
    let folder: Arc<dyn Folder> = Arc::new(Faulty::new(MemoryFolder::new(), "pool", &faults));
    let (_pool, volume) = pool_in(&folder, &options(), 1024);
    let bytes: Vec<u8> = (0..256).flat_map(|n| page(n / 2)).collect();
    volume.write(0, &bytes, Durability::OnReturn).unwrap();
    let mut found = vec![0; bytes.len()];
    let before = faults.count(Operation::Read);
    volume.read(0, &mut found).unwrap();
    assert!(found == bytes);
    assert_eq!(faults.count(Operation::Read) - before, 1);
}

#[test]
fn a_lost_page_makes_an_error_of_what_has_it_and_of_nothing_else() {
    let mut numbers = SplitMix64::new(8);
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("pool");
    let folder: Arc<dyn Folder> = Arc::new(LocalFolder::create(&root).unwrap());
    let options = Options { container_len: 100_000, ..options() };
    let (pool, volume) = pool_in(&folder, &options, 300);
    let model = scatter(&volume, 300, &mut numbers);
    drop((volume, pool));
    // the first page of the first container, and others in its middle and in others'
    for (container, at) in
        [(1, 60), (1, 41_000), (1, 43_000), (1, 77_000), (3, 20_000), (3, 99_000)]
    {
        flip_bit(&root.join(format!("container-{container:08x}")), at);
    }
    let (pool, damaged) = Pool::open(folder, options).unwrap();
    assert!(damaged.is_empty(), "{damaged:?}");
    let volume = pool.volume("a").unwrap();
    let is_lost = |block: usize| {
        let mut found = vec![0xee; BLOCK];
        let read = volume.read((block * BLOCK) as u64, &mut found);
        assert!(read.is_err() || found == model[block * BLOCK..][..BLOCK], "{block}");
        read.is_err()
    };
    let expect = |lost: &[bool], range: std::ops::Range<usize>| {
        let mut found = vec![0xee; range.len()];
        let read = volume.read(range.start as u64, &mut found);
        let blocks = range.start / BLOCK..range.end.div_ceil(BLOCK);
        match read {
            Ok(()) => assert!(found == model[range.clone()], "{range:?}"),
            Err(error) => {
                let told = error.to_string();
                assert!(told.contains("container-0000000"), "{told}");
            }
        }
        let has_lost = !range.is_empty() && lost[blocks].contains(&true);
        assert_eq!(volume.read(range.start as u64, &mut found).is_err(), has_lost, "{range:?}");
    };
    // all at once before anyone knows what is lost, and each alone
    let mut all = vec![0; model.len()];
    volume.read(0, &mut all).unwrap_err();
    let lost: Vec<bool> = (0..300).map(is_lost).collect();
    let count = lost.iter().filter(|is_lost| **is_lost).count();
    assert!((2..100).contains(&count), "{count} blocks are lost");
    for (block, is_lost) in lost.iter().enumerate() {
        let range = block * BLOCK..(block + 1) * BLOCK;
        assert!(*is_lost || all[range.clone()] == model[range], "{block} was read beside others");
    }
    for _ in 0..300 {
        expect(&lost, any_range(model.len(), &mut numbers));
    }
    // a read of many notes each that is lost: who writes one again has it again
    for block in (0..300).filter(|block| lost[*block]) {
        let range = block * BLOCK..(block + 1) * BLOCK;
        volume.write(range.start as u64, &model[range], Durability::OnFlush).unwrap();
    }
    expect(&[false; 300], 0..model.len());
    assert_eq!(pool.scrub().bad, []);
}

#[test]
fn long_reads_find_pages_that_are_moved_and_containers_that_go() {
    let mut numbers = SplitMix64::new(13);
    let folder: Arc<dyn Folder> = Arc::new(MemoryFolder::new());
    let options = Options { container_len: 60_000, open_files: 2, ..options() };
    let (pool, volume) = pool_in(&folder, &options, 300);
    pool.create_volume("b", 2 << 20, BlockSize::B4096).unwrap();
    let other = pool.volume("b").unwrap();
    let model = scatter(&volume, 300, &mut numbers);
    let (is_over, mut compacted) = (AtomicBool::new(false), 0);
    let reads: u64 = thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|seed| {
                let (volume, model, is_over) = (&volume, &model, &is_over);
                scope.spawn(move || {
                    let _over = Over(is_over);
                    let (mut numbers, mut count) = (SplitMix64::new(seed), 0);
                    while !is_over.load(Ordering::Relaxed) {
                        let range = any_range(model.len(), &mut numbers);
                        let mut found = vec![0xee; range.len()];
                        volume.read(range.start as u64, &mut found).unwrap();
                        assert!(found == model[range.clone()], "{range:?}");
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        let over = Over(&is_over);
        let mut new = 1000;
        for _ in 0..60 {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            // the volume's own pages are kept anew, among others that go
            pool.drop_table(false).unwrap();
            for _ in 0..30 {
                let at = numbers.next_u64() as usize % 300 * BLOCK;
                volume.write(at as u64, &model[at..at + BLOCK], Durability::OnFlush).unwrap();
                let bytes: Vec<u8> = (new..new + 3).flat_map(page).collect();
                new += 3;
                let at = numbers.next_u64() % 509 * BLOCK as u64;
                other.write(at, &bytes, Durability::OnFlush).unwrap();
            }
            other.erase(0..2 << 20, Durability::OnReturn).unwrap();
            while pool.compact().unwrap() {
                compacted += 1;
            }
        }
        drop(over);
        readers.into_iter().map(|reader| reader.join().unwrap()).sum()
    });
    assert!(reads > 0 && compacted > 60, "{reads} reads, {compacted} containers emptied");
    assert_eq!(pool.check(), Vec::<String>::new());
}

#[test]
fn who_reads_in_sequence_waits_for_few_reads_of_nodes() {
    const BLOCKS: usize = 20_480;
    const TOGETHER: usize = 8;
    let faults = Faults::none();
    let memory: Arc<dyn Folder> = Arc::new(MemoryFolder::new());
    let folder: Arc<dyn Folder> = Arc::new(Faulty::new(memory, "", &faults));
    Pool::create(&*folder, Hash::Blake3).unwrap();
    let options = |node_bytes| Options {
        table_bytes: 1 << 20,
        node_bytes,
        least_nodes: 20,
        container_len: 2 << 20,
        ..Options::default()
    };
    let bytes = random(7, BLOCKS * 512);
    {
        let (pool, _) = Pool::open(Arc::clone(&folder), options(1 << 20)).unwrap();
        pool.create_volume("a", bytes.len() as u64, BlockSize::B512).unwrap();
        pool.volume("a").unwrap().write(0, &bytes, Durability::OnReturn).unwrap();
        pool.checkpoint().unwrap();
    }
    // as many reads as requests, and those of nodes: forty segments, and as many nodes of places
    let node_reads = |node_bytes, in_sequence: bool| {
        let (pool, _) = Pool::open(Arc::clone(&folder), options(node_bytes)).unwrap();
        let volume = pool.volume("a").unwrap();
        let before = faults.count(Operation::Read);
        let requests = BLOCKS / TOGETHER;
        let mut found = vec![0; TOGETHER * 512];
        for at in 0..requests {
            // any odd number goes through all of them
            let at = if in_sequence { at } else { at * 967 % requests };
            let begin = at * found.len();
            volume.read(begin as u64, &mut found).unwrap();
            assert!(found == bytes[begin..begin + found.len()], "{at}");
        }
        faults.count(Operation::Read) - before - requests as u64
    };
    let (in_sequence, elsewhere) = (node_reads(1 << 20, true), node_reads(1 << 20, false));
    assert!(in_sequence <= 20, "{in_sequence} reads of nodes");
    // nearly one for each node, so that the bound above is one
    assert!(elsewhere >= 60, "{elsewhere} reads of nodes");
    // and where next to nothing fits
    assert!(node_reads(0, true) <= 120);
}
