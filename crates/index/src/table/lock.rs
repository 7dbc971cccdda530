//! A lock for one writer at a time, in which readers take no part: a sequence lock.
//!
//! A reader notes the version, reads, and reads the version again: if it is the same, nobody wrote
//! in between. What is guarded are atomics, read and written relaxed, so that a reader that comes
//! at the wrong time sees nonsense and no more. The fences are those of H. Boehm, "Can seqlocks get
//! along with programming language memory models?", 2012.

use std::hint;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Even: nobody writes. Odd: somebody does.
#[derive(Default)]
#[repr(transparent)]
pub(super) struct SequenceLock(AtomicU32);

/// The version that a reader saw at first.
#[derive(Clone, Copy, Default)]
pub(super) struct Version(u32);

impl SequenceLock {
    /// Begins to read, once nobody writes.
    pub(super) fn read(&self) -> Version {
        loop {
            let version = self.0.load(Ordering::Acquire);
            if version.is_multiple_of(2) {
                return Version(version);
            }
            hint::spin_loop();
        }
    }

    /// Whether what was read since `version` is what was there.
    pub(super) fn is_unchanged(&self, version: Version) -> bool {
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == version.0
    }

    /// Begins to write, once nobody else does.
    pub(super) fn write(&self) -> Writing<'_> {
        loop {
            if let Some(writing) = self.write_from(self.read()) {
                return writing;
            }
        }
    }

    /// Begins to write, unless somebody else does: for those who have another lock already.
    pub(super) fn try_write(&self) -> Option<Writing<'_>> {
        let version = self.0.load(Ordering::Acquire);
        if version.is_multiple_of(2) { self.write_from(Version(version)) } else { None }
    }

    /// Begins to write if nobody has since `version`.
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
