//! What records and footers say of pages in containers.

use onefold_block::BlockSize;
use onefold_container::{Codec, Directory, GroupEntry};
use onefold_fingerprint::Fingerprint;
use onefold_seal::Check;

/// No page is longer, stored or not, in bytes: it is a block, and one that does not shrink is stored
/// as it is.
pub(crate) const MAX_PAGE: u32 = BlockSize::B4096.bytes();

/// The most pages of a container: it gets its footer then, however short they are.
pub(crate) const MOST_PAGES: u32 = 1 << 19;

/// A page in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageEntry {
    pub(crate) offset: u32,
    /// Bytes that it takes in the container.
    pub(crate) stored_len: u32,
    /// Bytes of the page.
    pub(crate) len: u32,
    pub(crate) codec: Codec,
    /// Over the stored bytes.
    pub(crate) check: Check,
    pub(crate) fingerprint: Fingerprint,
}

impl PageEntry {
    /// A page that is a group of its own.
    pub(crate) fn new(group: &GroupEntry, fingerprint: Fingerprint) -> Self {
        let GroupEntry { offset, stored_len, len, codec, check } = *group;
        Self { offset: offset as u32, stored_len, len, codec, check, fingerprint }
    }

    /// Whether it begins where pages may begin.
    pub(crate) fn is_within(&self) -> bool {
        self.offset < 1 << 30
    }

    /// The group that it is in its container.
    pub(crate) fn group(&self) -> GroupEntry {
        let Self { offset, stored_len, len, codec, check, .. } = *self;
        GroupEntry { offset: offset.into(), stored_len, len, codec, check }
    }
}

/// What a checkpoint says of a container.
#[derive(Debug, Clone, Default)]
pub(crate) struct ContainerImage {
    pub(crate) is_sealed: bool,
    /// Of a container without a footer.
    pub(crate) pages: Vec<PageEntry>,
}

impl ContainerImage {
    /// The byte behind the last page.
    pub(crate) fn end(&self) -> u64 {
        self.pages.last().map_or(0, |last| u64::from(last.offset) + u64::from(last.stored_len))
    }
}

/// What a footer says of the page in `slot`, if it has one there that is a group of its own.
pub(crate) fn entry(directory: &Directory, slot: u32) -> Option<PageEntry> {
    let group = directory.groups.get(slot as usize)?;
    let chunk = directory.chunks.get(slot as usize).filter(|chunk| chunk.group == slot)?;
    (chunk.len == group.len).then(|| PageEntry::new(group, chunk.fingerprint))
}

/// What a footer says of all pages.
pub(crate) fn entries(directory: &Directory) -> Vec<PageEntry> {
    let pages = directory.groups.iter().zip(&directory.chunks);
    pages.map(|(group, chunk)| PageEntry::new(group, chunk.fingerprint)).collect()
}
