use std::array;
use std::cmp::Reverse;
use std::fmt;

use crate::secret::Numbers;
use crate::{ChunkSizes, ParamError};

/// How many pairs of bytes there are.
const PAIRS: usize = 1 << 16;

/// The pairs of bytes that BFBC ends chunks at; at least one.
///
/// Which pairs suit depends on the data: they are trained on a sample of it, in one of the two
/// ways of "A Thorough Investigation of Content-Defined Chunking Algorithms" (2024), section 4.6.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Divisors {
    /// Bit b of word a is set for the pair whose number is 64 a + b.
    words: [u64; PAIRS / 64],
}

impl Divisors {
    /// The `count` pairs that `sample` holds most often, as BFBC has it; of equally frequent pairs
    /// the one with the smaller bytes.
    ///
    /// Fewer if the sample holds no more kinds of pairs. Refused if `count` is 0 or if the sample
    /// is too short to hold a pair.
    pub fn most_frequent(sample: &[u8], count: usize) -> Result<Self, ParamError> {
        let ranked = ranked_pairs(sample)?;
        Self::from_numbers(ranked.into_iter().take(count).map(|(number, _)| number))
    }

    /// Pairs that cut data like `sample` into chunks of avg bytes in the mean, as BFBC* has it.
    ///
    /// In a sample of L bytes that holds a set of pairs F times, the next of them comes L / F bytes
    /// after the first position, if they are evenly spread, so that the mean is min − 1 + L / F
    /// (equation 3 of the paper, whose minimum is the first position not tested). Goes through the
    /// pairs from the most frequent on and takes each that brings this nearer to avg, starting with
    /// the first that does not take it below. Where no pair is so rare, takes the rarest. Refused
    /// if the sample is too short to hold a pair.
    pub fn for_mean(sample: &[u8], sizes: ChunkSizes) -> Result<Self, ParamError> {
        let ranked = ranked_pairs(sample)?;
        // in the unit of one pair: nearer to avg by mean is not nearer by count
        let distance = |count: u64| {
            let wait = sample.len() as f64 / count as f64;
            ((sizes.min() - 1) as f64 + wait - sizes.avg() as f64).abs()
        };
        let most = sample.len() as u64 / sizes.spread() as u64;
        let mut taken = Vec::new();
        let mut total = 0;
        for &(number, count) in &ranked {
            let fits =
                if total == 0 { count <= most } else { distance(total + count) < distance(total) };
            if fits {
                taken.push(number);
                total += count;
            }
        }
        if taken.is_empty() {
            taken.extend(ranked.last().map(|&(number, _)| number));
        }
        Self::from_numbers(taken)
    }

    /// The given pairs; refused if there are none.
    pub fn from_pairs(pairs: impl IntoIterator<Item = [u8; 2]>) -> Result<Self, ParamError> {
        Self::from_numbers(pairs.into_iter().map(u16::from_be_bytes))
    }

    /// As many pairs as cut random data at avg: the lowest 16 bits of `numbers`, until ⌊(2^16 + n / 2) / n⌋ are different, with n = avg − min + 1, or one.
    pub(crate) fn drawn(mut numbers: Numbers, sizes: ChunkSizes) -> Self {
        let spread = sizes.spread();
        let count = ((PAIRS + spread / 2) / spread).max(1);
        if count == PAIRS {
            return Self { words: [u64::MAX; PAIRS / 64] };
        }
        let mut drawn = Self { words: [0; PAIRS / 64] };
        let mut missing = count;
        while missing > 0 {
            missing -= usize::from(drawn.insert(numbers.next() as u16));
        }
        drawn
    }

    /// Whether a chunk may end with `pair`.
    pub fn contains(&self, pair: [u8; 2]) -> bool {
        let number = u16::from_be_bytes(pair);
        self.words[usize::from(number / 64)] >> (number % 64) & 1 == 1
    }

    /// All pairs, in ascending order.
    pub fn pairs(&self) -> impl Iterator<Item = [u8; 2]> + '_ {
        let numbers = self.words.iter().enumerate().flat_map(|(i, &word)| {
            let bits = (0..64).take_while(move |&bit| word >> bit != 0);
            bits.filter(move |bit| word >> bit & 1 == 1).map(move |bit| (64 * i + bit) as u16)
        });
        numbers.map(u16::to_be_bytes)
    }

    fn from_numbers(numbers: impl IntoIterator<Item = u16>) -> Result<Self, ParamError> {
        let mut divisors = Self { words: [0; PAIRS / 64] };
        let mut any = false;
        for number in numbers {
            divisors.insert(number);
            any = true;
        }
        if any { Ok(divisors) } else { Err(ParamError::NoDivisors) }
    }

    /// Whether it was not there yet.
    fn insert(&mut self, number: u16) -> bool {
        let word = &mut self.words[usize::from(number / 64)];
        let bit = 1 << (number % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

impl fmt::Debug for Divisors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.pairs().take(8).map(|[a, b]| format!("{a:02x}{b:02x}"));
        let shown = shown.collect::<Vec<_>>().join(" ");
        write!(f, "Divisors({} pairs: {shown} …)", self.pairs().count())
    }
}

/// The pairs in `sample` with their counts, overlapping ones included, the most frequent first.
fn ranked_pairs(sample: &[u8]) -> Result<Vec<(u16, u64)>, ParamError> {
    if sample.len() < 2 {
        return Err(ParamError::EmptySample { len: sample.len() });
    }
    let mut counts: Box<[u64; PAIRS]> = Box::new(array::from_fn(|_| 0));
    for pair in sample.windows(2) {
        counts[usize::from(u16::from_be_bytes([pair[0], pair[1]]))] += 1;
    }
    let numbered = (0..=u16::MAX).zip(counts.iter().copied());
    let mut ranked: Vec<_> = numbered.filter(|&(_, count)| count > 0).collect();
    ranked.sort_by_key(|&(number, count)| (Reverse(count), number));
    Ok(ranked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::splitmix::SplitMix64;

    fn sizes(min: usize, avg: usize) -> ChunkSizes {
        ChunkSizes::new(min, avg, 4 * avg).unwrap()
    }

    fn pairs(divisors: Divisors) -> Vec<[u8; 2]> {
        divisors.pairs().collect()
    }

    #[test]
    fn the_most_frequent_pairs_are_found_and_ties_go_to_the_smaller() {
        let sample = b"ababab xy yx";
        assert_eq!(pairs(Divisors::most_frequent(sample, 1).unwrap()), [*b"ab"]);
        assert_eq!(pairs(Divisors::most_frequent(sample, 2).unwrap()), [*b"ab", *b"ba"]);
        let three = pairs(Divisors::most_frequent(sample, 3).unwrap());
        assert_eq!(three, [*b" x", *b"ab", *b"ba"]);
        assert_eq!(pairs(Divisors::most_frequent(b"aaaa", 9).unwrap()), [*b"aa"]);
    }

    #[test]
    fn an_empty_sample_or_set_is_refused() {
        for sample in [&b""[..], b"a"] {
            let refusal = Divisors::most_frequent(sample, 3).unwrap_err();
            assert_eq!(refusal, ParamError::EmptySample { len: sample.len() });
            assert_eq!(Divisors::for_mean(sample, sizes(1, 8)), Err(refusal));
        }
        assert_eq!(Divisors::most_frequent(b"abc", 0), Err(ParamError::NoDivisors));
        assert_eq!(Divisors::from_pairs([]), Err(ParamError::NoDivisors));
    }

    #[test]
    fn the_greedy_choice_passes_over_pairs_that_are_too_frequent() {
        // per 100 bytes: ab 40 times, xy 4 times, pq once
        let mut block = b"ab".repeat(40);
        block.extend(b"-xy.xy:xy;xy,pq!1234");
        let sample = block.repeat(50);
        assert_eq!(pairs(Divisors::for_mean(&sample, sizes(1, 25)).unwrap()), [*b"xy"]);
        assert_eq!(pairs(Divisors::for_mean(&sample, sizes(76, 100)).unwrap()), [*b"xy"]);
        assert_eq!(pairs(Divisors::for_mean(b"abababab", sizes(1, 100)).unwrap()), [*b"ba"]);
    }

    #[test]
    fn as_many_pairs_are_drawn_as_positions_must_qualify() {
        let drawn =
            |seed, avg| Divisors::drawn(Numbers::Public(SplitMix64::new(seed)), sizes(1, avg));
        let count = |avg| drawn(7, avg).pairs().count();
        let counts = [1, 2, 128, 65536, 1 << 20].map(count);
        assert_eq!(counts, [65536, 32768, 512, 1, 1]);
        assert_ne!(drawn(1, 512), drawn(2, 512));
    }
}
