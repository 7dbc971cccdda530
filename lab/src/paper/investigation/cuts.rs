//! What each algorithm makes of real data: table VIII, figures 7 to 11.

use std::collections::BTreeMap;

use anyhow::Result;
use onefold_bench::Metrics;
use onefold_cdc::{ChunkSizes, Chunker, Params};

use super::{NAMES, TARGETS, params};
use crate::paper::finding::Table;
use crate::paper::session::Session;

/// Our datasets, and those of the paper that they stand for.
pub(super) const DATASETS: [(&str, &str); 5] =
    [("kubernetes", CODE), ("typescript", CODE), ("web", "WEB"), ("pdf", "PDF"), ("vm", "LNX")];
pub(super) const CODE: &str = "CODE";

pub(super) const WINDOWS: [usize; 4] = [16, 32, 64, 128];

/// What an algorithm makes of a dataset at a target.
pub(super) struct Cut {
    pub(super) metrics: Metrics,
    /// Chunks shorter than half the target, as a share.
    pub(super) short: f64,
}

pub(super) struct Found {
    pub(super) dataset: &'static str,
    pub(super) theirs: &'static str,
    /// By name and target.
    pub(super) cuts: BTreeMap<(&'static str, usize), Cut>,
    /// Space savings of Rabin and Buzhash at 2 KiB by window.
    pub(super) windows: BTreeMap<(&'static str, usize), f64>,
}

impl Found {
    /// Mean chunks at a target, for a sentence.
    pub(super) fn means(&self, names: &[&'static str], target: usize) -> String {
        let means = names
            .iter()
            .map(|&name| self.cuts.get(&(name, target)).map_or(f64::NAN, |cut| cut.metrics.mean));
        let means: Vec<String> = means.map(|mean| format!("{mean:.0}")).collect();
        format!("means of {} bytes", means.join(", "))
    }

    pub(super) fn savings(&self, name: &'static str, target: usize) -> f64 {
        self.cuts.get(&(name, target)).map_or(f64::NAN, |cut| 100.0 * cut.metrics.space_savings())
    }
}

pub(super) fn datasets(session: &mut Session, found: &mut Vec<Found>) -> Result<()> {
    for (name, theirs) in DATASETS {
        session.part(&format!("Figures 7 to 11 on {name}"), |session| {
            cut_dataset(session, name, theirs, found)
        })?;
    }
    Ok(())
}

fn cut_dataset(
    session: &mut Session,
    name: &'static str,
    theirs: &'static str,
    found: &mut Vec<Found>,
) -> Result<()> {
    let Some(dataset) = session.load(name, session.effort().bytes / 2)? else { return Ok(()) };
    let data = dataset.bytes();
    let mut of_dataset =
        Found { dataset: name, theirs, cuts: BTreeMap::new(), windows: BTreeMap::new() };
    for algorithm in NAMES {
        session.step(&format!("{name} by {algorithm}"))?;
        for target in TARGETS {
            let cut = cut(&params(algorithm, target, data)?, target, data)?;
            of_dataset.cuts.insert((algorithm, target), cut);
        }
    }
    for algorithm in ["Rabin", "Buzhash"] {
        session.step(&format!("{name} by {algorithm} and window"))?;
        for window in WINDOWS {
            let sizes = ChunkSizes::unbounded(window, window - 1 + 2048)?;
            let params = Params { window, sizes, ..params(algorithm, 2048, data)? };
            let savings = 100.0 * cut(&params, 2048, data)?.metrics.space_savings();
            of_dataset.windows.insert((algorithm, window), savings);
        }
    }
    found.push(of_dataset);
    Ok(())
}

fn cut(params: &Params, target: usize, data: &[u8]) -> Result<Cut> {
    let chunker = Chunker::new(params)?;
    let mut ends: Vec<usize> = chunker.cut_points(data).collect();
    if ends.len() > 1 {
        ends.pop(); // the last chunk is left out
    }
    let whole = ends.last().copied().unwrap_or(0);
    let starts = [0].into_iter().chain(ends.iter().copied());
    let short = ends.iter().zip(starts).filter(|(end, start)| 2 * (*end - start) < target).count();
    let short = short as f64 / ends.len().max(1) as f64;
    Ok(Cut { metrics: Metrics::of(&data[..whole], ends), short })
}

pub(super) fn tables(session: &mut Session, found: &[Found]) {
    let targets: Vec<String> = TARGETS.iter().map(|target| format!("{target} B")).collect();
    let mut columns = vec!["algorithm"];
    columns.extend(targets.iter().map(String::as_str));
    for one in found {
        let title =
            |what: &str| format!("{what} on {} (for {}) by target", one.dataset, one.theirs);
        let mut sizes = Table::new(
            "Table VIII, appendix B, figure 8",
            &title("mean / deviation in bytes"),
            &columns,
        );
        let mut savings =
            Table::new("Figures 9 and 11", &title("space savings in percent"), &columns);
        let mut short = Table::new(
            "Figure 7",
            &title("chunks shorter than half the target, in percent,"),
            &columns,
        );
        for name in NAMES {
            let cells = |text: &dyn Fn(&Cut) -> String| -> Vec<String> {
                let cuts = TARGETS.iter().map(|&target| &one.cuts[&(name, target)]);
                [name.to_owned()].into_iter().chain(cuts.map(text)).collect()
            };
            sizes.row(cells(&|cut| {
                format!("{:.0} / {:.0}", cut.metrics.mean, cut.metrics.deviation)
            }));
            savings.row(cells(&|cut| format!("{:.2}", 100.0 * cut.metrics.space_savings())));
            short.row(cells(&|cut| format!("{:.1}", 100.0 * cut.short)));
        }
        session.table(sizes);
        session.table(savings);
        session.table(short);
    }
    let mut columns = vec!["algorithm, window"];
    columns.extend(found.iter().map(|one| one.dataset));
    let mut windows =
        Table::new("Figure 10", "space savings at 2 KiB by window, in percent", &columns);
    for key in found[0].windows.keys() {
        let cells = found.iter().map(|one| format!("{:.2}", one.windows[key]));
        windows.row([format!("{}, {}", key.0, key.1)].into_iter().chain(cells));
    }
    session.table(windows);
}
