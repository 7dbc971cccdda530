//! Made data: changes and criteria (figures 8 and 11), where changes lie (9), minimum sizes (10), and
//! hints that are never right (12).

use std::collections::BTreeMap;

use anyhow::Result;
use onefold_bench::Dataset;
use onefold_cdc::{Algorithm, ChunkSizes, Chunker, Params};

use super::{FF, MT, RWT, Run, cell, default_sizes, plan, run};
use crate::build::series::{Edit, first_version, next_version};
use crate::paper::finding::{Claim, Finding, Table, range};
use crate::paper::session::Session;
use crate::rapid::CriterionResult;

/// Changes to a version of 500 MB, and what the paper found: the dedup ratio, the speed-up of FF
/// with Rabin and with Gear.
const CHANGES: [(usize, f64, f64, f64); 5] = [
    (1000, 7.9, 6.1, 5.9),
    (2000, 6.6, 4.8, 4.5),
    (5000, 4.3, 3.1, 2.7),
    (10_000, 2.8, 2.1, 1.8),
    (20_000, 1.8, 1.6, 1.5),
];

const PAPER_VERSION: usize = 500_000_000;
const VERSIONS: usize = 10;

/// The paper's synthetic data: versions with as many changes a byte as its 500 MB have.
fn series(session: &mut Session, changes: usize, edit: Edit, share: usize) -> Dataset {
    // its memory bandwidth is not what a tenth of the data would change
    let len = (session.effort().bytes as usize / VERSIONS).min(PAPER_VERSION / 25);
    let edits = (changes as f64 * len as f64 / PAPER_VERSION as f64).round() as usize;
    let mut versions = vec![first_version(len)];
    for number in 1..VERSIONS {
        versions.push(next_version(&versions[number - 1], number, edits, edit, share));
    }
    let kind = if edit == Edit::Overwrite { "overwrites" } else { "insertions and deletions" };
    let dataset = Dataset::of(format!("series, {changes} {kind} in {share} %"), versions);
    session.note(&dataset);
    dataset
}

pub(super) fn changes(session: &mut Session) -> Result<()> {
    let mut runs: BTreeMap<(&str, &str, usize), Run> = BTreeMap::new();
    let mut outcome = Ok(());
    'all: for (kind, edit) in
        [("insert/delete", Edit::InsertOrDelete), ("overwrite", Edit::Overwrite)]
    {
        for (changes, ..) in CHANGES {
            let dataset = series(session, changes, edit, 100);
            for (hash, algorithm) in [("Rabin", Algorithm::Rabin), ("Gear", Algorithm::Gear)] {
                let plan = plan(session, algorithm, default_sizes()?);
                match run(session, &dataset, &plan) {
                    Ok(run) => drop(runs.insert((hash, kind, changes), run)),
                    Err(error) => {
                        outcome = Err(error);
                        break 'all;
                    }
                }
            }
        }
    }
    let mut table = Table::new(
        "Figures 8 and 11",
        "ten versions of random bytes, changes for each 500 MB; chunking speed-up over the scalar \
         kernel / loss of dedup ratio in percent",
        &["hash, kind, changes", "dedup ratio", "FF", "FF+RWT", "FF+MT1", "FF+RWT+FPT"],
    );
    for ((hash, kind, changes), run) in &runs {
        let cells = [FF, RWT, MT, "FF+RWT+FPT"].map(|criterion| cell(run, criterion));
        let name = format!("{hash}, {kind}, {changes}");
        table.row([name, format!("{:.2}", run.ratio())].into_iter().chain(cells));
    }
    session.table(table);

    let by = "ten versions with as many changes a byte; chunking alone on the scalar kernel";
    for (changes, ratio, with_rabin, with_gear) in CHANGES {
        let Some(of_rabin) = runs.get(&("Rabin", "insert/delete", changes)) else { continue };
        let claim = |claim: &str, reported: &str| (claim.to_owned(), reported.to_owned());
        let (text, reported) =
            claim(&format!("dedup ratio at {changes} changes"), &format!("{ratio}"));
        let found = of_rabin.ratio();
        session.finding(Finding {
            claim: text,
            reported,
            ..Claim { place: "Figure 8", claim: "", reported: "", measured_by: by }.found(
                (found / ratio - 1.0).abs() < 0.1,
                format!("{found:.2}"),
                if found > ratio {
                    "there a chunk gets at most one change; here places are drawn freely, and \
                     some share a chunk"
                } else {
                    "some changes reach over a cut-point, and change two chunks"
                },
            )
        });
        for (hash, place, reported) in
            [("Rabin", "Figure 8", with_rabin), ("Gear", "Figure 11", with_gear)]
        {
            let Some(run) = runs.get(&(hash, "insert/delete", changes)) else { continue };
            let found: Vec<f64> = run.speed_up(FF).into_iter().collect();
            let reason = if run.ratio() < 0.95 * ratio {
                "the dedup ratio is lower here"
            } else {
                "the rest is the look-up of each chunk, which weighs more the faster the search is"
            };
            let template = Claim { place, claim: "", reported: "", measured_by: by };
            session.finding(Finding {
                claim: format!("speed-up of FF with {hash} at {changes} changes"),
                reported: format!("{reported}×"),
                ..template.ratio(reported, &found, reason)
            });
        }
    }
    let of = |kind: &str| -> Vec<&Run> {
        runs.iter().filter(|(key, _)| key.0 == "Rabin" && key.1 == kind).map(|one| one.1).collect()
    };
    let losses = |runs: &[&Run], criterion: &str| -> Vec<f64> {
        runs.iter().filter_map(|run| run.loss(criterion)).collect()
    };
    let most = |values: &[f64]| values.iter().copied().fold(0.0_f64, f64::max);
    if !of("insert/delete").is_empty() {
        let claim = Claim {
            place: "Figure 8",
            claim: "every criterion but FF keeps the dedup ratio",
            reported: "almost the same",
            measured_by: "loss with insertions and deletions; kept: within 1 %",
        };
        let kept = [RWT, MT, "FF+RWT+FPT"].map(|name| (name, losses(&of("insert/delete"), name)));
        let worst = kept.iter().max_by(|a, b| most(&a.1).total_cmp(&most(&b.1)));
        let reason = match worst {
            Some((name, _)) if *name == MT => {
                "one byte of marker is right by chance for one wrong hint in 256".to_owned()
            }
            Some((name, losses)) => format!("{name} loses the most, {:.2} %", most(losses)),
            None => String::new(),
        };
        let kept = kept.map(|(_, losses)| losses).concat();
        session.finding(claim.found(most(&kept) < 1.0, format!("{} %", range(&kept)), &reason));
    }
    if !of("overwrite").is_empty() {
        let claim = Claim {
            place: "Figure 8",
            claim: "with overwrites, which shift nothing, FF loses no duplicates",
            reported: "no reduction",
            measured_by: "loss of FF; none: within 0.5 %",
        };
        let lost = losses(&of("overwrite"), FF);
        let reason = "an overwrite may make or break a cut-point";
        session.finding(claim.found(most(&lost) < 0.5, format!("{} %", range(&lost)), reason));
    }
    outcome
}

pub(super) fn shares(session: &mut Session) -> Result<()> {
    let mut table = Table::new(
        "Figure 9",
        "1000 insertions and deletions in the first part of the file, Rabin",
        &["part of the file", "dedup ratio", "FF", "FF+MT1"],
    );
    let (mut gains, mut ratios) = (Vec::new(), Vec::new());
    for share in [10, 40, 70, 100] {
        let dataset = series(session, 1000, Edit::InsertOrDelete, share);
        let plan = plan(session, Algorithm::Rabin, default_sizes()?);
        let run = run(session, &dataset, &plan)?;
        // where changes share chunks more chunks stay, and both ratio and gain are higher
        gains.extend(run.speed_up(FF).map(|gain| gain / run.ratio()));
        ratios.push(run.ratio());
        let cells = [cell(&run, FF), cell(&run, MT)];
        let ratio = format!("{:.2}", run.ratio());
        table.row([format!("{share} %"), ratio].into_iter().chain(cells));
    }
    session.table(table);
    let claim = Claim {
        place: "Figure 9",
        claim: "the gain does not depend on where changes lie",
        reported: "little change from 10 to 100 % of the file",
        measured_by: "speed-up of FF over the dedup ratio; little: the most at most 1.4 times the \
                      least",
    };
    let most = gains.iter().copied().fold(0.0, f64::max);
    let least = gains.iter().copied().fold(f64::INFINITY, f64::min);
    let text = format!("{} times the ratio", range(&gains));
    let ratios = range(&ratios);
    let reason = format!("the less is new, the more look-ups weigh, and dedup ratios are {ratios}");
    session.finding(claim.found(most <= 1.4 * least, text, &reason));
    Ok(())
}

pub(super) fn minimum_sizes(session: &mut Session) -> Result<()> {
    let dataset = series(session, 1000, Edit::InsertOrDelete, 100);
    let mut table = Table::new(
        "Figure 10",
        "by minimum size, around 16 KiB up to 64 KiB, 1000 insertions and deletions, Rabin",
        &["minimum", "dedup ratio", "FF", "FF+MT1"],
    );
    let mut gains = Vec::new();
    for min in [2048, 4096, 8192] {
        let sizes = ChunkSizes::new(min, 16384, 65536)?;
        let plan = plan(session, Algorithm::Rabin, sizes);
        let run = run(session, &dataset, &plan)?;
        gains.extend(run.speed_up(FF));
        let cells = [cell(&run, FF), cell(&run, MT)];
        table.row([min.to_string(), format!("{:.2}", run.ratio())].into_iter().chain(cells));
    }
    session.table(table);
    let claim = Claim {
        place: "Figure 10",
        claim: "a larger minimum takes little of the gain",
        reported: "small impact",
        measured_by: "speed-up of FF at 2/16/64 KiB and with a minimum of 4 and 8; small: at least \
                      0.6 of it is left",
    };
    let holds = gains.len() == 3 && gains[2] >= 0.6 * gains[0];
    let reason = "the regular algorithm skips the minimum too, and has less left to win";
    session.finding(claim.found(holds, format!("{}×", range(&gains)), reason));
    Ok(())
}

/// One chunk again and again, each time with another behind it: it is known each time, and what came
/// after it never comes again. A chunk depends on its own bytes, so chunks put together are cut as
/// they were.
fn never_right(len: usize) -> Result<Dataset> {
    let chunker = Chunker::new(&Params::new(Algorithm::Rabin, default_sizes()?))?;
    let random = Dataset::random(77, len / 2);
    let mut chunks = Vec::new();
    let mut start = 0;
    for end in chunker.cut_points(random.bytes()) {
        // a chunk of the maximum length may have been cut by it, and the last one by the end
        if end - start < chunker.sizes().max() && end < random.bytes().len() {
            chunks.push(&random.bytes()[start..end]);
        }
        start = end;
    }
    let mut bytes = Vec::with_capacity(len);
    if let Some((known, others)) = chunks.split_first() {
        for other in others {
            bytes.extend_from_slice(known);
            bytes.extend_from_slice(other);
        }
    }
    Ok(Dataset::of("hints never right", [bytes]))
}

pub(super) fn worst_case(session: &mut Session) -> Result<()> {
    let dataset = never_right((session.effort().bytes as usize).min(128 << 20))?;
    session.note(&dataset);
    let plan = plan(session, Algorithm::Rabin, default_sizes()?);
    let run = run(session, &dataset, &plan)?;
    let mut table = Table::new(
        "Figure 12",
        "a known chunk before ever new ones, Rabin",
        &["criterion", "chunking, of the regular one's speed", "hits", "hints refused", "chunks"],
    );
    let mut slow_downs = Vec::new();
    for criterion in &run.result.criteria {
        let gain = run.speed_up(&criterion.name).unwrap_or(f64::NAN);
        if criterion.name != FF {
            slow_downs.push(100.0 * (1.0 - gain));
        }
        table.row([
            criterion.name.clone(),
            format!("{gain:.3}"),
            criterion.hits.iter().sum::<u64>().to_string(),
            criterion.refused.to_string(),
            criterion.metrics.chunks.to_string(),
        ]);
    }
    session.table(table);
    let claim = Claim {
        place: "Figure 12",
        claim: "hints that are never accepted cost little",
        reported: "less than 10 % slower",
        measured_by: "every second chunk is known and its next one never the one before; chunking \
                      alone, Rabin, all criteria but FF",
    };
    let most = slow_downs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let slowest = run.result.criteria.iter().filter(|one| one.name != FF).min_by(|a, b| {
        let gain = |one: &CriterionResult| run.speed_up(&one.name).unwrap_or(f64::INFINITY);
        gain(a).total_cmp(&gain(b))
    });
    let reason = match slowest {
        Some(one) if one.fingerprinted_in_vain_per_byte > 0.0 => format!(
            "{} fingerprints each refused chunk, {:.2} bytes for each byte here",
            one.name, one.fingerprinted_in_vain_per_byte
        ),
        Some(one) => format!("{} is the slowest: every second chunk has hints here", one.name),
        None => String::new(),
    };
    session.finding(claim.found(most < 10.0, format!("{} % slower", range(&slow_downs)), &reason));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rapid::{RapidPlan, measure_rapid};
    use onefold_cdc::Criterion;

    #[test]
    fn hints_that_are_never_right_are_refused() {
        let dataset = never_right(2 << 20).unwrap();
        let plan = RapidPlan {
            params: Params::new(Algorithm::Rabin, default_sizes().unwrap()),
            criteria: vec![Criterion::FingerprintTest],
            next: 2,
            rounds: 1,
            end_to_end: false,
        };
        let result = measure_rapid(&dataset, &plan, |_| Ok(true)).unwrap();
        let criterion = &result.criteria[0];
        // every second chunk is the known one, and all but its first coming have hints
        let known = criterion.metrics.chunks / 2;
        assert_eq!(criterion.metrics.unique_chunks, known + 1);
        assert!(criterion.misses >= known - 5, "{criterion:?}");
        assert!(criterion.refused >= 2 * known - 10, "{criterion:?}");
        assert!(criterion.hits.iter().sum::<u64>() <= 3, "{criterion:?}");
    }
}
