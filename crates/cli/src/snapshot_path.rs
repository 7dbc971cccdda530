//! How a user names a snapshot, or an entry in it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use anyhow::Result;
use clap::builder::{OsStringValueParser, TypedValueParser};
use onefold_seal::ObjectId;
use onefold_store::tree::Entry;
use onefold_store::{Repository, Snapshot, SnapshotSpec, StoreError};

use crate::console::Console;
use crate::filter::FilterArgs;
use crate::signer::Signer;

/// A snapshot, and a path in it: `latest`, `1a2b3c`, `latest:home/ann`.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotPath {
    spec: SnapshotSpec,
    /// Bytes, not necessarily UTF-8; empty for the snapshot's root.
    path: Vec<u8>,
}

/// The entry that a [`SnapshotPath`] names.
pub(crate) struct Found {
    pub(crate) id: ObjectId,
    pub(crate) snapshot: Snapshot,
    pub(crate) entry: Entry,
    /// The entry's path in the snapshot, as [`SnapshotPath::path`] gives it.
    pub(crate) path: Vec<u8>,
    pub(crate) signer: Signer,
}

impl SnapshotPath {
    /// Reads `SNAPSHOT` or `SNAPSHOT:PATH`.
    pub(crate) fn parser() -> impl TypedValueParser<Value = Self> {
        OsStringValueParser::new().try_map(Self::parse)
    }

    fn parse(text: OsString) -> Result<Self, StoreError> {
        let bytes = text.as_bytes();
        let colon = bytes.iter().position(|byte| *byte == b':').unwrap_or(bytes.len());
        let spec = String::from_utf8_lossy(&bytes[..colon]).parse()?;
        let path = bytes.get(colon + 1..).unwrap_or_default().to_vec();
        Ok(Self { spec, path })
    }

    /// What lies at `path` below it.
    pub(crate) fn join(mut self, path: &OsStr) -> Self {
        self.path.push(b'/');
        self.path.extend_from_slice(path.as_bytes());
        self
    }

    /// The path: no slashes before, after, or next to one another.
    pub(crate) fn path(&self) -> Vec<u8> {
        let components = self.path.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
        components.collect::<Vec<_>>().join(&b'/')
    }

    /// Looks it up, `latest` among the snapshots that pass `filter`. Warns if a write-only client made the
    /// snapshot.
    pub(crate) fn find(
        &self,
        repository: &Repository,
        filter: &FilterArgs,
        console: &Console,
    ) -> Result<Found> {
        let (id, snapshot) = filter.find(repository, &self.spec)?;
        let signer = Signer::of(repository, id, &snapshot)?;
        signer.tell(id, console);
        let entry = repository.entry_at(id, &snapshot, &self.path)?;
        Ok(Found { id, snapshot, entry, path: self.path(), signer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_colon_ends_the_snapshot() {
        let parse = |text: &str| SnapshotPath::parse(text.into()).unwrap();
        assert_eq!(parse("latest").path, b"");
        assert_eq!(parse("latest:").path, b"");
        let named = parse("12ab:/a:b");
        assert_eq!(named.spec, SnapshotSpec::Prefix("12ab".into()));
        assert_eq!(named.path, b"/a:b");
        assert!(SnapshotPath::parse("home:x".into()).is_err());
    }
}
