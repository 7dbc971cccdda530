//! Groups: neighbouring chunks, compressed together.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io;

use onefold_fingerprint::Fingerprint;
use onefold_seal::{Check, Suite};

use crate::ContainerError;
use crate::sample::is_incompressible;

/// No group is longer than this before compression: the longest chunk fits, and little more.
pub const MAX_GROUP_LEN: u32 = 65 << 20;

/// How the stored bytes of a group give its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Codec {
    /// Stored as they are.
    Raw,
    /// One zstd frame.
    Zstd,
}

impl Codec {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Codec::Raw => 0,
            Codec::Zstd => 1,
        }
    }

    pub(crate) const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Codec::Raw),
            1 => Some(Codec::Zstd),
            _ => None,
        }
    }
}

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
pub struct CompressedGroup {
    pub(crate) stored: Vec<u8>,
    pub(crate) codec: Codec,
    pub(crate) len: u32,
    /// Known ahead where nothing is encrypted; a tag is known once the group has its place.
    pub(crate) check: Option<Check>,
    pub(crate) chunks: Vec<(Fingerprint, u32)>,
}

impl CompressedGroup {
    /// A group of one chunk, compressed before.
    pub fn of_chunk(stored: Vec<u8>, codec: Codec, fingerprint: Fingerprint, len: u32) -> Self {
        let check = Some(Check::of(&[&stored]));
        Self { stored, codec, len, check, chunks: vec![(fingerprint, len)] }
    }

    /// How the stored bytes give the group's.
    pub const fn codec(&self) -> Codec {
        self.codec
    }

    /// Length in bytes that the group takes in its container.
    pub fn stored_len(&self) -> usize {
        self.stored.len()
    }
}

/// Compresses groups; one for each thread, because it holds the compressor's working memory.
pub struct Compressor {
    zstd: zstd::bulk::Compressor<'static>,
    suite: Suite,
}

impl Compressor {
    /// A compressor of zstd level `level`, for containers protected by `suite`.
    pub fn new(level: i32, suite: Suite) -> Result<Self, ContainerError> {
        let zstd = zstd::bulk::Compressor::new(level)
            .map_err(|e| ContainerError::Compress { len: 0, reason: e.to_string() })?;
        Ok(Self { zstd, suite })
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
            false => self.shrink(&group.bytes)?,
        };
        group.bytes.clear();
        let check = (self.suite == Suite::Plain).then(|| Check::of(&[&stored]));
        let chunks = std::mem::take(&mut group.chunks);
        Ok(CompressedGroup { stored, codec, len: len as u32, check, chunks })
    }

    /// The shorter of the compressed bytes and the bytes themselves.
    fn shrink(&mut self, bytes: &[u8]) -> Result<(Codec, Vec<u8>), ContainerError> {
        let len = bytes.len();
        let mut stored = Vec::with_capacity(zstd::zstd_safe::compress_bound(len));
        self.zstd
            .compress_to_buffer(bytes, &mut stored)
            .map_err(|e| ContainerError::Compress { len, reason: e.to_string() })?;
        if stored.len() < len {
            return Ok((Codec::Zstd, stored));
        }
        stored.clear();
        stored.extend_from_slice(bytes);
        Ok((Codec::Raw, stored))
    }
}

thread_local! {
    /// The decompressor's working memory, once this thread needs it: 160 KB that would be taken
    /// and given back for each group.
    static DECOMPRESSOR: RefCell<Option<zstd::bulk::Decompressor<'static>>> =
        const { RefCell::new(None) };
}

/// Fills `bytes` with those of a group from its stored bytes, or says why it cannot.
pub fn decompress_into(codec: Codec, stored: &[u8], bytes: &mut [u8]) -> Result<(), String> {
    let len = match codec {
        Codec::Raw if stored.len() == bytes.len() => {
            bytes.copy_from_slice(stored);
            stored.len()
        }
        Codec::Raw => stored.len(),
        Codec::Zstd => with_decompressor(|zstd| zstd.decompress_to_buffer(stored, bytes))?,
    };
    if len == bytes.len() { Ok(()) } else { Err(format!("it gives {len} bytes")) }
}

fn with_decompressor<T>(
    work: impl FnOnce(&mut zstd::bulk::Decompressor<'static>) -> io::Result<T>,
) -> Result<T, String> {
    DECOMPRESSOR.with_borrow_mut(|zstd| {
        let zstd = match zstd {
            Some(zstd) => zstd,
            None => zstd.insert(zstd::bulk::Decompressor::new().map_err(|e| e.to_string())?),
        };
        work(zstd).map_err(|e| e.to_string())
    })
}

/// The bytes of a group from its stored bytes; exactly `len` of them or an error that says why.
/// They are in `buffer`, if it was of use.
pub(crate) fn decompress(
    codec: Codec,
    stored: Cow<'_, [u8]>,
    len: u32,
    mut buffer: Vec<u8>,
) -> Result<Vec<u8>, String> {
    match codec {
        Codec::Raw => buffer = stored.into_owned(),
        Codec::Zstd => {
            buffer.clear();
            buffer.reserve_exact(len as usize);
            with_decompressor(|zstd| zstd.decompress_to_buffer(&stored, &mut buffer))?;
        }
    }
    if buffer.len() != len as usize {
        return Err(format!("it gives {} bytes", buffer.len()));
    }
    Ok(buffer)
}
