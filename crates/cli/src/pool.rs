//! Opening a pool of volumes, and what can be told on the command line of how it works.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use onefold_backend::{Folder, LocalFolder};
use onefold_volume::{Codec, Options, Pool, VolumeError};

use crate::console::Console;
use crate::size;

/// Which pool.
#[derive(Clone, Debug, Args)]
pub(crate) struct PoolArgs {
    /// The folder of the pool
    #[arg(long, value_name = "DIR", env = "ONEFOLD_POOL")]
    pub(crate) pool: PathBuf,
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
}

/// A layout of the table.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Layout {
    Paper,
    Compact,
}

/// How new pages are compressed.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Compression {
    Zstd,
    Lz4,
    Gzip,
    None,
}

impl Compression {
    fn codec(self) -> Codec {
        match self {
            Self::Zstd => Codec::Zstd,
            Self::Lz4 => Codec::Lz4,
            Self::Gzip => Codec::Deflate,
            Self::None => Codec::Raw,
        }
    }
}

impl PoolArgs {
    fn options(&self) -> Options {
        Options {
            codec: self.codec(),
            table_bytes: self.index_memory,
            is_compact: matches!(self.index, Layout::Compact),
            verify: self.verify,
            ..Options::default()
        }
    }

    /// How new pages are to be compressed, if that was said.
    pub(crate) fn codec(&self) -> Option<Codec> {
        self.compression.map(Compression::codec)
    }

    /// The folder, which is made if that is wanted.
    pub(crate) fn folder(&self, is_made: bool) -> Result<Arc<dyn Folder>> {
        if !is_made && !self.pool.is_dir() {
            return Err(VolumeError::NoPool).with_context(|| self.place());
        }
        Ok(Arc::new(LocalFolder::create(&self.pool).with_context(|| self.place())?))
    }

    /// Opens the pool, and warns of what is damaged in it.
    pub(crate) fn open(&self, console: &Console) -> Result<Pool> {
        self.open_in(self.folder(false)?, console)
    }

    /// The same in a folder that is open already.
    pub(crate) fn open_in(&self, folder: Arc<dyn Folder>, console: &Console) -> Result<Pool> {
        let (pool, damage) = Pool::open(folder, self.options()).with_context(|| self.place())?;
        for error in damage {
            console.warn(format_args!("pages are lost, and blocks that are one of them: {error}"));
        }
        Ok(pool)
    }

    fn place(&self) -> String {
        format!("pool '{}'", self.pool.display())
    }
}
