//! The containers that were added, and index runs over them.

use onefold_backend::Objects;
use onefold_container::Directory;
use onefold_index::{Index, IndexError, Listed, MAX_RUN_ENTRIES, Run};
use onefold_seal::{Envelope, ObjectId};

use crate::chunks::place::{Containers, listed};
use crate::{Place, StoreError};

/// A container is sealed once it has this many chunks, however small: whoever reads one of them
/// holds the whole footer in memory.
pub(crate) const CONTAINER_CHUNKS: usize = 1 << 16;

/// A group is compressed once it has this many bytes: enough for small chunks to share a window,
/// few enough that reading one of them back is cheap.
pub(crate) const GROUP_LEN: usize = 512 << 10;

/// The containers that one operation added.
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

impl Added {
    pub(crate) fn append(&mut self, mut other: Self) {
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
