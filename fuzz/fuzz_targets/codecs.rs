//! Stored bytes of any kind give exactly the bytes that were asked for or an error, and what a
//! codec makes shorter it gives back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_container::{Codec, Compressor, GroupBuilder, decompress_into};
use onefold_seal::Suite;

fuzz_target!(|input: (u8, u16, Vec<u8>)| {
    let (code, len, bytes) = input;
    let codec = Codec::ALL[usize::from(code % 4)];
    let _ = decompress_into(codec, &bytes, &mut vec![0; len.into()]);
    let mut group = GroupBuilder::default();
    group.push(onefold_fingerprint::Fingerprint::from_bytes([0; 32]), &bytes);
    let mut compressor = Compressor::of(codec, Suite::Plain).unwrap();
    let stored = compressor.compress(&mut group).unwrap();
    let mut again = vec![0; bytes.len()];
    decompress_into(stored.codec(), stored.stored(), &mut again).unwrap();
    assert!(again == bytes);
    let mut room = vec![0; compressor.bound(bytes.len())];
    let (codec, len) = compressor.compress_into(&bytes, &mut room).unwrap();
    assert!((codec, &room[..len]) == (stored.codec(), stored.stored()));
});
