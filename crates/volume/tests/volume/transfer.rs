//! Volumes that are written into streams and made from them, in the same pool and in another.

use std::sync::Arc;

use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
use onefold_backend::{Folder, MemoryFolder, Operation};
use onefold_block::{BlockDevice, BlockSize, Durability};
use onefold_testkit::{SplitMix64, random};
use onefold_volume::{Hash, Options, Pool, StreamError, Transferred, VolumeError};

const BLOCK: usize = 4096;

fn new_pool(hash: Hash) -> Pool {
    let folder: Arc<dyn Folder> = Arc::new(MemoryFolder::new());
    Pool::create(&folder, hash).unwrap();
    open(folder)
}

fn open(folder: Arc<dyn Folder>) -> Pool {
    let options = Options { table_bytes: 64 << 10, ..Options::default() };
    Pool::open(folder, options).unwrap().0
}

fn write(pool: &Pool, name: &str, at: usize, bytes: &[u8]) {
    let volume = pool.volume(name).unwrap();
    volume.write((at * BLOCK) as u64, bytes, Durability::OnReturn).unwrap();
}

fn bytes_of(pool: &Pool, name: &str) -> Vec<u8> {
    let volume = pool.volume(name).unwrap();
    let mut bytes = vec![1; volume.size() as usize];
    volume.read(0, &mut bytes).unwrap();
    bytes
}

fn names(pool: &Pool) -> Vec<String> {
    pool.volumes().into_iter().map(|volume| volume.name).collect()
}

fn export(pool: &Pool, name: &str, base: Option<&str>) -> (Vec<u8>, Transferred) {
    let mut stream = Vec::new();
    let transferred = pool.export_volume(name, base, &mut stream).unwrap();
    (stream, transferred)
}

/// A pool with volume `disk` and its snapshots `monday` and `tuesday`, which is longer.
fn two_days() -> Pool {
    let pool = new_pool(Hash::Blake3);
    pool.create_volume("disk", 2000 * BLOCK as u64, BlockSize::B4096).unwrap();
    write(&pool, "disk", 3, &random(1, 700 * BLOCK));
    write(&pool, "disk", 1999, &random(2, BLOCK));
    pool.clone_volume("disk", "monday", true).unwrap();
    let disk = pool.volume("disk").unwrap();
    disk.erase(10 * BLOCK as u64..12 * BLOCK as u64, Durability::OnReturn).unwrap();
    write(&pool, "disk", 20, &random(3, 2 * BLOCK));
    disk.resize(3000 * BLOCK as u64).unwrap();
    write(&pool, "disk", 2999, &random(4, BLOCK));
    pool.clone_volume("disk", "tuesday", true).unwrap();
    pool
}

#[test]
fn a_volume_comes_back_from_its_stream_in_another_pool() {
    let pool = two_days();
    let (stream, transferred) = export(&pool, "monday", None);
    assert_eq!(transferred, Transferred { data_blocks: 701, hole_blocks: 0 });
    assert!(stream.len() < 702 * BLOCK, "holes are left out");
    // which names its pages otherwise
    let other = new_pool(Hash::Sha3);
    assert_eq!(other.import_volume("monday", None, &stream[..]).unwrap(), transferred);
    assert_eq!(names(&other), ["monday"]);
    assert!(other.volumes()[0].is_read_only);
    assert!(bytes_of(&other, "monday") == bytes_of(&pool, "monday"));
    let digest = |pool: &Pool| pool.content_digest("monday").unwrap();
    assert_eq!(digest(&other), digest(&pool));
    // what can be written still can
    let (stream, _) = export(&pool, "disk", None);
    other.import_volume("disk", None, &stream[..]).unwrap();
    assert!(!other.volumes()[0].is_read_only);
    assert!(bytes_of(&other, "disk") == bytes_of(&pool, "disk"));
    assert_eq!(other.check(), Vec::<String>::new());
}

#[test]
fn an_incremental_stream_has_what_changed_and_follows_its_base_alone() {
    let pool = two_days();
    let (stream, transferred) = export(&pool, "tuesday", Some("monday"));
    assert_eq!(transferred, Transferred { data_blocks: 3, hole_blocks: 2 });
    let other = new_pool(Hash::Blake3);
    other.import_volume("monday", None, &export(&pool, "monday", None).0[..]).unwrap();
    assert_eq!(other.import_volume("tuesday", Some("monday"), &stream[..]).unwrap(), transferred);
    for name in ["monday", "tuesday"] {
        assert!(bytes_of(&other, name) == bytes_of(&pool, name), "{name}");
    }
    // and back, where the volume becomes shorter
    let (back, _) = export(&pool, "monday", Some("tuesday"));
    other.import_volume("again", Some("tuesday"), &back[..]).unwrap();
    assert!(bytes_of(&other, "again") == bytes_of(&pool, "monday"));
    let refused = other.import_volume("wrong", Some("tuesday"), &stream[..]);
    assert!(matches!(refused, Err(VolumeError::OtherBase { .. })), "{refused:?}");
    let refused = other.import_volume("wrong", None, &stream[..]);
    assert!(matches!(refused, Err(VolumeError::NoBase)), "{refused:?}");
    let (all, _) = export(&pool, "monday", None);
    let refused = other.import_volume("wrong", Some("monday"), &all[..]);
    assert!(matches!(refused, Err(VolumeError::NeedlessBase)), "{refused:?}");
    let refused = other.import_volume("monday", None, &all[..]);
    assert!(matches!(refused, Err(VolumeError::VolumeExists { .. })), "{refused:?}");
    assert_eq!(names(&other), ["again", "monday", "tuesday"]);
    assert_eq!(other.check(), Vec::<String>::new());
}

#[test]
fn a_stream_that_is_cut_off_or_damaged_leaves_nothing() {
    let pool = two_days();
    let other = new_pool(Hash::Blake3);
    other.import_volume("monday", None, &export(&pool, "monday", None).0[..]).unwrap();
    let pages = other.statistics().pages;
    let (stream, _) = export(&pool, "tuesday", Some("monday"));
    for len in [0, 10, 60, stream.len() / 2, stream.len() - 1] {
        let refused = other.import_volume("tuesday", Some("monday"), &stream[..len]);
        assert!(matches!(refused, Err(VolumeError::Stream(_))), "{len}: {refused:?}");
    }
    let mut damaged = stream.clone();
    damaged[stream.len() / 2] ^= 1;
    let refused = other.import_volume("tuesday", Some("monday"), &damaged[..]);
    let found = matches!(refused, Err(VolumeError::Stream(StreamError::Damaged { .. })));
    assert!(found, "{refused:?}");
    assert_eq!(names(&other), ["monday"]);
    assert_eq!((other.statistics().pages, other.check()), (pages, Vec::new()));
}

/// Imports `stream` as `disk` into a pool of `monday`, with no room for the append behind `skipped`
/// others; whether there was none that had no room.
fn import_into_full(monday: &[u8], stream: &[u8], base: Option<&str>, skipped: u64) -> bool {
    let faults = Faults::none();
    let folder: Arc<dyn Folder> = Arc::new(Faulty::new(MemoryFolder::new(), "pool", &faults));
    Pool::create(&folder, Hash::Blake3).unwrap();
    let pool = open(Arc::clone(&folder));
    pool.import_volume("monday", None, monday).unwrap();
    let before = pool.statistics().pages;
    faults.add(Fault::new(Failure::Full).on(Operation::Append).skip(skipped));
    let imported = pool.import_volume("disk", base, stream);
    let is_over = faults.failed() == 0;
    let expected: &[&str] = match &imported {
        Ok(_) => &["disk", "monday"],
        Err(VolumeError::NotDurable { name, .. }) if name == "disk" => &["disk", "monday"],
        Err(error) => {
            assert!(!error.to_string().contains("there with all"), "{error}");
            &["monday"]
        }
    };
    assert!(imported.is_ok() || !is_over, "{imported:?}");
    assert_eq!(names(&pool), expected, "{skipped}: {imported:?}");
    pool.flush().unwrap();
    drop(pool);
    let pool = open(folder);
    assert_eq!(names(&pool), expected, "{skipped}: {imported:?}");
    match expected.len() {
        1 => assert_eq!(pool.statistics().pages, before),
        _ => {
            let (again, _) = export(&pool, "disk", base);
            assert!(again == stream, "{skipped}: {imported:?}");
        }
    }
    assert_eq!(pool.check(), Vec::<String>::new());
    is_over
}

#[test]
fn an_import_that_finds_no_room_leaves_nothing_or_says_that_all_of_it_is_there() {
    let pool = two_days();
    let (monday, _) = export(&pool, "monday", None);
    for (name, base) in [("monday", None), ("tuesday", Some("monday")), ("disk", Some("monday"))] {
        let (stream, _) = export(&pool, name, base);
        let steps = (0..1000).take_while(|step| !import_into_full(&monday, &stream, base, *step));
        assert!(steps.count() > 2, "{name} takes several appends");
    }
}

#[test]
fn a_name_that_is_too_long_for_an_import_is_refused_as_it_was_given() {
    let pool = two_days();
    let (stream, _) = export(&pool, "monday", None);
    let longest = "x".repeat(245);
    pool.import_volume(&longest, None, &stream[..]).unwrap();
    for name in ["x".repeat(246), "x".repeat(256), String::new()] {
        match pool.import_volume(&name, None, &stream[..]) {
            Err(VolumeError::BadName { name: refused, .. }) => assert_eq!(refused, name),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(names(&pool), ["disk", "monday", "tuesday", &longest]);
}

#[test]
fn any_change_between_two_volumes_follows_from_their_streams() {
    for seed in 0..20 {
        let mut numbers = SplitMix64::new(seed);
        let mut below = |bound: u64| numbers.next_u64() % bound;
        let block_size = if seed % 2 == 0 { BlockSize::B4096 } else { BlockSize::B512 };
        let len = u64::from(block_size.bytes());
        let pool = new_pool(Hash::Blake3);
        pool.create_volume("a", (1 + below(2500)) * len, block_size).unwrap();
        let a = pool.volume("a").unwrap();
        for step in 0..30 {
            if step == 15 {
                pool.clone_volume("a", "base", true).unwrap();
            }
            let blocks = a.size() / len;
            let at = below(blocks);
            let count = (1 + below(300)).min(blocks - at);
            let range = at * len..(at + count) * len;
            match below(6) {
                0 => a.resize((1 + below(2500)) * len).unwrap(),
                1 | 2 => a.erase(range, Durability::OnFlush).unwrap(),
                _ => {
                    let bytes = random(below(5), (count * len) as usize);
                    a.write(range.start, &bytes, Durability::OnFlush).unwrap();
                }
            }
        }
        let other = new_pool(Hash::Blake3);
        other.import_volume("base", None, &export(&pool, "base", None).0[..]).unwrap();
        let (changes, _) = export(&pool, "a", Some("base"));
        other.import_volume("a", Some("base"), &changes[..]).unwrap();
        for name in ["a", "base"] {
            assert!(bytes_of(&other, name) == bytes_of(&pool, name), "seed {seed}, {name}");
            let digest = |pool: &Pool| pool.content_digest(name).unwrap();
            assert_eq!(digest(&other), digest(&pool), "seed {seed}, {name}");
        }
        assert_eq!(other.check(), Vec::<String>::new(), "seed {seed}");
    }
}
