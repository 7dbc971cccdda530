//! The socket in a pool's folder on which whoever serves the pool is asked to change it: a line of
//! JSON, [`Request`], and a line back, [`Answer`].
//!
//! Its permissions let in nobody but the user who serves the pool.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{Mode, fchmod};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::Service;
use super::request::{Answer, Request};

/// The most requests at a time; further ones wait to be accepted.
pub(crate) const CONNECTIONS: usize = 16;
/// The longest request, in bytes with its end.
const MAX_REQUEST: u64 = 64 << 10;
/// The longest answer that is believed, in bytes.
const MAX_ANSWER: u64 = 1 << 30;
/// How long a request may take to come.
const ARRIVAL: Duration = Duration::from_secs(5);
/// How long an answer may take to be taken.
const DELIVERY: Duration = Duration::from_secs(60);
/// How long to wait before accepting again, where that failed for want of something.
const PAUSE: Duration = Duration::from_millis(100);

/// What the socket is called.
const NAME: &str = "control";
/// The longest path that an address of a socket has room for, in bytes.
const MAX_PATH: usize = 107;

/// Where requests are taken, until this is dropped.
pub(crate) struct Control {
    _socket: Socket,
    /// Who waits for the next one.
    accepting: JoinHandle<()>,
    /// Permits of those that are under way.
    room: Arc<Semaphore>,
}

/// A socket that is there until this is dropped.
struct Socket(PathBuf);

impl Drop for Socket {
    fn drop(&mut self) {
        // the next server replaces what could not be removed
        let _ = fs::remove_file(&self.0);
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// A path to the socket of `pool` that is short enough, for as long as what comes with it.
fn address(pool: &Path) -> io::Result<(PathBuf, Option<fs::File>)> {
    let path = pool.join(NAME);
    if path.as_os_str().len() <= MAX_PATH {
        return Ok((path, None));
    }
    let folder = fs::File::open(pool)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/{NAME}", folder.as_raw_fd()));
    Ok((path, Some(folder)))
}

impl Service {
    /// Answers what is asked at the socket of `pool`, which nobody else serves.
    pub(crate) fn listen(
        &self,
        pool: &Path,
        answer: impl Fn(Request) -> Answer + Send + Sync + 'static,
    ) -> Result<Control> {
        let path = pool.join(NAME);
        let listener = bind_at(pool)
            .with_context(|| format!("cannot listen for requests at '{}'", path.display()))?;
        let _socket = Socket(path);
        listener.set_nonblocking(true)?;
        let _context = self.runtime().enter();
        let listener = tokio::net::UnixListener::from_std(listener)?;
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        let accepting = self.runtime().spawn(accept(listener, Arc::clone(&room), Arc::new(answer)));
        Ok(Control { _socket, accepting, room })
    }

    /// Lets nobody ask any more, and waits until those who did have their answers, but no longer than
    /// `patience`.
    pub(crate) fn end(&self, control: Control, patience: Duration) {
        let room = Arc::clone(&control.room);
        drop(control);
        let all = async { room.acquire_many(CONNECTIONS as u32).await.map(drop) };
        // who is not done by then is told of by who does it
        let _ = self.runtime().block_on(async { timeout(patience, all).await });
    }
}

/// A socket that only this user can connect to, from the moment it is there.
fn bind_at(pool: &Path) -> Result<UnixListener> {
    let (path, _folder) = address(pool)?;
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
        // whoever made it does not serve the pool any more
        Ok(found) if found.file_type().is_socket() => fs::remove_file(&path)?,
        Ok(_) => bail!("expected a socket or nothing there"),
    }
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    let own = Mode::RUSR | Mode::WUSR;
    fchmod(&socket, own)?;
    bind(&socket, &SocketAddrUnix::new(&path)?)?;
    // not every system passes the socket's mode on
    fs::set_permissions(&path, fs::Permissions::from_mode(own.bits()))?;
    listen(&socket, CONNECTIONS as i32)?;
    Ok(socket.into())
}

type Answerer = dyn Fn(Request) -> Answer + Send + Sync;

async fn accept(listener: tokio::net::UnixListener, room: Arc<Semaphore>, answer: Arc<Answerer>) {
    loop {
        let permit = room.clone().acquire_owned().await.expect("never closed");
        match listener.accept().await {
            Ok((stream, _)) => {
                let answer = Arc::clone(&answer);
                tokio::spawn(async move {
                    if let Err(error) = converse(stream, answer).await {
                        debug!(error = %format_args!("{error:#}"), "a request was not answered");
                    }
                    drop(permit);
                });
            }
            Err(error) => {
                warn!(%error, "a request could not be let in");
                sleep(PAUSE).await;
            }
        }
    }
}

async fn converse(mut stream: tokio::net::UnixStream, answer: Arc<Answerer>) -> Result<()> {
    let mut line = Vec::new();
    let mut reader = tokio::io::BufReader::new((&mut stream).take(MAX_REQUEST));
    timeout(ARRIVAL, reader.read_until(b'\n', &mut line)).await.context("it took too long")??;
    let answered = match serde_json::from_slice(&line) {
        _ if line.last() != Some(&b'\n') => Answer::refused(&format!(
            "a request of at most {MAX_REQUEST} bytes with its end was expected"
        )),
        Ok(request) => spawn_blocking(move || answer(request)).await?,
        Err(error) => Answer::refused(&format!("whoever serves the pool cannot do this: {error}")),
    };
    let mut bytes = serde_json::to_vec(&answered)?;
    bytes.push(b'\n');
    timeout(DELIVERY, stream.write_all(&bytes)).await.context("nobody took it")??;
    Ok(())
}

/// A connection to whoever serves a pool.
pub(crate) struct Asking(UnixStream);

impl Asking {
    /// Connects to whoever serves `pool`; `None` if nobody listens there.
    pub(crate) fn connect(pool: &Path) -> Result<Option<Self>> {
        let (path, _folder) = address(pool)?;
        match UnixStream::connect(&path) {
            Ok(stream) => Ok(Some(Self(stream))),
            Err(error)
                if [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused]
                    .contains(&error.kind()) =>
            {
                Ok(None)
            }
            Err(error) => Err(error).context("whoever serves the pool cannot be asked"),
        }
    }

    /// What is said to `request`.
    pub(crate) fn ask(mut self, request: &Request) -> Result<Answer> {
        let mut bytes = serde_json::to_vec(request)?;
        bytes.push(b'\n');
        let len = bytes.len();
        ensure!(len as u64 <= MAX_REQUEST, "a request of {len} bytes is too long");
        self.0.write_all(&bytes).context("whoever serves the pool takes no request")?;
        let mut line = Vec::new();
        let read = BufReader::new(self.0.take(MAX_ANSWER)).read_until(b'\n', &mut line);
        read.context("whoever serves the pool gave no answer")?;
        ensure!(
            line.last() == Some(&b'\n'),
            "whoever serves the pool ended before it answered; what was asked for may have been done"
        );
        let answer = serde_json::from_slice(&line);
        answer.context("whoever serves the pool answered in words that this program lacks")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread;
    use std::time::Instant;

    use super::*;

    /// A pool's folder whose requests begin, and are answered with as many tickets as there are.
    struct Asked {
        folder: tempfile::TempDir,
        service: Service,
        begins: Receiver<()>,
        tickets: Sender<()>,
    }

    fn asked() -> (Asked, Control) {
        let folder = tempfile::tempdir().unwrap();
        let service = Service::start().unwrap();
        let (began, begins) = channel();
        let (tickets, taken) = channel();
        let taken = Mutex::new(taken);
        let answer = move |_| {
            began.send(()).unwrap();
            // without anybody who gives tickets nobody waits for the answer
            let _ = taken.lock().unwrap().recv();
            Answer::Done
        };
        let control = service.listen(folder.path(), answer).unwrap();
        (Asked { folder, service, begins, tickets }, control)
    }

    #[test]
    fn who_asked_before_the_end_has_an_answer_and_nobody_asks_after_it() {
        let (asked, control) = asked();
        let Asked { folder, service, begins, tickets } = &asked;
        let socket = folder.path().join(NAME);
        thread::scope(|scope| {
            let mut asking = UnixStream::connect(&socket).unwrap();
            let mut request = serde_json::to_vec(&Request::Stats).unwrap();
            request.push(b'\n');
            asking.write_all(&request).unwrap();
            begins.recv().unwrap();
            scope.spawn(|| {
                while socket.exists() {
                    thread::sleep(Duration::from_millis(1));
                }
                // whoever does not wait for the answer would be back by then
                thread::sleep(Duration::from_millis(50));
                tickets.send(()).unwrap();
            });
            service.end(control, Duration::from_secs(60));
            // it is there already
            asking.set_nonblocking(true).unwrap();
            let mut line = Vec::new();
            BufReader::new(asking).read_until(b'\n', &mut line).unwrap();
            assert_eq!(serde_json::from_slice::<Answer>(&line).unwrap(), Answer::Done);
        });
        assert!(Asking::connect(folder.path()).unwrap().is_none());
    }

    #[test]
    fn what_does_not_end_is_waited_for_as_long_as_was_said() {
        let (asked, control) = asked();
        let Asked { folder, service, begins, tickets } = asked;
        let path = folder.path().to_owned();
        let asking = thread::spawn(move || {
            Asking::connect(&path).unwrap().expect("it is served").ask(&Request::Stats)
        });
        begins.recv().unwrap();
        let (begun, patience) = (Instant::now(), Duration::from_millis(50));
        service.end(control, patience);
        assert!(begun.elapsed() >= patience);
        // the answer comes to nobody: whoever ends does not wait for it
        drop(tickets);
        drop(service);
        let _ = asking.join().unwrap();
    }
}
