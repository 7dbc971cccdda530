//! Writing a file back, chunk by chunk.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use onefold_container::MAX_GROUP_LEN;

use super::context::Context;
use super::options::Overwrite;
use super::report::Counts;
use super::target::{Components, Target, set_meta};
use crate::chunks::reader::ChunkReader;
use crate::error::is_lack_of_space;
use crate::tree::layout::Layout;
use crate::tree::{self, Entry, Meta, Node};
use crate::{Progress, Recipe, StoreError};

/// What is written of a longer file is worth to be gone on with after a restore that was cut off: it
/// has a name meanwhile by which another restore finds it.
const KEPT_LEN: u64 = 8 << 20;

/// Holes begin and end at multiples of this: the usual file systems give out no less.
const BLOCK_LEN: usize = 4096;

/// A file on its way back.
pub(super) struct RestoredFile {
    target: Arc<Target>,
    path: Components,
    entry: Entry,
    size: u64,
    layout: Layout,
    content: Recipe,
    /// The open file, once the first chunk made it, or why there is none.
    opened: Mutex<Option<Result<Arc<Opened>, String>>>,
    /// Why it will not be whole.
    failure: OnceLock<String>,
    /// Where it ends, as long as its chunks came in order.
    end: Mutex<u64>,
    /// Whether a chunk came before one that stands in front of it.
    is_scattered: AtomicBool,
    /// Chunks that are still to be written, and one more while others may come.
    pending: AtomicUsize,
}

/// A file that is being written.
struct Opened {
    file: File,
    /// What it is called meanwhile, unless it has no name.
    temporary: Option<Vec<u8>>,
    /// Whether an earlier restore of it has left bytes: they may be right.
    is_found: bool,
}

impl RestoredFile {
    /// The file `entry` of `target`. It is finished by the last of the chunks that it expects.
    pub(super) fn new(target: Arc<Target>, path: Components, entry: Entry) -> Self {
        let Node::File { size, content, extents } = &entry.node else {
            unreachable!("only files have content")
        };
        Self {
            target,
            path,
            size: *size,
            layout: Layout::new(extents.as_deref()),
            content: *content,
            entry,
            opened: Mutex::new(None),
            failure: OnceLock::new(),
            end: Mutex::new(0),
            is_scattered: AtomicBool::new(false),
            pending: AtomicUsize::new(1),
        }
    }

    /// Takes note of a chunk that is to be written.
    pub(super) fn expects_chunk(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// Where it belongs, and what it is.
    pub(super) const fn place(&self) -> (&Arc<Target>, &Entry) {
        (&self.target, &self.entry)
    }

    /// Whether a restore that was cut off has left the chunk where it belongs, `start` bytes after
    /// the content's beginning. Then it counts as written.
    pub(super) fn has_chunk(&self, leaf: &Recipe, start: u64, context: &Context<'_>) -> bool {
        if self.content.len <= KEPT_LEN {
            return false;
        }
        let is_there = match self.open(context) {
            Ok(opened) => opened.is_found && self.is_there(&opened.file, leaf, start, context),
            Err(_) => false,
        };
        if is_there {
            Counts::add(&context.counts.reused, leaf.len);
            Progress::add(&context.progress.bytes, leaf.len);
        }
        is_there
    }

    /// Writes a chunk that belongs `start` bytes after the content's beginning.
    pub(super) fn write(&self, start: u64, chunk: &[u8], context: &Context<'_>) {
        if self.has_failed() {
            return;
        }
        if let Err(reason) = self
            .open(context)
            .and_then(|opened| self.write_in_order(&opened, start, chunk, context))
        {
            self.fail(reason);
        }
        Progress::add(&context.progress.bytes, chunk.len() as u64);
    }

    /// Writes a chunk. Where chunks come in order, no byte is written before those in front of it.
    fn write_in_order(
        &self,
        opened: &Opened,
        start: u64,
        chunk: &[u8],
        context: &Context<'_>,
    ) -> Result<(), String> {
        let mut end = self.end.lock().expect("no thread panics while it writes");
        if *end == start {
            *end += chunk.len() as u64;
            return self.write_chunk(opened, start, chunk, context);
        }
        drop(end);
        self.is_scattered.store(true, Ordering::Relaxed);
        self.write_chunk(opened, start, chunk, context)
    }

    /// Takes note that a chunk was written, or that all chunks are planned; whether the file is to be
    /// finished now.
    pub(super) fn is_done(&self) -> bool {
        self.pending.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Notes why it will not be whole; the first reason is the one that is told.
    pub(super) fn fail(&self, reason: String) {
        let _ = self.failure.set(reason);
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failure.get().is_some()
    }

    /// The open file; the first caller makes it.
    fn open(&self, context: &Context<'_>) -> Result<Arc<Opened>, String> {
        let mut opened = self.opened.lock().expect("no thread panics with a file locked");
        let make = || -> io::Result<Arc<Opened>> {
            // What is worth to be gone on with must be found again.
            let nameless = match self.content.len <= KEPT_LEN {
                true => context.nameless.create(&self.target),
                false => None,
            };
            let opened = match nameless {
                Some(file) => Opened { file, temporary: None, is_found: false },
                None => self.open_temporary(context)?,
            };
            if self.has_length_first(context, opened.is_found) {
                opened.file.set_len(self.size)?;
            }
            Ok(Arc::new(opened))
        };
        opened.get_or_insert_with(|| make().map_err(|error| error.to_string())).clone()
    }

    fn open_temporary(&self, context: &Context<'_>) -> io::Result<Opened> {
        let temporary = self.target.temporary_name_of(digits_of(context.chunks, &self.entry))?;
        let taken = match context.is_in_snapshot(&temporary) {
            true => None,
            false => self.target.take_temporary(&temporary),
        };
        Ok(match taken {
            Some((file, is_found)) => Opened { file, temporary: Some(temporary), is_found },
            None => {
                let temporary = self.target.temporary_name()?;
                let file = self.target.create_file(&temporary)?;
                Opened { file, temporary: Some(temporary), is_found: false }
            }
        })
    }

    /// Whether the file gets its length before its bytes.
    fn has_length_first(&self, context: &Context<'_>, is_found: bool) -> bool {
        matches!(self.layout, Layout::Sparse(_)) || context.options.sparse || is_found
    }

    /// Whether a power cut could leave the file with its length and holes in place of bytes: then
    /// `if-changed` would take it for whole. It is to be synced before it gets its name.
    pub(super) fn must_be_synced(&self, context: &Context<'_>) -> bool {
        let opened = self.opened.lock().expect("no thread panics with a file locked");
        let Some(Ok(opened)) = &*opened else { return false };
        self.is_scattered.load(Ordering::Relaxed) || self.has_length_first(context, opened.is_found)
    }

    /// Makes its bytes durable.
    pub(super) fn sync(&self, context: &Context<'_>) {
        let synced =
            |opened: Arc<Opened>| opened.file.sync_data().map_err(|error| error.to_string());
        if let Err(reason) = self.open(context).and_then(synced) {
            self.fail(reason);
        }
    }

    /// Gives the whole file, which was synced if it must be, its metadata and its name, or reports why
    /// there is none.
    pub(super) fn finish(&self, context: &Context<'_>) {
        let whole = match self.failure.get() {
            Some(reason) => Err(reason.clone()),
            None => self.open(context),
        };
        let may_replace = context.options.overwrite != Overwrite::Never;
        let named = whole.and_then(|opened| {
            let (target, name) = (&self.target, &self.entry.name);
            let finish = || -> io::Result<_> {
                let missing = set_meta(&opened.file, &self.entry.meta, target.has_default_acl())?;
                let named = match &opened.temporary {
                    Some(temporary) if may_replace => target.rename(temporary, name),
                    Some(temporary) => target.rename_to_new(temporary, name),
                    None => context.nameless.name(&opened.file, target, name, may_replace),
                };
                match named {
                    Err(error) if !may_replace && error.kind() == ErrorKind::AlreadyExists => {
                        Ok(None)
                    }
                    named => named.map(|()| Some(missing)),
                }
            };
            finish().map_err(|error| error.to_string())
        });
        match named {
            // Somebody made it meanwhile.
            Ok(None) => {
                self.give_up(context);
                Counts::add(&context.counts.kept, 1);
                Progress::add(&context.progress.files, 1);
                return;
            }
            Ok(Some(missing)) => {
                context.incomplete(&self.path, missing);
                Counts::add(&context.counts.files, 1);
                Counts::add(&context.counts.bytes, self.content.len);
            }
            Err(reason) => {
                self.give_up(context);
                context.failed(&self.path, reason);
                return;
            }
        }
        Progress::add(&context.progress.files, 1);
        if context.options.verify {
            match verify(context, &self.target, &self.entry) {
                Ok(()) => Counts::add(&context.counts.verified, 1),
                Err(reason) => context.failed(&self.path, format!("verification: {reason}")),
            }
        }
    }

    /// Whether some of its chunks were not written.
    pub(super) fn is_unfinished(&self) -> bool {
        self.pending.load(Ordering::Acquire) > 0
    }

    /// Removes what was written, unless the restore was cut off and it is worth to be gone on with.
    pub(super) fn give_up(&self, context: &Context<'_>) {
        let opened = self.opened.lock().expect("no thread panics with a file locked");
        let is_long = self.content.len > KEPT_LEN;
        if let (Some(Ok(opened)), false) = (&*opened, is_long && context.is_cut_off())
            && let Some(temporary) = &opened.temporary
        {
            // It would only be in the way; that it may stay is no new error.
            let _ = self.target.remove(temporary);
        }
    }

    /// Whether the file has the chunk already where it belongs.
    fn is_there(&self, file: &File, leaf: &Recipe, start: u64, context: &Context<'_>) -> bool {
        if leaf.len > MAX_GROUP_LEN as u64 {
            return false;
        }
        let mut bytes = vec![0; leaf.len as usize];
        let read = self.layout.place(start, leaf.len as usize, |offset, part| {
            file.read_exact_at(&mut bytes[part], offset)
        });
        read.is_ok() && context.chunks.fingerprint(&bytes) == leaf.root
    }

    fn write_chunk(
        &self,
        opened: &Opened,
        start: u64,
        bytes: &[u8],
        context: &Context<'_>,
    ) -> Result<(), String> {
        // What an earlier restore has left need not be zeros.
        let may_skip_zeros = context.options.sparse && !opened.is_found;
        let write = |offset, part: Range<usize>| match may_skip_zeros {
            true => write_around_zeros(&opened.file, &bytes[part], offset),
            false => opened.file.write_all_at(&bytes[part], offset),
        };
        self.layout.place(start, bytes.len(), write).map_err(|error| {
            if is_lack_of_space(&error) {
                context.full.get_or_init(|| context.show(&self.path));
            }
            error.to_string()
        })
    }
}

/// Reads the file that `entry` became in `target` and compares every chunk.
///
/// # Errors
///
/// Says what differs, or why it cannot be read.
pub(super) fn verify(context: &Context<'_>, target: &Target, entry: &Entry) -> Result<(), String> {
    let Node::File { size, content, extents } = &entry.node else { return Ok(()) };
    let layout = Layout::new(extents.as_deref());
    let file = target.open_file(&entry.name).map_err(|error| error.to_string())?;
    let len = file.metadata().map_err(|error| error.to_string())?.len();
    if len != *size {
        return Err(format!("it has {len} bytes, expected {size}"));
    }
    let (mut start, mut buffer) = (0, Vec::new());
    let mut wrong = None;
    let visited = context.chunks.visit(content, &mut |leaf| {
        buffer.resize(leaf.len as usize, 0);
        let read = layout.place(start, buffer.len(), |offset, part| {
            file.read_exact_at(&mut buffer[part], offset)
        });
        wrong = match read {
            Err(error) => Some(error.to_string()),
            Ok(()) if context.chunks.fingerprint(&buffer) != leaf.root => {
                Some(format!("the bytes from {start} on are not those of the snapshot"))
            }
            Ok(()) => None,
        };
        start += leaf.len;
        if wrong.is_some() { Err(StoreError::Stopped) } else { context.go_on() }
    });
    match wrong {
        Some(reason) => Err(reason),
        None => visited.map_err(|error| context.reason(error)),
    }
}

/// The first digits of a file's temporary name: another attempt at the same file gives it the same,
/// so that it finds what exists already.
fn digits_of(chunks: &ChunkReader<'_>, entry: &Entry) -> [u8; 8] {
    let content = Entry { meta: Meta::default(), ..entry.clone() };
    let mut bytes = Vec::new();
    tree::encode_entry(&content, &mut bytes);
    let digest = chunks.fingerprint(&bytes);
    *digest.as_bytes().first_chunk().expect("a fingerprint has 32 bytes")
}

/// Writes `bytes` to a file that has zeros there, but for blocks in which they are all zero: those
/// stay holes.
fn write_around_zeros(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    let (mut first, mut at) = (0, 0);
    while at < bytes.len() {
        let in_block = (offset as usize + at) % BLOCK_LEN;
        let end = bytes.len().min(at + BLOCK_LEN - in_block);
        if bytes[at..end].iter().all(|byte| *byte == 0) {
            file.write_all_at(&bytes[first..at], offset + first as u64)?;
            first = end;
        }
        at = end;
    }
    file.write_all_at(&bytes[first..], offset + first as u64)
}

#[cfg(test)]
mod tests {
    use onefold_testkit::SplitMix64;

    use super::*;

    #[test]
    fn writing_around_zeros_gives_the_same_bytes_wherever_zeros_are() {
        let mut numbers = SplitMix64::new(1);
        for round in 0..200 {
            let stretch = |numbers: &mut SplitMix64| {
                let value = [0, 0, 7][numbers.below(3)];
                vec![value; numbers.below(3 * BLOCK_LEN)]
            };
            let bytes: Vec<u8> = (0..4).flat_map(|_| stretch(&mut numbers)).collect();
            let offset = numbers.below(2 * BLOCK_LEN);
            let file = tempfile::tempfile().unwrap();
            let len = offset + bytes.len();
            file.set_len(len as u64).unwrap();
            write_around_zeros(&file, &bytes, offset as u64).unwrap();
            let mut found = vec![1; len];
            file.read_exact_at(&mut found, 0).unwrap();
            assert!(found[..offset].iter().all(|byte| *byte == 0), "round {round}");
            assert!(found[offset..] == bytes, "round {round}");
        }
    }
}
