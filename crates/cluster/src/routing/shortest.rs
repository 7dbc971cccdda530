//! The plain reference of routing: breadth-first search over who knows whom.

use std::collections::VecDeque;

use super::ranges::Ranges;
use super::table::Route;

/// Hops from `from` to each place, where `graph` has the places that each place knows.
///
/// # Panics
///
/// If a place cannot be reached.
pub(super) fn distances(graph: &[Vec<usize>], from: usize) -> Vec<usize> {
    let mut distances = vec![None; graph.len()];
    distances[from] = Some(0);
    let mut queue = VecDeque::from([(from, 0)]);
    while let Some((at, hops)) = queue.pop_front() {
        for &next in &graph[at] {
            if distances[next].is_none() {
                distances[next] = Some(hops + 1);
                queue.push_back((next, hops + 1));
            }
        }
    }
    distances.into_iter().map(|hops| hops.expect("a place that is reached")).collect()
}

/// A gateway that knows the whole graph and sends along a shortest way.
pub(super) struct Shortest<'a> {
    ranges: &'a Ranges,
    place: usize,
    known: &'a [usize],
    /// Hops from each known gateway to each place.
    from_known: Vec<Vec<usize>>,
}

impl<'a> Shortest<'a> {
    /// All gateways of a ring, in its order.
    pub(super) fn all(ranges: &'a Ranges, graph: &'a [Vec<usize>]) -> Vec<Self> {
        let all = graph.iter().enumerate().map(|(place, known)| Self {
            ranges,
            place,
            known,
            from_known: known.iter().map(|next| distances(graph, *next)).collect(),
        });
        all.collect()
    }
}

impl Route for Shortest<'_> {
    fn next(&self, prefix: u16) -> Option<usize> {
        let target = self.ranges.holder(prefix);
        let ways = self.known.iter().zip(&self.from_known);
        let nearest = ways.min_by_key(|(_, hops)| hops[target]).map(|(next, _)| *next);
        nearest.filter(|_| target != self.place)
    }
}
