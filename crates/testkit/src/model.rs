//! The chunking rules a second time, as slow as they are plain.
//!
//! Where the chunker scans with running state, a model asks of each position anew whether it
//! qualifies, from nothing but the rule. Agreement of the two is what the tests and the golden
//! vectors rest on.

mod aes;
mod choice;
mod hash;

use std::cmp::Ordering;

use aes::Aes;
use choice::{
    ae_horizon, drawn_divisors, maxp_horizon, mii_interval, pci_window, ram_window, seqcdc_sequence,
};
use hash::{
    buzhash, crc, crc_polynomial, gear_hash, gear_table, gear16_table, gear32_table,
    irreducible_polynomial, mincdc_hash, numbers, pairs_of, rabin_fingerprint,
};

pub use hash::is_irreducible;

/// A rule and its parameters, with the names and meanings that `onefold-cdc` gives them.
#[derive(Clone, Copy, Debug)]
pub struct Model<'a> {
    /// The name of the algorithm, such as `fixed`.
    pub algorithm: &'a str,
    /// Shortest chunk in bytes.
    pub min: usize,
    /// Mean that the parameters aim at.
    pub avg: usize,
    /// Longest chunk in bytes; `usize::MAX` for no limit.
    pub max: usize,
    /// Bytes in the window of Rabin, TTTD, CRC and Buzhash.
    pub window: usize,
    /// FastCDC's normalisation level.
    pub level: u8,
    /// What the hash is made from.
    pub seed: u64,
    /// What the hash is made from together with the seed.
    pub secret: Option<[u8; 32]>,
    /// What BFBC divides at; drawn if there are none.
    pub divisors: &'a [[u8; 2]],
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
        let &Self { algorithm, min, avg, max, window, level, seed, secret, divisors } = self;
        let mut numbers = numbers(algorithm, seed, secret);
        let spread = avg - min + 1;
        let first = move |qualifies: &dyn Fn(usize) -> bool, rest: &[u8]| {
            let last = max.min(rest.len());
            (min..=last).find(|&p| qualifies(p)).unwrap_or(last)
        };
        match algorithm {
            "fixed" => Box::new(move |rest| avg.min(rest.len())),
            "rabin" => {
                let polynomial = irreducible_polynomial(&mut numbers);
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
                let table = gear_table(&mut numbers);
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
            "mincdc" => {
                let (factor, addend) = mincdc_hash(secret.map(|_| numbers));
                Box::new(move |rest| {
                    let last = max.min(rest.len());
                    let hash = |p: &usize| {
                        let v = (0..4).map(|i| u32::from(rest[p - 4 + i]) << (8 * i)).sum::<u32>();
                        v.wrapping_mul(factor).wrapping_add(addend)
                    };
                    (min.max(4)..=last).min_by_key(hash).unwrap_or(last)
                })
            }
            "crc" | "buzhash" => {
                let is_crc = algorithm == "crc";
                let (table, polynomial) = match algorithm {
                    "crc" => (Vec::new(), crc_polynomial(secret.map(|_| numbers))),
                    _ => (gear_table(&mut numbers), 0),
                };
                let least = (1_u64 << 32) - (1 << 32) / spread as u64;
                Box::new(move |rest| {
                    let qualifies = |p: usize| {
                        let window = &rest[p.saturating_sub(window)..p];
                        let print =
                            if is_crc { crc(window, polynomial) } else { buzhash(window, &table) };
                        u64::from(print) >= least
                    };
                    first(&qualifies, rest)
                })
            }
            "gear32" => {
                let table = gear32_table(&mut numbers);
                Box::new(move |rest| {
                    let qualifies = |p: usize| {
                        let hash = gear_hash(&rest[p.saturating_sub(32)..p], &table);
                        hash % (1 << 32) < (1 << 32) / spread as u64
                    };
                    first(&qualifies, rest)
                })
            }
            "gear16" => {
                let table = gear16_table(&mut numbers);
                let threshold = 65536_u64.div_ceil(spread as u64);
                let earlier_threshold = (1 << 32) / (spread as u64 * threshold);
                Box::new(move |rest| {
                    let hash_at =
                        |p: usize| gear_hash(&rest[p.saturating_sub(16)..p], &table) % (1 << 16);
                    let qualifies = |p: usize| {
                        hash_at(p) < threshold && hash_at(p.saturating_sub(16)) < earlier_threshold
                    };
                    first(&qualifies, rest)
                })
            }
            "tttd" => {
                let polynomial = irreducible_polynomial(&mut numbers);
                let accepted = (1 << 53) / spread as u64;
                Box::new(move |rest| {
                    let reach = &rest[..max.min(rest.len())];
                    let print = |p: usize| {
                        rabin_fingerprint(&reach[p.saturating_sub(window)..p], polynomial)
                    };
                    // a rest without 2^53, so that it may be negative
                    let gap = |p: usize| (1 << 53) - print(p);
                    let main = (min..=reach.len()).find(|&p| gap(p) <= accepted);
                    let backup = || (min..=max).rev().find(|&p| gap(p) <= 2 * accepted);
                    let forced = || if reach.len() == max { backup() } else { None };
                    main.or_else(forced).unwrap_or(reach.len())
                })
            }
            "maxp" => {
                let whole = maxp_horizon(avg);
                let wide = if whole + 1 >= min { whole } else { maxp_horizon(spread) };
                let horizon = wide.min((max - 1) / 2);
                Box::new(move |rest| {
                    let reach = &rest[..max.min(rest.len())];
                    let qualifies = |p: usize| {
                        p > horizon
                            && p + horizon <= reach.len()
                            && reach[p - 1 - horizon..p - 1].iter().all(|&b| b < reach[p - 1])
                            && reach[p..p + horizon].iter().all(|&b| b < reach[p - 1])
                    };
                    first(&qualifies, rest)
                })
            }
            "mii" => {
                let interval = mii_interval(min, avg);
                Box::new(move |rest| {
                    let rises = |bytes: &[u8]| bytes.windows(2).all(|pair| pair[0] < pair[1]);
                    first(&|p| p >= interval && rises(&rest[p - interval..p]), rest)
                })
            }
            "pci" => {
                let (window, threshold) = pci_window(min, avg);
                Box::new(move |rest| {
                    let set = |bytes: &[u8]| bytes.iter().map(|b| b.count_ones()).sum::<u32>();
                    first(&|p| p >= window && set(&rest[p - window..p]) >= threshold, rest)
                })
            }
            "bfbc" => {
                let drawn = drawn_divisors(&mut numbers, spread);
                let given: Vec<_> = divisors.to_vec();
                Box::new(move |rest| {
                    let number =
                        |p: usize| 256 * usize::from(rest[p - 2]) + usize::from(rest[p - 1]);
                    let is_divisor = |p: usize| {
                        let pair = [rest[p - 2], rest[p - 1]];
                        if given.is_empty() { drawn[number(p)] } else { given.contains(&pair) }
                    };
                    first(&|p| p >= 2 && is_divisor(p), rest)
                })
            }
            "seqcdc-inc" | "seqcdc-dec" => {
                let (rises, trigger, jump) = seqcdc_sequence(spread);
                let wanted =
                    if algorithm == "seqcdc-inc" { Ordering::Greater } else { Ordering::Less };
                Box::new(move |rest| {
                    let last = max.min(rest.len());
                    let (mut at, mut opposed) = (min, 0);
                    let mut sequence = Vec::new();
                    while at < last {
                        match rest[at].cmp(&rest[at - 1]) {
                            Ordering::Equal => {}
                            order if order == wanted => sequence.push(at),
                            _ => {
                                sequence.clear();
                                opposed += 1;
                            }
                        }
                        if sequence.len() == rises {
                            return at;
                        }
                        at += 1;
                        if opposed == trigger {
                            opposed = 0;
                            at += jump;
                        }
                    }
                    last
                })
            }
            "gear-aes" => {
                let mut pairs = pairs_of(numbers);
                let table: Vec<u128> = pairs.by_ref().take(256).collect();
                let key = pairs.next().expect("there is no end of numbers");
                let aes = Aes::new(key.to_le_bytes());
                let threshold = (1_u128 << 64) / spread as u128;
                Box::new(move |rest| {
                    let qualifies = |p: usize| {
                        let window = rest[p.saturating_sub(32)..p].iter().rev().enumerate();
                        let shifted = |(age, byte): (usize, &u8)| table[usize::from(*byte)] << age;
                        let hash = window.map(shifted).fold(0, u128::wrapping_add);
                        let output = u128::from_le_bytes(aes.encrypt(hash.to_le_bytes()));
                        output % (1 << 64) < threshold
                    };
                    first(&qualifies, rest)
                })
            }
            unknown => panic!("no model of '{unknown}'"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            secret: None,
            divisors: &[],
        };
        assert_eq!(model("fixed", 3, 3, 3).cut_points(b"abcdefg"), [3, 6, 7]);
        // horizon 2: the c that no larger byte follows, and two bytes more
        assert_eq!(model("ae-max", 1, 4, 9).cut_points(b"abcbaXY"), [5, 7]);
        assert_eq!(model("ae-min", 1, 4, 9).cut_points(b"cbabcZZ"), [5, 7]);
        // window 1 (its mean is 7.1): the next byte that is not smaller
        assert_eq!(model("ram", 1, 8, 20).cut_points(b"dabce"), [5]);
        assert_eq!(model("ram", 1, 8, 20).cut_points(b"dabdce"), [4, 6]);
        // the interval of 2 bytes: its mean is 2.01
        assert_eq!(model("mii", 1, 3, 9).cut_points(b"cbbacc"), [5, 6]);
        assert_eq!(model("maxp", 1, 4, 9).cut_points(b"abaacab"), [2, 5, 7]);
        let bfbc = Model { divisors: &[*b"ab", *b"bb"], ..model("bfbc", 1, 100, 200) };
        assert_eq!(bfbc.cut_points(b"xabbbabc"), [3, 5, 7, 8]);
    }
}
