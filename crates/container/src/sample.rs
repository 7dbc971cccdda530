//! Telling from a sample that bytes will not shrink, so that no time is spent on trying.

/// Pieces that are looked at, spread evenly.
const PIECES: usize = 8;
/// Length in bytes of each.
const PIECE_LEN: usize = 2 << 10;
/// Bits a byte above which bytes count as incompressible. A sample of random bytes has 7.99: all
/// it takes for 8, but for what is left to chance.
const MIN_ENTROPY: f64 = 7.95;

/// Whether compressing `bytes` would save so little that it is not worth the time.
///
/// Goes by how evenly byte values are spread in a sample (Shannon's entropy): those of compressed
/// and encrypted files are spread as by chance. Repetitions of such bytes are overlooked; what
/// repeats at the length of a chunk was deduplicated before. What is shorter than the sample is
/// never called incompressible.
pub(crate) fn is_incompressible(bytes: &[u8]) -> bool {
    if bytes.len() < PIECES * PIECE_LEN {
        return false;
    }
    let mut counts = [0u32; 256];
    let step = (bytes.len() - PIECE_LEN) / (PIECES - 1);
    for piece in 0..PIECES {
        for byte in &bytes[piece * step..][..PIECE_LEN] {
            counts[usize::from(*byte)] += 1;
        }
    }
    entropy(&counts, PIECES * PIECE_LEN) > MIN_ENTROPY
}

/// Shannon's entropy, in bits a byte, of `total` bytes that were counted by value.
fn entropy(counts: &[u32; 256], total: usize) -> f64 {
    let total = total as f64;
    let seen = counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count));
    seen.map(|count| count / total * (total / count).log2()).sum()
}

#[cfg(test)]
mod tests {
    use onefold_testkit as testkit;

    use super::*;

    #[test]
    fn entropy_is_the_logarithm_of_equal_shares() {
        for (values, bits) in [(1, 0.0), (2, 1.0), (16, 4.0), (256, 8.0)] {
            let counts = std::array::from_fn(|value| if value < values { 10 } else { 0 });
            assert!((entropy(&counts, 10 * values) - bits).abs() < 1e-9, "{values}");
        }
    }

    #[test]
    fn random_bytes_do_not_shrink_and_all_else_may() {
        let random = testkit::random(1, 1 << 20);
        assert!(is_incompressible(&random));
        assert!(is_incompressible(&random[..PIECES * PIECE_LEN]));
        assert!(!is_incompressible(&random[..PIECES * PIECE_LEN - 1]));
        assert!(!is_incompressible(&[]));
        let base64: Vec<u8> = random.iter().map(|byte| b' ' + byte % 64).collect();
        assert!(!is_incompressible(&base64));
        let text: Vec<u8> =
            b"some text, again and again. ".iter().copied().cycle().take(1 << 20).collect();
        assert!(!is_incompressible(&text));
        // Half of it zeros, wherever the pieces fall.
        let mixed: Vec<u8> =
            random.chunks(512).flat_map(|piece| [piece, &[0; 512][..]].concat()).collect();
        assert!(!is_incompressible(&mixed));
    }
}
