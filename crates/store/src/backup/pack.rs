//! From new chunks to durable containers.

use std::sync::Mutex;

use crossbeam_channel::{Receiver, Sender};
use onefold_backend::Objects;
use onefold_container::{
    CompressedGroup, Content, Directory, OpenContainer, SealedContainer, container_name,
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
const CONTAINER_CHUNKS: usize = 1 << 16;

/// Takes groups from all threads and fills containers with them, one for data and one for
/// metadata; full ones go to the [`Uploader`].
pub(super) struct Packer {
    envelope: Envelope,
    container_len: usize,
    data: Mutex<OpenContainer>,
    metadata: Mutex<OpenContainer>,
    full: Sender<SealedContainer>,
}

impl Packer {
    /// A packer whose containers are sealed once they have `container_len` bytes.
    pub(super) fn new(
        envelope: Envelope,
        container_len: usize,
        full: Sender<SealedContainer>,
    ) -> Self {
        Self {
            data: Mutex::new(open_container(&envelope, Content::Data, container_len)),
            metadata: Mutex::new(open_container(&envelope, Content::Metadata, container_len)),
            envelope,
            container_len,
            full,
        }
    }

    /// Appends a group. While the uploader is behind, whoever fills a container waits with it, and
    /// the others wait for whoever waits: so there is never more than one being put, one waiting,
    /// and one of the other content.
    pub(super) fn push(&self, content: Content, group: CompressedGroup) -> Result<(), StoreError> {
        let slot = match content {
            Content::Data => &self.data,
            Content::Metadata => &self.metadata,
        };
        let mut open = slot.lock().expect("no thread panics with a container locked");
        open.push(group);
        if open.len() < self.container_len && open.chunks() < CONTAINER_CHUNKS {
            return Ok(());
        }
        let next = open_container(&self.envelope, content, self.container_len);
        send(&self.full, std::mem::replace(&mut *open, next))
    }

    /// Sends what is left to the uploader.
    pub(super) fn finish(self) -> Result<(), StoreError> {
        for open in [self.data, self.metadata] {
            let last = open.into_inner().expect("no thread panics with a container locked");
            if !last.is_empty() && !seeded::active(Bug::LastContainerForgotten) {
                send(&self.full, last)?;
            }
        }
        Ok(())
    }
}

/// Room for what comes after the length is reached: the last group and the footer.
const BEYOND: usize = 2 << 20;

fn open_container(envelope: &Envelope, content: Content, len: usize) -> OpenContainer {
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
