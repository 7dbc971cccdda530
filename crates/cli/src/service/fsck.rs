//! What a check of the containers of a cluster found, as it travels and is shown.

#[cfg(feature = "cluster")]
use onefold_cluster::containers::{Checked, Problem};
use serde::{Deserialize, Serialize};

/// Problems that are named; the others are counted.
#[cfg(feature = "cluster")]
const MOST: usize = 10_000;

/// The findings of a check of containers, in JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShownFsck {
    /// Containers that were looked at.
    pub(crate) containers: u64,
    pub(crate) problems: Vec<ShownProblem>,
    /// The number of further problems.
    pub(crate) more: u64,
    /// The ids of the shards whose journals were compared.
    pub(crate) shards: Vec<String>,
}

/// Something wrong with a container, in JSON.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ShownProblem {
    pub(crate) problem: String,
    /// Whether it only costs space, and a repair removes it.
    pub(crate) is_leak: bool,
    pub(crate) is_repaired: bool,
}

impl ShownFsck {
    /// What was found by what the journals of `shards` say, in a check that was not stopped.
    #[cfg(feature = "cluster")]
    pub(crate) fn of(checked: &Checked, is_repair: bool, shards: Vec<String>) -> Self {
        let problem = |one: &Problem| ShownProblem {
            problem: one.to_string(),
            is_leak: one.is_leak(),
            is_repaired: is_repair && one.is_leak(),
        };
        let more = checked.problems.len().saturating_sub(MOST) as u64;
        let problems = checked.problems.iter().take(MOST).map(problem).collect();
        Self { containers: checked.containers, problems, more, shards }
    }

    /// Adds what another check of the same containers found by other shards. Some problems all of them see.
    pub(crate) fn join(&mut self, other: Self) {
        self.containers = self.containers.max(other.containers);
        self.more += other.more;
        self.shards.extend(other.shards);
        for one in other.problems {
            match self.problems.iter_mut().find(|known| known.problem == one.problem) {
                Some(known) => known.is_repaired |= one.is_repaired,
                None => self.problems.push(one),
            }
        }
    }

    /// Whether problems are left.
    pub(crate) fn has_problems(&self) -> bool {
        self.more > 0 || self.problems.iter().any(|one| !one.is_repaired)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_gateways_see_is_told_once() {
        let problem = |problem: &str, is_repaired| ShownProblem {
            problem: problem.into(),
            is_leak: true,
            is_repaired,
        };
        let of = |problems: Vec<ShownProblem>, shard: &str| ShownFsck {
            containers: 3,
            problems,
            more: 0,
            shards: vec![shard.into()],
        };
        let mut whole = of(vec![problem("a", false)], "1");
        whole.join(of(vec![problem("a", true), problem("b", true)], "2"));
        assert_eq!(whole.problems, [problem("a", true), problem("b", true)]);
        assert_eq!((whole.containers, whole.shards.len()), (3, 2));
        assert!(!whole.has_problems());
        whole.join(of(vec![problem("c", false)], "3"));
        assert!(whole.has_problems());
    }
}
