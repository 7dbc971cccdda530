//! The objects of a shard's files, and who may change them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use onefold_backend::rados::{Answer, Query, RadosError, RadosPool, Refusal, Step, Update};
use onefold_backend::{BackendError, Cause, LogReader, Operation};
use onefold_seal::ObjectId;

/// Attribute: the number of the one writer whose updates are taken.
const WRITER: &str = "writer";
/// Attribute: how often appends and truncations have changed the object. No count comes twice, so that one
/// that arrives late is refused.
const CHANGES: &str = "changes";

/// What names of containers begin with.
const CONTAINER: &str = "container-";
/// The file by which a pool keeps room for what gives room back. It has no bytes: where appends to it are
/// refused, the pool of the engine is full, and while it is spent containers may grow all the same.
pub(super) const RESERVE: &str = "reserve";

/// How often an update is sent whose answer was lost, or which another client's came before.
const TRIES: u32 = 16;

/// The files of a shard for one writer.
pub(super) struct Files {
    pub(super) pool: Arc<dyn RadosPool>,
    shard: ObjectId,
    writer: u64,
    open: Mutex<BTreeMap<String, Weak<Held>>>,
    /// Whether containers may grow in a full pool.
    is_reserve_spent: Arc<AtomicBool>,
}

/// A file while a handle of it is open.
pub(super) struct Held {
    files: Arc<Files>,
    name: String,
    is_doomed: AtomicBool,
    /// The handle that appends, of which readers see what was not sent yet.
    log: Mutex<Option<Weak<dyn LogReader>>>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.is_doomed.load(Ordering::Acquire) {
            // if it fails the file is left over, and the next opening of the shard removes it
            let _ = self.files.remove_now(&self.name);
        }
    }
}

/// What a file was at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    writer: u64,
    changes: u64,
    version: u64,
    /// In bytes.
    pub(super) length: u64,
}

impl Found {
    /// How often it has changed.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }
}

/// What to do with an update that was not simply applied.
enum Next {
    /// It was applied.
    Done,
    /// It was not, and may be sent again.
    Again,
}

fn number(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

/// The count of a new file: one that no file of the name that was removed has had.
fn first_change() -> u64 {
    let random = ObjectId::random();
    let half = random.as_bytes().first_chunk().expect("it has 16 bytes");
    u64::from_be_bytes(*half) >> 1
}

/// Fails unless `name` may be the name of a file.
pub(super) fn is_ours(name: &str) -> Result<(), BackendError> {
    let is_fine =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    if name.is_empty() || name.len() > 200 || !name.bytes().all(is_fine) {
        let reason = "expected 1 to 200 of a-z, 0-9, '.', '_' and '-'";
        return Err(BackendError::BadName { name: name.to_owned(), reason });
    }
    Ok(())
}

impl Files {
    /// Takes the next writer's number.
    pub(super) fn take(pool: Arc<dyn RadosPool>, shard: ObjectId) -> Result<Self, BackendError> {
        let (open, is_reserve_spent) = (Mutex::default(), Arc::default());
        let mut files = Self { pool, shard, writer: 0, open, is_reserve_spent };
        let object = format!("{shard}.files");
        let begun = Instant::now();
        let mut last = None;
        for _ in 0..TRIES {
            // an unanswered update counts for nothing: the next number is higher
            let found = files.find(&object)?;
            let update = match found {
                None => Update::creating().set(WRITER, number(1)),
                Some(found) => Update::existing()
                    .expect(WRITER, number(found.writer))
                    .set(WRITER, number(found.writer + 1)),
            };
            match files.pool.update(&object, update.even_if_full()) {
                Ok(_) => {
                    files.writer = found.map_or(0, |found| found.writer) + 1;
                    return Ok(files);
                }
                Err(error) => match error.refusal() {
                    Some(Refusal::Exists | Refusal::Guard | Refusal::Absent) | None => {
                        last = Some(error)
                    }
                    Some(_) => return Err(files.backend(&object, Operation::Open, error)),
                },
            }
        }
        Err(files.unreachable(last, begun.elapsed()))
    }

    /// Whether the reserve is spent.
    pub(super) fn reserve_spent(&self) -> &Arc<AtomicBool> {
        &self.is_reserve_spent
    }

    /// Lets containers grow in a full pool, or not any more.
    pub(super) fn set_reserve_spent(&self, is_spent: bool) {
        self.is_reserve_spent.store(is_spent, Ordering::Release);
    }

    /// Whether file `name` may grow in a full pool: all may but containers and the reserve. So a write of new
    /// pages is refused there, and what the shard needs to be taken over, and to give room back, is not.
    fn grows_if_full(&self, name: &str) -> bool {
        match name {
            RESERVE => false,
            name if name.starts_with(CONTAINER) => self.is_reserve_spent.load(Ordering::Acquire),
            _ => true,
        }
    }

    /// The object of file `name`.
    pub(super) fn object(&self, name: &str) -> String {
        format!("{}.file.{name}", self.shard)
    }

    fn place(&self) -> String {
        format!("pool {}", self.pool.kind().name)
    }

    pub(super) fn failed(&self, name: &str, operation: Operation, source: Cause) -> BackendError {
        BackendError::Io { name: name.to_owned(), operation, place: self.place(), source }
    }

    /// The error of an operation on file `name` that the pool refused or did not answer.
    pub(super) fn backend(
        &self,
        name: &str,
        operation: Operation,
        error: RadosError,
    ) -> BackendError {
        let (name, place) = (name.to_owned(), self.place());
        match error.refusal() {
            Some(Refusal::Absent) => BackendError::NotFound { name, place },
            Some(Refusal::Full) => {
                BackendError::Full { name, operation, place, source: error.into() }
            }
            Some(Refusal::Fenced) => BackendError::InUse { name, place },
            _ => BackendError::Io { name, operation, place, source: error.into() },
        }
    }

    fn unreachable(&self, last: Option<RadosError>, tried: Duration) -> BackendError {
        let source = match last {
            Some(error) => self.backend("", Operation::Write, error),
            None => self.failed("", Operation::Write, "other clients came before each time".into()),
        };
        BackendError::Unreachable { place: self.place(), tried, source: Arc::new(source) }
    }

    /// The error of a file that is not there.
    pub(super) fn missing(&self, name: &str) -> BackendError {
        BackendError::NotFound { name: name.to_owned(), place: self.place() }
    }

    pub(super) fn in_use(&self, name: &str) -> BackendError {
        BackendError::InUse { name: name.to_owned(), place: self.place() }
    }

    /// What `query` gets, asked again while there is no answer; none if the object is absent.
    fn query(&self, object: &str, query: &Query) -> Result<Option<Answer>, BackendError> {
        let (begun, mut last) = (Instant::now(), None);
        for _ in 0..TRIES {
            match self.pool.query(object, query) {
                Ok(answer) => return Ok(Some(answer)),
                Err(error) => match error.refusal() {
                    Some(Refusal::Absent) => return Ok(None),
                    Some(_) => return Err(self.backend(object, Operation::Read, error)),
                    None => last = Some(error),
                },
            }
        }
        Err(self.unreachable(last, begun.elapsed()))
    }

    /// The names of all files, sorted, those that are about to be removed excepted.
    pub(super) fn names(&self) -> Result<Vec<String>, BackendError> {
        let (prefix, begun, mut last) = (self.object(""), Instant::now(), None);
        for _ in 0..TRIES {
            let mut names = Vec::new();
            let listed = self.pool.list(&mut |object| {
                names.extend(object.strip_prefix(&prefix).map(str::to_owned));
                ControlFlow::Continue(())
            });
            match listed {
                Ok(()) => {
                    names.retain(|name| !self.is_doomed(name));
                    names.sort_unstable();
                    return Ok(names);
                }
                Err(error) if error.refusal().is_some() => {
                    return Err(self.backend("", Operation::List, error));
                }
                Err(error) => last = Some(error),
            }
        }
        Err(self.unreachable(last, begun.elapsed()))
    }

    /// What the object is now; none if it is absent.
    fn find(&self, object: &str) -> Result<Option<Found>, BackendError> {
        let query = Query { xattrs: true, ..Query::default() };
        let Some(answer) = self.query(object, &query)? else { return Ok(None) };
        let of = |name: &str| match answer.xattrs.get(name) {
            Some(value) => <[u8; 8]>::try_from(&value[..]).map(u64::from_be_bytes).map_err(|_| {
                let problem = format!("attribute '{name}' has {} bytes, expected 8", value.len());
                self.failed(object, Operation::Read, problem.into())
            }),
            None => Ok(0),
        };
        let (version, length) = (answer.version, answer.length);
        Ok(Some(Found { writer: of(WRITER)?, changes: of(CHANGES)?, version, length }))
    }

    /// What file `name` is now; none if there is none.
    pub(super) fn found(&self, name: &str) -> Result<Option<Found>, BackendError> {
        self.find(&self.object(name))
    }

    /// Sends `update` of file `name` until it is known to be applied once. `next` is asked when it was
    /// refused by a guard or because of a lost answer was sent before: it looks at what is there.
    fn once(
        &self,
        name: &str,
        operation: Operation,
        mut update: impl FnMut() -> Update,
        mut next: impl FnMut(Option<Found>) -> Result<Next, BackendError>,
    ) -> Result<(), BackendError> {
        let (object, begun, mut last) = (self.object(name), Instant::now(), None);
        for _ in 0..TRIES {
            let mut update = update();
            if self.grows_if_full(name) {
                update = update.even_if_full();
            }
            match self.pool.update(&object, update) {
                Ok(_) => return Ok(()),
                Err(error) => match error.refusal() {
                    // an earlier try may yet be applied: it is not known that nothing was
                    Some(Refusal::Full) if last.is_some() => {
                        return Err(self.unreachable(Some(error), begun.elapsed()));
                    }
                    Some(Refusal::Guard | Refusal::Exists | Refusal::Absent) | None => {
                        last = Some(error)
                    }
                    Some(_) => return Err(self.backend(name, operation, error)),
                },
            }
            match next(self.find(&object)?)? {
                Next::Done => return Ok(()),
                Next::Again => {}
            }
        }
        Err(self.unreachable(last, begun.elapsed()))
    }

    /// Makes file `name` this writer's, and makes it if it is not there.
    pub(super) fn own(&self, name: &str) -> Result<Found, BackendError> {
        loop {
            let before = self.found(name)?;
            match before {
                Some(found) if found.writer == self.writer => return Ok(found),
                Some(found) if found.writer > self.writer => return Err(self.in_use(name)),
                _ => {}
            }
            let update = || match before {
                None => Update::creating()
                    .set(WRITER, number(self.writer))
                    .set(CHANGES, number(first_change())),
                Some(found) => Update::existing()
                    .expect(WRITER, number(found.writer))
                    .then(Step::Version(found.version))
                    .set(WRITER, number(self.writer)),
            };
            // it is looked at again whatever came of it
            self.once(name, Operation::Open, update, |now| match now == before {
                true => Ok(Next::Again),
                false => Ok(Next::Done),
            })?;
        }
    }

    /// Changes file `name`, which this writer owns, as the change after so many. Returns how many there are
    /// then.
    pub(super) fn change(
        &self,
        name: &str,
        operation: Operation,
        changes: u64,
        steps: &[Step],
    ) -> Result<u64, BackendError> {
        let update = || {
            let update = Update::existing()
                .expect(WRITER, number(self.writer))
                .expect(CHANGES, number(changes))
                .set(CHANGES, number(changes + 1));
            steps.iter().cloned().fold(update, Update::then)
        };
        self.once(name, operation, update, |now| match now {
            None => Err(self.missing(name)),
            Some(now) if now.writer != self.writer => Err(self.in_use(name)),
            Some(now) if now.changes == changes + 1 => Ok(Next::Done),
            Some(now) if now.changes == changes => Ok(Next::Again),
            Some(now) => {
                let problem = format!("it changed {} times, expected {changes}", now.changes);
                Err(self.failed(name, operation, problem.into()))
            }
        })?;
        Ok(changes + 1)
    }

    /// Gives file `name` these bytes, in place of all that it had.
    pub(super) fn replace(&self, name: &str, bytes: Vec<u8>) -> Result<(), BackendError> {
        let steps = [Step::Truncate(0), Step::Append(bytes.into())];
        self.change(name, Operation::Rename, self.own(name)?.changes(), &steps).map(|_| ())
    }

    /// Removes file `name` now or, if a handle of it is open, when the last one is dropped.
    pub(super) fn remove(&self, name: &str) -> Result<(), BackendError> {
        if let Some(held) = self.open().get(name).and_then(Weak::upgrade) {
            held.is_doomed.store(true, Ordering::Release);
            return Ok(());
        }
        self.remove_now(name)
    }

    fn remove_now(&self, name: &str) -> Result<(), BackendError> {
        let Some(found) = self.found(name)? else { return Ok(()) };
        if found.writer > self.writer {
            return Err(self.in_use(name));
        }
        let update = || Update::existing().then(Step::Version(found.version)).then(Step::Remove);
        self.once(name, Operation::Delete, update, |now| match now {
            None => Ok(Next::Done),
            Some(now) if now == found => Ok(Next::Again),
            Some(_) => Err(self.in_use(name)),
        })
    }

    /// Whether file `name` is removed as soon as nobody has it open.
    fn is_doomed(&self, name: &str) -> bool {
        let held = self.open().get(name).and_then(Weak::upgrade);
        held.is_some_and(|held| held.is_doomed.load(Ordering::Acquire))
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<String, Weak<Held>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets file `name` stay until what is returned is dropped.
    pub(super) fn hold(self: &Arc<Self>, name: &str) -> Result<Arc<Held>, BackendError> {
        let mut open = self.open();
        open.retain(|_, held| held.strong_count() > 0);
        if let Some(held) = open.get(name).and_then(Weak::upgrade) {
            if held.is_doomed.load(Ordering::Acquire) {
                return Err(self.in_use(name));
            }
            return Ok(held);
        }
        let (files, name_here) = (Arc::clone(self), name.to_owned());
        let (is_doomed, log) = (AtomicBool::new(false), Mutex::default());
        let held = Arc::new(Held { files, name: name_here, is_doomed, log });
        open.insert(name.to_owned(), Arc::downgrade(&held));
        Ok(held)
    }
}

impl Held {
    /// The handle that appends, if there is one.
    pub(super) fn log(&self) -> Option<Arc<dyn LogReader>> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.as_ref().and_then(Weak::upgrade)
    }

    /// Lets `log` be the handle that appends.
    pub(super) fn set_log(&self, log: Weak<dyn LogReader>) {
        *self.log.lock().unwrap_or_else(PoisonError::into_inner) = Some(log);
    }

    pub(super) fn files(&self) -> &Files {
        &self.files
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Fills `into` with the bytes from `offset` on, which the object has.
    pub(super) fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
        let range = offset..offset + into.len() as u64;
        if range.is_empty() {
            return Ok(());
        }
        let query = Query { range: Some(range.clone()), ..Query::default() };
        let answer = self.files.query(&self.files.object(&self.name), &query)?;
        let answer = answer.ok_or_else(|| self.files.missing(&self.name))?;
        if answer.bytes.len() != into.len() {
            let (name, size) = (self.name.clone(), answer.length);
            return Err(BackendError::OutOfRange { name, range, size });
        }
        into.copy_from_slice(&answer.bytes);
        Ok(())
    }
}
