//! Opening a pool of volumes, and what can be told on the command line of how it works.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use onefold_backend::{BackendError, Folder, LocalFolder};
use onefold_volume::{Options, Pool, VolumeError};

use crate::console::Console;
use crate::service::control;
use crate::service::request::{Answer, Compression, NotServed, Request};
use crate::size;

/// Which pool.
#[derive(Clone, Debug, Args)]
pub(crate) struct PoolArgs {
    /// The folder of the pool
    #[arg(long, value_name = "DIR", env = "ONEFOLD_POOL")]
    pub(crate) pool: PathBuf,
    #[command(flatten)]
    pub(crate) working: WorkingArgs,
}

/// How it works.
#[derive(Clone, Debug, Args)]
pub(crate) struct WorkingArgs {
    /// Memory for the table of fingerprints; pages for which it has no room are kept twice
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "256MiB")]
    index_memory: usize,
    /// The layout of that table: StreamDedup's, or a third of the memory and half of a fingerprint
    #[arg(long, value_name = "LAYOUT", default_value = "paper")]
    index: Layout,
    /// How new pages are compressed [default: as the pool was made to, zstd for a new one]
    #[arg(long, value_name = "HOW")]
    compression: Option<Compression>,
    /// Compare a page with the kept one before it is taken for known
    #[arg(long)]
    verify: bool,
    /// Bytes that the pool's containers may take: new pages beyond them are refused, as on a full disk
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    quota: Option<usize>,
}

/// A layout of the table.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Layout {
    Paper,
    Compact,
}

impl WorkingArgs {
    fn options(&self) -> Options {
        Options {
            codec: self.compression.map(Compression::codec),
            table_bytes: self.index_memory,
            is_compact: matches!(self.index, Layout::Compact),
            verify: self.verify,
            quota: self.quota.map(|bytes| bytes as u64),
            ..Options::default()
        }
    }
}

impl PoolArgs {
    /// How new pages are to be compressed, if that was said.
    pub(crate) fn compression(&self) -> Option<Compression> {
        self.working.compression
    }

    /// Has `request` done: by whoever serves the pool, or here if nobody has it.
    pub(crate) fn ask(&self, request: Request, console: &Console) -> Result<Answer> {
        self.ask_in(self.folder(false)?, request, console)
    }

    /// The same in a folder that is open already.
    pub(crate) fn ask_in(
        &self,
        folder: Arc<dyn Folder>,
        request: Request,
        console: &Console,
    ) -> Result<Answer> {
        let in_use = match self.open_in(folder, console) {
            Ok(pool) => return request.perform(&pool, &NotServed),
            Err(error) => error,
        };
        match in_use.downcast_ref() {
            Some(VolumeError::Backend(BackendError::InUse { .. })) => {}
            _ => return Err(in_use),
        }
        match control::ask(&self.pool, &request).with_context(|| self.place())? {
            Some(answer) => answer.accepted(),
            None => Err(in_use),
        }
    }

    /// The folder, which is made if that is wanted.
    pub(crate) fn folder(&self, is_made: bool) -> Result<Arc<dyn Folder>> {
        if !is_made && !self.pool.is_dir() {
            return Err(VolumeError::NoPool).with_context(|| self.place());
        }
        Ok(Arc::new(LocalFolder::create(&self.pool).with_context(|| self.place())?))
    }

    /// Opens the pool in a folder that is open already, and warns of what is damaged in it.
    pub(crate) fn open_in(&self, folder: Arc<dyn Folder>, console: &Console) -> Result<Pool> {
        self.open_folder(folder, |error| {
            console.warn(format_args!("pages are lost, and blocks that are one of them: {error}"));
        })
    }

    /// Opens the pool, and tells of what is damaged in it.
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
