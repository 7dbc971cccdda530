//! Writing a container group by group, for those who keep each group before the next one comes.

use onefold_fingerprint::Fingerprint;
use onefold_seal::wire::Put;
use onefold_seal::{Envelope, Kind, ObjectId, Suite};

use crate::{ChunkEntry, CompressedGroup, Content, Directory, GroupEntry};

/// A container whose bytes are handed out as they come, to be appended to a file.
///
/// What is appended is what [`OpenContainer`](crate::OpenContainer) makes of the same groups, byte
/// by byte, but that groups stay in the order in which they came and nothing is padded.
#[derive(Debug, Clone)]
pub struct AppendedContainer {
    directory: Directory,
    /// Length in bytes so far.
    len: u64,
}

impl AppendedContainer {
    /// A container `id` without groups, and the bytes that it begins with.
    pub fn new(envelope: &Envelope, id: ObjectId, content: Content) -> (Self, Vec<u8>) {
        let mut start = Vec::new();
        let parts = envelope.begin(Kind::Container, id, &mut start);
        let directory = Directory { id, content, groups: Vec::new(), chunks: Vec::new(), parts };
        (Self { directory, len: start.len() as u64 }, start)
    }

    /// Takes up a group; returns the bytes to append.
    pub fn push(&mut self, group: CompressedGroup) -> Vec<u8> {
        let number = self.directory.groups.len() as u32;
        let CompressedGroup { mut stored, codec, len, check, chunks } = group;
        let parts = &self.directory.parts;
        let ahead = check.filter(|_| parts.suite() == Suite::Plain);
        let check = ahead.unwrap_or_else(|| parts.seal(number, &mut stored));
        let stored_len = stored.len() as u32;
        let entry = GroupEntry { offset: self.len, stored_len, len, codec, check };
        self.enter(entry, chunks);
        stored
    }

    /// Takes up a group whose bytes were appended before.
    pub fn enter(
        &mut self,
        group: GroupEntry,
        chunks: impl IntoIterator<Item = (Fingerprint, u32)>,
    ) {
        let number = self.directory.groups.len() as u32;
        self.len = group.offset + u64::from(group.stored_len);
        self.directory.groups.push(group);
        let mut offset = 0;
        for (fingerprint, len) in chunks {
            self.directory.chunks.push(ChunkEntry { fingerprint, group: number, offset, len });
            offset += len;
        }
    }

    /// Takes back the group that came last, whose bytes could not be kept.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn pop(&mut self) {
        let group = self.directory.groups.pop().expect("a group to take back");
        let number = self.directory.groups.len() as u32;
        self.directory.chunks.retain(|chunk| chunk.group != number);
        self.len = group.offset;
    }

    /// What it holds so far.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Length in bytes so far.
    #[expect(clippy::len_without_is_empty, reason = "it begins with a header")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The bytes to append when no further group comes: footer, footer length and check.
    pub fn footer(&self) -> Vec<u8> {
        let mut end = self.directory.encode();
        let mut footer_len = Vec::with_capacity(4);
        footer_len.put_u32(end.len() as u32);
        let check = self.directory.parts.seal_end(&mut end, &footer_len);
        end.extend_from_slice(&footer_len);
        end.extend_from_slice(check.as_bytes());
        end
    }
}
