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
    /// How many of these are leaks.
    #[serde(default)]
    pub(crate) more_leaks: u64,
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
        let (named, further) = checked.problems.split_at(checked.problems.len().min(MOST));
        let more_leaks = further.iter().filter(|one| one.is_leak()).count() as u64;
        Self {
            containers: checked.containers,
            problems: named.iter().map(problem).collect(),
            more: further.len() as u64,
            more_leaks,
            shards,
        }
    }

    /// Adds what another check of the same containers found by other shards. Some problems all of them see.
    pub(crate) fn join(&mut self, other: Self) {
        self.containers = self.containers.max(other.containers);
        self.more += other.more;
        self.more_leaks += other.more_leaks;
        self.shards.extend(other.shards);
        for one in other.problems {
            match self.problems.iter_mut().find(|known| known.problem == one.problem) {
                Some(known) => known.is_repaired |= one.is_repaired,
                None => self.problems.push(one),
            }
        }
    }

    /// How many problems are leaks, and how many are not.
    #[cfg(feature = "cluster")]
    pub(crate) fn leaks_and_others(&self) -> (u64, u64) {
        let leaks = self.problems.iter().filter(|one| one.is_leak).count() as u64 + self.more_leaks;
        (leaks, self.problems.len() as u64 + self.more - leaks)
    }

    /// The problems that are no leaks, as far as they are named.
    #[cfg(feature = "cluster")]
    pub(crate) fn damage(&self) -> Vec<String> {
        self.problems.iter().filter(|one| !one.is_leak).map(|one| one.problem.clone()).collect()
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
    #[cfg(feature = "cluster")]
    fn leaks_that_are_not_named_count_as_leaks() {
        use onefold_cluster::hints::ContainerName;
        use onefold_seal::ObjectId;
        let shard = ObjectId::from_bytes([1; ObjectId::LEN]);
        let container = |number| ContainerName { shard, writer: 1, number };
        let leak = |number| Problem::Unused { container: container(number) };
        let mut problems: Vec<_> = (0..MOST as u64 + 7).map(leak).collect();
        let missing = |number| Problem::Missing { container: container(number) };
        problems.extend((0..3).map(missing));
        let checked = Checked { problems, ..Checked::default() };
        let mut found = ShownFsck::of(&checked, false, Vec::new());
        assert_eq!((found.problems.len(), found.more, found.more_leaks), (MOST, 10, 7));
        assert_eq!(found.leaks_and_others(), (MOST as u64 + 7, 3));
        // the other check sees the same leaks; those that are not named cannot be compared
        found.join(ShownFsck::of(&checked, false, Vec::new()));
        assert_eq!(found.leaks_and_others(), (MOST as u64 + 14, 6));
    }

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
            more_leaks: 0,
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
