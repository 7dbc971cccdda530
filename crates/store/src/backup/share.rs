//! Large files that several readers read and cut at once.
//!
//! The reader that comes upon a large file offers it to the others. Whoever takes part takes one
//! *stretch* after another and reads it. Where chunks begin in a stretch is known once the one before
//! is cut; so the readers then take turns, in the order of the stretches, and what one leaves uncut
//! goes in front of the next. Who has to wait for its turn cuts its stretch meanwhile as if a chunk
//! began with it; when the turn comes the bytes are cut again until a cut-point is met that was found
//! before, which mostly takes a few chunks. So the cut-points are those of one reader, and memory is
//! a buffer for each of them.

use std::sync::{Arc, Mutex};

use crossbeam_channel::{Receiver, Sender, bounded};
use onefold_cdc::Chunker;

use super::assemble::OpenFile;
use super::batch::buffer_len;
use super::opened::Opened;

/// How many stretches a file has at least that is shared.
const LEAST_STRETCHES: u64 = 4;

/// A file that readers share.
pub(super) struct Large {
    pub(super) opened: Opened,
    pub(super) file: Arc<OpenFile>,
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
pub(super) struct Stretch {
    pub(super) offset: u64,
    pub(super) len: usize,
    pub(super) is_last: bool,
    pub(super) before: Receiver<Turn>,
    /// To whoever takes the next stretch. If this is dropped with nothing sent, the backup fails.
    pub(super) after: Sender<Turn>,
}

/// What one stretch leaves to the next, unless the file ended there.
pub(super) type Turn = Option<Left>;

#[derive(Default)]
pub(super) struct Left {
    /// The bytes behind the last cut-point.
    pub(super) uncut: Vec<u8>,
    pub(super) chunks: u64,
    pub(super) segments: usize,
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

    pub(super) fn take(&self) -> Option<Stretch> {
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
    pub(super) fn end(&self) {
        self.rest.lock().expect("no thread panics with it locked").offset =
            self.opened.content_len();
    }
}

/// As long as a buffer has room for beside what the stretch before may leave uncut.
fn stretch_len(chunker: &Chunker) -> u64 {
    (buffer_len(chunker) - chunker.sizes().max()) as u64
}
