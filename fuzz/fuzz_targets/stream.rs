//! Streams of volumes: one that decodes has one encoding.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|stream: &[u8]| {
    if let Ok((again, len)) = onefold_volume::fuzz::restream(stream) {
        assert_eq!(again, stream[..len]);
    }
});
