//! The connection to a host: made when it is needed, and again after it broke.

use std::io;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use russh_sftp::protocol::StatusCode;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::metered::{Meter, Metered};
use super::session::{Failure, Outcome, Session};
use super::ssh::{self, Connected, ProcessStream, SshError, Target};
use crate::remote::RemoteOptions;
use crate::remote::silence::Progress;
use crate::{BackendError, Cause, Operation, SftpLocation};

/// Sessions in one connection, unless the user wants another number. Servers take 10.
const SESSIONS: usize = 4;

/// How a host is reached.
enum Way {
    /// Through these hosts.
    Ssh(Vec<Target>),
    /// By a program that speaks SFTP on its standard input and output.
    Command(Vec<String>),
}

/// A host, and the connection to it while there is one.
pub(super) struct Link {
    place: String,
    way: Way,
    most: usize,
    meter: Meter,
    connection: Mutex<Option<Arc<Connection>>>,
}

struct Connection {
    /// None if each session is a program.
    ssh: Option<Connected>,
    sessions: Mutex<Vec<Arc<Session>>>,
    /// How many sessions there may be.
    most: AtomicUsize,
}

impl Link {
    pub(super) fn new(location: &SftpLocation, options: &RemoteOptions) -> Result<Self, Cause> {
        let way = match options.sftp_command.as_deref() {
            Some(command) => {
                let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
                match words.is_empty() {
                    true => return Err("the command for SFTP is empty".into()),
                    false => Way::Command(words),
                }
            }
            None => {
                let named = options.ssh_config.clone().map(|file: PathBuf| vec![file]);
                Way::Ssh(ssh::way_to(location, &named.unwrap_or_else(ssh::default_files))?)
            }
        };
        let meter = Meter {
            upload: options.upload_limit.clone(),
            download: options.download_limit.clone(),
            usage: options.usage.clone(),
            progress: Progress::begin(options.silence),
        };
        let most = options.connections.map_or(SESSIONS, NonZero::get);
        Ok(Self { place: location.to_string(), way, most, meter, connection: Mutex::default() })
    }

    /// Where it leads, for errors.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Runs an operation in the session that has the fewest. If the connection breaks, the next operation makes
    /// another.
    pub(super) async fn run<T>(
        &self,
        operation: Operation,
        name: &str,
        work: impl AsyncFnOnce(Arc<Session>) -> Outcome<T>,
    ) -> Result<T, BackendError> {
        let connection = match self.connection().await {
            Ok(connection) => connection,
            Err(failure) => return Err(self.error(operation, name, failure)),
        };
        let outcome = match self.session(&connection).await {
            Ok(session) => {
                let permit = session.permits.acquire().await;
                let _permit = permit.expect("the semaphore is never closed");
                work(Arc::clone(&session)).await
            }
            Err(failure) => Err(failure),
        };
        if matches!(outcome, Err(Failure::Broken(_))) {
            let mut current = self.connection.lock().await;
            current.take_if(|current| Arc::ptr_eq(current, &connection));
        }
        outcome.map_err(|failure| self.error(operation, name, failure))
    }

    async fn connection(&self) -> Outcome<Arc<Connection>> {
        let mut current = self.connection.lock().await;
        if let Some(connection) = &*current {
            return Ok(Arc::clone(connection));
        }
        let ssh = match &self.way {
            Way::Command(_) => None,
            Way::Ssh(way) => {
                let connecting = ssh::connect(way, self.meter.clone());
                Some(self.unless_silent(connecting).await??)
            }
        };
        let connection =
            Connection { ssh, sessions: Mutex::default(), most: AtomicUsize::new(self.most) };
        Ok(Arc::clone(current.insert(Arc::new(connection))))
    }

    /// The session with the fewest operations, or a new one if all have some and there may be more.
    async fn session(&self, connection: &Connection) -> Outcome<Arc<Session>> {
        let mut sessions = connection.sessions.lock().await;
        let freest = sessions.iter().max_by_key(|session| session.permits.available_permits());
        let is_idle = |session: &Session| {
            let free = session.permits.available_permits();
            sessions.iter().all(|other| other.permits.available_permits() <= free)
                && free == super::session::OPERATIONS
        };
        if let Some(session) = freest
            && (is_idle(session) || sessions.len() >= connection.most.load(Ordering::Relaxed))
        {
            return Ok(Arc::clone(session));
        }
        match self.unless_silent(self.start(connection)).await? {
            Ok(session) => {
                sessions.push(Arc::clone(&session));
                Ok(session)
            }
            // The server takes no more of them.
            Err(Failure::Refused(_)) if !sessions.is_empty() => {
                connection.most.store(sessions.len(), Ordering::Relaxed);
                Ok(Arc::clone(&sessions[0]))
            }
            Err(failure) => Err(failure),
        }
    }

    /// What comes of `what`, unless no byte moves for too long.
    async fn unless_silent<F: Future>(&self, what: F) -> Outcome<F::Output> {
        let progress = &self.meter.progress;
        progress.note(Instant::now());
        let silent = |error| Failure::Broken(io::Error::new(io::ErrorKind::TimedOut, error));
        progress.watch(what).await.map_err(silent)
    }

    async fn start(&self, connection: &Connection) -> Outcome<Arc<Session>> {
        let progress = self.meter.progress.clone();
        match (&connection.ssh, &self.way) {
            (Some(ssh), _) => {
                let refused = |error: russh::Error| match error {
                    error @ russh::Error::ChannelOpenFailure(_) => Failure::Refused(error.into()),
                    error => broken(error),
                };
                let channel = ssh.handle.channel_open_session().await.map_err(refused)?;
                channel.request_subsystem(true, "sftp").await.map_err(broken)?;
                Session::start(channel.into_stream(), progress).await
            }
            (None, Way::Command(words)) => {
                let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
                let stream = ProcessStream::start(&words[0], &arguments).map_err(|error| {
                    Failure::Refused(format!("cannot run '{}': {error}", words[0]).into())
                })?;
                Session::start(Metered::new(stream, self.meter.clone()), progress).await
            }
            (None, Way::Ssh(_)) => unreachable!("a way by SSH has a connection by SSH"),
        }
    }

    /// The error for a failure.
    pub(super) fn error(&self, operation: Operation, name: &str, failure: Failure) -> BackendError {
        let told = |cause: Cause| BackendError::from_cause(operation, name, &self.place, cause);
        match failure {
            Failure::Told(error) => error,
            Failure::Status(StatusCode::NoSuchFile, _)
                if matches!(operation, Operation::Get | Operation::Size) =>
            {
                BackendError::NotFound { name: name.to_owned(), place: self.place.clone() }
            }
            Failure::Status(code, text) => {
                let kind = match code {
                    StatusCode::PermissionDenied => io::ErrorKind::PermissionDenied,
                    StatusCode::OpUnsupported => io::ErrorKind::Unsupported,
                    StatusCode::NoSuchFile => io::ErrorKind::NotFound,
                    _ => io::ErrorKind::Other,
                };
                told(io::Error::new(kind, format!("the server answered: {text}")).into())
            }
            Failure::Broken(error) => told(error.into()),
            Failure::Refused(cause) => told(cause),
        }
    }
}

fn broken(error: russh::Error) -> Failure {
    Failure::Broken(io::Error::new(io::ErrorKind::ConnectionReset, error))
}

impl From<SshError> for Failure {
    fn from(error: SshError) -> Self {
        match error.may_pass() {
            true => Self::Broken(io::Error::new(io::ErrorKind::NotConnected, error)),
            false => Self::Refused(error.into()),
        }
    }
}
