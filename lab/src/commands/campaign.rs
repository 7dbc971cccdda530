//! `cargo lab campaign`

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::exit::Exit;
use crate::measuring::cluster::{dedup, faults, peers, scaling, take_over};
use crate::measuring::incremental::uploads;
use crate::measuring::volumes::{memory, qcow2};
use crate::measuring::{campaign, incremental, nbd, traces};

const AFTER_HELP: &str = "\
Examples:
  cargo lab campaign index --dir DIR --out docs/records/NAME.json
  cargo lab campaign table --out docs/records/NAME.json
  cargo lab campaign table-loss --images DIR --memories 1024,4096 \\
      --dir DIR --out docs/records/NAME.json
  cargo lab campaign engine --dir DIR --out docs/records/NAME.json
  cargo lab campaign nbd --onefold target/release/onefold \\
      --out docs/records/NAME.json
  cargo lab campaign traces --onefold target/release/onefold \\
      --out docs/records/NAME.json
  cargo lab campaign volume-memory --onefold target/release/onefold \\
      --pages 1000000,10000000 --sweep --index-memory=64MiB,256MiB \\
      --out docs/records/NAME.json
  cargo lab campaign volume-qcow2 --onefold target/release/onefold \\
      --size 16384 --memory 8MiB --limit 512MiB --out docs/records/NAME.json
  cargo lab campaign peers --out docs/records/NAME.json
  cargo lab campaign cluster-faults --onefold target/debug/onefold \\
      --out docs/records/NAME.json
  cargo lab campaign cluster-take-over --onefold target/release/onefold \\
      --out docs/records/NAME.json
  cargo lab campaign cluster-peers --onefold target/release/onefold \\
      --out docs/records/NAME.json
  cargo lab campaign cluster-dedup --onefold target/release/onefold --images DIR/vm-count-3 \\
      --out docs/records/NAME.json
  cargo lab campaign cluster-scaling --onefold target/release/onefold \\
      --out docs/records/NAME.json
  cargo lab campaign incremental --python VENV/bin/python --dir DIR --html PAGE \\
      --out docs/records/NAME.json
  cargo lab campaign incremental-versions --python VENV/bin/python --versions DIR/typescript \\
      --mean 256KiB --dir DIR --out docs/records/NAME.json
  cargo lab campaign incremental-page docs/records/NAME.json --html PAGE
  cargo lab campaign incremental-uploads --file FILE --dir DIR --out docs/records/NAME.json
  cargo lab campaign far-away --source DIR --out docs/records/NAME.json";

/// Measure the index, tables, volumes and repositories far away, for hours
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Campaign {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure the index as it grows beyond its memory, in a control group
    Index {
        /// Bytes of memory that it may have, the kernel's cache included; 0 for no limit
        #[arg(long, default_value_t = 512 << 20)]
        limit: u64,
        /// `--dir DIR --out RECORD [--plot SVG] [--entries N] [--simulate N] [--scale N]
        /// [--memory BYTES] [--lookups N]`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Measure the tables of fingerprints in memory, half full and full
    Table {
        /// `--out RECORD [--only LAYOUT] [--entries N] [--operations N] [--rounds N]`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Measure what pools store twice whose tables have no room for all pages
    TableLoss {
        /// `--images PATH [--images PATH] --memories KIB,KIB --dir DIR --out RECORD`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Measure a pool of volumes without NBD, beside fingerprints and compression alone
    Engine {
        /// `--dir DIR --out RECORD [--plot SVG] [--known N] [--operations N] [--rounds N]
        /// [--depth N]`; with `--beyond 1` pools that do not fit their memory beside one that does
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Measure a served volume by fio beside nbdkit's file and memory plugins and qemu-nbd
    Nbd(nbd::Options),
    /// Replay traces in the shape of mail, web and homes (StreamDedup, figure 15)
    Traces(traces::Options),
    /// Measure memory and time to open of `onefold serve` against the pages of its pool
    VolumeMemory(memory::Options),
    /// Measure random reads and writes of a served volume by fio beside a qcow2 image whose map has as
    /// much memory
    #[command(name = "volume-qcow2")]
    VolumeQcow2(qcow2::Options),
    /// Measure look-ups of hints between two gateways
    Peers {
        /// `--out RECORD [--pages N] [--milliseconds N]`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Kill, pause and fill what a pool of volumes in a cluster of Ceph consists of, while clients write and
    /// read, and check that no acknowledged write is lost and no read is stale
    ClusterFaults(faults::Options),
    /// Measure how long clients wait when a gateway of a cluster is killed
    ClusterTakeOver(take_over::Options),
    /// Measure a volume in a cluster of Ceph by fio beside an image of RBD in the same cluster
    ClusterPeers(peers::Options),
    /// Measure what three gateways of a cluster store of disk images that resemble one another, and what a
    /// write costs
    ClusterDedup(dedup::Options),
    /// Measure 1 to 8 gateways in network namespaces with delay between them, beside what the simulation says
    ClusterScaling(scaling::Options),
    /// Measure jobs of Spark and MapReduce with a memo after changes of their input (Shredder, figure 15)
    Incremental(incremental::Options),
    /// Measure such jobs on versions of real data
    IncrementalVersions(incremental::Versions),
    /// Write the page of records of the two before
    IncrementalPage(incremental::PageOptions),
    /// Measure uploads to HDFS beside Hadoop's own
    IncrementalUploads(uploads::Options),
    /// Measure commands on a simulated line to a repository far away
    FarAway(campaign::FarAway),
}

impl Campaign {
    pub(crate) fn run(self) -> Result<Exit> {
        match self.command {
            Command::Index { limit, arguments } => campaign::index(limit, &arguments),
            Command::Table { arguments } => campaign::table(&arguments),
            Command::TableLoss { arguments } => campaign::table_loss(&arguments),
            Command::Engine { arguments } => campaign::engine(&arguments),
            Command::Nbd(options) => nbd::measure(&options),
            Command::Traces(options) => traces::measure(&options),
            Command::VolumeMemory(options) => memory::measure(&options),
            Command::VolumeQcow2(options) => qcow2::measure(&options),
            Command::Peers { arguments } => campaign::peers(&arguments),
            Command::ClusterFaults(options) => faults::measure(&options),
            Command::ClusterTakeOver(options) => take_over::measure(&options),
            Command::ClusterPeers(options) => peers::measure(&options),
            Command::ClusterDedup(options) => dedup::measure(&options),
            Command::ClusterScaling(options) => scaling::measure(&options),
            Command::Incremental(options) => incremental::measure(&options),
            Command::IncrementalVersions(options) => incremental::measure_versions(&options),
            Command::IncrementalPage(options) => incremental::write_page(&options),
            Command::IncrementalUploads(options) => uploads::measure(&options),
            Command::FarAway(options) => campaign::far_away(&options),
        }?;
        Ok(Exit::Fine)
    }
}
