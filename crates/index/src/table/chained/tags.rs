//! Tags: four bits for each of a bucket's eight own entries, which tell which of them may have a
//! fingerprint.
//!
//! Tags are stored in the bucket, so a look-up that has read the bucket knows which cache lines to read next,
//! without following links.

use crate::table::{Words, one_of};

/// Bits of a tag.
const BITS: u32 = 4;

/// The lowest bit of each tag.
const ONES: u32 = 0x1111_1111;

/// The highest bit of each tag.
const TOPS: u32 = ONES << (BITS - 1);

/// A tag for each of a bucket's eight own entries, the first in the lowest bits.
///
/// Zero: the bucket does not use the entry. It is free, or in another bucket's chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tags(pub(super) u32);

/// Distinguishes fingerprints of one bucket that its filter does not: from 1 to 15.
///
/// Taken from the second eight bytes, because the filter uses the first and the bucket the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag(u32);

impl Tag {
    pub(super) fn of(words: Words) -> Self {
        Self(1 + one_of(words.0[1], (1 << BITS) - 1) as u32)
    }
}

impl Tags {
    /// The own entries whose tag is `tag`: all of these, and no others.
    ///
    /// Where they agree, and only there, four bits of `differing` are zero. The lower three are
    /// zero if adding seven to them leaves the highest bit clear, and the sum is 14 at most, so
    /// that nothing is carried into the next four.
    pub(super) fn same_as(self, tag: Tag) -> OwnEntries {
        let differing = self.0 ^ (tag.0 * ONES);
        let lower = (differing & !TOPS) + !TOPS;
        OwnEntries(!(lower | differing) & TOPS)
    }

    /// The own entries that have a tag.
    pub(super) fn used(self) -> OwnEntries {
        let any = self.0 | self.0 >> 1 | self.0 >> 2 | self.0 >> 3;
        OwnEntries((any & ONES) << (BITS - 1))
    }

    /// The same, with a tag for own entry `own`; none if the bucket does not use it any more.
    pub(super) fn with(self, own: usize, tag: Option<Tag>) -> Self {
        let at = BITS * own as u32;
        let tag = tag.map_or(0, |tag| tag.0);
        Self(self.0 & !(0xf << at) | tag << at)
    }
}

/// Some of a bucket's own entries, from the first on: the highest bit of each one's four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnEntries(u32);

impl OwnEntries {
    pub(super) const NONE: Self = Self(0);

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl Iterator for OwnEntries {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let first = self.0.trailing_zeros();
        (self.0 != 0).then(|| {
            self.0 &= self.0 - 1;
            (first / BITS) as usize
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_found_wherever_it_is_and_nowhere_else() {
        // every pair of neighbours, in every place: what is carried or borrowed would show
        for tags in (0..=0xffff_u32).map(|low| low | low.rotate_left(5) << 16) {
            for shift in [0, 4, 16] {
                let tags = Tags(tags.rotate_left(shift));
                let tag_at = |own: usize| tags.0 >> (4 * own) & 15;
                let used: Vec<_> = (0..8).filter(|&own| tag_at(own) != 0).collect();
                assert!(tags.used().eq(used), "{tags:x?}");
                for tag in 1..=15 {
                    let expected: Vec<_> = (0..8).filter(|&own| tag_at(own) == tag).collect();
                    assert!(tags.same_as(Tag(tag)).eq(expected), "{tags:x?}, {tag}");
                }
            }
        }
    }

    #[test]
    fn tags_are_from_1_to_15_and_as_even_as_the_bytes() {
        let tag = |word: u64| Tag::of(Words([0, word, 0, 0])).0;
        assert_eq!((tag(0), tag(u64::MAX)), (1, 15));
        let mut counts = [0; 16];
        (0..15_000_u64).for_each(|i| counts[tag(i * (u64::MAX / 15_000)) as usize] += 1);
        assert_eq!(counts[0], 0);
        assert!(counts[1..].iter().all(|count| (999..=1001).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_tag_takes_the_place_of_the_one_before_and_of_no_other() {
        let tags = Tags(0x1234_5678).with(2, Some(Tag(15)));
        assert_eq!(tags, Tags(0x1234_5f78));
        assert_eq!(tags.with(2, None), Tags(0x1234_5078));
        assert_eq!(tags.with(7, None), Tags(0x0234_5f78));
    }
}
