//! Findings, tables and speeds as a page for a browser.

use anyhow::Result;
use onefold_bench::report::{self, Bar, Block, Cell, Column, Figure, Page, Section};
use onefold_bench::{Record, Summary};

use super::{Finding, Reproduction, Table};

/// More bars than this are left to the tables.
const MOST_BARS: usize = 80;

/// What a paper claims and what was found, with figures of the speeds.
pub fn page(record: &Record<Reproduction>) -> Result<Page> {
    let Record { header, results } = record;
    let machine = &header.machine;
    let [hold, differ, not_measured] = results.count();
    let mut lead = vec![
        format!("{hold} claims hold, {differ} differ, {not_measured} not measured."),
        format!("{}; {} cores; {}", machine.cpu_model, machine.cores, machine.kernel_version),
        format!("{}; commit {}; {}", header.date, header.commit.id, header.command_line),
    ];
    lead.extend(results.notes());
    if results.quick {
        lead.push("Measured on little data and in few rounds.".into());
    }
    if let Some(first) = results.noise.first() {
        let more = results.noise.len() - 1;
        lead.push(format!("The machine was noisy: {first}, and {more} more such reasons."));
    }
    let datasets = results.datasets.iter().map(|dataset| {
        format!(
            "{}: {} files, {} bytes, {}",
            dataset.name, dataset.files, dataset.bytes, dataset.digest
        )
    });
    let mut sections = vec![
        Section {
            heading: "Claims".into(),
            blocks: vec![Block::Table(claims(&results.findings))],
            ..Section::default()
        },
        Section {
            heading: "Why, and how".into(),
            is_part: true,
            text: results.findings.iter().map(explained).collect(),
            ..Section::default()
        },
        Section { heading: "Data".into(), text: datasets.collect(), ..Section::default() },
    ];
    let figures = speeds(results)?;
    if !figures.is_empty() {
        sections.push(Section {
            heading: "Speeds".into(),
            blocks: vec![Block::Figures(figures)],
            ..Section::default()
        });
    }
    sections.extend(results.tables.iter().map(|table| Section {
        heading: table.place.clone(),
        text: vec![table.title.clone()],
        blocks: vec![Block::Table(numbers(table))],
        ..Section::default()
    }));
    Ok(Page { title: results.paper.clone(), lead, sections })
}

/// What fits beside one another on a screen.
fn claims(findings: &[Finding]) -> report::Table {
    let heads = ["Claim", "", "Paper", "Here", "Where"];
    let rows = findings.iter().map(|one| {
        let texts = [one.claim.as_str(), one.verdict.name(), &one.reported, &one.found, &one.place];
        texts.into_iter().map(Cell::text).collect()
    });
    report::Table {
        columns: heads.into_iter().map(|head| Column::text(head, "")).collect(),
        rows: rows.collect(),
    }
}

/// The sentences that do not fit into a table.
fn explained(finding: &Finding) -> String {
    let mut text = format!("{} ({}): {}", finding.claim, finding.place, finding.verdict.name());
    for (what, sentence) in [("because", &finding.reason), ("measured by", &finding.measured_by)] {
        if !sentence.is_empty() {
            text.push_str(&format!("; {what}: {sentence}"));
        }
    }
    format!("{text}; by: {}", finding.command)
}

/// Sorted by the number that a cell begins with.
fn numbers(table: &Table) -> report::Table {
    let column = |(place, name): (usize, &String)| match place {
        0 => Column::text(name, ""),
        _ => Column::number(name, ""),
    };
    let cell = |text: &String| {
        let end = text.find(|c: char| !c.is_ascii_digit() && !".+-".contains(c));
        let number = text[..end.unwrap_or(text.len())].parse().ok();
        Cell { number, ..Cell::text(text) }
    };
    report::Table {
        columns: table.columns.iter().enumerate().map(column).collect(),
        rows: table.rows.iter().map(|row| row.iter().map(cell).collect()).collect(),
    }
}

/// A figure of bars for each dataset, the fastest first.
fn speeds(results: &Reproduction) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for dataset in &results.datasets {
        let of_it = results.measurements.iter().filter(|one| one.dataset == dataset.name);
        let mut all: Vec<Bar> = of_it
            // fixed chunks and cut-points known before read nothing
            .filter(|one| !one.name.starts_with("FSC") && !one.name.ends_with("no kernel"))
            .map(|one| {
                let seconds = Summary::of(one.samples.iter().map(|sample| sample.thread_seconds));
                let value = one.bytes as f64 / seconds.median / 1e9;
                let (label, kernel) = one.name.split_once(", ").unwrap_or((&one.name, ""));
                let note = format!("{value:.2} {kernel}");
                Bar { label: label.to_owned(), value, colour: None, note }
            })
            .collect();
        if all.is_empty() || all.len() > MOST_BARS {
            continue;
        }
        all.sort_by(|a, b| b.value.total_cmp(&a.value));
        let caption = format!("{}: cutting, from memory, in GB/s of one thread.", dataset.name);
        let svg = report::bars(&caption, "GB/s", &all, None)?;
        figures.push(Figure { caption, svg, ..Figure::default() });
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use onefold_bench::Header;

    use super::*;
    use crate::paper::session::tests::{TINY, folder};
    use crate::paper::{Paper, Session};

    #[test]
    fn a_page_has_the_claims_the_tables_and_the_bars() {
        let folder = folder(&["redis"]);
        let silent = |_: &str| {};
        let session = Session::new(folder.path(), TINY, &silent, &|| false);
        let results = Paper::VectorCdc.reproduce(session);
        let header = Header::here(Path::new("x.json"), "a command".into(), "in memory").unwrap();
        let html = page(&Record { header, results }).unwrap().html().unwrap();
        let command = "by: cargo lab paper vectorcdc --dir DIR";
        for text in [command, "VRAM-EBS", "Figure 5", "not measured", "<svg", "redis (for RDS)"] {
            assert!(html.contains(text), "{text}");
        }
    }
}
