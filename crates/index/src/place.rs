//! What the index answers.

use onefold_seal::wire::{Put, Reader, WireError};

/// Where a chunk lies: an object, a slot in it, and the chunk's length.
///
/// Objects are numbered by whoever holds the list of them: a run by its `covers`, an open index by
/// what it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The object's number.
    pub container: u32,
    /// The chunk's slot in it.
    pub slot: u32,
    /// The chunk's length in bytes.
    pub len: u32,
}

impl Place {
    /// Appends the place's bytes.
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.put_u32(self.container);
        bytes.put_u32(self.slot);
        bytes.put_u32(self.len);
    }

    /// Takes a place's bytes from `reader`.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self {
            container: reader.u32("a container's number")?,
            slot: reader.u32("a slot")?,
            len: reader.u32("a chunk's length")?,
        })
    }
}

/// A place that may be stale: verify the bytes before sharing them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hint(pub Place);

/// What [`Index::claim`](crate::Index::claim) found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// The chunk was unknown. The caller now owes its bytes: it stores them and publishes where.
    New,
    /// Someone claimed the chunk and has not published it yet.
    Pending,
    /// The chunk lies there.
    Known(Hint),
}
