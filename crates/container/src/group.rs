//! Groups: neighbouring chunks, compressed together.

use onefold_fingerprint::Fingerprint;
use onefold_seal::{Check, Suite};

use crate::codec::Shrinker;
use crate::sample::is_incompressible;
use crate::{Codec, ContainerError};

/// The maximum length of a group before compression: the longest chunk fits, with little extra.
pub const MAX_GROUP_LEN: u32 = 65 << 20;

/// Collects chunks for a group.
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

/// A group that is ready to be appended to a container.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub struct CompressedGroup {
    pub(crate) stored: Vec<u8>,
    pub(crate) codec: Codec,
    pub(crate) len: u32,
    /// The check, if nothing is encrypted; a tag is computed when the group has its place.
    pub(crate) check: Option<Check>,
    pub(crate) chunks: Vec<(Fingerprint, u32)>,
}

impl CompressedGroup {
    /// The codec of the stored bytes.
    pub const fn codec(&self) -> Codec {
        self.codec
    }

    /// The stored bytes of the group before encryption.
    pub fn stored(&self) -> &[u8] {
        &self.stored
    }

    /// Length in bytes of the group in its container.
    pub fn stored_len(&self) -> usize {
        self.stored.len()
    }
}

/// Compresses groups. Each thread has its own, because it holds the compressor's working memory.
pub struct Compressor {
    shrinker: Shrinker,
    suite: Suite,
}

impl Compressor {
    /// A compressor with zstd level `level`, for containers protected by `suite`.
    pub fn new(level: i32, suite: Suite) -> Result<Self, ContainerError> {
        Ok(Self { shrinker: Shrinker::zstd(level)?, suite })
    }

    /// A compressor that uses `codec` at a fast level.
    pub fn of(codec: Codec, suite: Suite) -> Result<Self, ContainerError> {
        Ok(Self { shrinker: Shrinker::of(codec)?, suite })
    }

    /// The bytes that [`compress_into`](Self::compress_into) may need as working space for a chunk of
    /// `len` bytes.
    pub fn bound(&self, len: usize) -> usize {
        self.shrinker.bound(len)
    }

    /// Compresses one chunk as a group of its own to the beginning of `stored`, without encryption.
    /// Returns the codec and the number of stored bytes.
    ///
    /// # Panics
    ///
    /// If `stored` is shorter than the [`bound`](Self::bound) of the chunk.
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

    /// Compresses the content of `group` and empties it. Bytes that do not shrink, or whose sample says so,
    /// are stored raw.
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
