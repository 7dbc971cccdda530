//! Writing a container.

use bytes::Bytes;
use onefold_seal::wire::Put;
use onefold_seal::{Envelope, Kind, ObjectId, Suite};

use crate::{ChunkEntry, CompressedGroup, Content, Directory, GroupEntry};

/// A container that still takes groups. Nothing of it is durable.
#[derive(Debug)]
pub struct OpenContainer {
    bytes: Vec<u8>,
    directory: Directory,
}

impl OpenContainer {
    /// An empty container with a new id, which is about to take `expected_len` bytes.
    ///
    /// Room that is not used costs no memory; growing past it copies the container.
    pub fn new(envelope: &Envelope, content: Content, expected_len: usize) -> Self {
        let id = ObjectId::random();
        let mut bytes = Vec::with_capacity(expected_len);
        let parts = envelope.begin(Kind::Container, id, &mut bytes);
        let (groups, chunks) = (Vec::new(), Vec::new());
        Self { bytes, directory: Directory { id, content, groups, chunks, parts } }
    }

    /// Appends a group, and seals it where it lies: its number is the next, so no number is used
    /// twice.
    pub fn push(&mut self, group: CompressedGroup) {
        let number = self.directory.groups.len() as u32;
        let mut offset = 0;
        for (fingerprint, len) in group.chunks {
            let group = number;
            self.directory.chunks.push(ChunkEntry { fingerprint, group, offset, len });
            offset += len;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&group.stored);
        let parts = &self.directory.parts;
        let ahead = group.check.filter(|_| parts.suite() == Suite::Plain);
        let check = ahead.unwrap_or_else(|| parts.seal(number, &mut self.bytes[start..]));
        self.directory.groups.push(GroupEntry {
            offset: start as u64,
            stored_len: group.stored.len() as u32,
            len: group.len,
            codec: group.codec,
            check,
        });
    }

    /// Length in bytes so far, without the footer.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// How many chunks so far.
    pub fn chunks(&self) -> usize {
        self.directory.chunks.len()
    }

    /// Whether no group was pushed.
    pub fn is_empty(&self) -> bool {
        self.directory.groups.is_empty()
    }

    /// Closes the container: appends footer, footer length and check.
    pub fn seal(mut self) -> SealedContainer {
        let footer = self.directory.encode();
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&footer);
        let mut footer_len = Vec::with_capacity(4);
        footer_len.put_u32(footer.len() as u32);
        let check = self.directory.parts.seal_end(&mut self.bytes[start..], &footer_len);
        self.bytes.extend_from_slice(&footer_len);
        self.bytes.extend_from_slice(check.as_bytes());
        SealedContainer { bytes: self.bytes.into(), directory: self.directory }
    }
}

/// A whole container, ready to be put under its name.
#[derive(Debug)]
pub struct SealedContainer {
    /// Every byte of the object.
    pub bytes: Bytes,
    /// What it holds.
    pub directory: Directory,
}
