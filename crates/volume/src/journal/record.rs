//! Records: what changes a pool, in the order in which it happened. The journal is a sequence of
//! them, and a checkpoint says by records how the pool was when it was taken.

use onefold_block::BlockSize;
use onefold_container::Codec;
use onefold_fingerprint::Fingerprint;
use onefold_seal::wire::{Put, Reader, WireError};
use onefold_seal::{CHECK_LEN, Check, ObjectId};

use crate::containers::entry::{MAX_PAGE, MOST_PAGES, PageEntry};
use crate::ids::{Handle, SharedName, VolumeId, Writer};
use crate::limits::{MAX_NAME, check_size};

/// Numbers of writers and files are at most this.
const MAX_NUMBER: u64 = (1 << 63) - 1;

/// Entries of a segment of a map.
pub(crate) const SEGMENT: usize = 512;

/// One change of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Record {
    /// A page was appended to a container that is not sealed; its slot is the next one.
    Page { container: u32, page: PageEntry },
    /// A container has its footer.
    Sealed { container: u32 },
    /// A container is gone.
    Dropped { container: u32 },
    /// A block of a volume is this page from now on, or a hole.
    Map { volume: VolumeId, block: u64, to: Handle },
    /// A volume came into being, empty or as another one is. In a checkpoint it only tells of that
    /// one: its map is told by segments.
    Create {
        volume: VolumeId,
        name: String,
        size: u64,
        block_size: BlockSize,
        is_read_only: bool,
        source: Option<VolumeId>,
        /// When, in seconds since 1970.
        made: u64,
    },
    /// A volume is gone.
    Delete { volume: VolumeId },
    /// A volume has another size; blocks beyond it are holes.
    Resize { volume: VolumeId, size: u64 },
    /// A page lies elsewhere from now on, wherever it is mapped.
    Moved { from: Handle, to: Handle },
    /// Part `index` of a volume's map is this segment. In checkpoints only.
    Placed { volume: VolumeId, index: u32, segment: u32 },
    /// A segment, the next in number. In checkpoints only.
    Segment { pages: Vec<Handle> },
    /// What the next of each takes for a number. In checkpoints only.
    Next { volume: VolumeId, container: u32 },
    /// What follows tells of tables. The first record of a checkpoint that does, and only there.
    Paged,
    /// A file of nodes, the next in number. In checkpoints only.
    NodeFile { writer: Writer, number: u64 },
    /// A segment that is stored, the next in number. In checkpoints only.
    Stored { node: StoredNode, mapped: u32 },
    /// Parts of a volume's map from `index` on are segments from `segment` on. In checkpoints only.
    PlacedRun { volume: VolumeId, index: u32, segment: u32, count: u32 },
    /// The same of a map that no volume has any more, whose references are not let go yet. In
    /// checkpoints only.
    Dying { map: u32, volume: VolumeId, index: u32, segment: u32, count: u32 },
    /// The pages of a container and their references. In checkpoints only.
    Table(Box<TableRecord>),
    /// So many references of a page are not in its container's table yet. In checkpoints only.
    Pending { page: Handle, times: i32 },
    /// A container is one that another pool of a cluster made and closed. In paged pools only.
    Foreign {
        container: u32,
        /// The writer and the number by which its object is named, both from 1.
        writer: Writer,
        number: u64,
        /// Bytes of the object, footer included.
        len: u64,
    },
    /// What is about to be done with the registration of a container that pools of a cluster share. In
    /// paged pools only.
    Announce { container: u32, what: Announced },
    /// What was announced of a registration was done, or never will be. In paged pools only.
    Settle { container: u32, is_registered: bool },
}

/// What is about to be done with a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Announced {
    /// The pool makes the container, as this writer.
    Create(Writer),
    /// The pool registers in a container that it or another one made, as this writer.
    Register(Writer, SharedName),
    /// The pool does without it.
    Drop,
}

impl Announced {
    fn encode(self, body: &mut Vec<u8>) {
        match self {
            Self::Create(writer) => {
                body.put_u8(1);
                body.put_varint(writer.0);
            }
            Self::Register(writer, name) => {
                body.put_u8(2);
                body.put_varint(writer.0);
                body.extend_from_slice(name.shard.as_bytes());
                body.put_varint(name.writer.0);
                body.put_varint(name.number);
            }
            Self::Drop => body.put_u8(3),
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let writer = |reader: &mut Reader<'_>| from_1(reader, "a writer from 1 on").map(Writer);
        Ok(match reader.u8("what is announced")? {
            1 => Self::Create(writer(reader)?),
            2 => Self::Register(
                writer(reader)?,
                SharedName {
                    shard: ObjectId::from_bytes(reader.array("a shard")?),
                    writer: writer(reader)?,
                    number: from_1(reader, "the number of a container, from 1 on")?,
                },
            ),
            3 => Self::Drop,
            _ => return Err(reader.error("1 (create), 2 (register) or 3 (drop)")),
        })
    }
}

/// Where a checkpoint says that a node is stored: in which of its files of nodes, and which one there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredNode {
    pub(crate) file: u32,
    pub(crate) index: u32,
}

/// The pages of a container and their references, as a checkpoint tells of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TableRecord {
    pub(crate) container: u32,
    /// Bytes of its file.
    pub(crate) len: u64,
    /// Where its first page begins, and its last ends.
    pub(crate) begin: u32,
    pub(crate) end: u32,
    /// Pages.
    pub(crate) pages: u32,
    /// Pages that are referred to, and bytes of them, but for what is pending.
    pub(crate) live: u32,
    pub(crate) live_bytes: u64,
    /// References to its pages, if nobody knows these.
    pub(crate) lost_references: u64,
    /// The nodes with a place for each page, and those with its references.
    pub(crate) places: Vec<StoredNode>,
    pub(crate) references: Vec<StoredNode>,
}

impl TableRecord {
    fn encode(&self, body: &mut Vec<u8>) {
        body.put_varint(self.container.into());
        body.put_varint(self.len);
        body.put_varint(self.begin.into());
        body.put_varint(self.end.into());
        body.put_varint(self.pages.into());
        body.put_varint(self.live.into());
        body.put_varint(self.live_bytes);
        body.put_varint(self.lost_references);
        put_nodes(body, &self.places);
        put_nodes(body, &self.references);
    }

    fn decode(container: u32, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let max = u64::from(u32::MAX);
        let len = reader.varint("a length")?;
        let begin = reader.varint_to(max, "where the first page begins")? as u32;
        let end = reader.varint_to(max, "where the last page ends")? as u32;
        let pages = reader.varint_to(MOST_PAGES.into(), "at most 2^19 pages")? as u32;
        let live = reader.varint_to(pages.into(), "no more pages in use than there are")? as u32;
        let live_bytes = reader.varint_to(end.into(), "no more bytes in use than there are")?;
        let lost_references = reader.varint("a number of references")?;
        let nodes = (pages as usize).div_ceil(SEGMENT);
        let places = take_nodes(reader, nodes)?;
        let references = take_nodes(reader, nodes)?;
        Ok(Self {
            container,
            len,
            begin,
            end,
            pages,
            live,
            live_bytes,
            lost_references,
            places,
            references,
        })
    }
}

/// Writes nodes as runs: file, first index, count.
fn put_nodes(body: &mut Vec<u8>, nodes: &[StoredNode]) {
    let is_next = |one: &StoredNode, next: &StoredNode| {
        one.file == next.file && one.index.checked_add(1) == Some(next.index)
    };
    for run in nodes.chunk_by(is_next) {
        body.put_varint(run[0].file.into());
        body.put_varint(run[0].index.into());
        body.put_varint(run.len() as u64);
    }
}

/// Reads runs until there are `count` nodes.
fn take_nodes(reader: &mut Reader<'_>, count: usize) -> Result<Vec<StoredNode>, WireError> {
    let mut nodes = Vec::with_capacity(count);
    while nodes.len() < count {
        let StoredNode { file, index } = StoredNode::decode(reader)?;
        let left = (count - nodes.len()) as u64;
        let run = reader.varint_to(left, "no more nodes than there are pages for")?;
        let end = u64::from(index) + run;
        if run == 0 || end > u64::from(u32::MAX) {
            return Err(reader.error("a run of nodes"));
        }
        nodes.extend((index..end as u32).map(|index| StoredNode { file, index }));
    }
    Ok(nodes)
}

impl StoredNode {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let max = u64::from(u32::MAX);
        let file = reader.varint_to(max, "a file of nodes")? as u32;
        Ok(Self { file, index: reader.varint_to(max, "a node")? as u32 })
    }
}

impl Record {
    pub(crate) fn encode(&self, body: &mut Vec<u8>) {
        match self {
            Self::Page { container, page } => {
                body.put_u8(1);
                body.put_varint((*container).into());
                body.put_varint(page.offset.into());
                body.put_varint(page.stored_len.into());
                body.put_varint(page.len.into());
                body.put_u8(page.codec.code());
                body.extend_from_slice(page.check.as_bytes());
                body.extend_from_slice(page.fingerprint.as_bytes());
            }
            Self::Sealed { container } => {
                body.put_u8(2);
                body.put_varint((*container).into());
            }
            Self::Dropped { container } => {
                body.put_u8(3);
                body.put_varint((*container).into());
            }
            Self::Map { volume, block, to } => {
                body.put_u8(4);
                body.put_varint(volume.0.into());
                body.put_varint(*block);
                to.encode(body);
            }
            Self::Create { volume, name, size, block_size, is_read_only, source, made } => {
                body.put_u8(5);
                body.put_varint(volume.0.into());
                body.put_bytes(name.as_bytes());
                body.put_varint(*size);
                body.put_varint(block_size.bytes().into());
                body.put_u8((*is_read_only).into());
                body.put_varint(source.map_or(0, |source| u64::from(source.0) + 1));
                body.put_varint(*made);
            }
            Self::Delete { volume } => {
                body.put_u8(6);
                body.put_varint(volume.0.into());
            }
            Self::Resize { volume, size } => {
                body.put_u8(7);
                body.put_varint(volume.0.into());
                body.put_varint(*size);
            }
            Self::Moved { from, to } => {
                body.put_u8(8);
                from.encode(body);
                to.encode(body);
            }
            Self::Placed { volume, index, segment } => {
                body.put_u8(9);
                body.put_varint(volume.0.into());
                body.put_varint((*index).into());
                body.put_varint((*segment).into());
            }
            Self::Segment { pages } => {
                body.put_u8(10);
                pages.iter().for_each(|page| page.encode(body));
            }
            Self::Next { volume, container } => {
                body.put_u8(11);
                body.put_varint(volume.0.into());
                body.put_varint((*container).into());
            }
            Self::Paged => body.put_u8(12),
            Self::NodeFile { writer, number } => {
                body.put_u8(13);
                body.put_varint(writer.0);
                body.put_varint(*number);
            }
            Self::Stored { node, mapped } => {
                body.put_u8(14);
                body.put_varint(node.file.into());
                body.put_varint(node.index.into());
                body.put_varint((*mapped).into());
            }
            Self::PlacedRun { volume, index, segment, count } => {
                body.put_u8(15);
                body.put_varint(volume.0.into());
                for number in [index, segment, count] {
                    body.put_varint((*number).into());
                }
            }
            Self::Dying { map, volume, index, segment, count } => {
                body.put_u8(16);
                body.put_varint((*map).into());
                body.put_varint(volume.0.into());
                for number in [index, segment, count] {
                    body.put_varint((*number).into());
                }
            }
            Self::Table(table) => {
                body.put_u8(17);
                table.encode(body);
            }
            Self::Pending { page, times } => {
                body.put_u8(18);
                page.encode(body);
                body.put_u32(*times as u32);
            }
            Self::Foreign { container, writer, number, len } => {
                body.put_u8(19);
                body.put_varint((*container).into());
                for number in [writer.0, *number, *len] {
                    body.put_varint(number);
                }
            }
            Self::Announce { container, what } => {
                body.put_u8(20);
                body.put_varint((*container).into());
                what.encode(body);
            }
            Self::Settle { container, is_registered } => {
                body.put_u8(21);
                body.put_varint((*container).into());
                body.put_u8((*is_registered).into());
            }
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let max = u64::from(u32::MAX);
        let container = |reader: &mut Reader<'_>| match reader.varint_to(max - 1, "a container")? {
            0 => Err(reader.error("a container from 1 on")),
            number => Ok(number as u32),
        };
        Ok(match reader.u8("a kind of record")? {
            1 => Self::Page {
                container: container(reader)?,
                page: PageEntry {
                    offset: reader.varint_to(max, "an offset")? as u32,
                    stored_len: page_len(reader, "a stored length of at most 4,096 bytes")?,
                    len: page_len(reader, "a page of at most 4,096 bytes")?,
                    codec: Codec::from_code(reader.u8("a codec")?)
                        .ok_or(reader.error("codec 0 (raw), 1 (zstd), 2 (LZ4) or 3 (DEFLATE)"))?,
                    check: Check::from_bytes(reader.array::<CHECK_LEN>("a check")?),
                    fingerprint: Fingerprint::from_bytes(reader.array("a fingerprint")?),
                },
            },
            2 => Self::Sealed { container: container(reader)? },
            3 => Self::Dropped { container: container(reader)? },
            4 => Self::Map {
                volume: VolumeId::decode(reader)?,
                block: reader.varint("a block")?,
                to: Handle::decode(reader)?,
            },
            5 => Self::decode_create(reader)?,
            6 => Self::Delete { volume: VolumeId::decode(reader)? },
            7 => Self::Resize { volume: VolumeId::decode(reader)?, size: reader.varint("a size")? },
            8 => match (Handle::decode(reader)?, Handle::decode(reader)?) {
                (from, to) if !from.is_hole() && !to.is_hole() && from < to => {
                    Self::Moved { from, to }
                }
                _ => return Err(reader.error("a page that moved to a later place")),
            },
            9 => Self::Placed {
                volume: VolumeId::decode(reader)?,
                index: reader.varint_to(max, "a part of a map")? as u32,
                segment: reader.varint_to(max, "a segment")? as u32,
            },
            10 => Self::Segment {
                pages: (0..SEGMENT).map(|_| Handle::decode(reader)).collect::<Result<_, _>>()?,
            },
            11 => Self::Next { volume: VolumeId::decode(reader)?, container: container(reader)? },
            12 => Self::Paged,
            13 => Self::NodeFile {
                writer: Writer(reader.varint_to(MAX_NUMBER, "a writer")?),
                number: reader.varint_to(MAX_NUMBER, "a file of nodes")?,
            },
            14 => Self::Stored {
                node: StoredNode::decode(reader)?,
                mapped: reader.varint_to(SEGMENT as u64, "at most 512 blocks")? as u32,
            },
            15 => {
                let volume = VolumeId::decode(reader)?;
                let (index, segment, count) = run(reader)?;
                Self::PlacedRun { volume, index, segment, count }
            }
            16 => {
                let map = reader.varint_to(max, "a map")? as u32;
                let volume = VolumeId::decode(reader)?;
                let (index, segment, count) = run(reader)?;
                Self::Dying { map, volume, index, segment, count }
            }
            17 => {
                let container = container(reader)?;
                Self::Table(Box::new(TableRecord::decode(container, reader)?))
            }
            18 => match Handle::decode(reader)? {
                page if page.is_hole() => return Err(reader.error("a page")),
                page => Self::Pending { page, times: reader.u32("references")? as i32 },
            },
            19 => {
                let container = container(reader)?;
                Self::Foreign {
                    container,
                    writer: Writer(from_1(reader, "a writer from 1 on")?),
                    number: from_1(reader, "the number of an object, from 1 on")?,
                    len: from_1(reader, "a length above 0")?,
                }
            }
            20 => {
                Self::Announce { container: container(reader)?, what: Announced::decode(reader)? }
            }
            21 => Self::Settle {
                container: container(reader)?,
                is_registered: match reader.u8("whether it is registered")? {
                    0 => false,
                    1 => true,
                    _ => return Err(reader.error("0 or 1")),
                },
            },
            _ => return Err(reader.error("a kind of record from 1 to 21")),
        })
    }

    fn decode_create(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let volume = VolumeId::decode(reader)?;
        let name = reader.bytes("a name")?;
        let name = str::from_utf8(name).map_err(|_| reader.error("a name in UTF-8"))?.to_owned();
        if name.len() > MAX_NAME {
            return Err(reader.error("a name of at most 255 bytes"));
        }
        let size = reader.varint("a size")?;
        let block_size = match reader.varint("a block size")? {
            512 => BlockSize::B512,
            4096 => BlockSize::B4096,
            _ => return Err(reader.error("a block size of 512 or 4,096")),
        };
        let is_read_only = match reader.u8("whether it is read-only")? {
            0 => false,
            1 => true,
            _ => return Err(reader.error("0 or 1")),
        };
        if check_size(size, block_size).is_err() {
            return Err(reader.error("a size that a volume can have"));
        }
        let source = reader.varint_to(1 << 32, "a source")?.checked_sub(1);
        let source = source.map(|source| VolumeId(source as u32));
        let made = reader.varint("a time")?;
        Ok(Self::Create { volume, name, size, block_size, is_read_only, source, made })
    }
}

/// An index, a segment, and how many follow them, which is at least one.
fn run(reader: &mut Reader<'_>) -> Result<(u32, u32, u32), WireError> {
    let max = u64::from(u32::MAX);
    let index = reader.varint_to(max, "a part of a map")?;
    let segment = reader.varint_to(max, "a segment")?;
    let count = reader.varint_to(max - index.max(segment), "a number of segments")?;
    if count == 0 {
        return Err(reader.error("a segment at least"));
    }
    Ok((index as u32, segment as u32, count as u32))
}

/// A number of a writer or a file, from 1 on.
fn from_1(reader: &mut Reader<'_>, expected: &'static str) -> Result<u64, WireError> {
    match reader.varint_to(MAX_NUMBER, expected)? {
        0 => Err(reader.error(expected)),
        number => Ok(number),
    }
}

/// A length that a page can have.
fn page_len(reader: &mut Reader<'_>, expected: &'static str) -> Result<u32, WireError> {
    reader.varint_to(MAX_PAGE.into(), expected).map(|len| len as u32)
}

/// Gives each record in `body` to `take`.
pub(crate) fn decode_all<E: From<WireError>>(
    body: &[u8],
    mut take: impl FnMut(Record) -> Result<(), E>,
) -> Result<(), E> {
    let mut reader = Reader::new(body);
    while reader.remaining() > 0 {
        take(Record::decode(&mut reader)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::containers::entry::{MAX_PAGE, PageEntry};

    fn records() -> Vec<Record> {
        let page = PageEntry {
            offset: 36,
            stored_len: 1000,
            len: 4096,
            codec: Codec::Zstd,
            check: Check::from_bytes([3; 16]),
            fingerprint: Fingerprint::from_bytes([5; 32]),
        };
        let handle = Handle::new(9, 7);
        let create = |source| Record::Create {
            volume: VolumeId(3),
            name: "größe".into(),
            size: 1 << 40,
            block_size: BlockSize::B512,
            is_read_only: true,
            source,
            made: 1 << 40,
        };
        vec![
            Record::Page { container: 300, page },
            Record::Sealed { container: 1 },
            Record::Dropped { container: u32::MAX - 1 },
            Record::Map { volume: VolumeId(0), block: 1 << 50, to: handle },
            Record::Map { volume: VolumeId(0), block: 0, to: Handle::HOLE },
            create(None),
            create(Some(VolumeId(u32::MAX))),
            Record::Delete { volume: VolumeId(9) },
            Record::Resize { volume: VolumeId(9), size: 4096 },
            Record::Moved { from: handle, to: Handle::new(10, 0) },
            Record::Placed { volume: VolumeId(1), index: 2, segment: 3 },
            Record::Segment { pages: (0..SEGMENT as u32).map(|i| Handle::new(1 + i, i)).collect() },
            Record::Paged,
            Record::NodeFile { writer: Writer(3), number: MAX_NUMBER },
            Record::Stored { node: StoredNode { file: 1, index: 70_000 }, mapped: 512 },
            Record::PlacedRun { volume: VolumeId(1), index: 2, segment: 3, count: 400 },
            Record::Dying { map: 1, volume: VolumeId(1), index: 2, segment: 3, count: 1 },
            Record::Table(Box::new(TableRecord {
                container: 9,
                len: 1 << 24,
                begin: 36,
                end: 1 << 23,
                pages: 1300,
                live: 1299,
                live_bytes: 1 << 22,
                lost_references: 0,
                places: [7, 8, 12].map(|index| StoredNode { file: 0, index }).into(),
                references: [(0, 9), (1, 10), (0, 11)]
                    .map(|(file, index)| StoredNode { file, index })
                    .into(),
            })),
            Record::Pending { page: handle, times: -3 },
            foreign(),
            Record::Announce { container: 9, what: Announced::Create(Writer(MAX_NUMBER)) },
            Record::Announce { container: 9, what: Announced::Register(Writer(3), shared()) },
            Record::Announce { container: 9, what: Announced::Drop },
            Record::Settle { container: 9, is_registered: true },
            Record::Settle { container: 9, is_registered: false },
            Record::Next { volume: VolumeId(1), container: 2 },
        ]
    }

    #[test]
    fn records_come_back_and_nothing_shorter_does() {
        for record in records() {
            let mut body = Vec::new();
            record.encode(&mut body);
            for len in 1..body.len() {
                let found = decode_all(&body[..len], |_| Ok::<_, WireError>(()));
                assert!(found.is_err(), "{record:?} cut off at {len}");
            }
            let mut found = Vec::new();
            decode_all(&body, |one| {
                found.push(one);
                Ok::<_, WireError>(())
            })
            .unwrap();
            assert_eq!(found, [record]);
        }
    }

    fn foreign() -> Record {
        Record::Foreign { container: 9, writer: Writer(MAX_NUMBER), number: 7, len: 1 << 24 }
    }

    #[test]
    fn a_foreign_container_has_the_documented_bytes_and_no_number_of_it_is_zero() {
        let mut body = Vec::new();
        foreign().encode(&mut body);
        let writer = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
        let documented = [&[19, 9][..], &writer, &[7], &[0x80, 0x80, 0x80, 8]].concat();
        assert_eq!(body, documented);
        for bad in [
            [19, 0, 1, 1, 1].as_slice(),
            &[19, 1, 0, 1, 1],
            &[19, 1, 1, 0, 1],
            &[19, 1, 1, 1, 0],
            // a writer of 2^63
            &[19, 1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1, 1, 1],
        ] {
            assert!(decode_all(bad, |_| Ok::<_, WireError>(())).is_err(), "{bad:?}");
        }
        decode_all(&[19, 1, 1, 1, 1], |_| Ok::<_, WireError>(())).unwrap();
    }

    fn shared() -> SharedName {
        let shard = ObjectId::from_bytes([7; ObjectId::LEN]);
        SharedName { shard, writer: Writer(300), number: 5 }
    }

    #[test]
    fn registrations_have_the_documented_bytes() {
        let shard = [7; ObjectId::LEN];
        let documented: [(Record, Vec<u8>); 5] = [
            (
                Record::Announce { container: 9, what: Announced::Create(Writer(300)) },
                vec![20, 9, 1, 0xac, 2],
            ),
            (
                Record::Announce { container: 9, what: Announced::Register(Writer(1), shared()) },
                [&[20, 9, 2, 1][..], &shard, &[0xac, 2, 5]].concat(),
            ),
            (Record::Announce { container: 9, what: Announced::Drop }, vec![20, 9, 3]),
            (Record::Settle { container: 9, is_registered: true }, vec![21, 9, 1]),
            (Record::Settle { container: 9, is_registered: false }, vec![21, 9, 0]),
        ];
        for (record, bytes) in documented {
            let mut body = Vec::new();
            record.encode(&mut body);
            assert_eq!(body, bytes);
        }
        for bad in [
            [20, 0, 3].as_slice(),
            &[20, 9, 0],
            &[20, 9, 4],
            &[20, 9, 1, 0],
            &[21, 9, 2],
            &[21, 0, 1],
            &[22, 9],
        ] {
            assert!(decode_all(bad, |_| Ok::<_, WireError>(())).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_page_longer_than_any_block_is_refused_before_memory_is_taken_for_it() {
        let Record::Page { container, page } = records().swap_remove(0) else { unreachable!() };
        for (stored_len, len, is_good) in [
            (MAX_PAGE, MAX_PAGE, true),
            (0, 0, true),
            (MAX_PAGE + 1, MAX_PAGE, false),
            (MAX_PAGE, MAX_PAGE + 1, false),
            (u32::MAX, u32::MAX, false),
        ] {
            let record =
                Record::Page { container, page: PageEntry { stored_len, len, ..page.clone() } };
            let mut body = Vec::new();
            record.encode(&mut body);
            let found = decode_all(&body, |_| Ok::<_, WireError>(()));
            assert_eq!(found.is_ok(), is_good, "{stored_len} {len}");
            assert!(found.err().is_none_or(|error| error.to_string().contains("4,096")));
        }
    }

    #[test]
    fn records_follow_each_other() {
        let mut body = Vec::new();
        records().iter().for_each(|record| record.encode(&mut body));
        let mut found = Vec::new();
        decode_all(&body, |one| {
            found.push(one);
            Ok::<_, WireError>(())
        })
        .unwrap();
        assert_eq!(found, records());
    }
}
