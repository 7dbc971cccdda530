//! Reading snapshots in place: a directory here, a piece of a file there.

use std::ops::Range;
use std::sync::Arc;

use onefold_fingerprint::Fingerprint;
use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::chunks::reader::ChunkReader;
use crate::reading::read_ahead::ReadAhead;
use crate::reading::walk::read_tree;
use crate::tree::{Entry, Node, Tree, weight};
use crate::{Recipe, Repository, StoreError};

/// Bytes of decoded directories, about, that a view keeps at most.
const DIRECTORY_CACHE: u64 = 8 << 20;

/// Bytes of decompressed groups that a view keeps: what is read ahead waits among them.
const GROUP_CACHE: usize = 48 << 20;

/// Reads what snapshots hold, from any number of threads, and keeps what was read last.
pub struct View<'a> {
    chunks: ChunkReader<'a>,
    directories: Cache<Fingerprint, Arc<[Entry]>, ByEntries>,
    ahead: ReadAhead,
}

#[derive(Clone)]
struct ByEntries;

impl Weighter<Fingerprint, Arc<[Entry]>> for ByEntries {
    fn weight(&self, _: &Fingerprint, entries: &Arc<[Entry]>) -> u64 {
        64 + entries.iter().map(weight).sum::<u64>()
    }
}

impl Repository {
    /// What its snapshots hold, to be read in place.
    pub fn view(&self) -> Result<View<'_>, StoreError> {
        let options = OptionsBuilder::new()
            .shards(1)
            .estimated_items_capacity(256)
            .weight_capacity(DIRECTORY_CACHE)
            .build()
            .expect("capacities are given");
        let hasher = DefaultHashBuilder::default();
        let directories = Cache::with_options(options, ByEntries, hasher, Default::default());
        let chunks = self.reader()?.keeping_groups(GROUP_CACHE);
        Ok(View { chunks, directories, ahead: ReadAhead::default() })
    }
}

impl View<'_> {
    /// What the directory `entry` holds, in ascending order of names; nothing if it is none.
    pub fn entries(&self, entry: &Entry) -> Result<Arc<[Entry]>, StoreError> {
        match &entry.node {
            Node::Directory { tree: Tree::Stored(recipe) } if recipe.len > 0 => {
                self.directories.get_or_insert_with(&recipe.root, || self.decode(entry))
            }
            _ => self.decode(entry),
        }
    }

    fn decode(&self, entry: &Entry) -> Result<Arc<[Entry]>, StoreError> {
        Ok(read_tree(&self.chunks, entry)?.unwrap_or_default().into())
    }

    /// The bytes of the file `entry` from `offset` on, at most `len`, fewer only at its end; holes
    /// read as zeros. Nothing if it is no file.
    pub fn read(&self, entry: &Entry, offset: u64, len: usize) -> Result<Vec<u8>, StoreError> {
        let Node::File { size, content, extents } = &entry.node else { return Ok(Vec::new()) };
        let range = offset.min(*size)..offset.saturating_add(len as u64).min(*size);
        let Some(extents) = extents else {
            let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
            self.read_content(content, range, &mut bytes)?;
            return Ok(bytes);
        };
        let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
        let mut begins = 0;
        for extent in extents {
            if let Some(part) = common(&range, &(extent.offset..extent.offset + extent.len)) {
                bytes.resize((part.start - range.start) as usize, 0);
                let within = |at: u64| begins + (at - extent.offset);
                let part = within(part.start)..within(part.end);
                self.read_content(content, part, &mut bytes)?;
            }
            begins += extent.len;
        }
        bytes.resize((range.end - range.start) as usize, 0);
        Ok(bytes)
    }

    /// Appends those bytes of `content` that lie in `range`, and from far away reads ahead.
    fn read_content(
        &self,
        content: &Recipe,
        range: Range<u64>,
        bytes: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        if self.chunks.is_far() {
            self.ahead.before(&content.root, &range, |mut ahead| {
                ahead.end = ahead.end.min(content.len);
                self.chunks.read_ahead(content, &ahead);
            });
        }
        self.chunks.read_range(content, range, bytes)
    }
}

/// What two ranges have in common, unless that is nothing.
fn common(a: &Range<u64>, b: &Range<u64>) -> Option<Range<u64>> {
    let both = a.start.max(b.start)..a.end.min(b.end);
    (both.start < both.end).then_some(both)
}
