//! Writing a container.

use bytes::Bytes;
use onefold_seal::wire::Put;
use onefold_seal::{CHECK_LEN, Envelope, Kind, ObjectId, Suite, padded_len, random_order};

use crate::directory::TRAILER_LEN;
use crate::{ChunkEntry, Codec, CompressedGroup, Content, Directory, GroupEntry, StoredFooter};

/// A container that still accepts groups. Nothing of it is durable.
///
/// In an encrypted repository sealing puts the groups into a random order, so that their offsets and
/// lengths do not reveal the order in which they were written. Chunks of a group stay together, which
/// compression and restore need.
///
/// Sealing also draws the id and the key. If a virtual machine is resumed twice from the same state, two
/// copies of an open container become two objects under two keys, never two contents under one key.
#[cfg_attr(test, derive(Clone))]
pub struct OpenContainer {
    envelope: Envelope,
    content: Content,
    groups: Vec<CompressedGroup>,
    /// Length in bytes so far.
    len: usize,
    chunks: usize,
}

impl OpenContainer {
    /// An empty container.
    pub fn new(envelope: &Envelope, content: Content) -> Self {
        let len = envelope.start_len();
        Self { envelope: envelope.clone(), content, groups: Vec::new(), len, chunks: 0 }
    }

    /// Adds a group.
    pub fn push(&mut self, mut group: CompressedGroup) {
        // Room for what compression might have needed stays behind.
        group.stored.shrink_to_fit();
        self.len += group.stored.len();
        self.chunks += group.chunks.len();
        self.groups.push(group);
    }

    /// Length in bytes so far, without the footer.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The number of chunks so far.
    pub fn chunks(&self) -> usize {
        self.chunks
    }

    /// Whether no group was pushed.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Closes the container: orders the groups, seals each in place, and appends footer, footer length and
    /// check.
    pub fn seal(mut self) -> SealedContainer {
        let (id, mut start) = (ObjectId::random(), Vec::new());
        let parts = self.envelope.begin(Kind::Container, id, &mut start);
        if self.envelope.pads() {
            let padding = self.padding();
            self.len += padding.stored.len();
            self.groups.push(padding);
        }
        if parts.suite() != Suite::Plain {
            let order = random_order(self.groups.len());
            let mut groups: Vec<_> = self.groups.into_iter().map(Some).collect();
            let taken = order.into_iter().filter_map(|at| groups[at].take());
            self.groups = taken.collect();
        }
        let footer_len = self.footer_len();
        let Self { content, groups, len, .. } = self;
        let mut bytes = Vec::with_capacity(len + footer_len + TRAILER_LEN);
        bytes.extend_from_slice(&start);
        let mut directory =
            Directory { id, content, groups: Vec::new(), chunks: Vec::new(), parts };
        // Each group is let go as soon as it has its place.
        groups.into_iter().for_each(|group| append(group, &mut bytes, &mut directory));
        let footer = directory.encode();
        debug_assert_eq!(footer.len(), footer_len);
        let start = bytes.len();
        bytes.extend_from_slice(&footer);
        let mut footer_len = Vec::with_capacity(4);
        footer_len.put_u32(footer.len() as u32);
        let check = directory.parts.seal_end(&mut bytes[start..], &footer_len);
        bytes.extend_from_slice(&footer_len);
        bytes.extend_from_slice(check.as_bytes());
        SealedContainer { bytes: bytes.into(), directory }
    }

    fn footer_len(&self) -> usize {
        let entry = |group: &CompressedGroup| {
            let lengths = varint_len(group.stored.len() as u64) + varint_len(group.len.into());
            let chunks = group.chunks.iter().map(|(_, len)| 32 + varint_len((*len).into()));
            let count = varint_len(group.chunks.len() as u64);
            lengths + 1 + CHECK_LEN + count + chunks.sum::<usize>()
        };
        1 + varint_len(self.groups.len() as u64) + self.groups.iter().map(entry).sum::<usize>()
    }

    /// A group without chunks that pads the container to its full length.
    fn padding(&self) -> CompressedGroup {
        let group = |len| CompressedGroup {
            stored: vec![0; len],
            codec: Codec::Raw,
            len: 0,
            check: None,
            chunks: Vec::new(),
        };
        let count = self.groups.len() as u64;
        let own = 3 + 1 + CHECK_LEN + varint_len(count + 1) - varint_len(count);
        let least = self.len + self.footer_len() + own + TRAILER_LEN;
        let mut target = padded_len(least as u64);
        loop {
            // The longer the padding, the longer its length in the footer.
            let room = target as usize - least;
            let fits =
                |extra: &usize| *extra <= room && varint_len((room - extra) as u64) == 1 + extra;
            match (0..10).find(fits) {
                Some(extra) => return group(room - extra),
                None => target = padded_len(target + 1),
            }
        }
    }
}

/// Appends a group and seals it in place, under the next number, so that no number is used twice.
fn append(group: CompressedGroup, bytes: &mut Vec<u8>, directory: &mut Directory) {
    let number = directory.groups.len() as u32;
    let mut offset = 0;
    for (fingerprint, len) in group.chunks {
        directory.chunks.push(ChunkEntry { fingerprint, group: number, offset, len });
        offset += len;
    }
    let start = bytes.len();
    bytes.extend_from_slice(&group.stored);
    let ahead = group.check.filter(|_| directory.parts.suite() == Suite::Plain);
    let check = ahead.unwrap_or_else(|| directory.parts.seal(number, &mut bytes[start..]));
    directory.groups.push(GroupEntry {
        offset: start as u64,
        stored_len: group.stored.len() as u32,
        len: group.len,
        codec: group.codec,
        check,
    });
}

/// The length of a varint in bytes.
fn varint_len(value: u64) -> usize {
    (value.max(1).ilog2() / 7 + 1) as usize
}

/// A complete container, ready to be put under its name.
#[derive(Debug)]
pub struct SealedContainer {
    /// Every byte of the object.
    pub bytes: Bytes,
    /// Its content.
    pub directory: Directory,
}

impl SealedContainer {
    /// Its footer as it is stored.
    pub fn footer(&self) -> StoredFooter {
        StoredFooter::of(&self.directory, &self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use onefold_seal::{HEADER_LEN, Key, Keys, SALT_LEN};

    use super::*;

    #[test]
    fn two_copies_of_an_open_container_are_sealed_under_two_keys() {
        let envelope = Envelope::encrypted(ObjectId::random(), Keys::new(Key::random()));
        let group = |byte| CompressedGroup {
            stored: vec![byte; 100],
            codec: Codec::Raw,
            len: 100,
            check: None,
            chunks: Vec::new(),
        };
        let mut one = OpenContainer::new(&envelope, Content::Data);
        one.push(group(1));
        let mut other = one.clone();
        one.push(group(2));
        other.push(group(3));
        let (one, other) = (one.seal(), other.seal());
        assert_ne!(one.directory.id, other.directory.id);
        let salt =
            |sealed: &SealedContainer| sealed.bytes[HEADER_LEN..HEADER_LEN + SALT_LEN].to_vec();
        assert_ne!(salt(&one), salt(&other));
    }
}
