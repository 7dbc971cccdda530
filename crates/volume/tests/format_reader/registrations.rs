//! "Containers of other pools" of docs/pool-format.md: records 20 and 21.

use std::collections::{BTreeMap, BTreeSet};

use super::Fields;

/// Who made a container: shard, writer, number.
pub type Name = ([u8; 16], u64, u64);

/// How far a registration is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Creating,
    Registering,
    Registered,
    Dropping,
}

/// Registrations by number: the writer that registers, the container if the pool did not make it, the stage.
#[derive(Debug, Default)]
pub struct Registrations {
    pub all: BTreeMap<u32, (u64, Option<Name>, Stage)>,
    /// Numbers that were announced: none is used twice.
    used: BTreeSet<u32>,
}

impl Registrations {
    /// What records 20 and 21 say, which follow each other in `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        let (mut found, mut fields) = (Self::default(), Fields(bytes));
        while !fields.0.is_empty() {
            let kind = fields.u8();
            found.take(kind, &mut fields);
        }
        found
    }

    /// Record 20 or 21, behind its kind.
    fn take(&mut self, kind: u8, fields: &mut Fields<'_>) {
        let container = fields.container();
        match (kind, fields.u8()) {
            (20, 1) => self.begin(container, (from_1(fields), None, Stage::Creating)),
            (20, 2) => {
                let writer = from_1(fields);
                let name = (fields.array(), from_1(fields), from_1(fields));
                self.begin(container, (writer, Some(name), Stage::Registering));
            }
            (20, 3) => self.all.get_mut(&container).expect("it was announced").2 = Stage::Dropping,
            (21, 1) => {
                let stage = &mut self.all.get_mut(&container).expect("it was announced").2;
                assert!(matches!(stage, Stage::Creating | Stage::Registering));
                *stage = Stage::Registered;
            }
            (21, 0) => drop(self.all.remove(&container).expect("it was announced")),
            what => panic!("{what:?} of a registration"),
        }
    }

    fn begin(&mut self, container: u32, one: (u64, Option<Name>, Stage)) {
        assert!(self.used.insert(container), "number {container} is used again");
        self.all.insert(container, one);
    }
}

fn from_1(fields: &mut Fields<'_>) -> u64 {
    let number = fields.varint();
    assert!((1..1 << 63).contains(&number));
    number
}
