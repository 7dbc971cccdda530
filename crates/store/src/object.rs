//! Reading whole objects, their length bounded before memory is taken.

use bytes::Bytes;
use onefold_backend::Objects;

use crate::StoreError;

/// The bytes of object `name`, if it has no more than `max`.
pub(crate) fn read_object(
    objects: &dyn Objects,
    name: &str,
    max: u64,
) -> Result<Bytes, StoreError> {
    let len = objects.size(name)?;
    if len > max {
        return Err(StoreError::TooLong { object: name.to_owned(), len, max });
    }
    Ok(objects.get(name)?)
}
