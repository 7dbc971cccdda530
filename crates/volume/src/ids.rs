//! Names and numbers of writers, volumes, containers and pages.

use std::fmt;

use onefold_seal::ObjectId;
use onefold_seal::wire::{Put, Reader, WireError};

/// One opening of a pool. A later one has a higher number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Writer(pub u64);

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The format of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Maps and tables of pages are in memory, and a checkpoint has all of them.
    Whole,
    /// They are in files of nodes, of which memory holds some.
    Paged,
}

impl Version {
    /// The one that new pools have.
    pub const NEWEST: Self = Self::Paged;

    pub(crate) const LAST: u32 = Self::NEWEST.code();

    /// The number that the file `pool` has for it.
    pub const fn code(self) -> u32 {
        match self {
            Self::Whole => 1,
            Self::Paged => 2,
        }
    }

    pub(crate) fn from_code(code: u32) -> Option<Self> {
        [Self::Whole, Self::Paged].into_iter().find(|one| one.code() == code)
    }
}

/// Which volume of a pool; never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId(pub(crate) u32);

impl VolumeId {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        reader.varint_to(u32::MAX.into(), "a volume").map(|number| Self(number as u32))
    }
}

/// The file of container `number`.
pub(crate) fn container_name(number: u32) -> String {
    format!("container-{number:08x}")
}

/// The number of the container whose file has this name.
pub(crate) fn container_of(name: &str) -> Option<u32> {
    let number = u32::from_str_radix(name.strip_prefix("container-")?, 16).ok()?;
    (container_name(number) == name).then_some(number)
}

pub(crate) fn is_container(name: &str) -> bool {
    container_of(name).is_some()
}

/// The id in a container's header.
pub(crate) fn container_id(number: u32) -> ObjectId {
    let mut id = [0; ObjectId::LEN];
    id[12..].copy_from_slice(&number.to_be_bytes());
    ObjectId::from_bytes(id)
}

/// The number of the container with this id.
pub(crate) fn number_of(id: ObjectId) -> u32 {
    let [.., a, b, c, d] = *id.as_bytes();
    u32::from_be_bytes([a, b, c, d])
}

/// A container that shards of a cluster share: by whom, and as which of its containers, it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharedName {
    /// The shard.
    pub shard: ObjectId,
    /// The writer of that shard, from 1.
    pub writer: Writer,
    /// The number that the container has in that shard, from 1.
    pub number: u64,
}

impl fmt::Display for SharedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shard, writer, number } = self;
        write!(f, "container {number} of writer {writer} of shard {shard}")
    }
}

/// A page: which container, and which of its slots. Or a hole, which reads as zeros.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Handle(u64);

impl Handle {
    pub(crate) const HOLE: Self = Self(0);

    /// The page in slot `slot` of container `container`, which is not zero.
    pub(crate) fn new(container: u32, slot: u32) -> Self {
        assert!(container > 0, "containers count from 1");
        Self(u64::from(container) << 32 | u64::from(slot))
    }

    /// As tables keep it.
    pub(crate) const fn from_u64(handle: u64) -> Self {
        Self(handle)
    }

    pub(crate) const fn to_u64(self) -> u64 {
        self.0
    }

    pub(crate) const fn is_hole(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn container(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(crate) const fn slot(self) -> u32 {
        self.0 as u32
    }

    pub(crate) fn encode(self, body: &mut Vec<u8>) {
        body.put_varint(self.container().into());
        if !self.is_hole() {
            body.put_varint(self.slot().into());
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let max = u64::from(u32::MAX);
        match reader.varint_to(max, "a container")? {
            0 => Ok(Self::HOLE),
            container => {
                let slot = reader.varint_to(max, "a slot")?;
                Ok(Self::new(container as u32, slot as u32))
            }
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_hole() {
            true => f.write_str("Handle(hole)"),
            false => write!(f, "Handle({}, {})", self.container(), self.slot()),
        }
    }
}
