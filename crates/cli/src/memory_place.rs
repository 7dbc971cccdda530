//! Where a command remembers what it has seen of its repository.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use onefold_backend::{Folder, LocalFolder};
use onefold_seal::ObjectId;

use crate::console::Console;
use crate::own_place::own_place;

/// Where it is remembered what was seen of all repositories.
#[derive(Debug, Args)]
pub(crate) struct MemoryArgs {
    /// Remember below DIR what was seen of repositories, so that one that goes back or loses
    /// snapshots is noticed; else below $XDG_STATE_HOME/onefold or ~/.local/state/onefold
    #[arg(long, value_name = "DIR", env = "ONEFOLD_STATE_DIR")]
    state_dir: Option<PathBuf>,
}

impl MemoryArgs {
    /// Where what is seen of `repository` is remembered; `None` if nobody says where. Who opens it
    /// with a write-only key reads less of it, and must not take that for all there is: both
    /// remember apart.
    pub(crate) fn path(&self, repository: ObjectId, is_write_only: bool) -> Option<PathBuf> {
        Some(self.directory().ok()?.join(name(repository, is_write_only)))
    }

    /// The folder of all; or why there is none.
    fn directory(&self) -> Result<PathBuf, String> {
        let named = self.state_dir.clone().map(Ok);
        named.unwrap_or_else(|| own_place("XDG_STATE_HOME", ".local/state"))
    }

    /// The folder there. One that cannot be had is complained of and done without.
    pub(crate) fn folder(
        &self,
        repository: ObjectId,
        is_write_only: bool,
        console: &Console,
    ) -> Option<Arc<dyn Folder>> {
        let open = |directory: PathBuf| {
            LocalFolder::create_private(&directory)?.folder(&name(repository, is_write_only))
        };
        let trouble = match self.directory().map(open) {
            Ok(Ok(folder)) => return Some(Arc::new(folder)),
            Ok(Err(error)) => {
                console.forget();
                format!("{:#}", anyhow::Error::new(error))
            }
            Err(why) => why,
        };
        console.warn(format_args!(
            "what is seen of the repository is not remembered: {trouble}; --state-dir names another \
             place"
        ));
        None
    }
}

fn name(repository: ObjectId, is_write_only: bool) -> String {
    let whose = if is_write_only { "-write-only" } else { "" };
    format!("{repository}{whose}")
}
