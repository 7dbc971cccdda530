//! What the footer of a container that shards share says, read without a pool.

use std::ops::Range;

use onefold_backend::BackendError;
use onefold_container::Directory;
use onefold_fingerprint::Fingerprint;
use onefold_seal::Envelope;

use crate::containers::entry::{PageEntry, entries};
use crate::containers::files::without_padding;
use crate::containers::located::short;
use crate::error::VolumeError;
use crate::ids::{SharedName, container_id};
use crate::sharing::PageHint;

/// The pages of container `name`, which is sealed and has `len` bytes, of which `read` reads ranges: those that
/// its footer lists, in the order in which they were stored.
///
/// # Errors
/// If the footer cannot be read or is damaged.
pub fn pages_of_footer(
    name: SharedName,
    len: u64,
    read: impl Fn(Range<u64>) -> Result<Vec<u8>, BackendError>,
) -> Result<Vec<(Fingerprint, PageHint)>, VolumeError> {
    let id = container_id(name.number as u32);
    let directory = Directory::read_by(&Envelope::plain(name.shard), id, len, read)?;
    let hint = |entry: PageEntry| {
        let (offset, stored_len) = (entry.offset, entry.stored_len);
        let check = short(entry.check.as_bytes());
        (entry.fingerprint, PageHint { container: name, offset, stored_len, check })
    };
    let pages = entries(&without_padding(directory)).into_iter();
    Ok(pages.filter(|entry| entry.is_within()).map(hint).collect())
}
