//! Decompressed groups, as many of those used last as a bound allows.
//!
//! A restore goes through a container's groups in order and turns back to some of them for a while,
//! so what was used longest ago is the best to drop. A group is read once for all threads that ask
//! for it at the same time, and each of its chunks is verified once.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use onefold_container::{ChunkEntry, Content, Directory};
use onefold_fingerprint::Fingerprint;

/// A container's number and the group's.
pub(crate) type Key = (u32, u32);

/// The groups that were used last.
pub(crate) struct Groups {
    /// Of all groups, in bytes.
    capacity: usize,
    kept: Mutex<RecentGroups>,
    buffers: Arc<Buffers>,
}

/// Buffers of groups that nobody has any more, for others: to give them back to the system and to
/// ask for new ones takes it as long as their decompression takes us.
#[derive(Default)]
struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    /// So many wait at most.
    const FREE: usize = 4;
    /// None longer than this waits, in bytes.
    const LONGEST: usize = 1 << 20;

    /// A buffer for `len` bytes, or an empty one.
    fn take(&self, len: usize) -> Vec<u8> {
        let mut free = self.0.lock().expect("no thread panics with it locked");
        let fits = |buffer: &Vec<u8>| (len..=2 * len).contains(&buffer.capacity());
        free.iter().position(fits).map(|found| free.swap_remove(found)).unwrap_or_default()
    }

    fn put(&self, buffer: Vec<u8>) {
        let mut free = self.0.lock().expect("no thread panics with it locked");
        if free.len() < Self::FREE && buffer.capacity() <= Self::LONGEST {
            free.push(buffer);
        }
    }
}

/// The bytes of a group, whose buffer is used again.
struct Lent {
    bytes: Vec<u8>,
    buffers: Arc<Buffers>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.buffers.put(std::mem::take(&mut self.bytes));
    }
}

#[derive(Default)]
struct RecentGroups {
    groups: HashMap<Key, Slot>,
    /// By when they were used.
    order: BTreeMap<u64, Key>,
    /// Of the next use.
    time: u64,
    bytes: usize,
}

struct Slot {
    used: u64,
    content: Arc<Mutex<Option<Arc<Group>>>>,
    /// In bytes; 0 until it was read.
    len: usize,
}

/// A decompressed group, with what its container's footer said of it when it was read.
pub(crate) struct Group {
    pub(crate) content: Content,
    bytes: Bytes,
    /// The slot of its first chunk.
    first: usize,
    /// Its chunks, and which of them were found to be what they are called.
    chunks: Box<[(ChunkEntry, AtomicBool)]>,
}

impl Group {
    /// Group `number` of `directory`, whose bytes are `bytes`.
    pub(crate) fn new(directory: &Directory, number: u32, bytes: Bytes) -> Self {
        let first = directory.chunks.partition_point(|chunk| chunk.group < number);
        let chunks = directory.chunks[first..].iter().take_while(|chunk| chunk.group == number);
        let chunks = chunks.map(|chunk| (chunk.clone(), AtomicBool::new(false))).collect();
        Self { content: directory.content, bytes, first, chunks }
    }

    /// What the footer calls the chunk in `slot`, if that is in this group.
    pub(crate) fn name(&self, slot: u32) -> Option<Fingerprint> {
        let (entry, _) = self.chunks.get((slot as usize).checked_sub(self.first)?)?;
        Some(entry.fingerprint)
    }

    /// The bytes of the chunk in `slot`, if it is in this group and called `fingerprint`. `verify`
    /// sees them unless they were found right before.
    pub(crate) fn chunk<E>(
        &self,
        slot: u32,
        fingerprint: &Fingerprint,
        verify: impl FnOnce(&[u8]) -> Result<(), E>,
    ) -> Option<Result<Bytes, E>> {
        let (entry, is_right) = self.chunks.get((slot as usize).checked_sub(self.first)?)?;
        let is_it = entry.fingerprint == *fingerprint && entry.range().end <= self.bytes.len();
        is_it.then(|| {
            let bytes = self.bytes.slice(entry.range());
            if !is_right.load(Ordering::Relaxed) {
                verify(&bytes)?;
                is_right.store(true, Ordering::Relaxed);
            }
            Ok(bytes)
        })
    }

    /// What it takes in memory, in bytes, about.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + self.chunks.len() * size_of::<(ChunkEntry, AtomicBool)>()
    }
}

impl Groups {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, kept: Mutex::default(), buffers: Arc::default() }
    }

    /// A buffer for the `len` bytes of a group that is to be read, or an empty one.
    pub(crate) fn buffer(&self, len: usize) -> Vec<u8> {
        self.buffers.take(len)
    }

    /// The bytes of a group that was read.
    pub(crate) fn bytes(&self, bytes: Vec<u8>) -> Bytes {
        Bytes::from_owner(Lent { bytes, buffers: Arc::clone(&self.buffers) })
    }

    /// The group `key`, by `read` if it is not here.
    pub(crate) fn get<E>(
        &self,
        key: Key,
        read: impl FnOnce() -> Result<Group, E>,
    ) -> Result<Arc<Group>, E> {
        let content = self.kept().touch(key);
        let mut content = content.lock().expect("no thread panics while it reads a group");
        if let Some(group) = &*content {
            return Ok(Arc::clone(group));
        }
        let group = Arc::new(read()?);
        *content = Some(Arc::clone(&group));
        self.kept().note(key, group.len(), self.capacity);
        Ok(group)
    }

    /// The group `key`, if it is here.
    pub(crate) fn find(&self, key: Key) -> Option<Arc<Group>> {
        let content = {
            let mut kept = self.kept();
            kept.groups.get(&key).filter(|slot| slot.len > 0)?;
            kept.touch(key)
        };
        content.lock().expect("no thread panics while it reads a group").clone()
    }

    /// Keeps a group that was read otherwise.
    pub(crate) fn keep(&self, key: Key, group: &Arc<Group>) {
        let content = self.kept().touch(key);
        let mut content = content.lock().expect("no thread panics while it reads a group");
        *content = Some(Arc::clone(group));
        self.kept().note(key, group.len(), self.capacity);
    }

    fn kept(&self) -> MutexGuard<'_, RecentGroups> {
        self.kept.lock().expect("no thread panics with it locked")
    }
}

impl RecentGroups {
    /// Where the content of `key` is, or will be; it is the one used last from now on.
    fn touch(&mut self, key: Key) -> Arc<Mutex<Option<Arc<Group>>>> {
        self.time += 1;
        let new = || Slot { used: 0, content: Arc::default(), len: 0 };
        let slot = self.groups.entry(key).or_insert_with(new);
        self.order.remove(&slot.used);
        slot.used = self.time;
        self.order.insert(self.time, key);
        Arc::clone(&slot.content)
    }

    /// Counts a group that was read, and drops the oldest ones if all are too long together.
    fn note(&mut self, key: Key, len: usize, capacity: usize) {
        // It may have been dropped while it was read.
        if let Some(slot) = self.groups.get_mut(&key) {
            self.bytes = self.bytes - slot.len + len;
            slot.len = len;
        }
        while self.bytes > capacity
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.bytes -= self.groups.remove(&oldest).map_or(0, |slot| slot.len);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn group(bytes: &[u8]) -> Group {
        let bytes = Bytes::copy_from_slice(bytes);
        Group { content: Content::Data, bytes, first: 0, chunks: Box::default() }
    }

    fn read(groups: &Groups, key: Key, len: usize) -> bool {
        let mut is_read = false;
        let found = groups.get(key, || {
            is_read = true;
            Ok::<_, ()>(group(&vec![key.1 as u8; len]))
        });
        assert_eq!(found.unwrap().bytes, vec![key.1 as u8; len]);
        is_read
    }

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let groups = Groups::new(30);
        for group in 0..3 {
            assert!(read(&groups, (0, group), 10));
        }
        assert!(!read(&groups, (0, 0), 10));
        assert!(read(&groups, (0, 3), 10), "there is no room for four");
        assert!(!read(&groups, (0, 0), 10), "it was used after the next two");
        assert!(!read(&groups, (0, 2), 10));
        assert!(read(&groups, (0, 1), 10), "it was used longest ago");
    }

    #[test]
    fn no_more_is_kept_than_there_is_room_for() {
        let groups = Groups::new(100);
        for round in 0..1000u32 {
            read(&groups, (round % 7, round % 31), (round % 40) as usize);
            let kept = groups.kept();
            assert!(kept.bytes <= 100);
            assert_eq!(kept.bytes, kept.groups.values().map(|slot| slot.len).sum::<usize>());
            assert_eq!(kept.order.len(), kept.groups.len());
        }
        assert!(read(&groups, (9, 9), 101));
        assert!(read(&groups, (9, 9), 101), "one that is too long for all room is not kept");
    }

    #[test]
    fn buffers_are_used_again_once_nobody_has_their_bytes() {
        let groups = Groups::new(0);
        let bytes = groups.bytes(vec![7; 1000]);
        let part = bytes.slice(10..20);
        drop(bytes);
        assert_eq!(groups.buffer(1000).capacity(), 0, "a part is still there");
        drop(part);
        assert_eq!(groups.buffer(400).capacity(), 0, "it is far longer");
        assert_eq!(groups.buffer(1001).capacity(), 0, "it is too short");
        assert_eq!(groups.buffer(1000).capacity(), 1000);
        assert_eq!(groups.buffer(1000).capacity(), 0, "it was taken");
        let many: Vec<Bytes> = (0..10).map(|_| groups.bytes(vec![7; 1000])).collect();
        drop((many, groups.bytes(vec![7; Buffers::LONGEST + 1])));
        let free = groups.buffers.0.lock().unwrap();
        assert!(free.len() == Buffers::FREE && free.iter().all(|one| one.capacity() == 1000));
    }

    #[test]
    fn what_was_read_otherwise_is_kept_as_what_was_read_here() {
        let groups = Groups::new(20);
        let put = |number: u32| groups.keep((0, number), &Arc::new(group(&[number as u8; 10])));
        put(1);
        put(2);
        put(2);
        assert!(
            !read(&groups, (0, 1), 10)
                && groups.find((0, 2)).is_some()
                && groups.find((0, 1)).is_some()
        );
        // to find it is to use it
        put(3);
        assert!(
            groups.find((0, 2)).is_none()
                && groups.find((0, 1)).is_some()
                && groups.find((0, 3)).is_some()
        );
        assert_eq!(groups.kept().bytes, 20);
    }

    #[test]
    fn a_read_that_fails_is_tried_again() {
        let groups = Groups::new(100);
        assert!(matches!(groups.get((0, 0), || Err("no")), Err("no")));
        assert!(read(&groups, (0, 0), 10));
    }

    #[test]
    fn a_chunk_is_verified_until_it_was_found_right() {
        let name = |i| Fingerprint::from_bytes([i; 32]);
        let chunk = |i, offset, len| {
            (ChunkEntry { fingerprint: name(i), group: 0, offset, len }, AtomicBool::new(false))
        };
        let group = Group {
            content: Content::Data,
            bytes: Bytes::from_static(b"abcdef"),
            first: 7,
            chunks: [chunk(1, 0, 2), chunk(2, 2, 4), chunk(3, 4, 3)].into(),
        };
        let wrong = |_: &[u8]| Err("wrong");
        let right = |_: &[u8]| Ok::<_, &str>(());
        assert_eq!(group.chunk(8, &name(2), wrong), Some(Err("wrong")));
        assert_eq!(group.chunk(8, &name(2), right), Some(Ok("cdef".into())));
        assert_eq!(group.chunk(8, &name(2), wrong), Some(Ok("cdef".into())));
        assert_eq!(group.chunk(7, &name(1), wrong), Some(Err("wrong")), "each has its own");
        assert_eq!(group.chunk(8, &name(1), right), None, "it is called otherwise");
        assert_eq!(group.chunk(9, &name(3), right), None, "it ends behind the group");
        assert_eq!(group.chunk(6, &name(1), right), None, "it is in the group before");
        assert_eq!(group.chunk(10, &name(1), right), None, "it is in the next");
        let names = [6, 7, 9, 10].map(|slot| group.name(slot));
        assert_eq!(names, [None, Some(name(1)), Some(name(3)), None]);
    }

    #[test]
    fn threads_that_ask_at_once_read_once() {
        let groups = Groups::new(100);
        let reads = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let found = groups.get((0, 0), || {
                        reads.fetch_add(1, Ordering::Relaxed);
                        std::thread::yield_now();
                        Ok::<_, ()>(group(b"bytes"))
                    });
                    assert_eq!(found.unwrap().bytes, "bytes");
                });
            }
        });
        assert_eq!(reads.into_inner(), 1);
    }
}
