//! A claim beside what was found, and tables of figures.

use serde::{Deserialize, Serialize};

/// A claim of a paper, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Figure, table or section.
    pub place: String,
    /// What is claimed, in a few words.
    pub claim: String,
    /// The paper's figure.
    pub reported: String,
    /// Ours, if there is one.
    pub found: String,
    /// What became of the claim.
    pub verdict: Verdict,
    /// Why it differs or was not measured; empty where it holds.
    pub reason: String,
    /// What was measured, and how.
    pub measured_by: String,
    /// What to type to measure it again.
    pub command: String,
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is so here.
    Holds,
    /// It holds, by a figure far above the paper's.
    Exceeds,
    /// It is otherwise here.
    Differs,
    /// It cannot be said.
    NotMeasured,
}

impl Verdict {
    /// For a table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Exceeds => "exceeds",
            Self::Differs => "differs",
            Self::NotMeasured => "not measured",
        }
    }

    /// Whether it is so here, by whatever figure.
    pub const fn holds(self) -> bool {
        matches!(self, Self::Holds | Self::Exceeds)
    }

    /// Of a figure that is to reach `least`, where the paper has `reported`.
    fn of_figure(found: f64, least: f64, reported: f64) -> Self {
        if found > 1.25 * reported {
            Self::Exceeds
        } else if found >= least {
            Self::Holds
        } else {
            Self::Differs
        }
    }
}

impl Finding {
    /// What an error left without results.
    pub(super) fn failed(place: &str, error: &anyhow::Error) -> Self {
        Self {
            place: place.to_owned(),
            claim: "what is claimed there".to_owned(),
            reported: String::new(),
            found: String::new(),
            verdict: Verdict::NotMeasured,
            reason: format!("it failed: {error:#}"),
            measured_by: String::new(),
            command: String::new(),
        }
    }
}

/// What a paper says in one place.
pub(super) struct Claim {
    pub(super) place: &'static str,
    pub(super) claim: &'static str,
    pub(super) reported: &'static str,
    pub(super) measured_by: &'static str,
}

impl Claim {
    /// With what was found; `reason` is kept only where the claim does not hold.
    pub(super) fn found(&self, holds: bool, found: String, reason: &str) -> Finding {
        self.judged(if holds { Verdict::Holds } else { Verdict::Differs }, found, reason)
    }

    fn judged(&self, verdict: Verdict, found: String, reason: &str) -> Finding {
        Finding {
            place: self.place.to_owned(),
            claim: self.claim.to_owned(),
            reported: self.reported.to_owned(),
            found,
            verdict,
            reason: if verdict.holds() { String::new() } else { reason.to_owned() },
            measured_by: self.measured_by.to_owned(),
            command: String::new(),
        }
    }

    /// Without a result.
    pub(super) fn not_measured(&self, reason: &str) -> Finding {
        Finding {
            verdict: Verdict::NotMeasured,
            reason: reason.to_owned(),
            ..self.found(false, String::new(), "")
        }
    }

    /// A ratio of speeds on each dataset: holds if the gain of the middle one, which is what is
    /// above 1, is at least 0.8 of the paper's, which leaves room for another CPU; not measured
    /// where there is none.
    pub(super) fn ratio(&self, reported: f64, found: &[f64], reason: &str) -> Finding {
        if found.is_empty() {
            return self.not_measured("no dataset that it could be measured on, or no such kernel");
        }
        let middle = onefold_bench::Summary::of(found.iter().copied()).median;
        let least = if reported > 1.0 { 1.0 + 0.8 * (reported - 1.0) } else { 0.8 * reported };
        let verdict = Verdict::of_figure(middle, least, reported);
        self.judged(verdict, format!("{}×", range(found)), reason)
    }

    /// A speed in GB/s on each dataset: holds if the middle one reaches the paper's.
    pub(super) fn speed(&self, reported: f64, found: &[f64], reason: &str) -> Finding {
        if found.is_empty() {
            return self.not_measured("no such kernel on this CPU");
        }
        let middle = onefold_bench::Summary::of(found.iter().copied()).median;
        let verdict = Verdict::of_figure(middle, reported, reported);
        let finding = self.judged(verdict, format!("{} GB/s", range(found)), reason);
        let rule = format!(
            "{}; the median over the datasets holds from {reported} GB/s and exceeds above {:.2}",
            self.measured_by,
            1.25 * reported
        );
        Finding { measured_by: rule, ..finding }
    }
}

/// The least and the largest of some numbers.
pub(super) fn range(numbers: &[f64]) -> String {
    let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let most = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let [least, most] = [least, most].map(|number| format!("{number:.2}"));
    if least == most { least } else { format!("{least} to {most}") }
}

/// The numbers of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Figure or table of the paper.
    pub place: String,
    /// What it shows, with the unit.
    pub title: String,
    /// Heads of the columns; the first one is of names.
    pub columns: Vec<String>,
    /// A cell a column.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(place: &str, title: &str, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        Self { place: place.to_owned(), title: title.to_owned(), columns, rows: Vec::new() }
    }

    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let row: Vec<String> = cells.into_iter().collect();
        assert_eq!(row.len(), self.columns.len(), "{}: a cell a column", self.title);
        self.rows.push(row);
    }

    /// A heading and a table in Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!("### {}: {}\n\n", self.place, self.title);
        let mut line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            text.push_str(&format!("| {} |\n", cells.join(" | ")));
        };
        line(&self.columns);
        let rules: Vec<String> = (0..self.columns.len())
            .map(|column| if column == 0 { "---" } else { "---:" }.to_owned())
            .collect();
        line(&rules);
        for row in &self.rows {
            line(row);
        }
        text.push('\n');
        text
    }
}

/// All findings.
pub(super) fn table(findings: &[Finding]) -> Table {
    let columns = ["claim", "where", "paper", "here", "", "reason", "measured by", "command"];
    let mut table = Table::new("Claims", "the paper's figure and ours", &columns);
    for one in findings {
        let cells = [&one.claim, &one.place, &one.reported, &one.found];
        let verdict = one.verdict.name().to_owned();
        let command = format!("`{}`", one.command);
        let rest = [verdict, one.reason.clone(), one.measured_by.clone(), command];
        table.row(cells.into_iter().cloned().chain(rest));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIM: Claim = Claim {
        place: "Figure 1",
        claim: "twice as fast",
        reported: "2×",
        measured_by: "two contenders",
    };

    #[test]
    fn a_ratio_holds_where_the_middle_comes_near() {
        assert_eq!(CLAIM.ratio(2.0, &[1.0, 1.81, 9.0], "why").verdict, Verdict::Holds);
        let differs = CLAIM.ratio(2.0, &[1.0, 1.79, 9.0], "why");
        assert_eq!((differs.verdict, differs.reason.as_str()), (Verdict::Differs, "why"));
        assert_eq!(differs.found, "1.00 to 9.00×");
        assert_eq!(CLAIM.ratio(2.0, &[], "why").verdict, Verdict::NotMeasured);
    }

    #[test]
    fn no_gain_is_not_most_of_a_gain() {
        let verdict = |reported, found| CLAIM.ratio(reported, &[found], "why").verdict;
        assert_eq!(verdict(1.18, 0.95), Verdict::Differs);
        assert_eq!(verdict(1.18, 1.0), Verdict::Differs);
        assert_eq!(verdict(1.18, 1.15), Verdict::Holds);
        assert_eq!(verdict(1.18, 1.47), Verdict::Holds);
        assert_eq!(verdict(1.18, 1.48), Verdict::Exceeds);
        assert_eq!(verdict(0.5, 0.41), Verdict::Holds);
        assert_eq!(verdict(0.5, 0.39), Verdict::Differs);
        assert_eq!(verdict(2.0, f64::NAN), Verdict::Differs);
    }

    #[test]
    fn a_speed_says_from_where_it_holds() {
        let finding = |found| CLAIM.speed(2.0, &[found], "another CPU");
        assert_eq!(finding(1.99).verdict, Verdict::Differs);
        assert_eq!(finding(2.0).verdict, Verdict::Holds);
        assert_eq!(finding(2.6).verdict, Verdict::Exceeds);
        assert!(finding(2.6).reason.is_empty() && finding(2.6).verdict.holds());
        assert!(finding(1.0).measured_by.contains("holds from 2 GB/s and exceeds above 2.50"));
        assert_eq!(CLAIM.speed(2.0, &[], "why").verdict, Verdict::NotMeasured);
    }

    #[test]
    fn a_table_is_markdown_of_equal_rows() {
        let mut table = Table::new("Figure 1", "speed in GB/s", &["name", "a"]);
        table.row(["x|y".to_owned(), "1".to_owned()]);
        let expected =
            "### Figure 1: speed in GB/s\n\n| name | a |\n| --- | ---: |\n| x\\|y | 1 |\n\n";
        assert_eq!(table.markdown(), expected);
    }
}
