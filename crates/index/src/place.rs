//! Answers of the index.

use onefold_seal::wire::{Put, Reader, WireError};

/// The place of a chunk: an object, a slot in it, and the chunk's length.
///
/// The number of an object depends on the context: in a run it is the position in `covers`, in an open index
/// the number that the caller gave.
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

/// A place that may be stale: the caller must verify the bytes before sharing them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hint(pub Place);

/// The result of [`Index::claim`](crate::Index::claim).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// The chunk was unknown. The caller must store its bytes and publish their place.
    New,
    /// Another caller claimed the chunk and has not published it yet.
    Pending,
    /// The place of the chunk.
    Known(Hint),
}
