//! What the footer of a sealed container says.

use std::ops::Range;

use onefold_fingerprint::Fingerprint;
use onefold_volume::{PageHint, VolumeError, pages_of_footer};

use super::container::Containers;
use super::shared::shared_name;
use crate::hints::{ContainerName, Hint};

impl Containers {
    /// The pages of container `name`, which is sealed and has `length` bytes, in the order in which they were
    /// stored. Only its footer is read.
    ///
    /// # Errors
    /// If the footer cannot be read or is damaged.
    pub fn pages(
        &self,
        name: &ContainerName,
        length: u64,
    ) -> Result<Vec<(Fingerprint, Hint)>, VolumeError> {
        let read = |range: Range<u64>| {
            let mut bytes = vec![0; (range.end - range.start) as usize];
            self.read_into(name, range.start, &mut bytes).map(|()| bytes)
        };
        let hint = |(fingerprint, hint): (Fingerprint, PageHint)| {
            let PageHint { offset, stored_len, check, .. } = hint;
            (fingerprint, Hint { container: *name, offset, stored_len, check })
        };
        let pages = pages_of_footer(shared_name(name), length, read)?;
        Ok(pages.into_iter().map(hint).collect())
    }
}
