//! Chunkers that seek an extreme value cut within their bounds, and alike on every kernel.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_fuzz::{EXTREME, Numbers, assert_kernels_agree, params};

fuzz_target!(|input: (Numbers, Vec<u8>)| {
    if let Some(params) = params(EXTREME, input.0) {
        assert_kernels_agree(&params, &input.1);
    }
});
