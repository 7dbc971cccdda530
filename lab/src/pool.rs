//! The pool that a trace is replayed to, and how it works.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use onefold_backend::{BackendError, Folder, LocalFolder};
use onefold_container::Codec;
use onefold_terminal::{Console, most_files, size};
use onefold_volume::{Hash, IndexLayout, Options, Pool, VolumeError};

/// How it works.
#[derive(Clone, Debug, Args)]
pub(crate) struct WorkingArgs {
    /// Memory for the table of fingerprints; pages for which it has no room are kept twice
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size::parse)]
    index_memory: usize,
    /// The layout of that table: StreamDedup's, a third of the memory and half of a fingerprint, or that
    /// with a sample of the fingerprints when it is full
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

/// How pages are compressed.
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

impl WorkingArgs {
    fn options(&self) -> Options {
        Options {
            codec: self.compression.map(Compression::codec),
            table_bytes: self.index_memory,
            index: self.index.index(),
            verify: self.verify,
            quota: self.quota.map(|bytes| bytes as u64),
            open_files: most_files() / 2,
            ..Options::default()
        }
    }

    /// Opens the pool in `folder`, which is made if it is not there, and warns of what is damaged.
    pub(crate) fn open_or_make(&self, folder: &Path, console: &Console) -> Result<Pool> {
        let place = || format!("pool '{}'", folder.display());
        let opened: Arc<dyn Folder> = Arc::new(LocalFolder::create(folder).with_context(place)?);
        match Pool::create(&opened, Hash::Blake3) {
            Ok(()) => console.notice(format_args!("made a pool in '{}'", folder.display())),
            // it may be the pool that is meant, and another process may have it
            Err(
                VolumeError::NotEmpty { .. } | VolumeError::Backend(BackendError::InUse { .. }),
            ) => {}
            Err(error) => return Err(error.into()),
        }
        let (pool, damage) = Pool::open(opened, self.options()).with_context(place)?;
        for error in damage {
            console.warn(error);
        }
        Ok(pool)
    }
}
