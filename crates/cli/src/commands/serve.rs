//! `onefold serve`

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use onefold_block::{MeasuredDevice, Measurements};
use onefold_nbd::{
    Address, Config, Event, Export, ExportList, Limits, Listen, Server, ServerError, Tls, TlsMode,
};
use onefold_store::Cancel;
use onefold_terminal::most_files;
use onefold_volume::{Filling, Pool, VolumeError};
use rustix::io::Errno;
use tracing::{info, warn};

use crate::console::Console;
use crate::exit::Exit;
use crate::failure;
use crate::interrupt::cancel_telling;
use crate::pool::{OpenPool, PoolArgs};
use crate::service::Service;
use crate::service::answer::Answer;
use crate::service::control::Bound;
use crate::service::logs::{self, Failures, LogArgs};
use crate::service::metrics::Metrics;
#[cfg(feature = "cluster")]
use crate::service::peers::PeerArgs;
use crate::service::request::{Offers, Request};
use crate::service::systemd::{Supervisor, inherited_sockets};
#[cfg(feature = "cluster")]
use crate::time::duration;

const AFTER_HELP: &str = "\
Serves every volume of a pool under its name over NBD, to qemu, libnbd, nbdkit, fio, the Linux kernel
and other clients. A write is durable when a later flush is acknowledged. Until then a power cut may
lose it, block by block. Snapshots are served read-only. A write that was acknowledged on one connection
is visible on all.

`onefold volume` can create, change and delete volumes while they are served; clients see the effects
immediately. --metrics exports metrics to Prometheus at http://ADDRESS/metrics, which docs/volumes.md
describes. Events are logged to standard error, one per line.

With --cluster it serves, as one of any number of gateways, every volume of a cluster: a client reaches each
volume at each gateway. Which gateway has which volume, `onefold cluster status` shows. When a gateway dies,
the others take its volumes over; docs/cluster.md says what clients notice.

With --read-only the server writes nothing to the pool. The commands of `onefold volume` that change
nothing can then run concurrently. In a cluster clients of that gateway get snapshots alone.

Ctrl-C or SIGTERM ends the server: it completes requests in flight and flushes everything. It stops long
requests of `onefold volume`, such as a check, a scrub or a compaction, at their next step.

Examples:
  onefold serve --pool /srv/pool
  onefold serve --pool /srv/pool --unix /run/onefold.sock
  onefold serve --pool /srv/pool --unix /run/onefold/socket --unix-mode 0660
  onefold serve --pool /srv/pool --listen 0.0.0.0:10809 --tls-cert c.pem \\
      --tls-key k.pem --tls-client-ca ca.pem
  onefold serve --cluster ceph:volumes/backup --listen 10.0.0.1:10809
  onefold serve --pool /srv/pool --quota 500GiB --metrics 127.0.0.1:9809 \\
      --log-format json
  qemu-img convert -n disk.qcow2 nbd://localhost/disk
  nbd-client -unix /run/onefold.sock -N disk /dev/nbd0";

/// How long requests in flight may take at the end.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// How long requests of `onefold volume` may take to reach their next step, where they stop.
pub(super) const LAST_STEP: Duration = Duration::from_secs(20);

/// File descriptors that are for neither containers nor clients: journals, listeners, control and metrics
/// connections.
const OTHER_FILES: usize = 64;

/// At least this many clients may be connected, however low the limit of open files is.
const FEWEST_CLIENTS: usize = 8;

/// How often the server checks for a signal.
pub(super) const PAUSE: Duration = Duration::from_millis(100);

/// How often the server commits and checkpoints by itself.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(300);

/// How soon the server compacts again while the quota is used up.
const ROOM_EVERY: Duration = Duration::from_secs(2);

/// Serve the volumes of a pool over NBD
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(super) pool: PoolArgs,
    /// The address at which other gateways of the cluster reach this one: a host and a port, or the path of
    /// a Unix socket on one machine [default: the first that it listens on]
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "ADDRESS", requires = "cluster")]
    pub(super) advertise: Option<String>,
    /// Whether clients reach volumes here that other gateways of the cluster have
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "WHETHER", default_value = "yes", requires = "cluster")]
    pub(super) follow: Follow,
    /// Listen on this address or host name and port; may be repeated [default: 127.0.0.1:10809, if no
    /// --unix is given and systemd passes no socket]
    #[arg(long, value_name = "ADDRESS", value_parser = tcp_place)]
    listen: Vec<Listen>,
    /// Listen on this Unix socket; may be repeated
    #[arg(long, value_name = "PATH")]
    unix: Vec<PathBuf>,
    /// The mode of Unix sockets, in octal: users who may write to the socket may connect
    #[arg(long, value_name = "OCTAL", requires = "unix", value_parser = mode)]
    #[arg(default_value = "0600")]
    unix_mode: u32,
    /// The certificate chain of the server in PEM, its own certificate first; clients must then use TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(super) tls_cert: Option<PathBuf>,
    /// The private key of the server's certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Accept only clients with a certificate signed by one of these, in PEM. Gateways of a cluster trust each
    /// other by them, and show each other --tls-cert, which must be valid for servers and clients
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(super) tls_client_ca: Option<PathBuf>,
    /// Serve all volumes read-only and write nothing to the pool, which may be a backup or on a
    /// read-only file system; in a cluster, serve snapshots alone
    #[arg(long)]
    pub(super) read_only: bool,
    /// Allow clients to resize volumes
    #[arg(long, conflicts_with = "read_only")]
    pub(super) allow_resize: bool,
    /// Export metrics to Prometheus on this address, by HTTP at /metrics, without authentication
    #[arg(long, value_name = "ADDRESS")]
    pub(super) metrics: Option<SocketAddr>,
    /// Give space back when more than this percentage of the containers' bytes is used by no volume of the cluster.
    /// Less takes more work
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "PERCENT", value_parser = waste, default_value = "20", requires = "cluster")]
    pub(super) max_waste: f64,
    #[cfg(feature = "cluster")]
    /// How often, in seconds, the gateways of a cluster look over all containers for space that no volume needs
    #[arg(long, value_name = "SECONDS", default_value = "300", requires = "cluster")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(super) check_every: u64,
    #[cfg(feature = "cluster")]
    /// How often the gateways of a cluster together read all pages and verify them, in days (28d) or hours (12h); 0h
    /// for again and again
    #[arg(long, value_name = "TIME", default_value = "28d", value_parser = duration, requires = "cluster")]
    pub(super) scrub_every: Duration,
    #[cfg(feature = "cluster")]
    #[command(flatten)]
    pub(super) peers: PeerArgs,
    #[command(flatten)]
    logs: LogArgs,
}

/// The part of one that `text` is in percent, from 1 to 99.
#[cfg(feature = "cluster")]
fn waste(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>().ok();
    let percent = number.filter(|percent| (1.0..=99.0).contains(percent));
    percent
        .map(|percent| percent / 100.0)
        .ok_or_else(|| "expected a percentage from 1 to 99".into())
}

/// Whether connections are passed on to the gateways that have the volumes.
#[cfg(feature = "cluster")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Follow {
    Yes,
    No,
}

#[cfg(feature = "cluster")]
impl Follow {
    pub(super) fn is_yes(self) -> bool {
        self == Self::Yes
    }
}

/// Reads a mode in octal, which must let the owner read and write.
fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    let mode = mode.ok_or("expected permissions in octal, such as 0600")?;
    if mode & 0o600 == 0o600 {
        Ok(mode)
    } else {
        Err("the owner must be able to read and write, 0600 at least: after a kill `serve` asks \
             its old socket whether another one listens"
            .into())
    }
}

/// An address or a host name, and a port.
fn tcp_place(text: &str) -> Result<Listen, String> {
    if let Ok(address) = text.parse() {
        return Ok(Listen::Tcp(address));
    }
    let expected = "expected an address or a host name, and a port: 127.0.0.1:10809, [::1]:10809 \
                    or localhost:10809";
    match text.rsplit_once(':') {
        Some((host, port))
            if !host.is_empty() && !host.contains([':', '[']) && port.parse::<u16>().is_ok() =>
        {
            Ok(Listen::Host(text.to_owned()))
        }
        _ => Err(expected.into()),
    }
}

impl Serve {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        self.logs.start(console)?;
        match self.serve() {
            Err(error) if self.logs.has_errors(console) => {
                failure::log(&error);
                Ok(Exit::of(&error))
            }
            ended => ended,
        }
    }

    fn serve(&self) -> Result<Exit> {
        let cancel = cancel_telling(|| {
            info!("stopping after the requests in flight; a second signal stops immediately");
        })?;
        #[cfg(feature = "cluster")]
        if let Some(reached) = self.pool.reach()? {
            return self.serve_cluster(&reached, &cancel);
        }
        let supervisor = Supervisor::of_environment()?;
        let service = Service::start()?;
        // bind every socket before anything long begins, and before accepting clients
        let listener = self.metrics.map(|address| service.bind(address)).transpose()?;
        let measurements = Arc::<Measurements>::default();
        let strangers = Arc::new(Failures::of_strangers());
        let server = Server::bind(self.config(&measurements, &strangers)?)?;
        self.warn_of_strangers(&server.addresses());
        let pool = self.open()?.pool;
        let noting = pool.start_noting(|error| {
            warn!(%error, "cannot record the last acknowledged position");
        });
        let filling = (!self.read_only).then(|| self.fill(&pool));
        let volumes = pool.volumes().len();
        let offered = Offered::new(&pool, self.allow_resize, measurements, Arc::clone(&cancel));
        let control = self.control()?;
        if !self.read_only {
            // else the first clients wait for it; of many GiB that is minutes
            let entries = pool.statistics().table_capacity;
            info!(entries, "allocating memory for the table of fingerprints");
            pool.populate_table();
        }
        let server = server.serve(offered.all()?)?;
        offered.by(server.exports());
        let offered = Arc::new(offered);
        let asked = Arc::clone(&offered);
        let answer = move |request, asker: &Cancel| asked.answer(request, asker);
        let control = control.map(|bound| service.listen(bound, answer)).transpose()?;
        if let Some(listener) = listener {
            info!("metrics at http://{}/metrics", listener.local_addr()?);
            let measurements = Arc::clone(&offered.measurements);
            let metrics = Metrics::new(pool.clone(), server.exports(), measurements);
            service.tell(listener, Arc::new(metrics));
        }
        for address in server.addresses() {
            info!(volumes, "serving on {address}");
        }
        supervisor.tell_ready()?;
        let bounded = [&*offered.failures, &*strangers];
        let tell_silent = || bounded.iter().for_each(|failures| failures.tell_silent());
        let tell_last = || bounded.iter().for_each(|failures| failures.tell_last());
        let mut upkeep = Upkeep::new();
        while !cancel.is_cancelled() {
            thread::sleep(PAUSE);
            if let Some(why) = pool.stopped() {
                tell_last();
                bail!(
                    "the pool stopped accepting changes when {why}; see docs/volumes.md before you use it again"
                );
            }
            tell_silent();
            if !self.read_only {
                upkeep.keep_up(&pool, || {
                    tell_silent();
                    !cancel.is_cancelled()
                });
            }
        }
        if let Err(error) = supervisor.tell_stopping() {
            warn!(error = %format_args!("{error:#}"), "shutting down nevertheless");
        }
        // nothing changes the server during its shutdown
        if let Some(control) = control {
            service.end(control, LAST_STEP);
        }
        for request in offered.under_way() {
            warn!(
                request,
                "this was not completed in time and was abandoned; a part of it may be done"
            );
        }
        drop(service);
        drop(filling);
        pool.let_no_write_wait();
        let ended = server.shutdown(PATIENCE);
        // It also makes durable what no client that is still there has flushed.
        let kept = match self.read_only {
            true => Ok(()),
            false => pool.checkpoint().context("no checkpoint was made"),
        };
        drop(noting);
        tell_last();
        all_of(ended, kept)?;
        info!("shut down; everything is durable");
        Ok(Exit::Fine)
    }

    /// Fills the table of fingerprints of a pool whose pages were not entered when it was opened.
    fn fill(&self, pool: &Pool) -> Filling {
        let start = Instant::now();
        pool.start_filling(move |damage| {
            for error in damage {
                let error = format!("{:#}", anyhow::Error::from(error));
                warn!(error, "a container cannot be read, and its pages are not found again");
            }
            let seconds = start.elapsed().as_secs_f64();
            info!(seconds, "all pages are in the table of fingerprints, as far as it has room");
        })
    }

    fn open(&self) -> Result<OpenPool> {
        let tell = |error: VolumeError| {
            let is_unread = matches!(error, VolumeError::UnreadRecord { .. });
            let error = format!("{:#}", anyhow::Error::from(error));
            match is_unread {
                true => warn!(error, "damaged, and volumes are not"),
                false => warn!(error, "pages are lost, and the blocks that map to them"),
            }
        };
        match self.read_only {
            true => self.pool.open_read_only(tell),
            false => self.pool.open_telling(tell),
        }
    }

    /// The control socket for `onefold volume`; none if the pool is read-only or cannot hold sockets.
    fn control(&self) -> Result<Option<Bound>> {
        if self.read_only {
            return Ok(None);
        }
        match Bound::at(&self.pool.control()?) {
            Err(error) if has_no_sockets(&error) => {
                warn!(
                    "the file system of the pool has no sockets: `onefold volume` cannot send requests"
                );
                Ok(None)
            }
            bound => bound.map(Some),
        }
    }

    /// Where clients connect, how and within which limits; not yet to what.
    pub(super) fn config(
        &self,
        measurements: &Arc<Measurements>,
        strangers: &Arc<Failures>,
    ) -> Result<Config> {
        let inherited = inherited_sockets()?;
        let mut config = Config::new(self.places(!inherited.is_empty()), Vec::new());
        config.inherited = inherited;
        config.unix_mode = self.unix_mode;
        config.tls = self.tls()?;
        (config.limits.connections, config.limits.handshakes) = most_clients(most_files());
        let (bounded, counted) = (Arc::clone(strangers), Arc::clone(measurements));
        config.on_event = Arc::new(move |event| {
            if let Event::Refused { operation: Some(operation), .. } = event {
                counted.refuse(operation);
            }
            logs::connection(&event, &bounded);
        });
        Ok(config)
    }

    /// Warns if any client on the network can use the volumes.
    pub(super) fn warn_of_strangers(&self, addresses: &[Address]) {
        if self.tls_cert.is_some() {
            return;
        }
        let tcp = addresses.iter().filter_map(|address| match address {
            Address::Tcp(address) => Some(address),
            _ => None,
        });
        for address in tcp.filter(|address| !address.ip().to_canonical().is_loopback()) {
            warn!(
                %address,
                "any client that reaches this address can read and write every volume: give \
                 --tls-cert, --tls-key and --tls-client-ca, or listen on 127.0.0.1 or a Unix socket"
            );
        }
    }

    /// Where to listen beside the sockets that were handed over, if any were.
    fn places(&self, has_sockets: bool) -> Vec<Listen> {
        let tcp = self.listen.iter().cloned();
        let mut places: Vec<Listen> =
            tcp.chain(self.unix.iter().cloned().map(Listen::Unix)).collect();
        if places.is_empty() && !has_sockets {
            places.push(Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 10809))));
        }
        places
    }

    fn tls(&self) -> Result<Option<Tls>> {
        let (Some(certificates), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return Ok(None);
        };
        let client_ca = self.tls_client_ca.as_deref();
        Ok(Some(Tls::from_pem_files(TlsMode::Required, certificates, key, client_ca)?))
    }
}

/// The volumes of a pool, as clients are offered them.
struct Offered {
    pool: Pool,
    may_resize: bool,
    measurements: Arc<Measurements>,
    failures: Arc<Failures>,
    /// The server, as soon as there is one.
    exports: Mutex<Option<ExportList>>,
    /// Volumes are changed one at a time.
    changing: Mutex<()>,
    /// Requests that have no answer yet.
    under_way: Mutex<Vec<Arc<str>>>,
    /// Whether the server ends.
    cancel: Arc<Cancel>,
}

/// That a request has no answer yet.
struct UnderWay<'a> {
    offered: &'a Offered,
    request: Arc<str>,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut all = self.offered.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| !Arc::ptr_eq(one, &self.request));
    }
}

impl Offered {
    fn new(
        pool: &Pool,
        may_resize: bool,
        measurements: Arc<Measurements>,
        cancel: Arc<Cancel>,
    ) -> Self {
        Self {
            pool: pool.clone(),
            may_resize,
            measurements,
            failures: Arc::new(Failures::of_requests()),
            exports: Mutex::default(),
            changing: Mutex::default(),
            under_way: Mutex::default(),
            cancel,
        }
    }

    fn all(&self) -> Result<Vec<Export>> {
        self.pool.volumes().iter().map(|info| self.export(&info.name)).collect()
    }

    fn export(&self, name: &str) -> Result<Export> {
        let volume = self.pool.volume(name)?;
        let (failures, shown) = (Arc::clone(&self.failures), name.to_owned());
        let measured = MeasuredDevice::new(
            volume,
            Arc::clone(&self.measurements),
            move |operation, range, error| failures.tell(&shown, operation, range, error),
        );
        let export = Export::new(name, Arc::new(measured));
        // one that is read-only has no other size
        Ok(if self.may_resize { export.resizable() } else { export })
    }

    fn by(&self, exports: ExportList) {
        *self.exports.lock().unwrap_or_else(PoisonError::into_inner) = Some(exports);
    }

    fn exports(&self) -> Result<ExportList> {
        let exports = self.exports.lock().unwrap_or_else(PoisonError::into_inner).clone();
        exports.context("the server has not started yet")
    }

    fn begin(&self, request: &str) -> UnderWay<'_> {
        let request: Arc<str> = request.into();
        let mut all = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Arc::clone(&request));
        UnderWay { offered: self, request }
    }

    /// Requests that have no answer yet.
    fn under_way(&self) -> Vec<String> {
        let all = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|one| one.to_string()).collect()
    }

    /// Does what `onefold volume` asks for, as long as `asker` waits for it.
    fn answer(&self, request: Request, asker: &Cancel) -> Answer {
        let what = format!("{request:?}");
        let _under_way = self.begin(&what);
        let asked = Asked { offered: self, asker };
        if !request.is_change() {
            return request.answer(&self.pool, &asked);
        }
        let _only = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if !asked.goes_on() {
            return Answer::refused("the server is stopping; nothing was done");
        }
        let answer = request.answer(&self.pool, &asked);
        match &answer {
            Answer::Refused(why) => warn!(request = what, why = why.join(": "), "refused"),
            _ => info!(request = what, "a volume was changed"),
        }
        answer
    }
}

/// What is offered, to do there what somebody asks for.
struct Asked<'a> {
    offered: &'a Offered,
    /// Whether it is cancelled: whoever asked has gone.
    asker: &'a Cancel,
}

impl Offers for Asked<'_> {
    fn offer(&self, name: &str) -> Result<()> {
        let export = self.offered.export(name)?;
        Ok(self.offered.exports()?.add(export)?)
    }

    fn take_back(&self, name: &str, is_forced: bool) -> Result<()> {
        take_back(&self.offered.exports()?, name, is_forced)
    }

    fn goes_on(&self) -> bool {
        !self.offered.cancel.is_cancelled() && !self.asker.is_cancelled()
    }

    fn is_serving(&self) -> bool {
        true
    }
}

/// Withdraws a volume; if clients use it, only if `is_forced`.
pub(super) fn take_back(exports: &ExportList, name: &str, is_forced: bool) -> Result<()> {
    match exports.remove(name, is_forced) {
        Err(ServerError::ExportInUse { connections, .. }) => {
            bail!(
                "volume '{name}' is open, connections that use it: {connections}; --force closes \
                 them"
            )
        }
        // it was removed from the exports before, and could not be deleted then
        Err(ServerError::NoExport { .. }) => Ok(()),
        // it was removed from the exports, and the unflushed data are about to be deleted
        Err(error @ ServerError::Flush { .. }) => {
            warn!(volume = name, %error, "a volume was not flushed before it is deleted");
            Ok(())
        }
        done => Ok(done?),
    }
}

/// That the server ended and a checkpoint was made, or why not, of both.
fn all_of(ended: Result<(), ServerError>, kept: Result<()>) -> Result<()> {
    match (ended, kept) {
        (Err(ended), Err(kept)) => {
            Err(anyhow::Error::new(ended).context(format!("{kept:#}; and before that")))
        }
        (ended, kept) => {
            ended?;
            kept
        }
    }
}

/// How many clients may be served, and how many more may be connected that have not chosen a volume
/// or wait for their turn, where `files` may be open, half of which are for containers.
fn most_clients(files: usize) -> (u32, u32) {
    let most = Limits::default();
    let left = (files / 2).saturating_sub(OTHER_FILES).max(FEWEST_CLIENTS);
    let left = u32::try_from(left).unwrap_or(u32::MAX);
    let handshakes = (left / 4).min(most.handshakes);
    ((left - handshakes).min(most.connections), handshakes)
}

/// Whether a socket could not be made because there are none where it was to be.
fn has_no_sockets(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(&(Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM)))
}

/// What is done for a pool now and then, though nobody asks.
pub(super) struct Upkeep {
    last: Instant,
    /// Pages that were refused because of the quota, when it was last looked.
    refused: u64,
}

impl Upkeep {
    pub(super) fn new() -> Self {
        Self { last: Instant::now(), refused: 0 }
    }

    /// Does what is due, as long as `go_on` says so.
    pub(super) fn keep_up(&mut self, pool: &Pool, go_on: impl Fn() -> bool) {
        let refused = pool.over_quota_pages();
        let wants_room = refused > self.refused && self.last.elapsed() >= ROOM_EVERY;
        if !wants_room && !pool.wants_checkpoint() && self.last.elapsed() < CHECKPOINT_EVERY {
            return;
        }
        self.refused = refused;
        let start = Instant::now();
        match pool.maintain_while(go_on) {
            Ok(done) => {
                let seconds = start.elapsed().as_secs_f64();
                if done.compacted > 0 {
                    info!(containers = done.compacted, seconds, "compacted");
                }
                if let Some(error) = done.why_left {
                    let error = format!("{:#}", anyhow::Error::from(error));
                    warn!(containers = done.left, error, "containers could not be compacted");
                }
                if done.is_checkpointed {
                    info!(seconds, "made a checkpoint");
                }
            }
            Err(error) => warn!(%error, "the pool could not be maintained"),
        }
        self.last = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use onefold_backend::MemoryFolder;
    use onefold_block::{BlockDevice, BlockSize, Durability};
    use onefold_volume::{Hash, Options};

    use super::*;

    #[test]
    fn what_nobody_waits_for_stops_at_a_step() {
        let folder = Arc::new(MemoryFolder::new());
        Pool::create(&folder, Hash::Blake3).unwrap();
        let (pool, _) = Pool::open(folder, Options::default()).unwrap();
        pool.create_volume("disk", 1 << 20, BlockSize::B4096).unwrap();
        pool.volume("disk").unwrap().write(0, &[7; 4096], Durability::OnReturn).unwrap();
        let offered = Offered::new(&pool, false, Arc::default(), Arc::default());
        let (there, gone) = (Cancel::default(), Cancel::default());
        gone.cancel();
        for request in [Request::Scrub, Request::Check] {
            let answer = offered.answer(request.clone(), &gone);
            assert!(matches!(answer, Answer::Refused(_)), "{answer:?}");
            let answer = offered.answer(request, &there);
            assert!(matches!(answer, Answer::Scrubbed(_) | Answer::Checked(_)), "{answer:?}");
        }
        // what had not begun to change does not
        let delete = || Request::Delete { name: "disk".into(), is_forced: true };
        assert!(matches!(offered.answer(delete(), &gone), Answer::Refused(_)));
        assert!(pool.volume("disk").is_ok());
        assert!(offered.under_way().is_empty());
    }

    #[test]
    fn an_end_that_failed_twice_tells_of_both() {
        let ended = || Err(ServerError::StillBusy(PATIENCE));
        let kept = || Err(anyhow::anyhow!("no disk").context("no checkpoint was made"));
        let both = format!("{:#}", all_of(ended(), kept()).unwrap_err());
        assert_eq!(
            both,
            "no checkpoint was made: no disk; and before that: requests were still in flight 30s \
             after the shutdown began; they got no reply"
        );
        let one = format!("{:#}", all_of(ended(), Ok(())).unwrap_err());
        assert!(both.ends_with(&one), "{one}");
        let other = format!("{:#}", all_of(Ok(()), kept()).unwrap_err());
        assert_eq!(other, "no checkpoint was made: no disk");
        all_of(Ok(()), Ok(())).unwrap();
    }

    #[test]
    fn a_place_is_an_address_or_a_host_name_with_a_port() {
        for text in ["127.0.0.1:10809", "[::1]:0"] {
            assert_eq!(tcp_place(text), Ok(Listen::Tcp(text.parse().unwrap())));
        }
        for text in ["localhost:10809", "db-1.example:0"] {
            assert_eq!(tcp_place(text), Ok(Listen::Host(text.into())));
        }
        for text in ["", "localhost", ":1", "localhost:", "localhost:65536", "::1:10809", "[::1:3"]
        {
            assert!(tcp_place(text).unwrap_err().contains("localhost:10809"), "{text}");
        }
    }

    #[test]
    fn clients_and_containers_share_the_files_that_there_may_be() {
        assert_eq!(most_clients(1024), (336, 112), "512 - 64 together");
        assert_eq!(most_clients(64), (6, 2));
        assert_eq!(most_clients(8192), (3776, 256), "4096 - 64 together");
        assert_eq!(most_clients(1 << 17), (4096, 256));
        assert_eq!(most_clients(usize::MAX), (4096, 256));
    }
}
