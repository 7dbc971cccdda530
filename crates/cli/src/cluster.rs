//! Pools of volumes in clusters of Ceph.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use onefold_backend::rados::{CephLocation, CephOptions, RadosCluster, RadosPool};
use onefold_cluster::{BootClock, Claim, Lease, LeaseClock, LeaseHold};
use onefold_seal::ObjectId;

use crate::host;
use crate::own_place::own_place;

/// How to reach a cluster.
#[derive(Clone, Debug, Args)]
pub(crate) struct CephArgs {
    /// The configuration file of Ceph [default: the one that CEPH_CONF names, or /etc/ceph/ceph.conf]
    #[arg(long, value_name = "FILE")]
    ceph_conf: Option<PathBuf>,
    /// The user of Ceph, without `client.`
    #[arg(long, value_name = "ID", default_value = "admin")]
    ceph_user: String,
    /// The file with the user's key [default: the files that the configuration names]
    #[arg(long, value_name = "FILE")]
    ceph_keyring: Option<PathBuf>,
}

/// Why a pool in a cluster cannot be had.
#[derive(Debug)]
pub(crate) enum Unavailable {
    /// The namespace holds none.
    NoPool(CephLocation),
    /// The gateway of this name has it.
    Held(String),
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPool(_) => f.write_str("there is no pool of volumes"),
            Self::Held(name) => write!(f, "gateway {name} has it"),
        }
    }
}

impl std::error::Error for Unavailable {}

impl Unavailable {
    /// What to do about it.
    pub(crate) fn hint(&self) -> String {
        match self {
            Self::NoPool(location) => format!("`onefold cluster init {location}` makes one"),
            Self::Held(_) => {
                "run the command on its machine as the user who runs it, or end it; `onefold \
                              serve --standby` waits for its end"
                    .to_owned()
            }
        }
    }
}

/// A namespace of a pool of Ceph.
pub(crate) struct Reached {
    pub(crate) cluster: RadosCluster,
    pub(crate) pool: Arc<dyn RadosPool>,
    location: CephLocation,
}

/// Reads a location, for an option.
pub(crate) fn location(text: &str) -> Result<CephLocation, String> {
    CephLocation::parse(text).map_err(|error| error.to_string())
}

impl CephArgs {
    /// Connects to the cluster of `location`.
    pub(crate) fn reach(&self, location: &CephLocation) -> Result<Reached> {
        let Self { ceph_conf, ceph_user, ceph_keyring } = self.clone();
        let options = CephOptions {
            conf: ceph_conf,
            user: ceph_user,
            keyring: ceph_keyring,
            ..CephOptions::default()
        };
        let cluster = RadosCluster::connect(&options)?;
        let pool = Arc::new(cluster.pool(location.pool(), location.namespace())?);
        Ok(Reached { cluster, pool, location: location.clone() })
    }
}

impl Reached {
    /// The shard that the namespace holds.
    pub(crate) fn shard(&self) -> Result<ObjectId> {
        let found = onefold_cluster::find(&*self.pool).with_context(|| self.place())?;
        found.ok_or(Unavailable::NoPool(self.location.clone())).with_context(|| self.place())
    }

    /// Takes the lease of `shard`, which `tell` hears of when it takes a while, and renews it.
    pub(crate) fn lease(
        &self,
        shard: ObjectId,
        is_patient: bool,
        tell: impl Fn(&str),
        go_on: impl Fn() -> bool,
    ) -> Result<Lease> {
        let clock: Arc<dyn LeaseClock> = Arc::new(BootClock);
        let name = format!("{} (process {})", host::name(), std::process::id());
        let mut is_told = false;
        let claim = LeaseHold::claim(&self.pool, &clock, shard, &name, is_patient, || {
            if !std::mem::replace(&mut is_told, true) {
                tell("another gateway has the pool, or ended without giving it back: waiting");
            }
            go_on()
        });
        match claim.with_context(|| self.place())? {
            Claim::Taken(hold) => Ok(Lease::start(hold, |error| {
                tracing::warn!(%error, "the lease was not renewed");
            })),
            Claim::Held(name) => Err(Unavailable::Held(name)).with_context(|| self.place()),
            Claim::Stopped => bail!("stopped while waiting for another gateway"),
        }
    }

    pub(crate) fn place(&self) -> String {
        format!("pool '{}'", self.location)
    }
}

/// The folder for the control socket of the gateway of `shard` on this machine, which is made if it is not
/// there.
pub(crate) fn control_folder(shard: ObjectId) -> Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt;
    let state = own_place("XDG_STATE_HOME", ".local/state").map_err(|why| anyhow!(why))?;
    let folder = state.join("gateways").join(shard.to_string());
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.with_context(|| format!("cannot make '{}'", folder.display()))?;
    Ok(folder)
}
