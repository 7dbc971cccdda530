//! Adding to a repository what does not come from files: trees that a repair rewrites, and what is
//! copied from another repository.

use std::collections::HashSet;

use onefold_cdc::Chunker;
use onefold_container::Content;
use onefold_fingerprint::Fingerprint;
use onefold_index::{Claim, Hint};

use crate::chunks::loaded::Loaded;
use crate::chunks::place::Used;
use crate::tree::recipe::Joiner;
use crate::tree::{self, Entry, Tree};
use crate::writing::copier::Copier;
use crate::{Recipe, Repository, StoreError};

/// Stores chunks for a snapshot that is to come. Groups are compressed by threads of their own.
pub(crate) struct ChunkWriter<'a> {
    repository: &'a Repository,
    loaded: &'a Loaded,
    /// The containers that the snapshot relies on.
    used: &'a Used,
    chunker: Chunker,
    copier: Copier<'a>,
    /// Chunks that are in no container yet.
    pending: HashSet<Fingerprint>,
    /// Bytes of chunks that were new.
    pub(crate) new_bytes: u64,
}

impl<'a> ChunkWriter<'a> {
    /// What is stored goes to containers of about `container_len` bytes.
    pub(crate) fn new(
        repository: &'a Repository,
        loaded: &'a Loaded,
        used: &'a Used,
        container_len: usize,
    ) -> Result<Self, StoreError> {
        let chunker = Chunker::new(&repository.config().params)?;
        let copier = Copier::new(repository, loaded, container_len)?;
        let pending = HashSet::new();
        Ok(Self { repository, loaded, used, chunker, copier, pending, new_bytes: 0 })
    }

    /// Whether the chunk is stored, or will be. The snapshot relies on it from now on.
    pub(crate) fn has(&self, fingerprint: &Fingerprint) -> bool {
        let known = self.loaded.index.get(fingerprint).map(|Hint(place)| self.used.note(place));
        known.is_some() || self.pending.contains(fingerprint)
    }

    /// Whether the chunk is in a container on which anybody may rely.
    pub(crate) fn is_stored(&self, fingerprint: &Fingerprint) -> bool {
        self.loaded.index.get(fingerprint).is_some()
    }

    /// Stores the chunk `bytes`, whose fingerprint is `fingerprint`, unless it is known.
    pub(crate) fn chunk(
        &mut self,
        content: Content,
        fingerprint: Fingerprint,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        match self.loaded.index.claim(&fingerprint) {
            Claim::New => {
                self.new_bytes += bytes.len() as u64;
                self.pending.insert(fingerprint);
                let stored = self.copier.stored;
                self.copier.push(content, fingerprint, bytes)?;
                if self.copier.stored > stored {
                    let index = &self.loaded.index;
                    self.pending.retain(|fingerprint| index.get(fingerprint).is_none());
                }
                Ok(())
            }
            Claim::Pending => Ok(()),
            Claim::Known(Hint(place)) => {
                self.used.note(place);
                Ok(())
            }
        }
    }

    /// Stores a chunk under the fingerprint that it has in this repository.
    pub(crate) fn bytes(&mut self, content: Content, bytes: &[u8]) -> Result<Recipe, StoreError> {
        let fingerprint = self.repository.fingerprinter.fingerprint(bytes);
        self.chunk(content, fingerprint, bytes)?;
        Ok(Recipe::chunk(fingerprint, bytes.len() as u64))
    }

    /// Cuts `bytes` as far as they decide, or to the last with `is_end`, stores the chunks, adds them
    /// to `recipe` and takes them away from `bytes`.
    pub(crate) fn cut(
        &mut self,
        content: Content,
        bytes: &mut Vec<u8>,
        is_end: bool,
        recipe: &mut Joiner,
    ) -> Result<(), StoreError> {
        let mut start = 0;
        while start < bytes.len() {
            let rest = &bytes[start..];
            let len = match is_end {
                true => self.chunker.last_cut(rest),
                false => self.chunker.next_cut(rest),
            };
            let Some(len) = len else { break };
            let leaf = self.bytes(content, &bytes[start..start + len])?;
            recipe.push(leaf, &mut |node| self.node(node))?;
            start += len;
        }
        bytes.drain(..start);
        Ok(())
    }

    /// Stores a node of a recipe.
    pub(crate) fn node(&mut self, node: &[u8]) -> Result<Fingerprint, StoreError> {
        Ok(self.bytes(Content::Metadata, node)?.root)
    }

    /// All that was stored is durable when this returns, and in index runs.
    pub(crate) fn finish(&mut self) -> Result<(), StoreError> {
        self.copier.finish()
    }

    /// Bytes of the containers that were put.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.copier.stored
    }
}

/// A tree that is written entry by entry.
///
/// Nothing is stored before there are [`WINDOW`](Self::WINDOW) bytes, so a short one may be dropped.
#[derive(Default)]
pub(crate) struct NewTree {
    /// What is in no chunk yet.
    bytes: Vec<u8>,
    recipe: Joiner,
    /// Bytes that did not decide a cut-point when it was last looked for one.
    undecided: usize,
    is_cut: bool,
}

impl NewTree {
    /// So many bytes wait for being cut into chunks, or as many as a chunk has.
    const WINDOW: usize = 64 << 10;

    /// Adds an entry, whose name is behind those of all others.
    pub(crate) fn push(
        &mut self,
        entry: &Entry,
        writer: &mut ChunkWriter<'_>,
    ) -> Result<(), StoreError> {
        tree::encode_entry(entry, &mut self.bytes);
        self.cut(writer)
    }

    /// Adds an entry that is encoded.
    pub(crate) fn push_encoded(
        &mut self,
        entry: &[u8],
        writer: &mut ChunkWriter<'_>,
    ) -> Result<(), StoreError> {
        self.bytes.extend_from_slice(entry);
        self.cut(writer)
    }

    fn cut(&mut self, writer: &mut ChunkWriter<'_>) -> Result<(), StoreError> {
        // Twice as many, so that long chunks are not looked through for each entry.
        if self.bytes.len() < Self::WINDOW.max(2 * self.undecided) {
            return Ok(());
        }
        self.is_cut = true;
        writer.cut(Content::Metadata, &mut self.bytes, false, &mut self.recipe)?;
        self.undecided = self.bytes.len();
        Ok(())
    }

    /// The tree with all entries that were added. A snapshot's root is always stored.
    pub(crate) fn finish(
        mut self,
        is_root: bool,
        writer: &mut ChunkWriter<'_>,
    ) -> Result<Tree, StoreError> {
        if !self.is_cut && !is_root && self.bytes.len() <= Tree::INLINE_MAX {
            return Ok(Tree::Inline(self.bytes));
        }
        writer.cut(Content::Metadata, &mut self.bytes, true, &mut self.recipe)?;
        Ok(Tree::Stored(self.recipe.finish(&mut |node| writer.node(node))?))
    }
}
