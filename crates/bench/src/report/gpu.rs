//! The page about `onefold bench gpu`.

use super::page::{Block, Cell, Column, Page, Section, Table};
use crate::Record;
use crate::gpu::{Bound, Energy, Pages, Results, Step};

/// A page about one device.
pub fn of_gpu(record: &Record<Results>) -> Page {
    let Record { header, results } = record;
    let mut lead = vec![
        format!(
            "{} with {}, beside {} threads of {}. Every rate is the best of {} rounds on {} bytes of \
             random data in memory.",
            results.device,
            results.driver,
            results.threads,
            header.machine.cpu_model,
            results.rounds,
            results.bytes,
        ),
        format!(
            "All chunks and fingerprints of {} bytes of mixed data were those of the CPU.",
            results.equal_bytes
        ),
    ];
    if results.is_cpu {
        lead.push(
            "This device is the CPU in another form: the figures say nothing of a GPU.".into(),
        );
    }
    if let Some(reason) = &results.energy_missing {
        lead.push(format!("The energy was not measured: {reason}."));
    }
    if !results.is_complete {
        lead.push("The measurement was stopped before its end.".into());
    }
    let mut sections =
        vec![section("Rates", rates(results)), section("Copies", transfers(results))];
    for (figure, heading) in [
        (5, "Double buffering (figure 5 of Shredder)"),
        (9, "Segments at work (figure 9)"),
        (11, "Shared memory (figure 11)"),
        (12, "CPU and GPU (figure 12)"),
    ] {
        let steps: Vec<&Step> = results.steps.iter().filter(|step| step.figure == figure).collect();
        if !steps.is_empty() {
            sections.push(section(heading, table_of(&steps)));
        }
    }
    if let Some(pages) = &results.pages {
        sections.push(section("SHA3-256 of pages", table_of_pages(pages)));
    }
    if !results.energy.is_empty() {
        sections.push(section("Energy", energy(results)));
    }
    if !results.targets.is_empty() {
        sections.push(section("Targets", targets(results)));
    }
    Page { title: "What a GPU gains".into(), lead, sections }
}

fn section(heading: &str, table: Table) -> Section {
    let blocks = vec![Block::Table(table)];
    Section { heading: heading.into(), blocks, ..Section::default() }
}

fn gigabytes(rate: impl Into<Option<f64>>) -> Cell {
    let rate: Option<f64> = rate.into();
    Cell::number(rate.map(|rate| rate / 1e9), 2)
}

fn rates(results: &Results) -> Table {
    let columns = vec![
        Column::text("algorithm", "the rule"),
        Column::text("fingerprint", "the function, if chunks were fingerprinted"),
        Column::number("device GB/s", "from memory of the host, copies included"),
        Column::number("1 thread GB/s", "the CPU"),
        Column::number("all threads GB/s", "the CPU"),
        Column::number(
            "resident search GB/s",
            "data in the device's memory, until candidates are here",
        ),
        Column::number("resident cut GB/s", "the same until cut-points are"),
        Column::number("resident fingerprint GB/s", "the same of fingerprints"),
    ];
    let row = |rate: &crate::gpu::Rate| {
        vec![
            Cell::text(&rate.algorithm),
            Cell::text(rate.fingerprint.as_deref().unwrap_or_default()),
            gigabytes(rate.device_bytes_per_second),
            gigabytes(rate.cpu_bytes_per_second),
            gigabytes(rate.all_threads_bytes_per_second),
            gigabytes(rate.resident_search_bytes_per_second),
            gigabytes(rate.resident_cut_bytes_per_second),
            gigabytes(rate.resident_fingerprint_bytes_per_second),
        ]
    };
    Table { columns, rows: results.rates.iter().map(row).collect() }
}

fn transfers(results: &Results) -> Table {
    let columns = vec![
        Column::number("bytes", "of one copy"),
        Column::number("pinned GB/s", "from pinned memory to the device"),
        Column::number("pageable GB/s", "from ordinary memory"),
        Column::number("pinned ms", "to get the memory"),
        Column::number("pageable ms", "to get the memory"),
    ];
    let rows = results.transfers.iter().map(|transfer| {
        vec![
            Cell::number(transfer.bytes as f64, 0),
            gigabytes(transfer.pinned_bytes_per_second),
            gigabytes(transfer.pageable_bytes_per_second),
            Cell::number(1e3 * transfer.pinned_seconds, 3),
            Cell::number(1e3 * transfer.pageable_seconds, 3),
        ]
    });
    Table { columns, rows: rows.collect() }
}

fn table_of(steps: &[&Step]) -> Table {
    let columns = vec![
        Column::text("what", "what was measured"),
        Column::number("GB/s", "cut with Rabin, without fingerprints"),
        Column::number("times", "as fast as the first"),
        Column::number("paper", "the same in the paper, where it tells"),
    ];
    let row = |step: &&Step| {
        vec![
            Cell::text(&step.name),
            gigabytes(step.bytes_per_second),
            Cell::number(step.ratio, 2),
            Cell::number(step.paper, 2),
        ]
    };
    Table { columns, rows: steps.iter().map(row).collect() }
}

fn table_of_pages(pages: &Pages) -> Table {
    let columns = vec![
        Column::number("page", "bytes"),
        Column::number("GB/s", "pages in the device's memory, without copies"),
        Column::number("bound GB/s", "if only the rounds' instructions took time"),
        Column::number("instructions", "of a round"),
        Column::number("units", "multiprocessors"),
        Column::number("clock GHz", "the highest"),
    ];
    let of_bound =
        |part: fn(&Bound) -> f64, places| Cell::number(pages.bound.as_ref().map(part), places);
    let row = vec![
        Cell::number(pages.page_bytes as f64, 0),
        gigabytes(pages.bytes_per_second),
        of_bound(|bound| bound.bytes_per_second / 1e9, 2),
        of_bound(|bound| bound.instructions_per_round as f64, 0),
        of_bound(|bound| f64::from(bound.units), 0),
        of_bound(|bound| bound.clock_hz as f64 / 1e9, 2),
    ];
    Table { columns, rows: vec![row] }
}

fn energy(results: &Results) -> Table {
    let columns = vec![
        Column::text("algorithm", "the rule"),
        Column::text("fingerprint", "the function"),
        Column::number("J/GB", "what the device used, idle power included, for what it cut"),
        Column::number("W", "the mean"),
        Column::number("seconds", "how long it ran"),
    ];
    let row = |energy: &Energy| {
        vec![
            Cell::text(&energy.algorithm),
            Cell::text(&energy.fingerprint),
            Cell::number(energy.joules / (energy.bytes as f64 / 1e9), 2),
            Cell::number(energy.joules / energy.seconds, 1),
            Cell::number(energy.seconds, 2),
        ]
    };
    Table { columns, rows: results.energy.iter().map(row).collect() }
}

fn targets(results: &Results) -> Table {
    let columns = vec![
        Column::text("target", "what was aimed at"),
        Column::number("wanted", "at least"),
        Column::number("found", "what was measured"),
        Column::text("met", "whether it was reached"),
    ];
    let rows = results.targets.iter().map(|target| {
        vec![
            Cell::text(&target.what),
            Cell::number(target.wanted, 2),
            Cell::number(target.found, 2),
            Cell::text(if target.is_met() { "yes" } else { "no" }),
        ]
    });
    Table { columns, rows: rows.collect() }
}
