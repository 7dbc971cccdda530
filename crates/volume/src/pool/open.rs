//! Making a pool, and opening it.

use std::path::Path;
use std::sync::Arc;

use onefold_backend::{BackendError, Folder, Log, Overlay};
use onefold_container::Codec;
use onefold_seal::{Envelope, ObjectId};

use crate::containers::files::Files;
use crate::engine::options::{IndexLayout, Options};
use crate::engine::parts::{Engine, Opened};
use crate::engine::shard::OwnShard;
use crate::error::VolumeError;
use crate::ids::Version;
use crate::journal::journals::Journals;
use crate::journal::metadata::{Metadata, Shard};
use crate::nodes::files::NodeFiles;
use crate::pool::head::{Hash, Head, NAME, is_unfinished, open_head, write_head};
use crate::recovery::mend::Mending;
use crate::recovery::recover::{NodePlace, recover};
use crate::sharing::Sharing;
use crate::state::paging::Paging;

/// Containers are closed within these lengths, whatever was asked for: a page begins before byte
/// 2^30, as offsets have 30 bits in memory.
const MIN_CONTAINER: u64 = 4096;
const MAX_CONTAINER: u64 = 1 << 30;

/// A pool whose batches lie in more places gets a checkpoint when it is opened: each opening that
/// changes something adds one.
const MOST_PLACES: u64 = 64;

/// Bytes of the table of fingerprints of a pool that takes no pages.
pub(crate) const SMALL_TABLE: usize = 64 << 10;

/// Volumes that share their pages, in a folder that one process has at a time.
#[derive(Clone)]
pub struct Pool(pub(crate) Arc<Engine>);

impl Pool {
    /// Makes a pool in an empty folder, whose pages are compressed by zstd. It is there, durably, when
    /// this returns. If the folder holds anything else than what is left of trying this before, it is
    /// an error, [`VolumeError::NotEmpty`].
    pub fn create(folder: &dyn Folder, hash: Hash) -> Result<(), VolumeError> {
        Self::create_with(folder, hash, Codec::Zstd)
    }

    /// The same of a pool whose pages are compressed by `codec`, unless its options say otherwise.
    pub fn create_with(folder: &dyn Folder, hash: Hash, codec: Codec) -> Result<(), VolumeError> {
        Self::create_as(folder, hash, codec, Version::Paged)
    }

    /// The same of a pool of this version.
    pub fn create_as(
        folder: &dyn Folder,
        hash: Hash,
        codec: Codec,
        version: Version,
    ) -> Result<(), VolumeError> {
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
        own.append(&Head { id, hash, codec, version }.encode())?;
        Ok(own.sync()?)
    }

    /// Makes the files of the empty pool `id`, of which something else than the folder keeps what is known:
    /// it is opened by [`open_with`](Self::open_with). It is of version 2, and compressed by zstd unless its
    /// options say otherwise.
    ///
    /// # Errors
    /// [`VolumeError::NotEmpty`] if the folder holds anything.
    pub fn create_for(folder: &dyn Folder, id: ObjectId, hash: Hash) -> Result<(), VolumeError> {
        if let Some(found) = folder.names()?.into_iter().next() {
            return Err(VolumeError::NotEmpty { found });
        }
        write_head(folder, &Head { id, hash, codec: Codec::Zstd, version: Version::Paged })
    }

    /// Opens a pool, with what every flush before a crash had acknowledged. Also returned is what is
    /// damaged: the pages in it are lost, and all others can be read. If the storage gave no answer, that is
    /// returned as well, and nothing is lost: pages of such a container are only not found again by their
    /// fingerprints.
    ///
    /// A pool that is open elsewhere is an error, [`BackendError::InUse`].
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
        let options = Options { table_bytes: SMALL_TABLE, index: IndexLayout::Chained, ..options };
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

    /// Opens a pool that is a shard of a cluster, and shares its containers with others by `sharing`. The
    /// folder has its nodes. What it lost in doing so is none of its errors: those are told by reads.
    ///
    /// # Errors
    /// As [`open_with`](Self::open_with).
    pub fn open_shared(
        folder: Arc<dyn Folder>,
        metadata: Arc<dyn Metadata>,
        sharing: Arc<dyn Sharing>,
        options: Options,
    ) -> Result<(Self, Vec<VolumeError>), VolumeError> {
        let (own, head) = open_head(&*folder)?;
        let begun = begin_with(folder, own, head, metadata, options, false, None, Some(sharing))?;
        Self::end_opening(begun, false)
    }

    fn open_as(
        folder: Arc<dyn Folder>,
        own: Box<dyn Log + Sync>,
        head: Head,
        metadata: Arc<dyn Metadata>,
        options: Options,
        is_read_only: bool,
    ) -> Result<(Self, Vec<VolumeError>), VolumeError> {
        let begun = begin(folder, own, head, metadata, options, is_read_only, None)?;
        Self::end_opening(begun, is_read_only)
    }

    fn end_opening(
        begun: Begun,
        is_read_only: bool,
    ) -> Result<(Self, Vec<VolumeError>), VolumeError> {
        let Begun { engine, mut damage, places, is_paged, .. } = begun;
        let fills_now = is_paged && !engine.options.fills_later && !is_read_only;
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
        if fills_now {
            damage.extend(engine.fill_table(|| true));
        }
        Ok((Self(Arc::new(engine)), damage))
    }

    /// Enters all pages into the table of fingerprints, until `go_on` says no, which is asked for each
    /// container. Others use the pool meanwhile. Only where the options said that it is filled later.
    /// Returns what is wrong with containers whose pages could not be entered.
    pub fn fill_index(&self, go_on: impl Fn() -> bool) -> Vec<VolumeError> {
        self.0.fill_table(go_on)
    }
}

/// A pool that was opened but for what may follow: a checkpoint, and filling the table.
pub(crate) struct Begun {
    pub(crate) engine: Engine,
    /// What is damaged.
    pub(crate) damage: Vec<VolumeError>,
    /// In how many places its batches since the checkpoint lie.
    places: u64,
    /// Whether its pages are not in the table yet.
    is_paged: bool,
    /// What was given up of nodes, if that was asked for.
    pub(crate) mending: Option<Mending>,
}

/// Finds a pool as it was left. Where its checkpoint is one of version 1 nothing is written that a pool of
/// version 1 does not have, whatever version `head` has.
///
/// Nodes that cannot be read are given up if there is a `mending`: then references have to be counted anew
/// before anything is committed.
pub(crate) fn begin(
    folder: Arc<dyn Folder>,
    own: Box<dyn Log + Sync>,
    head: Head,
    metadata: Arc<dyn Metadata>,
    options: Options,
    is_read_only: bool,
    mending: Option<Mending>,
) -> Result<Begun, VolumeError> {
    begin_with(folder, own, head, metadata, options, is_read_only, mending, None)
}

/// The same of a pool that shares containers by `sharing`, if there is one.
#[expect(clippy::too_many_arguments, reason = "each is one part of a pool")]
pub(crate) fn begin_with(
    folder: Arc<dyn Folder>,
    own: Box<dyn Log + Sync>,
    Head { id, hash, codec, version }: Head,
    metadata: Arc<dyn Metadata>,
    options: Options,
    is_read_only: bool,
    mending: Option<Mending>,
    sharing: Option<Arc<dyn Sharing>>,
) -> Result<Begun, VolumeError> {
    let container_len = options.container_len.clamp(MIN_CONTAINER, MAX_CONTAINER);
    let table = options.table()?;
    let shard = Shard::of(id);
    let sharing = sharing.map(|sharing| (sharing, id));
    let files = Files::with(Arc::clone(&folder), Envelope::plain(id), options.open_files, sharing);
    let paging = (version == Version::Paged).then(|| {
        Paging::new(
            NodeFiles::new(Arc::clone(&folder), id),
            options.node_bytes,
            options.least_nodes,
        )
    });
    let nodes = paging.clone().map(|paging| NodePlace { paging, mending });
    let found =
        recover(&folder, &*metadata, shard, Arc::clone(&files), nodes, container_len, &*table)?;
    let mending = found.mending;
    let (damage, places, is_paged) = (found.damage, found.taken.places, found.is_paged);
    let shard = OwnShard::new(metadata, shard, found.taken, found.bytes, is_read_only);
    let (fingerprinter, state, appender) = (hash.fingerprinter(), found.state, found.appender);
    let engine = Engine::new(Opened {
        folder,
        files,
        options,
        fingerprinter,
        own_codec: codec,
        table,
        state,
        paging,
        appender,
        shard,
        own,
    });
    Ok(Begun { engine, damage, places, is_paged, mending })
}
