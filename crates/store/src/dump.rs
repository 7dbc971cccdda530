//! Reading a snapshot as a stream: entries, and the bytes of files, in order.
//!
//! One thread walks the trees and takes what is read; others read and verify chunks ahead of it, also
//! those of the next files. What is on the way is bounded.

use std::thread;

use bytes::Bytes;

use crate::ahead::{Ahead, Reach};
use crate::chunks::{ChunkReader, Chunks};
use crate::inodes::Inodes;
use crate::layout::Layout;
use crate::repository::walk;
use crate::tree::{Entry, Node};
use crate::view::weight;
use crate::{Cancel, Repository, StoreError};

/// Bytes of decompressed groups that are kept.
const GROUP_CACHE: usize = 40 << 20;

/// Holes are given in stretches of at most this length.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// What comes next.
#[derive(Debug, Clone, Copy)]
pub enum Part<'a> {
    /// An entry. The bytes of a file follow, as many as its size says.
    Entry {
        /// Its path below the entry that is dumped, with slashes between components; empty for that
        /// entry itself.
        path: &'a [u8],
        /// What it is.
        entry: &'a Entry,
    },
    /// Another name of what came before. No bytes follow.
    Link {
        /// Its path.
        path: &'a [u8],
        /// What it is.
        entry: &'a Entry,
        /// The path under which it came.
        first: &'a [u8],
    },
    /// Verified bytes of the last file. Holes come as zeros.
    Bytes(&'a [u8]),
}

type Take<'t> = dyn FnMut(Part<'_>) -> Result<(), StoreError> + 't;

/// Gives `entry` and everything below it to `take`: directories before what they hold, in order of
/// names, and the bytes of each file after it.
///
/// # Errors
///
/// The first thing that cannot be read, or that `take` refuses, ends it. Everything that was given
/// until then is as the snapshot has it.
pub fn dump(
    repository: &Repository,
    entry: &Entry,
    cancel: &Cancel,
    take: &mut Take<'_>,
) -> Result<(), StoreError> {
    let chunks = &repository.reader()?.keeping_groups(GROUP_CACHE);
    thread::scope(|scope| {
        let writer = Writer { take, cancel, file: None };
        let mut dump = Dump {
            chunks,
            cancel,
            ahead: Ahead::new(scope, Reach::of(chunks.objects())),
            inodes: Inodes::default(),
            writer,
        };
        dump.entry(b"", entry)?;
        walk(chunks, entry, &mut |path, entry| dump.entry(path, entry))?;
        while let Some(read) = dump.ahead.next()? {
            dump.writer.write(read)?;
        }
        dump.writer.end_file()
    })
}

/// What a job came to.
enum Read {
    Entry { path: Vec<u8>, entry: Entry },
    Link { path: Vec<u8>, entry: Entry, first: Vec<u8> },
    Chunk(Result<Bytes, StoreError>),
}

struct Dump<'scope, 'env, 'a, 't> {
    chunks: &'scope ChunkReader<'a>,
    cancel: &'scope Cancel,
    ahead: Ahead<'scope, 'env, Read>,
    inodes: Inodes<Vec<u8>>,
    writer: Writer<'t>,
}

impl<'scope> Dump<'scope, '_, '_, '_> {
    fn entry(&mut self, path: &[u8], entry: &Entry) -> Result<(), StoreError> {
        let (path, len) = (path.to_vec(), path.len() + weight(entry) as usize);
        if let Some(first) = self.inodes.first_name(entry, &path) {
            let read = Read::Link { path, entry: entry.clone(), first: first.clone() };
            return self.push(len, move || read);
        }
        let read = Read::Entry { path, entry: entry.clone() };
        self.push(len, move || read)?;
        let Node::File { content, .. } = &entry.node else { return Ok(()) };
        let chunks = self.chunks;
        chunks.visit(content, &mut |leaf| {
            self.push(leaf.len as usize, move || Read::Chunk(chunks.leaf(&leaf)))
        })
    }

    /// Has `work` done and gives on what is over: no more than a few mebibytes are on the way.
    fn push(
        &mut self,
        len: usize,
        work: impl FnOnce() -> Read + Send + 'scope,
    ) -> Result<(), StoreError> {
        if self.cancel.is_cancelled() {
            return Err(StoreError::Interrupted);
        }
        self.ahead.push(len, work);
        while let Some(read) = self.ahead.over()? {
            self.writer.write(read)?;
        }
        Ok(())
    }
}

/// Gives on what was read, in order.
struct Writer<'t> {
    take: &'t mut Take<'t>,
    cancel: &'t Cancel,
    file: Option<OpenFile>,
}

/// The file whose bytes come.
struct OpenFile {
    layout: Layout,
    size: u64,
    /// How many bytes of its content were given on.
    content: u64,
    /// How many bytes of the file were given on, holes included.
    at: u64,
}

impl Writer<'_> {
    fn write(&mut self, read: Read) -> Result<(), StoreError> {
        match read {
            Read::Chunk(bytes) => self.chunk(&bytes?),
            Read::Link { path, entry, first } => {
                self.end_file()?;
                (self.take)(Part::Link { path: &path, entry: &entry, first: &first })
            }
            Read::Entry { path, entry } => {
                self.end_file()?;
                if let Node::File { size, extents, .. } = &entry.node {
                    let layout = Layout::new(extents.as_deref());
                    self.file = Some(OpenFile { layout, size: *size, content: 0, at: 0 });
                }
                (self.take)(Part::Entry { path: &path, entry: &entry })
            }
        }
    }

    fn chunk(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let Some(OpenFile { layout, content, at, .. }) = &mut self.file else {
            unreachable!("only files have chunks")
        };
        let (take, cancel) = (&mut *self.take, self.cancel);
        layout.place(*content, bytes.len(), |offset, part| {
            zeros(take, cancel, offset - *at)?;
            *at = offset + part.len() as u64;
            take(Part::Bytes(&bytes[part]))
        })?;
        *content += bytes.len() as u64;
        Ok(())
    }

    /// Gives on the hole at the end of the last file, if there is one.
    fn end_file(&mut self) -> Result<(), StoreError> {
        match self.file.take() {
            Some(OpenFile { size, at, .. }) => zeros(self.take, self.cancel, size - at),
            None => Ok(()),
        }
    }
}

/// Gives on a hole, which may be so long that the user stops it.
fn zeros(take: &mut Take<'_>, cancel: &Cancel, mut len: u64) -> Result<(), StoreError> {
    while len > 0 {
        if cancel.is_cancelled() {
            return Err(StoreError::Interrupted);
        }
        let part = len.min(ZEROS.len() as u64);
        take(Part::Bytes(&ZEROS[..part as usize]))?;
        len -= part;
    }
    Ok(())
}
