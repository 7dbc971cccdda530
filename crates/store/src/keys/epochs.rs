//! Key epochs: reading their sealing keys, and beginning the next.

use onefold_backend::{BackendError, Objects};
use onefold_seal::wire::Reader;
use onefold_seal::{Envelope, Key, Keys, Kind, ObjectId};

use crate::objects::key::{EPOCHS, MAX_LEN, MAX_READ, epoch_name, epoch_number, epoch_object};
use crate::objects::read::{read_object, read_objects};
use crate::{Repository, StoreError};

impl Repository {
    /// Begins the next key epoch and gives its number.
    ///
    /// Whoever opens the repository from now on seals in it. This open repository goes on in the
    /// epoch it was opened in.
    pub fn rotate(&self) -> Result<u32, StoreError> {
        self.expect_keys()?;
        let latest = epochs(&*self.objects)?.last().copied().unwrap_or(0).max(self.epoch());
        // An epoch behind garbage would leave a gap when that is removed.
        if latest > self.epoch() {
            self.read_epoch(latest)?;
        }
        let epoch = latest.checked_add(1).ok_or(StoreError::LastEpoch)?;
        let id = epoch_object(epoch);
        let object = self.envelope.seal(Kind::Epoch, id, Key::random().as_bytes());
        match self.objects.put(&epoch_name(epoch), object.into()) {
            Ok(()) => Ok(epoch),
            Err(BackendError::AlreadyExists { .. }) => Err(StoreError::EpochTaken { epoch }),
            Err(error) => Err(error.into()),
        }
    }

    /// The sealing key of `epoch`, if it is there by now.
    pub(crate) fn read_epoch(&self, epoch: u32) -> Result<Key, StoreError> {
        read_epoch(&*self.objects, self.id(), self.expect_keys()?, epoch)
    }

    /// What `open` gives; if the object was sealed in a key epoch that began after this repository
    /// was opened, `open` is tried again with the key of that epoch.
    pub(crate) fn with_later_epoch<T>(
        &self,
        open: impl Fn(&Envelope) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let opened = open(&self.envelope);
        let Err(error) = &opened else { return opened };
        let (Some(epoch), Some(keys)) = (error.unknown_epoch(), self.envelope.keys()) else {
            return opened;
        };
        match self.read_epoch(epoch) {
            Ok(key) => {
                let mut keys = keys.clone();
                keys.add_epoch(epoch, key);
                open(&Envelope::encrypted(self.id(), keys))
            }
            Err(error) if error.is_no_answer() => Err(error),
            Err(_) => opened,
        }
    }

    /// Whether `error` says that something is not what was written, or is gone: not that it could
    /// not be reached, nor that it takes a later program or a key that was added meanwhile.
    pub(crate) fn is_damage(&self, error: &StoreError) -> bool {
        // Only a key that opens: anybody can put something in its place.
        let is_later = |epoch| match self.read_epoch(epoch) {
            Ok(_) => true,
            Err(error) => error.is_no_answer(),
        };
        !error.is_no_answer()
            && !error.is_unknown_version()
            && !error.unknown_epoch().is_some_and(is_later)
    }
}

/// The epochs that have an object, in order.
pub(crate) fn epochs(objects: &dyn Objects) -> Result<Vec<u32>, StoreError> {
    Ok(epoch_numbers(&objects.list_names(EPOCHS)?))
}

pub(crate) fn epoch_numbers(names: &[String]) -> Vec<u32> {
    names.iter().filter_map(|name| epoch_number(name)).collect()
}

/// The sealing keys of those epochs that were `found`, in order; those that cannot be read with the
/// reason.
#[expect(clippy::type_complexity, reason = "a number and a result")]
pub(crate) fn read_epochs(
    objects: &dyn Objects,
    repository: ObjectId,
    keys: &Keys,
    mut found: Vec<u32>,
) -> Result<Vec<(u32, Result<Key, StoreError>)>, StoreError> {
    found.truncate(MAX_READ);
    let mut read = Vec::new();
    let names = found.iter().map(|epoch| epoch_name(*epoch));
    read_objects(objects, names, MAX_LEN, &mut |at, object| {
        let opened = object.and_then(|bytes| open_epoch(repository, keys, found[at], &bytes));
        read.push((found[at], opened));
    })?;
    read.sort_unstable_by_key(|(epoch, _)| *epoch);
    Ok(read)
}

fn read_epoch(
    objects: &dyn Objects,
    repository: ObjectId,
    keys: &Keys,
    epoch: u32,
) -> Result<Key, StoreError> {
    let bytes = read_object(objects, &epoch_name(epoch), MAX_LEN)?;
    open_epoch(repository, keys, epoch, &bytes)
}

/// The sealing key that the object `bytes` of `epoch` holds.
fn open_epoch(
    repository: ObjectId,
    keys: &Keys,
    epoch: u32,
    bytes: &[u8],
) -> Result<Key, StoreError> {
    let object = epoch_name(epoch);
    let body = Envelope::encrypted(repository, keys.clone())
        .open(Kind::Epoch, epoch_object(epoch), bytes)
        .map_err(|source| StoreError::Envelope { object: object.clone(), source })?;
    let mut reader = Reader::new(&body);
    let key = reader.array("a sealing key").and_then(|key| reader.finish().map(|()| key));
    Ok(Key::new(key.map_err(|source| StoreError::Malformed { object, source })?))
}
