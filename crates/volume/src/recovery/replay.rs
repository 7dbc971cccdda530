//! What is left of a pool's past: how its records say that it is.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::iter;
use std::sync::Arc;
use std::thread;

use onefold_backend::Folder;
use onefold_block::BlockSize;
use onefold_seal::wire::WireError;
use onefold_seal::{Envelope, ObjectId};

use crate::containers::entry::{ContainerImage, PageEntry};
use crate::containers::files::{Files, Shared};
use crate::error::VolumeError;
use crate::ids::{Handle, Version, VolumeId, Writer};
use crate::journal::metadata::Known;
use crate::journal::record::{Announced, Record, SEGMENT, StoredNode, TableRecord, decode_all};
use crate::limits::check_size;
use crate::nodes::files::NodeFiles;
use crate::nodes::format::NodeFile;
use crate::nodes::table::NodeAddress;
use crate::recovery::mend::{Mended, Mending};
use crate::state::container::{Slots, Told};
use crate::state::dying::Dying;
use crate::state::map::{Map, References, add_segment, forward};
use crate::state::nodes::{Missing, NodeId};
use crate::state::pages::{FIRST_CONTAINER, Pages};
use crate::state::paging::{PATIENCE, Paging};
use crate::state::pending::Pending;
use crate::state::volume::{Size, VolumeState};

/// A segment of the smallest blocks is so long, in bytes of the volume.
const MIN_SEGMENT_BYTES: u64 = BlockSize::B512.bytes() as u64 * SEGMENT as u64;

/// Where so many segments at most belong to no volume any more they are let go of before the pool is
/// open; more than that, afterwards.
const MOST_DYING: usize = 4096;

/// Threads that read nodes ahead, at most.
const READERS: usize = 16;
/// Nodes that each of these reads, at least.
const READ_BY_ONE: usize = 16;

/// Where a paged pool has its containers and its nodes.
#[derive(Clone)]
pub(crate) struct Places {
    pub(crate) files: Arc<Files>,
    pub(crate) paging: Arc<Paging>,
}

/// What a checkpoint and the batches since give.
///
/// Where the checkpoint tells of tables of pages, references are counted as records change them. Else
/// nobody counts before containers are opened.
pub(crate) struct Replayed {
    pub(crate) volumes: BTreeMap<VolumeId, VolumeState>,
    /// Of a checkpoint without tables all containers; else those that have no footer, or got one since.
    pub(crate) containers: BTreeMap<u32, ContainerImage>,
    pub(crate) dying: Dying,
    pub(crate) next_volume: u32,
    pub(crate) next_container: u32,
    /// Of all batches.
    pub(crate) bytes: u64,
    /// The nodes of all maps, and the tables that the checkpoint told of.
    pub(crate) pages: Pages,
    /// Whether it told of tables.
    pub(crate) is_paged: bool,
    /// Whether a record of it was taken.
    is_begun: bool,
    /// Why records could not be taken, if that is not their fault.
    pub(crate) failed: Option<VolumeError>,
    places: Option<Places>,
    /// Whether nodes can be stored, to make room for others.
    pub(crate) may_store: bool,
    /// Where what nodes knew that cannot be read is given up. Without, such a node keeps records from being
    /// taken that need it.
    pub(crate) mending: Option<Mending>,
    /// Whether all of the checkpoint was taken.
    has_begun: bool,
    /// Of the checkpoint, by number.
    segments: Vec<NodeId>,
    node_files: Vec<NodeFile>,
    /// Maps that are dying, by their numbers in the checkpoint.
    dying_maps: BTreeMap<u32, (VolumeId, Map)>,
    /// Where pages went that no map knows of yet, where nobody counts.
    moved: HashMap<Handle, Handle>,
}

impl Default for Replayed {
    /// A pool that nothing has happened to, and that has no tables.
    fn default() -> Self {
        Self::new(None)
    }
}

fn refused<T>(expected: &'static str) -> Result<T, WireError> {
    Err(WireError { at: 0, expected })
}

impl Replayed {
    /// A pool that nothing has happened to; one without `places` takes no tables.
    pub(crate) fn new(places: Option<Places>) -> Self {
        // a pool that shares containers has no checkpoint without tables
        let is_paged = places.as_ref().is_some_and(|places| places.files.sharing().is_some());
        Self {
            volumes: BTreeMap::new(),
            containers: BTreeMap::new(),
            dying: Dying::default(),
            next_volume: 0,
            next_container: FIRST_CONTAINER,
            bytes: 0,
            pages: Pages::new(),
            is_paged,
            is_begun: false,
            failed: None,
            places,
            may_store: false,
            mending: None,
            has_begun: false,
            segments: Vec::new(),
            node_files: Vec::new(),
            dying_maps: BTreeMap::new(),
            moved: HashMap::new(),
        }
    }

    /// The same, of a pool in `folder` that is only looked at: what nodes knew that cannot be read counts as
    /// given up.
    pub(crate) fn of_version(version: Version, folder: &Arc<dyn Folder>, pool: ObjectId) -> Self {
        if version == Version::Whole {
            return Self::new(None);
        }
        let nodes = NodeFiles::new(Arc::clone(folder), pool);
        let places = Places {
            files: Files::new(Arc::clone(folder), Envelope::plain(pool), 1),
            paging: Paging::new(nodes, u64::MAX, 0),
        };
        Self::looking(places)
    }

    /// The same of a pool that has its containers and nodes in `places`.
    pub(crate) fn looking(places: Places) -> Self {
        Self { mending: Some(Mending::of_looking()), ..Self::new(Some(places)) }
    }

    /// The version of the pool, as far as its records tell.
    pub(crate) fn version(&self) -> Version {
        match self.segments.is_empty() || self.is_paged {
            true => Version::Paged,
            false => Version::Whole,
        }
    }

    /// Does what is known next.
    pub(crate) fn take(&mut self, known: Known<'_>) -> Result<(), WireError> {
        match known {
            Known::Writer(writer) => {
                if let Some(places) = &self.places {
                    match places.paging.files.begin(writer) {
                        Ok(()) => self.may_store = true,
                        Err(error) => return self.fail(error),
                    }
                }
            }
            Known::Anew => {
                let may_store = self.may_store;
                let mending = self.mending.take().map(Mending::again);
                *self = Self { may_store, mending, ..Self::new(self.places.take()) };
            }
            Known::Checkpoint(operations) => decode_all(operations, |record| self.place(record))?,
            Known::Coming(batches) => {
                self.end_checkpoint()?;
                self.read_ahead(batches)?;
            }
            Known::Batch(operations) => {
                self.end_checkpoint()?;
                decode_all(operations, |record| self.apply(record))?;
                self.bytes += operations.len() as u64;
            }
        }
        Ok(())
    }

    /// All containers of which there is a file, or should be, with the pages that records tell of: of those
    /// of which a checkpoint has tables, none.
    pub(crate) fn known_containers(&self) -> BTreeMap<u32, ContainerImage> {
        let told = |number| (number, ContainerImage { is_sealed: true, pages: Vec::new() });
        let numbers = self.pages.numbers().into_iter();
        let mut all: BTreeMap<_, _> =
            numbers.filter(|number| !self.pages.is_lost(*number)).map(told).collect();
        all.extend(self.containers.iter().map(|(number, image)| (*number, image.clone())));
        all
    }

    /// All records were taken.
    pub(crate) fn end(&mut self) -> Result<(), WireError> {
        self.end_checkpoint()?;
        if !self.is_paged {
            return self.forward();
        }
        let open = self.containers.iter().filter(|(_, image)| !image.is_sealed);
        for number in open.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.paged(|replayed| replayed.pages.reopen(number))?;
            self.paged(|replayed| replayed.pages.settle(number))?;
        }
        match self.dying.segments() <= MOST_DYING {
            true => self.release_dying(),
            false => Ok(()),
        }
    }

    /// All of the checkpoint was taken.
    pub(crate) fn end_checkpoint(&mut self) -> Result<(), WireError> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Ok(());
        }
        for (volume, map) in std::mem::take(&mut self.dying_maps).into_values() {
            self.dying.add(volume, map);
        }
        let (Some(mending), Some(places)) = (&mut self.mending, &self.places) else {
            return Ok(());
        };
        let mended = mending.mend(Mended {
            volumes: &mut self.volumes,
            dying: &mut self.dying,
            pages: &mut self.pages,
            containers: &self.containers,
            files: &places.files,
            paging: &places.paging,
            may_store: self.may_store,
        });
        mended.or_else(|error| self.fail(error))
    }

    /// The first number that no container has that records tell of.
    pub(crate) fn next_container(&self) -> u32 {
        self.next_container.max(self.pages.next)
    }

    /// Refuses a container that another pool of a cluster made: a folder does not have it.
    fn refuse_foreign(&mut self, container: u32, writer: Writer, number: u64) -> WireError {
        self.failed = Some(VolumeError::OfCluster { container, writer, number });
        WireError { at: 0, expected: "a pool in a folder, without containers of a cluster" }
    }

    /// Takes up what is about to be done with a registration.
    fn announce(&mut self, container: u32, what: Announced) -> Result<(), WireError> {
        let files = self.places.clone().map(|places| places.files);
        let Some((own, files)) = files.and_then(|files| Some((files.own_shard()?, files))) else {
            let (writer, number) = match what {
                Announced::Create(writer) => (writer, container.into()),
                Announced::Register(_, name) => (name.writer, name.number),
                Announced::Drop => (Writer(0), 0),
            };
            return Err(self.refuse_foreign(container, writer, number));
        };
        if !self.pages.registrations.announce(own, container, what) {
            return refused("a registration in a container that has none, by a new number");
        }
        self.next_container = self.next_container.max(container.saturating_add(1));
        if let Some(one) = self.pages.registrations.get(container) {
            files.name_shared(container, Shared { name: one.name, is_foreign: one.is_foreign });
        }
        Ok(())
    }

    /// Takes up what became of a registration.
    fn settle_registration(
        &mut self,
        container: u32,
        is_registered: bool,
    ) -> Result<(), WireError> {
        if !self.pages.registrations.settle(container, is_registered) {
            return refused("a registration that was announced");
        }
        if !is_registered && let Some(places) = &self.places {
            places.files.forget_shared(container);
        }
        Ok(())
    }

    /// Notes an error that is none of the records'.
    fn fail<T>(&mut self, error: VolumeError) -> Result<T, WireError> {
        self.failed = Some(error);
        refused("a pool that can be read")
    }

    /// Calls `f` until it misses no node.
    fn paged<T>(
        &mut self,
        mut f: impl FnMut(&mut Self) -> Result<T, Missing>,
    ) -> Result<T, WireError> {
        for misses in 0.. {
            let Missing(node) = match f(self) {
                Ok(done) => return Ok(done),
                Err(missing) => missing,
            };
            if let Err(error) = self.bring(node, misses) {
                return self.fail(error);
            }
        }
        unreachable!("it does not end but by what it returns")
    }

    /// Brings in a node for a step that missed some so many times before.
    fn bring(&mut self, node: NodeId, misses: u32) -> Result<(), VolumeError> {
        let places = self.places.as_ref().expect("only a paged pool misses nodes");
        let nodes = &mut self.pages.nodes;
        if misses < PATIENCE {
            places.paging.fit(nodes, self.may_store)?;
        }
        let address = nodes.to_read(node).expect("what is missing is stored");
        nodes.bring(node, address, places.paging.files.read(address)?);
        Ok(())
    }

    /// Brings in segments that batches will change, as many as there is room for, several readers at once: where
    /// nodes are far away, one after another takes the more time the more there are.
    fn read_ahead(&mut self, batches: &[&[u8]]) -> Result<(), WireError> {
        let Some(Places { paging, .. }) = self.places.clone() else { return Ok(()) };
        let paging = &*paging;
        let mut missing = BTreeSet::new();
        for batch in batches {
            // a batch that is malformed is refused when it is taken
            let _ = decode_all(batch, |record| {
                if let Record::Map { volume, block, .. } = record
                    && let Some(one) = self.volumes.get(&volume)
                    && let Err(Missing(node)) = one.map.ensure_here(block, &self.pages.nodes)
                {
                    missing.insert(node);
                }
                Ok::<(), WireError>(())
            });
        }
        let nodes = &mut self.pages.nodes;
        let to_read = |node: NodeId| nodes.to_read(node).map(|address| (node, address));
        let mut wanted: Vec<_> = missing.into_iter().filter_map(to_read).collect();
        wanted.truncate(paging.most(nodes.len()) / 2);
        if wanted.is_empty() {
            return Ok(());
        }
        if let Err(error) = paging.fit(nodes, self.may_store) {
            return self.fail(error);
        }
        wanted.sort_unstable_by_key(|(_, address)| *address);
        let (first, others) =
            wanted.split_at(wanted.len().div_ceil(READERS).max(READ_BY_ONE).min(wanted.len()));
        let read: Vec<_> = thread::scope(|scope| {
            let read = |some| scope.spawn(move || paging.read(some).0);
            let others: Vec<_> = others.chunks(first.len()).map(read).collect();
            let first = paging.read(first).0;
            let others = others.into_iter().map(|one| one.join().expect("a reader does not panic"));
            iter::once(first).chain(others).collect()
        });
        for (some, read) in wanted.chunks(first.len()).zip(read) {
            // one that cannot be read, and those behind it, are met again by what needs them
            for ((node, address), content) in some.iter().zip(read) {
                nodes.bring(*node, *address, content);
            }
        }
        Ok(())
    }

    /// Where a checkpoint says that a node is stored.
    fn address(&self, node: StoredNode) -> Result<NodeAddress, WireError> {
        let (Some(places), Some(file)) = (&self.places, self.node_files.get(node.file as usize))
        else {
            return refused("a file of nodes that came before");
        };
        Ok(places.paging.files.address(*file, node.index))
    }

    /// Takes up what a record of a checkpoint says.
    fn place(&mut self, record: Record) -> Result<(), WireError> {
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        match record {
            Record::Page { container, page } => {
                self.containers.entry(container).or_default().pages.push(page);
            }
            Record::Sealed { container } if !self.is_paged => {
                self.containers.entry(container).or_default().is_sealed = true;
            }
            Record::Create { volume, name, size, block_size, is_read_only, source, made } => {
                let (map, size) = (Map::default(), Size::new(size));
                let state = VolumeState { name, size, block_size, is_read_only, source, made, map };
                self.volumes.insert(volume, state);
            }
            Record::Segment { pages } if !self.is_paged => {
                self.segments.push(add_segment(&mut self.pages.nodes, &pages));
            }
            Record::Placed { volume, index, segment } if !self.is_paged => {
                self.place_segments(volume, index, segment, 1)?;
            }
            Record::Next { volume, container } => {
                (self.next_volume, self.next_container) = (volume.0, container);
            }
            Record::Paged if is_first && self.places.is_some() => self.is_paged = true,
            Record::Foreign { container, writer, number, .. } if self.is_paged => {
                return Err(self.refuse_foreign(container, writer, number));
            }
            Record::Announce { container, what } if self.is_paged => {
                self.announce(container, what)?;
            }
            Record::Settle { container, is_registered } if self.is_paged => {
                self.settle_registration(container, is_registered)?;
            }
            record if self.is_paged => self.place_table(record)?,
            _ => return refused("a record of a checkpoint"),
        }
        Ok(())
    }

    /// The same of a record that a checkpoint has only if it tells of tables.
    fn place_table(&mut self, record: Record) -> Result<(), WireError> {
        match record {
            Record::NodeFile { writer, number } => {
                self.node_files.push(NodeFile { writer, number })
            }
            Record::Stored { node, mapped } => {
                let address = self.address(node)?;
                let segment = self.pages.nodes.add_stored(address);
                self.pages.nodes.set_mapped(segment, mapped);
                self.segments.push(segment);
            }
            Record::PlacedRun { volume, index, segment, count } => {
                self.place_segments(volume, index, segment, count)?;
            }
            Record::Dying { map, volume, index, segment, count } => {
                let Some(segments) =
                    self.segments.get(segment as usize..(segment + count) as usize)
                else {
                    return refused("segments that came before");
                };
                let new = || (volume, Map::default());
                let (_, map) = self.dying_maps.entry(map).or_insert_with(new);
                for (index, segment) in (index..).zip(segments) {
                    map.place(index, *segment, &mut self.pages.nodes);
                }
            }
            Record::Table(table) => self.place_container(*table)?,
            Record::Pending { page, times } => self.pages.add_pending(page, times),
            Record::Moved { from, to } => self.pages.note_moved(from, to),
            _ => return refused("a record of a checkpoint"),
        }
        Ok(())
    }

    fn place_segments(
        &mut self,
        volume: VolumeId,
        index: u32,
        segment: u32,
        count: u32,
    ) -> Result<(), WireError> {
        let Some(segments) = self.segments.get(segment as usize..(segment + count) as usize) else {
            return refused("a segment that came before");
        };
        let Some(one) = self.volumes.get_mut(&volume) else {
            return refused("a volume that came before");
        };
        let last = u64::from(index) + u64::from(count) - 1;
        if last * MIN_SEGMENT_BYTES >= one.size.get().max(1) {
            return refused("a segment within its volume");
        }
        for (index, segment) in (index..).zip(segments) {
            one.map.place(index, *segment, &mut self.pages.nodes);
        }
        Ok(())
    }

    fn place_container(&mut self, table: TableRecord) -> Result<(), WireError> {
        let mut nodes = |stored: &[StoredNode]| -> Result<Vec<NodeId>, WireError> {
            let mut nodes = Vec::with_capacity(stored.len());
            for node in stored {
                let address = self.address(*node)?;
                let node = self.pages.nodes.add_stored(address);
                self.pages.nodes.set_owners(node, 1);
                nodes.push(node);
            }
            Ok(nodes)
        };
        let (places, references) = (nodes(&table.places)?, nodes(&table.references)?);
        let slots = Slots { count: table.pages, places, references, pending: Pending::default() };
        let files = &self.places.as_ref().expect("it is paged").files;
        let TableRecord { begin, end, live, live_bytes, lost_references, .. } = table;
        let told = Told { begin, end, live, live_bytes, lost_references, slots };
        self.pages.add_told(files.closed(table.container, table.len), told);
        Ok(())
    }

    /// Does what a record of a journal says.
    fn apply(&mut self, record: Record) -> Result<(), WireError> {
        match record {
            Record::Page { container, page } => {
                self.next_container = self.next_container.max(container.saturating_add(1));
                if self.pages.registrations.get(container).is_some_and(|one| one.is_foreign) {
                    return self.take_foreign_page(container, &page);
                }
                if self.is_paged
                    && let Some(places) = self.places.clone()
                {
                    self.paged(|replayed| replayed.pages.reopen(container))?;
                    if let Err(error) = self.pages.replay_page(&places.files, container, &page) {
                        return self.fail(error);
                    }
                }
                self.containers.entry(container).or_default().pages.push(page);
            }
            Record::Sealed { container } => {
                let is_told = self.is_paged && self.pages.has_container(container);
                match self.containers.get_mut(&container) {
                    Some(image) => image.is_sealed = true,
                    // one that was open, without pages
                    None if is_told => {}
                    None => return refused("a container that came before"),
                }
                if self.is_paged {
                    self.pages.replay_sealed(container);
                }
            }
            Record::Dropped { container } => {
                self.containers.remove(&container);
                if self.is_paged {
                    // nothing else can have referred to its pages
                    self.release_dying()?;
                    self.pages.replay_dropped(container);
                }
            }
            Record::Map { volume, block, to } => {
                let Some(one) = self.volumes.get(&volume) else {
                    return refused("a volume that is there");
                };
                if block >= one.size.get() / u64::from(one.block_size.bytes()) {
                    return refused("a block within its volume");
                }
                if self.moved.contains_key(&to) || self.pages.moved(to).is_some() {
                    // this page is what it was moved from, which was found again since
                    self.forward()?;
                }
                self.paged(|Self { volumes, pages, .. }| {
                    volumes.get_mut(&volume).expect("just found").map.set(block, to, pages)
                })?;
            }
            Record::Create { volume, name, size, block_size, is_read_only, source, made } => {
                let map = match source {
                    None => Map::default(),
                    Some(source) => match self.volumes.get(&source) {
                        Some(source) => source.map.share(&mut self.pages.nodes),
                        None => return refused("a source that is there"),
                    },
                };
                self.next_volume = self.next_volume.max(volume.0.saturating_add(1));
                let size = Size::new(size);
                let state = VolumeState { name, size, block_size, is_read_only, source, made, map };
                self.volumes.insert(volume, state);
            }
            Record::Delete { volume } => match self.volumes.remove(&volume) {
                Some(one) => self.let_die(volume, one.map)?,
                None => return refused("a volume that is there"),
            },
            Record::Resize { volume, size } => {
                let Some(one) = self.volumes.get_mut(&volume) else {
                    return refused("a volume that is there");
                };
                if check_size(size, one.block_size).is_err() {
                    return refused("a size that a volume can have");
                }
                one.size.set(size);
                let blocks = size / u64::from(one.block_size.bytes());
                let beyond = self.paged(|Self { volumes, pages, .. }| {
                    volumes.get_mut(&volume).expect("just found").map.split_off(blocks, pages)
                })?;
                self.let_die(volume, beyond)?;
            }
            Record::Moved { from, to } => match self.is_paged {
                true => self.paged(|replayed| replayed.pages.replay_moved(from, to))?,
                false => drop(self.moved.insert(from, to)),
            },
            Record::Foreign { container, writer, number, .. } if self.places.is_some() => {
                return Err(self.refuse_foreign(container, writer, number));
            }
            Record::Announce { container, what } if self.places.is_some() => {
                self.announce(container, what)?;
                if what == Announced::Drop {
                    self.containers.remove(&container);
                    // nothing else can have referred to its pages
                    self.release_dying()?;
                    self.pages.replay_dropped(container);
                }
            }
            Record::Settle { container, is_registered } if self.places.is_some() => {
                self.settle_registration(container, is_registered)?;
                let places = self.places.clone().expect("just looked at");
                if self.pages.registrations.get(container).is_some_and(|one| one.is_foreign) {
                    self.pages.add_foreign(places.files.closed(container, 0));
                }
            }
            _ => return refused("a record of a journal"),
        }
        Ok(())
    }

    /// Takes up a page of a container that this pool did not make.
    fn take_foreign_page(&mut self, number: u32, page: &PageEntry) -> Result<(), WireError> {
        let is_taken = self.paged(|replayed| replayed.pages.takes_foreign(number))?;
        if !is_taken || !self.pages.has_container(number) || !page.is_within() {
            return refused("a page of a container in which the pool is registered");
        }
        self.pages.push_foreign(number, page);
        Ok(())
    }

    /// No volume has `map` any more. Where references are counted they are let go once the pool is open:
    /// that may take long.
    fn let_die(&mut self, volume: VolumeId, mut map: Map) -> Result<(), WireError> {
        if self.is_paged {
            if !map.is_empty() {
                self.dying.add(volume, map);
            }
            return Ok(());
        }
        while self.paged(|replayed| map.release_first(&mut replayed.pages))? {}
        Ok(())
    }

    /// Lets go of all that is dying.
    fn release_dying(&mut self) -> Result<(), WireError> {
        let first = |dying: &Dying| dying.from(0).next().map(|(number, ..)| number);
        while let Some(number) = first(&self.dying) {
            while self.paged(|Self { dying, pages, .. }| dying.release_some(number, pages))? {}
        }
        Ok(())
    }

    /// Lets the maps know where pages were moved, perhaps more than once.
    fn forward(&mut self) -> Result<(), WireError> {
        let mut moved = std::mem::take(&mut self.moved);
        moved.extend(self.pages.forwards());
        self.pages.forget_forwards();
        if moved.is_empty() {
            return Ok(());
        }
        let last = |page: Handle| {
            let mut to = *moved.get(&page)?;
            // pages move to later places only, so this ends
            while let Some(further) = moved.get(&to) {
                to = *further;
            }
            Some(to)
        };
        // a segment that several have is told several times, and nothing changes then
        let volumes = self.volumes.values().map(|one| &one.map);
        let segments: Vec<NodeId> =
            volumes.chain(self.dying.maps()).flat_map(Map::segments).map(|(_, id)| id).collect();
        for segment in segments {
            self.paged(|replayed| forward(segment, last, replayed.pages.nodes_mut()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use onefold_backend::MemoryFolder;

    use super::*;

    /// What a pool of `version` makes of a checkpoint with these records.
    fn taken(version: Version, records: &[Record]) -> (bool, Option<VolumeError>) {
        let folder: Arc<dyn Folder> = Arc::new(MemoryFolder::new());
        let mut replayed =
            Replayed::of_version(version, &folder, ObjectId::from_bytes([1; ObjectId::LEN]));
        let mut body = Vec::new();
        records.iter().for_each(|record| record.encode(&mut body));
        (replayed.take(Known::Checkpoint(&body)).is_ok(), replayed.failed)
    }

    fn is_taken(version: Version, records: &[Record]) -> bool {
        taken(version, records).0
    }

    #[test]
    fn a_checkpoint_has_the_records_of_its_kind_alone() {
        let volume = VolumeId(0);
        let create = Record::Create {
            volume,
            name: "a".into(),
            size: 4096,
            block_size: BlockSize::B4096,
            is_read_only: false,
            source: None,
            made: 0,
        };
        let whole = [
            create.clone(),
            Record::Sealed { container: 1 },
            Record::Segment { pages: vec![Handle::HOLE; SEGMENT] },
            Record::Placed { volume, index: 0, segment: 0 },
            Record::Next { volume, container: 2 },
        ];
        let paged = [
            Record::Paged,
            create.clone(),
            Record::NodeFile { writer: Writer(1), number: 1 },
            Record::Stored { node: StoredNode { file: 0, index: 0 }, mapped: 0 },
            Record::PlacedRun { volume, index: 0, segment: 0, count: 1 },
            Record::Next { volume, container: 2 },
        ];
        for version in [Version::Whole, Version::Paged] {
            assert!(is_taken(version, &whole));
            assert_eq!(is_taken(version, &paged), version == Version::Paged);
            // neither kind begins late, or takes over from the other
            assert!(!is_taken(version, &[create.clone(), Record::Paged]));
            for index in 1..4 {
                assert!(!is_taken(version, &[&paged[..], &whole[index..=index]].concat()));
                assert!(!is_taken(version, &[&whole[..], &paged[index + 1..=index + 1]].concat()));
            }
        }
        assert!(!is_taken(Version::Paged, &[Record::Paged, Record::Paged]));
    }

    #[test]
    fn a_foreign_container_in_a_checkpoint_is_refused_and_named() {
        let foreign = Record::Foreign { container: 9, writer: Writer(7), number: 5, len: 1 << 20 };
        let (is_taken, failed) = taken(Version::Paged, &[Record::Paged, foreign.clone()]);
        let is_named = |error| {
            let VolumeError::OfCluster { container, writer, number } = error else { return false };
            (container, writer, number) == (9, Writer(7), 5)
        };
        assert!(!is_taken && failed.is_some_and(is_named));
        for version in [Version::Whole, Version::Paged] {
            assert!(matches!(taken(version, std::slice::from_ref(&foreign)), (false, None)));
        }
    }
}
