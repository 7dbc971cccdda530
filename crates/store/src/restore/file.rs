//! Writing a file back, in pieces by several threads if it is long.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use onefold_container::MAX_GROUP_LEN;

use super::target::{Target, set_meta};
use super::{Components, Context, Counts, Overwrite};
use crate::chunks::{ChunkReader, Chunks};
use crate::error::is_lack_of_space;
use crate::layout::Layout;
use crate::repository::describe;
use crate::tree::{self, Entry, Meta, Node};
use crate::{Progress, Recipe, StoreError};

/// A piece has about this many bytes: enough to be worth a hand-over, few enough for a long file
/// to keep all threads busy.
const PIECE_LEN: u64 = 8 << 20;
/// A piece has at most so many chunks, so that the pieces that wait take little memory.
const PIECE_CHUNKS: usize = 1024;

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
    /// The open file, once the first piece made it, or why there is none.
    opened: Mutex<Option<Result<Arc<Opened>, String>>>,
    /// Why it will not be whole.
    failure: OnceLock<String>,
    /// Pieces that were found.
    pieces: AtomicUsize,
    /// Pieces that are still to be written, and one more while others may come.
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

/// Some of the chunks of a file.
pub(super) struct Piece {
    file: Arc<RestoredFile>,
    leaves: Vec<Recipe>,
    /// Offset in the file's content of the first of them.
    start: u64,
}

impl RestoredFile {
    /// Hands the pieces of the file `entry` to `send` as they are found; at least one, even of an
    /// empty file. However many chunks a recipe lists, no more than a piece's are held here.
    ///
    /// What is wrong with the recipe fails the file; an error stops the whole restore.
    pub(super) fn plan(
        context: &Context<'_>,
        target: &Arc<Target>,
        entry: &Entry,
        path: &Components,
        send: &mut dyn FnMut(Piece) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let Node::File { size, content, extents } = &entry.node else { return Ok(()) };
        let file = Arc::new(Self {
            target: Arc::clone(target),
            path: path.clone(),
            entry: entry.clone(),
            size: *size,
            layout: Layout::new(extents.as_deref()),
            content: *content,
            opened: Mutex::new(None),
            failure: OnceLock::new(),
            pieces: AtomicUsize::new(0),
            pending: AtomicUsize::new(1),
        });
        let mut planned =
            Planned { file: &file, leaves: Vec::new(), start: 0, end: 0, stopped: None };
        let mut hand_over = |planned: &mut Planned<'_>| {
            context.go_on()?;
            file.pieces.fetch_add(1, Ordering::Relaxed);
            file.pending.fetch_add(1, Ordering::Relaxed);
            send(planned.take()).inspect_err(|_| {
                file.pending.fetch_sub(1, Ordering::Relaxed);
            })
        };
        let visited = context.chunks.visit(content, &mut |leaf| {
            planned.push(leaf);
            if !planned.is_full() {
                return Ok(());
            }
            if file.has_failed() {
                return Err(StoreError::Stopped);
            }
            hand_over(&mut planned).map_err(|error| {
                planned.stopped = Some(error);
                StoreError::Stopped
            })
        });
        let mut stopped = planned.stopped.take();
        match visited {
            Ok(()) if planned.has_some() => stopped = hand_over(&mut planned).err(),
            Ok(()) => {}
            Err(error) => file.fail(describe(&error)),
        }
        // Some of its pieces are on no way.
        if let Some(error) = &stopped {
            file.fail(describe(error));
        }
        file.piece_is_done(context);
        stopped.map_or(Ok(()), Err)
    }

    fn piece_is_done(&self, context: &Context<'_>) {
        if self.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.finish(context);
        }
    }

    /// Notes why it will not be whole; the first reason is the one that is told.
    fn fail(&self, reason: String) {
        let _ = self.failure.set(reason);
    }

    fn has_failed(&self) -> bool {
        self.failure.get().is_some()
    }

    /// The open file; the first caller makes it.
    fn open(&self, context: &Context<'_>) -> Result<Arc<Opened>, String> {
        let mut opened = self.opened.lock().expect("no thread panics with a file locked");
        let make = || -> io::Result<Arc<Opened>> {
            // What is worth to be gone on with must be found again.
            let nameless = match self.content.len <= PIECE_LEN {
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
    /// `if-changed` would take it for whole. Pieces are written in any order.
    fn may_have_its_length_early(&self, context: &Context<'_>, opened: &Opened) -> bool {
        let has_several_pieces = self.pieces.load(Ordering::Relaxed) > 1;
        has_several_pieces || self.has_length_first(context, opened.is_found)
    }

    /// Gives the whole file its metadata and its name, or reports why there is none.
    fn finish(&self, context: &Context<'_>) {
        let whole = match self.failure.get() {
            Some(reason) => Err(reason.clone()),
            None => self.open(context),
        };
        let may_replace = context.options.overwrite != Overwrite::Never;
        let named = whole.and_then(|opened| {
            let (target, name) = (&self.target, &self.entry.name);
            let finish = || -> io::Result<_> {
                let missing = set_meta(&opened.file, &self.entry.meta, target.has_default_acl())?;
                if self.may_have_its_length_early(context, &opened) {
                    opened.file.sync_data()?;
                }
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

    /// Removes what was written, unless the user asked to stop and it is worth to be gone on with.
    fn give_up(&self, context: &Context<'_>) {
        let opened = self.opened.lock().expect("no thread panics with a file locked");
        let is_long = self.content.len > PIECE_LEN;
        if let (Some(Ok(opened)), false) = (&*opened, is_long && context.cancel.is_cancelled())
            && let Some(temporary) = &opened.temporary
        {
            // It would only be in the way; that it may stay is no new error.
            let _ = self.target.remove(temporary);
        }
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
        None => visited.map_err(|error| describe(&error)),
    }
}

/// What was found of a file's content and is in no piece yet.
struct Planned<'a> {
    file: &'a Arc<RestoredFile>,
    leaves: Vec<Recipe>,
    /// Offset in the content of the first of them.
    start: u64,
    /// Offset behind the last.
    end: u64,
    /// Why the restore ends.
    stopped: Option<StoreError>,
}

impl Planned<'_> {
    fn push(&mut self, leaf: Recipe) {
        self.leaves.push(leaf);
        self.end += leaf.len;
    }

    fn is_full(&self) -> bool {
        self.end - self.start >= PIECE_LEN || self.leaves.len() >= PIECE_CHUNKS
    }

    /// Whether a last piece is due: there are chunks left, or the file has none at all.
    fn has_some(&self) -> bool {
        !self.leaves.is_empty() || self.end == 0
    }

    fn take(&mut self) -> Piece {
        let start = std::mem::replace(&mut self.start, self.end);
        let leaves = std::mem::take(&mut self.leaves);
        Piece { file: Arc::clone(self.file), leaves, start }
    }
}

impl Piece {
    /// Writes the piece's chunks; whoever writes the last piece finishes the file.
    pub(super) fn write(self, context: &Context<'_>) {
        if let Err(reason) = self.write_chunks(context) {
            self.file.fail(reason);
        }
        self.file.piece_is_done(context);
    }

    fn write_chunks(&self, context: &Context<'_>) -> Result<(), String> {
        let stopped = |_| "the restore was stopped before it was written".to_owned();
        context.go_on().map_err(stopped)?;
        let opened = self.file.open(context)?;
        let mut start = self.start;
        for leaf in &self.leaves {
            context.go_on().map_err(stopped)?;
            match opened.is_found && self.is_there(&opened.file, leaf, start, context) {
                true => Counts::add(&context.counts.reused, leaf.len),
                false => self.write_chunk(&opened, leaf, start, context)?,
            }
            start += leaf.len;
            Progress::add(&context.progress.bytes, leaf.len);
        }
        Ok(())
    }

    /// Whether the file has the chunk already where it belongs.
    fn is_there(&self, file: &File, leaf: &Recipe, start: u64, context: &Context<'_>) -> bool {
        if leaf.len > MAX_GROUP_LEN as u64 {
            return false;
        }
        let mut bytes = vec![0; leaf.len as usize];
        let read = self.file.layout.place(start, leaf.len as usize, |offset, part| {
            file.read_exact_at(&mut bytes[part], offset)
        });
        read.is_ok() && context.chunks.fingerprint(&bytes) == leaf.root
    }

    fn write_chunk(
        &self,
        opened: &Opened,
        leaf: &Recipe,
        start: u64,
        context: &Context<'_>,
    ) -> Result<(), String> {
        let bytes = context.chunks.leaf(leaf).map_err(|error| describe(&error))?;
        // What an earlier restore has left need not be zeros.
        let may_skip_zeros = context.options.sparse && !opened.is_found;
        let write = |offset, part: Range<usize>| match may_skip_zeros {
            true => write_around_zeros(&opened.file, &bytes[part], offset),
            false => opened.file.write_all_at(&bytes[part], offset),
        };
        self.file.layout.place(start, bytes.len(), write).map_err(|error| {
            if is_lack_of_space(&error) {
                context.full.get_or_init(|| context.show(&self.file.path));
            }
            error.to_string()
        })
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
