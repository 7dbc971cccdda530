//! What the journal of a shard says of its registrations in containers that shards share.
//!
//! A registration goes through the stages of docs/decisions/0053-cluster-core.md. Its number is that of the
//! container in this pool, and no number is given out twice.

use std::collections::BTreeMap;

use onefold_seal::ObjectId;

use crate::ids::{SharedName, Writer};
use crate::journal::record::{Announced, Record};

/// How far a registration is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Announced: the pool makes the container.
    Creating,
    /// Announced: the pool registers.
    Registering,
    /// Known to be registered. Only now may maps name pages of the container.
    Registered,
    /// Announced: the pool does without it. No map names a page of the container.
    Dropping,
}

/// A registration that is not settled as gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Registration {
    /// The container.
    pub(crate) name: SharedName,
    /// The writer that registers.
    pub(crate) writer: Writer,
    /// Whether the pool did not make the container under this number.
    pub(crate) is_foreign: bool,
    pub(crate) stage: Stage,
    /// Whether the container is known to have the registration, of which no record says so yet.
    pub(crate) is_answered: bool,
}

/// All registrations of a pool, by number.
#[derive(Debug, Default)]
pub(crate) struct Registrations {
    all: BTreeMap<u32, Registration>,
    numbers: BTreeMap<SharedName, u32>,
}

impl Registrations {
    /// Takes up what record 20 says. `own` is the pool. False if it cannot be: the number was announced
    /// before, or to be dropped it was not; or the container has a registration that is not settled.
    pub(crate) fn announce(&mut self, own: ObjectId, number: u32, what: Announced) -> bool {
        let (name, writer, is_foreign, stage) = match what {
            Announced::Create(writer) => {
                let name = SharedName { shard: own, writer, number: number.into() };
                (name, writer, false, Stage::Creating)
            }
            Announced::Register(writer, name) => (name, writer, true, Stage::Registering),
            Announced::Drop => {
                let Some(one) = self.all.get_mut(&number) else { return false };
                one.stage = Stage::Dropping;
                return true;
            }
        };
        if self.all.contains_key(&number) || self.numbers.contains_key(&name) {
            return false;
        }
        self.numbers.insert(name, number);
        let one = Registration { name, writer, is_foreign, stage, is_answered: false };
        self.all.insert(number, one);
        true
    }

    /// Takes up what record 21 says. False if nothing was announced.
    pub(crate) fn settle(&mut self, number: u32, is_registered: bool) -> bool {
        let Some(one) = self.all.get_mut(&number) else { return false };
        if is_registered {
            let is_new = matches!(one.stage, Stage::Creating | Stage::Registering);
            one.stage = Stage::Registered;
            return is_new;
        }
        self.numbers.remove(&one.name);
        self.all.remove(&number);
        true
    }

    /// The guard of the container has the registration.
    pub(crate) fn note_answered(&mut self, number: u32) {
        if let Some(one) = self.all.get_mut(&number) {
            one.is_answered = true;
        }
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Registration> {
        self.all.get(&number)
    }

    /// The registration in container `name`, and its number.
    pub(crate) fn of(&self, name: &SharedName) -> Option<(u32, &Registration)> {
        let number = self.numbers.get(name)?;
        Some((*number, self.all.get(number)?))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Registration)> {
        self.all.iter().map(|(number, one)| (*number, one))
    }

    /// What a checkpoint says of them.
    pub(crate) fn records(&self) -> Vec<Record> {
        let mut records = Vec::with_capacity(2 * self.all.len());
        for (&container, one) in &self.all {
            let what = match one.is_foreign {
                true => Announced::Register(one.writer, one.name),
                false => Announced::Create(one.writer),
            };
            records.push(Record::Announce { container, what });
            match one.stage {
                Stage::Creating | Stage::Registering => {}
                Stage::Registered => {
                    records.push(Record::Settle { container, is_registered: true });
                }
                Stage::Dropping => {
                    records.push(Record::Announce { container, what: Announced::Drop });
                }
            }
        }
        records
    }
}
