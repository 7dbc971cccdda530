//! What a client remembers of a repository's logs, in a folder of its own.
//!
//! It is written whole into one of two logs in turn, so that a crash leaves the one before. Nothing
//! that contradicts it is ever remembered: the contradiction would not be seen again.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use onefold_backend::{BackendError, Folder, Log};
use onefold_seal::wire::{Put, Reader};
use onefold_seal::{CHECK_LEN, Check, ObjectId};

use crate::check::Finding;
use crate::history::{Contradictions, Seen};
use crate::log::At;
use crate::repository::describe;
use crate::seeded::{self, Bug};
use crate::{Repository, StoreError};

const NAMES: [&str; 2] = ["seen-1", "seen-2"];

/// More than this was not written by a client.
const MAX_LEN: u64 = 64 << 20;

/// So often it is tried to have a memory that another process has.
const TRIES: u32 = 100;
/// So long is waited in between.
const PAUSE: Duration = Duration::from_millis(50);

/// The memory of one repository, held by one process at a time.
struct Memory {
    repository: ObjectId,
    logs: [Box<dyn Log + Sync>; 2],
    /// Which of the two was written last, and for the how manieth time.
    newest: Option<(usize, u64)>,
    seen: Seen,
}

impl Memory {
    fn open(folder: &dyn Folder, repository: ObjectId) -> Result<Self, BackendError> {
        let first = patiently(|| folder.log(NAMES[0]))?;
        let logs = [first, patiently(|| folder.log(NAMES[1]))?];
        let mut memory = Self { repository, logs, newest: None, seen: Seen::default() };
        for number in 0..2 {
            let Some((generation, seen)) = memory.read(number)? else { continue };
            if memory.newest.is_none_or(|(_, newest)| generation > newest) {
                memory.newest = Some((number, generation));
                memory.seen = seen;
            }
        }
        Ok(memory)
    }

    /// Whether there was something that nobody can read.
    fn is_lost(&self) -> bool {
        self.newest.is_none() && self.logs.iter().any(|log| !log.is_empty())
    }

    fn read(&self, number: usize) -> Result<Option<(u64, Seen)>, BackendError> {
        let log = &self.logs[number];
        if log.len() > MAX_LEN {
            return Ok(None);
        }
        let mut bytes = vec![0; log.len() as usize];
        log.read(0, &mut bytes)?;
        Ok(self.decode(&bytes))
    }

    fn decode(&self, bytes: &[u8]) -> Option<(u64, Seen)> {
        let (covered, check) = bytes.split_last_chunk::<CHECK_LEN>()?;
        Check::from_bytes(*check).verify(&[covered]).ok()?;
        let mut reader = Reader::new(covered);
        if reader.array("a repository").ok()? != *self.repository.as_bytes() {
            return None;
        }
        let generation = reader.u64("a number").ok()?;
        let seen = reader.take(reader.remaining(), "what was seen").ok()?;
        Some((generation, Seen::decode(seen).ok()?))
    }

    /// Remembers `seen` from now on; durable when this returns.
    fn keep(&mut self, seen: &Seen) -> Result<(), BackendError> {
        let (number, generation) = match self.newest {
            None => (0, 0),
            Some((newest, generation)) => (1 - newest, generation + 1),
        };
        let number = match seeded::active(Bug::MemoryOverwritten) {
            false => number,
            true => self.newest.map_or(0, |(newest, _)| newest),
        };
        let mut bytes = self.repository.as_bytes().to_vec();
        bytes.put_u64(generation);
        seen.encode(&mut bytes);
        let check = Check::of(&[&bytes]);
        bytes.extend_from_slice(check.as_bytes());
        let log = &mut self.logs[number];
        log.truncate(0)?;
        log.append(&bytes)?;
        log.sync()?;
        self.newest = Some((number, generation));
        Ok(())
    }
}

/// Waits for a while for what another process uses.
fn patiently<T>(mut open: impl FnMut() -> Result<T, BackendError>) -> Result<T, BackendError> {
    for _ in 1..TRIES {
        match open() {
            Err(BackendError::InUse { .. }) => thread::sleep(PAUSE),
            result => return result,
        }
    }
    open()
}

impl Repository {
    /// Acts for `host` from now on, whose log tells what is done here, and remembers in `memory` what
    /// it sees of all logs.
    pub fn act_as(&mut self, host: String, memory: Option<Arc<dyn Folder>>) {
        self.host = host;
        self.memory = memory;
    }

    /// Compares the logs with what is remembered of them and with the snapshots that are there, and
    /// remembers what is new. Gives what contradicts; as long as something does, nothing is
    /// remembered. Without a memory nothing is compared.
    ///
    /// Fails with [`StoreError::Memory`] if nothing can be remembered.
    pub fn recall(&self) -> Result<Vec<Finding>, StoreError> {
        self.recall_since(None)
    }

    /// The same, when it is known that the log entry `least` is there.
    fn recall_since(&self, least: Option<At>) -> Result<Vec<Finding>, StoreError> {
        let Some(folder) = &self.memory else { return Ok(Vec::new()) };
        let mut memory = Memory::open(&**folder, self.id()).map_err(StoreError::Memory)?;
        if memory.is_lost() {
            self.note_trouble("what was remembered of the repository is damaged and is begun anew");
        }
        let mut seen = memory.seen.clone();
        let found = seen.compare(self, least)?;
        self.note_logged(Some(Arc::new(seen.clone())));
        let findings: Vec<Finding> = found.findings().cloned().collect();
        if !findings.is_empty() && seeded::active(Bug::ContradictionBelieved) {
            seen = Seen::default();
            seen.compare(self, None)?;
            memory.keep(&seen).map_err(StoreError::Memory)?;
        }
        if findings.is_empty() && seen != memory.seen {
            memory.keep(&seen).map_err(StoreError::Memory)?;
        }
        Ok(findings)
    }

    /// What is remembered and what the logs say beyond that, and what contradicts it.
    pub(crate) fn remembered(&self) -> Result<(Seen, Contradictions), StoreError> {
        let Some(folder) = &self.memory else { return Ok(Default::default()) };
        let mut seen = Memory::open(&**folder, self.id()).map_err(StoreError::Memory)?.seen;
        let found = seen.compare(self, None)?;
        Ok((seen, found))
    }

    /// What the logs say, as far as it was read last or, if it was not, as they say it now; together
    /// with what is remembered of them, if anything.
    pub(crate) fn logged(&self) -> Result<Arc<Seen>, StoreError> {
        let known = self.logged.lock().expect("no thread panics with it locked").clone();
        if let Some(known) = known {
            return Ok(known);
        }
        let remembered = self.memory.as_ref().and_then(|f| Memory::open(&**f, self.id()).ok());
        let mut seen = remembered.map(|memory| memory.seen).unwrap_or_default();
        seen.catch_up(self)?;
        let seen = Arc::new(seen);
        self.note_logged(Some(Arc::clone(&seen)));
        Ok(seen)
    }

    pub(crate) fn note_logged(&self, seen: Option<Arc<Seen>>) {
        *self.logged.lock().expect("no thread panics with it locked") = seen;
    }

    /// What is remembered, as it was written last; nothing without a memory.
    pub(crate) fn last_remembered(&self) -> Result<Seen, BackendError> {
        let Some(folder) = &self.memory else { return Ok(Seen::default()) };
        Ok(Memory::open(&**folder, self.id())?.seen)
    }

    /// Remembers another removal of the key of a write-only client than the one that was seen.
    pub(crate) fn believe_removal(&self, client: u32, check: Check) -> Result<(), BackendError> {
        let Some(folder) = &self.memory else { return Ok(()) };
        let mut memory = Memory::open(&**folder, self.id())?;
        let mut seen = memory.seen.clone();
        seen.believe_removal(client, check);
        memory.keep(&seen)?;
        memory.seen = seen;
        Ok(())
    }

    /// Remembers an entry that this client has just put. What was put is there whether or not it can
    /// be remembered, so what goes wrong is only noted.
    pub(crate) fn remember(&self, at: Option<At>) {
        self.note_logged(None);
        match self.recall_since(at) {
            Ok(findings) => findings.iter().for_each(|finding| self.note_trouble(finding)),
            Err(error) => self.note_trouble(format_args!(
                "what was just done is not remembered: {}",
                describe(&error)
            )),
        }
    }

    /// What went wrong since it was asked last, and stopped nothing: with remembering, or with keys.
    pub fn trouble(&self) -> Vec<crate::Warning> {
        std::mem::take(&mut *self.trouble.lock().expect("no thread panics with it locked"))
    }

    pub(crate) fn note_trouble(&self, text: impl std::fmt::Display) {
        self.trouble.lock().expect("no thread panics with it locked").push(text.to_string());
    }
}
