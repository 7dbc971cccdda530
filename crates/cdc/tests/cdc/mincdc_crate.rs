//! MinCDC cuts as the crate of its author does.

use mincdc::{MinCdcHash4, SliceChunker};
use onefold_cdc::{Algorithm, Params, cut_points};
use onefold_testkit::random;
use proptest::prelude::*;

use crate::support::{any_input, corner_inputs, sizes};

fn assert_as_crate(min: usize, max: usize, data: &[u8]) {
    let params = Params::new(Algorithm::MinCdc, sizes(min, min.midpoint(max), max));
    let theirs = SliceChunker::new(data, min, max, MinCdcHash4::new());
    let expected: Vec<_> = theirs.map(|chunk| chunk.offset() + chunk.len()).collect();
    assert_eq!(cut_points(&params, data).unwrap(), expected, "{min} {max}, {} bytes", data.len());
}

#[test]
fn bounds_around_the_window_and_every_tail() {
    for min in [1, 2, 3, 4, 5, 6, 15, 64] {
        for max in [1, 2, 3, 4, 5, 6, 7, 16, 64, 90].into_iter().filter(|&max| max >= min) {
            for len in 0..200 {
                assert_as_crate(min, max, &random(len as u64, len));
            }
            for data in corner_inputs(500) {
                assert_as_crate(min, max, &data);
            }
        }
    }
}

#[test]
fn common_sizes() {
    assert_as_crate(4096, 12288, &random(11, 4 << 20));
    assert_as_crate(32768, 98304, &random(12, 4 << 20));
}

proptest! {
    #[test]
    fn any_bounds(min in 1..300_usize, more in 0..600_usize, data in any_input()) {
        assert_as_crate(min, min + more, &data);
    }
}
