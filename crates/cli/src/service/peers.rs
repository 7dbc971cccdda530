//! Other gateways of a cluster: hints that all of them share, and requests of `onefold volume` from other
//! machines, which travel as they do on the control socket: a request and its answer in JSON.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use onefold_backend::rados::RadosPool;
use onefold_cluster::hints::GatewayId;
use onefold_cluster::peers::{Asker, Authority, Members, control, decode_address, encode_address};
use onefold_cluster::pooled::{Notice, OnControl, PeerPlace, PooledHints, PooledOptions, Pools};
use onefold_cluster::{GatewayRecord, gateways};
use onefold_nbd::Address;
use onefold_store::Cancel;
use tracing::{debug, info, warn};

use super::answer::Answer;
use super::request::Request;
use crate::size;

/// How long it may take until a request to another machine begins.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a connection to another machine may take.
const PROBE: Duration = Duration::from_secs(2);
/// How often it is looked whether the asker of a request has gone.
const LOOK: Duration = Duration::from_millis(100);

/// How a gateway of a cluster talks to the others.
#[derive(Clone, Debug, Args)]
pub(crate) struct PeerArgs {
    /// Answer other gateways of the cluster on this address, which they must reach [default: the host of the
    /// first NBD address and a free port]
    #[arg(long, value_name = "ADDRESS", requires = "cluster")]
    peer_listen: Option<SocketAddr>,
    /// Memory for hints of where pages of all gateways are, of which each gateway holds a part: 72 bytes a page
    #[arg(long, value_name = "SIZE", value_parser = size::parse, requires = "cluster")]
    #[arg(default_value = "256MiB")]
    hints_memory: usize,
    /// How many milliseconds a write waits for other gateways that are asked for its pages. Pages without an answer
    /// are stored again. More for gateways that are far from one another, or on busy machines
    #[arg(long, value_name = "MS", requires = "cluster")]
    #[arg(default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    hints_wait: u64,
}

/// A gateway before it answers others, which may know its address already.
pub(crate) struct BoundPeer(TcpListener);

impl BoundPeer {
    /// What the gateway tells others of its address; `advertised` is what it tells clients of NBD.
    pub(crate) fn told(&self, advertised: &str) -> Result<Vec<u8>> {
        let address = self.0.local_addr()?;
        if !address.ip().is_unspecified() {
            return Ok(encode_address(address));
        }
        let host = advertised.rsplit_once(':').map(|(host, _)| host.trim_matches(['[', ']']));
        let found = host.and_then(|host| (host, address.port()).to_socket_addrs().ok()?.next());
        if found.is_none() {
            warn!(
                %address,
                "other gateways cannot connect to this address: give --peer-listen one that they reach"
            );
        }
        Ok(encode_address(found.unwrap_or(address)))
    }
}

impl PeerArgs {
    /// Listens for other gateways, for one whose clients connect to `nbd`.
    pub(crate) fn bind(&self, nbd: &[Address]) -> Result<BoundPeer> {
        let address = self.peer_listen.unwrap_or_else(|| SocketAddr::new(host(nbd), 0));
        let listener = TcpListener::bind(address);
        let listener =
            listener.with_context(|| format!("cannot listen for other gateways on {address}"))?;
        Ok(BoundPeer(listener))
    }

    /// Begins to answer other gateways of the domain in `pools` as `gateway`. Requests of commands get the answer
    /// of `answer`, which can check whether the command still waits.
    pub(crate) fn start(
        &self,
        BoundPeer(listener): BoundPeer,
        gateway: GatewayId,
        pools: Pools,
        members: Arc<dyn Members>,
        answer: impl Fn(Request, &Cancel) -> Answer + Send + Sync + 'static,
    ) -> Result<Arc<PooledHints>> {
        let authority = Arc::new(Authority::read(&*pools.meta)?);
        let options = PooledOptions {
            memory: self.hints_memory,
            deadline: Duration::from_millis(self.hints_wait),
            ..PooledOptions::default()
        };
        let place = PeerPlace { gateway, listener, authority };
        let control = on_control(answer);
        let hints = PooledHints::start(place, pools, members, options, control, tell)?;
        info!("answering other gateways on {}", hints.address());
        Ok(Arc::new(hints))
    }
}

/// The gateways of a domain: those that have a lease. If they cannot be read, they are those of the last time.
pub(crate) struct InDomain {
    pool: Arc<dyn RadosPool>,
    last: Mutex<Vec<(GatewayId, SocketAddr)>>,
}

impl InDomain {
    pub(crate) fn new(pool: &Arc<dyn RadosPool>) -> Arc<Self> {
        Arc::new(Self { pool: Arc::clone(pool), last: Mutex::default() })
    }
}

impl Members for InDomain {
    fn living(&self) -> Vec<(GatewayId, SocketAddr)> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match gateways(&self.pool) {
            Ok(found) => *last = found.iter().filter_map(|(_, record)| place(record)).collect(),
            Err(error) => debug!(%error, "the gateways of the cluster could not be read"),
        }
        last.clone()
    }
}

/// Where a gateway answers others, and as which one; none if it does not, as a command.
pub(crate) fn place(record: &GatewayRecord) -> Option<(GatewayId, SocketAddr)> {
    let address = decode_address(&record.about.rpc).filter(|one| !one.ip().is_unspecified())?;
    record.about.is_serving.then_some((record.about.process, address))
}

/// The host of the first address that NBD clients connect to over TCP, or the loopback address.
fn host(nbd: &[Address]) -> IpAddr {
    let tcp = nbd.iter().find_map(|address| match address {
        Address::Tcp(address) => Some(address.ip()),
        _ => None,
    });
    tcp.unwrap_or(Ipv4Addr::LOCALHOST.into())
}

fn tell(notice: Notice<'_>) {
    match notice {
        Notice::Members { gateways, slices } => {
            info!(gateways, slices, "the gateways that share hints have changed");
        }
        Notice::Link { gateway, address, is_up: true } => {
            info!(%gateway, %address, "connected to another gateway");
        }
        Notice::Link { gateway, address, .. } => {
            warn!(%gateway, %address, "another gateway does not answer: its hints are missing");
        }
        Notice::Refused { from, why } => debug!(%from, why, "another gateway was refused"),
        Notice::Dump(error) => warn!(%error, "hints were not read or not written"),
        Notice::Filled { footers, pages } => {
            info!(footers, pages, "hints of a dead gateway were found in footers of containers");
        }
        Notice::Footer(error) => warn!(%error, "a footer was not read: hints are missing"),
        Notice::NoMemory(error) => warn!(%error, "no memory for hints"),
        other => debug!(?other, "of other gateways"),
    }
}

/// Answers requests in JSON by `answer`.
fn on_control(answer: impl Fn(Request, &Cancel) -> Answer + Send + Sync + 'static) -> OnControl {
    Arc::new(move |request, asker| {
        let answered = match serde_json::from_slice(request) {
            Ok(request) => while_asked(asker, |gone| answer(request, gone)),
            Err(error) => {
                Answer::refused(&format!("the gateway does not know this request: {error}"))
            }
        };
        serde_json::to_vec(&answered).unwrap_or_else(|error| {
            let refused = Answer::refused(&format!("the answer cannot be told: {error}"));
            serde_json::to_vec(&refused).expect("texts have a form in JSON")
        })
    })
}

/// The result of `execute`, which gets a cancellation that follows `asker`.
fn while_asked(asker: &Asker, execute: impl FnOnce(&Cancel) -> Answer) -> Answer {
    let (gone, is_over) = (Cancel::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        let watching = scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) && !gone.is_cancelled() {
                thread::park_timeout(LOOK);
                if asker.is_gone() {
                    gone.cancel();
                }
            }
        });
        let answer = execute(&gone);
        is_over.store(true, Ordering::Release);
        watching.thread().unpark();
        answer
    })
}

/// Whether something listens at `address`.
pub(crate) fn is_reachable(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, PROBE).is_ok()
}

/// The answer of `gateway`, which listens for other gateways at `address`, to `request`.
pub(crate) fn ask(
    pool: &dyn RadosPool,
    (gateway, address): (GatewayId, SocketAddr),
    request: &Request,
) -> Result<Answer> {
    let authority = Arc::new(Authority::read(pool)?);
    let request = serde_json::to_vec(request)?;
    let answer = control(&authority, gateway, address, &request, PATIENCE)?;
    serde_json::from_slice(&answer).with_context(|| {
        format!("gateway {gateway} sent an answer that this program does not know")
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Instant;

    use onefold_backend::rados::MemoryRados;

    use super::*;

    const NO_OTHERS: fn() -> Vec<(GatewayId, SocketAddr)> = Vec::new;

    fn pools(pool: &Arc<dyn RadosPool>) -> Pools {
        Pools { meta: Arc::clone(pool), data: Arc::clone(pool) }
    }

    fn start(
        pool: &Arc<dyn RadosPool>,
        answer: impl Fn(Request, &Cancel) -> Answer + Send + Sync + 'static,
    ) -> Arc<PooledHints> {
        let args = PeerArgs { peer_listen: None, hints_memory: 64 << 20, hints_wait: 5 };
        let (bound, id) = (args.bind(&[]).unwrap(), GatewayId::random());
        args.start(bound, id, pools(pool), Arc::new(NO_OTHERS), answer).unwrap()
    }

    fn namespace() -> Arc<dyn RadosPool> {
        let pool: Arc<dyn RadosPool> = Arc::new(MemoryRados::replicated());
        Authority::create(&*pool).unwrap();
        pool
    }

    #[test]
    fn a_request_of_another_machine_is_answered() {
        let pool = namespace();
        let gateway = start(&pool, |request, _| match request {
            Request::Info { name } => Answer::refused(&format!("no volume '{name}'")),
            _ => Answer::GaveBack(7),
        });
        let place = (gateway.gateway(), gateway.address());
        assert_eq!(ask(&*pool, place, &Request::Compact).unwrap(), Answer::GaveBack(7));
        let refused = ask(&*pool, place, &Request::Info { name: "disk".into() }).unwrap();
        assert_eq!(refused.accepted().unwrap_err().to_string(), "no volume 'disk'");
        // one of a later version
        let authority = Arc::new(Authority::read(&*pool).unwrap());
        let later = br#"{"request": "dance"}"#;
        let answer = control(&authority, place.0, place.1, later, PATIENCE).unwrap();
        let Answer::Refused(why) = serde_json::from_slice(&answer).unwrap() else {
            panic!("it was not refused")
        };
        assert!(why[0].contains("does not know this request"), "{why:?}");
        drop(gateway);
        ask(&*pool, place, &Request::Compact).unwrap_err();
    }

    #[test]
    fn a_namespace_without_an_authority_is_refused() {
        let pool: Arc<dyn RadosPool> = Arc::new(MemoryRados::replicated());
        let args = PeerArgs { peer_listen: None, hints_memory: 64 << 20, hints_wait: 5 };
        let (bound, id) = (args.bind(&[]).unwrap(), GatewayId::random());
        let refused = args.start(bound, id, pools(&pool), Arc::new(NO_OTHERS), |_, _| Answer::Done);
        let error = format!("{:#}", refused.err().unwrap());
        assert!(error.contains("authority") && error.contains("cluster init"), "{error}");
    }

    #[test]
    fn a_request_stops_when_its_asker_has_gone() {
        let pool = namespace();
        let (tell, told) = channel();
        let tell = Mutex::new(tell);
        let gateway = start(&pool, move |_, gone| {
            let start = Instant::now();
            tell.lock().unwrap().send(false).unwrap();
            while !gone.is_cancelled() && start.elapsed() < PATIENCE {
                thread::sleep(Duration::from_millis(5));
            }
            tell.lock().unwrap().send(gone.is_cancelled()).unwrap();
            Answer::Done
        });
        let place = (gateway.gateway(), gateway.address());
        // the gateway ends while the request is executed, and with it the connection
        let asking = thread::spawn(move || ask(&*pool, place, &Request::Check));
        assert!(!told.recv_timeout(PATIENCE).unwrap());
        drop(gateway);
        assert!(told.recv_timeout(PATIENCE).unwrap());
        asking.join().unwrap().unwrap_err();
    }

    #[test]
    fn a_gateway_that_listens_everywhere_tells_an_address() {
        let bound = |text: &str| BoundPeer(TcpListener::bind(text).unwrap());
        let told = |bound: &BoundPeer, nbd| decode_address(&bound.told(nbd).unwrap()).unwrap();
        let one = bound("127.0.0.1:0");
        assert_eq!(told(&one, "10.0.0.1:1"), one.0.local_addr().unwrap());
        let any = bound("0.0.0.0:0");
        let port = any.0.local_addr().unwrap().port();
        assert_eq!(told(&any, "10.0.0.1:10809"), SocketAddr::from(([10, 0, 0, 1], port)));
        assert_eq!(told(&any, "[::1]:10809"), SocketAddr::new("::1".parse().unwrap(), port));
        assert!(told(&any, "").ip().is_unspecified());
    }

    #[test]
    fn the_host_is_that_of_the_first_tcp_address() {
        let tcp = |text: &str| Address::Tcp(text.parse().unwrap());
        assert_eq!(host(&[]), Ipv4Addr::LOCALHOST);
        let both = [Address::Unix("/run/one".into()), tcp("10.0.0.1:10809"), tcp("10.0.0.2:1")];
        assert_eq!(host(&both), Ipv4Addr::new(10, 0, 0, 1));
    }
}
