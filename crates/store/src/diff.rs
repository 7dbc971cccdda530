//! What changed from one snapshot to another.

use crate::chunks::reader::ChunkReader;
use crate::reading::entries::Entries;
use crate::tree::{self, Detail, Entry, Meta, Node};
use crate::{Repository, StoreError};

/// A difference at one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// Only the second has it.
    Added(&'a Entry),
    /// Only the first has it.
    Removed(&'a Entry),
    /// Both have it, with different bytes, target or device number.
    Content {
        /// In the first.
        before: &'a Entry,
        /// In the second.
        after: &'a Entry,
    },
    /// Both have it with the same content; mode, owner, mtime or attributes differ.
    Metadata {
        /// In the first.
        before: &'a Entry,
        /// In the second.
        after: &'a Entry,
    },
    /// It was one kind of thing and is another.
    Kind {
        /// In the first.
        before: &'a Entry,
        /// In the second.
        after: &'a Entry,
    },
}

type Visit<'v> = dyn FnMut(&[u8], Change<'_>) + 'v;

/// Calls `visit` for every difference between two directories, in order of paths.
///
/// Paths are relative to the two, which are themselves `.`. What lies below an added or removed directory is visited as
/// well. Subtrees with the same recipe are equal and not read.
pub fn diff(
    repository: &Repository,
    before: &Entry,
    after: &Entry,
    visit: &mut dyn FnMut(&[u8], Change<'_>),
) -> Result<(), StoreError> {
    let reader = repository.reader()?;
    if let Some(own) = change(Some(before), Some(after)) {
        visit(b".", own);
    }
    Diff { reader: &reader, path: Vec::new(), depth: 0, visit }
        .directories(Some(before), Some(after))
}

struct Diff<'a, 'v> {
    reader: &'a ChunkReader<'a>,
    path: Vec<u8>,
    depth: usize,
    visit: &'a mut Visit<'v>,
}

impl Diff<'_, '_> {
    /// Merges the entries of two directories, either of which may not exist.
    fn directories(
        &mut self,
        before: Option<&Entry>,
        after: Option<&Entry>,
    ) -> Result<(), StoreError> {
        if let (Some(before), Some(after)) = (before, after)
            && before.node == after.node
        {
            return Ok(());
        }
        let open = |directory: Option<&Entry>| directory.map(Entries::of_directory).transpose();
        let mut sides = [open(before)?, open(after)?];
        let mut firsts = [None, None];
        loop {
            for (side, first) in sides.iter_mut().zip(&mut firsts) {
                if let (Some(entries), None) = (&mut *side, &*first) {
                    *first = entries.next(self.reader, Detail::All)?;
                    if first.is_none() {
                        *side = None;
                    }
                }
            }
            let [before, after] = &mut firsts;
            let (old, new) = match (&before, &after) {
                (None, None) => return Ok(()),
                (Some(old), Some(new)) if old.name == new.name => (before.take(), after.take()),
                (Some(old), Some(new)) if old.name > new.name => (None, after.take()),
                (None, Some(_)) => (None, after.take()),
                _ => (before.take(), None),
            };
            let is_deeper = [&old, &new].into_iter().flatten().any(is_directory);
            if is_deeper {
                sides.iter_mut().flatten().for_each(Entries::park);
            }
            self.entries(old.as_ref(), new.as_ref())?;
        }
    }

    fn entries(&mut self, old: Option<&Entry>, new: Option<&Entry>) -> Result<(), StoreError> {
        let Some(named) = old.or(new) else { return Ok(()) };
        let len = self.path.len();
        if len > 0 {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(&named.name);
        if let Some(change) = change(old, new) {
            (self.visit)(&self.path, change);
        }
        self.depth += 1;
        tree::check_depth(self.depth)?;
        self.directories(old.filter(|old| is_directory(old)), new.filter(|new| is_directory(new)))?;
        self.depth -= 1;
        self.path.truncate(len);
        Ok(())
    }
}

fn is_directory(entry: &Entry) -> bool {
    matches!(entry.node, Node::Directory { .. })
}

fn change<'a>(old: Option<&'a Entry>, new: Option<&'a Entry>) -> Option<Change<'a>> {
    let (before, after) = match (old, new) {
        (Some(before), Some(after)) => (before, after),
        (None, Some(entry)) => return Some(Change::Added(entry)),
        (Some(entry), None) => return Some(Change::Removed(entry)),
        (None, None) => return None,
    };
    if before.node.kind() != after.node.kind() {
        return Some(Change::Kind { before, after });
    }
    let is_directory = matches!(after.node, Node::Directory { .. });
    if !is_directory && before.node != after.node {
        return Some(Change::Content { before, after });
    }
    let lasting = |meta: &Meta| {
        let Meta { mode, uid, gid, mtime, xattrs, .. } = meta;
        (*mode, *uid, *gid, *mtime, xattrs.clone())
    };
    (lasting(&before.meta) != lasting(&after.meta)).then_some(Change::Metadata { before, after })
}
