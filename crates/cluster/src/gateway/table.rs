//! Records of a domain, as entries of one object's omap.
//!
//! A record is changed only by an update that compares the whole value that was read. No value comes twice:
//! each has a count or a random token. So an update that arrives late, or twice, is refused.

use std::sync::Arc;

use bytes::Bytes;
use onefold_backend::Operation;
use onefold_backend::rados::{OmapRange, Query, RadosError, RadosPool, Refusal, Step, Update};
use onefold_volume::VolumeError;

use crate::error::failed;
use crate::seeded::fault;

/// Entries that are asked for at a time.
const PAGE: u64 = 1000;

/// How often a change is sent whose answer was lost.
const TRIES: u32 = 16;

/// The records of one object.
#[derive(Clone)]
pub(super) struct Table {
    pool: Arc<dyn RadosPool>,
    object: &'static str,
}

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Changed {
    /// The record has the new value.
    Done,
    /// It did not have the expected value, and was not changed.
    Refused,
}

impl Table {
    pub(super) fn new(pool: &Arc<dyn RadosPool>, object: &'static str) -> Self {
        Self { pool: Arc::clone(pool), object }
    }

    pub(super) fn object(&self) -> &'static str {
        self.object
    }

    /// Makes the object, unless it exists.
    pub(super) fn create(&self) -> Result<(), VolumeError> {
        match self.pool.update(self.object, Update::creating()) {
            Ok(_) => Ok(()),
            Err(error) if error.refusal() == Some(Refusal::Exists) => Ok(()),
            Err(error) => Err(failed(Operation::Put, error)),
        }
    }

    /// All records, in the order of their keys.
    pub(super) fn all(&self) -> Result<Vec<(String, Bytes)>, RadosError> {
        let mut all: Vec<(String, Bytes)> = Vec::new();
        loop {
            let after = all.last().map(|(key, _)| key.clone()).unwrap_or_default();
            let (mut entries, has_more) = self.after(after, PAGE)?;
            let is_end = entries.is_empty() || !has_more;
            all.append(&mut entries);
            if is_end {
                return Ok(all);
            }
        }
    }

    fn after(&self, after: String, limit: u64) -> Result<(Vec<(String, Bytes)>, bool), RadosError> {
        let omap = Some(OmapRange { after, limit });
        let query = Query { omap, ..Query::default() };
        let answer = self.pool.query(self.object, &query)?;
        Ok((answer.omap, answer.has_more))
    }

    /// The record `key`, if it exists. No key lies between `before` and `key`.
    pub(super) fn get(&self, before: String, key: &str) -> Result<Option<Bytes>, RadosError> {
        let (entries, _) = self.after(before, 1)?;
        Ok(entries.into_iter().next().filter(|(found, _)| found == key).map(|(_, value)| value))
    }

    /// Gives the record `key` the value `to`, or removes it, if it has the value `from`, or is absent.
    ///
    /// # Errors
    /// Without an answer the change may be done, or be done later.
    pub(super) fn change(
        &self,
        key: &str,
        from: Option<&Bytes>,
        to: Option<Bytes>,
    ) -> Result<Changed, RadosError> {
        let value = from.cloned().unwrap_or_default();
        let change = match to {
            Some(to) => Step::SetOmap(vec![(key.to_owned(), to)]),
            None => Step::RemoveOmap(vec![key.to_owned()]),
        };
        let mut update = Update::existing();
        if !fault!(RecordUnguarded) {
            update = update.then(Step::Omap { key: key.to_owned(), value });
        }
        match self.pool.update(self.object, update.then(change).even_if_full()) {
            Ok(_) => Ok(Changed::Done),
            Err(error) if error.refusal() == Some(Refusal::Guard) => Ok(Changed::Refused),
            Err(error) => Err(error),
        }
    }

    /// The same, where an answer that is lost is found out. `before` is as for [`get`](Self::get). The value
    /// `to` must never have been there before.
    ///
    /// # Errors
    /// If no answer comes: the change may be done, or be done later.
    pub(super) fn settle(
        &self,
        before: String,
        key: &str,
        from: Option<&Bytes>,
        to: Option<Bytes>,
    ) -> Result<Changed, VolumeError> {
        let mut last = None;
        for _ in 0..TRIES {
            match self.change(key, from, to.clone()) {
                Ok(Changed::Refused) if last.is_none() => return Ok(Changed::Refused),
                Ok(Changed::Refused) => {}
                Ok(Changed::Done) => return Ok(Changed::Done),
                Err(error) if error.refusal().is_some() => {
                    return Err(failed(Operation::Write, error));
                }
                Err(error) => last = Some(error),
            }
            match self.get(before.clone(), key) {
                Ok(found) if found == to => return Ok(Changed::Done),
                Ok(found) if found.as_ref() != from => return Ok(Changed::Refused),
                Ok(_) => {}
                Err(error) if error.refusal().is_some() => {
                    return Err(failed(Operation::Read, error));
                }
                Err(error) => last = Some(error),
            }
        }
        Err(failed(Operation::Write, last.unwrap_or_else(|| self.refused(Refusal::Guard))))
    }

    /// The error that the engine refuses a change of this object.
    pub(super) fn refused(&self, why: Refusal) -> RadosError {
        let pool = self.pool.kind().name.clone();
        RadosError::Refused { object: self.object.to_owned(), pool, why }
    }
}

/// A text before the key of an id such that no key of an id is between.
pub(super) fn before_id(key: &str) -> String {
    let mut before = key.to_owned();
    // digits and letters are ASCII, and no key has the character before one of them unless it is one
    if let Some(last) = before.pop() {
        before.push(char::from((last as u8).wrapping_sub(1)));
    }
    before
}

#[cfg(test)]
mod tests {
    use onefold_backend::rados::MemoryRados;

    use super::*;

    #[test]
    fn a_record_is_found_by_its_key_alone() {
        let pool: Arc<dyn RadosPool> = Arc::new(MemoryRados::replicated());
        let table = Table::new(&pool, "ids");
        table.create().unwrap();
        table.create().unwrap();
        let keys: Vec<String> =
            ["00", "0a", "10", "a0", "9f", "99", "ff"].map(|end| format!("{end:0>32}")).to_vec();
        for key in &keys {
            assert_eq!(table.get(before_id(key), key).unwrap(), None);
            let value = Bytes::copy_from_slice(key.as_bytes());
            let done = table.settle(before_id(key), key, None, Some(value.clone())).unwrap();
            assert_eq!(done, Changed::Done);
            let other = Some(Bytes::from_static(b"x"));
            assert_eq!(table.change(key, None, other.clone()).unwrap(), Changed::Refused);
            assert_eq!(table.change(key, other.as_ref(), None).unwrap(), Changed::Refused);
        }
        for key in &keys {
            let found = table.get(before_id(key), key).unwrap();
            assert_eq!(found.as_deref(), Some(key.as_bytes()));
        }
        assert_eq!(table.all().unwrap().len(), keys.len());
    }
}
