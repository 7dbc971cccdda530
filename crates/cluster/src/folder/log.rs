//! A file that is appended to, and one that is read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use onefold_backend::rados::Step;
use onefold_backend::{BackendError, Log, LogReader, Operation, Reserved, Syncer};

use super::WAITING;
use super::objects::{Files, Held, RESERVE};

/// A file of which this process is the writer.
pub(super) struct RadosLog(Arc<Inner>);

struct Inner {
    held: Arc<Held>,
    tail: Mutex<Tail>,
    /// Held while bytes are sent, so that they arrive in order.
    sending: Mutex<()>,
}

/// What the object does not have yet.
#[derive(Default)]
struct Tail {
    /// The length of the object.
    sent: u64,
    /// How often it has changed.
    changes: u64,
    /// Bytes that are on their way.
    leaving: Bytes,
    /// Bytes behind those.
    waiting: Vec<u8>,
    is_poisoned: bool,
}

impl Tail {
    fn len(&self) -> u64 {
        self.sent + (self.leaving.len() + self.waiting.len()) as u64
    }
}

impl RadosLog {
    pub(super) fn open(files: &Arc<Files>, name: &str) -> Result<Self, BackendError> {
        let held = files.hold(name)?;
        if held.log().is_some() {
            return Err(files.in_use(name));
        }
        let found = files.own(name)?;
        let (sent, changes) = (found.length, found.changes());
        let tail = Mutex::new(Tail { sent, changes, ..Tail::default() });
        let inner = Arc::new(Inner { held, tail, sending: Mutex::default() });
        let shared: Arc<dyn LogReader> = Arc::<Inner>::clone(&inner);
        inner.held.set_log(Arc::downgrade(&shared));
        Ok(Self(inner))
    }
}

impl Inner {
    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ensure_sound(&self, tail: &Tail, operation: Operation) -> Result<(), BackendError> {
        if tail.is_poisoned {
            let name = self.held.name().to_owned();
            let place = format!("pool {}", self.held.files().pool.kind().name);
            return Err(BackendError::Poisoned { name, operation, place });
        }
        Ok(())
    }

    /// Sends all that was appended before this call.
    fn send(&self) -> Result<(), BackendError> {
        let _sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        let leaving = {
            let mut tail = self.tail();
            self.ensure_sound(&tail, Operation::Sync)?;
            tail.leaving = std::mem::take(&mut tail.waiting).into();
            tail.leaving.clone()
        };
        if leaving.is_empty() {
            return Ok(());
        }
        // a refused append loses nothing, unlike a sync that failed
        self.change(Operation::Append, &[Step::Append(leaving)], |tail| {
            tail.sent += tail.leaving.len() as u64;
            tail.leaving = Bytes::new();
        })
    }

    /// Changes the object, then lets `then` record its new state. The caller must hold `sending` or own the log.
    fn change(
        &self,
        operation: Operation,
        steps: &[Step],
        then: impl FnOnce(&mut Tail),
    ) -> Result<(), BackendError> {
        let changes = self.tail().changes;
        let done = self.held.files().change(self.held.name(), operation, changes, steps);
        let mut tail = self.tail();
        match done {
            Ok(changes) => {
                tail.changes = changes;
                then(&mut tail);
                Ok(())
            }
            Err(error) if error.is_full() => {
                // it was refused, so nothing changed: what was to leave waits again
                let mut waiting = Vec::from(std::mem::take(&mut tail.leaving));
                waiting.append(&mut tail.waiting);
                tail.waiting = waiting;
                Err(error)
            }
            Err(error) => {
                tail.is_poisoned = true;
                Err(error)
            }
        }
    }
}

impl Log for RadosLog {
    fn append(&mut self, bytes: &[u8]) -> Result<u64, BackendError> {
        let max = self.0.held.files().pool.kind().max_object;
        let is_much = {
            let tail = self.0.tail();
            self.0.ensure_sound(&tail, Operation::Append)?;
            let size = tail.len() + bytes.len() as u64;
            if size > max {
                return Err(BackendError::TooLong {
                    name: self.0.held.name().to_owned(),
                    size,
                    max,
                });
            }
            tail.waiting.len() >= WAITING
        };
        if is_much {
            self.0.send()?;
        }
        let mut tail = self.0.tail();
        let offset = tail.len();
        tail.waiting.extend_from_slice(bytes);
        Ok(offset)
    }

    fn sync(&mut self) -> Result<(), BackendError> {
        self.0.send()
    }

    fn truncate(&mut self, len: u64) -> Result<(), BackendError> {
        let before = self.len();
        if len > before {
            let name = self.0.held.name().to_owned();
            return Err(BackendError::OutOfRange { name, range: 0..len, size: before });
        }
        {
            let mut tail = self.0.tail();
            self.0.ensure_sound(&tail, Operation::Resize)?;
            // a syncer may be sending; what waits behind is cut here
            let kept = len.saturating_sub(tail.sent + tail.leaving.len() as u64);
            tail.waiting.truncate(kept as usize);
        }
        self.0.send()?;
        if len == self.0.tail().sent {
            return Ok(());
        }
        self.0.change(Operation::Resize, &[Step::Truncate(len)], |tail| tail.sent = len)
    }

    fn reserve(&mut self, bytes: u64) -> Reserved {
        let files = self.0.held.files();
        if self.0.held.name() != RESERVE {
            return Reserved::Never;
        }
        if bytes == 0 {
            files.set_reserve_spent(true);
            return Reserved::Never;
        }
        // the engine keeps no room, and says whether there is some
        let probe = self.0.change(Operation::Append, &[Step::Append("\0".into())], |_| ());
        let cut =
            probe.and_then(|()| self.0.change(Operation::Resize, &[Step::Truncate(0)], |_| ()));
        match cut {
            Ok(()) => {
                files.set_reserve_spent(false);
                Reserved::Kept
            }
            Err(error) if error.is_full() => Reserved::Full,
            Err(_) => Reserved::Never,
        }
    }

    fn len(&self) -> u64 {
        self.0.tail().len()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
        LogReader::read(&*self.0, offset, into)
    }

    fn syncer(&self) -> Arc<dyn Syncer> {
        Arc::clone(&self.0) as Arc<dyn Syncer>
    }
}

impl LogReader for Inner {
    fn len(&self) -> u64 {
        self.tail().len()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
        let end = offset.saturating_add(into.len() as u64);
        let from_object = {
            let tail = self.tail();
            if end > tail.len() {
                let name = self.held.name().to_owned();
                return Err(BackendError::OutOfRange {
                    name,
                    range: offset..end,
                    size: tail.len(),
                });
            }
            // what the object has, what is on its way, and what waits
            let parts = [
                (tail.sent, &tail.leaving[..]),
                (tail.sent + tail.leaving.len() as u64, &tail.waiting),
            ];
            for (begin, bytes) in parts {
                let from = offset.max(begin);
                let to = end.min(begin + bytes.len() as u64);
                if from < to {
                    into[(from - offset) as usize..(to - offset) as usize]
                        .copy_from_slice(&bytes[(from - begin) as usize..(to - begin) as usize]);
                }
            }
            (tail.sent.min(end).saturating_sub(offset)) as usize
        };
        self.held.read(offset, &mut into[..from_object])
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // who opens the file again may expect these bytes, but nobody was promised them
        let _ = self.send();
        if self.held.name() == RESERVE {
            // without a reserve nothing is spent
            self.held.files().set_reserve_spent(false);
        }
    }
}

impl Syncer for Inner {
    fn sync(&self) -> Result<(), BackendError> {
        self.send()
    }
}

/// A file to read.
pub(super) enum RadosReader {
    /// One that is also appended to here.
    Growing(Arc<dyn LogReader>),
    Still {
        held: Arc<Held>,
        /// In bytes, when it was opened.
        len: u64,
    },
}

impl RadosReader {
    pub(super) fn open(files: &Arc<Files>, name: &str) -> Result<Self, BackendError> {
        let held = files.hold(name)?;
        if let Some(log) = held.log() {
            return Ok(Self::Growing(log));
        }
        match files.found(name)? {
            Some(found) => Ok(Self::Still { held, len: found.length }),
            None => Err(files.missing(name)),
        }
    }
}

impl LogReader for RadosReader {
    fn len(&self) -> u64 {
        match self {
            Self::Growing(log) => log.len(),
            Self::Still { len, .. } => *len,
        }
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
        let (held, size) = match self {
            Self::Growing(log) => return log.read(offset, into),
            Self::Still { held, len } => (held, *len),
        };
        let end = offset.saturating_add(into.len() as u64);
        if end > size {
            let name = held.name().to_owned();
            return Err(BackendError::OutOfRange { name, range: offset..end, size });
        }
        held.read(offset, into)
    }
}
