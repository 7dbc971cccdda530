//! What all logs together say, compared with what a client has seen of them and with what is there.
//!
//! A host that brings back last month's repository, or hides a snapshot, cannot seal the entries
//! that would fit. It can only leave some out: then a log ends before the entry that a client has
//! seen, or an entry is missing between two others, or a snapshot is gone that no entry forgets.
//! What a listing does not show yet is asked for by name, and what seems gone is looked for again
//! after the listings have settled, so that no delay passes for an attack.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Bound;
use std::sync::atomic::Ordering;
use std::time::Instant;

use onefold_backend::Objects;
use onefold_seal::{Check, Envelope, ObjectId, SealError};

use crate::finding::{Finding, describe};
use crate::history::log::{self};
use crate::history::look::Found;
use crate::objects::client::{ClientState, record_name};
use crate::objects::entry::{self, Appended, At, Fetched, Writer};
use crate::objects::key::epoch_name;
use crate::objects::seen::{Commit, Head, Seen};
use crate::objects::snapshot::{self, Snapshot, snapshot_name};
use crate::{Repository, StoreError};

/// So many snapshots that no listing shows are asked for by name. If there are more, the listings
/// settle and are believed.
const MAX_ASKED: usize = 1024;

/// So many log entries are read at a time by who reads all.
const ENTRIES_AHEAD: usize = 1024;

/// What contradicts the logs.
#[derive(Debug, Default)]
pub(crate) struct Contradictions {
    /// What is missing in logs, or not as it must be.
    pub(crate) logs: Vec<Broken>,
    /// Snapshots that should be there and are not.
    pub(crate) missing: Vec<(ObjectId, Finding)>,
    /// Of keys, what was seen and is gone.
    pub(crate) keys: Vec<Finding>,
    /// Write-only clients with an entry that a later program sealed for them, each with what is wrong.
    later: Vec<(u32, StoreError)>,
}

/// Entries of a log that are missing, or not as they must be.
#[derive(Debug, PartialEq)]
pub(crate) struct Broken {
    pub(crate) writer: Writer,
    pub(crate) first: u64,
    pub(crate) last: u64,
    finding: Finding,
}

impl Contradictions {
    /// All of them.
    pub(crate) fn findings(&self) -> impl Iterator<Item = &Finding> {
        let logs = self.logs.iter().map(|broken| &broken.finding);
        logs.chain(self.missing.iter().map(|(_, finding)| finding)).chain(&self.keys)
    }

    fn of_entry(&mut self, at: At, problem: String) {
        self.of_entries(at, at.sequence, problem);
    }

    fn of_entries(&mut self, first: At, last: u64, problem: String) {
        let finding = Finding { object: first.name(), problem };
        let broken = Broken { writer: first.writer, first: first.sequence, last, finding };
        // Logs are followed twice if a snapshot seems to be missing.
        if !self.logs.contains(&broken) {
            self.logs.push(broken);
        }
    }

    /// Of an entry that is there and cannot be read. One that the storage does not give now, for all
    /// that is known of it, is an error and no finding.
    fn of_unread(
        &mut self,
        repository: &Repository,
        at: At,
        error: StoreError,
    ) -> Result<(), StoreError> {
        if !repository.is_damage(&error) {
            return Err(error);
        }
        self.of_entry(at, describe(&error));
        Ok(())
    }

    /// Takes out what a repair has settled.
    fn settle(&mut self, writer: Writer, settled: &[(u64, u64)]) {
        let is_settled = |broken: &Broken| {
            let covers =
                |(first, last): &(u64, u64)| *first <= broken.first && broken.last <= *last;
            broken.writer == writer && settled.iter().any(covers)
        };
        self.logs.retain(|broken| !is_settled(broken));
    }
}

impl Seen {
    /// Follows the logs from where they were left, and looks for the snapshots that should be there.
    /// Where nothing contradicts, this is now all that the logs say. Entries up to `least` are there,
    /// whether a listing shows them or not.
    pub(crate) fn compare(
        &mut self,
        repository: &Repository,
        least: Option<At>,
    ) -> Result<Contradictions, StoreError> {
        let mut found = Contradictions::default();
        self.epochs(repository, &mut found)?;
        self.clients(repository, &mut found)?;
        self.follow(repository, least, &mut found)?;
        // Who cannot read what was forgotten cannot tell what is missing.
        let mut missing = match repository.is_write_only() {
            true => Vec::new(),
            false => self.missing(repository)?,
        };
        if !missing.is_empty() {
            // Forgotten meanwhile: the entry that says so was put before the snapshot went.
            repository.objects.settle()?;
            self.follow(repository, least, &mut found)?;
            missing.retain(|(id, _)| self.committed.contains_key(id));
        }
        for (id, what) in missing {
            let Some(Commit { at, .. }) = self.committed.get(&id) else { continue };
            let host = self.called(at.writer);
            let problem = format!(
                "{what}: {} says that it was committed by {host}, and no log says that it was \
                 forgotten",
                at.name()
            );
            found.missing.push((id, Finding { object: snapshot_name(id), problem }));
        }
        Ok(found)
    }

    /// Follows the logs from where they were left, whatever contradicts.
    pub(crate) fn catch_up(&mut self, repository: &Repository) -> Result<(), StoreError> {
        self.follow(repository, None, &mut Contradictions::default())
    }

    /// What all logs say, whatever contradicts and whatever was seen of them; and the write-only clients
    /// of whose entries a later program sealed one, so that it is not known what they committed.
    pub(crate) fn anew(
        repository: &Repository,
    ) -> Result<(Self, Vec<(u32, StoreError)>), StoreError> {
        let (mut seen, mut found) = (Self::default(), Contradictions::default());
        seen.follow(repository, None, &mut found)?;
        Ok((seen, found.later))
    }

    /// Those of `snapshots` that some entry says were forgotten, whatever was committed since.
    pub(crate) fn forgotten_of(
        repository: &Repository,
        snapshots: &BTreeSet<ObjectId>,
    ) -> Result<BTreeSet<ObjectId>, StoreError> {
        let mut forgotten = BTreeSet::new();
        let all = entry::list(&*repository.objects)?;
        let mut fetched = Fetched::new();
        for (number, at) in all.iter().copied().enumerate() {
            if number % ENTRIES_AHEAD == 0 {
                let next = &all[number..(number + ENTRIES_AHEAD).min(all.len())];
                fetched = log::fetch_many(repository, next, &HashSet::new());
            }
            let fetch = || at.fetch(&*repository.objects);
            let Some(bytes) = fetched.remove(&at).unwrap_or_else(fetch)? else { continue };
            // What is damaged is found where the logs are followed; a client forgets nothing.
            let Ok(entry) = repository.open_entry(at, &bytes) else { continue };
            if Envelope::client_of(&bytes).is_none() {
                forgotten.extend(entry.forgotten.iter().filter(|id| snapshots.contains(id)));
            }
        }
        Ok(forgotten)
    }

    /// Takes up entries that this client has put, if they follow what it has seen; whether they do.
    pub(crate) fn take_own(
        &mut self,
        repository: &Repository,
        appended: &[Appended],
    ) -> Result<bool, StoreError> {
        for (at, bytes) in appended {
            let next = match self.heads.get(&at.writer) {
                None if at.sequence == 0 => Next::First,
                Some(head) if head.sequence.checked_add(1) == Some(at.sequence) => {
                    Next::Behind(head.check)
                }
                _ => return Ok(false),
            };
            let mut found = Contradictions::default();
            self.take(repository, *at, bytes, next, &mut found)?;
            if found.findings().next().is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// How people know a writer.
    fn called(&self, writer: Writer) -> String {
        match self.host(writer) {
            Some(host) => format!("'{host}'"),
            None => format!("writer {writer}"),
        }
    }

    /// Looks whether the key epochs that were seen are there. Where one is not, an index that this
    /// client keeps may know what was sealed in it.
    fn epochs(
        &mut self,
        repository: &Repository,
        found: &mut Contradictions,
    ) -> Result<(), StoreError> {
        let Some(keys) = repository.envelope.keys().filter(|keys| !keys.is_write_only()) else {
            return Ok(());
        };
        let known: BTreeSet<u32> = keys.epochs().collect();
        for epoch in (1..=self.epoch).filter(|epoch| !known.contains(epoch)) {
            repository.lacks_epochs.store(true, Ordering::Relaxed);
            // Not listed, and yet it may be there.
            let problem = match repository.read_epoch(epoch) {
                Ok(_) => continue,
                Err(error) if error.is_not_found() => {
                    "is missing: this client has seen it, and what was sealed in this key epoch \
                     cannot be read without it"
                        .into()
                }
                Err(error) if repository.is_damage(&error) => describe(&error),
                Err(error) => return Err(error),
            };
            found.keys.push(Finding { object: epoch_name(epoch), problem });
        }
        self.epoch = self.epoch.max(repository.epoch());
        Ok(())
    }

    /// Looks whether keys of clients that were taken back still are, and for more such.
    fn clients(
        &mut self,
        repository: &Repository,
        found: &mut Contradictions,
    ) -> Result<(), StoreError> {
        if !repository.is_encrypted() || repository.is_write_only() {
            return Ok(());
        }
        for (client, check) in &self.removed {
            let problem = match repository.removal(*client) {
                Ok(Some(removal)) if removal.check == *check => continue,
                Ok(Some(_)) => format!(
                    "is not what this client has seen when the key of write-only client \
                     {client:08x} was revoked: snapshots may count again that did not"
                ),
                Ok(None) => format!(
                    "is missing: this client has seen that the key of write-only client \
                     {client:08x} was revoked, and all that it made since counts again; the \
                     repository is older than it was, or hides what is newer"
                ),
                Err(error) if repository.is_damage(&error) => describe(&error),
                Err(error) => return Err(error),
            };
            found.keys.push(Finding { object: record_name(*client, ClientState::Kept), problem });
        }
        for (client, check) in repository.removed_clients()? {
            self.removed.entry(client).or_insert(check);
        }
        Ok(())
    }

    /// Follows the logs, and believes no more what was seen of a client before its key was taken back
    /// and does not stay: who else committed it is read anew.
    fn follow(
        &mut self,
        repository: &Repository,
        least: Option<At>,
        found: &mut Contradictions,
    ) -> Result<(), StoreError> {
        self.follow_logs(repository, least, found)?;
        let refused = self.refused(repository)?;
        if refused.is_empty() {
            return Ok(());
        }
        let mut anew = Self::default();
        anew.follow_logs(repository, least, &mut Contradictions::default())?;
        for id in refused {
            match anew.commit(id) {
                Some(commit) => drop(self.committed.insert(id, commit)),
                None => drop(self.committed.remove(&id)),
            }
        }
        Ok(())
    }

    /// The snapshots that only a client committed of which the key was taken back, and that do not stay.
    fn refused(&self, repository: &Repository) -> Result<Vec<ObjectId>, StoreError> {
        let mut refused = Vec::new();
        for (id, commit) in &self.committed {
            let Some(client) = commit.client else { continue };
            match repository.refuses(client, *id) {
                Ok(true) => refused.push(*id),
                Ok(false) => {}
                // It is found where entries and client records are read.
                Err(error) if repository.is_damage(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(refused)
    }

    fn follow_logs(
        &mut self,
        repository: &Repository,
        least: Option<At>,
        found: &mut Contradictions,
    ) -> Result<(), StoreError> {
        let mut logs: BTreeMap<Writer, BTreeSet<u64>> =
            self.heads.keys().map(|writer| (*writer, BTreeSet::new())).collect();
        for at in entry::list(&*repository.objects)?.into_iter().chain(least) {
            logs.entry(at.writer).or_default().insert(at.sequence);
        }
        let mut fetched = self.fetch_logs(repository, &logs);
        for (writer, listed) in logs {
            self.follow_log(repository, writer, &listed, &mut fetched, found)?;
        }
        Ok(())
    }

    /// Reads what is to be followed of the logs: the entries that were seen last, and those behind them.
    fn fetch_logs(
        &self,
        repository: &Repository,
        logs: &BTreeMap<Writer, BTreeSet<u64>>,
    ) -> Fetched {
        let (mut wanted, mut last) = (Vec::new(), HashSet::new());
        for (writer, listed) in logs {
            let at = |sequence| At { writer: *writer, sequence };
            let seen = self.heads.get(writer).map(|head| head.sequence);
            wanted.extend(seen.map(at));
            let behind = seen.map_or(Bound::Unbounded, Bound::Excluded);
            wanted.extend(listed.range((behind, Bound::Unbounded)).copied().map(at));
            last.extend(seen.map(at));
            last.extend(listed.last().copied().map(at));
        }
        log::fetch_many(repository, &wanted, &last)
    }

    fn follow_log(
        &mut self,
        repository: &Repository,
        writer: Writer,
        listed: &BTreeSet<u64>,
        fetched: &mut Fetched,
        found: &mut Contradictions,
    ) -> Result<(), StoreError> {
        let objects = &*repository.objects;
        let mut next = Next::First;
        if let Some(head) = self.heads.get(&writer) {
            let at = At { writer, sequence: head.sequence };
            next = match fetched.remove(&at).unwrap_or_else(|| at.fetch(objects)) {
                Err(error) => {
                    found.of_unread(repository, at, error)?;
                    Next::Unknown
                }
                Ok(None) => {
                    found.of_entry(at, self.ends_early(writer, listed));
                    Next::Unknown
                }
                Ok(Some(bytes)) if Check::of(&[&bytes]) != head.check => {
                    found.of_entry(at, self.is_another(writer));
                    Next::Unknown
                }
                Ok(Some(_)) => Next::Behind(head.check),
            };
        }
        let last: HashSet<At> =
            listed.last().map(|sequence| At { writer, sequence: *sequence }).into_iter().collect();
        let mut sequence =
            self.heads.get(&writer).map_or(Some(0), |head| head.sequence.checked_add(1));
        while let Some(at) = sequence.map(|sequence| At { writer, sequence }) {
            let Some(later) = listed.range(at.sequence..).next() else { break };
            // There was no room for all of them at once.
            if listed.contains(&at.sequence) && !fetched.contains_key(&at) {
                let next = listed.range(at.sequence..).take(ENTRIES_AHEAD);
                let next: Vec<At> =
                    next.map(|sequence| At { writer, sequence: *sequence }).collect();
                fetched.extend(log::fetch_many(repository, &next, &last));
            }
            // Not listed, and yet it may be there.
            let entry = match fetched.remove(&at).unwrap_or_else(|| at.fetch(objects)) {
                Ok(entry) => entry,
                Err(error) => {
                    found.of_unread(repository, at, error)?;
                    next = Next::Unknown;
                    sequence = at.sequence.checked_add(1);
                    continue;
                }
            };
            let Some(bytes) = entry else {
                let host = self.called(writer);
                let problem = format!("is missing, though the log of {host} has entry {later}");
                let last = later.saturating_sub(1).max(at.sequence);
                found.of_entries(at, last, problem);
                next = Next::Unknown;
                sequence = match *later > at.sequence {
                    true => Some(*later),
                    false => at.sequence.checked_add(1),
                };
                continue;
            };
            self.take(repository, at, &bytes, next, found)?;
            next = Next::Behind(Check::of(&[&bytes]));
            sequence = at.sequence.checked_add(1);
        }
        Ok(())
    }

    /// Takes up an entry.
    fn take(
        &mut self,
        repository: &Repository,
        at: At,
        bytes: &[u8],
        next: Next,
        found: &mut Contradictions,
    ) -> Result<(), StoreError> {
        let check = Check::of(&[bytes]);
        let entry = match repository.open_entry(at, bytes) {
            Ok(entry) => entry,
            Err(StoreError::Envelope { source: SealError::WriteOnly, .. }) => {
                self.see(at, check, String::new());
                return Ok(());
            }
            // A client stops nobody, nor does who has no key: nothing vouches for an unknown suite.
            Err(error) if error.is_unknown_version() && is_owners(repository, bytes) => {
                return Err(error);
            }
            Err(error) if error.is_no_answer() => return Err(error),
            Err(error) => {
                found.of_entry(at, describe(&error));
                if let (true, Some(by)) = (error.is_unknown_version(), Envelope::client_of(bytes)) {
                    found.later.push((by, error));
                }
                let host = self.heads.get(&at.writer).map(|head| head.host.clone());
                self.see(at, check, host.unwrap_or_default());
                return Ok(());
            }
        };
        let client = Envelope::client_of(bytes);
        if !next.fits(entry.previous) {
            let problem = format!(
                "does not follow the entry before it in the log of '{}': the log was forked, or \
                 entries were exchanged",
                entry.host
            );
            found.of_entry(at, problem);
        }
        let kept = match client.map(|client| repository.kept_of(client)).transpose() {
            Ok(kept) => kept.flatten(),
            Err(error) => {
                found.of_unread(repository, at, error)?;
                None
            }
        };
        // What a client says whose key was taken back counts for what stays of it only.
        let counts = |id: &ObjectId| kept.as_ref().is_none_or(|kept| kept.contains_key(id));
        for id in entry.committed {
            // Who can read is believed before a client, and a client before others that come later.
            let is_known = client.is_some() && self.committed.contains_key(&id);
            if !self.forgotten.remove(&id) && !is_known && counts(&id) {
                self.committed.insert(id, Commit { at, client });
            }
        }
        if client.is_none() {
            found.settle(at.writer, &entry.settled);
            for id in entry.forgotten {
                if self.committed.remove(&id).is_none() {
                    self.forgotten.insert(id);
                }
            }
        } else if !entry.forgotten.is_empty() || !entry.settled.is_empty() {
            let text = "says that snapshots were forgotten or entries settled, and a write-only \
                        client sealed it, which can do neither";
            found.of_entry(at, text.into());
        }
        self.see(at, check, entry.host);
        Ok(())
    }

    fn see(&mut self, at: At, check: Check, host: String) {
        self.heads.insert(at.writer, Head { sequence: at.sequence, check, host });
    }

    /// That a log is shorter than it was.
    fn ends_early(&self, writer: Writer, listed: &BTreeSet<u64>) -> String {
        let host = self.called(writer);
        match listed.last() {
            Some(last) => format!(
                "is missing: this client has seen it in the log of {host}, of which entry {last} is \
                 the last now; the repository is older than it was, or hides what is newer"
            ),
            None => format!(
                "is missing: this client has seen it in the log of {host}, of which nothing is left; \
                 the repository is older than it was, or hides what is newer"
            ),
        }
    }

    /// That an entry is not the one that was seen.
    fn is_another(&self, writer: Writer) -> String {
        format!(
            "is not the entry that this client has seen in the log of {}: the log was forked, or \
             the repository went back and on from there",
            self.called(writer)
        )
    }

    /// The snapshots that should be there and are not, with what is the matter.
    fn missing(
        &self,
        repository: &Repository,
    ) -> Result<Vec<(ObjectId, &'static str)>, StoreError> {
        const GONE: &str = "is missing";
        let objects = &*repository.objects;
        let list = || -> Result<BTreeMap<ObjectId, u64>, StoreError> {
            let (since, infos) = (Instant::now(), objects.list(snapshot::PREFIX)?);
            let listed = snapshot::ids(&infos).into_iter().collect();
            // The command goes on with the same snapshots.
            if let Some(early) = &repository.early {
                early.hand_on(snapshot::PREFIX, infos, since);
            }
            Ok(listed)
        };
        let mut listed = list()?;
        let mut missing = Vec::new();
        let unlisted = |listed: &BTreeMap<ObjectId, u64>| {
            self.committed.keys().filter(|id| !listed.contains_key(*id)).count()
        };
        if unlisted(&listed) > MAX_ASKED {
            // Whoever may put entries can name any number.
            objects.settle()?;
            listed = list()?;
        }
        let asks = unlisted(&listed) <= MAX_ASKED;
        for id in self.committed.keys() {
            match listed.get(id) {
                // Nothing longer is a fence.
                Some(len) if *len > snapshot::MAX_FENCE_LEN => {}
                // Somebody took the snapshot away, and put a fence where it was.
                Some(_) => match Snapshot::look_alone(repository, *id).map(|(found, _)| found) {
                    Ok(Found::Fence) => missing.push((*id, "has a fence in its place")),
                    Err(error) if error.is_not_found() => missing.push((*id, GONE)),
                    Err(error) if !repository.is_damage(&error) => return Err(error),
                    // What is damaged is found where snapshots are read.
                    Ok(_) | Err(_) => {}
                },
                // Not listed, and yet it may be there.
                None if asks => match objects.size(&snapshot_name(*id)) {
                    Ok(_) => {}
                    Err(error) if error.is_not_found() => missing.push((*id, GONE)),
                    Err(error) => return Err(error.into()),
                },
                None => missing.push((*id, GONE)),
            }
        }
        Ok(missing)
    }
}

/// Whether an entry, of which the version is unknown, is of somebody who can read.
fn is_owners(repository: &Repository, entry: &[u8]) -> bool {
    !repository.is_encrypted() || Envelope::claimed_epoch(entry).is_some()
}

/// What an entry must say of the one before it.
#[derive(Debug, Clone, Copy)]
enum Next {
    /// That there is none.
    First,
    /// That it has this check.
    Behind(Check),
    /// Anything: the one before it is missing.
    Unknown,
}

impl Next {
    fn fits(self, previous: Option<Check>) -> bool {
        match self {
            Self::First => previous.is_none(),
            Self::Behind(check) => previous == Some(check),
            Self::Unknown => true,
        }
    }
}
