//! Files whose content can be read from beginning to end.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::FileTypeExt;

/// Fails unless what looks like `metadata` holds bytes that can be read from begin to end.
pub(crate) fn expect_contents(metadata: &Metadata) -> io::Result<()> {
    match metadata.is_file() || metadata.file_type().is_block_device() {
        true => Ok(()),
        false => Err(io::Error::other("it is neither a block device nor a regular file")),
    }
}
