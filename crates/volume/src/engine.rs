//! A pool at work: volumes, pages, table and journal together.
//!
//! **Order.** A page is appended to a container; a record of it, and one of the block that has it,
//! wait in memory. A commit syncs the containers, then appends the waiting records to the journal
//! as a frame and syncs that. So the journal never tells of a page that is not durable, and what a
//! flush acknowledged is in it. A file goes only after the journal says so durably.
//!
//! **Locks**, in the order in which they are taken: maintenance (checkpoints and compactions, one
//! at a time), stripes of blocks, journal, state. Bytes are fingerprinted, compressed and read
//! without the last two.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock};

use onefold_backend::{BackendError, Folder, Log};
use onefold_block::BlockSize;
use onefold_container::{Codec, CompressedGroup, Compressor, Directory, GroupBuilder};
use onefold_fingerprint::{Fingerprint, Fingerprinter};
use onefold_index::Table;
use onefold_seal::{Envelope, ObjectId, Suite};

use crate::handle::{Handle, VolumeId};
use crate::map::Map;
use crate::pages::{Held, Located, PageFile, Pages};
use crate::record::Record;
use crate::seeded::{self, Bug};
use crate::stripes::Stripes;
use crate::{Options, VolumeError, frame};

/// A volume, as the pool knows it.
pub(crate) struct VolumeState {
    pub(crate) name: String,
    /// In bytes.
    pub(crate) size: u64,
    pub(crate) block_size: BlockSize,
    pub(crate) is_read_only: bool,
    /// The volume that it was made of, which may be gone.
    pub(crate) source: Option<VolumeId>,
    /// When it was made, in seconds since 1970.
    pub(crate) made: u64,
    pub(crate) map: Map,
}

/// What changes under one lock.
pub(crate) struct State {
    pub(crate) volumes: BTreeMap<VolumeId, VolumeState>,
    pub(crate) next_volume: u32,
    pub(crate) pages: Pages,
    pub(crate) waiting: Waiting,
}

/// Records that the journal does not have yet, in bodies of frames.
#[derive(Default)]
pub(crate) struct Waiting {
    bodies: Vec<Vec<u8>>,
    bytes: usize,
}

impl Waiting {
    pub(crate) fn push(&mut self, record: &Record) {
        if self.bodies.last().is_none_or(|body| body.len() > frame::MAX_BODY / 2) {
            self.bodies.push(Vec::new());
        }
        let body = self.bodies.last_mut().expect("there is one now");
        let before = body.len();
        record.encode(body);
        self.bytes += body.len() - before;
    }

    /// Puts back what could not be written, before what came since.
    fn put_back(&mut self, mut bodies: Vec<Vec<u8>>) {
        self.bytes += bodies.iter().map(Vec::len).sum::<usize>();
        bodies.append(&mut self.bodies);
        self.bodies = bodies;
    }

    pub(crate) fn take(&mut self) -> Vec<Vec<u8>> {
        self.bytes = 0;
        std::mem::take(&mut self.bodies)
    }
}

impl State {
    /// Maps a block, and notes it. A block that is beyond the end by now is as if it had been written
    /// before the volume became shorter.
    pub(crate) fn map(&mut self, volume: VolumeId, block: u64, to: Handle) {
        let Some(one) = self.volumes.get_mut(&volume) else { return };
        if block >= one.size / u64::from(one.block_size.bytes()) {
            return;
        }
        if to.is_hole() && one.map.get(block).is_hole() {
            return;
        }
        let to = self.pages.resolve(to);
        one.map.set(block, to, &mut self.pages);
        self.waiting.push(&Record::Map { volume, block, to });
    }
}

/// The journal that takes records now.
pub(crate) struct Journal {
    pub(crate) log: Box<dyn Log + Sync>,
    /// Of the checkpoint that it begins behind.
    pub(crate) number: u64,
    /// Of the next frame.
    pub(crate) frame: u64,
}

/// What happened since the pool was opened.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) known: AtomicU64,
    pub(crate) new: AtomicU64,
    pub(crate) zero: AtomicU64,
    pub(crate) unindexed: AtomicU64,
    pub(crate) commits: AtomicU64,
    /// Of new pages, before they were compressed.
    pub(crate) new_bytes: AtomicU64,
    /// Of new pages, as they were appended.
    pub(crate) new_stored_bytes: AtomicU64,
    /// Pages that the quota had no room for.
    pub(crate) over_quota: AtomicU64,
    /// Of the journal now: the one number here that also falls.
    pub(crate) journal_bytes: AtomicU64,
}

fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}

pub(crate) struct Engine {
    pub(crate) folder: Arc<dyn Folder>,
    pub(crate) id: ObjectId,
    pub(crate) options: Options,
    pub(crate) fingerprinter: Fingerprinter,
    /// By which new pages are compressed, and by which they are if no option says otherwise.
    pub(crate) codec: Codec,
    pub(crate) own_codec: Codec,
    pub(crate) table: RwLock<Arc<dyn Table>>,
    pub(crate) state: Mutex<State>,
    pub(crate) journal: Mutex<Journal>,
    pub(crate) maintenance: Mutex<()>,
    pub(crate) blocks: Stripes,
    pub(crate) counters: Counters,
    /// Why nothing more is taken.
    pub(crate) stopped: OnceLock<String>,
    /// The pool's own log, which nobody else can have meanwhile.
    pub(crate) _own: Box<dyn Log + Sync>,
}

impl Engine {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }

    pub(crate) fn table(&self) -> Arc<dyn Table> {
        Arc::clone(&self.table.read().expect("nobody panics with it"))
    }

    /// What containers of this pool are sealed with.
    pub(crate) fn envelope(&self) -> Envelope {
        Envelope::plain(self.id)
    }

    pub(crate) fn expect_running(&self) -> Result<(), VolumeError> {
        match self.stopped.get() {
            None => Ok(()),
            Some(why) => Err(VolumeError::Stopped { why: why.clone() }),
        }
    }

    /// Maps blocks of `volume` to pages with these bytes. Who calls has the stripes of the blocks.
    ///
    /// After an error some are mapped, and the others are as before.
    pub(crate) fn put(&self, volume: VolumeId, pages: &[(u64, &[u8])]) -> Result<(), VolumeError> {
        self.expect_room(volume)?;
        let (zeros, pages): (Vec<_>, Vec<_>) = pages.iter().partition(|(_, page)| is_zero(page));
        let bytes: Vec<&[u8]> = pages.iter().map(|(_, page)| *page).collect();
        let mut fingerprints = Vec::with_capacity(bytes.len());
        self.fingerprinter.fingerprint_many(&bytes, &mut fingerprints);
        let table = self.table();
        let mut hints = vec![None; fingerprints.len()];
        table.get_many(&fingerprints, &mut hints);
        if self.options.verify {
            self.drop_wrong(&bytes, &mut hints);
        }
        let mut unknown = Vec::new();
        {
            let mut state = self.state();
            for (block, _) in &zeros {
                state.map(volume, *block, Handle::HOLE);
            }
            for (i, (block, _)) in pages.iter().enumerate() {
                match hints[i].map(Handle::from_u64).map(|page| state.pages.resolve(page)) {
                    Some(page) if state.pages.has(page) => state.map(volume, *block, page),
                    _ => unknown.push(i),
                }
            }
        }
        count(&self.counters.zero, zeros.len());
        count(&self.counters.known, pages.len() - unknown.len());
        for i in unknown {
            self.put_new(volume, pages[i], fingerprints[i], &*table)?;
        }
        Ok(())
    }

    /// Maps a block to a page that the table did not know a moment ago.
    fn put_new(
        &self,
        volume: VolumeId,
        (block, bytes): (u64, &[u8]),
        fingerprint: Fingerprint,
        table: &dyn Table,
    ) -> Result<(), VolumeError> {
        let page = compress(fingerprint, bytes, self.codec)?;
        let stored_len = page.stored_len();
        let mut state = self.state();
        // The same page may have come twice in one write, or from another thread.
        let hint = table.get(&fingerprint).map(|page| state.pages.resolve(Handle::from_u64(page)));
        if let Some(page) = hint.filter(|page| !self.options.verify && state.pages.has(*page)) {
            state.map(volume, block, page);
            drop(state);
            count(&self.counters.known, 1);
            return Ok(());
        }
        if let Err(error) = state.pages.expect_quota(stored_len, self.options.quota) {
            count(&self.counters.over_quota, 1);
            if seeded::active(Bug::RefusedErased) {
                state.map(volume, block, Handle::HOLE);
            }
            return Err(error);
        }
        let State { pages, waiting, .. } = &mut *state;
        let page = pages.append(page, fingerprint, |record| waiting.push(record))?;
        state.map(volume, block, page);
        drop(state);
        count(&self.counters.new, 1);
        count(&self.counters.new_bytes, bytes.len());
        count(&self.counters.new_stored_bytes, stored_len);
        if table.insert(&fingerprint, page.to_u64()) == onefold_index::Inserted::Full {
            count(&self.counters.unindexed, 1);
        }
        Ok(())
    }

    /// Forgets the hints that lead to other bytes, or to none that can be read.
    fn drop_wrong(&self, bytes: &[&[u8]], hints: &mut [Option<u64>]) {
        for (bytes, hint) in bytes.iter().zip(hints) {
            let located = hint.and_then(|page| self.state().pages.locate(Handle::from_u64(page)));
            let mut found = vec![0; bytes.len()];
            let is_it =
                located.is_some_and(|located| located.read(&mut found).is_ok() && found == *bytes);
            *hint = hint.filter(|_| is_it);
        }
    }

    /// Makes holes of blocks. Who calls has their stripes.
    pub(crate) fn erase(
        &self,
        volume: VolumeId,
        blocks: impl Iterator<Item = u64>,
    ) -> Result<(), VolumeError> {
        self.expect_room(volume)?;
        let mut state = self.state();
        blocks.for_each(|block| state.map(volume, block, Handle::HOLE));
        Ok(())
    }

    /// Where the pages of `blocks` are; holes are `None`.
    pub(crate) fn locate(
        &self,
        volume: VolumeId,
        blocks: impl Iterator<Item = u64>,
    ) -> Result<Vec<Option<Located>>, VolumeError> {
        let state = self.state();
        let map = state.volumes.get(&volume).map(|one| &one.map);
        let locate = |block: u64| match map.map_or(Handle::HOLE, |map| map.get(block)) {
            page if page.is_hole() => Ok(None),
            page => match state.pages.locate(page) {
                Some(located) => Ok(Some(located)),
                None => Err(VolumeError::Damaged {
                    object: crate::pages::container_name(page.container()),
                    at: 0,
                    problem: format!("block {block} is in it, and it cannot be read"),
                }),
            },
        };
        blocks.map(locate).collect()
    }

    /// The length of the journal in bytes.
    pub(crate) fn journal_len(&self) -> u64 {
        self.journal.lock().expect("nobody panics with it").log.len()
    }

    /// Notes that the page of a block could not be read.
    pub(crate) fn note_bad(&self, volume: VolumeId, block: u64) {
        let mut state = self.state();
        let page = state.volumes.get(&volume).map_or(Handle::HOLE, |one| one.map.get(block));
        state.pages.note_bad(page);
    }

    /// Fails unless `volume` can be changed. If much waits it is written first, so that no more waits
    /// while the disk is full than one call can bring.
    fn expect_room(&self, volume: VolumeId) -> Result<(), VolumeError> {
        self.expect_running()?;
        let waiting = {
            let state = self.state();
            if !state.volumes.contains_key(&volume) {
                return Err(VolumeError::Deleted);
            }
            state.waiting.bytes
        };
        if waiting < self.options.commit_len { Ok(()) } else { self.commit() }
    }

    /// Makes durable what was done before, and removes the files of containers that are dead then.
    pub(crate) fn commit(&self) -> Result<(), VolumeError> {
        let mut journal = self.journal.lock().expect("nobody panics with it");
        self.expect_running()?;
        let (bodies, files) = {
            let mut state = self.state();
            let State { pages, waiting, .. } = &mut *state;
            if !pages.is_moving() {
                pages.doom_dead(|record| waiting.push(record));
            }
            (waiting.take(), pages.take_unsynced())
        };
        if seeded::active(Bug::RemovedBeforeDropped) {
            self.remove_doomed();
        }
        self.write(&mut journal, bodies, &files)?;
        drop(journal);
        self.remove_doomed();
        Ok(())
    }

    /// Syncs `files`, then appends `bodies` to the journal.
    pub(crate) fn write(
        &self,
        journal: &mut Journal,
        bodies: Vec<Vec<u8>>,
        files: &[Arc<PageFile>],
    ) -> Result<(), VolumeError> {
        if bodies.is_empty() {
            return Ok(());
        }
        let unsynced = seeded::active(Bug::ContainersUnsynced);
        for file in files.iter().filter(|_| !unsynced) {
            file.sync().map_err(|error| self.stop(&file.name, error))?;
        }
        let mut left = bodies.into_iter();
        while let Some(body) = left.next() {
            let Journal { log, frame, .. } = &mut *journal;
            if let Err(error) = frame::append(&mut **log, self.id, *frame, &body) {
                // Nothing was appended, so it can be tried again.
                let again = std::iter::once(body).chain(left).collect();
                self.state().waiting.put_back(again);
                return Err(error.into());
            }
            if !seeded::active(Bug::JournalUnsynced) {
                log.sync().map_err(|error| self.stop("the journal", error))?;
            }
            *frame += 1;
        }
        count(&self.counters.commits, 1);
        self.counters.journal_bytes.store(journal.log.len(), Ordering::Relaxed);
        Ok(())
    }

    /// After a sync that failed nobody knows what is durable.
    fn stop(&self, object: &str, error: BackendError) -> VolumeError {
        let _ = self.stopped.set(format!("{object} could not be synced: {error}"));
        error.into()
    }

    /// Removes the files of containers of which the journal says that they are gone.
    fn remove_doomed(&self) {
        let doomed = self.state().pages.take_doomed();
        let table = self.table();
        let mut left = Vec::new();
        for file in doomed {
            // What cannot be read stays in the table, where nobody believes it.
            if let Ok(directory) = file.directory(&self.envelope()) {
                for (slot, chunk) in (0..).zip(&directory.chunks) {
                    let page = Handle::new(file.number(), slot);
                    if table.get(&chunk.fingerprint) == Some(page.to_u64()) {
                        table.remove(&chunk.fingerprint);
                    }
                }
            }
            // What was done is durable; the file goes with a later commit, or when the pool is opened.
            if self.folder.remove(&file.name).is_err() {
                left.push(file);
            }
        }
        self.state().pages.put_back_doomed(left);
    }

    /// What container `number` holds, unless it is gone.
    pub(crate) fn directory(&self, number: u32) -> Result<Option<Directory>, VolumeError> {
        let found = self.state().pages.directory(number);
        match found {
            None => Ok(None),
            Some(Held::Open(directory)) => Ok(Some(directory)),
            Some(Held::Sealed(file)) => file.directory(&self.envelope()).map(Some),
        }
    }

    /// Enters all pages into an empty table.
    pub(crate) fn fill_table(&self, table: &dyn Table) -> Result<(), VolumeError> {
        let numbers = self.state().pages.numbers();
        for number in numbers {
            // A container that cannot be read has no pages to offer.
            let Ok(Some(directory)) = self.directory(number) else { continue };
            for (slot, chunk) in (0..).zip(&directory.chunks) {
                table.insert(&chunk.fingerprint, Handle::new(number, slot).to_u64());
            }
        }
        Ok(())
    }

    /// Moves what is left in a container of which less than half is referred to; false if there is
    /// none. It is dropped with the next commit.
    pub(crate) fn compact(&self) -> Result<bool, VolumeError> {
        let _only = self.maintenance.lock().expect("nobody panics with it");
        self.expect_running()?;
        let emptiest = {
            let mut state = self.state();
            let State { pages, waiting, .. } = &mut *state;
            pages.close_sparse(self.options.quota, |record| waiting.push(record))?;
            pages.emptiest()
        };
        let Some((number, file, slots)) = emptiest else { return Ok(false) };
        let moved = self.move_pages(number, &file, &slots);
        // also those that were moved before an error
        self.forward_maps();
        moved?;
        self.commit()?;
        Ok(true)
    }

    /// Appends the pages in `slots` of a container anew, and notes where they went. One that cannot be
    /// read stays, and with it the container.
    fn move_pages(&self, number: u32, file: &PageFile, slots: &[u32]) -> Result<(), VolumeError> {
        let directory = match file.directory(&self.envelope()) {
            Ok(directory) => directory,
            Err(error) => {
                self.state().pages.keep_for_good(number);
                return Err(error);
            }
        };
        let table = self.table();
        for &slot in slots {
            let from = Handle::new(number, slot);
            let Some(located) = self.state().pages.locate(from) else { continue };
            let Ok(stored) = located.read_stored() else {
                let mut state = self.state();
                state.pages.keep_for_good(number);
                state.pages.note_bad(from);
                continue;
            };
            let (group, chunk) =
                (&directory.groups[slot as usize], &directory.chunks[slot as usize]);
            let page = CompressedGroup::of_chunk(stored, group.codec, chunk.fingerprint, group.len);
            let mut state = self.state();
            let State { pages, waiting, .. } = &mut *state;
            let to = pages.append(page, chunk.fingerprint, |record| waiting.push(record))?;
            if let Some(record) = pages.move_page(from, to) {
                if !seeded::active(Bug::MovesUntold) {
                    waiting.push(&record);
                }
                table.insert(&chunk.fingerprint, to.to_u64());
            }
        }
        Ok(())
    }

    /// Lets every map know where pages were moved.
    fn forward_maps(&self) {
        let mut state = self.state();
        let State { pages, volumes, .. } = &mut *state;
        let forward = |page: Handle| {
            let to = pages.resolve(page);
            (to != page).then_some(to)
        };
        let mut replaced = HashMap::new();
        for volume in volumes.values_mut() {
            volume.map.forward(forward, &mut replaced);
        }
        pages.forget_forwards();
    }
}

fn is_zero(page: &[u8]) -> bool {
    page.first() == Some(&0) && page[1..] == page[..page.len() - 1]
}

thread_local! {
    /// The compressor of this thread, and its codec.
    static COMPRESSOR: std::cell::RefCell<Option<(Codec, Compressor)>> =
        const { std::cell::RefCell::new(None) };
}

fn compress(
    fingerprint: Fingerprint,
    bytes: &[u8],
    codec: Codec,
) -> Result<CompressedGroup, VolumeError> {
    if codec == Codec::Raw {
        let len = bytes.len() as u32;
        return Ok(CompressedGroup::of_chunk(bytes.to_vec(), Codec::Raw, fingerprint, len));
    }
    COMPRESSOR.with_borrow_mut(|kept| {
        let compressor = match kept {
            Some((kept_codec, compressor)) if *kept_codec == codec => compressor,
            _ => &mut kept.insert((codec, Compressor::of(codec, Suite::Plain)?)).1,
        };
        let mut group = GroupBuilder::default();
        group.push(fingerprint, bytes);
        Ok(compressor.compress(&mut group)?)
    })
}
