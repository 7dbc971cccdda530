//! Containers whose bytes are handed out as they come.

use onefold_container::{AppendedContainer, Codec, CompressedGroup, Compressor, Content};
use onefold_fingerprint::Fingerprinter;
use onefold_seal::{Envelope, ObjectId, Suite};
use onefold_testkit::{random, text};

#[test]
fn checks_are_the_same_computed_together_alone_or_when_a_group_is_appended() {
    let lens = [1, 17, 500, 1024, 1025, 3000, 4096, 4096, 70_000];
    let chunks = lens.iter().flat_map(|&len| [text(len as u64, len), random(len as u64, len)]);
    let chunks: Vec<Vec<u8>> = chunks.collect();
    for codec in [Codec::Zstd, Codec::Raw] {
        let mut compressor = Compressor::of(codec, Suite::Plain).unwrap();
        let mut compressed = || -> Vec<CompressedGroup> {
            let one = |chunk: &Vec<u8>| {
                let fingerprint = Fingerprinter::blake3().fingerprint(chunk);
                compressor.compress_chunk(fingerprint, chunk).unwrap()
            };
            chunks.iter().map(one).collect()
        };
        let (mut together, unchecked) = (compressed(), compressed());
        CompressedGroup::check_all(together.iter_mut());
        let alone: Vec<CompressedGroup> = compressed()
            .into_iter()
            .zip(&chunks)
            .map(|(group, chunk)| {
                let fingerprint = Fingerprinter::blake3().fingerprint(chunk);
                let len = chunk.len() as u32;
                CompressedGroup::of_chunk(group.stored().to_vec(), group.codec(), fingerprint, len)
            })
            .collect();
        let [together, unchecked, alone] = [together, unchecked, alone].map(|groups| {
            let envelope = Envelope::plain(ObjectId::from_bytes([1; 16]));
            let id = ObjectId::from_bytes([2; 16]);
            let (mut container, mut bytes) = AppendedContainer::new(&envelope, id, Content::Data);
            for group in groups {
                bytes.extend(container.push(group));
            }
            bytes.extend(container.footer());
            bytes
        });
        assert!(together == alone && unchecked == alone, "{codec:?}");
    }
}
