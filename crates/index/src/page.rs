//! Checksummed pages.

use onefold_backend::Pages;
use onefold_seal::{CHECK_LEN, Check, ObjectId};

use crate::IndexError;

/// Bytes in a page.
pub(crate) const PAGE: usize = 4096;

/// Bytes of a page that its check covers; the check comes last.
pub(crate) const BODY: usize = PAGE - CHECK_LEN;

/// A file of pages, each of which ends in a check over its bytes and its position.
///
/// So a damaged page, or a page of another file or an earlier index, is always detected.
pub(crate) struct Sealed {
    file: Box<dyn Pages + Sync>,
    index: ObjectId,
    name: String,
}

impl Sealed {
    /// The pages of `file`, which is named `name` in the index named `index`.
    pub(crate) fn new(file: Box<dyn Pages + Sync>, index: ObjectId, name: String) -> Self {
        Self { file, index, name }
    }

    /// The number of pages.
    pub(crate) fn count(&self) -> u64 {
        self.file.count()
    }

    /// Fills `into` with the pages from `first` on, and verifies each.
    pub(crate) fn read(&self, first: u64, into: &mut [u8]) -> Result<(), IndexError> {
        self.file.read_many(first, into).map_err(IndexError::Local)?;
        for (page, bytes) in (first..).zip(into.chunks_exact(PAGE)) {
            let (body, check) = bytes.split_at(BODY);
            if self.check(page, body).as_bytes() != check {
                return Err(IndexError::DamagedPage { file: self.name.clone(), page });
            }
        }
        Ok(())
    }

    /// Writes a page, whose last bytes become its check; the file grows if necessary.
    pub(crate) fn write(&mut self, page: u64, bytes: &mut [u8; PAGE]) -> Result<(), IndexError> {
        if page >= self.file.count() {
            self.file.set_count(page + AHEAD).map_err(IndexError::Local)?;
        }
        let (body, check) = bytes.split_at_mut(BODY);
        check.copy_from_slice(self.check(page, body).as_bytes());
        self.file.write(page, bytes).map_err(IndexError::Local)
    }

    /// Removes all pages after the first `count`.
    pub(crate) fn cut(&mut self, count: u64) -> Result<(), IndexError> {
        match count < self.file.count() {
            true => self.file.set_count(count).map_err(IndexError::Local),
            false => Ok(()),
        }
    }

    /// Makes all writes durable.
    pub(crate) fn sync(&mut self) -> Result<(), IndexError> {
        self.file.sync().map_err(IndexError::Local)
    }

    fn check(&self, page: u64, body: &[u8]) -> Check {
        Check::of(&[self.index.as_bytes(), self.name.as_bytes(), &page.to_le_bytes(), body])
    }
}

/// The number of pages by which a file grows.
const AHEAD: u64 = 64;

/// The integer in `bytes` from `at` on.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

/// The integer in `bytes` from `at` on.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// The integer in `bytes` from `at` on.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
