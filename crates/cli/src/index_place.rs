//! The cache of a repository on this machine, and its size limits: the index, and copies of remote
//! objects.

use std::path::PathBuf;

use anyhow::Error;
use clap::Args;
use onefold_backend::own_place;
use onefold_index::Memory;
use onefold_seal::ObjectId;
use onefold_store::{IndexPlace, ObjectCache};

use crate::console::Console;
use crate::size;

/// The cache folder of all repositories.
#[derive(Debug, Args)]
pub(crate) struct CacheArgs {
    /// Keep indexes and copies of objects in S3 below DIR, which may be deleted at any time [default:
    /// $XDG_CACHE_HOME/onefold or ~/.cache/onefold]
    #[arg(long, value_name = "DIR", env = "ONEFOLD_CACHE_DIR")]
    cache_dir: Option<PathBuf>,
}

impl CacheArgs {
    /// The directory, which has a subdirectory for each repository; or why there is none.
    pub(crate) fn directory(&self) -> Result<PathBuf, String> {
        let named = self.cache_dir.clone().map(Ok);
        named.unwrap_or_else(|| own_place("XDG_CACHE_HOME", ".cache"))
    }
}

/// Options for the cache of a repository.
#[derive(Debug, Args)]
pub(crate) struct IndexArgs {
    #[command(flatten)]
    cache: CacheArgs,
    /// Keep no cache: rebuild the index each time, in about 50 bytes of memory per chunk, and fetch
    /// objects in S3 each time
    #[arg(long, conflicts_with = "cache_dir")]
    no_cache: bool,
    /// Disk space for copies of objects in S3, for all repositories together [default: 1 GiB]
    #[arg(long, value_name = "SIZE", value_parser = size::parse, conflicts_with = "no_cache")]
    cache_size: Option<usize>,
    /// Memory for the index, for any number of chunks [default: 24 MiB]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    index_memory: Option<usize>,
}

/// Default limit of the bytes of copies.
const CACHE_SIZE: u64 = 1 << 30;

impl IndexArgs {
    /// The cache for copies of objects of the remote `repository`; none if the user wants none or it
    /// cannot be opened.
    pub(crate) fn copies(&self, repository: ObjectId, console: &Console) -> Option<ObjectCache> {
        if self.no_cache {
            return None;
        }
        // That there is no such directory is said where the index is to be kept.
        let directory = self.cache.directory().ok()?;
        let size = self.cache_size.map_or(CACHE_SIZE, |size| size as u64);
        match ObjectCache::open(&directory, repository, size) {
            Ok(cache) => Some(cache),
            Err(error) => {
                console.warn(format_args!(
                    "{:#}; no copies of fetched objects are kept",
                    Error::new(error)
                ));
                None
            }
        }
    }

    /// Where the index of a repository is to be kept.
    pub(crate) fn place(&self, console: &Console) -> IndexPlace {
        if self.no_cache {
            return IndexPlace::Memory;
        }
        let memory = self.index_memory.map_or(Memory::DEFAULT, Memory::new);
        match self.cache.directory() {
            Ok(directory) => IndexPlace::Directory(directory, memory),
            Err(why) => {
                console.warn(format_args!(
                    "the index is kept in memory: {why}; --cache-dir names another place"
                ));
                IndexPlace::Memory
            }
        }
    }
}
