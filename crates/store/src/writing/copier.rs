//! Copying live chunks into new containers.

use std::collections::HashSet;

use onefold_container::{
    CompressedGroup, Content, GroupBuilder, OpenContainer, SealedContainer, container_name,
};
use onefold_fingerprint::Fingerprint;
use onefold_index::MAX_RUN_ENTRIES;
use onefold_seal::ObjectId;

use crate::chunks::loaded::Loaded;
use crate::chunks::reader::ChunkReader;
use crate::writing::added::{Added, CONTAINER_CHUNKS, GROUP_LEN};
use crate::writing::press::Presses;
use crate::{Repository, StoreError};

/// Puts chunks into new containers, with index runs over them.
pub(crate) struct Copier<'a> {
    repository: &'a Repository,
    loaded: &'a Loaded,
    container_len: usize,
    presses: Presses,
    data: Open,
    metadata: Open,
    added: Added,
    /// Containers that were put.
    put: HashSet<ObjectId>,
    /// Bytes of the containers that were put.
    pub(crate) stored: u64,
}

/// What one kind of content is collected in.
#[derive(Default)]
struct Open {
    group: GroupBuilder,
    container: Option<OpenContainer>,
}

impl<'a> Copier<'a> {
    pub(crate) fn new(
        repository: &'a Repository,
        loaded: &'a Loaded,
        container_len: usize,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            repository,
            loaded,
            container_len,
            presses: Presses::new(
                repository.config().compression_level,
                repository.envelope.suite(),
            )?,
            data: Open::default(),
            metadata: Open::default(),
            added: Added::default(),
            put: HashSet::new(),
            stored: 0,
        })
    }

    /// Copies a chunk from wherever it is.
    pub(crate) fn chunk(
        &mut self,
        fingerprint: &Fingerprint,
        reader: &ChunkReader<'_>,
    ) -> Result<(), StoreError> {
        let bytes = reader.chunk(fingerprint)?;
        self.push(Content::Data, *fingerprint, &bytes)
    }

    /// Puts what is left; all that was copied is durable then, and in index runs.
    pub(crate) fn finish(&mut self) -> Result<(), StoreError> {
        for content in [Content::Data, Content::Metadata] {
            self.close_group(content)?;
        }
        while let Some((content, group)) = self.presses.next()? {
            self.append(content, group)?;
        }
        for content in [Content::Data, Content::Metadata] {
            if let Some(container) = self.open(content).container.take() {
                self.put(container.seal())?;
            }
        }
        self.write_runs()
    }

    /// The containers that were put.
    pub(crate) fn put_ids(&self) -> HashSet<ObjectId> {
        self.put.clone()
    }

    /// Takes up a chunk, which is in a container and published once that is put.
    pub(crate) fn push(
        &mut self,
        content: Content,
        fingerprint: Fingerprint,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        let group = &self.open(content).group;
        // A long chunk gets a group of its own, so that no group is much longer than it must be.
        if !group.is_empty() && group.len() + bytes.len() > 2 * GROUP_LEN {
            self.close_group(content)?;
        }
        let group = &mut self.open(content).group;
        group.push(fingerprint, bytes);
        if group.len() >= GROUP_LEN {
            self.close_group(content)?;
        }
        Ok(())
    }

    fn close_group(&mut self, content: Content) -> Result<(), StoreError> {
        let group = std::mem::take(&mut self.open(content).group);
        if group.is_empty() {
            return Ok(());
        }
        self.presses.push(content, group)?;
        while let Some((content, group)) = self.presses.over()? {
            self.append(content, group)?;
        }
        Ok(())
    }

    fn append(&mut self, content: Content, group: CompressedGroup) -> Result<(), StoreError> {
        let (envelope, len) = (&self.repository.envelope, self.container_len);
        let open = self.open(content);
        let container = open.container.get_or_insert_with(|| OpenContainer::new(envelope, content));
        container.push(group);
        if container.len() < len && container.chunks() < CONTAINER_CHUNKS {
            return Ok(());
        }
        match open.container.take() {
            Some(full) => self.put(full.seal()),
            None => Ok(()),
        }
    }

    fn put(&mut self, sealed: SealedContainer) -> Result<(), StoreError> {
        let SealedContainer { bytes, directory } = sealed;
        let size = bytes.len() as u64;
        self.repository.objects.put(&container_name(directory.id), bytes)?;
        self.added.record(&directory, size, &self.loaded.containers, &self.loaded.index);
        self.put.insert(directory.id);
        self.stored += size;
        match self.added.chunks() < MAX_RUN_ENTRIES / 2 {
            true => Ok(()),
            false => self.write_runs(),
        }
    }

    fn write_runs(&mut self) -> Result<(), StoreError> {
        let Repository { objects, envelope, .. } = self.repository;
        std::mem::take(&mut self.added).write_runs(&**objects, envelope, &self.loaded.index)?;
        self.loaded.keep_index();
        Ok(())
    }

    fn open(&mut self, content: Content) -> &mut Open {
        match content {
            Content::Data => &mut self.data,
            Content::Metadata => &mut self.metadata,
        }
    }
}
