//! An archive is read to its end or refused, and its data are not longer than it is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_store::import::{Archive, Kind};

fuzz_target!(|bytes: &[u8]| {
    let mut archive = Archive::new(bytes);
    let (mut sum, mut buffer) = (0, [0; 4096]);
    while let Ok(Some(entry)) = archive.next_entry() {
        let mut len = 0;
        let is_whole = loop {
            match archive.read_data(&mut buffer) {
                Ok(0) => break true,
                Ok(count) => len += count as u64,
                Err(_) => break false,
            }
        };
        if let (Kind::File { size, extents }, true) = (&entry.kind, is_whole) {
            let sum: u64 = extents.iter().flatten().map(|extent| extent.len).sum();
            assert_eq!(len, if extents.is_some() { sum } else { *size });
        }
        sum += len;
    }
    assert!(sum <= bytes.len() as u64);
});
