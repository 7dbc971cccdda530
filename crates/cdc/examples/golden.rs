//! Prints `vectors/cdc.json`: golden cut-points for every implementation in every language.
//!
//!     cargo run -p onefold-cdc --example golden > vectors/cdc.json
//!
//! The cut-points come from the plain models of the testkit, never from the chunkers that are
//! tested against them. Once published, a case is never changed, only joined by others.

use onefold_cdc::{Algorithm, ChunkSizes, Divisors, Params, Secret};
use onefold_testkit::model::Model;
use onefold_testkit::{cycle, random};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const ABOUT: &str = "Cut-points (offsets just after each chunk's last byte) of whole inputs. \
    Input splitmix64: the numbers that SplitMix64 yields from the seed, little-endian, each byte \
    and-ed with mask; input cycle: the bytes of hex over and over; both cut to len bytes. \
    divisors: the pairs of bytes of BFBC in a row, if not drawn; \
    secret: what the numbers are derived from together with the seed; \
    count: how many cut-points; first: up to 8 of them; sha256: digest of all, as 64-bit \
    little-endian numbers.";

fn main() {
    let mut cases = Vec::new();
    for params in all_params() {
        for input in inputs(params.sizes.max()) {
            cases.push(case(&params, &input).to_string());
        }
    }
    println!("{{\"about\": {},\n\"cases\": [\n{}\n]}}", json!(ABOUT), cases.join(",\n"));
}

fn all_params() -> Vec<Params> {
    let mut all = Vec::new();
    for &algorithm in Algorithm::ALL {
        for avg in [1, 50, 1000, 8192] {
            all.push(Params::for_mean(algorithm, avg).expect("sizes in order"));
        }
        // bounds within a factor of two, none of them a power of two
        let sizes = ChunkSizes::new(667, 1000, 1333).expect("sizes in order");
        all.push(Params { seed: 1, ..Params::new(algorithm, sizes) });
    }
    let around = |algorithm| Params::for_mean(algorithm, 1000).expect("sizes in order");
    for window in [1, 16, 256] {
        all.push(Params { window, seed: 2, ..around(Algorithm::Rabin) });
    }
    for level in [0, 1, 3] {
        all.push(Params { level, seed: 2, ..around(Algorithm::FastCdc) });
    }
    for algorithm in [Algorithm::Tttd, Algorithm::Crc, Algorithm::Buzhash] {
        for window in [1, 16, 256] {
            all.push(Params { window, seed: 2, ..around(algorithm) });
        }
    }
    let divisors = Divisors::from_pairs([[0, 1], [1, 1], [0xfe, 0xff], [7, 200], [0xff, 0xff]]);
    let divisors = Some(divisors.expect("some pairs"));
    all.push(Params { divisors, ..around(Algorithm::Bfbc) });
    let secret = Some(Secret::new(std::array::from_fn(|i| i as u8)));
    for &algorithm in Algorithm::ALL.iter().filter(|algorithm| algorithm.takes_secret()) {
        all.push(Params { secret, seed: 2, ..around(algorithm) });
    }
    all
}

/// Random, low-entropy and degenerate inputs that end inside a chunk of at most `max` bytes.
fn inputs(max: usize) -> [Value; 5] {
    let len = 5 * max + 3;
    let ramp: Vec<u8> = (0..=255).collect();
    [
        json!({"kind": "splitmix64", "seed": 1, "mask": 255, "len": 4 * len}),
        json!({"kind": "splitmix64", "seed": 2, "mask": 1, "len": len}),
        json!({"kind": "cycle", "hex": "00", "len": len}),
        json!({"kind": "cycle", "hex": "ff", "len": max}),
        json!({"kind": "cycle", "hex": hex(&ramp), "len": len}),
    ]
}

fn case(params: &Params, input: &Value) -> Value {
    let divisors: Vec<_> = params.divisors.iter().flat_map(Divisors::pairs).collect();
    let model = Model {
        algorithm: params.algorithm.name(),
        min: params.sizes.min(),
        avg: params.sizes.avg(),
        max: params.sizes.max(),
        window: params.window,
        level: params.level,
        seed: params.seed,
        secret: params.secret.map(|secret| *secret.as_bytes()),
        divisors: &divisors,
    };
    let cut_points = model.cut_points(&bytes(input));
    let encoded: Vec<u8> = cut_points.iter().flat_map(|&p| (p as u64).to_le_bytes()).collect();
    let digest = hex(&Sha256::digest(encoded));
    let mut case = json!({
        "algorithm": model.algorithm,
        "min": model.min,
        "avg": model.avg,
        "max": model.max,
        "window": model.window,
        "level": model.level,
        "seed": model.seed,
        "input": input,
        "count": cut_points.len(),
        "first": &cut_points[..cut_points.len().min(8)],
        "sha256": digest,
    });
    if !divisors.is_empty() {
        case["divisors"] = json!(hex(divisors.as_flattened()));
    }
    if let Some(secret) = model.secret {
        case["secret"] = json!(hex(&secret));
    }
    case
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(input: &Value) -> Vec<u8> {
    let number = |key: &str| input[key].as_u64().expect("a number");
    let len = number("len") as usize;
    if input["kind"] == "cycle" {
        let hex = input["hex"].as_str().expect("a text");
        let pattern: Vec<u8> = (0..hex.len())
            .step_by(2)
            .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).expect("two digits"))
            .collect();
        return cycle(&pattern, len);
    }
    let mask = number("mask") as u8;
    random(number("seed"), len).into_iter().map(|byte| byte & mask).collect()
}
