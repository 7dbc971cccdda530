//! An index run decodes or is refused; what decodes is sorted.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_index::Run;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(run) = Run::decode(bytes) {
        assert!(run.entries.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    }
});
