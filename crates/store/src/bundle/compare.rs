//! Whether the copies of a bundle are what they are copies of.

use std::collections::HashSet;

use onefold_seal::ObjectId;

use super::{Held, Listed, MAX_LEN, open};
use crate::object::{read_object, read_objects};
use crate::{Repository, StoreError};

/// What the copies of a bundle are, held against their originals.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    /// Copies that are right.
    pub(crate) right: Held,
    /// Originals that are gone.
    pub(crate) gone: Vec<ObjectId>,
    /// Originals that are there and are not what was copied.
    pub(crate) different: Vec<ObjectId>,
}

impl Comparison {
    pub(crate) fn is_right(&self) -> bool {
        self.gone.is_empty() && self.different.is_empty()
    }
}

/// Reads the bundle and the originals of all its copies that are `there`.
///
/// # Errors
/// Why the bundle cannot be read, or an outage. An original that cannot be read for another reason is
/// taken for different.
pub(crate) fn compare(
    repository: &Repository,
    bundle: &Listed,
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
            Ok(_) | Err(_) => comparison.different.push(*id),
        }
    })?;
    Ok(comparison)
}
