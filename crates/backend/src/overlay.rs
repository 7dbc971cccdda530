//! A read-only local folder with all changes in memory.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::name::check_part;
use crate::{BackendError, Folder, LocalFolder, Log, LogReader, MountId, Pages, Syncer};

/// A folder that writes nothing to disk: neither bytes nor names nor new files.
///
/// An open log takes memory for appended bytes, open pages for all pages. Each file is locked against
/// writers while the overlay exists, but not against other readers. The overlay itself does not enforce one
/// owner per file: callers must open each file once.
#[derive(Debug)]
pub struct Overlay {
    below: LocalFolder,
    /// Files that were opened for writing, or removed (`None`), since this was created.
    files: Mutex<BTreeMap<String, Option<Shared>>>,
}

impl Overlay {
    /// An overlay over the folder at `root`, which must exist.
    pub fn open(root: &Path) -> Result<Self, BackendError> {
        Ok(Self { below: LocalFolder::open(root)?, files: Mutex::default() })
    }

    fn not_found(&self, name: &str) -> BackendError {
        let place = self.below.path().display().to_string();
        BackendError::NotFound { name: name.to_owned(), place }
    }

    fn file(&self, name: &str) -> Result<Shared, BackendError> {
        check_part(name)?;
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Some(file)) = files.get(name) {
            return Ok(file.clone());
        }
        let below = match files.contains_key(name) {
            // it was removed, and is created again
            true => None,
            false => match self.below.locked_reader(name) {
                Err(error) if error.is_not_found() => None,
                found => Some(found?),
            },
        };
        let file = Shared::new(name, below);
        files.insert(name.to_owned(), Some(file.clone()));
        Ok(file)
    }
}

impl Folder for Overlay {
    fn log(&self, name: &str) -> Result<Box<dyn Log + Sync>, BackendError> {
        Ok(Box::new(self.file(name)?))
    }

    fn reader(&self, name: &str) -> Result<Box<dyn LogReader>, BackendError> {
        check_part(name)?;
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        match files.get(name) {
            Some(Some(file)) => Ok(Box::new(file.clone())),
            Some(None) => Err(self.not_found(name)),
            None => self.below.reader(name),
        }
    }

    fn pages(&self, name: &str, page_size: usize) -> Result<Box<dyn Pages + Sync>, BackendError> {
        assert!(page_size > 0, "a page has at least one byte");
        let file = self.file(name)?;
        file.write(|content| content.lift(page_size))?;
        Ok(Box::new(OverlayPages { file, page_size }))
    }

    fn names(&self) -> Result<Vec<String>, BackendError> {
        let mut names = self.below.names()?;
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        names.retain(|name| !files.contains_key(name));
        let opened = files.iter().filter(|(_, file)| file.is_some());
        names.extend(opened.map(|(name, _)| name.clone()));
        names.sort_unstable();
        Ok(names)
    }

    fn remove(&self, name: &str) -> Result<(), BackendError> {
        check_part(name)?;
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.insert(name.to_owned(), None);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), BackendError> {
        check_part(from)?;
        check_part(to)?;
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match files.get(from) {
            Some(Some(file)) => file.clone(),
            Some(None) => return Err(self.not_found(from)),
            None => Shared::new(from, Some(self.below.locked_reader(from)?)),
        };
        file.write(|content| content.name = to.to_owned());
        files.insert(from.to_owned(), None);
        files.insert(to.to_owned(), Some(file));
        Ok(())
    }

    fn mount(&self) -> Option<MountId> {
        self.below.mount()
    }
}

/// A file that several handles may have.
#[derive(Clone)]
struct Shared(Arc<RwLock<Content>>);

/// The first bytes of a file below, followed by others.
struct Content {
    name: String,
    below: Option<Box<dyn LogReader>>,
    /// The number of valid bytes of the file below.
    kept: u64,
    above: Vec<u8>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.read(|content| write!(f, "'{}', {} bytes", content.name, content.len()))
    }
}

impl Content {
    fn len(&self) -> u64 {
        self.kept + self.above.len() as u64
    }

    fn inside(&self, range: Range<u64>) -> Result<(), BackendError> {
        if range.end <= self.len() {
            return Ok(());
        }
        Err(BackendError::OutOfRange { name: self.name.clone(), range, size: self.len() })
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
        self.inside(offset..offset.saturating_add(into.len() as u64))?;
        let of_below = self.kept.saturating_sub(offset).min(into.len() as u64) as usize;
        let (first, rest) = into.split_at_mut(of_below);
        if let Some(below) = &self.below
            && !first.is_empty()
        {
            below.read(offset, first)?;
        }
        let from = offset.saturating_sub(self.kept) as usize;
        rest.copy_from_slice(&self.above[from..from + rest.len()]);
        Ok(())
    }

    fn truncate(&mut self, len: u64) -> Result<(), BackendError> {
        self.inside(0..len)?;
        self.above.truncate(len.saturating_sub(self.kept) as usize);
        self.kept = self.kept.min(len);
        Ok(())
    }

    /// Holds all whole pages above, where they can be written over.
    fn lift(&mut self, page_size: usize) -> Result<(), BackendError> {
        let len = self.len() - self.len() % page_size as u64;
        let mut all = vec![0; len as usize];
        self.read(0, &mut all)?;
        (self.kept, self.above) = (0, all);
        Ok(())
    }
}

impl Shared {
    fn new(name: &str, below: Option<Box<dyn LogReader>>) -> Self {
        let kept = below.as_ref().map_or(0, |below| below.len());
        let content = Content { name: name.to_owned(), below, kept, above: Vec::new() };
        Self(Arc::new(RwLock::new(content)))
    }

    fn read<R>(&self, call: impl FnOnce(&Content) -> R) -> R {
        call(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<R>(&self, call: impl FnOnce(&mut Content) -> R) -> R {
        call(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl LogReader for Shared {
    fn len(&self) -> u64 {
        self.read(Content::len)
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
        Shared::read(self, |content| content.read(offset, into))
    }
}

impl Log for Shared {
    fn append(&mut self, bytes: &[u8]) -> Result<u64, BackendError> {
        Ok(self.write(|content| {
            let offset = content.len();
            content.above.extend_from_slice(bytes);
            offset
        }))
    }

    fn sync(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    fn truncate(&mut self, len: u64) -> Result<(), BackendError> {
        self.write(|content| content.truncate(len))
    }

    fn len(&self) -> u64 {
        self.read(Content::len)
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
        Shared::read(self, |content| content.read(offset, into))
    }

    fn syncer(&self) -> Arc<dyn Syncer> {
        Arc::new(Nothing)
    }
}

/// Syncs nothing.
struct Nothing;

impl Syncer for Nothing {
    fn sync(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

struct OverlayPages {
    file: Shared,
    page_size: usize,
}

impl OverlayPages {
    fn offset_of(&self, page: u64) -> u64 {
        page.saturating_mul(self.page_size as u64)
    }
}

impl Pages for OverlayPages {
    fn page_size(&self) -> usize {
        self.page_size
    }

    fn count(&self) -> u64 {
        self.file.read(Content::len) / self.page_size as u64
    }

    fn read(&self, page: u64, into: &mut [u8]) -> Result<(), BackendError> {
        assert_eq!(into.len(), self.page_size, "a page is read whole");
        self.file.read(|content| content.read(self.offset_of(page), into))
    }

    fn write(&mut self, page: u64, bytes: &[u8]) -> Result<(), BackendError> {
        assert_eq!(bytes.len(), self.page_size, "a page is written whole");
        let offset = self.offset_of(page);
        self.file.write(|content| {
            content.inside(offset..offset.saturating_add(bytes.len() as u64))?;
            content.above[offset as usize..][..bytes.len()].copy_from_slice(bytes);
            Ok(())
        })
    }

    fn set_count(&mut self, count: u64) -> Result<(), BackendError> {
        let len = self.offset_of(count) as usize;
        self.file.write(|content| content.above.resize(len, 0));
        Ok(())
    }

    fn sync(&mut self) -> Result<(), BackendError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_below_is_seen_through_changes_and_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        {
            let local = LocalFolder::open(folder.path()).unwrap();
            local.log("log").unwrap().append(b"abcdef").unwrap();
            local.log("gone").unwrap().append(b"x").unwrap();
        }
        let overlay = Overlay::open(folder.path()).unwrap();
        let mut log = overlay.log("log").unwrap();
        log.truncate(4).unwrap();
        assert_eq!(log.append(b"XY").unwrap(), 4);
        drop(log);
        let reader = overlay.reader("log").unwrap();
        let mut found = vec![0; reader.len() as usize];
        reader.read(0, &mut found).unwrap();
        assert_eq!(found, b"abcdXY");
        let mut found = [0; 2];
        reader.read(3, &mut found).unwrap();
        assert_eq!(&found, b"dX");
        overlay.remove("gone").unwrap();
        assert!(overlay.reader("gone").err().unwrap().is_not_found());
        overlay.log("new").unwrap().append(b"n").unwrap();
        assert_eq!(overlay.names().unwrap(), ["log", "new"]);
        assert!(overlay.log("gone").unwrap().is_empty());
        drop(overlay);
        let local = LocalFolder::open(folder.path()).unwrap();
        assert_eq!(local.names().unwrap(), ["gone", "log"]);
        assert_eq!(
            (local.reader("log").unwrap().len(), local.reader("gone").unwrap().len()),
            (6, 1)
        );
    }

    #[test]
    fn a_file_below_is_renamed_in_memory_alone() {
        let folder = tempfile::tempdir().unwrap();
        let local = LocalFolder::open(folder.path()).unwrap();
        local.log("old").unwrap().append(b"old").unwrap();
        local.log("new").unwrap().append(b"newer").unwrap();
        let overlay = Overlay::open(folder.path()).unwrap();
        overlay.rename("new", "old").unwrap();
        assert_eq!(overlay.names().unwrap(), ["old"]);
        assert_eq!(overlay.reader("old").unwrap().len(), 5);
        assert!(overlay.rename("new", "old").unwrap_err().is_not_found());
        drop(overlay);
        assert_eq!(local.names().unwrap(), ["new", "old"]);
        assert_eq!(local.reader("old").unwrap().len(), 3);
    }

    #[test]
    fn a_file_is_shared_with_readers_and_kept_from_writers() {
        let folder = tempfile::tempdir().unwrap();
        let local = LocalFolder::open(folder.path()).unwrap();
        drop(local.log("log").unwrap());
        let (one, other) =
            (Overlay::open(folder.path()).unwrap(), Overlay::open(folder.path()).unwrap());
        one.log("log").unwrap();
        other.log("log").unwrap();
        let in_use = |error| matches!(error, Some(BackendError::InUse { .. }));
        assert!(in_use(local.log("log").err()));
        drop((one, other));
        let owner = local.log("log").unwrap();
        let late = Overlay::open(folder.path()).unwrap();
        assert!(in_use(late.log("log").err()));
        drop(owner);
        late.log("log").unwrap();
    }
}
