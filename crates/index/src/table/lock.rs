//! A sequence lock: one writer at a time, and readers that do not block writers.
//!
//! A reader reads the version, the data, and the version again. If the version is the same, no thread wrote
//! in between. The data are atomics with relaxed access, so that a reader concurrent with a writer may see
//! inconsistent values, but has no data race. The fences are those of H. Boehm, "Can seqlocks get along with
//! programming language memory models?", 2012.

use std::hint;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Even: no thread writes. Odd: a thread writes.
#[derive(Default)]
#[repr(transparent)]
pub(super) struct SequenceLock(AtomicU32);

/// The version that a reader saw first.
#[derive(Clone, Copy, Default)]
pub(super) struct Version(u32);

impl SequenceLock {
    /// Begins to read, when no thread writes.
    pub(super) fn read(&self) -> Version {
        loop {
            let version = self.0.load(Ordering::Acquire);
            if version.is_multiple_of(2) {
                return Version(version);
            }
            hint::spin_loop();
        }
    }

    /// Whether all reads since `version` are consistent.
    pub(super) fn is_unchanged(&self, version: Version) -> bool {
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == version.0
    }

    /// Begins to write, when no other thread writes.
    pub(super) fn write(&self) -> Writing<'_> {
        loop {
            if let Some(writing) = self.write_from(self.read()) {
                return writing;
            }
        }
    }

    /// Begins to write, unless another thread writes: for callers that already hold another lock.
    pub(super) fn try_write(&self) -> Option<Writing<'_>> {
        let version = self.0.load(Ordering::Acquire);
        if version.is_multiple_of(2) { self.write_from(Version(version)) } else { None }
    }

    /// Begins to write if no thread has written since `version`.
    pub(super) fn write_from(&self, version: Version) -> Option<Writing<'_>> {
        let odd = version.0 + 1;
        self.0.compare_exchange(version.0, odd, Ordering::Acquire, Ordering::Relaxed).ok()?;
        // no reader sees what is written from here on without seeing the odd version
        fence(Ordering::Release);
        Some(Writing { lock: self, odd })
    }
}

/// The right to write, until it is dropped.
pub(super) struct Writing<'a> {
    lock: &'a SequenceLock,
    odd: u32,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.lock.0.store(self.odd.wrapping_add(1), Ordering::Release);
    }
}
