//! Where one thread puts chunks: known ones are only named, new ones join a group.

use std::sync::Arc;

use onefold_cdc::Chunker;
use onefold_container::{Compressor, Content, GroupBuilder};
use onefold_fingerprint::{Fingerprint, Fingerprinter};
use onefold_index::{Claim, Hint, Index};

use super::assemble::Tally;
use super::pack::Packer;
use crate::place::Used;
use crate::{Place, Progress, Recipe, StoreError};

/// A group is compressed once it has this many bytes: enough for small chunks to share a window,
/// few enough that reading one of them back is cheap.
const GROUP_LEN: usize = 256 << 10;

/// Which chunks are known, and which of them the backup relies on.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) index: &'a Index<Place>,
    pub(super) used: &'a Used,
}

/// Stores the chunks of one thread.
pub(super) struct Sink<'a> {
    chunker: &'a Chunker,
    fingerprinter: Fingerprinter,
    known: Known<'a>,
    packer: Arc<Packer>,
    progress: &'a Progress,
    tally: &'a Tally,
    compressor: Compressor,
    data: GroupBuilder,
    metadata: GroupBuilder,
}

impl<'a> Sink<'a> {
    pub(super) fn new(
        chunker: &'a Chunker,
        fingerprinter: Fingerprinter,
        known: Known<'a>,
        packer: Arc<Packer>,
        progress: &'a Progress,
        tally: &'a Tally,
        compressor: Compressor,
    ) -> Self {
        Self {
            chunker,
            fingerprinter,
            known,
            packer,
            progress,
            tally,
            compressor,
            data: GroupBuilder::default(),
            metadata: GroupBuilder::default(),
        }
    }

    pub(super) fn fingerprinter(&self) -> &Fingerprinter {
        &self.fingerprinter
    }

    /// Where the entries of finished directories are counted.
    pub(super) fn tally(&self) -> &Tally {
        self.tally
    }

    /// Stores the chunk `bytes`, whose fingerprint is `fingerprint`, unless it is known.
    pub(super) fn store_chunk(
        &mut self,
        content: Content,
        fingerprint: Fingerprint,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        match self.known.index.claim(&fingerprint) {
            Claim::New => {}
            Claim::Pending => return Ok(()),
            Claim::Known(Hint(place)) => {
                self.known.used.note(place);
                return Ok(());
            }
        }
        Progress::add(&self.progress.new_bytes, bytes.len() as u64);
        let group = match content {
            Content::Data => &mut self.data,
            Content::Metadata => &mut self.metadata,
        };
        // A long chunk gets a group of its own, so that no group is much longer than it must be.
        let is_first_of_next = !group.is_empty() && group.len() + bytes.len() > 2 * GROUP_LEN;
        if is_first_of_next {
            self.packer.push(content, self.compressor.compress(group)?)?;
        }
        group.push(fingerprint, bytes);
        if group.len() >= GROUP_LEN {
            self.packer.push(content, self.compressor.compress(group)?)?;
        }
        Ok(())
    }

    /// Cuts metadata into chunks, stores them and gives their recipe.
    pub(super) fn store_metadata(&mut self, bytes: &[u8]) -> Result<Recipe, StoreError> {
        let chunker = self.chunker;
        let mut leaves = Vec::new();
        let mut start = 0;
        for end in chunker.cut_points(bytes) {
            let chunk = &bytes[start..end];
            let fingerprint = self.fingerprinter.fingerprint(chunk);
            self.store_chunk(Content::Metadata, fingerprint, chunk)?;
            leaves.push(Recipe::chunk(fingerprint, chunk.len() as u64));
            start = end;
        }
        self.store_recipe(leaves)
    }

    /// Stores the nodes of the recipe that puts `leaves` together.
    pub(super) fn store_recipe(&mut self, leaves: Vec<Recipe>) -> Result<Recipe, StoreError> {
        Recipe::join(leaves, |node| {
            let fingerprint = self.fingerprinter.fingerprint(node);
            self.store_chunk(Content::Metadata, fingerprint, node)?;
            Ok(fingerprint)
        })
    }

    /// Hands what is left in the groups over.
    pub(super) fn finish(mut self) -> Result<(), StoreError> {
        for (content, group) in
            [(Content::Data, &mut self.data), (Content::Metadata, &mut self.metadata)]
        {
            if !group.is_empty() {
                self.packer.push(content, self.compressor.compress(group)?)?;
            }
        }
        Ok(())
    }
}
