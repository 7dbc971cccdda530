//! Bundles: their names, and what they hold.

use std::collections::BTreeMap;

use bytes::Bytes;
use onefold_backend::{ObjectInfo, Objects};
use onefold_index as index;
use onefold_seal::wire::{Put, Reader, WireError};
use onefold_seal::{Kind, ObjectId};

use crate::StoreError;
use crate::objects::{entry, snapshot};

/// Under which prefix of a repository bundles lie.
pub(crate) const PREFIX: &str = "bundles/";

/// No bundle is longer than this, in bytes.
pub(crate) const MAX_LEN: u64 = 16 << 20;

/// The copies of a bundle, by the ids of their originals.
pub(crate) type Held = Vec<(ObjectId, Bytes)>;

/// What the copies of a bundle are copies of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    Entries,
    Snapshots,
    Runs,
}

impl Of {
    pub(crate) const ALL: [Self; 3] = [Self::Entries, Self::Snapshots, Self::Runs];

    /// What the id of such a bundle begins with.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Entries => 0,
            Self::Snapshots => 1,
            Self::Runs => 2,
        }
    }

    /// Under which prefix the originals lie.
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Self::Entries => entry::PREFIX,
            Self::Snapshots => snapshot::PREFIX,
            Self::Runs => index::PREFIX,
        }
    }

    /// The kind of the originals.
    pub(crate) const fn original_kind(self) -> Kind {
        match self {
            Self::Entries => Kind::LogEntry,
            Self::Snapshots => Kind::Snapshot,
            Self::Runs => Kind::Run,
        }
    }

    pub(crate) const fn kind(self) -> Kind {
        match self {
            Self::Entries | Self::Snapshots => Kind::Bundle,
            Self::Runs => Kind::RunBundle,
        }
    }

    /// The name of the original `id`.
    pub(crate) fn name(self, id: ObjectId) -> String {
        format!("{}{id}", self.prefix())
    }

    /// The id that `name` stands for, if it is such an object's.
    pub(crate) fn id(self, name: &str) -> Option<ObjectId> {
        name.strip_prefix(self.prefix())?.parse().ok()
    }
}

/// A bundle that a listing shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListedBundle {
    pub(crate) id: ObjectId,
    pub(crate) of: Of,
    /// Copies in it, as its id says.
    pub(crate) count: u32,
    /// In bytes.
    pub(crate) len: u64,
}

impl ListedBundle {
    fn parse(info: &ObjectInfo) -> Option<Self> {
        let (folder, id) = info.name.strip_prefix(PREFIX)?.split_once('/')?;
        if !id.starts_with(folder) || folder.len() != 2 {
            return None;
        }
        let id: ObjectId = id.parse().ok()?;
        let [code, a, b, c, d, ..] = *id.as_bytes();
        let of = Of::ALL.into_iter().find(|of| of.code() == code)?;
        let count = u32::from_be_bytes([a, b, c, d]);
        // Each copy has an id and a length. What cannot hold so many stands in nobody's way.
        let has_room = u64::from(count) * (ObjectId::LEN as u64 + 1) <= info.size;
        has_room.then_some(Self { id, of, count, len: info.size })
    }

    pub(crate) fn name(&self) -> String {
        bundle_name(self.id)
    }
}

/// The name of bundle `id`.
pub(crate) fn bundle_name(id: ObjectId) -> String {
    let id = id.to_string();
    format!("{PREFIX}{}/{id}", &id[..2])
}

/// A new id of a bundle of `count` copies.
pub(crate) fn new_id(of: Of, count: u32) -> ObjectId {
    let mut id = *ObjectId::random().as_bytes();
    id[0] = of.code();
    id[1..5].copy_from_slice(&count.to_be_bytes());
    ObjectId::from_bytes(id)
}

/// The bundles that a listing shows, those with most copies first.
pub(crate) fn list(objects: &dyn Objects) -> Result<Vec<ListedBundle>, StoreError> {
    let mut listed: Vec<_> = objects.list(PREFIX)?.iter().filter_map(ListedBundle::parse).collect();
    listed.sort_by(|a, b| b.count.cmp(&a.count).then(a.id.cmp(&b.id)));
    Ok(listed)
}

pub(crate) fn encode(copies: &BTreeMap<ObjectId, Bytes>) -> Vec<u8> {
    let mut body = Vec::new();
    body.put_varint(copies.len() as u64);
    for (id, copy) in copies {
        body.extend_from_slice(id.as_bytes());
        body.put_bytes(copy);
    }
    body
}

/// Decodes a bundle's body: ids of originals in ascending order, each with its copy.
pub fn decode(body: &Bytes) -> Result<Vec<(ObjectId, Bytes)>, WireError> {
    let mut reader = Reader::new(body);
    let count = reader.count(ObjectId::LEN + 1, "the count of copies")?;
    let mut copies = Held::with_capacity(count);
    for _ in 0..count {
        let id = ObjectId::from_bytes(reader.array("an id")?);
        if copies.last().is_some_and(|(last, _)| *last >= id) {
            return Err(reader.error("ids in ascending order"));
        }
        copies.push((id, body.slice_ref(reader.bytes("a copy")?)));
    }
    reader.finish()?;
    Ok(copies)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies() -> BTreeMap<ObjectId, Bytes> {
        let id = |byte| ObjectId::from_bytes([byte; 16]);
        BTreeMap::from([(id(1), "one".into()), (id(2), Bytes::new()), (id(9), "nine".into())])
    }

    #[test]
    fn what_was_encoded_decodes_and_nothing_shorter_or_longer_does() {
        let body = Bytes::from(encode(&copies()));
        assert_eq!(decode(&body), Ok(copies().into_iter().collect()));
        assert!((0..body.len()).all(|len| decode(&body.slice(..len)).is_err()));
        assert!(decode(&Bytes::from([&body[..], b"\0"].concat())).is_err());
    }

    #[test]
    fn no_id_stands_twice_or_before_a_lesser_one() {
        for ids in [[3, 3], [4, 3]] {
            let mut body = vec![2];
            for id in ids {
                body.extend_from_slice(&[id; 16]);
                body.push(0);
            }
            assert!(decode(&body.into()).is_err(), "{ids:?}");
        }
    }

    #[test]
    fn a_count_takes_no_memory_for_what_cannot_follow() {
        let mut body = Vec::new();
        body.put_varint(u64::MAX >> 8);
        assert!(decode(&body.into()).is_err());
    }

    #[test]
    fn a_name_says_what_is_copied_and_how_often() {
        for (of, folder) in Of::ALL.into_iter().zip(["00", "01", "02"]) {
            let id = new_id(of, 258);
            let name = bundle_name(id);
            assert!(name.starts_with(&format!("bundles/{folder}/{folder}00000102")), "{name}");
            let parse = |size| ListedBundle::parse(&ObjectInfo { name: name.clone(), size });
            assert_eq!(parse(258 * 17), Some(ListedBundle { id, of, count: 258, len: 258 * 17 }));
            assert_eq!(parse(258 * 17 - 1), None);
        }
    }

    #[test]
    fn other_names_are_no_bundles() {
        let id = "0100000102000000000000000000abcd";
        let names = [
            format!("bundles/{id}"),
            format!("bundles/00/{id}"),
            format!("bundles/0/{id}"),
            format!("bundles/01/{}", &id[1..]),
            format!("bundles/03/03{}", &id[2..]),
            format!("bundle/01/{id}"),
        ];
        for name in names {
            assert_eq!(ListedBundle::parse(&ObjectInfo { name, size: 1 << 20 }), None);
        }
    }
}
