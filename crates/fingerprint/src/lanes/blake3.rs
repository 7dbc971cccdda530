//! BLAKE3 of many inputs (O'Connor, Aumasson, Neves, Wilcox-O'Hearn, "BLAKE3", 2020; the numbers of
//! sections are of that paper).
//!
//! An input is cut into leaves of 1,024 bytes (the paper calls them chunks; here those are
//! something else), each hashed in blocks of 64 bytes; the leaves' values are joined two by two.
//! Leaves and pairs of all inputs share the lanes. An input's last leaf may be short: short ones go
//! into lanes beside others that are about as short.

use super::isa::{Isa, Task};
use crate::Fingerprint;

/// Bytes in a leaf.
const LEAF: usize = 1024;
/// Bytes in a block.
const BLOCK: usize = 64;
/// Lanes of the widest vectors.
const MOST_LANES: usize = 16;

/// The chaining value that an unkeyed hash begins with, section 2.2.
const IV: Value = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// Which word of the message each round takes where, section 2.2: each round's order is that of the
/// round before, permuted once more.
const SCHEDULE: [[usize; 16]; 7] = {
    let permuted = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];
    let mut schedule = [[0; 16]; 7];
    let mut i = 0;
    while i < 16 {
        schedule[0][i] = i;
        i += 1;
    }
    let mut round = 1;
    while round < 7 {
        let mut i = 0;
        while i < 16 {
            schedule[round][i] = schedule[round - 1][permuted[i]];
            i += 1;
        }
        round += 1;
    }
    schedule
};

/// Section 2.2, table 3.
const CHUNK_START: u32 = 1 << 0;
const CHUNK_END: u32 = 1 << 1;
const PARENT: u32 = 1 << 2;
const ROOT: u32 = 1 << 3;
const KEYED_HASH: u32 = 1 << 4;

/// A chaining value.
type Value = [u32; 8];

/// The fingerprints of `chunks`, appended to `out`.
pub(super) struct Many<'a> {
    pub(super) key: Option<&'a [u8; 32]>,
    pub(super) chunks: &'a [&'a [u8]],
    pub(super) out: &'a mut Vec<Fingerprint>,
}

/// One leaf to hash.
#[derive(Clone, Copy)]
struct Leaf<'a> {
    bytes: &'a [u8],
    /// How many leaves of the same input are in front of it.
    counter: u64,
    /// Whether it is all of its input.
    is_root: bool,
    /// Where its value goes.
    place: usize,
}

impl Leaf<'_> {
    fn blocks(&self) -> usize {
        self.bytes.len().div_ceil(BLOCK).max(1)
    }
}

/// The part of a list of values that belongs to one input.
#[derive(Clone, Copy)]
struct Tree {
    first: usize,
    values: usize,
}

impl Task for Many<'_> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let (start, flags) = match self.key {
            Some(key) => (words(key), KEYED_HASH),
            None => (IV, 0),
        };
        let hasher = Hasher { isa, start, flags };
        let (leaves, mut trees) = leaves(self.chunks);
        let (mut values, mut joined) = (vec![[0; 8]; leaves.len()], vec![[0; 8]; leaves.len()]);
        hasher.hash_leaves(&leaves, &mut values);
        while trees.iter().any(|tree| tree.values > 1) {
            hasher.join(&mut trees, &values, &mut joined);
            std::mem::swap(&mut values, &mut joined);
        }
        self.out.extend(trees.iter().map(|tree| fingerprint(&values[tree.first])));
    }
}

/// Whether the leaves of all `chunks` fill no more than half of the widest vectors.
pub(super) fn are_few(chunks: &[&[u8]]) -> bool {
    chunks.len() <= MOST_LANES / 2 && chunks.iter().map(leaf_count).sum::<usize>() <= MOST_LANES / 2
}

fn leaf_count(chunk: &&[u8]) -> usize {
    chunk.len().div_ceil(LEAF).max(1)
}

/// The leaves of all inputs, those of 1,024 bytes and then the shorter ones by length, and what
/// belongs to which input.
fn leaves<'a>(chunks: &[&'a [u8]]) -> (Vec<Leaf<'a>>, Vec<Tree>) {
    let mut leaves = Vec::with_capacity(chunks.iter().map(leaf_count).sum());
    let mut short = Vec::with_capacity(chunks.len());
    let mut trees = Vec::with_capacity(chunks.len());
    let mut first = 0;
    for chunk in chunks {
        let values = leaf_count(chunk);
        let (whole, rest) = chunk.as_chunks::<LEAF>();
        let leaf = |counter: usize, bytes| Leaf {
            bytes,
            counter: counter as u64,
            is_root: values == 1,
            place: first + counter,
        };
        leaves.extend(whole.iter().enumerate().map(|(counter, bytes)| leaf(counter, bytes)));
        if whole.len() < values {
            short.push(leaf(whole.len(), rest));
        }
        trees.push(Tree { first, values });
        first += values;
    }
    short.sort_unstable_by_key(Leaf::blocks);
    leaves.append(&mut short);
    (leaves, trees)
}

#[derive(Clone, Copy)]
struct Hasher<I> {
    isa: I,
    /// The value that each leaf and each pair begins with.
    start: Value,
    /// What is set for every block.
    flags: u32,
}

impl<I: Isa> Hasher<I> {
    /// Puts the value of each leaf into its place.
    #[inline(always)]
    fn hash_leaves(self, leaves: &[Leaf<'_>], values: &mut [Value]) {
        let mut padded = [[0; LEAF]; MOST_LANES];
        for group in leaves.chunks(I::WORDS) {
            self.hash_group(group, &mut padded, values);
        }
    }

    /// As [`hash_leaves`](Self::hash_leaves), of no more leaves than there are lanes.
    #[inline(always)]
    fn hash_group(
        self,
        group: &[Leaf<'_>],
        padded: &mut [[u8; LEAF]; MOST_LANES],
        values: &mut [Value],
    ) {
        let isa = self.isa;
        for (leaf, padded) in group.iter().zip(padded.iter_mut()) {
            if leaf.bytes.len() < LEAF {
                let (bytes, behind) = padded.split_at_mut(leaf.bytes.len());
                bytes.copy_from_slice(leaf.bytes);
                behind[..leaf.blocks() * BLOCK - leaf.bytes.len()].fill(0);
            }
        }
        // lanes without a leaf do the work of the first once more
        let mut inputs: [&[u8; LEAF]; MOST_LANES] = [&padded[0]; MOST_LANES];
        let [mut counters, mut counters_high] = [[0; MOST_LANES]; 2];
        let [mut last_blocks, mut last_lens, mut last_flags] = [[0; MOST_LANES]; 3];
        let (mut shortest, mut blocks) = (usize::MAX, 0);
        for lane in 0..I::WORDS {
            let leaf = group.get(lane).unwrap_or(&group[0]);
            let padded = &padded[if lane < group.len() { lane } else { 0 }];
            inputs[lane] = leaf.bytes.try_into().unwrap_or(padded);
            counters[lane] = leaf.counter as u32;
            counters_high[lane] = (leaf.counter >> 32) as u32;
            last_blocks[lane] = leaf.blocks() as u32 - 1;
            last_lens[lane] = (leaf.bytes.len() - (leaf.blocks() - 1) * BLOCK) as u32;
            last_flags[lane] = self.flags | CHUNK_END | if leaf.is_root { ROOT } else { 0 };
            shortest = shortest.min(leaf.blocks());
            blocks = blocks.max(leaf.blocks());
        }
        let counter = [isa.words(&counters), isa.words(&counters_high)];
        let (last_block, last_len) = (isa.words(&last_blocks), isa.words(&last_lens));
        let (last_flags, flags) = (isa.words(&last_flags), isa.splat_word(self.flags));
        let full_len = isa.splat_word(BLOCK as u32);
        let mut value = self.splat(&self.start);
        for block in 0..blocks {
            let mut from = [&[0; BLOCK]; MOST_LANES];
            for (from, input) in from.iter_mut().zip(&inputs) {
                *from = &input.as_chunks().0[block];
            }
            let at = isa.splat_word(block as u32);
            let len = isa.if_above(last_block, at, full_len, last_len);
            let mut flags = isa.if_above(last_block, at, flags, last_flags);
            if block == 0 {
                // each of these bits is set once, so that a sum sets it
                flags = isa.add_words(flags, isa.splat_word(CHUNK_START));
            }
            let next = self.compress(&value, &isa.load_words(&from), counter, len, flags);
            if block < shortest {
                value = next;
                continue;
            }
            for i in 0..8 {
                // where the leaf has ended its value stays
                value[i] = isa.if_above(at, last_block, value[i], next[i]);
            }
        }
        self.store(&value, group.iter().map(|leaf| leaf.place), values);
    }

    /// Joins the values of each tree two by two; one without another goes on as it is.
    #[inline(always)]
    fn join(self, trees: &mut [Tree], values: &[Value], joined: &mut [Value]) {
        let pairs = pairs(trees, self.flags);
        for group in pairs.chunks(I::WORDS) {
            self.join_group(group, values, joined);
        }
        for Tree { first, values: count } in trees {
            if *count % 2 == 1 {
                joined[*first + *count / 2] = values[*first + *count - 1];
            }
            *count = count.div_ceil(2);
        }
    }

    #[inline(always)]
    fn join_group(self, group: &[Pair], values: &[Value], joined: &mut [Value]) {
        let isa = self.isa;
        let (mut blocks, mut flags) = ([[0; BLOCK]; MOST_LANES], [0; MOST_LANES]);
        for ((block, flags), pair) in blocks.iter_mut().zip(&mut flags).zip(group) {
            let words = values[pair.from..pair.from + 2].as_flattened();
            for (bytes, word) in block.as_chunks_mut().0.iter_mut().zip(words) {
                *bytes = word.to_le_bytes();
            }
            *flags = pair.flags;
        }
        let mut from = [&blocks[0]; MOST_LANES];
        for (from, block) in from.iter_mut().zip(&blocks) {
            *from = block;
        }
        let zero = isa.splat_word(0);
        let value = self.splat(&self.start);
        let (len, flags) = (isa.splat_word(BLOCK as u32), isa.words(&flags));
        let value = self.compress(&value, &isa.load_words(&from), [zero, zero], len, flags);
        self.store(&value, group.iter().map(|pair| pair.to), joined);
    }

    /// The compression function, section 2.2: the new chaining value.
    #[inline(always)]
    fn compress(
        self,
        value: &[I::V; 8],
        message: &[I::V; 16],
        counter: [I::V; 2],
        len: I::V,
        flags: I::V,
    ) -> [I::V; 8] {
        let isa = self.isa;
        let [a, b, c, d, e, f, g, h] = *value;
        let iv = self.splat(&IV);
        let [low, high] = counter;
        let mut v = [a, b, c, d, e, f, g, h, iv[0], iv[1], iv[2], iv[3], low, high, len, flags];
        // written out, so that all numbers of words are known where the code is made
        self.round(&mut v, message, &SCHEDULE[0]);
        self.round(&mut v, message, &SCHEDULE[1]);
        self.round(&mut v, message, &SCHEDULE[2]);
        self.round(&mut v, message, &SCHEDULE[3]);
        self.round(&mut v, message, &SCHEDULE[4]);
        self.round(&mut v, message, &SCHEDULE[5]);
        self.round(&mut v, message, &SCHEDULE[6]);
        let mut next = *value;
        for i in 0..8 {
            next[i] = isa.xor(v[i], v[i + 8]);
        }
        next
    }

    /// Columns are mixed, then diagonals.
    #[inline(always)]
    fn round(self, v: &mut [I::V; 16], message: &[I::V; 16], order: &[usize; 16]) {
        self.mix(v, [0, 4, 8, 12], message[order[0]], message[order[1]]);
        self.mix(v, [1, 5, 9, 13], message[order[2]], message[order[3]]);
        self.mix(v, [2, 6, 10, 14], message[order[4]], message[order[5]]);
        self.mix(v, [3, 7, 11, 15], message[order[6]], message[order[7]]);
        self.mix(v, [0, 5, 10, 15], message[order[8]], message[order[9]]);
        self.mix(v, [1, 6, 11, 12], message[order[10]], message[order[11]]);
        self.mix(v, [2, 7, 8, 13], message[order[12]], message[order[13]]);
        self.mix(v, [3, 4, 9, 14], message[order[14]], message[order[15]]);
    }

    #[inline(always)]
    fn mix(self, v: &mut [I::V; 16], [a, b, c, d]: [usize; 4], first: I::V, second: I::V) {
        let isa = self.isa;
        v[a] = isa.add_words(isa.add_words(v[a], v[b]), first);
        v[d] = isa.turn_words::<16>(isa.xor(v[d], v[a]));
        v[c] = isa.add_words(v[c], v[d]);
        v[b] = isa.turn_words::<12>(isa.xor(v[b], v[c]));
        v[a] = isa.add_words(isa.add_words(v[a], v[b]), second);
        v[d] = isa.turn_words::<8>(isa.xor(v[d], v[a]));
        v[c] = isa.add_words(v[c], v[d]);
        v[b] = isa.turn_words::<7>(isa.xor(v[b], v[c]));
    }

    #[inline(always)]
    fn splat(self, value: &Value) -> [I::V; 8] {
        let mut splat = [self.isa.splat_word(0); 8];
        for (splat, &word) in splat.iter_mut().zip(value) {
            *splat = self.isa.splat_word(word);
        }
        splat
    }

    /// Puts the value in each lane into the lane's place.
    #[inline(always)]
    fn store(self, value: &[I::V; 8], places: impl Iterator<Item = usize>, values: &mut [Value]) {
        let mut by_word = [[0; MOST_LANES]; 8];
        for (words, &v) in by_word.iter_mut().zip(value) {
            *words = self.isa.to_words(v);
        }
        for (lane, place) in places.enumerate() {
            for (word, words) in values[place].iter_mut().zip(&by_word) {
                *word = words[lane];
            }
        }
    }
}

/// Two values that are joined.
#[derive(Clone, Copy)]
struct Pair {
    /// Where the first value is.
    from: usize,
    /// Where the joined value goes.
    to: usize,
    flags: u32,
}

/// The pairs of all trees.
fn pairs(trees: &[Tree], flags: u32) -> Vec<Pair> {
    let mut pairs = Vec::with_capacity(trees.iter().map(|tree| tree.values / 2).sum());
    for &Tree { first, values } in trees {
        let flags = flags | PARENT | if values == 2 { ROOT } else { 0 };
        let pair = |pair| Pair { from: first + 2 * pair, to: first + pair, flags };
        pairs.extend((0..values / 2).map(pair));
    }
    pairs
}

fn words(bytes: &[u8; 32]) -> Value {
    let mut words = [0; 8];
    for (word, &bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u32::from_le_bytes(bytes);
    }
    words
}

fn fingerprint(value: &Value) -> Fingerprint {
    let mut bytes = [0; 32];
    for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(value) {
        *bytes = word.to_le_bytes();
    }
    Fingerprint::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_are_few_if_half_of_the_lanes_hold_them() {
        let data = &[0; 9000][..];
        for few in [&[][..], &[0; 8], &[8192], &[4096, 4096], &[4097, 3072], &[1024; 8]] {
            assert!(are_few(&few.iter().map(|&len| &data[..len]).collect::<Vec<_>>()), "{few:?}");
        }
        for many in [&[0; 9][..], &[8193], &[4097, 4096], &[1025, 1024, 6144], &[1024; 9]] {
            assert!(
                !are_few(&many.iter().map(|&len| &data[..len]).collect::<Vec<_>>()),
                "{many:?}"
            );
        }
    }
}
