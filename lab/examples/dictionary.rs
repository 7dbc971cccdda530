//! Measures what a dictionary would save beside groups of chunks, and keeps a record.
//!
//!     cargo run --release -p onefold-lab --example dictionary -- --data FOLDER
//!         [--out docs/records/NAME.json]
//!
//! The files below FOLDER are cut as a new repository cuts them, in the order of their paths, and
//! each chunk is taken once. The distinct chunks are then compressed one by one, one by one with
//! dictionaries that were trained on a part of them, and in groups as containers have them, the
//! last with and without a dictionary. Of each way: the bytes that are stored, and what the restore
//! of one small file would read and decompress.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use onefold_bench::{Dataset, DatasetRecord, Header, Record, command_line};
use onefold_cdc::{Algorithm, Chunker, Params};
use serde::{Deserialize, Serialize};
use zstd::bulk::{Compressor, Decompressor};

const KIB: usize = 1 << 10;
/// The mean of a new repository.
const MEAN: usize = 16 * KIB;
/// zstd's level in a new repository.
const LEVEL: i32 = 3;
/// A file of one chunk up to this is small.
const SMALL: usize = 8 * KIB;
/// Bytes that a dictionary is trained on, for each of its own: what zstd's documentation advises.
const TRAINING: usize = 100;

#[derive(Clone, Copy)]
struct Way {
    /// Chunks are compressed together until they have this many bytes; 0: one by one.
    group: usize,
    /// Bytes of the dictionary; 0: none.
    dictionary: usize,
}

/// What a way comes to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Found {
    group_bytes: usize,
    dictionary_bytes: usize,
    /// Bytes that the dictionary was trained on.
    trained_on_bytes: u64,
    /// All compressed bytes, the dictionary included.
    stored_bytes: u64,
    /// Read to restore one small file, mean over all of them; without the dictionary, which is read
    /// once.
    read_for_a_small_file: f64,
    /// Decompressed for that.
    decompressed_for_a_small_file: f64,
    /// One thread, one run; the training apart.
    training_seconds: f64,
    compression_seconds: f64,
    decompression_seconds: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Results {
    dataset: DatasetRecord,
    distinct_chunks: usize,
    distinct_bytes: u64,
    /// Distinct chunks that are all of a small file, and their bytes.
    small_files: usize,
    small_bytes: u64,
    ways: Vec<Found>,
}

fn main() -> Result<()> {
    let (data, out) = options()?;
    let dataset = Dataset::read(&data, None)?;
    let (chunks, is_small) = distinct_chunks(&dataset)?;
    let small = || chunks.iter().zip(&is_small).filter(|(_, small)| **small);
    let sum = |lens: &mut dyn Iterator<Item = usize>| lens.sum::<usize>() as u64;
    let mut results = Results {
        dataset: DatasetRecord::from(&dataset),
        distinct_chunks: chunks.len(),
        distinct_bytes: sum(&mut chunks.iter().map(|chunk| chunk.len())),
        small_files: small().count(),
        small_bytes: sum(&mut small().map(|(chunk, _)| chunk.len())),
        ways: Vec::new(),
    };
    println!(
        "{} distinct chunks of {} bytes, {} of them small files of {} bytes\n",
        results.distinct_chunks, results.distinct_bytes, results.small_files, results.small_bytes
    );
    println!(
        "| group KiB | dictionary KiB | stored MB | read for a small file | decompressed | s |"
    );
    println!("| ---: | ---: | ---: | ---: | ---: | ---: |");
    for group in [0, 64 * KIB, 512 * KIB] {
        for dictionary in [0, 112 * KIB, 512 * KIB] {
            let found = measure(Way { group, dictionary }, &chunks, &is_small)?;
            println!(
                "| {} | {} | {:.2} | {:.0} | {:.0} | {:.2} |",
                group / KIB,
                dictionary / KIB,
                found.stored_bytes as f64 / 1e6,
                found.read_for_a_small_file,
                found.decompressed_for_a_small_file,
                found.compression_seconds,
            );
            results.ways.push(found);
        }
    }
    if let Some(out) = out {
        let command = "cargo run --release -p onefold-lab --example dictionary --";
        let command = command_line(command, std::env::args().skip(1));
        let header = Header::here(&out, command, "in memory")?;
        Record { header, results }.write(&out)?;
    }
    Ok(())
}

fn options() -> Result<(PathBuf, Option<PathBuf>)> {
    let (mut data, mut out) = (None, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(option) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{option}: expected a value"))?;
        match option.as_str() {
            "--data" => data = Some(value.into()),
            "--out" => out = Some(value.into()),
            _ => bail!("{option}: no such option; see the head of examples/dictionary.rs"),
        }
    }
    Ok((data.context("expected --data FOLDER")?, out))
}

/// The chunks of `dataset`, each once, and whether it is all of a small file.
fn distinct_chunks(dataset: &Dataset) -> Result<(Vec<&[u8]>, Vec<bool>)> {
    let chunker = Chunker::new(&Params::for_mean(Algorithm::MinCdc, MEAN)?)?;
    let mut numbers = HashMap::new();
    let (mut chunks, mut is_small) = (Vec::new(), Vec::new());
    for file in dataset.files() {
        let mut start = 0;
        for end in chunker.cut_points(file) {
            let chunk = &file[start..end];
            let number = *numbers.entry(blake3::hash(chunk)).or_insert(chunks.len());
            if number == chunks.len() {
                chunks.push(chunk);
                is_small.push(false);
            }
            is_small[number] |= chunk.len() == file.len() && file.len() <= SMALL;
            start = end;
        }
    }
    Ok((chunks, is_small))
}

fn measure(way: Way, chunks: &[&[u8]], is_small: &[bool]) -> Result<Found> {
    let begun = Instant::now();
    let (dictionary, trained_on_bytes) = match way.dictionary {
        0 => (Vec::new(), 0),
        len => train(chunks, len)?,
    };
    let training_seconds = begun.elapsed().as_secs_f64();

    let groups = groups(chunks, way.group);
    let joined: Vec<Vec<u8>> = groups.iter().map(|group| group.concat()).collect();
    let mut compressor = Compressor::with_dictionary(LEVEL, &dictionary)?;
    let begun = Instant::now();
    let compressed: Vec<Vec<u8>> =
        joined.iter().map(|group| compressor.compress(group)).collect::<Result<_, _>>()?;
    let compression_seconds = begun.elapsed().as_secs_f64();

    let mut decompressor = Decompressor::with_dictionary(&dictionary)?;
    let begun = Instant::now();
    for (group, compressed) in joined.iter().zip(&compressed) {
        let found = decompressor.decompress(compressed, group.len())?;
        ensure!(found == *group, "a group came back as another");
    }
    let decompression_seconds = begun.elapsed().as_secs_f64();

    // A group is read as often as it has small files.
    let mut is_small = is_small.iter();
    let (mut small, mut read, mut decompressed) = (0, 0, 0);
    for (group, (joined, compressed)) in groups.iter().zip(joined.iter().zip(&compressed)) {
        let here = is_small.by_ref().take(group.len()).filter(|small| **small).count();
        small += here;
        read += here * compressed.len();
        decompressed += here * joined.len();
    }
    let all: usize = compressed.iter().map(Vec::len).sum();
    Ok(Found {
        group_bytes: way.group,
        dictionary_bytes: dictionary.len(),
        trained_on_bytes,
        stored_bytes: (all + dictionary.len()) as u64,
        read_for_a_small_file: read as f64 / small as f64,
        decompressed_for_a_small_file: decompressed as f64 / small as f64,
        training_seconds,
        compression_seconds,
        decompression_seconds,
    })
}

/// A dictionary of `len` bytes at most, of chunks that are spread evenly; and the bytes of these.
fn train(chunks: &[&[u8]], len: usize) -> Result<(Vec<u8>, u64)> {
    let all: usize = chunks.iter().map(|chunk| chunk.len()).sum();
    let step = (all / (TRAINING * len)).max(1);
    let samples: Vec<&[u8]> = chunks.iter().step_by(step).copied().collect();
    let bytes = samples.iter().map(|sample| sample.len() as u64).sum();
    Ok((zstd::dict::from_samples(&samples, len)?, bytes))
}

/// Neighbouring chunks, together until they have `len` bytes.
fn groups<'a, 'c>(chunks: &'a [&'c [u8]], len: usize) -> Vec<&'a [&'c [u8]]> {
    let mut groups = Vec::new();
    let (mut start, mut filled) = (0, 0);
    for (number, chunk) in chunks.iter().enumerate() {
        filled += chunk.len();
        if filled >= len {
            groups.push(&chunks[start..=number]);
            (start, filled) = (number + 1, 0);
        }
    }
    if start < chunks.len() {
        groups.push(&chunks[start..]);
    }
    groups
}
