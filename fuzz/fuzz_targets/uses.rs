//! What shards use of containers, as they say it and as it was counted: what decodes has one encoding.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(again) = onefold_cluster::fuzz::reuse(bytes) {
        assert_eq!(again, bytes);
    }
    if let Ok(again) = onefold_cluster::fuzz::respace(bytes) {
        assert_eq!(again, bytes);
    }
});
