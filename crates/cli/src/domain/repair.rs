//! Repair of damaged shards that no gateway has.

use anyhow::{Context, Error, Result};
use onefold_cluster::Shards;
use onefold_seal::ObjectId;
use onefold_volume::Repaired;

use super::{Doer, Volumes};

impl Volumes {
    /// Repairs the shards of all volumes that no gateway has, and gives them back. `warn` hears of those that cannot be
    /// repaired, and of those that gateways have, which are left alone.
    ///
    /// # Errors
    /// If gateways have all shards, or the records of shards cannot be read.
    pub(crate) fn repair(&mut self, warn: impl Fn(String)) -> Result<Repaired> {
        let shards = self.volumes_by_shard()?;
        let (all, mut whole, mut served) = (shards.len(), Repaired::default(), Vec::new());
        for (id, names) in shards {
            let names = names.join(", ");
            let mut done = Repaired::default();
            let is_here = self.repair_one(id, &mut done);
            let Repaired { settled, left, kept } = done;
            whole.left.extend(left.iter().map(|what| format!("{names}: {what}")));
            whole.settled.extend(settled.iter().map(|what| format!("{names}: {what}")));
            whole.kept.extend(kept.iter().map(|file| format!("{id}.file.{file}")));
            match is_here {
                Ok(true) => {}
                Ok(false) => served.push(format!("{names} (gateway {})", self.host_of(id)?)),
                // the check that follows fails for it
                Err(error) => warn(format!("{names}: not repaired: {error:#}")),
            }
        }
        if !served.is_empty() {
            let why = format!(
                "not repaired, because gateways serve them: {}; to repair these, stop their gateways and repeat the \
                 command",
                served.join("; ")
            );
            if served.len() == all {
                return Err(Error::msg(why)).with_context(|| self.reached.place());
            }
            warn(why);
        }
        Ok(whole)
    }

    /// Repairs a shard and gives it back; false if a gateway has it. What was done is in `done`, also after an error.
    fn repair_one(&mut self, id: ObjectId, done: &mut Repaired) -> Result<bool> {
        match self.doer_by(|own| own.reach_to_repair(id, done))? {
            Doer::Here(shard) => {
                drop(shard);
                self.own()?.give_back(id)?;
                Ok(true)
            }
            Doer::There(_) | Doer::Far(_) => Ok(false),
        }
    }

    /// The host of the gateway that has the shard `id`.
    fn host_of(&self, id: ObjectId) -> Result<String> {
        let gateway =
            Shards::new(&self.reached.pool).find(id)?.and_then(|seen| seen.record.gateway);
        let all = onefold_cluster::gateways(&self.reached.pool)?;
        let host = all.into_iter().find(|(one, _)| Some(*one) == gateway);
        Ok(host.map_or_else(|| "that has just ended".to_owned(), |(_, record)| record.about.host))
    }
}
