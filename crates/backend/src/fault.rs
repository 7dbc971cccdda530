//! Storage with injected faults.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::{
    BackendError, Folder, Log, LogReader, MountId, ObjectInfo, Objects, Operation, Pages, Reserved,
    Syncer,
};

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failure {
    /// A permanent [`BackendError::Io`], as from a broken disk.
    Io,
    /// [`BackendError::Io`] that [may be retried](BackendError::may_retry).
    Timeout,
    /// [`BackendError::Full`].
    Full,
    /// [`BackendError::NotFound`].
    NotFound,
    /// No error, but one bit of the read bytes is flipped. Calls that do not read fail with
    /// [`Io`](Self::Io).
    Damaged,
}

/// Flips a bit of `bytes`.
fn damage(bytes: &mut [u8]) {
    let middle = bytes.len() / 2;
    if let Some(byte) = bytes.get_mut(middle) {
        *byte ^= 4;
    }
}

/// Selects calls that fail, and how.
///
/// A fault from [`new`](Self::new) fails the next call, of any operation, without executing it.
#[derive(Clone, Debug)]
pub struct Fault {
    failure: Failure,
    operation: Option<Operation>,
    name_part: String,
    skip: u64,
    times: u64,
    answer_lost: bool,
}

impl Fault {
    /// A fault that fails the next call.
    pub fn new(failure: Failure) -> Self {
        Self {
            failure,
            operation: None,
            name_part: String::new(),
            skip: 0,
            times: 1,
            answer_lost: false,
        }
    }

    /// Counts calls of this operation only.
    pub fn on(self, operation: Operation) -> Self {
        Self { operation: Some(operation), ..self }
    }

    /// Counts only calls whose object, log or pages have `part` in their name.
    pub fn named(self, part: &str) -> Self {
        Self { name_part: part.to_owned(), ..self }
    }

    /// Lets `calls` of the counted calls succeed first.
    pub fn skip(self, calls: u64) -> Self {
        Self { skip: calls, ..self }
    }

    /// Fails `times` of the counted calls; `u64::MAX` means all.
    pub fn times(self, times: u64) -> Self {
        Self { times, ..self }
    }

    /// Executes the call and then fails, as if the answer was lost. A log guarantees that a failed append
    /// has not happened, so appends are not executed.
    pub fn answer_lost(self) -> Self {
        Self { answer_lost: true, ..self }
    }

    fn counts(&self, operation: Operation, name: &str) -> bool {
        self.times > 0
            && self.operation.is_none_or(|wanted| wanted == operation)
            && name.contains(&self.name_part)
    }
}

/// The faults of any number of [`Faulty`] wrappers, and a count of their calls; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Mutex<Plan>>);

#[derive(Debug, Default)]
struct Plan {
    faults: Vec<Fault>,
    calls: BTreeMap<Operation, u64>,
    failed: u64,
}

impl Faults {
    /// No faults yet.
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds a fault. If several apply to a call, the first one fails it, but all count it.
    pub fn add(&self, fault: Fault) {
        self.lock().faults.push(fault);
    }

    /// The number of calls, including failed ones.
    pub fn operations(&self) -> u64 {
        self.lock().calls.values().sum()
    }

    /// The number of calls of one operation.
    pub fn count(&self, operation: Operation) -> u64 {
        self.lock().calls.get(&operation).copied().unwrap_or(0)
    }

    /// The number of calls that were made to fail.
    pub fn failed(&self) -> u64 {
        self.lock().failed
    }

    /// Counts a call. Returns its failure, if any, and whether the call is executed before it fails.
    fn count_call(&self, operation: Operation, name: &str) -> Option<(Failure, bool)> {
        let mut plan = self.lock();
        *plan.calls.entry(operation).or_default() += 1;
        let mut drawn = None;
        for fault in plan.faults.iter_mut().filter(|fault| fault.counts(operation, name)) {
            if fault.skip > 0 {
                fault.skip -= 1;
            } else if drawn.is_none() {
                fault.times -= 1;
                drawn = Some((fault.failure, fault.answer_lost));
            }
        }
        plan.failed += u64::from(drawn.is_some());
        drawn
    }

    fn lock(&self) -> MutexGuard<'_, Plan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// [`Objects`], a [`Log`], [`Pages`] or a [`Folder`] of them, some of whose calls fail.
///
/// A failed sync, truncation or removal of pages poisons a log or pages, as it does a local one.
#[derive(Debug)]
pub struct Faulty<T> {
    inner: T,
    label: String,
    faults: Faults,
    /// Shared with its syncer.
    poisoned: Arc<AtomicBool>,
}

impl<T> Faulty<T> {
    /// Wraps `inner`. `label` is the name of a log or pages, and the location in errors.
    pub fn new(inner: T, label: &str, faults: &Faults) -> Self {
        Self { inner, label: label.to_owned(), faults: faults.clone(), poisoned: Arc::default() }
    }

    /// Something else of the same file.
    fn of<U>(&self, inner: U) -> Faulty<U> {
        let Self { label, faults, poisoned, .. } = self;
        let (label, faults, poisoned) = (label.clone(), faults.clone(), Arc::clone(poisoned));
        Faulty { inner, label, faults, poisoned }
    }

    /// The wrapped storage.
    pub fn into_inner(self) -> T {
        self.inner
    }

    fn on_object<R>(
        &self,
        operation: Operation,
        name: &str,
        call: impl FnOnce(&T) -> Result<R, BackendError>,
    ) -> Result<R, BackendError> {
        match self.faults.count_call(operation, name) {
            None => call(&self.inner),
            Some((failure, answer_lost)) => {
                if answer_lost {
                    call(&self.inner)?;
                }
                Err(self.error(failure, operation, name))
            }
        }
    }

    /// A read of bytes into memory of the caller's.
    fn read_into(
        &self,
        into: &mut [u8],
        call: impl FnOnce(&T, &mut [u8]) -> Result<(), BackendError>,
    ) -> Result<(), BackendError> {
        self.check(Operation::Read)?;
        let drawn = self.faults.count_call(Operation::Read, &self.label);
        if drawn.is_none_or(|(failure, answer_lost)| answer_lost || failure == Failure::Damaged) {
            call(&self.inner, into)?;
        }
        match drawn {
            None => Ok(()),
            Some((Failure::Damaged, _)) => {
                damage(into);
                Ok(())
            }
            Some((failure, _)) => Err(self.error(failure, Operation::Read, &self.label)),
        }
    }

    /// A read of an object.
    fn read_object(
        &self,
        name: &str,
        call: impl FnOnce(&T) -> Result<Bytes, BackendError>,
    ) -> Result<Bytes, BackendError> {
        let drawn = self.faults.count_call(Operation::Get, name);
        let read = match drawn {
            Some((failure, false)) if failure != Failure::Damaged => {
                return Err(self.error(failure, Operation::Get, name));
            }
            _ => call(&self.inner)?,
        };
        match drawn {
            None => Ok(read),
            Some((Failure::Damaged, _)) => {
                let mut bytes = read.to_vec();
                damage(&mut bytes);
                Ok(bytes.into())
            }
            Some((failure, _)) => Err(self.error(failure, Operation::Get, name)),
        }
    }

    fn on_file<R>(
        &mut self,
        operation: Operation,
        call: impl FnOnce(&mut T) -> Result<R, BackendError>,
    ) -> Result<R, BackendError> {
        self.check(operation)?;
        let Some((failure, answer_lost)) = self.faults.count_call(operation, &self.label) else {
            return call(&mut self.inner);
        };
        if answer_lost && operation != Operation::Append {
            call(&mut self.inner)?;
        }
        if matches!(operation, Operation::Sync | Operation::Resize) {
            self.poisoned.store(true, Ordering::SeqCst);
        }
        Err(self.error(failure, operation, &self.label))
    }

    fn check(&self, operation: Operation) -> Result<(), BackendError> {
        if !self.poisoned.load(Ordering::SeqCst) {
            return Ok(());
        }
        let (name, place) = (self.label.clone(), self.label.clone());
        Err(BackendError::Poisoned { name, operation, place })
    }

    fn error(&self, failure: Failure, operation: Operation, name: &str) -> BackendError {
        let kind = match failure {
            Failure::Io | Failure::Damaged => io::ErrorKind::Other,
            Failure::Timeout => io::ErrorKind::TimedOut,
            Failure::Full => io::ErrorKind::StorageFull,
            Failure::NotFound => {
                return BackendError::NotFound { name: name.to_owned(), place: self.label.clone() };
            }
        };
        let cause = io::Error::new(kind, "an injected fault");
        BackendError::from_cause(operation, name, &self.label, cause)
    }
}

impl<T: Objects> Objects for Faulty<T> {
    fn put(&self, name: &str, bytes: Bytes) -> Result<(), BackendError> {
        self.on_object(Operation::Put, name, |inner| inner.put(name, bytes))
    }

    fn get(&self, name: &str) -> Result<Bytes, BackendError> {
        self.read_object(name, |inner| inner.get(name))
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> Result<Bytes, BackendError> {
        self.read_object(name, |inner| inner.get_range(name, range))
    }

    fn size(&self, name: &str) -> Result<u64, BackendError> {
        self.on_object(Operation::Size, name, |inner| inner.size(name))
    }

    fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, BackendError> {
        self.on_object(Operation::List, prefix, |inner| inner.list(prefix))
    }

    fn list_names(&self, prefix: &str) -> Result<Vec<String>, BackendError> {
        self.on_object(Operation::List, prefix, |inner| inner.list_names(prefix))
    }

    fn delete(&self, name: &str) -> Result<(), BackendError> {
        self.on_object(Operation::Delete, name, |inner| inner.delete(name))
    }

    fn settle(&self) -> Result<(), BackendError> {
        self.inner.settle()
    }
}

impl<T: Log> Log for Faulty<T> {
    fn append(&mut self, bytes: &[u8]) -> Result<u64, BackendError> {
        self.on_file(Operation::Append, |inner| inner.append(bytes))
    }

    fn sync(&mut self) -> Result<(), BackendError> {
        self.on_file(Operation::Sync, |inner| inner.sync())
    }

    fn truncate(&mut self, len: u64) -> Result<(), BackendError> {
        self.on_file(Operation::Resize, |inner| inner.truncate(len))
    }

    fn reserve(&mut self, bytes: u64) -> Reserved {
        self.inner.reserve(bytes)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
        self.read_into(into, |inner, into| inner.read(offset, into))
    }

    fn syncer(&self) -> Arc<dyn Syncer> {
        Arc::new(self.of(self.inner.syncer()))
    }
}

impl Syncer for Faulty<Arc<dyn Syncer>> {
    fn sync(&self) -> Result<(), BackendError> {
        self.of(Arc::clone(&self.inner)).on_file(Operation::Sync, |inner| inner.sync())
    }
}

impl LogReader for Faulty<Box<dyn LogReader>> {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
        self.read_into(into, |inner, into| inner.read(offset, into))
    }
}

impl<T: Pages> Pages for Faulty<T> {
    fn page_size(&self) -> usize {
        self.inner.page_size()
    }

    fn count(&self) -> u64 {
        self.inner.count()
    }

    fn read(&self, page: u64, into: &mut [u8]) -> Result<(), BackendError> {
        self.read_into(into, |inner, into| inner.read(page, into))
    }

    fn write(&mut self, page: u64, bytes: &[u8]) -> Result<(), BackendError> {
        self.on_file(Operation::Write, |inner| inner.write(page, bytes))
    }

    fn set_count(&mut self, count: u64) -> Result<(), BackendError> {
        self.on_file(Operation::Resize, |inner| inner.set_count(count))
    }

    fn sync(&mut self) -> Result<(), BackendError> {
        self.on_file(Operation::Sync, |inner| inner.sync())
    }
}

impl<T: Folder> Folder for Faulty<T> {
    fn log(&self, name: &str) -> Result<Box<dyn Log + Sync>, BackendError> {
        let log = self.on_object(Operation::Open, name, |inner| inner.log(name))?;
        Ok(Box::new(Faulty::new(log, name, &self.faults)))
    }

    fn reader(&self, name: &str) -> Result<Box<dyn LogReader>, BackendError> {
        let reader = self.on_object(Operation::Open, name, |inner| inner.reader(name))?;
        Ok(Box::new(Faulty::new(reader, name, &self.faults)))
    }

    fn pages(&self, name: &str, page_size: usize) -> Result<Box<dyn Pages + Sync>, BackendError> {
        let pages = self.on_object(Operation::Open, name, |inner| inner.pages(name, page_size))?;
        Ok(Box::new(Faulty::new(pages, name, &self.faults)))
    }

    fn names(&self) -> Result<Vec<String>, BackendError> {
        self.on_object(Operation::List, "", |inner| inner.names())
    }

    fn remove(&self, name: &str) -> Result<(), BackendError> {
        self.on_object(Operation::Delete, name, |inner| inner.remove(name))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), BackendError> {
        self.on_object(Operation::Rename, from, |inner| inner.rename(from, to))
    }

    fn free_bytes(&self) -> Option<u64> {
        self.inner.free_bytes()
    }

    fn mount(&self) -> Option<MountId> {
        self.inner.mount()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryLog, MemoryObjects, MemoryPages};

    #[test]
    fn faults_choose_by_operation_name_and_count() {
        let faults = Faults::none();
        let objects = Faulty::new(MemoryObjects::new(), "memory", &faults);
        faults.add(Fault::new(Failure::Io).on(Operation::Put).named("b/").skip(1).times(2));
        assert!(objects.put("a/1", Bytes::new()).is_ok(), "another name");
        assert!(objects.put("b/1", Bytes::new()).is_ok(), "skipped");
        assert!(objects.get("b/1").is_ok(), "another operation");
        assert!(objects.put("b/2", Bytes::new()).is_err());
        assert!(objects.put("b/2", Bytes::new()).is_err());
        assert!(objects.put("b/2", Bytes::new()).is_ok(), "exhausted");
        assert_eq!((faults.operations(), faults.count(Operation::Put)), (6, 5));
        assert_eq!(faults.failed(), 2);
    }

    #[test]
    fn failures_are_told_apart() {
        let faults = Faults::none();
        let objects = Faulty::new(MemoryObjects::new(), "memory", &faults);
        for failure in [Failure::Full, Failure::NotFound, Failure::Timeout, Failure::Io] {
            faults.add(Fault::new(failure));
        }
        assert!(objects.size("a").unwrap_err().is_full());
        assert!(objects.size("a").unwrap_err().is_not_found());
        assert!(objects.size("a").unwrap_err().may_retry());
        assert!(!objects.size("a").unwrap_err().may_retry());
    }

    #[test]
    fn what_is_read_damaged_differs_in_one_bit_and_once() {
        let faults = Faults::none();
        let objects = Faulty::new(MemoryObjects::new(), "memory", &faults);
        let mut pages = Faulty::new(MemoryPages::new(8), "pages", &faults);
        objects.put("a", "12345678".into()).unwrap();
        pages.set_count(1).unwrap();
        pages.write(0, b"12345678").unwrap();
        faults.add(Fault::new(Failure::Damaged).on(Operation::Get));
        faults.add(Fault::new(Failure::Damaged).on(Operation::Read));
        let mut page = [0; 8];
        for expected in [b"12341678", b"12345678"] {
            assert_eq!(&objects.get("a").unwrap()[..], expected);
            pages.read(0, &mut page).unwrap();
            assert_eq!(&page, expected);
        }
        assert_eq!(faults.failed(), 2);
    }

    #[test]
    fn a_put_whose_answer_was_lost_may_be_repeated() {
        let faults = Faults::none();
        let objects = Faulty::new(MemoryObjects::new(), "memory", &faults);
        faults.add(Fault::new(Failure::Timeout).answer_lost());
        assert!(objects.put("a", "1".into()).is_err());
        assert_eq!(objects.get("a").unwrap(), "1");
        objects.put("a", "1".into()).unwrap();
    }

    #[test]
    fn a_failed_append_leaves_the_length() {
        let faults = Faults::none();
        let mut log = Faulty::new(MemoryLog::new(), "journal", &faults);
        faults.add(Fault::new(Failure::Full).on(Operation::Append).answer_lost());
        assert!(log.append(b"abc").unwrap_err().is_full());
        assert_eq!(log.len(), 0);
        assert_eq!(log.append(b"abc").unwrap(), 0);
    }

    #[test]
    fn a_failed_sync_poisons() {
        let faults = Faults::none();
        let mut log = Faulty::new(MemoryLog::new(), "journal", &faults);
        let mut pages = Faulty::new(MemoryPages::new(4), "table", &faults);
        faults.add(Fault::new(Failure::Io).on(Operation::Sync).times(2));
        assert!(log.sync().is_err() && pages.sync().is_err());
        assert!(matches!(log.append(b"a"), Err(BackendError::Poisoned { .. })));
        assert!(matches!(log.sync(), Err(BackendError::Poisoned { .. })));
        assert!(matches!(log.syncer().sync(), Err(BackendError::Poisoned { .. })));
        assert!(matches!(pages.set_count(1), Err(BackendError::Poisoned { .. })));
        assert!(matches!(pages.read(0, &mut [0; 4]), Err(BackendError::Poisoned { .. })));
    }

    #[test]
    fn a_sync_that_failed_from_beside_poisons_the_handle() {
        let faults = Faults::none();
        let mut log = Faulty::new(MemoryLog::new(), "journal", &faults);
        faults.add(Fault::new(Failure::Io).on(Operation::Sync));
        assert!(log.syncer().sync().is_err());
        assert!(matches!(log.append(b"a"), Err(BackendError::Poisoned { .. })));
    }
}
