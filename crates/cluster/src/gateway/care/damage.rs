//! Damaged containers, as scrubs found them: told to all shards that use them.

use onefold_seal::ObjectId;
use onefold_volume::{Scrubbed, SharedName, VolumeError};

use super::records::Damage;
use super::{Care, or_empty};
use crate::containers::shared_name;
use crate::error::failed;
use crate::gateway::gateway::Gateway;
use crate::gateway::open::OpenShard;
use crate::gateway::records::decode;
use crate::gateway::table::Changed;
use crate::hints::ContainerName;
use crate::seeded::fault;
use onefold_backend::Operation;
use onefold_backend::rados::RadosError;

/// The key of a container.
fn key(name: &ContainerName) -> String {
    let ContainerName { shard, writer, number } = name;
    format!("{shard}.{writer:016x}.{number:016x}")
}

/// The container with this key.
fn name_of(text: &str) -> Option<ContainerName> {
    let mut parts = text.split('.');
    let shard = parts.next()?.parse::<ObjectId>().ok()?;
    let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
    let name = ContainerName { shard, writer: number()?, number: number()? };
    (key(&name) == text).then_some(name)
}

impl Care {
    /// The containers that scrubs found damaged.
    ///
    /// # Errors
    /// If a record cannot be read.
    pub fn damage(&self) -> Result<Vec<(ContainerName, Damage)>, VolumeError> {
        let object = self.damage.object();
        let found = or_empty(self.damage.all())?.into_iter().map(|(key, value)| {
            let name = name_of(&key).ok_or_else(|| VolumeError::Damaged {
                object: object.to_owned(),
                at: 0,
                problem: format!("the key {key:?}, expected a container"),
            })?;
            Ok((name, decode(object, &key, &value, Damage::read)?))
        });
        found.collect()
    }

    /// Notes that container `name` is damaged, or that it is not.
    pub(super) fn note_damage(
        &self,
        name: &ContainerName,
        damage: Option<&Damage>,
    ) -> Result<(), VolumeError> {
        let (key, to) = (key(name), damage.map(Damage::encode));
        let before = || super::before_id(&key);
        loop {
            let earlier = or_empty(self.damage.get(before(), &key))?;
            if earlier.is_none() && to.is_none()
                || self.damage.settle(before(), &key, earlier.as_ref(), to.clone())?
                    == Changed::Done
            {
                return Ok(());
            }
        }
    }
}

impl Gateway {
    /// What of the damage that scrubs found concerns the open shard `shard`: its pages in damaged containers are read
    /// again, and those that are lost are told with the volumes and blocks that they are, as long as `go_on` says so.
    /// The shard knows then that they are lost, so that a write of the same bytes stores them again, and writes what can
    /// be read to other containers by and by.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub fn damage_in(
        &self,
        shard: &OpenShard,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Scrubbed, VolumeError> {
        let damaged = self.care().damage()?;
        let names: Vec<SharedName> = damaged.iter().map(|(name, _)| shared_name(name)).collect();
        for name in &names {
            // takes no page from there any more, and saves those that can be read
            shard.pool().note_closing(name);
        }
        Ok(shard.pool().scrub_containers(&names, go_on))
    }

    /// Forgets damage of containers that are gone.
    ///
    /// # Errors
    /// If a pool of RADOS refuses something or gives no answer.
    pub fn forget_damage(&self) -> Result<(), VolumeError> {
        let (care, containers) = (self.care(), self.containers());
        let read = |error: RadosError| failed(Operation::Read, error);
        for (name, _) in care.damage()? {
            if containers.look(&name).map_err(read)?.is_none() || fault!(DamageForgotten) {
                care.note_damage(&name, None)?;
            }
        }
        Ok(())
    }
}
