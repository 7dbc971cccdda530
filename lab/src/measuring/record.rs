//! The form of a record of backups, restores and volumes as programs: what was run, on what, with which
//! raw samples.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use xtask::record::{self, Commit, Machine};

use super::measure::Usage;

/// One measurement: what was run, on what, with which raw samples of the kind `S`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record<S> {
    pub(crate) name: String,
    pub(crate) command_line: String,
    /// UTC, RFC 3339, when the record was written.
    pub(crate) date: String,
    pub(crate) commit: Commit,
    #[serde(flatten)]
    pub(crate) machine: Machine,
    pub(crate) rustc_version: String,
    /// Which of the data were in memory when a phase began.
    pub(crate) cache_state: String,
    pub(crate) dataset: Dataset,
    /// Version of each tool, in its own words.
    pub(crate) tools: BTreeMap<String, String>,
    pub(crate) samples: Vec<S>,
    /// What a reader must know to compare the numbers fairly.
    pub(crate) notes: Vec<String>,
}

/// The data that were measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Dataset {
    pub(crate) name: String,
    /// See `digest::of_tree`.
    pub(crate) digest: String,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

/// One run of one tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) tool: String,
    pub(crate) phase: String,
    /// From 1.
    pub(crate) round: u32,
    /// Wall time.
    pub(crate) seconds: f64,
    pub(crate) user_seconds: f64,
    pub(crate) system_seconds: f64,
    pub(crate) peak_rss_bytes: u64,
    /// Size of the repository after the run.
    pub(crate) stored_bytes: u64,
    /// Bytes that a stage took in, where a stage and not a program was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stage_bytes: Option<u64>,
}

impl Sample {
    pub(crate) fn new(
        tool: &str,
        phase: &str,
        round: u32,
        usage: Usage,
        stored_bytes: u64,
    ) -> Self {
        Self {
            tool: tool.to_owned(),
            phase: phase.to_owned(),
            round,
            seconds: usage.wall.as_secs_f64(),
            user_seconds: usage.user.as_secs_f64(),
            system_seconds: usage.system.as_secs_f64(),
            peak_rss_bytes: usage.peak_rss,
            stored_bytes,
            stage_bytes: None,
        }
    }
}

impl Sample {
    /// A stage within one process, of which only time and bytes are known.
    pub(crate) fn of_stage(stage: &str, round: u32, wall: Duration, bytes: u64) -> Self {
        Self {
            tool: "onefold".to_owned(),
            phase: stage.to_owned(),
            round,
            seconds: wall.as_secs_f64(),
            user_seconds: 0.0,
            system_seconds: 0.0,
            peak_rss_bytes: 0,
            stored_bytes: 0,
            stage_bytes: Some(bytes),
        }
    }
}

impl<S: PartialEq + Serialize + DeserializeOwned> Record<S> {
    /// Writes the record whole or not at all, and reads it back.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        record::write(self, path)
    }

    pub(crate) fn read(path: &Path) -> Result<Self> {
        record::read(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records/one.json");
        let sample = Sample {
            tool: "onefold".into(),
            phase: "first".into(),
            round: 1,
            seconds: 0.1 + 0.2,
            user_seconds: 1e-6,
            system_seconds: 0.0,
            peak_rss_bytes: u64::MAX,
            stored_bytes: 0,
            stage_bytes: Some(7),
        };
        let record = Record {
            name: "one".into(),
            command_line: "cargo lab bench".into(),
            date: record::now().unwrap(),
            commit: Commit::current(),
            machine: Machine::this(),
            rustc_version: record::rustc_version(),
            cache_state: "warm".into(),
            dataset: Dataset { name: "none".into(), digest: "blake3:".into(), files: 0, bytes: 0 },
            tools: BTreeMap::from([("onefold".into(), "0".into())]),
            samples: vec![sample],
            notes: vec!["made up".into()],
        };
        record.write(&path).unwrap();
        assert_eq!(Record::<Sample>::read(&path).unwrap(), record);
    }
}
