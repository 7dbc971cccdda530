//! Containers are written and read back, and whatever else is read is refused.

use std::ops::ControlFlow;

use onefold_backend::fault::{Faults, Faulty};
use onefold_backend::{MemoryObjects, Objects, Operation};
use onefold_container::{
    Codec, Compressor, ContainerError, Content, Directory, GroupBuilder, GroupEntry, MAX_GROUP_LEN,
    OpenContainer, SealedContainer, container_id, container_name, least_len,
};
use onefold_fingerprint::Fingerprinter;
use onefold_seal::wire::Put;
use onefold_seal::{
    Check, Envelope, HEADER_LEN, Key, Keys, Kind, ObjectId, SALT_LEN, SealError, Suite, padded_len,
};
use onefold_testkit::{random, text};
use proptest::prelude::*;

const ENVELOPE: Envelope = Envelope::plain(ObjectId::from_bytes([7; 16]));
const ID: ObjectId = ObjectId::from_bytes([9; 16]);

fn fingerprinter() -> Fingerprinter {
    Fingerprinter::blake3()
}

/// The envelope of the same repository, if it were encrypted.
fn encrypted() -> Envelope {
    Envelope::encrypted(ENVELOPE.repository(), Keys::new(Key::new([3; 32])))
}

fn envelope() -> impl Strategy<Value = Envelope> {
    (0..3).prop_map(|which| match which {
        0 => ENVELOPE,
        1 => encrypted(),
        _ => encrypted().padding(true),
    })
}

/// A container of `groups`, each a list of chunks.
fn container(content: Content, groups: &[Vec<Vec<u8>>]) -> SealedContainer {
    container_in(&ENVELOPE, content, groups)
}

fn container_in(envelope: &Envelope, content: Content, groups: &[Vec<Vec<u8>>]) -> SealedContainer {
    let mut compressor = Compressor::new(1, envelope.suite()).unwrap();
    let mut open = OpenContainer::new(envelope, content);
    for chunks in groups {
        let mut group = GroupBuilder::default();
        for chunk in chunks {
            group.push(fingerprinter().fingerprint(chunk), chunk);
        }
        assert_eq!(group.len(), chunks.iter().map(Vec::len).sum::<usize>());
        open.push(compressor.compress(&mut group).unwrap());
        assert!(group.is_empty());
    }
    open.seal()
}

/// Reads every chunk of a directory back and verifies it.
fn read_back(
    directory: &Directory,
    objects: &dyn Objects,
) -> Result<Vec<Vec<Vec<u8>>>, ContainerError> {
    (0..directory.groups.len() as u32)
        .map(|number| {
            let bytes = directory.read_group(objects, number)?;
            directory.verify_group(number, &bytes, &fingerprinter())?;
            let members = directory.chunks.iter().filter(|chunk| chunk.group == number);
            Ok(members.map(|chunk| bytes[chunk.range()].to_vec()).collect())
        })
        .collect()
}

/// `sealed` under its name, in memory.
fn stored(sealed: &SealedContainer) -> MemoryObjects {
    let objects = MemoryObjects::new();
    objects.put(&container_name(sealed.directory.id), sealed.bytes.clone()).unwrap();
    objects
}

fn chunk() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 1..300),
        (any::<u64>(), 1..5000usize).prop_map(|(seed, len)| text(seed, len)),
        (any::<u8>(), 1..5000usize).prop_map(|(byte, len)| vec![byte; len]),
    ]
}

fn groups() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    proptest::collection::vec(proptest::collection::vec(chunk(), 1..6), 0..6)
}

proptest! {
    #[test]
    fn what_was_sealed_is_read_back(
        envelope in envelope(), groups in groups(), is_data in any::<bool>()
    ) {
        let content = if is_data { Content::Data } else { Content::Metadata };
        let sealed = container_in(&envelope, content, &groups);
        let id = sealed.directory.id;
        let objects = stored(&sealed);
        let read = Directory::read(&objects, &envelope, id, sealed.bytes.len() as u64).unwrap();
        prop_assert_eq!(&read, &sealed.directory);
        prop_assert_eq!(&Directory::of_object(&envelope, id, &sealed.bytes).unwrap(), &read);
        prop_assert_eq!(read.content, content);
        let bytes = read.chunks.iter().map(|chunk| u64::from(chunk.len)).sum();
        let least = least_len(&envelope, read.chunks.len() as u64, bytes);
        prop_assert!(least <= sealed.bytes.len() as u64);
        let mut found = read_back(&read, &objects).unwrap();
        let mut expected = groups;
        if envelope.suite() != Suite::Plain {
            found.retain(|group| !group.is_empty());
            found.sort();
            expected.sort();
        }
        prop_assert!(found == expected, "other groups came back");
        if envelope.pads() {
            let len = sealed.bytes.len() as u64;
            prop_assert_eq!(len, padded_len(len));
        }
    }

    #[test]
    fn every_damage_is_found(
        envelope in envelope(),
        groups in groups(),
        at in any::<prop::sample::Index>(),
        flip in 1..=255u8,
    ) {
        let sealed = container_in(&envelope, Content::Data, &groups);
        let id = sealed.directory.id;
        let mut damaged = sealed.bytes.to_vec();
        let at = at.index(damaged.len());
        damaged[at] ^= flip;
        let found = Directory::of_object(&envelope, id, &damaged).and_then(|directory| {
            for group in 0..directory.groups.len() as u32 {
                directory.group_of_object(&damaged, group)?;
            }
            Ok(())
        });
        let error = found.expect_err("the damage went unseen").to_string();
        prop_assert!(error.contains(&id.to_string()), "{error}");
        let objects = MemoryObjects::new();
        objects.put(&container_name(id), damaged.clone().into()).unwrap();
        let read = Directory::read(&objects, &envelope, id, damaged.len() as u64)
            .and_then(|directory| read_back(&directory, &objects));
        prop_assert!(read.is_err());
    }

    #[test]
    fn every_truncation_is_found(
        envelope in envelope(), groups in groups(), len in any::<prop::sample::Index>()
    ) {
        let sealed = container_in(&envelope, Content::Data, &groups);
        let short = &sealed.bytes[..len.index(sealed.bytes.len())];
        prop_assert!(Directory::of_object(&envelope, sealed.directory.id, short).is_err());
    }

    #[test]
    fn any_footer_decodes_or_is_refused(
        footer in proptest::collection::vec(any::<u8>(), 0..400),
        before in 0..200usize,
    ) {
        let object = with_footer(&vec![0; before], &footer);
        if let Ok(directory) = Directory::of_object(&ENVELOPE, ID, &object) {
            for group in 0..directory.groups.len() as u32 {
                let _ = directory.group_of_object(&object, group);
            }
        }
    }

    #[test]
    fn a_footer_with_one_byte_changed_decodes_or_is_refused(
        groups in groups(), at in any::<prop::sample::Index>(), byte in any::<u8>()
    ) {
        let sealed = container(Content::Data, &groups);
        let last = sealed.directory.groups.last();
        let start = last.map_or(HEADER_LEN, |g| g.offset as usize + g.stored_len as usize);
        let mut footer = sealed.bytes[start..sealed.bytes.len() - 20].to_vec();
        let at = at.index(footer.len());
        footer[at] = byte;
        // Its check is right: only the decoder stands between it and the reader.
        let object = with_footer(&sealed.bytes[HEADER_LEN..start], &footer);
        if let Ok(directory) = Directory::of_object(&ENVELOPE, ID, &object) {
            let fits = |g: &onefold_container::GroupEntry| {
                g.offset + u64::from(g.stored_len) <= start as u64 && g.len <= MAX_GROUP_LEN
            };
            prop_assert!(directory.groups.iter().all(fits));
            for (number, group) in directory.groups.iter().enumerate() {
                let members = directory.chunks.iter().filter(|c| c.group as usize == number);
                prop_assert_eq!(members.map(|c| u64::from(c.len)).sum::<u64>(), u64::from(group.len));
                if let Ok(bytes) = directory.group_of_object(&object, number as u32) {
                    prop_assert_eq!(bytes.len(), group.len as usize);
                    let _ = directory.verify_group(number as u32, &bytes, &fingerprinter());
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_no_container(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(Directory::of_object(&ENVELOPE, ID, &bytes).is_err());
    }
}

/// A container with this footer and a check that fits it.
fn with_footer(groups: &[u8], footer: &[u8]) -> Vec<u8> {
    let header = ENVELOPE.header(Kind::Container, ID);
    let mut object = [&header[..], groups, footer].concat();
    let mut len = Vec::new();
    len.put_u32(footer.len() as u32);
    let check = Check::of(&[&header, footer, &len]);
    object.extend(len);
    object.extend(check.as_bytes());
    object
}

/// A footer of one group, as it would be if these numbers were true.
fn footer_of(stored_len: u64, len: u64, count: u64, chunk_len: u64) -> Vec<u8> {
    let mut footer = vec![0];
    footer.put_varint(1);
    footer.put_varint(stored_len);
    footer.put_varint(len);
    footer.put_u8(1);
    footer.extend([0; 16]);
    footer.put_varint(count);
    footer.extend([1; 32]);
    footer.put_varint(chunk_len);
    footer
}

fn refusal(groups: usize, footer: &[u8]) -> String {
    let object = with_footer(&vec![0; groups], footer);
    match Directory::of_object(&ENVELOPE, ID, &object) {
        Err(ContainerError::Footer { container: ID, source }) => source.expected.to_owned(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn footers_that_claim_too_much_are_refused() {
    let max = u64::from(MAX_GROUP_LEN);
    let fits = with_footer(&[0; 100], &footer_of(100, max, 1, max));
    assert_eq!(Directory::of_object(&ENVELOPE, ID, &fits).unwrap().groups[0].len, MAX_GROUP_LEN);
    assert_eq!(refusal(100, &footer_of(100, max + 1, 1, max + 1)), "a group's length");
    assert_eq!(refusal(100, &footer_of(max + 1, 5, 1, 5)), "a group's stored length");
    assert_eq!(refusal(100, &footer_of(100, 5, 1, 6)), "a chunk inside its group");
    assert_eq!(refusal(100, &footer_of(100, 5, 1, 4)), "chunks that fill their group");
    assert_eq!(refusal(100, &footer_of(100, 5, u64::MAX, 5)), "the count of chunks");
    assert_eq!(refusal(100, &footer_of(99, 5, 1, 5)), "groups that end where the footer begins");
    assert_eq!(refusal(100, &footer_of(101, 5, 1, 5)), "groups that end where the footer begins");
    let mut count = vec![0];
    count.put_varint(u64::MAX);
    assert_eq!(refusal(0, &count), "the count of groups");
    assert_eq!(refusal(0, &[2, 0]), "content 0 (data) or 1 (metadata)");
    let mut codec = footer_of(100, 5, 1, 5);
    codec[4] = 9;
    assert_eq!(refusal(100, &codec), "codec 0 (raw), 1 (zstd), 2 (LZ4) or 3 (DEFLATE)");
    let trailing = [footer_of(100, 5, 1, 5), vec![0]].concat();
    assert_eq!(refusal(100, &trailing), "the end");
}

#[test]
fn a_footer_length_beyond_the_container_is_refused() {
    let mut object = with_footer(&[0; 100], &footer_of(100, 5, 1, 5));
    let at = object.len() - 20;
    for len in [u32::MAX, (64 << 20) + 1, 64 << 20, object.len() as u32, object.len() as u32 - 67] {
        object[at..at + 4].copy_from_slice(&len.to_le_bytes());
        let error = Directory::of_object(&ENVELOPE, ID, &object).unwrap_err();
        let ContainerError::Envelope { source, .. } = error else { panic!("{error}") };
        match source {
            SealError::Truncated { .. } => assert!(len <= 64 << 20),
            SealError::TooLong { what: "footer", max, .. } => assert!(u64::from(len) > max),
            source => panic!("{source}"),
        }
    }
}

#[test]
fn groups_of_an_encrypted_container_lie_in_any_order_and_their_chunks_in_their_own() {
    let groups: Vec<_> =
        (0..6).map(|seed| vec![random(seed, 100), random(seed + 10, 200)]).collect();
    let mut firsts = [0; 6];
    for _ in 0..300 {
        let sealed = container_in(&encrypted(), Content::Data, &groups);
        let found = read_back(&sealed.directory, &stored(&sealed)).unwrap();
        let places: Vec<_> =
            groups.iter().map(|group| found.iter().position(|one| one == group).unwrap()).collect();
        firsts[places[0]] += 1;
    }
    // Of 50 expected; the chance of less than 15 is below 10^-7.
    assert!(firsts.iter().all(|count| *count >= 15), "{firsts:?}");
    // In clear an order hides nothing.
    let plain = container(Content::Data, &groups);
    assert_eq!(read_back(&plain.directory, &stored(&plain)).unwrap(), groups);
}

#[test]
fn a_padded_container_has_few_lengths_and_every_byte_of_its_padding_counts() {
    let envelope = encrypted().padding(true);
    let mut lengths = std::collections::BTreeSet::new();
    for len in (0..4000).step_by(7) {
        let sealed = container_in(&envelope, Content::Data, &[vec![random(1, 20_000 + len)]]);
        assert_eq!(padded_len(sealed.bytes.len() as u64), sealed.bytes.len() as u64);
        lengths.insert(sealed.bytes.len());
    }
    assert!(lengths.len() <= 6, "{lengths:?}");
    let sealed = container_in(&envelope, Content::Data, &[vec![random(1, 20_000)]]);
    let directory = &sealed.directory;
    let at = directory.groups.iter().position(GroupEntry::is_padding).unwrap();
    let padding = &directory.groups[at];
    assert!(padding.stored_len > 0 && directory.groups.len() == 2);
    assert_eq!(directory.group_of_object(&sealed.bytes, at as u32).unwrap(), b"".as_slice());
    for byte in 0..padding.stored_len as usize {
        let mut damaged = sealed.bytes.to_vec();
        damaged[padding.offset as usize + byte] ^= 1;
        assert!(directory.group_of_object(&damaged, at as u32).is_err());
    }
}

#[test]
fn a_group_that_decompresses_to_another_length_is_refused() {
    let sealed = container(Content::Data, &[vec![vec![5; 1000]]]);
    let group = &sealed.directory.groups[0];
    assert_eq!(group.codec, Codec::Zstd);
    let stored = &sealed.bytes[HEADER_LEN..HEADER_LEN + group.stored_len as usize];
    for len in [1u64, 999, 1001, u64::from(MAX_GROUP_LEN)] {
        let mut footer = footer_of(stored.len() as u64, len, 1, len);
        let check = footer.len() - 32 - 16 - 1 - varint_len(len);
        footer[check..check + 16].copy_from_slice(Check::of(&[stored]).as_bytes());
        let object = with_footer(stored, &footer);
        let directory = Directory::of_object(&ENVELOPE, ID, &object).unwrap();
        let error = directory.group_of_object(&object, 0).unwrap_err();
        assert!(matches!(error, ContainerError::Decompress { .. }), "{len}: {error}");
    }
}

fn varint_len(value: u64) -> usize {
    let mut bytes = Vec::new();
    bytes.put_varint(value);
    bytes.len()
}

#[test]
fn a_long_directory_is_read_whole_and_a_short_one_in_one_piece() {
    for (chunks, reads) in [(10, 1), (1900, 2), (2000, 3), (20_000, 3)] {
        let chunks: Vec<Vec<u8>> = (0..chunks as u32).map(|n| n.to_le_bytes().to_vec()).collect();
        let groups: Vec<_> = chunks.chunks(700).map(<[_]>::to_vec).collect();
        let sealed = container(Content::Data, &groups);
        let faults = Faults::none();
        let objects = Faulty::new(stored(&sealed), "memory", &faults);
        let (id, size) = (sealed.directory.id, sealed.bytes.len() as u64);
        let read = Directory::read(&objects, &ENVELOPE, id, size).unwrap();
        assert_eq!(read, sealed.directory);
        assert_eq!(faults.count(Operation::Get), reads, "{} chunks", chunks.len());
        assert_eq!(read_back(&read, &objects).unwrap(), groups);
    }
}

#[test]
fn each_of_many_directories_is_read_once() {
    // more than are read at a time
    const COUNT: u32 = 1100;
    let objects = MemoryObjects::new();
    let containers: Vec<(ObjectId, u64)> = (0..COUNT)
        .map(|number| {
            let sealed = container(Content::Data, &[vec![number.to_le_bytes().to_vec()]]);
            objects.put(&container_name(sealed.directory.id), sealed.bytes.clone()).unwrap();
            (sealed.directory.id, sealed.bytes.len() as u64)
        })
        .collect();
    let mut read = vec![0; containers.len()];
    let ended = Directory::read_many(&objects, &ENVELOPE, &containers, &mut |at, found| {
        assert_eq!(found.unwrap().0.id, containers[at].0);
        read[at] += 1;
        ControlFlow::Continue(())
    });
    assert!(ended.is_continue() && read.iter().all(|times| *times == 1));
}

#[test]
fn a_container_under_another_name_or_of_another_repository_is_refused() {
    let sealed = container(Content::Data, &[vec![b"chunk".to_vec()]]);
    let other = Directory::of_object(&ENVELOPE, ID, &sealed.bytes).unwrap_err();
    assert!(other.to_string().contains(&sealed.directory.id.to_string()), "{other}");
    let elsewhere = Envelope::plain(ID);
    let error = Directory::of_object(&elsewhere, sealed.directory.id, &sealed.bytes).unwrap_err();
    assert!(error.to_string().contains("belongs to repository"), "{error}");
}

#[test]
fn a_chunk_with_another_fingerprint_is_named() {
    let mut group = GroupBuilder::default();
    group.push(fingerprinter().fingerprint(b"right"), b"right");
    group.push(fingerprinter().fingerprint(b"promised"), b"given");
    let mut open = OpenContainer::new(&ENVELOPE, Content::Data);
    open.push(Compressor::new(1, Suite::Plain).unwrap().compress(&mut group).unwrap());
    let sealed = open.seal();
    let directory = &sealed.directory;
    let bytes = directory.group_of_object(&sealed.bytes, 0).unwrap();
    match directory.verify_group(0, &bytes, &fingerprinter()) {
        Err(ContainerError::WrongFingerprint { slot: 1, found, expected, .. }) => {
            assert_eq!(found, fingerprinter().fingerprint(b"given"));
            assert_eq!(expected, fingerprinter().fingerprint(b"promised"));
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(directory.chunk(2), Err(ContainerError::NoSuchSlot { slot: 2, .. })));
    assert!(directory.group_of_object(&sealed.bytes, 1).is_err());
}

#[test]
fn what_does_not_shrink_is_stored_raw() {
    let sealed = container(Content::Data, &[vec![random(1, 10_000)], vec![text(1, 10_000)]]);
    let [raw, zstd] = &sealed.directory.groups[..] else { panic!("two groups") };
    assert_eq!((raw.codec, raw.stored_len), (Codec::Raw, 10_000));
    assert_eq!(zstd.codec, Codec::Zstd);
    assert!(zstd.stored_len < 6000);
}

#[test]
fn names_and_ids_stand_for_each_other() {
    let id = ObjectId::random();
    let name = container_name(id);
    assert_eq!(container_id(&name), Some(id));
    let other_folder = format!("containers/zz/{id}");
    let upper = name.to_uppercase();
    for wrong in ["", "containers/", "index/00/", &other_folder, &upper, &format!("{name}#1")] {
        assert_eq!(container_id(wrong), None, "{wrong}");
    }
}

#[test]
#[should_panic(expected = "cannot take a chunk of")]
fn a_group_never_exceeds_its_limit() {
    let mut group = GroupBuilder::default();
    let (half, name) = (vec![0; MAX_GROUP_LEN as usize / 2], fingerprinter().fingerprint(b""));
    group.push(name, &half);
    group.push(name, &half);
    group.push(name, &[0, 0]);
}

#[test]
fn groups_exchanged_within_an_encrypted_container_or_between_two_are_refused() {
    let groups: Vec<_> = (0..3).map(|seed| vec![random(seed, 5000)]).collect();
    let [one, two] = [(); 2].map(|()| container_in(&encrypted(), Content::Data, &groups));
    let start = encrypted().start_len();
    let opened = |object: &[u8], group| one.directory.group_of_object(object, group);
    for group in 0..3 {
        assert!(groups.iter().any(|chunks| opened(&one.bytes, group).unwrap() == chunks[0]));
        // the other container has the same groups under another key
        assert!(opened(&two.bytes, group).is_err());
    }
    let mut exchanged = one.bytes.to_vec();
    let (first, rest) = exchanged[start..].split_at_mut(5000);
    first.swap_with_slice(&mut rest[..5000]);
    assert!(opened(&exchanged, 0).is_err() && opened(&exchanged, 1).is_err());
    assert!(opened(&exchanged, 2).is_ok());
    let mut transplanted = one.bytes.to_vec();
    transplanted[..start].copy_from_slice(&two.bytes[..start]);
    assert!(Directory::of_object(&encrypted(), one.directory.id, &transplanted).is_err());
}

#[test]
fn what_an_encrypted_container_holds_is_nowhere_in_its_bytes() {
    let chunk = text(1, 3000);
    let sealed = container_in(&encrypted(), Content::Data, &[vec![chunk.clone()]]);
    let plain = container(Content::Data, &[vec![chunk.clone()]]);
    let stored = &plain.bytes[HEADER_LEN..HEADER_LEN + 64];
    let has = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
    let print = fingerprinter().fingerprint(&chunk);
    for part in [&print.as_bytes()[..16], &stored[..16], &stored[48..]] {
        assert!(has(&plain.bytes, part) && !has(&sealed.bytes, part));
    }
    assert_eq!(sealed.bytes.len(), plain.bytes.len() + SALT_LEN, "nothing else is longer");
}
