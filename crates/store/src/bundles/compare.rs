//! Whether the copies of a bundle are what they are copies of.

use std::collections::HashSet;

use onefold_seal::ObjectId;

use super::open::open;
use crate::objects::bundle::{Held, ListedBundle, MAX_LEN, Of};
use crate::objects::read::{read_object, read_objects};
use crate::{Repository, StoreError};

/// What the copies of a bundle are, held against their originals.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    /// Copies that are right.
    pub(crate) right: Held,
    /// Originals that are gone.
    pub(crate) gone: Vec<ObjectId>,
    /// Originals that are whole and are not what was copied.
    pub(crate) different: Vec<ObjectId>,
    /// Originals that cannot be read now, or are damaged: the copy may be all that is left of them.
    pub(crate) unread: Vec<ObjectId>,
}

impl Comparison {
    pub(crate) fn is_right(&self) -> bool {
        self.gone.is_empty() && self.different.is_empty() && self.unread.is_empty()
    }
}

/// Reads the bundle and the originals of all its copies that are `there`.
///
/// # Errors
/// Why the bundle cannot be read, or an outage.
pub(crate) fn compare(
    repository: &Repository,
    bundle: &ListedBundle,
    there: &HashSet<ObjectId>,
) -> Result<Comparison, StoreError> {
    let bytes = read_object(&*repository.objects, &bundle.name(), MAX_LEN)?;
    let copies = open(repository, bundle, &bytes)?;
    let mut comparison = Comparison::default();
    let (listed, gone): (Vec<_>, Vec<_>) =
        copies.into_iter().partition(|(id, _)| there.contains(id));
    comparison.gone.extend(gone.into_iter().map(|(id, _)| id));
    let names = listed.iter().map(|(id, _)| bundle.of.name(*id));
    read_objects(&*repository.objects, names, MAX_LEN, &mut |at, read| {
        let (id, copy) = &listed[at];
        match read {
            Ok(original) if original == *copy => comparison.right.push((*id, original)),
            Err(error) if error.is_not_found() => comparison.gone.push(*id),
            Ok(original) if is_whole(repository, bundle.of, *id, &original) => {
                comparison.different.push(*id);
            }
            Ok(_) | Err(_) => comparison.unread.push(*id),
        }
    })?;
    Ok(comparison)
}

fn is_whole(repository: &Repository, of: Of, id: ObjectId, original: &[u8]) -> bool {
    let opened = repository.with_later_epoch(|envelope| {
        envelope
            .open(of.original_kind(), id, original)
            .map(drop)
            .map_err(|source| StoreError::Envelope { object: of.name(id), source })
    });
    opened.is_ok()
}
