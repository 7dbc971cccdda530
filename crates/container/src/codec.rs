//! Codecs: compression and decompression of the stored bytes of a group.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io;

use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};

use crate::ContainerError;
use crate::sample::is_even;

/// The encoding of the stored bytes of a group.
///
/// No codec has a dictionary or stores the decompressed length, which is in the footer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Codec {
    /// Not compressed.
    Raw,
    /// One zstd frame.
    Zstd,
    /// One LZ4 block.
    Lz4,
    /// One DEFLATE stream, without the header and the trailer of a gzip file.
    Deflate,
}

impl Codec {
    /// All codecs, ordered by code.
    pub const ALL: [Codec; 4] = [Codec::Raw, Codec::Zstd, Codec::Lz4, Codec::Deflate];

    /// Its code in stored bytes, below 4.
    pub const fn code(self) -> u8 {
        match self {
            Codec::Raw => 0,
            Codec::Zstd => 1,
            Codec::Lz4 => 2,
            Codec::Deflate => 3,
        }
    }

    /// The codec with this code.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Codec::Raw),
            1 => Some(Codec::Zstd),
            2 => Some(Codec::Lz4),
            3 => Some(Codec::Deflate),
            _ => None,
        }
    }
}

/// A compressor for one codec, with its working memory.
pub(crate) enum Shrinker {
    Raw,
    Zstd(zstd::bulk::Compressor<'static>),
    /// Zstd for pages: at level 1, and at level -1, which does not compress literals, for pages whose
    /// literals would not shrink. Trying to compress those takes 30 % of the time or more.
    ZstdPages([zstd::bulk::Compressor<'static>; 2]),
    Lz4,
    Deflate(Box<Compress>),
}

impl Shrinker {
    /// Zstd at `level`.
    pub(crate) fn zstd(level: i32) -> Result<Self, ContainerError> {
        Ok(Self::Zstd(compressor(level)?))
    }

    /// `codec` at a fast level.
    pub(crate) fn of(codec: Codec) -> Result<Self, ContainerError> {
        Ok(match codec {
            Codec::Raw => Self::Raw,
            Codec::Zstd => Self::ZstdPages([compressor(1)?, compressor(-1)?]),
            Codec::Lz4 => Self::Lz4,
            Codec::Deflate => {
                Self::Deflate(Box::new(Compress::new(flate2::Compression::fast(), false)))
            }
        })
    }

    /// The bytes that [`shrink_into`](Self::shrink_into) needs as working space, at least the length of its
    /// input.
    pub(crate) fn bound(&self, len: usize) -> usize {
        match self {
            Self::Raw | Self::Deflate(_) => len,
            Self::Zstd(_) | Self::ZstdPages(_) => zstd::zstd_safe::compress_bound(len),
            Self::Lz4 => lz4_flex::block::get_maximum_output_size(len),
        }
    }

    /// Writes the compressed bytes to the beginning of `stored`, or the input if compression does not
    /// shrink it, and returns their number. `stored` must have at least [`bound`](Self::bound) bytes.
    pub(crate) fn shrink_into(
        &mut self,
        bytes: &[u8],
        stored: &mut [u8],
    ) -> Result<(Codec, usize), ContainerError> {
        let len = bytes.len();
        let (codec, shrunk) = match self {
            Self::Raw => (Codec::Raw, None),
            Self::Zstd(zstd) => (Codec::Zstd, Some(zstd_into(zstd, bytes, stored)?)),
            Self::ZstdPages(zstd) => {
                let zstd = &mut zstd[usize::from(is_even(bytes))];
                (Codec::Zstd, Some(zstd_into(zstd, bytes, stored)?))
            }
            Self::Lz4 => {
                let shrunk = lz4_flex::block::compress_into(bytes, stored);
                (Codec::Lz4, Some(shrunk.map_err(|error| failed(len, error))?))
            }
            Self::Deflate(deflate) => (Codec::Deflate, deflate_into(deflate, bytes, stored)?),
        };
        match shrunk.filter(|shrunk| *shrunk < len) {
            Some(shrunk) => Ok((codec, shrunk)),
            None => {
                stored[..len].copy_from_slice(bytes);
                Ok((Codec::Raw, len))
            }
        }
    }

    /// The same into a new buffer.
    pub(crate) fn shrink(&mut self, bytes: &[u8]) -> Result<(Codec, Vec<u8>), ContainerError> {
        let len = bytes.len();
        if let Self::Zstd(zstd) = self {
            // into memory that need not be zeroed first
            let mut stored = Vec::with_capacity(zstd::zstd_safe::compress_bound(len));
            zstd.compress_to_buffer(bytes, &mut stored).map_err(|error| failed(len, error))?;
            return match stored.len() < len {
                true => Ok((Codec::Zstd, stored)),
                false => Ok((Codec::Raw, bytes.to_vec())),
            };
        }
        let mut stored = vec![0; self.bound(len)];
        let (codec, shrunk) = self.shrink_into(bytes, &mut stored)?;
        stored.truncate(shrunk);
        Ok((codec, stored))
    }
}

/// Writes `bytes` as one frame to the beginning of `stored`, and returns its length.
fn zstd_into(
    zstd: &mut zstd::bulk::Compressor<'_>,
    bytes: &[u8],
    stored: &mut [u8],
) -> Result<usize, ContainerError> {
    zstd.compress_to_buffer(bytes, stored).map_err(|error| failed(bytes.len(), error))
}

/// Writes `bytes` as one stream to the beginning of `stored`, and returns its length unless it exceeds
/// theirs.
fn deflate_into(
    deflate: &mut Compress,
    bytes: &[u8],
    stored: &mut [u8],
) -> Result<Option<usize>, ContainerError> {
    deflate.reset();
    let status = deflate
        .compress(bytes, &mut stored[..bytes.len()], FlushCompress::Finish)
        .map_err(|error| failed(bytes.len(), error))?;
    Ok((status == Status::StreamEnd).then_some(deflate.total_out() as usize))
}

fn compressor(level: i32) -> Result<zstd::bulk::Compressor<'static>, ContainerError> {
    zstd::bulk::Compressor::new(level).map_err(|error| failed(0, error))
}

fn failed(len: usize, error: impl ToString) -> ContainerError {
    ContainerError::Compress { len, reason: error.to_string() }
}

thread_local! {
    /// Zstd's working memory, allocated when this thread first needs it: otherwise each group would
    /// allocate and free 160 KB.
    static ZSTD: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
    /// The same for DEFLATE: 43 KB.
    static DEFLATE: RefCell<Option<Box<Decompress>>> = const { RefCell::new(None) };
}

/// Decompresses a group from its stored bytes into `bytes`, or returns the reason why it cannot. The
/// stored bytes cannot make it allocate memory.
pub fn decompress_into(codec: Codec, stored: &[u8], bytes: &mut [u8]) -> Result<(), String> {
    let len = match codec {
        Codec::Raw if stored.len() == bytes.len() => {
            bytes.copy_from_slice(stored);
            stored.len()
        }
        Codec::Raw => stored.len(),
        Codec::Zstd => with_zstd(|zstd| zstd.decompress_to_buffer(stored, bytes))?,
        Codec::Lz4 => lz4_flex::block::decompress_into(stored, bytes).map_err(|e| e.to_string())?,
        Codec::Deflate => inflate(stored, bytes)?,
    };
    if len == bytes.len() { Ok(()) } else { Err(format!("it gives {len} bytes")) }
}

/// Decompresses a group of exactly `len` bytes from its stored bytes, or returns the reason why it
/// cannot. Reuses `buffer` if possible.
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
            with_zstd(|zstd| zstd.decompress_to_buffer(&stored, &mut buffer))?;
        }
        Codec::Lz4 | Codec::Deflate => {
            buffer.clear();
            buffer.resize(len as usize, 0);
            decompress_into(codec, &stored, &mut buffer)?;
        }
    }
    if buffer.len() != len as usize {
        return Err(format!("it gives {} bytes", buffer.len()));
    }
    Ok(buffer)
}

/// Decompresses `stored` to the beginning of `bytes`, and returns the number of bytes.
fn inflate(stored: &[u8], bytes: &mut [u8]) -> Result<usize, String> {
    DEFLATE.with_borrow_mut(|deflate| {
        let deflate = deflate.get_or_insert_with(|| Box::new(Decompress::new(false)));
        deflate.reset(false);
        let status = deflate.decompress(stored, bytes, FlushDecompress::Finish);
        match status.map_err(|error| error.to_string())? {
            Status::StreamEnd if deflate.total_in() as usize == stored.len() => {
                Ok(deflate.total_out() as usize)
            }
            Status::StreamEnd => Err("bytes follow its end".into()),
            _ => Err("it ends early, or gives more bytes".into()),
        }
    })
}

fn with_zstd<T>(
    work: impl FnOnce(&mut zstd::bulk::Decompressor<'static>) -> io::Result<T>,
) -> Result<T, String> {
    ZSTD.with_borrow_mut(|zstd| {
        let zstd = match zstd {
            Some(zstd) => zstd,
            None => zstd.insert(zstd::bulk::Decompressor::new().map_err(|e| e.to_string())?),
        };
        work(zstd).map_err(|e| e.to_string())
    })
}
