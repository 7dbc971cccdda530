//! Which names and sizes volumes can have.

use onefold_block::BlockSize;

use crate::error::VolumeError;

/// No name of a volume is longer, in bytes.
pub(crate) const MAX_NAME: usize = 255;

/// No volume has more blocks: 1 PiB of 4 KiB blocks, an eighth of it with those of 512 bytes.
const MAX_BLOCKS: u64 = 1 << 38;

/// Fails if no volume can have this name.
pub(crate) fn check_name(name: &str) -> Result<(), VolumeError> {
    let refused = |expected| Err(VolumeError::BadName { name: name.to_owned(), expected });
    if name.is_empty() || name.len() > MAX_NAME {
        return refused("1 to 255 bytes");
    }
    if name.chars().any(char::is_control) {
        return refused("no control characters");
    }
    Ok(())
}

/// Fails if no volume with such blocks can have this size, in bytes.
pub(crate) fn check_size(size: u64, block_size: BlockSize) -> Result<(), VolumeError> {
    let bytes = u64::from(block_size.bytes());
    let most = MAX_BLOCKS * bytes;
    if size == 0 || !size.is_multiple_of(bytes) || size > most {
        let expected = format!("a multiple of {bytes}, from {bytes} to {most}");
        return Err(VolumeError::BadSize { size, expected });
    }
    Ok(())
}
