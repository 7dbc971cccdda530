//! Chunkers that neither hash nor seek an extreme value cut within their bounds, and alike on every
//! kernel; BFBC with any divisors, too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_cdc::{Algorithm, Divisors, Params};
use onefold_fuzz::{Numbers, assert_kernels_agree, others, params};

fuzz_target!(|input: (Numbers, Vec<[u8; 2]>, Vec<u8>)| {
    let (numbers, pairs, data) = input;
    let Some(mut params) = params(&others(), numbers) else { return };
    if params.algorithm == Algorithm::Bfbc && !pairs.is_empty() {
        let divisors = Divisors::from_pairs(pairs).expect("some pairs");
        params = Params { divisors: Some(divisors), secret: None, ..params };
    }
    assert_kernels_agree(&params, &data);
});
