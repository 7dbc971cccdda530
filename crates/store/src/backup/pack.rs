//! From new chunks to durable containers.

use std::sync::Mutex;

use crossbeam_channel::{Receiver, Sender};
use onefold_backend::Objects;
use onefold_container::{
    CompressedGroup, Compressor, Content, Directory, GroupBuilder, OpenContainer, SealedContainer,
    container_name,
};
use onefold_fingerprint::Fingerprint;
use onefold_index::{Index, IndexError, Listed, MAX_RUN_ENTRIES, Run};
use onefold_seal::{Envelope, ObjectId};

use crate::chunks::place::Containers;
use crate::chunks::place::listed;
use crate::local::cache::ObjectCache;
use crate::seeded::{self, Bug};
use crate::{Place, Progress, StoreError};

/// A container is sealed once it has this many chunks, however small: whoever reads one of them
/// holds the whole footer in memory.
pub(crate) const CONTAINER_CHUNKS: usize = 1 << 16;

/// A backup that is only rehearsed remembers this many new chunks: 16 GiB of data in chunks of
/// 16 KiB, about 64 MiB of memory.
const REHEARSED_CLAIMS: usize = 1 << 20;

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
            container: Mutex::new(OpenContainer::new(&envelope, content)),
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
        let next = OpenContainer::new(&self.envelope, packing.content);
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

fn send(full: &Sender<SealedContainer>, open: OpenContainer) -> Result<(), StoreError> {
    full.send(open.seal()).map_err(|_| StoreError::Stopped)
}

/// Puts sealed containers and remembers what they hold.
pub(super) struct Uploader<'a> {
    /// Where they are put; nowhere if the backup is only rehearsed.
    pub(super) objects: Option<&'a dyn Objects>,
    pub(super) index: &'a Index,
    pub(super) containers: &'a Containers,
    pub(super) cache: Option<&'a ObjectCache>,
    pub(super) progress: &'a Progress,
}

/// The containers that one backup added.
#[derive(Default)]
pub(crate) struct Added {
    containers: Vec<AddedContainer>,
    /// How many chunks they have.
    chunks: usize,
    /// Their bytes.
    pub(crate) stored: u64,
}

/// A container that is durable.
struct AddedContainer {
    id: ObjectId,
    size: u64,
    chunks: usize,
    /// What the index calls it, if it took it up.
    object: Option<u32>,
}

impl Uploader<'_> {
    /// How many containers are put at a time. Where requests take time to travel, the last of the data
    /// and the last of the metadata go together.
    pub(super) fn at_a_time(&self) -> usize {
        match self.objects {
            Some(objects) if objects.gap() > 0 => 2,
            _ => 1,
        }
    }

    /// Puts every container that arrives; their chunks are published once they are durable.
    pub(super) fn run(&self, full: &Receiver<SealedContainer>) -> Result<Added, StoreError> {
        let mut added = Added::default();
        let mut owed = 0;
        for container in full {
            let size = container.bytes.len() as u64;
            Progress::add(&self.progress.stored_bytes, size);
            let Some(objects) = self.objects else {
                owed += container.directory.chunks.len();
                if owed >= REHEARSED_CLAIMS {
                    self.index.forget_claims();
                    owed = 0;
                }
                continue;
            };
            let put = objects.put(&container_name(container.directory.id), container.bytes.clone());
            if !seeded::active(Bug::ContainerErrorSwallowed) {
                put?;
            }
            self.cache.inspect(|cache| cache.keep_container(&container));
            added.record(&container.directory, size, self.containers, self.index);
        }
        Ok(added)
    }
}

impl Added {
    pub(super) fn append(&mut self, mut other: Self) {
        self.containers.append(&mut other.containers);
        self.chunks += other.chunks;
        self.stored += other.stored;
    }

    /// Takes up a container of `size` bytes that is durable, and tells the index.
    pub(crate) fn record(
        &mut self,
        directory: &Directory,
        size: u64,
        containers: &Containers,
        index: &Index,
    ) {
        let number = containers.add(directory.id, size);
        let object = index.publish(directory.id, number, &listed(directory));
        self.note(directory, size, object);
    }

    /// Takes up a container of `size` bytes that is durable; `object` is what the index calls it,
    /// if it knows it.
    pub(crate) fn note(&mut self, directory: &Directory, size: u64, object: Option<u32>) {
        let chunks = directory.chunks.len();
        self.containers.push(AddedContainer { id: directory.id, size, chunks, object });
        self.chunks += chunks;
        self.stored += size;
    }

    /// How many chunks were added.
    pub(crate) fn chunks(&self) -> usize {
        self.chunks
    }

    /// Writes the index runs over what was added.
    pub(crate) fn write_runs(
        &self,
        objects: &dyn Objects,
        envelope: &Envelope,
        index: &Index,
    ) -> Result<(), StoreError> {
        let mut rest = &self.containers[..];
        while !rest.is_empty() {
            let mut entries = 0;
            let fits = |container: &&AddedContainer| {
                entries += container.chunks;
                entries <= MAX_RUN_ENTRIES
            };
            // A container with more chunks than a run should have still gets its run.
            let count = rest.iter().take_while(fits).count().max(1);
            let (covered, left) = rest.split_at(count);
            write_run(covered, objects, envelope, index)?;
            rest = left;
        }
        Ok(())
    }
}

fn write_run(
    covered: &[AddedContainer],
    objects: &dyn Objects,
    envelope: &Envelope,
    index: &Index,
) -> Result<(), StoreError> {
    let mut entries = Vec::with_capacity(covered.iter().map(|container| container.chunks).sum());
    for (number, container) in (0..).zip(covered) {
        let chunks = chunks_of(container, objects, envelope, index)?;
        entries.extend((0..).zip(chunks).map(|(slot, (fingerprint, len))| {
            (fingerprint, Place { container: number, slot, len })
        }));
    }
    let covers = covered.iter().map(|container| container.id).collect();
    let run = Run::new(covers, entries).write(objects, envelope)?;
    if let Some(known) = covered.iter().map(|container| container.object).collect() {
        index.note_run(run, known);
    }
    Ok(())
}

/// What a container holds: from the index, or else from its footer.
fn chunks_of(
    container: &AddedContainer,
    objects: &dyn Objects,
    envelope: &Envelope,
    index: &Index,
) -> Result<Vec<Listed>, StoreError> {
    let known: Option<Result<_, IndexError>> = container.object.map(|object| index.list(object));
    match known {
        Some(Ok(chunks)) => Ok(chunks),
        _ => {
            let directory = Directory::read(objects, envelope, container.id, container.size)?;
            Ok(listed(&directory))
        }
    }
}
