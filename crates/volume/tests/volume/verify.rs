//! Pages that are compared with the kept ones before they are taken for known.

use std::sync::Arc;

use onefold_backend::{Folder, LocalFolder, MemoryFolder};
use onefold_block::{BlockDevice, BlockSize, Durability};
use onefold_fingerprint::Fingerprinter;
use onefold_index::{ChainedTable, CompactTable, HookTable, Table};
use onefold_testkit::{flip_bit, random};
use onefold_volume::{Hash, Options, Pool};

const BLOCK: usize = 4096;
const NOW: Durability = Durability::OnReturn;

fn open(folder: &Arc<dyn Folder>, verify: bool) -> Pool {
    let options =
        Options { table_bytes: 64 << 10, container_len: 40_000, verify, ..Options::default() };
    Pool::open(Arc::clone(folder), options).unwrap().0
}

/// A pool with a volume of 4 KiB blocks and one of 512 bytes.
fn verifying(folder: &Arc<dyn Folder>, verify: bool) -> Pool {
    Pool::create(folder, Hash::Blake3).unwrap();
    let pool = open(folder, verify);
    pool.create_volume("a", 1 << 20, BlockSize::B4096).unwrap();
    pool.create_volume("small", 1 << 20, BlockSize::B512).unwrap();
    pool
}

/// The blocks that cannot be read; the others are `bytes`.
fn lost(pool: &Pool, bytes: &[u8]) -> Vec<usize> {
    let volume = pool.volume("a").unwrap();
    let is_lost = |(at, page): &(usize, &[u8])| {
        let mut found = vec![0; BLOCK];
        let read = volume.read((at * BLOCK) as u64, &mut found);
        assert!(read.is_err() || found == *page, "block {at}");
        read.is_err()
    };
    bytes.chunks(BLOCK).enumerate().filter(is_lost).map(|(at, _)| at).collect()
}

#[test]
fn a_table_that_leads_to_another_page_costs_nothing_where_pages_are_verified() {
    let fingerprinter = Fingerprinter::blake3();
    let (kept, written, short) = (random(1, BLOCK), random(2, BLOCK), random(3, 512));
    let tables: [fn() -> Arc<dyn Table>; 3] = [
        || Arc::new(ChainedTable::new(64 << 10).unwrap()),
        || Arc::new(CompactTable::new(64 << 10).unwrap()),
        || Arc::new(HookTable::new(64 << 10).unwrap()),
    ];
    let each = tables.iter().enumerate().flat_map(|one| [(one, false), (one, true)]);
    for ((layout, table), verify) in each {
        let folder: Arc<dyn Folder> = Arc::new(MemoryFolder::new());
        let pool = verifying(&folder, verify);
        let table = table();
        pool.use_table(Arc::clone(&table), false);
        let volume = pool.volume("a").unwrap();
        volume.write(0, &kept, NOW).unwrap();
        let of_kept = table.get(&fingerprinter.fingerprint(&kept)).expect("just entered");
        for page in [&written, &short] {
            table.insert(&fingerprinter.fingerprint(page), of_kept);
        }
        // alone, twice in one write, and a part of a block
        volume.write(BLOCK as u64, &written, NOW).unwrap();
        volume.write(2 * BLOCK as u64, &written.repeat(2), NOW).unwrap();
        volume.write(4 * BLOCK as u64, &written[..100], NOW).unwrap();
        volume.write(4 * BLOCK as u64 + 100, &written[100..], NOW).unwrap();
        let of_written = table.get(&fingerprinter.fingerprint(&written)).expect("entered");
        assert_eq!(of_written == of_kept, !verify);
        for at in 0..5 {
            let mut found = vec![0; BLOCK];
            volume.read((at * BLOCK) as u64, &mut found).unwrap();
            // what the table says is believed where nobody looks
            let expected = if at > 0 && verify { &written } else { &kept };
            assert!(found == *expected, "layout {layout}, verify {verify}, block {at}");
        }
        // compared with what is kept, all of these are known
        let before = pool.statistics();
        volume.write(10 * BLOCK as u64, &[&kept[..], &written].concat(), NOW).unwrap();
        let after = pool.statistics();
        assert_eq!(
            (after.new_pages, after.known_pages),
            (before.new_pages, before.known_pages + 2)
        );
        assert_eq!(after.pages, if verify { 2 } else { 1 });
        assert_eq!(pool.check(), Vec::<String>::new());
        // one of another length is not even read
        let small = pool.volume("small").unwrap();
        small.write(512, &short, NOW).unwrap();
        let mut found = vec![0; 512];
        assert_eq!(small.read(512, &mut found).is_ok(), verify, "layout {layout}");
        assert!(!verify || found == short);
    }
}

#[test]
fn a_damaged_page_is_mended_by_writing_it_again_at_once_only_where_pages_are_verified() {
    for verify in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("pool");
        let folder: Arc<dyn Folder> = Arc::new(LocalFolder::create(&root).unwrap());
        let bytes = random(1, 20 * BLOCK);
        let pool = verifying(&folder, verify);
        pool.volume("a").unwrap().write(0, &bytes, NOW).unwrap();
        drop(pool);
        // in the third page
        flip_bit(&root.join("container-00000001"), 3 * BLOCK as u64);
        let pool = open(&folder, verify);
        // nobody has read it since, so nobody knows
        pool.volume("a").unwrap().write(0, &bytes, NOW).unwrap();
        assert_eq!(pool.statistics().new_pages, u64::from(verify));
        assert_eq!(lost(&pool, &bytes), if verify { vec![] } else { vec![2] });
        // the read has met the damage
        pool.volume("a").unwrap().write(0, &bytes, NOW).unwrap();
        assert_eq!(pool.statistics().new_pages, 1);
        assert_eq!(lost(&pool, &bytes), [0; 0]);
        drop(pool);
        let pool = open(&folder, verify);
        assert_eq!(lost(&pool, &bytes), [0; 0]);
        assert_eq!(pool.scrub().bad, []);
    }
}
