//! Checkpoints: all of a pool but its pages, so that the journals before can go.
//!
//! Checkpoint n says how the pool was when journal n was empty. It is written while journal n
//! already takes records, so nobody waits for it; until it is whole, checkpoint n − 1 and both
//! journals are what counts.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use onefold_backend::{Folder, Log};
use onefold_block::BlockSize;
use onefold_seal::ObjectId;
use onefold_seal::wire::WireError;

use crate::append::Appender;
use crate::engine::{Engine, Journal, State, VolumeState};
use crate::handle::VolumeId;
use crate::map::{Map, Segment};
use crate::pages::ContainerImage;
use crate::record::{Record, SEGMENT, decode_all};
use crate::seeded::{self, Bug};
use crate::{VolumeError, frame};

/// A segment of the smallest blocks is so long, in bytes of the volume.
const MIN_SEGMENT_BYTES: u64 = 512 * SEGMENT as u64;

/// Bodies of a checkpoint's frames are about as long.
const BODY: usize = 1 << 20;

pub(crate) fn checkpoint_name(number: u64) -> String {
    format!("checkpoint-{number:016x}")
}

pub(crate) fn journal_name(number: u64) -> String {
    format!("journal-{number:016x}")
}

/// The number in a name with this prefix.
pub(crate) fn number_in(name: &str, prefix: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix)?;
    let number = u64::from_str_radix(digits, 16).ok()?;
    (format!("{prefix}{number:016x}") == name).then_some(number)
}

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
    segments: Vec<(u32, Arc<Segment>)>,
}

impl Image {
    fn of(state: &State, appender: &Appender) -> Self {
        let image = |(id, one): (&VolumeId, &VolumeState)| {
            let segments = one.map.segments().map(|(at, segment)| (at, Arc::clone(segment)));
            let image = VolumeImage {
                name: one.name.clone(),
                size: one.size,
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

    /// Gives each record of the checkpoint, whose journal begins with frame `frame`, to `put`.
    fn records<E>(
        &self,
        frame: u64,
        mut put: impl FnMut(Record) -> Result<(), E>,
    ) -> Result<(), E> {
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
            for (index, segment) in &image.segments {
                let next = numbers.len() as u32;
                let number = *numbers.entry(segment.identity()).or_insert(next);
                if number == next {
                    put(Record::Segment { pages: segment.pages().to_vec() })?;
                }
                put(Record::Placed { volume: *volume, index: *index, segment: number })?;
            }
        }
        let volume = VolumeId(self.next_volume);
        put(Record::End { volume, container: self.next_container, frame })
    }

    /// Writes it as checkpoint `number`; durable when this returns.
    fn write(
        &self,
        folder: &dyn Folder,
        pool: ObjectId,
        number: u64,
        first_frame: u64,
    ) -> Result<(), VolumeError> {
        let mut log = folder.log(&checkpoint_name(number))?;
        log.truncate(0)?;
        let (mut body, mut frames) = (Vec::with_capacity(BODY), 0);
        self.records(first_frame, |record| {
            record.encode(&mut body);
            if body.len() >= BODY {
                frame::append(&mut *log, pool, frames, &body)?;
                frames += 1;
                body.clear();
            }
            Ok::<_, VolumeError>(())
        })?;
        frame::append(&mut *log, pool, frames, &body)?;
        if !seeded::active(Bug::CheckpointUnsynced) {
            log.sync()?;
        }
        Ok(())
    }
}

/// What a checkpoint and the journals behind it give, before containers are opened.
pub(crate) struct Replayed {
    pub(crate) volumes: BTreeMap<VolumeId, VolumeState>,
    pub(crate) containers: BTreeMap<u32, ContainerImage>,
    pub(crate) next_volume: u32,
    pub(crate) next_container: u32,
    /// The number of the next frame.
    pub(crate) frame: u64,
}

/// Reads checkpoint `number`; `None` if it was never finished.
pub(crate) fn read(
    folder: &dyn Folder,
    pool: ObjectId,
    number: u64,
) -> Result<Option<Replayed>, VolumeError> {
    let name = checkpoint_name(number);
    let log = folder.log(&name)?;
    let mut reading = Reading::default();
    frame::read(&*log, &name, pool, 0, |body| {
        decode_all(body, |record| reading.take(record))
            .map_err(|source| VolumeError::Malformed { object: name.clone(), source })
    })?;
    Ok(reading.end.map(|(volume, container, frame)| Replayed {
        volumes: reading.volumes,
        containers: reading.containers,
        next_volume: volume.0,
        next_container: container,
        frame,
    }))
}

#[derive(Default)]
struct Reading {
    volumes: BTreeMap<VolumeId, VolumeState>,
    containers: BTreeMap<u32, ContainerImage>,
    segments: Vec<Arc<Segment>>,
    end: Option<(VolumeId, u32, u64)>,
}

impl Reading {
    fn take(&mut self, record: Record) -> Result<(), WireError> {
        let refused = |expected| Err(WireError { at: 0, expected });
        match record {
            Record::Page { container, page } => {
                self.containers.entry(container).or_default().pages.push(page);
            }
            Record::Sealed { container } => {
                self.containers.entry(container).or_default().is_sealed = true;
            }
            Record::Create { volume, name, size, block_size, is_read_only, source, made } => {
                let map = Map::default();
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
                let is_within = u64::from(index) * MIN_SEGMENT_BYTES < one.size.max(1);
                if !is_within {
                    return refused("a segment within its volume");
                }
                one.map.place(index, Arc::clone(segment));
            }
            Record::End { volume, container, frame } => {
                self.end = Some((volume, container, frame));
            }
            Record::Dropped { .. }
            | Record::Map { .. }
            | Record::Delete { .. }
            | Record::Resize { .. }
            | Record::Moved { .. } => return refused("a record of a checkpoint"),
        }
        Ok(())
    }
}

impl Engine {
    /// Writes a checkpoint and begins a new journal; the old ones go.
    pub(crate) fn checkpoint(&self) -> Result<(), VolumeError> {
        let _only = self.maintenance.lock().expect("nobody panics with it");
        let (image, number, frame) = {
            let mut journal = self.journal.lock().expect("nobody panics with it");
            self.expect_running()?;
            let number = journal.number + 1;
            let mut next = self.folder.log(&journal_name(number))?;
            next.truncate(0)?;
            // The image is how the pool is when all that waits is in the old journal.
            let (image, bodies, files) = {
                let appender = self.appender();
                let mut state = self.state();
                let mut bodies = state.waiting.take();
                if seeded::active(Bug::WaitingLost) {
                    bodies.clear();
                }
                (Image::of(&state, &appender), bodies, state.pages.take_unsynced())
            };
            self.write(&mut journal, bodies, &files)?;
            let frame = journal.frame;
            *journal = Journal { log: next, number, frame };
            self.counters.journal_bytes.store(0, Ordering::Relaxed);
            (image, number, frame)
        };
        if let Err(error) = image.write(&*self.folder, self.id, number, frame) {
            // It would take room for nothing; what is there without it is enough.
            let _ = self.folder.remove(&checkpoint_name(number));
            return Err(error);
        }
        for name in self.folder.names()? {
            let is_older = |prefix| number_in(&name, prefix).is_some_and(|one| one < number);
            if is_older("checkpoint-") || is_older("journal-") {
                self.folder.remove(&name)?;
            }
        }
        Ok(())
    }
}
