//! Records of gateways, shards and volumes of a domain: what decodes has one encoding.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(again) = onefold_cluster::fuzz::rerecord(bytes) {
        assert_eq!(again, bytes);
    }
});
