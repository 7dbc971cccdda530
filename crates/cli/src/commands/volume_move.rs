//! `onefold volume move`

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use onefold_cluster::{GatewayRecord, Shards, gateways};
use onefold_seal::ObjectId;
use serde::Serialize;

use crate::console::Console;
use crate::exit::Exit;
use crate::output::Output;
use crate::pool::PoolArgs;

const AFTER_HELP: &str = "\
A volume moves with its snapshots and clones. Its clients are disconnected, and find it again at any gateway:
the gateway that has it completes what they asked for first. No data are copied.

Examples:
  onefold volume move --cluster ceph:volumes/backup disk --to node-2
  onefold volume move --cluster ceph:volumes/backup disk --to 10.0.0.2:10809

With --json: one document with name and gateway.";

/// How long a move may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often it is looked whether it is done.
const LOOK: Duration = Duration::from_millis(250);
/// How often the command says that it waits.
const TELL: Duration = Duration::from_secs(5);

/// Move a volume to another gateway of its cluster
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Move {
    #[command(flatten)]
    pool: PoolArgs,
    /// The volume
    name: String,
    /// The gateway that is to have it: its host, its address, or the beginning of its id, as `onefold cluster
    /// status` shows them
    #[arg(long, value_name = "GATEWAY")]
    to: String,
}

#[derive(Serialize)]
struct Moved {
    name: String,
    gateway: String,
}

/// The one serving gateway that `text` names.
fn named(all: Vec<(ObjectId, GatewayRecord)>, text: &str) -> Result<(ObjectId, GatewayRecord)> {
    let is_meant = |(id, record): &(ObjectId, GatewayRecord)| {
        let about = &record.about;
        let host = about.host.split(' ').next().unwrap_or_default();
        let is_named = [about.nbd.as_str(), about.host.as_str(), host].contains(&text);
        about.is_serving && (is_named || (text.len() >= 4 && id.to_string().starts_with(text)))
    };
    let known = all.iter().filter(|(_, record)| record.about.is_serving);
    let known = known.map(|(id, record)| format!("{} ({})", record.about.nbd, id.short()));
    let known = known.collect::<Vec<_>>().join(", ");
    let mut meant = all.into_iter().filter(is_meant);
    match (meant.next(), meant.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => bail!("there is no gateway '{text}'; there are: {known}"),
        _ => bail!("'{text}' names several gateways, expected an address or id of one: {known}"),
    }
}

impl Move {
    pub(super) fn run(self, console: &Console) -> Result<Exit> {
        let volumes = self.pool.cluster_volumes(console)?;
        let (pool, place) = (&volumes.reached().pool, || volumes.reached().place());
        let shard = volumes.shard_of(&self.name)?;
        let (to, record) = named(gateways(pool).with_context(place)?, &self.to)?;
        let shards = Shards::new(pool);
        if !shards.want(shard, to).with_context(place)? {
            bail!("volume '{}' is being created or deleted", self.name);
        }
        let (begun, mut told) = (Instant::now(), Instant::now());
        loop {
            let found = shards.find(shard).with_context(place)?;
            let Some(found) = found else { bail!("volume '{}' was deleted", self.name) };
            match (found.record.gateway, found.record.wanted) {
                (Some(gateway), None) if gateway == to => break,
                (_, Some(wanted)) if wanted == to => {
                    let all = gateways(pool).with_context(place)?;
                    ensure!(
                        all.iter().any(|(id, _)| *id == to),
                        "volume '{}' did not move: gateway {} has ended, or its lease was broken; `onefold cluster \
                         status` shows those that live",
                        self.name,
                        record.about.host
                    );
                }
                _ => bail!(
                    "volume '{}' did not move: the gateway ended, could not open it, or it was moved again",
                    self.name
                ),
            }
            if begun.elapsed() > PATIENCE {
                bail!(
                    "volume '{}' did not move within {PATIENCE:?}; it moves as soon as its gateway lets it go",
                    self.name
                );
            }
            if told.elapsed() > TELL {
                told = Instant::now();
                console.notice(format_args!(
                    "waiting until its gateway has completed requests, {} s so far",
                    begun.elapsed().as_secs()
                ));
            }
            thread::sleep(LOOK);
        }
        let host = record.about.host;
        console.notice(format_args!("moved volume '{}' to gateway {host}", self.name));
        if console.is_json() {
            let mut output = Output::new();
            output.json_document(&Moved { name: self.name, gateway: to.to_string() })?;
            output.finish()?;
        }
        Ok(Exit::Fine)
    }
}
