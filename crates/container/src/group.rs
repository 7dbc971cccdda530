//! Groups: neighbouring chunks, compressed together.

use onefold_fingerprint::Fingerprint;
use onefold_seal::{Check, Suite};

use crate::codec::Shrinker;
use crate::sample::is_incompressible;
use crate::{Codec, ContainerError};

/// No group is longer than this before compression: the longest chunk fits, and little more.
pub const MAX_GROUP_LEN: u32 = 65 << 20;

/// Collects chunks until there are enough for a group.
#[derive(Debug, Default)]
pub struct GroupBuilder {
    bytes: Vec<u8>,
    chunks: Vec<(Fingerprint, u32)>,
}

impl GroupBuilder {
    /// Appends a chunk.
    ///
    /// # Panics
    /// If the group would exceed [`MAX_GROUP_LEN`].
    pub fn push(&mut self, fingerprint: Fingerprint, chunk: &[u8]) {
        assert!(
            self.bytes.len() + chunk.len() <= MAX_GROUP_LEN as usize,
            "a group of {} bytes cannot take a chunk of {}",
            self.bytes.len(),
            chunk.len()
        );
        self.bytes.extend_from_slice(chunk);
        self.chunks.push((fingerprint, chunk.len() as u32));
    }

    /// Length in bytes of the chunks so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether no chunk was pushed.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }
}

/// A group ready to be appended to a container.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub struct CompressedGroup {
    pub(crate) stored: Vec<u8>,
    pub(crate) codec: Codec,
    pub(crate) len: u32,
    /// Known ahead where nothing is encrypted; a tag is known once the group has its place.
    pub(crate) check: Option<Check>,
    pub(crate) chunks: Vec<(Fingerprint, u32)>,
}

impl CompressedGroup {
    /// How the stored bytes give the group's.
    pub const fn codec(&self) -> Codec {
        self.codec
    }

    /// What the group takes in its container, before it is encrypted.
    pub fn stored(&self) -> &[u8] {
        &self.stored
    }

    /// Length in bytes that the group takes in its container.
    pub fn stored_len(&self) -> usize {
        self.stored.len()
    }
}

/// Compresses groups; one for each thread, because it holds the compressor's working memory.
pub struct Compressor {
    shrinker: Shrinker,
    suite: Suite,
}

impl Compressor {
    /// A compressor of zstd level `level`, for containers protected by `suite`.
    pub fn new(level: i32, suite: Suite) -> Result<Self, ContainerError> {
        Ok(Self { shrinker: Shrinker::zstd(level)?, suite })
    }

    /// One that uses `codec` at a level that is fast.
    pub fn of(codec: Codec, suite: Suite) -> Result<Self, ContainerError> {
        Ok(Self { shrinker: Shrinker::of(codec)?, suite })
    }

    /// Bytes that [`compress_into`](Self::compress_into) may write for a chunk of `len` bytes, before
    /// it knows how many stay.
    pub fn bound(&self, len: usize) -> usize {
        self.shrinker.bound(len)
    }

    /// Writes the stored bytes of one chunk, that is to be a group of its own, to the beginning of
    /// `stored`, as they are where nothing is encrypted; how they give the chunk, and how many they
    /// are.
    ///
    /// # Panics
    ///
    /// If `stored` is shorter than [`bound`](Self::bound) of the chunk.
    pub fn compress_into(
        &mut self,
        chunk: &[u8],
        stored: &mut [u8],
    ) -> Result<(Codec, usize), ContainerError> {
        let bound = self.bound(chunk.len());
        assert!(stored.len() >= bound, "room for {} bytes, expected {bound}", stored.len());
        if is_incompressible(chunk) {
            stored[..chunk.len()].copy_from_slice(chunk);
            return Ok((Codec::Raw, chunk.len()));
        }
        self.shrinker.shrink_into(chunk, stored)
    }

    /// Compresses what `group` holds and empties it. Bytes that do not shrink, or that do not look
    /// as if they would, are stored raw.
    pub fn compress(
        &mut self,
        group: &mut GroupBuilder,
    ) -> Result<CompressedGroup, ContainerError> {
        let len = group.bytes.len();
        let (codec, stored) = match is_incompressible(&group.bytes) {
            true => (Codec::Raw, group.bytes.clone()),
            false => self.shrinker.shrink(&group.bytes)?,
        };
        group.bytes.clear();
        let check = (self.suite == Suite::Plain).then(|| Check::of(&[&stored]));
        let chunks = std::mem::take(&mut group.chunks);
        Ok(CompressedGroup { stored, codec, len: len as u32, check, chunks })
    }
}
