//! How much of a chunk its rule looks at: all that the literature calls scanned, with the kernels
//! left out. Vectors read whole blocks, beyond the cut-point too; a scalar form would read this.

use crate::descriptor::DecidedBy;
use crate::{Chunker, Lookahead};

impl Chunker {
    /// Bytes of `data` that the rule looks at to find that its first chunk ends at `cut`, those
    /// behind the cut-point with them.
    ///
    /// `data` starts at a cut-point and has all that the rule may look at: it ends the input, or is
    /// no shorter than max. A byte counts once, however often it is compared. The rest of an input
    /// that is shorter than min counts nothing. `None` for presets, whose rules do not tell.
    pub fn scanned(&self, data: &[u8], cut: usize) -> Option<usize> {
        if self.params().preset.is_some() {
            return None;
        }
        let is_decided = cut >= self.sizes().min() && self.params().algorithm.is_content_defined();
        if !is_decided {
            return Some(0);
        }
        let reach = &data[..data.len().min(self.sizes().max())];
        let looked_at = self.end_of_scan(reach, cut).saturating_sub(self.start_of_scan());
        Some(looked_at.saturating_sub(self.rule.jumped(reach)))
    }

    /// The first byte of a chunk that may matter.
    fn start_of_scan(&self) -> usize {
        let (DecidedBy::Window(before) | DecidedBy::More { before, .. }) = self.decided_by();
        self.sizes().min().saturating_sub(before)
    }

    /// The end of the last byte that matters to a cut-point.
    fn end_of_scan(&self, reach: &[u8], cut: usize) -> usize {
        match self.lookahead() {
            Lookahead::None => cut,
            Lookahead::Bytes(behind) => reach.len().min(cut + behind),
            // a chunk may also end as soon as the best that can come has come
            Lookahead::ToMax if self.next_cut(&reach[..cut]).is_some() => cut,
            Lookahead::ToMax => reach.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Algorithm, Params};
    use onefold_testkit::{random, text};

    fn chunkers(mean: usize) -> impl Iterator<Item = Chunker> {
        let params = Algorithm::ALL.iter().map(move |&one| Params::for_mean(one, mean).unwrap());
        params.map(|params| Chunker::new(&params).unwrap())
    }

    /// The bytes of `data` that another value of which moves the first cut-point.
    fn that_matter(chunker: &Chunker, data: &[u8], cut: usize) -> Vec<usize> {
        let mut changed = data.to_vec();
        let mut matters = |i: usize| {
            let others = [0, 0xff, data[i] ^ 1, data[i] ^ 0x80, !data[i]];
            let moves = others.into_iter().any(|other| {
                changed[i] = other;
                chunker.last_cut(&changed) != Some(cut)
            });
            changed[i] = data[i];
            moves
        };
        (0..data.len()).filter(|&i| matters(i)).collect()
    }

    #[test]
    fn no_byte_matters_that_is_not_scanned() {
        for chunker in chunkers(300) {
            let reach = chunker.sizes().max().min(4000);
            for data in [random(1, reach), text(2, reach), vec![0; reach]] {
                let cut = chunker.last_cut(&data).unwrap();
                let scanned = chunker.scanned(&data, cut).unwrap();
                let matter = that_matter(&chunker, &data, cut);
                assert!(matter.len() <= scanned, "{chunker:?}: {} > {scanned}", matter.len());
                if let (Some(first), Some(last)) = (matter.first(), matter.last()) {
                    let start = chunker.start_of_scan();
                    let end = chunker.end_of_scan(&data, cut);
                    assert!(start <= *first && *last < end, "{chunker:?}: {first}, {last}");
                }
            }
        }
    }

    #[test]
    fn the_first_byte_that_is_scanned_matters_to_some_chunk() {
        // nothing of a fixed chunk matters, and the older hash of Gear-16 refuses one place in 2^14
        let untold = [Algorithm::Fixed, Algorithm::Gear16];
        for chunker in chunkers(300).filter(|one| !untold.contains(&one.params().algorithm)) {
            let start = chunker.start_of_scan();
            let matters = (0..2000).any(|seed| {
                let mut data = random(seed, chunker.sizes().max().min(4000));
                let cut = chunker.last_cut(&data);
                [0, 1, 0x40, 0x80, 0xff].into_iter().any(|byte| {
                    data[start] = byte;
                    chunker.last_cut(&data) != cut
                })
            });
            assert!(matters, "{chunker:?}: nothing depends on byte {start}");
        }
    }

    #[test]
    fn by_hand() {
        let chunker =
            |algorithm| Chunker::new(&Params::for_mean(algorithm, 4096).unwrap()).unwrap();
        let data = random(3, 100_000);
        // the whole of a chunk, and nothing else
        let ram = chunker(Algorithm::Ram);
        let cut = ram.last_cut(&data).unwrap();
        assert_eq!(ram.scanned(&data, cut), Some(cut));
        // from four bytes before min up to max, wherever the least is
        let min = chunker(Algorithm::MinCdc);
        let cut = min.last_cut(&data).unwrap();
        let range = min.sizes().max() - min.sizes().min() + 4;
        assert_eq!(min.scanned(&data, cut), Some(range));
        // a rest that cannot be cut
        let gear = chunker(Algorithm::Gear);
        let rest = gear.sizes().min() - 1;
        assert_eq!(gear.scanned(&data[..rest], rest), Some(0));
        assert_eq!(chunker(Algorithm::Fixed).scanned(&data, 4096), Some(0));
    }

    #[test]
    fn jumps_are_not_scanned() {
        // falling bytes never rise: each 50 that are opposed are followed by a jump
        let params = Params::for_mean(Algorithm::SeqInc, 8192).unwrap();
        let chunker = Chunker::new(&params).unwrap();
        let (min, max) = (chunker.sizes().min(), chunker.sizes().max());
        let falling: Vec<u8> = (0..max).map(|i| 255 - (i % 256) as u8).collect();
        let cut = chunker.last_cut(&falling).unwrap();
        let scanned = chunker.scanned(&falling, cut).unwrap();
        assert!(cut > min && scanned < (cut - min) / 2, "{scanned} of {cut}");
    }
}
