//! Pools: making one, opening it, and its volumes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use onefold_backend::{BackendError, Folder, Log, Overlay};
use onefold_block::BlockSize;
use onefold_container::Codec;
use onefold_fingerprint::{FingerprintAlgorithm, Fingerprinter};
use onefold_index::{ChainedTable, CompactTable, Table, TableCounters};
use onefold_seal::wire::{Put, Reader, WireError};
use onefold_seal::{CHECK_LEN, Check, Envelope, ObjectId};

use crate::containers::files::{Files, is_container};
use crate::engine::parts::{Batches, Counters, Engine, Size, VolumeState};
use crate::engine::room::{Maintenance, Room};
use crate::ids::VolumeId;
use crate::journal::journals::Journals;
use crate::journal::metadata::{Metadata, Shard, Taken};
use crate::journal::record::{MAX_NAME, Record};
use crate::recovery::recover::recover;
use crate::space::compact::Compaction;
use crate::state::map::Map;
use crate::sync::claims::Claims;
use crate::sync::stripes::Stripes;
use crate::sync::turns::Turns;
use crate::{Volume, VolumeError};

/// The file that says what the folder is. Who has it open has the pool.
const NAME: &str = "pool";

/// What it begins with.
const MAGIC: &[u8; 12] = b"onefold pool";

/// Magic, version, id, hash, codec, check.
const HEAD_LEN: usize = MAGIC.len() + 4 + ObjectId::LEN + 2 + CHECK_LEN;

/// Of the format, which is frozen.
const VERSION: u32 = 1;

/// Containers are closed within these lengths, whatever was asked for: a page begins before byte
/// 2^30, as offsets have 30 bits in memory.
const MIN_CONTAINER: u64 = 4096;
const MAX_CONTAINER: u64 = 1 << 30;

/// A pool whose batches lie in more places gets a checkpoint when it is opened: each opening that
/// changes something adds one.
const MOST_PLACES: u64 = 64;

/// Bytes of the table of fingerprints of a pool that takes no pages.
const SMALL_TABLE: usize = 64 << 10;

/// No volume has more blocks: 1 PiB of 4 KiB blocks, an eighth of it with those of 512 bytes.
const MAX_BLOCKS: u64 = 1 << 38;

/// What names the pages of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hash {
    /// SHA3-256, as StreamDedup has it.
    Sha3,
    /// BLAKE3.
    Blake3,
}

impl Hash {
    pub(crate) fn fingerprinter(self) -> Fingerprinter {
        match self {
            Self::Sha3 => Fingerprinter::sha3(),
            Self::Blake3 => Fingerprinter::blake3(),
        }
    }

    fn code(self) -> u8 {
        match self {
            Self::Sha3 => FingerprintAlgorithm::Sha3.code(),
            Self::Blake3 => FingerprintAlgorithm::Blake3.code(),
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        [Self::Sha3, Self::Blake3].into_iter().find(|one| one.code() == code)
    }
}

/// How a pool works; none of it changes what is kept.
#[derive(Debug, Clone)]
pub struct Options {
    /// By which codec new pages are compressed, instead of the pool's own. Pages of all codecs can be
    /// read side by side.
    pub codec: Option<Codec>,
    /// Bytes of memory for the table of fingerprints.
    pub table_bytes: usize,
    /// Whether the table has entries of a third of the size, which hold half a fingerprint.
    pub is_compact: bool,
    /// Whether a page that seems to be known is compared with the one that is kept.
    pub verify: bool,
    /// Bytes that containers may have together. Who writes new pages beyond them is told that there is
    /// no space. Compacting may take a container more while it works.
    pub quota: Option<u64>,
    /// Length in bytes from which on a container is closed.
    pub container_len: u64,
    /// Bytes of records that may wait before they are written without a flush.
    pub commit_len: usize,
    /// Containers whose files are open at most, at least one; further ones are opened when they are
    /// read. Beside them are those with bytes that are not durable yet, as many as fill between two
    /// commits.
    pub open_files: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            codec: None,
            table_bytes: 256 << 20,
            is_compact: false,
            verify: false,
            quota: None,
            container_len: 16 << 20,
            commit_len: 1 << 20,
            open_files: 512,
        }
    }
}

impl Options {
    fn table(&self) -> Result<Arc<dyn Table>, VolumeError> {
        Ok(match self.is_compact {
            true => Arc::new(CompactTable::new(self.table_bytes)?),
            false => Arc::new(ChainedTable::new(self.table_bytes)?),
        })
    }
}

/// Volumes that share their pages, in a folder that one process has at a time.
#[derive(Clone)]
pub struct Pool(pub(crate) Arc<Engine>);

/// Between which steps something may be done.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Between {
    /// Those in which a map is let go. The first call is before all of them.
    Releases,
    /// Those in which maps are told where pages were moved. The last call is behind all of them.
    /// Whoever is called must not begin a compaction or a checkpoint.
    Forwards,
}

/// What is known of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeInfo {
    /// Its name.
    pub name: String,
    /// In bytes.
    pub size: u64,
    /// In bytes.
    pub block_size: u32,
    /// Whether it is a snapshot.
    pub is_read_only: bool,
    /// Blocks that are no holes.
    pub mapped_blocks: u64,
    /// When it was made, in seconds since 1970; 0 if the clock did not tell.
    pub made: u64,
}

/// What a pool holds, and what happened since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statistics {
    /// Volumes, snapshots among them.
    pub volumes: u64,
    /// How many of them are snapshots.
    pub snapshots: u64,
    /// Blocks that are no holes, of all volumes.
    pub mapped_blocks: u64,
    /// Their bytes.
    pub mapped_bytes: u64,
    /// Distinct pages that are referred to, also by what of a deleted volume is not let go yet.
    pub pages: u64,
    /// What they take in containers.
    pub page_bytes: u64,
    /// What containers take, with what nothing refers to any more.
    pub container_bytes: u64,
    /// How much of that compacting would give back now.
    pub reclaimable_bytes: u64,
    /// Containers that cannot be read, or of which a page is known to be lost.
    pub damaged_containers: u64,
    /// Bytes of the batches since the checkpoint, which are read when the pool is opened.
    pub journal_bytes: u64,
    /// Pages written that were known.
    pub known_pages: u64,
    /// Pages written that were new.
    pub new_pages: u64,
    /// Pages written that were zeros.
    pub zero_pages: u64,
    /// New pages that were refused because of the quota.
    pub over_quota_pages: u64,
    /// The quota in bytes, if there is one.
    pub quota: Option<u64>,
    /// New pages for which the table had no room: they are kept, and not found again.
    pub unindexed_pages: u64,
    /// Bytes of new pages, before they were compressed.
    pub new_bytes: u64,
    /// What they took in containers.
    pub new_stored_bytes: u64,
    /// Commits to the journal.
    pub commits: u64,
    /// Entries that the table has room for.
    pub table_capacity: usize,
    /// Its buckets: entries divided by them are the mean length of a chain.
    pub table_buckets: usize,
    /// What the table counted.
    pub table_counters: TableCounters,
}

impl Pool {
    /// Makes a pool in an empty folder, whose pages are compressed by zstd. It is there, durably, when
    /// this returns. If the folder holds anything else than what is left of trying this before, it is
    /// an error, [`VolumeError::NotEmpty`].
    pub fn create(folder: &dyn Folder, hash: Hash) -> Result<(), VolumeError> {
        Self::create_with(folder, hash, Codec::Zstd)
    }

    /// The same of a pool whose pages are compressed by `codec`, unless its options say otherwise.
    pub fn create_with(folder: &dyn Folder, hash: Hash, codec: Codec) -> Result<(), VolumeError> {
        let is_ours = |name: &String| *name == NAME || Journals::is_of_new(name);
        if let Some(found) = folder.names()?.into_iter().find(|name| !is_ours(name)) {
            return Err(VolumeError::NotEmpty { found });
        }
        let mut own = folder.log(NAME)?;
        if !is_unfinished(&*own)? {
            return Err(VolumeError::NotEmpty { found: NAME.to_owned() });
        }
        own.truncate(0)?;
        let id = ObjectId::random();
        Journals::create(folder, id)?;
        own.append(&Head { id, hash, codec }.encode())?;
        Ok(own.sync()?)
    }

    /// Opens a pool, with what every flush before a crash had acknowledged. Also returned is what is
    /// damaged: the pages in it are lost, and all others can be read.
    ///
    /// A pool that is open elsewhere is an error, [`BackendError::InUse`](onefold_backend::BackendError::InUse).
    pub fn open(
        folder: Arc<dyn Folder>,
        options: Options,
    ) -> Result<(Self, Vec<VolumeError>), VolumeError> {
        let (own, head) = open_head(&*folder)?;
        Self::open_here(folder, own, head, options, false)
    }

    /// Opens the pool at `root` to read it, as every flush before a crash had left it: nothing is
    /// written there. What [`open`](Self::open) would repair is repaired in memory, for as long as the
    /// pool is open, and all volumes are read-only. Others may read the pool so at the same time.
    ///
    /// Whatever would change the pool is [`VolumeError::ReadOnlyPool`].
    pub fn open_read_only(
        root: &Path,
        options: Options,
    ) -> Result<(Self, Vec<VolumeError>), VolumeError> {
        // nobody looks pages up by their fingerprints
        let options = Options { table_bytes: SMALL_TABLE, is_compact: false, ..options };
        let folder: Arc<dyn Folder> = Arc::new(Overlay::open(root)?);
        let (own, head) = open_head(&*folder)?;
        Self::open_here(folder, own, head, options, true)
    }

    /// Opens a pool of which the folder keeps what is known.
    fn open_here(
        folder: Arc<dyn Folder>,
        own: Box<dyn Log + Sync>,
        head: Head,
        options: Options,
        is_read_only: bool,
    ) -> Result<(Self, Vec<VolumeError>), VolumeError> {
        let journals = Arc::new(Journals::new(Arc::clone(&folder), head.id));
        let metadata = Arc::<Journals>::clone(&journals);
        let (pool, mut damage) = Self::open_as(folder, own, head, metadata, options, is_read_only)?;
        damage.extend(journals.warning());
        Ok((pool, damage))
    }

    /// Opens a pool of which `metadata` keeps what is known, and the folder only its pages. A pool
    /// that `metadata` knows nothing of is empty; if there are containers it is an error,
    /// [`VolumeError::NothingKnown`].
    pub fn open_with(
        folder: Arc<dyn Folder>,
        metadata: Arc<dyn Metadata>,
        options: Options,
    ) -> Result<(Self, Vec<VolumeError>), VolumeError> {
        let (own, head) = open_head(&*folder)?;
        Self::open_as(folder, own, head, metadata, options, false)
    }

    fn open_as(
        folder: Arc<dyn Folder>,
        own: Box<dyn Log + Sync>,
        Head { id, hash, codec }: Head,
        metadata: Arc<dyn Metadata>,
        options: Options,
        is_read_only: bool,
    ) -> Result<(Self, Vec<VolumeError>), VolumeError> {
        let container_len = options.container_len.clamp(MIN_CONTAINER, MAX_CONTAINER);
        let table = options.table()?;
        let shard = Shard::of(id);
        let files = Files::new(Arc::clone(&folder), Envelope::plain(id), options.open_files);
        let found = recover(&folder, &*metadata, shard, files, container_len, &*table)?;
        let Taken { writer, sequence, places } = found.taken;
        let engine = Engine {
            fingerprinter: hash.fingerprinter(),
            codec: options.codec.unwrap_or(codec),
            own_codec: codec,
            table: RwLock::new(table),
            entered: AtomicU64::new(0),
            options,
            room: Room::new(Arc::clone(&folder), container_len),
            folder,
            id,
            state: Turns::new(found.state),
            appender: Mutex::new(found.appender),
            metadata,
            shard,
            writer,
            batches: Mutex::new(Batches { next: sequence, bytes: found.bytes, durable: 0 }),
            maintenance: Maintenance::default(),
            checking: Mutex::new(()),
            blocks: Stripes::new(),
            claims: Claims::new(),
            counters: Counters::default(),
            room_made: AtomicU64::new(0),
            between: OnceLock::new(),
            is_read_only,
            stopped: OnceLock::new(),
            _own: own,
        };
        engine.counters.journal_bytes.store(found.bytes, Ordering::Relaxed);
        if places > MOST_PLACES
            && !is_read_only
            && let Err(error) = engine.checkpoint()
        {
            match error {
                // it can be opened without, and the next time it is tried again
                VolumeError::Backend(BackendError::Full { .. }) => {}
                error => return Err(error),
            }
        }
        Ok((Self(Arc::new(engine)), found.damage))
    }

    /// Whether an empty volume of this name and size, in bytes, can be made in some pool: an error says
    /// what is wrong with them.
    pub fn check_new(name: &str, size: u64, block_size: BlockSize) -> Result<(), VolumeError> {
        check_name(name)?;
        check_size(size, block_size)
    }

    /// Makes an empty volume of `size` bytes. A name that is taken is [`VolumeError::VolumeExists`];
    /// which names and sizes there are says [`check_new`](Self::check_new).
    pub fn create_volume(
        &self,
        name: &str,
        size: u64,
        block_size: BlockSize,
    ) -> Result<(), VolumeError> {
        check_size(size, block_size)?;
        self.add(name, New::Empty { size, block_size })
    }

    /// Makes a volume as `source` is now: one that can be written, or a snapshot that cannot. Costs
    /// neither space nor time to speak of. Errors are those of a new volume, and
    /// [`VolumeError::NoVolume`] if there is no `source`.
    pub fn clone_volume(
        &self,
        source: &str,
        name: &str,
        is_read_only: bool,
    ) -> Result<(), VolumeError> {
        self.add(name, New::Copy { of: source, is_read_only })
    }

    fn add(&self, name: &str, new: New<'_>) -> Result<(), VolumeError> {
        check_name(name)?;
        self.0.expect_running()?;
        // a clock before 1970 tells nothing
        let made = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        {
            let mut state = self.0.state();
            if find(&state.volumes, name).is_ok() {
                return Err(VolumeError::VolumeExists { name: name.to_owned() });
            }
            let name = name.to_owned();
            let one = match new {
                New::Empty { size, block_size } => VolumeState {
                    name,
                    size: Size::new(size),
                    block_size,
                    is_read_only: false,
                    source: None,
                    made,
                    map: Map::default(),
                },
                New::Copy { of, is_read_only } => {
                    let (source, one) = find(&state.volumes, of)?;
                    VolumeState {
                        name,
                        size: Size::new(one.size.get()),
                        block_size: one.block_size,
                        is_read_only,
                        source: Some(source),
                        made,
                        map: one.map.share(),
                    }
                }
            };
            let volume = VolumeId(state.next_volume);
            state.next_volume += 1;
            let record = one.create_record(volume, one.source);
            state.waiting.push(&record);
            state.volumes.insert(volume, one);
        }
        self.0.commit()
    }

    /// Deletes a volume. Its pages go, as far as no other volume has them; others use the pool while
    /// they do.
    ///
    /// The deletion is durable before they go. After an error of the disk a volume that is not there any
    /// more is gone for good, or goes with the next commit.
    pub fn delete_volume(&self, name: &str) -> Result<(), VolumeError> {
        self.0.expect_running()?;
        let deleted = {
            let mut state = self.0.state();
            let (volume, _) = find(&state.volumes, name)?;
            let one = state.volumes.remove(&volume).expect("just found");
            one.size.set(0);
            state.let_die(volume, one.map, vec![Record::Delete { volume }])
        };
        self.0.settle(deleted)
    }

    /// Calls the volume `name` by `to` from now on. Who uses it goes on. It no longer tells as which
    /// volume it was made. Errors are those of a new volume, and [`VolumeError::NoVolume`].
    pub fn rename_volume(&self, name: &str, to: &str) -> Result<(), VolumeError> {
        check_name(to)?;
        self.0.expect_running()?;
        {
            let mut state = self.0.state();
            let (volume, _) = find(&state.volumes, name)?;
            if find(&state.volumes, to).is_ok() {
                return Err(VolumeError::VolumeExists { name: to.to_owned() });
            }
            // No record changes a name. So another volume takes the map over while this one is made
            // anew under the same number, by which its copies know it.
            let other = VolumeId(state.next_volume);
            state.next_volume += 1;
            let one = state.volumes.get_mut(&volume).expect("just found");
            one.name = to.to_owned();
            let handed_over = one.create_record(other, Some(volume));
            one.source = Some(other);
            let taken_back = one.create_record(volume, one.source);
            state.waiting.push_together(&[
                handed_over,
                Record::Delete { volume },
                taken_back,
                Record::Delete { volume: other },
            ]);
        }
        self.0.commit()
    }

    /// Lets the volume `name` be as `snapshot` is, in content and size; what was written to it since is
    /// lost. It was made as `snapshot` then. Whoever uses it opens it again: to what was opened before
    /// it is as a deleted volume, so that no write that was under way lands in what the snapshot had.
    ///
    /// Durable when this returns; after a crash meanwhile the volume is as before, or as the
    /// snapshot.
    ///
    /// # Errors
    ///
    /// [`VolumeError::NoVolume`], [`VolumeError::NotASnapshot`] unless `snapshot` is one,
    /// [`VolumeError::ReadOnly`] if `name` is one as well, and [`VolumeError::OtherBlocks`] if their
    /// blocks have other sizes.
    pub fn roll_back_volume(&self, name: &str, snapshot: &str) -> Result<(), VolumeError> {
        self.0.expect_running()?;
        let id = find(&self.0.state().volumes, name)?.0;
        let replaced = {
            // nobody writes meanwhile
            let _blocks = self.0.blocks.lock(id, [], std::iter::once(0..u64::MAX));
            let mut state = self.0.state();
            // it may have been deleted before it was locked
            let (volume, one) = find(&state.volumes, name)?;
            let (source, of) = find(&state.volumes, snapshot)?;
            if !of.is_read_only {
                return Err(VolumeError::NotASnapshot { name: snapshot.to_owned() });
            }
            one.expect_like(of.block_size)?;
            let (size, map) = (of.size.get(), of.map.share());
            let one = state.volumes.get_mut(&volume).expect("just found");
            // those who have the former size change nothing any more
            std::mem::replace(&mut one.size, Size::new(size)).set(0);
            one.source = Some(source);
            let before = std::mem::replace(&mut one.map, map);
            let made_anew = one.create_record(volume, one.source);
            state.let_die(volume, before, vec![Record::Delete { volume }, made_anew])
        };
        self.0.settle(replaced)
    }

    /// The volume `name` as a block device, or [`VolumeError::NoVolume`].
    pub fn volume(&self, name: &str) -> Result<Volume, VolumeError> {
        let state = self.0.state();
        let (id, one) = find(&state.volumes, name)?;
        let (size, block_size, is_read_only) = (one.size.clone(), one.block_size, one.is_read_only);
        drop(state);
        let is_read_only = is_read_only || self.0.is_read_only;
        Ok(Volume::new(Arc::clone(&self.0), id, size, block_size, is_read_only))
    }

    /// The volumes, by name.
    pub fn volumes(&self) -> Vec<VolumeInfo> {
        let state = self.0.state();
        let mut all: Vec<VolumeInfo> = state.volumes.values().map(info).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Why the pool takes no more changes, if it does not.
    pub fn stopped(&self) -> Option<&str> {
        self.0.stopped.get().map(String::as_str)
    }

    /// Makes durable whatever was done before.
    pub fn flush(&self) -> Result<(), VolumeError> {
        self.0.flush()
    }

    /// What names the pages.
    pub fn hash(&self) -> Hash {
        match self.0.fingerprinter.algorithm() {
            FingerprintAlgorithm::Sha3 => Hash::Sha3,
            _ => Hash::Blake3,
        }
    }

    /// By which codec new pages are compressed if no option says otherwise.
    pub fn own_codec(&self) -> Codec {
        self.0.own_codec
    }

    /// Lets a test do something between steps, with the first `call` that this gets.
    #[doc(hidden)]
    pub fn between_steps(&self, call: impl Fn(&Pool, Between) + Send + Sync + 'static) {
        let _ = self.0.between.set(Box::new(call));
    }

    /// Notes durably how far changes were acknowledged, so that the next opening finds out if they were
    /// lost since. Closing a pool does so too.
    ///
    /// # Errors
    /// Whatever kept it from being noted. No volume is affected, and a later call may succeed.
    pub fn note_acknowledged(&self) -> Result<(), VolumeError> {
        self.0.metadata.note_acknowledged(self.0.shard)
    }

    /// Shortens what has to be read when the pool is opened again.
    pub fn checkpoint(&self) -> Result<(), VolumeError> {
        self.0.checkpoint()
    }

    /// Gives back the space of one container of which less than half is used; false if there is
    /// none that can be emptied. After an error with one of them the next call takes another.
    pub fn compact(&self) -> Result<bool, VolumeError> {
        match self.0.compact()? {
            Compaction::Done => Ok(true),
            Compaction::Left(error) => Err(error),
            Compaction::Nothing => Ok(false),
        }
    }

    /// Empties the table of fingerprints, and fills it again if that is wanted. Nothing is lost but
    /// that pages are kept twice while it is not full.
    pub fn drop_table(&self, refill: bool) -> Result<(), VolumeError> {
        self.use_table(self.0.options.table()?, refill);
        Ok(())
    }

    /// Goes on with `table`, which gets all pages first if it is to be filled. What it leads to is
    /// believed as far as it fits: for tables that were filled before, and for measuring.
    pub fn use_table(&self, table: Arc<dyn Table>, fill: bool) {
        *self.0.table.write().expect("nobody panics with it") = Arc::clone(&table);
        if fill {
            self.0.fill_table(&*table);
        }
    }

    /// Has the system give the table of fingerprints all of its memory now: else the first writes wait
    /// for it, each for a part. A hint, for who is going to write much.
    pub fn populate_table(&self) {
        self.0.table().populate();
    }

    /// Lets no write wait for room any more, as before a shutdown: one that has none is refused at once.
    pub fn let_no_write_wait(&self) {
        self.0.let_no_write_wait();
    }

    /// Pages that were refused because of the quota, since the pool was opened.
    pub fn over_quota_pages(&self) -> u64 {
        self.0.counters.over_quota.load(Ordering::Relaxed)
    }

    /// How many of `sample` chains of the table of fingerprints have 0, 1, 2 and so on entries; `None`
    /// if it has no chains.
    pub fn chain_lengths(&self, sample: usize) -> Option<Vec<u64>> {
        self.0.table().chain_lengths(sample)
    }

    /// Entries of the table of fingerprints, by a pass over all of it.
    pub fn table_entries(&self) -> usize {
        self.0.table().count()
    }

    /// Sums and counters. Takes a moment for each volume and each container, however much is in them.
    pub fn statistics(&self) -> Statistics {
        let (volumes, sums, damaged_containers) = {
            let state = self.0.state();
            let volumes: Vec<VolumeInfo> = state.volumes.values().map(info).collect();
            (volumes, state.pages.sums(), state.pages.damaged())
        };
        let counters = &self.0.counters;
        let table = self.0.table();
        Statistics {
            mapped_blocks: volumes.iter().map(|one| one.mapped_blocks).sum(),
            mapped_bytes: volumes
                .iter()
                .map(|one| one.mapped_blocks * u64::from(one.block_size))
                .sum(),
            volumes: volumes.len() as u64,
            snapshots: volumes.iter().filter(|one| one.is_read_only).count() as u64,
            pages: sums.pages,
            page_bytes: sums.page_bytes,
            container_bytes: sums.container_bytes,
            reclaimable_bytes: sums.reclaimable_bytes,
            damaged_containers,
            journal_bytes: counters.journal_bytes.load(Ordering::Relaxed),
            known_pages: counters.known.load(Ordering::Relaxed),
            new_pages: counters.new.load(Ordering::Relaxed),
            over_quota_pages: counters.over_quota.load(Ordering::Relaxed),
            quota: self.0.options.quota,
            zero_pages: counters.zero.load(Ordering::Relaxed),
            unindexed_pages: counters.unindexed.load(Ordering::Relaxed),
            new_bytes: counters.new_bytes.load(Ordering::Relaxed),
            new_stored_bytes: counters.new_stored_bytes.load(Ordering::Relaxed),
            commits: counters.commits.load(Ordering::Relaxed),
            table_capacity: table.capacity(),
            table_buckets: table.bucket_count(),
            table_counters: table.counters(),
        }
    }
}

impl VolumeState {
    /// The record by which a volume `volume` like this one comes into being, with the map of
    /// `source`.
    fn create_record(&self, volume: VolumeId, source: Option<VolumeId>) -> Record {
        Record::Create {
            volume,
            name: self.name.clone(),
            size: self.size.get(),
            block_size: self.block_size,
            is_read_only: self.is_read_only,
            source,
            made: self.made,
        }
    }

    /// Fails unless it can be written and has blocks of this size.
    fn expect_like(&self, block_size: BlockSize) -> Result<(), VolumeError> {
        if self.is_read_only {
            return Err(VolumeError::ReadOnly { name: self.name.clone() });
        }
        if self.block_size != block_size {
            let (found, expected) = (block_size.bytes(), self.block_size.bytes());
            return Err(VolumeError::OtherBlocks { found, expected });
        }
        Ok(())
    }
}

/// What a volume is when it is made.
enum New<'a> {
    /// Holes alone; a size in bytes.
    Empty { size: u64, block_size: BlockSize },
    /// What another one is at that moment.
    Copy { of: &'a str, is_read_only: bool },
}

pub(crate) fn info(one: &VolumeState) -> VolumeInfo {
    VolumeInfo {
        name: one.name.clone(),
        size: one.size.get(),
        block_size: one.block_size.bytes(),
        is_read_only: one.is_read_only,
        mapped_blocks: one.map.mapped(),
        made: one.made,
    }
}

pub(crate) fn find<'a>(
    volumes: &'a BTreeMap<VolumeId, VolumeState>,
    name: &str,
) -> Result<(VolumeId, &'a VolumeState), VolumeError> {
    let found = volumes.iter().find(|(_, one)| one.name == name);
    let (id, one) = found.ok_or_else(|| VolumeError::NoVolume { name: name.to_owned() })?;
    Ok((*id, one))
}

pub(crate) fn check_name(name: &str) -> Result<(), VolumeError> {
    let refused = |expected| Err(VolumeError::BadName { name: name.to_owned(), expected });
    if name.is_empty() || name.len() > MAX_NAME {
        return refused("1 to 255 bytes");
    }
    if name.chars().any(char::is_control) {
        return refused("no control characters");
    }
    Ok(())
}

pub(crate) fn check_size(size: u64, block_size: BlockSize) -> Result<(), VolumeError> {
    let bytes = u64::from(block_size.bytes());
    let most = MAX_BLOCKS * bytes;
    if size == 0 || !size.is_multiple_of(bytes) || size > most {
        let expected = format!("a multiple of {bytes}, from {bytes} to {most}");
        return Err(VolumeError::BadSize { size, expected });
    }
    Ok(())
}

/// Whether a pool was never made here, or making it was cut short: then its check is not there.
fn is_unfinished(own: &dyn Log) -> Result<bool, VolumeError> {
    if own.len() > HEAD_LEN as u64 {
        return Ok(false);
    }
    match read_head(own) {
        // also of a later version, or with a code that is not known here
        Ok(_) | Err(VolumeError::NewerVersion { .. }) => Ok(false),
        Err(VolumeError::Malformed { .. }) => Ok(own.len() < HEAD_LEN as u64),
        Err(VolumeError::NoPool | VolumeError::Damaged { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

/// The pool's own log, which is whose the pool is, and what it says.
pub(crate) fn open_head(folder: &dyn Folder) -> Result<(Box<dyn Log + Sync>, Head), VolumeError> {
    let names = folder.names()?;
    let none = || match names.iter().find(|name| is_of_used(name)) {
        Some(found) => VolumeError::HeadMissing { found: found.clone() },
        None => VolumeError::NoPool,
    };
    if !names.iter().any(|name| name == NAME) {
        return Err(none());
    }
    let own = folder.log(NAME)?;
    match read_head(&*own) {
        Ok(head) => Ok((own, head)),
        Err(VolumeError::NoPool) => Err(none()),
        Err(error) => Err(error),
    }
}

/// Whether `name` is one that a pool has once it was opened, and not before.
fn is_of_used(name: &str) -> bool {
    is_container(name) || Journals::is_of_writer(name)
}

/// Makes the pool's own log anew, in a folder whose log is lost or damaged.
pub(crate) fn write_head(folder: &dyn Folder, head: &Head) -> Result<(), VolumeError> {
    let mut own = folder.log(NAME)?;
    own.truncate(0)?;
    own.append(&head.encode())?;
    Ok(own.sync()?)
}

/// Whether `error` says that the pool's own log is lost or damaged.
pub(crate) fn is_head_lost(error: &VolumeError) -> bool {
    match error {
        VolumeError::HeadMissing { .. } => true,
        VolumeError::Damaged { object, .. } | VolumeError::Malformed { object, .. } => {
            object == NAME
        }
        _ => false,
    }
}

/// What a pool's own log says.
pub(crate) struct Head {
    pub(crate) id: ObjectId,
    pub(crate) hash: Hash,
    pub(crate) codec: Codec,
}

impl Head {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.put_u32(VERSION);
        bytes.extend_from_slice(self.id.as_bytes());
        bytes.put_u8(self.hash.code());
        bytes.put_u8(self.codec.code());
        let check = Check::of(&[&bytes]);
        bytes.extend_from_slice(check.as_bytes());
        bytes
    }
}

fn read_head(own: &dyn Log) -> Result<Head, VolumeError> {
    let mut bytes = vec![0; own.len().min(HEAD_LEN as u64) as usize];
    own.read(0, &mut bytes)?;
    if bytes.get(..MAGIC.len()) != Some(MAGIC) {
        return Err(VolumeError::NoPool);
    }
    // A damaged version is not taken for a later one; in a head of another length nobody knows where
    // the check is.
    if own.len() == HEAD_LEN as u64 {
        verify_head(&bytes)?;
    }
    let malformed = |source| VolumeError::Malformed { object: NAME.to_owned(), source };
    let mut reader = Reader::new(&bytes);
    reader.take(MAGIC.len(), "the magic").map_err(malformed)?;
    let version = reader.u32("a version").map_err(malformed)?;
    if version > VERSION {
        return Err(VolumeError::NewerVersion { found: version, newest: VERSION });
    }
    let fields = |reader: &mut Reader<'_>| -> Result<(ObjectId, u8, u8), WireError> {
        let id = ObjectId::from_bytes(reader.array("an id")?);
        let (hash, codec) = (reader.u8("a hash")?, reader.u8("a codec")?);
        reader.take(CHECK_LEN, "a check")?;
        Ok((id, hash, codec))
    };
    let (id, hash, codec) = fields(&mut reader).map_err(malformed)?;
    verify_head(&bytes)?;
    let hash =
        Hash::from_code(hash).ok_or(reader.error("SHA3-256 or BLAKE3")).map_err(malformed)?;
    let codec = Codec::from_code(codec).ok_or(reader.error("a codec")).map_err(malformed)?;
    Ok(Head { id, hash, codec })
}

/// Fails unless the check at the end of `bytes` fits those before.
fn verify_head(bytes: &[u8]) -> Result<(), VolumeError> {
    let is_whole = bytes
        .split_last_chunk()
        .is_some_and(|(covered, check)| Check::from_bytes(*check).verify(&[covered]).is_ok());
    if is_whole {
        return Ok(());
    }
    let problem = "its check does not fit its bytes".into();
    Err(VolumeError::Damaged { object: NAME.to_owned(), at: 0, problem })
}
