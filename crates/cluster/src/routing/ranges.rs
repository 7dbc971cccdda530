//! The first 16 bits of a fingerprint, divided among gateways.

use thiserror::Error;

/// The name of a gateway. It stays the same when others join or leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gateway(pub u32);

/// The most gateways that can have a range each: at least 16 prefixes then.
pub const MAX_GATEWAYS: usize = 1 << 12;

/// The prefixes of one gateway, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first prefix.
    pub first: u16,
    /// The last prefix.
    pub last: u16,
    /// The gateway that holds their hints.
    pub gateway: Gateway,
}

impl Range {
    /// Whether `prefix` is in it.
    pub fn holds(&self, prefix: u16) -> bool {
        (self.first..=self.last).contains(&prefix)
    }

    /// How many prefixes it has.
    fn width(&self) -> u32 {
        u32::from(self.last - self.first) + 1
    }
}

/// Why gateways cannot be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RangesError {
    /// The gateway already has a range.
    #[error("gateway {} already holds a range, expected another name", .0.0)]
    Joined(Gateway),
    /// There are as many gateways as may be.
    #[error("{MAX_GATEWAYS} gateways hold a range, expected fewer")]
    Full,
    /// The gateway has no range.
    #[error("gateway {} holds no range, expected one that joined", .0.0)]
    Unknown(Gateway),
    /// No other gateway could take the range over.
    #[error("gateway {} is the only one, expected another that takes its range over", .0.0)]
    Last(Gateway),
}

/// Who holds which prefixes: each prefix has exactly one gateway, and each gateway one range.
///
/// Ranges are the leaves of a binary tree over all prefixes whose depths differ by one at most, so
/// none is more than twice as wide as another. When a gateway joins, half of a widest range moves.
/// When one leaves, its own range moves, and at most one narrowest range besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranges(Vec<Range>);

impl Ranges {
    /// Gives all prefixes to one gateway.
    pub fn new(gateway: Gateway) -> Self {
        Self(vec![Range { first: 0, last: u16::MAX, gateway }])
    }

    /// The ranges of gateways 0 to `count` - 1, joined in this order.
    ///
    /// # Errors
    ///
    /// [`RangesError::Full`] if there are more than [`MAX_GATEWAYS`].
    ///
    /// # Panics
    ///
    /// If `count` is 0.
    pub fn of(count: u32) -> Result<Self, RangesError> {
        assert!(count > 0, "no gateway, expected at least one");
        let mut ranges = Self::new(Gateway(0));
        for gateway in 1..count {
            ranges.join(Gateway(gateway))?;
        }
        Ok(ranges)
    }

    /// The ranges in ascending order: the ring.
    pub fn ring(&self) -> &[Range] {
        &self.0
    }

    /// The place on the ring of the gateway that holds `prefix`.
    pub fn holder(&self, prefix: u16) -> usize {
        self.0.partition_point(|range| range.first <= prefix) - 1
    }

    /// Gives `gateway` the upper half of the first of the widest ranges.
    ///
    /// # Errors
    ///
    /// [`RangesError::Joined`], [`RangesError::Full`]; nothing has changed then.
    pub fn join(&mut self, gateway: Gateway) -> Result<(), RangesError> {
        if self.place(gateway).is_some() {
            return Err(RangesError::Joined(gateway));
        }
        if self.0.len() == MAX_GATEWAYS {
            return Err(RangesError::Full);
        }
        let width = self.0.iter().map(Range::width).max().unwrap_or(0);
        let widest = self.0.iter().position(|range| range.width() == width);
        let at = widest.ok_or(RangesError::Full)?;
        let half = (width / 2) as u16;
        let upper = Range { first: self.0[at].first + half, gateway, ..self.0[at] };
        self.0[at].last = upper.first - 1;
        self.0.insert(at + 1, upper);
        Ok(())
    }

    /// Takes the range of `gateway` away. Two neighbours that are the halves of one range become one
    /// again: the gateway's own half if it is a narrowest, or else the first narrowest pair, of which
    /// one gateway takes over the range that is free.
    ///
    /// # Errors
    ///
    /// [`RangesError::Unknown`], [`RangesError::Last`]; nothing has changed then.
    pub fn leave(&mut self, gateway: Gateway) -> Result<(), RangesError> {
        let at = self.place(gateway).ok_or(RangesError::Unknown(gateway))?;
        let width = self.0.iter().map(Range::width).min().unwrap_or(0);
        let narrow = match self.0[at].width() == width {
            true => Some(at),
            false => self.0.iter().position(|range| range.width() == width),
        };
        let narrow = narrow.filter(|_| self.0.len() > 1).ok_or(RangesError::Last(gateway))?;
        // leaves of the deepest level are there with their siblings
        let is_upper = u32::from(self.0[narrow].first) / width % 2 == 1;
        let lower = if is_upper { narrow - 1 } else { narrow };
        let upper = self.0[lower + 1];
        match at {
            _ if at == lower => self.0[lower].gateway = upper.gateway,
            _ if at == lower + 1 => {}
            _ => self.0[at].gateway = upper.gateway,
        }
        self.0[lower].last = upper.last;
        self.0.remove(lower + 1);
        Ok(())
    }

    fn place(&self, gateway: Gateway) -> Option<usize> {
        self.0.iter().position(|range| range.gateway == gateway)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use onefold_testkit::SplitMix64;

    use super::*;

    /// Who holds each prefix, found without `holder`, if ranges have neither gap nor overlap.
    fn spelled_out(ranges: &Ranges) -> Vec<Gateway> {
        let mut holders = Vec::new();
        for range in ranges.ring() {
            assert_eq!(holders.len(), usize::from(range.first), "{ranges:?}");
            holders.resize(usize::from(range.last) + 1, range.gateway);
        }
        assert_eq!(holders.len(), 1 << 16, "{ranges:?}");
        let gateways: BTreeSet<_> = ranges.ring().iter().map(|range| range.gateway).collect();
        assert_eq!(gateways.len(), ranges.ring().len(), "one range a gateway");
        holders
    }

    fn ensure_even(ranges: &Ranges) {
        let widths = ranges.ring().iter().map(Range::width);
        let (least, most) = (widths.clone().min().unwrap(), widths.max().unwrap());
        assert!(most <= 2 * least, "{least} to {most}");
    }

    /// The share of prefixes that have another gateway.
    fn moved(before: &[Gateway], after: &[Gateway]) -> f64 {
        let changed = before.iter().zip(after).filter(|(before, after)| before != after).count();
        changed as f64 / before.len() as f64
    }

    #[test]
    fn every_prefix_has_one_gateway_for_every_count() {
        for count in (1..=200).chain([255, 256, 257, 1000, 1024, 4095, 4096]) {
            let ranges = Ranges::of(count).unwrap();
            assert_eq!(ranges.ring().len(), count as usize);
            ensure_even(&ranges);
            let holders = spelled_out(&ranges);
            for (prefix, holder) in (0..=u16::MAX).zip(holders) {
                let range = ranges.ring()[ranges.holder(prefix)];
                assert!(range.holds(prefix) && range.gateway == holder, "{prefix}: {range:?}");
            }
        }
    }

    #[test]
    fn little_moves_when_a_gateway_joins_or_leaves() {
        let mut numbers = SplitMix64::new(25);
        let mut ranges = Ranges::of(100).unwrap();
        let mut before = spelled_out(&ranges);
        for name in 100..1000 {
            let count = ranges.ring().len();
            // now and then there are few, and now and then many
            let joins =
                count == 1 || numbers.next_u64() % 100 < if name % 200 < 100 { 20 } else { 80 };
            let bound = match joins {
                true => {
                    ranges.join(Gateway(name)).unwrap();
                    1.0 / count as f64
                }
                false => {
                    let at = (numbers.next_u64() % count as u64) as usize;
                    ranges.leave(ranges.ring()[at].gateway).unwrap();
                    3.0 / count as f64
                }
            };
            ensure_even(&ranges);
            let after = spelled_out(&ranges);
            let share = moved(&before, &after);
            assert!(share > 0.0 && share <= bound, "{count} gateways: {share} moved");
            before = after;
        }
    }

    #[test]
    fn whoever_leaves_holds_nothing_and_all_others_a_range() {
        for count in 2..70 {
            for leaver in 0..count {
                let mut ranges = Ranges::of(count).unwrap();
                ranges.leave(Gateway(leaver)).unwrap();
                let left: BTreeSet<_> = spelled_out(&ranges).into_iter().collect();
                let expected = (0..count).filter(|one| *one != leaver).map(Gateway);
                assert_eq!(left, expected.collect());
            }
        }
    }

    #[test]
    fn what_cannot_be_done_changes_nothing() {
        let mut one = Ranges::of(1).unwrap();
        assert_eq!(one.leave(Gateway(0)), Err(RangesError::Last(Gateway(0))));
        assert_eq!(one.leave(Gateway(9)), Err(RangesError::Unknown(Gateway(9))));
        assert_eq!(one.join(Gateway(0)), Err(RangesError::Joined(Gateway(0))));
        assert_eq!(one, Ranges::of(1).unwrap());
        let mut all = Ranges::of(4096).unwrap();
        assert_eq!(all.join(Gateway(4096)), Err(RangesError::Full));
        assert_eq!(all, Ranges::of(4096).unwrap());
        assert_eq!(Ranges::of(4097), Err(RangesError::Full));
    }
}
