//! Return of free memory to the system.

/// Makes glibc return blocks of 256 KiB or more to the system as soon as they are freed.
///
/// By default glibc does so only until the first such block is freed. From then on it keeps blocks of up
/// to that length for reuse, and a process that frees groups and containers of many lengths holds far
/// more memory than it uses.
pub(crate) fn give_back_large_blocks() {
    #[cfg(target_env = "gnu")]
    {
        const THRESHOLD: libc::c_int = 256 << 10;
        // SAFETY: it takes two numbers, and no other thread runs yet. Whether it worked changes
        // nothing but how much memory is held.
        let _ = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, THRESHOLD) };
    }
}

/// musl's allocator has one lock for all threads.
#[cfg(all(target_env = "musl", feature = "jemalloc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[cfg(all(target_env = "musl", feature = "mimalloc", not(feature = "jemalloc")))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
