//! What a command keeps of its repository on this machine, and how much room that may take: the index,
//! and copies of what lies far away.

use std::path::PathBuf;

use anyhow::Error;
use clap::Args;
use onefold_index::Memory;
use onefold_seal::ObjectId;
use onefold_store::{IndexPlace, ObjectCache};

use crate::console::Console;
use crate::own_place::own_place;
use crate::size;

/// Where what is kept of all repositories lies.
#[derive(Debug, Args)]
pub(crate) struct CacheArgs {
    /// Keep indexes of repositories, and copies of what lies in S3, below DIR, which may be deleted at
    /// any time; else below $XDG_CACHE_HOME/onefold or ~/.cache/onefold
    #[arg(long, value_name = "DIR", env = "ONEFOLD_CACHE_DIR")]
    cache_dir: Option<PathBuf>,
}

impl CacheArgs {
    /// The directory, with one for each repository in it; or why there is none.
    pub(crate) fn directory(&self) -> Result<PathBuf, String> {
        let named = self.cache_dir.clone().map(Ok);
        named.unwrap_or_else(|| own_place("XDG_CACHE_HOME", ".cache"))
    }
}

/// What of a repository is kept, and where.
#[derive(Debug, Args)]
pub(crate) struct IndexArgs {
    #[command(flatten)]
    cache: CacheArgs,
    /// Keep nothing: the index is learnt anew each time, and takes about 50 bytes of memory a chunk;
    /// what lies in S3 is fetched each time
    #[arg(long, conflicts_with = "cache_dir")]
    no_cache: bool,
    /// Room for copies of what lies in S3, of all repositories together [default: 1 GiB]
    #[arg(long, value_name = "SIZE", value_parser = size::parse, conflicts_with = "no_cache")]
    cache_size: Option<usize>,
    /// Memory for the index, however many chunks there are [default: 24 MiB]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    index_memory: Option<usize>,
}

/// Bytes of copies that are kept at most, unless the user says otherwise.
const CACHE_SIZE: u64 = 1 << 30;

impl IndexArgs {
    /// Where copies of what lies far away in `repository` are kept; nothing if they are not to be, or
    /// cannot be.
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
                    "{:#}; no copies are kept of what is fetched",
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
