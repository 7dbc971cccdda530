//! Containers that are written as their groups come.

use onefold_container::{
    AppendedContainer, Codec, Compressor, Content, Directory, GroupBuilder, GroupEntry,
    OpenContainer,
};
use onefold_fingerprint::{Fingerprint, Fingerprinter};
use onefold_seal::{Check, Envelope, ObjectId, Suite};
use onefold_testkit::{random, text};

const ENVELOPE: Envelope = Envelope::plain(ObjectId::from_bytes([1; 16]));

fn chunks() -> Vec<Vec<u8>> {
    let lens = [1, 17, 500, 1024, 1025, 3000, 4096, 4096, 70_000];
    lens.iter().flat_map(|&len| [text(len as u64, len), random(len as u64, len)]).collect()
}

fn fingerprint(chunk: &[u8]) -> Fingerprint {
    Fingerprinter::blake3().fingerprint(chunk)
}

#[test]
fn what_is_appended_is_what_a_container_has_that_is_sealed_at_once() {
    for codec in Codec::ALL {
        let mut compressor = Compressor::of(codec, Suite::Plain).unwrap();
        let mut open = OpenContainer::new(&ENVELOPE, Content::Data);
        for chunk in chunks() {
            let mut group = GroupBuilder::default();
            group.push(fingerprint(&chunk), &chunk);
            open.push(compressor.compress(&mut group).unwrap());
        }
        let sealed = open.seal();

        let id = sealed.directory.id;
        let (mut container, mut object) = AppendedContainer::new(&ENVELOPE, id, Content::Data);
        let mut room: Vec<u8> = Vec::new();
        for chunk in chunks() {
            // more room than is needed, in which other bytes were before
            let bound = compressor.bound(chunk.len());
            room.resize(room.len().max(bound), 0);
            room.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
            let (codec, stored_len) = compressor.compress_into(&chunk, &mut room).unwrap();
            let stored = &room[..stored_len];
            let (offset, len) = (container.len(), chunk.len() as u32);
            let (stored_len, check) = (stored_len as u32, Check::of(&[stored]));
            let group = GroupEntry { offset, stored_len, len, codec, check };
            container.enter(group, [(fingerprint(&chunk), len)]);
            object.extend_from_slice(stored);
        }
        object.extend_from_slice(&container.footer());
        assert_eq!(*container.directory(), sealed.directory, "{codec:?}");
        assert!(object == sealed.bytes, "{codec:?}");
        let found = Directory::of_object(&ENVELOPE, id, &object).unwrap();
        assert_eq!(found, sealed.directory, "{codec:?}");
    }
}

#[test]
#[should_panic(expected = "expected")]
fn room_that_may_be_too_little_is_a_bug() {
    let mut compressor = Compressor::of(Codec::Zstd, Suite::Plain).unwrap();
    let short = compressor.bound(4096) - 1;
    let _ = compressor.compress_into(&[7; 4096], &mut vec![0; short]);
}
