//! Zeroed memory, which the system allocates when it is first touched.

use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64};

#[cfg(target_os = "linux")]
use rustix::mm::{Advice, madvise};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// A type for which all-zero bytes are a valid value, and that needs no drop.
///
/// # Safety
///
/// All of its bytes may be zero, and its alignment is at most a page.
pub(super) unsafe trait Zeroed: Sync + Send {}

// SAFETY: zero is a number.
unsafe impl Zeroed for AtomicU64 {}
// SAFETY: zero is a number.
unsafe impl Zeroed for AtomicU32 {}

/// An initially zeroed slice, in huge pages if the system has them.
pub(super) struct Mapped<T: Zeroed> {
    start: NonNull<T>,
    len: usize,
}

impl<T: Zeroed> Mapped<T> {
    /// This many values, at least one; `None` if there is no memory for them.
    pub(super) fn zeroed(len: usize) -> Option<Self> {
        let bytes = len.checked_mul(size_of::<T>()).filter(|&bytes| bytes > 0)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the system's choice; nothing else lies there.
        let start =
            unsafe { mmap_anonymous(ptr::null_mut(), bytes, protection, MapFlags::PRIVATE) };
        let start = NonNull::new(start.ok()?)?;
        // A look-up is a cache line at a random place. With small pages its translation would be
        // a second one. That the system has none is no reason not to work.
        #[cfg(target_os = "linux")]
        // SAFETY: the mapping made above; the advice does not change what is in it.
        let _ = unsafe { madvise(start.as_ptr(), bytes, Advice::LinuxHugepage) };
        Some(Self { start: start.cast(), len })
    }

    /// Lets the system allocate all memory now, so that later accesses do not wait for it. A hint, which
    /// Linux supports since 5.14. Elsewhere memory is allocated when it is touched.
    pub(super) fn populate(&self) {
        #[cfg(target_os = "linux")]
        {
            let (start, bytes) = (self.start.as_ptr().cast(), self.len * size_of::<T>());
            // SAFETY: the whole mapping of `zeroed`; what is in it stays, also where others change it.
            let _ = unsafe { madvise(start, bytes, Advice::LinuxPopulateWrite) };
        }
    }
}

impl<T: Zeroed> Deref for Mapped<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `zeroed` mapped this many values at a page's start, zero is one of their values by
        // `Zeroed`, and there is no `&mut` to them.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Zeroed> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: what `zeroed` mapped, whole and once; borrows of it have ended.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len * size_of::<T>()) };
    }
}

// SAFETY: owns its values as a box would, and `Zeroed` values may be sent.
unsafe impl<T: Zeroed> Send for Mapped<T> {}
// SAFETY: gives shared access only, and `Zeroed` values may be shared.
unsafe impl<T: Zeroed> Sync for Mapped<T> {}

/// Asks Linux itself. Tests for other processors run beside a kernel that knows of other memory.
#[cfg(all(test, target_os = "linux", target_arch = "x86_64", not(miri)))]
pub(super) mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::Ordering;

    use super::*;

    const PAGE: usize = 4096;

    /// How many of its pages have memory, and how many there are. The kernel says it of each in a
    /// word, by the highest bit (proc_pid_pagemap(5)).
    pub(in crate::table) fn present<T: Zeroed>(mapped: &Mapped<T>) -> (usize, usize) {
        let pages = (mapped.len * size_of::<T>()).div_ceil(PAGE);
        let mut words = vec![0; pages * 8];
        let place = (mapped.start.as_ptr() as usize / PAGE * 8) as u64;
        File::open("/proc/self/pagemap").unwrap().read_exact_at(&mut words, place).unwrap();
        let words = words.as_chunks::<8>().0;
        (words.iter().filter(|word| word[7] & 0x80 != 0).count(), pages)
    }

    #[test]
    fn all_memory_is_there_once_it_was_asked_for_and_keeps_what_is_in_it() {
        // not a whole number of huge pages
        let pages = 2 * 512 + 77;
        let mapped = Mapped::<AtomicU64>::zeroed(pages * PAGE / 8).unwrap();
        mapped[700].store(5, Ordering::Relaxed);
        assert!(present(&mapped).0 <= 512);
        mapped.populate();
        assert_eq!(present(&mapped), (pages, pages));
        let sum: u64 = mapped.iter().map(|word| word.load(Ordering::Relaxed)).sum();
        assert_eq!((sum, mapped[700].load(Ordering::Relaxed)), (5, 5));
    }
}
