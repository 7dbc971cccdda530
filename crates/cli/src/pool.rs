//! Opening a pool of volumes, and the options for its operation.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::{Args, Command, ValueEnum};
use onefold_backend::{BackendError, Folder, LocalFolder};
use onefold_terminal::most_files;
use onefold_volume::{Hash, IndexLayout, Options, Pool, Repaired, Upgraded, VolumeError};

use crate::cluster::{self, CephArgs, CephLocation};
use crate::console::Console;
use crate::domain::Volumes;
use crate::service::answer::Answer;
use crate::service::control::Asking;
use crate::service::request::{Compression, NotServed, Request};
use crate::size;

/// The environment variable that names the folder of the pool.
const VARIABLE: &str = "ONEFOLD_POOL";

/// The options that name the pool.
#[derive(Clone, Debug, Args)]
pub(crate) struct PoolArgs {
    /// The folder of the pool
    #[arg(long, value_name = "DIR", env = VARIABLE, required_unless_present = "cluster")]
    pool: Option<PathBuf>,
    /// The volumes of a cluster of Ceph instead, which `onefold cluster init` prepared: ceph:POOL or
    /// ceph:POOL/NAMESPACE
    #[arg(long, value_name = "LOCATION", value_parser = cluster::location)]
    #[arg(hide = cfg!(not(feature = "cluster")))]
    cluster: Option<CephLocation>,
    #[command(flatten)]
    ceph: CephArgs,
    #[command(flatten)]
    pub(crate) working: WorkingArgs,
}

/// A pool that this process has.
pub(crate) struct OpenPool {
    pub(crate) pool: Pool,
    /// The cluster of the pool, if it is in one. Its shard is given back when this is dropped.
    _cluster: Option<Box<Volumes>>,
}

/// Where a pool is.
enum Where<'a> {
    Folder(&'a Path),
    Cluster(&'a CephLocation),
}

/// Options for the operation of a pool.
#[derive(Clone, Debug, Args)]
pub(crate) struct WorkingArgs {
    /// Memory for all that grows with the pool: the table of fingerprints, maps and tables of pages; what
    /// does not fit stays on disk. Pools of format 1 keep their maps in memory beyond it: see
    /// `onefold volume upgrade`
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "1GiB")]
    memory: usize,
    /// Memory for the table of fingerprints, which `serve` allocates at its start; duplicates of pages that
    /// do not fit in the table are stored again, unless they are found with `--index hooks`
    /// [default: a quarter of --memory]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    index_memory: Option<usize>,
    /// The layout of the table: StreamDedup's (paper), one with half of each fingerprint in a third of the
    /// memory (compact), or the same with a sample of the fingerprints when it is full, whose neighbours
    /// are looked up in containers (hooks) [default: paper]
    #[arg(long, value_name = "LAYOUT")]
    index: Option<Layout>,
    /// The compression of new pages [default: as set for the pool, zstd for a new one]
    #[arg(long, value_name = "HOW")]
    compression: Option<Compression>,
    /// Compare the bytes of a page with the stored page before treating it as a duplicate
    #[arg(long)]
    verify: bool,
    /// Maximum size of the pool's containers; new pages beyond it are refused, as on a full disk
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    quota: Option<usize>,
}

/// What a server takes that serves an empty pool, requests included.
const PROGRAM_BYTES: usize = 40 << 20;

/// A layout of the table.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Layout {
    Paper,
    Compact,
    Hooks,
}

impl Layout {
    fn index(self) -> IndexLayout {
        match self {
            Self::Paper => IndexLayout::Chained,
            Self::Compact => IndexLayout::Compact,
            Self::Hooks => IndexLayout::Hooks,
        }
    }
}

impl WorkingArgs {
    fn table_bytes(&self) -> usize {
        self.index_memory.unwrap_or(self.memory / 4)
    }

    /// Two thirds of what the table of fingerprints and the program itself leave: the rest is for what
    /// a node takes besides its numbers, and for records that wait. At least a sixteenth of the memory.
    fn node_bytes(&self) -> u64 {
        let rest = self.memory.saturating_sub(self.table_bytes()).saturating_sub(PROGRAM_BYTES);
        (rest / 3 * 2).max(self.memory / 16) as u64
    }

    fn options(&self) -> Options {
        Options {
            codec: self.compression.map(Compression::codec),
            table_bytes: self.table_bytes(),
            node_bytes: self.node_bytes(),
            fills_later: true,
            index: self.index.map_or_else(IndexLayout::default, Layout::index),
            verify: self.verify,
            quota: self.quota.map(|bytes| bytes as u64),
            open_files: most_files() / 2,
            ..Options::default()
        }
    }
}

impl WorkingArgs {
    /// `command`, which accepts all of these options, with a help that shows only those in `shown`.
    pub(crate) fn showing(command: Command, shown: &[&str]) -> Command {
        let own = Self::augment_args(Command::new("own"));
        let hidden = own.get_arguments().map(|one| one.get_id().clone());
        let hidden = hidden.filter(|id| !shown.contains(&id.as_str()));
        hidden.fold(command, |command, id| command.mut_arg(id, |one| one.hide(true)))
    }

    /// The options that were given but that `request` does not pass on to a server.
    fn unheard(&self, request: &Request) -> Vec<&'static str> {
        // the pool is held against it
        let passes_compression = matches!(request, Request::Create { .. });
        let all = [
            (self.index_memory.is_some(), "--index-memory"),
            (self.index.is_some(), "--index"),
            (self.compression.is_some() && !passes_compression, "--compression"),
            (self.verify, "--verify"),
            (self.quota.is_some(), "--quota"),
        ];
        all.into_iter().filter(|(is_given, _)| *is_given).map(|(_, name)| name).collect()
    }
}

/// The process that executes requests on a pool.
pub(crate) enum Doer<'a> {
    /// This process, which has opened the pool.
    Here(OpenPool),
    /// Gateways of a cluster, or this process.
    Cluster(Box<Volumes>),
    /// Another process, which may serve the pool.
    Server {
        place: &'a PoolArgs,
        /// The folder of its socket.
        control: PathBuf,
        /// Why this process could not open the pool; none if it is known to be served.
        in_use: Option<anyhow::Error>,
    },
}

impl Doer<'_> {
    /// Executes `request`.
    pub(crate) fn ask(&mut self, request: Request) -> Result<Answer> {
        let (place, control, in_use) = match self {
            Self::Here(open) => return request.perform(&open.pool, &NotServed),
            Self::Cluster(volumes) => return volumes.ask(request),
            Self::Server { place, control, in_use } => (place, control, in_use),
        };
        let Some(server) = Asking::connect(control).with_context(|| place.place())? else {
            let ended = || anyhow!("it is no longer served").context(place.place());
            return Err(in_use.take().unwrap_or_else(ended));
        };
        // what follows the first request hears as much
        if in_use.take().is_some() {
            let unheard = place.working.unheard(&request);
            ensure!(
                unheard.is_empty(),
                "{} is served by an `onefold serve` that is running, and {} has no effect on it: \
                 omit it here, and give it to `onefold serve` at its next start",
                place.place(),
                unheard.join(", ")
            );
        }
        server.ask(&request).with_context(|| place.place())?.accepted()
    }

    /// Executes a request about all volumes. In a cluster others may have answered where a part of them failed: whether
    /// none did comes with the answer.
    pub(crate) fn ask_all(&mut self, request: Request) -> Result<(Answer, Result<()>)> {
        match self {
            Self::Cluster(volumes) => volumes.ask_all(request),
            Self::Here(_) | Self::Server { .. } => Ok((self.ask(request)?, Ok(()))),
        }
    }
}

/// Warns of damage in a pool.
fn warning(console: &Console) -> impl Fn(VolumeError) {
    move |error| {
        console.warn(match error {
            VolumeError::UnreadRecord { .. } => error.to_string(),
            error => format!("pages are lost, and the blocks that map to them: {error}"),
        });
    }
}

impl PoolArgs {
    /// The compression of new pages, if it was given.
    pub(crate) fn compression(&self) -> Option<Compression> {
        self.working.compression
    }

    fn at(&self) -> Result<Where<'_>> {
        match (&self.pool, &self.cluster) {
            (Some(pool), None) => Ok(Where::Folder(pool)),
            (None, Some(location)) => Ok(Where::Cluster(location)),
            // the environment names the pool of those who name none
            (Some(pool), Some(location))
                if env::var_os(VARIABLE).is_some_and(|set| set == *pool) =>
            {
                Ok(Where::Cluster(location))
            }
            (Some(_), Some(_)) => bail!("--pool and --cluster exclude each other"),
            (None, None) => bail!("--pool or --cluster must name the pool"),
        }
    }

    /// The folder of the pool, for a command that knows pools in folders only.
    fn own_folder(&self, doing: &str) -> Result<&Path> {
        match self.at()? {
            Where::Folder(pool) => Ok(pool),
            Where::Cluster(location) => {
                bail!("pool '{location}' is in a cluster: this version cannot {doing} there")
            }
        }
    }

    /// Executes `request`: by the server of the pool, or by this process if the pool is not in use. A
    /// request that only reads writes nothing to a pool in a folder, which may be a backup or on a read-only
    /// file system.
    pub(crate) fn ask(&self, request: Request, console: &Console) -> Result<Answer> {
        self.doer_for(&request, console)?.ask(request)
    }

    /// The same with a request about all volumes, as [`Doer::ask_all`].
    pub(crate) fn ask_all(
        &self,
        request: Request,
        console: &Console,
    ) -> Result<(Answer, Result<()>)> {
        self.doer_for(&request, console)?.ask_all(request)
    }

    fn doer_for(&self, request: &Request, console: &Console) -> Result<Doer<'_>> {
        match (self.at()?, request.only_reads()) {
            (Where::Folder(pool), true) => {
                self.doer_of(pool, self.open_read_only(warning(console)))
            }
            _ => self.doer(console),
        }
    }

    /// The process that executes requests on the pool.
    pub(crate) fn doer(&self, console: &Console) -> Result<Doer<'_>> {
        let location = match self.at()? {
            Where::Folder(pool) => return self.doer_of(pool, self.open_in(console)),
            Where::Cluster(location) => location,
        };
        Ok(Doer::Cluster(Box::new(self.volumes(location, console)?)))
    }

    /// The volumes of a cluster.
    fn volumes(&self, location: &CephLocation, console: &Console) -> Result<Volumes> {
        let (reached, console) = (self.ceph.reach(location)?, console.clone());
        Volumes::new(reached, self.working.options(), move |what| console.notice(what))
    }

    /// The volumes of the cluster, for a command that only clusters have.
    #[cfg(feature = "cluster")]
    pub(crate) fn cluster_volumes(&self, console: &Console) -> Result<Volumes> {
        match self.at()? {
            Where::Cluster(location) => self.volumes(location, console),
            Where::Folder(pool) => bail!(
                "the pool '{}' is in a folder: volumes move between gateways of a cluster, which --cluster \
                 names",
                pool.display()
            ),
        }
    }

    /// This process if it `opened` the pool in the folder `pool`, else the process that uses it.
    fn doer_of(&self, pool: &Path, opened: Result<OpenPool>) -> Result<Doer<'_>> {
        let error = match opened {
            Ok(pool) => return Ok(Doer::Here(pool)),
            Err(error) => error,
        };
        match error.downcast_ref() {
            Some(VolumeError::Backend(BackendError::InUse { .. })) => {
                let control = pool.to_owned();
                Ok(Doer::Server { place: self, control, in_use: Some(error) })
            }
            _ => Err(error),
        }
    }

    /// Makes the pool, unless there is one already. One in a cluster is made by `onefold cluster init`.
    pub(crate) fn make(&self, hash: Hash, console: &Console) -> Result<()> {
        let Where::Folder(pool) = self.at()? else { return Ok(()) };
        let folder = LocalFolder::create(pool).with_context(|| self.place())?;
        let codec = self.compression().unwrap_or(Compression::Zstd).codec();
        match Pool::create_with(&folder, hash, codec) {
            Ok(()) => console.notice(format_args!("made a pool in '{}'", pool.display())),
            // it may be this pool, and it may be served
            Err(
                VolumeError::NotEmpty { .. } | VolumeError::Backend(BackendError::InUse { .. }),
            ) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn folder(&self, doing: &str) -> Result<Arc<dyn Folder>> {
        let pool = self.own_folder(doing)?;
        if !pool.is_dir() {
            return Err(VolumeError::NoPool).with_context(|| self.place());
        }
        Ok(Arc::new(LocalFolder::create(pool).with_context(|| self.place())?))
    }

    /// Repairs a damaged pool that is not served, or what no gateway serves of one in a cluster.
    pub(crate) fn repair(&self, console: &Console) -> Result<Repaired> {
        if let Where::Cluster(location) = self.at()? {
            return self.volumes(location, console)?.repair(|what| console.warn(what));
        }
        Pool::repair_with(&self.folder("repair a pool")?, self.working.options())
            .with_context(|| self.place())
    }

    /// Upgrades a pool that is not served. The versions of its format before and after.
    pub(crate) fn upgrade(&self, console: &Console) -> Result<(u32, u32)> {
        let upgraded = Pool::upgrade(&self.folder("upgrade a pool")?, self.working.options());
        let Upgraded { before, now, warning: found } = upgraded.with_context(|| self.place())?;
        found.into_iter().for_each(warning(console));
        Ok((before.code(), now.code()))
    }

    /// Opens the pool, which is in a folder, and warns of damage.
    pub(crate) fn open_in(&self, console: &Console) -> Result<OpenPool> {
        self.open_telling(warning(console))
    }

    /// Opens the pool of the volume `name` without writing to it, and warns of damage. One in a cluster is
    /// opened as if to write.
    pub(crate) fn open_to_read(&self, name: &str, console: &Console) -> Result<OpenPool> {
        match self.at()? {
            Where::Folder(_) => self.open_read_only(warning(console)),
            Where::Cluster(location) => {
                let mut volumes = self.volumes(location, console)?;
                let pool = volumes.open(name)?.pool().clone();
                Ok(OpenPool { pool, _cluster: Some(Box::new(volumes)) })
            }
        }
    }

    /// The volumes of the cluster, if the pool is in one.
    pub(crate) fn in_cluster(&self, console: &Console) -> Result<Option<Volumes>> {
        match self.at()? {
            Where::Folder(_) => Ok(None),
            Where::Cluster(location) => self.volumes(location, console).map(Some),
        }
    }

    /// Opens the pool, which is in a folder, without writing to it, and calls `tell` for each damage.
    pub(crate) fn open_read_only(&self, tell: impl Fn(VolumeError)) -> Result<OpenPool> {
        let pool = self.own_folder("open a pool read-only")?;
        if !pool.is_dir() {
            return Err(VolumeError::NoPool).with_context(|| self.place());
        }
        let opened = Pool::open_read_only(pool, self.working.options());
        let (pool, damage) = opened.with_context(|| self.place())?;
        damage.into_iter().for_each(tell);
        Ok(OpenPool { pool, _cluster: None })
    }

    /// Opens the pool, which is in a folder, and calls `tell` for each damage.
    pub(crate) fn open_telling(&self, tell: impl Fn(VolumeError)) -> Result<OpenPool> {
        let (folder, options) = (self.folder("open one as a folder")?, self.working.options());
        let (pool, damage) = Pool::open(folder, options).with_context(|| self.place())?;
        damage.into_iter().for_each(tell);
        Ok(OpenPool { pool, _cluster: None })
    }

    /// The cluster of the pool, unless it is in a folder.
    #[cfg(feature = "cluster")]
    pub(crate) fn reach(&self) -> Result<Option<cluster::Reached>> {
        match self.at()? {
            Where::Folder(_) => Ok(None),
            Where::Cluster(location) => self.ceph.reach(location).map(Some),
        }
    }

    /// The folder of the control socket of a pool in a folder.
    pub(crate) fn control(&self) -> Result<PathBuf> {
        self.own_folder("listen for requests").map(Path::to_owned)
    }

    /// How shards are opened.
    #[cfg(feature = "cluster")]
    pub(crate) fn options(&self) -> Options {
        self.working.options()
    }

    fn place(&self) -> String {
        match (&self.pool, &self.cluster) {
            (_, Some(location)) => format!("pool '{location}'"),
            (pool, None) => {
                format!("pool '{}'", pool.as_deref().unwrap_or(Path::new("")).display())
            }
        }
    }
}
