//! Scrubs and compactions beside others, and beside errors that pass: what is lost is named, what is
//! not is neither named nor given up.

#![allow(clippy::disallowed_methods, reason = "these tests damage what a pool wrote")]

use std::cell::Cell;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
use onefold_backend::{
    BackendError, Folder, LocalFolder, Log, LogReader, MemoryFolder, Operation, Pages,
};
use onefold_block::{BlockDevice, BlockSize, Durability};
use onefold_container::Codec;
use onefold_fingerprint::Fingerprinter;
use onefold_seal::Check;
use onefold_testkit::{flip_bit, random};
use onefold_volume::{BadPage, Hash, Options, Pool};
use tempfile::TempDir;

use crate::forged::Forged;
use crate::pass_on::pass_on;

const BLOCK: usize = 4096;
const NOW: Durability = Durability::OnReturn;

/// Containers of ten pages of random bytes, of which so many files are open.
fn options(open_files: usize) -> Options {
    Options { table_bytes: 4 << 20, container_len: 40_000, open_files, ..Options::default() }
}

/// A pool with a volume.
fn pool_in(folder: Arc<dyn Folder>, options: Options) -> Pool {
    Pool::create(&folder, Hash::Blake3).unwrap();
    let (pool, _) = Pool::open(folder, options).unwrap();
    pool.create_volume("a", 1 << 20, BlockSize::B4096).unwrap();
    pool
}

/// Such a pool on the disk, and what fails in it.
struct Scene {
    pool: Pool,
    faults: Faults,
    root: PathBuf,
    _directory: TempDir,
}

impl Scene {
    /// With so many files of containers open.
    fn new(open_files: usize) -> Self {
        Self::with(options(open_files))
    }

    fn with(options: Options) -> Self {
        let _directory = tempfile::tempdir().unwrap();
        let root = _directory.path().join("pool");
        let faults = Faults::none();
        let inner = LocalFolder::create(&root).unwrap();
        let pool = pool_in(Arc::new(Faulty::new(inner, "pool", &faults)), options);
        Self { pool, faults, root, _directory }
    }

    /// Of the first of three containers two pages are left, blocks 0 and 1 of these bytes, and it is
    /// known that block 0 cannot be read.
    fn with_a_lost_page() -> (Self, Vec<u8>) {
        let (scene, bytes) = (Self::new(1), random(1, 30 * BLOCK));
        scene.write(0, &bytes);
        scene.erase(2..10);
        flip_bit(&scene.path(1), 100);
        assert_eq!(scene.read(0), None);
        (scene, bytes)
    }

    /// Of five containers one page of the first is left, two of the second and all of the others, with
    /// the blocks of these bytes but those that are erased. The first cannot be opened so many times.
    fn with_a_refused_container(times: u64) -> (Self, Vec<u8>) {
        let (scene, bytes) = (Self::new(1), random(1, 50 * BLOCK));
        scene.write(0, &bytes);
        scene.erase(1..10);
        scene.erase(12..20);
        scene.refuse(1, times);
        (scene, bytes)
    }

    fn write(&self, block: usize, bytes: &[u8]) {
        self.pool.volume("a").unwrap().write(at(block), bytes, NOW).unwrap();
    }

    fn read(&self, block: usize) -> Option<Vec<u8>> {
        let mut found = vec![0; BLOCK];
        self.pool.volume("a").unwrap().read(at(block), &mut found).ok().map(|()| found)
    }

    fn erase(&self, blocks: std::ops::Range<usize>) {
        self.pool.volume("a").unwrap().erase(at(blocks.start)..at(blocks.end), NOW).unwrap();
    }

    fn path(&self, container: u32) -> PathBuf {
        self.root.join(format!("container-{container:08x}"))
    }

    /// The next opening of a container's file fails.
    fn refuse(&self, container: u32, times: u64) {
        let name = format!("container-{container:08x}");
        self.faults.add(Fault::new(Failure::Io).on(Operation::Open).named(&name).times(times));
    }
}

fn at(block: usize) -> u64 {
    (block * BLOCK) as u64
}

#[test]
fn a_scrub_reads_what_was_there_while_others_write_and_compact() {
    let scene = Scene::new(100);
    let pool = &scene.pool;
    scene.write(0, &random(1, 60 * BLOCK));
    flip_bit(&scene.path(6), 100);
    let asked = Cell::new(0);
    let scrubbed = pool.scrub_while(|| {
        asked.set(asked.get() + 1);
        // the maps were walked, and the first container read
        if asked.get() == 3 {
            scene.erase(11..20);
            scene.erase(20..30);
            assert!(pool.maintain().unwrap().compacted > 0);
            scene.write(70, &random(2, 10 * BLOCK));
        }
        true
    });
    // of the second container one page was moved, of the third all were let go; at the end it is
    // asked who has what is lost
    assert_eq!(asked.get(), 8);
    assert_eq!(scrubbed.pages, 60 - 10 - 10 - 1);
    let bad: Vec<_> = scrubbed.bad.iter().map(|page| &page.blocks[..]).collect();
    assert_eq!(bad, [[("a".to_owned(), 50)]]);
    assert_eq!((scrubbed.more, scrubbed.is_stopped), (0, false));
}

/// Pages are read and fingerprinted 64 at a time.
#[test]
fn each_page_of_a_long_container_is_judged_alone() {
    const PAGES: usize = 200;
    let scene = Scene::with(Options { container_len: 1 << 20, ..options(100) });
    // zstd shortens every other page, so that neighbours have different lengths
    let mut bytes = random(1, PAGES * BLOCK);
    bytes.chunks_mut(BLOCK).step_by(2).for_each(|page| page[1000..].fill(1));
    scene.write(0, &bytes);
    // of these no volume has any more
    scene.erase(70..75);
    scene.pool.flush().unwrap();
    let stored = std::fs::read(scene.path(1)).unwrap();
    let damaged = [1, 63, 65, 127, 199];
    for block in damaged {
        // these are stored as they are
        let page = &bytes[block * BLOCK..][..BLOCK];
        let at = stored.windows(BLOCK).position(|window| window == page).unwrap();
        flip_bit(&scene.path(1), at as u64 + 4000);
    }
    let named = |bad: &[BadPage]| -> Vec<(u32, usize)> {
        let block = |page: &BadPage| page.blocks[0].1 as usize;
        bad.iter().map(|page| (page.slot, block(page))).collect()
    };
    let scrubbed = scene.pool.scrub();
    assert_eq!(scrubbed.pages, (PAGES - 5 - damaged.len()) as u64);
    assert_eq!(named(&scrubbed.bad), damaged.map(|block| (block as u32, block)));
    // they can be read again after all, and another one cannot
    std::fs::write(scene.path(1), &stored).unwrap();
    flip_bit(&scene.path(1), 100);
    let scrubbed = scene.pool.scrub();
    assert_eq!(scrubbed.pages, (PAGES - 5 - 1) as u64);
    assert_eq!(named(&scrubbed.bad), [(0, 0)]);
    // the five are known again, and each of them is what it was
    for (i, block) in damaged.into_iter().enumerate() {
        let page = &bytes[block * BLOCK..][..BLOCK];
        assert!(scene.read(block).unwrap() == page, "{block}");
        scene.write(PAGES + i, page);
        assert_eq!(scene.pool.statistics().known_pages, i as u64 + 1, "{block}");
    }
}

/// A footer that came into the place of the one that was there when the pool was opened.
#[test]
fn pages_of_which_the_footer_says_something_wrong_are_told_alone() {
    let (scene, bytes) = (Scene::new(100), random(1, 20 * BLOCK));
    scene.write(0, &bytes);
    let forged = |behind: usize| {
        let mut file = Forged::new(&scene.root, 1);
        for (slot, page) in bytes[..9 * BLOCK].chunks(BLOCK).enumerate() {
            let of = if slot == 6 { &bytes[..BLOCK] } else { page };
            let len = [4097, 1, 4095].get(slot.wrapping_sub(2)).copied().unwrap_or(BLOCK as u32);
            // what was the last page is bytes of the one before
            let stored = match slot {
                8 => &[&bytes[8 * BLOCK..10 * BLOCK], &vec![0; behind]].concat(),
                _ => page,
            };
            file.add(stored, [(Fingerprinter::blake3().fingerprint(of), len)], |group| {
                // one that is not compressed has to be as long as what is stored
                (group.len, group.codec) = (len, Codec::Zstd);
            });
        }
        file.end()
    };
    // the pool knows how long the file is
    let before = std::fs::metadata(scene.path(1)).unwrap().len() as usize;
    let forged = (0..100).map(forged).find(|file| file.len() == before).unwrap();
    std::fs::write(scene.path(1), forged).unwrap();
    let scrubbed = scene.pool.scrub();
    let told: Vec<(u32, u64)> =
        scrubbed.bad.iter().map(|page| (page.slot, page.blocks[0].1)).collect();
    assert_eq!(told, [2, 3, 4, 6, 9].map(|slot| (slot, slot.into())), "{scrubbed:?}");
    assert_eq!(scrubbed.pages, 20 - 5);
    let problems = [
        "longer than any page",
        "expected a page of 1 bytes",
        "expected a page of 4095 bytes",
        "another fingerprint",
        "no such page",
    ];
    for (bad, problem) in scrubbed.bad.iter().zip(problems) {
        assert!(bad.problem.contains(problem), "{bad:?}, expected {problem}");
    }
}

#[test]
fn a_scrub_that_is_stopped_does_nothing_more_and_counts_what_it_found() {
    let scene = Scene::new(100);
    scene.write(0, &random(1, 30 * BLOCK));
    flip_bit(&scene.path(1), 100);
    // the maps, three containers, and the maps again
    for most in 0..5_u64 {
        let asked = Cell::new(0);
        let stopped = scene.pool.scrub_while(|| {
            asked.set(asked.get() + 1);
            asked.get() <= most
        });
        assert_eq!(asked.get(), most + 1);
        let found = u64::from(most >= 2);
        let pages = 10 * most.saturating_sub(1) - found;
        assert_eq!((stopped.pages, stopped.bad.len(), stopped.more), (pages, 0, found), "{most}");
        assert!(stopped.is_stopped);
    }
}

#[test]
fn a_volume_that_is_deleted_beside_a_scrub_hides_no_page_that_is_lost() {
    const PAGES: usize = 12_000;
    let scene = Scene::new(100);
    let pool = &scene.pool;
    for (seed, name) in [(1, "gone"), (2, "kept")] {
        pool.create_volume(name, PAGES as u64 * 512, BlockSize::B512).unwrap();
        pool.volume(name).unwrap().write(0, &random(seed, PAGES * 512), NOW).unwrap();
    }
    // of the three hundred containers one of the second half
    flip_bit(&scene.path(200), 100);
    let asked = Cell::new(0);
    let scrubbed = pool.scrub_while(|| {
        asked.set(asked.get() + 1);
        // the maps were walked, and the first container read
        if asked.get() == 3 {
            pool.delete_volume("gone").unwrap();
        }
        true
    });
    let [bad] = &scrubbed.bad[..] else { panic!("{scrubbed:?}") };
    assert_eq!((&bad.container[..], bad.slot, scrubbed.more), ("container-000000c8", 0, 0));
    let [(name, block)] = &bad.blocks[..] else { panic!("{bad:?}") };
    assert_eq!(name, "kept");
    pool.volume("kept").unwrap().read(block * 512, &mut [0; 512]).unwrap_err();
    // all that was kept but for it, and what else its containers had
    let pages = scrubbed.pages as usize;
    assert!((PAGES - 1..PAGES + 200).contains(&pages), "{pages}");
}

#[test]
fn a_file_that_cannot_be_opened_just_now_costs_no_page() {
    let scene = Scene::new(1);
    let bytes = random(1, 50 * BLOCK);
    let page = |i: usize| &bytes[i * BLOCK..(i + 1) * BLOCK];
    scene.write(0, &bytes);
    let known = || scene.pool.statistics().known_pages;
    // by a read
    scene.refuse(1, 1);
    assert_eq!(scene.read(0), None);
    scene.write(100, page(0));
    assert_eq!((known(), scene.read(100).as_deref()), (1, Some(page(0))));
    // by a scrub, which counts its pages: nobody knows what is there
    scene.refuse(2, 1);
    let late = Fault::new(Failure::Timeout).on(Operation::Read).named("container-00000003");
    // behind what says which file it is, and which pages it has: the read of all of them, and that of
    // the first alone
    scene.faults.add(late.skip(4).times(2));
    let scrubbed = scene.pool.scrub();
    let found = (scrubbed.pages, scrubbed.bad.len(), scrubbed.more);
    assert_eq!(found, (50 - 10 - 1, 0, 0), "{scrubbed:?}");
    let unanswered = scrubbed.unanswered.as_ref().unwrap();
    assert_eq!(unanswered.pages, 10 + 1);
    assert!(unanswered.problem.contains("an injected fault"), "{unanswered:?}");
    assert!(!scrubbed.is_good());
    scene.write(110, &bytes[10 * BLOCK..30 * BLOCK]);
    assert_eq!(known(), 1 + 20);
    assert!(scene.pool.scrub().is_good());
}

#[test]
fn a_page_that_could_not_be_read_is_known_again_once_a_scrub_finds_it_right() {
    let (scene, bytes) = Scene::with_a_lost_page();
    assert_eq!(scene.read(1).as_deref(), Some(&bytes[BLOCK..2 * BLOCK]));
    // it cannot be moved, and its container is not emptied
    scene.pool.maintain().unwrap();
    assert!(scene.path(1).exists());
    flip_bit(&scene.path(1), 100);
    assert_eq!(scene.pool.scrub().bad, []);
    scene.write(100, &bytes[..BLOCK]);
    assert_eq!(scene.pool.statistics().known_pages, 1);
    scene.pool.maintain().unwrap();
    assert!(!scene.path(1).exists());
    for block in [0, 100] {
        assert_eq!(scene.read(block).as_deref(), Some(&bytes[..BLOCK]));
    }
}

#[test]
fn a_container_is_emptied_once_nobody_has_the_page_of_it_that_could_not_be_read() {
    let (scene, bytes) = Scene::with_a_lost_page();
    scene.pool.maintain().unwrap();
    // a page that nobody had is found there again
    scene.write(50, &bytes[5 * BLOCK..6 * BLOCK]);
    assert_eq!(scene.pool.statistics().known_pages, 1);
    assert_eq!(scene.pool.maintain().unwrap().compacted, 0);
    assert!(scene.path(1).exists());
    scene.erase(0..1);
    assert_eq!(scene.pool.maintain().unwrap().compacted, 1);
    assert!(!scene.path(1).exists());
    assert_eq!(scene.read(50).as_deref(), Some(&bytes[5 * BLOCK..6 * BLOCK]));
}

#[test]
fn a_container_that_cannot_be_opened_just_now_is_emptied_after_the_others() {
    let (scene, bytes) = Scene::with_a_refused_container(2);
    for others in [1, 0] {
        let done = scene.pool.maintain().unwrap();
        assert_eq!((done.compacted, done.left), (others, 1));
        assert!(scene.path(1).exists() && !scene.path(2).exists());
    }
    assert_eq!(scene.pool.maintain().unwrap().compacted, 1);
    assert!(!scene.path(1).exists());
    for block in [0, 10, 11, 20, 49] {
        assert_eq!(scene.read(block).as_deref(), Some(&bytes[block * BLOCK..(block + 1) * BLOCK]));
    }
}

#[test]
fn a_container_that_never_opens_is_named_each_time_and_the_others_are_emptied() {
    let (scene, _) = Scene::with_a_refused_container(u64::MAX);
    for others in [1, 0, 0] {
        let done = scene.pool.maintain().unwrap();
        assert_eq!((done.compacted, done.left, done.is_stopped), (others, 1, false));
        let why = done.why_left.expect("it is left");
        // what could not be read, and why: the file could not be opened
        let cause = why.source().expect("of the folder").to_string();
        assert!(cause.contains("container-00000001"), "{cause}");
        assert!(scene.path(1).exists() && !scene.path(2).exists());
    }
    // one that is full is gone on with by what is kept for compactions
    scene.erase(22..30);
    scene.faults.add(Fault::new(Failure::Full).on(Operation::Append).named("container-"));
    assert_eq!(scene.pool.maintain().unwrap().compacted, 1);
    assert!(!scene.path(3).exists());
}

/// A folder in which something happens right before a container is opened again.
struct Hooked {
    inner: Faulty<MemoryFolder>,
    hook: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Folder for Hooked {
    fn log(&self, name: &str) -> Result<Box<dyn Log + Sync>, BackendError> {
        self.inner.log(name)
    }

    fn reader(&self, name: &str) -> Result<Box<dyn LogReader>, BackendError> {
        let hook = self.hook.lock().unwrap().take();
        hook.into_iter().for_each(|hook| hook());
        self.inner.reader(name)
    }

    pass_on!(pages, names, remove, rename);
}

#[test]
fn a_read_that_fails_gives_up_the_page_that_it_read_and_not_the_one_that_came_meanwhile() {
    let faults = Faults::none();
    let inner = Faulty::new(MemoryFolder::new(), "pool", &faults);
    let folder = Arc::new(Hooked { inner, hook: Mutex::default() });
    let pool = pool_in(Arc::clone(&folder) as Arc<dyn Folder>, options(1));
    let volume = pool.volume("a").unwrap();
    let bytes = random(1, 25 * BLOCK);
    volume.write(0, &bytes, NOW).unwrap();
    let (before, new) = (&bytes[..BLOCK], random(2, BLOCK));
    let writer = pool.volume("a").unwrap();
    let written = new.clone();
    let overwrite = move || writer.write(0, &written, NOW).unwrap();
    *folder.hook.lock().unwrap() = Some(Box::new(overwrite));
    let gone = Fault::new(Failure::NotFound).on(Operation::Open).named("container-00000001");
    faults.add(gone.times(1));
    volume.read(0, &mut [0; BLOCK]).unwrap_err();
    let counts = || (pool.statistics().known_pages, pool.statistics().new_pages);
    assert_eq!(counts(), (0, 26));
    volume.write(at(100), &new, NOW).unwrap();
    assert_eq!(counts(), (1, 26));
    // the one that could not be read is kept anew
    volume.write(at(101), before, NOW).unwrap();
    assert_eq!(counts(), (1, 27));
    let mut found = vec![0; BLOCK];
    for (block, page) in [(0, &new[..]), (100, &new), (101, before)] {
        volume.read(at(block), &mut found).unwrap();
        assert!(found == page, "{block}");
    }
}

/// The first container of the pool at `root` with these pages, each with what its footer says is its
/// check.
fn forged(root: &Path, pages: &[(&[u8], Check)]) -> Vec<u8> {
    let mut file = Forged::new(root, 1);
    for &(page, check) in pages {
        let fingerprint = Fingerprinter::blake3().fingerprint(page);
        file.add(page, [(fingerprint, page.len() as u32)], |group| group.check = check);
    }
    file.end()
}

#[test]
fn a_page_of_which_the_footer_says_something_else_by_now_is_not_moved() {
    let bytes = random(1, 30 * BLOCK);
    let mut pages: Vec<(&[u8], Check)> =
        bytes[..10 * BLOCK].chunks(BLOCK).map(|page| (page, Check::of(&[page]))).collect();
    let right = *pages[9].1.as_bytes();
    let mut cases = Vec::new();
    // no check of the last page, and one that begins like it
    for begins_alike in [0, 4] {
        let mut wrong = right.map(|byte| !byte);
        wrong[..begins_alike].copy_from_slice(&right[..begins_alike]);
        pages[9].1 = Check::from_bytes(wrong);
        cases.push(pages.clone());
    }
    // one page takes the place of the last two and of an entry in the footer
    let mut long = bytes[8 * BLOCK..10 * BLOCK].to_vec();
    long.extend_from_slice(&[0; 56]);
    let mut fewer = pages[..8].to_vec();
    fewer.push((&long, Check::of(&[&long])));
    cases.push(fewer);
    for (case, pages) in cases.iter().enumerate() {
        let scene = Scene::new(1);
        scene.write(0, &bytes);
        scene.erase(0..9);
        let file = forged(&scene.root, pages);
        assert_eq!(file.len() as u64, std::fs::metadata(scene.path(1)).unwrap().len(), "{case}");
        std::fs::write(scene.path(1), file).unwrap();
        for _ in 0..2 {
            scene.pool.maintain().unwrap();
            assert!(scene.path(1).exists(), "{case}");
            assert_eq!(scene.read(9).as_deref(), Some(&bytes[9 * BLOCK..10 * BLOCK]), "{case}");
        }
        // it is not relied on, and once nobody has it its container goes
        scene.write(100, &bytes[9 * BLOCK..10 * BLOCK]);
        assert_eq!(scene.pool.statistics().known_pages, 0, "{case}");
        scene.erase(9..10);
        assert!(!scene.path(1).exists(), "{case}");
        assert_eq!(scene.pool.check(), Vec::<String>::new(), "{case}");
    }
}
