//! Objects in a directory of another machine, reached by SFTP.
//!
//! **Put.** An object is written under a temporary name, `NAME#` and sixteen digits, and synced
//! (`fsync@openssh.com`). Then it gets its name by a hard link (`hardlink@openssh.com`), which fails if the
//! name is taken, and the directory is synced: OpenSSH syncs a directory that was opened as a file. The temporary
//! name is removed. A server without hard links may refuse to rename to a name that is taken; before the first
//! put a probe finds out. Where the server cannot sync, an acknowledged object may be lost in a power cut of it.
//!
//! Calls are tried once. [`Retrying`](crate::Retrying) retries them, and a connection that broke is made again.

mod config;
mod known;
mod link;
mod metered;
mod session;
mod ssh;

use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures::{StreamExt, stream};
use russh_sftp::protocol::{OpenFlags, StatusCode};

use super::hedge::Queues;
use super::many::{self, Pace, Source};
use super::{PROBE, RemoteOptions, Waiter, new_runtime};
use crate::name::{check_name, check_prefix, directories_of};
use crate::objects::check_size;
use crate::stored::Wait;
use crate::usage::{RequestKind, Usage};
use crate::{
    BackendError, Cause, ObjectInfo, Objects, OnAnswer, Operation, Request, SftpLocation, Span,
};
use link::Link;
use session::{Entry, Failure, Outcome, Session};

const PROBE_CONTENT: &[u8] = b"Put twice to see whether a name that is taken is refused.\n";

/// Directories that are listed at the same time.
const DIRECTORIES: usize = 64;

/// Digits behind the `#` of a temporary name.
const DIGITS: usize = 16;

/// Objects in a directory of another machine; any number of processes may share it.
///
/// An object is held in memory while it travels. A process that is killed during a put may leave a
/// temporary file, which is never listed; [`Objects::discard_unfinished`] removes it.
pub struct SftpObjects {
    host: Arc<Host>,
    pace: Mutex<Pace>,
    queues: Queues,
}

/// A directory of a host.
struct Host {
    link: Link,
    waiter: Waiter,
    root: String,
    usage: Usage,
    conditional_put: bool,
    /// Directories below the root known to be durable, as parts of names.
    directories: Mutex<HashSet<String>>,
    /// How a written file gets its name; set by a probe.
    naming: tokio::sync::Mutex<Option<Naming>>,
    /// Whether the server can sync directories, once that was tried.
    syncs_directories: OnceLock<bool>,
    /// Whether the root was there, so that it is missed.
    was_seen: AtomicBool,
}

/// How a written file gets its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Naming {
    Link,
    Rename,
}

impl SftpObjects {
    /// A handle for a directory; sends nothing yet. The first put creates the directory if it is missing.
    ///
    /// The user's configuration of ssh is read now, and decides how the host is reached.
    pub fn open(location: &SftpLocation, options: &RemoteOptions) -> Result<Self, BackendError> {
        let place = location.to_string();
        let cannot_open = |cause: Cause| {
            BackendError::from_cause(Operation::Open, location.path(), &place, cause)
        };
        let link = Link::new(location, options).map_err(cannot_open)?;
        let runtime = new_runtime().map_err(|cause| cannot_open(cause.into()))?;
        let host = Host {
            link,
            waiter: Waiter::new(runtime, options.stop.clone()),
            root: location.path().to_owned(),
            usage: options.usage.clone(),
            conditional_put: options.conditional_put,
            directories: Mutex::default(),
            naming: tokio::sync::Mutex::default(),
            syncs_directories: OnceLock::new(),
            was_seen: AtomicBool::new(false),
        };
        Ok(Self {
            host: Arc::new(host),
            pace: Mutex::new(Pace::new(options.connections)),
            queues: Queues::default(),
        })
    }

    /// The location, as named in errors.
    pub fn place(&self) -> &str {
        self.host.link.place()
    }

    /// Whether the server syncs files and directories, so that acknowledged objects survive a power cut of it.
    /// None before anything was put or listed.
    pub fn is_durable(&self) -> Option<bool> {
        self.host.syncs_directories.get().copied()
    }

    fn wait<T>(
        &self,
        operation: Operation,
        name: &str,
        what: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, BackendError> {
        let interrupted = || BackendError::Interrupted { name: name.to_owned(), operation };
        self.host.waiter.wait(what).ok_or_else(interrupted)?
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, name: &str, span: Span) -> Result<Bytes, BackendError> {
        let request = Request { name: name.to_owned(), span };
        self.wait(Operation::Get, name, self.host.read(&request))
    }
}

impl Objects for SftpObjects {
    fn put(&self, name: &str, bytes: Bytes) -> Result<(), BackendError> {
        check_name(name)?;
        self.wait(Operation::Put, name, self.host.put(name, &bytes))
    }

    fn get(&self, name: &str) -> Result<Bytes, BackendError> {
        self.read(name, Span::Whole { max: u64::MAX })
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> Result<Bytes, BackendError> {
        self.read(name, Span::Range(range))
    }

    fn get_limited(&self, name: &str, max: u64) -> Result<Bytes, BackendError> {
        self.read(name, Span::Whole { max })
    }

    fn get_many(
        &self,
        requests: &mut dyn Iterator<Item = Request>,
        take: &mut OnAnswer<'_>,
    ) -> ControlFlow<()> {
        many::get_many(&self.host, &self.pace, &self.queues, requests, take)
    }

    fn gap(&self) -> u64 {
        self.pace().gap()
    }

    fn size(&self, name: &str) -> Result<u64, BackendError> {
        check_name(name)?;
        self.wait(Operation::Size, name, self.host.size(name))
    }

    fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, BackendError> {
        check_prefix(prefix)?;
        self.wait(Operation::List, prefix, self.host.list(prefix))
    }

    fn delete(&self, name: &str) -> Result<(), BackendError> {
        self.wait(Operation::Delete, name, self.host.delete(name))
    }

    fn delete_each(&self, names: &[String]) -> Vec<(String, BackendError)> {
        let width = self.pace().deletes();
        let deleting = stream::iter(names)
            .map(async |name| Some((name.clone(), self.host.delete(name).await.err()?)))
            .buffer_unordered(width)
            .filter_map(std::future::ready)
            .collect();
        let interrupted = |name: &String| {
            let operation = Operation::Delete;
            (name.clone(), BackendError::Interrupted { name: name.clone(), operation })
        };
        let left: Option<Vec<_>> = self.host.waiter.wait(deleting);
        left.unwrap_or_else(|| names.iter().map(interrupted).collect())
    }

    fn discard_unfinished(&self, age: Duration) -> Result<u64, BackendError> {
        self.wait(Operation::List, "unfinished puts", self.host.discard_unfinished(age))
    }
}

impl std::fmt::Debug for SftpObjects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SftpObjects").field("place", &self.place()).finish_non_exhaustive()
    }
}

impl Source for Host {
    async fn read(&self, request: &Request) -> Result<Bytes, BackendError> {
        let Request { name, span } = request;
        check_name(name)?;
        self.usage.request(RequestKind::Get);
        let path = self.path(name);
        let reading = async |session: Arc<Session>| match span {
            Span::Whole { max } => read_whole(&session, name, &path, *max).await,
            Span::Range(range) => read_range(&session, name, &path, range.clone()).await,
        };
        let read = self.link.run(Operation::Get, name, reading).await;
        self.note_missing(read, Operation::Get, name).await
    }

    fn waiter(&self) -> &Waiter {
        &self.waiter
    }
}

impl Host {
    fn path(&self, name: &str) -> String {
        match self.root.as_str() {
            "/" => format!("/{name}"),
            root if name.is_empty() => root.to_owned(),
            root => format!("{root}/{name}"),
        }
    }

    /// The same outcome, unless it says that something is missing because the whole root is gone: a disk that
    /// is no longer mounted has lost nothing.
    async fn note_missing<T>(
        &self,
        outcome: Result<T, BackendError>,
        operation: Operation,
        name: &str,
    ) -> Result<T, BackendError> {
        match &outcome {
            Ok(_) => self.was_seen.store(true, Ordering::Relaxed),
            Err(error) if error.is_not_found() && self.was_seen.load(Ordering::Relaxed) => {
                let stat = async |session: Arc<Session>| session.stat(&self.root).await;
                match self.link.run(Operation::Size, name, stat).await {
                    Err(error) if error.is_not_found() => {
                        let (name, root) = (name.to_owned(), PathBuf::from(self.link.place()));
                        return Err(BackendError::RootGone { name, operation, root });
                    }
                    Err(error) => return Err(error),
                    Ok(_) => {}
                }
            }
            Err(_) => {}
        }
        outcome
    }

    async fn size(&self, name: &str) -> Result<u64, BackendError> {
        self.usage.request(RequestKind::Head);
        let path = self.path(name);
        let stat = async |session: Arc<Session>| {
            let found = session.stat(&path).await?;
            match found.is_dir() {
                true => Err(Failure::Status(StatusCode::NoSuchFile, String::new())),
                false => Ok(found.size.unwrap_or(0)),
            }
        };
        let size = self.link.run(Operation::Size, name, stat).await;
        self.note_missing(size, Operation::Size, name).await
    }

    async fn delete(&self, name: &str) -> Result<(), BackendError> {
        check_name(name)?;
        self.remove(name).await
    }

    /// Removes a file, whatever its name; succeeds if there is none.
    async fn remove(&self, name: &str) -> Result<(), BackendError> {
        self.usage.request(RequestKind::Delete);
        let path = self.path(name);
        let removing = async |session: Arc<Session>| match session.remove(&path).await {
            Err(error) if error.is_missing() => Ok(()),
            removed => removed,
        };
        self.link.run(Operation::Delete, name, removing).await
    }

    async fn put(&self, name: &str, bytes: &Bytes) -> Result<(), BackendError> {
        self.usage.request(RequestKind::Put);
        let putting = async |session: Arc<Session>| {
            let put = self.put_in(&session, name, bytes).await;
            match put {
                // Servers have no word for a disk that is full.
                Err(Failure::Status(StatusCode::Failure, _))
                    if session
                        .free(&self.root)
                        .await
                        .is_some_and(|free| free < bytes.len() as u64) =>
                {
                    let full = io::Error::from(io::ErrorKind::StorageFull);
                    let (place, operation) = (self.link.place(), Operation::Put);
                    Err(BackendError::from_cause(operation, name, place, full).into())
                }
                put => put,
            }
        };
        self.link.run(Operation::Put, name, putting).await
    }

    async fn put_in(&self, session: &Arc<Session>, name: &str, bytes: &Bytes) -> Outcome<()> {
        self.make_directories(session, name).await?;
        let naming = self.naming(session).await?;
        let path = self.path(name);
        if !self.conditional_put {
            match self.holds(session, name, bytes).await? {
                Some(true) => return self.sync_object(session, name).await,
                Some(false) => return Err(self.taken(name).into()),
                None => {}
            }
        }
        let temporary = temporary(&path);
        let result = match session.write_new(&temporary, bytes).await {
            Ok(()) => give_name(session, naming, &temporary, &path).await,
            Err(failure) => Err(failure),
        };
        let is_moved = result.is_ok() && naming == Naming::Rename;
        // What is still there, a later prune removes.
        let removing = async {
            if !is_moved {
                drop(session.remove(&temporary).await);
            }
        };
        match result {
            Ok(()) => {
                let (synced, ()) =
                    futures::future::join(self.sync_directory(session, parent(&path)), removing)
                        .await;
                synced
            }
            Err(failure @ Failure::Status(..)) => {
                removing.await;
                match self.holds(session, name, bytes).await? {
                    // It may come from a process that was killed before it synced the directory.
                    Some(true) => self.sync_object(session, name).await,
                    Some(false) => Err(self.taken(name).into()),
                    None => Err(failure),
                }
            }
            Err(failure) => Err(failure),
        }
    }

    fn taken(&self, name: &str) -> BackendError {
        let place = self.link.place().to_owned();
        BackendError::AlreadyExists { name: name.to_owned(), place }
    }

    /// Whether exactly `bytes` are stored under `name`; `None` if there is no object.
    async fn holds(
        &self,
        session: &Arc<Session>,
        name: &str,
        bytes: &Bytes,
    ) -> Outcome<Option<bool>> {
        let path = self.path(name);
        match session.stat(&path).await {
            Ok(found) if found.size != Some(bytes.len() as u64) => return Ok(Some(false)),
            Ok(_) => {}
            Err(failure) if failure.is_missing() => return Ok(None),
            Err(failure) => return Err(failure),
        }
        match read_whole(session, name, &path, bytes.len() as u64).await {
            Ok(found) => Ok(Some(found == *bytes)),
            Err(failure) if failure.is_missing() => Ok(None),
            Err(Failure::Told(BackendError::TooLong { .. })) => Ok(Some(false)),
            Err(failure) => Err(failure),
        }
    }

    /// Makes an object that was found, not made, durable.
    async fn sync_object(&self, session: &Arc<Session>, name: &str) -> Outcome<()> {
        let path = self.path(name);
        if session.has_fsync {
            let file = session.open(&path, OpenFlags::READ).await?;
            session.sync(&file).await?;
        }
        self.sync_directory(session, parent(&path)).await
    }

    async fn sync_directory(&self, session: &Arc<Session>, path: &str) -> Outcome<()> {
        match self.syncs_directories.get() {
            Some(true) => session.sync_directory(path).await,
            Some(false) => Ok(()),
            None => {
                let can = session.try_sync_directory(path).await?;
                self.syncs_directories.get_or_init(|| can);
                Ok(())
            }
        }
    }

    /// Creates the missing directories of `name`, and makes all of them durable: each is synced into its parent
    /// once per handle, even if it exists, because another process may have made it and be dead.
    async fn make_directories(&self, session: &Arc<Session>, name: &str) -> Outcome<()> {
        for directory in std::iter::once("").chain(directories_of(name)) {
            let is_durable = {
                let durable = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
                durable.contains(directory)
            };
            if is_durable {
                continue;
            }
            let path = self.path(directory);
            match directory {
                "" => self.make_root(session).await?,
                _ => self.make_directory(session, &path, None).await?,
            }
            self.directories
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(directory.to_owned());
        }
        Ok(())
    }

    async fn make_directory(
        &self,
        session: &Arc<Session>,
        path: &str,
        mode: Option<u32>,
    ) -> Outcome<()> {
        if let Err(failure) = session.make_directory(path, mode).await {
            match session.stat(path).await {
                Ok(found) if found.is_dir() => {}
                _ => return Err(failure),
            }
        }
        self.sync_directory(session, parent(path)).await
    }

    /// Creates the root, accessible to its owner only, and the missing directories above it. An existing one
    /// does not change.
    async fn make_root(&self, session: &Arc<Session>) -> Outcome<()> {
        let mut missing = Vec::new();
        let mut path = self.root.as_str();
        loop {
            match session.stat(path).await {
                Ok(_) => break,
                Err(failure) if failure.is_missing() && !matches!(path, "/" | ".") => {
                    missing.push(path);
                    path = parent(path);
                }
                Err(failure) => return Err(failure),
            }
        }
        for path in missing.into_iter().rev() {
            let mode = (path == self.root).then_some(0o700);
            self.make_directory(session, path, mode).await?;
        }
        self.was_seen.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// How a written file gets its name, found out before the first put by a name that is taken.
    async fn naming(&self, session: &Arc<Session>) -> Outcome<Naming> {
        let mut known = self.naming.lock().await;
        if let Some(naming) = *known {
            return Ok(naming);
        }
        let ways = [(session.has_hardlink, Naming::Link), (true, Naming::Rename)];
        for (_, naming) in ways.into_iter().filter(|(has, _)| *has) {
            if self.refuses_taken(session, naming).await? {
                return Ok(*known.insert(naming));
            }
        }
        if !self.conditional_put {
            return Ok(*known.insert(Naming::Rename));
        }
        let (name, place) = (PROBE.to_owned(), self.link.place().to_owned());
        Err(BackendError::NoConditionalPut { name, place }.into())
    }

    /// Whether a name that is taken is refused. The first try may find it free.
    async fn refuses_taken(&self, session: &Arc<Session>, naming: Naming) -> Outcome<bool> {
        let probe = self.path(PROBE);
        for _ in 0..2 {
            let temporary = temporary(&probe);
            session.write_new(&temporary, &Bytes::from_static(PROBE_CONTENT)).await?;
            let named = give_name(session, naming, &temporary, &probe).await;
            if named.is_err() || naming == Naming::Link {
                drop(session.remove(&temporary).await);
            }
            match named {
                Ok(()) => {}
                Err(Failure::Status(..)) => {
                    return match session.stat(&probe).await {
                        Ok(_) => Ok(true),
                        Err(failure) if failure.is_missing() => Ok(false),
                        Err(failure) => Err(failure),
                    };
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(false)
    }

    /// The entries of all directories from `prefix` down, each with the name that an object there would have;
    /// every directory is durable. A directory that does not exist is empty.
    async fn walk(&self, prefix: &str) -> Result<Vec<(String, Entry)>, BackendError> {
        let (mut level, mut found) = (vec![prefix.to_owned()], Vec::new());
        let above = directories_of(prefix).filter(|above| format!("{above}/") != prefix);
        let above: Vec<&str> =
            std::iter::once("").filter(|_| !prefix.is_empty()).chain(above).collect();
        while !level.is_empty() {
            let listing = std::mem::take(&mut level);
            let listing = stream::iter(listing).map(|directory| self.read_directory(directory));
            let mut listings = std::pin::pin!(listing.buffer_unordered(DIRECTORIES));
            while let Some(listing) = listings.next().await {
                for (name, entry) in listing? {
                    if entry.attributes.is_dir() {
                        level.push(format!("{name}/"));
                    } else {
                        found.push((name, entry));
                    }
                }
            }
        }
        if !found.is_empty() {
            for directory in above {
                let path = self.path(directory);
                let syncing =
                    async |session: Arc<Session>| self.sync_directory(&session, &path).await;
                self.link.run(Operation::List, prefix, syncing).await?;
            }
        }
        Ok(found)
    }

    /// The entries of the directory `prefix`, which are durable.
    async fn read_directory(&self, prefix: String) -> Result<Vec<(String, Entry)>, BackendError> {
        let prefix = prefix.as_str();
        self.usage.request(RequestKind::List);
        let path = self.path(prefix.trim_end_matches('/'));
        let reading = async |session: Arc<Session>| {
            let mut entries = session.read_directory(&path).await?;
            for entry in entries.iter_mut().filter(|entry| entry.attributes.is_symlink()) {
                match session.stat(&format!("{path}/{}", entry.name)).await {
                    // A link to a directory could lead back.
                    Ok(found) if !found.is_dir() => entry.attributes = found,
                    Ok(_) => {}
                    Err(failure) if failure.is_missing() => {}
                    Err(failure) => return Err(failure),
                }
            }
            self.sync_directory(&session, &path).await?;
            Ok(entries)
        };
        // As of a read: what is missing is an answer.
        let read = self.link.run(Operation::Get, prefix, reading).await;
        match self.note_missing(read, Operation::List, prefix).await {
            Ok(entries) => {
                let named = |entry: Entry| (format!("{prefix}{}", entry.name), entry);
                Ok(entries.into_iter().map(named).collect())
            }
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, BackendError> {
        let found = self.walk(prefix).await?;
        let is_object = |(name, entry): &(String, Entry)| {
            check_name(name).is_ok() && !entry.attributes.is_symlink()
        };
        let info = |(name, entry): (String, Entry)| ObjectInfo {
            name,
            size: entry.attributes.size.unwrap_or(0),
        };
        let mut objects: Vec<_> = found.into_iter().filter(is_object).map(info).collect();
        objects.sort();
        Ok(objects)
    }

    async fn discard_unfinished(&self, age: Duration) -> Result<u64, BackendError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let is_old = |entry: &Entry| {
            let written = entry.attributes.mtime.map(|time| Duration::from_secs(time.into()));
            written.is_some_and(|written| now.saturating_sub(written) >= age)
        };
        let mut count = 0;
        for (name, entry) in self.walk("").await? {
            if is_temporary(&name) && is_old(&entry) {
                self.remove(&name).await?;
                count += 1;
            }
        }
        Ok(count)
    }
}

/// Gives a written file its name. Fails if the name is taken.
async fn give_name(session: &Session, naming: Naming, from: &str, to: &str) -> Outcome<()> {
    match naming {
        Naming::Link => session.link(from, to).await,
        Naming::Rename => session.rename(from, to).await,
    }
}

async fn read_whole(session: &Arc<Session>, name: &str, path: &str, max: u64) -> Outcome<Bytes> {
    let file = session.open(path, OpenFlags::READ).await?;
    let size = session.len(&file).await?;
    check_size(name, size, max)?;
    let bytes = session.read(&file, 0, size).await?;
    whole(bytes, size)
}

async fn read_range(
    session: &Arc<Session>,
    name: &str,
    path: &str,
    range: Range<u64>,
) -> Outcome<Bytes> {
    let file = session.open(path, OpenFlags::READ).await?;
    let len = range.end.saturating_sub(range.start);
    // Bounded by the object before memory is taken.
    let size = if range.start >= range.end || len > MAX_UNCHECKED {
        session.len(&file).await?
    } else {
        let bytes = session.read(&file, range.start, len).await?;
        if bytes.len() as u64 == len {
            return Ok(bytes.into());
        }
        session.len(&file).await?
    };
    if range.start > range.end || range.end > size {
        return Err(BackendError::OutOfRange { name: name.to_owned(), range, size }.into());
    }
    let bytes = session.read(&file, range.start, len).await?;
    whole(bytes, len)
}

/// A range up to this many bytes is read before the length of its object is known.
const MAX_UNCHECKED: u64 = 64 << 20;

fn whole(bytes: Vec<u8>, expected: u64) -> Outcome<Bytes> {
    if bytes.len() as u64 == expected {
        return Ok(bytes.into());
    }
    let text = format!("received {} bytes, expected {expected}", bytes.len());
    Err(Failure::Broken(io::Error::new(io::ErrorKind::ConnectionAborted, text)))
}

/// The directory that holds `path`.
fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) => "/",
        Some((parent, _)) => parent,
        None => ".",
    }
}

/// A name beside `path` that no object has.
fn temporary(path: &str) -> String {
    // Keyed by the operating system's random numbers.
    let random = RandomState::new().build_hasher().finish();
    format!("{path}#{random:0DIGITS$x}")
}

/// Whether a name is that of a put that has not ended.
fn is_temporary(name: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    name.rsplit_once('#').is_some_and(|(name, digits)| {
        (check_name(name).is_ok() || name == PROBE)
            && digits.len() == DIGITS
            && digits.bytes().all(is_digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_names_are_known_again_and_are_no_objects() {
        for path in ["a", "containers/00/0123", PROBE] {
            let temporary = temporary(path);
            assert!(is_temporary(&temporary) && check_name(&temporary).is_err(), "{temporary}");
        }
        for other in ["a", "a#1", "a#0123456789abcdeg", "A#0123456789abcdef", "#0123456789abcdef"] {
            assert!(!is_temporary(other), "{other}");
        }
    }

    #[test]
    fn directories_are_cut_off_at_the_last_slash() {
        for (path, expected) in [("/a/b", "/a"), ("/a", "/"), ("a/b", "a"), ("a", ".")] {
            assert_eq!(parent(path), expected, "{path}");
        }
    }
}
