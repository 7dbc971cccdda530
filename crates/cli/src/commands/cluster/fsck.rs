//! `onefold cluster fsck`

use anyhow::Result;
use clap::Args;
use onefold_backend::rados::CephLocation;
use onefold_volume::Options;

use crate::cluster::{CephArgs, location};
use crate::console::Console;
use crate::count::count;
use crate::domain::Volumes;
use crate::exit::Exit;
use crate::output::Output;

const AFTER_HELP: &str = "\
Compares who is registered in each container with what the journals of all shards say. Gateways that serve are
asked for their shards, and clients are not blocked; shards that no gateway has are opened here, one group
after the other. Pages are not read: `onefold volume scrub` does that.

Two kinds of problems exist. Leaks only take space: a registration that no journal knows, and a container that
no shard needs. --repair removes them, at any time; gateways also do so every five minutes. The others are
damage: pages of a container are gone, or a shard uses a container without protection. --repair leaves
these, and they are named. So are shards that cannot be opened; the others are checked all the same.

Examples:
  onefold cluster fsck ceph:volumes/backup
  onefold cluster fsck --repair ceph:volumes/backup

With --json: one document with containers, problems (at most 10,000 for each gateway, with problem, is_leak and
is_repaired), more (the number of further problems), more_leaks (how many of these are leaks) and shards (the ids of
those that were asked). The exit code is 1 if problems are left.";

/// Check which shards use which containers, and remove what none needs
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Fsck {
    /// The namespace: ceph:POOL or ceph:POOL/NAMESPACE
    #[arg(value_parser = location)]
    location: CephLocation,
    #[command(flatten)]
    ceph: CephArgs,
    /// Remove leaks
    #[arg(long)]
    repair: bool,
}

impl Fsck {
    pub(super) fn run(self, console: &Console) -> Result<Exit> {
        let (reached, told) = (self.ceph.reach(&self.location)?, console.clone());
        let mut volumes = Volumes::new(reached, Options::default(), move |what| told.notice(what))?;
        let found = volumes.fsck(self.repair)?;
        let mut output = Output::new();
        if console.is_json() {
            output.json_document(&found)?;
        } else {
            for one in &found.problems {
                let state = if one.is_repaired { "repaired: " } else { "" };
                output.line(format!("{state}{}", one.problem))?;
            }
            if found.more > 0 {
                output.line(format!("further problems: {}", found.more))?;
            }
            let looked = count(found.containers, "container", "containers");
            let shards = count(found.shards.len() as u64, "shard", "shards");
            let are_left = if found.has_problems() { "problems are left" } else { "no problems" };
            output.line(format!("{looked} of {shards}: {are_left}"))?;
            if !self.repair && found.problems.iter().any(|one| one.is_leak) {
                output.line("--repair removes what no shard needs")?;
            }
        }
        output.finish()?;
        Ok(if found.has_problems() { Exit::Fatal } else { Exit::Fine })
    }
}
