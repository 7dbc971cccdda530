//! One SFTP session: requests, each of which fails when the host falls silent.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use russh_sftp::client::RawSftpSession;
use russh_sftp::client::error::Error;
use russh_sftp::client::rawsession::Limits;
use russh_sftp::protocol::{FileAttributes, OpenFlags, StatusCode};
use tokio::runtime;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::ssh::Stream;
use crate::remote::silence::Progress;
use crate::{BackendError, Cause};

/// The bytes of one read or write, unless the server takes less. Every server takes 32 KiB.
const PIECE: u64 = 128 << 10;
const LEAST_PIECE: u64 = 32 << 10;

/// Reads and writes of one object under way.
const PIECES: usize = 16;

/// Operations under way in one session, each with two open files at most. The handles of OpenSSH are text only
/// below 128.
pub(super) const OPERATIONS: usize = 24;

/// Longer than any silence: time-outs are for the whole connection, in [`Progress`].
const NO_TIMEOUT: u64 = 1 << 31;

/// Why an operation failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The server's answer.
    Status(StatusCode, String),
    /// The connection broke, or could not be made; a later try may succeed.
    Broken(io::Error),
    /// The connection was refused.
    Refused(Cause),
    Told(BackendError),
}

pub(super) type Outcome<T> = Result<T, Failure>;

impl Failure {
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Status(StatusCode::NoSuchFile, _))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Status(status) => match status.status_code {
                StatusCode::NoConnection | StatusCode::ConnectionLost => {
                    Self::Broken(io::ErrorKind::ConnectionReset.into())
                }
                code => Self::Status(code, status.error_message),
            },
            error => Self::Broken(io::Error::new(io::ErrorKind::ConnectionReset, error)),
        }
    }
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        Self::Told(error)
    }
}

/// A session, and what its server can do.
pub(super) struct Session {
    sftp: RawSftpSession,
    progress: Progress,
    runtime: runtime::Handle,
    pub(super) permits: Semaphore,
    pub(super) has_fsync: bool,
    pub(super) has_hardlink: bool,
    has_statvfs: bool,
    read_len: u32,
    write_len: usize,
}

/// An open file or directory. It is closed when this is dropped.
pub(super) struct Open {
    session: Arc<Session>,
    handle: String,
}

impl Drop for Open {
    fn drop(&mut self) {
        let (session, handle) = (Arc::clone(&self.session), std::mem::take(&mut self.handle));
        // What was written is synced before; and a connection that broke closes its files.
        let closing = async move { drop(session.sftp.close(handle).await) };
        drop(self.session.runtime.spawn(closing));
    }
}

/// A name in a directory.
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) attributes: FileAttributes,
}

impl Session {
    /// Begins a session on a stream that leads to an SFTP server.
    pub(super) async fn start(
        stream: impl Stream + 'static,
        progress: Progress,
    ) -> Outcome<Arc<Self>> {
        let sftp = RawSftpSession::new(stream);
        sftp.set_timeout(NO_TIMEOUT);
        let mut session = Self {
            sftp,
            progress,
            runtime: runtime::Handle::current(),
            permits: Semaphore::new(OPERATIONS),
            has_fsync: false,
            has_hardlink: false,
            has_statvfs: false,
            read_len: LEAST_PIECE as u32,
            write_len: LEAST_PIECE as usize,
        };
        let version = session.call(session.sftp.init()).await?;
        let has = |name: &str| version.extensions.contains_key(name);
        session.has_fsync = has("fsync@openssh.com");
        session.has_hardlink = has("hardlink@openssh.com");
        session.has_statvfs = has("statvfs@openssh.com");
        if has("limits@openssh.com") {
            let limits = Limits::from(session.call(session.sftp.limits()).await?);
            let piece = |limit: Option<u64>| limit.unwrap_or(LEAST_PIECE).min(PIECE);
            session.read_len = piece(limits.read_len) as u32;
            session.write_len = piece(limits.write_len) as usize;
        }
        Ok(Arc::new(session))
    }

    /// Waits for the answer to a request, unless no byte moves for too long.
    async fn call<T>(&self, request: impl Future<Output = Result<T, Error>>) -> Outcome<T> {
        self.progress.note(Instant::now());
        match self.progress.watch(request).await {
            Ok(answer) => Ok(answer?),
            Err(silent) => Err(Failure::Broken(io::Error::new(io::ErrorKind::TimedOut, silent))),
        }
    }

    async fn open_by<T>(
        self: &Arc<Self>,
        opening: impl Future<Output = Outcome<T>> + Send + 'static,
    ) -> Outcome<Open>
    where
        T: Into<String> + Send + 'static,
    {
        let session = Arc::clone(self);
        // On a task of its own: what is opened is closed, although the caller may not wait for it.
        let task = self.runtime.spawn(async move {
            let handle = opening.await?.into();
            match handle.contains(char::REPLACEMENT_CHARACTER) {
                true => {
                    let text = "the server's handles of open files are no text";
                    Err(Failure::Refused(text.into()))
                }
                false => Ok(Open { session, handle }),
            }
        });
        task.await.unwrap_or_else(|error| Err(Failure::Broken(io::Error::other(error))))
    }

    /// Opens a file.
    pub(super) async fn open(self: &Arc<Self>, path: &str, flags: OpenFlags) -> Outcome<Open> {
        let (session, path) = (Arc::clone(self), path.to_owned());
        self.open_by(async move {
            let opening = session.sftp.open(path, flags, FileAttributes::empty());
            Ok(session.call(opening).await?.handle)
        })
        .await
    }

    async fn open_directory(self: &Arc<Self>, path: &str) -> Outcome<Open> {
        let (session, path) = (Arc::clone(self), path.to_owned());
        self.open_by(async move { Ok(session.call(session.sftp.opendir(path)).await?.handle) })
            .await
    }

    /// Writes a new file and, where the server can, syncs it.
    pub(super) async fn write_new(self: &Arc<Self>, path: &str, bytes: &Bytes) -> Outcome<()> {
        let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::EXCLUDE;
        let file = self.open(path, flags).await?;
        let pieces = bytes.chunks(self.write_len).enumerate();
        let write = |(number, piece): (usize, &[u8])| {
            let offset = (number * self.write_len) as u64;
            self.call(self.sftp.write(&file.handle, offset, piece.to_vec()))
        };
        let writes: Vec<_> = pieces.map(write).collect();
        let written = stream::iter(writes).buffer_unordered(PIECES).map_ok(drop).try_collect();
        let () = written.await?;
        self.sync(&file).await
    }

    /// Syncs an open file, where the server can.
    pub(super) async fn sync(&self, file: &Open) -> Outcome<()> {
        if self.has_fsync {
            self.call(self.sftp.fsync(&file.handle)).await?;
        }
        Ok(())
    }

    /// Syncs a directory; false if the server cannot.
    pub(super) async fn try_sync_directory(self: &Arc<Self>, path: &str) -> Outcome<bool> {
        if !self.has_fsync {
            return Ok(false);
        }
        // OpenSSH syncs what was opened as a file, and a directory can be.
        for directory in [self.open(path, OpenFlags::READ).await, self.open_directory(path).await] {
            let synced = match directory {
                Ok(directory) => self.sync(&directory).await,
                Err(error) => Err(error),
            };
            match synced {
                Ok(()) => return Ok(true),
                Err(error) if error.is_missing() => {}
                Err(Failure::Status(..)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Syncs a directory on a server that can.
    pub(super) async fn sync_directory(self: &Arc<Self>, path: &str) -> Outcome<()> {
        let directory = self.open(path, OpenFlags::READ).await?;
        self.sync(&directory).await
    }

    /// Gives a file another name as well. Fails if the name is taken.
    pub(super) async fn link(&self, from: &str, to: &str) -> Outcome<()> {
        self.call(self.sftp.hardlink(from, to)).await.map(drop)
    }

    pub(super) async fn rename(&self, from: &str, to: &str) -> Outcome<()> {
        self.call(self.sftp.rename(from, to)).await.map(drop)
    }

    pub(super) async fn remove(&self, path: &str) -> Outcome<()> {
        self.call(self.sftp.remove(path)).await.map(drop)
    }

    pub(super) async fn make_directory(&self, path: &str, mode: Option<u32>) -> Outcome<()> {
        let attributes = FileAttributes { permissions: mode, ..FileAttributes::empty() };
        self.call(self.sftp.mkdir(path, attributes)).await.map(drop)
    }

    /// What is at `path`; a link counts as what it leads to.
    pub(super) async fn stat(&self, path: &str) -> Outcome<FileAttributes> {
        Ok(self.call(self.sftp.stat(path)).await?.attrs)
    }

    /// The length in bytes of an open file.
    pub(super) async fn len(&self, file: &Open) -> Outcome<u64> {
        Ok(self.call(self.sftp.fstat(&file.handle)).await?.attrs.size.unwrap_or(0))
    }

    /// The free bytes at `path`, if the server tells.
    pub(super) async fn free(&self, path: &str) -> Option<u64> {
        if !self.has_statvfs {
            return None;
        }
        let found = self.call(self.sftp.statvfs(path)).await.ok()?;
        Some(found.blocks_avail.saturating_mul(found.fragment_size))
    }

    /// The names in a directory, without those of itself and the directory above.
    pub(super) async fn read_directory(self: &Arc<Self>, path: &str) -> Outcome<Vec<Entry>> {
        let directory = self.open_directory(path).await?;
        let mut entries = Vec::new();
        loop {
            match self.call(self.sftp.readdir(&directory.handle)).await {
                Ok(names) => entries.extend(
                    names
                        .files
                        .into_iter()
                        .filter(|file| !matches!(file.filename.as_str(), "." | ".."))
                        .map(|file| Entry { name: file.filename, attributes: file.attrs }),
                ),
                Err(Failure::Status(StatusCode::Eof, _)) => return Ok(entries),
                Err(error) => return Err(error),
            }
        }
    }

    /// Up to `len` bytes of an open file from `start` on; fewer if it ends before.
    pub(super) async fn read(&self, file: &Open, start: u64, len: u64) -> Outcome<Vec<u8>> {
        let piece = u64::from(self.read_len);
        let reads: Vec<_> = (0..len.div_ceil(piece))
            .map(|number| {
                let offset = number * piece;
                self.read_piece(file, start + offset, piece.min(len - offset) as u32)
            })
            .collect();
        let mut reads = stream::iter(reads).buffered(PIECES);
        // A server tells how long the object is; the memory is taken as bytes arrive.
        let mut bytes = Vec::with_capacity(len.min(64 << 20) as usize);
        let mut expected = 0;
        while let Some(read) = reads.next().await {
            let read = read?;
            if bytes.len() as u64 == expected {
                bytes.extend_from_slice(&read);
            }
            expected += piece;
        }
        Ok(bytes)
    }

    async fn read_piece(&self, file: &Open, start: u64, len: u32) -> Outcome<Vec<u8>> {
        let mut bytes = Vec::new();
        while (bytes.len() as u32) < len {
            let (offset, left) = (start + bytes.len() as u64, len - bytes.len() as u32);
            match self.call(self.sftp.read(&file.handle, offset, left)).await {
                Ok(data) if data.data.is_empty() || data.data.len() as u64 > u64::from(left) => {
                    let text = "the server answered a read with a wrong number of bytes";
                    return Err(Failure::Broken(io::Error::new(
                        io::ErrorKind::ConnectionReset,
                        text,
                    )));
                }
                Ok(data) if bytes.is_empty() => bytes = data.data,
                Ok(data) => bytes.extend_from_slice(&data.data),
                Err(Failure::Status(StatusCode::Eof, _)) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(bytes)
    }
}
