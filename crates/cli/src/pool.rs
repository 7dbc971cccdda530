//! Opening a pool of volumes, and the options for its operation.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use clap::{Args, Command, ValueEnum};
use onefold_backend::{BackendError, Folder, LocalFolder};
use onefold_terminal::most_files;
use onefold_volume::{IndexLayout, Options, Pool, Repaired, Upgraded, VolumeError};

use crate::console::Console;
use crate::service::control::Asking;
use crate::service::request::{Answer, Compression, NotServed, Request};
use crate::size;

/// The option that names the pool.
#[derive(Clone, Debug, Args)]
pub(crate) struct PoolArgs {
    /// The folder of the pool
    #[arg(long, value_name = "DIR", env = "ONEFOLD_POOL")]
    pub(crate) pool: PathBuf,
    #[command(flatten)]
    pub(crate) working: WorkingArgs,
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
    Here(Pool),
    /// Another process, which may serve the pool.
    Server {
        place: &'a PoolArgs,
        /// Why this process could not open the pool; none if it is known to be served.
        in_use: Option<anyhow::Error>,
    },
}

impl Doer<'_> {
    /// Executes `request`.
    pub(crate) fn ask(&mut self, request: Request) -> Result<Answer> {
        let (place, in_use) = match self {
            Self::Here(pool) => return request.perform(pool, &NotServed),
            Self::Server { place, in_use } => (place, in_use),
        };
        let Some(server) = Asking::connect(&place.pool).with_context(|| place.place())? else {
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

    /// Executes `request`: by the server of the pool, or by this process if the pool is not in use. A
    /// request that only reads writes nothing to the pool, which may be a backup or on a read-only file
    /// system.
    pub(crate) fn ask(&self, request: Request, console: &Console) -> Result<Answer> {
        let mut doer = match request.only_reads() {
            true => self.doer_of(self.open_to_read(console))?,
            false => self.doer(self.folder(false)?, console)?,
        };
        doer.ask(request)
    }

    /// The process that executes requests on the pool in `folder`.
    pub(crate) fn doer(&self, folder: Arc<dyn Folder>, console: &Console) -> Result<Doer<'_>> {
        self.doer_of(self.open_in(folder, console))
    }

    /// This process if it `opened` the pool, else the process that uses it.
    fn doer_of(&self, opened: Result<Pool>) -> Result<Doer<'_>> {
        let error = match opened {
            Ok(pool) => return Ok(Doer::Here(pool)),
            Err(error) => error,
        };
        match error.downcast_ref() {
            Some(VolumeError::Backend(BackendError::InUse { .. })) => {
                Ok(Doer::Server { place: self, in_use: Some(error) })
            }
            _ => Err(error),
        }
    }

    /// The folder, which is created if `is_made`.
    pub(crate) fn folder(&self, is_made: bool) -> Result<Arc<dyn Folder>> {
        if !is_made && !self.pool.is_dir() {
            return Err(VolumeError::NoPool).with_context(|| self.place());
        }
        Ok(Arc::new(LocalFolder::create(&self.pool).with_context(|| self.place())?))
    }

    /// Repairs a damaged pool that is not served.
    pub(crate) fn repair(&self) -> Result<Repaired> {
        Pool::repair(&self.folder(false)?).with_context(|| self.place())
    }

    /// Upgrades a pool that is not served. The versions of its format before and after.
    pub(crate) fn upgrade(&self, console: &Console) -> Result<(u32, u32)> {
        let upgraded = Pool::upgrade(&self.folder(false)?, self.working.options());
        let Upgraded { before, now, warning: found } = upgraded.with_context(|| self.place())?;
        found.into_iter().for_each(warning(console));
        Ok((before.code(), now.code()))
    }

    /// Opens the pool in `folder`, and warns of damage.
    pub(crate) fn open_in(&self, folder: Arc<dyn Folder>, console: &Console) -> Result<Pool> {
        self.open_folder(folder, warning(console))
    }

    /// Opens the pool without writing to it, and warns of damage.
    pub(crate) fn open_to_read(&self, console: &Console) -> Result<Pool> {
        self.open_read_only(warning(console))
    }

    /// Opens the pool without writing to it, and calls `tell` for each damage.
    pub(crate) fn open_read_only(&self, tell: impl Fn(VolumeError)) -> Result<Pool> {
        if !self.pool.is_dir() {
            return Err(VolumeError::NoPool).with_context(|| self.place());
        }
        let opened = Pool::open_read_only(&self.pool, self.working.options());
        let (pool, damage) = opened.with_context(|| self.place())?;
        damage.into_iter().for_each(tell);
        Ok(pool)
    }

    /// Opens the pool, and calls `tell` for each damage.
    pub(crate) fn open_telling(&self, tell: impl Fn(VolumeError)) -> Result<Pool> {
        self.open_folder(self.folder(false)?, tell)
    }

    fn open_folder(&self, folder: Arc<dyn Folder>, tell: impl Fn(VolumeError)) -> Result<Pool> {
        let options = self.working.options();
        let (pool, damage) = Pool::open(folder, options).with_context(|| self.place())?;
        damage.into_iter().for_each(tell);
        Ok(pool)
    }

    fn place(&self) -> String {
        format!("pool '{}'", self.pool.display())
    }
}
