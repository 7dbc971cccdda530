//! An intent decodes or is refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_store::Intent;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(intent) = Intent::decode(bytes) {
        assert!(intent.time.nanos < 1_000_000_000);
        assert!(intent.marks.len() * 16 <= bytes.len());
    }
});
