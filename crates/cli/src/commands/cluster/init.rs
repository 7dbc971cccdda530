//! `onefold cluster init`

use anyhow::{Context, Result};
use clap::Args;
use onefold_backend::rados::CephLocation;
use onefold_cluster::{Care, Domain};
use serde::Serialize;

use crate::cluster::{CephArgs, location};
use crate::console::Console;
use crate::exit::Exit;
use crate::output::Output;
use crate::service::request::{Compression, Fingerprint};
use crate::size;

const AFTER_HELP: &str = "\
The pool of Ceph must exist, must be replicated, and keeps everything: maps, journals and pages. With
--data-pool the containers of pages are in a second pool, which may be erasure-coded, in a namespace of the same
name; which pool that is cannot be changed later. The namespace must hold no volumes of this program yet. The
user needs the capabilities `mon 'allow r'` and `osd 'allow rwx pool=POOL'`, with a second pool also `allow rwx
pool=DATA`.

Examples:
  ceph osd pool create volumes
  onefold cluster init ceph:volumes/backup
  onefold cluster init ceph:volumes/backup --data-pool pages
  onefold volume create --cluster ceph:volumes/backup --size 100GiB disk
  onefold serve --cluster ceph:volumes/backup --listen 10.0.0.1:10809

With --json: one document with location, fsid, domain and data_pool, which is null without a second pool.";

/// Prepare a namespace of a cluster of Ceph for volumes
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Init {
    /// A pool of Ceph and a namespace in it: ceph:POOL or ceph:POOL/NAMESPACE
    #[arg(value_parser = location)]
    location: CephLocation,
    #[command(flatten)]
    ceph: CephArgs,
    /// Keep containers of pages in this pool of the same cluster, which may be erasure-coded
    #[arg(long, value_name = "POOL")]
    data_pool: Option<String>,
    /// The most that all containers may take together [default: no bound; `cluster quota` changes it]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    quota: Option<usize>,
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
    data_pool: Option<String>,
}

impl Init {
    pub(super) fn run(self, console: &Console) -> Result<Exit> {
        let reached = self.ceph.reach(&self.location)?;
        let (hash, codec) = (self.fingerprint.hash(), self.compression.codec());
        let data = self.data_pool.as_deref().filter(|name| *name != self.location.pool());
        let data = data.map(|name| reached.data_pool(name)).transpose()?;
        let domain = Domain::create_with(&reached.pool, data.as_ref(), hash, codec);
        let domain = domain.with_context(|| reached.place())?;
        if let Some(quota) = self.quota {
            let set = Care::new(&reached.pool).set_quota(Some(quota as u64));
            set.with_context(|| {
                format!(
                    "{} is prepared, without the quota: set it with `onefold cluster quota`",
                    reached.place()
                )
            })?;
        }
        console.notice(format_args!("prepared {}", reached.place()));
        if console.is_json() {
            let (location, fsid) = (self.location.to_string(), reached.cluster.fsid().to_owned());
            let mut output = Output::new();
            let (domain, data_pool) = (domain.id.to_string(), domain.data);
            output.json_document(&Made { location, fsid, domain, data_pool })?;
            output.finish()?;
        }
        Ok(Exit::Fine)
    }
}
