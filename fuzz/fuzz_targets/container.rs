//! A container opens or is refused, and so do its groups, whatever the footer says.
//!
//! The input is a footer; header, length and check are made to fit, so that the fuzzer gets past
//! them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_container::Directory;
use onefold_seal::{Check, Envelope, HEADER_LEN, Kind, ObjectId};

fuzz_target!(|input: (Vec<u8>, Vec<u8>)| {
    let (groups, footer) = input;
    let id = ObjectId::from_bytes([1; 16]);
    let envelope = Envelope::plain(ObjectId::from_bytes([2; 16]));
    let header = envelope.header(Kind::Container, id);
    let footer_len = (footer.len() as u32).to_le_bytes();
    let check = Check::of(&[&header, &footer, &footer_len]);
    let object = [&header[..], &groups, &footer, &footer_len, check.as_bytes()].concat();
    let Ok(directory) = Directory::of_object(&envelope, id, &object) else { return };
    let stored: u64 = directory.groups.iter().map(|group| u64::from(group.stored_len)).sum();
    assert_eq!(stored, groups.len() as u64, "groups fill the room before the footer");
    assert!(directory.groups.iter().all(|group| group.offset >= HEADER_LEN as u64));
    for (number, group) in (0..).zip(&directory.groups) {
        if let Ok(bytes) = directory.group_of_object(&object, number) {
            assert_eq!(bytes.len(), group.len as usize);
            for chunk in directory.chunks.iter().filter(|chunk| chunk.group == number) {
                assert!(chunk.range().end <= bytes.len());
            }
        }
    }
});
