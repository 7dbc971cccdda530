//! Writing a file back, in pieces by several threads if it is long.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::target::{Target, set_meta, temporary_name};
use super::{Context, Counts};
use crate::chunks::ChunkReader;
use crate::error::is_lack_of_space;
use crate::repository::describe;
use crate::tree::{Entry, Extent, Meta, Node};
use crate::{Progress, Recipe, StoreError};

/// A piece has about this many bytes: enough to be worth a hand-over, few enough for a long file
/// to keep all threads busy.
const PIECE_LEN: u64 = 8 << 20;

/// A file on its way back.
pub(super) struct RestoredFile {
    target: Arc<Target>,
    path: Vec<Vec<u8>>,
    name: Vec<u8>,
    /// What the file is called until it is whole.
    temporary: Vec<u8>,
    meta: Meta,
    size: u64,
    layout: Layout,
    leaves: Vec<Recipe>,
    /// The open file, once the first piece made it, or why there is none.
    file: Mutex<Option<Result<Arc<File>, String>>>,
    /// Pieces that are still to be written.
    pending: AtomicUsize,
}

/// Some of the chunks of a file.
pub(super) struct Piece {
    file: Arc<RestoredFile>,
    leaves: Range<usize>,
    /// Offset in the file's content of the first of them.
    start: u64,
}

/// Where the bytes of the content go in the file.
enum Layout {
    /// Where they are.
    Dense,
    /// Into extents; with each the offset in the content at which it begins.
    Sparse(Vec<(u64, Extent)>),
}

impl Layout {
    fn new(extents: Option<&[Extent]>) -> Self {
        let Some(extents) = extents else { return Self::Dense };
        let mut start = 0;
        let with_start = |extent: &Extent| {
            let begins = start;
            start += extent.len;
            (begins, *extent)
        };
        Self::Sparse(extents.iter().map(with_start).collect())
    }

    /// Calls `visit` with the offset in the file and the part of `range` that lies there, for
    /// every stretch of the content's bytes from `start` on.
    fn place(
        &self,
        start: u64,
        len: usize,
        mut visit: impl FnMut(u64, Range<usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        let extents = match self {
            Self::Dense => return visit(start, 0..len),
            Self::Sparse(extents) => extents,
        };
        let end = start + len as u64;
        let first = extents.partition_point(|(begins, extent)| begins + extent.len <= start);
        for (begins, extent) in &extents[first..] {
            let (from, to) = (start.max(*begins), end.min(begins + extent.len));
            if from >= to {
                break;
            }
            let part = (from - start) as usize..(to - start) as usize;
            visit(extent.offset + (from - begins), part)?;
        }
        Ok(())
    }
}

impl RestoredFile {
    /// The pieces of the file `entry`; at least one, even of an empty file.
    pub(super) fn plan(
        chunks: &ChunkReader<'_>,
        target: &Arc<Target>,
        entry: &Entry,
        path: &[Vec<u8>],
    ) -> Result<Vec<Piece>, StoreError> {
        let Node::File { size, content, extents } = &entry.node else { return Ok(Vec::new()) };
        let mut leaves = Vec::new();
        chunks.visit(content, &mut |leaf| {
            leaves.push(leaf);
            Ok(())
        })?;
        let ranges = split(&leaves);
        let file = Arc::new(Self {
            target: Arc::clone(target),
            path: path.to_vec(),
            name: entry.name.clone(),
            temporary: temporary_name(),
            meta: entry.meta.clone(),
            size: *size,
            layout: Layout::new(extents.as_deref()),
            leaves,
            file: Mutex::new(None),
            pending: AtomicUsize::new(ranges.len()),
        });
        let piece = |(start, leaves)| Piece { file: Arc::clone(&file), leaves, start };
        Ok(ranges.into_iter().map(piece).collect())
    }

    /// The open file; the first caller makes it.
    fn open(&self) -> Result<Arc<File>, String> {
        let mut file = self.file.lock().expect("no thread panics with a file locked");
        let make = || -> io::Result<Arc<File>> {
            let file = self.target.create_file(&self.temporary)?;
            if matches!(self.layout, Layout::Sparse(_)) {
                file.set_len(self.size)?;
            }
            Ok(Arc::new(file))
        };
        file.get_or_insert_with(|| make().map_err(|error| error.to_string())).clone()
    }

    fn fail(&self, reason: String) {
        let mut file = self.file.lock().expect("no thread panics with a file locked");
        if !matches!(&*file, Some(Err(_))) {
            *file = Some(Err(reason));
        }
    }

    /// Gives the whole file its metadata and its name, or reports why there is none.
    fn finish(&self, context: &Context<'_>) {
        let named = self.open().and_then(|file| {
            let finish = || -> io::Result<_> {
                let missing = set_meta(&*file, &self.meta)?;
                self.target.rename(&self.temporary, &self.name)?;
                Ok(missing)
            };
            finish().map_err(|error| error.to_string())
        });
        match named {
            Ok(missing) => {
                context.incomplete(&self.path, missing);
                Counts::add(&context.counts.files, 1);
                Counts::add(&context.counts.bytes, self.leaves.iter().map(|leaf| leaf.len).sum());
            }
            Err(reason) => {
                // What is left of it would only be in the way; that it may stay is no new error.
                let _ = self.target.remove(&self.temporary);
                context.failed(&self.path, reason);
                return;
            }
        }
        Progress::add(&context.progress.files, 1);
        if context.options.verify {
            match self.verify(context) {
                Ok(()) => Counts::add(&context.counts.verified, 1),
                Err(reason) => context.failed(&self.path, format!("verification: {reason}")),
            }
        }
    }

    /// Reads the restored file again and compares every chunk.
    fn verify(&self, context: &Context<'_>) -> Result<(), String> {
        let file = self.target.open_file(&self.name).map_err(|error| error.to_string())?;
        let len = file.metadata().map_err(|error| error.to_string())?.len();
        if len != self.size {
            return Err(format!("it has {len} bytes, expected {}", self.size));
        }
        let mut start = 0;
        let mut buffer = Vec::new();
        for leaf in &self.leaves {
            buffer.resize(leaf.len as usize, 0);
            self.layout
                .place(start, buffer.len(), |offset, part| {
                    file.read_exact_at(&mut buffer[part], offset)
                })
                .map_err(|error| error.to_string())?;
            let found = context.chunks.fingerprint(&buffer);
            if found != leaf.root {
                return Err(format!("the bytes from {start} on are not those of the snapshot"));
            }
            start += leaf.len;
        }
        Ok(())
    }
}

impl Piece {
    /// Writes the piece's chunks; whoever writes the last piece finishes the file.
    pub(super) fn write(self, context: &Context<'_>) {
        if let Err(reason) = self.write_chunks(context) {
            self.file.fail(reason);
        }
        if self.file.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.file.finish(context);
        }
    }

    fn write_chunks(&self, context: &Context<'_>) -> Result<(), String> {
        let file = self.file.open()?;
        let mut start = self.start;
        for leaf in &self.file.leaves[self.leaves.clone()] {
            context.go_on().map_err(|_| "the restore was stopped before it was written")?;
            let bytes = context.chunks.leaf(leaf).map_err(|error| describe(&error))?;
            self.file
                .layout
                .place(start, bytes.len(), |offset, part| file.write_all_at(&bytes[part], offset))
                .map_err(|error| {
                    if is_lack_of_space(&error) {
                        context.full.get_or_init(|| context.show(&self.file.path));
                    }
                    error.to_string()
                })?;
            start += leaf.len;
            Progress::add(&context.progress.bytes, leaf.len);
        }
        Ok(())
    }
}

/// Splits leaves into ranges of about [`PIECE_LEN`] bytes, each with its offset in the content.
fn split(leaves: &[Recipe]) -> Vec<(u64, Range<usize>)> {
    let mut ranges = Vec::new();
    let (mut first, mut start, mut end) = (0, 0, 0);
    for (at, leaf) in leaves.iter().enumerate() {
        end += leaf.len;
        if end - start >= PIECE_LEN {
            ranges.push((start, first..at + 1));
            (first, start) = (at + 1, end);
        }
    }
    if first < leaves.len() || ranges.is_empty() {
        ranges.push((start, first..leaves.len()));
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparse_layout_puts_bytes_into_extents_only() {
        let extents = [Extent { offset: 10, len: 4 }, Extent { offset: 100, len: 6 }];
        let layout = Layout::new(Some(&extents));
        let placed = |start, len| {
            let mut stretches = Vec::new();
            layout
                .place(start, len, |offset, part| {
                    stretches.push((offset, part));
                    Ok(())
                })
                .unwrap();
            stretches
        };
        assert_eq!(placed(0, 10), [(10, 0..4), (100, 4..10)]);
        assert_eq!(placed(3, 2), [(13, 0..1), (100, 1..2)]);
        assert_eq!(placed(4, 6), [(100, 0..6)]);
        assert_eq!(placed(5, 1), [(101, 0..1)]);
    }
}
