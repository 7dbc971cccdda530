//! What one gateway knows of the others, and the next gateway on the way.

use super::ranges::{Range, Ranges};

/// Chooses the next gateway on the way to a prefix, as one gateway sees it.
pub trait Route {
    /// The place on the ring of the gateway that a request for `prefix` goes to next, or `None` if
    /// this gateway holds the prefix itself.
    fn next(&self, prefix: u16) -> Option<usize>;
}

/// Which gateways each gateway knows, and which of these a request goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// Each gateway knows all others.
    Direct,
    /// Each knows those 1, 2, 4, … places ahead, and sends to the closest preceding: the one with the
    /// last range that does not begin after the prefix (Stoica et al., SIGCOMM 2001).
    Chord,
    /// Each knows those 1, 2, 4, … up to half a ring ahead and behind, and sends to the nearest:
    /// StreamDedup's variant for links that carry as much in both directions.
    ChordBoth,
}

impl Routing {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Direct, Self::Chord, Self::ChordBoth];

    /// As commands call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Chord => "chord",
            Self::ChordBoth => "chord-both",
        }
    }

    /// How many places ahead on a ring of `count` the known gateways are, ascending.
    fn offsets(self, count: usize) -> Vec<usize> {
        let powers = || (0..usize::BITS).map(|bit| 1 << bit);
        let mut offsets: Vec<usize> = match self {
            Self::Direct => (1..count).collect(),
            Self::Chord => powers().take_while(|power| *power < count).collect(),
            Self::ChordBoth => powers()
                .take_while(|power| 2 * power <= count)
                .flat_map(|power| [power, count - power])
                .collect(),
        };
        offsets.sort_unstable();
        offsets.dedup();
        offsets
    }
}

/// A gateway's own range, and those that it knows of.
#[derive(Clone, Debug)]
pub struct Table {
    own: Range,
    routing: Routing,
    /// With their places on the ring, by range.
    known: Vec<(Range, usize)>,
}

impl Table {
    /// The table of the gateway at `place` on the ring.
    ///
    /// # Panics
    ///
    /// If nobody is at that place.
    pub fn new(ranges: &Ranges, place: usize, routing: Routing) -> Self {
        let ring = ranges.ring();
        let places =
            routing.offsets(ring.len()).into_iter().map(|ahead| (place + ahead) % ring.len());
        let mut known: Vec<_> = places.map(|place| (ring[place], place)).collect();
        known.sort_unstable_by_key(|(range, _)| range.first);
        Self { own: ring[place], routing, known }
    }

    /// The tables of all gateways, in the order of the ring.
    pub fn all(ranges: &Ranges, routing: Routing) -> Vec<Self> {
        (0..ranges.ring().len()).map(|place| Self::new(ranges, place, routing)).collect()
    }
}

impl Route for Table {
    /// Always comes closer: the next gateway on the ring is known, and in both directions the one
    /// before as well, so that one of those that are known is nearer to the prefix than this one.
    fn next(&self, prefix: u16) -> Option<usize> {
        if self.own.holds(prefix) {
            return None;
        }
        let count = self.known.len();
        let above = self.known.partition_point(|(range, _)| range.first <= prefix);
        let (before, place) = self.known[(above + count - 1) % count];
        let (after, place_after) = self.known[above % count];
        let ahead = prefix.wrapping_sub(before.last);
        let behind = after.first.wrapping_sub(prefix);
        let is_after_nearer =
            self.routing == Routing::ChordBoth && !before.holds(prefix) && behind < ahead;
        Some(if is_after_nearer { place_after } else { place })
    }
}

/// The places that a request for `prefix` comes to after `from`: the last holds the prefix. Empty if
/// `from` does.
///
/// # Panics
///
/// If the way does not end: the tables are not of one ring.
pub fn way<R: Route>(tables: &[R], from: usize, prefix: u16) -> Vec<usize> {
    let mut way = Vec::new();
    let mut at = from;
    while let Some(next) = tables[at].next(prefix) {
        way.push(next);
        assert!(
            way.len() < tables.len(),
            "from {from} to prefix {prefix}: {way:?} goes in a circle"
        );
        at = next;
    }
    way
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::shortest::{Shortest, distances};

    /// Hops from `from` to each place.
    fn hops(ranges: &Ranges, tables: &[Table], from: usize) -> Vec<usize> {
        let to = |(place, range): (usize, &Range)| {
            // both ends, since a range is on two sides of others
            let [first, last] = [range.first, range.last].map(|prefix| way(tables, from, prefix));
            for way in [&first, &last] {
                assert_eq!(*way.last().unwrap_or(&from), place, "{ranges:?} from {from}");
            }
            first.len().max(last.len())
        };
        ranges.ring().iter().enumerate().map(to).collect()
    }

    fn counts() -> impl Iterator<Item = usize> {
        (1..=200).chain([255, 256, 257, 384, 511, 512, 513, 1000, 1024])
    }

    /// All places of a small ring, some of a large one.
    fn starts(count: usize) -> impl Iterator<Item = usize> {
        (0..count).step_by(if count <= 64 { 1 } else { count / 5 })
    }

    /// Where each gateway of a ring sends to, as places.
    fn graph(routing: Routing, count: usize) -> Vec<Vec<usize>> {
        let offsets = routing.offsets(count);
        (0..count).map(|at| offsets.iter().map(|ahead| (at + ahead) % count).collect()).collect()
    }

    #[test]
    fn direct_takes_one_hop() {
        for count in counts() {
            let ranges = Ranges::of(count as u32).unwrap();
            let tables = Table::all(&ranges, Routing::Direct);
            for from in starts(count) {
                let expected: Vec<_> = (0..count).map(|to| usize::from(to != from)).collect();
                assert_eq!(hops(&ranges, &tables, from), expected);
            }
        }
    }

    #[test]
    fn chord_takes_the_shortest_way_that_does_not_pass_the_target() {
        for count in counts() {
            let ranges = Ranges::of(count as u32).unwrap();
            let tables = Table::all(&ranges, Routing::Chord);
            // ahead on a line without end, so that no way goes around
            let offsets = Routing::Chord.offsets(count);
            let line: Vec<Vec<usize>> = (0..count)
                .map(|at| offsets.iter().map(|ahead| at + ahead).filter(|to| *to < count).collect())
                .collect();
            let ahead = distances(&line, 0);
            for from in starts(count) {
                let found = hops(&ranges, &tables, from);
                let around = distances(&graph(Routing::Chord, count), from);
                for (to, hops) in found.into_iter().enumerate() {
                    assert_eq!(hops, ahead[(to + count - from) % count], "{count}: {from} to {to}");
                    assert!(hops >= around[to]);
                }
            }
        }
    }

    #[test]
    fn chord_in_both_directions_is_hardly_longer_than_the_shortest_way() {
        let (mut all, mut least, mut longest) = (0, 0, 0);
        for count in counts() {
            let ranges = Ranges::of(count as u32).unwrap();
            let tables = Table::all(&ranges, Routing::ChordBoth);
            let graph = graph(Routing::ChordBoth, count);
            for from in starts(count) {
                let shortest = distances(&graph, from);
                for (hops, shortest) in hops(&ranges, &tables, from).into_iter().zip(shortest) {
                    assert!(hops >= shortest, "{count}: {hops} hops, {shortest} at least");
                    if count.is_power_of_two() {
                        assert_eq!(hops, shortest, "{count}");
                    }
                    all += hops;
                    least += shortest;
                    longest = longest.max(hops - shortest);
                }
            }
        }
        // the nearest of those that are known is not always on a shortest way
        let longer = all as f64 / least as f64;
        assert!(
            longest <= 2 && longer < 1.1,
            "{longest} more hops at most, {longer} times as many"
        );
    }

    #[test]
    fn mean_hops_of_chord_are_half_the_logarithm_and_fewer_in_both_directions() {
        for bits in 1..=10 {
            let count = 1 << bits;
            let ranges = Ranges::of(count as u32).unwrap();
            let mean = |routing| {
                let tables = Table::all(&ranges, routing);
                hops(&ranges, &tables, 0).iter().sum::<usize>() as f64 / count as f64
            };
            assert_eq!(mean(Routing::Chord), f64::from(bits) / 2.0);
            let both = mean(Routing::ChordBoth);
            let is_fewer = if bits == 1 { both == 0.5 } else { both < f64::from(bits) / 2.0 };
            assert!(is_fewer, "{count}: {both}");
        }
    }

    #[test]
    fn the_fingers_are_those_of_the_paper() {
        assert_eq!(Routing::Chord.offsets(10), [1, 2, 4, 8]);
        assert_eq!(Routing::ChordBoth.offsets(10), [1, 2, 4, 6, 8, 9]);
        assert_eq!(Routing::Direct.offsets(4), [1, 2, 3]);
        for routing in Routing::ALL {
            assert_eq!(routing.offsets(1), [0; 0]);
            assert_eq!(routing.offsets(2), [1]);
        }
    }

    #[test]
    fn requests_arrive_while_gateways_join_and_leave() {
        use crate::routing::Gateway;
        let mut ranges = Ranges::of(37).unwrap();
        for name in 0..30 {
            ranges.leave(Gateway(name)).unwrap();
            ranges.join(Gateway(100 + 2 * name)).unwrap();
            if name % 3 == 0 {
                ranges.join(Gateway(101 + 2 * name)).unwrap();
            }
            for routing in Routing::ALL {
                let tables = Table::all(&ranges, routing);
                for from in 0..tables.len() {
                    hops(&ranges, &tables, from);
                }
            }
        }
    }

    #[test]
    fn the_reference_is_a_way_too() {
        let ranges = Ranges::of(13).unwrap();
        let graph = graph(Routing::ChordBoth, 13);
        let tables = Shortest::all(&ranges, &graph);
        for from in 0..13 {
            let expected = distances(&graph, from);
            for (to, range) in ranges.ring().iter().enumerate() {
                assert_eq!(way(&tables, from, range.first).len(), expected[to]);
            }
        }
    }
}
