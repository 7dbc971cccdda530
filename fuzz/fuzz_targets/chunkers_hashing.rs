//! Chunkers that hash cut within their bounds, and alike on every kernel.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_fuzz::{HASHING, Numbers, assert_kernels_agree, params};

fuzz_target!(|input: (Numbers, Vec<u8>)| {
    if let Some(params) = params(HASHING, input.0) {
        assert_kernels_agree(&params, &input.1);
    }
});
