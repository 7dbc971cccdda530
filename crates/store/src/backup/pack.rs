//! From new chunks to durable containers.

use std::sync::Mutex;

use crossbeam_channel::{Receiver, Sender};
use onefold_backend::Objects;
use onefold_container::{
    CompressedGroup, Compressor, Content, Directory, GroupBuilder, OpenContainer, SealedContainer,
    container_name,
};
use onefold_fingerprint::Fingerprint;
use onefold_index::{Index, MAX_RUN_ENTRIES, Run};
use onefold_seal::{Envelope, ObjectId};

use crate::place::Containers;
use crate::repository::places;
use crate::seeded::{self, Bug};
use crate::{Place, Progress, StoreError};

/// A container is sealed once it has this many chunks, however small: whoever reads one of them
/// holds the whole footer in memory.
pub(crate) const CONTAINER_CHUNKS: usize = 1 << 16;

/// A group is compressed once it has this many bytes: enough for small chunks to share a window,
/// few enough that reading one of them back is cheap.
pub(crate) const GROUP_LEN: usize = 512 << 10;

/// Takes new chunks from all threads and fills groups with them, and containers with those, for
/// data and for metadata apart; full containers go to the [`Uploader`].
///
/// The threads share a group, so that chunks that were read one after the other are compressed
/// together. Whoever fills it compresses it, while the others fill the next.
pub(super) struct Packer {
    envelope: Envelope,
    container_len: usize,
    data: Packing,
    metadata: Packing,
    full: Sender<SealedContainer>,
}

/// What is filled with chunks of one content.
struct Packing {
    content: Content,
    group: Mutex<GroupBuilder>,
    container: Mutex<OpenContainer>,
}

/// With what a thread compresses the groups that it fills.
pub(super) struct Press {
    compressor: Compressor,
    /// Empty; takes the place of a group that is full.
    group: GroupBuilder,
}

impl Press {
    pub(super) fn new(compressor: Compressor) -> Self {
        Self { compressor, group: GroupBuilder::default() }
    }
}

impl Packer {
    /// A packer whose containers are sealed once they have `container_len` bytes.
    pub(super) fn new(
        envelope: Envelope,
        container_len: usize,
        full: Sender<SealedContainer>,
    ) -> Self {
        let packing = |content| Packing {
            content,
            group: Mutex::default(),
            container: Mutex::new(open_container(&envelope, content, container_len)),
        };
        let (data, metadata) = (packing(Content::Data), packing(Content::Metadata));
        Self { data, metadata, envelope, container_len, full }
    }

    /// Appends a chunk; a group that it fills is compressed by `press`.
    pub(super) fn push(
        &self,
        content: Content,
        fingerprint: Fingerprint,
        chunk: &[u8],
        press: &mut Press,
    ) -> Result<(), StoreError> {
        let packing = match content {
            Content::Data => &self.data,
            Content::Metadata => &self.metadata,
        };
        loop {
            let mut group = packing.group.lock().expect("no thread panics with a group locked");
            // A long chunk gets a group of its own, so that no group is much longer than it must be.
            let has_room = group.is_empty() || group.len() + chunk.len() <= 2 * GROUP_LEN;
            if has_room {
                group.push(fingerprint, chunk);
                if group.len() < GROUP_LEN {
                    return Ok(());
                }
            }
            std::mem::swap(&mut *group, &mut press.group);
            drop(group);
            self.append(packing, press.compressor.compress(&mut press.group)?)?;
            if has_room {
                return Ok(());
            }
        }
    }

    /// Appends a group. While the uploader is behind, whoever fills a container waits with it, and
    /// the others wait for whoever waits: so there is never more than one being put, one waiting,
    /// and one of the other content.
    fn append(&self, packing: &Packing, group: CompressedGroup) -> Result<(), StoreError> {
        let mut open = packing.container.lock().expect("no thread panics with a container locked");
        open.push(group);
        if open.len() < self.container_len && open.chunks() < CONTAINER_CHUNKS {
            return Ok(());
        }
        let next = open_container(&self.envelope, packing.content, self.container_len);
        send(&self.full, std::mem::replace(&mut *open, next))
    }

    /// Compresses what is left in the groups, and sends the containers to the uploader.
    pub(super) fn finish(self, mut press: Press) -> Result<(), StoreError> {
        for Packing { group, container, .. } in [self.data, self.metadata] {
            let mut group = group.into_inner().expect("no thread panics with a group locked");
            let mut last =
                container.into_inner().expect("no thread panics with a container locked");
            if !group.is_empty() {
                last.push(press.compressor.compress(&mut group)?);
            }
            if !last.is_empty() && !seeded::active(Bug::LastContainerForgotten) {
                send(&self.full, last)?;
            }
        }
        Ok(())
    }
}

/// Room for what comes after the length is reached: the last group and the footer.
const BEYOND: usize = 2 << 20;

pub(crate) fn open_container(envelope: &Envelope, content: Content, len: usize) -> OpenContainer {
    OpenContainer::new(envelope, content, len + BEYOND)
}

fn send(full: &Sender<SealedContainer>, open: OpenContainer) -> Result<(), StoreError> {
    full.send(open.seal()).map_err(|_| StoreError::Stopped)
}

/// Puts sealed containers and remembers what they hold.
pub(super) struct Uploader<'a> {
    pub(super) objects: &'a dyn Objects,
    pub(super) index: &'a Index<Place>,
    pub(super) containers: &'a Containers,
    pub(super) progress: &'a Progress,
}

/// What one backup added: the content of its index runs.
#[derive(Default)]
pub(crate) struct Added {
    covers: Vec<ObjectId>,
    entries: Vec<(Fingerprint, Place)>,
    /// Where each covered container's entries end.
    ends: Vec<usize>,
    /// Bytes of containers.
    pub(crate) stored: u64,
}

impl Uploader<'_> {
    /// Puts every container that arrives; their chunks are published once they are durable.
    pub(super) fn run(&self, full: &Receiver<SealedContainer>) -> Result<Added, StoreError> {
        let mut added = Added::default();
        for SealedContainer { bytes, directory } in full {
            let size = bytes.len() as u64;
            let put = self.objects.put(&container_name(directory.id), bytes);
            if !seeded::active(Bug::ContainerErrorSwallowed) {
                put?;
            }
            let number = self.containers.add(directory.id, size);
            for (fingerprint, place) in places(&directory, number) {
                self.index.publish(fingerprint, place);
            }
            added.record(&directory);
            added.stored += size;
            Progress::add(&self.progress.stored_bytes, size);
        }
        Ok(added)
    }
}

impl Added {
    /// Takes up a container that is durable.
    pub(crate) fn record(&mut self, directory: &Directory) {
        let covered = self.covers.len() as u32;
        self.entries.extend(places(directory, covered));
        self.covers.push(directory.id);
        self.ends.push(self.entries.len());
    }

    /// How many chunks were added.
    pub(crate) fn chunks(&self) -> usize {
        self.entries.len()
    }

    /// Writes the index runs over what was added.
    pub(crate) fn write_runs(
        &self,
        objects: &dyn Objects,
        envelope: &Envelope,
    ) -> Result<(), StoreError> {
        let mut first = 0;
        while first < self.covers.len() {
            let start = if first == 0 { 0 } else { self.ends[first - 1] };
            let fits = |end: &usize| *end - start <= MAX_RUN_ENTRIES;
            let after = first + self.ends[first..].iter().take_while(|end| fits(end)).count();
            // A container with more chunks than a run should have still gets its run.
            let after = after.max(first + 1);
            let entries = self.entries[start..self.ends[after - 1]]
                .iter()
                .map(|(f, place)| {
                    (*f, Place { container: place.container - first as u32, ..*place })
                })
                .collect();
            Run::new(self.covers[first..after].to_vec(), entries).write(objects, envelope)?;
            first = after;
        }
        Ok(())
    }
}
