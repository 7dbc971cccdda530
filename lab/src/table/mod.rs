//! How fast the tables in memory are, half full and full, one thread, whatever memory costs; and what a
//! full one costs a pool ([`measure_table_loss`]).
//!
//! Keys are numbers made into fingerprints before the clock starts, in no order. Each answer is
//! compared with what it has to be.

mod loss;
mod probed;

use std::time::Instant;

use anyhow::{Result, ensure};
use onefold_fingerprint::Fingerprint;
use onefold_index::{ChainedTable, CompactTable, HookTable, Inserted, Table};
use serde::{Deserialize, Serialize};

pub use loss::{Images, LossLayout, LossPlan, TableLoss, measure_table_loss};
pub use probed::ProbedTable;

use crate::index::{fingerprint, mixed};

/// Keys that are made at a time: few enough to stay in the second cache.
const BLOCK: u64 = 4096;

/// A layout of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// StreamDedup's: buckets with a filter, entries of a cache line in chains.
    Chained,
    /// The same without filters.
    ChainedNoFilters,
    /// Shortened entries in one of two buckets.
    Compact,
    /// The same, which is sampled when it is full.
    Hooks,
    /// Open addressing with linear probing: StreamDedup's baseline on CPUs.
    Probed,
}

impl Layout {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Chained, Self::ChainedNoFilters, Self::Compact, Self::Hooks, Self::Probed];

    /// Whether it is measured when this share of its room is in use. Looking up what is not there takes
    /// `(1 + 1 / (1 - fill)^2) / 2` steps of linear probing (Knuth, volume 3, 6.4): 20,000 at 99.5 %.
    fn is_measured_at(self, fill: f64) -> bool {
        self != Self::Probed || fill <= 0.95
    }

    /// A table with at least so many entries.
    fn table(self, entries: u64) -> Result<Box<dyn Table>> {
        let bytes = |an_entry: f64| (entries as f64 * an_entry) as usize + (8 << 10);
        Ok(match self {
            Self::Chained => Box::new(ChainedTable::new(bytes(66.2))?),
            Self::ChainedNoFilters => Box::new(ChainedTable::without_filters(bytes(66.2))?),
            Self::Compact => Box::new(CompactTable::new(bytes(25.7))?),
            Self::Hooks => Box::new(HookTable::new(bytes(25.7))?),
            Self::Probed => Box::new(ProbedTable::new(entries as usize)?),
        })
    }
}

/// What is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Entries that a table has room for.
    pub entries: u64,
    /// Shares of the room at which it is measured, ascending.
    pub fills: Vec<f64>,
    /// How many operations of each kind at each fill.
    pub operations: u64,
    /// How often.
    pub rounds: u32,
}

/// One table at one fill.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Which layout.
    pub layout: Layout,
    /// Room for so many entries.
    pub capacity: u64,
    /// Bytes of memory.
    pub bytes: u64,
    /// Entries that are there.
    pub entries: u64,
    /// Entries that found no room on the way to this fill, or for which others went.
    pub refused: u64,
    /// By kind.
    pub speeds: Vec<Speed>,
    /// Walks that a filter caused for nothing, of all operations that were measured.
    pub false_positives: u64,
}

/// How long one kind of operation took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// Which.
    pub work: Work,
    /// How many in each round.
    pub count: u64,
    /// Seconds, one a round.
    pub seconds: Vec<f64>,
}

impl Speed {
    /// In the median round.
    pub fn per_second(&self) -> f64 {
        let mut seconds = self.seconds.clone();
        seconds.sort_by(f64::total_cmp);
        self.count as f64 / seconds[seconds.len() / 2]
    }
}

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Looking up what is there, one after another.
    Known,
    /// Looking up what is not there.
    Absent,
    /// Looking up what is there, many at a time.
    KnownBatched,
    /// Looking up what is not there, many at a time.
    AbsentBatched,
    /// Entering what is not there.
    Insert,
    /// Taking out what was entered.
    Remove,
    /// Entering what is not there, many at a time; it is taken out again off the clock.
    InsertBatched,
}

/// Measures each of `layouts`; `told` hears of each fill as it is reached.
pub fn measure_tables(
    plan: &Plan,
    layouts: &[Layout],
    mut told: impl FnMut(&Measured),
) -> Result<Vec<Measured>> {
    ensure!(plan.fills.is_sorted() && plan.rounds > 0, "fills ascend, and there are rounds");
    let mut measured = Vec::new();
    for &layout in layouts {
        let table = layout.table(plan.entries)?;
        // numbers of the keys that are in are 0 to `tried`, but for those that were refused
        let mut tried = 0;
        for (turn, fill) in (0..).zip(&plan.fills).filter(|(_, fill)| layout.is_measured_at(**fill))
        {
            let wanted = (table.capacity() as f64 * fill) as u64;
            let before = table.counters();
            while tried < wanted {
                let end = wanted.min(tried + BLOCK);
                let block: Vec<_> = (tried..end).map(|i| (fingerprint(i), i)).collect();
                table.insert_many(&block);
                tried = end;
            }
            let filled = table.counters();
            let speeds = speeds(&*table, tried, plan, turn)?;
            let one = Measured {
                layout,
                capacity: table.capacity() as u64,
                bytes: table.bytes() as u64,
                entries: table.count() as u64,
                refused: (filled.refused + filled.passed_over)
                    - (before.refused + before.passed_over),
                speeds,
                false_positives: table.counters().false_positives - filled.false_positives,
            };
            told(&one);
            measured.push(one);
        }
    }
    Ok(measured)
}

fn speeds(table: &dyn Table, tried: u64, plan: &Plan, turn: u64) -> Result<Vec<Speed>> {
    use Work::{Absent, AbsentBatched, Insert, InsertBatched, Known, KnownBatched, Remove};
    let all = [Known, Absent, KnownBatched, AbsentBatched, Insert, Remove, InsertBatched];
    let mut speeds = all.map(|work| {
        let count = match work {
            // so few that the table stays as full as it is
            Insert | Remove => plan.operations.min(table.capacity() as u64 / 1000),
            _ => plan.operations,
        };
        Speed { work, count, seconds: Vec::new() }
    });
    // What is entered was never there before: what was removed leaves bits in filters.
    let rounds = u64::from(plan.rounds);
    for round in turn * rounds..(turn + 1) * rounds {
        for speed in &mut speeds {
            speed.seconds.push(seconds(table, tried, speed.work, speed.count, round)?);
        }
    }
    Ok(speeds.into())
}

/// Seconds that `count` operations take of one kind.
fn seconds(table: &dyn Table, tried: u64, work: Work, count: u64, round: u64) -> Result<f64> {
    let number = |i: u64| match work {
        Work::Known | Work::KnownBatched => mixed(i ^ round << 40 ^ 1 << 60) % tried,
        Work::Absent | Work::AbsentBatched => (1 << 50) + round * count + i,
        Work::Insert | Work::Remove => (1 << 51) + round * count + i,
        Work::InsertBatched => (1 << 52) + round * count + i,
    };
    let mut handles = vec![None; BLOCK as usize];
    let mut taken = 0.0;
    let mut wrong = 0;
    let mut done = 0;
    while done < count {
        let numbers: Vec<u64> = (done..count.min(done + BLOCK)).map(number).collect();
        let keys: Vec<Fingerprint> = numbers.iter().map(|&number| fingerprint(number)).collect();
        let handles = &mut handles[..keys.len()];
        let entries: Vec<(Fingerprint, u64)> =
            keys.iter().copied().zip(numbers.iter().copied()).collect();
        let begun = Instant::now();
        match work {
            Work::InsertBatched => {
                table.insert_many(&entries);
            }
            Work::Known | Work::Absent => {
                for (key, handle) in keys.iter().zip(&mut *handles) {
                    *handle = table.get(key);
                }
            }
            Work::KnownBatched | Work::AbsentBatched => table.get_many(&keys, handles),
            Work::Insert => {
                for ((key, &number), handle) in keys.iter().zip(&numbers).zip(&mut *handles) {
                    let is_refused = table.insert(key, number) == Inserted::Full;
                    *handle = (!is_refused).then_some(number);
                }
            }
            Work::Remove => {
                for (key, handle) in keys.iter().zip(&mut *handles) {
                    *handle = table.remove(key);
                }
            }
        }
        taken += begun.elapsed().as_secs_f64();
        if work == Work::InsertBatched {
            for (key, handle) in keys.iter().zip(&mut *handles) {
                *handle = table.remove(key);
            }
        }
        let counters = table.counters();
        let has_missed = counters.refused + counters.passed_over > 0;
        for (handle, &number) in handles.iter().zip(&numbers) {
            // a full table refuses some or drops others, which then cannot be found
            let may_miss = !matches!(work, Work::Absent | Work::AbsentBatched);
            let is_right = match handle {
                Some(found) => *found == number && may_miss,
                None => !may_miss || has_missed,
            };
            wrong += u64::from(!is_right);
        }
        done += keys.len() as u64;
    }
    ensure!(wrong == 0, "{wrong} of {count} answers are wrong ({work:?})");
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_is_measured_and_answers_right() {
        let plan = Plan { entries: 20_000, fills: vec![0.5, 0.9], operations: 1500, rounds: 2 };
        let mut told = 0;
        let measured = measure_tables(&plan, &Layout::ALL, |_| told += 1).unwrap();
        assert_eq!((told, measured.len()), (10, 10));
        for one in &measured {
            assert!(one.speeds.iter().all(|speed| speed.seconds.len() == 2), "{one:?}");
            assert!(one.entries + one.refused >= one.capacity / 2 - 1, "{one:?}");
        }
    }
}
