//! What a namespace of Ceph holds, and the upkeep that gives space back, done by this process while no gateway
//! runs.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use onefold_backend::rados::{CephLocation, CephOptions, Query, RadosCluster, RadosPool};
use onefold_cluster::containers::WASTE;
use onefold_cluster::hints::{Hint, Hints};
use onefold_cluster::{Shards, SharedShard, open_shard};
use onefold_fingerprint::Fingerprint;
use onefold_testkit::ceph::Gateways;
use onefold_volume::Options;
use serde::{Deserialize, Serialize};

/// A namespace, as this process reaches it.
pub(super) struct Space {
    // the pool needs the connection
    pool: Arc<dyn RadosPool>,
    _cluster: RadosCluster,
}

/// Objects of containers and their guards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Held {
    /// Objects with pages.
    pub(super) containers: u64,
    /// Bytes of these, copies not counted.
    pub(super) container_bytes: u64,
    /// Objects that say who uses a container.
    pub(super) guards: u64,
}

impl Space {
    pub(super) fn of(gateways: &Gateways) -> Result<Self> {
        let location = CephLocation::parse(&gateways.location())?;
        let options = CephOptions { conf: Some(gateways.ceph().conf()), ..CephOptions::default() };
        let cluster = RadosCluster::connect(&options)?;
        let pool = cluster.pool(location.pool(), location.namespace())?;
        Ok(Self { pool: Arc::new(pool), _cluster: cluster })
    }

    /// How many objects there are of each kind, the part of a name that follows the id.
    pub(super) fn kinds(&self) -> Result<BTreeMap<String, u64>> {
        let mut kinds = BTreeMap::new();
        for name in self.names()? {
            let kind = name.split('.').nth(1).unwrap_or(&name).to_owned();
            *kinds.entry(kind).or_default() += 1;
        }
        Ok(kinds)
    }

    fn names(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        self.pool.list(&mut |name| {
            names.push(name.to_owned());
            ControlFlow::Continue(())
        })?;
        Ok(names)
    }

    /// Containers and guards that there are now.
    pub(super) fn held(&self) -> Result<Held> {
        let mut held = Held::default();
        for name in self.names()? {
            match name.split('.').nth(1) {
                Some("container") => {
                    held.containers += 1;
                    let answer = self.pool.query(&name, &Query::default());
                    held.container_bytes += answer.with_context(|| name.clone())?.length;
                }
                Some("guard") => held.guards += 1,
                _ => {}
            }
        }
        Ok(held)
    }

    /// Does what gateways do now and then: each shard sweeps, sparse containers are closed, and each shard empties
    /// what is closing; twice, since what one writes anew another one may use.
    pub(super) fn keep_up(&self) -> Result<()> {
        let shards = self.open_all()?;
        for shard in &shards {
            shard.maintain().context("the upkeep of a shard")?;
        }
        for _ in 0..2 {
            if let Some(shard) = shards.first() {
                shard.close_sparse(WASTE).context("sparse containers are closed")?;
            }
            for shard in &shards {
                shard.maintain().context("the upkeep of a shard")?;
            }
        }
        for shard in &shards {
            shard.pool().checkpoint().context("the checkpoint of a shard")?;
        }
        Ok(())
    }

    /// Opens all shards. What one of them stores the others find.
    fn open_all(&self) -> Result<Vec<SharedShard>> {
        let all = Shards::new(&self.pool).all()?;
        let hints: Arc<dyn Hints> = Arc::new(Told::default());
        let open = |id| -> Result<SharedShard> {
            let options = Options::default();
            let (shard, damage) =
                open_shard(&self.pool, &self.pool, id, Arc::clone(&hints), options)?;
            anyhow::ensure!(damage.is_empty(), "shard {id} is damaged: {damage:?}");
            Ok(shard)
        };
        all.into_iter().map(|(id, _)| open(id).with_context(|| format!("shard {id}"))).collect()
    }
}

/// The pages that shards of this process told of.
#[derive(Default)]
struct Told(Mutex<HashMap<Fingerprint, Hint>>);

impl Told {
    fn pages(&self) -> MutexGuard<'_, HashMap<Fingerprint, Hint>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hints for Told {
    fn find(&self, fingerprints: &[Fingerprint]) -> Vec<Option<Hint>> {
        let pages = self.pages();
        fingerprints.iter().map(|fingerprint| pages.get(fingerprint).copied()).collect()
    }

    fn add(&self, pages: &[(Fingerprint, Hint)]) {
        self.pages().extend(pages.iter().copied());
    }
}
