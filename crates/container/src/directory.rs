//! A container's footer, which lists its groups and chunks, and reading them.

use std::collections::HashMap;
use std::iter;
use std::ops::{ControlFlow, Range};

use bytes::Bytes;
use onefold_backend::{BackendError, Objects, Request, Span};
use onefold_fingerprint::{Fingerprint, Fingerprinter};
use onefold_seal::wire::{Put, Reader, WireError};
use onefold_seal::{CHECK_LEN, Check, Envelope, Kind, ObjectId, Parts, SealError};

use crate::codec::decompress;
use crate::{Codec, ContainerError, Content, MAX_GROUP_LEN, container_name};

/// Length of the trailer after the footer: the footer's length and its check.
pub(crate) const TRAILER_LEN: usize = 4 + CHECK_LEN;
/// The length of the shortest footer: the content and a count of zero groups and chunks.
const FOOTER_MIN: usize = 2;
/// The maximum length of a footer in bytes. Readers refuse longer ones, which bounds their memory. A
/// repository's footers are shorter than a third of it, however small the chunks are.
pub const MAX_FOOTER_LEN: u32 = 64 << 20;
/// Bytes of a container's end that are read first: a hundredth of the container, within these bounds. A
/// footer has 36 bytes per chunk, so it fits if chunks average 3.6 KiB as stored. The upper bound keeps a
/// false length from taking memory.
const FIRST_READ: u64 = 64 << 10;
const MAX_FIRST_READ: u64 = 1 << 20;
const FIRST_READ_PART: u64 = 100;
/// The maximum bytes of first reads that wait for the rest of their footers.
const MAX_FIRST_READS: u64 = 32 << 20;
/// The minimum bytes of a group in the footer: three varints, a codec, a check.
const GROUP_ENTRY_MIN: usize = 4 + CHECK_LEN;
/// The minimum bytes of a chunk in the footer: a fingerprint and a varint.
const CHUNK_ENTRY_MIN: usize = 33;

/// The location of a group in its container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupEntry {
    /// Offset of the stored bytes in the container.
    pub offset: u64,
    /// Length in bytes of the stored bytes.
    pub stored_len: u32,
    /// Total length in bytes of the chunks.
    pub len: u32,
    /// The codec of the stored bytes.
    pub codec: Codec,
    /// Check over the stored bytes, or their tag.
    pub check: Check,
}

impl GroupEntry {
    /// Whether the group has no chunks and only pads the container.
    pub const fn is_padding(&self) -> bool {
        self.len == 0
    }
}

/// A chunk of a container; its position in [`Directory::chunks`] is its *slot*.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkEntry {
    /// The chunk's fingerprint.
    pub fingerprint: Fingerprint,
    /// The number of its group.
    pub group: u32,
    /// Offset in bytes within the group, after decompression.
    pub offset: u32,
    /// Length in bytes.
    pub len: u32,
}

/// The content of a container, as listed by its footer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    /// The container's id.
    pub id: ObjectId,
    /// The content of its chunks.
    pub content: Content,
    /// Its groups, in the order of their stored bytes.
    pub groups: Vec<GroupEntry>,
    /// Its chunks by slot, in the order of their groups.
    pub chunks: Vec<ChunkEntry>,
    /// The key that opens its groups.
    pub(crate) parts: Parts,
}

/// A footer as it is stored: the bytes before the container's groups, and the bytes after them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFooter(pub Bytes);

impl StoredFooter {
    /// The footer of the container `object`, which `directory` lists.
    pub(crate) fn of(directory: &Directory, object: &[u8]) -> Self {
        let start = directory.groups.first().map_or(object.len(), |group| group.offset as usize);
        let end_of = |group: &GroupEntry| group.offset as usize + group.stored_len as usize;
        let end = directory.groups.last().map_or(start, end_of);
        Self([&object[..start], &object[end..]].concat().into())
    }
}

/// Takes a container's position and its directory, decoded and as stored, or why it cannot be read.
type TakeDirectory<'a> =
    dyn FnMut(usize, Result<(Directory, StoredFooter), ContainerError>) -> ControlFlow<()> + 'a;

impl Directory {
    /// Reads the footer of container `id`, which is `size` bytes long.
    pub fn read(
        objects: &dyn Objects,
        envelope: &Envelope,
        id: ObjectId,
        size: u64,
    ) -> Result<Self, ContainerError> {
        let mut read = None;
        let ended = Self::read_many(objects, envelope, &[(id, size)], &mut |_, directory| {
            read = Some(directory.map(|(directory, _)| directory));
            ControlFlow::Continue(())
        });
        debug_assert!(ended.is_continue(), "nothing ends it early");
        read.expect("one container was asked for")
    }

    /// The same for a container whose ranges `read` reads.
    pub fn read_by<B: Into<Bytes>>(
        envelope: &Envelope,
        id: ObjectId,
        size: u64,
        read: impl Fn(Range<u64>) -> Result<B, BackendError>,
    ) -> Result<Self, ContainerError> {
        let read = |range| match read(range) {
            Ok(bytes) => Ok(bytes.into()),
            Err(source) => Err(ContainerError::Backend { container: id, source }),
        };
        let expected = min_len(envelope);
        if size < expected {
            let source = SealError::Truncated { found: size, expected };
            return Err(ContainerError::Envelope { container: id, source });
        }
        let start_len = envelope.start_len() as u64;
        let tail = size.saturating_sub(first_read(size)).max(start_len);
        let mut ends = Ends::new(id, size, read(0..start_len)?, read(tail..size)?)?;
        if !ends.missing().is_empty() {
            ends = ends.with(&read(ends.missing())?);
        }
        ends.open(envelope).map(|(directory, _)| directory)
    }

    /// Reads the footers of many containers, given by id and size in bytes, with concurrent requests. Calls
    /// `take` for each when it arrives, with its position, decoded and as stored.
    pub fn read_many(
        objects: &dyn Objects,
        envelope: &Envelope,
        containers: &[(ObjectId, u64)],
        take: &mut TakeDirectory<'_>,
    ) -> ControlFlow<()> {
        let mut first = 0;
        while first < containers.len() {
            let mut read = 0;
            let fits = |(_, size): &&(ObjectId, u64)| {
                read += first_read(*size);
                read <= MAX_FIRST_READS
            };
            let count = containers[first..].iter().take_while(fits).count().max(1);
            let slice = &containers[first..first + count];
            let mut take = |at: usize, directory| take(first + at, directory);
            Self::read_slice(objects, envelope, slice, &mut take)?;
            first += count;
        }
        ControlFlow::Continue(())
    }

    /// The same for so few containers that their first reads fit in memory together.
    fn read_slice(
        objects: &dyn Objects,
        envelope: &Envelope,
        containers: &[(ObjectId, u64)],
        take: &mut TakeDirectory<'_>,
    ) -> ControlFlow<()> {
        let start_len = envelope.start_len() as u64;
        // Of a short one all, of another its start, then its end.
        let parts_of = |size: u64| match size.checked_sub(first_read(size)) {
            None => (0..size, None),
            Some(tail) => (0..start_len.min(size), Some(tail.max(start_len)..size)),
        };
        let parts: Vec<(usize, Range<u64>)> = (0..)
            .zip(containers)
            .flat_map(|(number, (_, size))| {
                let (first, second) = parts_of(*size);
                iter::once(first).chain(second).map(move |part| (number, part))
            })
            .collect();
        let mut first_of_two = HashMap::new();
        let mut longer = Vec::new();
        let parts_to_ask = parts.iter().map(|(number, part)| (*number, part.clone()));
        get_parts(objects, containers, parts_to_ask, &mut |at, answer| {
            let (number, part) = &parts[at];
            let (id, size) = containers[*number];
            if part.end - part.start == size {
                let directory = answer.and_then(|object| {
                    let directory = Self::of_object(envelope, id, &object)?;
                    let footer = StoredFooter::of(&directory, &object);
                    Ok((directory, footer))
                });
                return take(*number, directory);
            }
            let Some(other) = first_of_two.remove(number) else {
                first_of_two.insert(*number, answer);
                return ControlFlow::Continue(());
            };
            let (start, end) = if part.start > 0 { (other, answer) } else { (answer, other) };
            match start.and_then(|start| Ends::new(id, size, start, end?)) {
                Ok(ends) if !ends.missing().is_empty() => longer.push((*number, ends)),
                ends => take(*number, ends.and_then(|ends| ends.open(envelope)))?,
            }
            ControlFlow::Continue(())
        })?;
        let rest = longer.iter().map(|(number, ends)| (*number, ends.missing()));
        get_parts(objects, containers, rest, &mut |at, answer| {
            let (number, ends) = &longer[at];
            take(*number, answer.and_then(|missing| ends.with(&missing).open(envelope)))
        })
    }

    /// Opens the footer of container `id`, which is `size` bytes long, from a copy of its stored form.
    pub fn of_footer(
        envelope: &Envelope,
        id: ObjectId,
        size: u64,
        stored: &StoredFooter,
    ) -> Result<Self, ContainerError> {
        let StoredFooter(stored) = stored;
        let sealed = |source| ContainerError::Envelope { container: id, source };
        let (found, expected) = (stored.len() as u64, min_len(envelope));
        if found < expected || found > size {
            return Err(sealed(SealError::Truncated { found, expected }));
        }
        let (start, end) = stored.split_at(envelope.start_len());
        let start_len = start.len() as u64;
        let footer_start = footer_start(end, size, start_len).map_err(sealed)?;
        let expected = size - footer_start + start_len;
        if found != expected {
            return Err(sealed(SealError::Truncated { found, expected }));
        }
        Self::open(envelope, id, start, end, footer_start)
    }

    /// Reads the footer out of the whole container `object`.
    pub fn of_object(
        envelope: &Envelope,
        id: ObjectId,
        object: &[u8],
    ) -> Result<Self, ContainerError> {
        let sealed = |source| ContainerError::Envelope { container: id, source };
        let (size, min_len) = (object.len() as u64, min_len(envelope));
        if size < min_len {
            return Err(sealed(SealError::Truncated { found: size, expected: min_len }));
        }
        let (start, rest) = object.split_at(envelope.start_len());
        let footer_start = footer_start(rest, size, start.len() as u64).map_err(sealed)?;
        Self::open(envelope, id, start, &object[footer_start as usize..], footer_start)
    }

    /// Verifies and decodes the footer. `end` has the bytes from `footer_start` to the container's end,
    /// and `start` the bytes before its groups.
    fn open(
        envelope: &Envelope,
        id: ObjectId,
        start: &[u8],
        end: &[u8],
        footer_start: u64,
    ) -> Result<Self, ContainerError> {
        let sealed = |source| ContainerError::Envelope { container: id, source };
        let (covered, check) = end.split_last_chunk::<CHECK_LEN>().expect("the trailer was read");
        let (footer, footer_len) = covered.split_at(covered.len() - 4);
        let parts = envelope.parts(Kind::Container, id, start).map_err(sealed)?;
        let footer = parts.open_end(footer, footer_len, check).map_err(sealed)?;
        Self::decode(id, parts, &footer, start.len() as u64..footer_start)
            .map_err(|source| ContainerError::Footer { container: id, source })
    }

    /// The footer's bytes, without length and check.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut footer = Vec::with_capacity(
            8 + self.groups.len() * (GROUP_ENTRY_MIN + 8) + self.chunks.len() * 36,
        );
        footer.put_u8(self.content.code());
        footer.put_varint(self.groups.len() as u64);
        let mut chunks = self.chunks.iter().peekable();
        for (number, group) in self.groups.iter().enumerate() {
            let members =
                std::iter::from_fn(|| chunks.next_if(|chunk| chunk.group as usize == number));
            let mut listed = Vec::new();
            let mut count = 0;
            for chunk in members {
                listed.extend_from_slice(chunk.fingerprint.as_bytes());
                listed.put_varint(u64::from(chunk.len));
                count += 1;
            }
            footer.put_varint(u64::from(group.stored_len));
            footer.put_varint(u64::from(group.len));
            footer.put_u8(group.codec.code());
            footer.extend_from_slice(group.check.as_bytes());
            footer.put_varint(count);
            footer.extend_from_slice(&listed);
        }
        footer
    }

    /// Decodes the footer of container `id`. The groups must fill the bytes of `room` exactly, and the
    /// chunks must fill the groups exactly.
    pub(crate) fn decode(
        id: ObjectId,
        parts: Parts,
        footer: &[u8],
        room: Range<u64>,
    ) -> Result<Self, WireError> {
        let mut reader = Reader::new(footer);
        let content = Content::from_code(reader.u8("what the container holds")?)
            .ok_or(reader.error("content 0 (data) or 1 (metadata)"))?;
        let group_count = reader.count(GROUP_ENTRY_MIN, "the count of groups")?;
        let mut groups = Vec::with_capacity(group_count);
        let mut chunks = Vec::new();
        let mut offset = room.start;
        for group in 0..group_count as u32 {
            let max = u64::from(MAX_GROUP_LEN);
            let stored_len = reader.varint_to(max, "a group's stored length")? as u32;
            let len = reader.varint_to(max, "a group's length")? as u32;
            let codec = Codec::from_code(reader.u8("a codec")?)
                .ok_or(reader.error("codec 0 (raw), 1 (zstd), 2 (LZ4) or 3 (DEFLATE)"))?;
            let check = Check::from_bytes(reader.array("a group's check")?);
            let count = reader.count(CHUNK_ENTRY_MIN, "the count of chunks")?;
            let mut at = 0u32;
            for _ in 0..count {
                let fingerprint = Fingerprint::from_bytes(reader.array("a fingerprint")?);
                let room = u64::from(len - at);
                let chunk_len = reader.varint_to(room, "a chunk inside its group")? as u32;
                if chunk_len == 0 {
                    return Err(reader.error("a chunk that is not empty"));
                }
                chunks.push(ChunkEntry { fingerprint, group, offset: at, len: chunk_len });
                at += chunk_len;
            }
            let is_padding = count == 0 && len == 0 && codec == Codec::Raw;
            if at != len || count == 0 && !is_padding {
                return Err(reader.error("chunks that fill their group"));
            }
            if codec == Codec::Raw && stored_len != len && !is_padding {
                return Err(reader.error("a raw group stored in its own length"));
            }
            groups.push(GroupEntry { offset, stored_len, len, codec, check });
            offset += u64::from(stored_len);
        }
        reader.finish()?;
        if offset != room.end {
            return Err(reader.error("groups that end where the footer begins"));
        }
        Ok(Self { id, content, groups, chunks, parts })
    }

    /// Reads group `group`, verifies its stored bytes and decompresses it.
    pub fn read_group(&self, objects: &dyn Objects, group: u32) -> Result<Bytes, ContainerError> {
        self.read_group_into(objects, group, Vec::new()).map(Bytes::from)
    }

    /// The same, but reuses `buffer` if possible.
    pub fn read_group_into(
        &self,
        objects: &dyn Objects,
        group: u32,
        buffer: Vec<u8>,
    ) -> Result<Vec<u8>, ContainerError> {
        let stored = objects
            .get_range(&container_name(self.id), self.stored_range(group)?)
            .map_err(|source| ContainerError::Backend { container: self.id, source })?;
        self.open_group(group, &stored, buffer)
    }

    /// Reads many groups with concurrent requests, verifies and decompresses them. Calls `take` for each
    /// with its number, in any order, until `take` breaks.
    pub fn read_groups(
        &self,
        objects: &dyn Objects,
        groups: &[u32],
        take: &mut dyn FnMut(u32, Result<Bytes, ContainerError>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut requests = groups.iter().map(|group| {
            let range = self.stored_range(*group).unwrap_or_default();
            Request { name: container_name(self.id), span: Span::Range(range) }
        });
        objects.get_many(&mut requests, &mut |at, answer| {
            let stored =
                answer.map_err(|source| ContainerError::Backend { container: self.id, source });
            let opened = stored.and_then(|stored| self.open_group(groups[at], &stored, Vec::new()));
            take(groups[at], opened.map(Bytes::from))
        })
    }

    /// The range of the stored bytes of group `group` in the container.
    pub fn stored_range(&self, group: u32) -> Result<Range<u64>, ContainerError> {
        let entry = self.group(group)?;
        Ok(entry.offset..entry.offset + u64::from(entry.stored_len))
    }

    /// The bytes of group `group`, read from the complete container `object`.
    pub fn group_of_object(&self, object: &[u8], group: u32) -> Result<Bytes, ContainerError> {
        let entry = self.group(group)?;
        let start = entry.offset as usize;
        let stored = object.get(start..start + entry.stored_len as usize).unwrap_or_default();
        self.open_group(group, stored, Vec::new()).map(Bytes::from)
    }

    /// Verifies and decompresses the `stored` bytes of group `group`, and reuses `buffer` if possible.
    pub fn open_group(
        &self,
        group: u32,
        stored: &[u8],
        buffer: Vec<u8>,
    ) -> Result<Vec<u8>, ContainerError> {
        let container = self.id;
        let entry = self.group(group)?;
        let opened = self.parts.open(group, stored, &entry.check).map_err(|source| {
            ContainerError::DamagedGroup { container, group, offset: entry.offset, source }
        })?;
        if entry.is_padding() {
            return Ok(Vec::new());
        }
        decompress(entry.codec, opened, entry.len, buffer).map_err(|reason| {
            ContainerError::Decompress { container, group, expected: entry.len, reason }
        })
    }

    fn group(&self, group: u32) -> Result<&GroupEntry, ContainerError> {
        self.groups.get(group as usize).ok_or(ContainerError::NoSuchSlot {
            container: self.id,
            slot: group,
            chunks: self.chunks.len() as u32,
        })
    }

    /// The chunk in slot `slot`.
    pub fn chunk(&self, slot: u32) -> Result<&ChunkEntry, ContainerError> {
        self.chunks.get(slot as usize).ok_or(ContainerError::NoSuchSlot {
            container: self.id,
            slot,
            chunks: self.chunks.len() as u32,
        })
    }

    /// Verifies that every chunk of group `group`, whose bytes are `bytes`, has its fingerprint.
    pub fn verify_group(
        &self,
        group: u32,
        bytes: &[u8],
        fingerprinter: &Fingerprinter,
    ) -> Result<(), ContainerError> {
        let first = self.chunks.partition_point(|chunk| chunk.group < group);
        let members = self.chunks[first..].iter().take_while(|chunk| chunk.group == group);
        for (slot, chunk) in (first as u32..).zip(members) {
            let found = fingerprinter.fingerprint(&bytes[chunk.range()]);
            if found != chunk.fingerprint {
                let (container, expected) = (self.id, chunk.fingerprint);
                return Err(ContainerError::WrongFingerprint { container, slot, found, expected });
            }
        }
        Ok(())
    }
}

impl ChunkEntry {
    /// The chunk's range in the bytes of its group.
    pub fn range(&self) -> Range<usize> {
        self.offset as usize..self.offset as usize + self.len as usize
    }
}

/// Length of the smallest container.
const fn min_len(envelope: &Envelope) -> u64 {
    (envelope.start_len() + FOOTER_MIN + TRAILER_LEN) as u64
}

/// A lower bound for the length of a container with `chunks` chunks of `bytes` bytes in total: its footer
/// and its frame, without the groups, whose length depends on compression.
pub fn least_len(envelope: &Envelope, chunks: u64, bytes: u64) -> u64 {
    let groups = bytes.div_ceil(u64::from(MAX_GROUP_LEN));
    let listed = |count: u64, entry: usize| count.saturating_mul(entry as u64);
    min_len(envelope)
        .saturating_add(listed(groups, GROUP_ENTRY_MIN))
        .saturating_add(listed(chunks, CHUNK_ENTRY_MIN))
}

/// The bytes of the end of a container of `size` bytes that are read first.
fn first_read(size: u64) -> u64 {
    (size / FIRST_READ_PART).clamp(FIRST_READ, MAX_FIRST_READ)
}

/// Reads `parts` of `containers`, given by number and range, with concurrent requests.
fn get_parts(
    objects: &dyn Objects,
    containers: &[(ObjectId, u64)],
    parts: impl Iterator<Item = (usize, Range<u64>)> + Clone,
    take: &mut dyn FnMut(usize, Result<Bytes, ContainerError>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut requests = parts.clone().map(|(number, part)| Request {
        name: container_name(containers[number].0),
        span: Span::Range(part),
    });
    let numbers: Vec<usize> = parts.map(|(number, _)| number).collect();
    objects.get_many(&mut requests, &mut |at, answer| {
        let container = containers[numbers[at]].0;
        take(at, answer.map_err(|source| ContainerError::Backend { container, source }))
    })
}

/// The bytes read so far at both ends of a container, for its footer.
#[derive(Clone)]
struct Ends {
    id: ObjectId,
    size: u64,
    start: Bytes,
    end: Bytes,
    /// The offset of the footer; it may be before the bytes in `end`.
    footer_start: u64,
}

impl Ends {
    fn new(id: ObjectId, size: u64, start: Bytes, end: Bytes) -> Result<Self, ContainerError> {
        let footer_start = footer_start(&end, size, start.len() as u64)
            .map_err(|source| ContainerError::Envelope { container: id, source })?;
        Ok(Self { id, size, start, end, footer_start })
    }

    /// The range of the footer that was not read.
    fn missing(&self) -> Range<u64> {
        self.footer_start..self.size - self.end.len() as u64
    }

    /// The same with these bytes added.
    fn with(&self, missing: &[u8]) -> Self {
        Self { end: [missing, &self.end].concat().into(), ..self.clone() }
    }

    fn open(self, envelope: &Envelope) -> Result<(Directory, StoredFooter), ContainerError> {
        let at = self.end.len() - (self.size - self.footer_start) as usize;
        let footer = &self.end[at..];
        let directory = Directory::open(envelope, self.id, &self.start, footer, self.footer_start)?;
        Ok((directory, StoredFooter([&self.start, footer].concat().into())))
    }
}

/// The offset of the footer of a container of `size` bytes, from the length in its `tail`. It must not be
/// less than `start_len`.
fn footer_start(tail: &[u8], size: u64, start_len: u64) -> Result<u64, SealError> {
    let trailer = tail
        .last_chunk::<TRAILER_LEN>()
        .ok_or(SealError::Truncated { found: size, expected: start_len + TRAILER_LEN as u64 })?;
    let footer_len = u32::from_le_bytes(trailer[..4].try_into().expect("4 bytes"));
    if footer_len > MAX_FOOTER_LEN {
        let (found, max) = (u64::from(footer_len), u64::from(MAX_FOOTER_LEN));
        return Err(SealError::TooLong { what: "footer", found, max });
    }
    let needed = u64::from(footer_len) + start_len + TRAILER_LEN as u64;
    size.checked_sub(u64::from(footer_len) + TRAILER_LEN as u64)
        .filter(|_| needed <= size)
        .ok_or(SealError::Truncated { found: size, expected: needed })
}
