//! `onefold volume clone`

use anyhow::{Result, bail};
use clap::Args;

use super::volume::change;
use crate::console::Console;
use crate::exit::Exit;
use crate::pool::{Doer, PoolArgs};
use crate::service::request::Request;

const AFTER_HELP: &str = "\
A clone shares the pages of its source. In a cluster it is in the shard of its source, so that one gateway has
both. With --detach it is in a shard of its own, which moves by itself: the gateway that has the source copies
the map, and pages stay shared. That takes longer the larger the source is; what was not flushed into a complete
container yet is read and written. Until it is done a temporary snapshot of a volume exists, whose name begins
with .detach-; if the gateway dies meanwhile, the next one removes it within some minutes.

Examples:
  onefold volume clone --pool /srv/pool disk-monday disk-to-try-things
  onefold volume clone --cluster ceph:volumes/backup --detach \\
      disk-monday disk-elsewhere

With --json: one document, the volume as `onefold volume info` shows it.";

/// Make a writable copy of a volume or snapshot
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct CloneArgs {
    #[command(flatten)]
    pool: PoolArgs,
    /// Let the clone have a shard of its own, which gateways serve and move by itself
    #[arg(long)]
    detach: bool,
    /// The volume or snapshot
    name: String,
    /// The name of the clone
    clone: String,
}

impl CloneArgs {
    pub(super) fn run(self, console: &Console) -> Result<Exit> {
        let Self { pool, detach, name: from, clone: to } = self;
        let done = format!("made clone '{to}' of '{from}'");
        let doer = pool.doer(console)?;
        let request = match (detach, &doer) {
            (false, _) => Request::Copy { from, to: to.clone(), is_snapshot: false },
            (true, Doer::Cluster(_)) => Request::Detach { from, to: to.clone() },
            (true, _) => bail!(
                "the pool is in a folder, which has no shards: leave out --detach, or name a cluster by \
                 --cluster"
            ),
        };
        change(doer, request, to, &done, console)
    }
}
