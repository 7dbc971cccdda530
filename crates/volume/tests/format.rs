//! Pools are read by docs/pool-format.md alone: the document is complete, and says what is so.

mod format_reader;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use format_reader::Pool as ByDocument;
use onefold_backend::{Folder, LocalFolder};
use onefold_block::{BlockDevice, BlockSize, Durability};
use onefold_testkit::{random, text};
use onefold_volume::{Codec, Hash, Options, Pool, Version};

/// What volumes hold, by plain arrays.
type Arrays = BTreeMap<String, Vec<u8>>;

fn opened(root: &Path, codec: Codec) -> Pool {
    let folder: Arc<dyn Folder> = Arc::new(LocalFolder::create(root).unwrap());
    let options = Options {
        codec: Some(codec),
        table_bytes: 64 << 10,
        container_len: 30_000,
        commit_len: 2000,
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
fn expect(root: &Path, arrays: &Arrays) -> ByDocument {
    let mut read = ByDocument::open(root);
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

fn use_a_pool(hash: Hash) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let folder = LocalFolder::create(root).unwrap();
    Pool::create_as(&folder, hash, Codec::Zstd, Version::Whole).unwrap();
    let (mut arrays, mut kinds, mut codecs) = (Arrays::new(), BTreeSet::new(), BTreeSet::new());
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
                pool.delete_volume("small again").unwrap();
                arrays.remove("small again");
                while pool.compact().unwrap() {}
            }
            _ => {}
        }
        pool.flush().unwrap();
        drop(pool);
        let read = expect(root, &arrays);
        assert!(read.last_acknowledged.is_some(), "the pool was closed");
        kinds.extend(read.kinds);
        codecs.extend(read.codecs);
    }
    assert_eq!(kinds, (1..=11).collect(), "of each record there was one");
    assert_eq!(codecs, (0..=3).collect());
    // Part of a frame at the end is nothing.
    let journals = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let is_journal = |path: &std::path::PathBuf| path.to_string_lossy().contains("journal-");
    let last = journals.filter(is_journal).max().unwrap();
    let mut torn = std::fs::read(&last).unwrap();
    torn.extend(&[200, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3]);
    rewrite(&last, &torn);
    expect(root, &arrays);
}

#[expect(clippy::disallowed_methods, reason = "what a power cut leaves, not what the pool writes")]
fn rewrite(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_pool_is_read_by_the_document_whatever_was_done_to_it() {
    use_a_pool(Hash::Sha3);
    use_a_pool(Hash::Blake3);
}

#[test]
fn pools_of_frozen_formats_are_read_by_the_document() {
    let compat = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../compat");
    let all = std::fs::read_dir(compat).unwrap().map(|entry| entry.unwrap().path());
    let versions: Vec<_> = all.filter(|version| version.join("pool").is_dir()).collect();
    assert!(versions.iter().any(|version| version.ends_with("v1")), "{versions:?}");
    for version in versions {
        let mut pool = ByDocument::open(&version.join("pool"));
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
