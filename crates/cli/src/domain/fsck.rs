//! A check of the containers that the shards of a domain share.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context, Error, Result, bail, ensure};
use onefold_cluster::{Gateway, OpenShard, Shards};
use onefold_seal::ObjectId;

use super::{Doer, Volumes};
use crate::cluster::Unavailable;
use crate::count::count;
use crate::service::answer::Answer;
use crate::service::fsck::{ShownFsck, ShownProblem};
use crate::service::peers;
use crate::service::request::Request;

/// Shards without a gateway that are taken at a time.
const AT_ONCE: usize = 16;
/// How often a shard is looked for that changes hands.
const TRIES: usize = 5;

/// Checks containers by the shards that `gateway` has open, as long as `go_on` says so.
pub(crate) fn fsck(
    gateway: &Gateway,
    open: &[Arc<OpenShard>],
    repair: bool,
    go_on: &dyn Fn() -> bool,
) -> Result<ShownFsck> {
    let checked = gateway.fsck(open, repair, go_on)?;
    ensure!(
        !checked.is_stopped,
        "the check was stopped after {}; problems found before: {}",
        count(checked.containers, "container", "containers"),
        checked.problems.len()
    );
    let told = open.iter().filter(|shard| shard.tenure().is_current());
    Ok(ShownFsck::of(&checked, repair, told.map(|shard| shard.id().to_string()).collect()))
}

impl Volumes {
    /// Checks the containers of all shards: gateways are asked for those that they have, and this process takes the
    /// others. One that cannot be opened is a problem, and keeps no other one from being checked.
    pub(crate) fn fsck(&mut self, repair: bool) -> Result<ShownFsck> {
        let mut left = self.shards()?;
        let (all, mut tries) = (left.len(), 0);
        let (mut whole, mut here) = (ShownFsck::default(), Vec::new());
        while let Some(id) = left.pop_first() {
            let answer = match self.doer(id) {
                Ok(Doer::Here(shard)) => {
                    here.push(shard);
                    if here.len() == AT_ONCE {
                        whole.join(self.fsck_here(&mut here, repair)?);
                    }
                    continue;
                }
                Ok(Doer::There(asking)) => asking.ask(&Request::Fsck { repair }),
                Ok(Doer::Far(place)) => {
                    peers::ask(&*self.reached.pool, place, &Request::Fsck { repair })
                }
                // one that was removed meanwhile
                Err(_) if !self.exists(id)? => continue,
                Err(error) if error.is::<Unavailable>() => return Err(error),
                Err(error) => {
                    whole.problems.push(self.unopened(id, &error)?);
                    continue;
                }
            };
            let answer = answer.with_context(|| self.reached.place())?.accepted()?;
            let Answer::Fsck(answer) = answer else {
                bail!("a gateway gave an unexpected answer: {answer:?}")
            };
            for shard in &answer.shards {
                left.remove(&shard.parse().context("a gateway told of a shard without an id")?);
            }
            if !answer.shards.contains(&id.to_string()) {
                tries += 1;
                ensure!(
                    tries < TRIES,
                    "shards change hands during the check: repeat it when they do not"
                );
                left.insert(id);
            }
            whole.join(answer);
            let done = all.saturating_sub(left.len());
            (self.tell)(&format!("checked {done} of {}", count(all as u64, "shard", "shards")));
        }
        if !here.is_empty() || whole.shards.is_empty() {
            whole.join(self.fsck_here(&mut here, repair)?);
        }
        Ok(whole)
    }

    /// That the shard `id` cannot be opened, so that what it uses was not compared.
    fn unopened(&self, id: ObjectId, error: &Error) -> Result<ShownProblem> {
        let names = self.volumes_by_shard()?.remove(&id).unwrap_or_default().join(", ");
        let problem = format!("shard {id} (volumes {names}) cannot be opened: {error:#}");
        Ok(ShownProblem { problem, is_leak: false, is_repaired: false })
    }

    /// Checks by the shards that this process has, and gives them back.
    fn fsck_here(&mut self, here: &mut Vec<Arc<OpenShard>>, repair: bool) -> Result<ShownFsck> {
        let own = self.own()?;
        if !here.is_empty() {
            let shards = count(here.len() as u64, "shard", "shards");
            (self.tell)(&format!("checking {shards} that no gateway has"));
        }
        let found = fsck(&own, here, repair, &|| true).with_context(|| self.reached.place())?;
        for shard in here.drain(..) {
            let id = shard.id();
            ensure!(
                found.shards.contains(&id.to_string()),
                "this command lost shard {id} during the check: its lease was not renewed in time; repeat it"
            );
            drop(shard);
            own.give_back(id)?;
        }
        Ok(found)
    }

    /// The shards that there are, without those that are being made or removed.
    pub(super) fn shards(&self) -> Result<BTreeSet<ObjectId>> {
        let all = Shards::new(&self.reached.pool).all().with_context(|| self.reached.place())?;
        Ok(all.into_iter().filter(|(_, seen)| !seen.record.is_doomed).map(|(id, _)| id).collect())
    }

    pub(super) fn exists(&self, id: ObjectId) -> Result<bool> {
        let found = Shards::new(&self.reached.pool).find(id)?;
        Ok(found.is_some_and(|seen| !seen.record.is_doomed))
    }
}
