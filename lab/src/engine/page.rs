//! Pages by number, so that any of millions can be written, and told by what is read, without being
//! kept.

use crate::index::mixed;

/// Bytes of a page.
pub(super) const PAGE: usize = 4096;

/// Pages from this number on take half their length when they are compressed, those before next to
/// nothing.
pub(super) const HALVES: u64 = 1 << 40;

/// Pages that take half their length are one of so many but for their first digits.
pub(super) const PATTERNS: u64 = 64;

/// Makes `page` the page `number`.
///
/// One below [`HALVES`] has 64 random bytes and zeros; one from there on has random hexadecimal
/// digits, four bits in each byte: 16 of its own, and then those of one of [`PATTERNS`].
pub(super) fn fill(page: &mut [u8], number: u64) {
    match number < HALVES {
        true => page.fill(0),
        false => {
            for (at, digits) in (0..).zip(page.chunks_exact_mut(16)) {
                put_digits(digits, mixed((1 << 50) + 256 * (number % PATTERNS) + at));
            }
        }
    }
    refill(page, number);
}

/// Makes a page that [`fill`] made the page `number`, if both are below [`HALVES`] or of one pattern:
/// much sooner.
pub(super) fn refill(page: &mut [u8], number: u64) {
    match number < HALVES {
        true => {
            for (at, word) in (0..8).zip(page.chunks_exact_mut(8)) {
                word.copy_from_slice(&mixed(8 * number + at).to_le_bytes());
            }
        }
        false => put_digits(&mut page[..16], mixed(number)),
    }
}

fn put_digits(digits: &mut [u8], random: u64) {
    for (i, digit) in digits.iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(random >> (4 * i)) as usize % 16];
    }
}

/// Writes of a page each: the offset in bytes, and which page.
pub(super) struct Batch {
    bytes: Vec<u8>,
    offsets: Vec<u64>,
}

impl Batch {
    /// Of so many writes at most.
    pub(super) fn new(most: usize) -> Self {
        Self { bytes: vec![0; most * PAGE], offsets: Vec::with_capacity(most) }
    }

    pub(super) fn clear(&mut self) {
        self.offsets.clear();
    }

    /// One more write of page `number` to `block`.
    pub(super) fn push(&mut self, block: u64, number: u64) {
        fill(&mut self.bytes[self.offsets.len() * PAGE..][..PAGE], number);
        self.offsets.push(block * PAGE as u64);
    }

    /// Whether there is a write to `block`.
    pub(super) fn has(&self, block: u64) -> bool {
        self.offsets.contains(&(block * PAGE as u64))
    }

    pub(super) fn pages(&self) -> Vec<&[u8]> {
        self.bytes.chunks(PAGE).take(self.offsets.len()).collect()
    }

    pub(super) fn writes(&self) -> Vec<(u64, &[u8])> {
        self.offsets.iter().copied().zip(self.bytes.chunks(PAGE)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_differ_and_shrink_as_they_are_said_to() {
        let page = |number| {
            let mut page = vec![7; PAGE];
            fill(&mut page, number);
            page
        };
        for first in [0, HALVES] {
            let stored = zstd::bulk::compress(&page(first), 1).unwrap().len();
            let range = if first == 0 { 64..120 } else { PAGE / 2..PAGE * 55 / 100 };
            assert!(range.contains(&stored), "{stored}");
            for number in first + 1..first + 100 {
                assert!(page(number) != page(first));
                assert!(page(number) == page(number));
            }
            let mut again = page(first);
            for number in [first + PATTERNS, first, first + 7 * PATTERNS] {
                refill(&mut again, number);
                assert!(again == page(number), "{number}");
            }
        }
        // one that follows another soon is made of another pattern, and differs nearly everywhere
        let (one, other) = (page(HALVES), page(HALVES + PATTERNS - 1));
        assert!(one.iter().zip(&other).filter(|(a, b)| a == b).count() < PAGE / 8);
    }

    #[test]
    fn a_batch_is_its_writes() {
        let mut batch = Batch::new(3);
        batch.push(5, 1);
        batch.clear();
        batch.push(7, 2);
        batch.push(6, HALVES);
        let mut pages = [vec![0; PAGE], vec![0; PAGE]];
        fill(&mut pages[0], 2);
        fill(&mut pages[1], HALVES);
        assert_eq!(batch.pages(), pages);
        let expected = [(7 * PAGE as u64, &pages[0][..]), (6 * PAGE as u64, &pages[1][..])];
        assert_eq!(batch.writes(), expected);
        assert_eq!([5, 6, 7].map(|block| batch.has(block)), [false, true, true]);
    }
}
