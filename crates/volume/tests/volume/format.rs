//! Pools are read by docs/pool-format.md alone: the document is complete, and says what is so.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use onefold_backend::{Folder, LocalFolder};
use onefold_block::{BlockDevice, BlockSize, Durability};
use onefold_testkit::{random, text};
use onefold_volume::{Between, Codec, Hash, Options, Pool, Version, VolumeError};

use crate::common::crash::cut_everywhere;
use crate::format_reader::{Files, Pool as ByDocument, Registrations, Stage};

/// What volumes hold, by plain arrays.
type Arrays = BTreeMap<String, Vec<u8>>;

fn opened(root: &Path, codec: Codec) -> Pool {
    let folder: Arc<dyn Folder> = Arc::new(LocalFolder::create(root).unwrap());
    let options = Options {
        codec: Some(codec),
        table_bytes: 64 << 10,
        container_len: 30_000,
        commit_len: 2000,
        // so few that some are not in memory when they are needed
        node_bytes: 0,
        least_nodes: 5,
        ..Options::default()
    };
    let (pool, damage) = Pool::open(folder, options).unwrap();
    assert!(damage.is_empty(), "{damage:?}");
    pool
}

fn write(pool: &Pool, arrays: &mut Arrays, volume: &str, at: usize, bytes: &[u8]) {
    let device = pool.volume(volume).unwrap();
    device.write(at as u64, bytes, Durability::OnFlush).unwrap();
    arrays.get_mut(volume).unwrap()[at..at + bytes.len()].copy_from_slice(bytes);
}

/// All that the document says of the pool in `root` is what was written to it.
fn expect(root: &Path, version: Version, arrays: &Arrays) -> ByDocument {
    let mut read = ByDocument::open(root);
    assert_eq!(read.version, version.code());
    let volumes = read.volumes();
    let names: BTreeSet<_> = volumes.iter().map(|one| one.name.clone()).collect();
    assert_eq!(names, arrays.keys().cloned().collect());
    for volume in volumes {
        assert_eq!(volume.is_read_only, volume.name == "monday");
        assert_eq!(volume.block_size == 512, volume.name.contains("small"));
        let (found, expected) = (read.read(&volume), &arrays[&volume.name]);
        assert_eq!(found.len(), expected.len(), "{}", volume.name);
        let wrong = found.iter().zip(expected).position(|(found, expected)| found != expected);
        assert_eq!(wrong, None, "{}", volume.name);
    }
    read
}

fn use_a_pool(hash: Hash, version: Version) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let folder = LocalFolder::create(root).unwrap();
    Pool::create_as(&folder, hash, Codec::Zstd, version).unwrap();
    let (mut arrays, mut codecs) = (Arrays::new(), BTreeSet::new());
    let (mut kinds, mut of_checkpoints) = (BTreeSet::new(), BTreeSet::new());
    let all = [Codec::Zstd, Codec::Lz4, Codec::Deflate, Codec::Raw];
    for (round, codec) in all.into_iter().cycle().take(8).enumerate() {
        let (pool, seed) = (opened(root, codec), round as u64);
        if round == 0 {
            pool.create_volume("disk", 256 << 10, BlockSize::B4096).unwrap();
            pool.create_volume("small", 64 << 10, BlockSize::B512).unwrap();
            arrays.insert("disk".into(), vec![0; 256 << 10]);
            arrays.insert("small".into(), vec![0; 64 << 10]);
        }
        write(&pool, &mut arrays, "disk", 20_000 * round + 333, &text(seed, 60_000));
        write(&pool, &mut arrays, "disk", 25_000 * round, &random(seed, 13_000));
        write(&pool, &mut arrays, "small", 5_000 * round + 50, &text(20 + seed, 9_000));
        match round {
            1 => {
                pool.clone_volume("disk", "monday", true).unwrap();
                arrays.insert("monday".into(), arrays["disk"].clone());
            }
            2 => {
                pool.clone_volume("small", "small again", false).unwrap();
                arrays.insert("small again".into(), arrays["small"].clone());
                write(&pool, &mut arrays, "small again", 10_000, &text(50, 3_000));
            }
            3 | 6 => {
                pool.flush().unwrap();
                pool.checkpoint().unwrap();
            }
            4 => {
                pool.volume("small").unwrap().resize(48 << 10).unwrap();
                pool.volume("small").unwrap().resize(64 << 10).unwrap();
                let small = arrays.get_mut("small").unwrap();
                small[48 << 10..].fill(0);
                let device = pool.volume("disk").unwrap();
                device.erase(4096..32_768, Durability::OnFlush).unwrap();
                arrays.get_mut("disk").unwrap()[4096..32_768].fill(0);
                pool.flush().unwrap();
            }
            5 => {
                if version == Version::Paged {
                    // while it is not all let go of
                    pool.between_steps(|pool, between| {
                        if between == Between::Releases {
                            pool.checkpoint().unwrap();
                        }
                    });
                }
                pool.delete_volume("small again").unwrap();
                arrays.remove("small again");
                of_checkpoints.extend(expect(root, version, &arrays).checkpoint_kinds);
                while pool.compact().unwrap() {}
                pool.flush().unwrap();
                kinds.extend(expect(root, version, &arrays).kinds);
                if version == Version::Paged {
                    // while maps name pages where they were
                    pool.checkpoint().unwrap();
                }
            }
            7 => {
                pool.clone_volume("small", "small for a moment", false).unwrap();
                pool.delete_volume("small for a moment").unwrap();
            }
            _ => {}
        }
        pool.flush().unwrap();
        drop(pool);
        let read = expect(root, version, &arrays);
        assert!(read.last_acknowledged.is_some(), "the pool was closed");
        kinds.extend(read.kinds);
        of_checkpoints.extend(read.checkpoint_kinds);
        codecs.extend(read.codecs);
    }
    assert_eq!(kinds, (1..=8).collect(), "of each record there was one");
    assert_eq!(of_checkpoints, records_of_checkpoints(version), "of each record there was one");
    assert_eq!(codecs, (0..=3).collect());
    // Part of a frame at the end is nothing.
    let journals = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let is_journal = |path: &std::path::PathBuf| path.to_string_lossy().contains("journal-");
    let last = journals.filter(is_journal).max().unwrap();
    let mut torn = std::fs::read(&last).unwrap();
    torn.extend(&[200, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3]);
    rewrite(&last, &torn);
    expect(root, version, &arrays);
}

/// The records that a checkpoint of a folder can have.
fn records_of_checkpoints(version: Version) -> BTreeSet<u8> {
    match version {
        Version::Whole => BTreeSet::from([1, 2, 5, 9, 10, 11]),
        Version::Paged => [1, 5, 8].into_iter().chain(11..=18).collect(),
    }
}

#[expect(clippy::disallowed_methods, reason = "what a power cut leaves, not what the pool writes")]
fn rewrite(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_pool_is_read_by_the_document_whatever_was_done_to_it() {
    for version in [Version::Whole, Version::Paged] {
        use_a_pool(Hash::Sha3, version);
        use_a_pool(Hash::Blake3, version);
    }
}

#[test]
fn an_upgraded_pool_is_read_by_the_document() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let local: Arc<dyn Folder> = Arc::new(LocalFolder::create(root).unwrap());
    Pool::create_as(&local, Hash::Blake3, Codec::Zstd, Version::Whole).unwrap();
    let mut arrays = Arrays::from([("disk".to_owned(), vec![0; 256 << 10])]);
    {
        let pool = opened(root, Codec::Zstd);
        pool.create_volume("disk", 256 << 10, BlockSize::B4096).unwrap();
        write(&pool, &mut arrays, "disk", 5000, &text(1, 100_000));
        pool.clone_volume("disk", "monday", true).unwrap();
        arrays.insert("monday".into(), arrays["disk"].clone());
        write(&pool, &mut arrays, "disk", 50_000, &random(2, 30_000));
        pool.flush().unwrap();
    }
    expect(root, Version::Whole, &arrays);
    Pool::upgrade(&local, Options::default()).unwrap();
    expect(root, Version::Paged, &arrays);
}

fn files_of(folder: &dyn Folder) -> Files {
    let read = |name: String| {
        let reader = folder.reader(&name).unwrap();
        let mut bytes = vec![0; reader.len() as usize];
        reader.read(0, &mut bytes).unwrap();
        (name, bytes)
    };
    folder.names().unwrap().into_iter().map(read).collect()
}

#[test]
fn what_a_power_cut_leaves_is_read_by_the_document_as_by_the_program() {
    for seed in 20..22 {
        let tally = cut_everywhere(seed, 3, None, &|state, found| {
            let mut read = ByDocument::of(files_of(&state.folder()));
            let volumes = read.volumes().into_iter();
            let by_document: Arrays =
                volumes.map(|one| (one.name.clone(), read.read(&one))).collect();
            assert!(by_document == *found, "it is another pool");
        });
        assert!(tally.states > tally.cuts && tally.states_again > 0, "{tally:?}");
    }
}

/// Appends a frame with this body to the last journal of the pool in `root`, as a writer would.
fn append_frame(root: &Path, body: &[u8]) {
    let number = ByDocument::open(root).next_frame;
    let (pool, name, journal) = {
        let files = files_of(&LocalFolder::create(root).unwrap());
        let last = files.range("journal-".to_owned().."journal-g".to_owned()).next_back();
        let (name, journal) = last.unwrap();
        (files["pool"][16..32].to_vec(), name.clone(), journal.clone())
    };
    let writer = u64::from_str_radix(&name[8..24], 16).unwrap();
    let fields =
        [&(body.len() as u32).to_le_bytes()[..], &number.to_le_bytes(), &writer.to_le_bytes()];
    let fields = fields.concat();
    let check = blake3::hash(&[&pool, &fields, body].concat());
    rewrite(&root.join(name), &[&journal, &fields, &check.as_bytes()[..16], body].concat());
}

#[test]
fn a_pool_with_a_container_of_another_is_refused_as_one_of_a_cluster_and_not_changed() {
    for version in [Version::Whole, Version::Paged] {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path();
        let folder: Arc<dyn Folder> = Arc::new(LocalFolder::create(root).unwrap());
        Pool::create_as(&folder, Hash::Blake3, Codec::Zstd, version).unwrap();
        opened(root, Codec::Zstd).create_volume("disk", 64 << 10, BlockSize::B4096).unwrap();
        // container 300 is object 3 of writer 5, and has 16,384 bytes
        append_frame(root, &[19, 0xac, 2, 5, 3, 0x80, 0x80, 1]);
        let before = files_of(&*folder);
        let open = || Pool::open(Arc::clone(&folder), Options::default()).map(drop);
        let open_read_only = || Pool::open_read_only(root, Options::default());
        let repair = || Pool::repair(&folder).map(drop);
        for refused in [open(), open_read_only().map(drop), repair()] {
            let error = refused.unwrap_err();
            let is_named = matches!(
                error,
                VolumeError::OfCluster { container: 300, writer, number: 3 } if writer.0 == 5
            );
            let says = error.to_string();
            match version {
                // no program writes it to a pool of that version
                Version::Whole => assert!(says.contains("a record of a journal"), "{says}"),
                Version::Paged => assert!(says.contains("cluster"), "{says}"),
            }
            assert!(is_named || says.contains("journal-"), "{says}");
        }
        let changed = |(name, bytes): &(&String, &Vec<u8>)| before.get(*name) != Some(*bytes);
        let after = files_of(&*folder);
        let changed: Vec<_> = after.iter().filter(changed).map(|(name, _)| name).collect();
        assert_eq!(changed, ["writer"]);
        assert_eq!(after.len(), before.len());
    }
}

#[test]
fn pools_of_frozen_formats_are_read_by_the_document() {
    let compat = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../compat");
    let all = std::fs::read_dir(compat).unwrap().map(|entry| entry.unwrap().path());
    let versions: Vec<_> = all.filter(|version| version.join("pool").is_dir()).collect();
    for version in ["v1", "v2"] {
        assert!(versions.iter().any(|one| one.ends_with(version)), "{versions:?}");
    }
    for version in versions {
        let mut pool = ByDocument::open(&version.join("pool"));
        if version.ends_with("v2") {
            assert_eq!(pool.checkpoint_kinds, records_of_checkpoints(Version::Paged));
        }
        let expected = std::fs::read_to_string(version.join("volumes")).unwrap();
        let mut lines: Vec<_> = pool
            .volumes()
            .iter()
            .map(|volume| {
                let bytes = pool.read(volume);
                let digest = sha256(&bytes);
                let kind = if volume.is_read_only { "snapshot" } else { "volume" };
                format!("{} {} {kind} {} {digest}", volume.name, volume.block_size, volume.size)
            })
            .collect();
        lines.sort();
        assert_eq!(lines, expected.lines().collect::<Vec<_>>());
    }
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn registrations_are_read_by_the_document() {
    let shard = [7; 16];
    let bytes = [
        // container 1 is made by writer 300, and counts
        &[20, 1, 1, 0xac, 2][..],
        &[21, 1, 1],
        // writer 2 registers in container 5 of writer 3 of another shard, and that counts
        &[20, 2, 2, 2],
        &shard,
        &[3, 5],
        &[21, 2, 1],
        // the same, which is refused; and one that is about to be dropped
        &[20, 3, 2, 2],
        &shard,
        &[3, 6],
        &[21, 3, 0],
        &[20, 1, 3],
    ]
    .concat();
    let found = Registrations::of(&bytes).all;
    let expected =
        [(1, (300, None, Stage::Dropping)), (2, (2, Some((shard, 3, 5)), Stage::Registered))];
    assert_eq!(found, BTreeMap::from(expected));
    // the program decodes and encodes the same bytes
    assert_eq!(onefold_volume::fuzz::recode(&bytes).unwrap(), bytes);
}
