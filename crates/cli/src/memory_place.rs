//! Where a command remembers what it has seen of its repository.

use std::env;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use onefold_backend::{Folder, LocalFolder};
use onefold_seal::ObjectId;

use crate::console::Console;

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
        let whose = if is_write_only { "-write-only" } else { "" };
        Some(self.state_dir.clone().or_else(state_dir)?.join(format!("{repository}{whose}")))
    }

    /// The folder there. One that cannot be had is complained of and done without.
    pub(crate) fn folder(
        &self,
        repository: ObjectId,
        is_write_only: bool,
        console: &Console,
    ) -> Option<Arc<dyn Folder>> {
        let trouble =
            match self.path(repository, is_write_only).map(|path| LocalFolder::create(&path)) {
                Some(Ok(folder)) => return Some(Arc::new(folder)),
                Some(Err(error)) => {
                    console.forget();
                    format!("{:#}", anyhow::Error::new(error))
                }
                None => "there is no home directory; name a place with --state-dir".into(),
            };
        console.warn(format_args!("what is seen of the repository is not remembered: {trouble}"));
        None
    }
}

/// Where the user's programs keep what they must not forget, by the XDG base directory
/// specification.
fn state_dir() -> Option<PathBuf> {
    let set = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let states = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")))?;
    Some(states.join("onefold"))
}
