//! Cut-points equal those of `vectors/cdc.json`, on every kernel and as a stream.

use std::collections::HashSet;

use onefold_cdc::{Algorithm, ChunkSizes, Chunker, Divisors, Kernel, Params, Secret, Stream};
use onefold_testkit::{cycle, random};
use serde_json::Value;
use sha2::{Digest, Sha256};

const VECTORS: &str = include_str!("../../../../vectors/cdc.json");

fn number(object: &Value, key: &str) -> usize {
    object[key].as_u64().unwrap_or_else(|| panic!("no number {key} in {object}")) as usize
}

fn params(case: &Value) -> Params {
    let sizes = ChunkSizes::new(number(case, "min"), number(case, "avg"), number(case, "max"));
    Params {
        algorithm: case["algorithm"].as_str().unwrap().parse().unwrap(),
        sizes: sizes.unwrap(),
        window: number(case, "window"),
        level: number(case, "level") as u8,
        seed: number(case, "seed") as u64,
        divisors: case["divisors"].as_str().map(|hex| {
            let pairs = bytes(hex);
            Divisors::from_pairs(pairs.chunks(2).map(|pair| [pair[0], pair[1]])).unwrap()
        }),
        secret: case["secret"]
            .as_str()
            .map(|hex| Secret::new(bytes(hex).try_into().expect("32 bytes"))),
        preset: None,
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<_> = hex.chars().collect();
    let digit = |c: char| c.to_digit(16).unwrap() as u8;
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

fn input(spec: &Value) -> Vec<u8> {
    let len = number(spec, "len");
    match spec["kind"].as_str().unwrap() {
        "splitmix64" => {
            let mask = number(spec, "mask") as u8;
            random(number(spec, "seed") as u64, len).into_iter().map(|byte| byte & mask).collect()
        }
        "cycle" => cycle(&bytes(spec["hex"].as_str().unwrap()), len),
        unknown => panic!("input of kind {unknown}"),
    }
}

fn assert_golden(case: &Value, cut_points: &[usize]) {
    assert_eq!(cut_points.len(), number(case, "count"), "{case}");
    let first: Vec<_> = case["first"].as_array().unwrap().iter().map(|p| p.as_u64()).collect();
    let found: Vec<_> = cut_points.iter().take(8).map(|&p| Some(p as u64)).collect();
    assert_eq!(found, first, "{case}");
    let encoded: Vec<u8> = cut_points.iter().flat_map(|&p| (p as u64).to_le_bytes()).collect();
    let digest: String = Sha256::digest(encoded).iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(digest, case["sha256"], "{case}");
}

#[test]
fn every_kernel_cuts_where_the_vectors_say() {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    let mut seen = HashSet::new();
    for case in vectors["cases"].as_array().unwrap() {
        let params = params(case);
        let data = input(&case["input"]);
        for &kernel in Kernel::usable(params.algorithm) {
            let chunker = Chunker::with_kernel(&params, kernel).unwrap();
            assert_golden(case, &chunker.cut_points(&data).collect::<Vec<_>>());

            let mut stream = Stream::new(chunker, &data[..]);
            let mut cut_points = Vec::new();
            while stream.next().unwrap().is_some() {
                cut_points.push(stream.offset() as usize);
            }
            assert_golden(case, &cut_points);
        }
        seen.insert(params.algorithm);
    }
    assert_eq!(seen.len(), Algorithm::ALL.len());
}
