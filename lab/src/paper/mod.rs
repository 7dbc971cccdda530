//! What the papers claim, beside what comes out here.
//!
//! A [`Session`] knows where datasets lie and how much time there is. [`Paper::reproduce`] measures
//! what a paper's figures show and puts each headline claim beside the result, as a [`Finding`]
//! with the way it was measured, and a reason where it differs or could not be measured. A session
//! that is stopped keeps what was measured.

mod finding;
mod investigation;
mod page;
mod ram_phases;
mod rapidcdc;
mod session;
mod vectorcdc;

use serde::{Deserialize, Serialize};

pub use finding::{Finding, Table, Verdict};
use onefold_bench::DatasetRecord;
pub use page::page;
pub use session::{Effort, Measurement, Session};

/// A paper whose results can be reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paper {
    /// S. Udayashankar, A. Baba, S. Al-Kiswany, FAST 2025.
    VectorCdc,
    /// F. Ni, S. Jiang, SoCC 2019.
    RapidCdc,
    /// M. Gregoriadis, L. Balduf, B. Scheuermann, J. Pouwelse, 2024.
    Investigation,
}

/// What came of a paper's claims.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reproduction {
    /// The paper's title.
    pub paper: String,
    /// What was cut.
    pub datasets: Vec<DatasetRecord>,
    /// Datasets that were asked for and not there.
    pub missing: Vec<String>,
    /// Claim by claim.
    pub findings: Vec<Finding>,
    /// Figure by figure.
    pub tables: Vec<Table>,
    /// Everything that was timed, raw.
    pub measurements: Vec<Measurement>,
    /// Reasons to distrust the times.
    pub noise: Vec<String>,
    /// How often each contender was timed.
    pub rounds: u32,
    /// Whether little was measured for want of time.
    pub quick: bool,
    /// Whether it was stopped before the end.
    pub interrupted: bool,
}

impl Paper {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::VectorCdc, Self::RapidCdc, Self::Investigation];

    /// What users write.
    pub const fn name(self) -> &'static str {
        match self {
            Self::VectorCdc => "vectorcdc",
            Self::RapidCdc => "rapidcdc",
            Self::Investigation => "investigation",
        }
    }

    /// As printed.
    pub const fn title(self) -> &'static str {
        match self {
            Self::VectorCdc => {
                "VectorCDC: Accelerating Data Deduplication with Vector Instructions (FAST 2025)"
            }
            Self::RapidCdc => {
                "RapidCDC: Leveraging Duplicate Locality to Accelerate Chunking (SoCC 2019)"
            }
            Self::Investigation => {
                "A Thorough Investigation of Content-Defined Chunking Algorithms for Data \
                 Deduplication (2024)"
            }
        }
    }

    /// Measures what the paper's figures show, as far as `session` allows.
    /// What fails is a finding that says why; the rest goes on.
    pub fn reproduce(self, mut session: Session) -> Reproduction {
        let outcome = match self {
            Self::VectorCdc => vectorcdc::measure(&mut session),
            Self::RapidCdc => rapidcdc::measure(&mut session),
            Self::Investigation => investigation::measure(&mut session),
        };
        session.end(self, outcome)
    }
}

impl Reproduction {
    /// For the terminal and for documents, in Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!("## {}\n\n", self.paper);
        if self.interrupted {
            text.push_str("Stopped before the end: what is missing was not measured.\n\n");
        }
        if self.quick {
            text.push_str("Measured on little data and in few rounds.\n\n");
        }
        text.push_str(&format!("Each speed is of the median of {} rounds.\n\n", self.rounds));
        for dataset in &self.datasets {
            text.push_str(&format!(
                "- {}: {} files, {} bytes, {}\n",
                dataset.name, dataset.files, dataset.bytes, dataset.digest
            ));
        }
        text.push('\n');
        text.push_str(&finding::table(&self.findings).markdown());
        for table in &self.tables {
            text.push_str(&table.markdown());
        }
        if let Some(first) = self.noise.first() {
            let more = self.noise.len() - 1;
            text.push_str(&format!(
                "The machine was noisy: {first}, and {more} more such reasons.\n"
            ));
        }
        text
    }

    /// What a reader of a record must know.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            format!("each speed is of the median of {} rounds, on one CPU", self.rounds),
            "a ratio of speeds holds if the gain, the median over the datasets less one, is at \
             least 0.8 of the paper's, and exceeds if that median is above 1.25 of the paper's, \
             which counts as holding; other claims say in measured_by when they hold"
                .to_owned(),
            "of a dataset with few files that exceeds the limit, the first bytes of each file are \
             cut"
            .to_owned(),
        ];
        if self.interrupted {
            notes.push("interrupted: the claims that are missing were not measured".to_owned());
        }
        notes
    }

    /// Claims that hold or are exceeded, that differ, and that were not measured.
    pub fn count(&self) -> [usize; 3] {
        let count = |verdict| self.findings.iter().filter(|one| one.verdict == verdict).count();
        let [holds, exceeds] = [Verdict::Holds, Verdict::Exceeds].map(count);
        [holds + exceeds, count(Verdict::Differs), count(Verdict::NotMeasured)]
    }
}
