//! `onefold cluster status`

use anyhow::{Context, Result};
use clap::Args;
use indicatif::HumanBytes;
use onefold_backend::rados::CephLocation;
use serde::Serialize;

use crate::cluster::{CephArgs, location};
use crate::console::Console;
use crate::exit::Exit;
use crate::output::Output;

const AFTER_HELP: &str = "\
Examples:
  onefold cluster status ceph:volumes/backup

With --json: one document with location, fsid, shard, gateway (which has the pool, or has ended without
giving it back; null if it is free) and the bytes of the whole cluster of Ceph, copies counted: total,
used and available.";

/// Show who serves a pool of volumes in a cluster, and the cluster's space
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Status {
    /// The pool: ceph:POOL or ceph:POOL/NAMESPACE
    #[arg(value_parser = location)]
    location: CephLocation,
    #[command(flatten)]
    ceph: CephArgs,
}

#[derive(Serialize)]
struct Shown {
    location: String,
    fsid: String,
    shard: String,
    gateway: Option<String>,
    total: u64,
    used: u64,
    available: u64,
}

impl Status {
    pub(super) fn run(self, console: &Console) -> Result<Exit> {
        let reached = self.ceph.reach(&self.location)?;
        let shard = reached.shard()?;
        let holder = onefold_cluster::holder(&*reached.pool, shard);
        let gateway = holder.with_context(|| reached.place())?;
        let space = reached.cluster.space()?;
        let shown = Shown {
            location: self.location.to_string(),
            fsid: reached.cluster.fsid().to_owned(),
            shard: shard.to_string(),
            gateway,
            total: space.total,
            used: space.used,
            available: space.available,
        };
        let mut output = Output::new();
        if console.is_json() {
            output.json_document(&shown)?;
        } else {
            output.line(format!("pool of volumes  {}", shown.location))?;
            output.line(format!("cluster          {}", shown.fsid))?;
            output
                .line(format!("gateway          {}", shown.gateway.as_deref().unwrap_or("none")))?;
            let (available, total) = (HumanBytes(shown.available), HumanBytes(shown.total));
            output.line(format!("space of Ceph    {available} of {total} free, copies counted"))?;
        }
        output.finish()?;
        Ok(Exit::Fine)
    }
}
