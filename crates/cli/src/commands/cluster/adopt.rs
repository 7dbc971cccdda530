//! `onefold cluster adopt`

use anyhow::{Context, Result};
use clap::Args;
use onefold_backend::rados::CephLocation;
use serde::Serialize;

use crate::cluster::{CephArgs, location};
use crate::console::Console;
use crate::exit::Exit;
use crate::output::Output;

const AFTER_HELP: &str = "\
`cluster init` notes the cluster of Ceph and the numbers of the pools, and everything else refuses the same
namespace elsewhere: another cluster behind the same name, or a pool that was copied or restored. This command
notes where the namespace is now. Its volumes must not be used where they were before any more: stop the gateways
there first. With a second pool for containers, the volumes that were there before are refused from then on.

Examples:
  onefold cluster adopt ceph:volumes/backup

With --json: one document with location, now and before, which is null if nothing changed.";

/// Accept a copy of volumes that takes their place for good
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Adopt {
    /// The namespace: ceph:POOL or ceph:POOL/NAMESPACE
    #[arg(value_parser = location)]
    location: CephLocation,
    #[command(flatten)]
    ceph: CephArgs,
}

#[derive(Serialize)]
struct Adopted {
    location: String,
    now: String,
    before: Option<String>,
}

impl Adopt {
    pub(super) fn run(self, console: &Console) -> Result<Exit> {
        let reached = self.ceph.reach(&self.location)?;
        let domain = reached.domain_anywhere()?;
        let data = reached.data(&domain)?;
        let adopted = domain.adopt(&*reached.pool, data.as_deref());
        let before = adopted.with_context(|| reached.place())?.map(|place| place.to_string());
        let now = reached.domain()?.place.map(|place| place.to_string()).unwrap_or_default();
        if console.is_json() {
            let mut output = Output::new();
            let location = self.location.to_string();
            output.json_document(&Adopted { location, now, before })?;
            output.finish()?;
            return Ok(Exit::Fine);
        }
        match before {
            Some(before) => console.notice(format_args!("adopted: {now} (before: {before})")),
            None => console.notice(format_args!("nothing to adopt: {now}")),
        }
        Ok(Exit::Fine)
    }
}
