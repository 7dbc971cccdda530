//! Estimates from a sample whether bytes, or most of them, are incompressible, so that no time is wasted
//! on compressing them.

/// The number of sampled pieces, spread evenly.
const PIECES: usize = 8;
/// Length in bytes of each.
const PIECE_LEN: usize = 2 << 10;
/// Bits per byte above which bytes are treated as incompressible. A sample of random bytes has 7.99,
/// slightly less than 8 by chance.
const MIN_ENTROPY: f64 = 7.95;

/// Whether compressing `bytes` would save too little to be worth the time.
///
/// The test is the entropy (Shannon's) of byte values in a sample: the values of compressed and encrypted
/// files are distributed like random ones. It does not notice repetitions of such bytes; repetitions of the
/// length of a chunk have been deduplicated before. Bytes shorter than the sample are never called
/// incompressible.
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

/// The distance of sampled bytes in a page, which is not a common length of record fields.
const STRIDE: usize = 17;
/// The minimum number of sampled bytes of a page: with fewer, chance has too large an effect.
const LEAST: u32 = 64;
/// The ratio of equal pairs to those expected by chance up to which literals are treated as
/// incompressible.
const MOST_EQUAL: f64 = 1.4;

/// Whether the bytes of `page` outside repetitions, the literals, are distributed like random ones. Then
/// entropy coding would not shrink them.
///
/// The test counts pairs of equal bytes in a sample: by chance one pair in 256 is equal, in English text
/// one in 15. It excludes runs of one value, which are repetitions. Single bytes, such as the upper bytes
/// of small numbers, are literals. Pages shorter than 1 KiB are never called even.
pub(crate) fn is_even(page: &[u8]) -> bool {
    let by_chance = |total: u32| f64::from(total) * f64::from(total.saturating_sub(1)) / 256.0;
    let most = MOST_EQUAL * by_chance(page.len().div_ceil(STRIDE) as u32);
    let (mut counts, mut total, mut equal) = ([0_u32; 256], 0, 0);
    for at in (0..page.len()).step_by(STRIDE).filter(|&at| !is_in_run(page, at)) {
        let count = &mut counts[usize::from(page[at])];
        // with each of those before it, either way round
        equal += 2 * *count;
        *count += 1;
        total += 1;
        // what is not even tells itself soon
        if f64::from(equal) > most {
            return false;
        }
    }
    total >= LEAST && f64::from(equal) < MOST_EQUAL * by_chance(total)
}

/// Whether the byte at `at` and the seven that follow it, or come before it, are the same.
fn is_in_run(page: &[u8], at: usize) -> bool {
    let run = [page[at]; 8];
    let is_run = |first: usize| page[first..].first_chunk() == Some(&run);
    is_run(at) || at.checked_sub(run.len() - 1).is_some_and(is_run)
}

/// Shannon's entropy in bits per byte of `total` bytes, counted by value.
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

    /// Pages whose bytes at places that are `is_random` are random, and all others zero.
    fn pages(is_random: impl Fn(usize) -> bool) -> Vec<Vec<u8>> {
        let page = |seed: u64| {
            let random = testkit::random(seed, 4096).into_iter().enumerate();
            random.map(|(at, byte)| if is_random(at) { byte } else { 0 }).collect()
        };
        (1..=200).map(page).collect()
    }

    fn even(pages: &[Vec<u8>]) -> f64 {
        pages.iter().filter(|page| is_even(page)).count() as f64 / pages.len() as f64
    }

    #[test]
    fn pages_are_even_whose_bytes_are_spread_as_by_chance_but_for_runs() {
        assert!(even(&pages(|_| true)) > 0.99);
        assert!(even(&pages(|at| at < 2048)) > 0.9);
        assert!(even(&pages(|at| at % 512 < 256)) > 0.9);
        assert!(even(&pages(|at| at % 64 >= 32)) > 0.9);
    }

    #[test]
    fn pages_are_not_even_whose_literals_shrink() {
        // small numbers in longer fields: zeros that are no runs
        for (random, len) in [(1, 2), (2, 4), (3, 4), (5, 8), (3, 8), (1, 8), (6, 8)] {
            assert!(even(&pages(|at| at % len < random)) < 0.01, "{random} of {len} bytes");
        }
        let scattered = testkit::random(0, 4096);
        assert!(even(&pages(|at| scattered[at] < 128)) < 0.01);
        // fewer than eight bits in each byte
        for values in [16, 64, 128] {
            let mut pages = pages(|_| true);
            pages.iter_mut().flatten().for_each(|byte| *byte %= values);
            assert!(even(&pages) < 0.01, "{values} values");
        }
        for (seed, len) in [(1, 4096), (2, 4096), (3, 512), (4, 0)] {
            assert!(!is_even(&testkit::text(seed, len)), "{len}");
        }
        assert!(!is_even(&[0; 4096]));
        assert!(!is_even(&testkit::random(1, 1024)));
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
