//! A paged pool at one moment, as the records of a checkpoint: where its nodes are stored, and not what
//! is in them.

use std::collections::{HashMap, HashSet};

use crate::containers::append::Appender;
use crate::containers::entry::{PageEntry, entries};
use crate::error::VolumeError;
use crate::ids::{Handle, VolumeId};
use crate::journal::metadata::Checkpoint;
use crate::journal::record::{Record, StoredNode, TableRecord};
use crate::nodes::format::{Node, NodeFile};
use crate::nodes::table::NodeAddress;
use crate::recovery::image::write_records;
use crate::seeded::fault;
use crate::state::State;
use crate::state::map::Map;
use crate::state::nodes::{NodeId, NodesImage, Taken};
use crate::state::paging::{Paging, STORED};
use crate::state::pending::Pending;

/// A file of nodes of which less than so large a share is needed is rewritten.
const MIN_SHARE: f64 = 0.5;

/// How a paged pool was at one moment.
pub(crate) struct PagedImage {
    volumes: Vec<(VolumeId, Record, Segments)>,
    dying: Vec<(VolumeId, Segments)>,
    registrations: Vec<Record>,
    containers: Vec<ContainerTable>,
    moved: Vec<(Handle, Handle)>,
    next_volume: u32,
    next_container: u32,
    nodes: NodesImage,
    dirty: Vec<Taken>,
    /// All segments, in the order of their numbers, and how many blocks of each are no holes.
    segments: Vec<(NodeId, u32)>,
}

type Segments = Vec<(u32, NodeId)>;

struct ContainerTable {
    told: TableRecord,
    places: Vec<NodeId>,
    references: Vec<NodeId>,
    pending: Pending,
    /// Of one without a footer.
    pages: Vec<PageEntry>,
}

/// Nodes that were stored for a checkpoint, which is not durable yet.
pub(crate) struct StoredNodes {
    dirty: Vec<(Taken, NodeAddress)>,
    copied: Vec<(NodeId, NodeAddress, NodeAddress)>,
}

impl PagedImage {
    pub(crate) fn of(state: &State, appender: &Appender) -> Self {
        let segments = |map: &Map| map.segments().collect::<Segments>();
        let open = appender.number().zip(appender.directory());
        let containers = state.pages.all.iter().map(|(number, one)| ContainerTable {
            told: TableRecord {
                container: number,
                len: one.file.own_len(),
                begin: one.begin,
                // pages of a foreign one may be there twice
                end: match one.file.is_foreign() {
                    true => one.end.max(u32::try_from(one.live_bytes).unwrap_or(u32::MAX)),
                    false => one.end,
                },
                pages: one.slots.count,
                live: one.live,
                live_bytes: one.live_bytes,
                lost_references: one.lost_references,
                places: Vec::new(),
                references: Vec::new(),
            },
            places: one.slots.places.clone(),
            references: one.slots.references.clone(),
            pending: one.slots.pending.clone(),
            pages: match open {
                Some((open, directory)) if open == number => entries(directory),
                _ => one.lost.clone(),
            },
        });
        Self {
            volumes: state
                .volumes
                .iter()
                .map(|(id, one)| (*id, one.create_record(*id, one.source), segments(&one.map)))
                .collect(),
            dying: state.dying.from(0).map(|(_, volume, map)| (volume, segments(map))).collect(),
            registrations: state.pages.registrations.records(),
            containers: containers.collect(),
            moved: state.pages.forwards().collect(),
            next_volume: state.next_volume,
            next_container: state.pages.next,
            nodes: state.pages.nodes.image(),
            dirty: state.pages.nodes.take_dirty(),
            segments: Vec::new(),
        }
    }

    /// Numbers the segments.
    fn number(&mut self) {
        let Self { volumes, dying, nodes, segments: numbered, .. } = self;
        let maps = volumes.iter().map(|(_, _, segments)| segments);
        for (_, id) in maps.chain(dying.iter().map(|(_, segments)| segments)).flatten() {
            if nodes.number(*id) {
                numbered.push((*id, nodes.mapped(*id)));
            }
        }
    }

    /// Stores the nodes that were changed, and copies those of files of which little is needed. They are not
    /// durable before their files are synced.
    pub(crate) fn store(&mut self, paging: &Paging) -> Result<StoredNodes, VolumeError> {
        self.number();
        let dirty = std::mem::take(&mut self.dirty);
        let addresses = paging.store(&dirty)?;
        for (taken, address) in dirty.iter().zip(&addresses) {
            self.nodes.put(taken.id, *address);
        }
        let copied = self.copy(paging)?;
        Ok(StoredNodes { dirty: dirty.into_iter().zip(addresses).collect(), copied })
    }

    fn copy(
        &mut self,
        paging: &Paging,
    ) -> Result<Vec<(NodeId, NodeAddress, NodeAddress)>, VolumeError> {
        let mut used: HashMap<u32, (NodeFile, u32)> = HashMap::new();
        for (_, address) in self.nodes.all() {
            let file = || (paging.files.place(address).0, 0);
            used.entry(address.file()).or_insert_with(file).1 += 1;
        }
        let mut lens: HashMap<NodeFile, u32> = paging.files.lens().into_iter().collect();
        // copies would go to the same file
        paging.files.growing_file().and_then(|growing| lens.remove(&growing));
        let is_sparse = |(file, used): &(NodeFile, u32)| {
            lens.get(file).is_some_and(|len| f64::from(*used) < MIN_SHARE * f64::from(*len))
        };
        let sparse: HashSet<u32> =
            used.iter().filter(|(_, one)| is_sparse(one)).map(|(file, _)| *file).collect();
        let mut wanted: Vec<(NodeId, NodeAddress)> =
            self.nodes.all().filter(|(_, address)| sparse.contains(&address.file())).collect();
        wanted.sort_unstable_by_key(|(_, address)| *address);
        let mut copied = Vec::with_capacity(wanted.len());
        for wanted in wanted.chunks(STORED) {
            let (read, error) = paging.read(wanted);
            if error.is_some() {
                // a node that cannot be read stays where it is, and keeps its file
                continue;
            }
            let contents: Vec<&Node> = read.iter().map(|node| &**node).collect();
            let addresses = paging.files.append(&contents)?;
            for ((id, from), to) in wanted.iter().zip(addresses) {
                self.nodes.put(*id, to);
                copied.push((*id, *from, to));
            }
        }
        Ok(copied)
    }

    /// The files of nodes that the checkpoint names.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = NodeAddress> {
        self.nodes.all().map(|(_, address)| address)
    }

    /// Lets `checkpoint` say so; durable when this returns.
    pub(crate) fn write(
        &self,
        paging: &Paging,
        checkpoint: Box<dyn Checkpoint + '_>,
    ) -> Result<(), VolumeError> {
        write_records(checkpoint, |put| self.records(paging, put))
    }

    /// Gives each record of the checkpoint to `put`.
    fn records<E>(
        &self,
        paging: &Paging,
        mut put: impl FnMut(Record) -> Result<(), E>,
    ) -> Result<(), E> {
        put(Record::Paged)?;
        self.registrations.iter().cloned().try_for_each(&mut put)?;
        let mut files = HashMap::new();
        for address in self.addresses() {
            let next = files.len() as u32;
            if *files.entry(address.file()).or_insert(next) == next {
                let (NodeFile { writer, number }, _) = paging.files.place(address);
                put(Record::NodeFile { writer, number })?;
            }
        }
        let stored = |id: &NodeId| {
            let address = self.nodes.stored(*id);
            StoredNode { file: files[&address.file()], index: paging.files.place(address).1 }
        };
        for one in &self.containers {
            let ContainerTable { told, places, references, .. } = one;
            let places = places.iter().map(stored).collect();
            let references = references.iter().map(stored).collect();
            put(Record::Table(Box::new(TableRecord { places, references, ..told.clone() })))?;
            for (slot, times) in one.pending.iter().filter(|_| !fault!(PendingUntold)) {
                put(Record::Pending { page: Handle::new(told.container, slot), times })?;
            }
            for page in &one.pages {
                put(Record::Page { container: told.container, page: page.clone() })?;
            }
        }
        for (id, mapped) in &self.segments {
            put(Record::Stored { node: stored(id), mapped: *mapped })?;
        }
        for (volume, create, segments) in &self.volumes {
            put(create.clone())?;
            for (index, segment, count) in runs(segments, &self.nodes) {
                put(Record::PlacedRun { volume: *volume, index, segment, count })?;
            }
        }
        for (map, (volume, segments)) in (0..).zip(&self.dying) {
            for (index, segment, count) in runs(segments, &self.nodes) {
                put(Record::Dying { map, volume: *volume, index, segment, count })?;
            }
        }
        for (from, to) in &self.moved {
            put(Record::Moved { from: *from, to: *to })?;
        }
        let volume = VolumeId(self.next_volume);
        put(Record::Next { volume, container: self.next_container })
    }
}

/// Neighbouring parts of a map whose segments have neighbouring numbers: the first of each, and how many
/// there are.
fn runs(segments: &Segments, nodes: &NodesImage) -> impl Iterator<Item = (u32, u32, u32)> {
    let numbered: Vec<(u32, u32)> =
        segments.iter().map(|(index, id)| (*index, nodes.number_of(*id))).collect();
    let is_next = |(index, number): &(u32, u32), (next, other): &(u32, u32)| {
        index.checked_add(1) == Some(*next) && number.checked_add(1) == Some(*other)
    };
    let runs: Vec<(u32, u32, u32)> =
        numbered.chunk_by(is_next).map(|run| (run[0].0, run[0].1, run.len() as u32)).collect();
    runs.into_iter()
}

impl StoredNodes {
    /// The checkpoint that names them is durable.
    pub(crate) fn note(&self, state: &mut State) {
        let nodes = &mut state.pages.nodes;
        for (taken, address) in &self.dirty {
            nodes.note_stored(taken, *address);
        }
        for (id, from, to) in &self.copied {
            nodes.note_copied(*id, *from, *to);
        }
    }
}
