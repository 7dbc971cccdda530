//! What is at a path of a snapshot, and below it.

use onefold_seal::ObjectId;

use crate::reading::entries::Entries;
use crate::reading::walk::{Visit, walk};
use crate::tree::{Detail, Entry};
use crate::{Repository, Snapshot, StoreError};

impl Repository {
    /// The entry at `path` in a snapshot; components are separated by slashes, empty ones ignored.
    pub fn entry_at(
        &self,
        id: ObjectId,
        snapshot: &Snapshot,
        path: &[u8],
    ) -> Result<Entry, StoreError> {
        let no_path = || StoreError::NoPath {
            snapshot: id,
            path: String::from_utf8_lossy(path).into_owned(),
        };
        let reader = self.reader()?;
        let mut entry = snapshot.root.clone();
        for component in path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
            let mut entries = Entries::of_directory(&entry)?;
            entry = loop {
                let child = entries.next(&reader, Detail::All)?.ok_or_else(no_path)?;
                if child.name == component {
                    break child;
                }
            };
        }
        Ok(entry)
    }

    /// Calls `visit` with path and entry of everything below `entry`, directories before what they
    /// hold. Paths are relative to `entry`, with slashes between components.
    pub fn walk(&self, entry: &Entry, visit: &mut Visit<'_>) -> Result<(), StoreError> {
        walk(&self.reader()?, entry, visit)
    }
}
