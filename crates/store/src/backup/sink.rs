//! Where one thread puts chunks: known ones are only named, new ones join a group.

use std::sync::Arc;

use onefold_cdc::Chunker;
use onefold_container::Content;
use onefold_fingerprint::{Fingerprint, Fingerprinter};
use onefold_index::{Claim, Hint, Index};

use super::pack::{Packer, Press};
use super::tally::Tally;
use crate::chunks::place::Used;
use crate::tree::recipe::Joiner;
use crate::{Progress, Recipe, StoreError};

/// Which chunks are known, and which of them the backup relies on.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) index: &'a Index,
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
    press: Press,
}

impl<'a> Sink<'a> {
    pub(super) fn new(
        chunker: &'a Chunker,
        fingerprinter: Fingerprinter,
        known: Known<'a>,
        packer: Arc<Packer>,
        progress: &'a Progress,
        tally: &'a Tally,
        press: Press,
    ) -> Self {
        Self { chunker, fingerprinter, known, packer, progress, tally, press }
    }

    pub(super) fn fingerprinter(&self) -> &Fingerprinter {
        &self.fingerprinter
    }

    /// Where the entries of finished directories are counted.
    pub(super) fn tally(&self) -> &Tally {
        self.tally
    }

    /// Tells the index which chunks come next.
    pub(super) fn prepare(&self, fingerprints: &[Fingerprint]) {
        self.known.index.prepare(fingerprints);
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
        self.packer.push(content, fingerprint, bytes, &mut self.press)
    }

    /// Cuts metadata into chunks, stores them and gives their recipe.
    pub(super) fn store_metadata(&mut self, bytes: &[u8]) -> Result<Recipe, StoreError> {
        let chunker = self.chunker;
        let mut recipe = Joiner::default();
        let mut start = 0;
        for end in chunker.cut_points(bytes) {
            let chunk = &bytes[start..end];
            let fingerprint = self.fingerprinter.fingerprint(chunk);
            self.store_chunk(Content::Metadata, fingerprint, chunk)?;
            let leaf = Recipe::chunk(fingerprint, chunk.len() as u64);
            recipe.push(leaf, &mut |node| self.store_node(node))?;
            start = end;
        }
        recipe.finish(&mut |node| self.store_node(node))
    }

    /// Stores a node of a recipe.
    pub(super) fn store_node(&mut self, node: &[u8]) -> Result<Fingerprint, StoreError> {
        let fingerprint = self.fingerprinter.fingerprint(node);
        self.store_chunk(Content::Metadata, fingerprint, node)?;
        Ok(fingerprint)
    }
}
