//! A container that is written to a file group by group.

use onefold_fingerprint::Fingerprint;
use onefold_seal::wire::Put;
use onefold_seal::{Envelope, Kind, ObjectId, Suite};

use crate::{ChunkEntry, Content, Directory, GroupEntry};

/// The directory of a container that is written to a file group by group.
///
/// The caller writes the stored bytes of the groups, with their checks; the container is not encrypted.
/// Its bytes are those that [`OpenContainer`](crate::OpenContainer) would write for the same groups: the
/// header, the stored bytes of the groups in their order, and the footer.
#[derive(Debug, Clone)]
pub struct AppendedContainer {
    directory: Directory,
    /// Length in bytes so far.
    len: u64,
}

impl AppendedContainer {
    /// A container `id` without groups, and its header.
    ///
    /// # Panics
    ///
    /// If `envelope` encrypts.
    pub fn new(envelope: &Envelope, id: ObjectId, content: Content) -> (Self, Vec<u8>) {
        let mut start = Vec::new();
        let parts = envelope.begin(Kind::Container, id, &mut start);
        assert!(parts.suite() == Suite::Plain, "checks of what is encrypted are its tags");
        let directory = Directory { id, content, groups: Vec::new(), chunks: Vec::new(), parts };
        (Self { directory, len: start.len() as u64 }, start)
    }

    /// Adds a group whose stored bytes are at its offset.
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

    /// Its content so far.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Length in bytes so far.
    #[expect(clippy::len_without_is_empty, reason = "it begins with a header")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The bytes to append after the last group: footer, footer length and check.
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
