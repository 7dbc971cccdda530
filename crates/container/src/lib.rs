//! Containers: objects that store the bytes of distinct chunks.
//!
//! A *container* is one immutable object of about 16 MiB. It holds *groups* of neighbouring chunks that
//! are compressed together, so that small chunks compress as well as large ones. The size of groups is
//! bounded, so that reading one chunk decompresses a bounded number of bytes. A footer lists groups and
//! chunks, so that an index can be rebuilt from the containers alone.
//!
//! Writing goes [`GroupBuilder`] → [`Compressor`] → [`OpenContainer`] → [`SealedContainer`], whose
//! bytes the caller puts under [`container_name`]. A writer that stores each group immediately uses an
//! [`AppendedContainer`] instead. Reading goes [`Directory::read`] → [`Directory::read_group`] →
//! [`ChunkEntry::range`].
//!
//! A container does not know what refers to its chunks. docs/format.md has its layout.

mod appended;
mod codec;
mod directory;
mod error;
mod group;
mod open;
mod sample;

pub use appended::AppendedContainer;
pub use codec::{Codec, decompress_into};
pub use directory::{ChunkEntry, Directory, GroupEntry, MAX_FOOTER_LEN, StoredFooter, least_len};
pub use error::ContainerError;
pub use group::{CompressedGroup, Compressor, GroupBuilder, MAX_GROUP_LEN};
pub use open::{OpenContainer, SealedContainer};

use onefold_seal::ObjectId;

/// The content of a container's chunks. Metadata is kept apart, so that it can be read without data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Content {
    /// Bytes of files.
    Data,
    /// Trees and recipes.
    Metadata,
}

impl Content {
    const fn code(self) -> u8 {
        match self {
            Content::Data => 0,
            Content::Metadata => 1,
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Content::Data),
            1 => Some(Content::Metadata),
            _ => None,
        }
    }
}

/// The prefix of containers in a repository.
pub const PREFIX: &str = "containers/";

/// The name of container `id`: in one of 256 folders, by its first byte.
pub fn container_name(id: ObjectId) -> String {
    let id = id.to_string();
    format!("{PREFIX}{}/{id}", &id[..2])
}

/// The id in `name`, or `None` if it is not the name of a container.
pub fn container_id(name: &str) -> Option<ObjectId> {
    let id = name.rsplit('/').next()?.parse().ok()?;
    (container_name(id) == name).then_some(id)
}
