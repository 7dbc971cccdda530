//! `onefold cluster status`

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use clap::Args;
use indicatif::HumanBytes;
use onefold_backend::rados::CephLocation;
use onefold_cluster::hints::{Ranges, SLICES, Slice};
use onefold_cluster::{Care, Damage, GatewayRecord, Names, RENEWAL, Shards, gateways};
use onefold_seal::ObjectId;
use onefold_volume::{Options, VolumeError};
use serde::Serialize;

use crate::cluster::{CephArgs, Reached, location};
use crate::console::Console;
use crate::count::count;
use crate::domain::Volumes;
use crate::exit::Exit;
use crate::output::Output;
use crate::service::fsck::ShownFsck;
use crate::service::peers;
use crate::service::space::{ShownCycle, ShownStored};
use crate::table;

const AFTER_HELP: &str = "\
Looks at the leases twice, some seconds apart: a gateway is alive if it renewed its lease meanwhile. The index of
all pages is divided among the living gateways by the first 12 bits of fingerprints.

--full also counts leaked registrations, as `onefold cluster fsck` finds them. It opens shards that no gateway has,
and takes as long.

Examples:
  onefold cluster status ceph:volumes/backup
  onefold cluster status --full ceph:volumes/backup

With --json: one document with location, fsid, domain, data_pool (that of containers), gateways, shards, stored (as
`onefold cluster quota` shows it), scrub (cycle, begun, ended, is_running, containers and damaged, or null), damage
(containers, each with container, pages and problem), and the bytes of the whole cluster of Ceph, copies counted:
total, used and available. A gateway has id, host, address, is_alive, is_serving
(false for a command), lease_age_seconds (by the clocks of both machines), shards, their number, and index_ranges, the
ranges of the index that it holds as first and last prefix in hexadecimal. With --full there is leaks: registrations
that no journal knows and containers that no shard needs, and problems, the number of all others. A shard
has id, volumes, gateway and wanted (ids, or null), unique_bytes (what it uses of containers that no other shard
uses, or null before that was counted), and is_doomed: it is being created or deleted.";

/// Show the gateways of a cluster, who serves which volume, and the cluster's space
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Status {
    /// The namespace: ceph:POOL or ceph:POOL/NAMESPACE
    #[arg(value_parser = location)]
    location: CephLocation,
    #[command(flatten)]
    ceph: CephArgs,
    /// Also count leaked registrations and unused containers
    #[arg(long)]
    full: bool,
}

#[derive(Serialize)]
struct Shown {
    location: String,
    fsid: String,
    domain: String,
    data_pool: String,
    gateways: Vec<ShownGateway>,
    shards: Vec<ShownShard>,
    stored: ShownStored,
    scrub: Option<ShownCycle>,
    damage: Vec<ShownDamage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leaks: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problems: Option<u64>,
    /// Problems that are no leaks, as far as they are named.
    #[serde(skip)]
    damaged: Vec<String>,
    total: u64,
    used: u64,
    available: u64,
}

#[derive(Serialize)]
struct ShownGateway {
    id: String,
    host: String,
    address: String,
    is_alive: bool,
    is_serving: bool,
    lease_age_seconds: f64,
    shards: usize,
    /// The part of the index that it holds.
    index_ranges: Vec<String>,
    #[serde(skip)]
    index_slices: usize,
}

#[derive(Serialize)]
struct ShownShard {
    id: String,
    volumes: Vec<String>,
    gateway: Option<String>,
    wanted: Option<String>,
    unique_bytes: Option<u64>,
    is_doomed: bool,
}

#[derive(Serialize)]
struct ShownDamage {
    container: String,
    pages: u64,
    problem: String,
}

impl Status {
    pub(super) fn run(self, console: &Console) -> Result<Exit> {
        let reached = self.ceph.reach(&self.location)?;
        let domain = reached.domain()?;
        let shards = shards(&reached).with_context(|| reached.place())?;
        let gateways = looked_at(&reached, &shards).with_context(|| reached.place())?;
        let space = reached.cluster.space()?;
        let care = Care::new(&reached.pool);
        let found = || {
            Ok::<_, VolumeError>((ShownStored::of(&care)?, ShownCycle::of(&care)?, care.damage()?))
        };
        let (stored, scrub, damage) = found().with_context(|| reached.place())?;
        let damage = damage.into_iter().map(|(container, Damage { pages, problem, .. })| {
            ShownDamage { container: container.to_string(), pages, problem }
        });
        let location = self.location.to_string();
        let fsid = reached.cluster.fsid().to_owned();
        let checked = self.full.then(|| checked(reached, console)).transpose();
        let found = checked.as_ref().ok().and_then(Option::as_ref);
        let own = || self.location.pool().to_owned();
        let data_pool = domain.data.clone().unwrap_or_else(own);
        let shown = Shown {
            location,
            fsid,
            domain: domain.id.to_string(),
            data_pool,
            gateways,
            shards,
            stored,
            scrub,
            damage: damage.collect(),
            leaks: found.map(|found| found.leaks_and_others().0),
            problems: found.map(|found| found.leaks_and_others().1),
            damaged: found.map(ShownFsck::damage).unwrap_or_default(),
            total: space.total,
            used: space.used,
            available: space.available,
        };
        let mut output = Output::new();
        if console.is_json() {
            output.json_document(&shown)?;
        } else {
            shown.lines().into_iter().try_for_each(|line| output.line(line))?;
        }
        output.finish()?;
        checked.context("leaks could not be counted").map(|_| Exit::Fine)
    }
}

/// What a check of containers by the journals of all shards finds.
fn checked(reached: Reached, console: &Console) -> Result<ShownFsck> {
    let told = console.clone();
    let mut volumes = Volumes::new(reached, Options::default(), move |what| told.notice(what))?;
    volumes.fsck(false)
}

/// The slices of the index as ranges of prefixes.
fn ranges_of(slices: &[Slice]) -> Vec<String> {
    let runs = slices.chunk_by(|one, next| one.index() + 1 == next.index());
    let shown = |run: &[Slice]| match run {
        [first, .., last] => format!("{:03x}-{:03x}", first.index(), last.index()),
        [only] => format!("{:03x}-{:03x}", only.index(), only.index()),
        [] => unreachable!("no run is empty"),
    };
    runs.map(shown).collect()
}

/// The gateways, looked at twice.
fn looked_at(reached: &Reached, shards: &[ShownShard]) -> Result<Vec<ShownGateway>> {
    let first: BTreeMap<ObjectId, GatewayRecord> = gateways(&reached.pool)?.into_iter().collect();
    if !first.is_empty() {
        thread::sleep(RENEWAL + Duration::from_millis(500));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let found = gateways(&reached.pool)?;
    // one that came meanwhile has just taken its lease
    let is_alive = |id: &ObjectId, record: &GatewayRecord| {
        first.get(id).is_none_or(|before| before.renewals != record.renewals)
    };
    let living = found.iter().filter(|(id, record)| is_alive(id, record));
    let index = Ranges::new(living.filter_map(|(_, record)| Some(peers::place(record)?.0)));
    let shown = found.into_iter().map(|(id, record)| {
        let renewed = Duration::from_millis(record.renewed_at);
        let slices: Vec<Slice> = index.of(record.about.process).collect();
        let is_alive = is_alive(&id, &record);
        let id = id.to_string();
        let has = |shard: &&ShownShard| shard.gateway.as_ref() == Some(&id);
        ShownGateway {
            is_alive,
            is_serving: record.about.is_serving,
            lease_age_seconds: now.saturating_sub(renewed).as_secs_f64(),
            shards: shards.iter().filter(has).count(),
            index_ranges: ranges_of(&slices),
            index_slices: slices.len(),
            host: record.about.host,
            address: record.about.nbd,
            id,
        }
    });
    Ok(shown.collect())
}

fn shards(reached: &Reached) -> Result<Vec<ShownShard>> {
    let mut volumes: BTreeMap<ObjectId, Vec<String>> = BTreeMap::new();
    for (name, record) in Names::new(&reached.pool).all()? {
        volumes.entry(record.shard).or_default().push(name);
    }
    let space = Care::new(&reached.pool).shard_space()?;
    let shown = |id: Option<ObjectId>| id.map(|id| id.to_string());
    let all = Shards::new(&reached.pool).all()?.into_iter().map(|(id, seen)| ShownShard {
        id: id.to_string(),
        volumes: volumes.remove(&id).unwrap_or_default(),
        gateway: shown(seen.record.gateway),
        wanted: shown(seen.record.wanted),
        unique_bytes: space.get(&id).map(|one| one.unique_bytes),
        is_doomed: seen.record.is_doomed,
    });
    Ok(all.collect())
}

impl Shown {
    fn lines(&self) -> Vec<String> {
        let (available, total) = (HumanBytes(self.available), HumanBytes(self.total));
        let mut lines = vec![
            format!("volumes of       {}", self.location),
            format!("containers in    pool {}", self.data_pool),
            format!("cluster          {}", self.fsid),
            format!("space of Ceph    {available} of {total} free, copies counted"),
        ];
        lines.extend(
            self.stored.rows().into_iter().map(|(name, value)| format!("{name:<16} {value}")),
        );
        let scrub = self.scrub.as_ref().map_or_else(|| "none yet".to_owned(), ShownCycle::line);
        lines.push(format!("last scrub       {scrub}"));
        for ShownDamage { container, pages, problem } in &self.damage {
            let pages = count(*pages, "damaged page", "damaged pages");
            lines.push(format!("damage           {container}: {pages}: {problem}"));
        }
        if let (Some(leaks), Some(problems)) = (self.leaks, self.problems) {
            let leaks = count(leaks, "registration or container", "registrations and containers");
            let problems = count(problems, "other problem", "other problems");
            lines.push(format!("leaked           {leaks}; {problems}"));
            lines.extend(self.damaged.iter().map(|one| format!("problem          {one}")));
        }
        lines.push(String::new());
        let row = |cells: [&str; 6]| cells.map(str::to_owned).to_vec();
        let head = ["gateway", "address", "id", "lease renewed", "shards", "of the index"];
        let mut rows = vec![row(head)];
        for one in &self.gateways {
            let age = format!("{:.1} s ago", one.lease_age_seconds);
            let state = if one.is_alive { age } else { format!("{age}, not alive") };
            let shards = one.shards.to_string();
            let index = format!("{:.1} %", 100.0 * one.index_slices as f64 / SLICES as f64);
            rows.push(row([&one.host, &one.address, &one.id[..8], &state, &shards, &index]));
        }
        lines.extend(table::lines(&rows, &[4, 5]));
        lines.push(String::new());
        let mut rows = vec![["volumes", "only theirs", "gateway"].map(str::to_owned).to_vec()];
        let unique = |one: &ShownShard| {
            one.unique_bytes.map_or("not counted".to_owned(), |bytes| HumanBytes(bytes).to_string())
        };
        let shards = self.shards.iter();
        rows.extend(shards.map(|one| vec![one.names(), unique(one), self.gateway_of(one)]));
        lines.extend(table::lines(&rows, &[1]));
        lines
    }

    fn gateway_of(&self, shard: &ShownShard) -> String {
        let named = |id: &String| {
            let found = self.gateways.iter().find(|one| one.id == *id);
            found
                .map_or_else(|| format!("{} (its lease is over)", &id[..8]), |one| one.host.clone())
        };
        let has = shard.gateway.as_ref().map_or_else(|| "none".to_owned(), named);
        match &shard.wanted {
            Some(wanted) => format!("{has}, moves to {}", named(wanted)),
            None => has,
        }
    }
}

impl ShownShard {
    fn names(&self) -> String {
        match self.volumes.is_empty() {
            true => format!("shard {}, being created or deleted", &self.id[..8]),
            false => self.volumes.join(", "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_shown_as_ranges_of_prefixes() {
        let all: Vec<Slice> = Slice::all().collect();
        assert_eq!(ranges_of(&all), ["000-fff"]);
        let some = [&all[..1], &all[3..6], &all[0xabc..0xabd]].concat();
        assert_eq!(ranges_of(&some), ["000-000", "003-005", "abc-abc"]);
        assert_eq!(ranges_of(&[]), Vec::<String>::new());
    }
}
