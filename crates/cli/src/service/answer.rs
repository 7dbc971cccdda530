//! Answers to requests, as the server of a pool sends them and a command shows them.

use anyhow::{Result, anyhow};
use onefold_volume::{
    BadPage, Scrubbed, Statistics, Unanswered, Version, VolumeDetails, VolumeInfo,
};
use serde::{Deserialize, Serialize};

use super::fsck::ShownFsck;
use super::space::{ShownCycle, ShownStored};
use crate::count::count;

/// The result of a request.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", content = "value", rename_all = "snake_case")]
pub(crate) enum Answer {
    /// The request has begun; another answer follows.
    Begun,
    Done,
    Volumes(Vec<Shown>),
    Volume(ShownDetails),
    Checked(ShownCheck),
    Scrubbed(ShownScrub),
    Sums(Sums),
    GaveBack(u64),
    Fsck(ShownFsck),
    /// An error, then its causes.
    Refused(Vec<String>),
}

impl Answer {
    pub(crate) fn refused(why: &str) -> Self {
        Self::Refused(vec![why.to_owned()])
    }

    pub(crate) fn of_error(error: &anyhow::Error) -> Self {
        Self::Refused(error.chain().map(ToString::to_string).collect())
    }

    /// The answer, or the error that it is.
    pub(crate) fn accepted(self) -> Result<Self> {
        let Self::Refused(texts) = self else { return Ok(self) };
        let mut texts = texts.into_iter().rev();
        let innermost = texts.next().unwrap_or_else(|| "it was refused without a reason".into());
        Err(texts.fold(anyhow!(innermost), |error, text| error.context(text)))
    }
}

/// A volume in JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shown {
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) block_size: u32,
    pub(crate) is_read_only: bool,
    /// None in a list of a cluster, if the gateway that has the volume was not asked.
    pub(crate) mapped_blocks: Option<u64>,
    /// The gateway that has the volume, in a list of a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) gateway: Option<String>,
    /// In a cluster: the id of the volume's shard, and the bytes that this shard alone uses, once they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shard: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shard_unique_bytes: Option<u64>,
}

impl Shown {
    pub(crate) fn mapped_bytes(&self) -> Option<u64> {
        Some(self.mapped_blocks? * u64::from(self.block_size))
    }
}

impl From<VolumeInfo> for Shown {
    fn from(one: VolumeInfo) -> Self {
        Self {
            name: one.name,
            size: one.size,
            block_size: one.block_size,
            is_read_only: one.is_read_only,
            mapped_blocks: Some(one.mapped_blocks),
            gateway: None,
            shard: None,
            shard_unique_bytes: None,
        }
    }
}

/// A volume with the pages that only it uses, in JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShownDetails {
    #[serde(flatten)]
    pub(crate) volume: Shown,
    pub(crate) mapped_bytes: u64,
    pub(crate) own_pages: u64,
    pub(crate) own_bytes: u64,
    pub(crate) shared_pages: u64,
    pub(crate) shared_bytes: u64,
    pub(crate) dedup_ratio: f64,
    /// Seconds since 1970, if the clock told when it was made.
    pub(crate) made: Option<u64>,
    pub(crate) source: Option<String>,
    pub(crate) copies: Vec<String>,
}

impl From<VolumeDetails> for ShownDetails {
    fn from(one: VolumeDetails) -> Self {
        let made = (one.info.made > 0).then_some(one.info.made);
        let volume = Shown::from(one.info);
        Self {
            mapped_bytes: volume.mapped_bytes().unwrap_or_default(),
            dedup_ratio: ratio(
                volume.mapped_blocks.unwrap_or_default(),
                one.own_pages + one.shared_pages,
            ),
            volume,
            own_pages: one.own_pages,
            own_bytes: one.own_bytes,
            shared_pages: one.shared_pages,
            shared_bytes: one.shared_bytes,
            made,
            source: one.source,
            copies: one.copies,
        }
    }
}

/// The findings of a check, in JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShownCheck {
    pub(crate) pages: u64,
    /// Pages that were not compared, because they changed during the check.
    pub(crate) changed: u64,
    pub(crate) problems: Vec<String>,
    pub(crate) more: u64,
}

/// The findings of a scrub, in JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShownScrub {
    pub(crate) pages: u64,
    pub(crate) bad: Vec<ShownPage>,
    pub(crate) more: u64,
    /// Why maps could not be read to their end, if so.
    pub(crate) unread: Option<String>,
    /// Pages that could not be read just now, if so.
    #[serde(default)]
    pub(crate) unanswered: Option<ShownUnanswered>,
    /// In a cluster: the scrubs of gateways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cycle: Option<ShownCycle>,
}

impl ShownScrub {
    /// Whether all pages were read, and are as they were written.
    pub(crate) fn is_good(&self) -> bool {
        let are_good = self.bad.is_empty() && self.more == 0;
        are_good && self.unread.is_none() && self.unanswered.is_none()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShownUnanswered {
    pub(crate) pages: u64,
    pub(crate) problem: String,
}

impl ShownUnanswered {
    /// Those of two shards.
    pub(crate) fn joined(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        match (a, b) {
            (Some(a), Some(b)) => Some(Self { pages: a.pages + b.pages, ..a }),
            (a, b) => a.or(b),
        }
    }

    pub(crate) fn line(&self) -> String {
        let pages = count(self.pages, "page", "pages");
        format!("{pages} could not be read, and may be good: {}", self.problem)
    }
}

impl From<Unanswered> for ShownUnanswered {
    fn from(Unanswered { pages, problem }: Unanswered) -> Self {
        Self { pages, problem }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShownPage {
    pub(crate) container: String,
    pub(crate) slot: u32,
    pub(crate) problem: String,
    pub(crate) blocks: Vec<ShownBlock>,
    pub(crate) more_blocks: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShownBlock {
    pub(crate) volume: String,
    pub(crate) block: u64,
}

impl From<Scrubbed> for ShownScrub {
    fn from(found: Scrubbed) -> Self {
        let Scrubbed { pages, bad, more, unread, unanswered, is_stopped: _ } = found;
        let block = |(volume, block)| ShownBlock { volume, block };
        let page = |one: BadPage| ShownPage {
            container: one.container,
            slot: one.slot,
            problem: one.problem,
            blocks: one.blocks.into_iter().map(block).collect(),
            more_blocks: one.more_blocks,
        };
        let bad = bad.into_iter().map(page).collect();
        let unanswered = unanswered.map(Into::into);
        Self { pages, bad, more, unread, unanswered, cycle: None }
    }
}

/// Sums over a pool, in JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sums {
    pub(crate) format_version: u32,
    pub(crate) mapped_bytes: u64,
    pub(crate) pages: u64,
    pub(crate) page_bytes: u64,
    pub(crate) container_bytes: u64,
    pub(crate) reclaimable_bytes: u64,
    pub(crate) dedup_ratio: f64,
    pub(crate) total_reduction: f64,
    pub(crate) memory: MemoryUse,
    /// Volumes with lost pages, as far as gateways of a cluster found them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) damaged_volumes: Vec<String>,
    /// What all volumes of a cluster use together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cluster: Option<ShownStored>,
}

/// What of the memory of a pool is used, and what more would bring, in JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MemoryUse {
    /// Bytes of the table of fingerprints, and for how many pages that is.
    pub(crate) table_bytes: u64,
    pub(crate) table_capacity: u64,
    /// Bytes of maps and tables of pages.
    pub(crate) node_bytes: u64,
    /// How much of that is in memory, and how much may be.
    pub(crate) resident_node_bytes: u64,
    pub(crate) most_node_bytes: Option<u64>,
    /// Steps whose nodes were in memory, nodes that were read, and how many of these would not have been
    /// with twice the memory.
    pub(crate) node_hits: u64,
    pub(crate) node_misses: u64,
    pub(crate) node_misses_for_want: u64,
}

impl MemoryUse {
    pub(super) fn of(one: &Statistics) -> Self {
        const NODE: u64 = 4096;
        Self {
            table_bytes: one.table_bytes as u64,
            table_capacity: one.table_capacity as u64,
            node_bytes: one.nodes * NODE,
            resident_node_bytes: one.resident_nodes * NODE,
            most_node_bytes: one.most_nodes.map(|most| most.saturating_mul(NODE)),
            node_hits: one.node_hits,
            node_misses: one.node_misses,
            node_misses_for_want: one.node_misses_for_want,
        }
    }
}

impl MemoryUse {
    pub(super) fn joined(a: &Self, b: &Self) -> Self {
        let most = a.most_node_bytes.zip(b.most_node_bytes);
        Self {
            table_bytes: a.table_bytes + b.table_bytes,
            table_capacity: a.table_capacity + b.table_capacity,
            node_bytes: a.node_bytes + b.node_bytes,
            resident_node_bytes: a.resident_node_bytes + b.resident_node_bytes,
            most_node_bytes: most.map(|(a, b)| a.saturating_add(b)),
            node_hits: a.node_hits + b.node_hits,
            node_misses: a.node_misses + b.node_misses,
            node_misses_for_want: a.node_misses_for_want + b.node_misses_for_want,
        }
    }
}

impl Sums {
    /// The sums over two shards.
    pub(crate) fn joined(a: Self, b: Self) -> Self {
        let mapped_bytes = a.mapped_bytes + b.mapped_bytes;
        let container_bytes = a.container_bytes + b.container_bytes;
        // by the blocks that share a page
        let blocks = a.dedup_ratio * a.pages as f64 + b.dedup_ratio * b.pages as f64;
        let pages = a.pages + b.pages;
        Self {
            format_version: a.format_version,
            mapped_bytes,
            pages,
            page_bytes: a.page_bytes + b.page_bytes,
            container_bytes,
            reclaimable_bytes: a.reclaimable_bytes + b.reclaimable_bytes,
            dedup_ratio: if pages == 0 { 1.0 } else { blocks / pages as f64 },
            total_reduction: ratio(mapped_bytes, container_bytes),
            memory: MemoryUse::joined(&a.memory, &b.memory),
            damaged_volumes: sorted([a.damaged_volumes, b.damaged_volumes].concat()),
            cluster: a.cluster.or(b.cluster),
        }
    }

    pub(super) fn of(version: Version, one: &Statistics) -> Self {
        Self {
            format_version: version.code(),
            mapped_bytes: one.mapped_bytes,
            pages: one.pages,
            page_bytes: one.page_bytes,
            container_bytes: one.container_bytes,
            reclaimable_bytes: one.reclaimable_bytes,
            dedup_ratio: ratio(one.mapped_blocks, one.pages),
            total_reduction: ratio(one.mapped_bytes, one.container_bytes),
            memory: MemoryUse::of(one),
            damaged_volumes: Vec::new(),
            cluster: None,
        }
    }
}

/// Names of volumes in their order: answers of gateways come in any.
pub(super) fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

pub(super) fn ratio(of: u64, by: u64) -> f64 {
    if by == 0 { 1.0 } else { of as f64 / by as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_without_an_answer_are_neither_good_nor_lost() {
        let unanswered = Some(Unanswered { pages: 1, problem: "no answer".into() });
        let some = ShownScrub::from(Scrubbed { pages: 7, unanswered, ..Scrubbed::default() });
        assert!(!some.is_good());
        assert_eq!((&some.bad[..], some.more), (&[][..], 0));
        let line = some.unanswered.as_ref().unwrap().line();
        assert_eq!(line, "1 page could not be read, and may be good: no answer");
        let both = ShownUnanswered::joined(some.unanswered.clone(), some.unanswered.clone());
        assert_eq!(both.map(|both| both.pages), Some(2));
        for (a, b) in [(some.unanswered.clone(), None), (None, some.unanswered.clone())] {
            assert_eq!(ShownUnanswered::joined(a, b), some.unanswered);
        }
    }

    #[test]
    fn a_gateway_of_an_earlier_version_may_answer_without_them() {
        let said = r#"{"pages":7,"bad":[],"more":0,"unread":null}"#;
        let shown: ShownScrub = serde_json::from_str(said).unwrap();
        assert!(shown.is_good());
    }
}
