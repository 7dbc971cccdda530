//! A tree decodes or is refused; what decodes names only what lies in its directory.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(entries) = onefold_store::tree::decode(bytes) {
        for entry in &entries {
            assert!(!entry.name.is_empty() && entry.name != b"." && entry.name != b"..");
            assert!(!entry.name.contains(&b'/') && !entry.name.contains(&0));
        }
        assert!(entries.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
});
