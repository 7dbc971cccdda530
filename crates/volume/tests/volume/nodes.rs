//! Nodes of maps and tables that are damaged: a check tells of each, and a repair gives up what only they
//! knew.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use onefold_backend::crash::CrashDisk;
use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
use onefold_backend::{Folder, MemoryFolder};
use onefold_block::{BlockDevice, BlockSize, Durability};
use onefold_testkit::random;
use onefold_volume::{Hash, Options, Pool, Repaired, VolumeError};

const BLOCK: usize = 512;
/// Blocks of volume `a`.
const BLOCKS: u64 = 2300;
/// Bytes of a file of nodes before the first, and of each node with its check.
const HEADER: usize = 4096;
const SLOT: usize = 4112;
/// Bytes of each copy of a mark.
const PAGE: usize = 4096;

/// Memory for so many nodes. A container has nine hundred pages, and so two nodes of each kind.
fn options(least_nodes: usize) -> Options {
    Options {
        table_bytes: 64 << 10,
        container_len: 460_000,
        node_bytes: 0,
        least_nodes,
        ..Options::default()
    }
}

/// Blocks that are read at once.
const TOGETHER: usize = 50;

/// What blocks have, by volume and block; those that are not there are holes.
type Blocks = BTreeMap<(String, u64), u64>;

/// A pool as a kill leaves it, and what is in it.
struct Scene {
    files: BTreeMap<String, Vec<u8>>,
    blocks: Blocks,
}

/// The bytes of a block that was written as `seed`.
fn block(seed: u64) -> Vec<u8> {
    random(seed, BLOCK)
}

impl Scene {
    /// A volume, a snapshot that shares most of it, a clone that is longer, one that was deleted; pages
    /// that were moved; a checkpoint, and a journal behind it that changes map and references.
    fn new() -> Self {
        let folder: Arc<dyn Folder> = Arc::new(MemoryFolder::new());
        Pool::create(&*folder, Hash::Blake3).unwrap();
        let (pool, _) = Pool::open(Arc::clone(&folder), options(20)).unwrap();
        let mut scene = Self { files: BTreeMap::new(), blocks: Blocks::new() };
        let len = BLOCKS * BLOCK as u64;
        pool.create_volume("a", len, BlockSize::B512).unwrap();
        pool.create_volume("gone", len, BlockSize::B512).unwrap();
        scene.write(&pool, "a", 0..2000, 0);
        scene.write(&pool, "gone", 0..30, 90_000);
        scene.copy(&pool, "a", "snapshot", true);
        // a container of which little is left, and that is compacted
        scene.write(&pool, "gone", 100..1300, 10_000);
        scene.write(&pool, "a", 1990..2010, 20_000);
        scene.copy(&pool, "a", "longer", false);
        pool.volume("longer").unwrap().resize(2 * len).unwrap();
        scene.write(&pool, "longer", 3000..3020, 30_000);
        for blocks in [100..700, 750..1290] {
            let range =
                |blocks: &Range<u64>| blocks.start * BLOCK as u64..blocks.end * BLOCK as u64;
            pool.volume("gone").unwrap().erase(range(&blocks), Durability::OnFlush).unwrap();
            scene.blocks.retain(|(name, at), _| name != "gone" || !blocks.contains(at));
        }
        pool.flush().unwrap();
        while pool.compact().unwrap() {}
        pool.checkpoint().unwrap();
        // an overwrite of what is shared and of what is not, and pages in the open container
        scene.write(&pool, "a", 600..603, 40_000);
        scene.write(&pool, "longer", 3005..3007, 50_000);
        pool.flush().unwrap();
        assert_eq!(pool.check(), Vec::<String>::new());
        drop(pool);
        scene.files = files_of(&*folder);
        scene
    }

    fn write(&mut self, pool: &Pool, volume: &str, blocks: Range<u64>, seed: u64) {
        let bytes: Vec<u8> = blocks.clone().flat_map(|at| block(seed + at)).collect();
        let to = pool.volume(volume).unwrap();
        to.write(blocks.start * BLOCK as u64, &bytes, Durability::OnFlush).unwrap();
        self.blocks.extend(blocks.map(|at| ((volume.to_owned(), at), seed + at)));
    }

    fn copy(&mut self, pool: &Pool, from: &str, to: &str, is_read_only: bool) {
        pool.clone_volume(from, to, is_read_only).unwrap();
        let of = self.blocks.iter().filter(|((name, _), _)| name == from);
        let copies: Vec<_> = of.map(|((_, at), seed)| ((to.to_owned(), *at), *seed)).collect();
        self.blocks.extend(copies);
    }

    /// The pool on a disk, without one of its files or with other bytes in it.
    fn with<F: Folder + 'static>(&self, folder: F, damage: &Damage) -> Arc<dyn Folder> {
        for (name, bytes) in &self.files {
            let mut bytes = bytes.clone();
            if *name == damage.file {
                match damage.what {
                    What::Flipped(at) => bytes[at] ^= 0x10,
                    What::Cut(at) => bytes.truncate(at),
                    What::Missing => continue,
                }
            }
            if is_pages(name) {
                let mut pages = folder.pages(name, PAGE).unwrap();
                pages.set_count((bytes.len() / PAGE) as u64).unwrap();
                for (at, page) in (0..).zip(bytes.chunks(PAGE)) {
                    pages.write(at, page).unwrap();
                }
                pages.sync().unwrap();
                continue;
            }
            let mut log = folder.log(name).unwrap();
            log.append(&bytes).unwrap();
            log.sync().unwrap();
        }
        Arc::new(folder)
    }

    /// The blocks that cannot be read. All others must be what was written.
    fn lost(&self, pool: &Pool, context: &str) -> BTreeSet<(String, u64)> {
        let mut lost = BTreeSet::new();
        for volume in pool.volumes() {
            let (name, device) = (&volume.name, pool.volume(&volume.name).unwrap());
            let blocks: Vec<u64> = (0..volume.size / BLOCK as u64).collect();
            // where some cannot be read together, each is read alone
            let mut rest: Vec<&[u64]> = blocks.chunks(TOGETHER).rev().collect();
            while let Some(some) = rest.pop() {
                let mut found = vec![1; some.len() * BLOCK];
                match device.read(some[0] * BLOCK as u64, &mut found) {
                    Ok(()) => {
                        let seed = |at: &u64| self.blocks.get(&(name.clone(), *at));
                        let of = |at| seed(at).map_or(vec![0; BLOCK], |seed| block(*seed));
                        let expected: Vec<u8> = some.iter().flat_map(of).collect();
                        assert!(found == expected, "{context}: {name} {some:?}");
                    }
                    Err(_) if some.len() > 1 => rest.extend(some.chunks(1).rev()),
                    Err(error) => {
                        let error = error.to_string();
                        let is_named = error.contains("container-") || error.contains("nodes-");
                        assert!(is_named, "{context}: {error}");
                        lost.insert((name.clone(), some[0]));
                    }
                }
            }
        }
        assert_eq!(pool.volumes().len(), 4, "{context}");
        lost
    }

    /// Everything that can be wrong with one file of nodes: each node flipped in its numbers and in its
    /// check, the header, and files that are cut off or missing.
    fn damages(&self) -> Vec<Damage> {
        let mut all = Vec::new();
        for (file, bytes) in self.files.iter().filter(|(name, _)| name.starts_with("nodes-")) {
            let mut add = |what| all.push(Damage { file: file.clone(), what });
            for at in (HEADER..bytes.len()).step_by(SLOT) {
                add(What::Flipped(at + 9));
                add(What::Flipped(at + SLOT - 1));
            }
            [20, 4000].into_iter().for_each(|at| add(What::Flipped(at)));
            let middle = HEADER + (bytes.len() - HEADER) / SLOT / 2 * SLOT;
            [0, 100, HEADER, middle, middle + 5].into_iter().for_each(|at| add(What::Cut(at)));
            add(What::Missing);
        }
        all
    }
}

#[derive(Debug, Clone)]
struct Damage {
    file: String,
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum What {
    Flipped(usize),
    Cut(usize),
    Missing,
}

/// Whether a pool writes the file `name` by pages.
fn is_pages(name: &str) -> bool {
    ["writer", "acknowledged"].contains(&name)
}

fn files_of(folder: &dyn Folder) -> BTreeMap<String, Vec<u8>> {
    let read = |name: String| {
        if is_pages(&name) {
            let pages = folder.pages(&name, PAGE).unwrap();
            let mut bytes = vec![0; pages.count() as usize * PAGE];
            pages.read_many(0, &mut bytes).unwrap();
            return (name, bytes);
        }
        let reader = folder.reader(&name).unwrap();
        let mut bytes = vec![0; reader.len() as usize];
        reader.read(0, &mut bytes).unwrap();
        (name, bytes)
    };
    folder.names().unwrap().into_iter().map(read).collect()
}

fn open(folder: &Arc<dyn Folder>) -> Result<(Pool, Vec<VolumeError>), VolumeError> {
    Pool::open(Arc::clone(folder), options(20))
}

fn repair(folder: &Arc<dyn Folder>) -> Result<Repaired, VolumeError> {
    Pool::repair_with(folder, options(5))
}

/// The volume and the blocks of each part of a map that a repair gave up.
fn given_up(done: &Repaired) -> Vec<(String, Range<u64>)> {
    let of = done.settled.iter().filter_map(|line| {
        let (first, rest) = line.strip_prefix("gave up blocks ")?.split_once(" to ")?;
        let (last, rest) = rest.split_once(" of volume '")?;
        let name = rest.split_once('\'').unwrap().0;
        Some((name.to_owned(), first.parse().unwrap()..last.parse::<u64>().unwrap() + 1))
    });
    of.collect()
}

/// Opens a pool after a repair that had this to do: nothing is wrong but for what it gave up.
fn expect_repaired(
    scene: &Scene,
    folder: &Arc<dyn Folder>,
    done: &Repaired,
    context: &str,
) -> BTreeSet<(String, u64)> {
    let (pool, damage) = open(folder).unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(damage.iter().all(|one| one.to_string().contains("gave up")), "{context}: {damage:?}");
    assert_eq!(pool.check(), Vec::<String>::new(), "{context}");
    let lost = scene.lost(&pool, context);
    assert_eq!(damage.is_empty(), lost.is_empty(), "{context}: {damage:?}");
    let parts = given_up(done);
    let is_told = |(_, at): &(String, u64)| parts.iter().any(|(_, blocks)| blocks.contains(at));
    assert!(lost.iter().all(is_told), "{context}: {lost:?} beside {parts:?}");
    // the others that share a part are not named, and what the journal wrote since is there
    for (name, blocks) in &parts {
        let of_it = lost.iter().filter(|(volume, at)| volume == name && blocks.contains(at));
        assert!(of_it.count() >= blocks.clone().count() - 5, "{context}: {name} {blocks:?}");
    }
    let scrubbed = pool.scrub();
    let told: BTreeSet<(String, u64)> =
        scrubbed.bad.iter().flat_map(|page| page.blocks.iter().cloned()).collect();
    assert_eq!((told, scrubbed.unread), (lost.clone(), None), "{context}");
    lost
}

#[test]
fn each_damaged_node_is_told_by_a_check_and_repaired() {
    let scene = Scene::new();
    let (mut opened, mut refused, mut kinds) = (0, 0, BTreeMap::<&str, u32>::new());
    for damage in scene.damages() {
        let context = format!("{damage:?}");
        let folder = scene.with(MemoryFolder::new(), &damage);
        let is_wrong = match open(&folder) {
            Ok((pool, _)) => {
                let problems = pool.check();
                let of_node = problems.iter().filter(|one| one.contains(&damage.file)).count();
                assert_eq!(of_node, problems.len(), "{context}: {problems:?}");
                let lost = scene.lost(&pool, &context);
                assert!(!problems.is_empty() || lost.is_empty(), "{context}: {lost:?}");
                opened += u32::from(!problems.is_empty());
                !problems.is_empty()
            }
            Err(error) => {
                let VolumeError::Damaged { object, .. } = &error else {
                    panic!("{context}: {error}")
                };
                assert_eq!(*object, damage.file, "{context}");
                refused += 1;
                true
            }
        };
        let folder = scene.with(MemoryFolder::new(), &damage);
        let done = repair(&folder).unwrap_or_else(|error| panic!("{context}: {error}"));
        assert_eq!(!done.settled.is_empty(), is_wrong, "{context}: {done:?}");
        for (kind, prefix) in [
            ("segment", "gave up blocks"),
            ("places", "found the places"),
            ("references", "counted the references"),
            ("header", "stored nodes elsewhere"),
        ] {
            let count = done.settled.iter().filter(|line| line.starts_with(prefix)).count();
            *kinds.entry(kind).or_default() += count as u32;
        }
        assert!(!done.settled.iter().any(|line| line.starts_with("gave up pages")), "{done:?}");
        if is_wrong && damage.what != What::Missing {
            assert_eq!(done.kept.len(), 1, "{context}");
            let damaged = &files_of(&*scene.with(MemoryFolder::new(), &damage))[&damage.file];
            assert!(files_of(&*folder)[&done.kept[0]] == *damaged, "{context}");
        }
        let lost = expect_repaired(&scene, &folder, &done, &context);
        if matches!(damage.what, What::Flipped(at) if at < HEADER) {
            assert!(lost.is_empty(), "{context}");
        }
        let before = files_of(&*folder);
        assert_eq!(repair(&folder).unwrap(), Repaired::default(), "{context}");
        let is_mark = |name: &String| name == "writer";
        let without_mark = |files: BTreeMap<String, Vec<u8>>| {
            files.into_iter().filter(|(name, _)| !is_mark(name)).collect::<Vec<_>>()
        };
        assert!(without_mark(files_of(&*folder)) == without_mark(before), "{context}");
    }
    assert!(opened > 20 && refused > 0, "{opened} {refused}");
    for kind in ["segment", "places", "references", "header"] {
        assert!(kinds[kind] >= 2, "{kinds:?}");
    }
}

/// Three damages of `scene`, and whether the pool can be opened before it is repaired: a part of a map, a
/// node of the open container, and a file of which nothing is left.
fn some_damages(scene: &Scene) -> [(Damage, bool); 3] {
    let opens = |damage: &Damage| open(&scene.with(MemoryFolder::new(), damage)).is_ok();
    let loses = |damage: &&Damage| {
        let done = repair(&scene.with(MemoryFolder::new(), damage)).unwrap();
        done.settled.len() == 1 && !given_up(&done).is_empty()
    };
    let all = scene.damages();
    let part = all.iter().filter(loses).find(|damage| opens(damage)).expect("maps have parts");
    let is_of_node = |damage: &&Damage| matches!(damage.what, What::Flipped(at) if at > HEADER);
    let open = all.iter().filter(is_of_node).find(|damage| !opens(damage));
    let nothing = all.iter().find(|damage| damage.what == What::Cut(0)).expect("of each file");
    let open = open.expect("a container is open");
    [(part.clone(), true), (open.clone(), false), (nothing.clone(), opens(nothing))]
}

/// What cannot be read after a repair, after which nothing is wrong.
fn lost_after(scene: &Scene, folder: &Arc<dyn Folder>, context: &str) -> BTreeSet<(String, u64)> {
    let (pool, _) = open(folder).unwrap_or_else(|error| panic!("{context}: {error}"));
    assert_eq!(pool.check(), Vec::<String>::new(), "{context}");
    scene.lost(&pool, context)
}

#[test]
fn lost_blocks_that_are_written_again_are_as_before() {
    let mut scene = Scene::new();
    let segment = scene.damages().into_iter().find_map(|damage| {
        let folder = scene.with(MemoryFolder::new(), &damage);
        let done = repair(&folder).unwrap();
        let is_one = done.settled.len() == 1 && !given_up(&done).is_empty();
        is_one.then_some((folder, done))
    });
    let (folder, done) = segment.expect("the map has segments");
    let lost = expect_repaired(&scene, &folder, &done, "a segment");
    assert!(lost.len() > 500, "{}", lost.len());
    {
        let (pool, _) = open(&folder).unwrap();
        pool.delete_volume("snapshot").unwrap();
        scene.blocks.retain(|(name, _), _| name != "snapshot");
        pool.clone_volume("a", "snapshot", true).unwrap();
        pool.delete_volume("snapshot").unwrap();
        for (name, at) in lost.iter().filter(|(name, _)| name != "snapshot") {
            scene.write(&pool, name, *at..at + 1, 70_000);
        }
        scene.copy(&pool, "a", "snapshot", true);
        pool.flush().unwrap();
        assert_eq!(pool.check(), Vec::<String>::new());
        assert!(scene.lost(&pool, "written again").is_empty());
        pool.maintain().unwrap();
    }
    // nothing is in the container without a file any more
    let (pool, damage) = open(&folder).unwrap();
    assert!(damage.is_empty(), "{damage:?}");
    assert!(scene.lost(&pool, "opened again").is_empty());
    assert_eq!(pool.check(), Vec::<String>::new());
    drop(pool);
    assert_eq!(repair(&folder).unwrap(), Repaired::default());
}

#[test]
fn a_power_cut_at_any_step_of_a_repair_leaves_what_another_repair_finishes() {
    let scene = Scene::new();
    let mut states = 0;
    for (damage, opens) in some_damages(&scene) {
        let folder = scene.with(MemoryFolder::new(), &damage);
        let done = repair(&folder).unwrap();
        let expected = expect_repaired(&scene, &folder, &done, "no cut");
        let disk = CrashDisk::new();
        let folder = scene.with(disk.folder(), &damage);
        let start = disk.operations();
        repair(&folder).unwrap();
        for steps in start..=disk.operations() {
            let disk = CrashDisk::new();
            let folder = scene.with(disk.folder(), &damage);
            disk.crash_after(steps - start);
            let _ = repair(&folder);
            for state in disk.durable_states(2, steps) {
                let context = format!("{damage:?}, cut at {steps}");
                let folder: Arc<dyn Folder> = Arc::new(state.folder());
                if opens {
                    let (pool, _) =
                        open(&folder).unwrap_or_else(|error| panic!("{context}: {error}"));
                    scene.lost(&pool, &context);
                }
                repair(&folder).unwrap_or_else(|error| panic!("{context}: {error}"));
                assert_eq!(lost_after(&scene, &folder, &context), expected, "{context}");
                states += 1;
            }
        }
    }
    assert!(states > 100, "{states}");
}

#[test]
fn a_repair_that_failed_anywhere_gives_up_nothing_for_it() {
    let scene = Scene::new();
    let mut failed = 0;
    for (damage, opens) in some_damages(&scene) {
        let folder = scene.with(MemoryFolder::new(), &damage);
        let done = repair(&folder).unwrap();
        let expected = expect_repaired(&scene, &folder, &done, "no fault");
        for skipped in (0..).step_by(if opens { 2 } else { 5 }) {
            let folder = scene.with(MemoryFolder::new(), &damage);
            let faults = Faults::none();
            faults.add(Fault::new(Failure::Io).skip(skipped));
            let faulty: Arc<dyn Folder> =
                Arc::new(Faulty::new(Arc::clone(&folder), "pool", &faults));
            let first = repair(&faulty);
            let is_over = faults.failed() == 0;
            failed += u32::from(first.is_err());
            drop(faulty);
            let context = format!("{damage:?}, call {skipped}");
            repair(&folder).unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_eq!(lost_after(&scene, &folder, &context), expected, "{context}");
            if is_over {
                break;
            }
        }
    }
    assert!(failed > 50, "{failed}");
}

#[test]
fn pages_whose_footer_is_lost_as_well_are_lost_alone() {
    let scene = Scene::new();
    let mut found = 0;
    for damage in scene.damages() {
        let folder = scene.with(MemoryFolder::new(), &damage);
        let done = repair(&folder).unwrap();
        let [line] = &done.settled[..] else { continue };
        let Some((_, rest)) = line.split_once("found the places of pages ") else { continue };
        let (first, rest) = rest.split_once(" to ").unwrap();
        let (last, rest) = rest.split_once(" of '").unwrap();
        let container = rest.split_once('\'').unwrap().0;
        let len = scene.files[container].len();
        for flipped in [Some(len - 30), None] {
            let context = format!("{damage:?}, {container} flipped at {flipped:?}");
            let folder = scene.with(MemoryFolder::new(), &damage);
            match flipped {
                Some(at) => {
                    let mut bytes = scene.files[container].clone();
                    bytes[at] ^= 1;
                    let mut log = folder.log(container).unwrap();
                    log.truncate(0).unwrap();
                    log.append(&bytes).unwrap();
                }
                None => folder.remove(container).unwrap(),
            }
            let opens = open(&folder).is_ok();
            let done = repair(&folder).unwrap();
            let of_pages = format!("pages {first} to {last} of '{container}'");
            let settled = done.settled.iter().filter(|line| line.contains(&of_pages));
            let settled: Vec<_> = settled.collect();
            assert_eq!(settled.len(), 1, "{context}: {done:?}");
            let (pool, _) = open(&folder).unwrap();
            assert_eq!(pool.check(), Vec::<String>::new(), "{context}");
            if opens && flipped.is_some() {
                assert!(settled[0].starts_with("gave up pages"), "{context}: {done:?}");
                let lost = scene.lost(&pool, &context);
                let pages = last.parse::<usize>().unwrap() + 1 - first.parse::<usize>().unwrap();
                assert!(!lost.is_empty() && lost.len() <= 3 * pages, "{context}: {}", lost.len());
                found += 1;
            }
        }
    }
    assert!(found >= 2, "{found}");
}
