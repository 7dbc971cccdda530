//! Padding: lengths rounded up, so that they tell less, and an order that tells nothing.

/// The length to which `len` bytes are padded: Padmé (Nikitin et al., "Reducing Metadata Leakage
/// from Encrypted Files and Communication with PURBs", PoPETs 2019, algorithm 1).
///
/// A length of *E* + 1 bits keeps its first ⌊log₂ *E*⌋ + 2 bits and is rounded up to them, so that it
/// grows by less than 12 % and of all lengths up to *L* only O(log log *L*) bits are told apart.
///
/// # Panics
/// If the padded length is above 64 bits.
pub fn padded_len(len: u64) -> u64 {
    if len < 2 {
        return len;
    }
    let exponent = len.ilog2();
    let kept = exponent.checked_ilog2().map_or(0, |bits| bits + 1);
    let mask = (1u64 << exponent.saturating_sub(kept)) - 1;
    len.checked_add(mask).expect("lengths of objects are far from 64 bits") & !mask
}

/// The numbers below `count` in an order that the operating system's random source draws.
///
/// # Panics
/// If the operating system has no randomness to give.
pub fn random_order(count: usize) -> Vec<usize> {
    let mut drawn = vec![0; 8 * count];
    getrandom::fill(&mut drawn).expect("the operating system's random source failed");
    let mut order: Vec<usize> = (0..count).collect();
    // Fisher and Yates; that 2^64 is no multiple of each bound is seen by nobody.
    for (at, bytes) in (0..count).zip(drawn.as_chunks::<8>().0).rev() {
        order.swap(at, (u64::from_le_bytes(*bytes) % (at as u64 + 1)) as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// The algorithm as the paper prints it, in floating point.
    fn as_printed(len: u64) -> u64 {
        let e = (len as f64).log2().floor();
        let s = e.log2().floor() + 1.0;
        let last_bits = e - s;
        let bit_mask = 2f64.powf(last_bits) as u64 - 1;
        (len + bit_mask) & !bit_mask
    }

    #[test]
    fn lengths_are_padded_as_the_paper_says() {
        for len in (2..5000).chain([1 << 20, (1 << 20) + 1, (16 << 20) + 12_345, (1 << 40) - 1]) {
            let padded = padded_len(len);
            assert_eq!(padded, as_printed(len), "{len}");
            assert!(padded >= len && (padded - len) * 100 < 12 * len, "{len} became {padded}");
            assert_eq!(padded_len(padded), padded);
        }
        assert_eq!([0, 1, 2, 3].map(padded_len), [0, 1, 2, 3]);
        // By hand: 9 has 4 bits and keeps 3, 2^20 + 1 has 21 and keeps 6.
        assert_eq!([padded_len(9), padded_len((1 << 20) + 1)], [10, (1 << 20) + (1 << 15)]);
    }

    #[test]
    fn every_order_comes_about_as_often() {
        let mut counts = std::collections::HashMap::new();
        for _ in 0..6000 {
            *counts.entry(random_order(3)).or_insert(0) += 1;
        }
        // The chance of less than 800 of 1,000 expected is below 10^-10.
        assert!(counts.len() == 6 && counts.values().all(|count| *count > 800), "{counts:?}");
        let long = random_order(1000);
        assert_eq!(long.iter().collect::<HashSet<_>>().len(), 1000);
        assert!(random_order(0).is_empty() && random_order(1) == [0]);
    }
}
