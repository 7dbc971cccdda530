//! Events in the order of their times.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Picoseconds since the beginning of a run: they count 213 days.
pub(super) type Time = u64;

/// What will happen, the earliest first; of two at the same time, what was added first.
pub(super) struct Queue<E> {
    heap: BinaryHeap<Entry<E>>,
    added: u64,
}

struct Entry<E> {
    time: Time,
    number: u64,
    event: E,
}

impl<E> Queue<E> {
    pub(super) fn new() -> Self {
        Self { heap: BinaryHeap::new(), added: 0 }
    }

    pub(super) fn add(&mut self, time: Time, event: E) {
        self.heap.push(Entry { time, number: self.added, event });
        self.added += 1;
    }

    pub(super) fn next(&mut self) -> Option<(Time, E)> {
        self.heap.pop().map(|entry| (entry.time, entry.event))
    }
}

impl<E> Entry<E> {
    fn key(&self) -> (Time, u64) {
        (self.time, self.number)
    }
}

impl<E> Ord for Entry<E> {
    /// The earliest is the greatest: a heap gives that first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::numbers::Numbers;

    #[test]
    fn events_come_by_time_and_then_as_they_were_added() {
        let mut numbers = Numbers::new(1);
        let mut queue = Queue::new();
        let mut expected: Vec<(Time, usize)> =
            (0..1000).map(|number| (numbers.below(50) as Time, number)).collect();
        for &(time, number) in &expected {
            queue.add(time, number);
        }
        expected.sort();
        let found: Vec<_> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(found, expected);
    }
}
