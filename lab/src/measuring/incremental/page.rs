//! The page of records of incremental jobs: figure 15 of Shredder, and versions of real data.

use std::collections::BTreeSet;

use anyhow::Result;
use onefold_bench::Record;
use onefold_bench::report::{
    Bar, Block, Cell, Column, Curve, Figure, Page, Scale, Section, Table, bars, curves,
};

use super::record::{Cut, Experiment, Plan, Results, Run, Turn};

/// Bytes of one scattered change.
const RUN: f64 = 65_536.0;

/// How splits are cut and changes lie, its name; the place is the colour.
const LINES: [(Cut, &str, &str); 4] = [
    (Cut::Content, "clustered", "by content, clustered"),
    (Cut::Content, "scattered", "by content, scattered"),
    (Cut::Fixed, "clustered", "fixed, clustered"),
    (Cut::Fixed, "scattered", "fixed, scattered"),
];

/// What is plotted over the changed share.
type Value = fn(&Results, &Run) -> Option<f64>;

const PLOTS: [(&str, &str, Value); 4] = [
    ("speed-up", "times", |results, run| results.speed_up(run)),
    ("splits computed", "%", |_, run| Some(100.0 * run.plan.as_ref()?.split_share())),
    ("bytes computed", "%", |_, run| Some(100.0 * run.plan.as_ref()?.byte_share())),
    ("time that is planning", "%", |_, run| planning(run)),
];

/// The page of records, one after the other.
pub(super) fn of(records: &[Record<Results>]) -> Result<Page> {
    let mut lead = vec![
        "The same jobs run plainly and with a memo of the results of splits, after their input changed. Each result was \
         compared with the plain job's."
            .to_owned(),
    ];
    let mut sections = vec![paper()];
    let mut told = BTreeSet::new();
    for record in records {
        let header = &record.header;
        let notes = header.notes.iter().filter(|note| told.insert(*note)).map(String::as_str);
        lead.push(format!(
            "{}: {}, {}, commit {}{}; {}, {} cores, {:.0} GiB. {}",
            header.name,
            header.command_line,
            header.date,
            header.commit.id,
            if header.commit.dirty { " with changes" } else { "" },
            header.machine.cpu_model,
            header.machine.cores,
            header.machine.memory_bytes as f64 / f64::from(1 << 30),
            notes.collect::<Vec<_>>().join(". "),
        ));
        for group in groups(&record.results.runs) {
            sections.push(match group[0].experiment {
                Experiment::Changes => changes(&record.results, &group)?,
                Experiment::Versions => versions(&record.results, &group)?,
            });
        }
        if !record.results.left_out.is_empty() {
            let count = record.results.left_out.len();
            lead.push(format!(
                "{}: {count} measurements were left out at the limit of time.",
                header.name
            ));
        }
    }
    Ok(Page { title: "Jobs that compute only what changed".into(), lead, sections })
}

/// What the paper says of its figure.
fn paper() -> Section {
    Section {
        heading: "Shredder, figure 15".into(),
        text: vec![
            "The paper shows speed-ups against Hadoop by the percentage of changes, for word count, k-means and a \
             co-occurrence matrix, on a cluster of 20 nodes. The values of its figure are not in the text that we have, so \
             none stand here. Its text says that all three \"show significant improvement in run-time for incremental \
             runs\", and that the effectiveness \"degrades as the percentage of changes in the data set increases\"."
                .into(),
            "Aims of this project: where changes are clustered, the share of splits computed is at most the changed share and \
             5 %; word count on Spark is 8 times as fast at 1 % and 4 times at 5 %. Scattered changes can be far apart: n of \
             them make up to about 2n splits new, which bounds what can be replayed."
                .into(),
        ],
        ..Section::default()
    }
}

/// Runs of one job on one kind of data, in the order in which the groups first appear.
fn groups(runs: &[Run]) -> Vec<Vec<&Run>> {
    let mut groups: Vec<Vec<&Run>> = Vec::new();
    let key = |run: &Run| (run.experiment, run.engine.clone(), run.job.clone(), run.data.clone());
    for run in runs {
        match groups.iter_mut().find(|group| key(group[0]) == key(run)) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    groups
}

fn changes(results: &Results, group: &[&Run]) -> Result<Section> {
    let mut figures = Vec::new();
    for (caption, unit, value) in PLOTS {
        let lines: Vec<Curve> = LINES
            .iter()
            .enumerate()
            .map(|(colour, (cut, spread, _))| {
                let is_it = |run: &&&Run| run.cut == *cut && run.spread.as_deref() == Some(spread);
                let points = group.iter().filter(is_it);
                let points = points
                    .filter_map(|run| Some((f64::from(run.change_percent?), value(results, run)?)));
                Curve { colour, points: points.collect() }
            })
            .collect();
        if lines.iter().all(|line| line.points.is_empty()) {
            continue;
        }
        let svg = curves(caption, "changed, %", unit, Scale::Linear, &lines)?;
        let names = LINES.iter().zip(0..).zip(&lines).filter(|(_, line)| !line.points.is_empty());
        let legend =
            names.map(|(((_, _, name), colour), _)| ((*name).to_owned(), colour)).collect();
        figures.push(Figure { caption: caption.into(), svg, legend });
    }
    let met = group.iter().filter_map(|run| aim(results, run));
    let (met, missed): (Vec<_>, Vec<_>) = met.partition(|(_, is_met)| *is_met);
    let list = |aims: Vec<(String, bool)>| {
        aims.into_iter().map(|(what, _)| what).collect::<Vec<_>>().join("; ")
    };
    let mut text = Vec::new();
    for (word, aims) in [("Met", met), ("Missed", missed)] {
        if !aims.is_empty() {
            text.push(format!("{word}: {}.", list(aims)));
        }
    }
    Ok(Section {
        heading: heading(group[0]),
        text,
        blocks: vec![Block::Figures(figures), Block::Table(table(results, group))],
        ..Section::default()
    })
}

fn versions(results: &Results, group: &[&Run]) -> Result<Section> {
    let mut figures = Vec::new();
    for (caption, unit, value) in &PLOTS[..3] {
        let all: Vec<Bar> = group
            .iter()
            .filter(|run| run.plan.as_ref().is_some_and(|plan| plan.turn == Turn::Again))
            .filter_map(|run| {
                let value = value(results, run)?;
                let (label, colour) = match run.cut {
                    Cut::Fixed => (String::new(), 2),
                    _ => (run.text.clone(), 0),
                };
                Some(Bar { label, value, colour: Some(colour), note: format!("{value:.1}") })
            })
            .collect();
        if all.is_empty() {
            continue;
        }
        let legend = vec![("by content".to_owned(), 0), ("fixed".to_owned(), 2)];
        figures.push(Figure {
            caption: (*caption).into(),
            svg: bars(caption, unit, &all, None)?,
            legend,
        });
    }
    Ok(Section {
        heading: heading(group[0]),
        text: vec!["Each version runs with the memo of all versions before it.".into()],
        blocks: vec![Block::Figures(figures), Block::Table(table(results, group))],
        ..Section::default()
    })
}

fn heading(run: &Run) -> String {
    let engine = if run.engine == "spark" { "Spark" } else { "MapReduce" };
    match &run.data {
        Some(data) => format!("{data}: {}, {engine}", run.job),
        None => format!("{}, {engine}", run.job),
    }
}

/// Share of the time in percent.
fn planning(run: &Run) -> Option<f64> {
    Some(100.0 * run.plan.as_ref()?.planning_seconds? / run.seconds)
}

/// The most splits that may be new, in percent, if changes are scattered: two for each run.
fn bound(run: &Run) -> Option<f64> {
    let plan = run.plan.as_ref()?;
    let changed = plan.bytes as f64 * f64::from(run.change_percent?) / 100.0;
    (run.spread.as_deref() == Some("scattered"))
        .then(|| (100.0 * 2.0 * (changed / RUN) / plan.splits.max(1) as f64).min(100.0))
}

/// An aim that this run was to meet, and whether it did.
fn aim(results: &Results, run: &Run) -> Option<(String, bool)> {
    let plan: &Plan = run.plan.as_ref()?;
    let percent = run.change_percent.filter(|percent| *percent > 0)?;
    if run.cut != Cut::Content || run.spread.as_deref() != Some("clustered") {
        return None;
    }
    let computed = 100.0 * plan.split_share();
    let most = f64::from(percent) + 5.0;
    let splits =
        format!("at {percent} % {computed:.1} % of splits computed, asked at most {most} %");
    let least = match (run.engine.as_str(), run.job.as_str(), percent) {
        ("spark", "word-count", 1) => 8.0,
        ("spark", "word-count", 5) => 4.0,
        _ => return Some((splits, computed <= most)),
    };
    let speed_up = results.speed_up(run)?;
    let what = format!("{splits}, and {speed_up:.1} times as fast, asked {least}");
    Some((what, computed <= most && speed_up >= least))
}

fn table(results: &Results, group: &[&Run]) -> Table {
    let columns = vec![
        Column::text("text", "the changed share in percent and how changes lie, or the version"),
        Column::text("splits", "plain: as the engine cuts, without a memo"),
        Column::text("memo", "first: empty when the run begins"),
        Column::number("s", "of the run"),
        Column::number("speed-up", "against the plain job"),
        Column::number("splits", "how many there are"),
        Column::number("computed %", "of splits"),
        Column::number("bound %", "the most splits that scattered changes should make new"),
        Column::number("bytes %", "of bytes computed"),
        Column::number("planning %", "of the time"),
        Column::number("keys", "in the result"),
    ];
    let row = |run: &&Run| {
        let plan = run.plan.as_ref();
        let turn = match plan.map(|plan| plan.turn) {
            None => "none",
            Some(Turn::First) => "first",
            Some(Turn::Again) => "again",
        };
        let cut = match run.cut {
            Cut::Plain => "plain",
            Cut::Content => "content",
            Cut::Fixed => "fixed",
        };
        vec![
            Cell::text(&run.text),
            Cell::text(cut),
            Cell::text(turn),
            Cell::number(run.seconds, 1),
            Cell::number(plan.and_then(|_| results.speed_up(run)), 2),
            Cell::number(plan.map(|plan| plan.splits as f64), 0),
            Cell::number(plan.map(|plan| 100.0 * plan.split_share()), 1),
            Cell::number(if run.cut == Cut::Content { bound(run) } else { None }, 1),
            Cell::number(plan.map(|plan| 100.0 * plan.byte_share()), 1),
            Cell::number(planning(run), 1),
            Cell::number(run.pairs as f64, 0),
        ]
    };
    Table { columns, rows: group.iter().map(row).collect() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use onefold_bench::Header;

    use super::super::record::tests::results;
    use super::*;

    fn page(results: Results) -> String {
        let header = Header::here(Path::new("x.json"), "a command".into(), "in memory").unwrap();
        of(&[Record { header, results }]).unwrap().html().unwrap()
    }

    #[test]
    fn a_page_has_the_paper_s_words_the_aims_and_a_plot_of_each_number() {
        let html = page(results());
        let aim =
            "at 1 % 3.0 % of splits computed, asked at most 6 %, and 8.0 times as fast, asked 8";
        for text in [
            "are not in the text",
            aim,
            "word-count, Spark",
            "d: word-count, MapReduce",
            "a command",
        ] {
            assert!(html.contains(text), "{text}: {html}");
        }
        // four curves of what changes by percentages, three bars of versions
        assert_eq!(html.matches("<svg ").count(), 7);
    }

    #[test]
    fn an_aim_that_is_missed_is_called_so() {
        let mut slow = results();
        slow.runs[1].seconds = 2.0;
        assert!(page(slow).contains("Missed: at 1 %"));
        let mut many = results();
        many.runs[1].plan.as_mut().unwrap().splits_computed = 7;
        assert!(page(many).contains("Missed: at 1 % 7.0 %"));
        assert!(!page(results()).contains("Missed"));
    }

    #[test]
    fn scattered_changes_are_bounded_by_two_splits_each() {
        let mut run = results().runs[1].clone();
        assert_eq!(bound(&run), None);
        run.spread = Some("scattered".into());
        run.plan.as_mut().unwrap().bytes = 65_536 * 100;
        assert_eq!(bound(&run), Some(2.0));
        run.change_percent = Some(90);
        assert_eq!(bound(&run), Some(100.0));
    }
}
