//! Repair of damaged shards that no gateway has.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use onefold_cluster::{Names, Shards};
use onefold_seal::ObjectId;
use onefold_volume::Repaired;

use super::{Doer, Volumes};

impl Volumes {
    /// Repairs the shards of all volumes that no gateway has, and gives them back. `warn` hears of those that a gateway
    /// has, which are left alone.
    ///
    /// # Errors
    /// If a shard cannot be repaired, or gateways have all of them: then the error names one of the gateways.
    pub(crate) fn repair(&mut self, warn: impl Fn(String)) -> Result<Repaired> {
        let mut shards: BTreeMap<ObjectId, Vec<String>> = BTreeMap::new();
        for (name, record) in Names::new(&self.reached.pool).all()? {
            shards.entry(record.shard).or_default().push(name);
        }
        let (mut whole, mut is_any, mut served) = (Repaired::default(), shards.is_empty(), None);
        for (id, names) in shards {
            let names = names.join(", ");
            match self.repair_one(id).with_context(|| names.clone())? {
                Some(done) => {
                    is_any = true;
                    whole
                        .settled
                        .extend(done.settled.iter().map(|what| format!("{names}: {what}")));
                    let kept = done.kept.iter();
                    whole.kept.extend(kept.map(|file| format!("{id}.file.{file}")));
                }
                None => {
                    let host = self.host_of(id)?;
                    let why = format!(
                        "{names}: not repaired, because gateway {host} serves it: stop that gateway, and repeat \
                         the command before another one takes it"
                    );
                    warn(why.clone());
                    served = Some(why);
                }
            }
        }
        match served.filter(|_| !is_any) {
            Some(why) => Err(anyhow::Error::msg(why)).with_context(|| self.reached.place()),
            None => Ok(whole),
        }
    }

    /// Repairs a shard and gives it back; none if a gateway has it.
    fn repair_one(&mut self, id: ObjectId) -> Result<Option<Repaired>> {
        let mut repaired = None;
        let doer = self.doer_by(|own| {
            let (reached, done) = own.reach_to_repair(id)?;
            repaired = done.or(repaired.take());
            Ok(reached)
        });
        match doer? {
            Doer::Here(shard) => {
                drop(shard);
                self.own()?.give_back(id)?;
                Ok(Some(repaired.unwrap_or_default()))
            }
            Doer::There(_) | Doer::Far(_) => Ok(None),
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
