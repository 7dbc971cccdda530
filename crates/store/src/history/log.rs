//! Logs: what each writer did to the repository's snapshots, entry by entry.
//!
//! A writer is a host, as far as the repository goes. Its log has an entry for each backup that it
//! was about to acknowledge, put when the snapshot is durable, and one for what it is about to
//! forget, put before anything goes. So a crash leaves a snapshot that no log names, and never a
//! name without a snapshot. Each entry has the check of the one before it, whole as it is stored:
//! who has seen one has seen all before it. What all logs together say is in
//! [`history`](crate::history::seen).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::ops::ControlFlow;

use bytes::Bytes;
use onefold_backend::{BackendError, Objects, Request, Span};
use onefold_seal::wire::{Put, Reader, WireError};
use onefold_seal::{CHECK_LEN, Check, Envelope, Kind, ObjectId, PSEUDONYM_LEN};

use crate::bundle::{Of, chain};
use crate::finding::describe;
use crate::history::seen::Seen;
use crate::local::cache::{Copied, ObjectCache};
use crate::objects::read::{ids, read_object, too_long};
use crate::objects::snapshot::text;
use crate::tree::Time;
use crate::{Repository, StoreError};

/// Under which prefix of a repository log entries lie.
pub(crate) const PREFIX: &str = "logs/";

/// No log entry is longer than this.
const MAX_LEN: u64 = 16 << 20;

/// Bytes of entries that are held at a time where many are read.
const MAX_HELD: usize = 32 << 20;

/// So many snapshots are named in one entry at most.
const MAX_NAMED: usize = 1 << 16;

/// So many entries may come in between while one is put.
const MAX_TRIES: u32 = 1 << 10;

/// Whose log it is: a host's pseudonym.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Writer(pub(crate) [u8; PSEUDONYM_LEN]);

impl Writer {
    /// What the host `host` is in the logs.
    pub(crate) fn of(envelope: &Envelope, host: &str) -> Self {
        Self(envelope.pseudonym(host.as_bytes()))
    }
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Which entry of which log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct At {
    pub(crate) writer: Writer,
    /// Counted from 0.
    pub(crate) sequence: u64,
}

impl At {
    /// The entry that is called `name`, or `None` if that is no log entry's name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(Self::of(name.strip_prefix(PREFIX)?.parse().ok()?))
    }

    /// The entry whose object has this id.
    pub(crate) fn of(id: ObjectId) -> Self {
        let (writer, sequence) = id.as_bytes().split_at(PSEUDONYM_LEN);
        let sequence = u64::from_be_bytes(sequence.try_into().expect("the other half"));
        Self { writer: Writer(writer.try_into().expect("one half")), sequence }
    }

    /// The id of the object: writer, then number.
    pub(crate) fn id(self) -> ObjectId {
        let mut id = [0; ObjectId::LEN];
        id[..PSEUDONYM_LEN].copy_from_slice(&self.writer.0);
        id[PSEUDONYM_LEN..].copy_from_slice(&self.sequence.to_be_bytes());
        ObjectId::from_bytes(id)
    }

    /// The name of the object.
    pub(crate) fn name(self) -> String {
        format!("{PREFIX}{}", self.id())
    }

    /// The object, if it is there.
    pub(crate) fn fetch(self, objects: &dyn Objects) -> Result<Option<Bytes>, StoreError> {
        if_there(read_object(objects, &self.name(), MAX_LEN))
    }
}

/// An entry of a writer's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// The check of the entry before it; none if there is none, or it is gone and settled.
    pub previous: Option<Check>,
    /// When it was put.
    pub time: Time,
    /// The writer's host.
    pub host: String,
    /// Snapshots that are there.
    pub committed: Vec<ObjectId>,
    /// Snapshots that are about to be forgotten.
    pub forgotten: Vec<ObjectId>,
    /// Numbers of entries of this log, first and last of each range, that are missing or wrong, as a
    /// repair has found: nobody need miss them any more.
    pub settled: Vec<(u64, u64)>,
}

impl LogEntry {
    fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        body.put_bytes(self.previous.as_ref().map_or(&[][..], |check| check.as_bytes()));
        body.put_signed(self.time.secs);
        body.put_varint(self.time.nanos.into());
        body.put_bytes(self.host.as_bytes());
        for list in [&self.committed, &self.forgotten] {
            body.put_varint(list.len() as u64);
            list.iter().for_each(|id| body.extend_from_slice(id.as_bytes()));
        }
        body.put_varint(self.settled.len() as u64);
        for (first, last) in &self.settled {
            body.put_varint(*first);
            body.put_varint(*last);
        }
        body
    }

    /// Decodes an entry's body.
    pub fn decode(body: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(body);
        let previous = match reader.bytes("a check")? {
            [] => None,
            check => {
                let check: [u8; CHECK_LEN] =
                    check.try_into().map_err(|_| reader.error("a check of 16 bytes"))?;
                Some(Check::from_bytes(check))
            }
        };
        let secs = reader.signed("seconds")?;
        let nanos = reader.varint_to(999_999_999, "nanoseconds")? as u32;
        let host = text(&mut reader)?;
        let mut named = |count, most| match ids(&mut reader, count)? {
            ids if ids.len() > MAX_NAMED => Err(reader.error(most)),
            ids => Ok(ids),
        };
        let committed = named("the count of snapshots", "at most 65,536 snapshots")?;
        let forgotten = named("the count of forgotten snapshots", "at most 65,536 forgotten ones")?;
        let count = reader.count(2, "the count of settled entries")?;
        let mut range = || Ok((reader.varint("a number")?, reader.varint("a number")?));
        let settled = (0..count).map(|_| range()).collect::<Result<_, WireError>>()?;
        reader.finish()?;
        Ok(Self { previous, time: Time { secs, nanos }, host, committed, forgotten, settled })
    }

    /// The entry `at`, whose object is `bytes`.
    pub(crate) fn open(envelope: &Envelope, at: At, bytes: &[u8]) -> Result<Self, StoreError> {
        let object = at.name();
        match envelope.open(Kind::LogEntry, at.id(), bytes) {
            Ok(body) => {
                Self::decode(&body).map_err(|source| StoreError::Malformed { object, source })
            }
            Err(source) => Err(StoreError::Envelope { object, source }),
        }
    }
}

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

/// The numbers of the entries that a listing shows of each log, in order.
pub(crate) fn list(objects: &dyn Objects) -> Result<Vec<At>, StoreError> {
    Ok(objects.list_names(PREFIX)?.iter().filter_map(|name| At::parse(name)).collect())
}

/// Of the entries in `names`, which are sorted, the last of each log.
pub(crate) fn last_of_each(names: &[String]) -> impl Iterator<Item = String> {
    let mut last = BTreeMap::new();
    for at in names.iter().filter_map(|name| At::parse(name)) {
        last.insert(at.writer, at.sequence);
    }
    last.into_iter().map(|(writer, sequence)| At { writer, sequence }.name())
}

/// Entries, as far as they were read ahead; nothing in the place of those that are not there.
pub(crate) type Fetched = HashMap<At, Result<Option<Bytes>, StoreError>>;

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

fn if_there(read: Result<Bytes, StoreError>) -> Result<Option<Bytes>, StoreError> {
    match read {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The last entry of this host's log, and its check; nothing if it has none.
pub(crate) type OwnHead = Option<(At, Check)>;

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

/// An entry that was put, and its object.
pub(crate) type Appended = (At, Bytes);

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_places_stand_for_each_other() {
        for sequence in [0, 1, 256, u64::MAX] {
            let at = At { writer: Writer([7; 8]), sequence };
            assert_eq!(At::parse(&at.name()), Some(at));
        }
        let at = At { writer: Writer([0xab; 8]), sequence: 258 };
        assert_eq!(at.name(), "logs/abababababababab0000000000000102");
        for wrong in ["logs/1", "log/abababababababab0000000000000102", "logs/"] {
            assert_eq!(At::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_was_encoded_decodes_and_nothing_shorter_does() {
        let entry = LogEntry {
            previous: Some(Check::from_bytes([3; 16])),
            time: Time { secs: -1, nanos: 2 },
            host: "host".into(),
            committed: vec![ObjectId::from_bytes([1; 16])],
            forgotten: vec![ObjectId::from_bytes([2; 16]), ObjectId::from_bytes([4; 16])],
            settled: vec![(3, 3), (300, u64::MAX)],
        };
        let body = entry.encode();
        assert_eq!(LogEntry::decode(&body), Ok(entry.clone()));
        assert!((0..body.len()).all(|len| LogEntry::decode(&body[..len]).is_err()));
        let first = LogEntry { previous: None, ..entry.clone() };
        assert_eq!(LogEntry::decode(&first.encode()), Ok(first));
        let named = |count| vec![ObjectId::from_bytes([1; 16]); count];
        let many = LogEntry { committed: named(MAX_NAMED), ..entry.clone() };
        assert_eq!(LogEntry::decode(&many.encode()), Ok(many));
        for list in 0..2 {
            let mut lists = [Vec::new(), Vec::new()];
            lists[list] = named(MAX_NAMED + 1);
            let [committed, forgotten] = lists;
            let more = LogEntry { committed, forgotten, ..entry.clone() };
            assert!(LogEntry::decode(&more.encode()).is_err());
        }
    }
}
