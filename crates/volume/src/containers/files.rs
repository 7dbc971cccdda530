//! The files of containers, of which no more are open than a pool may have.
//!
//! A file is open from when it is begun until it has its footer and that is durable. From then on it
//! may be closed, and is opened again, to be read, when somebody wants a page of it. Which one is
//! closed is found as by a clock's hand: the first that was not read since the hand passed it. Who
//! reads an open file takes the lock of that file alone, to read.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock, RwLockWriteGuard, TryLockError, Weak};

use onefold_backend::{BackendError, Folder, Log, LogReader, Operation, Syncer};
use onefold_container::{AppendedContainer, Codec, Content, Directory, GroupEntry};
use onefold_seal::{Check, Envelope, ObjectId};

use crate::containers::entry::PageEntry;
use crate::error::VolumeError;
use crate::ids::{SharedName, container_id, container_name};
use crate::sharing::{SharedLog, Sharing};

/// The files of a pool's containers.
pub(crate) struct Files {
    folder: Arc<dyn Folder>,
    envelope: Envelope,
    /// Of those that may be closed, so many are open at most.
    most: usize,
    /// Those that are open and may be closed, where the hand comes next first. Some may be gone.
    hand: Mutex<VecDeque<Weak<PageFile>>>,
    /// What shares containers with other shards, and whose container each number is.
    sharing: Option<(Arc<dyn Sharing>, ObjectId)>,
    shared: Mutex<HashMap<u32, Shared>>,
}

/// A container that shards share.
#[derive(Clone, Copy)]
pub(crate) struct Shared {
    pub(crate) name: SharedName,
    /// Whether this pool did not make it under this number, and refers to some pages of it.
    pub(crate) is_foreign: bool,
}

impl Files {
    /// Those in `folder`, of the pool whose containers `envelope` has; `most` is at least one.
    pub(crate) fn new(folder: Arc<dyn Folder>, envelope: Envelope, most: usize) -> Arc<Self> {
        Self::with(folder, envelope, most, None)
    }

    /// The same of a pool whose containers are made by `sharing`, if there is one, as those of a shard.
    pub(crate) fn with(
        folder: Arc<dyn Folder>,
        envelope: Envelope,
        most: usize,
        sharing: Option<(Arc<dyn Sharing>, ObjectId)>,
    ) -> Arc<Self> {
        let (hand, shared) = (Mutex::default(), Mutex::default());
        Arc::new(Self { folder, envelope, most: most.max(1), hand, sharing, shared })
    }

    /// What shares containers with other shards.
    pub(crate) fn sharing(&self) -> Option<&Arc<dyn Sharing>> {
        self.sharing.as_ref().map(|(sharing, _)| sharing)
    }

    /// The shard that this pool is, if it shares containers.
    pub(crate) fn own_shard(&self) -> Option<ObjectId> {
        self.sharing.as_ref().map(|(_, own)| *own)
    }

    /// Container `number` is this one, from before its file is asked for.
    pub(crate) fn name_shared(&self, number: u32, shared: Shared) {
        self.shared.lock().expect("nobody panics with it").insert(number, shared);
    }

    /// Container `number` is none any more. Files of it stay as they are.
    pub(crate) fn forget_shared(&self, number: u32) {
        self.shared.lock().expect("nobody panics with it").remove(&number);
    }

    /// Opens container `number` to read.
    fn reader(
        &self,
        number: u32,
        shared: Option<Shared>,
    ) -> Result<Box<dyn LogReader>, BackendError> {
        match (shared, &self.sharing) {
            (Some(shared), Some((sharing, _))) => sharing.reader(shared.name),
            _ => self.folder.reader(&container_name(number)),
        }
    }

    /// Container `name` of any shard, to look at its directory.
    pub(crate) fn shared_file(self: &Arc<Self>, name: SharedName) -> Arc<PageFile> {
        self.file_of(0, 0, Open::Closed, Some(Shared { name, is_foreign: true }))
    }

    /// The file of container `number`, which was just made.
    pub(crate) fn begun(self: &Arc<Self>, number: u32, log: Box<dyn SharedLog>) -> Arc<PageFile> {
        let (len, syncer) = (log.len(), log.syncer());
        self.file(number, len, Open::Shared { log, syncer })
    }

    /// The file of container `number`, to append to; made if there is none.
    pub(crate) fn open(self: &Arc<Self>, number: u32) -> Result<Arc<PageFile>, BackendError> {
        let log = self.folder.log(&container_name(number))?;
        let (len, syncer) = (log.len(), log.syncer());
        Ok(self.file(number, len, Open::Log { log, syncer }))
    }

    /// The file of container `number`, which has its footer and is durable, to read. Nothing is synced
    /// or made. Without a file it is one without bytes, and the error comes with it.
    pub(crate) fn open_sealed(
        self: &Arc<Self>,
        number: u32,
    ) -> Result<(Arc<PageFile>, Option<BackendError>), BackendError> {
        let shared = self.shared.lock().expect("nobody panics with it").get(&number).copied();
        let (len, open, missing) = match self.reader(number, shared) {
            Ok(reader) => (reader.len(), Open::Reader(reader), None),
            Err(error) if error.is_not_found() => (0, Open::Closed, Some(error)),
            Err(error) => return Err(error),
        };
        let file = self.file(number, len, open);
        file.complete();
        Ok((file, missing))
    }

    /// The file of container `number`, which has its footer and `len` bytes, is durable, and is opened
    /// when it is read.
    pub(crate) fn closed(self: &Arc<Self>, number: u32, len: u64) -> Arc<PageFile> {
        let file = self.file(number, len, Open::Closed);
        file.complete();
        file.may_close.store(true, Ordering::Relaxed);
        file
    }

    fn file(self: &Arc<Self>, number: u32, len: u64, open: Open) -> Arc<PageFile> {
        let shared = self.shared.lock().expect("nobody panics with it").get(&number).copied();
        self.file_of(number, len, open, shared)
    }

    fn file_of(
        self: &Arc<Self>,
        number: u32,
        len: u64,
        open: Open,
        shared: Option<Shared>,
    ) -> Arc<PageFile> {
        Arc::new(PageFile {
            name: shared.map_or_else(|| container_name(number), |one| one.name.to_string()),
            number,
            shared,
            files: Arc::clone(self),
            len: AtomicU64::new(len),
            open: RwLock::new(open),
            is_complete: AtomicBool::new(false),
            may_close: AtomicBool::new(false),
            is_used: AtomicBool::new(false),
        })
    }

    /// Counts `file`, which is open and may be closed, and closes others if they are too many.
    fn count(&self, file: &Arc<PageFile>) {
        let mut hand = self.hand.lock().expect("nobody panics with it");
        hand.push_back(Arc::downgrade(file));
        // Once around to forget that they were read, and once more to close: who is read all the
        // while stays open, and so do more than there should be, until the next time.
        for _ in 0..2 * hand.len() {
            if hand.len() <= self.most {
                return;
            }
            let Some(next) = hand.pop_front() else { return };
            let Some(file) = next.upgrade() else { continue };
            if file.is_used.swap(false, Ordering::Relaxed) || !file.close_if_idle() {
                hand.push_back(next);
            }
        }
    }
}

/// The bytes of one container.
pub(crate) struct PageFile {
    pub(crate) name: String,
    number: u32,
    shared: Option<Shared>,
    files: Arc<Files>,
    len: AtomicU64,
    open: RwLock<Open>,
    /// Whether nothing will be appended any more.
    is_complete: AtomicBool,
    /// Changed under the lock of `open`.
    may_close: AtomicBool,
    /// Whether it was read since the hand passed.
    is_used: AtomicBool,
}

enum Open {
    /// To append to; the syncer syncs it while others append and read.
    Log {
        log: Box<dyn Log + Sync>,
        syncer: Arc<dyn Syncer>,
    },
    /// The same of one that shards share.
    Shared {
        log: Box<dyn SharedLog>,
        syncer: Arc<dyn Syncer>,
    },
    Reader(Box<dyn LogReader>),
    Closed,
}

impl Open {
    /// Reads, unless it is closed.
    fn read(&self, offset: u64, into: &mut [u8]) -> Option<Result<(), BackendError>> {
        match self {
            Self::Log { log, .. } => Some(log.read(offset, into)),
            Self::Shared { log, .. } => Some(log.read(offset, into)),
            Self::Reader(reader) => Some(reader.read(offset, into)),
            Self::Closed => None,
        }
    }
}

impl PageFile {
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Which container it is to all shards, if they share it.
    pub(crate) fn shared(&self) -> Option<SharedName> {
        self.shared.map(|one| one.name)
    }

    /// Whether pages need not follow each other in it.
    pub(crate) fn has_gaps(&self) -> bool {
        self.shared.is_some()
    }

    /// Whether another pool made it, or this one under another number.
    pub(crate) fn is_foreign(&self) -> bool {
        self.shared.is_some_and(|one| one.is_foreign)
    }

    /// Bytes that count as this pool's: none of one that is foreign.
    pub(crate) fn own_len(&self) -> u64 {
        if self.is_foreign() { 0 } else { self.len() }
    }

    /// The id in its header, and what it is sealed with.
    fn identity(&self) -> (ObjectId, Envelope) {
        match self.shared {
            Some(Shared { name, .. }) => {
                (container_id(name.number as u32), Envelope::plain(name.shard))
            }
            None => (container_id(self.number), self.files.envelope.clone()),
        }
    }

    /// Ends the container, which holds the pages of `directory`, with its footer.
    ///
    /// # Panics
    ///
    /// If the file may be closed.
    pub(crate) fn append_footer(&self, directory: &Directory) -> Result<(), BackendError> {
        let (id, envelope) = self.identity();
        let footer = |end| footer(&envelope, id, directory, end);
        {
            let mut open = self.lock();
            if let Open::Shared { log, .. } = &mut *open {
                let ended = log.end(&footer);
                self.len.store(log.len(), Ordering::Release);
                return ended;
            }
        }
        let footer = footer(self.len());
        self.append(&footer).map(drop)
    }

    pub(crate) fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// Adds `bytes` at the end, and returns where they begin.
    ///
    /// # Panics
    ///
    /// If the file may be closed.
    pub(crate) fn append(&self, bytes: &[u8]) -> Result<u64, BackendError> {
        self.change(|log| log.append(bytes))
    }

    /// Cuts off all but the first `len` bytes.
    ///
    /// # Panics
    ///
    /// If the file may be closed.
    pub(crate) fn truncate(&self, len: u64) -> Result<(), BackendError> {
        self.change(|log| log.truncate(len))
    }

    fn change<T>(
        &self,
        change: impl FnOnce(&mut dyn Log) -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        let mut open = self.lock();
        let log: &mut dyn Log = match &mut *open {
            Open::Log { log, .. } => &mut **log,
            Open::Shared { log, .. } => &mut **log,
            _ => panic!("{} has its footer and is changed no more", self.name),
        };
        let changed = change(log);
        self.len.store(log.len(), Ordering::Release);
        changed
    }

    /// Makes durable what was appended before; nobody waits for it who appends or reads.
    pub(crate) fn sync(&self) -> Result<(), BackendError> {
        let syncer = match &*self.open.read().expect("nobody panics with it") {
            Open::Log { syncer, .. } | Open::Shared { syncer, .. } => Arc::clone(syncer),
            // nothing is closed that is not durable
            Open::Reader(_) | Open::Closed => return Ok(()),
        };
        syncer.sync()
    }

    pub(crate) fn read(self: &Arc<Self>, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
        if self.is_foreign() && offset + into.len() as u64 > self.len() {
            self.open_anew()?;
        }
        let read = self.open.read().expect("nobody panics with it").read(offset, into);
        if let Some(read) = read {
            // looked at first: a store by many readers would cost each of them the others' caches
            if !self.is_used.load(Ordering::Relaxed) {
                self.is_used.store(true, Ordering::Relaxed);
            }
            return read;
        }
        let mut open = self.lock();
        let was_closed = self.open_again(&mut open)?;
        let read = open.read(offset, into).expect("it is open now");
        drop(open);
        if was_closed {
            self.files.count(self);
        }
        read
    }

    /// Says what is wrong with it, from byte `at` on.
    pub(crate) fn damaged(&self, at: u64, problem: String) -> VolumeError {
        VolumeError::Damaged { object: self.name.clone(), at, problem }
    }

    /// What the footer says; nothing else is read.
    pub(crate) fn directory(self: &Arc<Self>) -> Result<Directory, VolumeError> {
        let (id, envelope) = self.identity();
        if self.is_foreign() {
            // it may have got its footer since it was opened
            self.open_anew()?;
        }
        let read = |range: Range<u64>| {
            let mut bytes = vec![0; (range.end - range.start) as usize];
            self.read(range.start, &mut bytes).map(|()| bytes)
        };
        let directory = Directory::read_by(&envelope, id, self.len(), read)?;
        Ok(if self.has_gaps() { without_padding(directory) } else { directory })
    }

    /// Fails if another shard still fills it, so that it has no directory yet.
    pub(crate) fn ensure_sealed(&self) -> Result<(), VolumeError> {
        let (Some(name), Some(sharing)) = (self.shared(), self.files.sharing()) else {
            return Ok(());
        };
        match sharing.look(name)? {
            Some((state, _)) if !state.is_sealed && self.is_foreign() => {
                Err(VolumeError::NotSealed { container: self.name.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Gives a container that shards share, and that an earlier writer filled, the footer that lists `pages`.
    pub(crate) fn seal_inherited(&self, pages: &[PageEntry]) -> Result<(), VolumeError> {
        let (id, envelope) = self.identity();
        let (mut writer, _) = AppendedContainer::new(&envelope, id, Content::Data);
        for page in pages {
            writer.enter(page.group(), [(page.fingerprint, page.len)]);
        }
        let footer = |end| footer(&envelope, id, writer.directory(), end);
        let name = self.shared().expect("the caller knows that it is shared");
        self.files.sharing().expect("it is shared").seal(name, &footer)
    }

    /// Opens a file of which another shard may have changed the length again.
    fn open_anew(self: &Arc<Self>) -> Result<(), BackendError> {
        let mut open = self.lock();
        *open = Open::Closed;
        self.open_again(&mut open)?;
        drop(open);
        self.files.count(self);
        Ok(())
    }

    /// The container has its footer.
    pub(crate) fn complete(&self) {
        self.is_complete.store(true, Ordering::Release);
    }

    /// Whether it was said to have its footer.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete.load(Ordering::Acquire)
    }

    /// Lets the file be closed. All that is in it is durable, and nothing is appended any more.
    pub(crate) fn let_close(self: &Arc<Self>) {
        let open = self.lock();
        let may_close_already = self.may_close.swap(true, Ordering::Relaxed);
        let is_open = !matches!(*open, Open::Closed);
        drop(open);
        if is_open && !may_close_already {
            self.files.count(self);
        }
    }

    /// Opens the file, for as long as somebody has it: its name is about to go.
    pub(crate) fn keep_open(&self) -> Result<(), BackendError> {
        {
            // who closes it would have to have the lock alone
            let open = self.open.read().expect("nobody panics with it");
            if !matches!(*open, Open::Closed) {
                self.may_close.store(false, Ordering::Relaxed);
                return Ok(());
            }
        }
        let mut open = self.lock();
        self.open_again(&mut open)?;
        self.may_close.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn lock(&self) -> RwLockWriteGuard<'_, Open> {
        self.open.write().expect("nobody panics with it")
    }

    /// Closes the file if it may be and nobody reads it now; false if it is being read.
    fn close_if_idle(&self) -> bool {
        let mut open = match self.open.try_write() {
            Ok(open) => open,
            Err(TryLockError::WouldBlock) => return false,
            Err(TryLockError::Poisoned(_)) => panic!("nobody panics with it"),
        };
        if self.may_close.load(Ordering::Relaxed) {
            *open = Open::Closed;
        }
        true
    }

    /// Opens the file if it is closed; whether it was. What has its name by now must begin as this
    /// container does and have as many bytes at least: of each page in it there is a check beside.
    fn open_again(&self, open: &mut Open) -> Result<bool, BackendError> {
        if !matches!(open, Open::Closed) {
            return Ok(false);
        }
        let reader = self.files.reader(self.number, self.shared)?;
        let (id, envelope) = self.identity();
        let (_, expected) = AppendedContainer::new(&envelope, id, Content::Data);
        if reader.len() < self.len() {
            let (found, expected) = (reader.len(), self.len());
            return Err(self.is_another(format!("it has {found} bytes, expected {expected}")));
        }
        let mut start = vec![0; expected.len()];
        reader.read(0, &mut start)?;
        if start != expected {
            return Err(self.is_another("it does not begin as this container of this pool".into()));
        }
        if self.is_foreign() {
            // its pool may have added to it since it was last opened
            self.len.store(reader.len(), Ordering::Release);
        }
        *open = Open::Reader(reader);
        Ok(true)
    }

    /// The name stands for another file than it did.
    fn is_another(&self, problem: String) -> BackendError {
        BackendError::Io {
            name: self.name.clone(),
            operation: Operation::Open,
            place: "the pool".to_owned(),
            source: problem.into(),
        }
    }
}

/// The footer of container `id`, which holds the pages of `directory` and ends at byte `end`: what lies
/// between pages, and after the last one, is padding.
fn footer(envelope: &Envelope, id: ObjectId, directory: &Directory, end: u64) -> Vec<u8> {
    let (mut writer, _) = AppendedContainer::new(envelope, id, Content::Data);
    let pad = |writer: &mut AppendedContainer, until: u64| {
        while writer.len() < until {
            let stored_len = (until - writer.len()).min(MAX_PADDING) as u32;
            let (codec, check) = (Codec::Raw, Check::of(&[]));
            let offset = writer.len();
            writer.enter(GroupEntry { offset, stored_len, len: 0, codec, check }, []);
        }
    };
    for (group, chunk) in directory.groups.iter().zip(&directory.chunks) {
        pad(&mut writer, group.offset);
        writer.enter(group.clone(), [(chunk.fingerprint, chunk.len)]);
    }
    pad(&mut writer, end);
    writer.footer()
}

/// Bytes that one group of padding has at most.
const MAX_PADDING: u64 = 1 << 20;

/// The same pages, where slots are positions of groups and of chunks alike.
pub(crate) fn without_padding(mut directory: Directory) -> Directory {
    let mut numbers = Vec::with_capacity(directory.groups.len());
    let mut next = 0;
    for group in &directory.groups {
        numbers.push(next);
        next += u32::from(!group.is_padding());
    }
    for chunk in &mut directory.chunks {
        chunk.group = numbers[chunk.group as usize];
    }
    directory.groups.retain(|group| !group.is_padding());
    directory
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use onefold_backend::LocalFolder;

    use super::*;
    use crate::ids::{container_id, container_name};

    const POOL: ObjectId = ObjectId::from_bytes([7; ObjectId::LEN]);

    struct Fixture {
        directory: tempfile::TempDir,
        files: Arc<Files>,
    }

    impl Fixture {
        fn new(most: usize) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let folder = Arc::new(LocalFolder::create(directory.path()).unwrap());
            Self { files: Files::new(folder, Envelope::plain(POOL), most), directory }
        }

        fn path(&self, number: u32) -> std::path::PathBuf {
            self.directory.path().join(container_name(number))
        }

        /// A container with its header and a few bytes, which may not be closed yet.
        fn begin(&self, number: u32) -> Arc<PageFile> {
            let file = self.files.open(number).unwrap();
            let id = container_id(number);
            let (_, start) = AppendedContainer::new(&Envelope::plain(POOL), id, Content::Data);
            file.append(&start).unwrap();
            file.append(&number.to_be_bytes()).unwrap();
            file
        }

        fn add(&self, number: u32) -> Arc<PageFile> {
            let file = self.begin(number);
            file.complete();
            file.sync().unwrap();
            file.let_close();
            file
        }
    }

    fn is_open(file: &PageFile) -> bool {
        !matches!(*file.open.read().unwrap(), Open::Closed)
    }

    fn read(file: &Arc<PageFile>) -> Result<u32, BackendError> {
        let mut found = [0; 4];
        file.read(file.len() - 4, &mut found)?;
        Ok(u32::from_be_bytes(found))
    }

    fn copy(from: &Path, to: &Path) {
        std::fs::copy(from, to).unwrap();
    }

    #[test]
    fn what_was_read_since_stays_open_and_the_others_are_opened_again() {
        let fixture = Fixture::new(3);
        let files: Vec<_> = (1..=4).map(|number| fixture.add(number)).collect();
        let open = || files.iter().map(|file| is_open(file)).collect::<Vec<_>>();
        assert_eq!(open(), [false, true, true, true]);
        assert_eq!(read(&files[1]).unwrap(), 2);
        assert_eq!(read(&files[0]).unwrap(), 1);
        assert_eq!(open(), [true, true, false, true]);
        for (number, file) in (1..).zip(&files) {
            assert_eq!(read(file).unwrap(), number);
            assert_eq!(files.iter().filter(|file| is_open(file)).count(), 3);
        }
    }

    #[test]
    fn what_is_not_durable_or_still_grows_is_not_closed() {
        let fixture = Fixture::new(1);
        let growing: Vec<_> = (1..=5).map(|number| fixture.begin(number)).collect();
        (6..=9).for_each(|number| drop(fixture.add(number)));
        for file in &growing {
            assert!(is_open(file) && !file.is_complete());
            file.append(b"more").unwrap();
            file.sync().unwrap();
        }
        // letting it be closed twice counts it once
        for _ in 0..2 {
            growing.iter().for_each(PageFile::let_close);
        }
        assert_eq!(growing.iter().filter(|file| is_open(file)).count(), 1);
        assert!(fixture.files.hand.lock().unwrap().len() <= 2);
    }

    #[test]
    fn who_has_a_file_reads_on_after_its_name_is_gone() {
        let fixture = Fixture::new(1);
        let (removed, lost) = (fixture.add(1), fixture.add(2));
        fixture.add(3);
        assert!(!is_open(&removed) && !is_open(&lost));
        removed.keep_open().unwrap();
        for file in [&removed, &lost] {
            fixture.files.folder.remove(&file.name).unwrap();
        }
        for number in 4..8 {
            fixture.add(number);
            assert_eq!(read(&removed).unwrap(), 1);
        }
        assert!(read(&lost).unwrap_err().is_not_found());
        assert!(lost.keep_open().unwrap_err().is_not_found());
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "it damages what the pool has")]
    fn another_file_of_the_same_name_is_refused_and_named() {
        let fixture = Fixture::new(1);
        let (file, other) = (fixture.add(1), fixture.add(2));
        let (path, kept) = (fixture.path(1), fixture.directory.path().join("kept"));
        copy(&path, &kept);
        let refused = |what: &str| {
            // closes it
            read(&other).unwrap();
            assert!(!is_open(&file));
            let error = read(&file).unwrap_err();
            assert!(error.to_string().contains("container-00000001"), "{what}: {error}");
            assert!(!is_open(&file), "{what}");
        };
        copy(&fixture.path(2), &path);
        refused("another container");
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(20).unwrap();
        refused("a part of it");
        std::fs::remove_file(&path).unwrap();
        refused("none");
        std::os::unix::fs::symlink(&kept, &path).unwrap();
        refused("a link");
        std::fs::remove_file(&path).unwrap();
        copy(&kept, &path);
        assert_eq!(read(&file).unwrap(), 1, "a copy of it is as good");
    }

    #[test]
    fn threads_read_what_is_closed_and_opened_all_the_while() {
        let fixture = Fixture::new(2);
        let files: Vec<_> = (1..=6).map(|number| fixture.add(number)).collect();
        std::thread::scope(|scope| {
            for thread in 0..4_usize {
                let files = &files;
                scope.spawn(move || {
                    for step in 0..3000 {
                        let at = (step * (thread + 1) + thread) % files.len();
                        assert_eq!(read(&files[at]).unwrap() as usize, at + 1);
                    }
                });
            }
        });
        // those that were read while others were to be closed are closed with the next one
        fixture.add(7);
        assert!(files.iter().filter(|file| is_open(file)).count() <= 2);
    }
}
