//! A volume, or what changed between two of them, as a stream: a head, blocks and holes in order, and
//! an end. Described in docs/volume-stream.md.
//!
//! Each record ends in a check over it and all before, so none can be damaged, left out or moved; and
//! a stream is whole only with its end.

use std::io::{self, Read, Write};

use onefold_block::BlockSize;
use onefold_seal::wire::{Put, Reader, WireError};
use onefold_seal::{CHECK_LEN, Check};

use crate::error::StreamError;
use crate::limits::check_size;

/// What a stream begins with.
const MAGIC: &[u8; 16] = b"onefold volume\r\n";

/// Of the format.
const VERSION: u32 = 1;

/// The most blocks of one record.
pub(crate) const MAX_BLOCKS: u64 = 256;

/// The longest record, in bytes without kind, length and check: its blocks and their number.
const MAX_PAYLOAD: u32 = 16 + (MAX_BLOCKS as u32) * BlockSize::B4096.bytes();

/// Of the content of a volume, see [`Pool::content_digest`](crate::Pool::content_digest).
pub(crate) type Digest = [u8; 32];

/// What a stream is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamHead {
    /// The size of the volume in bytes.
    pub size: u64,
    /// Its blocks.
    pub block_size: BlockSize,
    /// Whether it is a snapshot.
    pub is_snapshot: bool,
    /// The digest of the content that the stream changes; without one the stream has all.
    pub base: Option<Digest>,
}

/// What a record says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    Head(StreamHead),
    /// Blocks from `first` on are these bytes.
    Data {
        first: u64,
        bytes: &'a [u8],
    },
    /// So many blocks from `first` on are holes.
    Holes {
        first: u64,
        count: u64,
    },
    /// So many records came before.
    End {
        records: u64,
    },
}

impl Part<'_> {
    fn kind(&self) -> u8 {
        match self {
            Self::Head(_) => 0,
            Self::Data { .. } => 1,
            Self::Holes { .. } => 2,
            Self::End { .. } => 3,
        }
    }

    fn encode(&self, payload: &mut Vec<u8>) {
        match self {
            Self::Head(head) => {
                payload.put_u32(VERSION);
                payload.put_u64(head.size);
                payload.put_u32(head.block_size.bytes());
                payload.put_u8(head.is_snapshot.into());
                payload.put_u8(head.base.is_some().into());
                payload.extend_from_slice(&head.base.unwrap_or_default());
            }
            Self::Data { first, bytes } => {
                payload.put_u64(*first);
                payload.extend_from_slice(bytes);
            }
            Self::Holes { first, count } => {
                payload.put_u64(*first);
                payload.put_u64(*count);
            }
            Self::End { records } => payload.put_u64(*records),
        }
    }
}

/// Writes a stream.
pub(crate) struct Encoder<W> {
    into: W,
    records: u64,
    check: Check,
    payload: Vec<u8>,
}

impl<W: Write> Encoder<W> {
    /// Begins one with its head.
    pub(crate) fn begin(mut into: W, head: StreamHead) -> Result<Self, StreamError> {
        into.write_all(MAGIC)?;
        let (check, payload) = (Check::of(&[MAGIC]), Vec::new());
        let mut encoder = Self { into, records: 0, check, payload };
        encoder.put(&Part::Head(head))?;
        Ok(encoder)
    }

    pub(crate) fn put(&mut self, part: &Part<'_>) -> Result<(), StreamError> {
        self.payload.clear();
        part.encode(&mut self.payload);
        let mut start = vec![part.kind()];
        start.put_u32(self.payload.len() as u32);
        self.check = Check::of(&[self.check.as_bytes(), &start, &self.payload]);
        self.into.write_all(&start)?;
        self.into.write_all(&self.payload)?;
        self.into.write_all(self.check.as_bytes())?;
        self.records += 1;
        Ok(())
    }

    /// Ends it; whatever is behind `into` has all of it then.
    pub(crate) fn finish(mut self) -> Result<(), StreamError> {
        self.put(&Part::End { records: self.records })?;
        Ok(self.into.flush()?)
    }
}

/// Reads a stream, in memory for one record.
pub(crate) struct Decoder<R> {
    from: R,
    records: u64,
    check: Check,
    payload: Vec<u8>,
    head: StreamHead,
    /// The first block that the next record may tell of.
    next_block: u64,
}

impl<R: Read> Decoder<R> {
    /// Reads the head.
    pub(crate) fn begin(mut from: R) -> Result<Self, StreamError> {
        let mut magic = [0; MAGIC.len()];
        match from.read_exact(&mut magic) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(StreamError::NoStream);
            }
            read => read?,
        }
        if magic != *MAGIC {
            return Err(StreamError::NoStream);
        }
        let mut check = Check::of(&[MAGIC]);
        let mut payload = Vec::new();
        let kind = read_record(&mut from, 0, &mut check, &mut payload)?;
        let head = match kind {
            0 => decode_head(&payload)?,
            _ => return Err(malformed(0, WireError { at: 0, expected: "a head" })),
        };
        Ok(Self { from, records: 1, check, payload, head, next_block: 0 })
    }

    pub(crate) fn head(&self) -> &StreamHead {
        &self.head
    }

    /// What the next record says: blocks of the volume, which come in order, or the end, behind which
    /// nothing may be.
    pub(crate) fn next(&mut self) -> Result<Part<'_>, StreamError> {
        let record = self.records;
        let kind = read_record(&mut self.from, record, &mut self.check, &mut self.payload)?;
        let part = decode_part(kind, &self.payload, self.head.block_size)
            .map_err(|source| malformed(record, source))?;
        let refused = |expected| malformed(record, WireError { at: 0, expected });
        let blocks = match part {
            Part::Data { first, bytes } => {
                first..first.saturating_add(bytes.len() as u64 / self.block_len())
            }
            Part::Holes { first, count } => first..first.saturating_add(count),
            Part::End { records } if records == record => return Ok(part),
            Part::End { .. } | Part::Head(_) => {
                return Err(refused("an end that counts the records before it"));
            }
        };
        if blocks.start < self.next_block || blocks.end > self.head.size / self.block_len() {
            return Err(refused("blocks within the volume, in order"));
        }
        (self.next_block, self.records) = (blocks.end, record + 1);
        Ok(part)
    }

    fn block_len(&self) -> u64 {
        self.head.block_size.bytes().into()
    }
}

fn malformed(record: u64, source: WireError) -> StreamError {
    StreamError::Malformed { record, source }
}

/// Reads the record that comes next into `payload`; its kind.
fn read_record(
    from: &mut impl Read,
    record: u64,
    check: &mut Check,
    payload: &mut Vec<u8>,
) -> Result<u8, StreamError> {
    let mut read = |bytes: &mut [u8]| match from.read_exact(bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err(StreamError::CutOff { record })
        }
        read => Ok(read?),
    };
    let mut start = [0; 5];
    read(&mut start)?;
    let [kind, len @ ..] = start;
    let len = u32::from_le_bytes(len);
    // before memory is taken for it
    if len > MAX_PAYLOAD {
        let expected = "a record of at most 256 blocks of 4,096 bytes";
        return Err(malformed(record, WireError { at: 1, expected }));
    }
    payload.resize(len as usize, 0);
    read(payload)?;
    let mut found = [0; CHECK_LEN];
    read(&mut found)?;
    *check = Check::of(&[check.as_bytes(), &start, payload]);
    match *check == Check::from_bytes(found) {
        true => Ok(kind),
        false => Err(StreamError::Damaged { record }),
    }
}

fn decode_head(payload: &[u8]) -> Result<StreamHead, StreamError> {
    let mut reader = Reader::new(payload);
    let version = reader.u32("a version").map_err(|source| malformed(0, source))?;
    if version > VERSION {
        return Err(StreamError::NewerVersion { found: version, newest: VERSION });
    }
    let mut fields = || {
        let size = reader.u64("a size")?;
        let bytes = reader.u32("a size of blocks")?;
        let block_size = [BlockSize::B512, BlockSize::B4096]
            .into_iter()
            .find(|one| one.bytes() == bytes)
            .ok_or(reader.error("blocks of 512 or 4096 bytes"))?;
        check_size(size, block_size).map_err(|_| reader.error("a size that a volume can have"))?;
        let is_snapshot = flag(&mut reader)?;
        let has_base = flag(&mut reader)?;
        let base = reader.array("the digest of a base")?;
        if !has_base && base != Digest::default() {
            return Err(reader.error("no digest where there is no base"));
        }
        reader.finish()?;
        Ok(StreamHead { size, block_size, is_snapshot, base: has_base.then_some(base) })
    };
    fields().map_err(|source| malformed(0, source))
}

fn flag(reader: &mut Reader<'_>) -> Result<bool, WireError> {
    match reader.u8("a flag")? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(reader.error("0 or 1")),
    }
}

fn decode_part(kind: u8, payload: &[u8], block_size: BlockSize) -> Result<Part<'_>, WireError> {
    let mut reader = Reader::new(payload);
    match kind {
        1 => {
            let first = reader.u64("a block")?;
            let bytes = &payload[8..];
            let block_len = block_size.bytes() as usize;
            let is_whole = bytes.len().is_multiple_of(block_len) && !bytes.is_empty();
            if !is_whole || bytes.len() > MAX_BLOCKS as usize * block_len {
                return Err(reader.error("1 to 256 whole blocks"));
            }
            Ok(Part::Data { first, bytes })
        }
        2 => {
            let (first, count) = (reader.u64("a block")?, reader.u64("a number of blocks")?);
            if count == 0 {
                return Err(reader.error("at least one hole"));
            }
            reader.finish()?;
            Ok(Part::Holes { first, count })
        }
        3 => {
            let records = reader.u64("a number of records")?;
            reader.finish()?;
            Ok(Part::End { records })
        }
        _ => Err(reader.error("blocks (1), holes (2) or the end (3)")),
    }
}

#[cfg(test)]
mod tests {
    use onefold_testkit::random;

    use super::*;
    use crate::error::StreamError;
    use crate::fuzz::restream;

    fn head() -> StreamHead {
        StreamHead {
            size: 1 << 20,
            block_size: BlockSize::B4096,
            is_snapshot: true,
            base: Some([5; 32]),
        }
    }

    fn stream(head: StreamHead, parts: &[Part<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::begin(&mut bytes, head).unwrap();
        parts.iter().for_each(|part| encoder.put(part).unwrap());
        encoder.finish().unwrap();
        bytes
    }

    fn whole() -> Vec<u8> {
        let bytes = random(1, 3 * 4096);
        let parts = [
            Part::Holes { first: 0, count: 5 },
            Part::Data { first: 7, bytes: &bytes },
            Part::Data { first: 255, bytes: &bytes[..4096] },
        ];
        stream(head(), &parts)
    }

    #[test]
    fn a_stream_comes_back_and_what_is_behind_it_is_left_alone() {
        let mut bytes = whole();
        let len = bytes.len();
        bytes.extend(b"more");
        let (again, taken) = restream(&bytes).unwrap();
        assert_eq!((&again[..], taken), (&bytes[..len], len));
    }

    #[test]
    fn a_stream_that_is_cut_anywhere_or_has_one_bit_flipped_is_refused() {
        let bytes = whole();
        for len in 0..bytes.len() {
            assert!(restream(&bytes[..len]).is_err(), "the first {len} bytes");
        }
        for bit in 0..8 * bytes.len() {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(restream(&flipped).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn records_that_are_left_out_or_come_in_another_order_are_refused() {
        let zeros = [0; 4096];
        let record = MAGIC.len() + 5 + 50 + CHECK_LEN;
        let blocks = 5 + 8 + 4096 + CHECK_LEN;
        let one = Part::Data { first: 0, bytes: &zeros };
        let other = Part::Data { first: 0, bytes: &[1; 4096] };
        let mut bytes =
            stream(StreamHead { base: None, ..head() }, &[one, Part::Holes { first: 1, count: 1 }]);
        let moved: Vec<u8> = bytes.drain(record..record + blocks).collect();
        assert!(matches!(restream(&bytes), Err(StreamError::Damaged { record: 1 })));
        bytes.splice(record..record, moved);
        restream(&bytes).unwrap();
        // the same record of another stream
        let another = stream(StreamHead { base: None, ..head() }, &[other]);
        bytes.splice(record..record + blocks, another[record..record + blocks].iter().copied());
        assert!(restream(&bytes).is_err());
    }

    #[test]
    fn what_a_volume_cannot_have_is_refused_though_checks_hold() {
        let zeros = vec![0; 4096 * 257];
        let data = |first, blocks: usize| Part::Data { first, bytes: &zeros[..4096 * blocks] };
        let holes = |first, count| Part::Holes { first, count };
        for parts in [
            vec![data(256, 1)],
            vec![data(255, 2)],
            vec![data(0, 257)],
            vec![data(0, 0)],
            vec![Part::Data { first: 0, bytes: &zeros[..100] }],
            vec![holes(0, 0)],
            vec![holes(0, 257)],
            vec![holes(u64::MAX, 2)],
            vec![data(3, 1), data(3, 1)],
            vec![data(3, 1), holes(2, 1)],
            vec![Part::End { records: 7 }],
            vec![Part::Head(head())],
        ] {
            let refused = restream(&stream(head(), &parts));
            assert!(matches!(refused, Err(StreamError::Malformed { .. })), "{refused:?}");
        }
        let refused = restream(&stream(StreamHead { size: 1000, ..head() }, &[]));
        assert!(matches!(refused, Err(StreamError::Malformed { record: 0, .. })), "{refused:?}");
        assert!(matches!(restream(b"something else"), Err(StreamError::NoStream)));
    }

    #[test]
    fn a_length_is_refused_before_memory_is_taken_for_it() {
        let mut bytes = whole();
        bytes[MAGIC.len() + 1..][..4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(restream(&bytes), Err(StreamError::Malformed { record: 0, .. })));
    }
}
