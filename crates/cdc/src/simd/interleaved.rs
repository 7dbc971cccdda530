//! Rolling hashes at several places at once, on any CPU.
//!
//! A rolling hash waits for its own last value and a look-up at every byte. The walks at places
//! apart do not wait for one another: four of them take hardly longer than one.

use super::vector::prefetch_jump;
use crate::rolling::{Rolling, Search, WindowRule, first_position};

/// Places at work at once.
const LANES: usize = 4;

/// Positions in a lane for the windows of this crate's own rules.
pub(crate) const SHORT: usize = 256;

/// Positions in a lane for borg's windows, which are usually 4095 bytes long. Of powers of two it is
/// the longest with which chunks around 64 KiB are cut no slower than by one walk; longer lanes suit
/// borg's usual chunks of 2 MiB a little better.
pub(crate) const LONG: usize = 16 << 10;

/// Walks blocks of lanes of `LEN` positions side by side.
///
/// A longer lane wastes more when a chunk ends in an early one, a shorter lane spends more on warming
/// its window. A constant, so that no look at their bytes needs a check and two registers tell where
/// all lanes are.
pub(crate) struct Interleaved<const LEN: usize>;

impl<R: WindowRule, const LEN: usize> Search<R> for Interleaved<LEN> {
    fn first_position(
        &self,
        rule: &R,
        reach: &[u8],
        mut stops: impl FnMut(usize, <R::Hash as Rolling>::Print) -> bool,
    ) -> Option<usize> {
        let (hash, window) = (rule.hash(), rule.hash().window());
        let mut from = rule.sizes().min();
        if from <= window {
            // the window is not full before the first position of a lane
            let full = window.min(reach.len());
            let found = first_position(hash, &reach[..full], from, &mut stops);
            if found.is_some() {
                return found;
            }
            from = full + 1;
        }
        loop {
            // warming lanes that are shorter than the window takes longer than a walk without lanes
            if reach.len() + 1 - from < LANES * LEN || window > LEN {
                return first_position(hash, reach, from, stops);
            }
            prefetch_jump(reach, from, from + LANES * LEN);
            let Some(candidate) = first_candidate::<R, LEN>(rule, reach, from) else {
                from += LANES * LEN;
                continue;
            };
            // one after the other to the end of the lane, since there may be many
            let lane_end = candidate + LEN - (candidate - from) % LEN;
            let lane = &reach[..lane_end - 1];
            if let Some(p) = first_position(hash, lane, candidate, &mut stops) {
                prefetch_jump(reach, p, p + rule.sizes().min());
                return Some(p);
            }
            from = lane_end;
        }
    }
}

/// The first candidate in lanes side by side from `from` on, where the window has been full for a
/// byte.
#[inline(always)]
fn first_candidate<R: WindowRule, const LEN: usize>(
    rule: &R,
    reach: &[u8],
    from: usize,
) -> Option<usize> {
    let (hash, window) = (rule.hash(), rule.hash().window());
    // the byte before a position is the one that its hash took in last
    let (entering, leaving) =
        (lanes::<LEN>(&reach[from - 1..]), lanes::<LEN>(&reach[from - 1 - window..]));
    let mut prints = [<R::Hash as Rolling>::Print::default(); LANES];
    for i in 0..window {
        for (lane, print) in prints.iter_mut().enumerate() {
            *print = hash.push(*print, reach[from - 1 - window + lane * LEN + i]);
        }
    }

    let mut found = [None; LANES];
    for i in 0..LEN {
        for lane in 0..LANES {
            prints[lane] = hash.roll(prints[lane], entering[lane][i], leaving[lane][i]);
        }
        if prints.iter().any(|&print| rule.is_candidate(print)) {
            for lane in 0..LANES {
                if found[lane].is_none() && rule.is_candidate(prints[lane]) {
                    found[lane] = Some(from + lane * LEN + i);
                }
            }
            if found[0].is_some() {
                return found[0];
            }
        }
    }
    found.into_iter().flatten().next()
}

fn lanes<const LEN: usize>(bytes: &[u8]) -> &[[u8; LEN]; LANES] {
    bytes.as_chunks().0.first_chunk().expect("bytes for every lane")
}
