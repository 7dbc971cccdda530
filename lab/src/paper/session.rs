//! Where datasets lie, how much time there is, and what was measured so far.

use std::path::{Path, PathBuf};

use anyhow::Result;
use onefold_bench::{
    Contender, Counters, Counts, Dataset, DatasetRecord, Outcome, Pin, Sample, measure_while, noise,
};
use serde::{Deserialize, Serialize};

use super::{Finding, Paper, Reproduction, Table};
use crate::build::{Order, Standing};
use crate::rapid::{RapidPlan, RapidResult, measure_rapid};

/// What the measurements of a paper share.
pub struct Session<'a> {
    dir: PathBuf,
    effort: Effort,
    told: &'a dyn Fn(&str),
    is_stopped: &'a dyn Fn() -> bool,
    /// Or why this machine counts nothing.
    counters: Result<Counters, String>,
    datasets: Vec<DatasetRecord>,
    /// Names, and what is there instead.
    missing: Vec<(String, &'static str)>,
    findings: Vec<Finding>,
    tables: Vec<Table>,
    measurements: Vec<Measurement>,
    noise: Vec<String>,
}

/// How much may be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Bytes of each dataset.
    pub bytes: u64,
    /// Random bytes.
    pub random_bytes: usize,
    /// Chunks of random data of which mean and deviation are taken.
    pub chunks: usize,
    /// Timed rounds.
    pub rounds: u32,
}

impl Effort {
    /// For a record; about an hour for all papers. Five rounds are the fewest of which
    /// `bench compare` says anything.
    pub const FULL: Self =
        Self { bytes: 512 << 20, random_bytes: 256 << 20, chunks: 400_000, rounds: 5 };
    /// For a look; minutes.
    pub const QUICK: Self =
        Self { bytes: 24 << 20, random_bytes: 16 << 20, chunks: 10_000, rounds: 3 };
}

/// What was timed under one name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The dataset's.
    pub dataset: String,
    /// Bytes that each sample cut.
    pub bytes: u64,
    /// Algorithm and kernel.
    pub name: String,
    /// One a round.
    pub samples: Vec<Sample>,
    /// Of one run beside the rounds, where the CPU's counters were at hand.
    pub counts: Option<Counts>,
}

/// The session was stopped; what was measured is kept.
#[derive(Debug)]
struct Stopped;

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("stopped")
    }
}

impl std::error::Error for Stopped {}

impl<'a> Session<'a> {
    /// Datasets are taken from the folders of their names below `dir`, as [`crate::build`] makes
    /// them. `told` hears what is measured; `is_stopped` is asked before each measurement.
    pub fn new(
        dir: &Path,
        effort: Effort,
        told: &'a dyn Fn(&str),
        is_stopped: &'a dyn Fn() -> bool,
    ) -> Self {
        Self {
            dir: dir.to_owned(),
            effort,
            told,
            is_stopped,
            counters: Counters::open().map_err(|reason| format!("{reason:#}")),
            datasets: Vec::new(),
            missing: Vec::new(),
            findings: Vec::new(),
            tables: Vec::new(),
            measurements: Vec::new(),
            noise: Vec::new(),
        }
    }

    /// How much may be measured.
    pub(super) fn effort(&self) -> Effort {
        self.effort
    }

    /// Says what comes next, and stops here if that is wished.
    pub(super) fn step(&self, what: &str) -> Result<()> {
        if (self.is_stopped)() {
            return Err(Stopped.into());
        }
        (self.told)(what);
        Ok(())
    }

    /// The dataset of a recipe's name, an even part of each file up to `most` bytes in all; `None`
    /// if it was not built, or not to its end.
    ///
    /// A folder beside which no build left anything is the user's own: it is taken, and named so.
    pub(super) fn load(&mut self, name: &str, most: u64) -> Result<Option<Dataset>> {
        self.step(&format!("reading {name}"))?;
        let folder = self.dir.join(name);
        let standing = if folder.is_dir() { Some(Standing::of(&folder)?) } else { None };
        let instead = match standing {
            None => Some("is not there"),
            Some(Standing::Unfinished) => {
                Some("is not finished or not built by `cargo lab dataset build`")
            }
            Some(Standing::Built | Standing::Foreign) => None,
        };
        if let Some(instead) = instead {
            if self.why_missing(name).is_none() {
                self.missing.push((name.to_owned(), instead));
            }
            return Ok(None);
        }
        // forty root file systems begin alike: of them, whole ones, if there is room for some
        const SOME_ROOTS: u64 = 400_000_000;
        let dataset = match name {
            "roots" if most >= SOME_ROOTS => Dataset::read(&folder, Some(most))?,
            _ => Dataset::read_evenly(&folder, most)?,
        };
        let dataset = match standing {
            Some(Standing::Foreign) => dataset.named(&format!("{name}, not built by the command")),
            _ => dataset.named(name),
        };
        self.note(&dataset);
        Ok(Some(dataset))
    }

    /// If a dataset was asked for and not there: what is, and what to type to have it.
    pub(super) fn why_missing(&self, name: &str) -> Option<String> {
        let (_, instead) = self.missing.iter().find(|(missing, _)| missing == name)?;
        Some(format!("'{name}' {instead}: {}", build_command(name)))
    }

    /// Random bytes, which need no folder.
    pub(super) fn random(&mut self, len: usize) -> Dataset {
        let dataset = Dataset::random(1, len);
        self.note(&dataset);
        dataset
    }

    /// Puts a dataset on the record.
    pub(super) fn note(&mut self, dataset: &Dataset) {
        let record = DatasetRecord::from(dataset);
        if !self.datasets.contains(&record) {
            self.datasets.push(record);
        }
    }

    /// Keeps this thread to so many CPUs while it measures. That it cannot be kept is a reason to
    /// distrust the times.
    pub(super) fn pin(&mut self, cores: usize) -> Option<Pin> {
        let reason = match Pin::to(cores) {
            Ok(pin) => return Some(pin),
            Err(reason) => format!("{reason:#}"),
        };
        if !self.noise.contains(&reason) {
            self.noise.push(reason);
        }
        None
    }

    /// What [`measure_while`] asks before each run: says of each round that it begins, and that
    /// all is to end where that is wished.
    fn goes_on(&self, what: String) -> impl FnMut(u32) -> Result<bool> + use<'a> {
        let Self { told, is_stopped, effort, .. } = *self;
        let mut begun = 0;
        move |round| {
            let goes_on = !is_stopped();
            if goes_on && round > begun {
                begun = round;
                told(&format!("{what}: round {round} of {}", effort.rounds));
            }
            Ok(goes_on)
        }
    }

    /// Times contenders on a dataset, on one CPU, and keeps the samples.
    pub(super) fn measure(
        &mut self,
        dataset: &str,
        bytes: u64,
        contenders: Vec<Contender>,
    ) -> Result<Vec<Outcome>> {
        self.step(&format!("cutting {dataset} in {} ways", contenders.len()))?;
        let _pin = self.pin(1);
        let goes_on = self.goes_on(dataset.to_owned());
        let counters = self.counters.as_mut().ok();
        let mut outcomes = measure_while(contenders, self.effort.rounds, counters, goes_on)?;
        // of those that a stop left without a sample nothing can be said
        outcomes.retain(|outcome| !outcome.samples.is_empty());
        self.noise.extend(noise(&outcomes).into_iter().map(|one| format!("{dataset}: {one}")));
        self.measurements.extend(outcomes.iter().map(|outcome| Measurement {
            dataset: dataset.to_owned(),
            bytes,
            name: outcome.name.clone(),
            samples: outcome.samples.clone(),
            counts: outcome.counts,
        }));
        self.unless_stopped(outcomes)
    }

    /// Times RapidCDC on a dataset, and keeps the samples.
    pub(super) fn measure_rapid(
        &mut self,
        dataset: &Dataset,
        plan: &RapidPlan,
    ) -> Result<RapidResult> {
        let (name, algorithm) = (dataset.name(), plan.params.algorithm);
        let what = format!("RapidCDC with {algorithm} and lists of {} on {name}", plan.next);
        self.step(&what)?;
        let result = measure_rapid(dataset, plan, self.goes_on(what))?;
        self.keep_rapid(name, &result);
        self.unless_stopped(result)
    }

    fn keep_rapid(&mut self, dataset: &str, result: &RapidResult) {
        self.noise.extend(result.noise.iter().map(|one| format!("{dataset}: {one}")));
        let [min, avg, max] = result.sizes;
        let of = format!("{} {min}/{avg}/{max}, lists of {}", result.algorithm, result.next);
        self.measurements.extend(result.times.iter().map(|times| Measurement {
            dataset: dataset.to_owned(),
            bytes: result.metrics.bytes,
            name: format!(
                "{of}: {}, {}{}",
                times.way,
                times.kernel.as_deref().unwrap_or("no kernel"),
                if times.end_to_end { ", end to end" } else { "" }
            ),
            samples: times.samples.clone(),
            counts: None,
        }));
    }

    fn unless_stopped<T>(&self, measured: T) -> Result<T> {
        if (self.is_stopped)() { Err(Stopped.into()) } else { Ok(measured) }
    }

    /// What was timed so far.
    pub(super) fn measurements(&self) -> &[Measurement] {
        &self.measurements
    }

    /// Why nothing was counted, if nothing was.
    pub(super) fn why_uncounted(&self) -> String {
        match &self.counters {
            Err(reason) => reason.clone(),
            Ok(_) if self.measurements.is_empty() => "nothing was timed".to_owned(),
            Ok(_) => "others used the CPU's counters meanwhile".to_owned(),
        }
    }

    /// Measures a part of the paper. An error becomes a finding, behind which others can go on; a
    /// stop is passed on.
    pub(super) fn part(
        &mut self,
        place: &str,
        part: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        match part(self) {
            Err(error) if !error.is::<Stopped>() => {
                self.findings.push(Finding::failed(place, &error));
                Ok(())
            }
            outcome => outcome,
        }
    }

    pub(super) fn finding(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    pub(super) fn table(&mut self, table: Table) {
        self.tables.push(table);
    }

    /// All that was measured, whatever ended it.
    pub(super) fn end(mut self, paper: Paper, outcome: Result<()>) -> Reproduction {
        let interrupted = self.part("all that was to follow", |_| outcome).is_err();
        let command = self.command(paper);
        self.findings.iter_mut().for_each(|finding| finding.command.clone_from(&command));
        Reproduction {
            paper: paper.title().to_owned(),
            datasets: self.datasets,
            missing: self.missing.into_iter().map(|(name, _)| name).collect(),
            findings: self.findings,
            tables: self.tables,
            measurements: self.measurements,
            noise: self.noise,
            rounds: self.effort.rounds,
            quick: self.effort != Effort::FULL,
            interrupted,
        }
    }
}

impl Session<'_> {
    /// What to type to measure the same again.
    fn command(&self, paper: Paper) -> String {
        let quick = if self.effort == Effort::QUICK { " --quick" } else { "" };
        format!("cargo lab paper {} --dir DIR{quick}", paper.name())
    }
}

/// What to type to have a dataset that is missing.
fn build_command(name: &str) -> String {
    debug_assert!(name.parse::<Order>().is_ok(), "{name} can be built");
    format!("`cargo lab dataset build {name} --dir DIR`")
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::build::Plan;
    use crate::build::site::tests::Nobody;
    use crate::paper::Verdict;

    /// So little that only the way is tested.
    pub(in crate::paper) const TINY: Effort =
        Effort { bytes: 300_000, random_bytes: 200_000, chunks: 100, rounds: 1 };

    /// A folder in which a dataset has the name of another, and little in it.
    pub(in crate::paper) fn folder(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            let order = "series:versions=3,bytes=100000,edits=3".parse().unwrap();
            let plan = Plan::new(order, folder.path()).unwrap();
            let home = plan.folder.clone();
            plan.build(&Nobody).unwrap();
            std::fs::rename(&home, folder.path().join(name)).unwrap();
            let receipt = folder.path().join(format!("{name}.json"));
            std::fs::rename(home.with_extension("json"), receipt).unwrap();
        }
        folder
    }

    #[test]
    fn every_paper_says_something_of_each_claim_whatever_there_is() {
        for paper in Paper::ALL {
            let nothing = folder(&[]);
            let silent = |_: &str| {};
            let session = Session::new(nothing.path(), TINY, &silent, &|| false);
            let result = paper.reproduce(session);
            assert!(!result.interrupted && result.quick);
            assert!(!result.missing.is_empty() && !result.findings.is_empty(), "{paper:?}");
            for finding in &result.findings {
                let has_result = !finding.found.is_empty();
                assert_eq!(has_result, finding.verdict != Verdict::NotMeasured, "{finding:?}");
                assert_eq!(finding.reason.is_empty(), finding.verdict.holds());
                assert!(finding.command.starts_with(&format!("cargo lab paper {}", paper.name())));
            }
            assert_eq!(result.count().iter().sum::<usize>(), result.findings.len());
            assert!(result.markdown().contains(paper.title()));
        }
    }

    #[test]
    fn half_a_dataset_is_missing_and_the_users_own_is_named_so() {
        let folder = folder(&["vm", "roots", "redis"]);
        let silent = |_: &str| {};
        let mut session = Session::new(folder.path(), TINY, &silent, &|| false);
        std::fs::remove_file(folder.path().join("roots.json")).unwrap();
        std::fs::remove_file(folder.path().join("redis.json")).unwrap();
        std::fs::create_dir(folder.path().join("redis.work")).unwrap();
        let mut name_of = |name| session.load(name, 1000).unwrap().map(|one| one.name().to_owned());
        assert_eq!(name_of("vm").unwrap(), "vm");
        assert_eq!(name_of("roots").unwrap(), "roots, not built by the command");
        assert_eq!(name_of("redis"), None);
        assert_eq!(name_of("kernel"), None);
        assert!(session.why_missing("redis").unwrap().contains("not finished"));
        assert!(session.why_missing("kernel").unwrap().contains("is not there"));
        assert_eq!(session.why_missing("roots"), None);
        let names: Vec<&str> = session.datasets.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["vm", "roots, not built by the command"]);
    }

    #[test]
    fn what_was_measured_before_a_stop_is_kept() {
        let folder = folder(&["vm", "roots", "redis"]);
        let silent = |_: &str| {};
        let whole = Session::new(folder.path(), TINY, &silent, &|| false);
        let whole = Paper::VectorCdc.reproduce(whole);
        assert_eq!(whole.datasets.len(), 4);
        let asked = Cell::new(0);
        let is_stopped = || {
            asked.set(asked.get() + 1);
            asked.get() > 150
        };
        let part = Session::new(folder.path(), TINY, &silent, &is_stopped);
        let part = Paper::VectorCdc.reproduce(part);
        assert!(part.interrupted && !whole.interrupted);
        assert!(!part.measurements.is_empty() && !part.findings.is_empty());
        assert!(part.measurements.len() < whole.measurements.len());
    }

    #[test]
    fn a_stop_keeps_the_rounds_before_it_and_an_error_what_came_before() {
        let rounds = Cell::new(0);
        let told = |what: &str| rounds.set(rounds.get() + u32::from(what.contains("round")));
        let is_stopped = || rounds.get() == 2;
        let effort = Effort { rounds: 5, ..TINY };
        let mut session = Session::new(Path::new("nowhere"), effort, &told, &is_stopped);
        let contender = || Contender::new("one", |found: &mut Vec<usize>| found.push(1));
        let stop = session.measure("data", 1, vec![contender()]).unwrap_err();
        assert!(stop.is::<Stopped>());
        assert_eq!(session.measurements[0].samples.len(), 2);

        assert!(session.part("Figure 1", |_| Err(anyhow::anyhow!("no disk"))).is_ok());
        let result = session.end(Paper::VectorCdc, Err(stop));
        assert!(result.interrupted);
        assert_eq!((result.measurements.len(), result.findings.len()), (1, 1));
        assert_eq!(result.findings[0].verdict, Verdict::NotMeasured);
        assert!(result.findings[0].reason.contains("no disk"));
    }
}
