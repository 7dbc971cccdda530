//! The journal: a sequence of commits that say which parts of the local index's files are valid.
//!
//! The header names the repository and the index. Each commit has the added objects and runs, and the list
//! of all segments from then on. Anything that no commit names is ignored, whatever the other files hold.

use onefold_backend::Log;
use onefold_seal::wire::{Put, Reader, WireError};
use onefold_seal::{CHECK_LEN, Check, ObjectId};

use crate::IndexError;
use crate::filter::Shape;
use crate::segment::Outline;

/// The name of the file.
pub(crate) const NAME: &str = "journal";

/// The first bytes of a journal: four letters and the format version of all files.
const MARK: [u8; 5] = *b"1FLI\x01";
/// Length of the header: mark, repository, index, check.
const HEADER_LEN: usize = MARK.len() + 16 + 16 + CHECK_LEN;
/// Bytes before a commit's body: its length and its check.
const PREFIX_LEN: usize = 4 + CHECK_LEN;

/// An object whose chunks are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) id: ObjectId,
    /// The first page of its list.
    pub(crate) first: u32,
    /// The number of its chunks.
    pub(crate) chunks: u32,
    /// The total length of its chunks in bytes.
    pub(crate) bytes: u64,
}

/// A run that was read and need not be read again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownRun {
    pub(crate) id: ObjectId,
    /// Numbers of the objects with a list that it covers.
    pub(crate) covers: Vec<u32>,
}

/// The additions of one commit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) objects: Vec<Object>,
    pub(crate) runs: Vec<KnownRun>,
    /// All current segments, oldest first.
    pub(crate) segments: Vec<Outline>,
    /// The current number of pages of the lists.
    pub(crate) list_pages: u32,
    /// The number of the next segment.
    pub(crate) next_segment: u64,
}

/// An open journal.
pub(crate) struct Journal {
    log: Box<dyn Log + Sync>,
    repository: ObjectId,
    index: ObjectId,
}

/// The content of a log.
pub(crate) enum Opened {
    /// A journal, and all its commits combined.
    Whole(Journal, Commit),
    /// No journal.
    Other(Box<dyn Log + Sync>),
}

impl Journal {
    /// The journal in `log` if it belongs to `repository`. Truncates a torn end.
    pub(crate) fn open(
        mut log: Box<dyn Log + Sync>,
        repository: ObjectId,
    ) -> Result<Opened, IndexError> {
        let mut bytes = vec![0; log.len() as usize];
        log.read(0, &mut bytes).map_err(IndexError::Local)?;
        let Some((index, mut at)) = read_header(&bytes, repository) else {
            return Ok(Opened::Other(log));
        };
        let mut whole = Commit::default();
        while let Some((commit, len)) = read_commit(&bytes[at..], &index) {
            at += len;
            whole.objects.extend(commit.objects);
            whole.runs.extend(commit.runs);
            let Commit { segments, list_pages, next_segment, .. } = commit;
            whole = Commit { segments, list_pages, next_segment, ..whole };
        }
        if at < bytes.len() {
            log.truncate(at as u64).map_err(IndexError::Local)?;
        }
        Ok(Opened::Whole(Self { log, repository, index }, whole))
    }

    /// Begins a journal in `log`, replacing its content.
    pub(crate) fn begin(
        mut log: Box<dyn Log + Sync>,
        repository: ObjectId,
    ) -> Result<Self, IndexError> {
        log.truncate(0).map_err(IndexError::Local)?;
        let index = ObjectId::random();
        let mut header = Vec::with_capacity(HEADER_LEN);
        header.extend_from_slice(&MARK);
        header.extend_from_slice(repository.as_bytes());
        header.extend_from_slice(index.as_bytes());
        header.extend_from_slice(Check::of(&[&header]).as_bytes());
        log.append(&header).map_err(IndexError::Local)?;
        log.sync().map_err(IndexError::Local)?;
        Ok(Self { log, repository, index })
    }

    /// Restarts the journal in the same file.
    pub(crate) fn begin_anew(self) -> Result<Self, IndexError> {
        Self::begin(self.log, self.repository)
    }

    /// Invalidates all files: the next process that opens them rebuilds the index.
    pub(crate) fn give_up(&mut self) -> Result<(), IndexError> {
        self.log.truncate(0).map_err(IndexError::Local)
    }

    /// The unique name of this index.
    pub(crate) fn index(&self) -> ObjectId {
        self.index
    }

    /// Appends a commit, which is durable on return.
    pub(crate) fn commit(&mut self, commit: &Commit) -> Result<(), IndexError> {
        let body = commit.encode();
        let len = u32::try_from(body.len())
            .map_err(|_| IndexError::Unfit("too much came with one commit"))?;
        let mut record = Vec::with_capacity(PREFIX_LEN + body.len());
        record.put_u32(len);
        record.extend_from_slice(Check::of(&[self.index.as_bytes(), &body]).as_bytes());
        record.extend_from_slice(&body);
        self.log.append(&record).map_err(IndexError::Local)?;
        self.log.sync().map_err(IndexError::Local)
    }
}

/// The name of the index in a header, and the offset of the header's end.
fn read_header(bytes: &[u8], repository: ObjectId) -> Option<(ObjectId, usize)> {
    let header = bytes.get(..HEADER_LEN)?;
    let (fields, check) = header.split_at(HEADER_LEN - CHECK_LEN);
    let mut reader = Reader::new(fields);
    let is_ours = reader.array("").ok()? == MARK
        && reader.array("").ok()? == *repository.as_bytes()
        && Check::of(&[fields]).as_bytes() == check;
    let index = ObjectId::from_bytes(reader.array("").ok()?);
    is_ours.then_some((index, HEADER_LEN))
}

/// The next commit and its length, unless it is torn.
fn read_commit(bytes: &[u8], index: &ObjectId) -> Option<(Commit, usize)> {
    let mut reader = Reader::new(bytes);
    let len = reader.u32("").ok()? as usize;
    let check: [u8; CHECK_LEN] = reader.array("").ok()?;
    let body = reader.take(len, "").ok()?;
    if *Check::of(&[index.as_bytes(), body]).as_bytes() != check {
        return None;
    }
    Some((Commit::decode(body).ok()?, PREFIX_LEN + len))
}

impl Commit {
    fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(64 + 32 * self.objects.len());
        body.put_varint(self.objects.len() as u64);
        for object in &self.objects {
            body.extend_from_slice(object.id.as_bytes());
            body.put_u32(object.first);
            body.put_u32(object.chunks);
            body.put_u64(object.bytes);
        }
        body.put_varint(self.runs.len() as u64);
        for run in &self.runs {
            body.extend_from_slice(run.id.as_bytes());
            body.put_varint(run.covers.len() as u64);
            run.covers.iter().for_each(|object| body.put_u32(*object));
        }
        body.put_varint(self.segments.len() as u64);
        for segment in &self.segments {
            body.put_varint(segment.number);
            body.put_varint(segment.entries);
            body.put_u32(segment.pages);
            body.put_u32(segment.filter.sparsity);
            body.put_u32(segment.filter.blocks);
        }
        body.put_u32(self.list_pages);
        body.put_u64(self.next_segment);
        body
    }

    fn decode(body: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(body);
        let mut commit = Self::default();
        for _ in 0..reader.count(32, "the count of objects")? {
            commit.objects.push(Object {
                id: ObjectId::from_bytes(reader.array("an object")?),
                first: reader.u32("its first page")?,
                chunks: reader.u32("its count of chunks")?,
                bytes: reader.u64("its bytes")?,
            });
        }
        for _ in 0..reader.count(17, "the count of runs")? {
            let id = ObjectId::from_bytes(reader.array("a run")?);
            let count = reader.count(4, "the count of covered objects")?;
            let covers = (0..count).map(|_| reader.u32("a covered object"));
            commit.runs.push(KnownRun { id, covers: covers.collect::<Result<_, _>>()? });
        }
        for _ in 0..reader.count(14, "the count of segments")? {
            let number = reader.varint("a segment")?;
            let entries = reader.varint("its count of entries")?;
            let pages = reader.u32("its pages")?;
            let sparsity = reader.u32("its sparsity")?;
            let blocks = reader.u32("its blocks")?;
            if pages == 0 || sparsity > 63 || blocks == 0 {
                return Err(reader.error("a segment with pages and a filter"));
            }
            let filter = Shape { sparsity, blocks };
            commit.segments.push(Outline { number, entries, pages, filter });
        }
        commit.list_pages = reader.u32("the count of list pages")?;
        commit.next_segment = reader.u64("the number of the next segment")?;
        reader.finish()?;
        Ok(commit)
    }
}
