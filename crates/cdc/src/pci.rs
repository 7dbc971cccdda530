//! PCI, parity check of interval: C. Zhang, D. Qi, W. Li, J. Guo, "Function of Content Defined
//! Chunking Algorithms in Incremental Synchronization", IEEE Access 8, 2020.
//!
//! **Rule.** The chunk ends with the first byte, from min on, that ends w bytes of the chunk in
//! which at least t bits are set.
//! **First legal position.** w, or min if that is more.
//! **Ties.** None: the first position that qualifies wins.
//! **Tail.** The rest.
//! **Window and threshold.** The number of bits is binomially distributed, but windows overlap, so
//! that no formula is known for the mean. "A Thorough Investigation of Content-Defined Chunking
//! Algorithms" (2024) simulates, for seven means up to 8 KiB; its table III has lost its numbers on
//! the way to us. Those here are the pairs that the scripts published with it use, which our own
//! simulation on random data finds to have the means it reports; the others are our simulation's.
//! Of all pairs that one counts whose mean is next to avg, the first of two; with min above w the
//! mean is min − w more.
//! **Runs.** A run of a byte with many bits set is cut at w or min throughout, others at max.
//! **Resynchronisation.** Whether a position may be a cut-point depends on w bytes: as Gear's, but
//! such positions come in clusters.
//! **Departures.** Min and max, which the paper does not have; the number of set bits is kept up to
//! date where the paper counts anew.

use crate::boundary::{self, Boundary};
use crate::descriptor::{DecidedBy, Descriptor, FromParams, Kernels};
use crate::rule::Rule;
use crate::simd::VectorRule;
use crate::simd::clear;
use crate::simd::vector::{ByteVector, prefetch_jump};
use crate::walk::{self, Past, Step};
use crate::{ChunkSizes, ParamError, Params};

pub(crate) static DESCRIPTOR: Descriptor = Descriptor {
    name: "pci",
    summary: "many bits set in a sliding window; no hash",
    takes: &[],
    sizes: ChunkSizes::around,
    decided_by: |params| DecidedBy::Window(window_and_threshold(params.sizes).0),
    kernels: Kernels::vectors::<Pci>(),
    boundary: Some(boundary::of::<Pci>),
    walk: Some(walk::by::<Pci>),
    streams: None,
};

/// Window in bytes, least number of set bits, mean on random data.
const SIMULATED: [(usize, u32, usize); 37] = [
    (1, 0, 1),
    (1, 5, 2),
    (1, 6, 7),
    (2, 11, 13),
    (4, 20, 20),
    (4, 21, 35),
    (8, 39, 60),
    (16, 73, 87),
    (16, 74, 114),
    (32, 140, 146),
    (32, 142, 209),
    (32, 143, 256),
    (32, 144, 317),
    (32, 145, 398),
    (58, 253, 507),
    (48, 213, 602),
    (40, 181, 762),
    (48, 215, 899),
    (34, 157, 1019),
    (48, 217, 1412),
    (48, 218, 1793),
    (61, 273, 2087),
    (48, 220, 2980),
    (39, 183, 4300),
    (56, 256, 5414),
    (48, 223, 7030),
    (57, 262, 8740),
    (48, 225, 13_121),
    (48, 226, 18_318),
    (48, 227, 25_550),
    (48, 228, 36_359),
    (48, 229, 52_457),
    (48, 230, 76_469),
    (48, 231, 111_677),
    (48, 232, 167_640),
    (48, 233, 254_240),
    (48, 234, 386_577),
];

pub(crate) struct Pci {
    sizes: ChunkSizes,
    window: usize,
    threshold: u32,
}

impl FromParams for Pci {
    fn from_params(params: &Params) -> Result<Self, ParamError> {
        let (window, threshold) = window_and_threshold(params.sizes);
        Ok(Self { sizes: params.sizes, window, threshold })
    }
}

/// Those whose mean is next to avg.
fn window_and_threshold(sizes: ChunkSizes) -> (usize, u32) {
    let distance = |&(window, _, mean): &(usize, u32, usize)| {
        (sizes.min().saturating_sub(window) + mean).abs_diff(sizes.avg())
    };
    let best = SIMULATED.iter().copied().min_by_key(distance);
    let (window, threshold, _) = best.unwrap_or(SIMULATED[0]);
    (window, threshold)
}

impl Boundary for Pci {
    fn may_end(&self, reach: &[u8], cut: usize) -> bool {
        let window = cut.checked_sub(self.window).map(|start| &reach[start..cut]);
        window.is_some_and(|window| {
            window.iter().map(|byte| byte.count_ones()).sum::<u32>() >= self.threshold
        })
    }
}

impl Rule for Pci {
    fn next_cut(&self, data: &[u8]) -> Option<usize> {
        let reach = self.sizes.reach(data)?;
        let start = self.sizes.min().saturating_sub(self.window);
        let full = start + self.window;
        if reach.len() >= full {
            let mut set: u32 = reach[start..full].iter().map(|byte| byte.count_ones()).sum();
            if set >= self.threshold {
                return Some(full);
            }
            let behind = reach[full..].iter().zip(&reach[start..]);
            for (i, (entering, leaving)) in behind.enumerate() {
                set = set + entering.count_ones() - leaving.count_ones();
                if set >= self.threshold {
                    return Some(full + i + 1);
                }
            }
        }
        self.sizes.forced(reach)
    }
}

impl VectorRule for Pci {
    #[inline(always)]
    fn next_cut_on<I: ByteVector>(&self, isa: I, data: &[u8]) -> Option<usize> {
        let reach = self.sizes.reach(data)?;
        let start = self.sizes.min().saturating_sub(self.window);
        let clear = (8 * self.window as u32 - self.threshold) as u8;
        match clear::first_window(isa, &reach[start..], self.window, clear) {
            Some(end) => {
                let cut = start + end;
                prefetch_jump(data, cut, cut + start);
                Some(cut)
            }
            None => self.sizes.forced(reach),
        }
    }
}

impl Step for Pci {
    /// Bits set in the window.
    type State = u32;

    fn step(&self, set: &mut u32, len: u64, byte: u8, past: &Past) -> Option<usize> {
        *set += byte.count_ones();
        if len > self.window as u64 {
            *set -= past.ago(self.window).count_ones();
        }
        let first = self.sizes.min().max(self.window) as u64;
        (len >= first && *set >= self.threshold).then_some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Algorithm;

    #[test]
    fn the_investigations_means_get_its_parameters() {
        let pairs = [(58, 253), (40, 181), (34, 157), (61, 273), (39, 183), (56, 256), (57, 262)];
        for (avg, pair) in [512, 770, 1024, 2048, 4096, 5482, 8192].into_iter().zip(pairs) {
            let sizes = ChunkSizes::unbounded(1, avg).unwrap();
            let pci = Pci::from_params(&Params::new(Algorithm::Pci, sizes)).unwrap();
            assert_eq!((pci.window, pci.threshold), pair, "{avg}");
        }
    }

    #[test]
    fn the_means_rise_and_so_does_the_share_of_set_bits_of_one_window() {
        assert!(SIMULATED.windows(2).all(|pair| pair[0].2 < pair[1].2));
        assert!(SIMULATED.iter().all(|&(window, threshold, _)| threshold <= 8 * window as u32));
    }

    #[test]
    fn vectors_can_count_the_clear_bits_of_every_window() {
        for (window, threshold, _) in SIMULATED {
            assert!(window <= clear::MOST_BYTES);
            assert!(8 * window as u32 - threshold <= u32::from(clear::MOST_CLEAR));
        }
    }
}
