//! Containers that no pool wrote, under the names of a pool's own.

use std::path::Path;

use onefold_container::{AppendedContainer, Codec, Content, GroupEntry};
use onefold_fingerprint::Fingerprint;
use onefold_seal::{Check, Envelope, ObjectId};

/// A container's file, one group after the other.
pub(crate) struct Forged {
    container: AppendedContainer,
    file: Vec<u8>,
}

impl Forged {
    /// Begins container `number` of the pool at `root`.
    pub(crate) fn new(root: &Path, number: u8) -> Self {
        let id: [u8; 16] = std::fs::read(root.join("pool")).unwrap()[16..32].try_into().unwrap();
        let envelope = Envelope::plain(ObjectId::from_bytes(id));
        let mut name = [0; 16];
        name[15] = number;
        let name = ObjectId::from_bytes(name);
        let (container, file) = AppendedContainer::new(&envelope, name, Content::Data);
        Self { container, file }
    }

    /// Adds a group that is stored as these bytes and has these chunks, with an entry that is right for
    /// bytes which are not compressed but for what `change` makes of it.
    pub(crate) fn add(
        &mut self,
        stored: &[u8],
        chunks: impl IntoIterator<Item = (Fingerprint, u32)>,
        change: impl FnOnce(&mut GroupEntry),
    ) {
        let (offset, len) = (self.file.len() as u64, stored.len() as u32);
        let check = Check::of(&[stored]);
        let mut group = GroupEntry { offset, stored_len: len, len, codec: Codec::Raw, check };
        change(&mut group);
        self.container.enter(group, chunks);
        self.file.extend_from_slice(stored);
    }

    /// The file, with its footer.
    pub(crate) fn end(mut self) -> Vec<u8> {
        self.file.extend_from_slice(&self.container.footer());
        self.file
    }
}
