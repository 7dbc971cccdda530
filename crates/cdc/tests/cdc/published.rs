//! Presets cut the inputs of other tools' tests as those tests say: `vectors/presets.json`.

use std::collections::HashSet;
use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use onefold_cdc::{ChunkSizes, Cuts, Params, Preset, cut_points};
use onefold_testkit::{cycle, random, skip};
use serde_json::Value;
use sha2::{Digest, Sha256, Sha512_256};

const VECTORS: &str = include_str!("../../../../vectors/presets.json");

fn number(object: &Value, key: &str) -> usize {
    object[key].as_u64().unwrap_or_else(|| panic!("no number {key} in {object}")) as usize
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(byte).collect()
}

fn params(case: &Value) -> Params {
    let preset: Preset = case["preset"].as_str().unwrap().parse().unwrap();
    let sizes = ChunkSizes::new(number(case, "min"), number(case, "avg"), number(case, "max"));
    Params {
        sizes: sizes.unwrap(),
        window: number(case, "window"),
        level: number(case, "level") as u8,
        seed: number(case, "seed") as u64,
        ..preset.params()
    }
}

/// The additive lagged Fibonacci numbers that begin with those of `first`, four bytes of each.
fn lagged_fibonacci(first: &str, len: usize) -> Vec<u8> {
    let mut numbers: Vec<u64> =
        bytes(first).chunks(8).map(|b| u64::from_be_bytes(b.try_into().unwrap())).collect();
    assert_eq!(numbers.len(), 607);
    while numbers.len() * 4 < len {
        let n = numbers.len();
        numbers.push(numbers[n - 607].wrapping_add(numbers[n - 273]));
    }
    numbers.iter().flat_map(|number| ((number >> 31) as u32).to_le_bytes()).take(len).collect()
}

/// What a file of another project holds; `None` if it was not fetched.
fn file(input: &Value) -> Option<Vec<u8>> {
    let name = input["name"].as_str().unwrap();
    let Some(datasets) = env::var_os("ONEFOLD_DATASETS") else {
        skip(&format!("{name}: ONEFOLD_DATASETS is not set"));
        return None;
    };
    let path = Path::new(&datasets).join("vectors").join(name);
    match fs::read(&path) {
        Ok(data) => {
            assert_eq!(hex(&Sha256::digest(&data)), input["sha256"], "{}", path.display());
            Some(data)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            skip(&format!("{}: {error}", path.display()));
            None
        }
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

fn input(vectors: &Value, case: &Value) -> Option<Vec<u8>> {
    let input = &case["input"];
    let len = number(input, "len");
    Some(match input["kind"].as_str().unwrap() {
        "cycle" => cycle(&bytes(input["hex"].as_str().unwrap()), len),
        "splitmix64" => random(number(input, "seed") as u64, len),
        "lagged-fibonacci" => lagged_fibonacci(vectors["lagged_fibonacci"].as_str().unwrap(), len),
        "file" => file(input)?,
        unknown => panic!("input of kind {unknown}"),
    })
}

fn assert_published(case: &Value, data: &[u8]) {
    let params = params(case);
    let ends = cut_points(&params, data).unwrap();
    let streamed: Vec<_> =
        Cuts::new(&params, data).unwrap().map(|cut| cut.unwrap() as usize).collect();
    assert_eq!(streamed, ends, "{case}");

    let starts = [0].iter().chain(&ends);
    let chunks: Vec<&[u8]> = starts.zip(&ends).map(|(&start, &end)| &data[start..end]).collect();
    let lengths: Vec<Value> = chunks.iter().map(|chunk| chunk.len().into()).collect();
    assert_eq!(case["lengths"].as_array(), Some(&lengths), "{}", case["source"]);
    let digests = |digest: fn(&[u8]) -> String| -> Vec<Value> {
        chunks.iter().map(|chunk| digest(chunk).into()).collect()
    };
    if let Some(published) = case["sha256"].as_array() {
        assert_eq!(published, &digests(|chunk| hex(&Sha256::digest(chunk))), "{}", case["source"]);
    }
    if let Some(published) = case["sha512_256"].as_array() {
        let found = digests(|chunk| hex(&Sha512_256::digest(chunk)));
        assert_eq!(published, &found, "{}", case["source"]);
    }
}

#[test]
fn presets_cut_what_other_tools_publish() {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    let mut seen = HashSet::new();
    for case in vectors["cases"].as_array().unwrap() {
        if case["input"]["kind"] == "file" {
            continue;
        }
        assert_published(case, &input(&vectors, case).unwrap());
        seen.insert(params(case).preset);
    }
    // casync's tests publish no cut-points
    assert_eq!(seen.len(), Preset::ALL.len() - 1);
}

#[test]
fn presets_cut_the_files_that_other_tools_publish() {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    for case in vectors["cases"].as_array().unwrap() {
        if case["input"]["kind"] == "file"
            && let Some(data) = input(&vectors, case)
        {
            assert_published(case, &data);
        }
    }
}
