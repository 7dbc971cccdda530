//! What the containers of a cluster hold, and how they were scrubbed, in JSON and as text.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use indicatif::HumanBytes;
#[cfg(feature = "cluster")]
use onefold_cluster::{Care, ScrubCycle, Stored};
use onefold_store::tree::Time;
#[cfg(feature = "cluster")]
use onefold_volume::VolumeError;
use serde::{Deserialize, Serialize};

use crate::count::count;
use crate::ratio;
use crate::time;

/// What the containers of a cluster hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShownStored {
    /// Bytes of all containers, by the last count and what gateways said since.
    pub(crate) stored_bytes: u64,
    /// Bytes of containers that several shards use, at the last count.
    pub(crate) shared_bytes: u64,
    /// Bytes that one shard each uses alone, at the last count.
    pub(crate) unique_bytes: u64,
    /// Containers at the last count.
    pub(crate) containers: u64,
    /// Bytes of all volumes, snapshots and clones without holes, at the last count.
    #[serde(default)]
    pub(crate) logical_bytes: Option<u64>,
    /// How many times as much that is as what is stored.
    #[serde(default)]
    pub(crate) total_reduction: Option<f64>,
    /// Seconds since 1970; none if nothing was counted yet.
    pub(crate) counted: Option<u64>,
    /// The most that containers may have together.
    pub(crate) quota: Option<u64>,
}

/// Scrubs of all containers by the gateways.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShownCycle {
    /// The number of the last cycle that began.
    pub(crate) cycle: u64,
    /// Seconds since 1970.
    pub(crate) begun: u64,
    /// When the last complete cycle ended; none if none did.
    pub(crate) ended: Option<u64>,
    pub(crate) is_running: bool,
    /// Containers that this cycle has read, and how many of them are damaged.
    pub(crate) containers: u64,
    pub(crate) damaged: u64,
}

#[cfg(feature = "cluster")]
fn seconds(milliseconds: u64) -> Option<u64> {
    (milliseconds > 0).then_some(milliseconds / 1000)
}

/// A time in seconds since 1970, for people.
fn local(seconds: u64) -> String {
    time::local(Time { secs: i64::try_from(seconds).unwrap_or(i64::MAX), nanos: 0 })
}

impl ShownStored {
    /// What is stored now.
    #[cfg(feature = "cluster")]
    pub(crate) fn of(care: &Care) -> Result<Self, VolumeError> {
        let Stored { bytes, shared_bytes, containers, counted, quota } = care.stored()?;
        let unique = care.shard_space()?.values().map(|one| one.unique_bytes).sum();
        let logical_bytes = care.mapped_bytes()?;
        let reduction = |logical: u64| (bytes > 0).then(|| logical as f64 / bytes as f64);
        Ok(Self {
            stored_bytes: bytes,
            shared_bytes,
            unique_bytes: unique,
            containers,
            logical_bytes,
            total_reduction: logical_bytes.and_then(reduction),
            counted: seconds(counted),
            quota,
        })
    }

    /// Names and values.
    pub(crate) fn rows(&self) -> Vec<(&'static str, String)> {
        let counted = match self.counted {
            Some(counted) => local(counted),
            None => "not yet: the first gateway that serves counts".to_owned(),
        };
        let quota = match self.quota {
            None => "none".to_owned(),
            Some(quota) => {
                let part = 100.0 * self.stored_bytes as f64 / quota.max(1) as f64;
                format!("{}, {part:.0} % used", HumanBytes(quota))
            }
        };
        let logical = match self.logical_bytes {
            None => "not counted yet".to_owned(),
            Some(bytes) => HumanBytes(bytes).to_string(),
        };
        let reduction = self.total_reduction.map_or_else(|| "not known".to_owned(), ratio::times);
        vec![
            ("in all volumes", logical),
            ("ratio over all", reduction),
            ("stored", HumanBytes(self.stored_bytes).to_string()),
            ("of it shared", HumanBytes(self.shared_bytes).to_string()),
            ("of one shard each", HumanBytes(self.unique_bytes).to_string()),
            ("counted", counted),
            ("quota", quota),
        ]
    }
}

impl ShownCycle {
    /// The cycle that runs or that ran last, if there was one.
    #[cfg(feature = "cluster")]
    pub(crate) fn of(care: &Care) -> Result<Option<Self>, VolumeError> {
        let shown = |one: ScrubCycle| Self {
            cycle: one.cycle,
            begun: one.begun / 1000,
            ended: seconds(one.ended),
            is_running: one.is_running,
            containers: one.containers,
            damaged: one.damaged,
        };
        Ok(care.scrub_cycle()?.map(shown))
    }

    /// What is said of it.
    pub(crate) fn line(&self) -> String {
        let ended = match self.ended {
            Some(ended) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let since = now.saturating_sub(Duration::from_secs(ended));
                format!("ended {} ({:.1} days ago)", local(ended), since.as_secs_f64() / 86_400.0)
            }
            None => "none ended yet".to_owned(),
        };
        let containers = count(self.containers, "container", "containers");
        let damaged = match self.damaged {
            0 => String::new(),
            damaged => format!(", {damaged} of them damaged"),
        };
        match self.is_running {
            true => format!("{ended}; one is running, which has read {containers}{damaged}"),
            false => format!("{ended}: {containers}{damaged}"),
        }
    }
}
