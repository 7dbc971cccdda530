//! The speeds that were set as goals before the kernels were written, and whether they are reached.

use onefold_bench::Outcome;
use serde::{Deserialize, Serialize};

use crate::ours::{LIMIT, is_by_wall};
use crate::restic;

/// How many times as fast one contender is to be as another.
struct Goal {
    measured: &'static str,
    against: &'static str,
    at_least: f64,
    on: On,
}

#[derive(Clone, Copy, PartialEq)]
enum On {
    All,
    RandomData,
}

/// What came of a goal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Reached {
    pub(crate) measured: String,
    pub(crate) against: String,
    pub(crate) at_least: f64,
    pub(crate) reached: f64,
    pub(crate) met: bool,
}

const fn goal(measured: &'static str, against: &'static str, at_least: f64) -> Goal {
    Goal { measured, against, at_least, on: On::All }
}

const GOALS: &[Goal] = &[
    goal("ram", LIMIT, 0.65),
    // its window ends early at a byte 255, which text has not
    Goal { measured: "ram", against: LIMIT, at_least: 1.5, on: On::RandomData },
    goal("ae-max", LIMIT, 0.65),
    goal("maxp", LIMIT, 0.45),
    goal("mincdc", "mincdc crate", 1.0),
    goal("mincdc", "mothcdc crate", 1.0),
    goal("gear16", "fastcdc crate v2020", 5.0),
    goal("gear16, avx2", "fastcdc crate v2020", 2.3),
    goal("preset fastcdc-2020", "fastcdc crate v2020", 1.4),
    goal("preset fastcdc-2016", "fastcdc crate v2016", 1.4),
    goal("gear", "gearhash crate", 1.4),
    goal("preset xet", "gearhash crate", 1.4),
    goal("seqcdc-inc", LIMIT, 0.25),
    goal("seqcdc-inc", "cdc-chunkers SeqCDC", 1.0),
    goal("preset restic", "rustic_cdc", 1.0),
    goal("preset restic, 1 MiB", "rustic_cdc, 1 MiB", 1.0),
    goal("preset restic, 1 MiB", restic::NAME, 1.0),
    goal("rabin", "rustic_cdc", 1.0),
    goal("tttd", "rustic_cdc", 1.0),
    goal("buzhash", "cdchunking ZPAQ", 1.0),
    goal("crc", "cdchunking ZPAQ", 1.0),
    goal("pci", "cdchunking ZPAQ", 1.0),
    goal("mii", "cdchunking ZPAQ", 1.0),
    goal("bfbc", "cdchunking ZPAQ", 1.0),
    goal("rabin, scalar, 2 threads", "rabin, scalar", 1.8),
    goal("fastcdc, scalar, 2 threads", "fastcdc, scalar", 1.8),
    goal("gear, scalar, 2 threads", "gear, scalar", 1.8),
    // what a second thread is worth on this machine at this time
    goal("rabin, scalar, 2 threads", "rabin, scalar, halves, 2 threads", 0.95),
    goal("fastcdc, scalar, 2 threads", "fastcdc, scalar, halves, 2 threads", 0.95),
    goal("gear, scalar, 2 threads", "gear, scalar, halves, 2 threads", 0.95),
];

/// Every goal of which both sides took part.
pub(crate) fn reached(outcomes: &[Outcome], is_random: bool) -> Vec<Reached> {
    let applies = |goal: &&Goal| goal.on == On::All || is_random;
    GOALS.iter().filter(applies).filter_map(|goal| goal.reached(outcomes)).collect()
}

/// The rival that the goals name for a contender on one thread, if any.
pub(crate) fn rival_of(contender: &str) -> Option<&'static str> {
    let of_same = |goal: &&Goal| {
        let is_rival = goal.against != LIMIT && !is_by_wall(contender);
        is_rival && is_on_a_kernel(contender, goal.measured)
    };
    GOALS.iter().find(of_same).map(|goal| goal.against)
}

impl Goal {
    fn reached(&self, outcomes: &[Outcome]) -> Option<Reached> {
        let measured = fastest(self.measured, outcomes)?;
        let against = outcomes.iter().find(|outcome| outcome.name == self.against)?;
        let reached = if is_by_wall(&measured.name) || is_by_wall(self.against) {
            against.seconds().median / measured.seconds().median
        } else {
            against.thread_seconds().median / measured.thread_seconds().median
        };
        Some(Reached {
            measured: measured.name.clone(),
            against: self.against.into(),
            at_least: self.at_least,
            reached,
            met: reached >= self.at_least,
        })
    }
}

/// The contender of that name, or else the first on a kernel: they are listed the fastest first.
fn fastest<'a>(name: &str, outcomes: &'a [Outcome]) -> Option<&'a Outcome> {
    outcomes.iter().find(|outcome| is_on_a_kernel(&outcome.name, name))
}

/// Whether `contender` is `name` itself, or `name, ` and a kernel.
fn is_on_a_kernel(contender: &str, name: &str) -> bool {
    let kernel = contender.strip_prefix(name);
    kernel.is_some_and(|rest| {
        rest.is_empty() || rest.strip_prefix(", ").is_some_and(|kernel| !kernel.contains(','))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_for_the_algorithm_and_not_for_those_whose_names_begin_alike() {
        assert!(is_on_a_kernel("gear, scalar", "gear"));
        assert!(is_on_a_kernel("gear16, avx2", "gear16, avx2"));
        assert!(!is_on_a_kernel("gear16, avx2", "gear"));
        assert!(!is_on_a_kernel("gear, scalar, 2 threads", "gear"));
        assert_eq!(rival_of("preset restic, 1 MiB, scalar"), Some("rustic_cdc, 1 MiB"));
        assert_eq!(rival_of("preset restic, scalar"), Some("rustic_cdc"));
        assert_eq!(rival_of("ram, avx2"), None);
        assert_eq!(rival_of("gear, scalar, 2 threads"), None);
    }
}
