use std::io::{self, ErrorKind, Read};

use crate::Chunker;

/// Room for reading ahead of the longest chunk, so that small chunks do not mean small reads.
const READ_AHEAD: usize = 256 << 10;

/// Cuts what a reader yields, with the cut-points of the whole input whatever the read sizes.
///
/// Holds one buffer of at most twice the maximum chunk size or that size and 256 KiB, and
/// allocates nothing after its creation.
pub struct Stream<R> {
    chunker: Chunker,
    reader: R,
    buffer: Box<[u8]>,
    /// `buffer[start..end]` is read but not yet lent.
    start: usize,
    end: usize,
    /// Bytes lent so far.
    offset: u64,
    /// The reader has reported its end.
    ended: bool,
}

impl<R: Read> Stream<R> {
    /// A stream whose first chunk starts at the next byte of `reader`.
    ///
    /// Panics if the chunker's sizes are unbounded, since no buffer is sure to hold a chunk:
    /// [`Cuts`](crate::Cuts) is for those.
    pub fn new(chunker: Chunker, reader: R) -> Self {
        assert!(chunker.sizes().is_bounded(), "a stream holds its chunks, so they need a maximum");
        let max = chunker.sizes().max();
        let buffer = vec![0; max + max.max(READ_AHEAD)].into();
        Self { chunker, reader, buffer, start: 0, end: 0, offset: 0, ended: false }
    }

    /// Turns to another input and keeps the buffer: what a caller with many small files wants.
    pub fn restart(&mut self, reader: R) {
        self.reader = reader;
        (self.start, self.end) = (0, 0);
        self.offset = 0;
        self.ended = false;
    }

    /// Lends the next chunk; `None` once all are lent.
    ///
    /// Reads until max bytes or the end are at hand. An interrupted read is tried again; after
    /// any other error nothing is lost, and the next call goes on with the reader.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend")]
    pub fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.fill()?;
        let ready = &self.buffer[self.start..self.end];
        let cut =
            if self.ended { self.chunker.last_cut(ready) } else { self.chunker.next_cut(ready) };
        let Some(len) = cut else {
            debug_assert!(self.ended, "max bytes decide every cut-point");
            return Ok(None);
        };
        self.start += len;
        self.offset += len as u64;
        Ok(Some(&self.buffer[self.start - len..self.start]))
    }

    /// Where in the input the next chunk starts.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads until max bytes are ready or the reader ends, so that each cut-point is sought once.
    fn fill(&mut self) -> io::Result<()> {
        let max = self.chunker.sizes().max();
        while !self.ended && self.end - self.start < max {
            if self.buffer.len() - self.start < max {
                // Moves less than max bytes after at least as many were lent.
                self.buffer.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            }
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
