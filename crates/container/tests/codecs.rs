//! Every codec gives back what it was given, and nothing that was not.

use onefold_container::{
    AppendedContainer, Codec, Compressor, ContainerError, Content, Directory, GroupBuilder,
    GroupEntry, OpenContainer, decompress_into,
};
use onefold_fingerprint::Fingerprinter;
use onefold_seal::{Check, Envelope, HEADER_LEN, ObjectId, Suite};
use onefold_testkit::{SplitMix64, random, text};

const ENVELOPE: Envelope = Envelope::plain(ObjectId::from_bytes([7; 16]));

/// A container of one chunk a group, each compressed by its codec.
fn container(chunks: &[(Codec, Vec<u8>)]) -> onefold_container::SealedContainer {
    let mut open = OpenContainer::new(&ENVELOPE, Content::Data);
    for (codec, chunk) in chunks {
        let mut group = GroupBuilder::default();
        group.push(Fingerprinter::blake3().fingerprint(chunk), chunk);
        open.push(Compressor::of(*codec, Suite::Plain).unwrap().compress(&mut group).unwrap());
    }
    open.seal()
}

/// The stored bytes of `bytes`, which shrink by `codec`.
fn shrunk(codec: Codec, bytes: &[u8]) -> Vec<u8> {
    let sealed = container(&[(codec, bytes.to_vec())]);
    let group = &sealed.directory.groups[0];
    assert_eq!(group.codec, codec);
    sealed.bytes[HEADER_LEN..][..group.stored_len as usize].to_vec()
}

fn shrinking() -> impl Iterator<Item = Codec> {
    Codec::ALL.into_iter().filter(|codec| *codec != Codec::Raw)
}

#[test]
fn codes_and_codecs_stand_for_each_other() {
    for (code, codec) in (0..).zip(Codec::ALL) {
        assert_eq!((codec.code(), Codec::from_code(code)), (code, Some(codec)));
    }
    assert!((4..=255).all(|code| Codec::from_code(code).is_none()));
}

#[test]
fn groups_of_all_codecs_are_read_from_one_container() {
    for len in [1, 2, 15, 64, 512, 4096, 70_000] {
        let chunks: Vec<(Codec, Vec<u8>)> = Codec::ALL
            .into_iter()
            .flat_map(|codec| [(codec, text(len as u64, len)), (codec, random(len as u64, len))])
            .collect();
        let sealed = container(&chunks);
        let object = &sealed.bytes;
        let directory = Directory::of_object(&ENVELOPE, sealed.directory.id, object).unwrap();
        for (number, (codec, chunk)) in (0..).zip(&chunks) {
            let group = &directory.groups[number as usize];
            assert_eq!(directory.group_of_object(object, number).unwrap(), chunk[..]);
            let is_raw = group.stored_len == group.len;
            assert_eq!(group.codec, if is_raw { Codec::Raw } else { *codec }, "{len} bytes");
            if len >= 4096 {
                assert_eq!(is_raw, number % 2 == 1 || *codec == Codec::Raw, "{codec:?}, {len}");
            }
        }
    }
}

#[test]
fn the_stored_bytes_are_what_other_programs_make_sense_of() {
    let bytes = text(3, 5000);
    let zstd = zstd::bulk::decompress(&shrunk(Codec::Zstd, &bytes), bytes.len()).unwrap();
    let lz4 = lz4_flex::block::decompress(&shrunk(Codec::Lz4, &bytes), bytes.len()).unwrap();
    // the header and the trailer of a gzip file are all that is missing
    let mut gzip = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    gzip.extend(shrunk(Codec::Deflate, &bytes));
    let mut crc = flate2::Crc::new();
    crc.update(&bytes);
    gzip.extend(crc.sum().to_le_bytes());
    gzip.extend((bytes.len() as u32).to_le_bytes());
    let mut gunzipped = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&gzip[..]), &mut gunzipped)
        .unwrap();
    assert!(zstd == bytes && lz4 == bytes && gunzipped == bytes);
}

#[test]
fn stored_bytes_of_another_length_than_they_give_are_refused() {
    for codec in shrinking() {
        // a bomb: 8 MiB in a few KiB
        let bytes = vec![7; 8 << 20];
        let stored = shrunk(codec, &bytes);
        assert!(stored.len() < bytes.len() / 100, "{codec:?}: {}", stored.len());
        for len in [0, 1, 4096, bytes.len() - 1, bytes.len() + 1] {
            let found = decompress_into(codec, &stored, &mut vec![0; len]);
            assert!(found.is_err(), "{codec:?} gave {len} bytes");
        }
        let mut whole = vec![0; bytes.len()];
        decompress_into(codec, &stored, &mut whole).unwrap();
        assert!(whole == bytes);
    }
}

#[test]
fn stored_bytes_that_are_cut_off_or_go_on_are_refused() {
    for codec in shrinking() {
        let bytes = text(5, 4096);
        let stored = shrunk(codec, &bytes);
        let mut page = vec![0; bytes.len()];
        for len in 0..stored.len() {
            assert!(decompress_into(codec, &stored[..len], &mut page).is_err(), "{codec:?}, {len}");
        }
        let longer = [&stored[..], &[255; 9]].concat();
        assert!(decompress_into(codec, &longer, &mut page).is_err(), "{codec:?}");
        // what failed has left nothing behind
        decompress_into(codec, &stored, &mut page).unwrap();
        assert!(page == bytes);
    }
}

#[test]
fn bytes_of_strangers_give_a_page_or_an_error() {
    let mut numbers = SplitMix64::new(1);
    let mut page = vec![0; 4096];
    for round in 0..20_000 {
        let codec = Codec::ALL[numbers.below(4)];
        let mut stored = match codec {
            Codec::Raw => vec![1; 4096],
            codec => shrunk(codec, &text(round % 7, 4096)),
        };
        for _ in 0..=numbers.below(3) {
            let at = numbers.below(stored.len());
            stored[at] ^= 1 << numbers.below(8);
        }
        let _ = decompress_into(codec, &stored, &mut page);
        let noise = random(round, numbers.below(300));
        let _ = decompress_into(codec, &noise, &mut page);
    }
}

#[test]
fn the_codec_of_a_group_is_what_its_footer_says() {
    // stored bytes that are good under another codec, with a check that fits
    for (codec, other) in [(Codec::Zstd, Codec::Lz4), (Codec::Lz4, Codec::Deflate)] {
        let bytes = text(8, 4096);
        let stored = shrunk(codec, &bytes);
        let name = Fingerprinter::blake3().fingerprint(&bytes);
        let id = ObjectId::from_bytes([2; 16]);
        let (mut container, mut object) = AppendedContainer::new(&ENVELOPE, id, Content::Data);
        let (len, check) = (bytes.len() as u32, Check::of(&[&stored]));
        let (offset, stored_len) = (object.len() as u64, stored.len() as u32);
        let group = GroupEntry { offset, stored_len, len, codec: other, check };
        container.enter(group, [(name, len)]);
        object.extend_from_slice(&stored);
        object.extend_from_slice(&container.footer());
        let directory = Directory::of_object(&ENVELOPE, id, &object).unwrap();
        let error = directory.group_of_object(&object, 0).unwrap_err();
        assert!(matches!(error, ContainerError::Decompress { .. }), "{error}");
    }
}

#[test]
fn pages_are_hardly_longer_than_zstd_makes_them_at_level_1() {
    let digits: Vec<u8> =
        random(3, 4096).iter().map(|byte| b"0123456789abcdef"[*byte as usize % 16]).collect();
    let half_zeros: Vec<u8> =
        random(4, 2048).chunks(256).flat_map(|piece| [piece, &[0; 256]].concat()).collect();
    let half_text = [random(5, 2048), text(6, 2048)].concat();
    let fields = |random_bytes: usize, len: usize| -> Vec<u8> {
        let bytes = random(len as u64, 4096).into_iter().enumerate();
        bytes.map(|(at, byte)| if at % len < random_bytes { byte } else { 0 }).collect()
    };
    let pages = [
        text(1, 4096),
        random(2, 4096),
        digits,
        half_zeros,
        half_text,
        fields(1, 2),
        fields(2, 4),
        fields(5, 8),
        fields(6, 8),
        vec![7; 4096],
        text(7, 512),
    ];
    let mut compressor = Compressor::of(Codec::Zstd, Suite::Plain).unwrap();
    for page in &pages {
        let mut stored = vec![0; compressor.bound(page.len())];
        let (codec, len) = compressor.compress_into(page, &mut stored).unwrap();
        let at_level_1 = zstd::bulk::compress(page, 1).unwrap().len().min(page.len());
        assert!(len <= at_level_1 * 101 / 100, "{len}, {at_level_1} at level 1");
        let mut found = vec![0; page.len()];
        decompress_into(codec, &stored[..len], &mut found).unwrap();
        assert!(found == *page);
    }
}
