//! Where the bytes of a run come from: a stream, or places that several threads read at once.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::num::NonZero;
use std::os::unix::fs::FileExt;
use std::thread;

/// What can be read at any place, by several threads at once.
pub trait ReadAt: Sync {
    /// Reads bytes from byte `at` on: how many; none only at the end.
    ///
    /// # Errors
    /// What the operating system reports.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize>;
}

impl ReadAt for &[u8] {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let rest = usize::try_from(at).ok().and_then(|at| self.get(at..)).unwrap_or_default();
        let len = rest.len().min(into.len());
        into[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
}

impl ReadAt for File {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        FileExt::read_at(self, into, at)
    }
}

/// Where the bytes come from.
pub(crate) enum Input<'a, R> {
    /// One byte after another.
    Stream(R),
    /// Any place.
    Places(&'a dyn ReadAt),
}

impl<R> Input<'_, R> {
    /// As many lanes as keep a device busy.
    pub(crate) fn lanes(&self) -> usize {
        match self {
            Self::Stream(_) => 4,
            Self::Places(_) => thread::available_parallelism().map_or(4, NonZero::get).clamp(4, 16),
        }
    }
}

/// A reader from byte `at` on.
pub(crate) struct FromPlace<'a> {
    pub(crate) source: &'a dyn ReadAt,
    pub(crate) at: u64,
}

impl Read for FromPlace<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read_at(into, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Fills `room` as far as the input goes: how many bytes, and whether the input ended.
pub(crate) fn fill(reader: &mut impl Read, room: &mut [u8]) -> io::Result<(usize, bool)> {
    let mut filled = 0;
    while filled < room.len() {
        match reader.read(&mut room[filled..]) {
            Ok(0) => return Ok((filled, true)),
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok((filled, false))
}
