//! What a backup and prunes beside it owe each other: the intent, what was condemned meanwhile,
//! the commit.

use std::collections::HashSet;
use std::process;
use std::sync::Arc;
use std::time::Instant;

use onefold_backend::{BackendError, Objects};
use onefold_container::{self as container, container_id, container_name};
use onefold_seal::ObjectId;

use crate::chunks::loaded::Loaded;
use crate::chunks::place::Used;
use crate::history::fence::{self, Fate};
use crate::history::log;
use crate::local::cache::Copied;
use crate::objects::intent::{Intent, intent_name};
use crate::objects::mark::{self, Marks};
use crate::objects::snapshot::snapshot_name;
use crate::objects::{receipt, snapshot};
use crate::seeded::fault;
use crate::threads::both;
use crate::tree::Time;
use crate::writing::alive::Alive;
use crate::{Repository, Snapshot, StoreError};

/// How many names a disk lists in the time that it takes to look up one.
const LISTED_PER_ASKED: usize = 4;

/// This program, as snapshots and intents name it.
pub(crate) const PROGRAM: &str = concat!("onefold ", env!("CARGO_PKG_VERSION"));

/// Who is about to make a snapshot, and with which program.
#[derive(Clone, Copy)]
pub(crate) struct Author<'a> {
    pub(crate) host: &'a str,
    pub(crate) user: &'a str,
    pub(crate) program: &'a str,
}

/// A backup that gave notice of itself and has not ended.
pub(crate) struct Announced<'a> {
    repository: &'a Repository,
    /// The id of the intent and of the snapshot to come.
    id: ObjectId,
    /// When the notice was out: what was loaded before may hold no longer.
    since: Instant,
    /// By which prunes of this machine know that this process lives.
    alive: Option<Arc<Alive>>,
}

impl<'a> Announced<'a> {
    /// Gives notice, after it is noted in `alive`. When this returns, whoever condemns a container from now on sees it; what was
    /// condemned before, [`learn`](Self::learn) sees.
    pub(crate) fn new(
        repository: &'a Repository,
        author: Author<'_>,
        time: Time,
        alive: &Option<Arc<Alive>>,
    ) -> Result<Self, StoreError> {
        let (objects, envelope) = (&*repository.objects, &repository.envelope);
        let id = ObjectId::random();
        let alive = alive.as_ref().filter(|alive| alive.enter(repository, id)).map(Arc::clone);
        let intent = Intent {
            time,
            host: author.host.to_owned(),
            user: author.user.to_owned(),
            program: author.program.to_owned(),
            process: process::id(),
            marks: mark::list(objects)?,
        };
        if !fault!(IntentLost) {
            intent.write(objects, envelope, id)?;
        }
        let settled = objects.settle();
        let announced = Self { repository, id, since: Instant::now(), alive };
        match settled {
            Ok(()) => Ok(announced),
            Err(error) => {
                announced.withdraw();
                Err(error.into())
            }
        }
    }

    /// Makes the index forget what was condemned or removed before the notice was given. Fails if
    /// that cannot be known.
    pub(crate) fn learn(&self, loaded: &Loaded) -> Result<(), StoreError> {
        if loaded.since > self.since {
            return loaded.marks.expect_whole();
        }
        let Repository { objects, envelope, .. } = self.repository;
        // In this order: when a mark is gone, so are its containers.
        let marks = Marks::read(&**objects, envelope)?;
        marks.expect_whole()?;
        let listed = ids(&objects.list_names(container::PREFIX)?);
        let mut condemned = marks.condemned();
        fault!(CondemnedReused => condemned.clear());
        let is_lost: Vec<bool> = loaded
            .containers
            .all()
            .iter()
            .map(|live| condemned.contains(&live.id) || !listed.contains(&live.id))
            .collect();
        if !is_lost.contains(&true) {
            return Ok(());
        }
        loaded.index.dismiss(|number| is_lost.get(number as usize) == Some(&true));
        Ok(())
    }

    /// Fails unless every container is there in which the backup found chunks.
    pub(crate) fn revalidate(&self, loaded: &Loaded, used: &Used) -> Result<(), StoreError> {
        let objects = &*self.repository.objects;
        let used: Vec<_> =
            used.numbers().filter_map(|number| loaded.containers.get(number)).collect();
        let listed = match is_asked_by_name(objects, used.len(), loaded.containers.len()) {
            true => HashSet::new(),
            false => ids(&objects.list_names(container::PREFIX)?),
        };
        for live in used.iter().filter(|live| !listed.contains(&live.id)) {
            match objects.size(&container_name(live.id)) {
                Ok(_) => {}
                Err(error) if error.is_not_found() => {
                    return Err(self.why_gone(live.id));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// A container goes while a backup relies on it only if the backup was revoked, or by mistake.
    fn why_gone(&self, container: ObjectId) -> StoreError {
        match fence::fate(self.repository, self.id) {
            Ok(Fate::Fenced) => StoreError::Revoked,
            _ => StoreError::Vanished { container },
        }
    }

    /// Commits, as [`commit_validated`](Self::commit_validated) does, if every container is there on
    /// which the snapshot relies.
    pub(crate) fn commit(
        self,
        snapshot: &Snapshot,
        loaded: &Loaded,
        used: &Used,
    ) -> Result<ObjectId, StoreError> {
        if let Err(error) = self.revalidate(loaded, used) {
            self.withdraw();
            return Err(error);
        }
        self.commit_validated(snapshot)
    }

    /// Puts the snapshot, which refers to durable things only, then the receipt that says it was
    /// acknowledged, and an entry in the log. Last it looks whether the snapshot was forgotten
    /// meanwhile. The notice is taken back whatever comes of it.
    ///
    /// A write-only client looks in between whether its key was taken back: see
    /// [`clients`](crate::clients).
    pub(crate) fn commit_validated(self, snapshot: &Snapshot) -> Result<ObjectId, StoreError> {
        let (objects, envelope) = (&*self.repository.objects, &self.repository.envelope);
        let id = self.id;
        fault!(ReceiptBeforeSnapshot => receipt::write(objects, envelope, id)?);
        fault!(LoggedBeforeSnapshot => log::append(self.repository, &[id], &[])?);
        if let Err(error) = self.put(snapshot) {
            fault!(AcknowledgedBeforeSnapshot => return Ok(id));
            return Err(self.give_up(error));
        }
        let acknowledged = self.acknowledge();
        // The snapshot is there, so no prune waits for the notice any more.
        let look = || acknowledged.and_then(|()| self.repository.ensure_unforgotten(id));
        let (unforgotten, ()) = both(look, || self.withdraw_decided());
        unforgotten.map(|()| id)
    }

    /// Says of the snapshot, which is durable, that it is there.
    fn acknowledge(&self) -> Result<(), StoreError> {
        let (objects, envelope) = (&*self.repository.objects, &self.repository.envelope);
        let snapshot = self.id;
        let without = |missing| {
            move |source: StoreError| {
                let source = Box::new(source);
                StoreError::Unacknowledged { snapshot, missing, source }
            }
        };
        match self.repository.expect_good_key() {
            Err(error @ StoreError::KeyTakenBack { .. }) => return Err(error),
            looked => looked.map_err(without("its receipt and its log entry"))?,
        }
        if !fault!(ReceiptBeforeSnapshot) {
            let written = receipt::write(objects, envelope, snapshot);
            written.map_err(without("its receipt and its log entry"))?;
        }
        if !fault!(LoggedBeforeSnapshot) {
            let appended = log::append(self.repository, &[snapshot], &[]);
            self.repository.remember(&appended.map_err(without("its log entry"))?);
        }
        Ok(())
    }

    fn put(&self, snapshot: &Snapshot) -> Result<(), StoreError> {
        let (objects, envelope) = (&*self.repository.objects, &self.repository.envelope);
        let written = match snapshot.write(objects, envelope, self.id) {
            Err(StoreError::Backend(BackendError::AlreadyExists { .. }))
                if fault!(FenceIgnored) =>
            {
                objects.delete(&snapshot_name(self.id))?;
                snapshot.write(objects, envelope, self.id)
            }
            result => result,
        }?;
        let copied = Copied::Snapshot(self.id, written.len() as u64);
        self.repository.cache().inspect(|cache| cache.keep(copied, &written));
        Ok(())
    }

    /// After a commit that failed with `error`: whether the snapshot is there is not known, so the
    /// notice goes only once it is decided.
    fn give_up(self, error: StoreError) -> StoreError {
        let is_taken = matches!(error, StoreError::Backend(BackendError::AlreadyExists { .. }));
        match fence::put(self.repository, self.id) {
            Ok(fate) => {
                self.withdraw_decided();
                if is_taken && fate == Fate::Fenced { StoreError::Revoked } else { error }
            }
            // A prune will put the fence in time.
            Err(_) => error,
        }
    }

    /// Takes the notice back of what is decided: no prune waits for it, even if this fails.
    fn withdraw_decided(&self) {
        let _ = self.repository.objects.delete(&intent_name(self.id));
        self.settle();
    }

    /// Takes the notice back. If that fails, a prune does it later: one of this machine at once.
    pub(crate) fn withdraw(self) {
        if self.repository.objects.delete(&intent_name(self.id)).is_ok() {
            self.settle();
        }
    }

    fn settle(&self) {
        self.alive.iter().for_each(|alive| alive.settle());
    }
}

impl Repository {
    /// Says of a snapshot that somebody who can read has made, and of which no log tells, that it is
    /// there.
    pub(crate) fn acknowledge(&self, id: ObjectId) -> Result<(), StoreError> {
        if self.logged()?.has(id) || self.claimed_client(&snapshot_name(id))?.is_some() {
            return Ok(());
        }
        match receipt::write(&*self.objects, &self.envelope, id) {
            Err(StoreError::Backend(BackendError::AlreadyExists { .. })) => {}
            written => written?,
        }
        let appended = log::append(self, &[id], &[])?;
        self.remember(&appended);
        self.ensure_unforgotten(id)
    }

    /// Fails if snapshot `id`, whose receipt and log entry are durable, was forgotten before they
    /// were: a forget that deletes it from now on finds the receipt and deletes that, too. The
    /// receipt of a forgotten one is deleted here, if this client may delete.
    fn ensure_unforgotten(&self, id: ObjectId) -> Result<(), StoreError> {
        fault!(ForgottenAcknowledged => return Ok(()));
        let is_there = match self.objects.size(&snapshot_name(id)) {
            // A prune may have put a fence in the place of what was forgotten.
            Ok(len) if len <= snapshot::MAX_FENCE_LEN && !self.is_write_only() => {
                fence::fate(self, id)? == Fate::Committed
            }
            Ok(len) => len > snapshot::MAX_FENCE_LEN,
            Err(error) if error.is_not_found() => false,
            Err(error) => return Err(error.into()),
        };
        if is_there {
            return Ok(());
        }
        // If it may not be deleted, the log still tells that the snapshot was forgotten.
        let _ = self.objects.delete(&receipt::receipt_name(id));
        Err(StoreError::Forgotten { snapshot: id })
    }
}

/// Whether it costs less to ask for `used` of `all` containers by their names than to list all. They
/// were listed when the repository was loaded, so their names are durable.
fn is_asked_by_name(objects: &dyn Objects, used: usize, all: usize) -> bool {
    let is_near = objects.gap() == 0;
    is_near && used <= all / LISTED_PER_ASKED
}

fn ids(containers: &[String]) -> HashSet<ObjectId> {
    containers.iter().filter_map(|name| container_id(name)).collect()
}
