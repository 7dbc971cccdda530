//! Answers other gateways, and commands.
//!
//! Everything is bounded: connections, requests of one, the time for a handshake and for a request's bytes, and
//! every length before memory is taken for it. Peers that are gone are noticed by pings.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::authority::Identity;
use super::error::PeerError;
use super::message::{self, Hello, MAX_CONTROL_ANSWER, Message, VERSION};
use crate::hints::{GatewayId, Hint, Key};

/// The most requests of one connection that have no answer yet.
const STREAMS: u32 = 64;
/// The most control requests that are executed at a time; further ones are refused.
const CONTROLS: usize = 16;
/// How often a silent peer is asked whether it is there, and how long its answer may take.
pub(super) const ALIVE: Duration = Duration::from_secs(5);
/// How long to wait before accepting again after a lack of resources.
const PAUSE: Duration = Duration::from_millis(100);
/// How much of a request's bytes may be on the way, in bytes.
const WINDOW: u32 = 512 << 10;

/// What others may make a gateway spend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The most connections of other gateways and commands; further ones wait to be accepted.
    pub(crate) connections: usize,
    /// How long TLS may take to begin.
    pub(crate) handshake: Duration,
    /// How long the bytes of a request may take to arrive.
    pub(crate) arrival: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let arrival = Duration::from_secs(5);
        Self { connections: 256, handshake: Duration::from_secs(5), arrival }
    }
}

/// What a gateway knows and does for others.
pub(crate) trait Answers: Send + Sync + 'static {
    /// The hint of each fingerprint.
    fn find(&self, keys: &[Key]) -> Vec<Option<Hint>>;
    /// Pages that were stored.
    fn add(&self, pages: &[(Key, Hint)]);
    /// The answer to a control request.
    fn control(&self, request: &[u8], asker: &Asker) -> Vec<u8>;
}

/// The sender of a control request.
pub struct Asker(Arc<AtomicBool>);

impl Asker {
    /// Whether it has gone, so that nobody reads the answer.
    pub fn is_gone(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Hears of connections that were refused: from where and why.
pub type OnRefused = Arc<dyn Fn(SocketAddr, &str) + Send + Sync>;

/// Accepts connections until it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Server {
    /// Answers what comes to `listener`, in threads of `runtime`.
    pub(crate) fn start(
        runtime: &Handle,
        listener: TcpListener,
        gateway: GatewayId,
        identity: &Arc<Identity>,
        answers: Arc<dyn Answers>,
        limits: Limits,
        on_refused: OnRefused,
    ) -> Result<Self, PeerError> {
        let system = |source| PeerError::System { what: "listen for other gateways", source };
        let address = listener.local_addr().map_err(system)?;
        listener.set_nonblocking(true).map_err(system)?;
        let _context = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener).map_err(system)?;
        let acceptor = TlsAcceptor::from(identity.server()?);
        let controls = Arc::new(Semaphore::new(CONTROLS));
        let service = Arc::new(Service { gateway, answers, controls, limits });
        let accepting = runtime.spawn(accept(listener, acceptor, service, on_refused));
        Ok(Self { address, accepting })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn accept(
    listener: tokio::net::TcpListener,
    acceptor: TlsAcceptor,
    service: Arc<Service>,
    on_refused: OnRefused,
) {
    let room = Arc::new(Semaphore::new(service.limits.connections));
    // dropped with this task, and with it all connections
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let permit = room.clone().acquire_owned().await.expect("never closed");
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, from)) => {
                let (acceptor, service) = (acceptor.clone(), Arc::clone(&service));
                let on_refused = Arc::clone(&on_refused);
                connections.spawn(async move {
                    if let Err(why) = converse(stream, acceptor, service).await {
                        on_refused(from, &why);
                    }
                    drop(permit);
                });
            }
            Err(error) => {
                let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
                on_refused(nowhere, &format!("a connection could not be accepted: {error}"));
                sleep(PAUSE).await;
            }
        }
    }
}

/// Serves one connection. An error is only that it was refused before it began.
async fn converse(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    service: Arc<Service>,
) -> Result<(), String> {
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let patience = service.limits.handshake;
    let stream = timeout(patience, acceptor.accept(stream))
        .await
        .map_err(|_| format!("TLS did not begin within {patience:?}"))?
        .map_err(|error| error.to_string())?;
    let answer = service_fn(move |request| {
        let service = Arc::clone(&service);
        async move { Ok::<_, Infallible>(service.answer(request).await) }
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(4096)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(2 * WINDOW)
        .max_send_buf_size(WINDOW as usize)
        .keep_alive_interval(ALIVE)
        .keep_alive_timeout(ALIVE)
        .serve_connection(TokioIo::new(stream), answer);
    // that a connection breaks is the business of the side that asked
    let _ = connection.await;
    Ok(())
}

struct Service {
    gateway: GatewayId,
    answers: Arc<dyn Answers>,
    controls: Arc<Semaphore>,
    limits: Limits,
}

type Answer = Response<UnsyncBoxBody<Bytes, Gone>>;

/// Why a message is refused.
type Refused = (StatusCode, String);

impl Service {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        self.try_answer(request).await.unwrap_or_else(|(status, why)| answered(status, why.into()))
    }

    async fn try_answer(&self, request: Request<Incoming>) -> Result<Answer, Refused> {
        let message = known(&request)?;
        let bytes = received(message, request.into_body(), self.limits.arrival).await?;
        let malformed =
            |error| (StatusCode::BAD_REQUEST, format!("a message '{}' is {error}", message.name()));
        let answer = match message {
            Message::Hello => {
                Hello::decode(&bytes).map_err(malformed)?;
                Hello { version: VERSION, gateway: self.gateway }.encode()
            }
            Message::Find => {
                let keys = message::decode_find(&bytes).map_err(malformed)?;
                message::encode_found(&self.answers.find(keys))
            }
            Message::Add => {
                self.answers.add(&message::decode_add(&bytes).map_err(malformed)?);
                Vec::new()
            }
            Message::Control => return self.begin_control(bytes),
        };
        Ok(answered(StatusCode::OK, answer))
    }

    /// Begins a control request. That the answer begins tells the asker that the request has, too.
    fn begin_control(&self, request: Bytes) -> Result<Answer, Refused> {
        let permit = Arc::clone(&self.controls).try_acquire_owned().map_err(|_| {
            let why = format!("{CONTROLS} requests are executed already; try again later");
            (StatusCode::SERVICE_UNAVAILABLE, why)
        })?;
        let (tell, told) = oneshot::channel();
        let is_gone = Arc::new(AtomicBool::new(false));
        let (answers, asker) = (Arc::clone(&self.answers), Asker(Arc::clone(&is_gone)));
        spawn_blocking(move || {
            let answer = answers.control(&request, &asker);
            // nobody may wait for it any more
            let _ = tell.send(answer);
            drop::<OwnedSemaphorePermit>(permit);
        });
        Ok(Response::new(Later { told: Some(told), is_gone }.boxed_unsync()))
    }
}

/// The message that is named, if it is one.
fn known(request: &Request<Incoming>) -> Result<Message, Refused> {
    let path = request.uri().path();
    let named = Message::ALL.into_iter().find(|one| path.strip_prefix('/') == Some(one.name()));
    let message = named.ok_or_else(|| {
        let shown: String = path.chars().take(64).collect();
        let why = format!("this gateway speaks version {VERSION} and does not know '{shown}'");
        (StatusCode::NOT_FOUND, why)
    })?;
    if request.method() != Method::POST {
        return Err((StatusCode::METHOD_NOT_ALLOWED, "expected POST".to_owned()));
    }
    Ok(message)
}

/// The bytes of a message. Memory is taken as they come, and for no more than there may be.
async fn received(message: Message, body: Incoming, patience: Duration) -> Result<Bytes, Refused> {
    let (most, name) = (message.most(), message.name());
    let too_long = || {
        let why = format!("a message '{name}' has more than {most} bytes");
        (StatusCode::PAYLOAD_TOO_LARGE, why)
    };
    if body.size_hint().lower() > most as u64 {
        return Err(too_long());
    }
    let body = timeout(patience, Limited::new(body, most).collect()).await.map_err(|_| {
        (StatusCode::REQUEST_TIMEOUT, format!("it did not arrive within {patience:?}"))
    })?;
    Ok(body.map_err(|_| too_long())?.to_bytes())
}

fn answered(status: StatusCode, bytes: Vec<u8>) -> Answer {
    let body = Full::new(Bytes::from(bytes)).map_err(|never| match never {}).boxed_unsync();
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer
}

/// The execution of a control request ended without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the request was not answered")]
struct Gone;

/// The answer to a control request, once there is one. When it is dropped before, the asker has gone.
struct Later {
    told: Option<oneshot::Receiver<Vec<u8>>>,
    is_gone: Arc<AtomicBool>,
}

impl Body for Later {
    type Data = Bytes;
    type Error = Gone;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Gone>>> {
        let Some(told) = &mut self.told else { return Poll::Ready(None) };
        let answer = match Pin::new(told).poll(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(answer) => answer.ok().filter(|answer| answer.len() <= MAX_CONTROL_ANSWER),
        };
        self.told = None;
        Poll::Ready(Some(answer.map(|bytes| Frame::data(bytes.into())).ok_or(Gone)))
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        self.is_gone.store(true, Ordering::Release);
    }
}
