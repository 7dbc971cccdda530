//! Asks other gateways.
//!
//! A [`Peer`] keeps a connection to one gateway, and makes it again when it breaks. Callers never wait for that:
//! while there is no connection, hints are missing.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use super::authority::{Authority, Identity};
use super::error::PeerError;
use super::message::{self, Hello, Message, VERSION};
use super::server::ALIVE;
use crate::hints::{GatewayId, Hint, Key};

/// How long a connection may take to be made.
const CONNECTING: Duration = Duration::from_secs(5);
/// How long after a failure a connection is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// The most look-ups of one gateway that have no answer yet.
const FINDS: usize = 64;
/// After this many late answers in a row a gateway is not asked for [`REST`].
const LATE: u32 = 8;
/// How long a gateway is left alone that answers late.
const REST: Duration = Duration::from_secs(1);

/// The name of a gateway in its certificate.
pub(crate) fn name(gateway: GatewayId) -> String {
    format!("{gateway}.gateway.onefold")
}

/// The name of commands in their certificates.
const COMMAND: &str = "command.onefold";

type Sender = SendRequest<Full<Bytes>>;

/// Whether there is a connection.
#[derive(Clone)]
enum Link {
    Down(Arc<str>),
    Up(Sender),
}

/// Messages of hints, and their bytes without those of HTTP and TLS.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
    /// Messages that look fingerprints up.
    pub(crate) finds: AtomicU64,
    /// Messages that tell of pages.
    pub(crate) adds: AtomicU64,
}

/// Another gateway, as this one reaches it.
pub(crate) struct Peer {
    gateway: GatewayId,
    address: SocketAddr,
    link: watch::Receiver<Link>,
    keeping: JoinHandle<()>,
    finds: Semaphore,
    late: AtomicU32,
    rests_until: Mutex<Option<Instant>>,
    traffic: Arc<Traffic>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.keeping.abort();
    }
}

impl Peer {
    /// Keeps a connection to `gateway` in threads of `runtime`.
    pub(crate) fn start(
        runtime: &Handle,
        own: GatewayId,
        gateway: GatewayId,
        address: SocketAddr,
        config: Arc<ClientConfig>,
        traffic: Arc<Traffic>,
    ) -> Self {
        let (tell, link) = watch::channel(Link::Down("it was not tried yet".into()));
        let keeping = runtime.spawn(keep(tell, own, gateway, address, config));
        Self {
            gateway,
            address,
            link,
            keeping,
            finds: Semaphore::new(FINDS),
            late: AtomicU32::new(0),
            rests_until: Mutex::default(),
            traffic,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether there is a connection.
    pub(crate) fn is_up(&self) -> bool {
        matches!(*self.link.borrow(), Link::Up(_))
    }

    fn to(&self) -> To {
        To { gateway: self.gateway, address: self.address }
    }

    fn sender(&self) -> Result<Sender, PeerError> {
        match &*self.link.borrow() {
            Link::Up(sender) => Ok(sender.clone()),
            Link::Down(why) => Err(self.to().unreachable(why)),
        }
    }

    /// The hints of `keys`, at most [`MAX_PAGES`](message::MAX_PAGES), if they come within `deadline`. A gateway
    /// that is away, has too many look-ups, or was late too often gives none, at once.
    pub(crate) async fn find(&self, keys: &[Key], deadline: Duration) -> Option<Vec<Option<Hint>>> {
        let _permit = self.finds.try_acquire().ok().filter(|_| !self.rests())?;
        let sender = self.sender().ok()?;
        let request = message::encode_find(keys);
        self.traffic.finds.fetch_add(1, Ordering::Relaxed);
        self.traffic.sent.fetch_add(request.len() as u64, Ordering::Relaxed);
        let Ok(answered) = timeout(deadline, self.to().ask(sender, Message::Find, request)).await
        else {
            self.note_late();
            return None;
        };
        self.late.store(0, Ordering::Relaxed);
        let bytes = answered.ok()?;
        self.traffic.received.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        message::decode_found(&bytes, keys.len()).ok()
    }

    /// Tells of `pages`, at most [`MAX_PAGES`](message::MAX_PAGES).
    pub(crate) async fn add(&self, pages: &[(Key, Hint)]) -> Result<(), PeerError> {
        let request = message::encode_add(pages);
        self.traffic.adds.fetch_add(1, Ordering::Relaxed);
        self.traffic.sent.fetch_add(request.len() as u64, Ordering::Relaxed);
        self.to().ask(self.sender()?, Message::Add, request).await.map(drop)
    }

    fn rests(&self) -> bool {
        let until = *self.rests_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }

    fn note_late(&self) {
        if self.late.fetch_add(1, Ordering::Relaxed) + 1 >= LATE {
            self.late.store(0, Ordering::Relaxed);
            let mut until = self.rests_until.lock().unwrap_or_else(PoisonError::into_inner);
            *until = Some(Instant::now() + REST);
        }
    }
}

/// Keeps a connection, and says how it is, until it is aborted.
async fn keep(
    tell: watch::Sender<Link>,
    own: GatewayId,
    gateway: GatewayId,
    address: SocketAddr,
    config: Arc<ClientConfig>,
) {
    let to = To { gateway, address };
    loop {
        let why = match to.connect(own, &config).await {
            Ok((sender, connection)) => {
                tell.send_replace(Link::Up(sender));
                // aborted with this task
                match Ended(connection).wait().await {
                    Some(error) => format!("the connection broke: {error}"),
                    None => "it closed the connection".to_owned(),
                }
            }
            Err(error) => error.to_string(),
        };
        tell.send_replace(Link::Down(why.into()));
        sleep(RETRY).await;
    }
}

/// A connection that ends when this is dropped.
struct Ended(JoinHandle<hyper::Result<()>>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Ended {
    async fn wait(mut self) -> Option<String> {
        match (&mut self.0).await {
            Ok(ended) => ended.err().map(|error| chain(&error)),
            Err(error) => Some(error.to_string()),
        }
    }
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// A gateway, and where it is.
#[derive(Clone, Copy)]
struct To {
    gateway: GatewayId,
    address: SocketAddr,
}

impl To {
    fn unreachable(self, why: impl ToString) -> PeerError {
        let Self { gateway, address } = self;
        PeerError::Unreachable { gateway, address, why: why.to_string() }
    }

    /// A connection, after both sides have said hello on it.
    async fn connect(
        self,
        own: GatewayId,
        config: &Arc<ClientConfig>,
    ) -> Result<(Sender, JoinHandle<hyper::Result<()>>), PeerError> {
        let made = async {
            let stream = TcpStream::connect(self.address).await.map_err(|e| self.unreachable(e))?;
            stream.set_nodelay(true).map_err(|error| self.unreachable(error))?;
            let name = ServerName::try_from(name(self.gateway)).map_err(|e| self.unreachable(e))?;
            let stream = TlsConnector::from(Arc::clone(config)).connect(name, stream).await;
            let stream = TokioIo::new(stream.map_err(|error| self.unreachable(error))?);
            let (sender, connection) = http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .max_header_list_size(4096)
                .keep_alive_interval(ALIVE)
                .keep_alive_timeout(ALIVE)
                .keep_alive_while_idle(true)
                .handshake(stream)
                .await
                .map_err(|error| self.unreachable(chain(&error)))?;
            let connection = tokio::spawn(connection);
            let hello = Hello { version: VERSION, gateway: own }.encode();
            let answer = self.ask(sender.clone(), Message::Hello, hello).await?;
            let hello =
                Hello::decode(&answer).map_err(|source| self.malformed(Message::Hello, source))?;
            if hello.gateway != self.gateway {
                return Err(self.unreachable(format!("gateway {} is there", hello.gateway)));
            }
            Ok((sender, connection))
        };
        timeout(CONNECTING, made)
            .await
            .map_err(|_| self.unreachable(format!("no answer within {CONNECTING:?}")))?
    }

    fn malformed(self, message: Message, source: onefold_seal::wire::WireError) -> PeerError {
        let Self { gateway, address } = self;
        PeerError::Malformed { gateway, address, message: message.name(), source }
    }

    /// The whole answer to a message.
    async fn ask(
        self,
        sender: Sender,
        message: Message,
        request: Vec<u8>,
    ) -> Result<Bytes, PeerError> {
        let answer = self.begin(sender, message, request).await?;
        self.finish(message, answer).await
    }

    /// Sends a message, and returns once its answer begins.
    async fn begin(
        self,
        mut sender: Sender,
        message: Message,
        request: Vec<u8>,
    ) -> Result<Response<Incoming>, PeerError> {
        let (len, most, named) = (request.len(), message.most(), message.name());
        if len > most {
            return Err(PeerError::TooLong { message: named, len, most });
        }
        let request = Request::post(format!("https://{}/{named}", name(self.gateway)))
            .body(Full::new(Bytes::from(request)))
            .map_err(|error| self.unreachable(error))?;
        let broken = |error: hyper::Error| self.broken(message, chain(&error));
        let answer = sender.send_request(request).await.map_err(broken)?;
        let status = answer.status();
        if status == StatusCode::OK {
            return Ok(answer);
        }
        let why = Limited::new(answer.into_body(), 1024).collect().await;
        let why = why.map_or_else(|_| "no reason".into(), |why| why.to_bytes());
        let Self { gateway, address } = self;
        let why = String::from_utf8_lossy(&why).into_owned();
        Err(PeerError::Refused { gateway, address, message: named, status: status.as_u16(), why })
    }

    /// The rest of an answer.
    async fn finish(
        self,
        message: Message,
        answer: Response<Incoming>,
    ) -> Result<Bytes, PeerError> {
        let body = Limited::new(answer.into_body(), message.most_answered());
        let body = body.collect().await.map_err(|error| self.broken(message, chain(&*error)))?;
        Ok(body.to_bytes())
    }

    fn broken(self, message: Message, why: String) -> PeerError {
        let Self { gateway, address } = self;
        PeerError::Broken { gateway, address, message: message.name(), why }
    }

    /// The answer to a control request that begins within `patience`; its execution has no limit.
    async fn control(
        self,
        config: &Arc<ClientConfig>,
        request: &[u8],
        patience: Duration,
    ) -> Result<Vec<u8>, PeerError> {
        let (sender, connection) = self.connect(GatewayId::from_bytes([0; 16]), config).await?;
        let _connection = Ended(connection);
        let begun = self.begin(sender, Message::Control, request.to_vec());
        let answer = timeout(patience, begun).await.map_err(|_| {
            self.broken(Message::Control, format!("it did not begin within {patience:?}"))
        })??;
        Ok(self.finish(Message::Control, answer).await?.into())
    }
}

/// The answer of `gateway`, at `address`, to a control request of at most
/// [`MAX_CONTROL`](message::MAX_CONTROL) bytes. It must begin within `patience`; its execution has no limit. The
/// calling thread waits.
///
/// # Errors
/// [`PeerError::Unreachable`]: the request was not sent. [`PeerError::Refused`]: it was not executed.
/// [`PeerError::Broken`]: it may have been executed.
pub fn control(
    authority: &Arc<Authority>,
    gateway: GatewayId,
    address: SocketAddr,
    request: &[u8],
    patience: Duration,
) -> Result<Vec<u8>, PeerError> {
    let config = Identity::new(authority, COMMAND.to_owned()).client()?;
    control_by(&config, gateway, address, request, patience)
}

pub(super) fn control_by(
    config: &Arc<ClientConfig>,
    gateway: GatewayId,
    address: SocketAddr,
    request: &[u8],
    patience: Duration,
) -> Result<Vec<u8>, PeerError> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| PeerError::System { what: "start a thread for sockets", source })?;
    runtime.block_on(controlling(config, gateway, address, request, patience))
}

/// The same, in the caller's runtime.
pub(super) async fn controlling(
    config: &Arc<ClientConfig>,
    gateway: GatewayId,
    address: SocketAddr,
    request: &[u8],
    patience: Duration,
) -> Result<Vec<u8>, PeerError> {
    To { gateway, address }.control(config, request, patience).await
}
