//! Which repositories a client has used at which locations.
//!
//! A repository is known by its id, which anybody can read and write down elsewhere. So this tells a
//! disk that was exchanged, or a repository that was made anew, and one in clear that poses as the
//! encrypted one; it does not tell a copy from its original.

use std::collections::{BTreeMap, BTreeSet};

use onefold_backend::Folder;
use onefold_seal::ObjectId;
use onefold_seal::wire::{Put, Reader, WireError};

use crate::StoreError;
use crate::local::slots::Slots;
use crate::sighting::Sighting;

/// What is kept is about no repository but all.
const ABOUT: ObjectId = ObjectId::from_bytes([0; ObjectId::LEN]);

/// By location, the repositories that were used there.
type ByLocation = BTreeMap<Vec<u8>, BTreeSet<Sighting>>;

/// What a client knows of locations, held by one process at a time.
pub struct KnownRepositories {
    slots: Slots,
    by_location: ByLocation,
}

impl KnownRepositories {
    /// Opens what is kept in `folder`.
    pub fn open(folder: &dyn Folder) -> Result<Self, StoreError> {
        let (slots, known) =
            Slots::open(folder, ABOUT, |bytes| decode(bytes).ok()).map_err(StoreError::Memory)?;
        Ok(Self { slots, by_location: known.unwrap_or_default() })
    }

    /// Whether something was kept that is damaged and counts for nothing.
    pub fn is_lost(&self) -> bool {
        self.slots.is_lost()
    }

    /// Whether the repository `found` is yet to be noted for `location`.
    ///
    /// # Errors
    /// [`StoreError::OtherRepository`] if others are known there and this one is not, unless its id
    /// is `accepted`.
    pub fn ensure_known(
        &self,
        location: &[u8],
        found: Sighting,
        accepted: Option<ObjectId>,
    ) -> Result<bool, StoreError> {
        match self.by_location.get(location) {
            Some(known) if known.contains(&found) => Ok(false),
            // One in clear that passes for an encrypted one is never the one that was meant.
            Some(known)
                if accepted != Some(found.id)
                    || (!found.is_encrypted && known.iter().any(|one| one.id == found.id)) =>
            {
                Err(StoreError::OtherRepository {
                    location: String::from_utf8_lossy(location).into_owned(),
                    known: known.iter().copied().collect(),
                    found,
                })
            }
            _ => Ok(true),
        }
    }

    /// Notes that `found` may be at `location` from now on; durable when this returns.
    pub fn note(&mut self, location: &[u8], found: Sighting) -> Result<(), StoreError> {
        let known = self.by_location.entry(location.to_owned()).or_default();
        match known.insert(found) {
            true => self.slots.keep(&encode(&self.by_location)).map_err(StoreError::Memory),
            false => Ok(()),
        }
    }

    /// The locations at which the repository was used.
    pub fn locations_of(&self, repository: ObjectId) -> impl Iterator<Item = &[u8]> {
        let is_there =
            move |known: &BTreeSet<Sighting>| known.iter().any(|one| one.id == repository);
        self.by_location.iter().filter(move |(_, known)| is_there(known)).map(|(at, _)| &at[..])
    }
}

fn encode(by_location: &ByLocation) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_varint(by_location.len() as u64);
    for (location, known) in by_location {
        bytes.put_bytes(location);
        bytes.put_varint(known.len() as u64);
        for Sighting { id, is_encrypted } in known {
            bytes.extend_from_slice(id.as_bytes());
            bytes.push((*is_encrypted).into());
        }
    }
    bytes
}

fn decode(bytes: &[u8]) -> Result<ByLocation, WireError> {
    let mut reader = Reader::new(bytes);
    let mut by_location = ByLocation::new();
    for _ in 0..reader.count(2, "the count of locations")? {
        let location = reader.bytes("a location")?.to_vec();
        let mut known = BTreeSet::new();
        for _ in 0..reader.count(ObjectId::LEN + 1, "the count of repositories")? {
            let id = ObjectId::from_bytes(reader.array("a repository")?);
            known.insert(Sighting { id, is_encrypted: reader.u8("whether it is encrypted")? != 0 });
        }
        by_location.insert(location, known);
    }
    reader.finish()?;
    Ok(by_location)
}

#[cfg(test)]
mod tests {
    use onefold_backend::MemoryFolder;

    use super::*;

    const A: Sighting = Sighting { id: ObjectId::from_bytes([1; 16]), is_encrypted: true };
    const B: Sighting = Sighting { id: ObjectId::from_bytes([2; 16]), is_encrypted: true };

    fn ask(folder: &MemoryFolder, at: &str, found: Sighting) -> Result<bool, StoreError> {
        KnownRepositories::open(folder).unwrap().ensure_known(at.as_bytes(), found, None)
    }

    fn note(folder: &MemoryFolder, at: &str, found: Sighting) {
        KnownRepositories::open(folder).unwrap().note(at.as_bytes(), found).unwrap();
    }

    #[test]
    fn what_is_known_at_a_location_is_told_from_what_is_not() {
        let folder = MemoryFolder::new();
        assert!(ask(&folder, "/a", A).unwrap(), "the first is no surprise");
        note(&folder, "/a", A);
        assert!(!ask(&folder, "/a", A).unwrap());
        assert!(ask(&folder, "/b", B).unwrap());
        let error = ask(&folder, "/a", B).unwrap_err();
        assert!(matches!(&error, StoreError::OtherRepository { known, found, .. }
            if known[..] == [A] && *found == B));
        let known = KnownRepositories::open(&folder).unwrap();
        assert!(known.ensure_known(b"/a", B, Some(B.id)).unwrap());
        assert!(known.ensure_known(b"/a", B, Some(A.id)).is_err());
        drop(known);
        note(&folder, "/a", B);
        assert!(!ask(&folder, "/a", A).unwrap() && !ask(&folder, "/a", B).unwrap());
        let known = KnownRepositories::open(&folder).unwrap();
        assert_eq!(known.locations_of(B.id).collect::<Vec<_>>(), [b"/a"]);
    }

    #[test]
    fn a_repository_in_clear_with_the_id_of_the_encrypted_one_is_another() {
        let folder = MemoryFolder::new();
        note(&folder, "/a", A);
        let clear = Sighting { is_encrypted: false, ..A };
        assert!(matches!(ask(&folder, "/a", clear), Err(StoreError::OtherRepository { .. })));
    }

    #[test]
    fn what_was_encoded_decodes_and_damage_is_told() {
        let folder = MemoryFolder::new();
        note(&folder, "/a", A);
        note(&folder, "/b", B);
        let known = KnownRepositories::open(&folder).unwrap();
        let bytes = encode(&known.by_location);
        assert_eq!(decode(&bytes).unwrap(), known.by_location);
        drop(known);
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len]).is_err(), "{len} bytes were enough");
        }
        for name in folder.names().unwrap() {
            let mut log = folder.log(&name).unwrap();
            log.truncate(0).unwrap();
            log.append(b"what no client wrote").unwrap();
        }
        let lost = KnownRepositories::open(&folder).unwrap();
        assert!(lost.is_lost() && lost.by_location.is_empty());
    }
}
