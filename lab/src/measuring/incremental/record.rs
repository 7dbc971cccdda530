//! What is measured of incremental jobs, as records have it.

use std::collections::BTreeMap;

use onefold_bench::DatasetRecord;
use serde::{Deserialize, Serialize};

/// All that a campaign measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    /// Each file once, as jobs read it.
    pub(crate) texts: Vec<DatasetRecord>,
    /// In the order in which they ran.
    pub(crate) runs: Vec<Run>,
    /// What the limit of time left no room for.
    pub(crate) left_out: Vec<LeftOut>,
}

/// What the Python program tells, a line each.
#[derive(Debug, Deserialize)]
#[serde(tag = "of", rename_all = "snake_case")]
pub(crate) enum Line {
    Tools(BTreeMap<String, String>),
    Text(DatasetRecord),
    Run(Run),
    LeftOut(LeftOut),
}

/// One run of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) experiment: Experiment,
    /// `spark` or `mapreduce`.
    pub(crate) engine: String,
    pub(crate) job: String,
    /// The text's name; that of the record of texts has its folder before it.
    pub(crate) text: String,
    pub(crate) cut: Cut,
    pub(crate) seconds: f64,
    /// Pairs of key and value in the result, which equals the plain job's.
    pub(crate) pairs: u64,
    /// Of texts that change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) change_percent: Option<u32>,
    /// `clustered`, `scattered`, or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) spread: Option<String>,
    /// Of versions: the name of the data, and the number of the version from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<u32>,
    /// Of runs with a memo.
    #[serde(flatten)]
    pub(crate) plan: Option<Plan>,
}

/// What was run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Experiment {
    /// Texts with a percentage changed.
    Changes,
    /// Versions of real data.
    Versions,
}

/// How the text was split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cut {
    /// As the engine does it, without a memo.
    Plain,
    /// By content, with a memo.
    Content,
    /// At multiples of a length, with a memo.
    Fixed,
}

/// What a run with a memo computed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// `first` begins with an empty memo, `again` does not.
    pub(crate) turn: Turn,
    pub(crate) splits: u64,
    pub(crate) splits_computed: u64,
    pub(crate) bytes: u64,
    pub(crate) bytes_computed: u64,
    /// Where the engine tells it.
    pub(crate) planning_seconds: Option<f64>,
}

/// What the memo has when a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Turn {
    /// Nothing.
    First,
    /// Results of another text, or of the same.
    Again,
}

/// A measurement that did not begin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LeftOut {
    what: String,
    limit_seconds: u32,
}

impl Results {
    /// Adds a text unless it is known: several jobs read one.
    pub(crate) fn add_text(&mut self, text: DatasetRecord) {
        if !self.texts.contains(&text) {
            self.texts.push(text);
        }
    }

    /// How many times as fast as the plain job a run is. Of versions the plain run of the same text counts, of changes the
    /// median of those of the unchanged text, which is about as long.
    pub(crate) fn speed_up(&self, run: &Run) -> Option<f64> {
        let plain = self.runs.iter().filter(|one| {
            let is_same = (one.experiment, &one.engine, &one.job, &one.data)
                == (run.experiment, &run.engine, &run.job, &run.data);
            is_same && one.cut == Cut::Plain && one.version == run.version
        });
        let seconds = super::super::table::median(plain.map(|one| one.seconds).collect())?;
        Some(seconds / run.seconds)
    }
}

impl Plan {
    /// Share of splits that was computed.
    pub(crate) fn split_share(&self) -> f64 {
        self.splits_computed as f64 / self.splits.max(1) as f64
    }

    /// Share of bytes that was computed.
    pub(crate) fn byte_share(&self) -> f64 {
        self.bytes_computed as f64 / self.bytes.max(1) as f64
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::measuring::incremental) const LINES: [&str; 7] = [
        r#"{"of":"tools","spark":"4.3.0"}"#,
        r#"{"of":"text","name":"words-1/0-none","digest":"sha256:00","files":1,"bytes":100}"#,
        r#"{"of":"run","experiment":"changes","engine":"spark","job":"word-count","text":"0-none","cut":"plain","seconds":8.0,"pairs":3,"change_percent":0,"spread":"none"}"#,
        r#"{"of":"run","experiment":"changes","engine":"spark","job":"word-count","text":"1-clustered","cut":"content","seconds":1.0,"pairs":3,"change_percent":1,"spread":"clustered","turn":"again","splits":100,"splits_computed":3,"bytes":1000,"bytes_computed":40,"planning_seconds":0.1}"#,
        r#"{"of":"run","experiment":"versions","engine":"mapreduce","job":"word-count","text":"a","cut":"plain","seconds":6.0,"pairs":3,"data":"d","version":0}"#,
        r#"{"of":"run","experiment":"versions","engine":"mapreduce","job":"word-count","text":"b","cut":"plain","seconds":5.0,"pairs":3,"data":"d","version":1}"#,
        r#"{"of":"run","experiment":"versions","engine":"mapreduce","job":"word-count","text":"b","cut":"fixed","seconds":2.0,"pairs":3,"data":"d","version":1,"turn":"again","splits":10,"splits_computed":10,"bytes":10,"bytes_computed":10,"planning_seconds":null}"#,
    ];

    pub(in crate::measuring::incremental) fn results() -> Results {
        let mut results = Results::default();
        for line in LINES {
            match serde_json::from_str(line).expect(line) {
                Line::Tools(_) => {}
                Line::Text(text) => results.add_text(text),
                Line::Run(run) => results.runs.push(run),
                Line::LeftOut(left) => results.left_out.push(left),
            }
        }
        results
    }

    #[test]
    fn a_speed_up_is_against_the_plain_job_on_the_same_version_or_the_unchanged_text() {
        let results = results();
        let speed_up = |run: usize| results.speed_up(&results.runs[run]);
        assert_eq!((speed_up(1), speed_up(4)), (Some(8.0), Some(2.5)));
        let mut alone = results.clone();
        alone.runs.remove(0);
        assert_eq!(alone.speed_up(&results.runs[1]), None);
    }

    #[test]
    fn what_is_told_reads_back_and_a_plain_run_has_no_plan() {
        let results = results();
        let text = serde_json::to_string(&results).unwrap();
        assert_eq!(serde_json::from_str::<Results>(&text).unwrap(), results);
        assert_eq!(results.runs[0].plan, None);
        let plan = results.runs[1].plan.as_ref().unwrap();
        assert_eq!((plan.split_share(), plan.byte_share()), (0.03, 0.04));
    }

    #[test]
    fn a_text_that_several_jobs_read_stands_once() {
        let mut results = results();
        results.add_text(results.texts[0].clone());
        assert_eq!(results.texts.len(), 1);
    }
}
