//! Large files that several readers read and cut at once.
//!
//! The reader that comes upon a large file offers it to the others. Whoever takes part takes one
//! *stretch* after another and reads it. Where chunks begin in a stretch is known once the one before
//! is cut; so the readers then take turns, in the order of the stretches, and what one leaves uncut
//! goes in front of the next. Who has to wait for its turn cuts its stretch meanwhile as if a chunk
//! began with it; when the turn comes the bytes are cut again until a cut-point is met that was found
//! before, which mostly takes a few chunks. So the cut-points are those of one reader, and memory is
//! a buffer for each of them.

use std::io;
use std::sync::{Arc, Mutex};

use crossbeam_channel::{Receiver, Sender, bounded};
use onefold_cdc::{Chunker, decided_cuts};

use super::assemble::OpenFile;
use super::opened::Opened;
use super::read::{self, Reader, Reading};
use crate::{Progress, StoreError};

/// How many stretches a file has at least that is shared.
const LEAST_STRETCHES: u64 = 4;

/// A file that readers share.
pub(super) struct Large {
    opened: Opened,
    file: Arc<OpenFile>,
    /// Length in bytes of all stretches but the last.
    stretch_len: u64,
    rest: Mutex<Rest>,
}

/// What nobody has taken yet.
struct Rest {
    /// Where in the content it begins.
    offset: u64,
    /// Will say what comes before it.
    before: Receiver<Turn>,
}

/// A part of the content, for the reader that took it.
struct Stretch {
    offset: u64,
    len: usize,
    is_last: bool,
    before: Receiver<Turn>,
    /// To whoever takes the next stretch. If this is dropped with nothing sent, the backup fails.
    after: Sender<Turn>,
}

/// What one stretch leaves to the next, unless the file ended there.
type Turn = Option<Left>;

#[derive(Default)]
struct Left {
    /// The bytes behind the last cut-point.
    uncut: Vec<u8>,
    chunks: u64,
    segments: usize,
}

impl Large {
    /// Whether it is worth while to share `opened`.
    pub(super) fn is_large(opened: &Opened, chunker: &Chunker) -> bool {
        opened.content_len() >= LEAST_STRETCHES * stretch_len(chunker) && opened.is_seekable()
    }

    pub(super) fn new(opened: Opened, file: Arc<OpenFile>, chunker: &Chunker) -> Self {
        let (first, before) = bounded(1);
        first.send(Some(Left::default())).expect("there is room for one");
        let rest = Mutex::new(Rest { offset: 0, before });
        Self { opened, file, stretch_len: stretch_len(chunker), rest }
    }

    fn take(&self) -> Option<Stretch> {
        let mut rest = self.rest.lock().expect("no thread panics with it locked");
        let (offset, left) = (rest.offset, self.opened.content_len() - rest.offset);
        if left == 0 {
            return None;
        }
        let len = left.min(self.stretch_len);
        rest.offset += len;
        let (after, before) = bounded(1);
        let before = std::mem::replace(&mut rest.before, before);
        Some(Stretch { offset, len: len as usize, is_last: len == left, before, after })
    }

    /// No other stretch is taken from now on.
    fn end(&self) {
        self.rest.lock().expect("no thread panics with it locked").offset =
            self.opened.content_len();
    }
}

/// As long as a buffer has room for beside what the stretch before may leave uncut.
fn stretch_len(chunker: &Chunker) -> u64 {
    (read::buffer_len(chunker) - chunker.sizes().max()) as u64
}

impl Reader<'_> {
    /// Takes stretches of `large` until none is left.
    pub(super) fn take_part(&mut self, large: &Large) -> Result<(), StoreError> {
        while let Some(stretch) = large.take() {
            self.shared.stop.check()?;
            self.send()?;
            self.stretch(large, stretch)?;
            // Other readers may wait until this is stored.
            self.send()?;
        }
        Ok(())
    }

    /// Reads and cuts `stretch` into an empty batch.
    fn stretch(&mut self, large: &Large, stretch: Stretch) -> Result<(), StoreError> {
        let chunker = self.shared.chunker;
        let front = chunker.sizes().max();
        let read = self.read_stretch(large, &stretch, front);
        self.filled = front + read.as_ref().map_or(0, |read| *read);
        let mut assumed = Vec::new();
        let mut turn = stretch.before.try_recv().ok();
        if turn.is_none() {
            assumed.push(front);
            assumed.extend(decided_cuts(chunker, &self.batch.buffer[..self.filled], front, &[]));
            turn = stretch.before.recv().ok();
        }
        // Whoever has the stretch before said nothing: it failed.
        let turn = turn.ok_or(StoreError::Stopped)?;
        let Some(Left { uncut, chunks, segments }) = turn else {
            self.filled = 0;
            return hand_on(&stretch, None);
        };
        self.keep_pace(&large.file, chunks)?;
        let start = front - uncut.len();
        self.batch.buffer[start..front].copy_from_slice(&uncut);
        let mut reading = Reading::at(Arc::clone(&large.file), start, chunks, segments);
        let bytes = &self.batch.buffer[..self.filled];
        let ends = decided_cuts(chunker, bytes, start, &assumed);
        self.push_chunks(&mut reading, &ends);
        match read {
            Ok(read) if read == stretch.len && !stretch.is_last => {
                self.push_segment(&mut reading, None);
                let uncut = self.batch.buffer[reading.start..self.filled].to_vec();
                let Reading { chunks, segments, .. } = reading;
                hand_on(&stretch, Some(Left { uncut, chunks, segments }))
            }
            read => {
                large.end();
                self.cut(&mut reading, true);
                let content = read.map(|read| stretch.offset + read as u64);
                self.finish(reading, &large.opened, content);
                hand_on(&stretch, None)
            }
        }
    }

    /// Reads the bytes of `stretch` to where the batch's buffer has place for them.
    fn read_stretch(
        &mut self,
        large: &Large,
        stretch: &Stretch,
        front: usize,
    ) -> io::Result<usize> {
        let buffer = &mut self.batch.buffer[front..front + stretch.len];
        let read = large.opened.fill(buffer, stretch.offset)?;
        Progress::add(&self.shared.progress.bytes, read as u64);
        Ok(read)
    }
}

/// Tells whoever takes the next stretch what comes before it.
fn hand_on(stretch: &Stretch, turn: Turn) -> Result<(), StoreError> {
    stretch.after.send(turn).map_err(|_| StoreError::Stopped)
}
