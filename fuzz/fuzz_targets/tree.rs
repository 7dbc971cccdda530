//! A tree decodes or is refused; what decodes names only what lies in its directory. Its outline is
//! refused where the whole is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_store::tree::{Detail, decode};

fuzz_target!(|bytes: &[u8]| {
    let outline = decode(bytes, Detail::Outline);
    let whole = decode(bytes, Detail::All);
    assert_eq!(whole.as_ref().err(), outline.as_ref().err());
    if let (Ok(entries), Ok(outline)) = (whole, outline) {
        assert!(
            entries.iter().map(|entry| &entry.name).eq(outline.iter().map(|entry| &entry.name))
        );
        for entry in &entries {
            assert!(!entry.name.is_empty() && entry.name != b"." && entry.name != b"..");
            assert!(!entry.name.contains(&b'/') && !entry.name.contains(&0));
        }
        assert!(entries.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
});
