//! Which of the living gateways holds a fingerprint.
//!
//! The first 16 bits of a fingerprint are divided into [`SLICES`] *slices* of equal width. A slice belongs to the
//! gateway whose number for it is the highest (rendezvous: Thaler and Ravishankar, 1998). The number is a hash of
//! slice and gateway, so every gateway that knows the same others comes to the same answer, in whatever order
//! they came and went; [`routing::Ranges`](crate::routing::Ranges), which `simulate` runs, depends on that order.
//! When a gateway comes, it takes some slices of each other one; when it goes, only its own slices move. Every
//! gateway knows all others, so a request takes one hop.

use onefold_fingerprint::Fingerprint;

use super::{GatewayId, Key};

/// How many slices there are: each is 16 of the 2^16 prefixes.
pub const SLICES: usize = 1 << 12;

/// The most gateways that share the index. Others hold no slice, and ask those that do.
pub const MAX_SHARERS: usize = 256;

/// A slice: the first 12 bits of a fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slice(u16);

impl Slice {
    /// All slices, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..SLICES as u16).map(Self)
    }

    /// The slice of a fingerprint.
    pub fn of(fingerprint: &Fingerprint) -> Self {
        let [first, second, ..] = *fingerprint.as_bytes();
        Self(u16::from_be_bytes([first, second]) >> 4)
    }

    pub(crate) fn of_key(key: &Key) -> Self {
        Self(u16::from_be_bytes([key[0], key[1]]) >> 4)
    }

    /// Its number, below [`SLICES`].
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// Which gateway holds which slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranges {
    gateways: Vec<GatewayId>,
    /// The place in `gateways` of each slice's holder.
    holders: Vec<u16>,
}

impl Ranges {
    /// The slices of `gateways`, in any order, of which the first [`MAX_SHARERS`] by name share the index.
    /// Without a gateway no slice has a holder.
    pub fn new(gateways: impl IntoIterator<Item = GatewayId>) -> Self {
        let mut gateways: Vec<_> = gateways.into_iter().collect();
        gateways.sort_unstable();
        gateways.dedup();
        gateways.truncate(MAX_SHARERS);
        let names: Vec<[u64; 2]> = gateways.iter().map(words).collect();
        let holder = |slice: Slice| {
            let weigh = |&at: &usize| (weight(slice, names[at]), at);
            (0..names.len()).max_by_key(weigh).unwrap_or_default() as u16
        };
        let holders =
            if gateways.is_empty() { Vec::new() } else { Slice::all().map(holder).collect() };
        Self { gateways, holders }
    }

    /// The gateway that holds `slice`; none if there are no gateways.
    pub fn holder(&self, slice: Slice) -> Option<GatewayId> {
        let at = *self.holders.get(slice.index())?;
        self.gateways.get(usize::from(at)).copied()
    }

    /// The slices of `gateway`, in order.
    pub fn of(&self, gateway: GatewayId) -> impl Iterator<Item = Slice> {
        Slice::all().filter(move |slice| self.holder(*slice) == Some(gateway))
    }

    /// The gateways that share the index, by name.
    pub fn gateways(&self) -> &[GatewayId] {
        &self.gateways
    }
}

fn words(gateway: &GatewayId) -> [u64; 2] {
    let (words, _) = gateway.as_bytes().as_chunks::<8>();
    [0, 1].map(|at: usize| u64::from_le_bytes(words[at]))
}

/// A uniform number of slice and gateway. It must stay as it is: gateways of all versions must agree.
fn weight(Slice(slice): Slice, [first, second]: [u64; 2]) -> u64 {
    mixed(mixed(mixed(u64::from(slice)) ^ first) ^ second)
}

/// The output function of SplitMix64 (Steele, Lea and Flood, 2014).
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use onefold_testkit::SplitMix64;

    use super::*;

    fn gateways(seed: u64, count: usize) -> Vec<GatewayId> {
        let mut numbers = SplitMix64::new(seed);
        let id = |_| {
            let mut id = [0; 16];
            id[..8].copy_from_slice(&numbers.next_u64().to_le_bytes());
            GatewayId::from_bytes(id)
        };
        (0..count).map(id).collect()
    }

    fn holders(ranges: &Ranges) -> Vec<Option<GatewayId>> {
        Slice::all().map(|slice| ranges.holder(slice)).collect()
    }

    #[test]
    fn each_fingerprint_is_in_the_slice_of_its_first_bits() {
        let mut bytes = [0xff; 32];
        bytes[..2].copy_from_slice(&[0xab, 0xcd]);
        assert_eq!(Slice::of(&Fingerprint::from_bytes(bytes)), Slice(0xabc));
        assert_eq!(Slice::all().last(), Some(Slice(0xfff)));
    }

    #[test]
    fn gateways_that_know_the_same_others_agree() {
        let mut ids = gateways(1, 9);
        let ranges = Ranges::new(ids.clone());
        ids.reverse();
        ids.push(ids[0]);
        assert_eq!(Ranges::new(ids.clone()), ranges);
        let known: usize = ranges.gateways().iter().map(|id| ranges.of(*id).count()).sum();
        assert_eq!(known, SLICES);
        assert_eq!(Ranges::new([]).holder(Slice(0)), None);
        // a gateway of another version must come to the same holders
        let fixed = [1, 2, 3].map(|id| GatewayId::from_bytes([id; 16]));
        let first: Vec<u8> = Slice::all()
            .take(8)
            .filter_map(|one| Ranges::new(fixed).holder(one))
            .map(|id| id.as_bytes()[0])
            .collect();
        assert_eq!(first, FIXED);
    }

    /// Computed by a program of another language.
    const FIXED: [u8; 8] = [3, 1, 1, 3, 3, 1, 1, 1];

    #[test]
    fn slices_are_even() {
        for count in [1, 2, 3, 10, 100] {
            let ranges = Ranges::new(gateways(2, count));
            let mean = SLICES as f64 / count as f64;
            // five standard deviations
            let slack = 5.0 * mean.sqrt();
            for gateway in ranges.gateways() {
                let held = ranges.of(*gateway).count() as f64;
                assert!((held - mean).abs() <= slack, "{count} gateways: {held} of {mean}");
            }
        }
    }

    #[test]
    fn only_slices_of_who_comes_or_goes_move() {
        let ids = gateways(3, 12);
        for at in 0..ids.len() {
            let all = Ranges::new(ids.clone());
            let others = Ranges::new(ids.iter().copied().filter(|id| *id != ids[at]));
            for (before, after) in holders(&all).into_iter().zip(holders(&others)) {
                assert!(before == after || before == Some(ids[at]));
                assert_ne!(after, Some(ids[at]));
            }
        }
    }

    #[test]
    fn no_more_gateways_share_than_may() {
        let ranges = Ranges::new(gateways(4, MAX_SHARERS + 50));
        assert_eq!(ranges.gateways().len(), MAX_SHARERS);
    }
}
