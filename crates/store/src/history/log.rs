//! Logs: what each writer did to the repository's snapshots, entry by entry.
//!
//! A writer is a host, as far as the repository goes. Its log has an entry for each backup that it
//! was about to acknowledge, put when the snapshot is durable, and one for what it is about to
//! forget, put before anything goes. So a crash leaves a snapshot that no log names, and never a
//! name without a snapshot. Each entry has the check of the one before it, whole as it is stored:
//! who has seen one has seen all before it. What all logs together say is in
//! [`compare`](crate::history::compare).

use std::collections::HashSet;
use std::ops::ControlFlow;

use bytes::Bytes;
use onefold_backend::{BackendError, Objects, Request, Span};
use onefold_seal::{Check, Kind, ObjectId};

use crate::finding::describe;
use crate::history::chain;
use crate::local::cache::{Copied, ObjectCache};
use crate::objects::bundle::Of;
use crate::objects::entry::{
    Appended, At, Fetched, LogEntry, MAX_LEN, MAX_NAMED, OwnHead, Writer, if_there, list,
};
use crate::objects::read::{read_object, too_long};
use crate::objects::seen::Seen;
use crate::tree::Time;
use crate::{Repository, StoreError};

/// Bytes of entries that are held at a time where many are read.
const MAX_HELD: usize = 32 << 20;

/// So many entries may come in between while one is put.
const MAX_TRIES: u32 = 1 << 10;

impl Repository {
    /// The last entry of this host's log, if it was read a moment ago; whoever takes it says what the
    /// last one is then.
    fn take_own_head(&self) -> Option<OwnHead> {
        self.own_head.lock().expect("no thread panics with it locked").take()
    }

    /// Whether the last entry of this host's log is known, and nothing contradicts the logs.
    pub(crate) fn knows_own_head(&self) -> bool {
        self.own_head.lock().expect("no thread panics with it locked").is_some()
    }

    /// Notes what the last entry of this host's log is, where nothing contradicts the logs.
    pub(crate) fn set_own_head(&self, seen: Option<&Seen>) {
        let writer = Writer::of(&self.envelope, &self.host);
        let head = seen.map(|seen| seen.head(writer));
        *self.own_head.lock().expect("no thread panics with it locked") = head;
    }

    fn note_own_head(&self, at: At, object: Bytes) -> Result<Appended, StoreError> {
        let head = Some((at, Check::of(&[&object])));
        *self.own_head.lock().expect("no thread panics with it locked") = Some(head);
        Ok((at, object))
    }

    /// The entry `at`, whose object is `bytes`; if it was sealed in a key epoch that this repository
    /// was opened without, that is looked for.
    pub(crate) fn open_entry(&self, at: At, bytes: &[u8]) -> Result<LogEntry, StoreError> {
        self.with_later_epoch(|envelope| LogEntry::open(envelope, at, bytes))
    }
}

/// Reads many entries at once: those that are not `last` of their log from copies, if there are any.
/// What would take more than [`MAX_HELD`] bytes together is left out.
pub(crate) fn fetch_many(repository: &Repository, entries: &[At], last: &HashSet<At>) -> Fetched {
    let mut reading = Reading { repository, last, fetched: Fetched::new(), held: 0 };
    let Some(wanted) = reading.take_copies(entries) else { return reading.fetched };
    let Some(copies) = repository.copies(Of::Entries, wanted.len()) else {
        reading.by_name(&wanted);
        return reading.fetched;
    };
    let is_copied = |at: &At| !last.contains(at) && copies.contains_key(&at.id());
    let (copied, others): (Vec<At>, Vec<At>) = wanted.into_iter().partition(is_copied);
    reading.by_name(&others);
    let others = chain::take_vouched(repository, copies, copied, &mut reading.fetched);
    reading.by_name(&others);
    reading.fetched
}

/// Entries that are read together.
struct Reading<'a> {
    repository: &'a Repository,
    last: &'a HashSet<At>,
    fetched: Fetched,
    /// Bytes of them.
    held: usize,
}

impl Reading<'_> {
    fn hold(&mut self, at: At, read: Result<Option<Bytes>, StoreError>) -> ControlFlow<()> {
        self.held += read.iter().flatten().map(Bytes::len).sum::<usize>();
        if self.held > MAX_HELD {
            return ControlFlow::Break(());
        }
        self.fetched.insert(at, read);
        ControlFlow::Continue(())
    }

    fn cache_of(&self, at: At) -> Option<&ObjectCache> {
        self.repository.cache().filter(|_| !self.last.contains(&at))
    }

    /// Takes those of which this machine has copies, and gives the others; nothing once there is no
    /// room.
    fn take_copies(&mut self, entries: &[At]) -> Option<Vec<At>> {
        let (mut wanted, mut held_all) = (Vec::new(), true);
        for at in entries {
            let open = |copy: Bytes| self.repository.open_entry(*at, &copy).map(|_| copy);
            match self.cache_of(*at).and_then(|cache| cache.get(Copied::Entry(*at), open)) {
                Some(copy) => held_all = held_all && self.hold(*at, Ok(Some(copy))).is_continue(),
                None => wanted.push(*at),
            }
        }
        held_all.then_some(wanted)
    }

    fn by_name(&mut self, entries: &[At]) {
        let request = |at: &At| Request { name: at.name(), span: Span::Whole { max: MAX_LEN } };
        let objects = &self.repository.objects;
        // It may end early: the others are read as they are taken.
        let _ = objects.get_many(&mut entries.iter().map(request), &mut |number, answer| {
            let at = entries[number];
            let read = answer.map_err(too_long);
            if let (Ok(bytes), Some(cache)) = (&read, self.cache_of(at))
                && self.repository.open_entry(at, bytes).is_ok()
            {
                cache.keep(Copied::Entry(at), bytes);
            }
            match read {
                // Whoever takes the entry asks for it, and says so.
                Err(error) if error.is_unreachable() => ControlFlow::Break(()),
                read => self.hold(at, if_there(read)),
            }
        });
    }
}

/// Notes in this writer's log that the snapshots `committed` are there, and that `forgotten` are
/// about to go. Durable when this returns; gives the entries that were put.
pub(crate) fn append(
    repository: &Repository,
    committed: &[ObjectId],
    forgotten: &[ObjectId],
) -> Result<Vec<Appended>, StoreError> {
    let writer = Writer::of(&repository.envelope, &repository.host);
    let parts = |list: &[ObjectId]| list.chunks(MAX_NAMED).map(<[_]>::to_vec).collect::<Vec<_>>();
    let mut appended = Vec::new();
    for part in parts(committed) {
        appended.push(put(repository, writer, &part, &[])?);
    }
    for part in parts(forgotten) {
        appended.push(put(repository, writer, &[], &part)?);
    }
    Ok(appended)
}

/// Puts an entry behind the last one of `writer`'s log.
fn put(
    repository: &Repository,
    writer: Writer,
    committed: &[ObjectId],
    forgotten: &[ObjectId],
) -> Result<Appended, StoreError> {
    let objects = &*repository.objects;
    let entry_behind = |previous| LogEntry {
        previous,
        time: Time::now(),
        host: repository.host.clone(),
        committed: committed.to_vec(),
        forgotten: forgotten.to_vec(),
        settled: Vec::new(),
    };
    let mut last = match repository.take_own_head() {
        // As it was read a moment ago: if it is the last no more, the name behind it is taken.
        Some(head) => {
            let at = after(writer, head.map(|(at, _)| at))?;
            match try_put(repository, at, &entry_behind(head.map(|(_, check)| check))) {
                Err(StoreError::Backend(BackendError::AlreadyExists { .. })) => Some(at),
                put => return repository.note_own_head(at, put?),
            }
        }
        None => list(objects)?.into_iter().filter(|at| at.writer == writer).max(),
    };
    for _ in 0..MAX_TRIES {
        // One that is listed and not there is an error, and not passed over.
        let read = |last: At| read_object(objects, &last.name(), MAX_LEN);
        let previous = match last.map(read).transpose() {
            Ok(bytes) => bytes.map(|bytes| Check::of(&[&bytes])),
            // What is told of is done; that an entry is missing is told to whoever follows the log.
            Err(error) if repository.is_damage(&error) => {
                repository.note_trouble(describe(&error));
                None
            }
            Err(error) => return Err(error),
        };
        let at = after(writer, last)?;
        match try_put(repository, at, &entry_behind(previous)) {
            // Another process of the same host, or a listing that lags.
            Err(StoreError::Backend(BackendError::AlreadyExists { .. })) => last = Some(at),
            put => return Ok((at, put?)),
        }
    }
    let text = format!("the log {writer} grows faster than an entry can be put; try again");
    Err(StoreError::Unusable(text))
}

/// Settles what is missing or wrong in the log of `writer`, behind `last`.
pub(crate) fn settle(
    repository: &Repository,
    writer: Writer,
    last: Option<At>,
    host: &str,
    settled: Vec<(u64, u64)>,
) -> Result<At, StoreError> {
    let before = last.map(|last| last.fetch(&*repository.objects)).transpose()?.flatten();
    let at = after(writer, last)?;
    let entry = LogEntry {
        previous: before.map(|bytes| Check::of(&[&bytes])),
        time: Time::now(),
        host: host.to_owned(),
        committed: Vec::new(),
        forgotten: Vec::new(),
        settled,
    };
    try_put(repository, at, &entry).map(|_| at)
}

/// Puts an entry and gives its object.
fn try_put(repository: &Repository, at: At, entry: &LogEntry) -> Result<Bytes, StoreError> {
    let object = Bytes::from(repository.envelope.seal(Kind::LogEntry, at.id(), &entry.encode()));
    repository.objects.put(&at.name(), object.clone())?;
    Ok(object)
}

fn after(writer: Writer, last: Option<At>) -> Result<At, StoreError> {
    let Some(last) = last else { return Ok(At { writer, sequence: 0 }) };
    let full = || {
        let name = last.name();
        StoreError::Unusable(format!(
            "{name} is the last entry that a log can have, so nobody wrote it: remove it by hand"
        ))
    };
    Ok(At { writer, sequence: last.sequence.checked_add(1).ok_or_else(full)? })
}
