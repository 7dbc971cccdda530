//! Reading a snapshot as a stream: entries, and the bytes of files, in order.
//!
//! One thread walks the trees and gives on what was read; the chunks of what it met come ahead of that,
//! in windows.

use std::thread;

use bytes::Bytes;

use crate::chunks::reader::ChunkReader;
use crate::reading::walk::walk;
use crate::reading::windows::{Step, Windows};
use crate::tree::inodes::Inodes;
use crate::tree::layout::Layout;
use crate::tree::{Entry, Node, weight};
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
        let windows =
            Windows::new(scope, (chunks, cancel), |_, bytes| Bytes::copy_from_slice(bytes));
        let writer = Writer { take, cancel, file: None };
        let mut dump = Dump { chunks, cancel, windows, inodes: Inodes::default(), writer };
        dump.entry(b"", entry)?;
        walk(chunks, entry, &mut |path, entry| dump.entry(path, entry))?;
        while let Some(window) = dump.windows.next()? {
            dump.writer.write(window)?;
        }
        dump.writer.end_file()
    })
}

/// An entry that the walk met.
struct Met {
    path: Vec<u8>,
    entry: Entry,
    /// Under which name it came before.
    first: Option<Vec<u8>>,
}

struct Dump<'a, 't> {
    chunks: &'a ChunkReader<'a>,
    cancel: &'a Cancel,
    windows: Windows<'a, Met, Bytes>,
    inodes: Inodes<Vec<u8>>,
    writer: Writer<'t>,
}

impl Dump<'_, '_> {
    fn entry(&mut self, path: &[u8], entry: &Entry) -> Result<(), StoreError> {
        let (path, len) = (path.to_vec(), path.len() + weight(entry) as usize);
        let first = self.inodes.first_name(entry, &path).cloned();
        let is_link = first.is_some();
        self.windows.met(Met { path, entry: entry.clone(), first }, len);
        self.go_on()?;
        match &entry.node {
            Node::File { content, .. } if !is_link => self.chunks.visit(content, &mut |leaf| {
                self.windows.want(leaf);
                self.go_on()
            }),
            _ => Ok(()),
        }
    }

    /// Gives on what was brought, if too much waits behind it.
    fn go_on(&mut self) -> Result<(), StoreError> {
        self.cancel.check()?;
        while let Some(window) = self.windows.over()? {
            self.writer.write(window)?;
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
    fn write(&mut self, window: Vec<Step<Met, Bytes>>) -> Result<(), StoreError> {
        window.into_iter().try_for_each(|step| match step {
            Step::Chunk(leaf) => self.chunk(&leaf.brought()?),
            Step::Met(met) => self.entry(met),
        })
    }

    fn entry(&mut self, Met { path, entry, first }: Met) -> Result<(), StoreError> {
        self.end_file()?;
        if let Some(first) = first {
            return (self.take)(Part::Link { path: &path, entry: &entry, first: &first });
        }
        if let Node::File { size, extents, .. } = &entry.node {
            let layout = Layout::new(extents.as_deref());
            self.file = Some(OpenFile { layout, size: *size, content: 0, at: 0 });
        }
        (self.take)(Part::Entry { path: &path, entry: &entry })
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
        cancel.check()?;
        let part = len.min(ZEROS.len() as u64);
        take(Part::Bytes(&ZEROS[..part as usize]))?;
        len -= part;
    }
    Ok(())
}
