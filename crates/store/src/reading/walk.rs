//! Walking through trees.

use crate::StoreError;
use crate::chunks::reader::ChunkReader;
use crate::reading::entries::Entries;
use crate::tree::{self, Detail, Entry, Node};

/// What a walk calls with a path and its entry.
pub(crate) type Visit<'v> = dyn FnMut(&[u8], &Entry) -> Result<(), StoreError> + 'v;

/// Calls `visit` with path and entry of everything below `entry`, directories before what they hold.
/// Paths are relative to `entry`, with slashes between components.
pub(crate) fn walk(
    reader: &ChunkReader<'_>,
    entry: &Entry,
    visit: &mut Visit<'_>,
) -> Result<(), StoreError> {
    fn descend(
        reader: &ChunkReader<'_>,
        entry: &Entry,
        depth: usize,
        path: &mut Vec<u8>,
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        tree::check_depth(depth)?;
        let mut entries = Entries::of_directory(entry)?;
        while let Some(child) = entries.next(reader, Detail::All)? {
            entries.park_before(&child);
            let len = extend(path, &child.name);
            visit(path, &child)?;
            descend(reader, &child, depth + 1, path, visit)?;
            path.truncate(len);
        }
        Ok(())
    }
    descend(reader, entry, 0, &mut Vec::new(), visit)
}

/// All entries of a directory, `None` if `entry` is none. Memory grows with how many there are.
pub(crate) fn read_tree(
    reader: &ChunkReader<'_>,
    entry: &Entry,
) -> Result<Option<Vec<Entry>>, StoreError> {
    if !matches!(entry.node, Node::Directory { .. }) {
        return Ok(None);
    }
    let (mut entries, mut all) = (Entries::of_directory(entry)?, Vec::new());
    while let Some(entry) = entries.next(reader, Detail::All)? {
        all.push(entry);
    }
    Ok(Some(all))
}

/// Appends a component to a path, and returns how long the path was.
pub(crate) fn extend(path: &mut Vec<u8>, name: &[u8]) -> usize {
    let len = path.len();
    if len > 0 {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    len
}
