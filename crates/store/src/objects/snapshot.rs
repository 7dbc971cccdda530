//! Snapshots: what a source looked like at one moment.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use onefold_backend::{ObjectInfo, Objects};
use onefold_seal::wire::{Put, Reader, WireError};
use onefold_seal::{Envelope, Kind, ObjectId};

use crate::StoreError;
use crate::objects::read::text;
use crate::tree::{self, Detail, Entry, Time};

/// Under which prefix of a repository snapshots lie.
pub(crate) const PREFIX: &str = "snapshots/";

/// No snapshot is longer than this.
pub(crate) const MAX_LEN: u64 = 16 << 20;

/// No fence is longer than this, and hardly a snapshot as short.
pub(crate) const MAX_FENCE_LEN: u64 = 128;

/// The name of snapshot `id`.
pub(crate) fn snapshot_name(id: ObjectId) -> String {
    format!("{PREFIX}{id}")
}

/// The ids that a listing shows, each with its object's length in bytes: of snapshots, and of what
/// stands in the place of some.
pub(crate) fn ids(infos: &[ObjectInfo]) -> Vec<(ObjectId, u64)> {
    infos.iter().filter_map(|info| Some((snapshot_id(&info.name)?, info.size))).collect()
}

/// The id that `name` stands for, or `None` if it is no snapshot's name.
pub(crate) fn snapshot_id(name: &str) -> Option<ObjectId> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

/// What a source looked like at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// When the backup began.
    pub time: Time,
    /// On which host.
    pub host: String,
    /// By which user.
    pub user: String,
    /// The sources, absolute; bytes, not necessarily UTF-8.
    pub paths: Vec<Vec<u8>>,
    /// Words by which the user finds it again.
    pub tags: Vec<String>,
    /// The snapshot that unchanged files were recognised by.
    pub parent: Option<ObjectId>,
    /// Which version of the program made it.
    pub program: String,
    /// Counts of what was seen and stored.
    pub summary: Summary,
    /// The one source if it is a directory, else a directory that holds the sources.
    pub root: Entry,
    /// Whether a write-only client made it, or it was made of one that such a client made: it may say
    /// anything of host and time. Told by how it is sealed, or by a tag.
    pub is_from_client: bool,
}

/// The tag of copies of snapshots that a write-only client made, and of what a repair made of them.
/// They are sealed by who copies or repairs.
pub(crate) const FROM_CLIENT: &str = "from-write-only-client";

/// Counts of what a backup saw and stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Regular files in the snapshot.
    pub files: u64,
    /// Directories in the snapshot.
    pub directories: u64,
    /// Everything else: links, devices, pipes, sockets.
    pub others: u64,
    /// Bytes of all files, holes left out.
    pub bytes: u64,
    /// Files taken over from the parent without reading them.
    pub unchanged_files: u64,
    /// Bytes of chunks that were new, metadata included.
    pub new_bytes: u64,
    /// Bytes that the new chunks take in containers.
    pub stored_bytes: u64,
    /// What could not be read and is therefore missing.
    pub unreadable: u64,
    /// How long the backup took.
    pub milliseconds: u64,
}

impl Snapshot {
    /// Puts the snapshot under `id`; gives the object once it is durable.
    pub(crate) fn write(
        &self,
        objects: &dyn Objects,
        envelope: &Envelope,
        id: ObjectId,
    ) -> Result<Bytes, StoreError> {
        let object = Bytes::from(envelope.seal(Kind::Snapshot, id, &self.encode()));
        objects.put(&snapshot_name(id), object.clone())?;
        Ok(object)
    }

    fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        self.time.encode(&mut body);
        for text in [&self.host, &self.user, &self.program] {
            body.put_bytes(text.as_bytes());
        }
        body.put_varint(self.paths.len() as u64);
        self.paths.iter().for_each(|path| body.put_bytes(path));
        body.put_varint(self.tags.len() as u64);
        self.tags.iter().for_each(|tag| body.put_bytes(tag.as_bytes()));
        body.put_bytes(self.parent.as_ref().map_or(&[][..], |id| id.as_bytes()));
        self.summary.encode(&mut body);
        tree::encode_entry(&self.root, &mut body);
        body
    }

    /// The tags of what is made of this snapshot and sealed anew.
    pub(crate) fn tags_of_copy(&self) -> Vec<String> {
        let mut tags = self.tags.clone();
        if self.is_from_client && !tags.iter().any(|tag| tag == FROM_CLIENT) {
            tags.push(FROM_CLIENT.into());
        }
        tags
    }

    /// Decodes a snapshot's body.
    pub fn decode(body: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(body);
        let time = Time::decode(&mut reader)?;
        let host = text(&mut reader)?;
        let user = text(&mut reader)?;
        let program = text(&mut reader)?;
        let paths = list(&mut reader, |reader| Ok(reader.bytes("a path")?.to_vec()))?;
        let tags = list(&mut reader, text)?;
        let parent = match reader.bytes("the parent")? {
            [] => None,
            id => {
                let id = id.try_into().map_err(|_| reader.error("a parent of 16 bytes"))?;
                Some(ObjectId::from_bytes(id))
            }
        };
        let summary = Summary::decode(&mut reader)?;
        let root = tree::decode_entry(&mut reader, Detail::All)?;
        if !root.name.is_empty() || !matches!(root.node, tree::Node::Directory { .. }) {
            return Err(reader.error("a root that is a directory without a name"));
        }
        reader.finish()?;
        let is_from_client = tags.iter().any(|tag| tag == FROM_CLIENT);
        Ok(Self { is_from_client, time, host, user, paths, tags, parent, program, summary, root })
    }
}

impl Summary {
    fn encode(&self, body: &mut Vec<u8>) {
        let Self { files, directories, others, bytes, unchanged_files, .. } = *self;
        let Self { new_bytes, stored_bytes, unreadable, milliseconds, .. } = *self;
        for count in [files, directories, others, bytes, unchanged_files] {
            body.put_varint(count);
        }
        for count in [new_bytes, stored_bytes, unreadable, milliseconds] {
            body.put_varint(count);
        }
    }

    /// Takes the counts in the order in which they stand here.
    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let mut count = || reader.varint("a count");
        Ok(Self {
            files: count()?,
            directories: count()?,
            others: count()?,
            bytes: count()?,
            unchanged_files: count()?,
            new_bytes: count()?,
            stored_bytes: count()?,
            unreadable: count()?,
            milliseconds: count()?,
        })
    }
}

fn list<T>(
    reader: &mut Reader<'_>,
    mut item: impl FnMut(&mut Reader<'_>) -> Result<T, WireError>,
) -> Result<Vec<T>, WireError> {
    let count = reader.count(1, "a count")?;
    (0..count).map(|_| item(reader)).collect()
}

/// How a user names a snapshot: `latest` or the first digits of its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SnapshotSpec {
    /// The newest one.
    Latest,
    /// The one whose id begins so.
    Prefix(String),
}

impl FromStr for SnapshotSpec {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        if text == "latest" {
            return Ok(Self::Latest);
        }
        let digits = text.to_ascii_lowercase();
        let is_prefix = (1..=2 * ObjectId::LEN).contains(&digits.len())
            && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_prefix {
            return Ok(Self::Prefix(digits));
        }
        Err(StoreError::NoSnapshot {
            spec: text.to_owned(),
            hint: ": expected 'latest' or the first digits of a snapshot's id".into(),
        })
    }
}

impl fmt::Display for SnapshotSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latest => f.write_str("latest"),
            Self::Prefix(digits) => f.write_str(digits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{Meta, Node, Tree};

    /// Each count another, so that none can stand in another's place.
    const SUMMARY: Summary = Summary {
        files: 1,
        directories: 2,
        others: 3,
        bytes: 4,
        unchanged_files: 5,
        new_bytes: 6,
        stored_bytes: 7,
        unreadable: 8,
        milliseconds: 900,
    };

    fn snapshot() -> Snapshot {
        Snapshot {
            time: Time { secs: -5, nanos: 7 },
            host: "host".into(),
            user: "user".into(),
            paths: vec![b"/a".to_vec(), b"/\xff".to_vec()],
            tags: vec!["one".into()],
            parent: Some(ObjectId::from_bytes([3; 16])),
            program: "onefold 0".into(),
            summary: SUMMARY,
            root: Entry {
                name: Vec::new(),
                meta: Meta::default(),
                node: Node::Directory { tree: Tree::EMPTY },
            },
            is_from_client: false,
        }
    }

    #[test]
    fn what_was_encoded_decodes() {
        assert_eq!(Snapshot::decode(&snapshot().encode()), Ok(snapshot()));
        let orphan = Snapshot { parent: None, ..snapshot() };
        assert_eq!(Snapshot::decode(&orphan.encode()), Ok(orphan));
    }

    #[test]
    fn a_truncated_snapshot_is_refused() {
        let body = snapshot().encode();
        for len in 0..body.len() {
            assert!(Snapshot::decode(&body[..len]).is_err(), "{len} bytes were enough");
        }
    }

    #[test]
    fn what_names_no_snapshot_is_refused() {
        assert_eq!("latest".parse::<SnapshotSpec>().unwrap(), SnapshotSpec::Latest);
        assert_eq!("AB".parse::<SnapshotSpec>().unwrap(), SnapshotSpec::Prefix("ab".into()));
        for bad in ["", "xyz", "newest", &"0".repeat(33)] {
            assert!(bad.parse::<SnapshotSpec>().is_err(), "{bad:?}");
        }
    }
}
