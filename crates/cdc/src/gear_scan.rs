use crate::ParamError;
use crate::gear::{self, Table, WINDOW};
use crate::secret::Numbers;
use crate::splitmix::SplitMix64;

/// The cut-points of [`Algorithm::Gear`](crate::Algorithm::Gear) in bytes that are fed in pieces and
/// not kept.
///
/// No chunk is held, so sizes may exceed [`MAX_CHUNK`](crate::MAX_CHUNK). The cut-points do not
/// depend on the lengths of the pieces.
pub struct GearScan {
    min: usize,
    max: usize,
    table: Table,
    limit: u64,
    /// Bytes of the chunk so far.
    len: usize,
    hash: u64,
}

impl GearScan {
    /// A search that begins with a chunk; refused unless 1 ≤ `min` ≤ `avg` ≤ `max`.
    pub fn new(seed: u64, min: usize, avg: usize, max: usize) -> Result<Self, ParamError> {
        if min == 0 {
            return Err(ParamError::ZeroMin);
        }
        if avg < min {
            return Err(ParamError::AvgBelowMin { min, avg });
        }
        if max < avg {
            return Err(ParamError::MaxBelowAvg { avg, max });
        }
        let table = Table::new(Numbers::Public(SplitMix64::new(seed)));
        let spread = (avg - min) as u128 + 1;
        let limit = gear::highest_below((1 << 64) / spread);
        Ok(Self { min, max, table, limit, len: 0, hash: 0 })
    }

    /// Begins a chunk with the next byte.
    pub fn restart(&mut self) {
        (self.len, self.hash) = (0, 0);
    }

    /// How many bytes of `data` belong to the chunk so far, if it ends among them; `None` if it goes
    /// on. After a cut-point the next byte begins a chunk.
    pub fn next_cut(&mut self, data: &[u8]) -> Option<usize> {
        // no hash that counts depends on these
        let skipped = self.min.saturating_sub(WINDOW + self.len).min(data.len());
        self.len += skipped;
        let warm = (self.min - 1).saturating_sub(self.len).min(data.len() - skipped);
        let before = skipped + warm;
        for &byte in &data[skipped..before] {
            self.hash = self.table.push(self.hash, byte);
        }
        self.len += warm;
        let tested = (self.max - self.len).min(data.len() - before);
        let cut = match self.table.scan(self.hash, &data[before..before + tested], self.limit) {
            Ok(scanned) => Some(before + scanned),
            Err(hash) => {
                self.hash = hash;
                self.len += tested;
                (self.len == self.max).then_some(before + tested)
            }
        };
        if cut.is_some() {
            self.restart();
        }
        cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Algorithm, ChunkSizes, Chunker, Params};

    fn random(numbers: &mut SplitMix64, len: usize) -> Vec<u8> {
        (0..len).map(|_| numbers.next() as u8).collect()
    }

    /// The cut-points of `data`, fed in pieces of up to `piece` bytes.
    fn cuts(mut scan: GearScan, data: &[u8], piece: usize, numbers: &mut SplitMix64) -> Vec<usize> {
        let mut cuts = Vec::new();
        let mut at = 0;
        while at < data.len() {
            let len = (numbers.next() as usize % (piece + 1)).min(data.len() - at);
            match scan.next_cut(&data[at..at + len]) {
                Some(cut) => {
                    at += cut;
                    cuts.push(at);
                }
                None => at += len,
            }
        }
        if cuts.last() != Some(&data.len()) {
            cuts.push(data.len());
        }
        cuts
    }

    #[test]
    fn pieces_of_any_lengths_are_cut_where_the_chunker_cuts_the_whole() {
        let mut numbers = SplitMix64::new(1);
        let all_equal = vec![7; 30_000];
        let data = random(&mut numbers, 100_000);
        let sizes =
            [(1, 1, 1), (1, 2, 9), (40, 90, 91), (64, 64, 64), (65, 300, 1000), (256, 1024, 4096)];
        for (min, avg, max) in sizes {
            for seed in [0, 9] {
                let params = Params::for_mean(Algorithm::Gear, 1024).unwrap();
                let sizes = ChunkSizes::new(min, avg, max).unwrap();
                let chunker = Chunker::new(&Params { sizes, seed, ..params }).unwrap();
                for data in [&data, &all_equal] {
                    let whole: Vec<usize> = chunker.cut_points(data).collect();
                    for piece in [1, 63, 500, 1 << 20] {
                        let scan = GearScan::new(seed, min, avg, max).unwrap();
                        assert_eq!(cuts(scan, data, piece, &mut numbers), whole);
                    }
                }
            }
        }
    }

    #[test]
    fn a_chunk_may_be_longer_than_a_chunker_would_hold() {
        let max = (64 << 20) + 1;
        let mut scan = GearScan::new(0, max, max, max).unwrap();
        let piece = vec![0; 1 << 20];
        assert!((0..64).all(|_| scan.next_cut(&piece).is_none()));
        assert_eq!(scan.next_cut(&piece), Some(1));
    }

    #[test]
    fn sizes_out_of_order_are_refused() {
        for (min, avg, max) in [(0, 1, 1), (2, 1, 2), (1, 2, 1)] {
            assert!(GearScan::new(0, min, avg, max).is_err(), "{min} {avg} {max}");
        }
    }
}
