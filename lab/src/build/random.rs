//! Random bytes, by a seed.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Result;

use crate::build::order::Choice;
use crate::build::site::Site;
use crate::build::{Cost, Recipe, Sameness};

pub(super) const RAND: Recipe = Recipe {
    name: "rand",
    kind: "random bytes",
    about: "bytes without any pattern, from BLAKE3 and a seed",
    source: None,
    choices: &[Choice::length(1), Choice::seed("1")],
    sameness: Sameness::Bytes(
        "blake3:e157de06093266f673ca2692cbe286f619c63cc50bee87e535cd125cb63b2add",
    ),
    tools: &[],
    cost: |choices| Cost { built: choices.number("bytes"), download: 0, scratch: 0 },
    build: |site| {
        site.each(&["random.bin"], |_, to| {
            write(site, site.number("seed"), site.number("bytes"), to)
        })
    },
};

/// The bytes that [`Dataset::random`](onefold_bench::Dataset::random) gives, in little memory.
fn write(site: &Site, seed: u64, len: u64, to: &Path) -> Result<()> {
    const PIECE: u64 = 16 << 20;
    let mut bytes = blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof();
    let mut file = BufWriter::new(File::create(to)?);
    let mut buffer = vec![0; PIECE as usize];
    let pieces = len.div_ceil(PIECE);
    for piece in 0..pieces {
        site.step(piece as usize, pieces as usize, "random.bin")?;
        let piece_len = PIECE.min(len - piece * PIECE) as usize;
        bytes.fill(&mut buffer[..piece_len]);
        file.write_all(&buffer[..piece_len])?;
    }
    Ok(file.flush()?)
}

#[cfg(test)]
mod tests {
    use onefold_bench::Dataset;

    use crate::build::Plan;
    use crate::build::site::tests::Nobody;

    #[test]
    fn random_bytes_are_the_seed_s_across_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let order = "rand:bytes=16778000,seed=9".parse().unwrap();
        let plan = Plan::new(order, folder.path()).unwrap();
        let home = plan.folder.clone();
        plan.build(&Nobody).unwrap();
        let built = Dataset::read(&home, None).unwrap();
        assert_eq!(built.bytes(), Dataset::random(9, 16_778_000).bytes());
        // all bytes are equally frequent: six deviations, and nothing comes twice
        let mut counts = [0_u32; 256];
        for &byte in built.bytes() {
            counts[usize::from(byte)] += 1;
        }
        let mean = 16_778_000.0 / 256.0;
        let most = 6.0 * f64::sqrt(mean);
        assert!(counts.iter().all(|&count| (f64::from(count) - mean).abs() < most), "{counts:?}");
        let mut lines: Vec<&[u8]> = built.bytes().chunks(64).collect();
        lines.sort();
        assert!(lines.windows(2).all(|two| two[0] != two[1]));
    }
}
