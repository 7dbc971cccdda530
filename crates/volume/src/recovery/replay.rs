//! What is left of a pool's past: how its records say that it is.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use onefold_block::BlockSize;
use onefold_seal::wire::WireError;

use crate::containers::entry::ContainerImage;
use crate::ids::{Handle, VolumeId};
use crate::journal::metadata::Known;
use crate::journal::record::{Record, SEGMENT, decode_all};
use crate::limits::check_size;
use crate::state::map::{Map, Segment, Uncounted};
use crate::state::pages::FIRST_CONTAINER;
use crate::state::volume::{Size, VolumeState};

/// A segment of the smallest blocks is so long, in bytes of the volume.
const MIN_SEGMENT_BYTES: u64 = BlockSize::B512.bytes() as u64 * SEGMENT as u64;

/// What a checkpoint and the batches since give, before containers are opened.
pub(crate) struct Replayed {
    pub(crate) volumes: BTreeMap<VolumeId, VolumeState>,
    pub(crate) containers: BTreeMap<u32, ContainerImage>,
    pub(crate) next_volume: u32,
    pub(crate) next_container: u32,
    /// Of all batches.
    pub(crate) bytes: u64,
    /// Of the checkpoint, by number.
    segments: Vec<Arc<Segment>>,
    /// Where pages went that no map knows of yet.
    moved: HashMap<Handle, Handle>,
}

impl Default for Replayed {
    /// A pool that nothing has happened to.
    fn default() -> Self {
        Self {
            volumes: BTreeMap::new(),
            containers: BTreeMap::new(),
            next_volume: 0,
            next_container: FIRST_CONTAINER,
            bytes: 0,
            segments: Vec::new(),
            moved: HashMap::new(),
        }
    }
}

impl Replayed {
    /// Does what is known next.
    pub(crate) fn take(&mut self, known: Known<'_>) -> Result<(), WireError> {
        match known {
            Known::Anew => *self = Self::default(),
            Known::Checkpoint(operations) => decode_all(operations, |record| self.place(record))?,
            Known::Batch(operations) => {
                decode_all(operations, |record| self.apply(record))?;
                self.bytes += operations.len() as u64;
            }
        }
        Ok(())
    }

    /// Takes up what a record of a checkpoint says.
    fn place(&mut self, record: Record) -> Result<(), WireError> {
        let refused = |expected| Err(WireError { at: 0, expected });
        match record {
            Record::Page { container, page } => {
                self.containers.entry(container).or_default().pages.push(page);
            }
            Record::Sealed { container } => {
                self.containers.entry(container).or_default().is_sealed = true;
            }
            Record::Create { volume, name, size, block_size, is_read_only, source, made } => {
                let (map, size) = (Map::default(), Size::new(size));
                let state = VolumeState { name, size, block_size, is_read_only, source, made, map };
                self.volumes.insert(volume, state);
            }
            Record::Segment { pages } => self.segments.push(Arc::new(Segment::new(&pages))),
            Record::Placed { volume, index, segment } => {
                let Some(segment) = self.segments.get(segment as usize) else {
                    return refused("a segment that came before");
                };
                let Some(one) = self.volumes.get_mut(&volume) else {
                    return refused("a volume that came before");
                };
                let is_within = u64::from(index) * MIN_SEGMENT_BYTES < one.size.get().max(1);
                if !is_within {
                    return refused("a segment within its volume");
                }
                one.map.place(index, Arc::clone(segment));
            }
            Record::Next { volume, container } => {
                (self.next_volume, self.next_container) = (volume.0, container);
            }
            Record::Dropped { .. }
            | Record::Map { .. }
            | Record::Delete { .. }
            | Record::Resize { .. }
            | Record::Moved { .. } => return refused("a record of a checkpoint"),
        }
        Ok(())
    }

    /// Does what a record of a journal says.
    fn apply(&mut self, record: Record) -> Result<(), WireError> {
        let refused = |expected| Err(WireError { at: 0, expected });
        match record {
            Record::Page { container, page } => {
                self.next_container = self.next_container.max(container.saturating_add(1));
                self.containers.entry(container).or_default().pages.push(page);
            }
            Record::Sealed { container } => match self.containers.get_mut(&container) {
                Some(image) => image.is_sealed = true,
                None => return refused("a container that came before"),
            },
            Record::Dropped { container } => {
                self.containers.remove(&container);
            }
            Record::Map { volume, block, to } => {
                let Some(one) = self.volumes.get(&volume) else {
                    return refused("a volume that is there");
                };
                if block >= one.size.get() / u64::from(one.block_size.bytes()) {
                    return refused("a block within its volume");
                }
                if self.moved.contains_key(&to) {
                    // this page is what it was moved from, which was found again since
                    self.forward();
                }
                let one = self.volumes.get_mut(&volume).expect("just found");
                one.map.set(block, to, &mut Uncounted);
            }
            Record::Create { volume, name, size, block_size, is_read_only, source, made } => {
                let map = match source {
                    None => Map::default(),
                    Some(source) => match self.volumes.get(&source) {
                        Some(source) => source.map.share(),
                        None => return refused("a source that is there"),
                    },
                };
                self.next_volume = self.next_volume.max(volume.0.saturating_add(1));
                let size = Size::new(size);
                let state = VolumeState { name, size, block_size, is_read_only, source, made, map };
                self.volumes.insert(volume, state);
            }
            Record::Delete { volume } => match self.volumes.remove(&volume) {
                Some(one) => one.map.release(&mut Uncounted),
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
                one.map.truncate(size / u64::from(one.block_size.bytes()), &mut Uncounted);
            }
            Record::Moved { from, to } => {
                self.moved.insert(from, to);
            }
            Record::Placed { .. } | Record::Segment { .. } | Record::Next { .. } => {
                return refused("a record of a journal");
            }
        }
        Ok(())
    }

    /// Lets the maps know where pages were moved, perhaps more than once.
    pub(crate) fn forward(&mut self) {
        let moved = std::mem::take(&mut self.moved);
        if moved.is_empty() {
            return;
        }
        let last = |page: Handle| {
            let mut to = *moved.get(&page)?;
            // pages move to later places only, so this ends
            while let Some(further) = moved.get(&to) {
                to = *further;
            }
            Some(to)
        };
        let mut replaced = HashMap::new();
        for volume in self.volumes.values_mut() {
            volume.map.forward(last, &mut replaced);
        }
    }
}
