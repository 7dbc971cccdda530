//! `onefold cluster quota`

use anyhow::{Context, Result};
use clap::Args;
use onefold_backend::rados::CephLocation;
use onefold_cluster::Care;
use onefold_volume::Options;

use crate::cluster::{CephArgs, location};
use crate::console::Console;
use crate::domain::Volumes;
use crate::exit::Exit;
use crate::output::Output;
use crate::service::space::ShownStored;
use crate::size;

const AFTER_HELP: &str = "\
The quota bounds the bytes of all containers: pages after deduplication and compression, copies that Ceph keeps
not counted. Gateways learn of a change within two seconds. When it is used up, writes of new pages fail with \"no
space left on device\"; erases, deletions, and writes of pages that are stored already go on. A quota may be
smaller than what is stored. docs/cluster.md says by how much it may be exceeded.

Examples:
  onefold cluster quota ceph:volumes/backup
  onefold cluster quota ceph:volumes/backup 10TiB
  onefold cluster quota ceph:volumes/backup none

With --json: one document with stored_bytes, shared_bytes (of containers that several shards use), unique_bytes
(that one shard each uses alone), containers, logical_bytes (of all volumes, snapshots and clones, without holes),
total_reduction (logical_bytes by stored_bytes), counted (when, in seconds since 1970, or null) and quota. The last
four may be null.";

/// Show or change how much the containers of a cluster may take
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Quota {
    /// The namespace: ceph:POOL or ceph:POOL/NAMESPACE
    #[arg(value_parser = location)]
    location: CephLocation,
    #[command(flatten)]
    ceph: CephArgs,
    /// The new quota, or 'none' for no bound
    #[arg(value_name = "SIZE", value_parser = bound)]
    quota: Option<Bound>,
}

/// A quota, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bound(Option<u64>);

fn bound(text: &str) -> Result<Bound, String> {
    if text == "none" {
        return Ok(Bound(None));
    }
    let bytes = size::parse(text).map_err(|error| format!("{error}, or 'none'"))?;
    Ok(Bound(Some(bytes as u64)))
}

impl Quota {
    pub(super) fn run(self, console: &Console) -> Result<Exit> {
        let reached = self.ceph.reach(&self.location)?;
        reached.domain()?;
        let (care, place) = (Care::new(&reached.pool), reached.place());
        if let Some(Bound(quota)) = self.quota {
            care.set_quota(quota).with_context(|| place.clone())?;
            let told = console.clone();
            // so that gateways know from where on to count
            let mut volumes =
                Volumes::new(reached, Options::default(), move |what| told.notice(what))?;
            volumes.count()?;
        }
        let stored = ShownStored::of(&care).with_context(|| place.clone())?;
        let mut output = Output::new();
        if console.is_json() {
            output.json_document(&stored)?;
        } else {
            for (name, value) in stored.rows() {
                output.line(format!("{name:<17} {value}"))?;
            }
        }
        output.finish()?;
        Ok(Exit::Fine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_a_size_or_none() {
        assert_eq!(bound("none"), Ok(Bound(None)));
        assert_eq!(bound("2MiB"), Ok(Bound(Some(2 << 20))));
        assert!(bound("much").unwrap_err().contains("'none'"));
    }
}
