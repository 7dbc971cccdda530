//! Memory for the bytes of requests: bounded for the whole server, and reused.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Buffers have a power of two of bytes, at least this many.
const SMALLEST: usize = 4096;
/// The maximum bytes of unused buffers that are kept: twice the need of sixteen requests of 1 MiB, because
/// buffers of replies are still in use when the next requests arrive.
const MOST_KEPT: usize = 32 << 20;

/// All memory for the bytes of requests.
pub(crate) struct Buffers {
    /// One permit for [`SMALLEST`] bytes.
    budget: Arc<Semaphore>,
    kept: Mutex<Kept>,
}

/// Unused buffers.
#[derive(Default)]
struct Kept {
    /// By the binary logarithm of their length.
    by_size: Vec<Vec<Box<[u8]>>>,
    bytes: usize,
}

/// The share of the memory that one connection may use.
pub(crate) struct Share {
    /// One permit for [`SMALLEST`] bytes.
    budget: Arc<Semaphore>,
    home: Arc<Buffers>,
}

/// A buffer for the bytes of one request. Its content is arbitrary until it is written.
pub(crate) struct Buffer {
    bytes: Box<[u8]>,
    len: usize,
    home: Arc<Buffers>,
    /// Permits of the connection's share and of the whole memory.
    _permits: [OwnedSemaphorePermit; 2],
}

impl Buffers {
    /// A pool of at most `budget` bytes in use.
    pub(crate) fn new(budget: u64) -> Arc<Buffers> {
        Arc::new(Buffers { budget: semaphore(budget), kept: Mutex::default() })
    }

    /// A share of at most `budget` of these bytes, for one connection.
    pub(crate) fn share(self: &Arc<Buffers>, budget: u64) -> Share {
        Share { budget: semaphore(budget), home: self.clone() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn semaphore(budget: u64) -> Arc<Semaphore> {
    Arc::new(Semaphore::new((budget / SMALLEST as u64) as usize))
}

impl Share {
    /// Waits for a buffer of `len` bytes, first for the share, then for the whole memory, in the order of
    /// the calls. An empty buffer is available immediately.
    pub(crate) async fn take(&self, len: usize) -> Buffer {
        let size = if len == 0 { 0 } else { len.next_power_of_two().max(SMALLEST) };
        let permits = (size / SMALLEST) as u32;
        let acquire = async |budget: &Arc<Semaphore>| {
            let permit = budget.clone().acquire_many_owned(permits).await;
            permit.expect("budgets are never closed")
        };
        let _permits = [acquire(&self.budget).await, acquire(&self.home.budget).await];
        let kept = self.home.lock().take(size);
        let bytes = kept.unwrap_or_else(|| vec![0; size].into_boxed_slice());
        Buffer { bytes, len, home: self.home.clone(), _permits }
    }
}

impl Kept {
    fn take(&mut self, size: usize) -> Option<Box<[u8]>> {
        let class = size.checked_ilog2()?;
        let bytes = self.by_size.get_mut(class as usize)?.pop()?;
        self.bytes -= size;
        Some(bytes)
    }

    /// Keeps `bytes` for reuse. If too many bytes are kept, it frees buffers of the size that has the most
    /// bytes. So the kept buffers soon match when a client changes to another request size.
    fn put(&mut self, bytes: Box<[u8]>) -> Vec<Box<[u8]>> {
        let mut too_many = Vec::new();
        let Some(class) = bytes.len().checked_ilog2() else { return too_many };
        if self.by_size.len() <= class as usize {
            self.by_size.resize_with(class as usize + 1, Vec::new);
        }
        self.bytes += bytes.len();
        self.by_size[class as usize].push(bytes);
        while self.bytes > MOST_KEPT {
            let kept_of = |of_size: &&mut Vec<Box<[u8]>>| {
                of_size.len() * of_size.first().map_or(0, |one| one.len())
            };
            let most = self.by_size.iter_mut().max_by_key(kept_of);
            let one = most.and_then(Vec::pop).expect("more than nothing is kept");
            self.bytes -= one.len();
            too_many.push(one);
        }
        too_many
    }
}

impl Buffer {
    /// Leaves only the first `len` bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        // what is not kept is freed after the lock is
        let _too_many = self.home.lock().put(bytes);
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    /// The buffer if there is room for it without waiting.
    fn try_take(share: &Share, len: usize) -> Option<Buffer> {
        match pin!(share.take(len)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(buffer) => Some(buffer),
            Poll::Pending => None,
        }
    }

    #[test]
    fn no_more_than_the_budget_is_handed_out() {
        let buffers = Buffers::new(64 << 10);
        let (one, other) = (buffers.share(64 << 10), buffers.share(64 << 10));
        let first = try_take(&one, 30_000).unwrap();
        let second = try_take(&other, 16_384).unwrap();
        assert_eq!((first.len(), second.len()), (30_000, 16_384));
        // 32 and 16 KiB are out
        assert!(try_take(&one, 16_385).is_none());
        assert!(try_take(&other, 1).is_some());
        drop(first);
        assert!(try_take(&other, 40_000).is_none());
        drop(second);
        assert_eq!(try_take(&one, 40_000).unwrap().len(), 40_000);
    }

    #[test]
    fn a_connection_has_no_more_than_its_share_and_leaves_the_rest_to_others() {
        let buffers = Buffers::new(64 << 10);
        let (one, other) = (buffers.share(16 << 10), buffers.share(64 << 10));
        let held = try_take(&one, 16_384).unwrap();
        assert!(try_take(&one, 1).is_none());
        assert!(try_take(&other, 32_768).is_some());
        drop(held);
        assert!(try_take(&one, 16_384).is_some());
    }

    #[test]
    fn no_bytes_need_no_room() {
        let buffers = Buffers::new(4096);
        let share = buffers.share(4096);
        let all = try_take(&share, 1).unwrap();
        assert_eq!(try_take(&share, 0).unwrap().len(), 0);
        drop(all);
        assert_eq!(buffers.lock().bytes, 4096);
    }

    #[test]
    fn a_buffer_is_used_again_and_few_are_kept() {
        let buffers = Buffers::new(1 << 30);
        let share = buffers.share(1 << 30);
        let mut first = try_take(&share, 5000).unwrap();
        first.fill(7);
        drop(first);
        assert_eq!(buffers.lock().bytes, 8192);
        assert_eq!(try_take(&share, 8000).unwrap()[0], 7);
        let many: Vec<Buffer> = (0..100).map(|_| try_take(&share, 1 << 20).unwrap()).collect();
        drop(many);
        assert!(buffers.lock().bytes <= MOST_KEPT);
        assert_eq!(buffers.budget.available_permits(), (1 << 30) / SMALLEST);
    }

    #[test]
    fn buffers_of_another_size_take_the_place_of_those_that_nobody_asks_for() {
        let buffers = Buffers::new(1 << 30);
        let share = buffers.share(1 << 30);
        let kept = |size: usize| {
            let kept = buffers.lock();
            let of_size = kept.by_size.get(size.ilog2() as usize).map_or(0, Vec::len);
            let all: usize = kept.by_size.iter().flatten().map(|one| one.len()).sum();
            assert_eq!(all, kept.bytes);
            assert!(all <= MOST_KEPT);
            of_size
        };
        let use_at_once = |count: usize, size: usize| {
            let all: Vec<Buffer> = (0..count).map(|_| try_take(&share, size).unwrap()).collect();
            drop(all);
        };
        use_at_once(40, 1 << 20);
        assert_eq!(kept(1 << 20), 32);
        use_at_once(16, 256 << 10);
        assert_eq!((kept(1 << 20), kept(256 << 10)), (28, 16));
        // neither takes all from the other
        use_at_once(1000, 4096);
        use_at_once(1000, 256 << 10);
        assert_eq!(kept(4096), 1000);
        assert!(kept(1 << 20) >= 4 && kept(256 << 10) >= 16);
        // the longest request there may be
        use_at_once(1, 32 << 20);
        assert_eq!(kept(32 << 20), 0);
        assert!(kept(256 << 10) >= 16);
    }
}
