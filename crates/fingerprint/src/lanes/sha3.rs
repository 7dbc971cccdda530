//! SHA3-256 of many inputs (FIPS 202). Inputs of about equal length share the lanes.

use super::isa::{Isa, Task};
use crate::Fingerprint;

/// Bytes that go into the state between two permutations.
const RATE: usize = 136;
/// Lanes of the widest vectors.
const MOST_LANES: usize = 8;

/// FIPS 202, 3.2.5: the bits of the linear feedback shift register of algorithm 5, which has the
/// polynomial x^8 + x^6 + x^5 + x^4 + 1, at the places 2^j - 1.
const ROUND_CONSTANTS: [u64; 24] = {
    let mut constants = [0; 24];
    let mut register: u8 = 1;
    let mut round = 0;
    while round < 24 {
        let mut j = 0;
        while j < 7 {
            constants[round] |= ((register & 1) as u64) << ((1 << j) - 1);
            let carry = register >> 7;
            register = (register << 1) ^ (carry * 0b0111_0001);
            j += 1;
        }
        round += 1;
    }
    constants
};

/// The fingerprints of some `chunks`, each to its place in `out`.
pub(super) struct Many<'a> {
    pub(super) chunks: &'a [&'a [u8]],
    /// Which of them, as [`shorter_first`] has them.
    pub(super) order: &'a [usize],
    /// As many as there are chunks.
    pub(super) out: &'a mut [Fingerprint],
}

impl Task for Many<'_> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        for group in self.order.chunks(I::LONGS) {
            hash_group(isa, self.chunks, group, self.out);
        }
    }
}

/// The numbers of all `chunks`, those of shorter ones first.
pub(super) fn shorter_first(chunks: &[&[u8]]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..chunks.len()).collect();
    order.sort_by_key(|&chunk| blocks(chunks[chunk]));
    order
}

/// How many of `count` chunks are left once they have filled the widest vectors, if no more than
/// fill half of those; otherwise none.
pub(super) fn few_at_end(count: usize) -> usize {
    let left = count % MOST_LANES;
    if left <= MOST_LANES / 2 { left } else { 0 }
}

/// Blocks of a chunk, the padding included.
fn blocks(chunk: &[u8]) -> usize {
    chunk.len() / RATE + 1
}

/// Hashes the chunks of these numbers, no more than there are lanes, shorter ones first.
#[inline(always)]
fn hash_group<I: Isa>(isa: I, chunks: &[&[u8]], group: &[usize], out: &mut [Fingerprint]) {
    let mut last = [[0; RATE]; MOST_LANES];
    for (last, &chunk) in last.iter_mut().zip(group) {
        let rest = chunks[chunk].as_chunks::<RATE>().1;
        last[..rest.len()].copy_from_slice(rest);
        last[rest.len()] = 0b0000_0110;
        last[RATE - 1] |= 0b1000_0000;
    }
    let mut state = [isa.splat_long(0); 25];
    let mut done = 0;
    for block in 0..blocks(chunks[group[group.len() - 1]]) {
        // lanes that have ended, or have no chunk, go on with anything
        let mut from = [&last[0]; MOST_LANES];
        for (lane, &chunk) in group.iter().enumerate().skip(done) {
            from[lane] = chunks[chunk].as_chunks().0.get(block).unwrap_or(&last[lane]);
        }
        absorb(isa, &mut state, &from);
        permute(isa, &mut state);
        while done < group.len() && blocks(chunks[group[done]]) == block + 1 {
            out[group[done]] = squeeze(isa, &state, done);
            done += 1;
        }
    }
}

/// Adds a block to each lane of the state.
#[inline(always)]
fn absorb<I: Isa>(isa: I, state: &mut [I::V; 25], from: &[&[u8; RATE]; MOST_LANES]) {
    let (eights, last) = state[..RATE / 8].split_at_mut(RATE / 64 * 8);
    for (i, eight) in eights.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let mut blocks = [&[0; 64]; MOST_LANES];
        for (block, from) in blocks.iter_mut().zip(from) {
            *block = &from.as_chunks().0[i];
        }
        let longs = isa.load_longs(&blocks);
        for (state, long) in eight.iter_mut().zip(longs) {
            *state = isa.xor(*state, long);
        }
    }
    let mut longs = [0; MOST_LANES];
    for (long, from) in longs.iter_mut().zip(from) {
        *long = u64::from_le_bytes(from.as_chunks().0[RATE / 8 - 1]);
    }
    last[0] = isa.xor(last[0], isa.longs(&longs));
}

/// The first 32 bytes of the state in a lane.
#[inline(always)]
fn squeeze<I: Isa>(isa: I, state: &[I::V; 25], lane: usize) -> Fingerprint {
    let mut bytes = [0; 32];
    for (bytes, &v) in bytes.as_chunks_mut().0.iter_mut().zip(state) {
        *bytes = isa.to_longs(v)[lane].to_le_bytes();
    }
    Fingerprint::from_bytes(bytes)
}

/// Keccak-f\[1600\], FIPS 202, 3.3. Two rounds a turn: what one leaves in registers need not be where
/// the next one wants it.
#[inline(always)]
fn permute<I: Isa>(isa: I, a: &mut [I::V; 25]) {
    for [one, other] in ROUND_CONSTANTS.as_chunks().0 {
        round(isa, a, *one);
        round(isa, a, *other);
    }
}

/// FIPS 202, 3.2. `a[x + 5 * y]` is the lane (x, y) of the standard.
#[inline(always)]
fn round<I: Isa>(isa: I, a: &mut [I::V; 25], constant: u64) {
    // θ
    let mut columns = [a[0]; 5];
    for x in 0..5 {
        let three = isa.xor3(a[x], a[x + 5], a[x + 10]);
        columns[x] = isa.xor3(three, a[x + 15], a[x + 20]);
    }
    for x in 0..5 {
        let turned = isa.turn_longs::<1>(columns[(x + 1) % 5]);
        let beside = columns[(x + 4) % 5];
        for y in 0..5 {
            a[x + 5 * y] = isa.xor3(a[x + 5 * y], beside, turned);
        }
    }
    // ρ and π: lane (x, y), turned, goes to (y, 2x + 3y); χ takes the five that come to one
    // plane as soon as they are there, so that few wait for registers
    let from = *a;
    macro_rules! plane {
        ($y:literal: $($from_x:literal, $from_y:literal: $n:literal;)*) => {
            let b = [$(isa.turn_longs::<$n>(from[$from_x + 5 * $from_y])),*];
            for x in 0..5 {
                a[x + 5 * $y] = isa.chi(b[x], b[(x + 1) % 5], b[(x + 2) % 5]);
            }
        };
    }
    plane!(0: 0, 0: 0; 1, 1: 44; 2, 2: 43; 3, 3: 21; 4, 4: 14;);
    plane!(1: 3, 0: 28; 4, 1: 20; 0, 2: 3; 1, 3: 45; 2, 4: 61;);
    plane!(2: 1, 0: 1; 2, 1: 6; 3, 2: 25; 4, 3: 8; 0, 4: 18;);
    plane!(3: 4, 0: 27; 0, 1: 36; 1, 2: 10; 2, 3: 15; 3, 4: 56;);
    plane!(4: 2, 0: 62; 3, 1: 55; 4, 2: 39; 0, 3: 41; 1, 4: 2;);
    // ι
    a[0] = isa.xor(a[0], isa.splat_long(constant));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_are_few_if_half_of_the_lanes_hold_them() {
        let few: Vec<usize> = (0..=20).map(few_at_end).collect();
        assert_eq!(few, [0, 1, 2, 3, 4, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0, 1, 2, 3, 4]);
    }
}
