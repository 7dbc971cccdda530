//! Read sizes, interruptions and failures leave no trace in the cut-points.

use std::io::{self, ErrorKind, Read};

use onefold_cdc::{Algorithm, Chunker, Params, Stream, cut_points};
use onefold_testkit::{SplitMix64, random};
use proptest::prelude::*;

use crate::support::{any_input, any_params, chunker, corner_params, sizes};

/// Yields at most `most` bytes a read, and an error of `kind` before every third read.
struct Fussy<'a> {
    data: &'a [u8],
    most: usize,
    kind: Option<ErrorKind>,
    numbers: SplitMix64,
}

impl<'a> Fussy<'a> {
    fn new(data: &'a [u8], most: usize, kind: Option<ErrorKind>) -> Self {
        Self { data, most, kind, numbers: SplitMix64::new(most as u64) }
    }
}

impl Read for Fussy<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        assert!(!buffer.is_empty(), "a read without room looks like the end");
        if let Some(kind) = self.kind
            && self.numbers.below(3) == 0
        {
            return Err(kind.into());
        }
        let len = (1 + self.numbers.below(self.most)).min(buffer.len());
        self.data.read(&mut buffer[..len])
    }
}

/// The cut-points of the stream; checks the bytes lent against `data` on the way.
fn streamed<R: Read>(stream: &mut Stream<R>, data: &[u8]) -> Vec<usize> {
    let mut cut_points = Vec::new();
    loop {
        let start = stream.offset() as usize;
        assert_eq!(start, cut_points.last().copied().unwrap_or(0));
        match stream.next() {
            Ok(Some(chunk)) => {
                assert_eq!(chunk, &data[start..start + chunk.len()]);
                cut_points.push(start + chunk.len());
            }
            Ok(None) => return cut_points,
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }
}

#[test]
fn corner_cases_are_cut_alike_however_they_are_read() {
    for params in corner_params() {
        let data = random(6, 3 * params.sizes.max() + 1);
        let expected = cut_points(&params, &data).unwrap();
        for most in [1, 2, params.sizes.max(), usize::MAX] {
            let reader = Fussy::new(&data, most, None);
            let mut stream = Stream::new(chunker(params), reader);
            assert_eq!(streamed(&mut stream, &data), expected, "{params:?} by {most}");
        }
    }
}

#[test]
fn interruptions_pass_unnoticed_and_failures_lose_nothing() {
    let data = random(7, 60_000);
    for &algorithm in Algorithm::ALL {
        let params = Params::for_mean(algorithm, 1024).unwrap();
        let expected = cut_points(&params, &data).unwrap();
        for kind in [ErrorKind::Interrupted, ErrorKind::ConnectionReset] {
            for most in [1, 100, 70_000] {
                let reader = Fussy::new(&data, most, Some(kind));
                let mut stream = Stream::new(chunker(params), reader);
                assert_eq!(streamed(&mut stream, &data), expected, "{algorithm} {kind}");
            }
        }
    }
}

#[test]
fn the_buffer_turns_over_without_a_seam() {
    // max is above the read-ahead for one, and far below it for the other
    for (avg, len) in [(90_000, 3_000_000), (700, 1_000_000)] {
        let data = random(8, len);
        for &algorithm in Algorithm::ALL {
            let params = Params::for_mean(algorithm, avg).unwrap();
            let expected = cut_points(&params, &data).unwrap();
            let reader = Fussy::new(&data, 50_000, None);
            let mut stream = Stream::new(chunker(params), reader);
            assert_eq!(streamed(&mut stream, &data), expected, "{algorithm}");
        }
    }
}

#[test]
fn an_ended_stream_stays_ended_and_restarts_afresh() {
    let chunker = Chunker::new(&Params::for_mean(Algorithm::Gear, 256).unwrap()).unwrap();
    let (first, second) = (random(9, 5000), random(10, 7000));
    let mut stream = Stream::new(chunker.clone(), &first[..]);
    streamed(&mut stream, &first);
    assert!(stream.next().unwrap().is_none());
    assert_eq!(stream.offset(), 5000);

    stream.restart(&second);
    assert_eq!(streamed(&mut stream, &second), chunker.cut_points(&second).collect::<Vec<_>>());
    stream.restart(&second[..3000]);
    stream.next().unwrap();
    stream.restart(&first);
    assert_eq!(streamed(&mut stream, &first), chunker.cut_points(&first).collect::<Vec<_>>());
    stream.restart(&[]);
    assert!(stream.next().unwrap().is_none());
}

#[test]
fn a_failure_at_the_end_is_not_the_end() {
    let params = Params::new(Algorithm::Fixed, sizes(10, 10, 10));
    let reader = b"0123456789012".chain(Fussy::new(&[], 1, Some(ErrorKind::ConnectionReset)));
    let mut stream = Stream::new(chunker(params), reader);
    assert_eq!(streamed(&mut stream, b"0123456789012"), [10, 13]);
}

proptest! {
    #[test]
    fn any_input_is_cut_alike_however_it_is_read(
        params in any_params(),
        data in any_input(),
        most in 1..2000_usize,
    ) {
        let expected = cut_points(&params, &data).unwrap();
        let reader = Fussy::new(&data, most, Some(ErrorKind::Interrupted));
        prop_assert_eq!(streamed(&mut Stream::new(chunker(params), reader), &data), expected);
    }
}
