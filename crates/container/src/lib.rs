//! Containers: where the bytes of distinct chunks rest.
//!
//! A *container* is one immutable object of about 16 MiB. It holds *groups*: neighbouring chunks
//! compressed together, so that small chunks shrink as well as large ones, and few enough that
//! reading one chunk decompresses a bounded amount. A footer lists groups and chunks, so that any
//! index can be rebuilt from the containers alone.
//!
//! Writing goes [`GroupBuilder`] → [`Compressor`] → [`OpenContainer`] → [`SealedContainer`], whose
//! bytes the caller puts under [`container_name`]; who keeps each group at once has an
//! [`AppendedContainer`]. Reading goes [`Directory::read`] →
//! [`Directory::read_group`] → [`ChunkEntry::range`].
//!
//! A container does not know who refers to its chunks. Its layout is in docs/format.md.

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

/// What a container's chunks are, so that metadata is read without wading through data.
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

/// Under which prefix of a repository containers lie.
pub const PREFIX: &str = "containers/";

/// The name of container `id`: in one of 256 folders, by its first byte.
pub fn container_name(id: ObjectId) -> String {
    let id = id.to_string();
    format!("{PREFIX}{}/{id}", &id[..2])
}

/// The id that `name` stands for, or `None` if it is no container's name.
pub fn container_id(name: &str) -> Option<ObjectId> {
    let id = name.rsplit('/').next()?.parse().ok()?;
    (container_name(id) == name).then_some(id)
}
