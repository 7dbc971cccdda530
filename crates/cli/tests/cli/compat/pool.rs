//! A pool that is kept: how it is made, and what must come of it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use onefold_backend::{Folder, LocalFolder};
use onefold_block::{BlockDevice, BlockSize, Durability};
use onefold_fingerprint::Fingerprinter;
use onefold_testkit::{random, text};
use onefold_volume::{Between, Codec, Hash, Options, Pool, Version};

use super::source::copy;
use crate::lab::Lab;

/// What a volume holds, by a plain array.
#[derive(Clone)]
struct Model {
    block_size: BlockSize,
    is_read_only: bool,
    bytes: Vec<u8>,
}

/// The volumes by name.
type Models = BTreeMap<String, Model>;

fn options() -> Options {
    Options { table_bytes: 64 << 10, container_len: 60_000, ..Options::default() }
}

/// The same, with so few nodes in memory that a checkpoint tells of references that are not added yet, and of
/// pages that maps name where they were.
fn with_few_nodes() -> Options {
    Options { node_bytes: 0, least_nodes: 5, container_len: 30_000, ..options() }
}

fn opened(folder: &Path, options: Options) -> Pool {
    let place: Arc<dyn Folder> = Arc::new(LocalFolder::create(folder).unwrap());
    let (pool, damage) = Pool::open(place, options).unwrap();
    assert!(damage.is_empty(), "{damage:?}");
    pool
}

fn write(pool: &Pool, models: &mut Models, volume: &str, at: usize, bytes: &[u8]) {
    let device = pool.volume(volume).unwrap();
    device.write(at as u64, bytes, Durability::OnFlush).unwrap();
    models.get_mut(volume).unwrap().bytes[at..at + bytes.len()].copy_from_slice(bytes);
}

fn erase(pool: &Pool, models: &mut Models, volume: &str, at: usize, len: usize) {
    let device = pool.volume(volume).unwrap();
    device.erase(at as u64..(at + len) as u64, Durability::OnFlush).unwrap();
    models.get_mut(volume).unwrap().bytes[at..at + len].fill(0);
}

fn create(pool: &Pool, models: &mut Models, volume: &str, len: usize, block_size: BlockSize) {
    pool.create_volume(volume, len as u64, block_size).unwrap();
    let model = Model { block_size, is_read_only: false, bytes: vec![0; len] };
    models.insert(volume.into(), model);
}

fn clone(pool: &Pool, models: &mut Models, source: &str, volume: &str, is_read_only: bool) {
    pool.clone_volume(source, volume, is_read_only).unwrap();
    models.insert(volume.into(), Model { is_read_only, ..models[source].clone() });
}

/// A line for each volume: name, block size, whether it is a snapshot, length, SHA-256.
fn manifest(models: &Models) -> String {
    models.iter().fold(String::new(), |mut lines, (name, model)| {
        let digest = Fingerprinter::sha256().fingerprint(&model.bytes);
        let kind = if model.is_read_only { "snapshot" } else { "volume" };
        let (block, len) = (model.block_size.bytes(), model.bytes.len());
        writeln!(lines, "{name} {block} {kind} {len} {digest}").unwrap();
        lines
    })
}

/// The same of the volumes that a pool has, by their bytes.
fn manifest_of(pool: &Pool) -> String {
    let infos = pool.volumes();
    let models = infos.into_iter().map(|info| {
        let device = pool.volume(&info.name).unwrap();
        let mut bytes = vec![1; info.size as usize];
        device.read(0, &mut bytes).unwrap();
        let block_size = device.block_size();
        (info.name, Model { block_size, is_read_only: info.is_read_only, bytes })
    });
    manifest(&models.collect())
}

/// Makes the pool, of `version`, and its manifest in `folder`.
pub(super) fn make(folder: &Path, version: Version) {
    let root = folder.join("pool");
    let place = LocalFolder::create(&root).unwrap();
    Pool::create_as(&place, Hash::Sha3, Codec::Zstd, version).unwrap();
    drop(place);
    let mut models = Models::new();
    for (round, codec) in [Codec::Zstd, Codec::Lz4, Codec::Deflate, Codec::Raw].iter().enumerate() {
        let pool = opened(&root, Options { codec: Some(*codec), ..with_few_nodes() });
        let models = &mut models;
        if round == 0 {
            create(&pool, models, "disk", 512 << 10, BlockSize::B4096);
            create(&pool, models, "small", 128 << 10, BlockSize::B512);
            create(&pool, models, "deleted", 64 << 10, BlockSize::B4096);
            write(&pool, models, "deleted", 0, &random(99, 20_000));
        }
        let seed = round as u64;
        // What gets shorter, what does not, what is there already, and no whole blocks.
        write(&pool, models, "disk", 100_000 * round + 777, &text(seed, 70_000));
        write(&pool, models, "disk", 100_000 * round + 80_000, &random(seed, 9_000));
        write(&pool, models, "disk", 420_000 + 16_384 * round, &text(7, 12_288));
        write(&pool, models, "small", 30_000 * round + 100, &text(10 + seed, 6_000));
        write(&pool, models, "small", 30_000 * round + 10_240, &random(3, 4_096));
        match round {
            1 => {
                clone(&pool, models, "disk", "monday", true);
                if version == Version::Whole {
                    pool.delete_volume("deleted").unwrap();
                    models.remove("deleted");
                }
            }
            2 => {
                clone(&pool, models, "monday", "again", false);
                write(&pool, models, "again", 5_000, &text(30, 30_000));
                // a container of which little is left
                write(&pool, models, "disk", 327_680, &random(50, 40_960));
                write(&pool, models, "disk", 331_776, &random(51, 32_768));
                while pool.compact().unwrap() {}
                // the pages of the first containers lose references
                write(&pool, models, "small", 0, &text(52, 30_000));
                write(&pool, models, "disk", 0, &text(53, 80_000));
                write(&pool, models, "again", 60_000, &text(54, 20_000));
                pool.flush().unwrap();
                match version {
                    Version::Whole => pool.checkpoint().unwrap(),
                    Version::Paged => delete_around_a_checkpoint(&pool, models),
                }
            }
            // Only the journal tells of what follows.
            3 => {
                erase(&pool, models, "disk", 8192, 40_960);
                clone(&pool, models, "small", "größer", false);
                pool.volume("größer").unwrap().resize(160 << 10).unwrap();
                models.get_mut("größer").unwrap().bytes.resize(160 << 10, 0);
                write(&pool, models, "größer", 150_000, &text(31, 5_000));
            }
            _ => {}
        }
        pool.flush().unwrap();
    }
    fs::write(folder.join("volumes"), manifest(&models)).unwrap();
    expect_every_kind(&root, version);
}

/// Deletes the volume `deleted`, with a checkpoint before what it had is let go of.
fn delete_around_a_checkpoint(pool: &Pool, models: &mut Models) {
    pool.between_steps(|pool, between| {
        if between == Between::Releases {
            pool.checkpoint().unwrap();
        }
    });
    pool.delete_volume("deleted").unwrap();
    models.remove("deleted");
}

/// Fails unless there is one of each: a container with a footer and one without, a checkpoint, a journal
/// with something in it, and nodes where the pool is of a version that has them.
fn expect_every_kind(root: &Path, version: Version) {
    let named = |prefix: &str| -> Vec<PathBuf> {
        let all = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
        let is_it =
            |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(prefix);
        all.filter(is_it).collect()
    };
    assert_eq!(named("checkpoint-").len(), 1);
    assert_eq!(named("nodes-").is_empty(), version == Version::Whole);
    // Each opening has one of its own.
    let journals = named("journal-");
    assert!(
        journals.iter().any(|journal| journal.metadata().unwrap().len() > 1000),
        "{journals:?}"
    );
    // The trailer of a container: the footer's length, and the check over header, footer and length.
    let is_sealed = |path: &PathBuf| {
        let bytes = fs::read(path).unwrap();
        let (rest, check) = bytes.split_last_chunk::<16>().unwrap();
        let (_, len) = rest.split_last_chunk::<4>().unwrap();
        let footer = u32::from_le_bytes(*len) as usize + 4;
        footer + 48 <= rest.len()
            && onefold_seal::Check::of(&[&rest[..48], &rest[rest.len() - footer..]]).as_bytes()
                == check
    };
    let (sealed, open): (Vec<_>, Vec<_>) = named("container-").into_iter().partition(is_sealed);
    assert!(sealed.len() >= 2 && open.len() == 1, "{sealed:?}, {open:?}");
}

/// A lab with a copy of the pool in `folder`.
fn lab_with(folder: &Path) -> Lab {
    let lab = Lab::new();
    copy(&folder.join("pool"), &lab.path("pool"));
    lab
}

/// The pool in `folder` opens, has nothing wrong with it and every byte of its volumes, and goes on to be
/// written, and compacted and checked by `program`.
pub(super) fn expect_usable(folder: &Path, program: &Path) {
    let mut lab = lab_with(folder);
    lab.program = program.into();
    go_on(&lab, &fs::read_to_string(folder.join("volumes")).unwrap());
}

/// The pool of `lab` has the volumes of which `expected` tells, and goes on to be written, and compacted
/// and checked by the program of `lab`.
fn go_on(lab: &Lab, expected: &str) {
    let root = lab.path("pool");
    assert_eq!(manifest_of(&opened(&root, options())), expected);
    let clean = |count: u64| {
        assert!(lab.ok("volume check --pool pool").stdout.contains("no problems"));
        let scrubbed = lab.ok("volume scrub --pool pool --json").json();
        assert_eq!(scrubbed["bad"], serde_json::json!([]));
        let pages = scrubbed["pages"].as_u64().unwrap();
        assert!(pages > count, "{pages} pages");
        assert_eq!(lab.ok("volume stats --pool pool --json").json()["pages"], pages);
    };
    clean(50);
    let other = |text: &str| -> String {
        let is_other = |line: &&str| !line.starts_with("disk ") && !line.starts_with("small ");
        text.lines().filter(is_other).map(|line| format!("{line}\n")).collect()
    };
    {
        let pool = opened(&root, options());
        let all = random(40, 512 << 10);
        pool.volume("disk").unwrap().write(0, &all, Durability::OnReturn).unwrap();
        let small = text(41, 128 << 10);
        pool.volume("small").unwrap().write(0, &small, Durability::OnReturn).unwrap();
        while pool.compact().unwrap() {}
        pool.checkpoint().unwrap();
        drop(pool);
        let pool = opened(&root, options());
        assert_eq!(other(&manifest_of(&pool)), other(expected));
        for (name, expected) in [("disk", &all), ("small", &small)] {
            let mut found = vec![0; expected.len()];
            pool.volume(name).unwrap().read(0, &mut found).unwrap();
            assert!(found == *expected, "{name}");
        }
    }
    clean(128);
    for name in ["monday", "again", "größer"] {
        lab.ok(&format!("volume delete --pool pool {name}"));
    }
    lab.ok("volume compact --pool pool");
    clean(128);
}

/// The pool in `folder` has every byte of its volumes after an upgrade, they share what they shared, and it
/// goes on to be used.
pub(super) fn expect_upgradable(folder: &Path) {
    let lab = lab_with(folder);
    let told = || {
        let names = ["disk", "small", "monday", "again", "größer"];
        let stats = ["mapped_bytes", "pages", "page_bytes", "container_bytes"];
        let sums = lab.ok("volume stats --pool pool --json").json();
        let infos =
            names.map(|name| lab.ok(&format!("volume info --pool pool --json {name}")).json());
        (stats.map(|name| sums[name].clone()), infos, sums["format_version"].clone())
    };
    // what a crash left goes with an opening
    drop(opened(&lab.path("pool"), options()));
    let (sums, infos, version) = told();
    let done = lab.ok("volume upgrade --pool pool --json").json();
    assert_eq!(done["previous_format_version"], version);
    let expected = serde_json::json!({ "format_version": 2, "previous_format_version": version });
    assert_eq!(done, expected);
    assert_eq!(told(), (sums, infos, 2.into()));
    let again = lab.ok("volume upgrade --pool pool");
    assert!(again.stderr.contains("format version 2 already"), "{}", again.stderr);
    go_on(&lab, &fs::read_to_string(folder.join("volumes")).unwrap());
}
