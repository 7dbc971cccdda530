//! What cuts and fingerprints large files in place of the CPU.

use std::error::Error;
use std::fmt;
use std::io::{self, Read};
use std::sync::{Mutex, TryLockError};

use onefold_cdc::Chunker;
use onefold_fingerprint::Fingerprint;

use super::stop::Stop;
use crate::Progress;

/// Cuts and fingerprints with the results of the CPU, by some other device. It was made for one
/// [`Repository::fingerprinter`](crate::Repository::fingerprinter).
///
/// A backup passes it one file at a time.
pub trait Accelerator: fmt::Debug + Send + Sync {
    /// Whether it is worth while for a file of `len` bytes. False once it has failed.
    fn takes(&self, len: u64) -> bool;

    /// Cuts what `input` yields at the cut-points of `chunker`, and hands each chunk with its fingerprint to
    /// `store`, in order.
    ///
    /// # Errors
    /// Chunks that were handed over before an error are right.
    fn run(
        &self,
        chunker: &Chunker,
        input: &mut (dyn Read + Send),
        store: &mut dyn FnMut(&[u8], Fingerprint) -> io::Result<()>,
    ) -> Result<(), AcceleratorError>;
}

/// Why an [`Accelerator`] ended early.
#[derive(Debug)]
pub enum AcceleratorError {
    /// The input cannot be read.
    Read(io::Error),
    /// The callback failed.
    Store,
    /// It failed itself; the error names it.
    Lost(Box<dyn Error + Send + Sync>),
}

/// An accelerator, and which reader has it.
pub(super) struct Turns<'a> {
    pub(super) accelerator: &'a dyn Accelerator,
    pub(super) turn: Mutex<()>,
}

impl Turns<'_> {
    /// Runs `work` with the accelerator if no other reader has it and it takes `len` bytes.
    pub(super) fn with<T>(&self, len: u64, work: impl FnOnce(&Self) -> T) -> Option<T> {
        if !self.accelerator.takes(len) {
            return None;
        }
        let _turn = match self.turn.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(work(self))
    }
}

/// The content of a file, or a stream, as an accelerator reads it.
pub(super) struct Input<'a, F> {
    pub(super) read_next: F,
    /// Bytes that there are at most.
    pub(super) len: u64,
    pub(super) done: u64,
    pub(super) progress: &'a Progress,
    pub(super) stop: &'a Stop<'a>,
}

impl<'a, F: Fn(&mut [u8], u64) -> io::Result<usize>> Input<'a, F> {
    pub(super) fn new(len: u64, progress: &'a Progress, stop: &'a Stop<'a>, read_next: F) -> Self {
        Self { read_next, len, done: 0, progress, stop }
    }
}

impl<F: Fn(&mut [u8], u64) -> io::Result<usize>> Read for Input<'_, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stop.check().map_err(io::Error::other)?;
        let room = usize::try_from(self.len - self.done).unwrap_or(usize::MAX).min(buffer.len());
        if room == 0 {
            return Ok(0);
        }
        let read = (self.read_next)(&mut buffer[..room], self.done)?;
        self.done += read as u64;
        Progress::add(&self.progress.bytes, read as u64);
        Ok(read)
    }
}
