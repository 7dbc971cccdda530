//! A file or device that is open to be backed up: what there is to read, and what it becomes.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::SeekFrom;

use super::source;
use crate::tree::{Entry, Extent, Meta, Node};
use crate::{Outcome, Recipe};

/// A file as it was when it was opened.
///
/// Its *content* is what is read: all bytes, or those of its extents one after another.
pub(super) struct Opened {
    pub(super) path: PathBuf,
    /// What it is if all of it can be read.
    pub(super) outcome: Outcome,
    name: Vec<u8>,
    file: File,
    meta: Meta,
    size: u64,
    /// Where it has bytes, if it has holes.
    extents: Option<Vec<Extent>>,
    /// Where in the content each extent begins.
    starts: Vec<u64>,
    content_len: u64,
}

impl Opened {
    /// Opens what is at `path`, a block device only if it stands for the bytes that it holds.
    ///
    /// It is read `at` another path that leads to it.
    pub(super) fn new(
        (at, path): (&Path, &Path),
        name: &[u8],
        outcome: Outcome,
        is_device: bool,
    ) -> io::Result<Self> {
        let file = source::open(at, is_device)?;
        let metadata = file.metadata()?;
        let size = source::content_len(&file, &metadata)?;
        let extents = match metadata.is_file() {
            true => source::extents(&file, &metadata)?,
            false => None,
        };
        let mut content_len = 0;
        let mut starts = Vec::new();
        for extent in extents.iter().flatten() {
            starts.push(content_len);
            content_len += extent.len;
        }
        if extents.is_none() {
            content_len = size;
        }
        let meta = source::meta_of_open(&file, &metadata)?;
        let (path, name) = (path.to_owned(), name.to_vec());
        Ok(Self { path, outcome, name, file, meta, size, extents, starts, content_len })
    }

    /// How many bytes there were to read.
    pub(super) fn content_len(&self) -> u64 {
        self.content_len
    }

    /// Whether it can be read at any place. Some file systems have files that cannot.
    pub(super) fn is_seekable(&self) -> bool {
        rustix::fs::seek(&self.file, SeekFrom::Current(0)).is_ok()
    }

    /// Reads some of what follows the first `done` bytes of the content, which were read by this.
    /// 0 where the file ends now.
    pub(super) fn read_next(&self, buffer: &mut [u8], done: u64) -> io::Result<usize> {
        match self.extents {
            Some(_) => self.read_at(buffer, done),
            None => (&self.file).read(buffer),
        }
    }

    /// Fills `buffer` with the content from `offset` on, as far as the file goes now.
    pub(super) fn fill(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    /// Reads some of the content from `offset` on, which is inside it.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let Some(extents) = &self.extents else { return self.file.read_at(buffer, offset) };
        let number = self.starts.partition_point(|start| *start <= offset) - 1;
        let within = offset - self.starts[number];
        let left = extents[number].len - within;
        let wanted = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        self.file.read_at(&mut buffer[..wanted], extents[number].offset + within)
    }

    /// What the file becomes if `content` bytes of it were read, and whether it changed meanwhile.
    pub(super) fn entry(&self, content: u64) -> (Entry, bool) {
        let has_changed = content != self.content_len
            || self.file.metadata().map_or(true, |now| {
                let now = source::meta_without_xattrs(&now);
                (now.mtime, now.ctime) != (self.meta.mtime, self.meta.ctime)
            });
        let (size, extents) = as_read(self.size, self.extents.clone(), content);
        // The recipe is not known yet; its length is, and `OpenFile` fills the rest in.
        let content = Recipe { len: content, ..Recipe::EMPTY };
        let node = Node::File { size, content, extents };
        (Entry { name: self.name.clone(), meta: self.meta.clone(), node }, has_changed)
    }
}

/// Size and extents of a file of which `content` bytes were there when it was read.
fn as_read(size: u64, extents: Option<Vec<Extent>>, content: u64) -> (u64, Option<Vec<Extent>>) {
    let Some(mut extents) = extents else { return (content, None) };
    let mut left = content;
    for extent in &mut extents {
        extent.len = extent.len.min(left);
        left -= extent.len;
    }
    extents.retain(|extent| extent.len > 0);
    (size, Some(extents))
}
