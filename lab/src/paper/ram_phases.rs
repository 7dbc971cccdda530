//! RAM with vectors in one of its phases: the ablation of VectorCDC (section 5.2.2).
//!
//! RAM searches the largest byte of a window, then scans for the first byte behind it that is not
//! below that. *VRAM-EBS* has vectors in the extreme byte search alone. Here each phase exists once
//! byte by byte, held back from the compiler, which would find vectors by itself, and once with
//! vectors of 16 bytes, which every 64-bit x86 and Arm has. All four find the cut-points of
//! [`Algorithm::Ram`].

use std::arch::asm;

use onefold_cdc::{Algorithm, Chunker, Kernel, Params};

use anyhow::Result;

/// Bytes of a vector.
const LANES: usize = 16;

/// RAM, with or without vectors in each of its phases.
#[derive(Clone, Copy, Debug)]
pub(super) struct RamPhases {
    min: usize,
    max: usize,
    window: usize,
    /// Vectors in the extreme byte search.
    pub(super) search: bool,
    /// Vectors in the range scan.
    pub(super) scan: bool,
}

impl RamPhases {
    /// With the window that [`Algorithm::Ram`] has at `params`.
    pub(super) fn new(params: &Params, search: bool, scan: bool) -> Result<Self> {
        debug_assert_eq!(params.algorithm, Algorithm::Ram);
        let (min, max) = (params.sizes.min(), params.sizes.max());
        // equal bytes are cut just behind the first one outside the window
        let equal = vec![0; max];
        let chunker = Chunker::with_kernel(params, Kernel::Scalar)?;
        let first = chunker.cut_points(&equal).next().unwrap_or(max);
        Ok(Self { min, max, window: first - 1, search, scan })
    }

    /// As the paper calls it.
    pub(super) const fn name(self) -> &'static str {
        match (self.search, self.scan) {
            (false, false) => "RAM, byte by byte",
            (true, false) => "VRAM-EBS, 16 bytes",
            (false, true) => "RAM scan, 16 bytes",
            (true, true) => "VRAM-128, 16 bytes",
        }
    }

    /// Appends the cut-points of `data`.
    pub(super) fn cut(self, data: &[u8], cut_points: &mut Vec<usize>) {
        match (self.search, self.scan) {
            (false, false) => self.cut_by(data, cut_points, largest_bytewise, find_bytewise),
            (true, false) => self.cut_by(data, cut_points, largest, find_bytewise),
            (false, true) => self.cut_by(data, cut_points, largest_bytewise, find),
            (true, true) => self.cut_by(data, cut_points, largest, find),
        }
    }

    #[inline(always)]
    fn cut_by(
        self,
        data: &[u8],
        cut_points: &mut Vec<usize>,
        largest: impl Fn(&[u8]) -> u8,
        find: impl Fn(&[u8], u8) -> Option<usize>,
    ) {
        let mut start = 0;
        while start < data.len() {
            let rest = &data[start..];
            let reach = &rest[..rest.len().min(self.max)];
            let cut = if reach.len() < self.min || reach.len() <= self.window {
                None
            } else {
                let (window, behind) = reach.split_at(self.window);
                find(behind, largest(window)).map(|found| self.window + found + 1)
            };
            start += cut.unwrap_or(reach.len());
            cut_points.push(start);
        }
    }
}

/// Keeps the compiler from knowing a byte, at no cost, so that it cannot take several at once.
#[inline(always)]
fn opaque(byte: u8) -> u8 {
    let mut value = u32::from(byte);
    // SAFETY: no instruction at all; the register keeps its value.
    unsafe {
        asm!("/* {0:e} */", inout(reg) value, options(pure, nomem, nostack, preserves_flags));
    }
    value as u8
}

fn largest_bytewise(window: &[u8]) -> u8 {
    window.iter().fold(0, |largest: u8, &byte| largest.max(opaque(byte)))
}

fn find_bytewise(behind: &[u8], least: u8) -> Option<usize> {
    behind.iter().position(|&byte| opaque(byte) >= least)
}

/// Four vectors at once, then one.
fn largest(window: &[u8]) -> u8 {
    let (blocks, rest) = window.as_chunks::<{ 4 * LANES }>();
    let mut lanes = [0; 4 * LANES];
    for block in blocks {
        for (lane, &byte) in lanes.iter_mut().zip(block) {
            *lane = byte.max(*lane);
        }
    }
    lanes.iter().chain(rest).fold(0, |largest, &byte| byte.max(largest))
}

fn find(behind: &[u8], least: u8) -> Option<usize> {
    let (blocks, rest) = behind.as_chunks::<LANES>();
    for (number, block) in blocks.iter().enumerate() {
        let any = block.iter().fold(0, |any, &byte| any | u8::from(byte >= least));
        if any != 0 {
            let place = block.iter().position(|&byte| byte >= least);
            return place.map(|place| number * LANES + place);
        }
    }
    let place = rest.iter().position(|&byte| byte >= least);
    place.map(|place| blocks.len() * LANES + place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_cdc::ChunkSizes;
    use onefold_testkit::{random, text};

    fn all(params: &Params) -> [RamPhases; 4] {
        [(false, false), (true, false), (false, true), (true, true)]
            .map(|(search, scan)| RamPhases::new(params, search, scan).unwrap())
    }

    #[test]
    fn vectors_in_any_phase_cut_where_the_rule_does() {
        let sizes =
            [(1, 300, 900), (64, 1000, 4000), (500, 512, 513), (2048, 8192, 32768), (1, 2, 3)];
        for (min, avg, max) in sizes {
            let sizes = ChunkSizes::new(min, avg, max).unwrap();
            let params = Params::new(Algorithm::Ram, sizes);
            let chunker = Chunker::with_kernel(&params, Kernel::Scalar).unwrap();
            let ramp: Vec<u8> = (0..40_000_u32).map(|i| (i / 100) as u8).collect();
            let inputs = [random(1, 50_000), text(1, 50_000), vec![7; 40_000], ramp];
            for data in &inputs {
                for len in (0..200).chain([data.len() - 1, data.len()]) {
                    let data = &data[data.len() - len..];
                    let expected: Vec<usize> = chunker.cut_points(data).collect();
                    for phases in all(&params) {
                        let mut found = Vec::new();
                        phases.cut(data, &mut found);
                        assert_eq!(found, expected, "{phases:?}, {len} bytes");
                    }
                }
            }
        }
    }
}
