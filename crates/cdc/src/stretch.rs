//! An input that a caller cuts in stretches, with the cut-points of the whole.

use std::cmp::Ordering;

use crate::Chunker;

/// The cut-points of `data` behind the one at `start`, as far as its bytes decide them: what
/// [`Chunker::next_cut`] finds again and again.
///
/// For who cuts an input in stretches by several threads and keeps the bytes itself. A thread first
/// cuts its stretch as if a chunk began with it. When the last cut-point of the stretch before is
/// known, the bytes behind that go in front, and the thread cuts from there. In `assumed` it gives
/// where it began at first and the cut-points it found: from the first on that is a true one, they
/// are taken, and nothing is searched twice. No [`window`](Chunker::window) is made use of: where
/// the cuttings never meet, all of the stretch is.
pub fn decided_cuts(
    chunker: &Chunker,
    data: &[u8],
    start: usize,
    mut assumed: &[usize],
) -> Vec<usize> {
    let mut cut_points = Vec::new();
    let mut at = start;
    loop {
        while let [first, rest @ ..] = assumed {
            match first.cmp(&at) {
                Ordering::Less => assumed = rest,
                Ordering::Equal => {
                    cut_points.extend_from_slice(rest);
                    return cut_points;
                }
                Ordering::Greater => break,
            }
        }
        let Some(len) = chunker.next_cut(&data[at..]) else { return cut_points };
        at += len;
        cut_points.push(at);
    }
}
