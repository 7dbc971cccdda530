//! The lists: the chunks of all objects, in the order in which the objects were added.
//!
//! Chunks that were added together are adjacent. So a look-up of one also loads its neighbours on the same
//! page, and the next chunks of a stream are usually the next ones here.

use std::sync::RwLock;

use onefold_fingerprint::Fingerprint;

use crate::IndexError;
use crate::page::{BODY, PAGE, Sealed, u16_at, u32_at};

/// The name of the file.
pub(crate) const NAME: &str = "lists";

/// A chunk of an object: its fingerprint and its length in bytes. Its slot is its position. A chunk of zero
/// bytes marks an unused slot.
pub type Listed = (Fingerprint, u32);

/// Bytes before the first chunk of a page: the object, the first slot, the number of chunks.
const HEADER: usize = 10;
/// Bytes of a chunk.
const ENTRY: usize = 36;
/// The maximum number of chunks on a page.
pub(crate) const ROOM: usize = (BODY - HEADER) / ENTRY;

/// A page of one object's list.
pub(crate) struct ListPage<'a>(&'a [u8]);

impl<'a> ListPage<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The number of the object.
    pub(crate) fn object(&self) -> u32 {
        u32_at(self.0, 0)
    }

    /// The slot of the first chunk.
    pub(crate) fn first_slot(&self) -> u32 {
        u32_at(self.0, 4)
    }

    /// The chunks.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = Listed> + use<'a> {
        let len = usize::from(u16_at(self.0, 8)).min(ROOM);
        self.0[HEADER..HEADER + len * ENTRY].chunks_exact(ENTRY).map(|entry| {
            let fingerprint = entry[..32].try_into().expect("32 bytes");
            (Fingerprint::from_bytes(fingerprint), u32_at(entry, 32))
        })
    }

    /// Slot and length of `fingerprint`.
    pub(crate) fn find(&self, fingerprint: &Fingerprint) -> Option<(u32, u32)> {
        let at = |(at, (_, len))| (self.first_slot() + at, len);
        (0u32..)
            .zip(self.chunks())
            .find(|(_, (other, len))| other == fingerprint && *len > 0)
            .map(at)
    }
}

/// All lists.
pub(crate) struct Lists {
    file: RwLock<Sealed>,
}

impl Lists {
    pub(crate) fn new(file: Sealed) -> Self {
        Self { file: RwLock::new(file) }
    }

    /// Writes the list of `object` to the pages from `first` on, and returns their number.
    pub(crate) fn write(
        &self,
        first: u32,
        object: u32,
        chunks: &[Listed],
    ) -> Result<u32, IndexError> {
        let mut file = self.file.write().expect("no thread panics with the lists locked");
        let mut page = first;
        for (number, part) in chunks.chunks(ROOM).enumerate() {
            let mut bytes = [0; PAGE];
            bytes[..4].copy_from_slice(&object.to_le_bytes());
            bytes[4..8].copy_from_slice(&((number * ROOM) as u32).to_le_bytes());
            bytes[8..HEADER].copy_from_slice(&(part.len() as u16).to_le_bytes());
            for (entry, (fingerprint, len)) in bytes[HEADER..].chunks_exact_mut(ENTRY).zip(part) {
                entry[..32].copy_from_slice(fingerprint.as_bytes());
                entry[32..].copy_from_slice(&len.to_le_bytes());
            }
            file.write(u64::from(page), &mut bytes)?;
            page = page.checked_add(1).ok_or(IndexError::Unfit("the lists are too long"))?;
        }
        Ok(page - first)
    }

    /// Fills `into` with the pages from `first` on.
    pub(crate) fn read(&self, first: u32, into: &mut [u8]) -> Result<(), IndexError> {
        let file = self.file.read().expect("no thread panics with the lists locked");
        file.read(u64::from(first), into)
    }

    /// Makes the lists durable.
    pub(crate) fn sync(&self) -> Result<(), IndexError> {
        self.file.write().expect("no thread panics with the lists locked").sync()
    }
}
