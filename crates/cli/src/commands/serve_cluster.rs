//! `onefold serve --cluster`

use std::fs;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use onefold_block::{BlockDevice, MeasuredDevice, Measurements};
use onefold_cluster::pooled::{PooledHints, Pools};
use onefold_cluster::{
    Audience, BootClock, Gateway, GatewayEvent, LeaseClock, OpenShard, Reached as Where, Running,
    Settings,
};
use onefold_nbd::{Address, Export, ExportList, Finder, Found, Server, ServerError, Upstream};
use onefold_seal::ObjectId;
use onefold_store::Cancel;
use onefold_volume::VolumeError;
use tracing::{debug, info, warn};

use super::serve::{LAST_STEP, PATIENCE, PAUSE, Serve};
use super::serve_scrubs::Scrubs;
use super::serve_upkeep::{AskedFor, Space, keep_up};
use crate::cluster::{Reached, Unavailable, about, control_folder, control_folders};
use crate::domain::{create, detach, fsck, perform};
use crate::exit::Exit;
use crate::host;
use crate::service::Service;
use crate::service::answer::Answer;
use crate::service::control::{Asking, Bound};
use crate::service::logs::Failures;
use crate::service::metrics::{Metrics, SpaceCounts};
use crate::service::peers::InDomain;
use crate::service::request::{Offers, Request};
use crate::service::systemd::Supervisor;

/// How long a client may wait for a volume whose gateway died, from its connection on.
const SEARCH: Duration = Duration::from_secs(25);
/// The handshake takes as long as the search, and the opening of a shard.
const HANDSHAKE: Duration = Duration::from_secs(60);

/// The volumes of a gateway as clients are offered them.
struct Offered {
    /// The gateway, which ends before its server: what Ceph's library does must be over when the process ends.
    gateway: OnceLock<Weak<Gateway>>,
    exports: OnceLock<ExportList>,
    /// Whether connections are passed on to other gateways.
    follows: bool,
    may_resize: bool,
    /// Whether clients get snapshots alone.
    read_only: bool,
    measurements: Arc<Measurements>,
    failures: Arc<Failures>,
    cancel: Arc<Cancel>,
    /// Shards whose tables of fingerprints are not filled yet.
    unfilled: Mutex<Vec<Arc<OpenShard>>>,
    /// What clients and commands ask for.
    asked: AskedFor,
}

impl Offered {
    fn gateway(&self) -> Result<Arc<Gateway>> {
        let gateway = self.gateway.get().context("the server has not started yet")?;
        gateway.upgrade().context("the server is shutting down")
    }

    fn exports(&self) -> Result<&ExportList> {
        self.exports.get().context("the server has not started yet")
    }

    /// Whether clients may have a volume, which may be a snapshot.
    fn offers(&self, is_snapshot: bool) -> bool {
        is_snapshot || !self.read_only
    }

    /// Why a client does not get the volume `name`, if it may not. A shard that is open here for its snapshots is
    /// given back when a client wants more of it: another gateway takes it then.
    fn keep_from(&self, gateway: &Gateway, name: &str) -> Result<Option<Found>, VolumeError> {
        if !self.read_only {
            return Ok(None);
        }
        let record = gateway.names().find(name)?;
        let Some(record) = record.filter(|record| !self.offers(record.is_read_only)) else {
            return Ok(None);
        };
        gateway.give_back(record.shard)?;
        Ok(Some(Found::Refused(
            "this gateway serves snapshots alone (--read-only): ask another one".into(),
        )))
    }

    fn export(&self, shard: &OpenShard, name: &str) -> Result<Export, VolumeError> {
        let (failures, shown) = (Arc::clone(&self.failures), name.to_owned());
        let measured = MeasuredDevice::new(
            shard.device(name)?,
            Arc::clone(&self.measurements),
            move |operation, range, error| failures.tell(&shown, operation, range, error),
        );
        let export = Export::new(name, Arc::new(measured));
        Ok(if self.may_resize { export.resizable() } else { export })
    }

    fn unfilled(&self) -> std::sync::MutexGuard<'_, Vec<Arc<OpenShard>>> {
        self.unfilled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills the tables of fingerprints of shards that were opened, one after the other.
    fn fill(&self) {
        while !self.cancel.is_cancelled() {
            let Some(shard) = self.unfilled().pop() else {
                thread::sleep(PAUSE);
                continue;
            };
            let goes_on = || !self.cancel.is_cancelled() && shard.tenure().is_current();
            for error in shard.pool().fill_index(goes_on) {
                let error = format!("{:#}", anyhow::Error::from(error));
                warn!(error, "a container cannot be read, and its pages are not found again");
            }
        }
    }

    /// The shard of a volume, if this gateway has it, or takes it.
    fn shard_of(&self, name: &str) -> Result<Arc<OpenShard>> {
        let gateway = self.gateway()?;
        let found = gateway.names().find(name)?;
        let found = found.ok_or_else(|| VolumeError::NoVolume { name: name.to_owned() })?;
        self.shard(found.shard)
    }

    fn shard(&self, id: ObjectId) -> Result<Arc<OpenShard>> {
        self.asked.note(&id.to_string());
        match self.gateway()?.reach(id)? {
            Where::Here(shard) => Ok(shard),
            Where::There { record, .. } => Err(Unavailable::held(record.as_ref()).into()),
            Where::Moving => bail!("the volume moves to another gateway: try again"),
            Where::Absent => bail!("the volume is being created or deleted: try again"),
        }
    }

    /// Does what `onefold volume` asks for, as long as `asker` waits for it.
    fn answer(&self, request: Request, asker: &Cancel) -> Answer {
        let (what, is_change) = (format!("{request:?}"), request.is_change());
        let answer = self.perform(request, asker).unwrap_or_else(|error| Answer::of_error(&error));
        match &answer {
            Answer::Refused(why) => warn!(request = what, why = why.join(": "), "refused"),
            _ if is_change => info!(request = what, "a volume was changed"),
            _ => debug!(request = what, "answered"),
        }
        answer
    }

    fn perform(&self, request: Request, asker: &Cancel) -> Result<Answer> {
        let asked = Asked { offered: self, asker, shard: OnceLock::new() };
        if !asked.goes_on() {
            bail!("the server is stopping; nothing was done");
        }
        let gateway = self.gateway()?;
        let (shard, request) = match request {
            Request::Create { .. } => {
                create(&gateway, &request)?;
                return Ok(Answer::Done);
            }
            Request::List => {
                let shards = gateway.open_shards();
                let volumes = shards.iter().flat_map(|shard| shard.pool().volumes());
                return Ok(Answer::Volumes(volumes.map(Into::into).collect()));
            }
            Request::Fsck { repair } => {
                let open = gateway.open_shards();
                return Ok(Answer::Fsck(fsck(&gateway, &open, repair, &|| asked.goes_on())?));
            }
            Request::InShard { shard, asked } => (self.shard(shard.parse()?)?, *asked),
            request => {
                let name = request.volume().context("this request needs the name of a volume")?;
                (self.shard_of(name)?, request)
            }
        };
        let _ = asked.shard.set(Arc::clone(&shard));
        let answer = match &request {
            Request::Detach { from, to } => {
                detach(&gateway, &shard, (from, to), &|| asked.goes_on())
            }
            _ => perform(request, &gateway, &shard, &asked),
        };
        if shard.change().is_empty() {
            let id = shard.id();
            drop((shard, asked));
            gateway.give_back(id)?;
        }
        answer
    }
}

/// What is offered, to do there what a command asks for.
struct Asked<'a> {
    offered: &'a Offered,
    asker: &'a Cancel,
    shard: OnceLock<Arc<OpenShard>>,
}

impl Offers for Asked<'_> {
    fn offer(&self, name: &str) -> Result<()> {
        let shard = self.shard.get().context("no shard was chosen")?;
        if !self.offered.offers(shard.pool().volume(name)?.is_read_only()) {
            return Ok(());
        }
        Ok(self.offered.exports()?.add(self.offered.export(shard, name)?)?)
    }

    fn offer_failed(&self, name: &str) -> Result<()> {
        // if this gateway dies, the next one shows the volume as it was before
        self.shard.get().context("no shard was chosen")?.unsettle(name);
        self.offer(name)
    }

    fn take_back(&self, name: &str, is_forced: bool) -> Result<()> {
        let shard = self.shard.get().context("no shard was chosen")?;
        if !self.offered.offers(shard.pool().volume(name)?.is_read_only()) {
            return Ok(());
        }
        super::serve::take_back(self.offered.exports()?, name, is_forced)
    }

    fn goes_on(&self) -> bool {
        // what is found in a shard that was given away is not true of it any more
        let is_current = self.shard.get().is_none_or(|shard| shard.tenure().is_current());
        is_current && !self.offered.cancel.is_cancelled() && !self.asker.is_cancelled()
    }

    fn is_serving(&self) -> bool {
        true
    }
}

impl Audience for Offered {
    fn opened(&self, shard: &Arc<OpenShard>, damage: Vec<VolumeError>) {
        for error in damage {
            let error = format!("{:#}", anyhow::Error::from(error));
            warn!(shard = %shard.id(), error, "damaged");
        }
        let Some(exports) = self.exports.get() else { return };
        for one in shard.pool().volumes().into_iter().filter(|one| self.offers(one.is_read_only)) {
            let added = self.export(shard, &one.name).map(|export| exports.add(export));
            if let Ok(Err(error)) = added {
                warn!(volume = one.name, %error, "it cannot be served");
            }
        }
        self.unfilled().push(Arc::clone(shard));
    }

    fn closing(&self, shard: &Arc<OpenShard>) {
        self.unfilled().retain(|other| !Arc::ptr_eq(other, shard));
        shard.pool().let_no_write_wait();
        let Some(exports) = self.exports.get() else { return };
        for one in shard.pool().volumes() {
            match exports.remove(&one.name, true) {
                // all that was acknowledged is durable
                Ok(()) | Err(ServerError::Flush { .. } | ServerError::NoExport { .. }) => {}
                Err(error) => debug!(volume = one.name, %error, "it was not served"),
            }
        }
    }

    fn tell(&self, event: GatewayEvent) {
        log(event);
    }
}

impl Finder for Offered {
    fn find(&self, name: &str) -> Found {
        if name.is_empty() {
            return Found::Refused("a cluster has many volumes: name one".into());
        }
        let gateway = match self.gateway() {
            Ok(gateway) => gateway,
            Err(error) => return Found::NotNow(error.to_string()),
        };
        match self.keep_from(&gateway, name) {
            Ok(None) => {}
            Ok(Some(refused)) => return refused,
            Err(error) => return Found::NotNow(error.to_string()),
        }
        // before it is looked whether the shard is open: from here on it is not given back for want of clients
        self.asked.note(name);
        let open = gateway.open_shards();
        let has = |shard: &Arc<OpenShard>| shard.pool().volume(name).is_ok();
        if open.iter().any(|shard| shard.tenure().is_current() && has(shard)) {
            return Found::Here;
        }
        drop(open);
        let found = gateway.names().find(name).and_then(|record| {
            let Some(record) = record else { return Ok(Where::Absent) };
            gateway.reach(record.shard)
        });
        match found {
            Ok(Where::Here(_) | Where::Absent) => Found::Here,
            Ok(Where::Moving) => Found::NotNow("it moves to another gateway".into()),
            Ok(Where::There { gateway: id, record }) => self.there(id, record.as_ref()),
            Err(error) => {
                let error = format!("{:#}", anyhow::Error::from(error));
                warn!(volume = name, error, "it cannot be found");
                Found::NotNow(error)
            }
        }
    }

    fn names(&self) -> Result<Vec<String>, String> {
        let gateway = self.gateway().map_err(|error| error.to_string())?;
        let names = gateway.names().all().map_err(|error| error.to_string())?;
        let offered = names.into_iter().filter(|(_, record)| self.offers(record.is_read_only));
        Ok(offered.map(|(name, _)| name).collect())
    }
}

impl Offered {
    fn there(&self, id: ObjectId, record: Option<&onefold_cluster::GatewayRecord>) -> Found {
        let held = Unavailable::held(record).to_string();
        let place = record.map(|record| record.about.nbd.clone()).unwrap_or_default();
        if !self.follows {
            // a gateway that is about to lose it is waited for all the same
            return Found::Refused(held);
        }
        let Some(gateway) = self.gateway.get().filter(|_| !place.is_empty()) else {
            return Found::NotNow(held);
        };
        let gateway = Weak::clone(gateway);
        let is_over = move || gateway.upgrade().is_none_or(|gateway| !gateway.has_lease(id));
        Found::There(Upstream { place, is_over: Arc::new(is_over) })
    }
}

fn log(event: GatewayEvent) {
    let told = |error: VolumeError| format!("{:#}", anyhow::Error::from(error));
    match event {
        GatewayEvent::NotRenewed(error) => warn!(%error, "the lease was not renewed"),
        GatewayEvent::Lost => warn!(
            "another gateway broke the lease of this one, which did not renew it in time: it goes on \
             without the volumes that it had"
        ),
        GatewayEvent::Began(id) => info!(gateway = %id, "took a lease"),
        GatewayEvent::Failed(error) => {
            warn!(error = told(error), "could not look after the cluster")
        }
        GatewayEvent::Broke { gateway, host } => {
            warn!(%gateway, host, "broke the lease of a gateway that did not renew it");
        }
        GatewayEvent::Took { shard, from, volumes } => {
            let from = from.map(|from| from.to_string());
            info!(%shard, from, volumes = volumes.join(", "), "took a shard");
        }
        GatewayEvent::NotOpened { shard, error } => {
            warn!(%shard, error = told(error), "a shard cannot be opened");
        }
        GatewayEvent::Gave { shard, error } => {
            info!(%shard, no_checkpoint = error.map(told), "gave a shard back");
        }
        GatewayEvent::Dropped { shard, why } => warn!(%shard, why, "let go of a shard"),
        GatewayEvent::Removed(shard) => info!(%shard, "removed a shard without volumes"),
        _ => {}
    }
}

/// The address at which others reach this gateway, if it can be told: the first that it listens on.
fn advertised(addresses: &[Address]) -> Option<String> {
    let of = |address: &Address| match address {
        Address::Tcp(address) if address.ip().is_unspecified() => {
            Some(format!("{}:{}", host::name(), address.port()))
        }
        Address::Tcp(address) => Some(address.to_string()),
        Address::Unix(path) => path.canonicalize().ok()?.to_str().map(str::to_owned),
        _ => None,
    };
    let is_tcp = |address: &&Address| matches!(address, Address::Tcp(_));
    addresses.iter().find(is_tcp).or(addresses.first()).and_then(of)
}

/// A control socket of this process; folders that dead gateways left are removed.
fn control(domain: ObjectId, process: ObjectId) -> Result<Bound> {
    use std::os::unix::fs::DirBuilderExt;
    let folder = control_folder(domain, process)?;
    for left in fs::read_dir(control_folders(domain)?).into_iter().flatten().flatten() {
        if let Ok(None) = Asking::connect(&left.path()) {
            // whatever is in there, it is tried again the next time
            let _ = fs::remove_dir_all(left.path());
        }
    }
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.with_context(|| format!("cannot make '{}'", folder.display()))?;
    Bound::at(&folder)
}

impl Serve {
    /// Serves the volumes of a cluster, as one of its gateways.
    pub(super) fn serve_cluster(&self, reached: &Reached, cancel: &Arc<Cancel>) -> Result<Exit> {
        self.ensure_for_cluster()?;
        let domain = reached.domain()?;
        let supervisor = Supervisor::of_environment()?;
        let service = Service::start()?;
        let metrics: Option<(SocketAddr, _)> = self
            .metrics
            .map(|address| Ok::<_, anyhow::Error>((address, service.bind(address)?)))
            .transpose()?;
        let measurements = Arc::<Measurements>::default();
        let strangers = Arc::new(Failures::of_strangers());
        let offered = Arc::new(Offered {
            gateway: OnceLock::new(),
            exports: OnceLock::new(),
            follows: self.follow.is_yes(),
            may_resize: self.allow_resize,
            read_only: self.read_only,
            measurements: Arc::clone(&measurements),
            failures: Arc::new(Failures::of_requests()),
            cancel: Arc::clone(cancel),
            unfilled: Mutex::default(),
            asked: AskedFor::default(),
        });
        let mut config = self.config(&measurements, &strangers)?;
        config.finder = Some(Arc::<Offered>::clone(&offered));
        config.limits.handshake = HANDSHAKE;
        config.limits.search = SEARCH;
        let server = Server::bind(config)?;
        self.warn_of_strangers(&server.addresses());
        let server = server.serve(Vec::new())?;
        let _ = offered.exports.set(server.exports());
        let advertised = self.advertise.clone().or_else(|| advertised(server.addresses()));
        let peer = self.peers.bind(server.addresses())?;
        let mut about = about(advertised.unwrap_or_default(), true);
        about.rpc = peer.told(&about.nbd)?.into();
        let process = about.process;
        let control = control(domain.id, about.process)?;
        let clock: Arc<dyn LeaseClock> = Arc::new(BootClock);
        let (data, members) = (reached.data(&domain)?, InDomain::new(&reached.pool));
        let meta = Arc::clone(&reached.pool);
        let pools = Pools { data: data.clone().unwrap_or_else(|| Arc::clone(&meta)), meta };
        let asked = Arc::clone(&offered);
        let answer = move |request, asker: &Cancel| asked.answer(request, asker);
        let hints = self.peers.start(peer, process, pools, members, answer)?;
        let settings = Settings {
            data,
            hints: Arc::<PooledHints>::clone(&hints),
            ..Settings::new(about, self.pool.options())
        };
        let audience: Arc<dyn Audience> = Arc::<Offered>::clone(&offered);
        let gateway = loop {
            let begun =
                Gateway::begin(&reached.pool, &clock, settings.clone(), Arc::clone(&audience));
            match begun {
                // whatever an earlier try left is broken by the others
                Err(error @ VolumeError::Unanswered { .. }) if !cancel.is_cancelled() => {
                    warn!(%error, "Ceph does not answer: waiting");
                    thread::sleep(PAUSE * 10);
                }
                begun => break Arc::new(begun.with_context(|| reached.place())?),
            }
        };
        let _ = offered.gateway.set(Arc::downgrade(&gateway));
        let running = Running::start(&gateway);
        let asked = Arc::clone(&offered);
        let answer = move |request, asker: &Cancel| asked.answer(request, asker);
        let control = service.listen(control, answer)?;
        let counts = Arc::<SpaceCounts>::default();
        if let Some((_, listener)) = metrics {
            info!("metrics at http://{}/metrics", listener.local_addr()?);
            let mut metrics = Metrics::of_gateway(&gateway, server.exports(), measurements);
            metrics.add_hints(&hints);
            metrics.add_space(&counts);
            metrics.add_rados(&reached.counters);
            service.tell(listener, Arc::new(metrics));
        }
        for address in server.addresses() {
            info!("serving on {address}");
        }
        supervisor.tell_ready()?;
        let bounded = [&*offered.failures, &*strangers];
        let every = Duration::from_secs(self.check_every);
        let mut space = Space::new((self.max_waste, every), Arc::clone(&counts), Instant::now());
        let mut scrubs = Scrubs::new(self.scrub_every, Arc::clone(&counts));
        thread::scope(|scope| {
            scope.spawn(|| offered.fill());
            scope.spawn(|| space.keep(&gateway, &server.exports(), &offered.asked, cancel));
            scope.spawn(|| scrubs.keep(&gateway, cancel));
            keep_up(&gateway, cancel, || {
                bounded.iter().for_each(|failures| failures.tell_silent())
            });
        });
        if let Err(error) = supervisor.tell_stopping() {
            warn!(error = %format_args!("{error:#}"), "shutting down nevertheless");
        }
        service.end(control, LAST_STEP);
        drop(service);
        let ended = server.shutdown(PATIENCE);
        let given = gateway.end();
        drop(running);
        // with its last dumps of hints
        drop((gateway, hints));
        bounded.iter().for_each(|failures| failures.tell_last());
        ended?;
        given.context(
            "not everything was given back: other gateways wait for the end of the lease",
        )?;
        info!("shut down; everything is durable");
        Ok(Exit::Fine)
    }

    fn ensure_for_cluster(&self) -> Result<()> {
        if self.follow.is_yes() && self.tls_cert.is_some() && self.tls_client_ca.is_none() {
            bail!(
                "gateways pass connections on to one another, and trust each other by --tls-client-ca: give \
                 it, or --follow no"
            );
        }
        Ok(())
    }
}
