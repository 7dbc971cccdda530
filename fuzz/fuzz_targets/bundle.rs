//! A bundle decodes or is refused, and what it holds stood in it.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use onefold_store::decode_bundle;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(copies) = decode_bundle(&Bytes::copy_from_slice(bytes)) {
        assert!(copies.is_sorted_by(|(a, _), (b, _)| a < b));
        let held: usize = copies.iter().map(|(_, copy)| 17 + copy.len()).sum();
        assert!(held < bytes.len());
    }
});
