//! Moves within one image: what is read from a place must be read before something else is written
//! there.
//!
//! A move waits until all other moves have read what its targets overwrite. Moves that wait for each
//! other in a circle are broken up: one of them reads into memory, or is given up when too much is held
//! there.

use std::collections::HashMap;
use std::ops::Range;

use bytes::Bytes;

/// Bytes that moves hold in memory, at most.
const MAX_HELD: usize = 32 << 20;

/// A chunk that lies in the image and is wanted elsewhere in it.
pub(super) struct Move<T> {
    pub(super) source: Range<u64>,
    /// Where it goes: each begins there and is as long as the source.
    pub(super) targets: Vec<(u64, T)>,
}

/// What moves read and write.
pub(super) trait Mover<T> {
    type Error;

    /// The bytes of `one`, or nothing if they are no longer there.
    fn read(&mut self, one: &Move<T>) -> Option<Bytes>;

    /// Writes the bytes of `one` to its targets.
    fn write(&mut self, one: &Move<T>, bytes: &Bytes) -> Result<(), Self::Error>;

    /// Takes note that `one` is not made.
    fn give_up(&mut self, one: &Move<T>);
}

/// Makes all `moves`, whose sources ascend and do not overlap, and whose targets do not overlap each
/// other.
///
/// # Errors
///
/// The first that `mover` has; then some moves are made and others are not.
pub(super) fn make<T, M: Mover<T>>(moves: &[Move<T>], mover: &mut M) -> Result<(), M::Error> {
    Moving::new(moves, MAX_HELD).run(mover)
}

/// Moves that are being made.
struct Moving<'m, T> {
    moves: &'m [Move<T>],
    /// Each target with its move, in ascending order.
    targets: Vec<(Range<u64>, usize)>,
    /// Of each move: how many sources of others, not read yet, its targets overwrite.
    blockers: Vec<usize>,
    states: Vec<State>,
    /// Moves that nothing blocks.
    ready: Vec<usize>,
    held: HashMap<usize, Bytes>,
    held_len: usize,
    max_held: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its source was not read.
    Waiting,
    /// Its bytes are in memory.
    Held,
    Over,
}

impl<'m, T> Moving<'m, T> {
    fn new(moves: &'m [Move<T>], max_held: usize) -> Self {
        debug_assert!(moves.is_sorted_by(|a, b| a.source.end <= b.source.start));
        let mut targets = Vec::new();
        for (number, one) in moves.iter().enumerate() {
            let len = one.source.end - one.source.start;
            targets.extend(one.targets.iter().map(|(start, _)| (*start..start + len, number)));
        }
        targets.sort_unstable_by_key(|(target, _)| target.start);
        let mut blockers = vec![0; moves.len()];
        for (number, one) in moves.iter().enumerate() {
            for (_, blocked) in overwriting(&targets, &one.source) {
                blockers[*blocked] += usize::from(*blocked != number);
            }
        }
        let ready = (0..moves.len()).filter(|number| blockers[*number] == 0).collect();
        let states = vec![State::Waiting; moves.len()];
        let (held, held_len) = Default::default();
        Self { moves, targets, blockers, states, ready, held, held_len, max_held }
    }

    fn run<M: Mover<T>>(mut self, mover: &mut M) -> Result<(), M::Error> {
        let mut first_waiting = 0;
        loop {
            while let Some(number) = self.ready.pop() {
                self.make(number, mover)?;
            }
            while first_waiting < self.moves.len() && self.states[first_waiting] != State::Waiting {
                first_waiting += 1;
            }
            if first_waiting == self.moves.len() {
                return Ok(());
            }
            self.break_up(first_waiting, mover);
        }
    }

    /// Makes a move that nothing blocks.
    fn make<M: Mover<T>>(&mut self, number: usize, mover: &mut M) -> Result<(), M::Error> {
        let one = &self.moves[number];
        let bytes = match self.states[number] {
            State::Over => return Ok(()),
            State::Held => self.held.remove(&number).inspect(|bytes| self.held_len -= bytes.len()),
            State::Waiting => {
                let bytes = mover.read(one);
                self.release(number);
                bytes
            }
        };
        self.states[number] = State::Over;
        match bytes {
            Some(bytes) => mover.write(one, &bytes),
            None => {
                mover.give_up(one);
                Ok(())
            }
        }
    }

    /// Lets nobody wait for a move any longer that waits for others.
    fn break_up<M: Mover<T>>(&mut self, number: usize, mover: &mut M) {
        let one = &self.moves[number];
        let len = (one.source.end - one.source.start) as usize;
        let has_room = self.held_len + len <= self.max_held;
        self.states[number] = match has_room.then(|| mover.read(one)).flatten() {
            Some(bytes) => {
                self.held_len += bytes.len();
                self.held.insert(number, bytes);
                State::Held
            }
            None => {
                mover.give_up(one);
                State::Over
            }
        };
        self.release(number);
    }

    /// Lets those go on that waited only for the source of a move.
    fn release(&mut self, number: usize) {
        for (_, blocked) in overwriting(&self.targets, &self.moves[number].source) {
            if *blocked != number {
                self.blockers[*blocked] -= 1;
                if self.blockers[*blocked] == 0 {
                    self.ready.push(*blocked);
                }
            }
        }
    }
}

/// The targets that have bytes in common with `source`.
fn overwriting<'t>(
    targets: &'t [(Range<u64>, usize)],
    source: &Range<u64>,
) -> &'t [(Range<u64>, usize)] {
    let first = targets.partition_point(|(target, _)| target.end <= source.start);
    let end = targets.partition_point(|(target, _)| target.start < source.end);
    &targets[first..end.max(first)]
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use onefold_testkit::SplitMix64;

    use super::*;

    /// An image of which each byte tells where it came from.
    struct Image {
        bytes: Vec<u16>,
        given_up: usize,
    }

    impl Mover<()> for Image {
        type Error = Infallible;

        fn read(&mut self, one: &Move<()>) -> Option<Bytes> {
            let read = &self.bytes[one.source.start as usize..one.source.end as usize];
            // As the image was at first, or the order was wrong.
            let is_right =
                read.iter().zip(one.source.clone()).all(|(byte, at)| u64::from(*byte) == at);
            assert!(is_right, "{:?} was overwritten", one.source);
            Some(vec![0; read.len()].into())
        }

        fn write(&mut self, one: &Move<()>, bytes: &Bytes) -> Result<(), Infallible> {
            for (start, ()) in &one.targets {
                for (at, byte) in
                    (*start as usize..*start as usize + bytes.len()).zip(one.source.clone())
                {
                    self.bytes[at] = byte as u16;
                }
            }
            Ok(())
        }

        fn give_up(&mut self, _: &Move<()>) {
            self.given_up += 1;
        }
    }

    const LEN: u64 = 600;

    /// Random chunks that cover an image, each with random targets that do not overlap.
    fn moves(numbers: &mut SplitMix64) -> Vec<Move<()>> {
        let mut moves = Vec::new();
        let mut at = 0;
        while at < LEN - 20 {
            let end = at + 1 + numbers.below(20) as u64;
            moves.push(Move { source: at..end, targets: Vec::new() });
            at = end + numbers.below(3) as u64;
        }
        let mut at = numbers.below(30) as u64;
        loop {
            let number = numbers.below(moves.len());
            let len = moves[number].source.end - moves[number].source.start;
            if at + len > LEN {
                break;
            }
            moves[number].targets.push((at, ()));
            at += len + [0, 0, 5][numbers.below(3)];
        }
        moves.retain(|one| !one.targets.is_empty());
        moves
    }

    fn run(moves: &[Move<()>], max_held: usize) -> Image {
        let mut image = Image { bytes: (0..LEN as u16).collect(), given_up: 0 };
        let Ok(()) = Moving::new(moves, max_held).run(&mut image);
        image
    }

    #[test]
    fn every_source_is_read_before_something_is_written_there() {
        let mut numbers = SplitMix64::new(1);
        for round in 0..2000 {
            let moves = moves(&mut numbers);
            let image = run(&moves, usize::MAX);
            assert_eq!(image.given_up, 0, "round {round}");
            for one in &moves {
                for (start, ()) in &one.targets {
                    let len = (one.source.end - one.source.start) as usize;
                    let expected: Vec<u16> = one.source.clone().map(|at| at as u16).collect();
                    assert_eq!(image.bytes[*start as usize..][..len], expected, "round {round}");
                }
            }
        }
    }

    #[test]
    fn with_little_room_some_are_given_up_and_none_reads_what_was_overwritten() {
        let mut numbers = SplitMix64::new(2);
        let given_up: usize =
            (0..500).map(|_| run(&moves(&mut numbers), numbers.below(40)).given_up).sum();
        assert!(given_up > 0);
    }

    #[test]
    fn a_shift_holds_nothing_and_a_swap_little() {
        let shift = |by: u64| -> Vec<Move<()>> {
            let one = |at| Move { source: at..at + 10, targets: vec![(at + by, ())] };
            (0..50).map(|number| one(number * 10)).collect()
        };
        for by in [1, 9, 10, 11, 95] {
            assert_eq!(run(&shift(by), 0).given_up, 0, "by {by}");
        }
        let swap = |half: u64| -> Vec<Move<()>> {
            let one = |at: u64| Move {
                source: at..at + 10,
                targets: vec![(if at < half { LEN - half + at } else { at - half }, ())],
            };
            (0..LEN / 10).map(|number| one(number * 10)).collect()
        };
        // The halves may be of different length, so that targets lie across sources.
        for half in [300, 290, 250, 10] {
            assert_eq!(run(&swap(half), 20).given_up, 0, "{half}");
        }
    }
}
