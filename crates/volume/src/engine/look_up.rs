//! Fingerprints pages and looks them up, some at a time.
//!
//! A table, a map and the references of pages are each a line of memory that no cache has, and most
//! are found only by what another one says. So memory is asked for each of them while the next pages
//! are fingerprinted, which takes longer than any answer.

use onefold_fingerprint::Fingerprint;
use onefold_index::Table;

use crate::engine::parts::Engine;
use crate::ids::VolumeId;

/// A block, and the bytes that it is to have.
pub(crate) type Page<'a> = (u64, &'a [u8]);

/// Pages that are fingerprinted together: as many as fill the lanes of vectors twice.
const TOGETHER: usize = 16;

/// What a table says of pages.
pub(crate) struct LookedUp {
    pub(crate) fingerprints: Vec<Fingerprint>,
    /// Where each page was when it was entered.
    pub(crate) hints: Vec<Option<u64>>,
}

impl Engine {
    /// Looks up `pages`, which are to be mapped by `volume`.
    pub(crate) fn look_up(
        &self,
        volume: VolumeId,
        pages: &[Page<'_>],
        table: &dyn Table,
    ) -> LookedUp {
        let mut fingerprints = Vec::with_capacity(pages.len());
        let mut hints = vec![None; pages.len()];
        let mut bytes = Vec::with_capacity(TOGETHER);
        let mut groups = pages.chunks(TOGETHER).peekable();
        if let Some(first) = groups.peek() {
            self.state().prefetch_blocks(volume, blocks(first));
        }
        // how many have been looked up
        let mut found = 0;
        while let Some(group) = groups.next() {
            bytes.clear();
            bytes.extend(group.iter().map(|(_, page)| *page));
            let begin = fingerprints.len();
            self.fingerprinter.fingerprint_many(&bytes, &mut fingerprints);
            table.prefetch(&fingerprints[begin..]);
            table.get_many(&fingerprints[found..begin], &mut hints[found..begin]);
            let state = self.state();
            state.prefetch_blocks(volume, blocks(groups.peek().copied().unwrap_or_default()));
            state.prefetch_mapped(volume, blocks(group));
            state.prefetch_hinted(&hints[found..begin]);
            found = begin;
        }
        table.get_many(&fingerprints[found..], &mut hints[found..]);
        self.state().prefetch_hinted(&hints[found..]);
        LookedUp { fingerprints, hints }
    }
}

fn blocks(pages: &[Page<'_>]) -> impl Iterator<Item = u64> {
    pages.iter().map(|(block, _)| *block)
}
