//! Fingerprints pages and looks them up, some at a time.
//!
//! A table, a map and the references of pages are each a line of memory that no cache has, and most
//! are found only by what another one says. So memory is asked for each of them while the next pages
//! are fingerprinted, which takes longer than any answer.

use std::sync::Arc;

use onefold_fingerprint::Fingerprint;
use onefold_index::Table;

use crate::containers::files::PageFile;
use crate::engine::counters::count;
use crate::engine::neighbours::Hits;
use crate::engine::parts::Engine;
use crate::ids::{Handle, VolumeId};

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
        self.find_neighbours(table, &fingerprints, &mut hints);
        LookedUp { fingerprints, hints }
    }

    /// Looks for pages that `table` does not know beside those that it knows, if it is sampled. May read
    /// directories of containers: the caller may hold block stripes, and no lock that comes after them.
    fn find_neighbours(
        &self,
        table: &dyn Table,
        fingerprints: &[Fingerprint],
        hints: &mut [Option<u64>],
    ) {
        if !table.is_sampled() {
            return;
        }
        // what is appended to the open one is known, and it has no footer yet
        let is_listed = |file: &Arc<PageFile>| file.is_complete() && !file.is_foreign();
        let sealed = |number| self.state().pages.file(number).filter(is_listed);
        let read = |file: Arc<PageFile>| {
            // one that cannot be read has no pages to offer
            let directory = file.directory().ok()?;
            let groups = directory.chunks.iter().map(|chunk| chunk.group);
            // slots are positions of groups and of chunks alike
            if !groups.eq(0..directory.groups.len() as u32) {
                return None;
            }
            count(&self.counters.directories_read, 1);
            Some(directory.chunks.into_iter().map(|chunk| chunk.fingerprint))
        };
        let hits = Hits::of(hints);
        let found = self.neighbours.find_beside(hits, fingerprints, hints, sealed, read);
        count(&self.counters.neighbours, found);
    }

    /// Looks up pages once more, and reads nothing: in `table` and, if it is sampled, in the directories
    /// that are in memory.
    pub(crate) fn look_up_again(
        &self,
        table: &dyn Table,
        fingerprints: &[Fingerprint],
    ) -> Vec<Option<u64>> {
        let mut hints = vec![None; fingerprints.len()];
        table.get_many(fingerprints, &mut hints);
        if table.is_sampled() {
            let found = self.neighbours.find(fingerprints, &mut hints);
            count(&self.counters.neighbours, found);
        }
        hints
    }

    /// Enters pages that were just appended to one container, in consecutive slots.
    pub(crate) fn enter(&self, table: &dyn Table, appended: &[(Fingerprint, u64)]) {
        count(&self.counters.unindexed, table.insert_many(appended));
        if let Some((_, first)) = appended.first()
            && table.is_sampled()
        {
            let first = Handle::from_u64(*first);
            let fingerprints = appended.iter().map(|(fingerprint, _)| *fingerprint);
            self.neighbours.add(first.container(), first.slot(), fingerprints);
        }
        self.table.note_entered();
    }
}

fn blocks(pages: &[Page<'_>]) -> impl Iterator<Item = u64> {
    pages.iter().map(|(block, _)| *block)
}
