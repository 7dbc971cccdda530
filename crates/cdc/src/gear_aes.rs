//! A keyed universal hash, then AES: K. T. Truong, S.-P. Merz, M. Scarlata, F. Günther,
//! K. G. Paterson, "Breaking and Fixing Content-Defined Chunking", CCS 2025, who propose to let a
//! cut-point depend on a window by PRF(UHF(window)) alone; with a hash of ours.
//!
//! **Rule.** h is the sum over the last 32 bytes of 2^j · table\[b\] mod 2^128, b being the byte that
//! j others follow. p is the first position from min on where the first 8 bytes of AES-128_k(h) are,
//! as a little-endian number, below ⌊2^64 / (avg − min + 1)⌋. The block is h in little-endian bytes.
//! The table is made of the first 512 numbers of the seed or secret (secret.rs), two an entry, the
//! lower half first; k is the next two.
//! **First legal position.** min. The window is full there if min ≥ 32; otherwise it starts empty
//! with the chunk and grows. Each position is accepted with probability 1 / (avg − min + 1), which
//! puts the mean at avg but for the cut at max.
//! **Ties.** None: the first position that qualifies wins.
//! **Tail.** The rest.
//! **Runs.** A run has one window, so it is cut at min throughout or at max throughout, and which of
//! them only the key tells.
//! **Resynchronisation.** As Gear's, with 32 in the place of 64.
//! **Collisions.** Two windows differ first, counted from their ends, behind i bytes, i < 32. In the
//! difference of their hashes an entry that one of them has there, but not the other, has a factor
//! of 2^i times an odd number: all terms from before are equal and those behind are multiples of
//! 2^(i + 1). So if the entries are uniform and independent the hashes are equal with probability at
//! most 2^(i − 128), which is 2^−97 or less, also where one window is longer than the other. This is
//! what the sum has to end for after 32 bytes and to have 128 bits for: Gear's own, whose oldest byte
//! moves one bit only, is no universal hash. While AES is a pseudo-random permutation, cut-points
//! seen in q positions, of bytes that the observer chose, tell nothing of other windows, but with a
//! probability of about q² · 2^−97.
//! **What it leaks.** That takes a secret: with the seed alone, table and key are everyone's to
//! compute, and nothing is protected. And with a secret equal windows still decide alike, so equal
//! data have equal lengths of chunks: who sees the lengths of a file knows them when they come again.
//! The table is looked up by bytes of the data, in a time that caches may show to others on the same
//! machine; AES runs in constant time. See `docs/keyed-chunking.md`.
//! **Departures.** The paper's example hashes by a polynomial modulo a prime near 2^64, which takes a
//! multiplication a byte where this takes two additions, and collides more often.

use std::array;

use aes::cipher::{BlockCipherEncrypt, KeyInit};
use aes::{Aes128Enc, Block};
use zeroize::Zeroize;

use crate::boundary::{self, Boundary};
use crate::descriptor::{DecidedBy, Descriptor, FromParams, Kernels};
use crate::gear;
use crate::rolling::{self, Rolling};
use crate::rule::Rule;
use crate::secret::Numbers;
use crate::walk::{self, Past, Step};
use crate::{ChunkSizes, ParamError, Parameter, Params};

pub(crate) static DESCRIPTOR: Descriptor = Descriptor {
    name: "gear-aes",
    summary: "Gear hash of the last 32 bytes, then AES, for use with a secret; slower",
    takes: &[Parameter::Seed, Parameter::Secret],
    sizes: ChunkSizes::around,
    decided_by: |_| DecidedBy::Window(WINDOW),
    kernels: Kernels::scalar::<GearAes>(),
    boundary: Some(boundary::of::<GearAes>),
    walk: Some(walk::by::<GearAes>),
    streams: None,
};

/// Bytes that the hash depends on.
pub(crate) const WINDOW: usize = 32;

/// Positions that are judged together, since encrypting one block after the other takes the time
/// of one only if there are many. The widest vectors have this many under way.
const BATCH: usize = 64;

pub(crate) struct GearAes {
    sizes: ChunkSizes,
    hash: UniversalGear,
    judge: Judge,
}

impl FromParams for GearAes {
    fn from_params(params: &Params) -> Result<Self, ParamError> {
        let mut numbers = Numbers::of(params);
        Ok(Self {
            sizes: params.sizes,
            hash: UniversalGear::new(&mut numbers),
            judge: Judge {
                cipher: Aes128Enc::new(&number(&mut numbers).to_le_bytes().into()),
                limit: gear::highest_below(gear::threshold(params.sizes)),
            },
        })
    }
}

impl Boundary for GearAes {
    fn may_end(&self, reach: &[u8], cut: usize) -> bool {
        self.judge.accepts(rolling::at_end_of(&self.hash, &reach[..cut]))
    }
}

impl Rule for GearAes {
    fn next_cut(&self, data: &[u8]) -> Option<usize> {
        let reach = self.sizes.reach(data)?;
        let mut at = self.sizes.min() - 1;
        let mut hash = rolling::at_end_of(&self.hash, &reach[..at]);
        let mut blocks = [Block::default(); BATCH];
        while at < reach.len() {
            let entering = &reach[at..reach.len().min(at + BATCH)];
            let hashed = match at.checked_sub(WINDOW) {
                Some(oldest) => {
                    for ((block, &entering), &leaving) in
                        blocks.iter_mut().zip(entering).zip(&reach[oldest..])
                    {
                        hash = self.hash.roll(hash, entering, leaving);
                        *block = hash.to_le_bytes().into();
                    }
                    entering.len()
                }
                None => {
                    let until_full = entering.len().min(WINDOW - at);
                    for (block, &entering) in blocks.iter_mut().zip(&entering[..until_full]) {
                        hash = self.hash.push(hash, entering);
                        *block = hash.to_le_bytes().into();
                    }
                    until_full
                }
            };
            if let Some(i) = self.judge.first_accepted(&mut blocks[..hashed]) {
                return Some(at + i + 1);
            }
            at += hashed;
        }
        self.sizes.forced(reach)
    }
}

impl Step for GearAes {
    type State = u128;

    fn step(&self, hash: &mut u128, len: u64, byte: u8, past: &Past) -> Option<usize> {
        *hash = past.rolled(&self.hash, *hash, byte, len);
        (len >= self.sizes.min() as u64 && self.judge.accepts(*hash)).then_some(0)
    }
}

/// Decides by nothing but the cipher's output.
struct Judge {
    cipher: Aes128Enc,
    /// The largest output that is a cut-point.
    limit: u64,
}

impl Judge {
    fn accepts(&self, hash: u128) -> bool {
        self.first_accepted(&mut [hash.to_le_bytes().into()]).is_some()
    }

    /// Index of the first accepted of `blocks`, which are encrypted where they are.
    fn first_accepted(&self, blocks: &mut [Block]) -> Option<usize> {
        self.cipher.encrypt_blocks(blocks);
        blocks.iter().position(|block| {
            let [first, ..] = block.0.as_chunks().0 else { unreachable!("a block has 16 bytes") };
            u64::from_le_bytes(*first) <= self.limit
        })
    }
}

/// Gear modulo 2^128, of the last 32 bytes alone.
struct UniversalGear {
    enter: [u128; 256],
    /// What byte b still adds when 32 more have followed.
    leave: [u128; 256],
}

impl Drop for UniversalGear {
    fn drop(&mut self) {
        self.enter.zeroize();
        self.leave.zeroize();
    }
}

impl UniversalGear {
    fn new(numbers: &mut Numbers) -> Self {
        let enter = array::from_fn(|_| number(numbers));
        Self { enter, leave: enter.map(|entry| entry << WINDOW) }
    }
}

impl Rolling for UniversalGear {
    type Print = u128;

    fn window(&self) -> usize {
        WINDOW
    }

    fn push(&self, hash: u128, byte: u8) -> u128 {
        (hash << 1).wrapping_add(self.enter[usize::from(byte)])
    }

    fn roll(&self, hash: u128, entering: u8, leaving: u8) -> u128 {
        self.push(hash, entering).wrapping_sub(self.leave[usize::from(leaving)])
    }
}

/// 128 bits of two numbers, the lower half first.
fn number(numbers: &mut Numbers) -> u128 {
    let lower = numbers.next();
    u128::from(numbers.next()) << 64 | u128::from(lower)
}
