//! Cut-points without chunks: of unbounded sizes, and the same as a stream's of bounded ones.

use std::io::{self, ErrorKind, Read};

use onefold_cdc::{Algorithm, ChunkSizes, Chunker, Cuts, ParamError, Params, Stream, cut_points};
use onefold_testkit::{SplitMix64, random};
use proptest::prelude::*;

use crate::support::{any_input, any_params, chunker, corner_inputs, model_cuts};

/// Yields at most `most` bytes a read, and an interruption before every third.
struct Pieces<'a> {
    data: &'a [u8],
    most: usize,
    numbers: SplitMix64,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.numbers.below(3) == 0 {
            return Err(ErrorKind::Interrupted.into());
        }
        let len = (1 + self.numbers.below(self.most)).min(buffer.len());
        self.data.read(&mut buffer[..len])
    }
}

fn cuts(params: &Params, data: &[u8], most: usize) -> Vec<usize> {
    let reader = Pieces { data, most, numbers: SplitMix64::new(most as u64) };
    let cuts = Cuts::new(params, reader).unwrap();
    cuts.map(|cut| cut.unwrap() as usize).collect()
}

/// `params` without their maximum, unless the algorithm cannot be without.
fn unbounded(params: Params) -> Option<Params> {
    let sizes = ChunkSizes::unbounded(params.sizes.min(), params.sizes.avg()).unwrap();
    (params.algorithm != Algorithm::MinCdc).then_some(Params { sizes, ..params })
}

fn assert_unbounded(params: Params, data: &[u8]) {
    let expected = model_cuts(&params, data);
    assert_eq!(cut_points(&params, data).unwrap(), expected, "{params:?} in one slice");
    for most in [1, 100, usize::MAX] {
        assert_eq!(cuts(&params, data, most), expected, "{params:?} by {most}");
    }
}

#[test]
fn unbounded_corner_cases_are_cut_where_the_model_cuts() {
    for &algorithm in Algorithm::ALL {
        for (min, avg) in [(1, 1), (1, 2), (1, 60), (60, 60), (64, 200), (700, 701)] {
            let sizes = ChunkSizes::new(min, avg, avg).unwrap();
            let Some(params) = unbounded(Params::new(algorithm, sizes)) else { continue };
            for data in corner_inputs(1200) {
                assert_unbounded(params, &data);
            }
            for len in [0, 1, min, avg, avg + 1] {
                assert_unbounded(params, &random(3, len));
            }
        }
    }
}

proptest! {
    #[test]
    fn any_unbounded_sizes_are_cut_where_the_model_cuts(
        params in any_params(),
        data in any_input(),
    ) {
        if let Some(params) = unbounded(params) {
            assert_unbounded(params, &data);
        }
    }

    #[test]
    fn bounded_sizes_are_cut_as_by_a_stream(params in any_params(), data in any_input()) {
        prop_assert_eq!(cuts(&params, &data, 1000), cut_points(&params, &data).unwrap());
    }
}

#[test]
fn a_chunk_may_be_longer_than_any_maximum() {
    let params = Params::new(Algorithm::Gear, ChunkSizes::unbounded(1, 8192).unwrap());
    let len = 65 << 20;
    let cuts = Cuts::new(&params, io::repeat(0).take(len)).unwrap();
    let cuts: Vec<_> = cuts.map(Result::unwrap).collect();
    assert_eq!(cuts, [len]);
}

#[test]
fn a_failure_loses_nothing() {
    struct Failing<'a>(&'a [u8], bool);
    impl Read for Failing<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 { Err(ErrorKind::ConnectionReset.into()) } else { self.0.read(buffer) }
        }
    }
    let data = random(5, 1 << 20);
    for sizes in [ChunkSizes::unbounded(1, 1000).unwrap(), ChunkSizes::around(1000).unwrap()] {
        let params = Params::new(Algorithm::Buzhash, sizes);
        let (mut found, mut failures) = (Vec::new(), 0);
        for cut in Cuts::new(&params, Failing(&data, false)).unwrap() {
            match cut {
                Ok(cut) => found.push(cut as usize),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
                    failures += 1;
                }
            }
        }
        assert!(failures > 1);
        assert_eq!(found, cut_points(&params, &data).unwrap());
    }
}

#[test]
fn unbounded_sizes_are_checked_and_known_as_such() {
    let sizes = ChunkSizes::unbounded(16, 512).unwrap();
    assert!(!sizes.is_bounded() && ChunkSizes::new(16, 512, 512).unwrap().is_bounded());
    assert_eq!((sizes.min(), sizes.avg(), sizes.max()), (16, 512, usize::MAX));
    // what a repository reads sizes back with
    assert!(ChunkSizes::new(sizes.min(), sizes.avg(), sizes.max()).is_err());

    assert_eq!(ChunkSizes::unbounded(0, 1), Err(ParamError::ZeroMin));
    assert_eq!(ChunkSizes::unbounded(3, 2), Err(ParamError::AvgBelowMin { min: 3, avg: 2 }));
    let refusal = ChunkSizes::unbounded(3, usize::MAX).unwrap_err();
    assert_eq!(refusal, ParamError::AvgTooLarge { avg: usize::MAX });

    let mincdc = Params::new(Algorithm::MinCdc, sizes);
    let refusal = Cuts::new(&mincdc, io::empty()).err().unwrap();
    assert_eq!(refusal, ParamError::NeedsMax { algorithm: Algorithm::MinCdc });
    assert_eq!(Chunker::new(&mincdc).unwrap_err(), refusal);
}

#[test]
#[should_panic(expected = "need a maximum")]
fn a_stream_refuses_unbounded_sizes() {
    let params = Params::new(Algorithm::Gear, ChunkSizes::unbounded(1, 512).unwrap());
    Stream::new(chunker(params), io::empty());
}
