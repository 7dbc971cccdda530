//! A pool at work: volumes, pages, table and journal together.
//!
//! **Order.** A page is appended to a container; a record of it, and one of the block that has it,
//! wait in memory. A commit syncs the containers, then hands the waiting records over as batches
//! ([metadata](crate::journal::metadata)), which are durable then. So no batch tells of a page that is not
//! durable, and what a flush acknowledged is in one. A file goes only after a batch says so.
//!
//! **Locks**, in the order in which they are taken: maintenance (checkpoints and compactions, one
//! at a time) or checking, stripes of blocks, [claims](crate::sync::claims), batches, appender, state. Bytes are fingerprinted, compressed and
//! read without the last three; the state's is never held while a file is read, written or synced. What
//! takes long under it is done in steps, between which others have it ([turns](crate::sync::turns)).
//!
//! **Batches.** Each thread takes its pages through all stages itself, many at a time: fingerprint
//! them in the lanes of vectors while memory is asked for what looking up the ones before, and mapping
//! them, will read ([look_up](crate::engine::look_up)), change maps and references, and append what is new in
//! one write.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock};

use onefold_backend::{BackendError, Folder, Log};
use onefold_block::BlockSize;
use onefold_container::{Codec, Directory};
use onefold_fingerprint::{Fingerprint, Fingerprinter};
use onefold_index::Table;
use onefold_seal::{Envelope, ObjectId};

use crate::containers::append::Appender;
use crate::containers::files::{PageFile, container_name};
use crate::containers::located::{Located, Wanted, read_all};
use crate::containers::new_pages::{NewPage, NewPages, Packer};
use crate::engine::look_up::LookedUp;
use crate::engine::room::{Maintenance, Purpose, Room};
use crate::error::told;
use crate::ids::{Handle, VolumeId};
use crate::journal::metadata::{MAX_BATCH, Metadata, Shard, Writer};
use crate::journal::record::Record;
use crate::pool::open::Between;
use crate::seeded::{self, Bug};
use crate::space::dying::Dying;
use crate::state::map::Map;
use crate::state::pages::{FIRST_CONTAINER, Pages};
use crate::sync::claims::Claims;
use crate::sync::stripes::Stripes;
use crate::sync::turns::Turns;
use crate::{Options, Pool, VolumeError};

/// How many bytes a volume has, for those who may not wait for the state; who has that changes it.
#[derive(Clone)]
pub(crate) struct Size(Arc<AtomicU64>);

impl Size {
    pub(crate) fn new(bytes: u64) -> Self {
        Self(Arc::new(AtomicU64::new(bytes)))
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Release);
    }
}

/// A volume, as the pool knows it.
pub(crate) struct VolumeState {
    pub(crate) name: String,
    pub(crate) size: Size,
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
    pub(crate) dying: Dying,
    pub(crate) pages: Pages,
    pub(crate) waiting: Waiting,
}

/// Records that are not known to be durable yet, in the bodies of batches.
#[derive(Default)]
pub(crate) struct Waiting {
    /// Those that were handed over and not acknowledged, and others behind them. They are handed over
    /// again as they are: the first may be there, and of what is added to it nothing would be.
    unacknowledged: Vec<Vec<u8>>,
    bodies: Vec<Vec<u8>>,
    /// Of all of them.
    bytes: usize,
    /// How often records came since the pool was opened.
    came: u64,
}

impl Waiting {
    pub(crate) fn push(&mut self, record: &Record) {
        self.push_together(std::slice::from_ref(record));
    }

    /// Adds few records that are durable together or not at all: they are in one batch.
    pub(crate) fn push_together(&mut self, records: &[Record]) {
        if self.bodies.last().is_none_or(|body| body.len() > MAX_BATCH / 2) {
            self.bodies.push(Vec::new());
        }
        let body = self.bodies.last_mut().expect("there is one now");
        let before = body.len();
        records.iter().for_each(|record| record.encode(body));
        self.bytes += body.len() - before;
        self.came += 1;
    }

    /// Puts back what was not acknowledged, before what came since.
    fn put_back(&mut self, mut bodies: Vec<Vec<u8>>) {
        self.bytes += bodies.iter().map(Vec::len).sum::<usize>();
        if seeded::active(Bug::RetryGrown) {
            bodies.append(&mut self.bodies);
            self.bodies = bodies;
            return;
        }
        self.unacknowledged = bodies;
    }

    pub(crate) fn take(&mut self) -> Vec<Vec<u8>> {
        self.bytes = 0;
        let mut bodies = std::mem::take(&mut self.unacknowledged);
        bodies.append(&mut self.bodies);
        bodies
    }
}

impl State {
    /// The page that a hint leads to, if it is there.
    fn found(&self, hint: Option<u64>) -> Option<Handle> {
        let page = self.pages.resolve(Handle::from_u64(hint?));
        self.pages.has(page).then_some(page)
    }

    /// Maps all of `blocks`, as [`map`](Self::map) does; how many they are.
    fn map_all(
        &mut self,
        volume: VolumeId,
        blocks: impl Iterator<Item = u64>,
        to: Handle,
    ) -> usize {
        let mut count = 0;
        for block in blocks {
            self.map(volume, block, to);
            count += 1;
        }
        count
    }

    /// Maps a block, and notes it. A block that is beyond the end by now is as if it had been written
    /// before the volume became shorter.
    pub(crate) fn map(&mut self, volume: VolumeId, block: u64, to: Handle) {
        let Some(one) = self.volumes.get_mut(&volume) else { return };
        if block >= one.size.get() / u64::from(one.block_size.bytes()) {
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

/// What commits take turns for.
pub(crate) struct Batches {
    /// The number of the next batch.
    pub(crate) next: u64,
    /// Of those since a checkpoint was begun.
    pub(crate) bytes: u64,
    /// How often records had come when the last commit took them that is durable.
    pub(crate) durable: u64,
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
    /// Writes and commits that the quota or the disk had no room for.
    pub(crate) refused: AtomicU64,
    /// Of the batches since the checkpoint: the one number here that also falls.
    pub(crate) journal_bytes: AtomicU64,
}

/// So many times as many records as begin a commit may wait while one is on its way.
const MOST_WAITING: usize = 4;

/// New pages, in bytes before and after compression.
#[derive(Default)]
struct Added {
    pages: usize,
    bytes: usize,
    stored_bytes: usize,
}

impl Added {
    fn count<T>(&mut self, page: &NewPage<T>) {
        self.pages += 1;
        self.bytes += page.len as usize;
        self.stored_bytes += page.stored_len as usize;
    }
}

fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}

/// So many pages take longer to compress than to wait for somebody who does.
const WORTH_WAITING: usize = 16;

/// A block, and the bytes that it is to have.
pub(crate) type Page<'a> = (u64, &'a [u8]);

/// A page of a write that the table does not know.
struct Unknown<'a> {
    block: u64,
    bytes: &'a [u8],
    fingerprint: Fingerprint,
    /// Another one that is the same page.
    same: Option<usize>,
}

/// The pages that are the same as the one at `first`, and that one.
fn all_same<'a>(pages: &'a [Unknown<'a>], first: usize) -> impl Iterator<Item = &'a Unknown<'a>> {
    std::iter::successors(Some(&pages[first]), |page| Some(&pages[page.same?]))
}

/// What a test does between steps, without anybody's locks but maintenance while pages are moved.
pub(crate) type Hook = dyn Fn(&Pool, Between) + Send + Sync;

pub(crate) struct Engine {
    pub(crate) folder: Arc<dyn Folder>,
    pub(crate) id: ObjectId,
    pub(crate) options: Options,
    pub(crate) fingerprinter: Fingerprinter,
    /// By which new pages are compressed, and by which they are if no option says otherwise.
    pub(crate) codec: Codec,
    pub(crate) own_codec: Codec,
    pub(crate) table: RwLock<Arc<dyn Table>>,
    /// How often pages were entered into the table. Whoever has the appender and finds it as it was
    /// before a look-up would find nothing new by another one.
    pub(crate) entered: AtomicU64,
    pub(crate) state: Turns<State>,
    pub(crate) appender: Mutex<Appender>,
    pub(crate) metadata: Arc<dyn Metadata>,
    pub(crate) shard: Shard,
    pub(crate) writer: Writer,
    pub(crate) batches: Mutex<Batches>,
    pub(crate) maintenance: Maintenance,
    pub(crate) room: Room,
    /// One check at a time: what it has the pool note is for it alone.
    pub(crate) checking: Mutex<()>,
    pub(crate) blocks: Stripes,
    pub(crate) claims: Claims,
    pub(crate) counters: Counters,
    /// How many writes had been refused for want of room when it was last made.
    pub(crate) room_made: AtomicU64,
    /// What a test does between steps.
    pub(crate) between: OnceLock<Box<Hook>>,
    /// Whether nothing may be changed, from the beginning on.
    pub(crate) is_read_only: bool,
    /// Why nothing more is taken.
    pub(crate) stopped: OnceLock<String>,
    /// The pool's own log, which nobody else can have meanwhile.
    pub(crate) _own: Box<dyn Log + Sync>,
}

impl Engine {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(crate) fn appender(&self) -> MutexGuard<'_, Appender> {
        self.appender.lock().expect("nobody panics with it")
    }

    pub(crate) fn table(&self) -> Arc<dyn Table> {
        Arc::clone(&self.table.read().expect("nobody panics with it"))
    }

    /// What containers of this pool are sealed with.
    pub(crate) fn envelope(&self) -> Envelope {
        Envelope::plain(self.id)
    }

    /// Where a test may do something between steps.
    pub(crate) fn between(self: &Arc<Self>, steps: Between) {
        if let Some(hook) = self.between.get() {
            hook(&Pool(Arc::clone(self)), steps);
        }
    }

    /// Fails unless the pool may be changed.
    pub(crate) fn expect_running(&self) -> Result<(), VolumeError> {
        if self.is_read_only {
            return Err(VolumeError::ReadOnlyPool);
        }
        match self.stopped.get() {
            None => Ok(()),
            Some(why) => Err(VolumeError::Stopped { why: why.clone() }),
        }
    }

    /// Maps blocks of `volume` to pages with these bytes. Who calls has the stripes of the blocks.
    ///
    /// After an error some are mapped, and the others are as before.
    pub(crate) fn put(&self, volume: VolumeId, pages: &[Page<'_>]) -> Result<(), VolumeError> {
        self.expect_room(volume)?;
        let (zeros, pages): (Vec<Page<'_>>, Vec<Page<'_>>) =
            pages.iter().copied().partition(|(_, page)| is_zero(page));
        let bytes: Vec<&[u8]> = pages.iter().map(|(_, page)| *page).collect();
        let table = self.table();
        let entered = self.entered.load(Ordering::Acquire);
        let LookedUp { fingerprints, mut hints } = self.look_up(volume, &pages, &*table);
        if self.options.verify {
            self.drop_wrong(&bytes, &mut hints);
        }
        let mut new = Vec::new();
        {
            let mut state = self.state();
            for (block, _) in &zeros {
                state.map(volume, *block, Handle::HOLE);
            }
            for ((&(block, bytes), fingerprint), hint) in pages.iter().zip(fingerprints).zip(hints)
            {
                match state.found(hint) {
                    Some(page) => state.map(volume, block, page),
                    None => new.push(Unknown { block, bytes, fingerprint, same: None }),
                }
            }
        }
        count(&self.counters.zero, zeros.len());
        count(&self.counters.known, pages.len() - new.len());
        if new.is_empty() { Ok(()) } else { self.put_new(volume, new, &*table, entered) }
    }

    /// Maps blocks to pages that the table did not know when so many times pages had been entered.
    fn put_new(
        &self,
        volume: VolumeId,
        mut pages: Vec<Unknown<'_>>,
        table: &dyn Table,
        entered: u64,
    ) -> Result<(), VolumeError> {
        if self.state().pages.next == FIRST_CONTAINER {
            // a pool that has containers is one of which something is known
            self.commit()?;
        }
        let distinct = self.distinct(&mut pages);
        let mut claimed = self.claims.begin();
        let is_ours = |first: &usize| claimed.claim(&pages[*first].fingerprint);
        // what is to be verified is not taken for what others have
        let (ours, theirs) = match self.options.verify || distinct.len() < WORTH_WAITING {
            true => (Vec::new(), Vec::new()),
            false => distinct.iter().copied().partition(is_ours),
        };
        if theirs.len() < WORTH_WAITING {
            return self.put_distinct(volume, &pages, &distinct, table, entered);
        }
        self.put_distinct(volume, &pages, &ours, table, entered)?;
        drop(claimed);
        self.claims.wait(theirs.iter().map(|first| &pages[*first].fingerprint));
        self.put_theirs(volume, &pages, theirs, table)
    }

    /// Maps blocks to pages that another thread was about to append, and appends what it did not.
    fn put_theirs(
        &self,
        volume: VolumeId,
        pages: &[Unknown<'_>],
        mut theirs: Vec<usize>,
        table: &dyn Table,
    ) -> Result<(), VolumeError> {
        let entered = self.entered.load(Ordering::Acquire);
        let fingerprints: Vec<_> = theirs.iter().map(|first| pages[*first].fingerprint).collect();
        let mut hints = vec![None; fingerprints.len()];
        table.get_many(&fingerprints, &mut hints);
        let (mut hints, mut known) = (hints.into_iter(), 0);
        {
            let mut state = self.state();
            theirs.retain(|first| {
                let Some(page) = state.found(hints.next().flatten()) else { return true };
                let blocks = all_same(pages, *first).map(|page| page.block);
                known += state.map_all(volume, blocks, page);
                false
            });
        }
        count(&self.counters.known, known);
        self.put_distinct(volume, pages, &theirs, table, entered)
    }

    /// Maps blocks to the pages at `distinct` and those that are the same, as [`put_new`] does.
    ///
    /// [`put_new`]: Self::put_new
    fn put_distinct(
        &self,
        volume: VolumeId,
        pages: &[Unknown<'_>],
        distinct: &[usize],
        table: &dyn Table,
        entered: u64,
    ) -> Result<(), VolumeError> {
        if distinct.is_empty() {
            return Ok(());
        }
        let mut packer = Packer::new(distinct.len());
        for &first in distinct {
            let Unknown { bytes, fingerprint, .. } = pages[first];
            packer.push(fingerprint, bytes, self.codec, first)?;
        }
        let mut new = packer.finish();
        let blocks = |first: usize| all_same(pages, first).map(|page| page.block);
        let (mut known, mut added) = (0, Added::default());
        let mut appender = self.appender();
        if !self.options.verify && self.entered.load(Ordering::Acquire) != entered {
            // Another thread may have brought the same meanwhile; from here on none does.
            let fingerprints: Vec<_> = new.all().pages.iter().map(|one| one.fingerprint).collect();
            let mut hints = vec![None; fingerprints.len()];
            table.get_many(&fingerprints, &mut hints);
            let mut hints = hints.into_iter();
            let mut state = self.state();
            new.retain(|one| {
                let Some(page) = state.found(hints.next().flatten()) else { return true };
                known += state.map_all(volume, blocks(one.of), page);
                false
            });
        }
        let write = Purpose::Write;
        let appended = self.append(&mut appender, &new, write, table, |state, page, one| {
            known += state.map_all(volume, blocks(one.of), page) - 1;
            added.count(one);
        });
        if seeded::active(Bug::RefusedErased) && matches!(appended, Err(VolumeError::Quota { .. }))
        {
            let refused = new.all().pages[added.pages..].iter().flat_map(|one| blocks(one.of));
            self.state().map_all(volume, refused, Handle::HOLE);
        }
        count(&self.counters.known, known);
        count(&self.counters.new, added.pages);
        count(&self.counters.new_bytes, added.bytes);
        count(&self.counters.new_stored_bytes, added.stored_bytes);
        appended.map_err(|error| self.note_refused(error))
    }

    /// Counts an error that says that there is no room.
    fn note_refused(&self, error: VolumeError) -> VolumeError {
        if error.is_full() {
            count(&self.counters.refused, 1);
        }
        error
    }

    /// Counts a page that the quota has no room for, whatever was given back.
    pub(crate) fn note_over_quota(&self) {
        count(&self.counters.over_quota, 1);
    }

    /// How many were refused for want of room.
    pub(crate) fn refused(&self) -> u64 {
        self.counters.refused.load(Ordering::Relaxed)
    }

    /// Notes that all the room was made that there was when so many had been refused.
    pub(crate) fn note_room_made(&self, refused: u64) {
        self.room_made.fetch_max(refused, Ordering::Relaxed);
    }

    /// Whether somebody was refused for want of room, and none was made since.
    pub(crate) fn wants_room(&self) -> bool {
        self.refused() > self.room_made.load(Ordering::Relaxed)
    }

    /// Joins pages that came several times at once; the first of each.
    fn distinct(&self, pages: &mut [Unknown<'_>]) -> Vec<usize> {
        let mut distinct = Vec::with_capacity(pages.len());
        // by fingerprint, or as near to there as a place is free
        let mut places = vec![None::<usize>; (2 * pages.len()).next_power_of_two()];
        // what is to be verified is compared with what it is taken for
        let is_same = |one: &Unknown<'_>, other: &Unknown<'_>| {
            one.fingerprint == other.fingerprint
                && (!self.options.verify || one.bytes == other.bytes)
        };
        for at in 0..pages.len() {
            let mut place = pages[at].fingerprint.prefix_u64() as usize % places.len();
            while let Some(first) = places[place]
                && !is_same(&pages[first], &pages[at])
            {
                place = (place + 1) % places.len();
            }
            match places[place] {
                Some(first) => pages[at].same = pages[first].same.replace(at),
                None => {
                    places[place] = Some(at);
                    distinct.push(at);
                }
            }
        }
        distinct
    }

    /// Appends pages to containers, as far as there is room for `purpose`, and enters them into the
    /// table. `settle` refers to each, whose place it gets, before anyone else has the state.
    ///
    /// After an error that has been done for some, from the first on.
    pub(crate) fn append<T>(
        &self,
        appender: &mut Appender,
        new: &NewPages<T>,
        purpose: Purpose,
        table: &dyn Table,
        mut settle: impl FnMut(&mut State, Handle, &NewPage<T>),
    ) -> Result<(), VolumeError> {
        let quota = self.options.quota.filter(|_| purpose == Purpose::Write);
        let mut rest = new.all();
        let mut entered = Vec::with_capacity(rest.pages.len());
        while let Some(next) = rest.pages.first() {
            self.expect_reserve(purpose)?;
            self.expect_quota(appender, next.stored_len as usize, quota)?;
            self.expect_current()?;
            let mut append = || {
                let number = self.open_container(appender)?;
                let room = quota.map_or(u64::MAX, |quota| self.state().pages.room(quota));
                Ok::<_, VolumeError>((number, appender.append(&rest, room)?))
            };
            let (number, appended) = match purpose {
                Purpose::Write => append()?,
                Purpose::Move => self.with_reserve(append)?,
            };
            entered.clear();
            {
                let mut state = self.state();
                for (entry, one) in appended.into_iter().zip(rest.pages) {
                    let page = state.pages.push(number, &entry);
                    entered.push((entry.fingerprint, page.to_u64()));
                    state.waiting.push(&Record::Page { container: number, page: entry });
                    settle(&mut state, page, one);
                }
            }
            rest.skip(entered.len());
            count(&self.counters.unindexed, table.insert_many(&entered));
            self.entered.fetch_add(1, Ordering::Release);
        }
        Ok(())
    }

    /// The number of the open container, of a new one if there is none or it is full.
    fn open_container(&self, appender: &mut Appender) -> Result<u32, VolumeError> {
        if appender.is_full() {
            self.seal(appender)?;
        }
        if let Some(number) = appender.number() {
            return Ok(number);
        }
        let number = self.state().pages.next;
        let (file, len) = appender.begin(number)?;
        self.state().pages.begin(file, len);
        self.look_at_room();
        Ok(number)
    }

    /// Gives the open container its footer.
    pub(crate) fn seal(&self, appender: &mut Appender) -> Result<(), VolumeError> {
        let (container, len) = appender.seal()?;
        let mut state = self.state();
        state.pages.seal(container, len);
        state.waiting.push(&Record::Sealed { container });
        Ok(())
    }

    /// Fails if a page of so many stored bytes is too much for the quota.
    fn expect_quota(
        &self,
        appender: &Appender,
        stored_len: usize,
        quota: Option<u64>,
    ) -> Result<(), VolumeError> {
        let Some(quota) = quota else { return Ok(()) };
        let bytes = self.state().pages.bytes();
        if appender.needed(stored_len) <= quota.saturating_sub(bytes) {
            return Ok(());
        }
        Err(VolumeError::Quota { bytes, quota })
    }

    /// Forgets the hints that lead to other bytes, or to none that can be read.
    fn drop_wrong(&self, pages: &[&[u8]], hints: &mut [Option<u64>]) {
        let mut found: Vec<Vec<u8>> = pages.iter().map(|page| vec![0; page.len()]).collect();
        let located: Vec<Option<Located>> = {
            let state = self.state();
            let page = |hint: u64| state.pages.locate(Handle::from_u64(hint));
            hints.iter().map(|hint| page((*hint)?)).collect()
        };
        let each = located.iter().enumerate().zip(&mut found);
        let wanted = each.filter_map(|((at, located), into)| {
            Some(Wanted { at, located: located.as_ref()?, into })
        });
        let failed = read_all(wanted.collect());
        for (hint, located) in hints.iter_mut().zip(&located) {
            *hint = hint.filter(|_| located.is_some());
        }
        for (at, _) in failed {
            hints[at] = None;
        }
        for ((hint, found), page) in hints.iter_mut().zip(&found).zip(pages) {
            *hint = hint.filter(|_| found == page);
        }
    }

    /// Makes holes of blocks; others wait meanwhile. Who calls has their stripes, and asked for room
    /// before it took them.
    pub(crate) fn erase(&self, volume: VolumeId, blocks: Range<u64>) {
        let mut state = self.state();
        blocks.for_each(|block| state.map(volume, block, Handle::HOLE));
        drop(state);
        self.state.let_others();
    }

    /// How many blocks from the first of `blocks` on are holes alike, or are none alike; and whether
    /// they are holes.
    pub(crate) fn alike(
        &self,
        volume: VolumeId,
        blocks: Range<u64>,
    ) -> Result<(u64, bool), VolumeError> {
        let state = self.state();
        // one that is gone would be all holes
        Ok(state.volumes.get(&volume).ok_or(VolumeError::Deleted)?.map.alike(blocks))
    }

    /// Where the pages of `blocks` are; holes are `None`.
    pub(crate) fn locate(
        &self,
        volume: VolumeId,
        blocks: impl Iterator<Item = u64>,
    ) -> Result<Vec<Option<Located>>, VolumeError> {
        let state = self.state();
        // one that is gone would be all holes
        let map = &state.volumes.get(&volume).ok_or(VolumeError::Deleted)?.map;
        let locate = |block: u64| match map.get(block) {
            page if page.is_hole() => Ok(None),
            page => match state.pages.locate(page) {
                Some(located) => Ok(Some(located)),
                None => Err(VolumeError::Damaged {
                    object: container_name(page.container()),
                    at: 0,
                    problem: format!("block {block} is in it, and it cannot be read"),
                }),
            },
        };
        blocks.map(locate).collect()
    }

    /// Bytes of the batches since a checkpoint was begun.
    pub(crate) fn batches_len(&self) -> u64 {
        self.batches.lock().expect("nobody panics with it").bytes
    }

    /// Fails if another process has the pool by now, whose pages must not be written over.
    pub(crate) fn expect_current(&self) -> Result<(), VolumeError> {
        self.metadata.expect_current(self.shard, self.writer).map_err(|error| self.noted(error))
    }

    /// Fails unless `volume` can be changed. If much waits it is written first; if somebody does that
    /// already, nobody else waits for the disk until several times as much is waiting. So what waits is
    /// bounded, also while the disk is full.
    pub(crate) fn expect_room(&self, volume: VolumeId) -> Result<(), VolumeError> {
        self.expect_running()?;
        let waiting = {
            let state = self.state();
            if !state.volumes.contains_key(&volume) {
                return Err(VolumeError::Deleted);
            }
            state.waiting.bytes
        };
        if waiting < self.options.commit_len {
            return Ok(());
        }
        match self.batches.try_lock() {
            Ok(batches) => {
                let mut held = Some(batches);
                self.with_reserve(|| self.commit_to(held.take().unwrap_or_else(|| self.batches())))
            }
            Err(_) if waiting < MOST_WAITING * self.options.commit_len => Ok(()),
            Err(_) => self.commit(),
        }
    }

    /// Makes durable what was done before. A thread that has to wait for a commit of another thread is
    /// done if that commit had all of it.
    pub(crate) fn flush(&self) -> Result<(), VolumeError> {
        let came = self.state().waiting.came;
        let batches = self.batches.try_lock().or_else(|_| {
            let batches = self.batches();
            if batches.durable >= came { Err(()) } else { Ok(batches) }
        });
        let Ok(batches) = batches else { return self.expect_running() };
        let mut held = Some(batches);
        self.with_reserve(|| self.commit_to(held.take().unwrap_or_else(|| self.batches())))
    }

    /// Makes durable what was done before, and removes the files of containers that are dead then. On a
    /// full disk it takes the reserve: what is erased or deleted gives room back by a commit.
    pub(crate) fn commit(&self) -> Result<(), VolumeError> {
        self.with_reserve(|| self.commit_to(self.batches()))
    }

    fn batches(&self) -> MutexGuard<'_, Batches> {
        self.batches.lock().expect("nobody panics with it")
    }

    fn commit_to(&self, mut batches: MutexGuard<'_, Batches>) -> Result<(), VolumeError> {
        self.expect_running()?;
        let (bodies, came, files) = {
            let mut state = self.state();
            let State { pages, waiting, .. } = &mut *state;
            if !pages.is_moving() {
                pages.doom_dead(|record| waiting.push(record));
            }
            (waiting.take(), waiting.came, pages.take_unsynced())
        };
        if seeded::active(Bug::RemovedBeforeDropped) {
            let doomed = self.state().pages.take_doomed();
            self.remove_files(doomed);
        }
        self.write(&mut batches, bodies, &files).map_err(|error| self.note_refused(error))?;
        batches.durable = came;
        // before the next commit dooms others, of which no batch says so yet
        let doomed = self.state().pages.take_doomed();
        drop(batches);
        self.remove_files(doomed);
        Ok(())
    }

    /// Syncs `files`, then adds `bodies` as batches.
    pub(crate) fn write(
        &self,
        batches: &mut Batches,
        bodies: Vec<Vec<u8>>,
        files: &[Arc<PageFile>],
    ) -> Result<(), VolumeError> {
        if bodies.is_empty() {
            return Ok(());
        }
        let unsynced = seeded::active(Bug::ContainersUnsynced);
        for file in files.iter().filter(|_| !unsynced) {
            // asked before: a footer that comes meanwhile may not be durable yet
            let is_complete = file.is_complete();
            file.sync().map_err(|error| self.stop(&file.name, error))?;
            if is_complete {
                file.let_close();
            }
        }
        let mut left = bodies.into_iter();
        while let Some(body) = left.next() {
            let (shard, writer) = (self.shard, self.writer);
            if let Err(error) = self.metadata.apply_batch(shard, writer, batches.next, &body) {
                let again = std::iter::once(body).chain(left).collect();
                self.state().waiting.put_back(again);
                return Err(self.noted(error));
            }
            batches.next += 1;
            batches.bytes += body.len() as u64;
            count(&self.counters.journal_bytes, body.len());
        }
        count(&self.counters.commits, 1);
        Ok(())
    }

    /// After a sync that failed nobody knows what is durable.
    fn stop(&self, object: &str, error: BackendError) -> VolumeError {
        let _ = self.stopped.set(format!("{object} could not be synced: {}", told(&error)));
        error.into()
    }

    /// Takes no more changes after an error that is for good.
    pub(crate) fn noted(&self, error: VolumeError) -> VolumeError {
        let why = match &error {
            VolumeError::Stopped { why } => why.clone(),
            VolumeError::Superseded { .. } => error.to_string(),
            _ => return error,
        };
        let _ = self.stopped.set(why);
        error
    }

    /// Removes the files of containers of which the journal says that they are gone.
    fn remove_files(&self, doomed: Vec<Arc<PageFile>>) {
        if doomed.is_empty() {
            return;
        }
        let table = self.table();
        let mut left = Vec::new();
        for file in doomed {
            // Who found a page in it before goes on to read it, though its name is gone.
            if file.keep_open().is_err_and(|error| !error.is_not_found()) {
                left.push(file);
                continue;
            }
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
            match self.folder.remove(&file.name) {
                Ok(()) => self.note_room(),
                Err(_) => {
                    file.let_close();
                    left.push(file);
                }
            }
        }
        self.state().pages.put_back_doomed(left);
    }

    /// What container `number` holds, unless it is gone.
    pub(crate) fn directory(&self, number: u32) -> Result<Option<Directory>, VolumeError> {
        {
            let appender = self.appender();
            if appender.number() == Some(number) {
                return Ok(appender.directory().cloned());
            }
        }
        let file = self.state().pages.file(number);
        file.map(|file| file.directory(&self.envelope())).transpose()
    }

    /// Enters all pages into an empty table. Of a page that is kept twice the one that is referred to:
    /// the other one may go with its container any time.
    pub(crate) fn fill_table(&self, table: &dyn Table) {
        let numbers = self.state().pages.numbers();
        for number in numbers {
            // A container that cannot be read has no pages to offer.
            let Ok(Some(directory)) = self.directory(number) else { continue };
            let references: Vec<u32> = match self.state().pages.references(number) {
                Some(references) => references.collect(),
                None => continue,
            };
            for ((slot, chunk), references) in (0..).zip(&directory.chunks).zip(references) {
                if references > 0 || table.get(&chunk.fingerprint).is_none() {
                    table.insert(&chunk.fingerprint, Handle::new(number, slot).to_u64());
                }
            }
        }
        self.entered.fetch_add(1, Ordering::Release);
    }
}

fn is_zero(page: &[u8]) -> bool {
    page.first() == Some(&0) && page[1..] == page[..page.len() - 1]
}
