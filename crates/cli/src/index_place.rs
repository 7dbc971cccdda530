//! Where a command keeps the index of its repository, and how much memory that may take.

use std::env;
use std::path::PathBuf;

use clap::Args;
use onefold_index::Memory;
use onefold_seal::ObjectId;
use onefold_store::IndexPlace;

use crate::console::Console;
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
    /// The directory, with one for each repository in it; `None` if nobody says where.
    pub(crate) fn directory(&self) -> Option<PathBuf> {
        self.cache_dir.clone().or_else(cache_dir)
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
    /// Where the index of `repository` is to be kept.
    pub(crate) fn place(&self, repository: ObjectId, console: &Console) -> IndexPlace {
        if self.no_cache {
            return IndexPlace::Memory;
        }
        let Some(directory) = self.cache.directory() else {
            console.warn(
                "there is no home directory, so the index is kept in memory; name a place for it \
                 with --cache-dir",
            );
            return IndexPlace::Memory;
        };
        let memory = self.index_memory.map_or(Memory::DEFAULT, Memory::new);
        IndexPlace::Directory(directory.join(repository.to_string()), memory)
    }
}

/// Where the user's caches are, by the XDG base directory specification.
fn cache_dir() -> Option<PathBuf> {
    let set = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(caches.join("onefold"))
}
