//! Domains of volumes in clusters of Ceph.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use onefold_backend::own_place;
pub(crate) use onefold_backend::rados::CephLocation;
use onefold_backend::rados::{CephOptions, CountedRados, RadosCluster, RadosCounters, RadosPool};
use onefold_cluster::{About, Domain, GatewayRecord};
use onefold_seal::ObjectId;
use onefold_volume::VolumeError;

use crate::exit::Exit;
use crate::host;

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

/// Why volumes in a cluster cannot be had.
#[derive(Debug)]
pub(crate) enum Unavailable {
    /// The namespace holds no domain.
    NoPool(CephLocation),
    /// A gateway has the volume, and cannot be asked from here.
    Held {
        /// Its name.
        host: String,
        /// The address at which it serves clients.
        nbd: String,
    },
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPool(_) => f.write_str("there are no volumes of this program"),
            Self::Held { host, nbd } if nbd.is_empty() => write!(f, "gateway {host} has it"),
            Self::Held { host, nbd } => write!(f, "gateway {host} has it, which serves at {nbd}"),
        }
    }
}

impl std::error::Error for Unavailable {}

impl Unavailable {
    /// That the gateway of this record has something.
    pub(crate) fn held(record: Option<&GatewayRecord>) -> Self {
        let unknown = || ("of a later version".to_owned(), String::new());
        let of = |record: &GatewayRecord| (record.about.host.clone(), record.about.nbd.clone());
        let (host, nbd) = record.map_or_else(unknown, of);
        Self::Held { host, nbd }
    }

    /// How the program ends for it.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::NoPool(_) => Exit::NoRepository,
            Self::Held { .. } => Exit::Locked,
        }
    }

    /// What to do about it.
    pub(crate) fn hint(&self) -> String {
        match self {
            Self::NoPool(location) => {
                format!("`onefold cluster init {location}` prepares a namespace that never had any")
            }
            Self::Held { .. } => {
                "let this machine reach the gateway's address of --peer-listen, run the command on the \
                 gateway's machine as the user who runs the gateway, or move the volume to a gateway of \
                 this machine with `onefold volume move`"
                    .to_owned()
            }
        }
    }
}

/// A namespace of a pool of Ceph.
pub(crate) struct Reached {
    pub(crate) cluster: RadosCluster,
    pub(crate) pool: Arc<dyn RadosPool>,
    /// Counts the operations of this process.
    pub(crate) counters: Arc<RadosCounters>,
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
        let counters = Arc::<RadosCounters>::default();
        let pool = Arc::new(cluster.pool(location.pool(), location.namespace())?);
        let pool = Arc::new(CountedRados::new(pool, Arc::clone(&counters)));
        Ok(Reached { cluster, pool, counters, location: location.clone() })
    }
}

impl Reached {
    /// The domain that the namespace holds.
    pub(crate) fn domain(&self) -> Result<Domain> {
        self.existing(Domain::find(&*self.pool))
    }

    /// The domain that the namespace holds, in whichever cluster and pool it was made.
    pub(crate) fn domain_anywhere(&self) -> Result<Domain> {
        self.existing(Domain::find_anywhere(&*self.pool))
    }

    fn existing(&self, found: Result<Option<Domain>, VolumeError>) -> Result<Domain> {
        let found = found.with_context(|| self.place())?;
        found.ok_or(Unavailable::NoPool(self.location.clone())).with_context(|| self.place())
    }

    /// The pool for the containers of `domain`, if it is not that of everything else.
    pub(crate) fn data(&self, domain: &Domain) -> Result<Option<Arc<dyn RadosPool>>> {
        domain.data.as_deref().map(|name| self.data_pool(name)).transpose()
    }

    /// The namespace for containers in pool `name`.
    pub(crate) fn data_pool(&self, name: &str) -> Result<Arc<dyn RadosPool>> {
        let opened = self.cluster.pool(name, self.location.namespace());
        let opened = opened.with_context(|| format!("pool '{name}', which is for containers"))?;
        Ok(Arc::new(CountedRados::new(Arc::new(opened), Arc::clone(&self.counters))))
    }

    pub(crate) fn place(&self) -> String {
        format!("cluster '{}'", self.location)
    }
}

/// What this process tells other gateways of itself; `nbd` is where it serves, or nothing.
pub(crate) fn about(nbd: String, is_serving: bool) -> About {
    About {
        process: ObjectId::random(),
        is_serving,
        host: format!("{} (process {})", host::name(), std::process::id()),
        nbd,
        rpc: Default::default(),
    }
}

/// The folder for the control socket of the gateway process `process` of a domain on this machine.
pub(crate) fn control_folder(domain: ObjectId, process: ObjectId) -> Result<PathBuf> {
    Ok(control_folders(domain)?.join(process.to_string()))
}

/// The folder of those folders.
pub(crate) fn control_folders(domain: ObjectId) -> Result<PathBuf> {
    let state = own_place("XDG_STATE_HOME", ".local/state").map_err(|why| anyhow!(why))?;
    Ok(state.join("gateways").join(domain.to_string()))
}
