//! A container that grows at its end, group by group, for those who keep each group before the next
//! one comes.

use onefold_fingerprint::Fingerprint;
use onefold_seal::wire::Put;
use onefold_seal::{Envelope, Kind, ObjectId, Suite};

use crate::{ChunkEntry, Content, Directory, GroupEntry};

/// What is in a container that is written to a file as its groups come.
///
/// Whoever writes it has the stored bytes and their checks, so that it is one that is not encrypted.
/// Its bytes are what [`OpenContainer`](crate::OpenContainer) makes of the same groups: those that it
/// begins with, the stored bytes of the groups in the order in which they came, and the footer.
#[derive(Debug, Clone)]
pub struct AppendedContainer {
    directory: Directory,
    /// Length in bytes so far.
    len: u64,
}

impl AppendedContainer {
    /// A container `id` without groups, and the bytes that it begins with.
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

    /// Takes up a group whose stored bytes lie where it says.
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
