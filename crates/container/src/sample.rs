//! Telling from a sample that bytes, or most of them, will not shrink, so that no time is spent on
//! trying.

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

/// Every how many bytes of a page one is looked at: not a length that fields of records have.
const STRIDE: usize = 17;
/// Bytes of a page that are looked at, at least: of fewer, chance has too large a part.
const LEAST: usize = 64;
/// How many times as many pairs of equal bytes as by chance there are in what does not shrink.
const MOST_EQUAL: f64 = 1.4;

/// Whether the bytes of `page` are spread as by chance, but for one value that may fill any part of
/// it: then what does not repeat, the literals, does not become shorter by codes for single bytes.
///
/// Goes by how many pairs of bytes in a sample are equal, which is one in 256 by chance and one in 15
/// of English text. What is shorter than 1 KiB is never called even.
pub(crate) fn is_even(page: &[u8]) -> bool {
    let mut counts = [0_u32; 256];
    page.iter().step_by(STRIDE).for_each(|byte| counts[usize::from(*byte)] += 1);
    // what fills the page repeats, and is no literal
    let filler = counts.iter().copied().max().unwrap_or(0);
    let total = page.len().div_ceil(STRIDE) - filler as usize;
    if total < LEAST {
        return false;
    }
    let pairs = |count: u32| u64::from(count) * u64::from(count.saturating_sub(1));
    let equal = counts.iter().map(|&count| pairs(count)).sum::<u64>() - pairs(filler);
    (equal as f64) < MOST_EQUAL * (total * (total - 1)) as f64 / 256.0
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
    fn pages_are_even_whose_bytes_are_spread_as_by_chance_but_for_one_value() {
        let random = testkit::random(1, 1 << 20);
        let share = |make: &dyn Fn(&[u8]) -> Vec<u8>| {
            let pages = random.chunks(4096);
            pages.clone().filter(|page| is_even(&make(page))).count() as f64 / pages.len() as f64
        };
        let half_zeros = |page: &[u8], pieces: usize| {
            let zeros = vec![0; page.len() / pieces / 2];
            page.chunks(page.len() / pieces)
                .flat_map(|piece| [&piece[zeros.len()..], &zeros].concat())
                .collect()
        };
        assert!(share(&|page| page.to_vec()) > 0.99);
        assert!(share(&|page| half_zeros(page, 1)) > 0.9);
        assert!(share(&|page| half_zeros(page, 8)) > 0.9);
        // seven bits in each byte, six, and four
        assert!(share(&|page| page.iter().map(|byte| byte & 0x7f).collect()) < 0.01);
        assert!(share(&|page| page.iter().map(|byte| b' ' + byte % 64).collect()) < 0.01);
        assert!(share(&|page| page.iter().map(|byte| byte & 0x0f).collect()) < 0.01);
        // numbers of eight bytes of which only the lowest is random
        assert!(
            share(&|page| page[..512]
                .iter()
                .flat_map(|byte| [*byte, 1, 2, 3, 4, 5, 6, 7])
                .collect())
                < 0.01
        );
        for (seed, len) in [(1, 4096), (2, 4096), (3, 512), (4, 0)] {
            assert!(!is_even(&testkit::text(seed, len)), "{len}");
        }
        assert!(!is_even(&[0; 4096]));
        assert!(!is_even(&random[..1024]));
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
