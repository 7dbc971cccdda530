use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::{Arc, Weak};
use std::time::Duration;

use onefold_block::BlockError;
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

use crate::buffers::Buffers;
use crate::connection::converse;
use crate::export::Exports;
use crate::limits::{DELIVERY, LINGER};
use crate::listen::{Listener, widen};
use crate::places::{Handshakes, Place};
use crate::workers::Workers;
use crate::{Address, Config, Event, Export, Limits, ServerError, Tls};

/// As many requests as could ever be under way in one server.
const GATE: u32 = 1 << 29;
/// How long to wait before accepting again, where that failed for want of something.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Threads that move bytes, at most. What takes time is done by workers.
const MOST_MOVERS: usize = 2;

/// Serves exports until it is shut down or dropped.
///
/// A server that is dropped ends at once, with the requests under way unanswered and nothing
/// flushed; see [`shutdown`](Server::shutdown).
pub struct Server {
    runtime: Runtime,
    shared: Arc<Shared>,
    addresses: Vec<Address>,
}

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) exports: Exports,
    pub(crate) tls: Option<Tls>,
    pub(crate) limits: Limits,
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) workers: Workers,
    pub(crate) on_event: Arc<dyn Fn(Event<'_>) + Send + Sync>,
    /// A permit for each request that has not been done. A shutdown takes all of them, so that there are none
    /// for new requests.
    pub(crate) gate: Arc<Semaphore>,
    /// A permit for each client that is served.
    pub(crate) connections: Arc<Semaphore>,
    handshakes: Arc<Handshakes>,
    phase: watch::Sender<Phase>,
}

/// How near the end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Serving,
    /// Nothing new is begun.
    Draining,
    /// Connections close as soon as their replies are out.
    Closing,
}

/// Tells when connections are to close.
pub(crate) struct Closing(watch::Receiver<Phase>);

impl Closing {
    pub(crate) async fn wait(&mut self) {
        // a server that is gone is closing as well
        let _ = self.0.wait_for(|phase| *phase == Phase::Closing).await;
    }
}

impl Shared {
    fn connected(&self) -> u32 {
        self.limits.connections - self.connections.available_permits() as u32
    }

    /// Whether nothing new is to be begun.
    pub(crate) fn is_ending(&self) -> bool {
        *self.phase.borrow() > Phase::Serving
    }

    pub(crate) fn closing(&self) -> Closing {
        Closing(self.phase.subscribe())
    }
}

/// The exports of a server, which come and go while it runs. Does not keep the server.
#[derive(Clone)]
pub struct ExportList(Weak<Shared>);

impl ExportList {
    /// Offers one more; clients may choose it once this returns.
    ///
    /// # Errors
    ///
    /// [`ServerError::ExportName`], [`ServerError::SameName`], or [`ServerError::Ended`].
    pub fn add(&self, export: Export) -> Result<(), ServerError> {
        self.0.upgrade().ok_or(ServerError::Ended)?.exports.add(export)
    }

    /// Takes an export back: nobody can choose it any more. If it is used, that is an error, unless
    /// `is_forced`: then its connections close when what is under way on them has its replies.
    ///
    /// The device is flushed before its connections close, so that what was acknowledged before this
    /// call is durable.
    ///
    /// # Errors
    ///
    /// [`ServerError::NoExport`], [`ServerError::ExportInUse`], or [`ServerError::Ended`]; or
    /// [`ServerError::Flush`], and then it was taken back all the same.
    pub fn remove(&self, name: &str, is_forced: bool) -> Result<(), ServerError> {
        self.0.upgrade().ok_or(ServerError::Ended)?.exports.remove(name, is_forced)
    }

    /// How many clients are served; none if the server has ended.
    pub fn connections(&self) -> u32 {
        self.0.upgrade().map_or(0, |shared| shared.connected())
    }
}

/// A server that has its sockets and lets nobody in yet: clients that connect wait.
pub struct BoundServer {
    runtime: Runtime,
    config: Config,
    listeners: Vec<Listener>,
}

impl BoundServer {
    /// Where clients will be served, in the order in which the places were given.
    pub fn addresses(&self) -> Vec<Address> {
        self.listeners.iter().map(Listener::address).collect()
    }

    /// Serves `exports` beside those of the configuration.
    ///
    /// # Errors
    ///
    /// [`ServerError::ExportName`], [`ServerError::SameName`], or want of threads.
    pub fn serve(self, mut exports: Vec<Export>) -> Result<Server, ServerError> {
        let addresses = self.addresses();
        let BoundServer { runtime, mut config, listeners } = self;
        config.exports.append(&mut exports);
        let shared = Arc::new(Shared {
            exports: Exports::new(config.exports)?,
            tls: config.tls,
            buffers: Buffers::new(config.limits.buffers),
            workers: Workers::start(config.workers)?,
            on_event: config.on_event,
            gate: Arc::new(Semaphore::new(GATE as usize)),
            connections: Arc::new(Semaphore::new(config.limits.connections as usize)),
            handshakes: Handshakes::new(config.limits.handshakes),
            phase: watch::Sender::new(Phase::Serving),
            limits: config.limits,
        });
        for listener in listeners {
            runtime.spawn(listen(listener, shared.clone()));
        }
        Ok(Server { runtime, shared, addresses })
    }
}

/// Every socket that `config` asks for.
async fn bind_all(config: &mut Config) -> Result<Vec<Listener>, ServerError> {
    let mut listeners = Vec::new();
    for place in &config.listen {
        listeners.append(&mut Listener::bind(place, config.unix_mode).await?);
    }
    for socket in config.inherited.drain(..) {
        listeners.push(Listener::inherit(socket)?);
    }
    Ok(listeners)
}

impl Server {
    /// Takes the sockets, on which clients wait until the server serves: so that a place that is
    /// taken is known before anything long is begun.
    ///
    /// # Errors
    ///
    /// Limits that contradict the protocol or one another, places where nobody can listen, want of
    /// threads.
    pub fn bind(mut config: Config) -> Result<BoundServer, ServerError> {
        config.limits.check()?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(movers())
            .thread_name("nbd-mover")
            .enable_all()
            .build()
            .map_err(ServerError::Threads)?;
        let listeners = runtime.block_on(bind_all(&mut config))?;
        Ok(BoundServer { runtime, config, listeners })
    }

    /// Starts to serve; clients can connect once this returns.
    ///
    /// # Errors
    ///
    /// Those of [`bind`](Server::bind) and [`BoundServer::serve`].
    pub fn start(config: Config) -> Result<Server, ServerError> {
        Server::bind(config)?.serve(Vec::new())
    }

    /// Where clients can connect, in the order in which the places were given.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Serves a client that is connected already; false if as many are served as may be.
    ///
    /// # Errors
    ///
    /// The socket cannot be used so.
    pub fn adopt(&self, socket: StdUnixStream) -> std::io::Result<bool> {
        let Ok(permit) = self.shared.connections.clone().try_acquire_owned() else {
            return Ok(false);
        };
        socket.set_nonblocking(true)?;
        let _context = self.runtime.enter();
        let stream = Box::new(UnixStream::from_std(socket)?);
        widen(&stream);
        let (place, shared) = (Place::taken(permit), self.shared.clone());
        self.runtime.spawn(async move {
            let begun = shared.handshakes.begin().await;
            converse(stream, Address::Adopted, begun, place, shared).await;
        });
        Ok(true)
    }

    /// How many clients are served.
    pub fn connections(&self) -> u32 {
        self.shared.connected()
    }

    /// What can be changed, and asked, from elsewhere while the server runs.
    pub fn exports(&self) -> ExportList {
        ExportList(Arc::downgrade(&self.shared))
    }

    /// Ends in peace: lets nobody in, waits for the requests under way, flushes each device, and
    /// closes the connections. New requests get an error meanwhile.
    ///
    /// It waits `patience` for the devices to do the requests, as long for each flush, and a few
    /// seconds for clients to take their last replies. A connection on which they are not taken ends
    /// with an error of its own, [`Event::Ended`]; what was asked for is done and durable all the same.
    ///
    /// # Errors
    ///
    /// [`ServerError::Flush`] if a flush failed: what clients wrote since their last flush may be
    /// lost. [`ServerError::StillBusy`] if a device had not done all requests.
    pub fn shutdown(self, patience: Duration) -> Result<(), ServerError> {
        let Server { runtime, shared, .. } = self;
        let ended = runtime.block_on(shut_down(&shared, patience));
        // calls of devices that are under way cannot be stopped, and nobody waits for them
        runtime.shutdown_background();
        ended
    }
}

async fn shut_down(shared: &Arc<Shared>, patience: Duration) -> Result<(), ServerError> {
    let drain = timeout(patience, shared.gate.acquire_many(GATE));
    // what is free of the gate is taken before anybody learns that this is the end
    let (drained, _) = tokio::join!(biased; drain, async {
        shared.phase.send_replace(Phase::Draining)
    });
    let is_idle = match drained {
        Ok(permits) => {
            permits.expect("closed only here").forget();
            true
        }
        Err(_) => {
            shared.gate.close();
            false
        }
    };
    let flushed = flush_all(shared, patience).await;
    shared.phase.send_replace(Phase::Closing);
    let all = shared.connections.acquire_many(shared.limits.connections);
    // connections that wait for a device are left behind, others end by themselves
    let delivery = if is_idle { DELIVERY } else { Duration::ZERO };
    let _ = timeout(delivery + LINGER * 2, all).await;
    flushed?;
    if is_idle { Ok(()) } else { Err(ServerError::StillBusy(patience)) }
}

/// Flushes every export, also behind one that fails; the first failure.
async fn flush_all(shared: &Shared, patience: Duration) -> Result<(), ServerError> {
    let mut outcome = Ok(());
    for export in shared.exports.all().iter().filter(|export| !export.is_read_only) {
        let device = export.device.clone();
        let flush = tokio::task::spawn_blocking(move || device.flush());
        let flushed = match timeout(patience, flush).await {
            Ok(Ok(flushed)) => flushed,
            Ok(Err(panic)) => Err(failed(export.name.clone(), panic)),
            Err(late) => Err(failed(export.name.clone(), late)),
        };
        let name = export.name.clone();
        outcome = outcome.and(flushed.map_err(|source| ServerError::Flush { name, source }));
    }
    outcome
}

/// One for two cores, which movers share with workers and mostly with the client.
fn movers() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / 2).clamp(1, MOST_MOVERS)
}

fn failed(object: String, error: impl std::error::Error + Send + Sync + 'static) -> BlockError {
    BlockError::Io { object, source: Box::new(error) }
}

/// Lets clients in until the server ends.
async fn listen(listener: Listener, shared: Arc<Shared>) {
    let mut phase = shared.phase.subscribe();
    tokio::select! {
        () = let_in(&listener, &shared) => {}
        _ = phase.wait_for(|phase| *phase > Phase::Serving) => {}
    }
}

/// Lets clients in, in the order in which they come. Does not return.
async fn let_in(listener: &Listener, shared: &Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let begun = shared.handshakes.begin().await;
                tokio::spawn(converse(stream, peer, begun, Place::Later, shared.clone()));
            }
            Err(error) => {
                (shared.on_event)(Event::NotAccepted { error: &error });
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
