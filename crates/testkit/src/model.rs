//! The chunking rules a second time, as slow as they are plain.
//!
//! Where the chunker scans with running state, a model asks of each position anew whether it
//! qualifies, from nothing but the rule. Agreement of the two is what the tests and the golden
//! vectors rest on.

use crate::SplitMix64;

/// A rule and its parameters, with the names and meanings that `onefold-cdc` gives them.
#[derive(Clone, Copy, Debug)]
pub struct Model<'a> {
    /// `fixed`, `rabin`, `gear`, `fastcdc`, `ae-max`, `ae-min`, `ram` or `mincdc`.
    pub algorithm: &'a str,
    /// Shortest chunk in bytes.
    pub min: usize,
    /// Mean that the parameters aim at.
    pub avg: usize,
    /// Longest chunk in bytes.
    pub max: usize,
    /// Bytes in Rabin's window.
    pub window: usize,
    /// FastCDC's normalisation level.
    pub level: u8,
    /// What the hash is made from.
    pub seed: u64,
}

/// The length of the first chunk of an input that is not empty.
type Rule = Box<dyn Fn(&[u8]) -> usize>;

impl Model<'_> {
    /// All cut-points of `data`, a whole input. Panics if the algorithm is unknown.
    pub fn cut_points(&self, data: &[u8]) -> Vec<usize> {
        let chunk_len = self.rule();
        let mut cut_points = Vec::new();
        let mut start = 0;
        while start < data.len() {
            start += chunk_len(&data[start..]);
            cut_points.push(start);
        }
        cut_points
    }

    fn rule(&self) -> Rule {
        let &Self { algorithm, min, avg, max, window, level, seed } = self;
        let first = move |qualifies: &dyn Fn(usize) -> bool, rest: &[u8]| {
            let last = max.min(rest.len());
            (min..=last).find(|&p| qualifies(p)).unwrap_or(last)
        };
        match algorithm {
            "fixed" => Box::new(move |rest| avg.min(rest.len())),
            "rabin" => {
                let polynomial = irreducible_polynomial(seed);
                let accepted = (1 << 53) / (avg - min + 1) as u64;
                Box::new(move |rest| {
                    let qualifies = |p: usize| {
                        let window = &rest[p.saturating_sub(window)..p];
                        rabin_fingerprint(window, polynomial) >= (1 << 53) - accepted
                    };
                    first(&qualifies, rest)
                })
            }
            "gear" | "fastcdc" => {
                let level = if algorithm == "gear" { 0 } else { level };
                let table = gear_table(seed);
                let threshold = (1_u128 << 64) / (avg - min + 1) as u128;
                Box::new(move |rest| {
                    let qualifies = |p: usize| {
                        let hash = u128::from(gear_hash(&rest[p.saturating_sub(64)..p], &table));
                        hash < if p < avg { threshold >> level } else { threshold << level }
                    };
                    first(&qualifies, rest)
                })
            }
            "ae-max" | "ae-min" => {
                let horizon = ae_horizon(avg);
                let skip = min.saturating_sub(horizon + 1);
                let largest = algorithm == "ae-max";
                Box::new(move |rest| {
                    let above = |a: u8, b: u8| if largest { a > b } else { a < b };
                    let qualifies = |p: usize| {
                        let Some(at) = p.checked_sub(horizon + 1).filter(|&at| at >= skip) else {
                            return false;
                        };
                        rest[at + 1..p].iter().all(|&byte| !above(byte, rest[at]))
                            && rest[skip..at].iter().all(|&byte| above(rest[at], byte))
                    };
                    first(&qualifies, rest)
                })
            }
            "ram" => {
                let window = ram_window(avg).max(min - 1);
                Box::new(move |rest| {
                    let largest = rest.iter().take(window).max().copied().unwrap_or(0);
                    first(&|p| p > window && rest[p - 1] >= largest, rest)
                })
            }
            "mincdc" => Box::new(move |rest| {
                let last = max.min(rest.len());
                let hash = |p: &usize| {
                    let v = (0..4).map(|i| u32::from(rest[p - 4 + i]) << (8 * i)).sum::<u32>();
                    v.wrapping_mul(0x915f_77f5).wrapping_add(0x3463_6463)
                };
                (min.max(4)..=last).min_by_key(hash).unwrap_or(last)
            }),
            unknown => panic!("no model of '{unknown}'"),
        }
    }
}

fn gear_table(seed: u64) -> Vec<u64> {
    let mut numbers = SplitMix64::new(seed);
    (0..256).map(|_| numbers.next_u64()).collect()
}

/// Each byte's number, doubled for every byte behind it, summed up modulo 2^64.
fn gear_hash(window: &[u8], table: &[u64]) -> u64 {
    let shifted = |(age, byte): (usize, &u8)| table[usize::from(*byte)] << age;
    window.iter().rev().enumerate().map(shifted).fold(0, u64::wrapping_add)
}

/// The rest of the division of the window's bits and 53 zeros, bit by bit.
fn rabin_fingerprint(window: &[u8], polynomial: u64) -> u64 {
    let bits = window.iter().flat_map(|byte| (0..8).rev().map(move |i| u64::from(byte >> i & 1)));
    bits.chain([0; 53]).fold(0, |rest, bit| divide_once(rest << 1 | bit, polynomial))
}

fn divide_once(dividend: u64, polynomial: u64) -> u64 {
    if dividend >> 53 == 1 { dividend ^ polynomial } else { dividend }
}

fn irreducible_polynomial(seed: u64) -> u64 {
    let low = SplitMix64::new(seed).next_u64() % (1 << 53);
    (0_u64..)
        .map(|i| (1 << 53) + ((low | 1) + 2 * i) % (1 << 53))
        .find(|&polynomial| is_irreducible(polynomial))
        .expect("some polynomial is irreducible")
}

/// Rabin's test. 53 is prime, so if x^(2^53) = x modulo a polynomial of that degree, its factors
/// have degree 1 or 53; those of degree 1 show as roots 0 and 1.
pub fn is_irreducible(polynomial: u64) -> bool {
    assert_eq!(polynomial >> 53, 1, "a polynomial of degree 53");
    let no_root = polynomial & 1 == 1 && polynomial.count_ones() % 2 == 1;
    let frobenius = (0..53).fold(0b10, |power, _| square(power, polynomial));
    no_root && frobenius == 0b10
}

/// Squaring spreads the bits: (Σ x^i)² = Σ x^2i.
fn square(p: u64, polynomial: u64) -> u64 {
    (0..53).rev().fold(0, |sum, i| {
        let times_x = divide_once(sum << 1, polynomial);
        divide_once(times_x << 1, polynomial) ^ (p >> i & 1)
    })
}

/// Table II of the investigation up to 1024, avg − 256 from 2048 on, lines in between.
fn ae_horizon(avg: usize) -> usize {
    let horizon = match avg {
        0..=512 => avg * 348 / 512,
        513..=770 => 348 + (avg - 512) * (563 - 348) / (770 - 512),
        771..=1024 => 563 + (avg - 770) * (793 - 563) / (1024 - 770),
        1025..=2048 => 793 + (avg - 1024) * (1792 - 793) / 1024,
        _ => avg - 256,
    };
    horizon.max(1)
}

/// The last window, counting up, whose mean does not exceed `avg`.
fn ram_window(avg: usize) -> usize {
    let mean = |window: usize| {
        let at_most = |m: i32| (f64::from(m + 1) / 256.0).powi(window as i32);
        let wait = |m: i32| (at_most(m) - at_most(m - 1)) * 256.0 / f64::from(256 - m);
        // no byte is below 0, even if the window is empty
        window as f64 + at_most(0) + (1..256).map(wait).sum::<f64>()
    };
    // the wait is at most 256
    (avg.saturating_sub(256)..).take_while(|&window| mean(window) <= avg as f64).last().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_irreducible_has_no_small_factor_and_is_as_frequent_as_it_should() {
        let divisible = |polynomial: u64, divisor: u64| {
            let mut rest = polynomial;
            while rest != 0 && rest.ilog2() >= divisor.ilog2() {
                rest ^= divisor << (rest.ilog2() - divisor.ilog2());
            }
            rest == 0
        };
        let mut irreducible = 0;
        for polynomial in (1 << 53..).take(2000) {
            if is_irreducible(polynomial) {
                irreducible += 1;
                assert!((2..1 << 10).all(|divisor| !divisible(polynomial, divisor)));
            }
        }
        // one in 53 of all polynomials of the degree, so 38 with a deviation of 6
        assert!((20..60).contains(&irreducible), "{irreducible}");
        // x^53 + x^6 + x^2 + x + 1, from tables of primitive polynomials
        assert!(is_irreducible(1 << 53 | 0b100_0111));
    }

    #[test]
    fn small_cuts_are_as_by_hand() {
        let model = |algorithm, min, avg, max| Model {
            algorithm,
            min,
            avg,
            max,
            window: 48,
            level: 2,
            seed: 0,
        };
        assert_eq!(model("fixed", 3, 3, 3).cut_points(b"abcdefg"), [3, 6, 7]);
        // horizon 2: the c that no larger byte follows, and two bytes more
        assert_eq!(model("ae-max", 1, 4, 9).cut_points(b"abcbaXY"), [5, 7]);
        assert_eq!(model("ae-min", 1, 4, 9).cut_points(b"cbabcZZ"), [5, 7]);
        // window 1 (its mean is 7.1): the next byte that is not smaller
        assert_eq!(model("ram", 1, 8, 20).cut_points(b"dabce"), [5]);
        assert_eq!(model("ram", 1, 8, 20).cut_points(b"dabdce"), [4, 6]);
    }
}
