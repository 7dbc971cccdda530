//! `onefold cluster`: volumes over many machines.

mod adopt;
mod fsck;
mod init;
mod page;
mod paper;
mod quota;
mod simulate;
mod status;
mod workload;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::console::Console;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Examples:
  onefold cluster init ceph:volumes/backup
  onefold cluster status ceph:volumes/backup
  onefold cluster fsck ceph:volumes/backup
  onefold cluster quota ceph:volumes/backup 10TiB
  onefold cluster simulate --nodes 1..100 --like mail --html cluster.html";

/// Volumes over many machines
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Cluster {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::Init),
    Status(status::Status),
    Fsck(fsck::Fsck),
    Quota(quota::Quota),
    Adopt(adopt::Adopt),
    Simulate(Box<simulate::Simulate>),
}

impl Cluster {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        match self.command {
            Command::Init(init) => init.run(console),
            Command::Status(status) => status.run(console),
            Command::Fsck(fsck) => fsck.run(console),
            Command::Quota(quota) => quota.run(console),
            Command::Adopt(adopt) => adopt.run(console),
            Command::Simulate(simulate) => simulate.run(console),
        }
    }
}
