//! RapidCDC, figures 1 to 4 and 8 to 18: duplicate locality, gain over the regular algorithm, and
//! how it depends on changes, sizes, hash, lists and threads.
//!
//! How the gain is measured is said in [`measure_rapid`](crate::rapid::measure_rapid): chunking alone, with fingerprints computed
//! before, and end to end, with BLAKE3 and look-ups.

mod claims;
mod locality;
mod real;
mod synthetic;

use anyhow::Result;
use onefold_bench::Dataset;
use onefold_cdc::{Algorithm, ChunkSizes, Criterion, Params};

use super::finding::Claim;
use super::session::Session;
use crate::rapid::{RapidPlan, RapidResult};
use real::DATASETS;

const FF: &str = "FF";
const MT: &str = "FF+MT1";
const RWT: &str = "FF+RWT";

const CRITERIA: [Criterion; 4] = [
    Criterion::FastForward,
    Criterion::WindowTest,
    Criterion::MarkerTest { bytes: 1 },
    Criterion::FingerprintTest,
];

/// The sizes of the paper's default configuration.
fn default_sizes() -> Result<ChunkSizes> {
    Ok(ChunkSizes::new(4096, 8192, 12288)?)
}

/// What was measured of one dataset with one algorithm.
struct Run {
    dataset: String,
    result: RapidResult,
}

impl Run {
    /// Chunking by the regular algorithm over chunking by a criterion, both on the scalar kernel.
    fn speed_up(&self, criterion: &str) -> Option<f64> {
        let scalar = Some("scalar");
        let alone = self.result.seconds("alone", scalar, false)?;
        Some(alone / self.result.seconds(criterion, scalar, false)?)
    }

    /// The same end to end.
    fn whole_speed_up(&self, way: &str) -> Option<f64> {
        let alone = self.result.seconds("alone", Some("scalar"), true)?;
        let kernel = (!matches!(way, "fixed" | "ideal")).then_some("scalar");
        Some(alone / self.result.seconds(way, kernel, true)?)
    }

    fn ratio(&self) -> f64 {
        self.result.metrics.dedup_ratio()
    }

    /// What a criterion loses of the dedup ratio, in percent.
    fn loss(&self, criterion: &str) -> Option<f64> {
        let of_it = self.result.criteria.iter().find(|one| one.name == criterion)?;
        Some(100.0 * (1.0 - of_it.metrics.dedup_ratio() / self.ratio()))
    }
}

pub(super) fn measure(session: &mut Session) -> Result<()> {
    session.part("Figures 8 and 11", synthetic::changes)?;
    session.part("Figure 9", synthetic::shares)?;
    session.part("Figure 10", synthetic::minimum_sizes)?;
    session.part("Figure 12", synthetic::worst_case)?;
    let mut real = Vec::new();
    let outcome = real::measure(session, &mut real);
    if !real.is_empty() {
        real::tables(session, &real);
        claims::claims(session, &real);
    }
    not_measured(session);
    outcome
}

/// Lists of two, by every criterion; chunking alone, which is all that most figures show.
fn plan(session: &Session, algorithm: Algorithm, sizes: ChunkSizes) -> RapidPlan {
    RapidPlan {
        params: Params::new(algorithm, sizes),
        criteria: CRITERIA.to_vec(),
        next: 2,
        rounds: session.effort().rounds,
        end_to_end: false,
    }
}

fn run(session: &mut Session, dataset: &Dataset, plan: &RapidPlan) -> Result<Run> {
    let result = session.measure_rapid(dataset, plan)?;
    Ok(Run { dataset: dataset.name().to_owned(), result })
}

/// Speed-up and loss.
fn cell(run: &Run, criterion: &str) -> String {
    match (run.speed_up(criterion), run.loss(criterion)) {
        (Some(speed_up), Some(loss)) => format!("{speed_up:.2}× / {loss:.2}"),
        _ => "not with this algorithm".into(),
    }
}

fn not_measured(session: &mut Session) {
    let claim = |place, claim, reported| Claim { place, claim, reported, measured_by: "" };
    session.finding(
        claim("Figure 17", "throughput of a whole system on hard disk, SATA and NVMe", "")
            .not_measured(
                "the store does not use RapidCDC yet, and one disk is here; end to end from memory \
             stands in the tables",
            ),
    );
    session.finding(
        claim("Figures 1 and 2", "the time of the disks", "")
            .not_measured("the same: what is shown is the time of the processor"),
    );
    for (name, theirs) in DATASETS {
        if let Some(reason) = session.why_missing(name) {
            let claim = claim("Figure 13", "results on a dataset like theirs", theirs);
            session.finding(claim.not_measured(&reason));
        }
    }
}
