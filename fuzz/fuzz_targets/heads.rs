//! What heads of shards say: what decodes has one encoding.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|fields: &[u8]| {
    if let Ok(again) = onefold_cluster::fuzz::restate(fields) {
        assert_eq!(again, fields);
    }
});
