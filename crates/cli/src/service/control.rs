//! The control socket in a pool's folder, on which the server of the pool receives requests. A client
//! sends one [`Request`] as a line of JSON and receives lines with an [`Answer`] each: first that the
//! request has begun, then the result. If the client closes its end early, the server stops the request.
//!
//! Only the user who runs the server has permission to connect.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use onefold_store::Cancel;
use rustix::fs::{Mode, fchmod};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketType, bind, connect, listen};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::select;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::Service;
use super::answer::Answer;
use super::request::Request;

/// The maximum number of concurrent requests; further ones wait to be accepted.
pub(crate) const CONNECTIONS: usize = 16;
/// The longest request, in bytes with its end.
const MAX_REQUEST: u64 = 64 << 10;
/// The longest accepted answer, in bytes.
const MAX_ANSWER: u64 = 1 << 30;
/// How long receiving a request may take.
const ARRIVAL: Duration = Duration::from_secs(5);
/// How long a client may take to receive an answer.
const DELIVERY: Duration = Duration::from_secs(60);
/// How long it may take until a request begins. Its execution has no limit.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long to wait before accepting again after a lack of resources.
const PAUSE: Duration = Duration::from_millis(100);

/// What the socket is called.
const NAME: &str = "control";
/// The longest path that an address of a socket has room for, in bytes.
const MAX_PATH: usize = 107;

/// Accepts requests until it is dropped.
pub(crate) struct Control {
    _socket: Socket,
    /// The task that accepts requests.
    accepting: JoinHandle<()>,
    /// Permits of requests in progress.
    room: Arc<Semaphore>,
}

/// A socket whose file is removed when this is dropped.
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

/// The socket of a pool before the server accepts clients; connecting clients wait.
pub(crate) struct Bound {
    listener: UnixListener,
    socket: Socket,
}

impl Bound {
    /// The socket of `pool`, which no other process serves.
    pub(crate) fn at(pool: &Path) -> Result<Self> {
        let path = pool.join(NAME);
        let listener = bind_at(pool)
            .with_context(|| format!("cannot listen for requests at '{}'", path.display()))?;
        let socket = Socket(path);
        listener.set_nonblocking(true)?;
        Ok(Self { listener, socket })
    }
}

impl Service {
    /// Answers requests at the socket of a pool with `answer`, which can check whether the client still
    /// waits.
    pub(crate) fn listen(
        &self,
        bound: Bound,
        answer: impl Fn(Request, &Cancel) -> Answer + Send + Sync + 'static,
    ) -> Result<Control> {
        let Bound { listener, socket: _socket } = bound;
        let _context = self.runtime().enter();
        let listener = tokio::net::UnixListener::from_std(listener)?;
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        let accepting = self.runtime().spawn(accept(listener, Arc::clone(&room), Arc::new(answer)));
        Ok(Control { _socket, accepting, room })
    }

    /// Accepts no more requests, and waits until the accepted ones are answered, but no longer than
    /// `patience`.
    pub(crate) fn end(&self, control: Control, patience: Duration) {
        let room = Arc::clone(&control.room);
        drop(control);
        let all = async { room.acquire_many(CONNECTIONS as u32).await.map(drop) };
        // requests that are not done by then are reported by their own code
        let _ = self.runtime().block_on(async { timeout(patience, all).await });
    }
}

/// A socket that only this user can connect to from its creation on.
fn bind_at(pool: &Path) -> Result<UnixListener> {
    let (path, _folder) = address(pool)?;
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
        // its server no longer serves the pool
        Ok(found) if found.file_type().is_socket() => fs::remove_file(&path)?,
        Ok(_) => bail!("expected a socket or nothing there"),
    }
    let socket = stream_socket()?;
    let own = Mode::RUSR | Mode::WUSR;
    fchmod(&socket, own)?;
    bind(&socket, &SocketAddrUnix::new(&path)?)?;
    // not every system passes the socket's mode on
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    listen(&socket, CONNECTIONS as i32)?;
    Ok(socket.into())
}

/// A socket that no program inherits: on Linux also none that another thread starts just now.
fn stream_socket() -> io::Result<OwnedFd> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    #[cfg(target_os = "linux")]
    let socket = net::socket_with(family, kind, net::SocketFlags::CLOEXEC, None)?;
    #[cfg(not(target_os = "linux"))]
    let socket = net::socket(family, kind, None)?;
    #[cfg(not(target_os = "linux"))]
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    Ok(socket)
}

type Answerer = dyn Fn(Request, &Cancel) -> Answer + Send + Sync;

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
                warn!(%error, "a request could not be accepted");
                sleep(PAUSE).await;
            }
        }
    }
}

async fn converse(stream: tokio::net::UnixStream, answer: Arc<Answerer>) -> Result<()> {
    let (asking, mut answers) = stream.into_split();
    let mut line = Vec::new();
    let mut reader = tokio::io::BufReader::new(asking.take(MAX_REQUEST));
    timeout(ARRIVAL, reader.read_until(b'\n', &mut line)).await.context("it took too long")??;
    let answered = match serde_json::from_slice(&line) {
        _ if line.last() != Some(&b'\n') => Answer::refused(&format!(
            "a request of at most {MAX_REQUEST} bytes with its end was expected"
        )),
        Ok(request) => {
            // do not begin a request whose client has given up
            say(&mut answers, &Answer::Begun).await?;
            let asking = reader.into_inner().into_inner();
            answer_while_asked(request, asking, answer).await?
        }
        Err(error) => {
            Answer::refused(&format!("the server of the pool does not know this request: {error}"))
        }
    };
    say(&mut answers, &answered).await
}

async fn say(answers: &mut OwnedWriteHalf, answer: &Answer) -> Result<()> {
    let mut bytes = serde_json::to_vec(answer)?;
    bytes.push(b'\n');
    timeout(DELIVERY, answers.write_all(&bytes))
        .await
        .context("the client did not receive it in time")??;
    Ok(())
}

/// The result of `answer` for `request`. If the client disconnects first, `answer` is notified, but this
/// still waits for it, so that its place stays occupied while it works.
async fn answer_while_asked(
    request: Request,
    mut asking: OwnedReadHalf,
    answer: Arc<Answerer>,
) -> Result<Answer> {
    let gone = Arc::new(Cancel::default());
    let told = Arc::clone(&gone);
    let mut answering = spawn_blocking(move || answer(request, &told));
    select! {
        answered = &mut answering => return Ok(answered?),
        () = end_of(&mut asking) => gone.cancel(),
    }
    Ok(answering.await?)
}

/// Waits until the client has closed its end; it sends nothing more.
async fn end_of(asking: &mut OwnedReadHalf) {
    let mut more = [0; 64];
    while matches!(asking.read(&mut more).await, Ok(1..)) {}
}

/// A connection to the server of a pool.
pub(crate) struct Asking(UnixStream);

impl Asking {
    /// Connects to the server of `pool`; `None` if no process listens there.
    pub(crate) fn connect(pool: &Path) -> Result<Option<Self>> {
        let (path, _folder) = address(pool)?;
        match connect_to(&path) {
            Ok(stream) => Ok(Some(Self(stream))),
            Err(error)
                if [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused]
                    .contains(&error.kind()) =>
            {
                Ok(None)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                bail!("{}", too_busy(PATIENCE))
            }
            Err(error) => Err(error).context("cannot send a request to the server of the pool"),
        }
    }

    /// The answer to `request`.
    pub(crate) fn ask(self, request: &Request) -> Result<Answer> {
        self.ask_within(request, PATIENCE)
    }

    /// The same, if the request begins within `patience`.
    fn ask_within(mut self, request: &Request, patience: Duration) -> Result<Answer> {
        let mut bytes = serde_json::to_vec(request)?;
        bytes.push(b'\n');
        let len = bytes.len();
        ensure!(len as u64 <= MAX_REQUEST, "a request of {len} bytes is too long");
        self.0.write_all(&bytes).context("the server of the pool accepts no request")?;
        self.0.set_read_timeout(Some(patience))?;
        let mut answers = BufReader::new((&self.0).take(MAX_ANSWER));
        let first = next_answer(&mut answers, patience)?;
        if first != Answer::Begun {
            return Ok(first);
        }
        self.0.set_read_timeout(None)?;
        next_answer(&mut answers, patience)
    }
}

/// A connection to the socket at `path`. If many clients wait to be accepted, it waits too, for a while.
fn connect_to(path: &Path) -> io::Result<UnixStream> {
    let socket = stream_socket()?;
    set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE))?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

/// The next of the `answers`, of which the first comes within `patience`.
fn next_answer(answers: &mut impl BufRead, patience: Duration) -> Result<Answer> {
    let mut line = Vec::new();
    match answers.read_until(b'\n', &mut line) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => bail!("{}", too_busy(patience)),
        read => read.context("the server of the pool did not answer")?,
    };
    ensure!(
        line.last() == Some(&b'\n'),
        "the server of the pool ended before it answered; the request may have been executed"
    );
    let answer = serde_json::from_slice(&line);
    answer.context("the server of the pool sent an answer that this program does not know")
}

fn too_busy(patience: Duration) -> String {
    format!(
        "the server of the pool did not begin the request within {patience:?}, and it was given up: \
         the server executes up to {CONNECTIONS} requests at a time; end a check, a scrub or a \
         compaction, or try again later"
    )
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
        let answer = move |_, _: &Cancel| {
            began.send(()).unwrap();
            // without anybody who gives tickets nobody waits for the answer
            let _ = taken.lock().unwrap().recv();
            Answer::Done
        };
        let control = service.listen(Bound::at(folder.path()).unwrap(), answer).unwrap();
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
            let mut answers = BufReader::new(asking);
            for expected in [Answer::Begun, Answer::Done] {
                assert_eq!(next_answer(&mut answers, PATIENCE).unwrap(), expected);
            }
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

    #[test]
    fn what_was_asked_for_stops_when_whoever_asked_has_gone() {
        let folder = tempfile::tempdir().unwrap();
        let service = Service::start().unwrap();
        let (began, begins) = channel();
        let answer = move |request, asker: &Cancel| {
            began.send(format!("{request:?}")).unwrap();
            let end = Instant::now() + Duration::from_secs(60);
            while request == Request::Scrub && !asker.is_cancelled() {
                assert!(Instant::now() < end, "nobody told it that whoever asked has gone");
                thread::sleep(Duration::from_millis(1));
            }
            Answer::Done
        };
        let _control = service.listen(Bound::at(folder.path()).unwrap(), answer).unwrap();
        let ask = || Asking::connect(folder.path()).unwrap().expect("it is served");
        let mut scrub = serde_json::to_vec(&Request::Scrub).unwrap();
        scrub.push(b'\n');
        let askers: Vec<Asking> = (0..CONNECTIONS)
            .map(|_| {
                let mut asking = ask();
                asking.0.write_all(&scrub).unwrap();
                assert_eq!(begins.recv().unwrap(), "Scrub");
                asking
            })
            .collect();
        // there is no place for one more, who gives up
        let error = ask().ask_within(&Request::Stats, Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().contains("did not begin the request within 50ms"), "{error:#}");
        drop(askers);
        assert_eq!(ask().ask(&Request::List).unwrap(), Answer::Done);
        // and nothing was begun for it
        assert_eq!(begins.try_iter().collect::<Vec<_>>(), ["List"]);
    }
}
