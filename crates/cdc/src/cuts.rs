use std::io::{self, ErrorKind, Read};

use crate::walk::{self, Walk};
use crate::{ParamError, Params, Stream};

/// Bytes read at a time.
const READ: usize = 256 << 10;

/// The cut-points of what a reader yields, without the chunks.
///
/// Where [`Stream`] holds the chunk that it lends, this holds nothing that grows with it, and so is
/// the way to cut data with [unbounded](crate::ChunkSizes::unbounded) sizes, in the memory of one
/// read. Bounded sizes work as well, by a [`Stream`].
///
/// An iterator over the ends of the chunks as offsets in the input; the last is the input's length.
/// An interrupted read is tried again; after any other error the next call goes on with the reader.
pub struct Cuts<R>(Inner<R>);

enum Inner<R> {
    Bounded(Stream<R>),
    Unbounded(Walked<R>),
}

impl<R: Read> Cuts<R> {
    /// The cut-points of `reader` from its next byte on.
    ///
    /// Refuses parameters that their algorithm cannot have, and unbounded sizes for MinCDC, which
    /// chooses among all positions up to the maximum.
    pub fn new(params: &Params, reader: R) -> Result<Self, ParamError> {
        // also what checks the parameters
        let chunker = crate::Chunker::new(params)?;
        Ok(Self(if params.sizes.is_bounded() {
            Inner::Bounded(Stream::new(chunker, reader))
        } else {
            Inner::Unbounded(Walked::new(walk::walk(params)?, reader))
        }))
    }
}

impl<R: Read> Iterator for Cuts<R> {
    type Item = io::Result<u64>;

    fn next(&mut self) -> Option<io::Result<u64>> {
        match &mut self.0 {
            Inner::Bounded(stream) => match stream.next() {
                Ok(Some(_)) => Some(Ok(stream.offset())),
                Ok(None) => None,
                Err(error) => Some(Err(error)),
            },
            Inner::Unbounded(walked) => walked.next().transpose(),
        }
    }
}

struct Walked<R> {
    walk: Box<dyn Walk>,
    reader: R,
    buffer: Box<[u8]>,
    /// `buffer[start..end]` is read but not yet walked.
    start: usize,
    end: usize,
    /// Bytes walked so far.
    offset: u64,
    /// The last cut-point.
    cut: u64,
    ended: bool,
}

impl<R: Read> Walked<R> {
    fn new(walk: Box<dyn Walk>, reader: R) -> Self {
        let buffer = vec![0; READ].into();
        Self { walk, reader, buffer, start: 0, end: 0, offset: 0, cut: 0, ended: false }
    }

    fn next(&mut self) -> io::Result<Option<u64>> {
        loop {
            let (walked, cut) = self.walk.walk(&self.buffer[self.start..self.end]);
            self.start += walked;
            self.offset += walked as u64;
            if let Some(behind) = cut {
                self.cut = self.offset - behind as u64;
                return Ok(Some(self.cut));
            }
            if self.ended {
                let rest = (self.cut < self.offset).then_some(self.offset);
                self.cut = self.offset;
                return Ok(rest);
            }
            self.read()?;
        }
    }

    /// Replaces the buffer, all of which is walked, or finds that the reader has ended.
    fn read(&mut self) -> io::Result<()> {
        (self.start, self.end) = (0, 0);
        loop {
            match self.reader.read(&mut self.buffer) {
                Ok(0) => self.ended = true,
                Ok(read) => self.end = read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(());
        }
    }
}
