//! From new chunks to durable containers.

use std::sync::Mutex;

use crossbeam_channel::{Receiver, Sender};
use onefold_backend::Objects;
use onefold_container::{
    CompressedGroup, Compressor, Content, GroupBuilder, OpenContainer, SealedContainer,
    container_name,
};
use onefold_fingerprint::Fingerprint;
use onefold_index::Index;
use onefold_seal::Envelope;

use crate::chunks::place::Containers;
use crate::local::cache::ObjectCache;
use crate::seeded::fault;
use crate::writing::added::{Added, CONTAINER_CHUNKS, GROUP_LEN};
use crate::{Progress, StoreError};

/// A backup that is only rehearsed remembers this many new chunks: 16 GiB of data in chunks of
/// 16 KiB, about 64 MiB of memory.
const REHEARSED_CLAIMS: usize = 1 << 20;

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
            if !last.is_empty() && !fault!(LastContainerForgotten) {
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
            if !fault!(ContainerErrorSwallowed) {
                put?;
            }
            self.cache.inspect(|cache| cache.keep_container(&container));
            added.record(&container.directory, size, self.containers, self.index);
        }
        Ok(added)
    }
}
