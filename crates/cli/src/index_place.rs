//! Where a command keeps the index of its repository, and how much memory that may take.

use std::path::PathBuf;

use clap::Args;
use onefold_index::Memory;
use onefold_store::IndexPlace;

use crate::console::Console;
use crate::own_place::own_place;
use crate::size;

/// Where the indexes of all repositories are kept.
#[derive(Debug, Args)]
pub(crate) struct CacheArgs {
    /// Keep indexes of repositories below DIR, which may be deleted at any time; else below
    /// $XDG_CACHE_HOME/onefold or ~/.cache/onefold
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

/// Where the index of a repository is kept.
#[derive(Debug, Args)]
pub(crate) struct IndexArgs {
    #[command(flatten)]
    cache: CacheArgs,
    /// Keep nothing: the index is learnt anew each time, and takes about 50 bytes of memory a chunk
    #[arg(long, conflicts_with = "cache_dir")]
    no_cache: bool,
    /// Memory for the index, however many chunks there are [default: 24 MiB]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    index_memory: Option<usize>,
}

impl IndexArgs {
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
