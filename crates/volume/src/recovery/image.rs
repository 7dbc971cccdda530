//! A pool at one moment, as the records of a checkpoint.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use onefold_block::BlockSize;

use crate::containers::append::Appender;
use crate::containers::entry::ContainerImage;
use crate::error::VolumeError;
use crate::ids::VolumeId;
use crate::journal::metadata::Checkpoint;
use crate::journal::record::Record;
use crate::nodes::format::Node;
use crate::state::State;
use crate::state::map::pages;
use crate::state::nodes::NodeId;
use crate::state::volume::VolumeState;

/// Bodies of a checkpoint's frames are about as long.
const BODY: usize = 1 << 20;

/// How a pool was at one moment.
pub(crate) struct Image {
    volumes: Vec<(VolumeId, VolumeImage)>,
    containers: BTreeMap<u32, ContainerImage>,
    next_volume: u32,
    next_container: u32,
}

struct VolumeImage {
    name: String,
    size: u64,
    block_size: BlockSize,
    is_read_only: bool,
    source: Option<VolumeId>,
    made: u64,
    segments: Vec<(u32, NodeId, Arc<Node>)>,
}

impl Image {
    pub(crate) fn of(state: &State, appender: &Appender) -> Self {
        let image = |(id, one): (&VolumeId, &VolumeState)| {
            let nodes = &state.pages.nodes;
            let segments = one.map.segments();
            let all = "all nodes of a pool of version 1 are in memory";
            let segments = segments.map(|(at, one)| (at, one, nodes.share(one).expect(all)));
            let image = VolumeImage {
                name: one.name.clone(),
                size: one.size.get(),
                block_size: one.block_size,
                is_read_only: one.is_read_only,
                source: one.source,
                made: one.made,
                segments: segments.collect(),
            };
            (*id, image)
        };
        Self {
            volumes: state.volumes.iter().map(image).collect(),
            containers: state.pages.images(appender.number().zip(appender.directory())),
            next_volume: state.next_volume,
            next_container: state.pages.next,
        }
    }

    /// Gives each record of the checkpoint to `put`.
    fn records<E>(&self, mut put: impl FnMut(Record) -> Result<(), E>) -> Result<(), E> {
        for (container, image) in &self.containers {
            for page in &image.pages {
                put(Record::Page { container: *container, page: page.clone() })?;
            }
            if image.is_sealed {
                put(Record::Sealed { container: *container })?;
            }
        }
        let mut numbers = HashMap::new();
        for (volume, image) in &self.volumes {
            put(Record::Create {
                volume: *volume,
                name: image.name.clone(),
                size: image.size,
                block_size: image.block_size,
                is_read_only: image.is_read_only,
                source: image.source,
                made: image.made,
            })?;
            for (index, id, segment) in &image.segments {
                let next = numbers.len() as u32;
                let number = *numbers.entry(*id).or_insert(next);
                if number == next {
                    put(Record::Segment { pages: pages(segment).collect() })?;
                }
                put(Record::Placed { volume: *volume, index: *index, segment: number })?;
            }
        }
        let volume = VolumeId(self.next_volume);
        put(Record::Next { volume, container: self.next_container })
    }

    /// Lets `checkpoint` say so; durable when this returns.
    pub(crate) fn write(&self, checkpoint: Box<dyn Checkpoint + '_>) -> Result<(), VolumeError> {
        write_records(checkpoint, |put| self.records(put))
    }
}

/// Lets `checkpoint` say what `records` puts; durable when this returns.
pub(super) fn write_records(
    mut checkpoint: Box<dyn Checkpoint + '_>,
    records: impl FnOnce(&mut dyn FnMut(Record) -> Result<(), VolumeError>) -> Result<(), VolumeError>,
) -> Result<(), VolumeError> {
    let mut body = Vec::with_capacity(BODY);
    records(&mut |record| {
        record.encode(&mut body);
        if body.len() >= BODY {
            checkpoint.put(&body)?;
            body.clear();
        }
        Ok(())
    })?;
    if !body.is_empty() {
        checkpoint.put(&body)?;
    }
    checkpoint.finish()
}
