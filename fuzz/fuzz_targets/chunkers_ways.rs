//! A stream, two stages, several threads and jumps by exact hints cut where a slice is cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_cdc::Algorithm;
use onefold_fuzz::{Numbers, assert_all_ways_agree, params};

fuzz_target!(|input: (Numbers, u16, Vec<u8>)| {
    let (numbers, step, data) = input;
    if let Some(params) = params(Algorithm::ALL, numbers) {
        assert_all_ways_agree(&params, &data, usize::from(step));
    }
});
