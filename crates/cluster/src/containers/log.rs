//! A container that this gateway fills, and one that is read.
//!
//! Appends wait in memory until a sync, or until [`WAITING`] bytes wait, and are sent as one write at the end
//! of the container. Those that find no room wait on. Each write ends at a multiple of the pool's alignment; so pages may be followed by unused
//! bytes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use onefold_backend::rados::{RadosError, Refusal};
use onefold_backend::{BackendError, Log, LogReader, Operation, Syncer};
use onefold_volume::SharedLog;

use super::container::Containers;
use crate::folder::WAITING;
use crate::hints::ContainerName;

/// A container that this gateway fills.
pub(super) struct ContainerLog(Arc<Inner>);

struct Inner {
    containers: Containers,
    name: ContainerName,
    tail: Mutex<Tail>,
    /// Held while bytes are sent, so that they arrive in order.
    sending: Mutex<()>,
}

/// What the object does not have yet.
#[derive(Default)]
struct Tail {
    /// The length of the object.
    sent: u64,
    /// Bytes that are in flight.
    leaving: Bytes,
    /// Bytes after those.
    waiting: Vec<u8>,
    /// The directory after those, once there is one.
    directory: Option<Bytes>,
    is_sealed: bool,
    is_poisoned: bool,
}

impl Tail {
    /// Where the pages end.
    fn end(&self) -> u64 {
        self.sent + (self.leaving.len() + self.waiting.len()) as u64
    }

    fn len(&self) -> u64 {
        let directory = self.directory.as_ref().filter(|_| !self.is_sealed);
        self.end() + directory.map_or(0, Bytes::len) as u64
    }

    /// Lets the pages end at a multiple of `alignment`.
    fn pad(&mut self, alignment: u64) {
        let missing = self.end().next_multiple_of(alignment) - self.end();
        self.waiting.resize(self.waiting.len() + missing as usize, 0);
    }
}

impl ContainerLog {
    /// Container `name`, which was just made.
    pub(super) fn new(containers: Containers, name: ContainerName) -> Self {
        let (tail, sending) = (Mutex::default(), Mutex::default());
        Self(Arc::new(Inner { containers, name, tail, sending }))
    }
}

impl Inner {
    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ensure_sound(&self, tail: &Tail, operation: Operation) -> Result<(), BackendError> {
        if tail.is_poisoned {
            let (name, place) = (self.containers.object(&self.name), self.containers.place());
            return Err(BackendError::Poisoned { name, operation, place });
        }
        Ok(())
    }

    /// Sends all that was appended before this call.
    fn send(&self) -> Result<(), BackendError> {
        let _sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        let (leaving, at, directory) = {
            let mut tail = self.tail();
            self.ensure_sound(&tail, Operation::Sync)?;
            tail.pad(self.containers.alignment());
            tail.leaving = std::mem::take(&mut tail.waiting).into();
            let directory = tail.directory.clone().filter(|_| !tail.is_sealed);
            (tail.leaving.clone(), tail.sent, directory)
        };
        let sent = self.send_pages(at, leaving).and_then(|end| match directory {
            Some(directory) => self.send_directory(end, &directory),
            None => Ok(()),
        });
        sent.map_err(|error| {
            let mut tail = self.tail();
            if error.refusal() == Some(Refusal::Full) {
                // nothing was written: what was to leave waits again
                let mut waiting = Vec::from(std::mem::take(&mut tail.leaving));
                waiting.append(&mut tail.waiting);
                tail.waiting = waiting;
                return self.containers.backend(&self.name, Operation::Append, error);
            }
            tail.is_poisoned = true;
            self.containers.backend(&self.name, Operation::Sync, error)
        })
    }

    fn send_pages(&self, at: u64, pages: Bytes) -> Result<u64, RadosError> {
        if pages.is_empty() {
            return Ok(at);
        }
        let end = self.containers.write(&self.name, at, pages)?;
        let mut tail = self.tail();
        (tail.sent, tail.leaving) = (end, Bytes::new());
        Ok(end)
    }

    fn send_directory(&self, end: u64, directory: &Bytes) -> Result<(), RadosError> {
        let found = self.containers.seal(&self.name, &|_| directory.to_vec())?;
        if found.sealed != Some(end) {
            // a successor sealed it as it was then
            return Err(self.containers.refused(&self.name, Refusal::Guard));
        }
        let mut tail = self.tail();
        (tail.sent, tail.is_sealed) = (found.length, true);
        Ok(())
    }
}

impl Log for ContainerLog {
    fn append(&mut self, bytes: &[u8]) -> Result<u64, BackendError> {
        let max = self.0.containers.max_len();
        let is_much = {
            let tail = self.0.tail();
            self.0.ensure_sound(&tail, Operation::Append)?;
            let size = tail.len() + bytes.len() as u64;
            if size > max || tail.directory.is_some() {
                let name = self.0.containers.object(&self.0.name);
                return Err(BackendError::TooLong { name, size, max });
            }
            tail.waiting.len() >= WAITING
        };
        if is_much {
            self.0.send()?;
        }
        let mut tail = self.0.tail();
        let offset = tail.end();
        tail.waiting.extend_from_slice(bytes);
        Ok(offset)
    }

    fn sync(&mut self) -> Result<(), BackendError> {
        self.0.send()
    }

    fn truncate(&mut self, len: u64) -> Result<(), BackendError> {
        if len == self.len() {
            return Ok(());
        }
        let why = "a container that shards share is never cut";
        let (name, place) = (self.0.containers.object(&self.0.name), self.0.containers.place());
        Err(BackendError::Io { name, operation: Operation::Resize, place, source: why.into() })
    }

    fn len(&self) -> u64 {
        self.0.tail().len()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
        let end = offset.saturating_add(into.len() as u64);
        let from_object = {
            let tail = self.0.tail();
            if end > tail.len() {
                let name = self.0.containers.object(&self.0.name);
                return Err(BackendError::OutOfRange {
                    name,
                    range: offset..end,
                    size: tail.len(),
                });
            }
            let directory = tail.directory.as_ref().filter(|_| !tail.is_sealed);
            // what the object has, what is in flight, what waits, and what is to be last
            let parts = [
                (tail.sent, &tail.leaving[..]),
                (tail.sent + tail.leaving.len() as u64, &tail.waiting),
                (tail.end(), directory.map_or(&[], |bytes| bytes)),
            ];
            for (begin, bytes) in parts {
                let from = offset.max(begin);
                let to = end.min(begin + bytes.len() as u64);
                if from < to {
                    into[(from - offset) as usize..(to - offset) as usize]
                        .copy_from_slice(&bytes[(from - begin) as usize..(to - begin) as usize]);
                }
            }
            tail.sent.min(end).saturating_sub(offset) as usize
        };
        self.0.containers.read_into(&self.0.name, offset, &mut into[..from_object])
    }

    fn syncer(&self) -> Arc<dyn Syncer> {
        Arc::clone(&self.0) as Arc<dyn Syncer>
    }
}

impl SharedLog for ContainerLog {
    fn end(&mut self, directory: &dyn Fn(u64) -> Vec<u8>) -> Result<(), BackendError> {
        let mut tail = self.0.tail();
        self.0.ensure_sound(&tail, Operation::Append)?;
        tail.pad(self.0.containers.alignment());
        tail.directory = Some(directory(tail.end()).into());
        Ok(())
    }
}

impl Syncer for Inner {
    fn sync(&self) -> Result<(), BackendError> {
        self.send()
    }
}

/// A container of any shard, to be read.
pub(super) struct ContainerReader {
    pub(super) containers: Containers,
    pub(super) name: ContainerName,
    /// In bytes, when it was opened.
    pub(super) len: u64,
}

impl LogReader for ContainerReader {
    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
        let end = offset.saturating_add(into.len() as u64);
        if end > self.len {
            let name = self.containers.object(&self.name);
            return Err(BackendError::OutOfRange { name, range: offset..end, size: self.len });
        }
        self.containers.read_into(&self.name, offset, into)
    }
}
