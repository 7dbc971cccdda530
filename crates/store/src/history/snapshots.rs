//! Reading snapshots, from wherever there is a copy that counts.

use std::collections::HashSet;

use bytes::Bytes;
use onefold_backend::Objects;
use onefold_seal::ObjectId;

use crate::history::look::Found;
use crate::local::cache::Copied;
use crate::objects::bundle::Of;
use crate::objects::read::read_objects;
use crate::objects::receipt::{self, receipt_name};
use crate::objects::seen::Commit;
use crate::objects::snapshot::{self, MAX_LEN, snapshot_id, snapshot_name};
use crate::{Repository, Snapshot, StoreError};

impl Snapshot {
    /// Reads snapshot `id`; `None` if a fence is in its place, or it does not count.
    pub(crate) fn find(repository: &Repository, id: ObjectId) -> Result<Option<Self>, StoreError> {
        Self::look(repository, id).map(Found::into_snapshot)
    }

    /// What is in the place of snapshot `id`. Fails if a write-only client put it where somebody else
    /// had a snapshot.
    pub(crate) fn look(repository: &Repository, id: ObjectId) -> Result<Found, StoreError> {
        Self::in_its_place(repository, id, Self::look_alone(repository, id)?)
    }

    /// What was found in the place of snapshot `id`, unless a write-only client put it where somebody
    /// else had a snapshot.
    fn in_its_place(
        repository: &Repository,
        id: ObjectId,
        (found, client): (Found, Option<u32>),
    ) -> Result<Found, StoreError> {
        client.map_or(Ok(()), |client| repository.expect_own_place(id, client))?;
        Ok(found)
    }

    /// As [`find`](Self::find), for all that were listed with their lengths in bytes: from copies of
    /// the same length, or from the repository, many at a time. Each is handed to `take`.
    pub(crate) fn find_many(
        repository: &Repository,
        listed: &[(ObjectId, u64)],
        take: &mut dyn FnMut(ObjectId, Result<Option<Self>, StoreError>),
    ) -> Result<(), StoreError> {
        let wanted = Self::from_cache(repository, listed, take);
        Self::by_name(repository, &wanted, take)
    }

    /// The same, only to be shown: from bundles as well, if a copy has the length that was listed.
    /// Gives those of which only a copy in a bundle was read.
    pub(crate) fn show_many(
        repository: &Repository,
        listed: &[(ObjectId, u64)],
        take: &mut dyn FnMut(ObjectId, Result<Option<Self>, StoreError>),
    ) -> Result<HashSet<ObjectId>, StoreError> {
        let mut wanted = Self::from_cache(repository, listed, take);
        let mut copied = HashSet::new();
        if let Some(copies) = repository.copies(Of::Snapshots, wanted.len()) {
            wanted.retain(|(id, len)| {
                let copy = copies.get(id).filter(|copy| copy.len() as u64 == *len);
                match copy.map(|copy| Self::open_found(repository, *id, copy)) {
                    Some(Ok(Some(snapshot))) => {
                        copied.insert(*id);
                        take(*id, Ok(Some(snapshot)));
                        false
                    }
                    _ => true,
                }
            });
        }
        Self::by_name(repository, &wanted, take)?;
        Ok(copied)
    }

    /// The snapshot whose object is `bytes`; nothing if something else is in its place.
    fn open_found(
        repository: &Repository,
        id: ObjectId,
        bytes: &[u8],
    ) -> Result<Option<Self>, StoreError> {
        let found = Self::in_its_place(repository, id, Self::open(repository, id, bytes)?)?;
        Ok(found.into_snapshot())
    }

    /// Hands those of which this machine has copies to `take`, and gives the others.
    fn from_cache(
        repository: &Repository,
        listed: &[(ObjectId, u64)],
        take: &mut dyn FnMut(ObjectId, Result<Option<Self>, StoreError>),
    ) -> Vec<(ObjectId, u64)> {
        let cache = repository.cache();
        let mut wanted = Vec::new();
        for (id, len) in listed {
            let copy = |bytes: Bytes| Self::open_found(repository, *id, &bytes);
            match cache.and_then(|cache| cache.get(Copied::Snapshot(*id, *len), copy)) {
                Some(found) => take(*id, Ok(found)),
                None => wanted.push((*id, *len)),
            }
        }
        wanted
    }

    fn by_name(
        repository: &Repository,
        wanted: &[(ObjectId, u64)],
        take: &mut dyn FnMut(ObjectId, Result<Option<Self>, StoreError>),
    ) -> Result<(), StoreError> {
        let cache = repository.cache();
        let names = wanted.iter().map(|(id, _)| snapshot_name(*id));
        read_objects(&*repository.objects, names, MAX_LEN, &mut |at, read| {
            let (id, len) = wanted[at];
            let found = read.and_then(|bytes| {
                let found = Self::open_found(repository, id, &bytes)?;
                // What stands in a snapshot's place is asked for each time.
                if found.is_some() && bytes.len() as u64 == len {
                    cache.inspect(|cache| cache.keep(Copied::Snapshot(id, len), &bytes));
                }
                Ok(found)
            });
            take(id, found);
        })
    }

    /// As [`look`](Self::look), for all of `ids`, read together; each is handed to `take`.
    pub(crate) fn look_many(
        repository: &Repository,
        ids: &[ObjectId],
        take: &mut dyn FnMut(ObjectId, Result<Found, StoreError>),
    ) -> Result<(), StoreError> {
        let names: Vec<_> = ids.iter().map(|id| snapshot_name(*id)).collect();
        read_objects(&*repository.objects, names, MAX_LEN, &mut |at, read| {
            let id = ids[at];
            let found = read
                .and_then(|bytes| Self::open(repository, id, &bytes))
                .and_then(|found| Self::in_its_place(repository, id, found));
            take(id, found);
        })
    }
}

impl Repository {
    /// The ids that a listing shows of snapshots and of what stands in their place, with their lengths
    /// in bytes where there may be copies of that length, and 0 elsewhere.
    pub(crate) fn listed_snapshots(&self) -> Result<Vec<(ObjectId, u64)>, StoreError> {
        if self.cache().is_some() {
            return Ok(snapshot::ids(&self.objects.list(snapshot::PREFIX)?));
        }
        let names = self.objects.list_names(snapshot::PREFIX)?;
        Ok(names.iter().filter_map(|name| Some((snapshot_id(name)?, 0))).collect())
    }

    /// Fails if the snapshot `id`, which the write-only client `client` sealed, is by a log or a receipt
    /// somebody else's: then it was put in that one's place.
    pub(crate) fn expect_own_place(&self, id: ObjectId, client: u32) -> Result<(), StoreError> {
        let replaced = |by| Err(StoreError::Replaced { snapshot: id, client, by });
        match self.logged()?.commit(id) {
            Some(Commit { client: Some(by), .. }) if by == client => Ok(()),
            Some(Commit { at, client: Some(other) }) => {
                let by = at.name();
                Err(StoreError::Disputed { snapshot: id, client, by, other })
            }
            Some(Commit { at, client: None }) => replaced(at.name()),
            None => match receipt::read(&*self.objects, &self.envelope, id) {
                Ok(None) => replaced(receipt_name(id)),
                Err(error) if error.is_no_answer() => Err(error),
                // None is there as long as it is not acknowledged; anybody may put a bad one.
                Ok(Some(_)) | Err(_) => Ok(()),
            },
        }
    }
}
