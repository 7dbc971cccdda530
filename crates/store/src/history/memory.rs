//! What a client remembers of a repository's logs, in a folder of its own.
//!
//! Nothing that contradicts it is ever remembered: the contradiction would not be seen again.

use std::sync::Arc;

use onefold_backend::{BackendError, Folder};
use onefold_seal::{Check, ObjectId};

use crate::finding::{Finding, describe};
use crate::history::compare::Contradictions;
use crate::local::slots::Slots;
use crate::objects::entry::{Appended, At};
use crate::objects::seen::Seen;
use crate::seeded::fault;
use crate::{Repository, StoreError};

/// The memory of one repository, held by one process at a time.
struct Memory {
    slots: Slots,
    seen: Seen,
}

impl Memory {
    fn open(folder: &dyn Folder, repository: ObjectId) -> Result<Self, BackendError> {
        let (slots, seen) = Slots::open(folder, repository, |bytes| Seen::decode(bytes).ok())?;
        Ok(Self { slots, seen: seen.unwrap_or_default() })
    }

    /// Remembers `seen` from now on; durable when this returns.
    fn keep(&mut self, seen: &Seen) -> Result<(), BackendError> {
        let mut content = Vec::new();
        seen.encode(&mut content);
        self.slots.keep(&content)
    }
}

impl Repository {
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
        if memory.slots.is_lost() {
            self.note_trouble("what was remembered of the repository is damaged and is begun anew");
        }
        let mut seen = memory.seen.clone();
        // Their listing waits among the early answers, and is wanted when those are gone. If it cannot
        // be had, bundles are done without.
        if self.early.is_some() && !self.is_write_only() {
            let _ = self.listed_bundles();
        }
        if seen == Seen::default() {
            self.early.iter().for_each(|early| self.ask_all(early));
        }
        let found = seen.compare(self, least)?;
        self.note_logged(Some(Arc::new(seen.clone())));
        let findings: Vec<Finding> = found.findings().cloned().collect();
        self.set_own_head(findings.is_empty().then_some(&seen));
        if !findings.is_empty() && fault!(ContradictionBelieved) {
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
        if let Some(known) = self.logs_followed() {
            return Ok(known);
        }
        let remembered = self.memory.as_ref().and_then(|f| Memory::open(&**f, self.id()).ok());
        let mut seen = remembered.map(|memory| memory.seen).unwrap_or_default();
        seen.catch_up(self)?;
        let seen = Arc::new(seen);
        self.note_logged(Some(Arc::clone(&seen)));
        Ok(seen)
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
    pub(crate) fn remember(&self, appended: &[Appended]) {
        match self.remember_own(appended) {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) => return self.note_unremembered(&error),
        }
        self.note_logged(None);
        match self.recall_since(appended.last().map(|(at, _)| *at)) {
            Ok(findings) => findings.iter().for_each(|finding| self.note_trouble(finding)),
            Err(error) => self.note_unremembered(&error),
        }
    }

    /// Remembers entries that this client has put, if they follow what it remembers; whether they do.
    fn remember_own(&self, appended: &[Appended]) -> Result<bool, StoreError> {
        let Some(folder) = &self.memory else { return Ok(false) };
        // As long as something contradicts, nothing is remembered.
        if !self.knows_own_head() {
            return Ok(false);
        }
        let mut memory = Memory::open(&**folder, self.id()).map_err(StoreError::Memory)?;
        let mut seen = memory.seen.clone();
        if memory.slots.is_lost() || !seen.take_own(self, appended)? {
            return Ok(false);
        }
        memory.keep(&seen).map_err(StoreError::Memory)?;
        self.note_logged(Some(Arc::new(seen)));
        Ok(true)
    }

    fn note_unremembered(&self, error: &StoreError) {
        self.note_trouble(format_args!(
            "what was just done is not remembered: {}",
            describe(error)
        ));
    }
}
