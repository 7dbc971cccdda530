//! `onefold cluster init`

use anyhow::{Context, Result};
use clap::Args;
use onefold_backend::rados::CephLocation;
use onefold_cluster::Domain;
use serde::Serialize;

use crate::cluster::{CephArgs, location};
use crate::console::Console;
use crate::exit::Exit;
use crate::output::Output;
use crate::service::request::{Compression, Fingerprint};

const AFTER_HELP: &str = "\
The pool of Ceph must exist, must be replicated, and keeps everything: maps, journals and pages. The
namespace must hold no volumes of this program yet. The user needs the capabilities `mon 'allow r'` and `osd
'allow rwx pool=POOL'`.

Examples:
  ceph osd pool create volumes
  onefold cluster init ceph:volumes/backup
  onefold volume create --cluster ceph:volumes/backup --size 100GiB disk
  onefold serve --cluster ceph:volumes/backup --listen 10.0.0.1:10809

With --json: one document with location, fsid and domain.";

/// Prepare a namespace of a cluster of Ceph for volumes
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Init {
    /// A pool of Ceph and a namespace in it: ceph:POOL or ceph:POOL/NAMESPACE
    #[arg(value_parser = location)]
    location: CephLocation,
    #[command(flatten)]
    ceph: CephArgs,
    /// The fingerprint that identifies pages
    #[arg(long, value_name = "WHICH", default_value = "blake3")]
    fingerprint: Fingerprint,
    /// The compression of new pages
    #[arg(long, value_name = "HOW", default_value = "zstd")]
    compression: Compression,
}

#[derive(Serialize)]
struct Made {
    location: String,
    fsid: String,
    domain: String,
}

impl Init {
    pub(super) fn run(self, console: &Console) -> Result<Exit> {
        let reached = self.ceph.reach(&self.location)?;
        let (hash, codec) = (self.fingerprint.hash(), self.compression.codec());
        let domain = Domain::create(&reached.pool, hash, codec).with_context(|| reached.place())?;
        console.notice(format_args!("prepared {}", reached.place()));
        if console.is_json() {
            let (location, fsid) = (self.location.to_string(), reached.cluster.fsid().to_owned());
            let mut output = Output::new();
            output.json_document(&Made { location, fsid, domain: domain.id.to_string() })?;
            output.finish()?;
        }
        Ok(Exit::Fine)
    }
}
