//! What has to be added to references whose nodes were not in memory.

use std::collections::BTreeMap;

use crate::nodes::format::NODE;

/// Additions to the references of a container's pages, by node, in the order in which they came.
#[derive(Debug, Default, Clone)]
pub(crate) struct Pending {
    by_node: BTreeMap<u32, Vec<(u32, i32)>>,
    len: usize,
}

impl Pending {
    /// The node of the container in which the references of `slot` are.
    pub(crate) fn node_of(slot: u32) -> u32 {
        slot / NODE as u32
    }

    /// How many additions there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn push(&mut self, slot: u32, times: i32) {
        self.by_node.entry(Self::node_of(slot)).or_default().push((slot, times));
        self.len += 1;
    }

    /// The nodes to whose references something has to be added.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = u32> {
        self.by_node.keys().copied()
    }

    /// Takes out what has to be added to references in `node`: the sum for each slot.
    pub(crate) fn take(&mut self, node: u32) -> Vec<(u32, i64)> {
        let mut taken = self.by_node.remove(&node).unwrap_or_default();
        self.len -= taken.len();
        taken.sort_unstable_by_key(|(slot, _)| *slot);
        let sum = |same: &[(u32, i32)]| {
            (same[0].0, same.iter().map(|(_, times)| i64::from(*times)).sum())
        };
        taken.chunk_by(|(one, _), (other, _)| one == other).map(sum).collect()
    }

    /// The sum of what has to be added to the references of `slot`.
    pub(crate) fn of(&self, slot: u32) -> i64 {
        let all = self.by_node.get(&Self::node_of(slot)).into_iter().flatten();
        all.filter(|(other, _)| *other == slot).map(|(_, times)| i64::from(*times)).sum()
    }

    /// All of them: slot and times.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, i32)> {
        self.by_node.values().flatten().copied()
    }
}
