//! Connections that are refused, messages that are refused, and control requests, over TLS on loopback.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper::{Method, Request};
use hyper_util::rt::{TokioExecutor, TokioIo};
use onefold_backend::rados::{MemoryRados, Query, RadosPool, Update};
use onefold_volume::VolumeError;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, SignatureScheme};
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsConnector;

use super::authority::{Authority, Identity, VALID};
use super::client::{Peer, control_by, name};
use super::message::{Hello, MAX_CONTROL, MAX_CONTROL_ANSWER, Message, VERSION};
use super::server::{Answers, Asker, Limits, Server};
use super::{PeerError, control};
use crate::hints::{GatewayId, Hint, Key};

const PATIENCE: Duration = Duration::from_secs(10);

type Control = dyn Fn(&[u8], &Asker) -> Vec<u8> + Send + Sync;

struct Controlled(Box<Control>);

impl Answers for Controlled {
    fn find(&self, keys: &[Key]) -> Vec<Option<Hint>> {
        vec![None; keys.len()]
    }

    fn add(&self, _: &[(Key, Hint)]) {}

    fn control(&self, request: &[u8], asker: &Asker) -> Vec<u8> {
        (self.0)(request, asker)
    }
}

/// A gateway that answers control requests.
struct Gateway {
    id: GatewayId,
    address: SocketAddr,
    refused: Receiver<String>,
    _server: Server,
    // ends after the server
    _runtime: Runtime,
}

fn authority() -> Arc<Authority> {
    Arc::new(Authority::create(&MemoryRados::replicated()).unwrap())
}

fn gateway_by(
    make: impl FnOnce(GatewayId) -> Arc<Identity>,
    limits: Limits,
    control: impl Fn(&[u8], &Asker) -> Vec<u8> + Send + Sync + 'static,
) -> Gateway {
    answering(make, limits, Arc::new(Controlled(Box::new(control))))
}

fn answering(
    make: impl FnOnce(GatewayId) -> Arc<Identity>,
    limits: Limits,
    answers: Arc<dyn Answers>,
) -> Gateway {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (id, listener) = (GatewayId::random(), TcpListener::bind("127.0.0.1:0").unwrap());
    let (tell, refused) = channel();
    let tell = Mutex::new(tell);
    let on_refused = move |_, why: &str| drop(tell.lock().unwrap().send(why.to_owned()));
    let server = Server::start(
        runtime.handle(),
        listener,
        id,
        &make(id),
        answers,
        limits,
        Arc::new(on_refused),
    );
    let server = server.unwrap();
    Gateway { id, address: server.address(), refused, _server: server, _runtime: runtime }
}

fn echo(request: &[u8], _: &Asker) -> Vec<u8> {
    request.to_vec()
}

/// A gateway of `authority` that gives requests back.
fn gateway(authority: &Arc<Authority>) -> Gateway {
    gateway_by(|id| Identity::new(authority, name(id)), Limits::default(), echo)
}

fn command(authority: &Arc<Authority>) -> Arc<Identity> {
    Identity::new(authority, "command.onefold".to_owned())
}

fn ask(gateway: &Gateway, by: &Arc<Identity>) -> Result<Vec<u8>, PeerError> {
    control_by(&by.client().unwrap(), gateway.id, gateway.address, b"who?", PATIENCE)
}

#[test]
fn an_authority_is_made_once_and_read_by_all() {
    let pool = MemoryRados::replicated();
    let none = Authority::read(&pool).unwrap_err();
    assert!(
        matches!(&none, VolumeError::Damaged { object, .. } if object == "authority"),
        "{none}"
    );
    let made = Arc::new(Authority::create(&pool).unwrap());
    let again = Arc::new(Authority::create(&pool).unwrap());
    let read = Arc::new(Authority::read(&pool).unwrap());
    let one = gateway(&made);
    for other in [&made, &again, &read] {
        assert_eq!(ask(&one, &command(other)).unwrap(), b"who?");
    }
    assert_eq!(control(&read, one.id, one.address, b"me", PATIENCE).unwrap(), b"me");
}

#[test]
fn an_authority_that_cannot_be_used_is_refused() {
    let other = MemoryRados::replicated();
    Authority::create(&other).unwrap();
    let query = Query { xattrs: true, ..Query::default() };
    let certificate = other.query("authority", &query).unwrap().xattrs["certificate"].clone();
    for (attribute, value) in [
        ("format", Bytes::from_static(&[2])),
        ("format", Bytes::from_static(&[])),
        ("key", Bytes::from_static(b"no key")),
        ("certificate", certificate),
        ("certificate", Bytes::from_static(b"no certificate")),
    ] {
        let pool = MemoryRados::replicated();
        Authority::create(&pool).unwrap();
        pool.update("authority", Update::existing().set(attribute, value)).unwrap();
        assert!(Authority::read(&pool).is_err(), "{attribute}");
        assert!(Authority::create(&pool).is_err(), "{attribute}");
    }
}

#[test]
fn no_key_is_shown() {
    let authority = authority();
    let shown = format!("{authority:?} {:?}", command(&authority));
    assert_eq!(shown, "Authority(key not shown) Identity(\"command.onefold\")");
}

#[test]
fn certificates_of_another_cluster_are_refused() {
    let (ours, theirs) = (authority(), authority());
    let one = gateway(&ours);
    assert_eq!(ask(&one, &command(&ours)).unwrap(), b"who?");
    // this side refuses theirs
    let error = ask(&one, &command(&theirs)).unwrap_err();
    assert!(matches!(error, PeerError::Unreachable { .. }), "{error}");
    one.refused.recv_timeout(PATIENCE).unwrap();
    // and that side does, too, if ours would accept it
    let config = trusting(&ours, Some(&command(&theirs)));
    let error = control_by(&config, one.id, one.address, b"who?", PATIENCE).unwrap_err();
    assert!(!matches!(error, PeerError::Refused { .. }), "{error}");
    let why = one.refused.recv_timeout(PATIENCE).unwrap();
    assert!(why.contains("certificate"), "{why}");
}

#[derive(Debug)]
struct NoCertificate;

impl ResolvesClientCert for NoCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

/// How a client connects that trusts `ours` and shows a certificate of `shown`, or none.
fn trusting(ours: &Arc<Authority>, shown: Option<&Arc<Identity>>) -> Arc<ClientConfig> {
    let mut config = ClientConfig::clone(&command(ours).client().unwrap());
    config.client_auth_cert_resolver = match shown {
        Some(shown) => Arc::<Identity>::clone(shown),
        None => Arc::new(NoCertificate),
    };
    Arc::new(config)
}

#[test]
fn a_client_without_a_certificate_is_refused() {
    let authority = authority();
    let one = gateway(&authority);
    let config = trusting(&authority, None);
    control_by(&config, one.id, one.address, b"who?", PATIENCE).unwrap_err();
    let why = one.refused.recv_timeout(PATIENCE).unwrap();
    assert!(why.contains("no certificates"), "{why}");
}

#[test]
fn expired_certificates_are_refused_on_both_sides() {
    let authority = authority();
    let now = SystemTime::now();
    let hour = Duration::from_secs(3600);
    for (off, is_valid) in [(VALID - hour, true), (VALID + hour, false)] {
        for then in [now - off, now + off] {
            let one = gateway(&authority);
            let dated = Identity::as_of(&authority, "command.onefold".into(), then);
            assert_eq!(ask(&one, &dated).is_ok(), is_valid, "a client's, {off:?}");
            if !is_valid {
                let why = one.refused.recv_timeout(PATIENCE).unwrap();
                assert!(why.contains("expired") || why.contains("not valid yet"), "{why}");
            }
            let made = |id| Identity::as_of(&authority, name(id), then);
            let one = gateway_by(made, Limits::default(), echo);
            assert_eq!(ask(&one, &command(&authority)).is_ok(), is_valid, "a gateway's, {off:?}");
        }
    }
}

#[test]
fn another_gateway_at_the_address_is_refused() {
    let authority = authority();
    let one = gateway(&authority);
    let config = command(&authority).client().unwrap();
    let asked = control_by(&config, GatewayId::random(), one.address, b"who?", PATIENCE);
    assert!(matches!(asked, Err(PeerError::Unreachable { .. })), "{asked:?}");
    // nor may a command be taken for a gateway
    let two = gateway_by(|_| command(&authority), Limits::default(), echo);
    assert!(matches!(ask(&two, &command(&authority)), Err(PeerError::Unreachable { .. })));
}

#[test]
fn a_connection_that_says_nothing_is_closed_and_holds_up_no_other() {
    let authority = authority();
    let limits =
        Limits { connections: 2, handshake: Duration::from_millis(300), ..Limits::default() };
    let one = gateway_by(|id| Identity::new(&authority, name(id)), limits, echo);
    let silent: Vec<_> = (0..8).map(|_| TcpStream::connect(one.address).unwrap()).collect();
    assert_eq!(ask(&one, &command(&authority)).unwrap(), b"who?");
    let why = one.refused.recv_timeout(PATIENCE).unwrap();
    assert!(why.contains("300ms"), "{why}");
    drop(silent);
}

/// The status and the text of the answer to a message with `body`, of which all or only the headers are sent.
fn raw(
    gateway: &Gateway,
    by: &Arc<Identity>,
    method: Method,
    path: &str,
    body: Vec<u8>,
) -> (u16, Vec<u8>) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(gateway.address).await.unwrap();
        let host = ServerName::try_from(name(gateway.id)).unwrap();
        let stream = TlsConnector::from(by.client().unwrap()).connect(host, stream).await.unwrap();
        let (mut sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        let request = Request::builder().method(method).uri(format!("https://one{path}"));
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        let answer = sender.send_request(request).await.unwrap();
        let status = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        connection.abort();
        (status, bytes.into())
    })
}

#[test]
fn messages_that_are_unknown_or_malformed_are_refused_and_the_next_one_is_answered() {
    let authority = authority();
    let (one, by) = (gateway(&authority), command(&authority));
    let long = |message: Message| vec![0; message.most() + 1];
    for (path, body, expected) in [
        ("/gossip", vec![1], 404),
        ("/", vec![], 404),
        ("/find/", vec![], 404),
        ("/find", vec![1; 15], 400),
        ("/add", vec![1; 20], 400),
        ("/hello", vec![1; 3], 400),
        ("/find", long(Message::Find), 413),
        ("/add", long(Message::Add), 413),
        ("/control", long(Message::Control), 413),
        ("/hello", long(Message::Hello), 413),
    ] {
        let (status, why) = raw(&one, &by, Method::POST, path, body);
        let why = String::from_utf8_lossy(&why);
        assert_eq!(status, expected, "{path}: {why}");
        assert!(status != 404 || why.contains(&format!("version {VERSION}")), "{why}");
    }
    assert_eq!(raw(&one, &by, Method::GET, "/find", vec![]).0, 405);
    // a hello of a later version, with a field more
    let hello = [Hello { version: 9, gateway: one.id }.encode(), vec![5; 8]].concat();
    let (status, answer) = raw(&one, &by, Method::POST, "/hello", hello);
    let expected = Hello { version: VERSION, gateway: one.id };
    assert_eq!((status, Hello::decode(&answer).unwrap()), (200, expected));
    assert_eq!(raw(&one, &by, Method::POST, "/find", vec![1; 32]), (200, vec![0, 0]));
    assert_eq!(raw(&one, &by, Method::POST, "/add", vec![]), (200, vec![]));
}

#[test]
fn a_control_request_may_be_as_long_as_its_limit_and_so_may_its_answer() {
    let authority = authority();
    let by = |id| Identity::new(&authority, name(id));
    let one = gateway_by(by, Limits::default(), |request, _| {
        vec![
            7;
            if request.len() == MAX_CONTROL { MAX_CONTROL_ANSWER } else { MAX_CONTROL_ANSWER + 1 }
        ]
    });
    let ask = |len| control(&authority, one.id, one.address, &vec![1; len], PATIENCE);
    assert_eq!(ask(MAX_CONTROL).unwrap().len(), MAX_CONTROL_ANSWER);
    assert!(matches!(ask(MAX_CONTROL + 1), Err(PeerError::TooLong { .. })));
    // an answer that is too long is none
    assert!(matches!(ask(1), Err(PeerError::Broken { .. })));
}

#[test]
fn control_requests_beyond_the_limit_are_refused_and_one_that_fails_is_told() {
    let authority = authority();
    let (begun, begins) = channel();
    let (begun, (tickets, taken)) = (Mutex::new(begun), channel::<()>());
    let taken = Mutex::new(taken);
    let by = |id| Identity::new(&authority, name(id));
    let one = gateway_by(by, Limits::default(), move |request, _| {
        assert!(request != b"fail", "as the test wants");
        begun.lock().unwrap().send(()).unwrap();
        taken.lock().unwrap().recv().unwrap();
        b"done".to_vec()
    });
    let ask = |request: &[u8]| control(&authority, one.id, one.address, request, PATIENCE);
    std::thread::scope(|scope| {
        let asking: Vec<_> = (0..16).map(|_| scope.spawn(|| ask(b"work"))).collect();
        (0..16).for_each(|_| begins.recv_timeout(PATIENCE).unwrap());
        let error = ask(b"work").unwrap_err();
        assert!(matches!(error, PeerError::Refused { status: 503, .. }), "{error}");
        (0..16).for_each(|_| tickets.send(()).unwrap());
        asking.into_iter().for_each(|one| assert_eq!(one.join().unwrap().unwrap(), b"done"));
    });
    let error = ask(b"fail").unwrap_err();
    assert!(matches!(error, PeerError::Broken { .. }), "{error}");
    tickets.send(()).unwrap();
    assert_eq!(ask(b"work").unwrap(), b"done");
}

#[test]
fn a_request_hears_that_its_asker_has_gone() {
    let authority = authority();
    let (tell, told) = channel();
    let tell = Mutex::new(tell);
    let by = |id| Identity::new(&authority, name(id));
    let one = gateway_by(by, Limits::default(), move |_, asker| {
        let start = Instant::now();
        while !asker.is_gone() && start.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
        tell.lock().unwrap().send(asker.is_gone()).unwrap();
        Vec::new()
    });
    let config = command(&authority).client().unwrap();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let asking = super::client::controlling(&config, one.id, one.address, b"check", PATIENCE);
    let left =
        runtime.block_on(async { tokio::time::timeout(Duration::from_millis(300), asking).await });
    assert!(left.is_err(), "it was not answered");
    drop(runtime);
    assert!(told.recv_timeout(PATIENCE).unwrap());
}

#[test]
fn a_request_whose_bytes_do_not_come_is_given_up() {
    let authority = authority();
    let limits = Limits { arrival: Duration::from_millis(200), ..Limits::default() };
    let one = gateway_by(|id| Identity::new(&authority, name(id)), limits, echo);
    let by = command(&authority);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let status = runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(one.address).await.unwrap();
        let host = ServerName::try_from(name(one.id)).unwrap();
        let stream = TlsConnector::from(by.client().unwrap()).connect(host, stream).await.unwrap();
        let (mut sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request = Request::post("https://one/find").body(Never).unwrap();
        sender.send_request(request).await.unwrap().status()
    });
    assert_eq!(status, 408);
}

/// A body that never comes.
struct Never;

impl hyper::body::Body for Never {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Self::Error>>> {
        std::task::Poll::Pending
    }
}

/// Knows no page, and says so only when it may.
struct Slow {
    asked: AtomicUsize,
    is_slow: AtomicBool,
}

impl Answers for Slow {
    fn find(&self, keys: &[Key]) -> Vec<Option<Hint>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.is_slow.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(60));
        }
        vec![None; keys.len()]
    }

    fn add(&self, _: &[(Key, Hint)]) {}

    fn control(&self, _: &[u8], _: &Asker) -> Vec<u8> {
        Vec::new()
    }
}

#[test]
fn a_gateway_that_is_late_again_and_again_is_left_alone_for_a_while() {
    let authority = authority();
    let slow = Arc::new(Slow { asked: AtomicUsize::new(0), is_slow: AtomicBool::new(false) });
    let answers = Arc::<Slow>::clone(&slow);
    let one = answering(|id| Identity::new(&authority, name(id)), Limits::default(), answers);
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let config = command(&authority).client().unwrap();
    let (own, traffic) = (GatewayId::random(), Arc::default());
    let peer = Peer::start(runtime.handle(), own, one.id, one.address, config, traffic);
    let start = Instant::now();
    while !peer.is_up() {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
    let find = |deadline| runtime.block_on(peer.find(&[[1; 16]], deadline));
    assert_eq!(find(PATIENCE), Some(vec![None]));
    slow.is_slow.store(true, Ordering::Relaxed);
    for _ in 0..8 {
        assert_eq!(find(Duration::from_millis(10)), None);
    }
    slow.is_slow.store(false, Ordering::Relaxed);
    assert_eq!(find(PATIENCE), None, "it is not asked");
    let asked = slow.asked.load(Ordering::Relaxed);
    assert!(asked <= 9, "{asked}");
    // and is asked again later
    let start = Instant::now();
    while find(PATIENCE).is_none() {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(start.elapsed() > Duration::from_millis(500));
}
