//! Pages that the table of fingerprints has no room for, found beside those that it knows.

use std::sync::Arc;
use std::thread;

use onefold_backend::{Folder, LocalFolder, MemoryFolder};
use onefold_block::{BlockDevice, BlockSize, Durability};
use onefold_testkit::random;
use onefold_volume::{Codec, Hash, IndexLayout, Options, Pool, Statistics};

const BLOCK: usize = 512;
/// Blocks of a write.
const WRITE: usize = 256;
/// What a table of 256 KiB has room for, at most: 26 bytes an entry.
const TABLE_BYTES: usize = 256 << 10;
const ROOM: u64 = 10_240;
const STREAMS: u64 = 4;
/// Blocks of a stream. Together they are four times as many as there is room for.
const BLOCKS: u64 = ROOM;

fn options(index: IndexLayout) -> Options {
    // a hundred pages each, so that an eighth of the table's memory has room for a few directories
    let container_len = 50_000;
    Options { index, table_bytes: TABLE_BYTES, container_len, ..Options::default() }
}

fn pool_of(options: Options) -> Pool {
    pool_in(Arc::new(MemoryFolder::new()), options)
}

fn pool_in(folder: Arc<dyn Folder>, options: Options) -> Pool {
    Pool::create_with(&folder, Hash::Blake3, Codec::Raw).unwrap();
    let (pool, _) = Pool::open(folder, options).unwrap();
    for stream in 0..2 * STREAMS {
        pool.create_volume(&stream.to_string(), BLOCKS * BLOCK as u64, BlockSize::B512).unwrap();
    }
    pool
}

/// A write of a stream: the same bytes each time.
fn bytes(stream: u64, write: u64) -> Vec<u8> {
    random(1 + stream * 1_000_000 + write, WRITE * BLOCK)
}

/// Writes `stream` to `volume`.
fn write(pool: &Pool, volume: u64, stream: u64) {
    let volume = pool.volume(&volume.to_string()).unwrap();
    for at in 0..BLOCKS / WRITE as u64 {
        let offset = at * (WRITE * BLOCK) as u64;
        volume.write(offset, &bytes(stream, at), Durability::OnFlush).unwrap();
    }
}

/// What happened from one moment to another: pages known, new, found beside others, not indexed, and
/// directories read.
fn since(before: &Statistics, after: &Statistics) -> [u64; 5] {
    [
        after.known_pages - before.known_pages,
        after.new_pages - before.new_pages,
        after.neighbour_pages - before.neighbour_pages,
        after.unindexed_pages - before.unindexed_pages,
        after.directories_read - before.directories_read,
    ]
}

#[test]
fn nearly_all_pages_of_streams_are_found_again_beside_hooks() {
    let all = STREAMS * BLOCKS;
    for index in [IndexLayout::Compact, IndexLayout::Hooks] {
        let pool = pool_of(options(index));
        let empty = pool.statistics();
        (0..STREAMS).for_each(|stream| write(&pool, stream, stream));
        let written = pool.statistics();
        let [known, new, ..] = since(&empty, &written);
        assert_eq!((known, new), (0, all));
        (0..STREAMS).for_each(|stream| write(&pool, STREAMS + stream, stream));
        let again = pool.statistics();
        let [known, new, beside, unindexed, reads] = since(&written, &again);
        assert_eq!(known + new, all);
        if index == IndexLayout::Compact {
            assert!(known <= ROOM && unindexed > 0, "{known}, {unindexed}");
            assert_eq!((beside, reads, again.cached_directories), (0, 0, 0));
            assert_eq!(again.table_one_in, 1);
            continue;
        }
        assert!(known * 100 >= all * 99, "{known} of {all}, {beside} beside others");
        assert!(beside > known / 2 && unindexed == 0, "{beside}, {unindexed}");
        assert!((3..8).contains(&again.table_one_in), "{}", again.table_one_in);
        // each container once, or some a second time
        let containers = all * BLOCK as u64 / 50_000;
        assert!(reads < containers * 12 / 10, "{reads} reads of {containers} containers");
        assert!(again.cached_directories > 2);
        assert!(again.cached_directory_bytes <= TABLE_BYTES / 8);
        assert_eq!(pool.check(), Vec::<String>::new());
    }
}

#[test]
fn streams_that_are_written_at_once_are_found_as_well() {
    let pool = pool_of(options(IndexLayout::Hooks));
    let write_all = |first| {
        thread::scope(|scope| {
            for stream in 0..STREAMS {
                let pool = &pool;
                scope.spawn(move || write(pool, first + stream, stream));
            }
        });
    };
    write_all(0);
    let written = pool.statistics();
    write_all(STREAMS);
    let [known, new, ..] = since(&written, &pool.statistics());
    assert!(known * 100 >= (known + new) * 90, "{known} known, {new} new");
    assert_eq!(pool.check(), Vec::<String>::new());
}

#[test]
fn nothing_is_read_while_the_table_has_room() {
    let options = Options { table_bytes: 8 << 20, ..options(IndexLayout::Hooks) };
    let pool = pool_of(options);
    for first in [0, STREAMS] {
        (0..STREAMS).for_each(|stream| write(&pool, first + stream, stream));
    }
    let found = pool.statistics();
    let all = STREAMS * BLOCKS;
    assert_eq!((found.new_pages, found.known_pages, found.unindexed_pages), (all, all, 0));
    assert_eq!((found.neighbour_pages, found.directories_read), (0, 0));
    assert_eq!((found.cached_directories, found.cached_directory_bytes), (0, 0));
    assert_eq!(found.table_one_in, 1);
}

#[test]
fn pages_of_the_open_container_are_found_without_reading() {
    let options = Options { container_len: 16 << 20, ..options(IndexLayout::Hooks) };
    let pool = pool_of(options);
    // the table is sampled from here on
    write(&pool, 0, 0);
    let written = pool.statistics();
    let volume = pool.volume("1").unwrap();
    for at in [0, 1] {
        for block in 0..1000 {
            let page = random(10_000 + block, BLOCK);
            volume.write((1000 * at + block) * BLOCK as u64, &page, Durability::OnFlush).unwrap();
        }
    }
    let [known, new, .., reads] = since(&written, &pool.statistics());
    assert_eq!((known, new, reads), (1000, 1000, 0));
}

#[test]
fn pages_in_no_order_cause_few_reads() {
    let pool = pool_of(options(IndexLayout::Hooks));
    (0..STREAMS).for_each(|stream| write(&pool, stream, stream));
    let pages: Vec<Vec<u8>> = (0..STREAMS)
        .flat_map(|stream| (0..BLOCKS / WRITE as u64).map(move |at| bytes(stream, at)))
        .collect();
    for (to, together) in [(5, 1), (6, WRITE)] {
        let before = pool.statistics();
        let volume = pool.volume(&to.to_string()).unwrap();
        let mut batch = Vec::new();
        for at in 0..BLOCKS as usize {
            // far from each other
            let page = (at + to * 1000) * 100_003 % (STREAMS * BLOCKS) as usize;
            batch.extend_from_slice(&pages[page / WRITE][page % WRITE * BLOCK..][..BLOCK]);
            if batch.len() == together * BLOCK {
                let offset = (at + 1 - together) * BLOCK;
                volume.write(offset as u64, &batch, Durability::OnFlush).unwrap();
                batch.clear();
            }
        }
        let [known, new, _, _, reads] = since(&before, &pool.statistics());
        assert_eq!(known + new, BLOCKS);
        // what the credit allows at the start, and one for each 256 unknown pages
        assert!(reads < 64 + 2 * new / 256, "{reads} reads, {new} pages new");
    }
}

#[test]
fn a_stream_of_single_pages_is_followed() {
    let pool = pool_of(options(IndexLayout::Hooks));
    (0..STREAMS).for_each(|stream| write(&pool, stream, stream));
    for stream in 0..STREAMS {
        let written = pool.statistics();
        let volume = pool.volume(&(STREAMS + stream).to_string()).unwrap();
        for at in 0..BLOCKS / WRITE as u64 {
            for (page, block) in bytes(stream, at).chunks(BLOCK).zip(at * WRITE as u64..) {
                volume.write(block * BLOCK as u64, page, Durability::OnFlush).unwrap();
            }
        }
        let [known, new, ..] = since(&written, &pool.statistics());
        assert!(known * 100 >= BLOCKS * 95, "{known} known, {new} new");
    }
}

#[test]
fn what_is_known_of_containers_that_are_gone_does_no_harm() {
    let pool = pool_of(options(IndexLayout::Hooks));
    for stream in 0..STREAMS {
        write(&pool, stream, stream);
    }
    write(&pool, STREAMS, 0);
    // every second block stays, so that containers are emptied; and the others go
    for stream in 0..=STREAMS {
        let volume = pool.volume(&stream.to_string()).unwrap();
        for block in (0..BLOCKS).filter(|block| stream % 2 == 1 || block % 8 != 0) {
            let begin = block * BLOCK as u64;
            volume.erase(begin..begin + BLOCK as u64, Durability::OnFlush).unwrap();
        }
    }
    pool.maintain().unwrap();
    assert!(pool.statistics().pages < BLOCKS);
    for stream in 0..STREAMS {
        write(&pool, STREAMS + stream, stream);
    }
    for (volume, stream) in (STREAMS..).zip(0..STREAMS) {
        let volume = pool.volume(&volume.to_string()).unwrap();
        for at in 0..BLOCKS / WRITE as u64 {
            let mut found = vec![0; WRITE * BLOCK];
            volume.read(at * (WRITE * BLOCK) as u64, &mut found).unwrap();
            assert!(found == bytes(stream, at));
        }
    }
    assert_eq!(pool.check(), Vec::<String>::new());
}

#[test]
fn directories_that_cannot_be_read_cost_duplicates_and_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let (place, away) = (root.path().join("pool"), root.path().join("away"));
    let folder = Arc::new(LocalFolder::create(&place).unwrap());
    let pool = pool_in(folder, Options { open_files: 1, ..options(IndexLayout::Hooks) });
    (0..2).for_each(|stream| write(&pool, stream, stream));
    pool.flush().unwrap();
    let written = pool.statistics();
    std::fs::create_dir(&away).unwrap();
    let containers = || {
        let names = std::fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> =
            names.filter(|name| name.to_string_lossy().starts_with("container-")).collect();
        names.sort();
        // what is open still grows
        names.truncate(names.len() / 2);
        names
    };
    let gone = containers();
    gone.iter().for_each(|name| std::fs::rename(place.join(name), away.join(name)).unwrap());
    write(&pool, STREAMS, 0);
    let [known, new, ..] = since(&written, &pool.statistics());
    assert!(new > BLOCKS / 2 && known > BLOCKS / 20, "{known} known, {new} new");
    for name in &gone {
        std::fs::rename(away.join(name), place.join(name)).unwrap();
    }
    for volume in [0, STREAMS] {
        let volume = pool.volume(&volume.to_string()).unwrap();
        for at in 0..BLOCKS / WRITE as u64 {
            let mut found = vec![0; WRITE * BLOCK];
            volume.read(at * (WRITE * BLOCK) as u64, &mut found).unwrap();
            assert!(found == bytes(0, at));
        }
    }
    assert_eq!(pool.check(), Vec::<String>::new());
}
