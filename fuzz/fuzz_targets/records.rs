//! The records of a pool's journals and checkpoints: what decodes has one encoding.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    if let Ok(again) = onefold_volume::fuzz::recode(body) {
        assert_eq!(again, body);
    }
});
