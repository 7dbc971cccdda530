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
use crate::{Address, Config, Event, Export, Finder, Limits, ServerError, Tls};

/// More requests than can ever be in flight in one server.
const GATE: u32 = 1 << 29;
/// How long to wait before accepting again after a lack of resources.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The maximum number of I/O threads. Workers do everything that takes time.
const MOST_MOVERS: usize = 2;

/// Serves exports until it is shut down or dropped.
///
/// A server that is dropped ends immediately: requests in flight get no reply and nothing is flushed. See
/// [`shutdown`](Server::shutdown).
pub struct Server {
    runtime: Runtime,
    shared: Arc<Shared>,
    addresses: Vec<Address>,
}

/// State that all connections share.
pub(crate) struct Shared {
    pub(crate) exports: Exports,
    pub(crate) tls: Option<Tls>,
    pub(crate) finder: Option<Arc<dyn Finder>>,
    pub(crate) limits: Limits,
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) workers: Workers,
    pub(crate) on_event: Arc<dyn Fn(Event<'_>) + Send + Sync>,
    /// A permit for each uncompleted request. A shutdown takes all permits, so that new requests get none.
    pub(crate) gate: Arc<Semaphore>,
    /// A permit for each client that is served.
    pub(crate) connections: Arc<Semaphore>,
    handshakes: Arc<Handshakes>,
    phase: watch::Sender<Phase>,
}

/// The phase of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Serving,
    /// No new request begins.
    Draining,
    /// Connections close when their replies are sent.
    Closing,
}

/// Notifies when connections must close.
pub(crate) struct Closing(watch::Receiver<Phase>);

impl Closing {
    pub(crate) async fn wait(&mut self) {
        // a dropped server is closing as well
        let _ = self.0.wait_for(|phase| *phase == Phase::Closing).await;
    }
}

impl Shared {
    fn connected(&self) -> u32 {
        self.limits.connections - self.connections.available_permits() as u32
    }

    /// Whether no new request may begin.
    pub(crate) fn is_ending(&self) -> bool {
        *self.phase.borrow() > Phase::Serving
    }

    pub(crate) fn closing(&self) -> Closing {
        Closing(self.phase.subscribe())
    }
}

/// The exports of a server, which may change while it runs. Does not keep the server alive.
#[derive(Clone)]
pub struct ExportList(Weak<Shared>);

impl ExportList {
    /// Adds an export; clients may choose it when this returns.
    ///
    /// # Errors
    ///
    /// [`ServerError::ExportName`], [`ServerError::SameName`], or [`ServerError::Ended`].
    pub fn add(&self, export: Export) -> Result<(), ServerError> {
        self.0.upgrade().ok_or(ServerError::Ended)?.exports.add(export)
    }

    /// Removes an export, so that clients can no longer choose it. If clients use it, this fails, unless
    /// `is_forced`: then their connections close when requests in flight have their replies.
    ///
    /// The device is flushed before its connections close, so that everything acknowledged before this
    /// call is durable.
    ///
    /// # Errors
    ///
    /// [`ServerError::NoExport`], [`ServerError::ExportInUse`], or [`ServerError::Ended`]. After
    /// [`ServerError::Flush`] the export is removed nevertheless.
    pub fn remove(&self, name: &str, is_forced: bool) -> Result<(), ServerError> {
        self.0.upgrade().ok_or(ServerError::Ended)?.exports.remove(name, is_forced)
    }

    /// How many clients are served; none if the server has ended.
    pub fn connections(&self) -> u32 {
        self.0.upgrade().map_or(0, |shared| shared.connected())
    }
}

/// A server that has bound its sockets and accepts no clients yet: connecting clients wait.
pub struct BoundServer {
    runtime: Runtime,
    config: Config,
    listeners: Vec<Listener>,
}

impl BoundServer {
    /// The addresses of the server, in the order of the configuration.
    pub fn addresses(&self) -> Vec<Address> {
        self.listeners.iter().map(Listener::address).collect()
    }

    /// Serves `exports` in addition to those of the configuration.
    ///
    /// # Errors
    ///
    /// [`ServerError::ExportName`], [`ServerError::SameName`], or [`ServerError::Threads`].
    pub fn serve(self, mut exports: Vec<Export>) -> Result<Server, ServerError> {
        let addresses = self.addresses();
        let BoundServer { runtime, mut config, listeners } = self;
        config.exports.append(&mut exports);
        let shared = Arc::new(Shared {
            exports: Exports::new(config.exports)?,
            tls: config.tls,
            finder: config.finder,
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

/// All sockets that `config` names.
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
    /// Binds the sockets. Clients wait on them until the server serves. So the caller learns that an
    /// address is in use before it begins anything long.
    ///
    /// # Errors
    ///
    /// Limits that contradict the protocol or one another, addresses on which the server cannot listen, or
    /// [`ServerError::Threads`].
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

    /// The addresses on which clients can connect, in the order of the configuration.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Serves a client that is already connected; false if the maximum number of clients is served.
    ///
    /// # Errors
    ///
    /// The socket cannot be made non-blocking.
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

    /// The number of clients that are served.
    pub fn connections(&self) -> u32 {
        self.shared.connected()
    }

    /// A handle to list and change the exports while the server runs.
    pub fn exports(&self) -> ExportList {
        ExportList(Arc::downgrade(&self.shared))
    }

    /// Shuts down cleanly: accepts no more clients, waits for the requests in flight, flushes each device
    /// and closes the connections. New requests get an error.
    ///
    /// It waits `patience` for the devices to complete the requests, as long again for each flush, and a few
    /// seconds for clients to receive their last replies. If a client does not receive them, only its
    /// connection ends with an error, [`Event::Ended`]; its requests are completed and durable.
    ///
    /// # Errors
    ///
    /// [`ServerError::Flush`] if a flush failed: writes since the clients' last flush may be lost.
    /// [`ServerError::StillBusy`] if a device did not complete all requests.
    pub fn shutdown(self, patience: Duration) -> Result<(), ServerError> {
        let Server { runtime, shared, .. } = self;
        let ended = runtime.block_on(shut_down(&shared, patience));
        // device calls in progress cannot be stopped; do not wait for them
        runtime.shutdown_background();
        ended
    }
}

async fn shut_down(shared: &Arc<Shared>, patience: Duration) -> Result<(), ServerError> {
    let drain = timeout(patience, shared.gate.acquire_many(GATE));
    // take the free permits of the gate before notifying that the server ends
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
    // connections that wait for a device are abandoned, others end by themselves
    let delivery = if is_idle { DELIVERY } else { Duration::ZERO };
    let _ = timeout(delivery + LINGER * 2, all).await;
    flushed?;
    if is_idle { Ok(()) } else { Err(ServerError::StillBusy(patience)) }
}

/// Flushes every export, even after a failure, and returns the first failure.
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

/// One I/O thread per two cores, which the threads share with workers and often with the client.
fn movers() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / 2).clamp(1, MOST_MOVERS)
}

fn failed(object: String, error: impl std::error::Error + Send + Sync + 'static) -> BlockError {
    BlockError::Io { object, source: Box::new(error) }
}

/// Accepts clients until the server ends.
async fn listen(listener: Listener, shared: Arc<Shared>) {
    let mut phase = shared.phase.subscribe();
    tokio::select! {
        () = let_in(&listener, &shared) => {}
        _ = phase.wait_for(|phase| *phase > Phase::Serving) => {}
    }
}

/// Accepts clients in the order of their arrival. Does not return.
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
