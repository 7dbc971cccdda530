//! How memory goes back to the system.

/// Lets glibc give back blocks of 256 KiB or more as soon as they are free.
///
/// It would do so by itself, until one of them is freed: from then on it keeps blocks up to that
/// length for later, and a process that frees groups and containers of all lengths holds far more
/// than it uses.
pub(crate) fn give_back_large_blocks() {
    #[cfg(target_env = "gnu")]
    {
        const THRESHOLD: libc::c_int = 256 << 10;
        // SAFETY: it takes two numbers, and no other thread runs yet. Whether it worked changes
        // nothing but how much memory is held.
        let _ = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, THRESHOLD) };
    }
}
