//! Cuts fixed data with every kernel in turn, for tools that count instructions.
//!
//!     cargo run --release -p onefold-cdc --example instructions -- [NAME ROUNDS]
//!
//! Cuts each input with each algorithm on each kernel that this CPU can run, inside [`cut_counted`],
//! by whose name a tool finds it; then prints which it was and its number of bytes, as in
//! `gear16/avx2/text 1048576`. With a name, only that one, so many times over.
//! `cargo xtask instructions` calls this.

use std::env;
use std::hint::black_box;

use onefold_cdc::{Algorithm, Chunker, Kernel, Params};
use onefold_testkit::{random, text};

const LEN: usize = 1 << 20;

/// A mean at which the start of a chunk counts for little, as in use.
const MEAN: usize = 8192;

fn main() {
    let args: Vec<String> = env::args().skip(1).collect();
    let (only, rounds) = match &args[..] {
        [] => (None, 1),
        [name, rounds] => (Some(name), rounds.parse().expect("a number of rounds")),
        _ => panic!("expected nothing, or a name and a number of rounds"),
    };
    let inputs = [("random", random(1, LEN)), ("text", text(1, LEN))];
    for &algorithm in Algorithm::ALL.iter().filter(|&&algorithm| algorithm != Algorithm::Fixed) {
        let params = Params::for_mean(algorithm, MEAN).expect("every algorithm has this mean");
        for &kernel in Kernel::usable(algorithm) {
            let chunker = Chunker::with_kernel(&params, kernel).expect("a usable kernel");
            for (input, data) in &inputs {
                let name = format!("{algorithm}/{kernel}/{input}");
                if only.is_none_or(|only| *only == name) {
                    for _ in 0..rounds {
                        black_box(cut_counted(black_box(&chunker), black_box(data)));
                    }
                    case_ends(&name, data.len());
                }
            }
        }
    }
}

/// Never inlined, so that its calls can be told apart.
#[inline(never)]
fn cut_counted(chunker: &Chunker, data: &[u8]) -> usize {
    chunker.cut_points(data).fold(0, |sum, cut| sum ^ cut)
}

/// Never inlined, so that a tool can take down what it counted since the last call.
#[inline(never)]
fn case_ends(name: &str, len: usize) {
    println!("{name} {len}");
}
