//! Requests to volumes in a cluster: each goes to the gateway that has the volume, or is executed here, by a
//! lease of this process, if no gateway has it.

mod damage;
mod detach;
mod fsck;
mod repair;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use onefold_cluster::hints::GatewayId;
use onefold_cluster::{
    BootClock, Care, Domain, Gateway, GatewayRecord, LeaseClock, Names, OpenShard,
    Reached as Found, Running, Settings, Shards, WAIT, gateways, wall_clock,
};
use onefold_seal::ObjectId;
use onefold_volume::{Options, Pool, VolumeError};

pub(crate) use self::damage::lost_volumes;
pub(crate) use self::detach::{detach, has_left, remove_left};
pub(crate) use self::fsck::fsck;
use crate::cluster::{Reached, Unavailable, about, control_folder};
use crate::count::count;
use crate::service::answer::{Answer, Shown, ShownCheck, ShownScrub, ShownUnanswered, Sums};
use crate::service::control::Asking;
use crate::service::peers;
use crate::service::request::{NotServed, Offers, Request, block_size_of, ensure_as_made};
use crate::service::space::{ShownCycle, ShownStored};

/// How often a command looks whether a shard can be had.
const LOOK: Duration = Duration::from_millis(500);

/// How long a command waits for a shard that changes hands, or whose gateway may be dead.
const PATIENCE: Duration = Duration::from_secs(30);

/// The volumes of a domain, for a command.
pub(crate) struct Volumes {
    reached: Reached,
    domain: Domain,
    options: Options,
    tell: Box<dyn Fn(&str)>,
    own: Option<Own>,
}

/// The lease of this process.
struct Own {
    gateway: Arc<Gateway>,
    _renewing: Running,
}

impl Drop for Volumes {
    fn drop(&mut self) {
        if let Some(own) = self.own.take()
            && let Err(error) = own.gateway.end()
        {
            let error = format!("{:#}", anyhow::Error::from(error));
            (self.tell)(&format!("gateways wait {WAIT:?} for what this command had: {error}"));
        }
    }
}

/// Who executes requests for a shard.
enum Doer {
    Here(Arc<OpenShard>),
    There(Asking),
    /// A gateway on another machine, or of another user.
    Far((GatewayId, SocketAddr)),
}

/// Executes a request in a shard that `gateway`, of this process, has, and keeps the names of volumes in line.
pub(crate) fn perform(
    request: Request,
    gateway: &Gateway,
    shard: &OpenShard,
    offers: &dyn Offers,
) -> Result<Answer> {
    if request == Request::Scrub {
        return damage::scrub(gateway, shard, offers);
    }
    if !request.is_change() {
        let answer = request.perform(shard.pool(), offers)?;
        return damage::told(answer, gateway, shard, offers);
    }
    let mut changing = shard.change();
    changing.ensure_current()?;
    if let Some(name) = request.new_name() {
        changing.claim(name)?;
    }
    if let Request::Delete { name, .. } = &request {
        changing.recall(name)?;
    }
    let answer = request.perform(shard.pool(), offers);
    let synced = changing.sync();
    let answer = answer?;
    synced.context("it was done, but the names of volumes could not be noted yet")?;
    Ok(answer)
}

/// Makes a shard with one empty volume.
pub(crate) fn create(gateway: &Gateway, request: &Request) -> Result<Arc<OpenShard>> {
    let Request::Create { name, size, block_size, fingerprint, compression } = request else {
        bail!("expected a request for a new volume");
    };
    let domain = gateway.domain();
    ensure_as_made((domain.hash, domain.codec), *fingerprint, *compression)?;
    let block_size = block_size_of(*block_size)?;
    Ok(gateway.create(name, |pool| pool.create_volume(name, *size, block_size))?)
}

impl Volumes {
    /// The volumes of the domain that was `reached`. `tell` hears of what takes long.
    pub(crate) fn new(
        reached: Reached,
        options: Options,
        tell: impl Fn(&str) + 'static,
    ) -> Result<Self> {
        let domain = reached.domain()?;
        Ok(Self { reached, domain, options, tell: Box::new(tell), own: None })
    }

    fn own(&mut self) -> Result<Arc<Gateway>> {
        if let Some(own) = &self.own {
            return Ok(Arc::clone(&own.gateway));
        }
        let clock: Arc<dyn LeaseClock> = Arc::new(BootClock);
        let settings = Settings {
            data: self.reached.data(&self.domain)?,
            ..Settings::new(about(String::new(), false), self.options.clone())
        };
        let gateway = Gateway::begin(&self.reached.pool, &clock, settings, Arc::new(()));
        let gateway = Arc::new(gateway.with_context(|| self.reached.place())?);
        let _renewing = Running::renewing(&gateway);
        self.own = Some(Own { gateway: Arc::clone(&gateway), _renewing });
        Ok(gateway)
    }

    /// The shard of the volume `name`.
    pub(crate) fn shard_of(&self, name: &str) -> Result<ObjectId> {
        let names = Names::new(&self.reached.pool);
        let found = names.find(name).and_then(|found| match found {
            Some(record) if !names.is_left_over(&record)? => Ok(record.shard),
            _ => Err(VolumeError::NoVolume { name: name.to_owned() }),
        });
        found.with_context(|| self.reached.place())
    }

    /// The shards that have volumes, and the names of these. A shard that is being made or removed is left out, and so
    /// is a name that leads to no shard.
    fn volumes_by_shard(&self) -> Result<BTreeMap<ObjectId, Vec<String>>> {
        // before the shards: each of these has a record then, unless it was removed
        let names = Names::new(&self.reached.pool).all().with_context(|| self.reached.place())?;
        let shards = self.shards()?;
        let mut volumes: BTreeMap<ObjectId, Vec<String>> = BTreeMap::new();
        for (name, record) in names.into_iter().filter(|(_, one)| shards.contains(&one.shard)) {
            volumes.entry(record.shard).or_default().push(name);
        }
        Ok(volumes)
    }

    /// A connection to the gateway of this record, if it runs on this machine as this user.
    fn asking(&self, record: Option<&GatewayRecord>) -> Result<Option<Asking>> {
        let Some(record) = record else { return Ok(None) };
        let folder = control_folder(self.domain.id, record.about.process)?;
        if !folder.exists() {
            return Ok(None);
        }
        Asking::connect(&folder).with_context(|| self.reached.place())
    }

    /// Who executes requests for the shard `id`: the gateway that has it, or this process.
    fn doer(&mut self, id: ObjectId) -> Result<Doer> {
        self.doer_by(|own| own.reach(id))
    }

    /// The same of the shard that `reach` reaches.
    fn doer_by(
        &mut self,
        mut reach: impl FnMut(&Gateway) -> Result<Found, VolumeError>,
    ) -> Result<Doer> {
        let (own, begun) = (self.own()?, Instant::now());
        let mut first: Option<u64> = None;
        loop {
            own.look().with_context(|| self.reached.place())?;
            match reach(&own).with_context(|| self.reached.place())? {
                Found::Here(shard) => return Ok(Doer::Here(shard)),
                Found::Absent => bail!("the volume is being created or deleted: try again"),
                Found::Moving => {}
                Found::There { record, .. } => {
                    if let Some(asking) = self.asking(record.as_ref())? {
                        return Ok(Doer::There(asking));
                    }
                    if let Some(place) = record.as_ref().and_then(peers::place)
                        && peers::is_reachable(place.1)
                    {
                        return Ok(Doer::Far(place));
                    }
                    let renewals = record.as_ref().map(|record| record.renewals);
                    let held = || Err(Unavailable::held(record.as_ref()).into());
                    match (first, renewals) {
                        (_, None) => return held(),
                        (None, Some(_)) => {
                            first = renewals;
                            let record = record.as_ref().map(|record| &*record.about.host);
                            let host = record.unwrap_or_default();
                            (self.tell)(&format!(
                                "gateway {host} has it, which cannot be asked from here: looking whether it \
                                 lives"
                            ));
                        }
                        (Some(first), Some(now)) if first != now => return held(),
                        _ => {}
                    }
                }
            }
            ensure!(
                begun.elapsed() < PATIENCE,
                "the volume changes hands for {PATIENCE:?}: try again"
            );
            thread::sleep(LOOK);
        }
    }

    /// Executes `request`.
    pub(crate) fn ask(&mut self, request: Request) -> Result<Answer> {
        let Some(name) = request.volume() else {
            let (answer, is_whole) = self.ask_all(request)?;
            return is_whole.map(|()| answer);
        };
        if matches!(request, Request::Create { .. }) {
            let own = self.own()?;
            create(&own, &request)?;
            return Ok(Answer::Done);
        }
        let shard = self.shard_of(name)?;
        let mut answer = self.ask_shard(shard, request)?;
        if let Answer::Volume(found) = &mut answer {
            let space = self.care().shard_space().with_context(|| self.reached.place())?;
            found.volume.shard = Some(shard.to_string());
            found.volume.shard_unique_bytes = space.get(&shard).map(|one| one.unique_bytes);
        }
        Ok(answer)
    }

    fn care(&self) -> Care {
        Care::new(&self.reached.pool)
    }

    /// Counts what all containers hold.
    pub(crate) fn count(&mut self) -> Result<()> {
        let own = self.own()?;
        let counted = own.count(wall_clock(), &|time| thread::sleep(time), &|| true);
        counted.map(drop).with_context(|| self.reached.place())
    }

    fn ask_shard(&mut self, id: ObjectId, request: Request) -> Result<Answer> {
        match self.doer(id)? {
            Doer::Here(shard) => match &request {
                Request::Detach { from, to } => detach(&*self.own()?, &shard, (from, to), &|| true),
                _ => perform(request, &*self.own()?, &shard, &NotServed),
            },
            Doer::There(asking) => {
                let request = Request::InShard { shard: id.to_string(), asked: Box::new(request) };
                asking.ask(&request).with_context(|| self.reached.place())?.accepted()
            }
            Doer::Far(place) => {
                let request = Request::InShard { shard: id.to_string(), asked: Box::new(request) };
                let answer = peers::ask(&*self.reached.pool, place, &request);
                answer.with_context(|| self.reached.place())?.accepted()
            }
        }
    }

    /// Executes a request that concerns all volumes. A shard in which it fails keeps it from no other one: with the
    /// answer of the others comes whether all answered.
    ///
    /// # Errors
    /// If no shard answered.
    pub(crate) fn ask_all(&mut self, request: Request) -> Result<(Answer, Result<()>)> {
        if request == Request::List {
            return Ok((Answer::Volumes(self.list()?), Ok(())));
        }
        let shards = self.volumes_by_shard()?;
        let all = count(shards.len() as u64, "shard", "shards");
        let (mut whole, mut failed): (Option<Answer>, Vec<Error>) = (None, Vec::new());
        for (id, names) in shards {
            match self.ask_one(id, request.clone()) {
                Ok(answer) => {
                    whole = Some(match whole {
                        None => answer,
                        Some(whole) => joined(whole, answer)?,
                    });
                }
                // one that was removed meanwhile
                Err(_) if !self.exists(id)? => {}
                Err(error) => {
                    failed.push(error.context(format!("volume '{}' and its copies", names[0])));
                }
            }
        }
        let how_many = failed.len();
        let mut failed = failed.into_iter();
        let is_whole = failed.next().map_or(Ok(()), |first| {
            failed.for_each(|error| (self.tell)(&format!("{error:#}")));
            Err(first.context(format!("this failed for {how_many} of {all}")))
        });
        let Some(mut whole) = whole else {
            return Err(is_whole.err().unwrap_or_else(|| anyhow!("the cluster has no volumes")));
        };
        match &mut whole {
            Answer::Sums(sums) => sums.cluster = Some(ShownStored::of(&self.care())?),
            Answer::Scrubbed(found) => found.cycle = ShownCycle::of(&self.care())?,
            _ => {}
        }
        Ok((whole, is_whole))
    }

    /// Executes `request` in the shard `id`, and gives the shard back if this process took it.
    fn ask_one(&mut self, id: ObjectId, request: Request) -> Result<Answer> {
        let answer = self.ask_shard(id, request);
        let given = self.own.as_ref().map_or(Ok(()), |own| own.gateway.give_back(id));
        answer.and_then(|answer| Ok(given.map(|()| answer)?))
    }

    fn list(&self) -> Result<Vec<Shown>> {
        let pool = &self.reached.pool;
        let names = Names::new(pool).all().with_context(|| self.reached.place())?;
        let owners: BTreeMap<_, _> = Shards::new(pool).all()?.into_iter().collect();
        let all: BTreeMap<_, _> = gateways(pool)?.into_iter().collect();
        let mut used: BTreeMap<String, u64> = BTreeMap::new();
        for record in all.values().filter(|record| record.about.is_serving) {
            let answer = match (self.asking(Some(record))?, peers::place(record)) {
                (Some(asking), _) => asking.ask(&Request::List)?,
                (None, Some(place)) if peers::is_reachable(place.1) => {
                    // one that has just ended: what its volumes use is not known
                    let Ok(answer) = peers::ask(&**pool, place, &Request::List) else { continue };
                    answer
                }
                _ => continue,
            };
            if let Answer::Volumes(found) = answer.accepted()? {
                let known = |one: Shown| one.mapped_blocks.map(|blocks| (one.name, blocks));
                used.extend(found.into_iter().filter_map(known));
            }
        }
        let space = self.care().shard_space()?;
        let names = names.into_iter().filter(|(_, record)| owners.contains_key(&record.shard));
        let shown = names.map(|(name, record)| {
            let owner = owners.get(&record.shard).and_then(|seen| seen.record.gateway);
            let gateway = owner.and_then(|owner| all.get(&owner));
            Shown {
                size: record.size,
                block_size: record.block_size,
                is_read_only: record.is_read_only,
                mapped_blocks: used.get(&name).copied(),
                gateway: gateway.map(|gateway| gateway.about.host.clone()),
                shard: Some(record.shard.to_string()),
                shard_unique_bytes: space.get(&record.shard).map(|one| one.unique_bytes),
                name,
            }
        });
        Ok(shown.collect())
    }

    /// Opens the shard of the volume `name` here, which no gateway may have.
    pub(crate) fn open(&mut self, name: &str) -> Result<Arc<OpenShard>> {
        let id = self.shard_of(name)?;
        match self.doer(id)? {
            Doer::Here(shard) => Ok(shard),
            Doer::There(_) | Doer::Far(_) => {
                let found = self.own()?.reach(id)?;
                let Found::There { record, .. } = found else {
                    bail!("the volume changes hands: try again")
                };
                Err(Unavailable::held(record.as_ref()).into())
            }
        }
    }

    /// Makes a shard whose volume `name` is made by `make`.
    pub(crate) fn create(
        &mut self,
        name: &str,
        make: impl FnOnce(&Pool) -> Result<(), VolumeError>,
    ) -> Result<()> {
        self.own()?.create(name, make).map(|_| ()).with_context(|| self.reached.place())
    }

    /// Names of gateways by their ids, and the namespace.
    pub(crate) fn reached(&self) -> &Reached {
        &self.reached
    }
}

/// The answers of two shards to one request, as one.
fn joined(whole: Answer, more: Answer) -> Result<Answer> {
    Ok(match (whole, more) {
        (Answer::Checked(a), Answer::Checked(b)) => Answer::Checked(ShownCheck {
            pages: a.pages + b.pages,
            changed: a.changed + b.changed,
            problems: [a.problems, b.problems].concat(),
            more: a.more + b.more,
        }),
        (Answer::Scrubbed(a), Answer::Scrubbed(b)) => Answer::Scrubbed(ShownScrub {
            pages: a.pages + b.pages,
            bad: [a.bad, b.bad].concat(),
            more: a.more + b.more,
            unread: a.unread.or(b.unread),
            unanswered: ShownUnanswered::joined(a.unanswered, b.unanswered),
            cycle: None,
        }),
        (Answer::Sums(a), Answer::Sums(b)) => Answer::Sums(Sums::joined(a, b)),
        (Answer::GaveBack(a), Answer::GaveBack(b)) => Answer::GaveBack(a + b),
        (_, other) => bail!("a gateway gave an unexpected answer: {other:?}"),
    })
}
