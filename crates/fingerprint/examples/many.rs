//! Speed of many chunks at once beside one after another: `cargo run --release --example many`.
//!
//! Prints GB/s, medians of nine interleaved rounds over 4 MiB of random bytes, of the
//! thread's own time.

use std::hint::black_box;

use onefold_fingerprint::Fingerprinter;
use onefold_testkit::random;
use rustix::time::{ClockId, clock_gettime};

const ROUNDS: usize = 9;
const PASSES: usize = 4;

fn main() {
    let data = random(1, 4 << 20);
    println!("| | chunk | one by one | together | ratio |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    for fingerprinter in [Fingerprinter::blake3(), Fingerprinter::sha3()] {
        for len in [
            512,
            1000,
            2048,
            4096,
            6000,
            8192,
            12_000,
            16_384,
            20_000,
            30_000,
            40_000,
            65_536,
            100_000,
            300_000,
            1 << 20,
        ] {
            let chunks: Vec<&[u8]> = data.chunks(len).collect();
            let mut alone = Vec::new();
            let mut together = Vec::new();
            for _ in 0..ROUNDS {
                alone.push(seconds(|| {
                    for chunk in &chunks {
                        black_box(fingerprinter.fingerprint(black_box(chunk)));
                    }
                }));
                together.push(seconds(|| {
                    // as many as a batch of a backup has
                    for batch in chunks.chunks((1 << 20) / len) {
                        let mut out = Vec::with_capacity(batch.len());
                        fingerprinter.fingerprint_many(black_box(batch), &mut out);
                        black_box(out);
                    }
                }));
            }
            let rate = |seconds: Vec<f64>| (PASSES * data.len()) as f64 / 1e9 / median(seconds);
            let (alone, together) = (rate(alone), rate(together));
            let name = fingerprinter.algorithm();
            println!("| {name} | {len} | {alone:.2} | {together:.2} | {:.2} |", together / alone);
        }
    }
}

/// Seconds of the thread, whatever else runs on the machine.
fn seconds(mut work: impl FnMut()) -> f64 {
    let begun = now();
    for _ in 0..PASSES {
        work();
    }
    now() - begun
}

fn now() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}
