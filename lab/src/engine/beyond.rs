//! Pools that do not fit their memory beside one that does, and both formats where they fit:
//! StreamDedup's figures 10 to 12 again, with a table that does not hold all pages.
//!
//! Each setting has a pool of its own with the same pages. Rounds are interleaved, so that a ratio is one
//! of samples that lie close to each other.

use std::path::Path;

use anyhow::{Context, Result};
use onefold_volume::{IndexLayout, Options, Version};
use serde::{Deserialize, Serialize};

use super::pool::{ENTRY_BYTES, Measured};
use super::{Plan, Throughput, VERIFIED, Work, remove, write_of};
use super::{Quantiles, ratio};
use onefold_bench::Pin;

/// Bytes that a page takes in nodes: its place and its references, and its block in the map, twice.
const NODE_BYTES: f64 = 4.0 * 8.0;

/// What a pool is given.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Setting {
    /// Format 1: maps and pages in memory, and a table with room for twice the pages.
    Whole,
    /// Format 2 with as much.
    Paged,
    /// Format 2 with an eighth of its nodes in memory, and as large a table.
    FewNodes,
    /// Format 2 with an eighth of its nodes in memory, and StreamDedup's table with room for a quarter of
    /// the pages.
    SmallTable,
    /// Format 2 with an eighth of its nodes in memory, and a table of hooks of the same bytes.
    Hooks,
}

impl Setting {
    const ALL: [Self; 5] =
        [Self::Whole, Self::Paged, Self::FewNodes, Self::SmallTable, Self::Hooks];

    fn version(self) -> Version {
        if self == Self::Whole { Version::Whole } else { Version::Paged }
    }

    fn options(self, known: u64) -> Options {
        let pages = known as f64;
        let entries = match self {
            Self::SmallTable | Self::Hooks => pages / 4.0,
            _ => 2.0 * pages,
        };
        let nodes = match self {
            Self::Whole | Self::Paged => 4.0,
            _ => 1.0 / 8.0,
        };
        Options {
            table_bytes: (entries * ENTRY_BYTES) as usize,
            node_bytes: (pages * NODE_BYTES * nodes) as u64,
            // so that a small pool does not fit either
            least_nodes: 20,
            index: if self == Self::Hooks { IndexLayout::Hooks } else { IndexLayout::Chained },
            ..Options::default()
        }
    }
}

/// What a pool did in one setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beyond {
    /// Which.
    pub setting: Setting,
    /// Bytes of the table, and bytes of nodes that it might have in memory.
    pub memory: (u64, u64),
    /// Each work.
    pub throughput: Vec<Throughput>,
    /// How many times as fast as [`Setting::Whole`], in the median of rounds, in the same order.
    pub against_whole: Vec<f64>,
    /// Pages of the workload that were known to the pool, and of them those that it found.
    pub known_and_found: (u64, u64),
    /// Nodes that were in memory, and those that were read.
    pub node_hits_and_misses: (u64, u64),
}

/// What comes in each round: figure 10 and 11 by the share of duplicates, figure 12 page by page.
fn contenders(depth: usize) -> Vec<Work> {
    let mut all: Vec<Work> = [1.0, 0.8, 0.5, 0.0].map(|share| write_of(share, depth)).into();
    all.extend([write_of(1.0, 1), write_of(0.0, 1), Work::Read]);
    all.push(Work::Erase { is_reclaimed: false });
    all
}

/// Measures in `directory`, which is emptied before and afterwards; `told` hears what is done.
///
/// # Errors
/// If a pool cannot be made, written or read, or gives other pages than were written.
pub fn measure_beyond(
    plan: &Plan,
    directory: &Path,
    mut told: impl FnMut(String),
) -> Result<Vec<Beyond>> {
    let _pin = Pin::to(1)?;
    remove(directory)?;
    let pages = plan.known.min(plan.operations);
    let mut pools = Vec::new();
    for setting in Setting::ALL {
        let folder = directory.join(format!("{setting:?}"));
        let pool = Measured::fill(&folder, plan.known, setting.version())?;
        let options = setting.options(plan.known);
        let memory = (options.table_bytes as u64, options.node_bytes);
        pools.push((setting, memory, pool.reopen_with(&folder, options)?, Vec::new(), (0, 0)));
        told(format!("{setting:?} is filled"));
    }
    for (.., all, _) in &mut pools {
        *all = contenders(plan.depth)
            .into_iter()
            .map(|work| Throughput {
                work,
                compresses: true,
                pages,
                seconds: Vec::new(),
                latencies: Vec::new(),
            })
            .collect();
    }
    let (works, count) = (contenders(plan.depth).len(), pools.len());
    for round in 0..plan.rounds as usize {
        for work in 0..works {
            for i in 0..count {
                let (setting, _, pool, all, found) = &mut pools[(i + round) % count];
                let one = &mut all[work];
                let (seconds, calls, sample) = sample(pool, one.work, pages)
                    .with_context(|| format!("{setting:?}, {:?}", one.work))?;
                *found = (found.0 + sample.0, found.1 + sample.1);
                one.seconds.push(seconds);
                if calls.len() as u64 == pages {
                    one.latencies.push(Quantiles::of(calls));
                }
            }
        }
        told(format!("round {}", round + 1));
    }
    let whole: Vec<Throughput> = pools[0].3.clone();
    let results = pools
        .into_iter()
        .map(|(setting, memory, pool, throughput, known_and_found)| {
            let against = |(one, whole)| ratio(one, whole);
            let against_whole = throughput.iter().zip(&whole).map(against).collect();
            let counted = pool.statistics();
            let node_hits_and_misses = (counted.node_hits, counted.node_misses);
            Beyond {
                setting,
                memory,
                throughput,
                against_whole,
                known_and_found,
                node_hits_and_misses,
            }
        })
        .collect();
    remove(directory)?;
    Ok(results)
}

/// Seconds, what each call took, and how many of the written pages the pool had and how many of them it
/// found.
fn sample(pool: &mut Measured, work: Work, pages: u64) -> Result<(f64, Vec<f64>, (u64, u64))> {
    let (before, new) = (pool.statistics(), pool.next_new());
    let (seconds, calls) = match work {
        Work::Write { duplicates, depth, .. } => pool.write(duplicates, pages, depth)?,
        Work::Erase { is_reclaimed } => pool.erase(is_reclaimed, pages)?,
        _ => pool.read(pages)?,
    };
    let had = match work {
        Work::Write { .. } => pages - (pool.next_new() - new),
        _ => 0,
    };
    let found = match work {
        Work::Write { .. } => pool.statistics().known_pages - before.known_pages,
        _ => 0,
    };
    pool.verify(VERIFIED)?;
    pool.make_known()?;
    Ok((seconds, calls, (had, found)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_found_less_often_and_read_right() {
        let folder = tempfile::tempdir().unwrap();
        let plan = Plan {
            known: 6000,
            operations: 700,
            rounds: 2,
            depth: 16,
            seconds: 0.02,
            has_openssl: false,
        };
        let all = measure_beyond(&plan, &folder.path().join("pools"), |_| {}).unwrap();
        assert!(!folder.path().join("pools").exists());
        assert_eq!(all.len(), Setting::ALL.len());
        for one in &all {
            assert!(one.throughput.iter().all(|work| work.seconds.len() == 2), "{one:?}");
            assert!(one.against_whole.iter().all(|ratio| *ratio > 0.0), "{one:?}");
        }
        assert!(all[0].against_whole.iter().all(|ratio| *ratio == 1.0));
        let (had, found) = all[1].known_and_found;
        assert_eq!(had, found, "a table with room for all finds all");
        let (had, found) = all[3].known_and_found;
        assert!(found < had, "a table with room for a quarter finds {found} of {had}");
        assert!(all[2].node_hits_and_misses.1 > all[1].node_hits_and_misses.1);
    }
}
