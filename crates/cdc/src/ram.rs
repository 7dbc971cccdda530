//! RAM, rapid asymmetric maximum: R. Widodo, H. Lim, M. Atiquzzaman, "A new content-defined
//! chunking algorithm for data deduplication in cloud storage", FGCS 71, 2017.
//!
//! **Rule.** M is the largest of the chunk's first w bytes; the chunk ends with the first byte
//! behind them that is not below M.
//! **First legal position.** w + 1, which is at least min.
//! **Ties.** A byte equal to M ends the chunk.
//! **Tail.** The rest, if no byte behind the window reaches M.
//! **Window.** From avg, by the mean on random data (equation 1 of "A Thorough Investigation of
//! Content-Defined Chunking Algorithms", 2024, derived anew): if M = m the wait for a byte not
//! below m is 256 / (256 − m) bytes, and P(M ≤ m) = ((m + 1) / 256)^w, so
//! E(w) = w + Σ P(M = m) · 256 / (256 − m). w is the largest with E(w) ≤ avg, or min − 1 if that
//! is more; then the mean is above avg.
//! **Runs.** Equal bytes give chunks of w + 1 bytes. One rare large byte in the window of
//! low-entropy data defers the cut to max.
//! **Resynchronisation.** As AE's, and as slow: for a long window M is 255, and two cuttings meet
//! when no 255 lies between the ends of their windows.
//! **Departures.** Min, which the paper does not have.

use crate::descriptor::{DecidedBy, Descriptor, FromParams, Kernels};
use crate::rule::Rule;
use crate::simd::VectorRule;
use crate::simd::extremum::{Largest, extreme};
use crate::simd::scan::first_not_below;
use crate::simd::vector::ByteVector;
use crate::walk::{self, Past, Step};
use crate::{ChunkSizes, Lookahead, ParamError, Params, params};

pub(crate) static DESCRIPTOR: Descriptor = Descriptor {
    name: "ram",
    summary: "first byte not below the maximum of a leading window; no hash",
    takes: &[],
    sizes: ChunkSizes::around,
    decided_by: |_| DecidedBy::More { before: usize::MAX, lookahead: Lookahead::None },
    kernels: Kernels::vectors::<Ram>(),
    boundary: None,
    walk: Some(walk::by::<Ram>),
    streams: None,
};

pub(crate) struct Ram {
    sizes: ChunkSizes,
    window: usize,
}

impl FromParams for Ram {
    fn from_params(params: &Params) -> Result<Self, ParamError> {
        let sizes = params.sizes;
        Ok(Self { sizes, window: window_for_mean(sizes.avg()).max(sizes.min() - 1) })
    }
}

impl Rule for Ram {
    fn next_cut(&self, data: &[u8]) -> Option<usize> {
        let reach = self.sizes.reach(data)?;
        let (window, behind) = reach.split_at(self.window.min(reach.len()));
        let largest = window.iter().fold(0, |largest: u8, &byte| largest.max(byte));
        match behind.iter().position(|&byte| byte >= largest) {
            Some(i) => Some(window.len() + i + 1),
            None => self.sizes.forced(reach),
        }
    }
}

impl VectorRule for Ram {
    #[inline(always)]
    fn next_cut_on<I: ByteVector>(&self, isa: I, data: &[u8]) -> Option<usize> {
        let reach = self.sizes.reach(data)?;
        let (window, behind) = reach.split_at(self.window.min(reach.len()));
        let largest = extreme::<I, Largest>(isa, window);
        match first_not_below(isa, behind, largest) {
            Some(i) => Some(window.len() + i + 1),
            None => self.sizes.forced(reach),
        }
    }
}

impl Step for Ram {
    /// The largest byte of the window.
    type State = u8;

    fn step(&self, largest: &mut u8, len: u64, byte: u8, _: &Past) -> Option<usize> {
        if len <= self.window as u64 {
            *largest = byte.max(*largest);
            return None;
        }
        (byte >= *largest).then_some(0)
    }
}

/// The largest window that keeps the mean on random data at or below `avg`.
fn window_for_mean(avg: usize) -> usize {
    // mean(low) <= avg < mean(high), since the mean exceeds the window
    let (mut low, mut high) = (0, avg);
    while high - low > 1 {
        let middle = low.midpoint(high);
        if mean_of_window(middle) <= avg as f64 {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// E(w).
fn mean_of_window(window: usize) -> f64 {
    let mut mean = window as f64;
    let mut up_to_previous = 0.0;
    for m in 0..256_u16 {
        let up_to = params::power(f64::from(m + 1) / 256.0, window);
        mean += (up_to - up_to_previous) * 256.0 / f64::from(256 - m);
        up_to_previous = up_to;
    }
    mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_the_largest_that_keeps_the_mean() {
        for avg in (1..2000).chain([4096, 8192, 65536, 1 << 24]) {
            let window = window_for_mean(avg);
            assert!(mean_of_window(window) <= avg as f64, "{avg}");
            assert!(mean_of_window(window + 1) > avg as f64, "{avg}");
        }
    }

    /// Its equation 1 takes the wait for the inverse of the mean chance, which is less than the
    /// mean of the inverses; with the windows that solve it the investigation measured more than
    /// it aimed at: as much as E(w).
    #[test]
    fn the_mean_is_what_the_investigation_measured_with_its_windows() {
        for (window, aim, measured) in [(327, 512, 544.0), (544, 770, 785.0), (780, 1024, 1030.0)] {
            let mean = mean_of_window(window);
            assert!((mean / measured - 1.0_f64).abs() < 0.0015, "{aim}: {mean}");
        }
    }

    #[test]
    fn the_mean_is_exact_where_it_is_known() {
        let harmonic: f64 = (1..=256).map(|n| 1.0 / f64::from(n)).sum();
        assert_eq!(mean_of_window(0), 1.0);
        assert!((mean_of_window(1) - (1.0 + harmonic)).abs() < 1e-9);
        assert!((mean_of_window(1 << 20) - ((1 << 20) as f64 + 256.0)).abs() < 1e-3);
    }
}
